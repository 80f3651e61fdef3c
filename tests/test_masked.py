"""Reductions of what a mask keeps, windows, and polynomials agree with PyTorch."""

import importlib
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import masked

VALUES = np.array([[-3.0, -2.0, -1.0, 4.0], [0.0, 1.0, 2.0, 0.5], [5.0, 1.5, -2.5, 1.0]])
MASK = np.array([[True, False, True, True], [False] * 4, [False, True, True, False]])
ROW = np.array([True, False, True, True])


@pytest.fixture(scope="module")
def there() -> Any:
    """(PyTorch, torch.masked)."""
    torch = pytest.importorskip("torch")
    return torch, importlib.import_module("torch.masked")


REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "logsumexp", "norm", "var", "std")
ALONG_ONE = ("argmax", "argmin", "median")
SAME_SHAPE = ("cumsum", "cumprod", "softmax", "log_softmax", "softmin")


def outcome(m: Any, module: Any, name: str, kind: str, mask: Any, *dims: Any, **named: Any) -> Any:
    given = m.tensor(VALUES).to(getattr(m, kind))
    chosen = None if mask is None else m.tensor(mask)
    extra: tuple[Any, ...] = (2.0,) if name == "norm" else ()
    try:
        found = getattr(module, name)(given, *extra, *dims, mask=chosen, **named)
    except Exception as error:
        kinds = (ValueError, NotImplementedError, TypeError, RuntimeError)
        return next(k for k in kinds if isinstance(error, k)).__name__
    return found


def compare(there: Any, name: str, kind: str, mask: Any, *dims: Any, **named: Any) -> None:
    expected = outcome(*there, name, kind, mask, *dims, **named)
    found = outcome(dj, masked, name, kind, mask, *dims, **named)
    if isinstance(expected, str):
        assert expected == found
        return
    assert not isinstance(found, str), found
    assert str(expected.dtype).rpartition(".")[2] == str(found.dtype).rpartition(".")[2]
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2}.get(kind, 1e-5)
    one, other = expected.double().numpy(), found.double().numpy()
    np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("mask", [None, MASK, ROW])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_those_of_pytorch(name: str, mask: Any, kind: str, there: Any) -> None:
    for dims in ((1,), (0,), (-1,), ((0, 1),), (None,), ()):
        for keepdim in (False, True):
            options = {"unbiased": True} if name in ("var", "std") else {}
            compare(there, name, kind, mask, *dims, keepdim=keepdim, **options)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "var", "argmax"])
def test_integers_are_reduced_as_by_pytorch(name: str, there: Any) -> None:
    for mask in (None, MASK):
        compare(there, name, "int64", mask, 1)
        compare(there, name, "int32", mask, 1)


@pytest.mark.parametrize("name", ALONG_ONE)
def test_places_and_medians_are_those_of_pytorch(name: str, there: Any) -> None:
    for mask in (None, MASK, ROW):
        for keepdim in (False, True):
            compare(there, name, "float32", mask, 1, keepdim=keepdim)
            compare(there, name, "float32", mask, 0, keepdim=keepdim)
    compare(there, "median", "int64", ROW, 1)
    compare(there, "median", "int64", MASK, 1)


@pytest.mark.parametrize("name", SAME_SHAPE)
def test_results_of_the_same_shape_are_those_of_pytorch(name: str, there: Any) -> None:
    for mask in (None, MASK, ROW):
        for dim in (0, 1, -1):
            compare(there, name, "float32", mask, dim)
    compare(there, name, "int64", MASK, 1)


def test_other_orders_and_options(there: Any) -> None:
    torch, module = there
    for order in (1, 2, 3.0, 0, float("inf"), -float("inf"), -2):
        one = module.norm(torch.tensor(VALUES), order, 1, mask=torch.tensor(MASK)).numpy()
        other = masked.norm(dj.tensor(VALUES), order, 1, mask=dj.tensor(MASK)).numpy()
        np.testing.assert_allclose(other, one)
    one = module.normalize(torch.tensor(VALUES), 2.0, 1, mask=torch.tensor(MASK)).numpy()
    other = masked.normalize(dj.tensor(VALUES), 2.0, 1, mask=dj.tensor(MASK)).numpy()
    np.testing.assert_allclose(other, one)
    x, m = torch.tensor(VALUES), torch.tensor(MASK)
    y, n = dj.tensor(VALUES), dj.tensor(MASK)
    one = module.logaddexp(x, x * 2, input_mask=m, other_mask=~m[:1]).numpy()
    other = masked.logaddexp(y, y * 2, input_mask=n, other_mask=~n[:1]).numpy()
    np.testing.assert_allclose(other, one)
    for correction in (0, 1, 2, 0.5):
        compare(there, "var", "float64", MASK, 1, correction=correction)
    compare(there, "sum", "float32", MASK, 1, dtype=None)
    assert dj.float64 is masked.sum(y.float(), 1, mask=n, dtype=dj.float64).dtype
    with pytest.raises(RuntimeError, match=r"shape|size|expand"):
        masked.sum(y, 1, mask=dj.ones(5, dtype=dj.bool))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "logsumexp", "softmax", "var", "prod"])
def test_gradients_flow_to_what_counts(name: str, there: Any) -> None:
    """Compiled in one graph, too."""
    found = []
    options = {"unbiased": False} if name == "var" else {}
    for m, module, is_compiled in ((*there, False), (dj, masked, False), (dj, masked, True)):

        def call(x: Any, mask: Any, module: Any = module) -> Any:
            return getattr(module, name)(x, 1, mask=mask, **options)

        function = dj.compile(call, fullgraph=True) if is_compiled else call
        x = m.tensor(VALUES[[0, 2]], requires_grad=True)
        result = function(x, m.tensor(MASK[[0, 2]]))
        (result * result).sum().backward()
        found.append(x.grad.numpy())
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-7, atol=1e-9)


def test_tensors_with_masks_are_refused() -> None:
    assert not masked.is_masked_tensor(dj.ones(1))
    for name in ("MaskedTensor", "masked_tensor", "as_masked_tensor"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(masked, name)(dj.ones(1), dj.ones(1))
