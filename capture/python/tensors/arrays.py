"""Arrays and numbers of NumPy's as values: instances of forms that hold a tensor."""

from collections.abc import Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import arrays as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.facts import needs_gradient, tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Constant, Known, Value, constant
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.types import symint
from dynajit.core.types.dtypes import UNSIGNED, Category
from dynajit.core.types.value_types import Shape, contiguous_strides
from dynajit.ops.calls.arguments import cast
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.result_layouts import is_row_major

_DISPATCHER: Final[type] = type(np.flip)

_FORMS: Final = frozenset({*forms.FORMS.values(), forms.ODD_FORM})


def is_array(value: Value) -> bool:
    """True for an array or a number of NumPy's."""
    return isinstance(value, ObjectValue) and any(value.cls is form for form in _FORMS)


def memory_in(machine: Machine, value: Any) -> TensorValue:
    """The tensor that an array or a number lies in."""
    machine.recorder.use(value)
    contents: ObjectContents = machine.heap[value.identity]
    found = contents.written["tensor"]
    assert isinstance(found, TensorValue)
    return found


def tensor_in(machine: Machine, value: Any) -> TensorValue:
    """The tensor of an array or a number; of one with flipped dims a copy of what it holds now.

    Raises:
        GraphBreak: its elements are of a dtype that nests alone compute with.
    """
    found = memory_in(machine, value)
    dtype = tensor_type(machine, found).dtype
    if dtype in UNSIGNED:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"NumPy with an array of {dtype.name}")
    return flip(machine, found, flipped_dims(machine, value))


def flip(machine: Machine, tensor: TensorValue, dims: tuple[int, ...]) -> TensorValue:
    """The elements from the end to the start along dims, copied in the order that they lie in."""
    if not dims:
        return tensor
    made = native_call(machine, TABLE.flip, [tensor], {"dims": Known(dims)})
    assert isinstance(made, TensorValue)
    order = order_of(machine, tensor)
    if order is None:
        raise GraphBreak(breaks.UNKNOWN_CALL, "a slice with a negative step, of an order not known")
    return laid_out(machine, made, order)


def laid_out(machine: Machine, tensor: TensorValue, order: tuple[int, ...]) -> TensorValue:
    """A result with its dims in an order in memory, from the outermost on."""
    if order == tuple(range(len(order))) and _is_in_rows(machine, tensor):
        return tensor
    made = native_call(machine, TABLE.laid_out, [tensor], {"order": Known(order)})
    assert isinstance(made, TensorValue)
    return made


def _is_in_rows(machine: Machine, tensor: TensorValue) -> bool:
    shape, strides = tensor_type(machine, tensor).shape, strides_of_tensor(machine, tensor)
    return strides is not None and is_row_major(tuple(shape), tuple(strides))


def order_of(machine: Machine, tensor: TensorValue) -> tuple[int, ...] | None:
    """The dims of a tensor from the outermost in memory on; None: it is not known.

    A dim of one place, or of one place in memory, stays where it is among the others.
    """
    rank = tensor_type(machine, tensor).rank
    if rank < 2 or _is_in_rows(machine, tensor):
        return tuple(range(rank))
    shape, strides = tensor_type(machine, tensor).shape, strides_of_tensor(machine, tensor)
    wide = None if strides is None else by_strides(shape, strides)
    if wide is None:
        return None
    ordered = iter(wide)
    return tuple(next(ordered) if dim in wide else dim for dim in range(rank))


def by_strides(shape: Shape, strides: Shape) -> tuple[int, ...] | None:
    """The dims with more than one place in memory, from the outermost on; of symbolic sizes, in
    this call. None: it is not known."""
    found: list[int] = []
    for dim, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        truths = [symint.decided_comparison("==", size, 1)]
        truths.append(symint.decided_comparison("==", stride, 0))
        place = 0
        for other in found:
            is_within = symint.decided_comparison("<=", stride, strides[other])
            truths.append(is_within)
            place += bool(is_within)
        if None in truths:
            return None
        if not any(truths[:2]):
            found.insert(place, dim)
    return tuple(found)


def flipped_dims(machine: Machine, value: Any) -> tuple[int, ...]:
    """The dims of an array that go from the end of its memory to the start."""
    if value.cls is not forms.ODD_FORM:
        return ()
    found: TupleValue = machine.heap[value.identity].written["flipped"]
    return tuple(dim.value for dim in found.items if isinstance(dim, Constant))


def is_writeable(machine: Machine, value: Any) -> bool:
    """False for a view that NumPy does not let be written to."""
    if value.cls is not forms.ODD_FORM:
        return True
    return bool(machine.heap[value.identity].written["is_writeable"].value)


def is_odd(value: Value) -> bool:
    """True for an array that no tensor can be."""
    return isinstance(value, ObjectValue) and value.cls is forms.ODD_FORM


def new_view(
    machine: Machine, tensor: TensorValue, flipped: tuple[int, ...], can_be_written: bool = True
) -> ObjectValue:
    """An array over a tensor with flipped dims, or one that may only be read."""
    if not flipped and can_be_written:
        return new_array(machine, tensor, np.ndarray)
    dims = TupleValue(tuple(map(constant, flipped)))
    written = {"tensor": tensor, "flipped": dims, "is_writeable": constant(can_be_written)}
    contents = ObjectContents(None, written)
    return ObjectValue(machine.heap.allocate(contents), forms.ODD_FORM)


def new_array(machine: Machine, tensor: TensorValue, cls: Any) -> ObjectValue:
    """An array, or a number of a class of NumPy's, over a tensor."""
    contents = ObjectContents(None, {"tensor": tensor})
    return ObjectValue(machine.heap.allocate(contents), forms.FORMS[cls])


def elements_of(machine: Machine, value: Value) -> TensorValue | None:
    """A tensor, or that of an array which is nothing else; None for all other values."""
    if isinstance(value, TensorValue):
        return value
    if not is_array(value):
        return None
    assert isinstance(value, ObjectValue)
    is_plain = machine.heap[value.identity].written.keys() == {"tensor"}
    is_own = tensor_type(machine, memory_in(machine, value)).dtype not in UNSIGNED
    return tensor_in(machine, value) if is_plain and is_own else None


def made_like(machine: Machine, value: Value, tensor: TensorValue) -> Value:
    """A tensor as it is, or an array over it, of the class that a value has."""
    if isinstance(value, TensorValue):
        return tensor
    assert isinstance(value, ObjectValue)
    contents = ObjectContents(None, {"tensor": tensor})
    return ObjectValue(machine.heap.allocate(contents), value.cls)


def selected_number(machine: Machine, truth: Value, a: Value, b: Value) -> Value | None:
    """One of two numbers of NumPy's of one class: `a` where a bool of NumPy's is true, else `b`.

    None: they are something else, or of two classes.
    """
    numbers = [value for value in (truth, a, b) if is_array(value) and not is_odd(value)]
    if len(numbers) < 3 or type(a) is not type(b):
        return None
    assert isinstance(a, ObjectValue) and isinstance(b, ObjectValue)
    if a.cls is not b.cls or a.cls is forms.FORMS[np.ndarray]:
        return None
    tensors = [memory_in(machine, value) for value in numbers]
    if tensor_type(machine, tensors[0]).rank or needs_gradient(machine, tensors[1]):
        return None
    if tensor_type(machine, tensors[1]).dtype in UNSIGNED:
        return None
    made = native_call(machine, TABLE.where, list(tensors), {})
    assert isinstance(made, TensorValue)
    return made_like(machine, a, made)


def strides_of_tensor(machine: Machine, value: TensorValue) -> Any:
    """Strides in elements that eager execution would give; None if not known."""
    contents: TensorContents = machine.heap[value.identity]
    if contents.value is None:
        known = tensor_type(machine, value)
        return known.strides or contiguous_strides(known.shape)
    return tensor_memory.strides_of(machine.recorder, value)


def array_of(machine: Machine, tensor: TensorValue) -> Value:
    """`tensor.numpy()`: an array over the same memory."""
    if needs_gradient(machine, tensor):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "Tensor.numpy() with a gradient")
    return new_array(machine, machine.recorder.alias_of(tensor), np.ndarray)


def written_in_python(target: Any, arguments: Sequence[Value]) -> FunctionType | None:
    """NumPy's own Python code of one of its functions; None: it has none, or would ask arguments.

    Arguments that override functions (`__array_function__`) are asked first: only arrays, numbers
    and containers of Python's are known to be silent.
    """
    if type(target) is not _DISPATCHER or not all(map(_is_silent, arguments)):
        return None
    written = getattr(target, "_implementation", None)
    return written if isinstance(written, FunctionType) else None


def _is_silent(value: Value) -> bool:
    if isinstance(value, TupleValue):
        return all(map(_is_silent, value.items))
    is_known = is_array(value) or is_absent(value)
    return is_known or not isinstance(value, (ObjectValue, TensorValue))


def is_absent(value: Value) -> bool:
    """True for the only object of its class, by which NumPy's Python code says "not given"."""
    return isinstance(value, ObjectValue) and value.cls is type(np._NoValue)


#: Operators of which a number beside a tensor is one of the tensor's dtype.
_IN_DTYPE: Final = frozenset({"add", "sub", "mul", "truediv", "==", "!=", "<", "<=", ">", ">="})


def beside_tensors(machine: Machine, name: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Operands of an operator: of a tensor and an array, the array as the tensor that it is taken
    for; a number of NumPy's as one of the tensor's dtype.

    Args:
        name: of the operator, as in `__add__`, or the symbol of a comparison.
    """
    if isinstance(a, TensorValue) and is_array(b):
        return a, _beside(machine, name, a, b)
    if isinstance(b, TensorValue) and is_array(a):
        return _beside(machine, name, b, a), b
    return a, b


def refuse_complex(symbol: str, a: Value, b: Value) -> None:
    """A complex number of Python's takes a double of NumPy's, which derives from float, for that:
    the result is Python's.

    Raises:
        GraphBreak: it is such a result, which no graph has.
    """
    is_double = isinstance(b, ObjectValue) and b.cls is forms.FORMS[np.float64]
    if is_double and isinstance(a, (Constant, Known)) and a.python_type is complex:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, f"complex {symbol} numpy.float64")


def _beside(machine: Machine, name: str, tensor: TensorValue, array: Value) -> Value:
    """
    Raises:
        GraphBreak: what the number would be is not known.
    """
    assert isinstance(array, ObjectValue)
    own = tensor_in(machine, array)
    target, given = tensor_type(machine, tensor).dtype, tensor_type(machine, own).dtype
    if array.cls in (forms.FORMS[np.ndarray], forms.ODD_FORM):
        is_quotient = name == "truediv" and not target.is_floating_point
        if name == "pow" or (is_quotient and not tensor_type(machine, own).rank):
            raise GraphBreak(breaks.UNKNOWN_CALL, f"ndarray {name} a tensor")
        return machine.recorder.alias_of(own)
    is_number = given.category in (Category.INTEGER, Category.FLOATING)
    is_float = target.name in ("float32", "float64") and is_number
    is_whole = (
        target.category is given.category is Category.INTEGER
        and given.itemsize <= target.itemsize
        and name != "truediv"
    )
    if name not in _IN_DTYPE or not (is_float or is_whole):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{given.name} {name} a tensor")
    return native_call(machine, cast, [own, Known(target)], {})


def as_tensor_key(machine: Machine, key: Value) -> Value:
    """A key of a tensor with tensors for the arrays in it; numbers of NumPy's stay."""
    if isinstance(key, TupleValue) and key.cls is tuple:
        return TupleValue(tuple(as_tensor_key(machine, item) for item in key.items))
    is_one = isinstance(key, ObjectValue) and key.cls in (forms.FORMS[np.ndarray], forms.ODD_FORM)
    if is_one and tensor_type(machine, memory_in(machine, key)).rank:
        return machine.recorder.alias_of(tensor_in(machine, key))
    return key
