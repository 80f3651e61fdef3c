"""Texts of numbers that the launch computes: made when it is over, or by Python where something
asks for them before."""

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import CompileWarning

VALUES = np.arange(6) * 0.1
PERCENT, WHOLE = "%s %5s", "%d"


class Holder:
    """Something with an attribute."""


def _text(u):
    return f"{u.mean():.2f}"


#: What ends no graph.
LATER = {
    "returned": lambda u: (_text(u), {"a": _text(u)}, [_text(u)]),
    "one_object": lambda u: (lambda text: (text is text, [text, text]))(_text(u)),
    "class": lambda u: (isinstance(_text(u), str), type(_text(u)), callable(_text(u))),
    "nested": lambda u: f"<{_text(u):>10}|{_text(u)!r}>",
    "repr_and_str": lambda u: (repr(_text(u)), str(_text(u))),
    "shown": lambda u: print(_text(u), [_text(u)], {"k": _text(u)}, (_text(u),)),
    "percent": lambda u: PERCENT % (_text(u), u.sum()),
    "truths": lambda u: f"{u.any()} {u.any():5}",
    "narrow_numbers": lambda u: (
        str(u.astype(np.float32).mean()), f"{u.astype(np.float32).mean()}",
        repr(u.astype(np.int32).sum()), f"{u.astype(np.int32).sum():,}",
    ),
    "complex_numbers": lambda u: f"{(u * 1j).sum()} {(u * 1j).sum():.2f}",
    "in_a_lambda": lambda u: (lambda: _text(u))(),
}  # fmt: skip

#: What asks for the text, or may raise.
ASKED = {
    "compared": lambda u: (_text(u) == "0.25", _text(u) != "a", _text(u) < "b"),
    "keys": lambda u: ({_text(u): 1}, {_text(u)}, {"0.25": 3}.get(_text(u))),
    "contained": lambda u: (_text(u) in {"0.25": 1}, _text(u) in "0.25 x", "2" in _text(u)),
    "truth": lambda u: (1 if _text(u) else 2, not _text(u)),
    "parts": lambda u: (_text(u)[0], _text(u)[-1:], list(_text(u)), [*_text(u)]),
    "joined": lambda u: (",".join([_text(u), "x"]), "a" + _text(u) + "b", _text(u) * 2),
    "number": lambda u: (float(_text(u)), len(_text(u)), ord(_text(u)[0])),
    "ordered": lambda u: (sorted([_text(u), "0"]), max(_text(u), "0")),
    "methods": lambda u: (_text(u).split("."), _text(u).encode(), _text(u).startswith("0")),
    "within_containers": lambda u: (repr([_text(u)]), [_text(u)] == ["0.25"], (_text(u),) < ("1",)),
    "attribute": lambda u: (setattr(Holder, "a", _text(u)), Holder.a)[1],
    "whole_number_of_a_float": lambda u: WHOLE % u.sum(),
    "character": lambda u: f"{u.argmax() + 60:c}",
    "wrong_format": lambda u: f"{u.mean():d}",
    "raised": lambda u: (_ for _ in ()).throw(ValueError(_text(u))),
    "array": lambda u: np.array([_text(u)]),
    "counted": lambda u: (["0.25"].count(_text(u)), ["0.25"].index(_text(u))),
    "specification": lambda u: f"{1.5:{_text(u)[:0]}}",
}


def outcome(function: Callable[[Any], Any]) -> tuple[str, str]:
    """What a call gives, or raises, and what it writes."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        try:
            found = repr(function(VALUES))
        except Exception as error:
            found = repr(error)
    return found, stream.getvalue()


@pytest.mark.parametrize("function", [*LATER.values(), *ASKED.values()], ids=[*LATER, *ASKED])
def test_is_as_in_plain_python(function: Callable[[Any], Any]) -> None:
    compiled = dj.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        assert outcome(function) == outcome(compiled) == outcome(compiled)


@pytest.mark.parametrize("function", LATER.values(), ids=LATER)
def test_texts_that_nothing_asks_for_end_no_graph(function: Callable[[Any], Any]) -> None:
    assert outcome(function) == outcome(dj.compile(function, fullgraph=True))
