"""Operators take conjugate views, and negated ones, as PyTorch does.

Operators of PyTorch's own table that take complex numbers (every second one, in a long run all) run
on a sample whose complex tensors are conjugate views; in a long run all of real numbers, too, on
tensors that are imaginary parts of such. What each gives has PyTorch's values, lies in the same
argument's memory at the same strides, and is a conjugate view, or a negated one, where PyTorch's
is; in-place forms leave the same numbers in the memory below the view. `DIFFERENT` says what
differs, with reasons.

Skipped without PyTorch, and without `expecttest`, which its tests import.
`DYNAJIT_CONJUGATE_SAMPLES=100` takes up to 100 samples of each operator instead of one.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's table of operators imports expecttest")

from tests.oracle.test_memory_sharing import memory_of  # noqa: E402
from tests.oracle.test_pytorch_samples import (  # noqa: E402
    described,
    draws,
    ours_of,
    samples_of,
    sizes,
    table,
    theirs_of,
    why_not_equal,
)
from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.pytorch_values import Translation, Untranslated, flat, from_dynajit  # noqa: E402

MOST_SAMPLES = int(os.environ.get("DYNAJIT_CONJUGATE_SAMPLES", "1"))
SEED: Final = 42

_TAKEN = "PyTorch's result is a new tensor whose conjugate is still to be taken; here it was taken"
_COPIES = "PyTorch copies what is no view by its schema; here the parts are views of the view"
_LOST = "PyTorch loses what it writes to a buffer that is a negated view"

DIFFERENT: Final[dict[str, str]] = {
    **dict.fromkeys(("dot", "inner", "matmul", "__rmatmul__", "fft.ifft"), _TAKEN),
    **dict.fromkeys(("svd_lowrank", "pca_lowrank"), _TAKEN),
    **dict.fromkeys(("unsafe_chunk", "unsafe_split"), _COPIES),
    **dict.fromkeys(("native_batch_norm", "nn.functional.batch_norm"), _LOST),
}


# -- samples --------------------------------------------------------------------------------------


def conjugated(x: Any) -> Any:
    """The same numbers, seen through a conjugate view."""
    return x.conj().resolve_conj().clone().conj() if x.dtype.is_complex else x.clone()


def negated(x: Any) -> Any:
    """The same numbers, seen as the imaginary parts of conjugates."""
    if not x.dtype.is_floating_point:
        return x.clone()
    return torch.complex(torch.zeros_like(x), -x).conj().imag


FORMS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "conjugated": ("complex64", conjugated),
    "negated": ("float32", negated),
}


def seen(value: Any, form: Callable[[Any], Any]) -> Any:
    """A sample's arguments with its dense tensors in a form, each in memory of its own."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value
        return form(value.detach().resolve_conj().resolve_neg())
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(seen(part, form) for part in value)
    if isinstance(value, dict):
        return {name: seen(part, form) for name, part in value.items()}
    return value


def bits_of(result: Any, library: Any) -> list[Any]:
    """Of each dense tensor of a result, whether it is conjugated, and whether negated."""
    return [
        (part.is_conj(), part.is_neg())
        for part in flat(result)
        if isinstance(part, library.Tensor) and part.layout is library.strided
    ]


class Unasked(Exception):
    """A call that dynajit refuses by name, or has no values for."""


def outcome(call: Callable[[], Any]) -> Any:
    """dynajit's result, or the error. Raises `Unasked`."""
    dj.manual_seed(SEED)
    try:
        return call()
    except (UnsupportedError, Untranslated) as error:
        raise Unasked(str(error)) from error
    except Exception as error:
        return error


def difference(operator: Any, call: Any, sample: Any, form: Callable[[Any], Any]) -> str | None:
    """What differs for one sample."""
    arguments = seen((sample.input, list(sample.args), sample.kwargs), form)
    translated = outcome(lambda: Translation()(arguments))
    if isinstance(translated, Exception):
        raise translated
    ours, (first, args, kwargs) = outcome(lambda: ours_of(operator, call)), translated
    actual = outcome(lambda: ours(first, *args, **kwargs))
    try:
        expected, random = draws(
            lambda: theirs_of(call)(arguments[0], *arguments[1], **arguments[2])
        )
    except Exception as error:
        is_same = isinstance(actual, Exception) and _is_like(actual, error)
        return None if is_same else f"{actual!r} instead of {error!r}"
    if isinstance(actual, Exception):
        return why_not_refused(operator, call, sample, actual)
    if bits_of(actual, dj) != bits_of(expected, torch):
        return f"{bits_of(actual, dj)} instead of {bits_of(expected, torch)}"
    if random or operator.name in left_out.UNDEFINED:
        left, right = sizes(expected), sizes(from_dynajit(actual))
        return None if left == right else f"{right} instead of {left}"
    if operator.full_name not in left_out.ELSEWHERE:
        is_exact = operator.full_name not in left_out.STRIDES_OF_ONE
        left = memory_of(expected, arguments, torch, is_exact)
        right = memory_of(actual, translated, dj, is_exact)
        if left != right:
            return f"{right} instead of {left}"
    below = memory_below(arguments), [from_dynajit(x) for x in memory_below(translated)]
    if not all(torch.allclose(*pair, equal_nan=True) for pair in zip(*below, strict=True)):
        return "other numbers in the arguments' memory"
    viewed = type(sample)(arguments[0], args=tuple(arguments[1]), kwargs=arguments[2])
    return why_not_equal(operator, viewed, call, expected, actual)


def why_not_refused(operator: Any, call: Any, sample: Any, error: Exception) -> str | None:
    """The error, unless the same call with plain tensors raises one, too: it is not about views."""
    arguments = seen((sample.input, list(sample.args), sample.kwargs), torch.clone)
    first, args, kwargs = Translation()(arguments)
    ours = ours_of(operator, call)
    plain = outcome(lambda: ours(first, *args, **kwargs))
    return None if isinstance(plain, type(error)) else repr(error)


def memory_below(arguments: Any) -> list[Any]:
    """What lies in the memory of the arguments."""
    found = []
    for x in flat(arguments):
        if isinstance(x, (torch.Tensor, dj.Tensor)) and (x.is_conj() or x.is_neg()):
            found.append((x.conj() if x.is_conj() else x._neg_view()).detach())
    return found


def _is_like(ours: Exception, theirs: Exception) -> bool:
    kinds = (IndexError, ValueError, TypeError, RuntimeError, NotImplementedError)
    return any(isinstance(ours, kind) for kind in kinds if isinstance(theirs, kind))


@pytest.fixture(autouse=True)
def _quiet_and_quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without warnings; seeds are those of the CPU alone, which takes a hundredth of the time."""
    monkeypatch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def forms_of(operator: Any) -> list[tuple[str, Any]]:
    """Those for whose dtype PyTorch has it; one of them, but in a long run."""
    found = [item for item in FORMS.items() if getattr(torch, item[1][0]) in operator.dtypes]
    return found if MOST_SAMPLES > 1 else found[:1]


def chosen() -> list[Any]:
    """Operators, as parameters: every second of complex numbers, in a long run all."""
    every = table(without=left_out.ABSENT)
    kinds = [parameter.values[0].dtypes for parameter in every]
    if MOST_SAMPLES > 1:
        return every
    return [p for p, kind in zip(every, kinds, strict=True) if torch.complex64 in kind][::2]


@pytest.mark.parametrize("operator", chosen())
def test_operators_take_views_as_pytorchs_do(operator: Any) -> None:
    failures = {}
    for name, (dtype, form) in forms_of(operator):
        for sample in samples_of(operator, dtype, most=MOST_SAMPLES):
            try:
                reason = difference(operator, operator.op, sample, form)
            except Unasked:
                continue
            if reason:
                failures[name] = f"{operator.full_name} {name}: {described(sample)}: {reason}"
    if operator.full_name in DIFFERENT:
        assert failures or MOST_SAMPLES == 1, f"{operator.full_name} agrees"
    else:
        assert not failures, "\n".join(failures.values())


IN_PLACE = [
    parameter
    for parameter in table(having="inplace_variant", without=left_out.ABSENT)
    if torch.complex64 in parameter.values[0].dtypes
]


@pytest.mark.parametrize("operator", IN_PLACE)
def test_in_place_forms_write_through_conjugate_views(operator: Any) -> None:
    for sample in samples_of(operator, "complex64", most=MOST_SAMPLES):
        try:
            reason = difference(operator, operator.inplace_variant, sample, conjugated)
        except Unasked:
            continue
        assert not reason, f"{operator.full_name}: {described(sample)}: {reason}"
