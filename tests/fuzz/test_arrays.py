"""Random NumPy programs give what NumPy gives; `DYNAJIT_FUZZ_ARRAYS` sets how many."""

import os

import pytest

from tests.fuzz.arrays import body, compare, compare_lines, run

#: The first program, and how many are compared.
FIRST = 800_000
COUNT = int(os.environ.get("DYNAJIT_FUZZ_ARRAYS", "60"))
#: Programs of one test.
BATCH = 20


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs_are_as_by_numpy(first):
    end = min(first + BATCH, FIRST + COUNT)
    assert [found for seed in range(first, end) if (found := compare(seed)) is not None] == []


def test_many_calls_of_random_programs_succeed():
    kinds = []
    for seed in range(FIRST, FIRST + 40):
        kinds += [not isinstance(call[0][0], type) for call in run(body(seed), seed, lambda f: f)]
    assert sum(kinds) > 0.4 * len(kinds)


def test_a_difference_is_found():
    """A program that looks whether it is compiled."""
    lines = ["import dynajit", "x += 1 if dynajit.compiler.is_compiling() else 2", "return x, y"]

    assert compare_lines(["x += 2", "return x, y"], FIRST) is None
    assert compare_lines(lines, FIRST) is not None
