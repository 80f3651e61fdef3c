"""Complex numbers in compiled functions: native code, views of parts, gradients, refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

DTYPES = (np.complex64, np.complex128)


def normal(*shape: int, dtype: Any = np.complex64, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return dj.from_numpy((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype))


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "products": lambda x, y: x * y - 2 * x + (1 - 3j) * y,
    "quotients": lambda x, y: x / y + 1 / x,
    "real operands": lambda x, y: x * y.real + y.imag - x,
    "conjugates": lambda x, y: x.conj() * y,
    "magnitudes": lambda x, y: x.abs() + y.angle() * dj.sgn(x).real,
    "exponentials": lambda x, y: dj.exp(x) * dj.polar(y.abs(), x.real),
    "pairs": lambda x, y: dj.view_as_real(x * y).flatten(1),
    "from pairs": lambda x, y: dj.view_as_complex(dj.stack([x.real, y.imag], -1)) * y,
    "matrices": lambda x, y: x @ y.transpose(-1, -2) + x @ y.real.mT.to(x.dtype),
    "sums": lambda x, y: (x * y).sum(0) + (x + y).mean(-1)[:4],
    "moved": lambda x, y: dj.cat([x.flip(0)[1:, ::2], y.roll(1, 0)[:, ::2]]),
    "chosen": lambda x, y: dj.where(x.real > y.imag, x, y.real),
    "padded": lambda x, y: dj.nn.functional.pad(x, (1, 1))[:, :4] * y,
    "gathered": lambda x, y: x[[0, 2]] + x.index_add(0, dj.tensor([0, 2]), y[:2])[:2],
    "filled": lambda x, y: x * dj.full((4,), 1 + 2j, dtype=x.dtype) + dj.zeros_like(y),
    "several": lambda x, y: (x, x * y, (x * y).real, x == y),
    "rotary": lambda x, y: (
        dj.view_as_real(dj.view_as_complex(x.real.reshape(5, 2, 2).contiguous()) * y[:, :2])
        .flatten(1)
    ),
}  # fmt: skip


def _arrays(result: Any) -> list[np.ndarray]:
    return [part.detach().numpy() for part in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_graph_of_native_code_computes_what_eager_does(name: str, dtype: Any) -> None:
    """Also of operands that lie column by column, and with every kernel checked."""
    function = FUNCTIONS[name]
    tolerance = 1e-5 if dtype is np.complex64 else 1e-12
    for order, verify in (("C", False), ("F", True)):
        x, y = normal(5, 4, dtype=dtype), normal(5, 4, dtype=dtype, seed=1)
        x = dj.from_numpy(np.array(x.numpy(), order=order))
        compiled = dj.compile(function, fullgraph=True, options={"verify": verify})

        expected, found = _arrays(function(x, y)), _arrays(compiled(x, y))

        for one, other in zip(expected, found, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "several"])
def test_gradients_are_those_of_eager(name: str) -> None:
    """Of a real sum of the result, for both operands."""
    found = []
    for run in (FUNCTIONS[name], dj.compile(FUNCTIONS[name], fullgraph=True)):
        x, y = normal(5, 4, dtype=np.complex128), normal(5, 4, dtype=np.complex128, seed=1)
        x.requires_grad_(True), y.requires_grad_(True)
        result = run(x, y)
        (result.abs() ** 2).sum().backward()
        found.append([None if t.grad is None else t.grad.numpy() for t in (x, y)])

    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "function", [lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x + 2.0 * y, lambda x, y: -x]
)
def test_infinities_and_nan_go_where_numpy_puts_them(function: Callable[[Any, Any], Any]) -> None:
    """Every pair of special parts, zeros among them."""
    parts = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]
    numbers = np.array([complex(a, b) for a in parts for b in parts])
    x, y = dj.from_numpy(np.repeat(numbers, 49)), dj.from_numpy(np.tile(numbers, 49))

    expected, found = function(x, y).numpy(), dj.compile(function, fullgraph=True)(x, y).numpy()

    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(found), part(expected), rtol=1e-14)


def test_writes_through_views_of_parts_reach_the_base() -> None:
    """`real`, `imag`, and pairs, of an argument and of a result."""

    def function(x: Any, y: Any) -> Any:
        x.real.mul_(2)
        dj.view_as_real(x)[..., 1].add_(1)
        z = x * y
        z.imag.copy_(y.real)
        dj.view_as_complex(y.real.reshape(5, 2, 2).clone())
        return z

    found = []
    for run in (function, dj.compile(function, fullgraph=True)):
        x, y = normal(5, 4), normal(5, 4, seed=1)
        z = run(x, y)
        found.append([x.numpy(), z.numpy()])

    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)


def test_results_that_are_views_share_memory() -> None:
    """Parts of an argument, and of a result."""

    @dj.compile(fullgraph=True)
    def function(x: Any) -> Any:
        z = x * 2
        return x.imag, z, dj.view_as_real(z)

    x = normal(3)
    part, z, pairs = function(x)
    part.zero_()
    pairs[..., 0].fill_(7)

    assert [0.0] * 3 == x.imag.tolist()
    assert [7.0] * 3 == z.real.tolist()


def test_sizes_may_vary() -> None:
    """One version for all of them."""
    compiled = dj.compile(lambda x, y: dj.view_as_real(x * y).sum(-1), dynamic=True)
    for rows in (3, 5, 9):
        x, y = normal(rows, 4), normal(rows, 4, seed=rows)
        expected = dj.view_as_real(x * y).sum(-1)
        np.testing.assert_allclose(compiled(x, y).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)

    assert 1 == compiled.report().graphs


def test_pairs_that_do_not_lie_side_by_side_are_refused_as_eagerly() -> None:
    """The graph breaks, and the real call raises."""
    compiled = dj.compile(lambda x: dj.view_as_complex(x.transpose(0, 1)) * 2)

    with pytest.raises(dj.errors.ShapeError, match="last dimension with stride 1"):
        compiled(dj.ones(2, 3))


def test_functions_without_pairs_run_on_numpy_between_kernels() -> None:
    """The rest of the graph has kernels."""
    function = lambda x: dj.sqrt(x * 2).abs() + x.real
    compiled = dj.compile(function, fullgraph=True)
    x = normal(3)

    np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-6)

    explained = str(dj.explain(function)(x))
    assert "by NumPy between them: sqrt of complex numbers has no native code" in explained
    assert "forward: 2 kernels" in explained


def test_a_complex_constant_may_be_a_result() -> None:
    """Beside what is computed."""
    compiled = dj.compile(lambda x: (x * 2, dj.tensor([1 + 2j, 3 - 1j])), fullgraph=True)

    twice, constant = compiled(normal(2))

    np.testing.assert_allclose(twice.numpy(), 2 * normal(2).numpy())
    assert [1 + 2j, 3 - 1j] == constant.tolist()


def test_gradients_of_pairs_seen_as_complex_numbers_are_pairs() -> None:
    """What comes back is a complex input, which the graph of gradients knows as floats."""
    pairs = dj.randn(3, 2).requires_grad_()
    dj.compile(lambda x: dj.view_as_complex(x.clone()), fullgraph=True)(pairs).backward(normal(3))

    assert pairs.grad.dtype is dj.float32
    np.testing.assert_array_equal(pairs.grad.numpy(), dj.view_as_real(normal(3)).numpy())
