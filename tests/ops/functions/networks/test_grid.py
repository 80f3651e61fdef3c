"""`grid_sample` and `affine_grid` against PyTorch: every mode and padding, gradients, compiled."""

import itertools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import InvalidValueError, ShapeError, UnsupportedError

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
INPUTS = {n: RANDOM.standard_normal((2, 3, *(5, 4, 6)[:n])) for n in (2, 3)}
GRIDS = {n: RANDOM.uniform(-1.6, 1.6, (2, *(4, 3, 5)[:n], n)) for n in (2, 3)}
for _grid in GRIDS.values():
    _grid[0].flat[:4] = [-1, 1, 0, -3]  # edges, the middle, and far away

OPTIONS = [
    (n, mode, padding, aligned)
    for n, mode, padding, aligned in itertools.product(
        (2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    )
    if not (n == 3 and mode == "bicubic")
]


def found(library: Any, x: np.ndarray, grid: np.ndarray, *options: Any, run: Any = None) -> Any:
    """Result and gradients of input and grid (zeros where there is none)."""
    tensors = [library.from_numpy(array.copy()).requires_grad_() for array in (x, grid)]
    sample = run or library.nn.functional.grid_sample
    result = sample(*tensors, *options)
    (result * result.cos()).sum().backward()
    gradients = [t.grad if t.grad is not None else library.zeros_like(t) for t in tensors]
    return [t.detach().numpy() for t in (result, *gradients)]


@pytest.mark.parametrize(("n", "mode", "padding", "aligned"), OPTIONS)
def test_samples_equal_pytorchs(n: int, mode: str, padding: str, aligned: bool) -> None:
    """Values and both gradients, at edges and outside, too."""
    arguments = (INPUTS[n], GRIDS[n], mode, padding, aligned)
    for theirs, ours in zip(found(torch, *arguments), found(dj, *arguments), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("mode", "padding"), [("bilinear", "zeros"), ("bicubic", "reflection")])
def test_compiled_samples_are_the_same(mode: str, padding: str) -> None:
    """In one graph, gradients too."""

    def sample(x: Any, grid: Any) -> Any:
        return dj.nn.functional.grid_sample(x, grid, mode, padding, False)

    expected = found(dj, INPUTS[2], GRIDS[2], run=sample)
    actual = found(dj, INPUTS[2], GRIDS[2], run=dj.compile(sample, fullgraph=True))
    for eager, compiled in zip(expected, actual, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 4, 5)])
def test_affine_grids_equal_pytorchs(size: tuple[int, ...], aligned: bool) -> None:
    """With the gradient of the maps, and as what a sampler reads."""
    n = len(size) - 2
    maps = RANDOM.standard_normal((2, n, n + 1))
    results = []
    for library in (torch, dj):
        theta = library.from_numpy(maps).requires_grad_()
        grid = library.nn.functional.affine_grid(theta, size, align_corners=aligned)
        grid.cos().sum().backward()
        results.append([grid.detach().numpy(), theta.grad.numpy()])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_places_that_are_no_numbers_read_zeros() -> None:
    """Infinity and NaN lie outside; 16-bit floats are computed with more bits."""
    x, grid = dj.ones(1, 1, 2, 2), dj.tensor([[[[float("inf"), 0.0], [float("nan"), 0.0]]]])
    assert 0 == dj.nn.functional.grid_sample(x, grid, "nearest").abs().sum().item()
    half = dj.nn.functional.grid_sample(x.bfloat16(), dj.zeros(1, 1, 1, 2).bfloat16())
    assert dj.bfloat16 is half.dtype
    assert 1.0 == half.item()


REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "mode": (lambda t, f: f.grid_sample(t.ones(1, 1, 2, 2), t.ones(1, 1, 1, 2), "cubic"),
             InvalidValueError),
    "padding": (lambda t, f: f.grid_sample(t.ones(1, 1, 2, 2), t.ones(1, 1, 1, 2), "nearest", "x"),
                InvalidValueError),
    "rank": (lambda t, f: f.grid_sample(t.ones(1, 2, 2), t.ones(1, 1, 2), "nearest", "zeros", True),
             ShapeError),
    "batch": (
        lambda t, f: f.grid_sample(t.ones(2, 1, 2, 2), t.ones(1, 1, 1, 2), align_corners=True),
        ShapeError,
    ),
    "dims": (lambda t, f: f.grid_sample(t.ones(1, 1, 2, 2), t.ones(1, 1, 1, 3), align_corners=True),
             ShapeError),
    "maps": (lambda t, f: f.affine_grid(t.ones(1, 2, 2), [1, 1, 2, 2], align_corners=True),
             InvalidValueError),
    "sizes": (lambda t, f: f.affine_grid(t.ones(1, 2, 3), [1, 1, 2], align_corners=True),
              UnsupportedError),
    "no floats": (lambda t, f: f.affine_grid(t.ones(1, 2, 3).long(), [1, 1, 2, 2], True),
                  InvalidValueError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_pytorchs_class(name: str) -> None:
    """ValueError, RuntimeError or NotImplementedError."""
    call, error = REFUSED[name]
    with pytest.raises((ValueError, RuntimeError)) as expected:
        call(torch, torch.nn.functional)
    with pytest.raises(error) as actual:
        call(dj, dj.nn.functional)
    assert isinstance(actual.value, type(expected.value))
