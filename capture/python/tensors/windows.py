"""Windows: slices of so many elements at a place that differs between turns of a loop, or that the
launch computes (`x[i:i + 32]`, `x[k * 8:(k + 1) * 8]`).

A window is recorded as `index` by consecutive numbers, and noted as what eager execution makes of
it: a view (`capture.tensors.memory`).
Contract: a window lies within its dim in every turn. Where that is known to be so in all turns but
the last, or not known, it is recorded; in the second case the launch refuses its values in turns in
which Python would cut the slice. All other slices are left as they are.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import is_none
from dynajit.capture.python.tensors.arrays import elements_of
from dynajit.capture.python.tensors.counts import as_index, counted_in, is_count
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.tensors.turns import compared_in_all, is_of_a_turn, key_of
from dynajit.capture.values.containers import SliceValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Constant, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.records import record
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import bool_, int64, uint8
from dynajit.ir import graph
from dynajit.ops import TABLE
from dynajit.ops.calls.contents import require

#: An int as a sum: what it is made of -> how often it is in there; None: how much more it is.
_Sum: TypeAlias = dict[Any, int]

#: Rows whose result is the number that they are given.
_SAME: Final = frozenset({"full", "reshape", "clone", "detach"})


@record(eq=False)
class _Window:
    """A window.

    Args:
        start: its first element.
        is_from_end: the start is counted from the end of the dim.
        length: how many elements it has.
        is_inside: whether it is known to lie within the dim in every turn.
    """

    start: Value
    length: int
    is_from_end: bool = False
    is_inside: bool = False


def with_windows(
    machine: Machine, tensor: TensorValue, key: Value
) -> tuple[TensorValue, Value | None]:
    """The windows that a key takes of a tensor, and what is left of the key; None: nothing.

    Raises:
        GraphBreak: a place may not fit an int64.
    """
    entries = key.items if isinstance(key, TupleValue) and key.cls is tuple else (key,)
    if not any(isinstance(entry, SliceValue) and _is_computed(entry) for entry in entries):
        return tensor, key
    rest, seen = list(entries), tensor
    for place, dim in enumerate(_dims_of(machine, tensor, entries)):
        entry = entries[place]
        if dim is None or not isinstance(entry, SliceValue):
            continue
        found = _window(machine, seen, dim, entry)
        if found is not None:
            seen = _taken(machine, seen, dim, found)
            rest[place] = SliceValue(NONE, NONE, entry.step)
    is_whole = all(isinstance(entry, SliceValue) and _is_whole(machine, entry) for entry in rest)
    return seen, None if is_whole and seen is not tensor else TupleValue(tuple(rest))


def _is_whole(machine: Machine, entry: SliceValue) -> bool:
    return all(is_none(machine, part) for part in (entry.start, entry.stop, entry.step))


def _is_computed(entry: SliceValue) -> bool:
    """Whether bounds of a slice differ between turns, or are computed by the launch."""
    return any(is_count(part) or is_of_a_turn(part) for part in (entry.start, entry.stop))


def _dims_of(
    machine: Machine, tensor: TensorValue, entries: Sequence[Value]
) -> Sequence[int | None]:
    """For each entry of a key the dim that it is for; None: for none, for several, or not known."""
    taken = [_dims_taken(machine, entry) for entry in entries]
    known = [count for count in taken if count is not None]
    others = sum(isinstance(entry, Constant) and entry.value is ... for entry in entries)
    if len(known) + others < len(entries) or others > 1:
        return [None] * len(entries)
    rest = tensor_type(machine, tensor).rank - sum(known)
    found: list[int | None] = []
    dim = 0
    for count in taken:
        found.append(dim if count == 1 else None)
        dim += rest if count is None else count
    return found if rest >= 0 else [None] * len(entries)


def _dims_taken(machine: Machine, entry: Value) -> int | None:
    """How many dims an entry of a key is for; None: all that others leave, or it is not known."""
    if is_none(machine, entry):
        return 0
    if isinstance(entry, SliceValue) or is_count(entry):
        return 1
    if isinstance(entry, (Constant, Scalar)):
        return 1 if entry.python_type is int else None
    held = elements_of(machine, entry)
    if held is None:
        return None
    kind = tensor_type(machine, held)
    return int(kind.rank) if kind.dtype in (bool_, uint8) else 1  # PyTorch's masks of old


def _window(machine: Machine, tensor: TensorValue, dim: int, entry: SliceValue) -> _Window | None:
    """The window that a slice is; None: it is none."""
    size = tensor_type(machine, tensor).shape[dim]
    if not isinstance(size, int) or not _is_computed(entry):
        return None
    is_forward = is_none(machine, entry.step) or (
        isinstance(entry.step, Constant) and type(entry.step.value) is int and entry.step.value > 0
    )
    length = _difference(machine, entry.stop, entry.start)
    if not is_forward or length is None or not 0 < length <= size:
        return None
    start, stop = entry.start, entry.stop
    if not isinstance(start, Scalar) or not isinstance(stop, Scalar):
        is_known = is_count(start) and tensor_type(machine, tensor).device is CPU
        return _Window(start, length) if is_known else None
    is_from_end = start.value < 0
    first, end = (-size, -1) if is_from_end else (0, size)
    if not (first <= start.value and stop.value <= end):
        return None  # Python cuts it in this turn
    # what an arm that Python leaves out asks is harmless, wherever it is
    turns = machine.recorder.turns if machine.recorder.builder.arm is None else ()
    answers = (
        compared_in_all(turns, ">=", start, Constant(first)),
        compared_in_all(turns, "<=", stop, Constant(end)),
    )
    if False in answers:
        return None
    for number in (start, stop):
        machine.recorder.use_number(number)
    return _Window(start, length, is_from_end, None not in answers)


def _difference(machine: Machine, a: Value, b: Value) -> int | None:
    """`a - b` of two ints, where it is the same in all turns and calls."""
    first, second = _sum_of(machine, a), _sum_of(machine, b)
    if first is None or second is None:
        return None
    found = {key: first.get(key, 0) - second.get(key, 0) for key in {*first, *second}}
    rest = found.pop(None, 0)
    return None if any(found.values()) else rest


def _sum_of(machine: Machine, value: Value) -> _Sum | None:
    """An int of Python's as a sum; None: it is something else."""
    if value.python_type is not int:
        return None
    tensor = counted_in(machine, value)
    if tensor is not None:
        return _sum_of_node(machine.recorder.graph_value(tensor).node)
    return _sum_of_number(value) if isinstance(value, (Constant, Scalar)) else None


def _sum_of_number(value: Scalar | Constant) -> _Sum:
    if isinstance(value, Constant):
        return {None: value.value}
    symbol, operands = value.expression or ("", ())
    if symbol in ("+", "-", "*", "neg"):
        found = _combined(symbol, [_sum_of_number(operand) for operand in operands])
        return {key_of(value): 1} if found is None else found
    return {key_of(value): 1}


def _sum_of_node(node: Any) -> _Sum | None:
    if type(node) is int:
        return {None: node}
    if not isinstance(node, graph.Node):
        return None
    name = "" if node.op is None else node.op.name
    if name in _SAME:
        return _sum_of_node(node.args[0])
    if name in ("add", "sub", "mul", "neg"):
        parts = [_sum_of_node(argument) for argument in node.args]
        known = [part for part in parts if part is not None]
        symbol = {"add": "+", "sub": "-", "mul": "*", "neg": "neg"}[name]
        if len(known) == len(parts):
            found = _combined(symbol, known)
            return {node: 1} if found is None else found
    return {node: 1}


def _combined(symbol: str, parts: Sequence[_Sum]) -> _Sum | None:
    """What an operator makes of sums; None: a product of two that are no literals."""
    if symbol == "neg":
        return {key: -times for key, times in parts[0].items()}
    first, second = parts
    if symbol == "*":
        if first.keys() - {None}:
            first, second = second, first
        if first.keys() - {None}:
            return None
        return {key: times * first.get(None, 0) for key, times in second.items()}
    sign = 1 if symbol == "+" else -1
    return {key: first.get(key, 0) + sign * second.get(key, 0) for key in {*first, *second}}


def _taken(machine: Machine, tensor: TensorValue, dim: int, taken: _Window) -> TensorValue:
    """A window of a tensor, as a view."""
    start = taken.start
    if isinstance(start, Scalar):
        place = _as_place(machine, tensor, start)
        size = tensor_type(machine, tensor).shape[dim]
        place = TABLE.add(place, size) if taken.is_from_end else place
    else:
        place = machine.recorder.graph_value(as_index(machine, start))
    if not taken.is_inside:
        require(TABLE.ge(place, 0))  # an index counts from the end instead
    return _at_place(machine, tensor, dim, place, taken.length)


def window(
    machine: Machine,
    tensor: TensorValue,
    dim: int,
    start: Scalar,
    length: int,
    *,
    is_part: bool = False,
) -> TensorValue:
    """So many elements of a dim from a number of a turn on, which lie within the dim: a view.

    Args:
        is_part: it is one of several views that one call gave.
    """
    place = _as_place(machine, tensor, start)
    return _at_place(machine, tensor, dim, place, length, is_part=is_part)


def _as_place(machine: Machine, tensor: TensorValue, number: Scalar) -> graph.Value:
    device = tensor_type(machine, tensor).device
    lifted = machine.recorder.lift_scalar(number)
    found: graph.Value = TABLE.full(lifted, shape=(), dtype=int64, device=device)
    return found


def _at_place(
    machine: Machine,
    tensor: TensorValue,
    dim: int,
    place: graph.Value,
    length: int,
    *,
    is_part: bool = False,
) -> TensorValue:
    builder = machine.recorder.builder

    def part(whole: Any) -> Any:
        found = builder.window(whole, dim, place, length)
        if is_part:
            builder.note_parts((found,))
        return found

    made = native_call(machine, part, [tensor], {})
    assert isinstance(made, TensorValue)
    return made


__all__ = ["window", "with_windows"]
