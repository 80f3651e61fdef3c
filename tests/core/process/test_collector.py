"""The garbage collector is held back, and left as it was."""

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from dynajit.core.process.collector import SELDOM, paused, seldom


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The test run keeps its collector."""
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    yield
    (gc.enable if was_enabled else gc.disable)()
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before_also_after_an_error(enabled: bool) -> None:
    """Off within the block, whatever it was."""
    (gc.enable if enabled else gc.disable)()

    with pytest.raises(ZeroDivisionError), paused():
        assert not gc.isenabled()
        _ = 1 / 0

    assert enabled == gc.isenabled()


@pytest.mark.parametrize(
    ("before", "within"),
    [((700, 10, 10), SELDOM), ((0, 5, 5), 0), ((SELDOM + 1, 5, 5), SELDOM + 1)],
)
def test_collections_are_rarer_within_and_as_before_behind(before, within) -> None:
    """A program that collects more seldom still, or never, keeps its own numbers."""
    gc.set_threshold(*before)

    with pytest.raises(ZeroDivisionError), seldom(), seldom():
        assert within == gc.get_threshold()[0]
        _ = 1 / 0

    assert before[:2] == gc.get_threshold()[:2]


def test_the_last_of_several_threads_restores() -> None:
    """Whichever of them came first."""
    before = gc.get_threshold()
    is_in, may_end = threading.Event(), threading.Event()

    def stay() -> None:
        with seldom():
            is_in.set()
            may_end.wait(10)

    other = threading.Thread(target=stay)
    with seldom():
        other.start()
        is_in.wait(10)
    assert SELDOM == gc.get_threshold()[0]
    may_end.set()
    other.join()

    assert before == gc.get_threshold()


def test_thresholds_that_the_program_sets_meanwhile_stay() -> None:
    """They are its own."""
    with seldom():
        gc.set_threshold(900, 9, 9)

    assert 900 == gc.get_threshold()[0]


@pytest.mark.parametrize("kept", [False, True])
def test_what_was_made_while_paused_is_old_and_still_collected(kept: bool) -> None:
    """What a program keeps from the collector stays kept, and nothing is added to it."""
    gc.enable()
    gc.unfreeze()  # the test run keeps what its imports have made
    gc.collect()
    if kept:
        gc.freeze()
    before = gc.get_freeze_count()
    try:
        with paused():
            made: list[object] = []
            made.append(made)
            ring: list[object] = []
            ring.append(ring)
            seen = weakref.ref(_Referable(ring))
            del ring
        gc.set_threshold(0)
        is_young = any(made is each for each in gc.get_objects(generation=0))
        assert before == gc.get_freeze_count() or (not kept and not gc.get_freeze_count())
        assert kept == is_young
        gc.unfreeze()
        gc.collect()
        assert seen() is None
    finally:
        gc.freeze()


class _Referable:
    """A member of a ring that nothing else holds."""

    def __init__(self, ring: list[object]) -> None:
        ring.append(self)
