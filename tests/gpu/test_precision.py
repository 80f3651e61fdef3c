"""TF32: products of float32 on tensor cores, where a program allows them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.core.errors import InvalidValueError

RANDOM = np.random.default_rng(0)
# Exact in float32; in TF32 its last bits are gone.
FINE = 1 + 2.0**-14


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    dj.set_float32_matmul_precision("highest")


def product(dtype: Any = dj.float32, device: str = "cuda") -> float:
    """The first element of a product of matrices whose exact value is FINE * 32."""
    a = dj.full((32, 32), FINE, dtype=dtype, device=device)
    return (a @ dj.ones(32, 32, dtype=dtype, device=device))[0, 0].item()


@pytest.mark.parametrize(
    ("setting", "value", "allows"),
    [("allow_tf32", True, True), ("allow_tf32", False, False), ("fp32_precision", "tf32", True),
     ("fp32_precision", "ieee", False), ("fp32_precision", "none", False)],
)  # fmt: skip
def test_the_switches_are_one(setting: str, value: Any, allows: bool) -> None:
    """However a program sets it."""
    setattr(dj.backends.cuda.matmul, setting, value)

    assert dj.backends.cuda.matmul.allow_tf32 is allows
    assert ("tf32" if allows else "ieee") == dj.backends.cuda.matmul.fp32_precision
    assert ("high" if allows else "highest") == dj.get_float32_matmul_precision()


@pytest.mark.parametrize("level", ["highest", "high", "medium"])
def test_levels_are_kept(level: str) -> None:
    """All but the highest allow TF32."""
    dj.set_float32_matmul_precision(level)

    assert level == dj.get_float32_matmul_precision()
    assert (level != "highest") is dj.backends.cuda.matmul.allow_tf32


def test_products_are_exact_unless_less_is_allowed() -> None:
    """And again afterwards; other dtypes and the CPU stay as they are."""
    if not dj.cuda.is_tf32_supported():
        pytest.skip("needs a GPU of capability 8.0")
    exact = FINE * 32
    assert exact == product()
    dj.backends.cuda.matmul.allow_tf32 = True
    assert 32.0 == product()
    assert exact == product(dtype=dj.float64)
    assert exact == product(device="cpu")
    with dj.config.override(allow_tf32=False):
        assert exact == product()
    dj.backends.cuda.matmul.allow_tf32 = False
    assert exact == product()


def test_other_words_are_refused() -> None:
    """By name."""
    with pytest.raises(InvalidValueError, match="fp32_precision"):
        dj.backends.cuda.matmul.fp32_precision = "bf16"


@pytest.mark.usefixtures("driver", "kernel_cache")
def test_compiled_convolutions_are_full_unless_tf32_is_allowed() -> None:
    """Whatever was allowed when the function was compiled."""
    x, weight = (RANDOM.standard_normal(shape) for shape in ((2, 32, 6, 6), (64, 32, 3, 3)))
    exact = F.conv2d(dj.from_numpy(x), dj.from_numpy(weight)).numpy()
    given = [dj.from_numpy(a.astype(np.float32)).to("cuda") for a in (x, weight)]
    compiled = dj.compile(F.conv2d, fullgraph=True)
    errors = []
    for allows in (False, True, False):
        dj.backends.cuda.matmul.allow_tf32 = allows
        errors.append(np.abs(compiled(*given).cpu().numpy() - exact).max())

    assert errors[0] == errors[2] < 1e-4 < errors[1] < 0.1
