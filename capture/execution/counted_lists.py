"""Lists that turns of a loop have filled until a tensor ended it: the launch knows how many items.

`CountedList` is what such a list holds while code is captured (`machine.heap.Unread`): nobody can
read it, as nobody knows which items there are; reading it breaks the graph in front of what reads.
At the end of a region it becomes items that are made when the launch is over
(`region.unread_lists`). Contract: an object that is in the list and in a variable, too, is one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.python.tensors.arrays import is_array
from dynajit.capture.python.tensors.counts import is_count
from dynajit.capture.values.containers import Grown, TupleValue
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.records import record
from dynajit.ir import graph

#: Items that a list has behind what turns have appended.
MOST_BEHIND: Final = 16


@record(eq=False)
class Chain:
    """What is over a tensor in each turn.

    Args:
        firsts: in the first turns, in which it is something that there was before.
        stack: what turns make, by rows; row 0 is that of the turn behind those.
        lasts: what variables hold, in the place of what the last turns have.
        like: a value of the class of what it is.
    """

    firsts: tuple[Value, ...]
    stack: graph.Value
    lasts: tuple[Value, ...]
    like: Value


@record(eq=False)
class CountedList:
    """See the module's text, and `machine.heap.Unread`.

    Args:
        turns: how many there were, as a number that the launch computes.
        before, behind: items in front of what turns appended, and behind it.
        items: what a turn appends.
        chains: heap id of what is over a tensor in these -> what it is in all turns.
        numbers: id of a number in these that follows the counter -> what it is in all turns that
            there may be.
        is_known: `before` are all items in front; else there are others, which nobody has read.
    """

    turns: Value
    before: tuple[Value, ...]
    items: tuple[Value, ...]
    chains: Mapping[int, Chain]
    numbers: Mapping[int, Sequence[int | float]]
    is_known: bool
    behind: tuple[Value, ...] = ()

    @property
    def count(self) -> None:
        """See `heap.Unread`: nobody knows."""

    @property
    def length(self) -> None:
        """See `heap.Unread`: nobody knows."""

    @property
    def most(self) -> int:
        """See `heap.Unread`: nothing is allocated."""
        return 0

    def make(self) -> NoReturn:
        """Refuse to say what the list holds.

        Raises:
            GraphBreak: always.
        """
        what = "the items of a list that turns have filled until a tensor ended the loop"
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, what)

    def item(self, position: int) -> NoReturn:
        """The same."""
        self.make()

    def mark(self) -> int:
        """See `heap.Unread`."""
        return 0

    def forget(self, mark: int) -> None:
        """See `heap.Unread`."""

    def held(self) -> list[Value]:
        """See `heap.Unread`."""
        found = [*self.before, *self.items, *self.behind]
        for chain in self.chains.values():
            found += (*chain.firsts, *chain.lasts)
        return found

    def of_items(self, items: tuple[Value, ...]) -> Any:
        """See `heap.Unread`."""
        return items if self.is_known else Grown(items)

    def parts(self) -> None:
        """See `heap.Unread`."""

    def parts_of(self, item: Value) -> None:
        """See `heap.Unread`."""

    def numbers_of(self, item: Value) -> None:
        """See `heap.Unread`."""

    def grown(self, items: tuple[Value, ...]) -> "CountedList | None":
        """See `heap.Unread`."""
        behind = (*self.behind, *items)
        is_short = len(behind) <= MOST_BEHIND and all(map(is_simple, items))
        return replace(self, behind=behind) if is_short else None


def is_simple(item: Value) -> bool:
    """Whether an item is no container, which might hold the list."""
    if isinstance(item, TupleValue):
        return all(map(is_simple, item.items))
    is_literal = isinstance(item, (Constant, Known, Scalar))
    return is_literal or isinstance(item, TensorValue) or is_array(item) or is_count(item)


__all__ = ["Chain", "CountedList", "is_simple"]
