"""Autocast regions: state, nesting, decorators, and training in them against PyTorch."""

import threading
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, DeviceError, InvalidValueError
from dynajit.utils.checkpoint import checkpoint


def torch_or_skip() -> Any:
    """The oracle."""
    return pytest.importorskip("torch", reason="PyTorch is the oracle")


def product_dtype() -> Any:
    """The dtype in which a product of float32 matrices is computed now."""
    return (dj.ones(2, 2) @ dj.ones(2, 2)).dtype


# ---------------------------------------------------------------------------------------------
# regions


def test_a_region_begins_and_ends() -> None:
    with dj.autocast("cpu") as region:
        assert isinstance(region, dj.amp.autocast)
        assert dj.is_autocast_enabled("cpu")
        assert dj.is_autocast_cpu_enabled()
        assert product_dtype() is dj.bfloat16

    assert not dj.is_autocast_enabled("cpu")
    assert product_dtype() is dj.float32


def test_regions_nest() -> None:
    with dj.autocast("cpu", dtype=dj.float16):
        with dj.autocast("cpu", enabled=False):
            assert product_dtype() is dj.float32
            with dj.autocast("cpu", dtype=dj.bfloat16):
                assert product_dtype() is dj.bfloat16
            assert product_dtype() is dj.float32
        assert product_dtype() is dj.float16
        with dj.autocast("cpu"):  # the dtype of the region around it
            assert product_dtype() is dj.float16


def test_a_region_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), dj.autocast("cpu"):
        raise ZeroDivisionError

    assert product_dtype() is dj.float32


def test_one_region_is_entered_twice() -> None:
    region = dj.autocast("cpu")
    with region, region:
        assert product_dtype() is dj.bfloat16

    assert product_dtype() is dj.float32


def test_a_decorator_holds_for_each_call() -> None:
    @dj.autocast("cpu", dtype=dj.float16)
    def depth(n: int) -> Any:
        """Doc."""
        return depth(n - 1) if n else product_dtype()

    assert (depth.__name__, depth.__doc__) == ("depth", "Doc.")
    assert depth(3) is dj.float16
    assert product_dtype() is dj.float32


def test_only_callables_are_decorated() -> None:
    with pytest.raises(ArgumentError, match="requires a callable"):
        dj.autocast("cpu")(3)  # type: ignore[arg-type]


def test_the_state_belongs_to_the_thread() -> None:
    found = []
    with dj.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append(product_dtype()))
        thread.start()
        thread.join()

    assert found == [dj.float32]


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_cuda_warns_and_casts_nothing() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        region = dj.autocast("cuda", dtype=dj.float16)
    with region:
        assert not dj.is_autocast_enabled("cuda")
        assert product_dtype() is dj.float32
    with dj.autocast("cuda", enabled=False):
        assert product_dtype() is dj.float32


def test_another_dtype_warns_and_casts_nothing() -> None:
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling"):
        region = dj.autocast("cpu", dtype=dj.float32)
    with region:
        assert dj.get_autocast_dtype("cpu") is dj.float32
        assert product_dtype() is dj.float32


def test_device_types_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="Expected `device_type` of type `str`"):
        dj.autocast(3)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="unsupported autocast device_type 'cpu:0'"):
        dj.autocast("cpu:0")
    assert dj.amp.is_autocast_available("cuda")
    assert not dj.amp.is_autocast_available("abacus")


@pytest.mark.usefixtures("no_gpu")
def test_the_older_paths() -> None:
    with pytest.warns(FutureWarning, match="amp.autocast"):
        region = dj.cpu.amp.autocast(dtype=dj.float16)
    with region:
        assert product_dtype() is dj.float16
    with pytest.warns(FutureWarning), pytest.warns(UserWarning):
        region = dj.cuda.amp.autocast()
    with region:
        assert product_dtype() is dj.float32


def test_the_state_can_be_set_by_hand() -> None:
    dj.set_autocast_enabled("cpu", True)
    dj.set_autocast_dtype("cpu", dj.float16)
    try:
        assert product_dtype() is dj.float16
        assert dj.get_autocast_cpu_dtype() is dj.float16
    finally:
        dj.set_autocast_cpu_enabled(False)
        dj.set_autocast_cpu_dtype(dj.bfloat16)
    assert product_dtype() is dj.float32


def test_settings_are_kept_apart() -> None:
    defaults = dj.get_autocast_dtype("cpu"), dj.get_autocast_gpu_dtype()
    assert defaults == (dj.bfloat16, dj.float16)
    with dj.autocast("cpu", cache_enabled=False):
        assert not dj.is_autocast_cache_enabled()
        assert not dj.is_autocast_enabled("cuda")
        assert dj.get_autocast_gpu_dtype() is dj.float16
        for dtype in (dj.float64, dj.bfloat16, dj.int8, dj.float32):
            dj.set_autocast_gpu_dtype(dtype)
            assert dj.get_autocast_dtype("cuda") is dtype
            assert dj.get_autocast_dtype("cpu") is dj.bfloat16
    assert dj.is_autocast_cache_enabled()
    assert dj.get_autocast_gpu_dtype() is dj.float16


def test_regions_entered_by_hand_are_counted() -> None:
    assert dj.autocast_increment_nesting() == 1
    assert dj.autocast_increment_nesting() == 2
    assert dj.autocast_decrement_nesting() == 1
    assert dj.autocast_decrement_nesting() == 0
    dj.clear_autocast_cache()


# ---------------------------------------------------------------------------------------------
# custom functions and checkpoints


def test_custom_functions_cast_their_inputs_and_go_backward_likewise() -> None:
    seen = []

    class Product(dj.autograd.Function):
        @staticmethod
        @dj.amp.custom_fwd(device_type="cpu", cast_inputs=dj.float32)
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a.dtype, product_dtype()))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @dj.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            seen.append((g.dtype, product_dtype()))
            a, b = ctx.saved_tensors
            return g @ b.T, a.T @ g

    a = dj.ones(2, 2, dtype=dj.bfloat16, requires_grad=True)
    b = dj.ones(2, 2, requires_grad=True)
    with dj.autocast("cpu"):
        result = Product.apply(a, b)
    result.sum().backward()

    assert seen == [(dj.float32, dj.float32)] * 2
    assert (a.grad.dtype, b.grad.dtype) == (dj.bfloat16, dj.float32)


def test_custom_functions_without_a_cast_keep_autocast() -> None:
    seen = []

    class Same(dj.autograd.Function):
        @staticmethod
        @dj.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, a: Any) -> Any:
            seen.append(product_dtype())
            return a * 1

        @staticmethod
        @dj.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(product_dtype())
            return g

    a = dj.ones(2, requires_grad=True)
    with dj.autocast("cpu", dtype=dj.float16):
        result = Same.apply(a)
    result.sum().backward()

    assert seen == [dj.float16, dj.float16]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints_compute_again_under_the_same_autocast(use_reentrant: bool) -> None:
    w = dj.randn(4, 4, requires_grad=True)
    x = dj.randn(3, 4, requires_grad=True)
    seen = []

    def block(x: Any) -> Any:
        y = (x @ w).tanh() @ w
        seen.append(y.dtype)
        return y

    gradients = []
    for run in (block, lambda x: checkpoint(block, x, use_reentrant=use_reentrant)):
        w.grad = x.grad = None
        with dj.autocast("cpu"):
            y = run(x)
        y.sum().backward()
        gradients.append((w.grad, x.grad))

    assert seen == [dj.bfloat16] * 3
    assert all(dj.equal(a, b) for a, b in zip(*gradients, strict=True))


# ---------------------------------------------------------------------------------------------
# training


class Attention:
    """Makes a block of attention and a feed-forward net."""

    def __init__(self, lib: Any) -> None:
        nn = lib.nn
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.feed = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.modules = nn.ModuleList([self.attention, self.first, self.second, self.feed])

    def __call__(self, x: Any) -> Any:
        x = x + self.attention(self.first(x), self.first(x), self.first(x))[0]
        return (x + self.feed(self.second(x))).mean(1)

    def parameters(self) -> Any:
        """Those of all parts."""
        return self.modules.parameters()


def perceptron(lib: Any) -> Any:
    """Linear layers with normalisations and a dropout that does nothing."""
    nn = lib.nn
    return nn.Sequential(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 16), nn.BatchNorm1d(16),
        nn.SiLU(), nn.Dropout(0.0), nn.Linear(16, 8),
    )  # fmt: skip


def convolutions(lib: Any) -> Any:
    """A small net for images."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.GELU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 8),
    )  # fmt: skip


MODELS = {
    "perceptron": (perceptron, (6, 8)),
    "convolutions": (convolutions, (4, 2, 8, 8)),
    "attention": (Attention, (3, 5, 8)),
}


def trained(lib: Any, make: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Losses of three steps of SGD under autocast, and the last gradients."""
    random = np.random.default_rng(0)
    model = make(lib)
    parameters = list(model.parameters())
    with lib.no_grad():
        for parameter in parameters:
            values = random.standard_normal(tuple(parameter.shape)).astype("float32") * 0.4
            parameter.copy_(lib.from_numpy(values) + (len(parameter.shape) == 1))
    x = lib.from_numpy(random.standard_normal(shape).astype("float32"))
    target = lib.from_numpy(random.integers(0, 8, shape[0]))
    optimizer = lib.optim.SGD(parameters, lr=0.05, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        with lib.autocast("cpu", dtype=getattr(lib, dtype)):
            output = model(x)
            loss = lib.nn.functional.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    kinds = {str(parameter.grad.dtype).rpartition(".")[2] for parameter in parameters}
    kind = str(output.dtype).rpartition(".")[2], str(loss.dtype).rpartition(".")[2]
    return losses, kind, kinds, [parameter.grad.numpy() for parameter in parameters]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", MODELS)
def test_models_train_as_in_pytorch(name: str, dtype: str) -> None:
    make, shape = MODELS[name]
    losses, kind, kinds, gradients = trained(torch_or_skip(), make, shape, dtype)
    found = trained(dj, make, shape, dtype)

    assert found[1:3] == (kind, kinds)
    assert kinds == {"float32"}
    np.testing.assert_allclose(found[0], losses, rtol=3e-2 if dtype == "bfloat16" else 5e-3)
    for expected, actual in zip(gradients, found[3], strict=True):
        scale = np.abs(expected).max() + 0.05
        np.testing.assert_allclose(actual / scale, expected / scale, atol=0.12)
