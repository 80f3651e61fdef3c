"""Layers, activations, attention and losses agree with PyTorch, forward and backward."""

import ml_dtypes
import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.eager import tensor
from dynajit.ir.graph import Builder
from dynajit.nn import functional
from dynajit.ops import TABLE, Kind
from dynajit.ops.functions.networks import nn as nn_functions
from dynajit.ops.table import dispatch
from tests.support.rows.compare import agree, torch
from tests.support.rows.samples import samples

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


X = normal(3, 4)
WIDENED = [op for op in TABLE if op.kind is Kind.COMPOSITE and op.rule.widens]
ACTIVATIONS = {
    "relu": lambda t, x: t.relu(x),
    "gelu": lambda t, x: t.F.gelu(x),
    "gelu_tanh": lambda t, x: t.F.gelu(x, approximate="tanh"),
    "silu": lambda t, x: t.F.silu(x),
    "mish": lambda t, x: t.F.mish(x),
    "softplus": lambda t, x: t.F.softplus(x),
    "softplus_beta": lambda t, x: t.F.softplus(x, 2.0, 1.0),
    "logsigmoid": lambda t, x: t.F.logsigmoid(x),
    "leaky_relu": lambda t, x: t.F.leaky_relu(x, 0.2),
    "elu": lambda t, x: t.F.elu(x, 0.7),
    "selu": lambda t, x: t.F.selu(x),
    "celu": lambda t, x: t.F.celu(x, 1.3),
    "relu6": lambda t, x: t.F.relu6(x * 4),
    "hardtanh": lambda t, x: t.F.hardtanh(x, -0.5, 0.8),
    "hardsigmoid": lambda t, x: t.F.hardsigmoid(x * 3),
    "hardswish": lambda t, x: t.F.hardswish(x * 3),
    "softsign": lambda t, x: t.F.softsign(x),
    "tanhshrink": lambda t, x: t.F.tanhshrink(x),
    "glu": lambda t, x: t.F.glu(x),
    "softmax": lambda t, x: t.F.softmax(x, dim=1),
    "softmax_dtype": lambda t, x: t.F.softmax(x, dim=0, dtype=t.float64),
    "log_softmax": lambda t, x: t.F.log_softmax(x, dim=-1),
    "softmin": lambda t, x: t.F.softmin(x, dim=1),
    "normalize": lambda t, x: t.F.normalize(x),
    "normalize_1": lambda t, x: t.F.normalize(x, p=1.0, dim=0),
    "prelu": lambda t, x: t.F.prelu(x, x[0, :1]),
    "prelu_of_a_number": lambda t, x: t.F.prelu(x[0, 0], x[0, :1]),
    "prelu_channels": lambda t, x: t.F.prelu(x, x[0]),
}
EXTREMES = np.array([-np.inf, -100, -20, -1e-3, 0, 1e-3, 20, 100, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_agree_with_pytorch(name):
    agree(ACTIVATIONS[name], X)


@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "elu", "softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_activations_of_16_bit_floats_agree_with_pytorch(name, dtype):
    agree(ACTIVATIONS[name], X.astype(dtype), tolerance=1e-2)


SLOPES = {
    "gelu": lambda nn, x: nn.gelu(x),
    "gelu_tanh": lambda nn, x: nn.gelu(x, approximate="tanh"),
    "silu": lambda nn, x: nn.silu(x),
    "mish": lambda nn, x: nn.mish(x),
    "hardsigmoid": lambda nn, x: nn.hardsigmoid(x),
    "hardswish": lambda nn, x: nn.hardswish(x),
}


@pytest.mark.parametrize("wrap", [lambda f: f, dj.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", [dj.float16, dj.bfloat16])
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_16_bit_activations_are_rounded_once(name, dtype, wrap):
    points = np.concatenate([np.linspace(-5, 5, 1001), np.linspace(-1000, 1000, 101)])
    x = tensor(points).to(dtype).requires_grad_()
    exact = torch.tensor(x.detach().double().numpy(), requires_grad=True)
    function = SLOPES[name]
    function(torch.nn.functional, exact).sum().backward()
    wrap(lambda x: function(functional, x))(x).sum().backward()
    unit = 2.0**-11 if dtype is dj.float16 else 2.0**-8
    np.testing.assert_allclose(x.grad.double().numpy(), exact.grad, rtol=unit, atol=unit / 16)


@pytest.mark.parametrize(
    "name", ["gelu", "silu", "softplus", "logsigmoid", "elu", "hardtanh", "leaky_relu", "mish"]
)
def test_activations_of_extreme_values_agree_with_pytorch(name):
    finite = EXTREMES[np.isfinite(EXTREMES)]
    agree(ACTIVATIONS[name], finite, tolerance=1e-5)
    if name not in ("gelu", "silu", "mish"):  # x * f(x) at -inf is a matter of evaluation order
        agree(ACTIVATIONS[name], EXTREMES, gradients=False)


def test_local_response_norm_of_integers_divides_as_pytorch_does():
    for shape in ((1, 6, 3), (2, 5, 3, 2), (0, 2, 3), (1, 0, 2)):
        x = np.arange(np.prod(shape)).reshape(shape)
        agree(lambda t, x: t.F.local_response_norm(x, 3, alpha=2.0, k=1.0), x, gradients=False)
    with pytest.raises(DTypeError, match="int32"):
        functional.local_response_norm(tensor([[[1]]]).int(), 1)


def test_activations_refuse_integers():
    for name in ("gelu", "silu", "softplus", "mish"):
        with pytest.raises(DTypeError, match="floating dtype"):
            getattr(nn_functions, name)(tensor([1, 2]))


# ---------------------------------------------------------------------------------------------
# layers

LAYERS = {
    "layer_norm": lambda t, x, w, b: t.F.layer_norm(x, (4,), w, b),
    "layer_norm_plain": lambda t, x, w, b: t.F.layer_norm(x, [4]),
    "layer_norm_two": lambda t, x, w, b: t.F.layer_norm(x, (3, 4), eps=1e-3),
    "layer_norm_weight": lambda t, x, w, b: t.F.layer_norm(x, (4,), w),
    "rms_norm": lambda t, x, w, b: t.F.rms_norm(x, (4,), w, 1e-6),
    "rms_norm_plain": lambda t, x, w, b: t.F.rms_norm(x, (4,)),
    "group_norm": lambda t, x, w, b: t.F.group_norm(x.transpose(1, 2), 2, w, b),
    "linear": lambda t, x, w, b: t.F.linear(x, x[0] * w, b[:3]),
    "cosine_similarity": lambda t, x, w, b: t.F.cosine_similarity(x, x * w, dim=-1),
    "cosine_similarity of numbers": lambda t, x, w, b: t.F.cosine_similarity(
        x[0, 0, 0], w[0], dim=0
    ),
    "cosine_similarity of a broadcast row": lambda t, x, w, b: t.F.cosine_similarity(x, w, dim=0),
    "pairwise_distance": lambda t, x, w, b: t.F.pairwise_distance(x, x * w),
    "dropout_off": lambda t, x, w, b: t.F.dropout(x, 0.5, training=False),
    "dropout_none": lambda t, x, w, b: t.F.dropout(x, 0.0),
    "dropout_all": lambda t, x, w, b: t.F.dropout(x, 1.0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_pytorch(name):
    agree(LAYERS[name], normal(2, 3, 4), normal(4), normal(4), tolerance=5e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_layer_norm_of_every_floating_dtype_agrees_with_pytorch(dtype):
    arrays = [normal(2, 8).astype(dtype), normal(8).astype(dtype), normal(8).astype(dtype)]
    tolerance = 1e-12 if dtype is np.float64 else 2e-2
    agree(lambda t, x, w, b: t.F.layer_norm(x, (8,), w, b), *arrays, tolerance=tolerance)


def test_dropout_zeroes_a_share_and_keeps_the_mean():
    x = tensor(np.ones(20000, np.float32), requires_grad=True)
    out = nn_functions.dropout(x, 0.3)
    values = out.array if not out.requires_grad else out.detach().array
    kept = values != 0
    assert abs(kept.mean() - 0.7) < 0.02
    np.testing.assert_allclose(values[kept], 1 / 0.7, rtol=1e-6)
    out.sum().backward()
    assert np.array_equal(values, x.grad.array)


def test_dropout_depends_only_on_seed_and_position():
    x = tensor(np.ones(100, np.float32))
    first = TABLE.dropout(x, 5, 3, p=0.5, shift=2)
    assert np.array_equal(first.array, TABLE.dropout(x, 5, 5, p=0.5).array)
    assert not np.array_equal(first.array, TABLE.dropout(x, 5, 6, p=0.5).array)


def test_layers_refuse_wrong_sizes():
    x = tensor(X)
    with pytest.raises(ShapeError, match="normalized_shape"):
        nn_functions.layer_norm(x, (5,))
    with pytest.raises(ShapeError, match="same shape as"):
        nn_functions.layer_norm(x, (4,), tensor(np.ones(3, np.float32)))
    with pytest.raises(ShapeError, match="cannot be multiplied"):
        nn_functions.linear(x, tensor(np.ones((2, 3), np.float32)))
    with pytest.raises(DTypeError, match="same dtype"):
        nn_functions.linear(x, tensor(np.ones((2, 4))))
    with pytest.raises(ShapeError, match="divisible"):
        nn_functions.group_norm(x, 3)
    with pytest.raises(ShapeError, match="halving dimension"):
        nn_functions.glu(x, 0)
    with pytest.raises(ShapeError, match="2-D"):
        functional.embedding(tensor([0]), x[0])


# ---------------------------------------------------------------------------------------------
# attention

ATTENTION = {
    "plain": lambda t, q, k, v: t.F.scaled_dot_product_attention(q, k, v),
    "causal": lambda t, q, k, v: t.F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "scale": lambda t, q, k, v: t.F.scaled_dot_product_attention(q, k, v, scale=0.3),
    "added_mask": lambda t, q, k, v: t.F.scaled_dot_product_attention(
        q, k, v, attn_mask=t.tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5))
    ),
    "bool_mask": lambda t, q, k, v: t.F.scaled_dot_product_attention(
        q, k, v, attn_mask=t.tensor(np.arange(15).reshape(3, 5) % 3 > 0)
    ),
    "dead_row": lambda t, q, k, v: t.F.scaled_dot_product_attention(
        q, k, v, attn_mask=t.tensor(np.arange(15).reshape(3, 5) > 4)
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_agrees_with_pytorch(name):
    agree(
        ATTENTION[name], normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 6), tolerance=1e-5
    )


def test_grouped_queries_agree_with_pytorch():
    agree(
        lambda t, q, k, v: t.F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        normal(2, 4, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4), tolerance=1e-5,
    )  # fmt: skip


def test_attention_in_half_precision_is_close_to_pytorch():
    arrays = [normal(1, 2, 3, 4).astype(np.float16) for _ in range(3)]
    agree(ATTENTION["plain"], *arrays, tolerance=5e-3)


def test_attention_with_dropout_runs_and_differentiates():
    q = tensor(normal(2, 3, 4), requires_grad=True)
    out = nn_functions.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    out.sum().backward()
    assert np.isfinite(q.grad.array).all()


def test_attention_refuses_two_masks():
    q = tensor(normal(2, 3, 4))
    with pytest.raises(ArgumentError, match="is_causal"):
        nn_functions.scaled_dot_product_attention(
            q, q, q, attn_mask=tensor(np.ones((3, 3), bool)), is_causal=True
        )


# ---------------------------------------------------------------------------------------------
# losses

TARGET = np.array([1, 0, 3, 2, -100])
LOSSES = {
    "plain": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "smoothing": {"label_smoothing": 0.1},
    "smoothing_sum": {"label_smoothing": 0.3, "reduction": "sum"},
    "smoothing_none": {"label_smoothing": 0.3, "reduction": "none"},
    "ignore": {"ignore_index": 3},
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_agrees_with_pytorch(name, weighted):
    options = LOSSES[name]
    target = np.where(TARGET == -100, options.get("ignore_index", -100), TARGET)
    weight = np.array([0.5, 2, 1, 0.1], np.float32)

    def expression(t, x):
        given = t.tensor(weight) if weighted else None
        return t.F.cross_entropy(x, t.tensor(target), weight=given, **options)

    agree(expression, normal(5, 4))


def test_cross_entropy_over_images_and_single_samples_agrees_with_pytorch():
    target = RNG.integers(0, 4, (2, 3, 5))
    agree(lambda t, x: t.F.cross_entropy(x, t.tensor(target)), normal(2, 4, 3, 5))
    agree(lambda t, x: t.F.cross_entropy(x, t.tensor(2)), normal(4))


@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"label_smoothing": 0.2}])
def test_cross_entropy_with_probabilities_agrees_with_pytorch(options):
    target = np.random.default_rng(1).dirichlet(np.ones(4), 5).astype(np.float32)
    agree(lambda t, x, y: t.F.cross_entropy(x, y, **options), normal(5, 4), target)


def test_cross_entropy_of_half_precision_agrees_with_pytorch():
    agree(
        lambda t, x: t.F.cross_entropy(x, t.tensor(TARGET)), normal(5, 4).astype(np.float16),
        tolerance=5e-3,
    )  # fmt: skip


def test_an_ignored_sample_with_an_infinite_entry_does_not_spoil_the_loss():
    log_probabilities = np.array([[-1, -2], [-np.inf, 0]], np.float32)
    target = np.array([1, -100])
    agree(lambda t, x: t.F.nll_loss(x, t.tensor(target)), log_probabilities)
    assert np.isfinite(functional.nll_loss(tensor(log_probabilities), tensor(target)).array)


def test_all_samples_ignored_give_nan():
    agree(lambda t, x: t.F.cross_entropy(x, t.tensor([-100, -100])), normal(2, 3))


def test_targets_out_of_range_are_refused():
    with pytest.raises(BoundsError, match="index 7 is out of range"):
        functional.cross_entropy(tensor(normal(2, 3)), tensor([1, 7]))
    with pytest.raises(ShapeError, match="expected a target of shape"):
        functional.cross_entropy(tensor(normal(2, 3)), tensor([1]))
    with pytest.raises(ValueError, match="reduction"):
        functional.cross_entropy(tensor(normal(2, 3)), tensor([1, 1]), reduction="max")


PAIRS = {
    "mse_loss": lambda t, x, y: t.F.mse_loss(x, y),
    "mse_loss_sum": lambda t, x, y: t.F.mse_loss(x, y, reduction="sum"),
    "mse_loss_none": lambda t, x, y: t.F.mse_loss(x, y, reduction="none"),
    "l1_loss": lambda t, x, y: t.F.l1_loss(x, y),
    "smooth_l1_loss": lambda t, x, y: t.F.smooth_l1_loss(x, y, beta=0.5),
    "huber_loss_weighted": lambda t, x, y: t.F.huber_loss(x, y, weight=y.sigmoid()),
    "huber_loss": lambda t, x, y: t.F.huber_loss(x, y, delta=0.5, reduction="sum"),
    "bce": lambda t, x, y: t.F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    "bce_weight": lambda t, x, y: t.F.binary_cross_entropy(
        x.sigmoid(), y.sigmoid(), weight=y.detach().abs(), reduction="sum"
    ),
    "bce_logits": lambda t, x, y: t.F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "bce_logits_weights": lambda t, x, y: t.F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), pos_weight=t.tensor(2.0), reduction="none"
    ),
    "kl_div": lambda t, x, y: t.F.kl_div(x, y.sigmoid(), reduction="batchmean"),
    "kl_div_of_a_number": lambda t, x, y: t.F.kl_div(
        x[0, 0], y[0, 0].sigmoid(), reduction="batchmean"
    ),
    "kl_div_log": lambda t, x, y: t.F.kl_div(x, y, log_target=True, reduction="sum"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_losses_of_two_tensors_agree_with_pytorch(name):
    agree(PAIRS[name], X, normal(3, 4), tolerance=5e-6)


def test_gradients_at_zero_agree_with_pytorch():
    zeros, ones = np.zeros((2, 2), np.float32), np.ones((2, 2), np.float32)
    agree(PAIRS["bce_logits"], zeros, ones)
    agree(lambda t, x, y: t.F.binary_cross_entropy(x, y), zeros, ones)
    agree(lambda t, x: x.norm(), zeros)
    agree(lambda t, x: x.std(), zeros)
    agree(lambda t, x, y: t.F.l1_loss(x, y), zeros, zeros)
    agree(lambda t, x: t.F.normalize(x), zeros, tolerance=1e-5)


# ---------------------------------------------------------------------------------------------
# double derivatives, graphs, symbolic sizes

SMOOTH = {
    "softmax": lambda F, x: (F.softmax(x, 1) ** 2).sum(),
    "log_softmax": lambda F, x: (F.log_softmax(x, 1) ** 2).sum(),
    "layer_norm": lambda F, x: (F.layer_norm(x, (4,)) ** 3).sum(),
    "gelu": lambda F, x: F.gelu(x).sum(),
    "silu": lambda F, x: F.silu(x).sum(),
    "logsumexp": lambda F, x: x.logsumexp(1).sum(),
    "var": lambda F, x: (x.var(1) ** 2).sum(),
    "norm": lambda F, x: x.norm(dim=1).sum(),
    "cross_entropy": lambda F, x: F.cross_entropy(x, (x > 9).any(1).long()),
    "mse_loss": lambda F, x: F.mse_loss(x, x * x),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_agree_with_pytorch(name):
    from dynajit.eager.backward import engine as tape

    data = np.random.default_rng(4).standard_normal((3, 4))
    x = torch.tensor(data, requires_grad=True)
    (first,) = torch.autograd.grad(SMOOTH[name](torch.nn.functional, x), x, create_graph=True)
    (first**2).sum().backward()
    y = tensor(data, requires_grad=True)
    (ours,) = tape.grad(SMOOTH[name](functional, y), y, create_graph=True)
    (ours**2).sum().backward()
    np.testing.assert_allclose(y.grad.array, x.grad.numpy(), rtol=1e-9, atol=1e-10)


def test_composites_of_symbolic_sizes_infer_their_types():
    n = symbol("n", 1)
    builder = Builder()
    x = builder.placeholder("x", TensorType((n, 3, 4), dtypes.float32))
    w = builder.placeholder("w", TensorType((5, 4), dtypes.float32))
    with dispatch.recording(builder.handle):
        assert x.mean(0).shape == (3, 4)
        assert x.var().shape == ()
        assert nn_functions.linear(x, w).shape == (n, 3, 5)
        assert nn_functions.scaled_dot_product_attention(x, x, x).shape == (n, 3, 4)
        assert (x @ w.T).shape == (n, 3, 5)


def test_composites_expand_into_rows_that_infer_the_same_type():
    builder = Builder()
    x = builder.placeholder("x", TensorType((symbol("n", 1), 4), dtypes.float16))
    for op in (TABLE.softmax, TABLE.log_softmax):
        with dispatch.recording(builder.handle):
            expanded = op.rule.function(TABLE, x, dim=1)
        assert expanded.type == op.infer(x.type, dim=1)
    for op in (TABLE.mean, TABLE.var, TABLE.std, TABLE.logsumexp, TABLE.euclidean_norm):
        attributes = op.bind({"dim": (0,), "keepdim": True})
        with dispatch.recording(builder.handle):
            expanded = op.rule.function(TABLE, x, **attributes)
        assert expanded.type == op.infer(x.type, **attributes)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", WIDENED, ids=lambda op: op.name)
def test_rows_that_widen_are_those_of_float32_rounded_once(op, dtype):
    """To the bit, eager and in a graph, whose call is that of the row over float32."""
    for sample in samples(op, dtype):
        given = [dj.tensor(x) if isinstance(x, np.ndarray) else x for x in sample.inputs]
        shorts = [isinstance(x, dj.Tensor) and x.dtype is dtype for x in given]
        assert any(shorts)
        widened = [x.float() if short else x for x, short in zip(given, shorts, strict=True)]
        expected = op(*widened, **sample.attributes)

        result = op(*given, **sample.attributes)

        assert dj.equal(result, expected.to(result.dtype)), sample.name
        builder = Builder()
        operands = [
            builder.placeholder(f"x{i}", TensorType(tuple(x.shape), x.dtype))
            if isinstance(x, dj.Tensor)
            else x
            for i, x in enumerate(given)
        ]
        with dispatch.recording(builder.handle):
            recorded = op.rule.function(TABLE, *operands, **sample.attributes)
        graph = builder.finish([recorded])
        assert {node.op.name for node in graph.nodes if node.op} - {"cast"} == {op.name}
