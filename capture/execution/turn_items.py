"""What a `for` gives in each turn, where it follows the counter: ranges, rows and parts of a
tensor, numbers, and `enumerate` and `zip` of such.

`items_left` counts what an iterator has left, where that is known. `items_of` says what it gives in
the turn of a run-time number, and lets it go on by many items; None where the items are others.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.arrays import elements_of, made_like
from dynajit.capture.python.tensors.counts import (
    are_of_calls,
    number_of_table,
    place_in_turn,
    table_of,
)
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_method
from dynajit.capture.python.tensors.windows import window
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.tensors.turns import item_in_turn, numbers_in
from dynajit.capture.values.containers import (
    EnumerateIterator,
    IteratorValue,
    ListValue,
    RangeIterator,
    SequenceIterator,
    TupleValue,
    ZipIterator,
)
from dynajit.capture.values.symbolic import Constant, Scalar, Value
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.ops import TABLE


@record(eq=False)
class Items:
    """What an iterator gives.

    Args:
        counter: a number for each turn that is left.
        item: the number of a turn -> what is given in it; called in the turn.
        skip: lets the iterator go on by so many items.
        lists: heap ids of lists that it goes over.
        stop: the run-time number at which the counter ends; None: it is the same in other calls.
        is_last_other: the last item has another shape.
    """

    counter: range
    item: Callable[[Scalar], Value]
    skip: Callable[[int], None]
    lists: tuple[int, ...] = ()
    stop: Scalar | None = None
    is_last_other: bool = False


@record(eq=False)
class Periods:
    """Items of so many turns at a time.

    Args:
        each: the items.
        length: how many turns are one.
    """

    each: Items
    length: int

    @property
    def counter(self) -> range:
        """Of the first item of each period; items behind the last whole one are left out."""
        every = self.each.counter
        whole = len(every) // self.length * self.length
        return every[: whole : self.length]

    @property
    def with_rest(self) -> range:
        """Likewise, with one for what is left."""
        return self.each.counter[:: self.length]

    def item(self, first: Scalar, place: int) -> Value:
        """An item of a period.

        Args:
            first: the counter of its first item.
        """
        return self.each.item(_of_steps(first, place * self.each.counter.step, 1))

    def skip(self, count: int) -> None:
        """Let the iterator go on by so many periods."""
        self.each.skip(count * self.length)


def items_left(machine: Machine, iterator: Value) -> int | None:
    """How many items an iterator has left; None where it is of another kind."""
    if not isinstance(iterator, IteratorValue):
        return None
    state = machine.heap[iterator.identity]
    if isinstance(state, RangeIterator):
        return len(state.rest)
    if isinstance(state, SequenceIterator):
        sequence = _sequence(machine, state)
        if sequence is None:
            return None
        return state.position + 1 if state.is_reversed else len(sequence) - state.position
    if isinstance(state, EnumerateIterator):
        return items_left(machine, state.inner)
    if isinstance(state, ZipIterator) and state.inner:  # a strict one ends as it comes
        counts = [items_left(machine, inner) for inner in state.inner]
        known = [count for count in counts if count is not None]
        return min(known) if len(known) == len(counts) else None
    return None


def _sequence(machine: Machine, state: SequenceIterator) -> Sequence[Value] | None:
    if isinstance(state.sequence, TupleValue):
        return state.sequence.items
    if type(state.sequence) is not ListValue:
        return None
    contents = machine.heap[state.sequence.identity]
    return contents if isinstance(contents, tuple) else None


def items_of(machine: Machine, iterator: IteratorValue) -> Items | None:
    """What an iterator gives in the turns that are left; None: nothing that follows a counter."""
    state, heap = machine.heap[iterator.identity], machine.heap
    count = items_left(machine, iterator)
    if not count:
        return None
    if isinstance(state, RangeIterator):
        rest, stop = state.rest, state.stop

        def go_on(done: int) -> None:
            last = (
                None if stop is None else Scalar(stop.value - 1, None, ("-", (stop, Constant(1))))
            )
            heap.write(iterator.identity, RangeIterator(rest[done:], stop, last))

        return Items(rest, lambda number: number, go_on, stop=stop)
    if isinstance(state, SequenceIterator):
        return _of_sequence(machine, iterator, state, count)
    if isinstance(state, EnumerateIterator):
        return _of_enumerate(machine, iterator, state, count)
    found = [items_of(machine, inner) for inner in state.inner]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None

    def skip(done: int) -> None:
        for part in parts:
            part.skip(done)

    return Items(
        range(count),
        lambda number: TupleValue(tuple(_given(part, number) for part in parts)),
        skip,
        tuple(identity for part in parts for identity in part.lists),
        is_last_other=any(part.is_last_other for part in parts),
    )


def _given(items: Items, number: Scalar) -> Value:
    """What is given in a turn of a counter from 0 on."""
    return items.item(_of_steps(number, items.counter.start, items.counter.step))


def _of_steps(number: Scalar, start: int, step: int) -> Scalar:
    """`start + step * number`, as the program would compute it."""
    if step != 1:
        product = ("*", (number, Constant(step)))
        number = Scalar(number.value * step, None, product)
    if start:
        number = Scalar(number.value + start, None, ("+", (number, Constant(start))))
    return number


def _of_enumerate(
    machine: Machine, iterator: IteratorValue, state: EnumerateIterator, count: int
) -> Items | None:
    inner = items_of(machine, state.inner) if isinstance(state.inner, IteratorValue) else None
    if inner is None:
        return None

    def skip(done: int) -> None:
        inner.skip(done)
        machine.heap.write(iterator.identity, replace(state, count=state.count + done))

    return Items(
        range(count),
        lambda number: TupleValue((_of_steps(number, state.count, 1), _given(inner, number))),
        skip,
        inner.lists,
        is_last_other=inner.is_last_other,
    )


def _of_sequence(
    machine: Machine, iterator: IteratorValue, state: SequenceIterator, count: int
) -> Items | None:
    """Rows of one tensor, or numbers."""
    sequence = _sequence(machine, state)
    assert sequence is not None
    way = -1 if state.is_reversed else 1
    last = state.position + way * count
    lists = (state.sequence.identity,) if isinstance(state.sequence, ListValue) else ()

    def skip(done: int) -> None:
        position = state.position + way * done
        machine.heap.write(iterator.identity, replace(state, position=position))

    items = sequence[state.position : (last if last >= 0 else None) : way]
    if numbers_in(items) is not None:
        return Items(range(count), functools.partial(_number, machine, tuple(items)), skip, lists)
    if are_of_calls(items):
        return Items(range(count), _from_table(machine, items), skip, lists)
    return _of_parts(machine, items, skip, lists)


@record(eq=False)
class _Part:
    """Part of a tensor along a dim.

    Args:
        held: the part, as a tensor.
        dim, start: where it begins.
        length: how many elements it has; None: it is one, without the dim.
    """

    held: TensorValue
    dim: int
    start: int
    length: int | None


def _of_parts(
    machine: Machine, items: Sequence[Value], skip: Callable[[int], None], lists: tuple[int, ...]
) -> Items | None:
    """Rows of one tensor, or its parts of one length, of which the last may be shorter."""
    found = [_part(machine, item) for item in items]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    first, last = parts[0], parts[-1]
    step = (parts[1 if len(parts) > 1 else 0].start - first.start) or 1
    counter = range(first.start, first.start + len(parts) * step, step)
    contents: TensorContents = machine.heap[first.held.identity]
    for part, place in zip(parts, counter, strict=True):
        other: TensorContents = machine.heap[part.held.identity]
        if (part.start, part.dim) != (place, first.dim) or other.memory != contents.memory:
            return None
        if other.steps[:-1] != contents.steps[:-1] or part.held.cls is not first.held.cls:
            return None
        if part is not last and part.length != first.length:
            return None
    if any(value.python_type is not items[0].python_type for value in items):
        return None

    def item(number: Scalar) -> Value:
        whole = tensor_memory.view_by(machine.recorder, contents.memory, contents.steps[:-1])
        if first.length is None:
            place = place_in_turn(machine, whole, number)
            found = native_method(machine, whole, "__getitem__", [place], {})
        else:
            is_part = contents.steps[-1].is_part
            found = window(machine, whole, first.dim, number, first.length, is_part=is_part)
        assert isinstance(found, TensorValue)
        return made_like(machine, items[0], found)

    is_last_other = last.length != first.length
    return Items(counter, item, skip, lists, is_last_other=is_last_other)


def _from_table(machine: Machine, items: Sequence[Value]) -> Callable[[Scalar], Value]:
    """What gives one of such numbers in the turn of a counter from 0 on: the launch computes it, of
    a tensor that holds all of them."""
    table, kind = table_of(machine, items), items[0].python_type
    return lambda number: number_of_table(machine, table, kind, number)


def _number(machine: Machine, items: Sequence[Value], number: Scalar) -> Value:
    """One of some numbers, in the turn of a counter from 0 on."""
    for item in items:
        machine.recorder.use(item)
    found = item_in_turn(items, number)
    assert found is not None
    return found


def _part(machine: Machine, item: Value) -> _Part | None:
    """Which part a tensor, or that of an array, is of what the steps before the last show; None: it
    is no row, and no slice of one dim."""
    held = elements_of(machine, item)
    if held is None:
        return None
    contents: TensorContents = machine.heap[held.identity]
    is_special = contents.attributes or contents.has_new_data
    if not contents.memory or not contents.steps or is_special:
        return None
    step = contents.steps[-1]
    if step.numbers is not None:
        return None
    if step.op is TABLE.select and step.attributes["dim"] == 0:
        index = step.attributes["index"]
        return _Part(held, 0, index, None) if type(index) is int else None
    if step.op is not TABLE.slice:
        return None
    whole = tensor_memory.view_by(machine.recorder, contents.memory, contents.steps[:-1])
    sizes, bounds = tensor_type(machine, whole).shape, step.attributes
    each = [*zip(bounds["start"], bounds["stop"], bounds["step"], sizes, strict=True)]
    cut = [dim for dim, (start, stop, by, size) in enumerate(each) if (start, stop) != (0, size)]
    is_known = all(type(size) is int for row in each for size in row)
    if len(cut) != 1 or not is_known or any(by != 1 for *_, by, _ in each):
        return None
    start, stop, *_ = each[cut[0]]
    return _Part(held, cut[0], start, stop - start)


__all__ = ["Items", "Periods", "items_left", "items_of"]
