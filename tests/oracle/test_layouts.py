"""Results lie in memory as PyTorch lays them out, whatever the layout of the operands.

Every operator of PyTorch's own table runs on a sample whose first tensor (and all others of its
sizes) lies in several layouts, and so do functions of `nn`, conversions, copies and gradients: the
strides of all results that share no memory with an operand are PyTorch's. Dims of one element do
not count. `DIFFERENT` says where strides differ, and why. Compiled
functions give eager execution's strides.

Skipped without PyTorch, and without `expecttest`, which its tests import.
`DYNAJIT_LAYOUT_SAMPLES=100` takes up to 100 samples of each operator instead of one, in all layouts
instead of four, and compiles every operator.
"""

import itertools
import os
import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.operator_table import op_db  # noqa: E402
from tests.support.pytorch.pytorch_values import (  # noqa: E402
    Translation,
    Untranslated,
    flat,
    function,
    is_written_for_tests,
    named,
    written_again,
)

MOST_SAMPLES = int(os.environ.get("DYNAJIT_LAYOUT_SAMPLES", "1"))

_FOURIER = "PyTorch's order of dims depends on the library for Fourier transforms it is built with"
_GAPS = "PyTorch copies all memory behind the tensor, gaps included; here results have none"
_LAPACK = "a rare factorization: row by row here, column by column as LAPACK gives it in PyTorch"
_REFLECTED = "a reflected operator is called by name with a tensor, whose order decides here"

_VIEWS = "PyTorch's result is a view of a larger one; here it is dense"

DIFFERENT: dict[str, str] = {
    **dict.fromkeys(
        (
            "stft",
            "fft.fft",
            "fft.fft2",
            "fft.fftn",
            "fft.hfft",
            "fft.hfft2",
            "fft.hfftn",
            "fft.rfft",
            "fft.rfft2",
            "fft.rfftn",
            "fft.ifft",
            "fft.ifft2",
            "fft.ifftn",
            "fft.ihfft",
            "fft.ihfft2",
            "fft.ihfftn",
            "fft.irfft",
            "fft.irfft2",
            "fft.irfftn",
        ),
        _FOURIER,
    ),
    **dict.fromkeys(
        ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter"), _GAPS
    ),
    **dict.fromkeys(
        (
            "geqrf",
            "ormqr",
            "linalg.ldl_factor",
            "linalg.ldl_factor_ex",
            "linalg.ldl_solve",
        ),
        _LAPACK,
    ),
    **dict.fromkeys(("__radd__", "__rmul__", "__rand__", "__ror__", "__rxor__"), _REFLECTED),
    **dict.fromkeys(("unravel_index", "argwhere"), _VIEWS),
    "resize_": "memory that does not lie row by row is not given other sizes (refused)",
    "_softmax_backward_data": "row by row in PyTorch; a formula of several rows here",
    **dict.fromkeys(
        ("addcmul", "addcdiv"), "a first operand that is broadcast has a say; here products have it"
    ),
    **dict.fromkeys(
        ("unique", "unique_consecutive"), "the dim that is compared lies outermost in PyTorch"
    ),
    **dict.fromkeys(
        ("linalg.matrix_rank", "linalg.pinv"), "a tensor as tolerance is refused: a number is taken"
    ),
    **dict.fromkeys(
        ("nn.functional.embedding", "nn.functional.embedding_bag"),
        "a table is not renormalised whose elements share memory (refused)",
    ),
    "nn.functional.unfold": "columns of one image are a view of a batch in PyTorch",
    "nn.functional.max_pool1d": "row by row",
    "linalg.solve_triangular": "solutions from the right lie row by row",
    "nonzero": "positions lie dim by dim in PyTorch",
    "histogramdd": "edges that do not rise are refused",
}

SELDOM: Final = () if MOST_SAMPLES > 1 else (
    "diagonal_scatter", "as_strided_scatter", "select_scatter", "slice_scatter", "fft.fft2",
    "fft.fftn", "fft.hfft2", "fft.hfftn", "fft.rfft2", "fft.rfftn", "fft.ifft2", "fft.ifftn",
    "fft.irfft2", "fft.irfftn", "addcmul", "addcdiv", "unique", "unique_consecutive",
    "linalg.matrix_rank", "linalg.pinv", "nn.functional.embedding", "nn.functional.embedding_bag",
    "nn.functional.unfold", "nn.functional.max_pool1d", "linalg.solve_triangular", "nonzero",
    "histogramdd",
)  # fmt: skip
"""Of those above the ones that the layouts and samples of a short run do not tell."""


# ---------------------------------------------------------------------------------------------
# layouts


def in_order(x: Any, order: Any) -> Any:
    """The same elements without gaps, dims from the outermost in memory to the innermost."""
    inverse = [list(order).index(d) for d in range(x.ndim)]
    return x.permute(*order).contiguous().permute(*inverse)


def _channels_last(x: Any) -> Any:
    return in_order(x, (0, *range(2, x.ndim), 1)) if x.ndim in (4, 5) else None


def _permuted(x: Any) -> Any:
    return in_order(x, (1, *range(2, x.ndim), 0)) if x.ndim > 2 else None


def _sliced(x: Any) -> Any:
    wide = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    return wide[..., ::2]


def _cut(x: Any) -> Any:
    """The middle of a larger tensor: behind others, with gaps."""
    wide = x.new_zeros((x.shape[0], x.shape[1] + 2, *x.shape[2:]))
    wide[:, 1:-1] = x
    return wide[:, 1:-1]


#: Of tensors with two dims and more; None where there is no such layout.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x.contiguous(),
    "channels last": _channels_last,
    "transposed": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "permuted": _permuted,
    "expanded": lambda x: x[:1].expand(x.shape),
    "expanded last": lambda x: x[..., :1].expand(x.shape),
    "sliced": _sliced,
    "cut": _cut,
    "cut, permuted": lambda x: _cut(x.transpose(0, -1)).transpose(0, -1),
}


#: Those that are tried where one sample is.
FEW: Final = ("channels last", "transposed", "permuted", "expanded")


# ---------------------------------------------------------------------------------------------
# strides of one call


def shares(a: Any, b: Any) -> bool:
    """Whether two tensors of one library lie in the same storage."""
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())


def is_dense(value: Any) -> bool:
    """Whether it is a tensor with strides and elements."""
    return (
        isinstance(value, (torch.Tensor, dj.Tensor))
        and value.layout in (torch.strided, dj.strided)
        and value.numel() > 0
    )


def fresh_strides(result: Any, arguments: Any) -> list[Any]:
    """Of the tensors in a result: strides of the dims that have several elements; "view" for what
    shares memory with an argument, None for what has no strides."""
    given = [value for value in flat(arguments) if is_dense(value)]
    found: list[Any] = []
    for part in flat(result):
        if not is_dense(part):
            found.append(None)
        elif any(shares(part, value) for value in given):
            found.append("view")
        else:
            pairs = zip(part.shape, part.stride(), strict=True)
            found.append(tuple(stride if size > 1 else None for size, stride in pairs))
    return found


def first_tensor(sample: Any) -> Any:
    """The first among the arguments of a sample, or None."""
    values = flat([sample.input, list(sample.args)])
    return next((value for value in values if isinstance(value, torch.Tensor)), None)


def samples_of(operator: Any) -> list[Any]:
    """At most `MOST_SAMPLES` with a first tensor of two dims or more, most dims first."""
    seed = zlib.crc32(operator.full_name.encode())
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    kinds = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16)
    kind = next((kind for kind in kinds if kind in operator.dtypes), None)
    if kind is None:
        return []
    found = []
    samples = operator.sample_inputs("cpu", kind)
    for sample in samples if MOST_SAMPLES > 1 else itertools.islice(samples, 24):
        first = first_tensor(sample)
        if first is not None and first.ndim > 1 and is_dense(first):
            found.append(sample)
    found.sort(key=lambda sample: -sum(size > 1 for size in first_tensor(sample).shape))
    return found[:MOST_SAMPLES]


def laid_out(sample: Any, layout: str) -> Any:
    """The arguments with all tensors of the first one's sizes in a layout; None: there is none."""
    first = first_tensor(sample)
    if LAYOUTS[layout](first) is None:
        return None

    def changed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return LAYOUTS[layout](value) if value.shape == first.shape else value
        if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            return type(value)(changed(part) for part in value)
        if isinstance(value, dict):
            return {name: changed(part) for name, part in value.items()}
        return value

    return changed(sample.input), changed(tuple(sample.args)), changed(sample.kwargs)


def ours_of(operator: Any) -> Any:
    """dynajit's counterpart, or None."""
    if is_written_for_tests(operator.op):
        return function(operator.op)
    return named(operator.name)


def calls_of(operator: Any) -> Iterator[tuple[str, Any, Any]]:
    """(layout, PyTorch's arguments, dynajit's) of every sample that both take."""
    for sample in samples_of(operator):
        for layout in LAYOUTS if MOST_SAMPLES > 1 else FEW:
            arguments = laid_out(sample, layout)
            if arguments is not None:
                try:
                    yield layout, arguments, Translation()(arguments)
                except Untranslated:
                    continue


def called(call: Any, arguments: Any) -> Any:
    """The strides that a call gives, or the error with which it refuses these arguments."""
    first, args, kwargs = arguments
    try:
        return fresh_strides(call(first, *args, **kwargs), list(arguments))
    except (UnsupportedError, Untranslated, RuntimeError, ValueError, IndexError, TypeError) as e:
        return e


def difference(expected: Any, actual: Any) -> str | None:
    """How strides differ, or that only dynajit refuses; what PyTorch refuses is not compared, nor
    what is a view in one of the libraries."""
    if isinstance(expected, Exception):
        return None
    if isinstance(actual, Exception):
        return f"{type(actual).__name__}: {actual}"
    is_other = any(
        one != other and "view" not in (one, other)
        for one, other in zip(expected, actual, strict=True)
    )
    return f"{actual} instead of {expected}" if is_other else None


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


OPERATORS = [
    pytest.param(operator, id=operator.full_name)
    for operator in op_db
    if operator.full_name not in left_out.ABSENT
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_results_of_operators_lie_as_pytorchs(operator: Any) -> None:
    """In every layout of the operands."""
    theirs = written_again(operator.op, torch) if is_written_for_tests(operator.op) else operator.op
    try:
        ours = ours_of(operator)
    except Untranslated:
        ours = None
    if ours is None:
        pytest.skip("no counterpart")
    found = []
    for layout, arguments, translated in calls_of(operator):
        reason = difference(called(theirs, arguments), called(ours, translated))
        if reason:
            shown = [x.stride() for x in flat(list(arguments)) if isinstance(x, torch.Tensor)]
            found.append(f"{layout}, operands {shown}: {reason}")
    if operator.full_name in DIFFERENT:
        assert found or operator.full_name in SELDOM, f"{operator.full_name} agrees"
    else:
        assert not found, "\n".join(found)


# ---------------------------------------------------------------------------------------------
# functions of nn, copies, conversions and gradients


def _convolved(L: Any, x: Any) -> Any:
    torch_weight = L.ones(2, x.shape[1], *((1,) * (x.ndim - 2)))
    return getattr(L.nn.functional, f"conv{x.ndim - 2}d")(x, torch_weight)


def _attended(L: Any, x: Any) -> Any:
    return L.nn.functional.scaled_dot_product_attention(x, x, x)


def _weights_of_attention(L: Any, x: Any) -> Any:
    found = L.nn.functional.scaled_dot_product_attention(x, x, x)
    return found.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _normalised(L: Any, x: Any) -> Any:
    return L.nn.functional.batch_norm(x, None, None, training=True)


FOR_IMAGES: dict[str, Callable[[Any, Any], Any]] = {
    "conv": _convolved,
    "attention": _attended,
    "attention, heads side by side": _weights_of_attention,
    "batch_norm": _normalised,
    "group_norm": lambda L, x: L.nn.functional.group_norm(x, 1),
    "instance_norm": lambda L, x: L.nn.functional.instance_norm(x),
    "layer_norm": lambda L, x: L.nn.functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda L, x: L.nn.functional.rms_norm(x, x.shape[-1:]),
    "local_response_norm": lambda L, x: L.nn.functional.local_response_norm(x, 2),
    "max_pool": lambda L, x: L.nn.functional.max_pool2d(x, 2),
    "avg_pool": lambda L, x: L.nn.functional.avg_pool2d(x, 2),
    "adaptive pools": lambda L, x: (
        L.nn.functional.adaptive_avg_pool2d(x, 2),
        L.nn.functional.adaptive_avg_pool2d(x, 1),
        L.nn.functional.adaptive_max_pool2d(x, 2),
    ),
    "nearest": lambda L, x: L.nn.functional.interpolate(x, scale_factor=2),
    "bilinear": lambda L, x: L.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "pads": lambda L, x: [
        L.nn.functional.pad(x, (1, 1, 1, 1), mode=mode)
        for mode in ("constant", "reflect", "replicate", "circular")
    ],
    "dropout": lambda L, x: L.nn.functional.dropout(x),
    "dropout2d": lambda L, x: L.nn.functional.dropout2d(x),
    "shuffles": lambda L, x: (
        L.nn.functional.pixel_shuffle(x, 2),
        L.nn.functional.pixel_shuffle(x, 1),
        L.nn.functional.pixel_unshuffle(x, 1),
        L.nn.functional.channel_shuffle(x, 2),
    ),
    "prelu": lambda L, x: L.nn.functional.prelu(x, L.ones(x.shape[1])),
}

FOR_ALL: dict[str, Callable[[Any, Any], Any]] = {
    "computed": lambda L, x: (x + 1, 2 - x, x * x, x / x.sum(), L.relu(x), x.exp().sqrt()),
    "of several": lambda L, x: (
        L.where(x > 0, x, 0), L.lerp(x, x * 2, 0.5), L.addcmul(x, x, x), x.clamp(0, 1),
        L.where(x > 0, x.contiguous(), x), x.contiguous() + x, x + x.contiguous(),
    ),
    "broadcast": lambda L, x: (x + x[:1], x[:1] * x, x[..., :1] - x, x + x[0], x * x[0, ..., :1]),
    "another dtype": lambda L, x: (
        x.double(), x.to(L.int64), x > 0, x.to(L.int64) / 2, x.isnan(), x.half(), x == x[:1],
    ),
    "copies": lambda L, x: (
        x.clone(), x.clone(memory_format=L.contiguous_format), x.contiguous(),
        x.to(L.float64, copy=True), x.to(L.float64, memory_format=L.contiguous_format),
    ),
    "made like": lambda L, x: (
        L.empty_like(x), L.zeros_like(x), L.ones_like(x, dtype=L.int64), L.full_like(x, 3.0),
        L.rand_like(x), L.randn_like(x), L.randint_like(x, 3),
        L.zeros_like(x, memory_format=L.contiguous_format), x.new_zeros(x.shape),
    ),
    "in place": lambda L, x: (
        x.clone().add_(1), x.clone().mul_(x), x.clone().zero_(), x.clone().clamp_(0),
    ),
    "moved": lambda L, x: (
        x.flip(0), x.roll(1, 0), x.roll(0, 0), x.roll((1, 0), (1, 0)), x.roll(1),
        L.cat([x, x]), L.stack([x, x]), x.sort(0), x.topk(1),
        x.repeat(1, *x.shape), x.repeat_interleave(1, 0), x.repeat_interleave(2, 1),
        x[L.tensor([0, 1])], x[:, L.tensor([0, 1])], L.index_select(x, 0, L.tensor([0])),
        x.gather(0, L.zeros(x.shape, dtype=L.int64)), x.tril(), x.masked_fill(x > 0, 1.0),
    ),
    "reduced": lambda L, x: (
        x.sum(0), x.sum(-1, keepdim=True), x.mean(0), x.amax(0), x.var(0), x.argmax(0),
        x.cumsum(0), x.softmax(0), x.log_softmax(-1), x.logsumexp(0), x.norm(dim=0), x.max(0),
    ),
    "products": lambda L, x: (x @ x.mT, L.nn.functional.linear(x, L.ones(2, x.shape[-1]))),
    "reshaped": lambda L, x: (
        (x + 1).reshape(-1), (x * 2).flatten(1), (x + 1).transpose(0, 1).reshape(-1),
        (x.clone().permute(*reversed(range(x.ndim))) + 1).reshape(x.shape[-1], -1),
    ),
}  # fmt: skip

SIZES = {
    "two dims": (3, 4),
    "three dims": (2, 3, 4),
    "images": (2, 4, 6, 6),
    "volumes": (2, 3, 2, 2, 4),
}
CASES = [
    pytest.param(functions, name, sizes, layout, id=f"{name}, {kind}, {layout}")
    for functions, kinds in ((FOR_ALL, list(SIZES)), (FOR_IMAGES, ["images"]))
    for name in functions
    for kind in kinds
    for sizes in [SIZES[kind]]
    for layout in LAYOUTS
]


def arguments(sizes: Any, layout: str) -> Any:
    """A tensor in a layout, PyTorch's and dynajit's; None where there is no such layout."""
    values = torch.linspace(-1, 1, int(np.prod(sizes))).reshape(sizes)
    theirs = LAYOUTS[layout](values)
    return None if theirs is None else (theirs, Translation()(theirs))


@pytest.mark.parametrize(("functions", "name", "sizes", "layout"), CASES)
def test_results_of_functions_lie_as_pytorchs(
    functions: Any, name: str, sizes: Any, layout: str
) -> None:
    """Of nn, of copies and conversions, and of what is reshaped afterwards."""
    given = arguments(sizes, layout)
    if given is None:
        pytest.skip("no such layout")
    call = functions[name]
    expected = fresh_strides(call(torch, given[0]), [given[0]])
    assert expected == fresh_strides(call(dj, given[1]), [given[1]])


COMPILED = ["contiguous", "channels last", "transposed", "permuted", "expanded"]


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("layout", COMPILED)
@pytest.mark.parametrize("kind", ["two dims", "images"])
def test_compiled_functions_give_eager_strides(kind: str, layout: str, backend: str) -> None:
    """For sizes that are known and symbolic; all functions, or with native code a few at once."""
    given = arguments(SIZES[kind], layout)
    if given is None:
        pytest.skip("no such layout")
    x = given[1]
    functions = {**FOR_ALL, **(FOR_IMAGES if kind == "images" else {})}
    if backend == "native":
        functions = {name: functions[name] for name in ("of several", "copies", "moved")}
    for name, call in functions.items():
        for dynamic in (False, True):

            def run(x: Any, call: Any = call) -> Any:
                return call(dj, x)

            expected = fresh_strides(run(x), [x])
            compiled = dj.compile(run, backend=backend, dynamic=dynamic)
            assert expected == fresh_strides(compiled(x), [x]), name


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", list(SIZES))
def test_gradients_of_leaves_lie_as_the_leaves(kind: str, layout: str) -> None:
    """Row by row where a leaf has gaps; from a compiled function, too."""
    given = arguments(SIZES[kind], layout)
    if given is None:
        pytest.skip("no such layout")
    found = []
    for library, x in zip((torch, dj), given, strict=True):
        for call in (lambda x: (x * x).sum(), lambda x: (x.mT.contiguous() * 2).exp().sum()):
            leaf = x.detach().requires_grad_()
            call(leaf).backward()
            found.append((library.__name__, fresh_strides(leaf.grad, [])))
    half = len(found) // 2
    assert [strides for _, strides in found[:half]] == [strides for _, strides in found[half:]]


@pytest.mark.skipif(MOST_SAMPLES == 1, reason="many operators are compiled")
@pytest.mark.parametrize("operator", OPERATORS)
def test_compiled_operators_give_eager_strides(operator: Any) -> None:
    """In every layout of the operands."""
    try:
        ours = ours_of(operator)
    except Untranslated:
        ours = None
    if ours is None:
        pytest.skip("no counterpart")
    for layout, _, translated in calls_of(operator):
        expected = called(ours, translated)
        actual = called(dj.compile(ours, backend="numpy"), translated)
        reason = difference(expected, actual)
        assert not reason, f"{layout}: {reason}"
