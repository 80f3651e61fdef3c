"""Every operator of PyTorch's own table shares memory as PyTorch's does.

For each operator and layout of its tensors (row-major, transposed, expanded, sliced, at an offset,
channels last, with sizes of 1 whose strides say nothing) each tensor of the result is looked at:
which argument's memory it lies in, or which earlier result's; whether it is that argument itself;
from which offset on; and, of what shares an argument's memory, with which strides. The same is
asked of calls that have nothing to do (`roll` by 0, `flatten` of one dim), eager and compiled.
`left_out.py` lists what differs, with reasons; an entry without need fails.

Skipped without PyTorch, and without `expecttest`, which its tests import.
`DYNAJIT_SHARING_SAMPLES=20` takes up to 20 samples of each operator and dtype instead of one.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

import left_out  # noqa: E402
from pytorch_values import Translation, Untranslated, flat  # noqa: E402
from test_pytorch_samples import described, ours_of, samples_of, table, theirs_of  # noqa: E402

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


def memory_of(result: Any, arguments: Any, library: Any) -> list[str]:
    """A line for each tensor of the result: where it lies."""
    given = [x for x in flat(arguments) if isinstance(x, library.Tensor)]
    found: list[Any] = []
    lines = []
    for part in flat(result):
        if not isinstance(part, library.Tensor) or part.layout is not library.strided:
            continue
        lines.append(_place(part, given, found))
        found.append(part)
    return lines


def _place(part: Any, given: list[Any], found: list[Any]) -> str:
    for number, other in enumerate(given):
        if part is other:
            return f"argument {number}"
    for kind, others in (("argument", given), ("result", found)):
        for number, other in enumerate(others):
            if is_same_storage(part, other):
                if not part.numel():
                    return f"a view of {kind} {number}"
                at = f"from {part.storage_offset()}"
                return f"a view of {kind} {number} {at} by {tuple(part.stride())}"
    return f"fresh from {part.storage_offset() if part.numel() else 0}"


def is_same_storage(one: Any, other: Any) -> bool:
    left, right = one.untyped_storage(), other.untyped_storage()
    if isinstance(one, torch.Tensor):
        return left._cdata == right._cdata
    return left == right


class Unasked(Exception):
    """A call that PyTorch refuses, or that dynajit refuses by name."""


def differences(ours: Any, theirs: Any, arguments: Any) -> str | None:
    """How the places of the results of two functions differ for one call's arguments."""
    try:
        first, args, kwargs = translated = Translation()(arguments)
        expected = memory_of(theirs(arguments[0], *arguments[1], **arguments[2]), arguments, torch)
    except Exception as error:
        raise Unasked(str(error)) from error
    try:
        actual = memory_of(ours(first, *args, **kwargs), translated, dj)
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
            for layout in LAYOUTS:
                try:
                    arguments = laid((sample.input, list(sample.args), sample.kwargs), layout)
                    reason = differences(ours, theirs, arguments)
                except Unasked:
                    continue
                if reason:
                    failures[layout] = f"{described(sample)}: {reason}"
    lines = [f"{operator.full_name} {layout}: {line}" for layout, line in failures.items()]
    if operator.full_name in left_out.ELSEWHERE:
        assert lines or MOST_SAMPLES == 1, f"{operator.full_name} agrees"
    else:
        assert not lines, "\n".join(lines)
