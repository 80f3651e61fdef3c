"""Callables with a meaning of their own: grad mode, `graph_break`, output, the operator module.

Autocast, too. Handlers of `capture.python.builtins.table`; see there.
"""

import operator
import os
import sys
import types
from typing import NoReturn

from dynajit.capture import _capture, breaks, control
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.arithmetic import BINARY, COMPARISONS, UNARY, binary, unary
from dynajit.capture.python.basic import as_python, at_once, is_none, type_of, unsupported
from dynajit.capture.python.builtins.table import SPECIAL, Handler, special
from dynajit.capture.python.calls import refuse_arguments
from dynajit.capture.python.containers import boolean, subscript, to_index
from dynajit.capture.python.errors import check_count, refuse
from dynajit.capture.python.exceptions import current, member
from dynajit.capture.python.objects.fields import allocate
from dynajit.capture.python.tensors.native_calls import are_classes_asked
from dynajit.capture.python.tensors.overriding import OF_TENSORS, wrapped_call
from dynajit.capture.python.tensors.tensors import (
    as_tensor,
    constructs_tensor,
    creates_tensor,
    view_as_complex,
)
from dynajit.capture.python.truth import truth
from dynajit.capture.tensors.memory import leaf_of
from dynajit.capture.values.class_layouts import is_modelled_tensor
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.functions import BoundMethod, FunctionValue
from dynajit.capture.values.objects import ExceptionValue, ObjectContents, ObjectValue
from dynajit.capture.values.storage import native_base
from dynajit.capture.values.symbolic import NONE, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core import instances
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.types import dtypes
from dynajit.eager import Tensor
from dynajit.eager._tensor import _set_grad_enabled, _set_inference_enabled
from dynajit.eager.modes import autocast_mode, grad_mode
from dynajit.eager.modes.defaults import get_default_dtype
from dynajit.eager.operations.subclasses import change_unasked, is_asked, is_class_asked
from dynajit.eager.tensor import creation
from dynajit.ops.functions.arrangement import arrangement
from dynajit.ops.functions.elements import complex as complex_functions


@special(_capture.release)
@at_once
def _release(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return NONE  # only the frame of a resume code asks for it, and that is not symbolic


# -- grad mode -----------------------------------------------------------------------------------


@special(_set_grad_enabled)
@at_once
def _grad_mode_set(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    before = machine.recorder.grad_enabled
    machine.recorder.set_grad_enabled(bool(as_python(machine, args[0])))
    machine.uses_grad_mode()
    return boolean(before)


@special(grad_mode.is_grad_enabled)
@at_once
def _is_grad_enabled(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    machine.uses_grad_mode()
    return boolean(machine.recorder.grad_enabled)


@special(_set_inference_enabled)
@at_once
def _inference_mode_set(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    before = machine.recorder.inference_enabled
    machine.recorder.set_inference_enabled(bool(as_python(machine, args[0])))
    machine.uses_inference_mode()
    return boolean(before)


@special(grad_mode.is_inference_mode_enabled)
@at_once
def _is_inference_mode_enabled(
    machine: Machine, args: list[Value], keywords: dict[str, Value]
) -> Value:
    machine.uses_inference_mode()
    return boolean(machine.recorder.inference_enabled)


# -- autocast ------------------------------------------------------------------------------------


@special(autocast_mode._set_autocast_word)
@at_once
def _set_autocast_word(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    before = machine.recorder.autocast_word
    machine.recorder.set_autocast_word(int(as_python(machine, args[0])))
    machine.uses_autocast()
    return constant(before)


@special(autocast_mode._autocast_word)
@at_once
def _autocast_word(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    machine.uses_autocast()
    return constant(machine.recorder.autocast_word)


# -- GPUs: what was found once is kept ---------------------------------------------------------


@special(gpu.is_available)
@at_once
def _is_available(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return boolean(gpu.is_available())


@special(gpu.device_count)
@at_once
def _device_count(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return constant(gpu.device_count())


# -- what the program says to the compiler ---------------------------------------------------------


@special(control.graph_break)
@at_once
def _graph_break(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> NoReturn:
    raise GraphBreak(breaks.REQUESTED, "graph_break()")


@special(control.is_compiling)
@at_once
def _is_compiling(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    machine.recorder.asks_compiling = True
    return boolean(True)


@special(instances.give_own_dict)
@at_once
def _give_own_dict(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if not isinstance(args[0], ObjectValue) or machine.recorder.existing(args[0]) is not None:
        raise unsupported("a dict of its own", *args)
    return NONE


@special(OF_TENSORS.__func__)
def _wrapped_call(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return (yield from wrapped_call(machine, args, keywords))


@special(Tensor._leaf_of)
@at_once
def _leaf(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    source, cls, requires_grad = args
    if not isinstance(source, TensorValue):
        raise unsupported("a leaf", *args)
    kind, needs = as_python(machine, cls), bool(as_python(machine, requires_grad))
    if not is_modelled_tensor(kind):
        raise unsupported(f"a leaf of class {kind.__qualname__}", source)
    early = machine.recorder.leaf_of(source, kind) if needs else None
    if early is not None:
        return early
    return machine.recorder.with_class(leaf_of(machine.recorder, source, needs), kind)


@special(Tensor._make_subclass)
@at_once
def _make_subclass(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    given = dict(zip(("cls", "data", "requires_grad"), args, strict=False)) | keywords
    cls = as_python(machine, given["cls"])
    source = given["data"]
    if not isinstance(source, TensorValue) or not is_modelled_tensor(cls):
        raise unsupported("Tensor._make_subclass", *args)
    needs = as_python(machine, given.get("requires_grad", constant(False)))
    return machine.recorder.with_class(leaf_of(machine.recorder, source, bool(needs)), cls)


@special(Tensor.__new__)
@at_once
def _new_tensor(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    cls = as_python(machine, args[0])
    if cls is not Tensor and not is_modelled_tensor(cls):
        raise unsupported("Tensor.__new__", *args)
    if len(args) == 2 and isinstance(args[1], TensorValue) and not keywords:
        made = leaf_of(machine.recorder, args[1], False)
    else:
        found = constructs_tensor(machine, args[1:], keywords)
        assert isinstance(found, TensorValue)
        made = found
    return made if cls is Tensor else machine.recorder.with_class(made, cls)


@special(is_asked)
@at_once
def _is_asked(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return boolean(is_class_asked(type_of(machine, args[0])))


@special(change_unasked)
@at_once
def _change_unasked(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if len(args) != 1 or keywords:
        raise GraphBreak(breaks.GLOBAL_STATE, "DisableTorchFunction")
    recorder = machine.recorder
    are_classes_asked(machine)  # guards whether they are at entry
    count = machine.heap[recorder.unasked_id] + as_python(machine, args[0])
    machine.heap.write(recorder.unasked_id, count)
    return boolean(False)  # what modes were before, which nobody reads who leaves them alone


@special(creation.tensor)
@at_once
def _tensor(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return creates_tensor(machine, creation.tensor, args, keywords)


@special(creation.as_tensor)
@at_once
def _as_tensor(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return as_tensor(machine, args, keywords)


@special(arrangement.as_strided)
def _as_strided(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    if not args or not isinstance(args[0], TensorValue):
        raise unsupported("as_strided", *args)
    return (yield from machine.call_method(args[0], "as_strided", args[1:], keywords))


@special(complex_functions.view_as_complex)
@at_once
def _view_as_complex(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return view_as_complex(machine, args, keywords)


# -- exceptions ----------------------------------------------------------------------------------


@special(sys.exc_info)
@at_once
def _exc_info(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    found = current(machine)
    if not isinstance(found, ExceptionValue):
        return TupleValue((NONE, NONE, NONE))
    return TupleValue((Known(found.cls), found, member(machine, found, "__traceback__")))


@at_once
def _exception(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return current(machine)


if hasattr(sys, "exception"):
    SPECIAL[sys.exception] = _exception


@special(sys.exit)
def _exit(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    made = yield from machine.call(Known(SystemExit), args, keywords)
    assert isinstance(made, ExceptionValue)
    raise Raised(made)


# -- effects -------------------------------------------------------------------------------------


@special(input, open)
@at_once
def _output(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> NoReturn:
    raise GraphBreak(breaks.OUTPUT, "input() or file access")


@special(globals, locals, eval, exec, compile, breakpoint, __import__)
@at_once
def _state(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> NoReturn:
    raise GraphBreak(breaks.GLOBAL_STATE, "globals(), locals(), eval() and the like")


# -- operator module -----------------------------------------------------------------------------


def _binary_operator(symbol: str) -> Handler:
    def apply(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        return (yield from binary(machine, symbol, args[0], args[1]))

    return apply


def _comparison_operator(symbol: str) -> Handler:
    def apply(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        return (yield from machine.compare(symbol, args[0], args[1]))

    return apply


def _unary_operator(symbol: str) -> Handler:
    def apply(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        return (yield from unary(machine, symbol, args[0]))

    return apply


for _symbol, (_function, _) in BINARY.items():
    SPECIAL[_function] = _binary_operator(_symbol)
for _symbol, (_function, _, _) in COMPARISONS.items():
    SPECIAL[_function] = _comparison_operator(_symbol)
for _symbol, (_of_one, _) in UNARY.items():
    SPECIAL[_of_one] = _unary_operator(_symbol)


@special(operator.getitem)
def _getitem(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return (yield from subscript(machine, args[0], args[1]))


@special(operator.index)
def _index(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, operator.index, args, keywords, 1, 1)
    if isinstance(args[0], Scalar) and type_of(machine, args[0]) is int:
        return args[0]
    found = yield from to_index(machine, args[0], operator.index, args)
    return constant(operator.index(found))


@special(operator.not_)
def _not(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    return boolean(not (yield from truth(machine, args[0])))


@special(get_default_dtype)
@at_once
def _default_dtype(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    return Known(dtypes.default_floating())  # all compiled versions are forgotten if it changes


@special(os.fspath)
@at_once
def _fspath(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if len(args) == 1 and not keywords and type_of(machine, args[0]) in (str, bytes):
        return args[0]
    raise unsupported("os.fspath", *args)


@special(types.MethodType)
@at_once
def _method(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if len(args) != 2 or keywords or is_none(machine, args[1]):
        refuse(machine, "method", types.MethodType, args, keywords)
    function, receiver = args
    if not isinstance(function, (Known, FunctionValue, BoundMethod)):
        raise unsupported("types.MethodType", *args)
    return BoundMethod(function, receiver, is_method_object=True)


@special(object)
@at_once
def _object(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if args or keywords:
        refuse(machine, "object", object, args, keywords)
    return ObjectValue(machine.heap.allocate(ObjectContents()), object)


@special(object.__new__)
@at_once
def _object_new(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    is_class = args and isinstance(args[0], Known) and isinstance(args[0].object, type)
    if not is_class:
        refuse(machine, "__new__", object.__new__, args, keywords)
    cls = as_python(machine, args[0])
    if native_base(cls) is not None:
        raise unsupported("object.__new__", *args)
    refuse_arguments(machine, "__new__", cls, args[1:], keywords)
    return allocate(machine, cls)
