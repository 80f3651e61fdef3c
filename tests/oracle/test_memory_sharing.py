"""Every operator of PyTorch's own table shares memory as PyTorch's does.

For each operator and layout of its tensors (row-major, transposed, expanded, sliced, at an offset,
channels last, with sizes of 1 whose strides say nothing) each tensor of the result is looked at:
which argument's memory it lies in, or which earlier result's; whether it is that argument itself;
from which offset on; and, of what shares an argument's memory, with which strides. The same is
asked of calls that have nothing to do (`roll` by 0, `flatten` of one dim), eager and compiled.
`left_out.py` lists what differs, with reasons; an entry without need fails.

Skipped without PyTorch, and without `expecttest`, which its tests import.
`DYNAJIT_SHARING_SAMPLES=20` takes up to 20 samples of each operator and dtype instead of one, and
all layouts instead of two or four.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from tests.oracle.test_pytorch_samples import described, ours_of, samples_of, table, theirs_of  # noqa: E402
from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.pytorch_values import Translation, Untranslated, flat  # noqa: E402

MOST_SAMPLES = int(os.environ.get("DYNAJIT_SHARING_SAMPLES", "1"))
DTYPES = ("float32", "complex64", "int64", "bool")


# -- layouts --------------------------------------------------------------------------------------


def _transposed(x: Any) -> Any:
    order = list(range(x.ndim))[::-1]
    return x.permute(order).contiguous().permute(order)


def _expanded(x: Any) -> Any:
    """Equal along the first dim that has a size, and without memory of its own there."""
    return x[:1].clone().expand(x.shape) if x.ndim and x.shape[0] > 1 else x.clone()


def _sliced(x: Any) -> Any:
    """Every second element along the last dim of something wider."""
    if not x.ndim:
        return x.repeat(3)[1]
    wide = x.repeat_interleave(2, -1)
    return wide[..., ::2]


def _at_offset(x: Any) -> Any:
    whole = torch.cat([x.reshape(-1)[:0].new_zeros(5), x.reshape(-1)])
    return whole[5:].view(x.shape)


def _channels_last(x: Any) -> Any:
    if x.ndim == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if x.ndim == 5:
        return x.contiguous(memory_format=torch.channels_last_3d)
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.ndim == 3 else x.clone()


def _with_odd_strides(x: Any) -> Any:
    """Where a size is 1, a stride that no element is reached by."""
    x = x.contiguous().clone()
    odd = [7 if size == 1 else step for size, step in zip(x.shape, x.stride(), strict=True)]
    return x.as_strided(x.shape, odd)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "row-major": lambda x: x.contiguous().clone(),
    "transposed": _transposed,
    "expanded": _expanded,
    "sliced": _sliced,
    "at an offset": _at_offset,
    "channels last": _channels_last,
    "odd strides": _with_odd_strides,
}


FEW = ("row-major", "transposed", "sliced", "odd strides")


def laid(value: Any, layout: str) -> Any:
    """A sample's arguments with their tensors of numbers in a layout, each in memory of its own."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or not value.numel():
            return value
        value = value.detach().resolve_conj().resolve_neg()
        is_number = value.dtype.is_floating_point or value.dtype.is_complex
        return LAYOUTS[layout](value) if is_number else value.clone()
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(laid(part, layout) for part in value)
    if isinstance(value, dict):
        return {name: laid(part, layout) for name, part in value.items()}
    return value


# -- comparison -----------------------------------------------------------------------------------


def memory_of(result: Any, arguments: Any, library: Any, is_exact: bool) -> list[str]:
    """A line for each tensor of the result: where it lies.

    Args:
        is_exact: also say strides of dims of size 1, by which no element is reached.
    """
    given = [x for x in flat(arguments) if isinstance(x, library.Tensor)]
    found: list[Any] = []
    lines = []
    for part in flat(result):
        if not isinstance(part, library.Tensor) or part.layout is not library.strided:
            continue
        lines.append(_place(part, given, found, is_exact))
        found.append(part)
    return lines


def _place(part: Any, given: list[Any], found: list[Any], is_exact: bool) -> str:
    for number, other in enumerate(given):
        if part is other:
            return f"argument {number}"
    for kind, others in (("argument", given), ("result", found)):
        for number, other in enumerate(others):
            if is_same_storage(part, other):
                if not part.numel():
                    return f"a view of {kind} {number}"
                strides = tuple(
                    step if is_exact or size > 1 else "any"
                    for step, size in zip(part.stride(), part.shape, strict=True)
                )
                return f"a view of {kind} {number} from {part.storage_offset()} by {strides}"
    return f"fresh from {part.storage_offset() if part.numel() else 0}"


def is_same_storage(one: Any, other: Any) -> bool:
    left, right = one.untyped_storage(), other.untyped_storage()
    if isinstance(one, torch.Tensor):
        return left._cdata == right._cdata
    return left == right


class Unasked(Exception):
    """A call that PyTorch refuses, or that dynajit refuses by name."""


def differences(ours: Any, theirs: Any, arguments: Any, name: str = "") -> str | None:
    """How the places of the results of two functions differ for one call's arguments."""
    is_exact = name not in left_out.STRIDES_OF_ONE
    try:
        first, args, kwargs = translated = Translation()(arguments)
        result = theirs(arguments[0], *arguments[1], **arguments[2])
        expected = memory_of(result, arguments, torch, is_exact)
    except Exception as error:
        raise Unasked(str(error)) from error
    try:
        actual = memory_of(ours(first, *args, **kwargs), translated, dj, is_exact)
    except (UnsupportedError, Untranslated) as error:
        raise Unasked(str(error)) from error
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    for one, other in zip(expected, actual, strict=False):
        if one != other:
            return f"{other} instead of {one}"
    return None


@pytest.fixture(autouse=True)
def _quiet_and_quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without warnings; seeds are those of the CPU alone, which takes a hundredth of the time."""
    monkeypatch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def dtypes_of(operator: Any) -> list[str]:
    """The first that the operator takes; a long run asks for all."""
    found = [name for name in DTYPES if getattr(torch, name) in operator.dtypes]
    return found if MOST_SAMPLES > 1 else found[:1]


@pytest.mark.parametrize("operator", table(without=left_out.ABSENT))
def test_results_lie_where_pytorchs_do(operator: Any) -> None:
    theirs = theirs_of(operator.op)
    try:
        ours = ours_of(operator, operator.op)
    except Untranslated:
        pytest.skip("not available")
    failures: dict[str, str] = {}
    for dtype in dtypes_of(operator):
        for sample in samples_of(operator, dtype, most=MOST_SAMPLES):
            for layout in LAYOUTS if MOST_SAMPLES > 1 else FEW[1:3]:
                try:
                    arguments = laid((sample.input, list(sample.args), sample.kwargs), layout)
                    reason = differences(ours, theirs, arguments, operator.full_name)
                except Unasked:
                    continue
                if reason:
                    failures[layout] = f"{described(sample)}: {reason}"
    lines = [f"{operator.full_name} {layout}: {line}" for layout, line in failures.items()]
    if operator.full_name in left_out.ELSEWHERE:
        assert lines or MOST_SAMPLES == 1, f"{operator.full_name} agrees"
    else:
        assert not lines, "\n".join(lines)


# -- calls that have nothing to do ----------------------------------------------------------------

OF_VIEWS = """
x.ravel() | x.flatten() | x.flatten(0, 0) | x.flatten(1) | x.reshape(x.shape) | x.reshape(-1)
x.view(x.shape) | x.contiguous() | x.unflatten(0, (1, -1)) | x.view(L.int32) | x.view(x.dtype)
x.t() | x.T | x.mT | x.H | x.transpose(0, 0) | x.transpose(0, -1) | x.movedim(0, -1) | x.adjoint()
x.permute(*range(x.dim())) | x.squeeze() | x.unsqueeze(0) | x[None] | x[..., None] | x[:] | x[()]
x[:, None] | x[:1, None] | x.expand(x.shape) | x.expand(1, *x.shape) | x.expand(2, *x.shape)
L.broadcast_to(x, x.shape) | L.broadcast_tensors(x, x[:1]) | x.narrow(0, 0, x.shape[0])
x.select(0, 0) | x.split(x.shape[0]) | x.chunk(2) | x.unbind() | x.tensor_split(2) | x.hsplit(1)
L.unsafe_chunk(x, 2) | x.unsafe_split(1) | x.diagonal() | x.real | x.conj() | L.positive(x)
x.unfold(0, 1, 1) | x[1:].unfold(0, 1, 2) | x[1:].unfold(-1, 1, 1) | L.einsum('ii->i', x)
L.atleast_1d(x) | L.atleast_2d(x) | L.meshgrid(x, x, indexing='xy') | x.detach() | x.data
x.as_strided(x.shape, x.stride()) | x[1:].as_strided((1,), (1,)) | x[1:].as_strided((1,), (1,), 0)
x.to(x.dtype) | x.to('cpu') | x.float() | x.type_as(x) | x.resolve_conj() | L.conj_physical(x)
"""
OF_COPIES = """
x.roll(0) | x.roll(1) | x.roll(0, 0) | x.roll((0, 0), (0, 1)) | x.roll(x.shape[0], 0)
x.roll(x.numel()) | L.fft.fftshift(x[:1], 0) | L.fft.fftshift(x) | L.fft.ifftshift(x)
x.sum_to_size(x.shape) | x.sum_to_size(1) | x.sum(()) | x.mean(()) | x.amax(()) | x.prod(0)
F.pixel_shuffle(x, 1) | F.pixel_unshuffle(x, 1) | F.channel_shuffle(x, 1)
F.pixel_shuffle(x.reshape(1, 4, -1)[:, :, :1].unsqueeze(-1), 2)
F.pad(x, (0, 0)) | F.pad(x, ()) | F.pad(x, (0, 0), mode='circular') | F.pad(x, (0, -1))
F.pad(x, (0, 0), mode='reflect') | F.pad(x, (0, 0, 0, 0), mode='replicate')
x.repeat(*[1] * x.dim()) | x.tile(1) | x.repeat_interleave(1) | x.repeat_interleave(1, 0)
x.flip(()) | x.flip(0) | L.rot90(x, 0) | L.rot90(x, 4) | L.cat([x]) | L.cat([x, x[:0]])
L.stack([x]) | L.hstack([x]) | L.dstack([x]) | L.block_diag(x) | L.chain_matmul(x)
L.cartesian_prod(x) | L.combinations(x, 1) | L.diag(x) | x.tril(100) | x.clone()
x.to(x.dtype, copy=True) | L.tensor(x) | L.asarray(x, copy=True) | L.alias_copy(x) | x.round()
x.mul(1) | x + 0 | x ** 1 | x.clamp(None, 5.0) | L.nan_to_num(x) | x.conj_physical()
F.dropout(x, 0.0) | F.dropout(x, 0.5, training=False) | F.alpha_dropout(x, 0.0, training=True)
F.dropout1d(x, 0.0) | F.dropout2d(x, 0.0) | F.dropout3d(x, 0.0)
F.feature_alpha_dropout(x, 0.5, training=False) | F.interpolate(x, scale_factor=1)
F.interpolate(x, size=x.shape[2:], mode='bilinear') | F.avg_pool2d(x, 1) | F.max_pool1d(x, 1)
L.nn.Identity()(x) | L.nn.Flatten()(x) | L.nn.PixelShuffle(1)(x) | L.nn.ZeroPad2d(0)(x)
x.index_select(0, L.arange(x.shape[0])) | x[[0]] | x[L.ones(x.shape, dtype=L.bool)]
L.linalg.matrix_power(x, 1) | L.diff(x, 0) | L.clip(x, -100.0, 100.0) | L.lerp(x, x, 0.0)
L.select_scatter(x.clone(), x[0], 0, 0) | x.masked_fill(x < 0, 0) | x.index_put((), x)
L.squeeze_copy(x) | L.view_copy(x.contiguous(), x.shape) | L.expand_copy(x, x.shape)
L.permute_copy(x, list(range(x.dim()))) | L.t_copy(x) | L.narrow_copy(x, 0, 0, x.shape[0])
L.unbind_copy(x) | L.split_copy(x, 1) | L.linalg.qr(x) | L.linalg.svd(x) | L.linalg.eigh(x)
L.linalg.eig(x) | L.linalg.lu_factor(x) | L.triangular_solve(x, x) | L.linalg.lstsq(x, x)
"""
SHAPES = [(2, 3, 4), (4,), (3, 3), (), (1, 4, 2, 2), (4, 1), (1, 1), (2, 4, 1, 1)]


def calls_of(text: str) -> list[str]:
    """The expressions of a list."""
    return [call.strip() for line in text.strip().splitlines() for call in line.split(" | ")]


def call_of(expression: str, library: Any) -> Callable[[Any], Any]:
    """A function of one tensor."""
    made: Callable[..., Any] = eval(f"lambda L, F, x: {expression}")
    return lambda x: made(library, library.nn.functional, x)


COMPILED_ELSEWHERE = {
    "x.as_strided(x.shape, x.stride())": "graphs do not know odd strides of dims of size 1",
    "x[1:].as_strided((1,), (1,))": "graphs do not know the offset of an empty view",
}
"""Calls of the lists above whose compiled results lie elsewhere, in rare layouts."""


def found_elsewhere(
    expression: str, shapes: list[tuple[int, ...]], layouts: Iterable[str], wrap: Any
) -> str | None:
    """Where the results of a call do not lie where PyTorch's do."""
    theirs = call_of(expression, torch)
    for shape in shapes:
        base = torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape)
        ours = wrap(call_of(expression, dj))
        for layout in layouts:
            try:
                reason = differences(ours, theirs, (LAYOUTS[layout](base), [], {}), expression)
            except Unasked:
                continue
            if reason:
                return f"{expression} of {shape}, {layout}: {reason}"
    return None


@pytest.mark.parametrize("expression", [*calls_of(OF_VIEWS), *calls_of(OF_COPIES)])
def test_results_of_calls_without_work_lie_where_pytorchs_do(expression: str) -> None:
    layouts = LAYOUTS if MOST_SAMPLES > 1 else FEW
    assert not found_elsewhere(expression, SHAPES, layouts, lambda call: call)


@pytest.mark.parametrize(
    "expression", [*calls_of(OF_VIEWS), *calls_of(OF_COPIES)[: 500 if MOST_SAMPLES > 1 else 16]]
)
def test_compiled_calls_give_what_lies_where_pytorchs_does(expression: str) -> None:
    shapes = SHAPES if MOST_SAMPLES > 1 else [(2, 3, 4), (4,)]
    layouts = LAYOUTS if MOST_SAMPLES > 1 else ("row-major", "transposed", "sliced")
    found = found_elsewhere(
        expression, shapes, layouts, lambda call: dj.compile(call, backend="eager")
    )
    assert bool(found) is (MOST_SAMPLES > 1 and expression in COMPILED_ELSEWHERE), found
