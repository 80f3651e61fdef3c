"""Lists that turns of a loop have filled and that nobody has read, where a region ends.

What turns have appended becomes rows of one result (`capture.library.rows`), in place of a result
for each row. Contract: rows that several lists hold are made once; what somebody has read stays as
it is.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from dynajit.capture.execution.counted_lists import CountedList, is_simple
from dynajit.capture.library import arrays as forms
from dynajit.capture.library import rows
from dynajit.capture.machine.heap import Unread
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.counts import is_count
from dynajit.capture.tensors.rows import Run
from dynajit.capture.values.containers import HeapValue, TupleValue
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.ir import graph

#: Items that are rows of one result: a result for each takes longer to compile, a row to make.
FEWEST_ROWS: Final = 64


def settle_unread(machine: Machine) -> None:
    """Let unread lists hold what is made of rows.

    Where one is read, others that hold the same tensors have them from there: those are read first.
    """
    heap, settled = machine.heap, _Settled(machine)
    is_settled = False
    while not is_settled:
        found = [(key, settled.contents(unread)) for key, unread in heap.unread_objects()]
        read = [key for key, contents in found if contents is None]
        for key in read:
            heap[key]
        is_settled = not read
    for key, contents in found:
        heap.settle(key, contents)


class _Settled:
    """The rows of a region. Mutable: remembers those of each stack."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._rows: dict[Any, ObjectValue] = {}

    def contents(self, unread: Unread) -> Any:
        """Contents of a list; None: it is read, item by item."""
        if isinstance(unread, CountedList):
            counted = tuple(self._counted(unread, item) for item in unread.items)
            turns = self._new(rows.Turns, columns=TupleValue(counted))
            return unread.of_items((*unread.before, turns, *unread.behind))
        if unread.count is None or unread.count * len(unread.items) < FEWEST_ROWS:
            return None
        if not all(map(is_simple, (*unread.before, *unread.behind))):
            return None
        columns = self._columns(unread, unread.items)
        if columns is None:
            return None
        turns = self._new(rows.Turns, columns=columns)
        return unread.of_items((*unread.before, turns, *unread.behind))

    def _counted(self, unread: CountedList, item: Value) -> Value:
        """What something that a turn appends is in all turns of which the launch knows how many
        there are."""
        turns = unread.turns
        if isinstance(item, TupleValue):
            columns = TupleValue(tuple(self._counted(unread, part) for part in item.items))
            return self._new(rows.Tuples, columns=columns)
        numbers = unread.numbers.get(id(item))
        if numbers is not None:
            return self._new(rows.Numbers, numbers=Known(numbers), count=turns)
        chain = unread.chains.get(item.identity) if isinstance(item, HeapValue) else None
        if chain is None:
            return self._new(rows.Repeated, item=item, count=turns)
        firsts, lasts = TupleValue(chain.firsts), TupleValue(chain.lasts)
        items = self._whole(chain.stack, chain.like, turns)
        return self._new(rows.Chain, firsts=firsts, rows=items, lasts=lasts, count=turns)

    def _columns(self, unread: Unread, items: Iterable[Value]) -> TupleValue | None:
        columns = [self._column(unread, item) for item in items]
        found = tuple(column for column in columns if column is not None)
        return TupleValue(found) if len(found) == len(columns) else None

    def _column(self, unread: Unread, item: Value) -> Value | None:
        """What something that a turn appends is in all turns; None: it is read."""
        if isinstance(item, TupleValue):
            columns = self._columns(unread, item.items)
            return None if columns is None else self._new(rows.Tuples, columns=columns)
        if isinstance(item, HeapValue):
            parts = unread.parts_of(item)
            if parts is None:
                return None
            items = [self._part(part) if isinstance(part, Run) else part for part in parts]
            return self._new(rows.Column, items=TupleValue(tuple(items)))
        numbers = unread.numbers_of(item)
        if numbers is not None:
            return Known(numbers)
        return self._new(rows.Repeated, item=item, count=constant(unread.count))

    def _part(self, run: Run) -> ObjectValue:
        whole = self._whole(run.stack, run.like, constant(run.stack.shape[0]))
        first, stop = constant(run.first), constant(run.first + run.count)
        return self._new(rows.Part, rows=whole, first=first, stop=stop)

    def _whole(self, stack: graph.Value, like: Value, count: Value) -> ObjectValue:
        """The rows of a stack.

        Args:
            like: what is over one of them.
            count: how many there are.
        """
        whole = self._rows.get(stack.node)
        if whole is None:
            tensor, kind = self._machine.recorder.new_tensor(stack), constant(_kind_of(like))
            whole = self._new(rows.Rows, tensor=tensor, kind=kind, count=count)
            self._rows[stack.node] = whole
        return whole

    def _new(self, form: type, **fields: Value) -> ObjectValue:
        return ObjectValue(self._machine.heap.allocate(ObjectContents(None, fields)), form)


def _kind_of(like: Value) -> str:
    if isinstance(like, TensorValue):
        return rows.TENSORS
    if is_count(like):
        return rows.NUMBERS
    assert isinstance(like, ObjectValue)
    return rows.ARRAYS if like.cls is forms.FORMS[np.ndarray] else rows.NUMPY_NUMBERS


__all__ = ["settle_unread"]
