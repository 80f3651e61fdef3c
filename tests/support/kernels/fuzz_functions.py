"""Random straight-line functions over tensors: source text of the public API.

`write(seed)` tries statements one after the other on real tensors and keeps those that work and
stay within bounds. Most tensors are float64, so that a rounding never decides a comparison.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dynajit as dj
from dynajit.nn import functional as F

SIZES = (1, 2, 3, 4, 5, 8, 9, 17)
LARGEST = 20_000
BIG = 1e5

UNARY = (
    "{a}.sin()", "{a}.tanh()", "dj.relu({a})", "{a}.abs()", "{a} * 0.5", "{a} + 1", "1 - {a}",
    "{a} / ({a}.abs() + 1)", "-{a}", "{a} ** 2", "{a}.sigmoid()", "F.gelu({a})", "F.silu({a})",
    "{a}.clamp(-1, 1)", "{a}.clamp(min=0.1).log()", "{a}.clamp(max=2).exp()", "{a} * n",
    "{a} + n", "n / ({a} ** 2 + 1)", "{a}.clone()", "{a}.detach()", "{a}.contiguous()",
    "{a}.cos() * {a}", "F.softplus({a})", "F.leaky_relu({a}, 0.1)", "F.elu({a})", "{a}.erf()",
    "dj.where({a} > 0, {a}, 0.5 * {a})", "{a}.masked_fill({a} < -0.5, 0.25)", "{a}.atan()",
    "{a}.float()", "{a}.double()", "{a}.to(dj.float64)", "({a} * 4).floor()", "{a}.sign()",
    "{a}.round()", "{a} % 0.7", "{a} // 0.7", "dj.zeros_like({a}) + 3", "{a}.new_zeros({a}.shape)",
    "dj.ones_like({a}) * {a}", "dj.nan_to_num({a})", "{a}.expm1()", "{a}.log1p().abs()",
    "F.hardtanh({a})", "F.mish({a})", "F.dropout({a}, 0.3)", "{a} + dj.rand_like({a})",
    "({a} > 0.3).double()", "({a} * 3).long()", "({a} > 0)", "{a} == {a}.amax()",
    "{a} * {a}.shape[0]", "{a}.type_as({b})", "{a}.rsqrt()", "{a}.square()", "{a}.logit(0.1)",
)  # fmt: skip
BINARY = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / ({b}.abs() + 1)", "dj.maximum({a}, {b})",
    "dj.minimum({a}, {b})", "dj.where({a} > {b}, {a}, {b})", "dj.lerp({a}, {b}, 0.3)",
    "dj.atan2({a}, {b}.abs() + 1)", "dj.add({a}, {b}, alpha=2)", "{a}.expand_as({b})",
    "dj.addcmul({a}, {a}, {b}, value=0.5)", "({a} < {b}) * {a}", "({a} >= 0) & ({b} < 0)",
    "dj.cat([{a}, {b}])", "dj.cat([{a}, {b}], dim=-1)", "dj.stack([{a}, {b}])",
    "dj.stack([{a}, {b}, {a}], dim=-1)", "{a} @ {b}", "{a} @ {b}.T", "{a}.T @ {b}",
    "{a} @ {b}.transpose(-1, -2)", "dj.matmul({a}, {b})", "F.linear({a}, {b})",
    "dj.einsum('ij,kj->ik', {a}, {b})", "dj.einsum('ij,ij->i', {a}, {b})", "dj.outer({a}, {b})",
    "F.mse_loss({a}, {b})", "F.l1_loss({a}, {b}, reduction='sum')", "F.smooth_l1_loss({a}, {b})",
    "F.cosine_similarity({a}, {b}, dim=-1)", "F.layer_norm({a}, {b}.shape, {b})",
    "F.scaled_dot_product_attention({a}[None], {b}[None], {b}[None])", "dj.bmm({a}, {b})",
)  # fmt: skip
SHAPE = (
    "{a}.T", "{a}.transpose(0, -1)", "{a}.reshape(-1)", "{a}.view(-1)", "{a}.unsqueeze(0)",
    "{a}.unsqueeze(-1)", "{a}.squeeze()", "{a}.flip(0)", "{a}.flip(-1)", "{a}[0]", "{a}[-1]",
    "{a}[..., ::2]", "{a}[1:]", "{a}[:, None]", "{a}[None]", "{a}[..., -1]", "{a}[:-1]",
    "{a}.expand(3, *{a}.shape)", "{a}.repeat(2, *[1] * ({a}.dim() - 1))", "{a}.chunk(2)[0]",
    "{a}.chunk(2, dim=-1)[-1]", "{a}.split(2)[0]", "{a}.roll(1, 0)", "{a}.tril()", "{a}.triu(1)",
    "{a}.permute(*reversed(range({a}.dim())))", "{a}.movedim(0, -1)", "{a}.narrow(0, 0, 1)",
    "{a}.flatten()", "{a}.reshape({a}.shape[0], -1)", "{a}.reshape(-1, {a}.shape[-1])",
    "{a}[[0, -1]]", "{a}[k % {a}.shape[0]]", "{a}[..., k % {a}.shape[-1]]",
    "{a}.index_select(0, k % {a}.shape[0])", "{a}.unbind(0)[0]", "{a}.diagonal()", "{a}.diag()",
    "F.pad({a}, (1, 2))", "F.pad({a}, (-1, 1))", "{a}.unfold(-1, 2, 1)", "{a}.tile(2)",
    "{a}.repeat_interleave(2, dim=0)", "{a}[{a} > 0].sum()", "{a}.swapaxes(0, -1)",
    "{a}.gather(0, ({a} * 0).long())", "{a}.take_along_dim({a}.argsort(-1), -1)",
)  # fmt: skip
REDUCTION = (
    "{a}.sum()", "{a}.mean()", "{a}.sum(0)", "{a}.sum(-1, keepdim=True)", "{a}.mean(dim=-1)",
    "{a}.mean(0, keepdim=True)", "{a}.var(-1, correction=0)", "{a}.std(0, correction=0) + 1",
    "{a}.amax(-1)", "{a}.amin((0, -1))", "{a}.max()", "{a}.max(0).values", "{a}.max(-1)[1]",
    "{a}.min(-1, keepdim=True)[0]", "{a}.argmax(-1)", "{a}.argmin()", "{a}.logsumexp(-1)",
    "{a}.norm()", "{a}.prod(-1)", "{a}.cumsum(0)", "{a}.sort(-1)[0]", "{a}.topk(1)[0]",
    "{a}.softmax(-1)", "{a}.softmax(0)", "F.log_softmax({a}, dim=-1)", "({a} > 0).sum()",
    "({a} > 0).any(0)", "({a} > 0).all()", "F.layer_norm({a}, {a}.shape[-1:])",
    "{a} - {a}.mean(-1, keepdim=True)", "{a} / ({a}.sum(0).abs() + 1)", "{a}.median()",
    "F.normalize({a}, dim=-1)", "F.rms_norm({a}, {a}.shape[-1:])", "F.softmin({a}, dim=-1)",
    "dj.var_mean({a})[0]", "{a}.cumsum(-1)", "{a}.count_nonzero()",
)  # fmt: skip
WRITE = (
    "{a}.add_(1)", "{a}.mul_(0.5)", "{a}[0] = 0.5", "{a}[..., -1] += 1", "{a}.clamp_(-1, 1)",
    "{a}.zero_()", "{a}.copy_({b})", "{a}.fill_(0.25)", "{a}[0] = {b}[0]", "{a}.sub_({b})",
    "{a} += {b}", "{a} *= 0.5", "{a}[1:] *= 2", "{a}[{a} > 0] = 0", "{a}.T.add_(1)",
    "{a}.view(-1)[0] = 2", "{a}.tanh_()", "{a}.masked_fill_({a} > 0.5, 0)", "{a}.relu_()",
    "{a}.index_add_(0, k % {a}.shape[0], {b}[:3])", "{a}[k % {a}.shape[0]] = 0.125",
    "{a}.transpose(0, -1)[0] = 1", "{a}.detach().add_(0)", "{a}.sigmoid_()", "{a}.neg_()",
    "{a}[::2].add_(0.5)", "{a}.squeeze().mul_(0.9)", "{a}.unsqueeze(0).add_({b})",
)  # fmt: skip
PLAIN = (
    "{o} = {a}.shape[0] * 0.25", "{o} = [{a}, {b}][n > 1]", "{o} = {a} if {a}.dim() > 1 else {b}",
    "{o}, _ = {a}, {b}", "{o} = sum([{a}, {b}])", "{o} = {a}.sum().item()",
    "for i in range(3): {a} = {a} * 0.5 + i", "{o} = {{'k': {a}}}['k'] + 1",
    "{o} = dj.full((2, 3), float(n), dtype=dj.float64)", "{o} = dj.arange({a}.shape[0]).double()",
    "{o} = (lambda t: t * 2)({a})", "{o} = [t + 1 for t in ({a}, {b})][0]",
    "{o} = dj.tensor([0.5, n])", "{o} = dj.randn(3, {a}.shape[-1], dtype=dj.float64)",
    "{o} = {a}.numel() + {a}.size(-1)", "{o} = float(n) + {a}",
    "{o} = max({a}.shape[0], 2) * {a}", "{o} = F.one_hot(k, 5).double()",
)  # fmt: skip


@dataclass(frozen=True)
class Written:
    """A function's text and its arguments.

    Args:
        source: of `def f(<tensors>, k, n)`.
        arrays: float arrays that may need gradients; `k` and `n` are fixed.
        number: the argument n.
    """

    source: str
    arrays: tuple[Any, ...]
    number: float

    @property
    def has_float32(self) -> bool:
        """True if some values are rounded to float32."""
        narrowing = (".float()", ".long()", "dj.tensor(", " > ", " < ", " == ")
        return self.arrays[0].dtype == np.float32 or any(t in self.source for t in narrowing)

    def function(self) -> Callable[..., Any]:
        """The function, with a file name of its own."""
        namespace: dict[str, Any] = {"dj": dj, "F": F}
        exec(compile(self.source, "<random function>", "exec"), namespace)
        function: Callable[..., Any] = namespace["f"]
        return function

    def arguments(self, requires_grad: bool) -> list[Any]:
        """Fresh tensors; `x0` is a copy in the function where it is written to."""
        tensors = [dj.tensor(array.copy()).requires_grad_(requires_grad) for array in self.arrays]
        return [*tensors, dj.tensor(np.array([0, 2, 1])), self.number]


def write(seed: int, statements: int = 14, writes: bool = True) -> Written:
    """A random function of three tensors."""
    random = np.random.default_rng(seed)
    shape = tuple(int(random.choice(SIZES)) for _ in range(int(random.integers(1, 4))))
    shapes = [shape, shape, shape[int(random.integers(len(shape))) :]]
    dtype = np.float32 if seed % 4 == 3 else np.float64
    arrays = tuple(random.uniform(-2, 2, s).astype(dtype) for s in shapes)
    number = [2, 0.5, 3][int(random.integers(3))]
    inputs = [f"x{i}" for i in range(len(arrays))]
    names = list(inputs)

    def start() -> dict[str, Any]:
        tensors = Written("", arrays, number).arguments(requires_grad=False)
        return {"dj": dj, "F": F} | dict(zip([*inputs, "k", "n"], tensors, strict=True))

    namespace = start()
    pools = [UNARY, BINARY, BINARY, SHAPE, SHAPE, REDUCTION, PLAIN] + [WRITE] * writes
    lines = []
    for _ in range(statements * 3):
        pool = pools[int(random.integers(len(pools)))]
        template = pool[int(random.integers(len(pool)))]
        a, b = (names[-1 - int(min(random.geometric(0.3), len(names)) - 1)] for _ in "ab")
        out = f"v{len(lines)}"
        if pool is WRITE or template.startswith("for"):
            if a.startswith("x") and random.random() < 0.8:
                continue
            line = template.format(a=a, b=b)
        else:
            line = template if pool is PLAIN else "{o} = " + template
            line = line.format(a=a, b=b, o=out)
        if _works(line, namespace):
            lines.append(line)
            if isinstance(namespace.get(out), dj.Tensor):
                names.append(out)
        else:  # half of it may have been done: start again
            namespace = start()
            for line in lines:
                exec(line, namespace)
        if len(lines) >= statements:
            break
    picked = [names[int(random.integers(len(names)))] for _ in range(2)] + names[-2:]
    body = "".join(f"    {line}\n" for line in [*lines, f"return {', '.join(picked)}"])
    return Written(f"def f({', '.join(inputs)}, k, n):\n{body}", arrays, number)


def _works(line: str, namespace: dict[str, Any]) -> bool:
    try:
        dj.manual_seed(0)
        exec(line, namespace)
    except Exception:
        return False
    return all(map(_fits, namespace.values()))


def _fits(value: Any) -> bool:
    if not isinstance(value, dj.Tensor):
        return not isinstance(value, float) or abs(value) < BIG
    if value.numel() > LARGEST or 0 in value.shape:
        return False
    array = value.detach().numpy()
    if array.dtype.kind not in "fiub":
        return False
    return bool(np.isfinite(array).all()) and float(np.abs(array).max(initial=0)) < BIG
