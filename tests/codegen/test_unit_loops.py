"""Loops that are part of their graph's unit of C give what their rows give, turn by turn."""

import random
import re
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.loops.turns import TURNS
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.codegen.run.numpy_backend import NumpyProgram
from dynajit.codegen.unit_loops import UnitLoops
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loops import Listed, Loop, Steps, append
from dynajit.ops import TABLE

pytestmark = pytest.mark.c_only

SMALL, CHUNKED = (5,), (3, 1401)
"""Shapes of arrays: of the latter there are chunks, the last of which overlaps another one."""


class RandomLoop:
    """A graph with one loop, whose turns compute with single elements, or with neighbours too.

    Args:
        seed: of all choices.
        shape: of all arrays but numbers.
        dtype: of all of them.
    """

    def __init__(self, seed: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.draw = random.Random(seed)
        self.shape, self.dtype = shape, dtype
        self.type = TensorType(shape, dtype)
        self.limit = self.draw.choice([1, 2, 3, 7, 20])
        self.is_tested = self.draw.random() < 0.3
        self.neighbours = self.draw.random() < 0.3
        self.carried = self.draw.randint(1, 4)
        self.stacked = self.draw.randint(0, 2)
        self.collected = self.draw.randint(0, 2)
        self.fixed = self.draw.randint(0, 2)
        values = tuple(self.draw.randint(-3, 3) for _ in range(self.limit))
        self.numbers = self.draw.choice([(), (Steps(2, -3),), (Listed(values), Steps(0, 1))])
        kinds = [ScalarType(dtypes.Category.INTEGER), ScalarType(dtypes.Category.FLOATING)]
        self.given = self.draw.choices(kinds, k=self.draw.randint(0, 2))

    def body(self) -> Graph:
        """A turn: values are new, or are handed on in another order."""
        builder = Builder("turn")
        numbers = [
            builder.placeholder(f"n{k}", ScalarType(dtypes.Category.INTEGER))
            for k in range(len(self.numbers) + self.is_tested)
        ]
        count = self.carried + self.stacked + self.fixed
        given = [builder.placeholder(f"x{k}", self.type) for k in range(count)]
        numbers += [
            builder.placeholder(f"g{k}", kind) for k, kind in enumerate(self.given)
        ]  # of the program, the same in all turns
        values = list(given)
        for _ in range(self.draw.randint(1, 5)):
            values.append(self._value(builder, values, numbers))
        results = [self.draw.choice(values) for _ in range(self.carried + self.collected)]
        if self.is_tested:
            kind = {"shape": (), "dtype": dtypes.int64, "device": CPU}
            number = builder.call(TABLE.full, [numbers[len(self.numbers)]], kind)
            results.append(builder.call(TABLE.lt, [number, self.draw.randint(0, self.limit)], {}))
        return builder.finish(value.node for value in results)

    def _value(self, builder: Builder, values: list[Any], numbers: list[Any]) -> Any:
        one, other = self.draw.choice(values), self.draw.choice([*values, *numbers])
        if self.neighbours and self.draw.random() < 0.5:
            one = builder.call(TABLE.flip, [one], {"dims": (0,)})
        row = self.draw.choice([TABLE.add, TABLE.sub, TABLE.maximum])
        return builder.call(row, [builder.call(TABLE.mul, [one, 0.5], {}), other], {})

    def graph(self) -> Graph:
        """What the loop gives, and a sum in front of it and behind it."""
        body = self.body()
        numbers = (*self.numbers, *[Steps(1, 1)] * self.is_tested)
        loop = Loop(
            body, numbers, self.carried, self.collected, self.is_tested, self.stacked,
            not self.is_tested and self.draw.random() < 0.3,
        )  # fmt: skip
        builder = Builder("graph")
        given = [builder.placeholder(f"a{k}", self.type) for k in range(self.carried)]
        rows = TensorType((self.limit, *self.shape), self.dtype)
        stacks = [builder.placeholder(f"s{k}", rows) for k in range(self.stacked)]
        fixed = [builder.placeholder(f"f{k}", self.type) for k in range(self.fixed)]
        numbers_given = [builder.placeholder(f"g{k}", kind) for k, kind in enumerate(self.given)]
        first = builder.call(TABLE.add, [given[0], 1.0], {})
        operands = [first, *given[1:], *stacks, *fixed, *numbers_given]
        found = append(builder, loop, self.limit, True, operands)
        read = [part for part in found if self.draw.random() < 0.8] or [found[0]]
        last = builder.call(TABLE.sin, [found[0]], {})
        return builder.finish(value.node for value in (*read, last))


def _arguments(graph: Graph, seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    found: list[Any] = []
    for place, node in enumerate(graph.inputs):
        if isinstance(node.type, ScalarType):
            found.append(place if node.type.category is dtypes.Category.INTEGER else place / 8)
            continue
        assert isinstance(node.type, TensorType)
        found.append(generator.normal(size=node.type.shape).astype(node.type.dtype.numpy))
    return found


@pytest.mark.one_python
@pytest.mark.parametrize("shape", [SMALL, CHUNKED])
@pytest.mark.parametrize("seed", range(40))
def test_random_loops_give_what_their_rows_give(seed: int, shape: tuple[int, ...]) -> None:
    dtype = random.Random(seed).choice([dtypes.float32, dtypes.float64])
    made = RandomLoop(seed, shape, dtype)
    graph = made.graph()
    arguments = _arguments(graph, seed)
    program = compile_graph(graph)
    expected = compile_graph(graph, backend="numpy")(*arguments)
    kept = [np.copy(argument) for argument in arguments]
    for _ in range(2):
        found = program(*arguments)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        assert len({id(array) for array in found}) == len(found)
    for argument, before in zip(arguments, kept, strict=True):
        np.testing.assert_array_equal(argument, before)
    is_in_chunks = "dj_run_chunk(&all" in program.source
    assert "turns" in program.explain
    assert shape is CHUNKED or not is_in_chunks
    assert is_in_chunks or made.neighbours or shape is SMALL


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_turns_are_computed_without_a_compiler(seed: int) -> None:
    """The NumPy backend meets them where the compiler takes too long."""
    graph = RandomLoop(seed, SMALL, dtypes.float64).graph()
    arguments = _arguments(graph, seed)
    made = UnitLoops(lambda body: body, lambda body, name: generate(body, name, prefix=name))
    rows = made.bring_in(graph)
    assert any(node.op is TURNS for node in rows.calls)
    found = NumpyProgram(rows, "rows")(*arguments)
    expected = NumpyProgram(graph, "loops")(*arguments)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        assert one.dtype == other.dtype


def test_loops_within_turns_are_functions_of_the_unit() -> None:
    """Also where the turn gives the inner loop, since that may refuse its operands."""
    row = TensorType((5,), dtypes.float64)
    number = ScalarType(dtypes.Category.INTEGER)
    inner = Builder("inner")
    x, outer_number = inner.placeholder("x", row), inner.placeholder("k", number)
    shifted = inner.call(TABLE.add, [inner.call(TABLE.mul, [x, 0.5], {}), outer_number], {})
    within = Loop(inner.finish([shifted.node]), (), 1)
    outer = Builder("outer")
    k, y = outer.placeholder("k", number), outer.placeholder("y", row)
    found = append(outer, within, 3, True, [y, k])
    body = outer.finish([found[0].node, found[0].node.args[0]])
    builder = Builder("graph")
    given = builder.placeholder("a", row)
    results = append(builder, Loop(body, (Steps(2, 3),), 1), 4, True, [given])
    program = compile_graph(builder.finish([results[0].node]))

    expected = values = np.arange(5.0)
    for number_of_turn in (2, 5, 8, 11):
        for _ in range(3):
            expected = expected * 0.5 + number_of_turn
    np.testing.assert_allclose(program(values)[0], expected, rtol=1e-12)
    assert {"turn0", "turn1"} <= {*re.findall(r"\bvoid (turn\d+)\(", program.source)}


def newton(a: Any, n: int) -> Any:
    x = a * 1.0
    for _ in range(n):
        x = 0.5 * (x + a / x)
    return x


def decaying(x: Any, n: int) -> Any:
    """A number without dims is handed on beside the elements, and rows are collected."""
    scale, rows = np.float64(1.0), np.zeros((n, x.size))
    for i in range(n):
        scale = scale * 0.75
        x = x * 0.5 + scale
        rows[i] = x
    return x, scale, rows


def fibonacci(a: Any, b: Any, n: int) -> Any:
    for _ in range(n):
        a, b = b, a + b
    return a, b


def exchanged(a: Any, b: Any, c: Any, n: int) -> Any:
    """Nothing is computed; what is handed on goes round."""
    for _ in range(n):
        a, b, c = b, c, a
    return a, b, c


def nested(x: Any, n: int) -> Any:
    for _ in range(n):
        y = x
        for _ in range(10):
            y = np.sin(y) + 0.1
        x = 0.5 * (x + y)
    return x


@pytest.mark.parametrize("size", [4, 3001])
def test_loops_of_programs_give_what_python_gives(size: int) -> None:
    a, b, c = np.random.default_rng(0).random((3, size)) + 0.5
    for n in (8, 9, 20, 50, 12, 3, 0, 1):
        for function, args in (
            (newton, (a,)), (decaying, (a,)), (fibonacci, (a, b)), (exchanged, (a, b, c)),
            (nested, (a,)),
        ):  # fmt: skip
            found = dj.compile(function, fullgraph=True)(*args, n)
            expected = function(*args, n)
            np.testing.assert_equal(len(found), len(expected))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
                assert one is other or not np.may_share_memory(one, a)


def test_arrays_in_other_orders_are_read_as_they_are() -> None:
    a = np.random.default_rng(0).random((60, 50))
    compiled = dj.compile(newton, fullgraph=True)
    for given in (a.T, a[:, ::2]):
        np.testing.assert_allclose(compiled(given, 9), newton(given, 9), rtol=1e-12)
