"""Functions that `wrap_numpy` made: what they wrap is called with arrays over the tensors.

The arrays keep what the tensors record, so that gradients pass. What breaks inside breaks at the
call: plain Python has no such arrays.
"""

from collections.abc import Callable

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.contents import dict_entries, list_items, new_dict, new_list
from dynajit.capture.python.tensors.arrays import is_array, is_odd, new_array, tensor_in
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.values.containers import DictValue, ListValue, TupleValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import STORED
from dynajit.eager.tensor import numpy_functions

Change = Callable[[Machine, Value], Value]


def _mapped(machine: Machine, change: Change, tree: Value) -> Value:
    """The same nest of containers with other leaves."""
    if isinstance(tree, TupleValue):
        items = tuple(_mapped(machine, change, item) for item in tree.items)
        return TupleValue(items, tree.cls)
    if isinstance(tree, ListValue) and tree.cls is list:
        return new_list(machine, [_mapped(machine, change, x) for x in list_items(machine, tree)])
    if isinstance(tree, DictValue) and tree.cls is dict:
        pairs = dict_entries(machine, tree).values()
        return new_dict(machine, [(key, _mapped(machine, change, item)) for key, item in pairs])
    return change(machine, tree)


def _as_array(machine: Machine, leaf: Value) -> Value:
    if not isinstance(leaf, TensorValue):
        return leaf
    kind = tensor_type(machine, leaf)
    if kind.device != CPU or kind.dtype in STORED:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"wrap_numpy with a tensor {kind.dtype.name}")
    return new_array(machine, machine.recorder.alias_of(leaf), np.ndarray)


def _as_tensor(machine: Machine, leaf: Value) -> Value:
    if not is_array(leaf):
        return leaf
    if is_odd(leaf):
        raise GraphBreak(breaks.UNKNOWN_CALL, "wrap_numpy with a result of negative strides")
    return machine.recorder.alias_of(tensor_in(machine, leaf))


@special(numpy_functions.on_arrays)
def _on_arrays(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    function, positional, named = args
    assert isinstance(positional, TupleValue) and isinstance(named, DictValue)
    given = [_mapped(machine, _as_array, value) for value in positional.items]
    pairs = dict_entries(machine, named).values()
    named_arrays = {as_python(machine, k): _mapped(machine, _as_array, v) for k, v in pairs}
    found = yield from machine.call(function, given, named_arrays)
    return _mapped(machine, _as_tensor, found)
