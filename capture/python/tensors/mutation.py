"""Tensors: in-place methods and operators, item assignment.

Functions of the machine (`capture.machine.machine`). A write
computes the out-of-place form with graph values, brings it to the tensor's shape and dtype as eager
execution would, and hands it to `capture.tensors.memory`. What eager execution refuses is a break:
the real call raises the error.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.guards import GRAD_MODE_SOURCE
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import NotKnown, raise_python
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.conversion import SPECIALISED, to_native
from dynajit.capture.python.tensors.arrays import as_tensor_key
from dynajit.capture.python.tensors.counts import as_stored, place_in_turn
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.python.tensors.windows import with_windows
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import ListValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.arrays import any_arrays
from dynajit.core.errors import AutogradError, DTypeError, ShapeError
from dynajit.core.types.dtypes import Category, uint8
from dynajit.core.types.symint import SymInt
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.eager._tensor import _set_grad_enabled, are_writes_checked
from dynajit.eager.operations.writes.methods import NAMES
from dynajit.eager.operations.writes.refusals import MSG_PARTS, check_writable, require_own_dtype
from dynajit.ir import graph
from dynajit.ops import TABLE
from dynajit.ops.calls.arguments import fitting
from dynajit.ops.calls.autocast import disabled
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.functions.creation.random_fills import FILLS
from dynajit.ops.rows.random import blocks_of
from dynajit.ops.table import dispatch

# -- methods and operators -----------------------------------------------------------------------


def in_place_method(
    machine: Machine,
    receiver: TensorValue,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """`receiver.name(*args, **keywords)` for a name that ends in an underscore."""
    plain = name.removesuffix("_")
    special = _SPECIAL.get(plain)
    if special is not None:
        return tensor_in_place(machine, receiver, special, args, keywords, is_copy=True)
    if plain == "fill_diagonal" and len(args) == 1 and not keywords:
        diagonal = native_call(machine, _diagonal, [receiver], {})
        assert isinstance(diagonal, TensorValue)
        tensor_in_place(machine, diagonal, _fill, args, {}, is_copy=True)
        return receiver
    if plain not in NAMES or not hasattr(graph.Value, plain):
        raise GraphBreak(breaks.TENSOR_METHOD, f"Tensor.{name}()")

    def pure(tensor: Any, *rest: Any, **named: Any) -> Any:
        require_own_dtype(plain, tensor.dtype)
        with disabled():  # autocast is about the out-of-place forms
            return getattr(tensor, plain)(*rest, **named)

    pure.__qualname__ = f"Tensor.{name}"
    return tensor_in_place(machine, receiver, pure, args, keywords)


def tensor_in_place(
    machine: Machine,
    receiver: TensorValue,
    function: Callable[..., Any],
    args: list[Value],
    keywords: dict[str, Value],
    is_copy: bool = False,
) -> Value:
    """Replace what a tensor holds by `function(tensor, ...)`; returns the tensor.

    Args:
        is_copy: the result is broadcast and cast to the tensor's type, as for `copy_`.

    Raises:
        GraphBreak: eager execution refuses it, or the write cannot be followed.
    """
    _check_writable(machine, receiver)
    _refuse_partial_overlap(machine, receiver, [*args, *keywords.values()])

    def update(tensor: Any, *rest: Any, **named: Any) -> Any:
        result = function(tensor, *rest, **named)
        kind: TensorType = tensor.node.type
        return _as_copy(kind, result) if is_copy else _as_update(kind, result)

    update.__qualname__ = getattr(function, "__qualname__", "in place")
    part = native_result(machine, update, [receiver, *args], keywords)
    _write(machine, receiver, part, update.__qualname__, is_copy)
    return receiver


def _write(
    machine: Machine, receiver: TensorValue, part: graph.Value, name: str, hides: bool
) -> None:
    """`capture.tensors.memory.write`; what eager execution refuses for certain raises here, too:
    what the rest of a broken graph would be given of several views does not say that it is one of
    them."""
    try:
        tensor_memory.write(machine.recorder, receiver, part, hides)
    except tensor_memory.PartWritten:
        raise_python(machine, AutogradError, MSG_PARTS.format(name=name.removeprefix("Tensor.")))


def _refuse_partial_overlap(machine: Machine, receiver: TensorValue, operands: list[Value]) -> None:
    for operand in operands:
        if isinstance(operand, TensorValue):
            tensor_memory.refuse_partial_overlap(machine.recorder, receiver, operand)


def native_result(
    machine: Machine, function: Callable[..., Any], args: list[Value], keywords: dict[str, Value]
) -> graph.Value:
    """The graph value that a function returns for a tensor that it is written to.

    It becomes no tensor. Of `args[0]`, the tensor, the eager tape copies what it saves.
    """
    found: list[graph.Value] = []
    written = args[0]
    assert isinstance(written, TensorValue)
    old = machine.recorder.graph_value(written).node
    mark = machine.recorder.builder.snapshot()

    def keep(*operands: Any, **named: Any) -> None:
        found.append(function(*operands, **named))

    keep.__qualname__ = getattr(function, "__qualname__", "in place")
    native_call(machine, keep, args, keywords, lift_numbers=True)
    for node in machine.recorder.builder.nodes_since(mark):
        machine.recorder.writes.private[node] = old
    return found[-1]


def _as_update(kind: TensorType, result: Any) -> graph.Value:
    """The result of an operation in the type of the tensor that it is written to."""
    if not isinstance(result, graph.Value) or not isinstance(result.node.type, TensorType):
        raise ShapeError("an in-place operation without a tensor as its result")
    if result.node.type.shape != kind.shape:
        raise ShapeError(f"output with shape {kind} doesn't match the broadcast shape")
    if result.dtype is not kind.dtype:
        if result.dtype.category > kind.dtype.category:
            raise DTypeError(f"{result.dtype.name} into {kind.dtype.name}")
        cast: graph.Value = TABLE.cast(result, dtype=kind.dtype)
        return cast
    return result


def _as_copy(kind: TensorType, source: Any) -> graph.Value:
    """A tensor or number, broadcast and cast to a type."""
    if isinstance(source, graph.Value) and isinstance(source.node.type, TensorType):
        if source.dtype is not kind.dtype:
            source = TABLE.cast(source, dtype=kind.dtype)
        return _broadcast(source, kind)
    if isinstance(source, graph.Value):
        assert isinstance(source.node.type, ScalarType)
        if source.node.type.category > kind.dtype.category or not kind.dtype.is_floating_point:
            raise DTypeError("whether the number fits is only known when it is known")
    elif isinstance(source, (bool, int, float)):
        source = fitting(source, kind.dtype, "copy_")
    else:
        raise DTypeError(f"{type(source).__name__} is no number or tensor")
    filled: graph.Value = TABLE.full(source, shape=kind.shape, dtype=kind.dtype, device=kind.device)
    return filled


def _broadcast(source: graph.Value, kind: TensorType) -> graph.Value:
    shape = tuple(source.shape)
    extra = len(shape) - kind.rank
    if extra > 0 and all(isinstance(size, int) and size == 1 for size in shape[:extra]):
        source = TABLE.reshape(source, shape=shape[extra:])
    if tuple(source.shape) != kind.shape:
        source = TABLE.expand(source, shape=kind.shape)
    return source


def _check_writable(machine: Machine, receiver: TensorValue) -> None:
    """Refuse what eager execution refuses because of the tensor at entry.

    Raises:
        GraphBreak: it refuses.
    """
    memory = tensor_memory.memory_of(machine.recorder, receiver)
    contents: MemoryContents = machine.heap[memory]
    if machine.recorder.grad_enabled and _is_of_new_leaf(machine, receiver, memory):
        raise GraphBreak(breaks.TENSOR_FAILURE, "a write to a leaf that requires a gradient")
    existing = machine.recorder.existing(contents.base)
    if existing is None:
        return
    is_limited = are_writes_checked()
    machine.recorder.guard(GRAD_MODE_SOURCE, Kind.WRITES_CHECKED, is_limited, "a write")
    if is_limited:
        raise GraphBreak(breaks.TENSOR_FAILURE, "within vmap, writes are checked one by one")
    before = _set_grad_enabled(machine.recorder.grad_enabled)
    try:
        # Once written with a history, the tensor is no leaf any more.
        if not contents.has_history and not _is_detached(machine, receiver):
            check_writable(existing, "write")
    except Exception as error:
        raise GraphBreak(breaks.TENSOR_FAILURE, str(error)) from None
    finally:
        _set_grad_enabled(before)
    if not any_arrays.is_writable(existing.array):
        raise GraphBreak(breaks.TENSOR_FAILURE, "its memory is read-only")


def _is_of_new_leaf(machine: Machine, receiver: TensorValue, memory: int) -> bool:
    """True for a leaf that the captured code made, and for its views that have its history."""
    steps = machine.heap[receiver.identity].steps
    for identity in machine.recorder.builder.leaves.values():
        leaf = machine.heap[identity] if machine.heap.has(identity) else None
        if leaf is None or leaf.memory != memory or not leaf.is_new_leaf:
            continue
        count = len(leaf.steps)
        rest = steps[count:]
        if steps[:count] == leaf.steps and all(step.op is not TABLE.detach for step in rest):
            return True
    return False


def _is_detached(machine: Machine, receiver: TensorValue) -> bool:
    contents: TensorContents = machine.heap[receiver.identity]
    return any(step.op is TABLE.detach for step in contents.steps)


# -- what has no out-of-place method -------------------------------------------------------------


def _fill_function(name: str) -> Callable[..., Any]:
    """A random fill that draws from the default generator."""

    def fill(tensor: Any, *numbers: Any, generator: Any = None, **named: Any) -> Any:
        if generator is not None:
            raise DTypeError("a generator whose position would become a constant")
        kind: TensorType = tensor.node.type

        def draw(row_name: str, dtype: Any) -> Any:
            row, shape, device = TABLE[row_name], kind.shape, kind.device
            blocks = blocks_of(row, shape, dtype)
            seed, offset, shift = dispatch.reserve_random(blocks, device)
            return row(seed, offset, shape=shape, dtype=dtype, device=device, shift=shift)

        return FILLS[name](draw, kind.dtype, *numbers, **named)

    fill.__qualname__ = f"Tensor.{name}_"
    return fill


def _diagonal(tensor: Any) -> Any:
    if len(tensor.shape) != 2:
        raise ShapeError("fill_diagonal_ of what is no matrix")
    return TABLE.diagonal(tensor, offset=0, dim1=0, dim2=1)


def _fill(tensor: Any, value: Any) -> Any:
    if isinstance(value, graph.Value) and value.shape:
        raise ShapeError("fill_ with a tensor of more than 0 dimensions")
    return value


_SPECIAL: Final[dict[str, Callable[..., Any]]] = {
    "zero": lambda tensor: 0,
    "fill": _fill,
    "copy": lambda tensor, src, non_blocking=False: src,
    **{name: _fill_function(name) for name in FILLS},
}


# -- item assignment ------------------------------------------------------------------------------


def tensor_store(machine: Machine, receiver: TensorValue, index: Value, item: Value) -> None:
    """`receiver[index] = item`."""
    item = as_stored(machine, item, tensor_type(machine, receiver).dtype)
    try:
        refuse_older_key(machine, index)
        seen, rest = with_windows(machine, receiver, index)
        if rest is None:
            _copy_into(machine, seen, item)
            return
        index = as_tensor_key(machine, place_in_turn(machine, seen, rest))
        key = to_native(machine, index, SPECIALISED)
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"item assignment at {error}") from None
    entries = key if isinstance(key, tuple) else (key,)
    if all(_is_basic(entry) for entry in entries):
        part = native_call(machine, operator.getitem, [seen, index], {})
        assert isinstance(part, TensorValue)
        _copy_into(machine, part, item)
        return
    _check_writable(machine, seen)
    _refuse_partial_overlap(machine, seen, [item])
    result = native_result(machine, subscript.set_item, [seen, index, item], {})
    _write(machine, seen, result, "tensor[...] = value", False)


def _copy_into(machine: Machine, part: TensorValue, item: Value) -> None:
    """Write to all elements of a view."""
    tensor_in_place(machine, part, lambda tensor, source: source, [item], {}, is_copy=True)


def store_whole(machine: Machine, receiver: TensorValue, part: graph.Value) -> None:
    """`receiver[...] = part`, of its shape and dtype, which no tensor holds."""
    _check_writable(machine, receiver)
    _write(machine, receiver, part, "tensor[...] = value", False)


def refuse_older_key(machine: Machine, index: Value) -> None:
    """Every use of a list that stands for a tuple warns: the real call does.

    Raises:
        GraphBreak: `index` is one.
    """
    if not isinstance(index, ListValue):
        return
    try:
        key = to_native(machine, index, SPECIALISED)
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"an index of {error}") from None
    if subscript.stands_for_tuple(key):
        raise GraphBreak(breaks.TENSOR_FAILURE, "a list of more than numbers as an index")


def _is_basic(entry: Any) -> bool:
    """True for entries of keys that choose a view: a number in a tensor is an integer, too."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return True
    if isinstance(entry, graph.Value):
        is_number = isinstance(entry.node.type, TensorType) and not entry.shape
        return is_number and entry.dtype.category is Category.INTEGER and entry.dtype is not uint8
    return isinstance(entry, (int, SymInt)) and not isinstance(entry, bool)
