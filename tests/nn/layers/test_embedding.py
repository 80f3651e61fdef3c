"""Embedding and EmbeddingBag against PyTorch: options, gradients, compiled, refusals."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import (
    ExpectationError,
    InvalidValueError,
    ShapeError,
    UnsupportedError,
)

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((9, 4)).astype(np.float32)
WORDS = np.array([[2, 5, 2, 8], [2, 2, 2, 2], [1, 0, 7, 5]])
FLAT = np.array([2, 5, 2, 8, 2, 2, 1, 0, 7])
OFFSETS = np.array([0, 3, 3, 4, 9])
SHARES = RANDOM.standard_normal(FLAT.shape).astype(np.float32)


def as_tensors(library: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options with arrays as tensors, floating ones with gradients."""
    made = {}
    for name, value in options.items():
        if isinstance(value, np.ndarray):
            value = library.from_numpy(value.copy())
            if value.is_floating_point():
                value.requires_grad_()
        made[name] = value
    return made


def found(library: Any, function: Any, **options: Any) -> list[Any]:
    """Result, gradient of the table (and of weights of samples), and the table afterwards."""
    given = as_tensors(library, options)
    result = function(**given)
    weights = library.from_numpy(np.cos(np.arange(result.numel(), dtype=np.float64)))
    (result * weights.to(result.dtype).reshape(result.shape)).sum().backward()
    tensors = [given[name] for name in ("weight", "per_sample_weights") if name in given]
    return [x.detach().numpy() for x in (result, *(t.grad for t in tensors), tensors[0])]


def assert_equal(expected: list[Any], actual: list[Any]) -> None:
    """Arrays within rounding of float32."""
    for theirs, ours in zip(expected, actual, strict=True):
        assert theirs.shape == ours.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


LOOKUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padding": {"padding_idx": 2},
    "padding from the end": {"padding_idx": -1},
    "largest norm": {"max_norm": 0.7},
    "largest sum": {"max_norm": 1.0, "norm_type": 1.0},
    "by frequency": {"scale_grad_by_freq": True},
    "by frequency, padding": {"scale_grad_by_freq": True, "padding_idx": 5},
}


@pytest.mark.parametrize("options", LOOKUPS)
@pytest.mark.parametrize("shape", [(3, 4), (12,), (0,), ()])
def test_rows_are_looked_up_as_by_pytorch(options: str, shape: tuple[int, ...]) -> None:
    """Values, gradients, and rows shortened in place."""
    words = WORDS.ravel()[: int(np.prod(shape))].reshape(shape)
    if shape == () and "max_norm" in LOOKUPS[options]:
        return
    given = {"input": words, "weight": TABLE, **LOOKUPS[options]}
    expected = found(torch, torch.nn.functional.embedding, **given)

    assert_equal(expected, found(dj, dj.nn.functional.embedding, **given))
    assert ("max_norm" in given and bool(shape[0])) == (not np.array_equal(expected[-1], TABLE))


BAGS: dict[str, dict[str, Any]] = {
    "matrix": {"input": WORDS},
    "offsets": {"input": FLAT, "offsets": OFFSETS},
    "last offset": {
        "input": FLAT, "offsets": np.array([0, 4, 4, 9]), "include_last_offset": True,
    },
    "empty at the end": {"input": FLAT, "offsets": np.array([0, 2, 9, 9])},
    "one bag": {"input": FLAT, "offsets": np.array([0])},
    "nothing": {"input": FLAT[:0], "offsets": np.array([0, 0])},
    "int32": {"input": FLAT.astype(np.int32), "offsets": OFFSETS.astype(np.int32)},
}  # fmt: skip


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("bags", BAGS)
def test_bags_equal_pytorchs(bags: str, mode: str, padding: int | None) -> None:
    """Values and gradients of the table; empty bags, and bags of padding alone, are zeros."""
    given = {"weight": TABLE, "mode": mode, "padding_idx": padding, **BAGS[bags]}
    expected = found(torch, torch.nn.functional.embedding_bag, **given)

    assert_equal(expected, found(dj, dj.nn.functional.embedding_bag, **given))


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("bags", ["matrix", "offsets"])
def test_samples_are_weighted(bags: str, padding: int | None) -> None:
    """In sums, with gradients of the weights."""
    shape = BAGS[bags]["input"].shape
    shares = np.resize(SHARES, shape).astype(np.float32)
    given = {"weight": TABLE, "mode": "sum", "padding_idx": padding, **BAGS[bags]}
    given["per_sample_weights"] = shares
    expected = found(torch, torch.nn.functional.embedding_bag, **given)

    assert_equal(expected, found(dj, dj.nn.functional.embedding_bag, **given))


def test_bags_shorten_rows() -> None:
    """As lookups do."""
    given = {"weight": TABLE, "mode": "sum", **BAGS["offsets"], "max_norm": 0.7}
    expected = found(torch, torch.nn.functional.embedding_bag, **given)

    assert_equal(expected, found(dj, dj.nn.functional.embedding_bag, **given))


def test_bags_divide_gradients_by_how_often_a_row_occurs() -> None:
    """As its documentation says; PyTorch's kernel for CPUs divides by other rows' counts."""
    given = {"weight": TABLE, "mode": "sum", **BAGS["offsets"]}
    plain = found(dj, dj.nn.functional.embedding_bag, **given)
    scaled = found(dj, dj.nn.functional.embedding_bag, **given, scale_grad_by_freq=True)
    counts = np.bincount(FLAT, minlength=9).clip(1)[:, None].astype(np.float32)

    np.testing.assert_allclose(scaled[1], plain[1] / counts, rtol=1e-6)


def test_the_first_of_equal_rows_is_the_greatest() -> None:
    """It alone gets the gradient."""
    given = {"weight": np.ones((9, 4), np.float32), "mode": "max", "padding_idx": None}
    for bags in ("matrix", "offsets"):
        expected = found(torch, torch.nn.functional.embedding_bag, **given, **BAGS[bags])
        actual = found(dj, dj.nn.functional.embedding_bag, **given, **BAGS[bags])
        assert_equal(expected, actual)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_dtypes_are_kept(dtype: str) -> None:
    """Results have the table's dtype, rounded once."""
    results = []
    for library in (torch, dj):
        weight = library.from_numpy(TABLE).to(getattr(library, dtype))
        bag = library.nn.functional.embedding_bag(
            library.from_numpy(FLAT), weight, library.from_numpy(OFFSETS), mode="sum"
        )
        assert bag.dtype is getattr(library, dtype)
        results.append(bag.float().numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-2, atol=1e-2)


def made(library: Any, kind: str, **options: Any) -> Any:
    """A layer with the table of these tests."""
    return getattr(library.nn, kind)(9, 4, _weight=library.from_numpy(TABLE.copy()), **options)


@pytest.mark.parametrize(
    ("kind", "options", "arrays"),
    [
        ("Embedding", {"padding_idx": 2}, (WORDS,)),
        ("Embedding", {"max_norm": 0.7}, (WORDS,)),
        ("Embedding", {"scale_grad_by_freq": True}, (WORDS,)),
        ("EmbeddingBag", {"mode": "sum", "padding_idx": 2}, (WORDS,)),
        ("EmbeddingBag", {"mode": "max"}, (WORDS,)),
        ("EmbeddingBag", {"mode": "mean", "padding_idx": 2}, (FLAT, OFFSETS)),
        ("EmbeddingBag", {"mode": "max", "padding_idx": 2}, (FLAT, OFFSETS)),
        ("EmbeddingBag", {"mode": "sum"}, (FLAT, OFFSETS, SHARES)),
    ],
)
def test_compiled_layers_equal_pytorchs(kind: str, options: dict[str, Any], arrays: Any) -> None:
    """One graph, with the gradient of the table, and the table as it is left."""
    found = []
    for library in (torch, dj):
        layer = made(library, kind, **options)
        run = dj.compile(layer, fullgraph=True) if library is dj else layer
        result = run(*(library.from_numpy(array) for array in arrays))
        (result * result).sum().backward()
        found.append([x.detach().numpy() for x in (result, layer.weight.grad, layer.weight)])

    assert_equal(*found)


def test_layers_look_like_pytorchs() -> None:
    """Text, names of state, frozen tables, the first values of the padding row."""
    for kind, options in (
        ("Embedding", {"padding_idx": -1, "max_norm": 2.0, "norm_type": 1.0}),
        ("Embedding", {"scale_grad_by_freq": True}),
        ("EmbeddingBag", {"max_norm": 2.0, "mode": "max", "padding_idx": 3}),
        ("EmbeddingBag", {"norm_type": 3.0, "scale_grad_by_freq": True}),
    ):
        theirs, ours = made(torch, kind, **options), made(dj, kind, **options)
        assert repr(theirs) == repr(ours)
        assert list(theirs.state_dict()) == list(ours.state_dict())
        frozen = getattr(dj.nn, kind).from_pretrained(dj.from_numpy(TABLE), **options)
        assert repr(theirs) == repr(frozen)
        assert not frozen.weight.requires_grad
        thawed = getattr(dj.nn, kind).from_pretrained(dj.from_numpy(TABLE), freeze=False)
        assert thawed.weight.requires_grad
    padded = dj.nn.EmbeddingBag(9, 4, padding_idx=-2).weight
    assert [7] == (padded == 0).all(1).nonzero().flatten().tolist()


REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "mode": ({"mode": "min"}, InvalidValueError),
    "offsets of a matrix": ({"input": WORDS}, InvalidValueError),
    "no offsets": ({"offsets": None}, InvalidValueError),
    "rank of offsets": ({"offsets": OFFSETS[None]}, InvalidValueError),
    "rank": ({"input": WORDS[None], "offsets": None}, InvalidValueError),
    "rank of the table": ({"weight": TABLE[0]}, InvalidValueError),
    "weights' shape": ({"per_sample_weights": SHARES[1:], "mode": "sum"}, InvalidValueError),
    "weights of means": ({"per_sample_weights": SHARES}, UnsupportedError),
    "frequency of maxima": ({"mode": "max", "scale_grad_by_freq": True}, InvalidValueError),
    "first offset": ({"offsets": OFFSETS + 1}, ShapeError),
    "last offset": ({"offsets": OFFSETS * 2}, ShapeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bags_that_do_not_fit_are_refused_with_pytorchs_class(name: str) -> None:
    """ValueError, NotImplementedError or RuntimeError."""
    changes, error = REFUSED[name]
    given = {"input": FLAT, "weight": TABLE, "offsets": OFFSETS, **changes}
    with pytest.raises((ValueError, RuntimeError)) as expected:
        torch.nn.functional.embedding_bag(**as_tensors(torch, given))
    with pytest.raises(error) as actual:
        dj.nn.functional.embedding_bag(**as_tensors(dj, given))
    assert isinstance(actual.value, type(expected.value))


def test_wrong_rows_are_refused() -> None:
    """When a layer is made, and when a function is called."""
    table, words = dj.from_numpy(TABLE), dj.from_numpy(WORDS)
    for call in (
        lambda: dj.nn.Embedding(9, 4, padding_idx=9),
        lambda: dj.nn.Embedding(9, 4, padding_idx=-10),
        lambda: dj.nn.functional.embedding(words, table, padding_idx=9),
    ):
        with pytest.raises(ExpectationError, match="within num_embeddings"):
            call()
    with pytest.raises(ExpectationError, match="2-dimensional"):
        dj.nn.Embedding.from_pretrained(dj.zeros(3))
    with pytest.raises(ExpectationError, match="does not match"):
        dj.nn.Embedding(9, 5, _weight=table)
    with pytest.raises(IndexError):
        dj.nn.functional.embedding(words + 9, table)
