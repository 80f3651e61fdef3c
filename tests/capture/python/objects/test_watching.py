"""The search for watched objects among what frames hold."""

from dataclasses import dataclass
from typing import Any

from dynajit.capture.machine.heap import Heap
from dynajit.capture.python.objects.watching import Search, held_by
from dynajit.capture.values.symbolic import Value


@dataclass(frozen=True)
class Named(Value):
    """A value that is nothing but an object in the heap."""

    identity: int

    @property
    def object_id(self) -> int:
        return self.identity


def nest(heap: Heap, depth: int) -> tuple[Value, list[int]]:
    """A value that holds one that holds one ..., and their ids, the innermost last."""
    ids: list[int] = []
    inner: tuple[Any, ...] = ()
    for _ in range(depth):
        ids.insert(0, heap.adopt(inner))
        inner = (Named(ids[0]),)
    return inner[0], ids


def test_everything_that_is_held_is_found_without_a_question() -> None:
    """All ids, also in a ring."""
    heap = Heap()
    value, ids = nest(heap, 4)

    assert held_by([value], heap) == set(ids)


def test_only_the_wanted_keys_are_found() -> None:
    """One that is held, one that is not."""
    heap = Heap()
    value, ids = nest(heap, 4)
    other, (elsewhere,) = nest(heap, 1)

    assert held_by([value], heap, [ids[2], elsewhere]) == {ids[2]}
    assert held_by([value, other], heap, [ids[2], elsewhere]) == {ids[2], elsewhere}


def test_the_search_ends_where_all_is_found() -> None:
    """What is near is looked at before what a large container holds."""
    heap = Heap()
    large = [nest(heap, 1)[0] for _ in range(1000)]
    container = Named(heap.adopt(tuple(large)))
    watched, (key,) = nest(heap, 1)
    search = Search([key], heap)
    search.look([container, watched])

    assert search.found == {key}
    assert search.looked_at < 10
