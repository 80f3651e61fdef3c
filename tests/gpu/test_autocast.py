"""Autocast and gradient scaling for tensors of a GPU, by PyTorch's lists for CUDA."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.nn import functional as F

HALF = pytest.mark.parametrize("dtype", [dj.float16, dj.bfloat16], ids=str)


def drawn(*shape: int, dtype: Any = dj.float32) -> Any:
    """Numbers around 1 on the GPU."""
    generator = dj.Generator("cuda").manual_seed(3)
    return (dj.rand(*shape, generator=generator, device="cuda") + 0.5).to(dtype)


Call = Callable[[Any], Any]

LOWER: dict[str, Call] = {
    "matmul": lambda x: x @ x, "mm": lambda x: dj.mm(x, x), "mv": lambda x: dj.mv(x, x[0]),
    "addmm": lambda x: dj.addmm(x, x, x), "addmv": lambda x: dj.addmv(x[0], x, x[0]),
    "bmm": lambda x: dj.bmm(x[None], x[None]), "linear": lambda x: F.linear(x, x),
    "conv1d": lambda x: F.conv1d(x[None], x[None, :, :2]),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None, :2, :2]),
    "einsum": lambda x: dj.einsum("ij,jk->ik", x, x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "prelu": lambda x: F.prelu(x, x[0, :1]),
}  # fmt: skip
FULL: dict[str, Call] = {
    "exp": lambda x: x.exp(), "log": lambda x: x.log(), "pow": lambda x: x**3,
    "square": lambda x: x**2, "sum": lambda x: x.sum(), "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(0), "cumprod": lambda x: x.cumprod(0),
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)), "softplus": F.softplus,
    "group_norm": lambda x: F.group_norm(x, 2), "norm": lambda x: x.norm(),
    "rsqrt": lambda x: x.rsqrt(), "reciprocal": lambda x: x.reciprocal(),
    "mse_loss": lambda x: F.mse_loss(x, x + 1), "l1_loss": lambda x: F.l1_loss(x, x + 1),
    "cross_entropy": lambda x: F.cross_entropy(x, dj.arange(4, device="cuda")),
    "nll_loss": lambda x: F.nll_loss(x, dj.arange(4, device="cuda")),
    "with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1), "cdist": lambda x: dj.cdist(x, x),
    "tan": lambda x: x.tan(), "acos": lambda x: (x / 2).acos(),
    "erfinv": lambda x: (x / 2).erfinv(),
}  # fmt: skip
AS_IT_COMES: dict[str, Call] = {
    "add": lambda x: x + x, "mul": lambda x: x * 2, "relu": lambda x: x.relu(),
    "sigmoid": lambda x: x.sigmoid(), "tanh": lambda x: x.tanh(), "gelu": F.gelu,
    "mean": lambda x: x.mean(), "var": lambda x: x.var(), "amax": lambda x: x.amax(),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "exp_": lambda x: x.clone().exp_(), "sum_": lambda x: x.clone().add_(x),
}  # fmt: skip


@HALF
@pytest.mark.parametrize("name", LOWER)
def test_products_compute_in_the_lower_dtype(name: str, dtype: Any) -> None:
    """Of float32 operands, and of lower ones."""
    for kind in (dj.float32, dtype):
        x = drawn(4, 4, dtype=kind)
        with dj.autocast("cuda", dtype=dtype):
            found = LOWER[name](x)
        expected = LOWER[name](x.to(dtype))
        assert dtype is found.dtype
        np.testing.assert_array_equal(expected.cpu().float(), found.cpu().float())


@HALF
@pytest.mark.parametrize("name", FULL)
def test_sensitive_functions_compute_in_float32(name: str, dtype: Any) -> None:
    """Of lower operands."""
    x = drawn(4, 4, dtype=dtype)
    with dj.autocast("cuda", dtype=dtype):
        found = FULL[name](x)

    assert dj.float32 is found.dtype
    np.testing.assert_allclose(FULL[name](x.float()).cpu(), found.cpu(), rtol=2e-3)


@pytest.mark.parametrize("kind", [dj.float16, dj.float32, dj.float64], ids=str)
@pytest.mark.parametrize("name", AS_IT_COMES)
def test_other_functions_take_operands_as_they_come(name: str, kind: Any) -> None:
    """In-place forms among them."""
    x = drawn(4, 4, dtype=kind)
    with dj.autocast("cuda"):
        assert kind is AS_IT_COMES[name](x).dtype


def test_what_is_not_cast() -> None:
    """float64, integers, and tensors of the CPU; "cpu" is about the CPU alone."""
    wide, whole = drawn(4, 4, dtype=dj.float64), dj.ones(4, 4, dtype=dj.int64, device="cuda")
    host, x = dj.ones(4, 4), drawn(4, 4)
    with dj.autocast("cuda"):
        kinds = [(wide @ wide).dtype, wide.exp().dtype, (whole @ whole).dtype, (host @ host).dtype]
    assert [dj.float64, dj.float64, dj.int64, dj.float32] == kinds
    with dj.autocast("cpu"):
        assert [dj.float32, dj.bfloat16] == [(x @ x).dtype, (host @ host).dtype]
    with dj.autocast("cpu"), dj.autocast("cuda"):
        assert [dj.float16, dj.bfloat16] == [(x @ x).dtype, (host @ host).dtype]
    with dj.autocast("cuda"), dj.autocast("cuda", enabled=False):
        assert dj.float32 is (x @ x).dtype


def test_joined_tensors_meet_in_the_widest() -> None:
    """`cat` promotes as ever; scatters and grids are cast."""
    low, high = drawn(4, 4, dtype=dj.float16), drawn(4, 4)
    with dj.autocast("cuda"):
        assert dj.float32 is dj.cat([low, high]).dtype
        assert dj.float16 is dj.cat([low, low]).dtype
        index = dj.zeros(4, 4, dtype=dj.int64, device="cuda")
        assert dj.float32 is low.scatter_add(0, index, high).dtype
        assert dj.float32 is dj.atan2(low, high).dtype
        assert dj.float16 is dj.atan2(low, low).dtype


def test_probabilities_need_logits() -> None:
    """`binary_cross_entropy` is refused with the way out, as by PyTorch."""
    x = drawn(3) / 2
    with dj.autocast("cuda"), pytest.raises(RuntimeError, match="BCEWithLogitsLoss"):
        F.binary_cross_entropy(x, x)
    F.binary_cross_entropy(x, x)


def test_gradients_have_the_dtype_of_the_parameters() -> None:
    """Also where backward runs within the region."""
    model = dj.nn.Sequential(
        dj.nn.Linear(4, 8), dj.nn.LayerNorm(8), dj.nn.GELU(), dj.nn.Linear(8, 3)
    ).cuda()
    x = drawn(5, 4)

    def gradients(inside: bool) -> list[Any]:
        model.zero_grad()
        with dj.autocast("cuda", dtype=dj.bfloat16):
            loss = F.cross_entropy(model(x), dj.zeros(5, dtype=dj.int64, device="cuda"))
            assert dj.float32 is loss.dtype
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return [p.grad for p in model.parameters()]

    outside = gradients(False)
    assert {dj.float32} == {g.dtype for g in outside}
    for a, b in zip(outside, gradients(True), strict=True):
        np.testing.assert_array_equal(a.cpu(), b.cpu())


def test_recurrent_layers_run_in_the_lower_dtype() -> None:
    """With states of float32."""
    layer = dj.nn.LSTM(4, 3).cuda()
    with dj.autocast("cuda"):
        output, _ = layer(drawn(2, 5, 4))

    assert dj.float16 is output.dtype


def scaled_step(scaler: Any, factor: float) -> Any:
    """One step of a model whose gradient is `factor`; the weight afterwards."""
    weight = dj.nn.Parameter(dj.ones(3, device="cuda"))
    optimizer = dj.optim.SGD([weight], lr=0.5)
    scaler.scale((weight * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return weight.detach().tolist()


def test_scaled_losses_make_the_same_step() -> None:
    """And one without finite gradients is left out, with a smaller scale."""
    scaler = dj.amp.GradScaler("cuda", init_scale=8.0, growth_interval=1)

    assert scaler.is_enabled()
    assert [0.5] * 3 == scaled_step(scaler, 1.0)
    assert 16.0 == scaler.get_scale()
    assert [1.0] * 3 == scaled_step(scaler, float("inf"))
    assert 8.0 == scaler.get_scale()
    again = dj.amp.GradScaler("cuda")
    again.load_state_dict(scaler.state_dict())
    assert 8.0 == again.get_scale()
    scaler.scale(dj.ones(1, device="cuda"))
    scaler.update(dj.tensor(4.0, device="cuda"))
    assert 4.0 == scaler.get_scale()


def test_older_paths_are_about_the_gpu() -> None:
    """With a warning."""
    x = drawn(4, 4)
    with pytest.warns(FutureWarning, match="deprecated"):
        region = dj.cuda.amp.autocast()
    with region:
        assert dj.float16 is (x @ x).dtype
    with pytest.warns(FutureWarning, match="deprecated"):
        assert dj.cuda.amp.GradScaler().is_enabled()
