"""Loops cut where a choice by position changes: NumPy's values, and no branch that is known."""

import re

import numpy as np
import pytest

from dynajit.codegen.c.segments import MOST_SEGMENTS, segments
from dynajit.codegen.loops.loop_ir import (
    Apply,
    Axis,
    Buffer,
    Cast,
    Compare,
    Literal,
    Load,
    Select,
    Store,
    Word,
    walk,
)
from dynajit.codegen.pipeline import generate
from dynajit.core.types import dtypes
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.one_python

random = np.random.default_rng(0)
AXIS = Axis("i0", 100)
INPUTS = [Buffer(f"in{k}", dtypes.float32, 1000) for k in range(4)]
RESULT = Buffer("out", dtypes.float32, 100)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def read(number, offset=0):
    return Load(INPUTS[number], AXIS.symbol + offset)


def less(left, right):
    return Compare("less", left, right)


def cut(value):
    """(low, high, value) of every segment."""
    return [(s.low, s.high, s.stores[0].value) for s in segments([stored(value)], AXIS)]


def stored(value):
    return Store(RESULT, AXIS.symbol, value)


# ---------------------------------------------------------------------------------------------
# where loops are cut


def test_a_comparison_with_a_number_cuts_in_two():
    i = AXIS.symbol
    a, b = read(0), read(1, -30)
    two = [(0, 30, a), (30, 100, b)]

    assert two == cut(Select(less(i, 30), a, b))
    assert two == cut(Select(less(i - 30, 0), a, b))
    assert two == cut(Select(less(29, i), b, a))
    assert [(0, 30, b), (30, 31, a), (31, 100, b)] == cut(Select(Compare("equal", i, 30), a, b))
    assert [] == cut(Select(less(i, 100), a, b))
    assert [] == cut(Select(less(i * 2, 60), a, b))


def test_arms_in_arms_and_both_conditions_of_a_pad_are_resolved():
    i = AXIS.symbol
    inside = Apply("logical_and", (less(9, i), less(i, 90)), dtypes.bool_)
    chosen = Select(less(i, 50), read(0), read(1))
    zero = Literal(0.0, dtypes.float32)

    assert [
        (0, 10, zero), (10, 50, read(0)), (50, 90, read(1)), (90, 100, zero),
    ] == cut(Select(inside, chosen, zero))  # fmt: skip


def test_what_is_around_a_choice_is_kept():
    i = AXIS.symbol
    total = Apply("add", (Select(less(i, 5), read(0), read(1)), read(2)), dtypes.float32)
    narrow = Cast(total, dtypes.bfloat16)
    sums = [Apply("add", (read(k), read(2)), dtypes.float32) for k in (0, 1)]

    assert [Cast(s, dtypes.bfloat16) for s in sums] == [value for _, _, value in cut(narrow)]


def test_random_words_of_chosen_blocks_are_kept():
    seed, (first, second) = Literal(3, dtypes.int64), (Literal(n, dtypes.int64) for n in (10, 20))
    words = [Word(seed, block, AXIS.symbol) for block in (first, second)]

    assert [(0, 4, words[0]), (4, 100, words[1])] == cut(
        Word(seed, Select(less(AXIS.symbol, 4), first, second), AXIS.symbol)
    )


def test_conditions_of_data_and_of_other_loops_stay():
    other = Axis("i1", 10).symbol
    known = Select(less(AXIS.symbol, 5), read(0), read(1))
    for condition in (less(other, 5), less(AXIS.symbol, other)):
        both = Select(condition, known, read(2))
        assert [
            (0, 5, Select(condition, read(0), read(2))),
            (5, 100, Select(condition, read(1), read(2))),
        ] == cut(both)
        assert [] == cut(Select(condition, read(0), read(1)))


def test_an_axis_is_not_cut_into_too_much_text():
    i = AXIS.symbol
    value = read(0)
    for place in range(1, MOST_SEGMENTS + 1):
        value = Select(less(i, place), read(1, place), value)
    assert [] == cut(value)

    # Every piece would have all of what follows.
    value = Select(less(i, 20), read(0), read(1))
    for place in (40, 60, 80):
        value = Select(less(i, place), value, read(2))
    for _ in range(200):
        value = Apply("sin", (value,), dtypes.float32)
    assert [] == cut(value)
    assert len(walk((value,))) > 200


# ---------------------------------------------------------------------------------------------
# what comes out


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_concatenations_are_those_of_numpy(codegen, dim, dtype):
    shapes = [tuple(n if d == dim else 7 for d in range(3)) for n in (3, 1, 40, 0, 9)]
    arrays = [(8 * normal(*shape)).astype(dtype) for shape in shapes]

    codegen.check(lambda *x: ops.cat(*x, dim=dim), *arrays)
    codegen.check(lambda *x: ops.cat(*x, x[0], *x, dim=dim), *arrays)


def test_pads_in_two_dims_concatenations_of_pads_and_their_halves(codegen):
    def pads(x, y):
        padded = ops.pad(x, before=(2, 1, 3), after=(0, 4, 1), value=1.5)
        beside = ops.cat(padded, y, dim=1)
        part = ops.slice(beside, start=(1, 0, 2), stop=(6, 12, 11), step=(1, 1, 1))
        return padded, ops.mul(beside, 2.0), part

    codegen.check(pads, normal(4, 6, 7), normal(6, 3, 11))


def test_rows_of_one_piece_do_not_read_those_of_another(codegen):
    """A value per row that lies outside of its array in the other piece."""

    def rows(x, y, wide):
        return ops.add(ops.cat(x, y, dim=0), ops.mul(wide, 2.0))

    codegen.check(rows, normal(3, 1), normal(4, 1), normal(7, 50))


def test_a_long_flat_loop_is_cut_within_its_blocks(codegen):
    codegen.check(lambda x, y, z: ops.exp(ops.cat(x, y, z, dim=0)), *map(normal, (5000, 3, 9001)))


def test_gathered_rows_beside_others(codegen):
    table, index = normal(20, 8), random.integers(0, 20, 6)

    def rows(table, index, x):
        return ops.cat(ops.index_select(table, index, dim=0), x, dim=1)

    codegen.check(rows, table, index, normal(6, 5))


def test_a_concatenation_of_many_has_a_loop_without_branches_for_each(codegen):
    types = [codegen.type_of(normal(8, 64))] * 16
    for dim in (0, 1):
        graph = codegen.graph_of(lambda *x, dim=dim: ops.exp(ops.cat(*x, dim=dim)), *types)
        (function,) = generate(graph, "g").functions
        loops = re.findall(r"#pragma omp simd\n *for [^\n]*\{\n(.*?)\n *\}", function.text, re.S)

        assert 16 == len(loops)
        assert not any("if (" in body or "?" in body for body in loops)


def test_bits_do_not_depend_on_the_threads(codegen):
    arrays = [normal(400, 300) for _ in range(5)]
    program = codegen.check(lambda *x: ops.exp(ops.cat(*x, dim=0)), *arrays)
    found = []
    for threads in (1, 2, 3):
        program.threads = threads
        found.append(program(*arrays)[0])

    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()
