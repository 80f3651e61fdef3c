"""Derivatives where functions have none, or several: ties, NaN, infinities, zeros of both signs.

Every function of `CASES` is called with every vector of `INPUTS`: its results and gradients are
those of PyTorch, in eager execution and compiled. `DIFFERENT` says where they are not, and why; a
name without need fails. Skipped without PyTorch; `DYNAJIT_PYTORCH_SAMPLES=100` compiles them all.
"""

import math
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

nan, inf = math.nan, math.inf


def F(t: Any) -> Any:
    return t.nn.functional


INPUTS = [
    [1.0, nan, 0.0],
    [nan, nan, nan],
    [1.0, 1.0, 1.0],
    [0.0, -0.0, 0.0],
    [inf, 1.0, inf],
    [-inf, -inf, -inf],
    [-inf, 0.5, inf],
    [2.0, 1.0, 2.0],
    [0.0, 0.0, 3.0],
    [nan, inf, 1.0],
    [0.5, -0.5, 1.5],
    [3.0, -3.0, 6.0],
]
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "max": lambda t, x: x.max(),
    "min": lambda t, x: x.min(),
    "max dim": lambda t, x: x.max(0)[0],
    "min dim": lambda t, x: x.min(0)[0],
    "amax": lambda t, x: x.amax(),
    "amin": lambda t, x: x.amin(),
    "amax dim": lambda t, x: x.amax(0),
    "aminmax": lambda t, x: t.aminmax(x)[0] + t.aminmax(x)[1],
    "aminmax dim": lambda t, x: t.aminmax(x, dim=0)[0],
    "median": lambda t, x: x.median(),
    "median dim": lambda t, x: x.median(0)[0],
    "nanmedian": lambda t, x: x.nanmedian(),
    "nanmedian dim": lambda t, x: x.nanmedian(0)[0],
    "quantile": lambda t, x: x.quantile(0.3),
    "quantile2": lambda t, x: x.quantile(t.tensor([0.5, 1.0, 0.0])).sum(),
    "nanquantile": lambda t, x: x.nanquantile(0.3),
    "nanquantile .5": lambda t, x: x.nanquantile(0.5),
    "quantile lower": lambda t, x: x.quantile(0.3, interpolation="lower"),
    "quantile nearest": lambda t, x: x.quantile(0.5, interpolation="nearest"),
    "quantile mid": lambda t, x: x.quantile(0.3, interpolation="midpoint"),
    "maximum": lambda t, x: t.maximum(x, t.tensor([1.0, 1.0, nan])),
    "minimum": lambda t, x: t.minimum(x, t.tensor([1.0, 1.0, nan])),
    "maximum self": lambda t, x: t.maximum(x, x.flip(0)),
    "fmax": lambda t, x: t.fmax(x, t.tensor([1.0, 1.0, nan])),
    "fmin": lambda t, x: t.fmin(x, t.tensor([1.0, 1.0, nan])),
    "fmax self": lambda t, x: t.fmax(x, x.flip(0)),
    "fmin self": lambda t, x: t.fmin(x, x.flip(0)),
    "fmax rev": lambda t, x: t.fmax(t.tensor([1.0, 1.0, nan]), x),
    "clamp": lambda t, x: x.clamp(0, 1),
    "clamp t": lambda t, x: x.clamp(t.tensor([0.0, 1.0, nan]), t.tensor([1.0, 1.0, 2.0])),
    "clamp min": lambda t, x: t.clamp(t.tensor([1.0, nan, 0.0]), x, x.flip(0)),
    "clamp_min": lambda t, x: x.clamp_min(1.0),
    "clamp_max": lambda t, x: x.clamp_max(1.0),
    "clamp_min t": lambda t, x: t.clamp(t.tensor([1.0, nan, 0.0]), min=x),
    "clamp_max t": lambda t, x: t.clamp(t.tensor([1.0, nan, 0.0]), max=x),
    "kthvalue": lambda t, x: x.kthvalue(2)[0],
    "cummax": lambda t, x: x.cummax(0)[0],
    "cummin": lambda t, x: x.cummin(0)[0],
    "sort": lambda t, x: x.sort(stable=True)[0],
    "topk": lambda t, x: x.topk(1)[0],
    "logsumexp": lambda t, x: x.logsumexp(0),
    "logcumsumexp": lambda t, x: x.logcumsumexp(0),
    "softmax": lambda t, x: x.softmax(0),
    "log_softmax": lambda t, x: x.log_softmax(0),
    "softmin": lambda t, x: F(t).softmin(x, 0),
    "norm": lambda t, x: x.norm(),
    "norm1": lambda t, x: x.norm(1),
    "norm inf": lambda t, x: x.norm(inf),
    "norm -inf": lambda t, x: x.norm(-inf),
    "norm3": lambda t, x: x.norm(3),
    "norm.5": lambda t, x: x.norm(0.5),
    "norm1.5": lambda t, x: x.norm(1.5),
    "vector_norm": lambda t, x: t.linalg.vector_norm(x, 2),
    "vn inf": lambda t, x: t.linalg.vector_norm(x, inf),
    "vn 1": lambda t, x: t.linalg.vector_norm(x, 1),
    "matrix_norm": lambda t, x: t.linalg.matrix_norm(x.reshape(1, 3)),
    "matrix_norm 1": lambda t, x: t.linalg.matrix_norm(x.reshape(1, 3), 1),
    "matrix_norm inf": lambda t, x: t.linalg.matrix_norm(x.reshape(3, 1), inf),
    "abs": lambda t, x: x.abs(),
    "prod": lambda t, x: x.prod(),
    "cumprod": lambda t, x: x.cumprod(0),
    "sqrt": lambda t, x: x.sqrt(),
    "rsqrt": lambda t, x: x.rsqrt(),
    "log": lambda t, x: x.log(),
    "reciprocal": lambda t, x: x.reciprocal(),
    "pow2": lambda t, x: x**2,
    "pow.5": lambda t, x: x**0.5,
    "pow0": lambda t, x: x**0,
    "pow3": lambda t, x: x**3,
    "pow-1": lambda t, x: x**-1,
    "2**x": lambda t, x: 2**x,
    "0**x": lambda t, x: 0**x,
    "x**x": lambda t, x: x**x,
    "xlogy": lambda t, x: t.xlogy(x, t.tensor([0.0, 1.0, 2.0])),
    "xlogy2": lambda t, x: t.xlogy(t.tensor([0.0, 1.0, 0.0]), x),
    "xlog1py": lambda t, x: t.special.xlog1py(t.tensor([0.0, 1.0, 0.0]), x),
    "entr": lambda t, x: t.special.entr(x),
    "log1p": lambda t, x: x.log1p(),
    "expm1": lambda t, x: x.expm1(),
    "logit": lambda t, x: x.logit(),
    "logit eps": lambda t, x: x.logit(0.2),
    "logaddexp": lambda t, x: t.logaddexp(x, x.flip(0)),
    "logaddexp2": lambda t, x: t.logaddexp2(x, x.flip(0)),
    "logaddexp c": lambda t, x: t.logaddexp(x, t.tensor([inf, -inf, 1.0])),
    "hypot": lambda t, x: t.hypot(x, x.flip(0)),
    "atan2": lambda t, x: t.atan2(x, x.flip(0)),
    "copysign": lambda t, x: t.copysign(x, t.tensor([1.0, -1.0, -0.0])),
    "sign": lambda t, x: x.sign(),
    "sgn": lambda t, x: x.sgn() * 1,
    "angle": lambda t, x: x.angle(),
    "relu": lambda t, x: x.relu(),
    "relu6": lambda t, x: F(t).relu6(x),
    "hardtanh": lambda t, x: F(t).hardtanh(x),
    "hardswish": lambda t, x: F(t).hardswish(x),
    "hardsigmoid": lambda t, x: F(t).hardsigmoid(x),
    "softshrink": lambda t, x: F(t).softshrink(x),
    "hardshrink": lambda t, x: F(t).hardshrink(x),
    "hardshrink neg": lambda t, x: F(t).hardshrink(x, -0.5),
    "softshrink 0": lambda t, x: F(t).softshrink(x, 0.0),
    "tanhshrink": lambda t, x: F(t).tanhshrink(x),
    "leaky": lambda t, x: F(t).leaky_relu(x),
    "prelu": lambda t, x: F(t).prelu(x, t.tensor([0.5])),
    "prelu w": lambda t, x: F(t).prelu(t.tensor([[1.0, nan, -inf]]), x),
    "prelu w2": lambda t, x: F(t).prelu(t.tensor([[1.0, 2.0, 3.0]]), x),
    "elu": lambda t, x: F(t).elu(x),
    "selu": lambda t, x: F(t).selu(x),
    "celu": lambda t, x: F(t).celu(x, 2.0),
    "gelu": lambda t, x: F(t).gelu(x),
    "gelu tanh": lambda t, x: F(t).gelu(x, approximate="tanh"),
    "silu": lambda t, x: F(t).silu(x),
    "mish": lambda t, x: F(t).mish(x),
    "softplus": lambda t, x: F(t).softplus(x),
    "softplus b": lambda t, x: F(t).softplus(x, 2, 1),
    "softsign": lambda t, x: F(t).softsign(x),
    "logsigmoid": lambda t, x: F(t).logsigmoid(x),
    "threshold": lambda t, x: F(t).threshold(x, 0.5, 7.0),
    "sigmoid": lambda t, x: x.sigmoid(),
    "tanh": lambda t, x: x.tanh(),
    "glu": lambda t, x: F(t).glu(x.repeat(2)),
    "rrelu": lambda t, x: F(t).rrelu(x),
    "cosine_similarity": lambda t, x: F(t).cosine_similarity(x, t.tensor([1.0, 2.0, 0.0]), 0),
    "cos sim self": lambda t, x: F(t).cosine_similarity(x, x, 0),
    "pairwise": lambda t, x: F(t).pairwise_distance(x, t.tensor([1.0, 2.0, 0.0])),
    "normalize": lambda t, x: F(t).normalize(x, dim=0),
    "dist": lambda t, x: t.dist(x, x * 1),
    "cdist": lambda t, x: t.cdist(x.reshape(3, 1), t.tensor([[1.0], [0.0]])),
    "cdist1": lambda t, x: t.cdist(x.reshape(3, 1), t.tensor([[1.0], [0.0]]), p=1),
    "cdist inf": lambda t, x: t.cdist(x.reshape(1, 3), t.tensor([[1.0, 1.0, 1.0]]), p=inf),
    "cdist3": lambda t, x: t.cdist(x.reshape(1, 3), t.tensor([[1.0, 1.0, 1.0]]), p=3),
    "cdist.5": lambda t, x: t.cdist(x.reshape(1, 3), t.tensor([[1.0, 1.0, 1.0]]), p=0.5),
    "pdist": lambda t, x: F(t).pdist(x.reshape(3, 1)),
    "pdist inf": lambda t, x: F(t).pdist(t.stack([x, t.tensor([1.0, 1.0, 1.0])]), p=inf),
    "renorm": lambda t, x: x.reshape(1, 3).renorm(2, 0, 1.0),
    "std": lambda t, x: x.std(),
    "var": lambda t, x: x.var(),
    "std dim": lambda t, x: x.std(0),
    "mean": lambda t, x: x.mean(),
    "nansum": lambda t, x: x.nansum(),
    "nanmean": lambda t, x: x.nanmean(),
    "nan_to_num": lambda t, x: x.nan_to_num(),
    "trace": lambda t, x: x.diag().trace(),
    "where": lambda t, x: t.where(x > 0, x, x * 2),
    "masked_fill": lambda t, x: x.masked_fill(x > 0, 1.0),
    "remainder": lambda t, x: t.remainder(x, 1.0),
    "remainder2": lambda t, x: t.remainder(t.tensor([3.0, nan, inf]), x),
    "fmod": lambda t, x: t.fmod(x, 1.0),
    "fmod2": lambda t, x: t.fmod(t.tensor([3.0, nan, inf]), x),
    "floor": lambda t, x: x.floor(),
    "frac": lambda t, x: x.frac(),
    "div": lambda t, x: x / t.tensor([0.0, 1.0, inf]),
    "div2": lambda t, x: t.tensor([0.0, 1.0, inf]) / x,
    "mul": lambda t, x: x * t.tensor([0.0, 1.0, inf]),
    "l1": lambda t, x: F(t).l1_loss(x, t.tensor([1.0, 0.0, nan])),
    "smooth": lambda t, x: F(t).smooth_l1_loss(x, t.tensor([1.0, 0.0, nan])),
    "huber": lambda t, x: F(t).huber_loss(x, t.tensor([1.0, 0.0, nan])),
    "smooth0": lambda t, x: F(t).smooth_l1_loss(x, t.tensor([1.0, 0.0, 2.0]), beta=0.0),
    "mse": lambda t, x: F(t).mse_loss(x, t.tensor([1.0, 0.0, nan])),
    "bce logits": lambda t, x: F(t).binary_cross_entropy_with_logits(x, t.tensor([1.0, 0.0, 0.5])),
    "bce": lambda t, x: F(t).binary_cross_entropy(x.sigmoid(), t.tensor([1.0, 0.0, 0.5])),
    "kl": lambda t, x: F(t).kl_div(x, t.tensor([1.0, 0.0, 0.5]), reduction="sum"),
    "kl2": lambda t, x: F(t).kl_div(t.tensor([1.0, 0.0, 0.5]), x, reduction="sum"),
    "hinge": lambda t, x: F(t).hinge_embedding_loss(x, t.tensor([1.0, -1.0, -1.0])),
    "mrl": lambda t, x: F(t).margin_ranking_loss(x, x.flip(0), t.tensor([1.0, -1.0, -1.0])),
    "softmargin": lambda t, x: F(t).soft_margin_loss(x, t.tensor([1.0, -1.0, -1.0])),
    "mm": lambda t, x: F(t).multi_margin_loss(x, t.tensor(1)),
    "mlm": lambda t, x: F(t).multilabel_margin_loss(x, t.tensor([1, -1, 0])),
    "ce": lambda t, x: F(t).cross_entropy(x, t.tensor(1)),
    "ce soft": lambda t, x: F(t).cross_entropy(x, t.tensor([0.0, 0.5, 0.5])),
    "ce smooth": lambda t, x: F(t).cross_entropy(x, t.tensor(1), label_smoothing=0.1),
    "nll": lambda t, x: F(t).nll_loss(x, t.tensor(1)),
    "triplet": lambda t, x: F(t).triplet_margin_loss(
        x.reshape(1, 3), t.tensor([[1.0, 0.0, 2.0]]), t.tensor([[1.0, 1.0, 2.0]])
    ),
    "cosemb": lambda t, x: F(t).cosine_embedding_loss(
        x.reshape(1, 3), t.tensor([[1.0, 0.0, 2.0]]), t.tensor([-1.0])
    ),
    "poisson_nll": lambda t, x: F(t).poisson_nll_loss(
        x, t.tensor([1.0, 0.0, 2.0]), log_input=False
    ),
    "gaussian": lambda t, x: F(t).gaussian_nll_loss(
        x, t.tensor([1.0, 0.0, 2.0]), t.tensor([1.0, 0.0, 2.0])
    ),
    "max_pool": lambda t, x: F(t).max_pool1d(x.reshape(1, 3), 2, 1),
    "avg_pool": lambda t, x: F(t).avg_pool1d(x.reshape(1, 3), 2, 1),
    "lp_pool": lambda t, x: F(t).lp_pool1d(x.reshape(1, 3), 2, 2, 1),
    "adaptive": lambda t, x: F(t).adaptive_max_pool1d(x.reshape(1, 3), 2),
    "layer_norm": lambda t, x: F(t).layer_norm(x, (3,)),
    "batch_norm": lambda t, x: F(t).batch_norm(x.reshape(3, 1), None, None, training=True),
    "group_norm": lambda t, x: F(t).group_norm(x.reshape(1, 3), 1),
    "rms": lambda t, x: F(t).rms_norm(x, (3,)),
    "asin": lambda t, x: x.asin(),
    "acos": lambda t, x: x.acos(),
    "atanh": lambda t, x: x.atanh(),
    "acosh": lambda t, x: x.acosh(),
    "erfinv": lambda t, x: x.erfinv(),
    "lgamma": lambda t, x: x.lgamma(),
    "digamma": lambda t, x: x.digamma(),
    "i0": lambda t, x: t.i0(x),
    "i1": lambda t, x: t.special.i1(x),
    "sinc": lambda t, x: t.sinc(x),
    "erf": lambda t, x: x.erf(),
    "exp": lambda t, x: x.exp(),
    "log2": lambda t, x: x.log2(),
    "tan": lambda t, x: x.tan(),
    "cosh": lambda t, x: x.cosh(),
    "i0e": lambda t, x: t.special.i0e(x),
    "i1e": lambda t, x: t.special.i1e(x),
    "log_ndtr": lambda t, x: t.special.log_ndtr(x),
    "ndtri": lambda t, x: t.special.ndtri(x),
    "erfcx": lambda t, x: t.special.erfcx(x),
    "scatter amax": lambda t, x: t.zeros(2).scatter_reduce(0, t.tensor([0, 0, 1]), x, "amax"),
    "scatter amin": lambda t, x: t.zeros(2).scatter_reduce(
        0, t.tensor([0, 0, 1]), x, "amin", include_self=False
    ),
    "scatter prod": lambda t, x: t.ones(2).scatter_reduce(0, t.tensor([0, 0, 1]), x, "prod"),
    "scatter mean": lambda t, x: t.ones(2).scatter_reduce(0, t.tensor([0, 0, 1]), x, "mean"),
    "index_reduce": lambda t, x: t.ones(2).index_reduce(0, t.tensor([0, 0, 1]), x, "amax"),
    "segment max": lambda t, x: t.segment_reduce(x, "max", lengths=t.tensor([2, 1])),
    "segment min": lambda t, x: t.segment_reduce(x, "min", lengths=t.tensor([2, 1])),
    "segment prod": lambda t, x: t.segment_reduce(x, "prod", lengths=t.tensor([2, 1])),
    "mode": lambda t, x: x.mode()[0],
    "msort": lambda t, x: t.msort(x),
    "cov": lambda t, x: t.cov(x),
    "lerp": lambda t, x: t.lerp(x, x.flip(0), 0.5),
    "addcdiv": lambda t, x: t.addcdiv(x, x, x.flip(0)),
    "float_power": lambda t, x: t.float_power(x, 2),
    "square": lambda t, x: x.square(),
    "std_mean": lambda t, x: t.std_mean(x)[0],
    "dot": lambda t, x: t.dot(x, x),
    "cumsum": lambda t, x: x.cumsum(0),
    "diff": lambda t, x: x.diff(),
    "outer": lambda t, x: t.outer(x, x),
    "signbit": lambda t, x: x * x.signbit(),
    "polar": lambda t, x: t.polar(x, x.flip(0)).real + t.polar(x, x.flip(0)).imag,
    "complex abs": lambda t, x: t.complex(x, x.flip(0)).abs(),
    "complex angle": lambda t, x: t.complex(x, x.flip(0)).angle(),
    "complex sgn": lambda t, x: t.view_as_real(t.complex(x, x.flip(0)).sgn()),
}

_CHOICE = "PyTorch takes any of the equal elements"
_FORM = "PyTorch's loops for one element and for eight differ at NaN; it is NaN here"
_LIMIT = "a limit is taken at infinity"
_NAN = "NaN is no answer to a question about the other elements in PyTorch; it is NaN here"
_SPREAD = "NaN reaches all elements"
_SELF = "PyTorch counts what is overwritten among the ties"

DIFFERENT: dict[str, str] = {
    "kthvalue": _CHOICE,
    "norm.5": _SPREAD,
    "prod": "the product of the others is NaN beside NaN and 0",
    "elu": _FORM,
    "selu": _FORM,
    "celu": _FORM,
    "i1": _FORM,
    "i1e": _FORM,
    "cdist1": "the sign of NaN is 0",
    "cdist inf": _NAN,
    "pdist inf": _NAN,
    "renorm": _SPREAD,
    "nanmean": "there is nothing that a gradient could flow to",
    "softmargin": _LIMIT,
    "mm": _NAN,
    "mlm": _NAN,
    "max_pool": "the first NaN is chosen, in PyTorch the last",
    "adaptive": "the first NaN is chosen, in PyTorch the last",
    "digamma": "the pole is exact",
    "scatter amin": _SELF,
    "segment max": _SPREAD,
    "segment min": _SPREAD,
    "segment prod": _SPREAD,
    "mode": "NaN occurs once each",
    "polar": "PyTorch takes the magnitude for positive",
}
"""Functions that differ from PyTorch's for some of the inputs, and why."""

MOST_SAMPLES = int(os.environ.get("DYNAJIT_PYTORCH_SAMPLES", "8"))

#: Those of which a graph is made by default, too: each is a rule of its own.
RULES = (
    "max", "amax", "median", "quantile", "logsumexp", "logcumsumexp", "norm inf", "xlogy2", "entr",
    "logit", "logit eps", "logaddexp", "copysign", "angle", "hardsigmoid", "scatter amax",
)  # fmt: skip
COMPILED = RULES if MOST_SAMPLES <= 8 else tuple(case for case in CASES if case not in DIFFERENT)


#: PyTorch's float32 kernel of these gives NaN at infinity on some processors (it is oneDNN's
#: there); the one of float64 is its own everywhere.
BY_FLOAT64 = ("gelu",)


def gradient(t: Any, case: str, values: list[float], call: Callable[[Any], Any]) -> Any:
    """What the function gives for the values, and the gradient for weights of the results."""
    dtype = t.float64 if t is torch and case in BY_FLOAT64 else t.float32
    x = t.tensor(values, dtype=dtype, requires_grad=True)
    result = call(x)
    weights = (t.arange(1, result.numel() + 1).reshape(tuple(result.shape)) * 0.5).to(result.dtype)
    (result * weights).sum().backward()
    return result.detach().tolist(), [0.0] * len(values) if x.grad is None else x.grad.tolist()


def is_same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, (list, tuple)):
        return len(expected) == len(actual) and all(map(is_same, expected, actual))
    if expected != expected:
        return actual != actual
    return expected == actual or abs(expected - actual) <= 1e-4 * max(1.0, abs(expected))


def differences(case: str, compiled: bool) -> list[str]:
    """The inputs for which something is not PyTorch's."""
    function = CASES[case]
    ours = dj.compile(lambda x: function(dj, x)) if compiled else lambda x: function(dj, x)
    found = []
    for values in INPUTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = gradient(torch, case, values, lambda x: function(torch, x))
            except RuntimeError:  # refused there: not looked at
                continue
            actual = gradient(dj, case, values, ours)
        if not is_same(expected, actual):
            found.append(f"{case} of {values}: {actual} instead of {expected}")
    return found


@pytest.mark.parametrize("case", CASES)
def test_gradients_at_special_values_are_pytorchs(case: str) -> None:
    found = differences(case, compiled=False)
    if case in DIFFERENT:
        assert found, f"{case} agrees"
    else:
        assert not found


@pytest.mark.parametrize("case", COMPILED)
def test_compiled_gradients_at_special_values_are_pytorchs(case: str) -> None:
    assert case not in DIFFERENT
    assert not differences(case, compiled=True)
