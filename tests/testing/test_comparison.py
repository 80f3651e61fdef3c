"""`assert_close` agrees with PyTorch's about what is close, and which error says so."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

Case = Callable[[Any], tuple[Any, Any, dict[str, Any]]]
NAN, INF = float("nan"), float("inf")

CASES: dict[str, Case] = {
    "equal": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.0]), {}),
    "near": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.000001]), {}),
    "far": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.001]), {}),
    "far but allowed": lambda t: (
        t.tensor([1.0, 2.0]), t.tensor([1.0, 2.001]), {"rtol": 0, "atol": 0.01}),
    "float64": lambda t: (
        t.tensor([1.0], dtype=t.float64), t.tensor([1.000001], dtype=t.float64), {}),
    "float16": lambda t: (
        t.tensor([1.0], dtype=t.float16), t.tensor([1.001], dtype=t.float16), {}),
    "bfloat16": lambda t: (
        t.tensor([1.0], dtype=t.bfloat16), t.tensor([1.01], dtype=t.bfloat16), {}),
    "dtypes": lambda t: (t.tensor([1.0]), t.tensor([1.0], dtype=t.float64), {}),
    "dtypes allowed": lambda t: (
        t.tensor([1.0]), t.tensor([1.000001], dtype=t.float64), {"check_dtype": False}),
    "shapes": lambda t: (t.ones(2), t.ones(2, 1), {}),
    "strides": lambda t: (t.ones(2, 3), t.ones(3, 2).T, {"check_stride": True}),
    "strides ignored": lambda t: (t.ones(2, 3), t.ones(3, 2).T, {}),
    "nan": lambda t: (t.tensor([NAN]), t.tensor([NAN]), {}),
    "nan allowed": lambda t: (t.tensor([NAN]), t.tensor([NAN]), {"equal_nan": True}),
    "infinities": lambda t: (t.tensor([INF, -INF]), t.tensor([INF, -INF]), {}),
    "other infinity": lambda t: (t.tensor([INF]), t.tensor([-INF]), {}),
    "infinity and number": lambda t: (t.tensor([1.0]), t.tensor([INF]), {}),
    "integers": lambda t: (t.tensor([1, 2]), t.tensor([1, 3]), {}),
    "integers allowed": lambda t: (t.tensor([1, 2]), t.tensor([1, 3]), {"rtol": 0, "atol": 1}),
    "uint8": lambda t: (
        t.tensor([0], dtype=t.uint8), t.tensor([1], dtype=t.uint8), {"rtol": 0, "atol": 1}),
    "bools": lambda t: (t.tensor([True]), t.tensor([False]), {}),
    "empty": lambda t: (t.ones(0), t.ones(0), {}),
    "numbers": lambda t: (1.0, 1.00000001, {}),
    "other numbers": lambda t: (1.0, 1.001, {}),
    "int and float": lambda t: (1, 1.0, {}),
    "int and float allowed": lambda t: (1, 1.0, {"check_dtype": False}),
    "integers of Python": lambda t: (3, 4, {}),
    "number and tensor": lambda t: (1.0, t.tensor(1.0), {}),
    "zero-dim": lambda t: (t.tensor(1.0), t.tensor(2.0), {}),
    "None": lambda t: (None, None, {}),
    "None and number": lambda t: (None, 1.0, {}),
    "Python bools": lambda t: (True, False, {}),
    "lists": lambda t: ([t.ones(1), 2.0], [t.ones(1), 2.0], {}),
    "lists and tuples": lambda t: ([t.ones(1)], (t.ones(1),), {}),
    "lengths": lambda t: ([1.0], [1.0, 2.0], {}),
    "second item": lambda t: ([1.0, [3.0]], [1.0, [4.0]], {}),
    "dicts": lambda t: ({"a": t.ones(1), "b": 1}, {"b": 1, "a": t.ones(1)}, {}),
    "keys": lambda t: ({"a": 1.0}, {"b": 1.0}, {}),
    "arrays": lambda t: (np.ones(2), np.ones(2) + 1e-9, {}),
    "array and tensor": lambda t: (np.ones(2, np.float32), t.ones(2), {}),
    "texts": lambda t: ("a", "a", {}),
    "one tolerance": lambda t: (1.0, 1.0, {"rtol": 0.1}),
    "text of the error": lambda t: (1.0, 2.0, {"msg": "mine"}),
    "made from its text": lambda t: (1.0, 2.0, {"msg": lambda text: "mine: " + text[:7]}),
    "parameters": lambda t: (t.nn.Parameter(t.ones(1)), t.ones(1), {}),
    "parameters refused": lambda t: (
        t.nn.Parameter(t.ones(1)), t.ones(1), {"allow_subclasses": False}),
}  # fmt: skip


def outcome(library: Any, case: Case) -> tuple[Any, str]:
    """The built-in class of error, and its first line."""
    actual, expected, options = case(library)
    try:
        library.testing.assert_close(actual, expected, **options)
    except (AssertionError, ValueError, TypeError) as error:
        known = [c for c in (AssertionError, ValueError, TypeError) if isinstance(error, c)]
        return known[0], str(error).split("\n")[0]
    return None, ""


@pytest.mark.parametrize("name", CASES)
def test_the_outcome_equals_pytorchs(name: str) -> None:
    """The class of error; its first line where it speaks of values."""
    theirs, ours = outcome(torch, CASES[name]), outcome(dj, CASES[name])

    assert theirs[0] == ours[0], ours[1]
    if theirs[0] is AssertionError:
        words = theirs[1].replace("torch.", "").split()[:3]
        assert words == ours[1].replace("dynajit.", "").split()[:3]


def test_the_error_names_the_greatest_differences() -> None:
    """As PyTorch's does: count, difference, index."""
    texts = []
    for t in (torch, dj):
        with pytest.raises(AssertionError) as error:
            t.testing.assert_close(
                t.tensor([[1.0, 2.0], [3.0, 8.0]]), t.tensor([[1.0, 2.5], [3.0, 4.0]])
            )
        texts.append(str(error.value).split("\n"))
    theirs, ours = texts

    assert [line.split(" at ")[0] for line in theirs] == [line.split(" at ")[0] for line in ours]
    assert "(1, 1)" in ours[3]


def test_the_older_form_warns_and_accepts_other_dtypes() -> None:
    """And NaN."""
    x = dj.tensor([1.0, NAN])
    with pytest.warns(FutureWarning, match="deprecated"):
        dj.testing.assert_allclose(x, x.double())
    with pytest.raises(AssertionError, match="not close"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dj.testing.assert_allclose([1.0, 2.0], dj.tensor([1.0, 3.0]))


@pytest.mark.parametrize("name", ["bool", "uint8", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (40, 5)])
def test_made_tensors_lie_in_their_range(name: str, shape: tuple[int, ...]) -> None:
    """With the dtype and shape that were asked for."""
    for options in ({}, {"low": 0, "high": 2}, {"noncontiguous": True}, {"exclude_zero": True}):
        made = dj.testing.make_tensor(shape, dtype=getattr(dj, name), device="cpu", **options)
        assert (shape, name) == (tuple(made.shape), made.dtype.name)
        values = made.double()
        high = options.get("high", 10)
        assert ((values >= options.get("low", -9)) & (values <= high)).all()
        if options.get("exclude_zero") and name.startswith("int"):
            assert (made != 0).all()
        if options.get("noncontiguous") and made.numel() > 1:
            assert not made.is_contiguous()
    again = dj.testing.make_tensor(3, 2, dtype=dj.float32, requires_grad=True)
    assert ((3, 2), True) == (tuple(again.shape), again.requires_grad)


@pytest.mark.parametrize("options", [
    {"dtype": "float32", "low": 4, "high": 3}, {"dtype": "int64", "requires_grad": True},
])  # fmt: skip
def test_impossible_tensors_are_refused(options: dict[str, Any]) -> None:
    """PyTorch's ValueError."""
    for t in (torch, dj):
        with pytest.raises(ValueError, match=r"low|requires_grad"):
            t.testing.make_tensor(2, **{**options, "dtype": getattr(t, options["dtype"]),
                                        "device": "cpu"})  # fmt: skip
