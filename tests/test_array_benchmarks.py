"""The NumPy programs of the benchmark are compiled unchanged, and its table is printed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from benchmarks.arrays import table
from benchmarks.arrays.programs import PROGRAMS, blur, softmax

SIZE = 0.05


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_are_one_graph_with_numpys_numbers(program: Callable[..., Any]) -> None:
    arguments = PROGRAMS[program](SIZE)
    expected = program(*arguments)

    found = dj.compile(program, fullgraph=True, backend="numpy")(*arguments)

    assert type(expected) is type(found) and expected.dtype == found.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:[\\s\\S]*parallel=True")  # Numba found nothing to run so
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_numba_and_jax_give_numpys_numbers(program: Callable[..., Any]) -> None:
    pytest.importorskip("numba")
    pytest.importorskip("jax")
    calls = dict(table.candidates(program, SIZE, ("numba", "jax"), backend="numpy"))

    assert {"dynajit", "numpy", "numba", "parallel", "jax"} == set(table.first_calls(calls))


@pytest.mark.parametrize("cores", [1, 2])
def test_the_table_tells_ratios_and_compile_times(
    cores: int, capsys: pytest.CaptureFixture[str]
) -> None:
    table.main(size=SIZE, rounds=1, programs=[softmax, blur], cores=cores)

    printed = capsys.readouterr().out
    assert ["softmax", "compile", "blur", "compile", "geometric"] == [
        line.split()[0] for line in printed.splitlines()
    ]


def test_a_form_with_other_numbers_is_not_timed() -> None:
    with pytest.raises(AssertionError, match="other"):
        table.first_calls({"numpy": lambda: np.zeros(2), "other": lambda: np.ones(2)})


def test_unknown_libraries_are_refused() -> None:
    with pytest.raises(SystemExit, match="numba, jax"):
        table.main(compare=["julia"])
