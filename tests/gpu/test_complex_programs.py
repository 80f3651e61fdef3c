"""Complex numbers in compiled functions on a GPU: kernels compute with pairs."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

pytestmark = [pytest.mark.one_python, pytest.mark.usefixtures("driver")]
rng = np.random.default_rng(0)

DTYPES = (np.complex64, np.complex128)

FUNCTIONS: dict[str, Any] = {
    "products": lambda x, y: x * y - 2 * x + (1 - 3j) * y,
    "quotients": lambda x, y: x / y + 1 / x,
    "real operands": lambda x, y: x * y.real + y.imag - x,
    "magnitudes": lambda x, y: x.abs() + y.angle() * dj.sgn(x).real,
    "exponentials": lambda x, y: dj.exp(x) * dj.polar(y.abs(), x.real),
    "pairs": lambda x, y: dj.view_as_real(x * y).flatten(1),
    "from pairs": lambda x, y: dj.view_as_complex(dj.stack([x.real, y.imag], -1)) * y,
    "matrices": lambda x, y: x @ y.transpose(-1, -2) + x @ y.real.mT.to(x.dtype),
    "sums": lambda x, y: (x * y).sum(0) + (x + y).mean(-1)[:4],
    "moved": lambda x, y: dj.cat([x.flip(0)[1:, ::2], y.roll(1, 0)[:, ::2]]),
    "filled": lambda x, y: x * dj.full((4,), 1 + 2j, dtype=x.dtype, device=x.device) + y,
    "constants": lambda x, y: x * dj.tensor([1, 2j, 3, 4 - 1j], dtype=x.dtype, device=x.device),
    "several": lambda x, y: (x, x * y, (x * y).real, x == y),
}  # fmt: skip


def tensor(*shape: int, dtype: Any = np.complex64, order: Any = "C") -> Any:
    drawn = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return dj.tensor(np.array(drawn, dtype, order=order), device="cuda")


def arrays(result: Any) -> list[Any]:
    found = result if isinstance(result, tuple) else (result,)
    return [part.detach().cpu().numpy() for part in found]


def assert_same(expected: Any, found: Any, dtype: Any) -> None:
    tolerance = 1e-5 if dtype is np.complex64 else 1e-12
    for one, other in zip(arrays(expected), arrays(found), strict=True):
        assert other.dtype == one.dtype
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("strict_programs")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_plan_computes_what_the_cpu_does(name: str, dtype: Any) -> None:
    function = FUNCTIONS[name]
    x, y = tensor(5, 4, dtype=dtype), tensor(5, 4, dtype=dtype)
    compiled = dj.compile(function, fullgraph=True)
    assert_same(function(x.cpu(), y.cpu()), compiled(x, y), dtype)


@pytest.mark.parametrize("name", ["products", "pairs", "matrices", "sums", "several"])
def test_kernels_are_verified(name: str) -> None:
    function = FUNCTIONS[name]
    x, y = tensor(5, 4, order="F"), tensor(5, 4)
    compiled = dj.compile(function, fullgraph=True, options={"verify": True})
    assert_same(function(x.cpu(), y.cpu()), compiled(x, y), np.complex64)


@pytest.mark.usefixtures("strict_programs")
def test_gradients_of_complex_inputs() -> None:
    def energy(x: Any, y: Any) -> Any:
        return (x * y).abs().square().sum()

    x, y = tensor(6, 3).requires_grad_(), tensor(6, 3)
    dj.compile(energy, fullgraph=True)(x, y).backward()
    own = x.detach().cpu().requires_grad_()
    energy(own, y.cpu()).backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), own.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("strict_programs")
def test_written_complex_inputs_are_written() -> None:
    def step(x: Any, y: Any) -> None:
        x.mul_(y)
        dj.view_as_real(x)[:, 0].add_(1)

    x, y = tensor(6, 3), tensor(6, 3)
    own = x.cpu()
    step(own, y.cpu())
    dj.compile(step, fullgraph=True)(x, y)
    np.testing.assert_allclose(x.cpu().numpy(), own.numpy(), rtol=1e-5)


def test_a_row_without_pairs_runs_through_cupy_between_kernels() -> None:
    def function(x: Any, y: Any) -> Any:
        return dj.cumsum(x * y, 0) * 2 + x

    x, y = tensor(6, 3), tensor(6, 3)
    with pytest.warns(match="cumsum of complex numbers has no CUDA kernel"):
        got = dj.compile(function, fullgraph=True)(x, y)
    assert_same(function(x.cpu(), y.cpu()), got, np.complex64)


def test_a_complex_number_of_the_cpu_goes_along() -> None:
    def function(x: Any, factor: Any) -> Any:
        return (x * factor).exp() + 1

    x, factor = tensor(6, 3), dj.tensor(0.5 + 1j)
    with pytest.warns(match="mul: a complex number of the CPU"):
        got = dj.compile(function, fullgraph=True)(x, factor)
    assert_same(function(x.cpu(), factor), got, np.complex64)


def test_an_unaligned_view_of_complex_numbers() -> None:
    """One element in: 8 bytes behind a multiple of 16."""

    def function(x: Any) -> Any:
        return x * x + 1j

    x = tensor(65)[1:]
    assert_same(function(x.cpu()), dj.compile(function, fullgraph=True)(x), np.complex64)
