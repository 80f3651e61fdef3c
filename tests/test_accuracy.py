"""The errors of scalar functions that the documentation states, measured over fewer operands."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import accuracy
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops.table.scalar import OF_LIBRARY, SCALARS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
COMPILER = shutil.which("gcc") or shutil.which("clang")
WIDE = np.finfo(np.longdouble).nmant >= 63
DTYPES = [
    dtypes.float32,
    pytest.param(dtypes.float64, marks=pytest.mark.skipif(not WIDE, reason="needs long double")),
]

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs gcc or clang")


@pytest.fixture(autouse=True)
def kernels_of_tests(kernel_folder: Any) -> Any:
    """Kernels of tests stay out of the user's cache."""
    with config.override(cache_dir=kernel_folder):
        yield


@pytest.mark.one_python
@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", accuracy.functions())
def test_a_function_keeps_the_limit(name: str, dtype: DType) -> None:
    """Edges, and one of every 9973 bit patterns; 20 000 random doubles of each kind."""
    found = accuracy.measure(name, dtype, stride=9973, samples=20_000, edge=64)

    assert found.wrong == 0
    assert found.ulp <= accuracy.LIMIT_ULP, f"{found.ulp} ULP at {found.where!r}"


def test_the_page_names_every_function_and_none_above_the_limit() -> None:
    """One line per unary scalar function of floating operands that the C library has, with both
    errors."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|.*?\|.*?\| ([\d.]+) \|", PAGE.read_text(), re.M)
    known = [SCALARS[name] for name in OF_LIBRARY]
    unary = {
        row.name
        for row in known
        if row.arity == 1 and row.floating is not None and row.kernels is None
    }

    assert unary - {"cast"} == {name for name, _, _ in rows}
    assert max(float(error) for _, *errors in rows for error in errors) <= accuracy.LIMIT_ULP


@needs_compiler
def test_a_wrong_function_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is off by a part in a million, and one that is NaN, do not pass."""
    monkeypatch.setitem(accuracy.REFERENCES, "exp", "exp{l}(x) * (1 + 1e-6)")
    monkeypatch.setitem(accuracy.REFERENCES, "log", "x < 0 ? 0 : log{l}(x)")
    monkeypatch.setattr(accuracy, "_library", accuracy._library.__wrapped__)

    assert accuracy.measure("exp", dtypes.float32, stride=1_000_003, edge=16).ulp > 4
    assert accuracy.measure("log", dtypes.float32, stride=1_000_003, edge=16).wrong > 0


def test_the_page_is_what_the_program_writes() -> None:
    """Head and columns are those of `table`."""
    where = SimpleNamespace(name="exp", points=1e6, ulp=1.0, where=0.5, made="polynomial")
    made = [SimpleNamespace(**vars(where), dtype=d) for d in (dtypes.float32, dtypes.float64)]
    lines = accuracy.table(made, accuracy.STRIDE).splitlines()

    assert lines[0] == PAGE.read_text().splitlines()[0]
    assert set(PAGE.read_text().splitlines()) >= {line for line in lines if line.startswith("| f")}
