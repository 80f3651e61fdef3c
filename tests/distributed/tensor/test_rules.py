"""Every row on parts gives parts of what it gives on wholes, by each option of its rule.

The walk takes every conformance sample, splits an operand (or takes it for a part of a sum), and
runs the row once for each of two and three imagined processes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DynajitError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType
from dynajit.distributed.tensor.layouts import chunk
from dynajit.distributed.tensor.placements import Partial, Placement, Replicate, Shard
from dynajit.distributed.tensor.rules import Call, Option, localized, options
from dynajit.ops import TABLE, Op
from tests.support.rows.row_graphs import ROWS, accepted
from tests.support.rows.samples import Sample
from tests.support.rows.tape import type_of

pytestmark = pytest.mark.one_python

#: Rows that a process may run on its part, at least: a change that loses one is noticed.
WITH_OPTIONS = (
    "add", "amax", "amin", "cat", "cumsum", "embedding", "expand", "gather", "gelu", "index_add",
    "index_select", "linear", "log_softmax", "matmul", "mul", "pad", "permute", "reshape", "select",
    "slice", "slice_scatter", "softmax", "sum", "tril", "where",
)  # fmt: skip


def placements(sample: Sample, types: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """One operand split along one of its dims, or a part of a sum; then all of them so."""
    tensors = [p for p, type in enumerate(types) if isinstance(type, TensorType)]
    whole: list[Placement | None] = [
        Replicate() if p in tensors else None for p in range(len(types))
    ]
    for place in tensors:
        for kind in (*map(Shard, range(len(types[place].shape))), Partial()):
            yield tuple(kind if p == place else x for p, x in enumerate(whole))
    yield tuple(Partial() if p in tensors else None for p in range(len(types)))


def parts_of(x: Any, wanted: Placement | None, count: int, generator: Any) -> list[Any]:
    """What each process has of an operand."""
    if not isinstance(x, dj.Tensor) or isinstance(wanted, Replicate):
        return [x] * count
    if isinstance(wanted, Shard):
        spans = [chunk(x.shape[wanted.dim], count, place) for place in range(count)]
        return [x.narrow(wanted.dim, start, length) for start, length in spans]
    noise = [dj.from_numpy(np.asarray(generator.integers(-3, 4, tuple(x.shape)))).to(x.dtype)
             for _ in range(count - 1)]  # fmt: skip
    return [*noise, x - sum(noise[1:], noise[0])]


def joined(parts: list[Any], result: Placement) -> Any:
    if isinstance(result, Shard):
        return dj.cat(parts, result.dim)
    if isinstance(result, Partial):
        stacked = dj.stack(parts)
        return {"sum": stacked.sum, "max": stacked.amax, "min": stacked.amin}[result.reduce_op](0)
    return parts[0]


def check(op: Op, operands: list[Any], call: Call, option: Option, expected: Any) -> None:
    generator = np.random.default_rng(0)
    given = [
        parts_of(x, wanted, call.count, generator)
        for x, wanted in zip(operands, option.wants, strict=True)
    ]
    results = []
    for place in range(call.count):
        local = [parts[place] for parts in given]
        shape = list(expected.shape)
        if isinstance(option.result, Shard):
            dim = option.result.dim
            shape[dim] = chunk(shape[dim], call.count, place)[1]
        first = tuple(local[0].shape) if isinstance(local[0], dj.Tensor) else ()
        found = op(*local, **localized(op, dict(call.attributes), first, shape))
        assert tuple(shape) == tuple(found.shape), (option, call)
        assert expected.dtype is found.dtype
        results.append(found)
    found = joined(results, option.result)
    np.testing.assert_allclose(
        np.asarray(found.to(dj.complex128)), np.asarray(expected.to(dj.complex128)),
        rtol=1e-9, atol=1e-9, err_msg=f"{option} {call}",
    )  # fmt: skip


def options_of(op: Op) -> int:
    """How many options of a row were right."""
    checked = 0
    for sample in accepted(op, dtypes.float64):
        operands = [
            dj.from_numpy(np.array(x, order="C")) if isinstance(x, np.ndarray) else x
            for x in sample.inputs
        ]
        types = tuple(map(type_of, sample.inputs))
        try:
            expected = op(*operands, **sample.attributes)
            out = op.type_of_result(types, sample.attributes)
        except (DynajitError, ArithmeticError, ValueError):
            continue
        if not isinstance(expected, dj.Tensor) or not isinstance(out, TensorType):
            continue
        for placed in placements(sample, types):
            if any(
                isinstance(p, Partial) and types[k].dtype.category < Category.FLOATING
                for k, p in enumerate(placed)
            ):
                continue
            for count in (2, 3):
                call = Call(op, types, sample.attributes, out, placed, count)
                for option in options(call):
                    if not option.looks_up:
                        check(op, operands, call, option, expected)
                        checked += 1
    return checked


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_rows_on_parts_give_parts_of_the_result(op: Op) -> None:
    checked = options_of(op)
    assert checked or op.name not in WITH_OPTIONS


def test_rows_are_named_once() -> None:
    assert all(name in TABLE for name in WITH_OPTIONS)
