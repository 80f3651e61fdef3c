"""Pain 10: random numbers baked into the graph, or other ones than eager draws."""

import random
from typing import Any

import numpy as np
import pytest

import dynajit as dj


def test_tensor_draws_are_those_of_eager_and_new_in_every_call() -> None:
    def function(x: Any) -> Any:
        return x + dj.rand(4), dj.rand(3), dj.randn(3)

    compiled = dj.compile(function, fullgraph=True)
    found = []
    for run in (function, compiled):
        dj.manual_seed(7)
        drawn = [[part.tolist() for part in run(dj.zeros(4))] for _ in range(3)]
        assert drawn[0] != drawn[1] != drawn[2]
        found.append(drawn)
    for expected, actual in zip(*found, strict=True):
        assert expected[:2] == actual[:2]
        assert expected[2] == pytest.approx(actual[2], rel=1e-6)


def test_draws_of_python_and_numpy_run_in_order() -> None:
    def function(x: Any) -> Any:
        a = random.random()
        y = x * 2
        b = float(np.random.rand())
        return y + a, b, random.random()

    compiled = dj.compile(function)
    for run in (function, compiled):
        random.seed(3)
        np.random.seed(3)
        drawn = [[run(dj.ones(1))[0].tolist(), *run(dj.ones(1))[1:]] for _ in range(3)]
        if run is function:
            expected = drawn
    assert expected == drawn


def test_a_draw_by_python_code_of_the_library_is_one_break() -> None:
    """`randint` calls `randrange`, that `_randbelow`, and that C code."""

    def function(x: Any) -> Any:
        count = random.randint(2, 9)
        return x * count, random.choice([x + 1, x + 2]), random.sample(range(50), 3)

    compiled = dj.compile(function)
    found = []
    for run in (function, compiled):
        random.seed(3)
        parts = [run(dj.ones(2)) for _ in range(4)]
        found.append([(a.tolist(), b.tolist(), c) for a, b, c in parts])
    assert found[0] == found[1]
    assert 2 == len({text.splitlines()[0] for text in compiled.report().breaks})
