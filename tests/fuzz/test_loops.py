"""Random loops give what plain Python gives; `DYNAJIT_FUZZ_LOOPS` sets how many."""

import os

import pytest

from dynajit.capture.execution import loops
from tests.fuzz.loops import compare, compare_counts, compare_gradients, compare_text

#: The first program, and how many are compared.
FIRST = 900_000
COUNT = int(os.environ.get("DYNAJIT_FUZZ_LOOPS", "40"))
#: Programs of one test.
BATCH = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_loops_are_as_in_plain_python(first):
    end = min(first + BATCH, FIRST + COUNT)
    assert [found for seed in range(first, end) if (found := compare(seed)) is not None] == []


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_loops_have_the_gradients_of_the_tape(first):
    end = min(first + BATCH, FIRST + COUNT)
    found = [told for seed in range(first, end) if (told := compare_gradients(seed)) is not None]
    assert found == []


def test_random_loops_of_any_count_have_the_gradients_of_the_tape():
    seeds = range(FIRST, FIRST + COUNT // 4)
    assert [told for seed in seeds if (told := compare_counts(seed)) is not None] == []


def test_many_random_programs_have_loops_of_the_graph(monkeypatch):
    made = []
    attempt = loops.Watcher.attempt
    monkeypatch.setattr(
        loops.Watcher, "attempt", lambda *args: made.append(attempt(*args)) or made[-1]
    )
    for seed in range(FIRST, FIRST + 20):
        compare(seed)

    assert sum(made) > 5


def test_a_difference_is_found():
    """A loop that looks whether it is compiled."""
    program = "def function(a, *rest):\n for i in range(20): a = a + {step}\n return (a,)\n"

    assert compare_text(program.format(step="i"), FIRST) is None
    assert compare_text(program.format(step="dj.compiler.is_compiling()"), FIRST) is not None
    step = "a * dj.compiler.is_compiling()"
    assert compare_text(program.format(step=step), FIRST, differentiated=True) is not None
