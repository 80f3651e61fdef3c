"""Layers and losses against PyTorch, forward and backward, with the same weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 5, 6), dtype=np.float32)
INDICES = RANDOM.integers(0, 9, (4, 5))
CLASSES = np.array([1, 0, 4, 2])
LOGITS = RANDOM.standard_normal((4, 5), dtype=np.float32)
SIGNS = np.sign(LOGITS).astype(np.int64)
SHARES = np.abs(LOGITS) / np.abs(LOGITS).sum(1, keepdims=True)
COUNTS = np.round(SHARES * 9).astype(np.int64)
EDGES = np.array([-np.inf, -2, -0.4, -0.1, 0, 0.1, 0.4, 2, np.inf, np.nan], dtype=np.float32)


def on(library: Any, array: np.ndarray) -> Any:
    """The array as a tensor of the library; floats require gradients."""
    tensor = library.from_numpy(array.copy())
    return tensor.requires_grad_() if array.dtype.kind == "f" else tensor


def run(library: Any, make: Callable[[Any], Any], inputs: tuple[np.ndarray, ...]) -> Any:
    """(output, gradients of inputs and parameters) as arrays; weights are set by formula."""
    module = make(library.nn)
    for number, parameter in enumerate(module.parameters()):
        count = int(np.prod(parameter.shape))
        values = np.cos(np.arange(count) * 0.7 + number).reshape(tuple(parameter.shape))
        parameter.data = library.from_numpy(values.astype(np.float32))
    tensors = [on(library, array) for array in inputs]
    output = module(*tensors)
    weight = library.from_numpy(
        np.sin(np.arange(output.numel())).reshape(tuple(output.shape)).astype(np.float32)
    )
    if output.requires_grad:
        (output * weight).sum().backward()
    gradients = [t.grad for t in (*tensors, *module.parameters())]
    found = [None if g is None else g.numpy() for g in gradients]
    return output.detach().numpy(), found


CASES = {
    "linear": (lambda nn: nn.Linear(6, 3), (X,)),
    "linear without bias": (lambda nn: nn.Linear(6, 3, bias=False), (X,)),
    "embedding": (lambda nn: nn.Embedding(9, 4), (INDICES,)),
    "embedding with padding": (lambda nn: nn.Embedding(9, 4, padding_idx=2), (INDICES,)),
    "layer norm": (lambda nn: nn.LayerNorm(6), (X,)),
    "layer norm over two dims": (lambda nn: nn.LayerNorm((5, 6)), (X,)),
    "layer norm without weights": (lambda nn: nn.LayerNorm(6, elementwise_affine=False), (X,)),
    "rms norm": (lambda nn: nn.RMSNorm(6, eps=1e-6), (X,)),
    "relu": (lambda nn: nn.ReLU(), (X,)),
    "relu6": (lambda nn: nn.ReLU6(), (X * 5,)),
    "gelu": (lambda nn: nn.GELU(), (X,)),
    "gelu tanh": (lambda nn: nn.GELU("tanh"), (X,)),
    "silu": (lambda nn: nn.SiLU(), (X,)),
    "sigmoid": (lambda nn: nn.Sigmoid(), (X,)),
    "tanh": (lambda nn: nn.Tanh(), (X,)),
    "leaky relu": (lambda nn: nn.LeakyReLU(0.1), (X,)),
    "elu": (lambda nn: nn.ELU(0.7), (X,)),
    "softplus": (lambda nn: nn.Softplus(2.0, 1.0), (X,)),
    "softmax": (lambda nn: nn.Softmax(dim=1), (X,)),
    "log softmax": (lambda nn: nn.LogSoftmax(dim=-1), (X,)),
    "mish": (lambda nn: nn.Mish(), (X * 3,)),
    "selu": (lambda nn: nn.SELU(), (X,)),
    "celu": (lambda nn: nn.CELU(0.7), (X,)),
    "hardsigmoid": (lambda nn: nn.Hardsigmoid(), (X * 3,)),
    "hardswish": (lambda nn: nn.Hardswish(), (X * 3,)),
    "hardtanh": (lambda nn: nn.Hardtanh(-0.5, 0.7), (X,)),
    "log sigmoid": (lambda nn: nn.LogSigmoid(), (X * 9,)),
    "softsign": (lambda nn: nn.Softsign(), (X,)),
    "tanhshrink": (lambda nn: nn.Tanhshrink(), (X,)),
    "hardshrink": (lambda nn: nn.Hardshrink(0.4), (EDGES,)),
    "softshrink": (lambda nn: nn.Softshrink(0.4), (EDGES,)),
    "threshold": (lambda nn: nn.Threshold(0.4, 20.0), (EDGES,)),
    "rrelu in evaluation": (lambda nn: nn.RReLU(0.1, 0.3).eval(), (X,)),
    "prelu": (lambda nn: nn.PReLU(), (X,)),
    "prelu per channel": (lambda nn: nn.PReLU(5), (X,)),
    "glu": (lambda nn: nn.GLU(2), (X,)),
    "softmin": (lambda nn: nn.Softmin(dim=1), (X,)),
    "softmax 2d": (lambda nn: nn.Softmax2d(), (X,)),
    "alpha dropout in evaluation": (lambda nn: nn.AlphaDropout(0.5).eval(), (X,)),
    "flatten": (lambda nn: nn.Flatten(), (X,)),
    "unflatten": (lambda nn: nn.Unflatten(2, (2, 3)), (X,)),
    "dropout in evaluation": (lambda nn: nn.Dropout(0.5).eval(), (X,)),
    "mse": (lambda nn: nn.MSELoss(), (X, X[::-1].copy())),
    "l1 sum": (lambda nn: nn.L1Loss(reduction="sum"), (X, X[::-1].copy())),
    "cross entropy": (lambda nn: nn.CrossEntropyLoss(), (LOGITS, CLASSES)),
    "cross entropy smoothed": (
        lambda nn: nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1), (LOGITS, CLASSES),
    ),
    "cross entropy of probabilities": (
        lambda nn: nn.CrossEntropyLoss(reduction="none"),
        (LOGITS, np.abs(LOGITS) / np.abs(LOGITS).sum(1, keepdims=True)),
    ),
    "nll": (lambda nn: nn.NLLLoss(), (LOGITS, CLASSES)),
    "bce with logits": (
        lambda nn: nn.BCEWithLogitsLoss(), (LOGITS, (LOGITS > 0).astype(np.float32)),
    ),
    "bce": (
        lambda nn: nn.BCELoss(), (SHARES, (LOGITS > 0).astype(np.float32)),
    ),
    "kl divergence": (lambda nn: nn.KLDivLoss(reduction="batchmean"), (LOGITS, SHARES)),
    "kl divergence of logarithms": (
        lambda nn: nn.KLDivLoss(reduction="sum", log_target=True), (LOGITS, np.log(SHARES)),
    ),
    "smooth l1": (lambda nn: nn.SmoothL1Loss(beta=0.7), (X, X[::-1].copy())),
    "smooth l1 without beta": (lambda nn: nn.SmoothL1Loss(beta=0), (X, X[::-1].copy())),
    "huber": (lambda nn: nn.HuberLoss("sum", 0.7), (X, X[::-1].copy())),
    "soft margin": (lambda nn: nn.SoftMarginLoss(), (LOGITS, SIGNS)),
    "hinge": (lambda nn: nn.HingeEmbeddingLoss(0.7), (LOGITS, SIGNS)),
    "ranking": (lambda nn: nn.MarginRankingLoss(0.3), (LOGITS, LOGITS[::-1].copy(), SIGNS)),
    "triplet": (
        lambda nn: nn.TripletMarginLoss(0.9, swap=True, reduction="none"),
        (LOGITS, LOGITS[::-1].copy(), LOGITS * 2),
    ),
    "poisson": (lambda nn: nn.PoissonNLLLoss(full=True), (LOGITS, COUNTS)),
    "poisson of rates": (lambda nn: nn.PoissonNLLLoss(False), (SHARES, COUNTS)),
    "several labels": (
        lambda nn: nn.MultiLabelSoftMarginLoss(), (LOGITS, (LOGITS > 0).astype(np.float32)),
    ),
    "sequential": (
        lambda nn: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)),
        (X,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layer_equals_pytorchs(name: str) -> None:
    """Output and every gradient, float32, within rounding."""
    make, inputs = CASES[name]
    expected, expected_gradients = run(torch, make, inputs)
    actual, gradients = run(dj, make, inputs)

    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)
    assert repr(make(torch.nn)) == repr(make(dj.nn))
    assert [g is None for g in expected_gradients] == [g is None for g in gradients]
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)


def test_dropout_keeps_the_expectation_and_zeroes_a_share() -> None:
    """In training: about p of the elements are 0, the others are scaled by 1 / (1 - p)."""
    dj.manual_seed(0)
    y = dj.nn.Dropout(0.25)(dj.ones(10_000))
    kept = y[y != 0]

    assert 0.72 < kept.numel() / 10_000 < 0.78
    np.testing.assert_allclose(kept.numpy(), 1 / 0.75, rtol=1e-6)


@pytest.mark.parametrize("layer", ["AlphaDropout", "FeatureAlphaDropout"])
def test_alpha_dropout_keeps_mean_and_variance(layer: str) -> None:
    """Of standard normal numbers; two values replace what is dropped in ones, compiled as eager."""
    dj.manual_seed(0)
    module = getattr(dj.nn, layer)(0.3)
    y = module(dj.randn(300, 400))
    assert abs(y.mean().item()) < 0.02
    assert abs(y.std().item() - 1) < 0.02

    dj.manual_seed(1)
    expected = module(dj.ones(40, 30, 5))
    dj.manual_seed(1)
    assert 2 == len(np.unique(expected.numpy().round(5)))
    compiled = dj.compile(module, fullgraph=True)(dj.ones(40, 30, 5))
    np.testing.assert_allclose(compiled.numpy(), expected.numpy(), rtol=1e-6)
    assert (dj.nn.functional.alpha_dropout(dj.ones(3), 1.0, True) == 0).all()


def test_slopes_of_rrelu_are_drawn_per_element() -> None:
    """Uniform between the ends in training; positive elements stay."""
    dj.manual_seed(0)
    y = dj.nn.RReLU(0.2, 0.6)(-dj.ones(1000))

    assert -0.6 <= y.min().item() < -0.59
    assert -0.21 < y.max().item() <= -0.2
    assert [2.0] == dj.nn.RReLU()(dj.tensor([2.0])).tolist()


def test_gumbel_softmax_draws_by_the_logits() -> None:
    """One-hot with `hard`, as often as softmax says, with the gradient of the soft result."""
    dj.manual_seed(0)
    logits = dj.tensor([0.0, 1.0, 2.0]).expand(20_000, 3).clone().requires_grad_()
    drawn = dj.nn.functional.gumbel_softmax(logits, hard=True)
    share = dj.softmax(dj.tensor([0.0, 1.0, 2.0]), 0)
    (drawn * drawn.detach()).sum().backward()

    np.testing.assert_allclose(drawn.detach().sum(-1).numpy(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(drawn.detach().mean(0).numpy(), share.numpy(), atol=0.02)
    assert logits.grad is not None
    assert logits.grad.abs().sum().item() > 0


@pytest.mark.parametrize(("size_average", "reduce"), [(True, None), (False, None), (None, False)])
def test_older_options_say_the_reduction(size_average: Any, reduce: Any) -> None:
    """With PyTorch's warning, in modules and functions, eager and compiled."""
    x, y = X, X[::-1].copy()
    options = {"size_average": size_average, "reduce": reduce}
    found: list[Any] = []
    for library in (torch, dj):
        a, b = library.from_numpy(x), library.from_numpy(y)
        with pytest.warns(UserWarning, match="please use reduction="):
            module = library.nn.MSELoss(**options)
        found.append(module(a, b).numpy())
        with pytest.warns(UserWarning, match="please use reduction="):
            found.append(library.nn.functional.mse_loss(a, b, **options).numpy())
    for result in found[1:]:
        np.testing.assert_allclose(result, found[0], rtol=1e-5)


REFUSED = {
    "reduction": lambda F, t: F.mse_loss(t, t, reduction="max"),
    "sizes": lambda F, t: F.binary_cross_entropy(t, t[:, None]),
    "wide target": lambda F, t: F.binary_cross_entropy(t, t.double()),
    "whole target": lambda F, t: F.binary_cross_entropy(t, t.long()),
    "bool target": lambda F, t: F.binary_cross_entropy(t, t.bool()),
    "delta": lambda F, t: F.huber_loss(t, t, delta=-1.0),
    "beta": lambda F, t: F.smooth_l1_loss(t, t, beta=-1.0),
    "margin": lambda F, t: F.triplet_margin_loss(t, t, t, margin=0.0),
    "alpha": lambda F, t: F.celu(t, 0.0),
    "slopes": lambda F, t: F.prelu(t[None], t[:2]),
    "slopes in two dims": lambda F, t: F.prelu(t, t[:1, None]),
    "ends": lambda F, t: F.hardtanh(t, 0.5, -0.5),
    "ends of slopes": lambda F, t: F.rrelu(t, 0.5, 0.1),
    "width": lambda F, t: F.softshrink(t, -1.0),
    "integers": lambda F, t: F.hardshrink(t.long()),
    "probability": lambda F, t: F.alpha_dropout(t, 2.0, True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    """With an error of the same class."""
    with pytest.raises((ValueError, RuntimeError)) as expected:
        REFUSED[name](torch.nn.functional, torch.ones(3))
    with pytest.raises(expected.type):
        REFUSED[name](dj.nn.functional, dj.ones(3))


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_dropout_probability_is_checked(p: float) -> None:
    """PyTorch's error."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        dj.nn.Dropout(p)


def test_default_initialisation_has_pytorchs_bounds() -> None:
    """Linear: uniform within 1/sqrt(in); embedding: standard normal; norm: ones and zeros."""
    linear = dj.nn.Linear(100, 200)
    table = dj.nn.Embedding(200, 50, padding_idx=3)
    norm = dj.nn.LayerNorm(4)

    assert 0.09 < linear.weight.abs().max().item() <= 0.1
    assert 0.09 < linear.bias.abs().max().item() <= 0.1
    assert abs(table.weight.std().item() - 1) < 0.05
    assert [0.0] * 50 == table.weight[3].tolist()
    assert [1.0] * 4 == norm.weight.tolist()
    assert [0.0] * 4 == norm.bias.tolist()


SHOWN: list[Callable[[Any], Any]] = [
    *(
        lambda nn, name=name: getattr(nn, name)(inplace=True)
        for name in (
            "ReLU", "ReLU6", "ELU", "CELU", "SELU", "SiLU", "Mish", "LeakyReLU", "Hardtanh",
            "Hardsigmoid", "Hardswish", "RReLU", "Dropout", "AlphaDropout",
        )
    ),
    lambda nn: nn.Threshold(1, 2, inplace=True),
    lambda nn: nn.ModuleList(),
    lambda nn: nn.ModuleList([nn.ReLU()]),
    lambda nn: nn.ModuleList([nn.ReLU(), *(nn.Linear(2, 2) for _ in range(3)), nn.ReLU()]),
    lambda nn: nn.ModuleList([nn.Sequential(nn.Linear(2, 3), nn.Tanh()) for _ in range(2)]),
    lambda nn: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
    lambda nn: nn.Transformer(8, 2, 2, 3, 16, batch_first=True),
    lambda nn: nn.SyncBatchNorm(3, bias=False),
    lambda nn: nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.BatchNorm1d(3, bias=False), nn.BatchNorm2d(4, affine=False))
    ),
]  # fmt: skip


@pytest.mark.parametrize("make", SHOWN)
def test_texts_of_layers_are_pytorchs(make: Callable[[Any], Any]) -> None:
    assert repr(make(torch.nn)) == repr(make(dj.nn))
