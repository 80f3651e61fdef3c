"""Random programs behave compiled as they do plainly; `DYNAJIT_FUZZ_PROGRAMS` sets how many."""

import collections
import gc
import os

import pytest
from differential import compare

import dynajit as dj

#: Programs compared by default; of these every FORCED-th is also broken at every statement.
COUNT = int(os.environ.get("DYNAJIT_FUZZ_PROGRAMS", "60"))
FORCED = 6
#: Programs of one test.
BATCH = 10


@pytest.fixture(autouse=True)
def _strict():
    """Internal errors are raised, and no state stays behind."""
    with dj.config.override(strict=True):
        yield
    dj.reset()


def compared(seeds, forced=False):
    """What differs, for each program."""
    return [found for seed in seeds if (found := compare(seed, forced=forced)) is not None]


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_programs_are_as_in_plain_python(first):
    assert compared(range(first, min(first + BATCH, COUNT))) == []


@pytest.mark.parametrize("first", range(0, COUNT, BATCH * FORCED))
def test_random_programs_broken_at_every_statement_are_as_in_plain_python(first):
    end = min(first + BATCH * FORCED, COUNT)
    assert compared(range(first, end, FORCED), forced=True) == []


#: What holds a user's memory: tensors, saved values, graphs and generated programs.
HEAVY = ("Tensor", "CompiledNode", "OpNode", "Graph", "NumpyProgram")


def live_objects():
    """How many objects of each heavy type are alive."""
    gc.collect()
    names = (type(held).__qualname__ for held in gc.get_objects())
    return collections.Counter(name for name in names if name in HEAVY)


def test_programs_that_are_run_again_leave_no_tensors_and_no_graphs_behind():
    def run_all():
        for seed in range(100, 112):
            compare(seed)
            dj.reset()
        return live_objects()

    before = run_all()
    grown = run_all() - before
    assert not grown
