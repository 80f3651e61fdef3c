"""Containers: tuples, lists, dicts, sets, slices, and iterators over them.

Heap contents: a list is a tuple of values; a dict is a (frozen by convention) Python dict
hashable key -> (key value, value); a set is a SetEntries, hashable key -> value; an iterator is
one of the state records below. `None` contents mean: an existing container that was not read yet.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record


@record(eq=False)
class TupleValue(Value):
    """A tuple, or a named tuple (`cls`)."""

    items: tuple[Value, ...]
    cls: type = tuple
    source: Any = None

    @property
    def python_type(self) -> type:
        return self.cls


@record(eq=False)
class SliceValue(Value):
    """A slice."""

    start: Value
    stop: Value
    step: Value
    source: Any = None

    @property
    def python_type(self) -> type:
        return slice


@record(eq=False)
class HeapValue(Value):
    """A handle on a mutable object of class `cls`."""

    identity: int
    cls: type
    source: Any = None

    @property
    def object_id(self) -> int:
        return self.identity

    @property
    def python_type(self) -> type:
        return self.cls


class ListValue(HeapValue):
    """A list."""

    __slots__ = ()


@record
class Grown:
    """Contents of an existing list that was only appended to: what it held is not known.

    A list that grows with every call then needs no version per length.

    Args:
        appended: what was added at its end.
    """

    appended: tuple[Value, ...]

    def after(self, items: tuple[Value, ...]) -> tuple[Value, ...]:
        """Everything, once the items at entry are known."""
        return items + self.appended


@record
class Collected(Grown):
    """Contents of a list that is older than the turn of a loop that appends to it.

    What it held is known, but is other in each turn.
    """


class DictValue(HeapValue):
    """A dict or OrderedDict, or a defaultdict that existed before (a new one is an object)."""

    __slots__ = ()


class SetValue(HeapValue):
    """A set."""

    __slots__ = ()


@record
class UserKey:
    """Key of an object with a `__hash__` of its own; equal to itself alone."""

    number: int
    identity: int
    value: Value = field(compare=False)

    def __hash__(self) -> int:
        return self.number


class SetEntries(dict[Any, Value]):
    """Members of a set by key, and how a set with the same order of members is made.

    The order of a set depends on its history. `start` makes the set as it was at first, `steps`
    change it in place, one after the other.

    Args:
        members: key -> value.
        start: makes the set as it was at first; of an existing set, as it was at entry.
        steps: what was done to it since.
        is_ordered: the order of a set with this history is the order that the program sees.
        is_known: every member that it had is known by value.
        is_plain: members were only added, one by one, to an empty set.
    """

    __slots__ = ("is_known", "is_ordered", "is_plain", "start", "steps")

    def __init__(
        self,
        members: dict[Any, Value],
        start: Callable[[], set[Any]] = set,
        steps: tuple[Callable[[set[Any]], Any], ...] = (),
        is_ordered: bool = True,
        is_known: bool = True,
        is_plain: bool = False,
    ) -> None:
        super().__init__(members)
        self.start = start
        self.steps = steps
        self.is_ordered = is_ordered
        self.is_known = is_known
        self.is_plain = is_plain

    def real(self) -> set[Any]:
        """A real set of the keys, with the same history."""
        made = self.start()
        self.apply(made)
        return made

    def apply(self, target: set[Any]) -> None:
        """Do to `target` what was done to this set."""
        for step in self.steps:
            step(target)


class DictViewValue(Value):
    """`d.keys()`, `d.values()` or `d.items()`: live, as in Python."""

    __slots__ = ("dictionary", "kind")

    def __init__(self, dictionary: DictValue, kind: str) -> None:
        self.dictionary = dictionary
        self.kind = kind

    @property
    def python_type(self) -> type:
        return type(getattr({}, self.kind)())


class IteratorValue(HeapValue):
    """An iterator; its contents are one of the records below."""

    __slots__ = ()


@record
class SequenceIterator:
    """Over a list (live, by handle), a text (a Constant) or a tuple of values.

    Args:
        sequence: what it goes over.
        position: of the next item; below 0 for a reversed one: at its end.
        is_reversed: from the last item to the first.
    """

    sequence: Any
    position: int = 0
    is_reversed: bool = False


#: Stands for all keys of a dict among those removed from it.
EVERY_KEY: Final = object()


@record
class Given:
    """What an iterator has given in tuples of its own, the latest first; see
    `capture.python.given_items`.
    """

    items: tuple[Value, ...]
    before: "Given | None"


@record
class TableIterator:
    """Over a dict, a dict view or a set: notices when it has changed.

    Args:
        table: a DictValue, DictViewValue or SetValue.
        keys: its keys when the iteration began.
        order: the same keys in the order in which they are given.
        removals: heap id of the keys removed from the table so far; how many at the start.
        given: pairs that were given as tuples; see `Given`.
    """

    table: Any
    keys: tuple[Any, ...]
    order: tuple[Any, ...]
    removals: tuple[int, int]
    position: int = 0
    is_reversed: bool = False
    given: "Given | None" = None


@record
class RangeIterator:
    """Over the rest of a range.

    Args:
        rest: what it gives, as far as this call goes.
        stop: the run-time number at which it ends; None: `rest` is the same in other calls.
        last: the run-time number that is given next, and is the last one.
    """

    rest: range
    stop: Any = None
    last: Any = None


@record
class EnumerateIterator:
    """enumerate(inner) about to give `count`."""

    inner: Value
    count: int
    given: "Given | None" = None


@record
class ZipIterator:
    """zip(*inner)."""

    inner: tuple[Value, ...]
    strict: bool = False
    given: "Given | None" = None


@record
class MapIterator:
    """map(function, *inner)."""

    function: Value
    inner: tuple[Value, ...]


@record
class FilterIterator:
    """filter(function, inner)."""

    function: Value
    inner: Value


@record
class IndexIterator:
    """Over an object that has `__getitem__` and no `__iter__`."""

    sequence: Value
    position: int = 0


@record
class ExistingIterator:
    """An iterator that existed before and was not touched: only its source is known."""


@record
class Exhausted:
    """An iterator that has ended; it stays so."""

    given: "Given | None" = None
