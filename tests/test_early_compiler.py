"""The compiler is started before a capture where the function is new, and only there."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.entry import session
from dynajit.codegen import pipeline
from dynajit.codegen.compilers import compilation, toolchain
from dynajit.driver import early_compiler

pytestmark = pytest.mark.skipif(toolchain.find_compiler() is None, reason="needs a C compiler")


@pytest.fixture
def cache(tmp_path):
    """A cache of its own; the folder of the notes."""
    with dj.config.override(cache_dir=tmp_path, link_kernels=False):
        yield tmp_path / early_compiler.FOLDER


@pytest.fixture
def events(monkeypatch):
    """What happened, in order: a compiler was started ahead, or a function captured."""
    seen: list[str] = []

    def recorded(module, name):
        original = getattr(module, name)

        def call(*arguments, **options):
            seen.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    monkeypatch.setattr(compilation, "available_processors", lambda: 2)
    monkeypatch.setattr(pipeline, "may_use_gpu", lambda: False)
    recorded(toolchain, "start_ahead")
    recorded(session, "capture")
    return seen


def scaled(x):
    return (x * 3 + 1).sin().sum(0)


def called_afresh(function, x):
    dj.reset()
    return dj.compile(function)(x).numpy()


def test_a_new_function_has_a_compiler_before_it_is_captured(cache, events) -> None:
    x = dj.randn(5, 4)
    expected = scaled(x).numpy()

    # Five numbers up to 1 that may cancel: their roundings count from 1, not from the sum.
    np.testing.assert_allclose(called_afresh(scaled, x), expected, rtol=1e-6, atol=1e-6)
    assert events == ["start_ahead", "capture"]
    assert len(list(cache.iterdir())) == 1


def test_a_known_function_has_none_while_it_is_captured(cache, events) -> None:
    called_afresh(scaled, dj.randn(5, 4))
    del events[:]

    called_afresh(scaled, dj.randn(5, 4))
    assert events == ["capture"]
    called_afresh(scaled, dj.randn(6, 3, 2))
    assert events == ["capture", "capture", "start_ahead"]


def test_a_function_without_a_graph_is_known_afterwards(cache, events) -> None:
    def nothing(x):
        return x.shape

    dj.compile(nothing)(dj.ones(3))
    dj.reset()
    dj.compile(nothing)(dj.ones(3))

    assert events == ["start_ahead", "capture", "capture"]


@pytest.mark.parametrize(
    "options", [{"backend": "eager"}, {"backend": "numpy"}, {"options": {"async": True}}], ids=str
)
def test_other_backends_start_none(cache, events, options) -> None:
    dj.compile(scaled, **options)(dj.randn(5, 4))

    assert events[0] == "capture"


def test_none_is_started_where_tensors_may_be_on_a_gpu(cache, events, monkeypatch) -> None:
    monkeypatch.setattr(pipeline, "may_use_gpu", lambda: True)
    dj.compile(scaled)(dj.randn(5, 4))

    assert events == ["capture", "start_ahead"]


def test_a_function_is_known_at_another_place(cache, events) -> None:
    """A program that was edited elsewhere compiles nothing again."""
    text = "def f(x):\n    return (x * 3 + 1).sin().sum(0)\n"
    results = []
    for place, start in (("one.py", ""), ("two.py", "import math\n\n\n")):
        found: dict[str, Any] = {}
        exec(compile(start + text, place, "exec"), found)
        results.append(called_afresh(found["f"], dj.ones(3, 2)))

    np.testing.assert_array_equal(*results)
    assert events == ["start_ahead", "capture", "capture"]
