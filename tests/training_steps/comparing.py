"""Eager and compiled trainings from one seed, and what differs in all that they leave behind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import dynajit as dj
from tests.training_steps.models import Training, batches


@contextmanager
def in_doubles() -> Iterator[None]:
    """Tensors are float64 within, and defects of dynajit's own are errors."""
    before = dj.get_default_dtype()
    dj.set_default_dtype(dj.float64)
    try:
        with dj.config.override(strict=True):
            yield
    finally:
        dj.set_default_dtype(before)


def trained(
    make: Callable[[], Training], count: int, **options: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Losses and state after `count` calls; compiled if there are options."""
    dj.manual_seed(3)
    training = make()
    step = dj.compile(training.step, **options) if options else training.step
    losses = [step(*batch) for batch in batches(training, count)]
    return losses, {**training.state(), "drawn next": dj.rand(3)}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What dicts, lists and tuples hold, by path; the order of keys is a leaf, too."""
    if isinstance(value, dict):
        yield f"{path} keys", list(value)
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        yield f"{path} length", len(value)
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def differences(expected: Any, actual: Any, tolerance: float) -> list[str]:
    """Paths of what differs: tensors by more than `tolerance` times their largest element."""
    left, right = dict(leaves(expected)), dict(leaves(actual))
    if left.keys() != right.keys():
        return sorted(left.keys() ^ right.keys())
    return [
        f"{path}: {value} expected, found {right[path]}"
        for path, value in left.items()
        if not _is_near(value, right[path], tolerance)
    ]


def _is_near(a: Any, b: Any, tolerance: float) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a == b or abs(a - b) <= 1e-12 * abs(a)
    if not isinstance(a, dj.Tensor):
        return bool(a == b)
    alike = (a.dtype, a.shape, a.stride(), a.requires_grad) == (
        b.dtype, b.shape, b.stride(), b.requires_grad,
    )  # fmt: skip
    x, y = (t.detach().double().numpy() for t in (a, b))
    limit = tolerance * float(np.abs(x[np.isfinite(x)]).max(initial=0))
    return alike and np.allclose(x, y, rtol=0, atol=limit, equal_nan=True)
