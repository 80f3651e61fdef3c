"""Recompiles are counted by what changes, however many there are."""

from dynajit.capture.entry.recurring import Recompiles
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import Failure
from dynajit.capture.places.sources import Local


def failure(name: str, old: int) -> Failure:
    """A number that is one more than expected."""
    guard = Guard(Local(name, 0), Kind.EQUALS, old)
    return Failure(guard, str(old), str(old + 1), "")


def test_ten_thousand_recompiles_of_a_place_are_one_entry() -> None:
    found = Recompiles(3)
    for number in range(10_000):
        found.note((failure("n", number), failure("other", 0)), 0.5, ())

    (entry,) = found.found.values()
    assert 10_000 == found.count == entry.count
    assert ("n", ("0", "1"), ("9999", "10000")) == (entry.place, entry.first, entry.last)
    assert 5000.0 == entry.milliseconds
    assert "n == 9999" == entry.guard


def test_the_last_places_are_remembered() -> None:
    """All are counted; a place that comes again is a late one."""
    found = Recompiles(3)
    for name in ("a", "b", "c", "a", "d"):
        found.note((failure(name, 1),), 1.0, ())
    found.note((), 1.0, ())

    assert ["c", "a", "d"] == [place for place, _ in found.found]
    assert 6 == found.count
    assert 2 == found.found["a", Kind.EQUALS].count
    found.clear()
    assert (0, {}) == (found.count, found.found)
