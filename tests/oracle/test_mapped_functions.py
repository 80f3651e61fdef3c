"""Functions under `vmap` against PyTorch: each runs once, for all samples."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(7)
COUNT = 3


def drawn(*shape: int) -> np.ndarray:
    return NUMBERS.standard_normal((COUNT, *shape))


V, W, M, N, S = drawn(4), drawn(4), drawn(3, 4), drawn(4, 3), drawn(3, 3)
POSITIVE = S @ S.transpose(0, 2, 1) + 3 * np.eye(3)
NUMBER, IMAGE, KERNEL = drawn(), drawn(2, 4, 6, 6), drawn(6, 4, 3, 3)
INDEX = NUMBERS.integers(0, 3, (COUNT, 2))
PLACES = NUMBERS.integers(0, 3, (COUNT, 3, 2))
LABELS = NUMBERS.integers(0, 4, (COUNT, 3))
ONE_INDEX = NUMBERS.integers(0, 3, (COUNT,))
MASK = NUMBERS.random((COUNT, 3, 4)) > 0.5
SHARED = NUMBERS.standard_normal((5, 4))
SINGLE = NUMBERS.standard_normal((COUNT, 4)).astype(np.float32)


class OfAll:
    """Tensors that all samples share."""

    def __init__(self, m: Any) -> None:
        self.table, self.ordered = m.tensor(SHARED), m.tensor(np.sort(SHARED[0]))
        self.kernel, self.image = m.tensor(KERNEL[0]), m.tensor(IMAGE[0])


_TORCHS, _OURS = OfAll(torch), OfAll(dj)


def of_all(m: Any) -> OfAll:
    return _TORCHS if m is torch else _OURS


Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

CASES: dict[str, Case] = {
    "arithmetic": (lambda m, x, y: x * 2 - y / (x.abs() + 1) ** 2, (V, W)),
    "a number and a vector": (lambda m, s, x: s * x + s, (NUMBER, V)),
    "a vector and a matrix": (lambda m, x, y: x + y, (V, M)),
    "what all share": (lambda m, x: x + of_all(m).table, (V,)),
    "dtypes meet without dims": (lambda m, s, x: s * x, (NUMBER, SINGLE)),
    "integers and a float number": (lambda m, s, i: s * i, (NUMBER, INDEX)),
    "sums": (lambda m, x: (x.sum(), x.sum(0), x.mean(-1, keepdim=True), x.prod(1)), (M,)),
    "statistics": (lambda m, x: (x.var(), x.std(0), x.norm(), m.linalg.norm(x, dim=1)), (M,)),
    "extrema": (lambda m, x: (x.max(), x.max(1).values, x.argmin(0), x.amax((0, 1))), (M,)),
    "softmax": (lambda m, x: (x.softmax(0), x.log_softmax(-1), x.logsumexp(1)), (M,)),
    "scans": (lambda m, x: (x.cumsum(0), x.cumprod(1), x.cummax(1).values), (M,)),
    "order": (lambda m, x: (x.sort(0).values, x.argsort(1), x.topk(2).values, x.median()), (M,)),
    "shapes": (lambda m, x: (x.reshape(2, 6), x.t(), x.flatten(), x[None], x.unsqueeze(-1)), (M,)),
    "parts": (lambda m, x: (x[1], x[:, 1:3], x[..., ::2], x.narrow(1, 1, 2), x.diagonal()), (M,)),
    "joined": (lambda m, x, y: (m.cat([x, y]), m.stack([x, y], 1), m.hstack((x, y))), (V, W)),
    "split": (lambda m, x: (*x.split(2, 1), *x.chunk(2), *x.unbind(1)), (M,)),
    "moved": (lambda m, x: (x.flip(0), x.roll(1, 1), x.rot90(), x.repeat(2, 1), x.tile(2)), (M,)),
    "triangles": (lambda m, x: (x.tril(), x.triu(1), x.trace(), m.diag_embed(x)), (S,)),
    "padded": (lambda m, x: m.nn.functional.pad(x, (1, 2), value=3.0), (M,)),
    "expanded": (lambda m, x: (x.expand(2, 4), x.expand_as(of_all(m).table)), (V,)),
    "products": (
        lambda m, x, y: (x @ y, y @ x, x.mv(y[:, 0]), m.einsum("ij,jk->ki", x, y)),
        (M, N),
    ),
    "products with vectors": (lambda m, x, y: (x.dot(y), m.outer(x, y), m.kron(x, y)), (V, W)),
    "products with what all share": (
        lambda m, x, y: (of_all(m).table @ x, of_all(m).table @ y, y.t() @ of_all(m).table.t()),
        (V, N),
    ),
    "batches of products": (
        lambda m, x: (m.bmm(x, x), x @ of_all(m).table[:, :2]),
        (drawn(2, 5, 5),),
    ),
    "factorizations": (
        lambda m, x: (m.linalg.inv(x), m.linalg.cholesky(x), m.linalg.det(x), m.linalg.eigvalsh(x)),
        (POSITIVE,),
    ),
    "solutions": (
        lambda m, x, y: (m.linalg.solve(x, y), m.linalg.solve(x, y[:, 0])),
        (POSITIVE, M),
    ),
    "fourier": (lambda m, x: (m.fft.fft(x).abs(), m.fft.irfft(m.fft.rfft(x), 4)), (M,)),
    "complex numbers": (
        lambda m, x, y: (m.complex(x, y).conj().abs(), m.complex(x, y).imag),
        (V, W),
    ),
    "chosen rows": (lambda m, x, i: (x[i], x.index_select(0, i), x[:, i]), (M, INDEX)),
    "rows of what all share": (
        lambda m, i: (of_all(m).table[i], of_all(m).table[i, i]),
        (INDEX,),
    ),
    "a chosen row": (lambda m, x, i: (x[i], of_all(m).table[i]), (M, ONE_INDEX)),
    "places known to all": (lambda m, x: (x[[0, 2]], x[:, [1, 1]], x[[0, 1], [2, 3]]), (M,)),
    "gathered": (lambda m, x, p: (x.gather(1, p), m.take_along_dim(x, p, 1)), (M, PLACES)),
    "scattered": (
        lambda m, x, p, y: (
            x.scatter(1, p, y[:, :2]),
            x.scatter_add(1, p, y[:, :2]),
            x.scatter(1, p, 2.0),
        ),
        (M, PLACES, M + 1),
    ),
    "added at indices": (lambda m, x, i, y: x.index_add(0, i, y[:2]), (M, INDEX, M + 1)),
    "put at indices": (lambda m, x, i: x.index_put((i,), x[0], accumulate=True), (M, INDEX)),
    "conditions": (
        lambda m, x, c: (m.where(c, x, -x), x.masked_fill(c, 0.0), c.any(), c.all(1)),
        (M, MASK),
    ),
    "comparisons": (lambda m, x, y: (x > y, (x == y).logical_not(), x.ge(0)), (V, W)),
    "clamped": (lambda m, x, y: (x.clamp(-1, 1), m.maximum(x, y), x.clamp(min=y)), (V, W)),
    "activations": (
        lambda m, x: (
            m.nn.functional.gelu(x),
            m.nn.functional.silu(x),
            m.nn.functional.elu(x),
            m.sigmoid(x),
            m.nn.functional.glu(x),
            m.nn.functional.softplus(x),
        ),
        (M,),
    ),
    "linear": (
        lambda m, x, w: (
            m.nn.functional.linear(x, of_all(m).table),
            m.nn.functional.linear(x, w),
            m.nn.functional.linear(of_all(m).table, w, w[:, 0]),
        ),
        (V, M),
    ),
    "norms": (
        lambda m, x, w: (
            m.nn.functional.layer_norm(x, (4,)),
            m.nn.functional.layer_norm(x, (4,), w),
            m.nn.functional.rms_norm(x, (4,)),
            m.nn.functional.normalize(x, dim=0),
        ),
        (M, V),
    ),
    "batch norm": (
        lambda m, x, w: (
            m.nn.functional.batch_norm(x, None, None, training=True),
            m.nn.functional.batch_norm(x, None, None, w, w, training=True),
            m.nn.functional.group_norm(x, 2),
            m.nn.functional.instance_norm(x),
        ),
        (IMAGE, V),
    ),
    "convolutions": (
        lambda m, x: m.nn.functional.conv2d(x, of_all(m).kernel, padding=1),
        (IMAGE,),
    ),
    "convolutions with kernels of samples": (
        lambda m, x, k: (
            m.nn.functional.conv2d(x, k, k[:, 0, 0, 0]),
            m.nn.functional.conv2d(of_all(m).image, k),
            m.nn.functional.conv2d(x, k[:4, :2], groups=2, stride=2),
        ),
        (IMAGE, KERNEL),
    ),
    "transposed convolutions": (
        lambda m, x, k: (
            m.nn.functional.conv_transpose2d(x, of_all(m).kernel[:4]),
            m.nn.functional.conv_transpose2d(x, k[:4], stride=2),
        ),
        (IMAGE, KERNEL),
    ),
    "pools": (
        lambda m, x: (
            m.nn.functional.max_pool2d(x, 2),
            m.nn.functional.avg_pool2d(x, 3, stride=1),
            m.nn.functional.adaptive_avg_pool2d(x, 2),
            m.nn.functional.unfold(x, 2),
        ),
        (IMAGE,),
    ),
    "images without a batch": (
        lambda m, x: (
            m.nn.functional.conv2d(x, of_all(m).kernel),
            m.nn.functional.max_pool2d(x, 2),
            m.nn.functional.interpolate(x[None], scale_factor=2),
        ),
        (IMAGE[:, 0],),
    ),
    "embeddings": (
        lambda m, i, w: (
            m.nn.functional.embedding(i, of_all(m).table),
            m.nn.functional.embedding(i, w),
            m.nn.functional.one_hot(i, 5),
        ),
        (INDEX, M),
    ),
    "attention": (
        lambda m, q, k: (
            m.nn.functional.scaled_dot_product_attention(q, k, k),
            m.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True),
            m.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=q[0] @ k[0].t()),
            m.nn.functional.scaled_dot_product_attention(q, of_all(m).table, of_all(m).table),
        ),
        (drawn(2, 3, 4), drawn(2, 3, 4)),
    ),
    "losses": (
        lambda m, x, t, y: (
            m.nn.functional.cross_entropy(x, t),
            m.nn.functional.mse_loss(x, y),
            m.nn.functional.nll_loss(x, t, reduction="none"),
            m.nn.functional.l1_loss(x, y),
            m.nn.functional.smooth_l1_loss(x, y),
            m.nn.functional.cross_entropy(x, t, label_smoothing=0.1, reduction="sum"),
            m.nn.functional.binary_cross_entropy_with_logits(x, y.sigmoid()),
        ),
        (M, LABELS, M + 1),
    ),
    "binary search": (
        lambda m, x, y: (
            m.searchsorted(x.sort().values, y),
            m.searchsorted(of_all(m).ordered, y),
            m.bucketize(y, of_all(m).ordered),
        ),
        (V, W),
    ),
    "special functions": (
        lambda m, x: (
            m.lgamma(x),
            m.special.erfcx(x),
            m.special.i0(x),
            m.polygamma(1, x.abs() + 1),
        ),
        (V,),
    ),
    "distances": (
        lambda m, x, y: (m.cdist(x, y), m.nn.functional.cosine_similarity(x, y)),
        (M, M + 1),
    ),
    "written in place": (lambda m, x: (x * 1).mul_(2).add_(x), (V,)),
    "parts written in place": (lambda m, x, y: written_parts(x.clone(), y), (M, V)),
    "writes through views": (lambda m, x: written_through_a_view(x.clone()), (M,)),
    "samples written in place": (lambda m, x: (x.mul_(2), x.sum()), (V,)),
    "rows written at indices": (lambda m, x, i: written_at(x.clone(), i), (M, INDEX)),
    "tensors like samples": (
        lambda m, x: (
            m.zeros_like(x),
            m.ones_like(x) * x,
            x.new_full((2,), 3.0),
            m.full_like(x, 2),
        ),
        (V,),
    ),
    "sizes": (lambda m, x: x * x.shape[0] + x.ndim + len(x) + x.numel(), (M,)),
    "iteration": (lambda m, x: sum(row * k for k, row in enumerate(x)), (M,)),
    "nested": (lambda m, x: m.vmap(lambda row: row * row.sum(), out_dims=1)(x), (M,)),
    "nested with what the outer has": (
        lambda m, x, y: m.vmap(lambda row: (row * y).sum() + row)(x),
        (M, V),
    ),
    "nested in another dim": (lambda m, x, y: m.vmap(m.dot, in_dims=(1, None))(x, y[:3]), (M, V)),
    "gradients": (lambda m, x: m.func.grad(lambda x: (x.sin() * x).sum())(x), (V,)),
    "gradients twice": (
        lambda m, x: m.func.grad(lambda x: m.func.grad(lambda x: (x**3).sum())(x).sum())(x),
        (V,),
    ),
    "values with gradients": (
        lambda m, x, y: m.func.grad_and_value(lambda x: (x @ y).tanh().sum())(x),
        (M, N),
    ),
    "gradients of what all share": (
        lambda m, x: m.func.grad(lambda w: (w @ x).relu().sum())(of_all(m).table),
        (V,),
    ),
    "gradients of images": (
        lambda m, x: m.func.grad(
            lambda k: m.nn.functional.max_pool2d(m.nn.functional.conv2d(x, k), 2).square().sum()
        )(of_all(m).kernel),
        (IMAGE,),
    ),
    "gradients of norms": (
        lambda m, x, w: m.func.grad(lambda w: m.nn.functional.layer_norm(x, (6,), w).pow(3).sum())(
            w
        ),
        (IMAGE, drawn(6)),
    ),
    "gradients of losses": (
        lambda m, x, t: m.func.grad(lambda x: m.nn.functional.cross_entropy(x, t))(x),
        (M, LABELS),
    ),
    "gradients of embeddings": (
        lambda m, i: m.func.grad(lambda w: m.nn.functional.embedding(i, w).square().sum())(
            of_all(m).table
        ),
        (INDEX,),
    ),
    "gradients of attention": (
        lambda m, q: m.func.grad(
            lambda q: m.nn.functional.scaled_dot_product_attention(q, q, q).square().sum()
        )(q),
        (drawn(2, 3, 4),),
    ),
    "gradients of chosen rows": (
        lambda m, x, i: m.func.grad(lambda x: (x[i] * x[i]).sum())(x),
        (M, INDEX),
    ),
    "jacobians": (lambda m, x: m.func.jacrev(lambda x: x * x.sum())(x), (V,)),
    "products with jacobians": (lambda m, x, y: m.func.vjp(m.sin, x)[1](y)[0], (V, W)),
}


def written_parts(x: Any, y: Any) -> Any:
    x[0] = y
    x[1:, 1] += 2
    x[:, 3] = 5
    return x


def written_through_a_view(x: Any) -> Any:
    x.t()[1].mul_(3)
    x.view(-1)[:2] = 7
    return x


def written_at(x: Any, i: Any) -> Any:
    x[i] = 2.0
    x[i, 0] = 3.0
    return x


def compare(expected: Any, found: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(found)
        for left, right in zip(expected, found, strict=True):
            compare(left, right)
        return
    assert str(expected.dtype).removeprefix("torch.") == found.dtype.name
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("name", CASES)
def test_a_function_runs_once_for_all_samples(name: str) -> None:
    function, arrays = CASES[name]
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(None)
        return function(dj, *args)

    expected = torch.vmap(lambda *args: function(torch, *args))(*map(given(torch), arrays))
    found = dj.vmap(counted)(*map(given(dj), arrays))

    compare(expected, found)
    assert 1 == len(calls)


def given(m: Any) -> Callable[[np.ndarray], Any]:
    return lambda x: m.tensor(x)


#: PyTorch's second derivative of `layer_norm` is another one under `vmap` than without.
WRONG_IN_PYTORCH = ("gradients of norms",)


@pytest.mark.parametrize(
    "name", [name for name in CASES if "in place" not in name and name not in WRONG_IN_PYTORCH]
)
def test_gradients_reach_all_samples(name: str) -> None:
    """Of the sum of all results, through what `vmap` computed."""
    function, arrays = CASES[name]
    gradients = []
    for m in (torch, dj):
        args = [m.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
        found = m.vmap(lambda *args, m=m: function(m, *args))(*args)
        floating = [y for y in flat(found) if y.requires_grad]
        if not floating:
            gradients.append([])
            continue
        sum(((y * y.detach().cos()).sum() for y in floating), m.zeros(())).backward()
        gradients.append([x.grad for x in args if x.grad is not None])
    compare(*gradients)


#: What a graph has no form for: gradients within, and writes to samples.
BREAKS = ("gradients", "jacobians", "samples written")


@pytest.mark.parametrize(
    "name", [name for name in CASES if not any(what in name for what in BREAKS)]
)
def test_a_compiled_function_maps_without_a_break(name: str) -> None:
    function, arrays = CASES[name]

    @dj.compile(fullgraph=True, backend="numpy")
    def mapped(*args: Any) -> Any:
        return dj.vmap(lambda *args: function(dj, *args))(*args)

    expected = torch.vmap(lambda *args: function(torch, *args))(*map(given(torch), arrays))

    compare(expected, mapped(*map(given(dj), arrays)))


@pytest.mark.parametrize("name", [name for name in CASES if any(w in name for w in BREAKS)])
def test_what_has_no_graph_form_gives_the_same(name: str) -> None:
    function, arrays = CASES[name]

    @dj.compile(backend="numpy")
    def mapped(*args: Any) -> Any:
        return dj.vmap(lambda *args: function(dj, *args))(*args)

    expected = torch.vmap(lambda *args: function(torch, *args))(*map(given(torch), arrays))

    compare(expected, mapped(*map(given(dj), arrays)))


def flat(found: Any) -> list[Any]:
    return [y for x in found for y in flat(x)] if isinstance(found, (tuple, list)) else [found]
