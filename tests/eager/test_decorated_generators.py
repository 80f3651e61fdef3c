"""Generator functions under decorators of the gradient mode run in their mode whenever they run.

Compared with PyTorch: the modes that the body, its `finally` and its handlers find, what comes out,
and the mode that the caller finds afterwards; eager, and where a compiled function makes and
advances the generator.
"""

import gc
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


def body(t: Any, seen: list[Any]) -> Any:
    """A generator function that notes the mode in every part of it."""

    def note(place: str) -> None:
        seen.append((place, t.is_grad_enabled(), t.is_inference_mode_enabled()))

    def generator() -> Any:
        note("start")
        try:
            received = yield 1
            note(f"resumed with {received}")
            try:
                received = yield 2
            except ValueError:
                note("handler")
                received = yield 20
            note(f"resumed with {received}")
            yield 3
        except KeyError:
            note("other handler")
            raise LookupError("mine") from None
        finally:
            note("finally")
        note("end")
        return "result"

    return generator


def drained(made: Any) -> list[Any]:
    return list(made)


def closed(made: Any) -> Any:
    first = next(made)
    made.close()
    return first


def dropped(made: Any) -> Any:
    first = next(made)
    del made
    gc.collect()
    return first


def never_begun(made: Any) -> None:
    made.close()


def sent(made: Any) -> list[Any]:
    return [next(made), made.send("a"), made.send("b"), *made]


def thrown(made: Any) -> list[Any]:
    return [next(made), next(made), made.throw(ValueError("x")), *made]


def thrown_through(made: Any) -> Any:
    next(made)
    try:
        made.throw(KeyError("x"))
    except LookupError as error:
        return type(error).__name__, str(error)


def delegated(made: Any) -> list[Any]:
    def outer() -> Any:
        result = yield from made
        yield result

    return list(outer())


USES: list[Callable[[Any], Any]] = [
    drained, closed, dropped, never_begun, sent, thrown, thrown_through, delegated,
]  # fmt: skip

DECORATORS: dict[str, Callable[[Any], Any]] = {
    "no_grad()": lambda t: t.no_grad(),
    "no_grad": lambda t: t.no_grad,
    "enable_grad()": lambda t: t.enable_grad(),
    "set_grad_enabled(False)": lambda t: t.set_grad_enabled(False),
    "set_grad_enabled(True)": lambda t: t.set_grad_enabled(True),
    "inference_mode()": lambda t: t.inference_mode(),
    "inference_mode(False)": lambda t: t.inference_mode(False),
}


def trace(t: Any, decorator: str, use: Callable[[Any], Any], outside: bool, compiled: bool) -> Any:
    """What is seen, given, and left behind."""
    seen: list[Any] = []
    decorated = DECORATORS[decorator](t)(body(t, seen))
    before = t.is_grad_enabled()
    called = dj.compile(lambda: use(decorated())) if compiled else lambda: use(decorated())
    with t.set_grad_enabled(outside):
        given = called()
        left = t.is_grad_enabled(), t.is_inference_mode_enabled()
    assert t.is_grad_enabled() == before
    return seen, given, left


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("outside", [True, False], ids=["with gradients", "without"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("decorator", DECORATORS)
def test_the_mode_holds_whenever_the_generator_runs(
    decorator: str, use: Callable[[Any], Any], outside: bool, compiled: bool
) -> None:
    expected = trace(torch, decorator, use, outside, False)
    assert expected == trace(dj, decorator, use, outside, compiled)


@pytest.mark.parametrize("t", [dj, torch])
def test_a_generator_that_a_compiled_function_gives_away_is_closed_in_its_mode(t: Any) -> None:
    seen: list[Any] = []
    decorated = t.no_grad()(body(t, seen))

    def function(x: Any) -> Any:
        made = decorated()
        return x * next(made), made

    made = (dj.compile(function) if t is dj else function)(t.ones(2))[1]
    made.close()
    assert [("start", False, False), ("finally", False, False)] == seen
    assert t.is_grad_enabled()
