"""`compiler.wrap_numpy`: NumPy functions of tensors, beside PyTorch's."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, GraphBreakError


def program(a: Any, b: Any, scale: float = 2.0) -> Any:
    z = np.tanh(a @ b) * scale
    return {"sum": np.sum(z * a), "parts": [z, (z.mean(axis=0), 3)]}


def _values(library: Any, dtype: str) -> Any:
    return library.arange(9, dtype=getattr(library, dtype)).reshape(3, 3) / 9


def _numbers(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _numbers(item) for key, item in found.items()}
    if isinstance(found, (list, tuple)):
        return type(found)(map(_numbers, found))
    return found if isinstance(found, int) else found.detach().numpy().tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_functions_give_what_pytorch_gives_and_pass_gradients(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library, options in ((torch, {"backend": "eager"}), (dj, {})):
        function = library.compiler.wrap_numpy(program)
        compiled = library.compile(function, fullgraph=True, **options)
        x = _values(library, dtype).requires_grad_(True)
        found = compiled(x, b=x.detach() * 2)
        found["sum"].backward()
        results.append((_numbers(found), x.grad.tolist(), str(found["sum"].dtype).split(".")[1]))

    (expected, gradient, kind), (actual, own_gradient, own_kind) = results
    assert kind == own_kind
    assert np.allclose(expected["sum"], actual["sum"], rtol=1e-5)
    assert np.allclose(expected["parts"][0], actual["parts"][0], rtol=1e-5)
    assert np.allclose(expected["parts"][1][0], actual["parts"][1][0], rtol=1e-5)
    assert expected["parts"][1][1] == actual["parts"][1][1]
    assert np.allclose(gradient, own_gradient, rtol=1e-5)


def test_plain_python_runs_on_numpy_and_gives_tensors() -> None:
    function = dj.compiler.wrap_numpy(program)
    x = _values(dj, "float64")

    found = function(x, x)

    expected = program(x.numpy(), x.numpy())
    assert isinstance(found["sum"], dj.Tensor) and isinstance(found["parts"][0], dj.Tensor)
    assert np.array_equal(expected["parts"][0], found["parts"][0].numpy())
    assert expected["sum"] == found["sum"].item()
    assert "program" == function.__name__


def test_plain_python_refuses_tensors_that_require_gradients() -> None:
    x = _values(dj, "float64").requires_grad_(True)
    with pytest.raises(AutogradError, match="requires grad"):
        dj.compiler.wrap_numpy(program)(x, x)


def test_what_breaks_inside_runs_as_plain_python() -> None:
    seen = []

    def reads(a: Any) -> Any:
        seen.append(float(a.sum()))
        return a * 2

    wrapped = dj.compiler.wrap_numpy(reads)
    compiled = dj.compile(lambda a: wrapped(a) + 1)

    assert [1.0, 3.0, 5.0] == compiled(dj.arange(3.0)).tolist()
    assert [3.0] == seen
    with pytest.raises(AutogradError, match="requires grad"):
        compiled(dj.arange(3.0).requires_grad_(True))


def test_a_write_into_what_passes_a_gradient_is_refused() -> None:
    def writes(a: Any) -> Any:
        b = a * 2
        b[0] = 1
        return b

    compiled = dj.compile(dj.compiler.wrap_numpy(writes))

    assert [1.0, 2.0] == compiled(dj.arange(2.0)).tolist()
    with pytest.raises(AutogradError, match="requires grad"):
        compiled(dj.arange(2.0).requires_grad_(True))


def test_writes_reach_the_tensor_that_was_given() -> None:
    def writes(a: Any) -> Any:
        a += 1
        return a[::2]

    x = dj.arange(4.0)
    found = dj.compile(dj.compiler.wrap_numpy(writes), fullgraph=True)(x)

    assert [1.0, 2.0, 3.0, 4.0] == x.tolist()
    x[2] = 9
    assert [1.0, 9.0] == found.tolist()


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("function", [lambda x: np.cbrt(x) + x, lambda x: np.partition(x, 1) * x])
def test_what_numpy_computes_refuses_what_passes_a_gradient(function: Any, is_whole: bool) -> None:
    compiled = dj.compile(dj.compiler.wrap_numpy(function), fullgraph=is_whole)
    x = dj.tensor([0.5, 2.0, 1.5], dtype=dj.float64, requires_grad=True)

    with pytest.raises(GraphBreakError if is_whole else AutogradError):
        compiled(x)
    assert np.array_equal(compiled(x.detach()).numpy(), function(x.detach().numpy()))
