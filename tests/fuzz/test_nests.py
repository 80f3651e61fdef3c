"""Random loops over elements of arrays give what plain Python gives; `DYNAJIT_FUZZ_NESTS` sets how
many."""

import os
from typing import Any

import pytest

from dynajit.capture.execution.nests import nest
from tests.fuzz.nests import compare

pytestmark = pytest.mark.one_python

#: The first program, and how many are compared.
FIRST = 900_000
COUNT = int(os.environ.get("DYNAJIT_FUZZ_NESTS", "40"))
#: Programs of one test.
BATCH = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_loops_over_elements_are_as_in_plain_python(first: int) -> None:
    end = min(first + BATCH, FIRST + COUNT)
    assert [found for seed in range(first, end) if (found := compare(seed)) is not None] == []


def test_many_random_programs_are_nests(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    run = nest._Nest._run
    monkeypatch.setattr(nest._Nest, "_run", lambda *given: made.append(given) or run(*given))
    for seed in range(FIRST, FIRST + 20):
        compare(seed, "numpy")

    assert len(made) > 10


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that looks whether it is compiled."""
    line = "x += dynajit.compiler.is_compiling()"
    body = f"def function(x, *rest):\n import dynajit\n {line}\n return 1,"
    monkeypatch.setattr("tests.fuzz.nests.text", lambda seed: body)

    assert compare(FIRST) is not None
