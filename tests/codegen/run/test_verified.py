"""`verify=True`: a wrong kernel is found where it is, and rounding is not reported."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn
from dynajit.codegen.c import text as c_text
from dynajit.codegen.run import verified
from dynajit.core.errors import ArgumentError, PrecisionWarning, VerificationError

pytestmark = pytest.mark.c_only

VERIFY = {"verify": True}


@pytest.fixture(autouse=True)
def strict(strict_programs: None) -> None:
    """Errors while compiling are errors."""


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """`plant(kernel, old, new)`: kernels with this in their name are printed wrongly."""

    def change(kernel: str, old: str, new: str) -> None:
        print_kernel = c_text.print_kernel

        def print_wrongly(given: Any) -> Any:
            function = print_kernel(given)
            if kernel not in function.name:
                return function
            assert old in function.text, function.text
            return replace(function, text=function.text.replace(old, new))

        monkeypatch.setattr(c_text, "print_kernel", print_wrongly)

    return change


def normal(*shape: int, seed: int = 0) -> Any:
    """A float32 tensor."""
    array = np.random.default_rng(seed).standard_normal(shape)
    return dj.tensor(array.astype(np.float32))


def several(x: Any, w: Any) -> Any:
    """Three kernels: a product, column sums, a product."""
    hidden = x @ w
    total = (hidden * 0.1).exp().sum(0)
    return total @ w.t()


def test_right_kernels_give_the_plain_result() -> None:
    """Nothing changes but the time it takes."""
    x, w = normal(64, 30), normal(30, 40, seed=1)

    found = dj.compile(several, options=VERIFY)(x, w)

    assert np.array_equal(dj.compile(several)(x, w).numpy(), found.numpy())


def test_a_wrong_kernel_is_named_with_values_file_and_line(plant: Any) -> None:
    """The second of three kernels is wrong by one part in a hundred; the third is not blamed."""
    plant("k1_", "dj_exp_f32(", "1.01f * dj_exp_f32(")
    x, w = normal(64, 30), normal(30, 40, seed=1)

    with pytest.raises(VerificationError, match=r"kernel k1_\w+ of several .* 40 of 40") as caught:
        dj.compile(several, options=VERIFY)(x, w)

    text = str(caught.value)
    wanted = (0.1 * (x @ w).numpy()).astype(np.float64)
    assert f"NumPy computes {np.exp(wanted).sum(0)[0]:.4f}"[:-1] in text
    assert "total = (hidden * 0.1).exp().sum(0)" in text and __file__ in text
    line, file = text.split("is at line ")[1].split(".c.")[0].split(" of ")
    assert "void k1_" in Path(file + ".c").read_text().splitlines()[int(line) - 1]


def test_one_wrong_element_is_found(plant: Any) -> None:
    """The last of a row: what a wrong remainder of a loop would do."""
    plant("k0_", "const float t1 = in0[i0];", "const float t1 = in0[i0] + 1e-3f * (i0 == 36);")

    with pytest.raises(VerificationError, match=r"1 of 37 elements .* First at \[36\]"):
        dj.compile(lambda x: x * 2 + 1, options=VERIFY)(normal(37))


def test_a_wrong_integer_is_found(plant: Any) -> None:
    """Integers that no floating value decides are compared exactly."""
    plant("k0_", "const int64_t t1 = in0[i0];", "const int64_t t1 = in0[i0] + (i0 == 3);")

    with pytest.raises(VerificationError, match=r"1 of 5 elements .* it computed 8, NumPy .* 7"):
        dj.compile(lambda x: x * 1 + 4, options=VERIFY)(dj.arange(5))


def test_a_wrong_backward_kernel_is_found(plant: Any) -> None:
    """Backward programs are verified, too."""
    plant("sum", "_sum[i1] = a0_sum", "_sum[i1] = 1.5f * a0_sum")
    layer = nn.Linear(20, 30)
    compiled = dj.compile(lambda x: layer(x), options=VERIFY)
    out = compiled(normal(40, 20))

    with pytest.raises(VerificationError, match=r"of \S+_backward computes"):
        out.backward(normal(40, 30, seed=2))


def flipped(x: Any) -> Any:
    """Comparisons of numbers that are equal but for rounding."""
    y = x.exp().log()
    return (y > x).to(dj.float32), (x - x.mean() > 0).sum(), (y - x).sign()


PROGRAMS = {
    "long rows": lambda: (lambda x: (x.sum(), x.mean(), x.var()), normal(3, 400_001)),
    "sum of one sign": lambda: (lambda x: (x * 0 + 0.1).sum(0), normal(300_000, 2)),
    "cancellation": lambda: (lambda x: (x - x.mean(1, keepdim=True)).sum(1), normal(50, 1000)),
    "sum of nothing but rounding": lambda: (
        lambda x: ((x - x.mean(1, keepdim=True)).contiguous().sum(), (x - x.mean()).mean()),
        normal(50, 1000),
    ),
    "cancellation within a row": lambda: (
        lambda x: F.gelu(x * 4, approximate="tanh"), normal(9000)
    ),
    "softmax": lambda: (lambda x: (F.softmax(x * 30, 1), F.log_softmax(x, 1)), normal(64, 100)),
    "masks": lambda: (
        lambda x: F.softmax(x.masked_fill(x > 0, -1e9), 1) + x.masked_fill(x < 0, -np.inf),
        normal(40, 60),
    ),
    "not finite": lambda: (
        lambda x: (x.exp(), x.log(), x * x, 1 / x, x.sum(), x.amax()),
        dj.tensor([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, -3e38, 1e-45, 88.8, 104.0]),
    ),
    "integers": lambda: (
        lambda x: (x * 0x9E3779B97F4A7C1, x // 7, x % 5, x.argmax(), x.cumsum(0), x.sum()),
        dj.arange(-500, 500),
    ),
    "flipped": lambda: (flipped, normal(5000)),
    "random": lambda: (lambda x: F.dropout(x + dj.rand(200), 0.5), normal(200)),
    "half": lambda: (lambda x: (x.half().exp().sum(1), x.bfloat16().tanh()), normal(30, 200)),
    "products": lambda: (lambda x: F.gelu(x @ x.t()) @ x, normal(150, 40)),
    "indices": lambda: (lambda x: x[dj.tensor([3, 1, -1])].sort()[0], normal(9)),
    "empty": lambda: (lambda x: (x.sum(0), x * 2), dj.zeros(0, 4)),
    "convolution": lambda: (
        lambda x: F.max_pool2d(F.conv2d(x, normal(5, 3, 3, 3)), 2), normal(2, 3, 15, 15)
    ),
}  # fmt: skip


#: Programs with a value that float32 has lost: all of it is rounding, or it is not finite.
LOST = {
    "cancellation": "sum",
    "sum of nothing but rounding": "sum",
    "flipped": "sub_1",
    "not finite": "exp",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rounding_is_not_reported(name: str) -> None:
    """NaN, infinities, integers, random numbers, long sums, equal comparisons; but where float64
    has another value, the operation is named."""
    function, x = PROGRAMS[name]()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dj.compile(function, options=VERIFY)(x)

    expected = [f"verify: {LOST[name]} of "] if name in LOST else []
    assert expected == [str(w.message)[: len(e)] for w, e in zip(caught, expected, strict=True)]
    assert all(w.category is PrecisionWarning for w in caught)


def test_training_is_verified_without_a_report() -> None:
    """Forward and backward of a layer norm and a loss."""
    model = nn.Sequential(nn.Linear(30, 50), nn.LayerNorm(50), nn.GELU(), nn.Linear(50, 7))
    compiled = dj.compile(model, options=VERIFY)

    loss = F.cross_entropy(compiled(normal(64, 30)), dj.arange(64) % 7)
    loss.backward()

    assert all(parameter.grad is not None for parameter in model.parameters())


def test_symbolic_sizes_are_verified() -> None:
    """One version for several sizes."""
    compiled = dj.compile(lambda x: (x.exp().sum(1), x + 1), dynamic=True, options=VERIFY)

    for rows in (2, 5, 700):
        compiled(normal(rows, 9))
    assert 1 == compiled.report().entries


def test_only_native_kernels_are_verified() -> None:
    """Another backend, and an unknown option, are refused."""
    with pytest.raises(ArgumentError, match="backend='native'"):
        dj.compile(several, backend="numpy", options=VERIFY)
    with pytest.raises(ArgumentError, match=r"not known.*'verify'"):
        dj.compile(several, options={"verfy": True})


@pytest.mark.parametrize(
    ("want", "got", "is_wrong"),
    [(np.nan, np.inf, False), (np.nan, np.nan, False), (np.inf, np.inf, False),
     (np.inf, -np.inf, True), (np.nan, 1.0, True), (1.0, np.nan, True), (np.inf, 1.0, True)],
)  # fmt: skip
def test_only_nan_and_infinity_may_stand_for_each_other(
    want: float, got: float, is_wrong: bool
) -> None:
    """Neither for a number, nor one infinity for the other."""
    runs = (np.full(3, want, np.float32),) * 5

    wrong, _ = verified._wrong_floats(runs[0], np.full(3, got, np.float32), verified._Value(runs))

    assert [is_wrong] * 3 == wrong.tolist()
