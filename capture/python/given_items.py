"""What iterators that give tuples may still hold of what they gave.

`items()` of dicts, `zip` and `enumerate` of C keep a tuple that they gave, and what is in it, after
the program has let go of it: the next turn fills it anew if nobody else holds it by then, and makes
another one if somebody does. Which items an iterator holds thus depends on how many references
there were to each tuple. Capture does not count references: while it matters, that is while
somebody may learn of the end of an item that was given, no region leaves such an iterator behind.
It ends before the iterator has given it, and the real one goes on.

`with_given` is called where iterators advance, the rest by `capture.region.finish` and
`dead_locals`.
"""

from collections.abc import Iterable

from dynajit.capture.library.table import KEEPING
from dynajit.capture.machine.lifetimes import held_objects, is_referred_to
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.python.generators import is_guarded
from dynajit.capture.python.objects.references import NotRebuildable
from dynajit.capture.python.objects.watching import held_by
from dynajit.capture.values.containers import Given, IteratorValue, TupleValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue


def with_given(given: Given | None, items: tuple[Value, ...]) -> Given | None:
    """What an iterator has given, now that it gives these items in a tuple of its own."""
    return Given(items, given) if any(map(_may_be_noticed, items)) else given


def _may_be_noticed(value: Value) -> bool:
    if isinstance(value, TupleValue) and value.source is None:
        return any(map(_may_be_noticed, value.items))
    return not isinstance(value, (Constant, Scalar, Known, TensorValue))


def refuse_kept(values: Iterable[Value], recorder: Recorder) -> None:
    """Refuse to leave behind an iterator whose items somebody may see ending.

    Raises:
        NotRebuildable: there is one.
    """
    for value in values:
        if keeps_items(value, recorder):
            raise NotRebuildable("an iterator may keep an item whose end can be noticed")


def keeps_items(value: Value, recorder: Recorder) -> bool:
    """True for an iterator that may hold what it gave, where somebody may learn of its end."""
    if isinstance(value, ObjectValue) and any(value.cls is kept for kept in KEEPING):
        met: list[Value] = list(recorder.handles())  # what it gave is not known
        return bool(recorder.watched) or _is_noticed(met, recorder)
    if not isinstance(value, IteratorValue) or value.source is not None:
        return False
    items = _given_by(value, recorder)
    return bool(items) and _is_noticed(items, recorder)


def _given_by(iterator: IteratorValue, recorder: Recorder) -> list[Value]:
    if not recorder.heap.has(iterator.identity):
        return []
    given = getattr(recorder.heap[iterator.identity], "given", None)
    items: list[Value] = []
    while given is not None:
        items += given.items
        given = given.before
    return items


def _is_noticed(items: list[Value], recorder: Recorder) -> bool:
    """True if somebody may learn that one of these values ends, or something in them."""
    keys = held_by(items, recorder.heap)
    if not keys.isdisjoint(recorder.watched):
        return True
    made = (key for key in keys if isinstance(key, int) and recorder.heap.has(key))
    if any(is_guarded(recorder.heap[key]) for key in made):
        return True
    return any(map(is_referred_to, held_objects(recorder.objects_at(keys))))
