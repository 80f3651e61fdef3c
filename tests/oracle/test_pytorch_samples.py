"""Every operator of PyTorch's own table gives PyTorch's results here.

The table (`torch.testing._internal.common_methods_invocations.op_db`) says for each operator which
dtypes it takes, and makes sample arguments and arguments that must be refused. For names that
dynajit has, results, their dtypes and sizes, gradients, methods and in-place forms are compared.
`left_out.py` lists what is not compared, or differs, with reasons; an entry without need fails.
Refusals by name (`UnsupportedError`) are no failures, unless all samples of one are refused.

Skipped without PyTorch, and without `expecttest`, which its tests import.
`DYNAJIT_PYTORCH_SAMPLES=100` takes up to 100 samples of each operator and dtype instead of 8.
"""

import functools
import itertools
import os
import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

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
    from_dynajit,
    function,
    is_written_for_tests,
    leaves,
    named,
    why_not_same,
    wider,
    written_again,
)

MOST_SAMPLES = int(os.environ.get("DYNAJIT_PYTORCH_SAMPLES", "8"))
DTYPES = ("float32", "float64", "int64", "bool", "complex64", "complex128", "bfloat16")
WITH_GRADIENTS = ("float64", "complex128")
WITH_METHODS = ("float32", "int64")
SEED = 42


class Refused(Exception):
    """A sample that dynajit refuses by name, or that it has no values for."""


def table(*, having: str = "op", without: Any = ()) -> list[Any]:
    """The operators that have this form, as parameters of a test."""
    return [
        pytest.param(operator, id=operator.full_name)
        for operator in op_db
        if getattr(operator, having) is not None and operator.full_name not in without
    ]


def theirs_of(call: Any) -> Callable[..., Any]:
    """PyTorch's function, without a seed of its own."""
    return written_again(call, torch) if is_written_for_tests(call) else call


def ours_of(operator: Any, call: Any) -> Callable[..., Any]:
    """dynajit's counterpart of the operator's function. Raises `Untranslated`."""
    if call is not operator.op or is_written_for_tests(call):
        return function(call)
    found = named(operator.name)
    if found is None:
        raise Untranslated(operator.name)
    return found


def samples_of(
    operator: Any, dtype: str, *, gradients: bool = False, most: int = MOST_SAMPLES
) -> list[Any]:
    """At most so many, evenly over all there are."""
    seed = zlib.crc32(f"{operator.full_name} {dtype}".encode())
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    kind = getattr(torch, dtype)
    samples = operator.sample_inputs("cpu", kind, requires_grad=gradients)
    every = list(itertools.islice(samples, 1) if most == 1 else samples)
    if len(every) <= most:
        return every
    step = (len(every) - 1) / max(most - 1, 1)
    return [every[round(step * place)] for place in range(most)]


def dtypes_of(operator: Any) -> list[str]:
    """The names of those that PyTorch takes."""
    return [name for name in DTYPES if getattr(torch, name) in operator.dtypes]


def described(sample: Any) -> str:
    """The sample's arguments in a line: tensors by dtype and sizes."""
    return f"{_shown(sample.input)} {_shown(sample.args)} {_shown(sample.kwargs)}"


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_shown(part)}' for name, part in value.items())}}}"
    return repr(value)


def outcome(call: Callable[[], Any]) -> Any:
    """dynajit's result. Raises `Refused` for what is refused by name."""
    dj.manual_seed(SEED)
    try:
        return call()
    except (UnsupportedError, Untranslated) as error:
        raise Refused(str(error)) from error


def draws(call: Callable[[], Any]) -> tuple[Any, bool]:
    """PyTorch's result, and whether random numbers were drawn for it."""
    torch.manual_seed(SEED)
    before = torch.get_rng_state()
    result = call()
    return result, not torch.equal(before, torch.get_rng_state())


def sizes(value: Any) -> list[Any]:
    """What is defined of random and empty tensors, and of other results their types."""
    return [
        (part.dtype, tuple(part.shape)) if isinstance(part, torch.Tensor) else type(part)
        for part in flat(value)
    ]


DIMENSION_AT = {"argsort": 0, "kthvalue": 1, "mode": 0, "sort": 0, "topk": 1}
"""Operators that choose among equal elements as they like: the place of `dim` in `args`."""


def chosen(operator: Any, sample: Any, result: Any) -> Any:
    """The result with elements of the sample in the place of their positions."""
    dim = sample.kwargs.get("dim", (*sample.args, -1, -1, -1)[DIMENSION_AT[operator.name]])
    parts = flat(result)
    index = parts[-1]
    if index.ndim < sample.input.ndim:
        index = index.unsqueeze(dim)
    return [*parts[:-1], torch.take_along_dim(sample.input.detach(), index, dim)]


def why_not_equal(operator: Any, sample: Any, call: Any, expected: Any, ours: Any) -> str | None:
    """How dynajit's result differs from PyTorch's, or None."""
    actual = from_dynajit(ours)

    def exact() -> Any:
        with torch.no_grad():
            return theirs_of(call)(wider(sample.input), *wider(sample.args), **wider(sample.kwargs))

    reason = why_not_same(expected, actual, exact)
    if reason and operator.name in DIMENSION_AT:
        return why_not_same(
            chosen(operator, sample, expected), chosen(operator, sample, actual), exact
        )
    if reason and operator.name in left_out.PROCESSED:
        process = sample.output_process_fn_grad
        return why_not_same(process(expected), from_dynajit(function(process)(ours)))
    return reason


def compare_call(operator: Any, call: Any, sample: Any) -> tuple[str | None, bool]:
    """What differs in the results of one call, and whether they are defined by its arguments."""
    arguments = sample.input, sample.args, sample.kwargs
    first, args, kwargs = outcome(lambda: Translation()(arguments))
    ours = outcome(lambda: ours_of(operator, call))
    try:
        expected, random = draws(
            lambda: theirs_of(call)(sample.input, *sample.args, **sample.kwargs)
        )
    except Exception as error:
        raise Refused(f"PyTorch itself: {error}") from error
    actual = outcome(lambda: ours(first, *args, **kwargs))
    if random or operator.name in left_out.UNDEFINED:
        left, right = sizes(expected), sizes(from_dynajit(actual))
        return (None if left == right else f"{right} instead of {left}"), False
    return why_not_equal(operator, sample, call, expected, actual), True


def compare_gradients(operator: Any, sample: Any) -> str | None:
    """How gradients, for the same random weights of all results, differ."""
    translation = Translation()
    first, args, kwargs = leaves((sample.input, sample.args, sample.kwargs))
    arguments = outcome(lambda: translation((first, args, kwargs)))
    inputs = [theirs for theirs, _ in translation.tensors if theirs.requires_grad]
    process = sample.output_process_fn_grad
    torch.manual_seed(SEED)
    wrapped = _wrapper(operator, torch)
    found = flat(process(wrapped(theirs_of(operator.op), first, *args, **kwargs)))
    mask = _kept(operator, sample)
    weights = {
        place: torch.randn_like(part.detach()) * mask
        for place, part in enumerate(found)
        if isinstance(part, torch.Tensor) and part.requires_grad
    }
    if not weights:
        return None
    expected = torch.autograd.grad(
        [found[place] for place in weights], inputs, list(weights.values()), allow_unused=True
    )
    actual = outcome(lambda: gradients_of_ours(operator, process, translation, arguments, weights))
    for place, (source, one, other) in enumerate(zip(inputs, expected, actual, strict=True)):
        zero = torch.zeros_like(source.detach())
        reason = why_not_same(
            zero if one is None else one, zero if other is None else from_dynajit(other)
        )
        if reason:
            return f"of tensor {place}: {reason}"
    return None


def _wrapper(operator: Any, library: Any) -> Any:
    """What PyTorch's tests put around an operator whose arguments have to be symmetric, say."""
    if operator.name.startswith("masked."):
        return _call
    wrapper = operator.gradcheck_wrapper
    return wrapper if library is torch else function(wrapper)


def _call(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return call(*args, **kwargs)


def _kept(operator: Any, sample: Any) -> Any:
    """1 where a result is defined, 0 where a mask leaves it out."""
    masks = [sample.kwargs.get(name) for name in ("mask", "input_mask", "other_mask")]
    masks = [mask for mask in masks if mask is not None]
    if not operator.name.startswith("masked.") or not masks:
        return 1
    if operator.name == "masked.logaddexp":
        return functools.reduce(torch.logical_and, masks)
    return torch.masked._output_mask(operator.op, sample.input, *sample.args, **sample.kwargs).to(
        torch.int64
    )


def gradients_of_ours(
    operator: Any, process: Any, translation: Translation, arguments: Any, weights: Any
) -> list[Any]:
    """Gradients of the tensors that require them; None where there is no path."""
    first, args, kwargs = arguments
    call = ours_of(operator, operator.op)
    found = _wrapper(operator, dj)(call, first, *args, **kwargs)
    parts = flat(function(process)(found))
    inputs = [ours for theirs, ours in translation.tensors if theirs.requires_grad]
    live = {place: weight for place, weight in weights.items() if parts[place].requires_grad}
    if not live:  # PyTorch's gradients may be zeros where there is no path here
        return [None] * len(inputs)
    return dj.autograd.grad(
        [parts[place] for place in live],
        inputs,
        [Translation()(weight) for weight in live.values()],
        allow_unused=True,
    )


def compare_written(operator: Any, call: Any, sample: Any) -> str | None:
    """How the in-place form differs: what it writes, what it returns, what it refuses."""
    first, args, kwargs = outcome(lambda: Translation()((sample.input, sample.args, sample.kwargs)))
    ours = outcome(lambda: function(call))
    theirs, written = theirs_of(call), sample.input.clone()
    try:
        expected, random = draws(lambda: theirs(written, *sample.args, **sample.kwargs))
    except Exception as error:
        return why_not_refused(lambda: ours(first, *args, **kwargs), error)
    actual = outcome(lambda: ours(first, *args, **kwargs))
    if random or operator.name in left_out.UNDEFINED:
        left, right = sizes([expected, written]), sizes(from_dynajit([actual, first]))
        return None if left == right else f"{right} instead of {left}"
    if why_not_same(from_dynajit(first), from_dynajit(actual)):
        return "what is written is not what is returned"
    return why_not_equal(operator, sample, operator.op, written, first)


def why_not_refused(call: Callable[[], Any], error: Exception) -> str | None:
    """Says what dynajit gives where PyTorch raises this error."""
    try:
        given = call()
    except Exception:
        return None
    return f"gives {_shown(from_dynajit(given))} where PyTorch raises {error!r}"


class Findings:
    """Failures of one operator by dtype and what they are about, and counts. Mutable."""

    def __init__(self, operator: Any, form: str = "") -> None:
        self.operator = operator
        self.form = form
        self.failures: dict[str, list[str]] = {}
        self.compared = 0
        self.refusals: list[str] = []

    def look(self, about: str, sample: Any, call: Callable[[], Any]) -> Any:
        """Run one comparison, which gives a failure or None, or raises."""
        try:
            reason = call()
            self.compared += 1
        except Refused as refusal:
            self.refusals.append(str(refusal))
            return
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self.failures.setdefault(about, []).append(f"{described(sample)}: {reason}")

    def judge(self) -> None:
        """Fails for what `left_out.py` does not list, and for what it lists without need."""
        name = f"{self.operator.full_name} {self.form}".strip()
        differing = left_out.expected(self.operator.full_name, self.form)
        unknown = {about: found for about, found in self.failures.items() if about not in differing}
        assert not unknown, "\n".join(
            f"{self.operator.full_name} {about}: {line}"
            for about, found in unknown.items()
            for line in found[:3]
        )
        needless = [
            about
            for about, must_differ in differing.items()
            if must_differ and about not in self.failures
        ]
        assert not needless or MOST_SAMPLES != 8, f"{name} agrees in {', '.join(needless)}"
        if self.refusals and not self.compared:
            assert name in left_out.REFUSED, f"{name}: all samples refused: {self.refusals[0]}"
            pytest.skip(left_out.REFUSED[name])
        assert name not in left_out.REFUSED or not self.compared, f"{name} is not refused"


@pytest.fixture(autouse=True)
def _quiet_and_quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without warnings; seeds are those of the CPU alone, which takes a hundredth of the time."""
    monkeypatch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("operator", table(without=left_out.ABSENT))
def test_results_and_gradients_are_pytorchs(operator: Any) -> None:
    """Of functions, and in two dtypes of methods, too; gradients in double precision."""
    findings = Findings(operator)
    has_method = operator.method_variant is not None and not is_written_for_tests(operator.op)
    for dtype in dtypes_of(operator):
        gradients = operator.supports_autograd and dtype in WITH_GRADIENTS
        for sample in samples_of(operator, dtype, gradients=gradients):
            defined: list[bool] = []

            def results(sample: Any = sample, defined: list[bool] = defined) -> str | None:
                reason, is_defined = compare_call(operator, operator.op, sample)
                defined.append(is_defined and not reason)
                return reason

            def method(sample: Any = sample) -> str | None:
                return compare_call(operator, operator.method_variant, sample)[0]

            def gradient(sample: Any = sample) -> str | None:
                return compare_gradients(operator, sample)

            findings.look(dtype, sample, results)
            if has_method and dtype in WITH_METHODS:
                findings.look(f"{dtype} method", sample, method)
            if gradients and defined == [True]:
                findings.look(f"{dtype} gradient", sample, gradient)
    findings.judge()


@pytest.mark.parametrize("operator", table(having="inplace_variant", without=left_out.ABSENT))
def test_in_place_forms_write_pytorchs_values(operator: Any) -> None:
    """And refuse what PyTorch refuses."""
    findings = Findings(operator, "in place")
    for dtype in dtypes_of(operator):
        for sample in samples_of(operator, dtype):
            findings.look(
                f"{dtype} in place",
                sample,
                lambda sample=sample: compare_written(operator, operator.inplace_variant, sample),
            )
    findings.judge()


@pytest.mark.parametrize("operator", table(having="error_inputs_func", without=left_out.ABSENT))
def test_what_pytorch_refuses_is_refused(operator: Any) -> None:
    """Arguments that PyTorch raises errors for raise errors here."""
    findings = Findings(operator, "error")
    for place, wrong in enumerate(operator.error_inputs("cpu")):
        sample = wrong.sample_input
        findings.look(
            f"error {place}", sample, lambda sample=sample: compare_errors(operator, sample)
        )
    findings.judge()


def compare_errors(operator: Any, sample: Any) -> str | None:
    """What dynajit gives where PyTorch raises, or None."""
    first, args, kwargs = outcome(lambda: Translation()((sample.input, sample.args, sample.kwargs)))
    ours = outcome(lambda: ours_of(operator, operator.op))
    try:
        theirs_of(operator.op)(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        return why_not_refused(lambda: ours(first, *args, **kwargs), error)
    return None


def test_the_lists_name_operators_of_the_table() -> None:
    names = {operator.full_name for operator in op_db}
    short = {operator.name for operator in op_db}
    assert set(left_out.ABSENT) | left_out.differing() <= names
    assert {name.removesuffix(" in place") for name in left_out.REFUSED} <= names
    assert set(left_out.UNDEFINED) | set(left_out.PROCESSED) <= short


def test_names_that_are_absent_are_not_here() -> None:
    """A name that is added is compared from then on."""
    found = [
        operator.full_name
        for operator in op_db
        if operator.full_name in left_out.ABSENT and named(operator.name) is not None
    ]
    assert not found
