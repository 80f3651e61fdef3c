"""Under autocast library functions compute in the dtypes of PyTorch's lists for the CPU."""

import warnings

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DTypeError


def torch_or_skip():
    return pytest.importorskip("torch", reason="PyTorch is the oracle")


class Operands:
    """Makes equal operands in dynajit and PyTorch; `lib` is either."""

    def __init__(self, lib, dtype):
        self.lib, self.F, self.dtype = lib, lib.nn.functional, getattr(lib, dtype)

    def of(self, array):
        return self.lib.from_numpy(np.ascontiguousarray(array)).to(self.dtype)

    def __call__(self, *shape):
        return self.of(np.random.default_rng(len(shape)).standard_normal(shape).astype("float32"))

    def shares(self, *shape):
        return self.of(np.random.default_rng(3).random(shape).astype("float32") * 0.8 + 0.1)

    def definite(self):
        x = np.random.default_rng(4).standard_normal((3, 3)).astype("float32")
        return self.of(x @ x.T + np.eye(3, dtype="float32"))

    def index(self, *values):
        return self.lib.tensor(values[0] if len(values) == 1 else list(values))


PRODUCTS = {
    "matmul": lambda t: t.lib.matmul(t(3, 4), t(4, 5)),
    "matmul of vectors": lambda t: t.lib.matmul(t(4), t(4)),
    "@": lambda t: t(3, 4) @ t(4),
    "Tensor.mm": lambda t: t(3, 4).mm(t(4, 5)),
    "bmm": lambda t: t.lib.bmm(t(2, 3, 4), t(2, 4, 5)),
    "mv": lambda t: t.lib.mv(t(3, 4), t(4)),
    "dot": lambda t: t.lib.dot(t(4), t(4)),
    "outer": lambda t: t.lib.outer(t(4), t(3)),
    "inner of vectors": lambda t: t.lib.inner(t(4), t(4)),
    "inner": lambda t: t.lib.inner(t(3, 4), t(2, 4)),
    "tensordot": lambda t: t.lib.tensordot(t(3, 4), t(4, 5), dims=1),
    "einsum": lambda t: t.lib.einsum("ij,jk->ik", t(3, 4), t(4, 5)),
    "einsum of three": lambda t: t.lib.einsum("ij,jk,kl->il", t(3, 4), t(4, 5), t(5, 2)),
    "einsum without a sum": lambda t: t.lib.einsum("i,j->ij", t(3), t(4)),
    "einsum elementwise": lambda t: t.lib.einsum("ij,ij->ij", t(3, 4), t(3, 4)),
    "einsum of one": lambda t: t.lib.einsum("ij->i", t(3, 4)),
    "multi_dot": lambda t: t.lib.linalg.multi_dot([t(3, 4), t(4, 5), t(5, 2)]),
    "vecdot": lambda t: t.lib.linalg.vecdot(t(3, 4), t(3, 4)),
    "matrix_power": lambda t: t.lib.linalg.matrix_power(t(3, 3), 3),
    "addmm": lambda t: t.lib.addmm(t(3, 5), t(3, 4), t(4, 5)),
    "addmm_": lambda t: t(3, 5).addmm_(t(3, 4), t(4, 5)),
    "addmv": lambda t: t.lib.addmv(t(3), t(3, 4), t(4)),
    "addr": lambda t: t.lib.addr(t(3, 4), t(3), t(4)),
    "baddbmm": lambda t: t.lib.baddbmm(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)),
    "addbmm": lambda t: t.lib.addbmm(t(3, 5), t(2, 3, 4), t(2, 4, 5)),
    "cov": lambda t: t.lib.cov(t(3, 4)),
    "linear": lambda t: t.F.linear(t(3, 4), t(5, 4), t(5)),
    "bilinear": lambda t: t.F.bilinear(t(3, 4), t(3, 5), t(2, 4, 5), t(2)),
    "conv1d": lambda t: t.F.conv1d(t(2, 3, 8), t(4, 3, 3), t(4)),
    "conv2d": lambda t: t.F.conv2d(t(2, 3, 8, 8), t(4, 3, 3, 3), padding="same"),
    "conv3d": lambda t: t.F.conv3d(t(1, 2, 4, 4, 4), t(4, 2, 3, 3, 3)),
    "conv_transpose1d": lambda t: t.F.conv_transpose1d(t(2, 3, 8), t(3, 4, 3)),
    "conv_transpose2d": lambda t: t.F.conv_transpose2d(t(2, 3, 8, 8), t(3, 4, 3, 3)),
    "prelu": lambda t: t.F.prelu(t(3, 4), t(1)),
    "attention": lambda t: t.F.scaled_dot_product_attention(t(2, 3, 4), t(2, 3, 4), t(2, 3, 4)),
    "affine_grid": lambda t: t.F.affine_grid(t(1, 2, 3), (1, 1, 4, 4), align_corners=False),
}
FULL = {
    "mse_loss": lambda t: t.F.mse_loss(t(3, 4), t(3, 4), reduction="none"),
    "l1_loss": lambda t: t.F.l1_loss(t(3, 4), t(3, 4)),
    "smooth_l1_loss": lambda t: t.F.smooth_l1_loss(t(3, 4), t(3, 4)),
    "huber_loss": lambda t: t.F.huber_loss(t(3, 4), t(3, 4)),
    "cross_entropy": lambda t: t.F.cross_entropy(t(3, 4), t.index(0, 2, 1)),
    "cross_entropy of shares": lambda t: t.F.cross_entropy(t(3, 4), t.shares(3, 4)),
    "nll_loss": lambda t: t.F.nll_loss(t(3, 4), t.index(0, 2, 1)),
    "binary_cross_entropy": lambda t: t.F.binary_cross_entropy(t.shares(3), t.shares(3)),
    "with_logits": lambda t: t.F.binary_cross_entropy_with_logits(t(3), t.shares(3)),
    "kl_div": lambda t: t.F.kl_div(t(3, 4), t.shares(3, 4), reduction="batchmean"),
    "soft_margin_loss": lambda t: t.F.soft_margin_loss(t(3, 4), t(3, 4)),
    "hinge_embedding_loss": lambda t: t.F.hinge_embedding_loss(t(3, 4), t(3, 4)),
    "margin_ranking_loss": lambda t: t.F.margin_ranking_loss(t(3), t(3), t(3)),
    "triplet_margin_loss": lambda t: t.F.triplet_margin_loss(t(3, 4), t(3, 4), t(3, 4)),
    "poisson_nll_loss": lambda t: t.F.poisson_nll_loss(t(3, 4), t.shares(3, 4)),
    "gaussian_nll_loss": lambda t: t.F.gaussian_nll_loss(t(3), t(3), t.shares(3)),
    "cosine_embedding_loss": lambda t: t.F.cosine_embedding_loss(t(2, 4), t(2, 4), t.index(1, -1)),
    "multilabel_soft_margin": lambda t: t.F.multilabel_soft_margin_loss(t(3, 4), t.shares(3, 4)),
    "prod": lambda t: t(3, 4).prod(1),
    "prod with a dtype": lambda t: t(3, 4).prod(1, dtype=t.lib.float16),
    "trace": lambda t: t.lib.trace(t(3, 3)),
    "max_pool3d": lambda t: t.F.max_pool3d(t(1, 2, 4, 4, 4), 2),
    "max_pool3d with positions": lambda t: t.F.max_pool3d(t(1, 2, 4, 4, 4), 2, return_indices=True)[
        0
    ],
    "adaptive_avg_pool3d": lambda t: t.F.adaptive_avg_pool3d(t(1, 2, 4, 4, 4), 2),
    "adaptive_max_pool3d": lambda t: t.F.adaptive_max_pool3d(t(1, 2, 4, 4, 4), 2),
    "max_unpool2d": lambda t: t.F.max_unpool2d(t(1, 1, 1, 2), t.index([[[[0, 3]]]]), 2),
    "grid_sample": lambda t: t.F.grid_sample(t(1, 1, 4, 4), t(1, 2, 2, 2), align_corners=False),
    "pad constant": lambda t: t.F.pad(t(1, 2, 4), (1, 1)),
    "pad reflect": lambda t: t.F.pad(t(1, 2, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "pad reflect 3d": lambda t: t.F.pad(t(1, 2, 4, 4, 4), (1,) * 6, mode="reflect"),
    "pad replicate 3d": lambda t: t.F.pad(t(1, 2, 4, 4, 4), (1,) * 6, mode="replicate"),
    "pad circular": lambda t: t.F.pad(t(1, 2, 4), (1, 1), mode="circular"),
}
AS_GIVEN = {
    "softmax": lambda t: t.F.softmax(t(3, 4), -1),
    "log_softmax": lambda t: t.F.log_softmax(t(3, 4), -1),
    "layer_norm": lambda t: t.F.layer_norm(t(3, 4), (4,), t(4), t(4)),
    "group_norm": lambda t: t.F.group_norm(t(3, 4), 2, t(4), t(4)),
    "batch_norm": lambda t: t.F.batch_norm(t(3, 4), None, None, training=True),
    "exp": lambda t: t(3, 4).exp(),
    "sum": lambda t: t(3, 4).sum(0),
    "pow": lambda t: t.shares(3, 4) ** 2.5,
    "avg_pool2d": lambda t: t.F.avg_pool2d(t(1, 2, 4, 4), 2),
    "embedding": lambda t: t.F.embedding(t.index(0, 1), t(3, 4)),
    "norm": lambda t: t.lib.linalg.norm(t(3, 4)),
    "cosine_similarity": lambda t: t.F.cosine_similarity(t(3, 4), t(3, 4)),
    "normalize": lambda t: t.F.normalize(t(3, 4)),
    "add": lambda t: t(3, 4) + t(4),
}
JOINS = {
    "cat": lambda t: t.lib.cat([t(3), t(3)]),
    "cat of two dtypes": lambda t: t.lib.cat([t(3).bfloat16(), t(3)]),
    "stack of two dtypes": lambda t: t.lib.stack([t(3), t(3).bfloat16()]),
    "cat of float64": lambda t: t.lib.cat([t(3), t(3).double()]),
    "index_copy": lambda t: t.lib.index_copy(t(3, 4), 0, t.index(0, 1), t(2, 4)),
}
CASES = {**PRODUCTS, **FULL, **AS_GIVEN, **JOINS}
# In float32 always, but PyTorch refuses 16-bit floats without autocast or has no such kernel.
DECOMPOSITIONS = {
    "inverse": lambda t: t.lib.inverse(t.definite()),
    "pinverse": lambda t: t.lib.pinverse(t.definite()),
    "cholesky": lambda t: t.lib.linalg.cholesky(t.definite()),
    "cholesky_solve": lambda t: t.lib.cholesky_solve(t(3, 2), t.definite()),
    "solve": lambda t: t.lib.linalg.solve(t.definite(), t(3, 2)),
    "qr": lambda t: t.lib.linalg.qr(t.definite())[0],
    "svdvals": lambda t: t.lib.linalg.svdvals(t.definite()),
    "eigh": lambda t: t.lib.linalg.eigh(t.definite())[0],
    "cond": lambda t: t.lib.linalg.cond(t.definite()),
    "lstsq": lambda t: t.lib.linalg.lstsq(t.definite(), t(3, 2))[0],
    "quantile": lambda t: t.lib.quantile(t(3, 4), 0.5),
    "cdist": lambda t: t.lib.cdist(t(3, 4), t(2, 4)),
    "fft": lambda t: t.lib.fft.fft(t(8)).real,
    "irfft2": lambda t: t.lib.fft.irfft2(t.lib.fft.rfft2(t(4, 4))),
    "stft": lambda t: t.lib.stft(t(16), 4, window=t.lib.ones(4), return_complex=True).abs(),
    "polar": lambda t: t.lib.polar(t.shares(3), t(3)).real,
    "avg_pool3d": lambda t: t.F.avg_pool3d(t(1, 2, 4, 4, 4), 2),
    "ctc_loss": lambda t: t.F.ctc_loss(
        t(5, 2, 4).log_softmax(-1), t.index([[1, 2], [2, 3]]), (5, 5), (2, 2)
    ),
}


def found(lib, case, dtype, autocast):
    """(dtype of the result, its numbers), or None where the library refuses."""
    with warnings.catch_warnings(), lib.autocast("cpu", dtype=getattr(lib, autocast)):
        warnings.simplefilter("ignore")
        try:
            result = case(Operands(lib, dtype))
        except RuntimeError:
            return None, None
    return str(result.dtype).rpartition(".")[2], result.detach().double().numpy()


@pytest.mark.parametrize("autocast", ["bfloat16", "float16"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_functions_compute_in_the_dtype_of_pytorch_s_lists(name, dtype, autocast):
    expected, numbers = found(torch_or_skip(), CASES[name], dtype, autocast)
    actual, ours = found(dj, CASES[name], dtype, autocast)

    assert expected == actual
    if expected is not None:
        tolerance = {"float64": 1e-9, "float32": 2e-2}.get(expected, 4e-2)
        np.testing.assert_allclose(ours, numbers, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_decompositions_compute_in_float32(name, dtype):
    expected, numbers = found(torch_or_skip(), DECOMPOSITIONS[name], dtype, "bfloat16")
    actual, ours = found(dj, DECOMPOSITIONS[name], dtype, "bfloat16")

    assert expected == actual == "float32"
    np.testing.assert_allclose(np.abs(ours), np.abs(numbers), rtol=1e-3, atol=1e-3)


def test_numbers_and_integers_are_not_cast():
    x = dj.ones(2, 2, dtype=dj.int64)
    with dj.autocast("cpu"):
        assert (x @ x).dtype is dj.int64
        assert dj.addmm(dj.ones(2, 2), dj.ones(2, 2), dj.ones(2, 2), alpha=0.5).dtype is dj.bfloat16


def test_a_join_refuses_the_other_16_bit_float():
    with dj.autocast("cpu"), pytest.raises(DTypeError, match="Unexpected floating ScalarType"):
        dj.cat([dj.ones(2, dtype=dj.float16), dj.ones(2)])


def test_what_a_function_is_made_of_is_not_cast():
    """A loss in float32 that multiplies matrices; a product of what it returns."""
    x = dj.tensor([[1.0, 1.0 + 2.0**-12], [0.0, 1.0]])
    with dj.autocast("cpu"):
        assert dj.linalg.inv(x).dtype is dj.float32
        assert dj.equal(dj.linalg.inv(x), dj.linalg.inv(x.double()).float())
        assert dj.cdist(x, x).dtype is dj.float32


def test_gradients_have_the_dtype_of_the_operands():
    w = dj.randn(4, 3, requires_grad=True)
    x = dj.randn(2, 4, dtype=dj.float16, requires_grad=True)
    with dj.autocast("cpu"):
        y = x @ w
    y.sum().backward()

    assert (w.grad.dtype, x.grad.dtype) == (dj.float32, dj.float16)


@pytest.mark.parametrize("mode", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_recurrent_layers_and_cells_compute_as_in_pytorch(mode, dtype):
    torch = torch_or_skip()
    numbers = np.random.default_rng(0).standard_normal((3, 2, 4)).astype("float32")
    dtypes = []
    results = []
    for lib in (torch, dj):
        layer, cell = getattr(lib.nn, mode)(4, 5), getattr(lib.nn, mode + "Cell")(4, 5)
        for parameter in (*layer.parameters(), *cell.parameters()):
            with lib.no_grad():
                values = np.linspace(-0.5, 0.5, parameter.numel(), dtype="float32")
                parameter.copy_(lib.from_numpy(values).reshape(parameter.shape))
        x = lib.from_numpy(numbers).to(getattr(lib, dtype))
        with lib.autocast("cpu"):
            try:
                output, state = layer(x)
            except RuntimeError as error:
                if lib is torch and "primitive descriptor" in str(error):
                    pytest.skip(f"PyTorch has no bfloat16 {mode} for this processor")
                raise
            step = cell(x[0])
        parts = [output, *(state if mode == "LSTM" else [state])]
        parts += step if mode == "LSTM" else [step]
        dtypes.append([str(part.dtype).rpartition(".")[2] for part in parts])
        results.append([part.detach().float().numpy() for part in parts])

    assert dtypes[0] == dtypes[1]
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, atol=2e-2)
