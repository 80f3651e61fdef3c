"""Random training steps behave compiled as they do eagerly; `DYNAJIT_FUZZ_STEPS` sets how many."""

import os

import pytest

from tests.fuzz.steps import body, compare, compare_lines, run, settings, shrunk

#: The first program, and how many are compared.
FIRST = 700_000
COUNT = int(os.environ.get("DYNAJIT_FUZZ_STEPS", "30"))
#: Programs of one test.
BATCH = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_steps_are_as_in_eager_execution(first):
    end = min(first + BATCH, FIRST + COUNT)
    assert [found for seed in range(first, end) if (found := compare(seed)) is not None] == []


def test_most_calls_of_random_steps_succeed():
    kinds = []
    for seed in range(FIRST, FIRST + 20):
        with settings():
            kinds += [call[0] == "value" for call in run(body(seed), seed, lambda step: step)]
    assert sum(kinds) > 0.4 * len(kinds)


def test_a_difference_is_found_and_shrunk(monkeypatch):
    """A step that looks whether it is compiled."""
    lines = ["t2 = x * W", "x.add_(1 if dj.compiler.is_compiling() else 2)", "return t2"]
    monkeypatch.setattr("tests.fuzz.steps.body", lambda seed: lines)

    assert compare_lines(["t2 = x * W", "return t2"], FIRST) is None
    assert compare(FIRST) is not None
    assert shrunk(FIRST) == [lines[1]]
