"""Every layer and loss on a GPU, forward and backward, against the same one on the CPU; moving
modules."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    """Numbers around 0."""
    return RANDOM.standard_normal(shape).astype(np.float32)


def classes(count: int, *shape: int) -> np.ndarray:
    """Integers below `count`."""
    return RANDOM.integers(0, count, shape)


X, LINE, PLANE, SPACE = floats(4, 6), floats(2, 4, 8), floats(2, 4, 6, 6), floats(2, 4, 4, 4, 4)
SHARES = np.abs(X) / np.abs(X).sum(1, keepdims=True)
SIGNS = np.sign(floats(4, 6))
SEQUENCE = floats(5, 3, 8)

Case = tuple[Callable[[], Any], tuple[Any, ...]]

POINTWISE = (
    "CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "Mish", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Identity", "Flatten", "PReLU",
)  # fmt: skip
DROPOUTS = {"Dropout": X, "AlphaDropout": X, "Dropout1d": LINE, "Dropout2d": PLANE,
            "Dropout3d": SPACE, "FeatureAlphaDropout": LINE}  # fmt: skip
ON = {"1d": LINE, "2d": PLANE, "3d": SPACE}

CASES: dict[str, Case] = {
    **{name: (getattr(nn, name), (X,)) for name in POINTWISE},
    **{name: (getattr(nn, name), (x,)) for name, x in DROPOUTS.items()},
    "RReLU": (nn.RReLU, (X,)),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), (X,)),
    "GLU": (lambda: nn.GLU(1), (X,)),
    "Softmax": (lambda: nn.Softmax(1), (X,)),
    "Softmin": (lambda: nn.Softmin(1), (X,)),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), (X,)),
    "Softmax2d": (nn.Softmax2d, (PLANE,)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 3)), (X,)),
    "Linear": (lambda: nn.Linear(6, 3), (X,)),
    "LazyLinear": (lambda: nn.LazyLinear(3), (X,)),
    "Bilinear": (lambda: nn.Bilinear(6, 6, 3), (X, X[::-1].copy())),
    "Sequential": (lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)), (X,)),
    "DataParallel": (lambda: nn.DataParallel(nn.Linear(6, 3)), (X,)),
    "Embedding": (lambda: nn.Embedding(9, 4, padding_idx=2, max_norm=1.0), (classes(9, 4, 5),)),
    "EmbeddingBag": (
        lambda: nn.EmbeddingBag(9, 4, mode="mean"), (classes(9, 10), np.array([0, 4, 4, 9])),
    ),
    "LayerNorm": (lambda: nn.LayerNorm(6), (X,)),
    "RMSNorm": (lambda: nn.RMSNorm(6), (X,)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (PLANE,)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), (PLANE,)),
    "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(3), (PLANE,)),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(4).eval(), (PLANE,)),
    **{f"BatchNorm{d}": (lambda d=d: getattr(nn, f"BatchNorm{d}")(4), (x,)) for d, x in ON.items()},
    **{
        f"InstanceNorm{d}": (
            lambda d=d: getattr(nn, f"InstanceNorm{d}")(4, affine=True, track_running_stats=True),
            (x,),
        )
        for d, x in ON.items()
    },
    **{
        f"{lazy}{kind}{d}": (lambda name=f"{lazy}{kind}{d}": getattr(nn, name)(), (x,))
        for lazy in ("Lazy",) for kind in ("BatchNorm", "InstanceNorm") for d, x in ON.items()
    },
    **{
        f"{kind}{d}": (
            lambda name=f"{kind}{d}": getattr(nn, name)(4, 6, 3, padding=1, stride=2), (x,),
        )
        for kind in ("Conv", "ConvTranspose") for d, x in ON.items()
    },
    **{
        f"Lazy{kind}{d}": (lambda name=f"Lazy{kind}{d}": getattr(nn, name)(6, 3, groups=2), (x,))
        for kind in ("Conv", "ConvTranspose") for d, x in ON.items()
    },
    **{
        f"{kind}{d}": (lambda name=f"{kind}{d}": getattr(nn, name)(2, 2), (x,))
        for kind in ("AvgPool", "MaxPool") for d, x in ON.items()
    },
    **{
        f"LPPool{d}": (lambda name=f"LPPool{d}": getattr(nn, name)(2, 2), (np.abs(x),))
        for d, x in ON.items()
    },
    **{
        f"Adaptive{kind}Pool{d}": (lambda name=f"Adaptive{kind}Pool{d}": getattr(nn, name)(3), (x,))
        for kind in ("Avg", "Max") for d, x in ON.items()
    },
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=3), (PLANE,)),
    "FractionalMaxPool3d": (lambda: nn.FractionalMaxPool3d(2, output_size=2), (SPACE,)),
    **{
        f"{kind}Pad{d}": (
            lambda name=f"{kind}Pad{d}", kind=kind: getattr(nn, name)(
                1, *((2.0,) if kind == "Constant" else ())
            ),
            (x,),
        )
        for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular")
        for d, x in ON.items()
    },
    "Fold": (lambda: nn.Fold((4, 5), 2), (floats(2, 8, 12),)),
    "Unfold": (lambda: nn.Unfold(2), (PLANE,)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (PLANE,)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (PLANE,)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (PLANE,)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (PLANE,)),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), (PLANE,)),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), (PLANE,)),
    "RNN": (lambda: nn.RNN(8, 4, 2, bidirectional=True), (SEQUENCE,)),
    "GRU": (lambda: nn.GRU(8, 4, 2, dropout=0.5), (SEQUENCE,)),
    "LSTM": (lambda: nn.LSTM(8, 4, 2, proj_size=3), (SEQUENCE,)),
    "RNNCell": (lambda: nn.RNNCell(6, 4), (X,)),
    "GRUCell": (lambda: nn.GRUCell(6, 4), (X,)),
    "LSTMCell": (lambda: nn.LSTMCell(6, 4), (X,)),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(8, 2), (SEQUENCE, SEQUENCE[::-1].copy(), SEQUENCE * 2),
    ),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16), (SEQUENCE,)),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16), (SEQUENCE, SEQUENCE)),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), (SEQUENCE,),
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2),
        (SEQUENCE, SEQUENCE),
    ),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16), (SEQUENCE, SEQUENCE[:3])),
    "CosineSimilarity": (nn.CosineSimilarity, (X, X[::-1].copy())),
    "PairwiseDistance": (nn.PairwiseDistance, (X, X[::-1].copy())),
    "MSELoss": (nn.MSELoss, (X, X[::-1].copy())),
    "L1Loss": (nn.L1Loss, (X, X[::-1].copy())),
    "SmoothL1Loss": (nn.SmoothL1Loss, (X, X[::-1].copy())),
    "HuberLoss": (nn.HuberLoss, (X, X[::-1].copy())),
    "CrossEntropyLoss": (
        lambda: nn.CrossEntropyLoss(weight=dj.arange(1.0, 7.0), label_smoothing=0.1),
        (X, classes(6, 4)),
    ),
    "NLLLoss": (nn.NLLLoss, (X, classes(6, 4))),
    "NLLLoss2d": (nn.NLLLoss2d, (PLANE, classes(4, 2, 6, 6))),
    "BCELoss": (nn.BCELoss, (SHARES, (X > 0).astype(np.float32))),
    "BCEWithLogitsLoss": (
        lambda: nn.BCEWithLogitsLoss(pos_weight=dj.arange(1.0, 7.0)),
        (X, (X > 0).astype(np.float32)),
    ),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), (X, SHARES)),
    "PoissonNLLLoss": (lambda: nn.PoissonNLLLoss(full=True), (X, np.round(SHARES * 9))),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (X, X[::-1].copy(), SHARES)),
    "SoftMarginLoss": (nn.SoftMarginLoss, (X, SIGNS)),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, (X, SIGNS)),
    "MarginRankingLoss": (lambda: nn.MarginRankingLoss(0.3), (X, X[::-1].copy(), SIGNS)),
    "TripletMarginLoss": (nn.TripletMarginLoss, (X, X[::-1].copy(), X * 2)),
    "TripletMarginWithDistanceLoss": (
        nn.TripletMarginWithDistanceLoss, (X, X[::-1].copy(), X * 2),
    ),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, (X, X[::-1].copy(), SIGNS[:, 0])),
    "MultiLabelMarginLoss": (
        nn.MultiLabelMarginLoss, (X, np.array([[0, 2, -1, 1, 1, 1]] * 4)),
    ),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, (X, (X > 0).astype(np.float32))),
    "MultiMarginLoss": (nn.MultiMarginLoss, (X, classes(6, 4))),
    "CTCLoss": (
        nn.CTCLoss,
        (floats(7, 2, 5), classes(4, 2, 3) + 1, np.array([7, 6]), np.array([3, 2])),
    ),
}  # fmt: skip
# Without a forward of their own, or called in another way below.
OTHERS = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase",
          "RNNCellBase", "AdaptiveLogSoftmaxWithLoss", "MaxUnpool1d", "MaxUnpool2d",
          "MaxUnpool3d"}  # fmt: skip


def tensors_of(value: Any) -> list[Any]:
    """The tensors of floats in a nest of tuples."""
    if isinstance(value, tuple):
        return [tensor for item in value for tensor in tensors_of(item)]
    return [value] if isinstance(value, dj.Tensor) and value.dtype.is_floating_point else []


def run(module: Any, inputs: tuple[np.ndarray, ...], device: str) -> list[Any]:
    """Outputs, gradients of inputs and parameters, and buffers afterwards, on the CPU."""
    dj.manual_seed(5)
    tensors = [dj.from_numpy(array.copy()).to(device) for array in inputs]
    for tensor in tensors[:1]:
        if tensor.dtype.is_floating_point:
            tensor.requires_grad_()
    outputs = tensors_of(module(*tensors))
    assert {device} == {output.device.type for output in outputs}
    total = sum((output * dj.arange(1.0, output.numel() + 1, device=device).view_as(output)).sum()
                for output in outputs)  # fmt: skip
    if total.requires_grad:
        total.backward()
    leaves = [tensors[0], *module.parameters()]
    grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
    assert {device} >= {grad.device.type for grad in grads}
    return [x.detach().cpu() for x in (*outputs, *grads, *module.buffers())]


@pytest.mark.parametrize("name", CASES)
def test_a_layer_does_on_the_gpu_what_it_does_on_the_cpu(name: str) -> None:
    """Outputs, gradients, statistics, and the numbers that dropout draws."""
    make, inputs = CASES[name]
    dj.manual_seed(1)
    here = make()
    if name.startswith("Lazy"):
        here(*map(dj.from_numpy, inputs))
    there = copy.deepcopy(here).cuda()
    expected, actual = run(here, inputs, "cpu"), run(there, inputs, "cuda")

    assert len(expected) == len(actual)
    for a, b in zip(expected, actual, strict=True):
        # Among sums of hundreds an element may be nothing but rounding: the slope of keys' biases.
        rounding = 2 * np.finfo(np.float32).eps * float(np.abs(np.asarray(a)).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=max(2e-5, rounding))


def test_every_layer_is_in_the_table() -> None:
    """New ones have to be added."""
    classes = {
        name for name, value in vars(nn).items()
        if inspect.isclass(value) and issubclass(value, nn.Module)
    }  # fmt: skip
    assert set() == classes - set(CASES) - OTHERS


@pytest.mark.parametrize(("d", "x"), ON.items(), ids=ON)
def test_pools_are_undone(d: str, x: np.ndarray) -> None:
    """By the positions that they return."""
    pool, unpool = (getattr(nn, f"{name}{d}") for name in ("MaxPool", "MaxUnpool"))
    found = []
    for device in ("cpu", "cuda"):
        values, places = pool(2, 2, return_indices=True)(dj.from_numpy(x).to(device))
        found.append(unpool(2, 2)(values, places).cpu())
    np.testing.assert_array_equal(*found)


def test_clusters_of_classes() -> None:
    """`AdaptiveLogSoftmaxWithLoss`."""
    dj.manual_seed(1)
    here = nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 6], div_value=2.0)
    there = copy.deepcopy(here).cuda()
    targets = dj.tensor([0, 4, 9, 2])
    a, b = here(dj.from_numpy(X), targets), there(dj.from_numpy(X).cuda(), targets.cuda())

    np.testing.assert_allclose(a.output.detach(), b.output.detach().cpu(), rtol=1e-5)
    np.testing.assert_allclose(a.loss.detach(), b.loss.detach().cpu(), rtol=1e-5)
    np.testing.assert_array_equal(
        here.predict(dj.from_numpy(X)), there.predict(dj.from_numpy(X).cuda()).cpu()
    )


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_packed_sequences_stay_on_their_device(kind: str) -> None:
    """The batch sizes are numbers of the CPU."""
    dj.manual_seed(1)
    here = getattr(nn, kind)(8, 4)
    there = copy.deepcopy(here).cuda()
    lengths = dj.tensor([2, 5, 3])
    found = []
    for module, device in ((here, "cpu"), (there, "cuda")):
        packed = nn.utils.rnn.pack_padded_sequence(
            dj.from_numpy(SEQUENCE).to(device), lengths, enforce_sorted=False
        )
        assert "cpu" == packed.batch_sizes.device.type
        output, _ = module(packed)
        padded, back = nn.utils.rnn.pad_packed_sequence(output)
        assert [2, 5, 3] == back.tolist()
        found.append(padded.detach().cpu())
    np.testing.assert_allclose(*found, rtol=1e-5)
    with pytest.raises(RuntimeError, match="CPU int64 tensor"):
        nn.utils.rnn.pack_padded_sequence(dj.from_numpy(SEQUENCE).cuda(), lengths.cuda())


# -- moving -------------------------------------------------------------------------------------


class Tied(nn.Module):
    """Two layers with one weight, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("steps", dj.zeros(1, dtype=dj.int64))

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu())


@pytest.mark.parametrize(
    "move",
    [lambda m: m.cuda(), lambda m: m.to("cuda"), lambda m: m.to(dj.device("cuda", 0)),
     lambda m: m.to(dj.ones(1, device="cuda")), lambda m: m.cuda(0),
     lambda m: m.to("cuda", dj.float32, non_blocking=True)],
)  # fmt: skip
def test_modules_move_in_place(move: Any) -> None:
    """Parameters stay the objects that they were, shared ones shared, with their gradients."""
    module = Tied()
    weight = module.first.weight
    module(dj.ones(2, 4)).sum().backward()
    gradient = weight.grad.clone()

    assert move(module) is module
    assert module.first.weight is module.second.weight is weight
    assert ["cuda", "cuda", "cuda"] == [
        weight.device.type, weight.grad.device.type, module.steps.device.type,
    ]  # fmt: skip
    assert dj.int64 is module.steps.dtype
    np.testing.assert_array_equal(gradient, weight.grad.cpu())
    module.zero_grad()
    module(dj.ones(2, 4, device="cuda")).sum().backward()
    np.testing.assert_allclose(gradient, weight.grad.cpu(), rtol=1e-6)
    assert "cpu" == module.cpu().first.weight.device.type


def test_modules_are_made_on_the_gpu() -> None:
    """By `device=`, with the numbers of the CPU at the same seed."""
    dj.manual_seed(2)
    here = nn.Linear(4, 3)
    dj.manual_seed(2)
    there = nn.Linear(4, 3, device="cuda")

    np.testing.assert_array_equal(here.weight.detach(), there.weight.detach().cpu())
    there.load_state_dict(here.state_dict())
    here.load_state_dict(there.state_dict())
    assert ("cpu", "cuda") == (here.bias.device.type, there.bias.device.type)
    empty = nn.Linear(4, 3).to_empty(device="cuda")
    assert "cuda" == empty.weight.device.type
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        there(dj.ones(2, 4))


OPTIMIZERS: dict[str, Any] = {
    name: getattr(dj.optim, name)
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam",
                 "RMSprop", "Rprop", "LBFGS", "Adafactor")
    if hasattr(dj.optim, name)
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_on_the_gpu_as_on_the_cpu(name: str) -> None:
    """Their state lies with the parameters; clipping, too."""
    dj.manual_seed(3)
    here = nn.Linear(6, 3)
    there = copy.deepcopy(here).cuda()
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    # Differences of clipped gradients are no curvature: LBFGS diverges, and roundings grow.
    most = 100.0 if name == "LBFGS" else 0.5
    for module, device in ((here, "cpu"), (there, "cuda")):
        optimizer = OPTIMIZERS[name](module.parameters(), lr=0.05, **options)
        x = dj.from_numpy(X).to(device)

        def closure(module: Any = module, optimizer: Any = optimizer, x: Any = x) -> Any:
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), most)
            return loss

        for _ in range(4):
            optimizer.step(closure)
        state = [
            value
            for entry in optimizer.state.values()
            for key, value in entry.items()
            if isinstance(value, dj.Tensor) and value.dim()
        ]
        assert {device} >= {value.device.type for value in state}
    for a, b in zip(here.parameters(), there.parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach().cpu(), rtol=1e-4, atol=1e-6)
