"""Each rule before and after; what looks like a rule and is not stays."""

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.ir.interpret import run
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.passes.simplify_algebra import simplify_algebra
from dynajit.ops import TABLE as ops

F16, F32, F64 = dtypes.float16, dtypes.float32, dtypes.float64
I8, U8, I16, I32, I64 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.int64
BF16, BOOL = dtypes.bfloat16, dtypes.bool_


def cast(x, dtype):
    return ops.cast(x, dtype=dtype)


def full(value, dtype=F32, shape=(2, 3)):
    return ops.full(value, shape=shape, dtype=dtype)


def limits(start, stop, step=1):
    """Of columns of (2, 3)."""
    return {"start": (0, start), "stop": (2, stop), "step": (1, step)}


def part(x, start, stop, step=1):
    return ops.slice(x, **limits(start, stop, step))


def written(x, start, stop, step=1):
    return ops.slice_scatter(x, ops.exp(part(x, start, stop, step)), **limits(start, stop, step))


def written_again(x, start, stop):
    return ops.slice_scatter(x, part(x, start, stop), **limits(start, stop))


# (dtype of x, function of x, statements after simplification without the final one).
# Every function is followed by `isnan`-free consumer `ops.expand`, so that nothing simplified
# is a result itself.
CASES = {
    "add 0 to an integer": (I32, lambda x: ops.add(x, 0), []),
    "0 plus an integer": (I32, lambda x: ops.add(0, x), []),
    "add 0 to a float": (F32, lambda x: ops.add(x, 0), ["add = ops.add(x, 0)"]),
    "add 0.0 to a float": (F32, lambda x: ops.add(x, 0.0), ["add = ops.add(x, 0.0)"]),
    "add -0.0 to a float": (F32, lambda x: ops.add(x, -0.0), []),
    "add a float to an integer": (
        I32,
        lambda x: ops.add(x, -0.0),
        ["add = ops.add(x, -0.0)"],
    ),
    "subtract 0": (F32, lambda x: ops.sub(x, 0.0), []),
    "subtract -0": (F32, lambda x: ops.sub(x, -0.0), ["sub = ops.sub(x, -0.0)"]),
    "subtract from 0": (F32, lambda x: ops.sub(0.0, x), ["sub = ops.sub(0.0, x)"]),
    "times 1": (F32, lambda x: ops.mul(x, 1), []),
    "1 times": (F32, lambda x: ops.mul(1.0, x), []),
    "times 1.0 of an integer": (I32, lambda x: ops.mul(x, 1.0), ["mul = ops.mul(x, 1.0)"]),
    "times ones": (F32, lambda x: ops.mul(x, full(1.0)), []),
    "times 0 of a float": (F32, lambda x: ops.mul(x, 0.0), ["mul = ops.mul(x, 0.0)"]),
    "times 0 of an integer": (
        I32,
        lambda x: ops.mul(x, 0),
        ["full = ops.full(0, shape=(2, 3), dtype=int32)"],
    ),
    "divided by 1": (F32, lambda x: ops.div(x, 1), []),
    "divided by 4": (F32, lambda x: ops.div(x, 4), ["mul = ops.mul(x, 0.25)"]),
    "divided by -0.5": (F16, lambda x: ops.div(x, -0.5), ["mul = ops.mul(x, -2.0)"]),
    "divided by 3": (F32, lambda x: ops.div(x, 3), ["div = ops.div(x, 3)"]),
    "divided by 0": (F32, lambda x: ops.div(x, 0.0), ["div = ops.div(x, 0.0)"]),
    "divided by 2 ** 140": (F32, lambda x: ops.div(x, 2.0**140), [f"div = ops.div(x, {2.0**140})"]),
    "power 1": (F32, lambda x: ops.pow(x, 1), []),
    "power 2": (F32, lambda x: ops.pow(x, 2), ["mul = ops.mul(x, x)"]),
    "power 0.5": (F32, lambda x: ops.pow(x, 0.5), ["pow = ops.pow(x, 0.5)"]),
    "power 3": (F32, lambda x: ops.pow(x, 3), ["pow = ops.pow(x, 3)"]),
    "negated twice": (F32, lambda x: ops.neg(ops.neg(x)), []),
    "magnitude of a negation": (F32, lambda x: ops.abs(ops.neg(x)), ["abs = ops.abs(x)"]),
    "magnitude of an unsigned negation": (
        U8,
        lambda x: ops.abs(ops.neg(x)),
        ["neg = ops.neg(x)", "abs = ops.abs(neg)"],
    ),
    "magnitude twice": (F32, lambda x: ops.abs(ops.abs(x)), ["abs_1 = ops.abs(x)"]),
    "not twice": (BOOL, lambda x: ops.logical_not(ops.logical_not(x)), []),
    "not twice of an integer": (
        I32,
        lambda x: ops.logical_not(ops.logical_not(x)),
        ["logical_not = ops.logical_not(x)", "logical_not_1 = ops.logical_not(logical_not)"],
    ),
    "where of a known condition": (F32, lambda x: ops.where(full(True, BOOL), x, 2.0), []),
    "where of one value": (F32, lambda x: ops.where(ops.lt(x, 0), x, x), []),
    "cast to the same dtype": (F32, lambda x: cast(x, F32), []),
    "cast there and back": (F32, lambda x: cast(cast(x, F64), F32), []),
    "cast through a narrower float": (
        F32,
        lambda x: cast(cast(x, F16), F32),
        ["cast = ops.cast(x, dtype=float16)", "cast_1 = ops.cast(cast, dtype=float32)"],
    ),
    "cast through the other 16 bits": (
        F16,
        lambda x: cast(cast(x, BF16), F16),
        ["cast = ops.cast(x, dtype=bfloat16)", "cast_1 = ops.cast(cast, dtype=float16)"],
    ),
    "cast of a small integer": (
        I16,
        lambda x: cast(cast(x, F32), F64),
        ["cast_1 = ops.cast(x, dtype=float64)"],
    ),
    "cast of a large integer": (
        I32,
        lambda x: cast(cast(x, F32), F64),
        ["cast = ops.cast(x, dtype=float32)", "cast_1 = ops.cast(cast, dtype=float64)"],
    ),
    "cast of integers": (
        U8,
        lambda x: cast(cast(x, I32), I8),
        ["cast_1 = ops.cast(x, dtype=int8)"],
    ),
    "cast to bool and back": (
        F32,
        lambda x: cast(cast(x, BOOL), F32),
        ["cast = ops.cast(x, dtype=bool_)", "cast_1 = ops.cast(cast, dtype=float32)"],
    ),
    "reshape to the same shape": (F32, lambda x: ops.reshape(x, shape=(2, 3)), []),
    "reshape of a reshape": (
        F32,
        lambda x: ops.reshape(ops.reshape(x, shape=(6,)), shape=(3, 2)),
        ["reshape_1 = ops.reshape(x, shape=(3, 2))"],
    ),
    "reshape there and back": (
        F32,
        lambda x: ops.reshape(ops.reshape(x, shape=(6,)), shape=(2, 3)),
        [],
    ),
    "identical permutation": (F32, lambda x: ops.permute(x, dims=(0, 1)), []),
    "permute of a permute": (
        F32,
        lambda x: ops.permute(ops.permute(x, dims=(1, 0)), dims=(1, 0)),
        [],
    ),
    "expand to the same shape": (F32, lambda x: ops.expand(x, shape=(2, 3)), []),
    "expand of an expand": (
        F32,
        lambda x: ops.expand(ops.expand(x, shape=(1, 2, 3)), shape=(4, 2, 3)),
        ["expand_1 = ops.expand(x, shape=(4, 2, 3))"],
    ),
    "diagonal of a full": (
        F32,
        lambda x: ops.mul(x, ops.diagonal(full(1.0, shape=(3, 3)), offset=0, dim1=0, dim2=1)),
        [],
    ),
    "expand of a full": (
        F32,
        lambda x: ops.mul(x, ops.expand(full(1.0, shape=()), shape=(2, 3))),
        [],
    ),
    "slice that was written": (
        F32,
        lambda x: part(written(x, 1, 3), 1, 3),
        [
            "slice = ops.slice(x, start=(0, 1), stop=(2, 3), step=(1, 1))",
            "exp = ops.exp(slice)",
        ],
    ),
    "slice beside what was written": (
        F32,
        lambda x: part(written(x, 1, 3), 0, 1),
        ["slice_1 = ops.slice(x, start=(0, 0), stop=(2, 1), step=(1, 1))"],
    ),
    "slice that meets what was written": (
        F32,
        lambda x: part(written(x, 1, 3), 0, 2),
        [
            "slice = ops.slice(x, start=(0, 1), stop=(2, 3), step=(1, 1))",
            "exp = ops.exp(slice)",
            "slice_scatter = ops.slice_scatter(x, exp, start=(0, 1), stop=(2, 3), step=(1, 1))",
            "slice_1 = ops.slice(slice_scatter, start=(0, 0), stop=(2, 2), step=(1, 1))",
        ],
    ),
    "slice written into its place": (F32, lambda x: written_again(x, 1, 3), []),
    "slice written twice": (
        F32,
        lambda x: written_again(written(x, 1, 3), 1, 3),
        [
            "slice = ops.slice(x, start=(0, 1), stop=(2, 3), step=(1, 1))",
            "exp = ops.exp(slice)",
            "slice_scatter_1 = ops.slice_scatter(x, exp, start=(0, 1), stop=(2, 3), step=(1, 1))",
        ],
    ),
    "slice written into another place": (
        F32,
        lambda x: ops.slice_scatter(x, part(x, 0, 2), **limits(1, 3)),
        [
            "slice = ops.slice(x, start=(0, 0), stop=(2, 2), step=(1, 1))",
            "slice_scatter = ops.slice_scatter(x, slice, start=(0, 1), stop=(2, 3), step=(1, 1))",
        ],
    ),
    "slice of everything": (
        F32,
        lambda x: ops.slice(x, start=(0, 0), stop=(2, 3), step=(1, 1)),
        [],
    ),
    "slice backwards": (
        F32,
        lambda x: ops.slice(x, start=(0, 0), stop=(2, 3), step=(1, 2)),
        ["slice = ops.slice(x, start=(0, 0), stop=(2, 3), step=(1, 2))"],
    ),
    "detach": (F32, lambda x: ops.detach(x), []),
    "clone": (F32, lambda x: ops.clone(x), []),
    "cat of one": (F32, lambda x: ops.cat(x, dim=0), []),
    "sum over no dims": (F32, lambda x: ops.sum(x, dim=()), ["add = ops.add(x, 0)"]),
    "product over no dims": (F32, lambda x: ops.prod(x, dim=()), []),
    "largest of one": (
        F32,
        lambda x: ops.amax(ops.reshape(x, shape=(2, 1, 3)), dim=(1,)),
        [],
    ),
    "largest of several": (
        F32,
        lambda x: ops.amax(x, dim=(1,), keepdim=True),
        [
            "amax = ops.amax(x, dim=(1,), keepdim=True)",
        ],
    ),
    "sum of integers over no dims": (
        I32,
        lambda x: ops.sum(x, dim=()),
        ["sum = ops.sum(x, dim=())"],
    ),
    "one rule makes work for another": (
        F32,
        lambda x: ops.neg(ops.div(ops.mul(ops.neg(x), 1), 1)),
        [],
    ),
}


def array_of(type):
    """Values at which wrong identities show."""
    if type.dtype.category is dtypes.Category.FLOATING:
        values = [np.nan, np.inf, -0.0, 0.0, -1.5, 3e-5]
    else:
        values = [0, 1, 1, 2, 3, 1] if type.dtype is BOOL else [0, 1, 100, 127, 2, 3]
    return np.array(values).astype(type.dtype.numpy).reshape(2, 3)


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str, record, body_of, same_bits) -> None:
    """The text after simplification, and the same bits before and after."""
    dtype, function, expected = CASES[name]
    graph = record(lambda x: ops.flip(function(x), dims=(0,)), x=((2, 3), dtype))
    simplified = eliminate_dead_code(simplify_algebra(graph))
    inputs = [array_of(graph.inputs[0].type)]

    assert expected == body_of(simplified)[:-2]
    assert same_bits(run(graph, inputs)[0], run(simplified, inputs)[0])


@pytest.mark.parametrize("name", ["clone", "times 1", "negated twice", "detach", "cat of one"])
def test_a_result_does_not_become_an_input(name: str, record) -> None:
    """The caller may write to the result."""
    dtype, function, _ = CASES[name]
    graph = record(lambda x: function(x), x=((2, 3), dtype))

    assert len(graph.calls) == len(simplify_algebra(graph).calls)


def test_a_result_does_not_become_another_result(record) -> None:
    """Two results keep their own memory."""

    def function(x):
        y = ops.exp(x)
        return y, ops.clone(y)

    first, second = simplify_algebra(record(function, x=(2,))).outputs

    assert first is not second


def test_a_view_that_leaves_keeps_its_base(record, body_of) -> None:
    """A view of a view is a view of the same memory."""

    def function(x):
        y = ops.exp(x)
        return y, ops.reshape(ops.reshape(y, shape=(6,)), shape=(3, 2))

    simplified = eliminate_dead_code(simplify_algebra(record(function, x=(2, 3))))

    assert "reshape_1 = ops.reshape(exp, shape=(3, 2))" in body_of(simplified)


def test_a_full_that_is_seen_through_two_results_stays(record) -> None:
    """A view of a `full` that leaves is not a new `full`."""

    def function(x):
        y = ops.full(0.0, shape=(2, 3), dtype=F32)
        return y, ops.reshape(y, shape=(6,)), x

    assert 2 == len(simplify_algebra(record(function, x=(2,))).calls)
