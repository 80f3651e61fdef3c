"""Complex tensors against PyTorch: values, gradients, views, refusals; in compiled functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, DTypeError, ShapeError
from dynajit.eager.backward.gradcheck import gradcheck, gradgradcheck

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch, the oracle, is not installed")

UNARY = (
    "abs", "neg", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt",
    "square", "reciprocal", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "sigmoid", "sgn", "angle", "conj", "real", "imag", "sum", "mean",
    "prod", "var", "std", "view_as_real", "isnan", "isfinite", "isreal", "trace", "adjoint",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow", "matmul", "eq", "ne", "kron", "where_first")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.normal(size=shape) + 1j * draw.normal(size=shape)


def real_loss(library: Any, value: Any) -> Any:
    """A real number that depends on all parts of `value` differently."""
    weight = np.cos(np.arange(value.numel()) + 1.0).reshape(tuple(value.shape))
    if not value.is_complex():
        return (value * library.tensor(weight)).sum()
    other = library.tensor(np.sin(weight))
    return (value.real * library.tensor(weight)).sum() + (value.imag * other).sum()


def function_of(library: Any, name: str) -> Callable[..., Any]:
    if name == "where_first":
        return lambda x, y: library.where(x == x, x, y)
    return getattr(library, name)  # type: ignore[no-any-return]


def outcome(library: Any, name: str, *arrays: Any) -> list[np.ndarray]:
    """The value of a function, and its gradients."""
    operands = [library.tensor(x, requires_grad=True) for x in arrays]
    value = function_of(library, name)(*operands)
    found = [value.detach().resolve_conj().numpy()]
    if value.requires_grad:
        real_loss(library, value).backward()
        found += [x.grad.resolve_conj().numpy() for x in operands if x.grad is not None]
    return found


def assert_agrees(name: str, *arrays: Any) -> None:
    expected, actual = outcome(torch, name, *arrays), outcome(dj, name, *arrays)
    assert [x.dtype for x in expected] == [x.dtype for x in actual]
    for wanted, found in zip(expected, actual, strict=True):
        precise = found.dtype in (np.float64, np.complex128, np.bool_)
        rtol, atol = (1e-9, 1e-11) if precise else (1e-4, 1e-5)
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


# ---------------------------------------------------------------------------------------------
# values and gradients


@needs_torch
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_complex_tensor_equal_pytorch(name: str, dtype: Any) -> None:
    assert_agrees(name, numbers(3, 3).astype(dtype))


@needs_torch
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_tensors_equal_pytorch(name: str) -> None:
    z, w = numbers(3, 3), numbers(3, 3, seed=1)
    assert_agrees(name, z, w)
    if name not in ("matmul", "where_first"):  # PyTorch refuses these mixed
        assert_agrees(name, z, w.real)
        assert_agrees(name, w.real, z)
        assert_agrees(name, z.astype(np.complex64), w.real.astype(np.float32))
        assert_agrees(name, z, w[0])


@needs_torch
@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, 0, 1.7, 1 - 2j])
def test_powers_equal_pytorch(exponent: complex) -> None:
    z = numbers(4)
    found = []
    for library in (torch, dj):
        x = library.tensor(z, requires_grad=True)
        y = library.tensor(z, requires_grad=True)
        real_loss(library, x**exponent).backward()
        real_loss(library, (2 + abs(exponent)) ** y).backward()
        found.append((x.grad.numpy(), y.grad.numpy()))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)


@needs_torch
def test_gradients_at_zero_equal_pytorch() -> None:
    for name in ("abs", "sgn", "angle", "square", "prod"):
        assert_agrees(name, np.array([0j, 1 + 1j, 0j]))


def test_derivatives_equal_differences_twice() -> None:
    z = dj.tensor(numbers(2, 2), requires_grad=True)
    w = dj.tensor(numbers(2, 2, seed=1), requires_grad=True)
    x = dj.tensor(numbers(2, 2).real, requires_grad=True)
    for function in (
        lambda z, w, x: (z @ w * x).exp(),
        lambda z, w, x: (z.abs() * w.angle() + x, z.sgn() / w),
        lambda z, w, x: dj.view_as_real(z.conj() * w).sum(-1) * x,
        lambda z, w, x: dj.polar(x.exp(), z.real) * dj.view_as_complex(x).prod(),
        lambda z, w, x: (
            dj.cat([z[0], dj.stack([w, w.mT])[1, :, 0]]).cumsum(0) + dj.complex(x, x)[0, 0]
        ),
        lambda z, w, x: (z.mean() * w**x).imag,
    ):
        assert gradcheck(function, (z, w, x))
        assert gradgradcheck(function, (z, w, x))


def test_backward_of_a_complex_number_is_refused() -> None:
    z = dj.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(AutogradError, match="real scalar outputs but got"):
        z.sum().backward()
    with pytest.raises(AutogradError, match="same dtype"):
        z.backward(dj.ones(1))
    z.backward(dj.tensor([1j]))
    assert z.grad.tolist() == [1j]


# ---------------------------------------------------------------------------------------------
# views


def test_views_share_memory() -> None:
    pairs = dj.zeros(3, 2)
    z = dj.view_as_complex(pairs)
    z[1] = 1 + 2j
    z.imag.add_(1)
    dj.view_as_real(z)[2, 0] = 5
    assert pairs.tolist() == [[0, 1], [1, 3], [5, 1]]
    assert z.real.tolist() == [0, 1, 5]


def test_writes_through_views_have_gradients() -> None:
    x = dj.ones(3, 2, requires_grad=True)
    y = x * 2
    z = dj.view_as_complex(y)
    z[0] = 0
    z.imag.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [[0, 0], [2, 6], [2, 6]]


def test_views_take_any_layout() -> None:
    z = dj.tensor(numbers(4, 6))
    for view in (z, z.T, z[::2, 1::2], z[1], z[0, 0], z[:0]):
        expected = np.stack([view.numpy().real, view.numpy().imag], -1)
        np.testing.assert_array_equal(dj.view_as_real(view).numpy(), expected)
        np.testing.assert_array_equal(
            dj.view_as_complex(dj.view_as_real(view).contiguous()).numpy(), view.numpy()
        )


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: dj.view_as_complex(dj.ones(2, 3).T), ShapeError, "stride 1"),
        (lambda: dj.view_as_complex(dj.ones(2, 3)[:, :2]), ShapeError, "divisible by 2"),
        (lambda: dj.view_as_complex(dj.ones(2, 3)), ShapeError, "size 2"),
        (lambda: dj.view_as_complex(dj.tensor(1.0)), ShapeError, "one or more dimensions"),
        (lambda: dj.view_as_complex(dj.ones(2, dtype=dj.int64)), DTypeError, "float and double"),
        (lambda: dj.view_as_real(dj.ones(2)), DTypeError, "complex tensors"),
        (lambda: dj.ones(2).imag, DTypeError, "non-complex"),
        (lambda: dj.complex(dj.ones(2), dj.ones(2, dtype=dj.float64)), DTypeError, "one dtype"),
        (lambda: dj.complex(dj.ones(2).half(), dj.ones(2).half()), DTypeError, "Float or Double"),
        (lambda: dj.polar(dj.ones(2), dj.ones(2, dtype=dj.float64)), DTypeError, "second argument"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    "name", ["floor", "ceil", "round", "sign", "relu", "erf", "lgamma", "amax", "argmax", "sort",
             "max", "median", "softmax"]
)  # fmt: skip
def test_functions_of_ordered_numbers_refuse_complex_ones(name: str) -> None:
    z = dj.tensor([1 + 2j, 3])
    arguments = (0,) if name == "softmax" else ()
    with pytest.raises(RuntimeError):
        getattr(z, name)(*arguments)


def test_comparisons_of_order_are_refused() -> None:
    z = dj.tensor([1 + 2j, 3])
    for compare in (dj.lt, dj.ge, dj.maximum, dj.fmod, dj.atan2, dj.nn.functional.mse_loss):
        with pytest.raises(RuntimeError):
            compare(z, z)
    assert (z == z).all()


# ---------------------------------------------------------------------------------------------
# creation, conversion, text


def test_real_tensors_are_their_own_parts_and_conjugates() -> None:
    x = dj.tensor([1.0, -2.0, float("nan")])
    assert x.real is x
    assert x.conj() is x
    assert not x.is_conj()
    np.testing.assert_allclose(x.angle().numpy(), [0, np.pi, np.nan], rtol=1e-6)
    assert dj.tensor([1, -1]).angle().dtype is dj.float32


def test_infinite_parts_stay_apart() -> None:
    inf = dj.tensor([float("inf"), 0.0])
    z = dj.complex(inf, inf.flip(0))
    assert z.real.tolist() == [float("inf"), 0.0]
    assert z.imag.tolist() == [0.0, float("inf")]


def test_random_numbers_have_unit_variance() -> None:
    dj.manual_seed(0)
    z = dj.randn(20000, dtype=dj.cdouble)
    assert z.dtype is dj.complex128
    assert z.var().item() == pytest.approx(1.0, abs=0.05)
    assert z.real.var().item() == pytest.approx(0.5, abs=0.03)
    u = dj.rand(1000, dtype=dj.cfloat)
    assert 0 <= u.imag.min() < u.imag.max() < 1


def test_casts_to_real_warn() -> None:
    z = dj.tensor([1 + 2j], requires_grad=True)
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        x = z.float()
    x.sum().backward()
    assert x.tolist() == [1.0]
    assert z.grad.tolist() == [1.0]
    assert z.bool().tolist() == [True]


@needs_torch
@pytest.mark.parametrize("data", [[1 + 2j], [[1.5 - 2j, 0], [1e-5j, 3]], [0j, -0j], 1j])
def test_text_equals_pytorchs(data: Any) -> None:
    assert str(torch.tensor(data)) == str(dj.tensor(data))


def test_files_keep_complex_tensors(tmp_path: Any) -> None:
    z = dj.tensor(numbers(2, 3))
    dj.save({"z": z}, tmp_path / "z.pt")
    loaded = dj.load(tmp_path / "z.pt")["z"]
    assert loaded.dtype is dj.complex128
    np.testing.assert_array_equal(loaded.numpy(), z.numpy())


# ---------------------------------------------------------------------------------------------
# rotary embeddings, compiled functions


def rotated(library: Any, x: Any, frequencies: Any) -> Any:
    """Llama's rotary embedding."""
    pairs = library.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return library.view_as_real(pairs * frequencies).flatten(3).type_as(x)


def frequencies(library: Any) -> Any:
    rates = 1.0 / (10000.0 ** (library.arange(0, 8, 2).float() / 8))
    angles = library.outer(library.arange(5).float(), rates)
    return library.polar(library.ones_like(angles), angles).view(1, 5, 1, 4)


def rotary_outcome(library: Any, call: Any) -> tuple[np.ndarray, np.ndarray]:
    x = library.tensor(numbers(2, 5, 3, 8).real.astype(np.float32), requires_grad=True)
    y = call(x, frequencies(library))
    (y * library.tensor(numbers(2, 5, 3, 8).imag.astype(np.float32))).sum().backward()
    return y.detach().numpy(), x.grad.numpy()


@needs_torch
def test_rotary_embeddings_equal_pytorchs() -> None:
    expected = rotary_outcome(torch, lambda x, f: rotated(torch, x, f))
    compiled = dj.compile(lambda x, f: rotated(dj, x, f))
    for call in (lambda x, f: rotated(dj, x, f), compiled):
        for wanted, found in zip(expected, rotary_outcome(dj, call), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_compiled_arithmetic_equals_plain() -> None:
    def function(z: Any, x: Any) -> Any:
        w = (z * x + 1j).exp() / (2 - z)
        return w.abs().sum() + (w.conj() @ z).angle() + w.sum().sgn().abs()

    found = []
    for call in (function, dj.compile(function)):
        z = dj.tensor(numbers(4), requires_grad=True)
        x = dj.tensor(numbers(4).imag, requires_grad=True)
        y = call(z, x)
        y.backward()
        found.append((y.item(), z.grad.numpy(), x.grad.numpy()))
    for wanted, actual in zip(*found, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-12)


def test_compiled_views_share_memory() -> None:
    def function(z: Any) -> Any:
        z.imag.add_(1)
        pairs = dj.view_as_real(z)
        pairs[..., 0] = 5
        return z * 1, pairs

    z = dj.tensor([1 + 2j, 3 - 1j])
    twice, pairs = dj.compile(function)(z)
    pairs[1, 1] = 7
    assert z.tolist() == [5 + 3j, 5 + 7j]
    assert twice.tolist() == [5 + 3j, 5]
