"""Every method of tensors, called on samples, gives what it gives for each of them."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError
from dynajit.core.operators import BINARY
from dynajit.eager.samples import mapping
from dynajit.eager.samples.sample_tensor import Level, SampleTensor, leaf, made

NUMBERS = np.random.default_rng(0).standard_normal((3, 4, 4))
#: With other results for each call, of other kinds of tensors, or for other machines.
BESIDE = frozenset((
    "backward", "bernoulli", "bernoulli_", "cauchy_", "cuda", "data_ptr", "exponential_",
    "geometric_", "hooks", "log_normal_", "multinomial", "new", "normal_", "pin_memory", "random_",
    "record_stream", "resize_", "set_", "share_memory_", "storage", "storage_type", "to_sparse",
    "to_sparse_coo", "uniform_", "untyped_storage",
))  # fmt: skip
NAMES = [
    *(name for name in sorted(dir(dj.Tensor)) if name[0] != "_" and name not in BESIDE),
    *(f"__{name}__" for name in BINARY),
    *(f"__{name}__" for name in ("getitem", "len", "neg", "pos", "abs", "invert", "iter")),
]
OTHER = "the tensor itself, once more"
ARGUMENTS: list[tuple[Any, ...]] = [(), (0,), (2.0,), (1, 0), (OTHER,)]


def called(name: str, x: Any, args: tuple[Any, ...]) -> list[Any]:
    """What is found under the name: tensors and other things in it."""
    given = tuple(x.clone() if arg is OTHER else arg for arg in args)
    found = getattr(x.clone(), name)
    return [*parts(found(*given) if callable(found) else found)]


def parts(found: Any) -> Iterator[Any]:
    if isinstance(found, (tuple, list)) and not isinstance(found, dj.Size):
        for part in found:
            yield from parts(part)
    else:
        yield list(found) if hasattr(found, "__next__") else found


def expected_of(name: str, args: tuple[Any, ...]) -> list[list[Any]] | None:
    """Of each sample; None where the method wants other arguments."""
    try:
        return [called(name, dj.tensor(sample), args) for sample in NUMBERS]
    except Exception:
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_method_gives_what_it_gives_for_each_sample(name: str) -> None:
    for args in ARGUMENTS:
        expected = expected_of(name, args)
        if expected is None:
            continue
        mapping._single.clear()
        others: list[list[Any]] = []

        def function(x: Any, args: Any = args, others: Any = others) -> Any:
            found = called(name, x, args)
            others.append([part for part in found if not isinstance(part, dj.Tensor)])
            return [part for part in found if isinstance(part, dj.Tensor)]

        result = dj.vmap(function)(dj.tensor(NUMBERS))
        rest = others[-3:] if len(others) > 1 else others * 3
        for number, sample in enumerate(expected):
            compare(sample, [part[number] for part in result], rest[number], f"{name}{args}")


def compare(expected: list[Any], tensors: list[Any], others: list[Any], what: str) -> None:
    left = [part for part in expected if isinstance(part, dj.Tensor)]
    assert len(left) == len(tensors), what
    for one, other in zip(left, tensors, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), what
        arrays = (x.detach().resolve_conj().resolve_neg().numpy() for x in (one, other))
        np.testing.assert_allclose(*arrays, rtol=1e-9, atol=1e-12, err_msg=what)
    plain = [part for part in expected if not isinstance(part, dj.Tensor)]
    for one, other in itertools.zip_longest(plain, others):
        if isinstance(one, (bool, int, float, str, dj.Size, dj.dtype, type(None))):
            assert one == other, what


def test_a_tensor_that_outlives_its_call_refuses_to_show_elements() -> None:
    kept: list[Any] = []
    dj.vmap(lambda x: kept.append(x * 2) or x)(dj.tensor(NUMBERS))

    assert isinstance(kept[0], SampleTensor)
    assert "samples(3 of [4, 4]" in repr(kept[0])
    with pytest.raises(UnsupportedError, match="has ended"):
        kept[0].tolist()


def test_inner_levels_run_first() -> None:
    x = dj.tensor(NUMBERS)
    outer, inner = Level(3, ()), Level(4, ())
    with outer.opened(), inner.opened():
        each = made(x, outer)
        both = made(each, inner)
        found = both * each.sum() + both

    assert inner is found._level
    assert outer is found._batch._level
    expected = x * x.sum((1, 2), keepdim=True) + x
    assert expected.tolist() == found._batch._batch.tolist()


def test_a_leaf_of_samples_keeps_the_history_outside() -> None:
    x = dj.tensor(NUMBERS, requires_grad=True)
    level = Level(3, ())
    with level.opened():
        start = leaf(made(x, level), level)
        (slope,) = dj.autograd.grad((start**3).sum(), start, create_graph=True)

    slope._batch.sum().backward()

    np.testing.assert_allclose(slope._batch.detach().numpy(), 3 * NUMBERS**2)
    np.testing.assert_allclose(x.grad.numpy(), 6 * NUMBERS)
