"""What in-place draws fill with: distributions, errors and dtypes of PyTorch; compiled as eager."""

import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DTypeError, UnsupportedError

COUNT = 40_000
FLOATING = ("float32", "float64", "float16", "bfloat16")

CONTINUOUS = {
    "exponential_": ((2.5,), lambda x: -np.expm1(-2.5 * x)),
    "cauchy_": ((1.0, 3.0), lambda x: 0.5 + np.arctan((x - 1.0) / 3.0) / np.pi),
    "log_normal_": (
        (0.5, 0.25),
        lambda x: np.array([0.5 * math.erfc((0.5 - math.log(v)) / 0.25 / 2**0.5) for v in x]),
    ),
    "uniform_": ((-1.0, 3.0), lambda x: (x + 1.0) / 4.0),
    "normal_": (
        (1.0, 2.0),
        lambda x: np.array([0.5 * math.erfc((1.0 - v) / 2.0 / 2**0.5) for v in x]),
    ),
}


def filled(name: str, arguments: tuple[Any, ...], dtype: str, count: int = COUNT) -> Any:
    generator = dj.Generator().manual_seed(11)
    return getattr(dj.empty(count, dtype=getattr(dj, dtype)), name)(*arguments, generator=generator)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_values_have_the_distribution(name: str, dtype: str) -> None:
    """Kolmogorov-Smirnov at the level of one in a thousand, and the rounding of narrow dtypes."""
    arguments, distribution = CONTINUOUS[name]
    drawn = np.sort(filled(name, arguments, dtype).double().numpy())
    expected = distribution(drawn[np.isfinite(drawn)])
    steps = np.arange(1, COUNT + 1)[np.isfinite(drawn)] / COUNT

    rounding = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 0.0)
    assert np.abs(expected - steps).max() < 1.95 / math.sqrt(COUNT) + rounding


@pytest.mark.parametrize("dtype", [*FLOATING, "int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("p", [0.2, 0.5, 0.97])
def test_geometric_counts_trials(p: float, dtype: str) -> None:
    """From 1 on; each count has its chance."""
    drawn = filled("geometric_", (p,), dtype).double().numpy()

    assert 1.0 == drawn.min()
    for trials in range(1, 6):
        chance = p * (1 - p) ** (trials - 1)
        spread = 4.5 * math.sqrt(chance / COUNT) + 1e-4
        assert abs((drawn == trials).mean() - chance) < spread


def test_geometric_of_a_small_chance_is_spread_out() -> None:
    drawn = filled("geometric_", (1e-9,), "int64").double().numpy()

    assert len(set(drawn)) > 0.99 * COUNT
    assert 1e9 == pytest.approx(drawn.mean(), rel=0.03)


@pytest.mark.parametrize("dtype", FLOATING)
def test_exponential_is_never_zero(dtype: str) -> None:
    """Programs divide by it."""
    drawn = filled("exponential_", (), dtype, 3_000_000)

    assert (drawn > 0).all()
    assert drawn.isfinite().all()


BAD = {
    "exponential_": [(0,), (-1,), (math.nan,)],
    "geometric_": [(0,), (1,), (-0.5,), (2,), (math.nan,)],
    "cauchy_": [(0, 0), (0, -1), (0, math.nan)],
    "log_normal_": [(0, 0), (0, -1), (0, math.nan)],
    "normal_": [(0, -1), (0, math.nan)],
    "uniform_": [(1, 0)],
    "bernoulli_": [(2.0,), (-0.1,), (math.nan,)],
    "random_": [(3, 3), (0,), (4, 1)],
}


@pytest.mark.parametrize(("name", "arguments"), [(n, a) for n, all_ in BAD.items() for a in all_])
def test_numbers_out_of_range_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    """With PyTorch's class of errors, which is no kind of TypeError."""
    for count in (0, 3):
        with pytest.raises(RuntimeError, match=name):
            getattr(dj.empty(count), name)(*arguments)


@pytest.mark.parametrize("dtype", ["float16", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("exponential_", ()), ("geometric_", (0.5,)), ("cauchy_", ()), ("log_normal_", ()),
     ("uniform_", ()), ("bernoulli_", ())],
)  # fmt: skip
def test_dtypes_are_taken_as_by_pytorch(name: str, arguments: tuple[Any, ...], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    try:
        getattr(torch.empty(3, dtype=getattr(torch, dtype)), name)(*arguments)
    except RuntimeError as refused:
        expected: Any = type(refused)
        assert expected in (RuntimeError, NotImplementedError)
        with pytest.raises(DTypeError if expected is RuntimeError else UnsupportedError):
            getattr(dj.empty(3, dtype=getattr(dj, dtype)), name)(*arguments)
        return
    result = getattr(dj.empty(3, dtype=getattr(dj, dtype)), name)(*arguments)
    assert getattr(dj, dtype) is result.dtype


def test_history_is_overwritten() -> None:
    """The gradient of what was there before is zero."""
    leaf = dj.ones(3, requires_grad=True)
    part = (leaf * 2).exponential_()
    part.sum().backward()

    assert [0.0] * 3 == leaf.grad.tolist()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.cauchy_()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.exponential_(2.0), lambda x: x.exponential_(lambd=1, generator=None),
        lambda x: x.geometric_(0.3), lambda x: x.cauchy_(1, 2), lambda x: x.log_normal_(0, 0.5),
        lambda x: x.random_(3, 9), lambda x: x.random_(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_compiled_draws_are_those_of_eager_execution(call: Any, dtype: str) -> None:
    """In one graph; functions round in their last place."""
    compiled = dj.compile(lambda x: call(x.clone()), fullgraph=True)
    x = dj.zeros(3, 5, dtype=getattr(dj, dtype))
    found = []
    for run in (lambda x: call(x.clone()), compiled, compiled):
        dj.manual_seed(3)
        found.append((run(x).double().numpy(), run(x).double().numpy()))
    tolerance = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3}[dtype]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=tolerance)
    assert (found[0][0] != found[0][1]).any() or np.isinf(found[0][0]).all()


def test_a_compiled_sampler_draws_the_words_of_eager_execution() -> None:
    """The race of exponential clocks, as text generators write it."""

    def sample(probabilities: Any) -> Any:
        clocks = dj.empty_like(probabilities).exponential_(1)
        return dj.argmax(probabilities / clocks, dim=-1, keepdim=True).to(dtype=dj.int)

    probabilities = dj.softmax(dj.arange(400.0).reshape(4, 100) % 7, -1)
    compiled = dj.compile(sample, fullgraph=True)
    found = []
    for run in (sample, compiled):
        dj.manual_seed(5)
        found.append([run(probabilities).tolist() for _ in range(5)])
    assert found[0] == found[1]


def test_the_sampler_draws_by_the_probabilities() -> None:
    probabilities = dj.tensor([0.1, 0.2, 0.7]).expand(COUNT, 3)
    clocks = dj.empty(COUNT, 3).exponential_(1, generator=dj.Generator().manual_seed(2))
    counts = dj.bincount(dj.argmax(probabilities / clocks, -1), minlength=3).double() / COUNT

    np.testing.assert_allclose(counts.numpy(), [0.1, 0.2, 0.7], atol=0.01)


def test_a_chance_that_is_not_known_breaks_the_graph() -> None:
    """It has to be checked; the result is that of eager execution."""

    def program(x: Any, rate: Any) -> Any:
        return x.clone().exponential_(rate.item())

    rate = dj.tensor(2.0)
    compiled = dj.compile(program)
    dj.manual_seed(3)
    expected = program(dj.zeros(4), rate).tolist()
    dj.manual_seed(3)
    assert expected == pytest.approx(compiled(dj.zeros(4), rate).tolist(), rel=1e-6)
