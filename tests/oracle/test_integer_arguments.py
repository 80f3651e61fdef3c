"""Integers that are no `int` are taken where PyTorch takes them, with its results.

NumPy's integers (unsigned ones wrap when they are computed with) and tensors without dims stand in
the place of each integer argument of PyTorch's table of operators, and in `integer_programs.py`,
where factories, layers and windows are. What PyTorch refuses, floats and bools among it, is refused
here with an error that is of PyTorch's class, too, or is taken.

`DYNAJIT_PYTORCH_SAMPLES=100` looks at up to 100 samples of each operator instead of 4.
"""

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

from torch.testing._internal.opinfo.core import UnaryUfuncInfo  # noqa: E402

from tests.support.pytorch import left_out  # noqa: E402
from tests.support.pytorch.integer_programs import PROGRAMS  # noqa: E402
from tests.support.pytorch.operator_table import op_db  # noqa: E402
from tests.support.pytorch.pytorch_values import (  # noqa: E402
    Translation,
    Untranslated,
    from_dynajit,
    function,
    is_written_for_tests,
    named,
    why_not_same,
)

MOST_SAMPLES = int(os.environ.get("DYNAJIT_PYTORCH_SAMPLES", "4"))

#: Forms of an integer, made for PyTorch or for dynajit.
FORMS: dict[str, Callable[[Any, int], Any]] = {
    "NumPy's": lambda library, n: np.uint8(n) if n >= 0 else np.int8(n),
    "a tensor": lambda library, n: library.tensor(n),
}
#: What is no integer, or not everywhere.
REFUSED: dict[str, Callable[[Any, int], Any]] = {
    "a bool": lambda library, n: bool(n),
    "a float": lambda library, n: float(n),
    "a tensor of floats": lambda library, n: library.tensor(float(n)),
}

#: Samples of these take seconds to make.
SLOW = {f"nn.functional.max_unpool{n}d.grad" for n in (1, 2, 3)}

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)


def operators() -> list[Any]:
    """Those that may have an argument that is an integer, as parameters of a test."""
    return [
        pytest.param(operator, id=operator.full_name)
        for operator in op_db
        if operator.full_name not in {*left_out.ABSENT, *SLOW}
        and not isinstance(operator, UnaryUfuncInfo)
        and any(dtype in operator.dtypes for dtype in DTYPES)
    ]


def samples_of(operator: Any) -> list[Any]:
    """The first ones, in the first dtype that the operator takes."""
    seed = zlib.crc32(operator.full_name.encode())
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    dtype = next(dtype for dtype in DTYPES if dtype in operator.dtypes)
    return list(itertools.islice(operator.sample_inputs("cpu", dtype), MOST_SAMPLES))


def places_of(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the integers are in nested arguments."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield place
    elif isinstance(value, (tuple, list)):
        for number, part in enumerate(value):
            yield from places_of(part, (*place, number))
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from places_of(part, (*place, name))


def with_form(value: Any, place: tuple[Any, ...], form: Callable[[int], Any]) -> Any:
    """The arguments, with another form of the integer at a place."""
    if not place:
        return form(value)
    first, *rest = place
    if isinstance(value, dict):
        return {**value, first: with_form(value[first], tuple(rest), form)}
    parts = [*value[:first], with_form(value[first], tuple(rest), form), *value[first + 1 :]]
    return tuple(parts) if isinstance(value, tuple) else parts


def outcome(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What is returned, or raised."""
    torch.default_generator.manual_seed(1)
    dj.manual_seed(1)
    try:
        return call(), None
    except Exception as error:
        return None, error


def calls_of(operator: Any) -> Iterator[tuple[Any, Any]]:
    """PyTorch's function and method, each with dynajit's."""
    for theirs in (operator.op, operator.method_variant):
        if theirs is None or is_written_for_tests(theirs):
            continue
        try:
            ours = named(operator.name) if theirs is operator.op else None
            yield theirs, ours or function(theirs)
        except Untranslated:
            continue


def compared(operator: Any, theirs: Any, ours: Any, arguments: Any, place: Any, make: Any) -> Any:
    """How the outcomes differ, or None."""
    try:
        translated = Translation()(arguments)
    except Untranslated:
        return None
    first, args, kwargs = with_form(arguments, place, lambda n: make(torch, n))
    before = torch.get_rng_state()
    expected, refusal = outcome(lambda: theirs(first, *args, **kwargs))
    is_random = not torch.equal(before, torch.get_rng_state()) and "dropout" in operator.name
    own = with_form(translated, place, lambda n: make(dj, n))
    actual, error = outcome(lambda: ours(own[0], *own[1], **own[2]))
    if refusal is not None:
        is_like = error is None or isinstance(error, type(refusal))
        return None if is_like else f"{error!r} instead of {refusal!r}"
    if isinstance(error, UnsupportedError):
        return None
    if error is not None:
        return repr(error)
    if is_random or operator.name in {*left_out.UNDEFINED, *left_out.PROCESSED}:
        return None

    reason = why_not_same(expected, from_dynajit(actual))
    if reason and "values" in reason:  # may be more than rounding allows with plain integers, too
        first, args, kwargs = translated
        reason = why_not_same(from_dynajit(ours(first, *args, **kwargs)), from_dynajit(actual))
    return reason


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("operator", operators())
def test_every_integer_argument_of_an_operator_may_be_numpys_or_a_tensor(operator: Any) -> None:
    """The first sample that has an argument at a place stands for all."""
    met: set[Any] = set()
    found = []
    for sample in samples_of(operator):
        arguments = (sample.input, sample.args, sample.kwargs)
        for place in places_of(arguments):
            if place in met:
                continue
            met.add(place)
            for name, make in FORMS.items():
                for theirs, ours in calls_of(operator):
                    reason = compared(operator, theirs, ours, arguments, place, make)
                    if reason:
                        found.append(f"{place} {name}: {reason}")
    assert not found, "\n".join(found)


DATA = (np.arange(36.0).reshape(6, 6) * 7 % 11 - 5).astype(np.float32)


def run(library: Any, program: str, form: Callable[[Any, int], Any]) -> tuple[Any, Any]:
    """What a program gives, or raises."""
    names = {
        "L": library, "F": library.nn.functional, "nn": library.nn, "x": library.tensor(DATA),
        "n": form(library, 3), "m": form(library, 1),
    }  # fmt: skip
    return outcome(lambda: eval(program, names))


def plain(value: Any) -> Any:
    """Sizes as tuples."""
    return tuple(value) if isinstance(value, (torch.Size, dj.Size)) else value


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_may_have_such_integers(program: str) -> None:
    for name, form in FORMS.items():
        (expected, refusal), (actual, error) = run(torch, program, form), run(dj, program, form)
        if refusal is not None:
            assert error is None or isinstance(error, type(refusal)), name
            continue
        assert error is None, (name, error)
        reason = why_not_same(plain(expected), from_dynajit(plain(actual)))
        assert not reason, (name, reason)


#: Refused by another class than PyTorch's.
OTHER_CLASSES = (
    "x[",
    "tensor_split(n)",
    "narrow(0, n",
    "repeat_interleave(n)",
    "tensordot(x, x, m)",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_no_integer_is_refused_as_by_pytorch(program: str) -> None:
    """An error of PyTorch's class; some of what it refuses is taken."""
    if any(part in program for part in OTHER_CLASSES):
        pytest.skip("refused by another class")
    for name, form in REFUSED.items():
        (_, refusal), (_, error) = run(torch, program, form), run(dj, program, form)
        if refusal is not None and error is not None:
            assert isinstance(error, type(refusal)), (name, error)
