"""PyTorch's own samples of every operator, mapped: what each sample gives, stacked.

The reference is the operator called for each sample by itself, which `test_pytorch_samples.py`
compares with PyTorch. `DYNAJIT_PYTORCH_SAMPLES=100` takes up to 100 samples of each operator.
"""

import warnings
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.pytree import flatten, unflatten
from dynajit.eager.samples import mapping

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from tests.oracle.test_pytorch_samples import MOST_SAMPLES, ours_of, samples_of, table  # noqa: E402
from tests.support.pytorch.pytorch_values import Translation, Untranslated  # noqa: E402

COUNT = 2
DTYPES = ("float64", "int64", "complex128")
#: What memory holds beside or behind a sample, and sparse tensors, which are not stacked.
UNDEFINED = (
    "empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "resize_",
    "as_strided", "as_strided_copy", "to_sparse",
)  # fmt: skip


def variants(x: Any) -> list[Any]:
    """The tensor, and one with its elements in another order."""
    flat = x.detach().reshape(-1)
    return [x.detach().clone(), flat.flip(0).reshape(x.shape)]


def given(sample: Any) -> tuple[list[list[Any]], Any, list[int]]:
    """For each sample the leaves of its arguments, their nest, and which leaves are mapped."""
    arguments = Translation()((sample.input, sample.args, sample.kwargs))
    leaves, structure = flatten(arguments)
    mapped = [place for place, x in enumerate(leaves) if isinstance(x, dj.Tensor)]
    each = [list(leaves) for _ in range(COUNT)]
    for place in mapped:
        for number, x in enumerate(variants(leaves[place])):
            each[number][place] = x
    return each, structure, mapped


def tensors(found: Any) -> list[Any]:
    return [x for x in flatten(found)[0] if isinstance(x, dj.Tensor)]


def run(call: Any, leaves: list[Any], structure: Any) -> list[Any]:
    first, args, kwargs = unflatten(list(leaves), structure)
    return tensors(call(first, *args, **kwargs))


def why_other(call: Any, sample: Any) -> str | None:
    """How a mapped call differs; None also where a sample is refused, or draws."""
    each, structure, mapped = given(sample)
    before = dj.get_rng_state()
    try:
        expected = [run(call, [*map(copied, leaves)], structure) for leaves in each]
    except Exception:
        return None
    is_random = not before.equal(dj.get_rng_state())
    shapes = [[(x.dtype, tuple(x.shape)) for x in found] for found in expected]
    if is_random or not mapped or not expected[0] or shapes[0] != shapes[1]:
        return None

    def one(*chosen: Any) -> tuple[Any, ...]:
        leaves = list(each[0])
        for place, x in zip(mapped, chosen, strict=True):
            leaves[place] = x
        return tuple(run(call, leaves, structure))

    mapping._single.clear()
    found = dj.vmap(one, randomness="same")(
        *[dj.stack([leaves[p] for leaves in each]) for p in mapped]
    )
    for number in range(COUNT):
        for left, right in zip(expected[number], found, strict=True):
            reason = why_not_close(left, right[number])
            if reason:
                return reason
    return None


def copied(x: Any) -> Any:
    return x.clone() if isinstance(x, dj.Tensor) else x


def why_not_close(left: Any, right: Any) -> str | None:
    if left.dtype is not right.dtype or left.shape != right.shape:
        return f"{right.dtype} {list(right.shape)} for {left.dtype} {list(left.shape)}"
    arrays = [x.detach().resolve_conj().resolve_neg() for x in (left, right)]
    arrays = [(x if x.dtype.is_complex else x.double()).numpy() for x in arrays]
    tolerance = 1e-7 if left.dtype not in (dj.float32, dj.complex64) else 1e-3
    if np.allclose(arrays[1], arrays[0], rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    return f"{arrays[1]} for {arrays[0]}"


@pytest.mark.parametrize("operator", table())
def test_a_mapped_operator_gives_what_it_gives_for_each_sample(operator: Any) -> None:
    if operator.name in UNDEFINED:
        return
    try:
        call = ours_of(operator, operator.op)
    except Untranslated:
        return
    reasons = []
    for dtype in DTYPES:
        if getattr(torch, dtype) not in operator.dtypes:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in samples_of(operator, dtype, most=max(MOST_SAMPLES // 8, 1)):
                try:
                    reason = why_other(call, sample)
                except Untranslated:
                    continue
                if reason:
                    reasons.append(f"{dtype} {sample}: {reason}")

    assert [] == reasons
