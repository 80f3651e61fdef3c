"""flex_attention and block masks have PyTorch's values, errors and counts of blocks."""

import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError
from dynajit.nn.attention import flex_attention as here

RANDOM = np.random.default_rng(0)
QUERY = RANDOM.standard_normal((2, 4, 9, 8)).astype(np.float32)
KEY = RANDOM.standard_normal((2, 2, 11, 8)).astype(np.float32)
VALUE = RANDOM.standard_normal((2, 2, 11, 6)).astype(np.float32)
SLOPES = RANDOM.standard_normal(4).astype(np.float32)
BIAS = RANDOM.standard_normal((4, 9, 11)).astype(np.float32)
DOCUMENTS = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])


def scores_of(m: Any) -> dict[str, Any]:
    slopes, bias = m.tensor(SLOPES), m.tensor(BIAS)
    return {
        "none": None,
        "slopes": lambda s, b, h, i, j: s + slopes[h] * (j - i),
        "bias": lambda s, b, h, i, j: s + bias[h, i, j],
        "cap": lambda s, b, h, i, j: 2 * m.tanh(s / 2),
        "causal": lambda s, b, h, i, j: m.where(i >= j, s, -float("inf")),
    }


def masks_of(m: Any, module: Any) -> dict[str, Any]:
    documents = m.tensor(DOCUMENTS)

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j

    return {
        "none": None,
        "causal": causal,
        "documents": lambda b, h, i, j: documents[i] == documents[j],
        "window": module.and_masks(causal, lambda b, h, i, j: i - j < 3),
        "prefix": module.or_masks(causal, lambda b, h, i, j: j < 2),
        "by batch": lambda b, h, i, j: (i >= j) | (b == 1),
        "some rows": lambda b, h, i, j: i >= j + 3,
    }


def attended(m: Any, module: Any, score: str, mask: str) -> Callable[..., Any]:
    function = masks_of(m, module)[mask]
    block_mask = None
    if function is not None:
        block_mask = module.create_block_mask(function, 2, None, 9, 11, device="cpu", BLOCK_SIZE=4)
    score_mod = scores_of(m)[score]

    def call(query: Any, key: Any, value: Any) -> Any:
        return module.flex_attention(
            query, key, value, score_mod=score_mod, block_mask=block_mask, enable_gqa=True
        )

    return call


def operands(m: Any) -> list[Any]:
    return [m.tensor(QUERY), m.tensor(KEY), m.tensor(VALUE)]


@pytest.fixture(scope="module")
def there() -> Iterator[Any]:
    """(PyTorch, its module), whose first call turns checks of PyTorch's distributions off."""
    torch = pytest.importorskip("torch")
    checks = torch.distributions.Distribution._validate_args
    yield torch, importlib.import_module("torch.nn.attention.flex_attention")
    torch.distributions.Distribution.set_default_validate_args(checks)


@pytest.mark.parametrize("mask", list(masks_of(dj, here)))
@pytest.mark.parametrize("score", list(scores_of(dj)))
def test_values_are_those_of_pytorch(score: str, mask: str, there: Any) -> None:
    """Eager, and compiled in one graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = attended(*there, score, mask)(*operands(there[0])).numpy()
    call = attended(dj, here, score, mask)
    for function in (call, dj.compile(call, fullgraph=True)):
        found = function(*operands(dj)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [4, (8, 4), 128])
@pytest.mark.parametrize("mask", [name for name in masks_of(dj, here) if name != "none"])
def test_blocks_are_counted_as_by_pytorch(mask: str, size: Any, there: Any) -> None:
    found = []
    for m, module in ((dj, here), there):
        made = module.create_block_mask(
            masks_of(m, module)[mask], 2, None, 9, 11, device="cpu", BLOCK_SIZE=size
        )
        parts = (
            made.kv_num_blocks, made.kv_indices, made.full_kv_num_blocks, made.full_kv_indices,
            made.q_num_blocks, made.q_indices, made.full_q_num_blocks, made.full_q_indices,
            made.to_dense(), made[0].kv_indices, made[:, :, 0].kv_num_blocks,
        )  # fmt: skip
        counted = [part.numpy() for part in parts]
        found.append((counted, made.shape, made.sparsity(), made.numel(), made.seq_lengths))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert found[0][1:] == found[1][1:]


def test_a_mask_is_seen_as_a_tensor() -> None:
    """Of a mask, and of a function of scores."""
    causal = here.create_mask(lambda b, h, i, j: i >= j, None, None, 2, 3)
    assert [[[[True, False, False], [True, True, False]]]] == causal.tolist()
    scores = here.create_mask(lambda s, b, h, i, j: dj.where(i >= j, s, -math.inf), 1, 1, 2, 3)
    assert causal.tolist() == scores.tolist()


def test_gradients_are_those_of_attention() -> None:
    """A row that is masked altogether has zeros and no gradient."""
    expected = []
    mask = dj.tensor(np.tril(np.ones((9, 11), bool)))
    for call in (
        lambda q, k, v: here.flex_attention(
            q, k, v, block_mask=here.create_block_mask(lambda b, h, i, j: i >= j, None, None, 9, 11)
        ),
        lambda q, k, v: dj.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    ):
        given = [dj.tensor(x, requires_grad=True) for x in (QUERY[:, :2], KEY, VALUE)]
        (call(*given) ** 2).sum().backward()
        expected.append([x.grad.numpy() for x in given])
    for one, other in zip(*expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)

    query = dj.tensor(QUERY[:, :2], requires_grad=True)
    nothing = here.create_block_mask(lambda b, h, i, j: i < 0, None, None, 9, 11)
    result, lse = here.flex_attention(
        query, dj.tensor(KEY), dj.tensor(VALUE), block_mask=nothing, return_lse=True
    )
    result.sum().backward()
    assert (result == 0).all()
    assert dj.isneginf(lse).all()
    assert (query.grad == 0).all()


def test_statistics_of_the_scores() -> None:
    """Natural logarithms, as in PyTorch."""
    query, key, value = (dj.tensor(x) for x in (QUERY[:, :2], KEY, VALUE))
    scores = (query @ key.transpose(-2, -1)) / math.sqrt(8)
    request = here.AuxRequest(lse=True, max_scores=True)
    _, found = here.flex_attention(query, key, value, return_aux=request)
    np.testing.assert_allclose(found.lse.numpy(), scores.logsumexp(-1).numpy(), rtol=1e-5)
    np.testing.assert_allclose(found.max_scores.numpy(), scores.amax(-1).numpy(), rtol=1e-5)
    _, rest = here.flex_attention(query, key, value, return_aux=here.AuxRequest())
    assert (None, None) == (rest.lse, rest.max_scores)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_results_have_the_dtype_of_the_query(dtype: str) -> None:
    """Scores are float32 at least."""
    given = [dj.tensor(x).to(getattr(dj, dtype)) for x in (QUERY[:, :2], KEY, VALUE)]
    found = here.flex_attention(*given)
    exact = here.flex_attention(*(x.double() for x in given))
    assert getattr(dj, dtype) is found.dtype
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(found.double().numpy(), exact.numpy(), atol=tolerance)


def test_what_does_not_go_together_is_refused() -> None:
    """With PyTorch's classes of errors."""
    q, k, v = dj.zeros(2, 4, 5, 8), dj.zeros(2, 4, 7, 8), dj.zeros(2, 4, 7, 6)
    mask = here.create_block_mask(lambda b, h, i, j: i >= j, None, None, 300, 260)
    for arguments, options in (
        ((q, k[:, :2], v[:, :2]), {}),
        ((q, k[:, :3], v[:, :3]), {"enable_gqa": True}),
        ((q, k[:1], v[:1]), {}),
        ((q, k[..., :7], v), {}),
        ((q, k, v), {"block_mask": mask}),
        ((q, k, v), {"return_lse": True, "return_aux": here.AuxRequest()}),
    ):
        with pytest.raises(ValueError, match=r"got|Cannot specify"):
            here.flex_attention(*arguments, **options)
    with pytest.raises(RuntimeError, match="length"):
        here.flex_attention(q, k, v[:, :, :5])
    with pytest.raises(NotImplementedError, match="4D"):
        here.flex_attention(q[0], k[0], v[0])
    with pytest.raises(RuntimeError, match="callable"):
        here.and_masks(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="callable"):
        here.create_block_mask(1, None, None, 5, 7)  # type: ignore[arg-type]
    part = here.create_block_mask(lambda b, h, i, j: i >= j, 2, None, 5, 7)[:, :, 0]
    with pytest.raises(RuntimeError, match="sliced"):
        here.flex_attention(q, k, v, block_mask=part)
    part.mask_mod, part.seq_lengths = here.noop_mask, (5, 7)
    assert (0 == here.flex_attention(q, k, v, block_mask=part)).all()


def test_functions_that_do_not_broadcast_are_refused() -> None:
    """They are called once, with all positions."""
    q = dj.zeros(2, 4, 5, 8)
    table = dj.zeros(4, 5)
    for score_mod in (
        lambda s, b, h, i, j: s.sum(-1),
        lambda s, b, h, i, j: table[h],
    ):
        with pytest.raises(UnsupportedError, match="score_mod gave shape"):
            here.flex_attention(q, q, q, score_mod=score_mod)
