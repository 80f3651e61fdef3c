"""Random loops over rows give what plain Python gives; `DYNAJIT_FUZZ_ROWS` sets how many."""

import os

import pytest

from dynajit.capture.execution.nests import nest
from tests.fuzz.rows import compare, compare_text

pytestmark = pytest.mark.one_python

FIRST = 500
COUNT = int(os.environ.get("DYNAJIT_FUZZ_ROWS", "40"))
#: Programs of one test.
BATCH = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_loops_over_rows_are_as_in_plain_python(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    attempt = nest._is_made

    def watched(*args, **named):
        made.append(attempt(*args, **named))
        return made[-1]

    monkeypatch.setattr(nest, "_is_made", watched)
    end = min(first + BATCH, FIRST + COUNT)
    assert [told for seed in range(first, end) if (told := compare(seed)) is not None] == []
    assert sum(made) > 3


def test_a_difference_is_found() -> None:
    program = "def function(x, *rest):\n x[0] += {}\n for i in range(5): x[i] += i\n return 0\n"

    assert compare_text(program.format("i"), FIRST) is None
    assert compare_text(program.format("3 if dj.compiler.is_compiling() else 2"), FIRST) is not None
