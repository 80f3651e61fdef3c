"""What is shown of exceptions: the program's frames, unless all are asked for."""

import functools
import pdb
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.core.errors import InternalError, ShapeError
from dynajit.core.process import config, tracebacks

HERE = __file__


class Wrong(nn.Module):
    """A layer for 4 features; the frame of `forward` is the program's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        """Refuses 3 features."""
        return self.layer(x)


def wrong_shape() -> None:
    """Frames of the library lie above and below `Wrong.forward`."""
    nn.Sequential(Wrong(), nn.ReLU())(dj.ones(2, 3))


def raised(function: Callable[[], object]) -> BaseException:
    """The exception of a call."""
    try:
        function()
    except BaseException as error:  # whatever it is
        return error
    raise AssertionError("nothing was raised")


def shown(error: BaseException, capsys: pytest.CaptureFixture[str]) -> str:
    """What Python prints of an uncaught exception."""
    tracebacks._hook(sys.__excepthook__)(type(error), error, error.__traceback__)
    return capsys.readouterr().err


def functions_in(text: str) -> list[str]:
    """Names of the frames of a traceback that is printed."""
    return [line.rsplit(" in ", 1)[1] for line in text.splitlines() if line.startswith("  File ")]


def test_frames_of_the_library_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Above, between and below those of the program, with their number at the end."""
    text = shown(raised(wrong_shape), capsys)

    assert ["raised", "wrong_shape", "forward"] == functions_in(text)
    assert "frames of dynajit are left out: " in text.splitlines()[-1]
    assert "ShapeError: linear(" in text
    assert len(text.splitlines()) < 15


def test_compiled_functions_show_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Captured modules and functions."""
    text = shown(raised(dj.compile(wrong_shape)), capsys)

    assert ["raised", "wrong_shape", "forward"] == functions_in(text)


def test_all_frames_are_shown_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """By the configuration."""
    with config.override(full_tracebacks=True):
        text = shown(raised(wrong_shape), capsys)

    assert len(functions_in(text)) > 6
    assert "left out" not in text


def test_the_environment_asks_for_all_frames() -> None:
    """`DYNAJIT_FULL_TRACEBACKS`."""
    assert config.from_environment({"DYNAJIT_FULL_TRACEBACKS": "1"}).full_tracebacks
    assert not config.from_environment({}).full_tracebacks


def test_exceptions_are_unchanged_after_they_were_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Frames and notes, of causes as well: a debugger finds all of them."""
    error = raised(wrong_shape)
    error.add_note("mine")
    frames = traceback.extract_tb(error.__traceback__)
    text = shown(error, capsys)

    assert "mine\n(frames" in text
    assert ["mine"] == error.__notes__
    assert list(frames) == list(traceback.extract_tb(error.__traceback__))
    debugger = pdb.Pdb(readrc=False)
    debugger.reset()
    debugger.setup(None, error.__traceback__)
    assert len(debugger.stack) == len(frames)


def test_causes_and_contexts_are_folded(capsys: pytest.CaptureFixture[str]) -> None:
    """`raise ... from` and errors in handlers."""

    def with_cause() -> None:
        try:
            wrong_shape()
        except ShapeError as error:
            raise ValueError("mine") from error

    def with_context() -> None:
        try:
            wrong_shape()
        except ShapeError:
            raise ValueError("mine")  # noqa: B904

    for function, between in (
        (with_cause, "direct cause of"), (with_context, "During handling of")
    ):  # fmt: skip
        text = shown(raised(function), capsys)

        assert between in text
        assert [function.__name__, "wrong_shape", "forward", "raised", function.__name__] == (
            functions_in(text)
        )


def test_groups_are_folded(capsys: pytest.CaptureFixture[str]) -> None:
    """Members, and members of members."""
    members = [raised(wrong_shape), BaseExceptionGroup("inner", [raised(wrong_shape)])]
    text = shown(BaseExceptionGroup("outer", members), capsys)

    assert 2 == text.count("in forward") and "eager/" not in text and "dynajit/nn" not in text


def test_a_hook_of_the_program_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """Where backward calls it, through `functools` of Python's library."""

    def hook(number: int, gradient: Any) -> None:
        raise ValueError(number)

    def backward() -> None:
        x = dj.ones(3, requires_grad=True)
        y = x * 2
        y.register_hook(functools.partial(hook, 7))
        y.sum().backward()

    assert ["raised", "backward", "hook"] == functions_in(shown(raised(backward), capsys))


def test_backward_of_a_function_of_the_program_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """Between frames of the engine and of rows."""

    class Twice(dj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient @ dj.ones(7)

    def run() -> None:
        Twice.apply(dj.ones(3, requires_grad=True)).sum().backward()

    assert ["raised", "run", "backward"] == functions_in(shown(raised(run), capsys))


def test_frames_of_numpy_go_with_those_that_called_it() -> None:
    """And stay where the program called it."""

    def own() -> None:
        np.stack([np.ones(2), np.ones(3)])

    error = raised(own)
    assert (error.__traceback__, 0) == tracebacks.folded(error.__traceback__)


def test_a_fault_of_the_library_shows_all(capsys: pytest.CaptureFixture[str]) -> None:
    """It is to be reported."""

    def fault() -> None:
        try:
            wrong_shape()
        except ShapeError as error:
            raise InternalError("broken").with_traceback(error.__traceback__) from None

    assert "left out" not in shown(raised(fault), capsys)


def test_an_error_without_frames_of_the_library_is_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is added."""
    text = shown(raised(lambda: 1 / 0), capsys)

    assert "ZeroDivisionError: division by zero" == text.splitlines()[-1]


def test_an_exception_without_frames_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Made and not raised."""
    tracebacks._hook(sys.__excepthook__)(ValueError, ValueError("x"), None)

    assert "ValueError: x\n" == capsys.readouterr().err


def test_classes_that_refuse_attributes_are_folded(capsys: pytest.CaptureFixture[str]) -> None:
    """Frozen exceptions."""

    class Frozen(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(name)

    def hook(gradient: Any) -> None:
        raise Frozen("x")

    def backward() -> None:
        x = dj.ones(3, requires_grad=True)
        x.register_hook(hook)
        x.sum().backward()

    error = raised(backward)
    text = shown(error, capsys)
    assert ["raised", "backward", "hook"] == functions_in(text)
    assert "left out" in text and not hasattr(error, "__notes__")


def test_errors_of_threads_are_folded(capsys: pytest.CaptureFixture[str]) -> None:
    """`threading.excepthook`."""
    error = raised(wrong_shape)
    shown = threading.ExceptHookArgs((type(error), error, error.__traceback__, None))
    tracebacks._hook_of_threads(threading.__excepthook__)(shown)

    assert ["raised", "wrong_shape", "forward"] == functions_in(capsys.readouterr().err)


def test_hooks_are_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked for."""
    monkeypatch.setattr(sys, "excepthook", lambda *args: None)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    tracebacks.install()
    first = sys.excepthook, threading.excepthook
    tracebacks.install()

    assert all(hook.folds for hook in first)
    assert first == (sys.excepthook, threading.excepthook)


def run(*command: str) -> str:
    """What a process writes, on either stream."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


def test_a_script_ends_with_the_programs_line() -> None:
    """Also where the program has a hook of its own, which was there before."""
    code = (
        "import sys\n"
        "before = sys.excepthook\n"
        "sys.excepthook = lambda *args: (print('own hook'), before(*args))\n"
        "import dynajit as dj\n"
        "dj.ones(2, 3) @ dj.ones(2)\n"
    )
    lines = run("-c", code).splitlines()

    assert "own hook" == lines[0]
    (frame,) = (line for line in lines if line.startswith("  File "))
    assert 'File "<string>", line 5, in <module>' in frame
    assert any("ShapeError: " in line for line in lines)


def test_a_notebook_shows_less_than_15_lines() -> None:
    """IPython, which shows exceptions itself; `%debug` has all frames."""
    pytest.importorskip("IPython")
    code = "import dynajit as dj\nm = dj.nn.Linear(4, 5)\nm(dj.ones(2, 3))"
    text = run("-m", "IPython", "--colors=NoColor", "--simple-prompt", "-c", code)

    assert "ShapeError" in text and "left out" in text
    assert len(text.splitlines()) < 15, text
