"""Every row on a batch of samples is the stack of what it gives for each.

The walk draws three variants of every conformance sample, and runs the row's rule with each choice
of operands that hold samples.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DTypeError, DynajitError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops import TABLE, Op
from dynajit.ops.table.sample_rules import Call, batched, each
from tests.support.rows.row_graphs import ROWS, accepted
from tests.support.rows.samples import Sample

pytestmark = pytest.mark.one_python

COUNT = 3


def variants(op: Op, sample: Sample, place: int) -> list[np.ndarray]:
    """Three operands for one: with its elements in other places where the row takes them."""
    x = sample.inputs[place]
    rolled = [np.roll(x, k).astype(x.dtype) for k in range(COUNT)]
    inputs = list(sample.inputs)
    for changed in rolled:
        inputs[place] = changed
        try:
            run(op, inputs, sample.attributes)
        except (DynajitError, ArithmeticError, ValueError):
            return [x] * COUNT
    return rolled


def run(op: Op, inputs: Any, attributes: dict[str, Any]) -> Any:
    return op(*map(as_operand, inputs), **attributes)


def as_operand(x: Any) -> Any:
    return dj.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x


def by_rows(call: Call) -> Any:
    """What the rows of a composite give, called one sample after the other."""
    found = []
    for number in range(COUNT):
        operands = [
            TABLE.select(x, dim=0, index=number) if flag else x
            for x, flag in zip(call.operands, call.flags, strict=True)
        ]
        found.append(call.op(*operands, **call.attributes))
    return TABLE.stack(*found, dim=0)


def choices(sample: Sample) -> Iterator[tuple[int, ...]]:
    """Which operands hold samples: each alone, pairs, all."""
    places = [p for p, x in enumerate(sample.inputs) if isinstance(x, np.ndarray)]
    sizes = {1, 2, len(places)} if len(places) < 4 else {1, len(places)}
    for size in sorted(sizes - {0}):
        yield from itertools.combinations(places, size)


def check(op: Op, sample: Sample) -> None:
    for chosen in choices(sample):
        operands = [
            as_operand(np.stack(variants(op, sample, place))) if place in chosen else as_operand(x)
            for place, x in enumerate(sample.inputs)
        ]
        flags = tuple(place in chosen for place in range(len(operands)))
        call = Call(op, tuple(operands), flags, sample.attributes, COUNT)
        try:
            expected = each(call)
        except DTypeError:  # of a row that a composite stands for
            return
        found = batched(call, by_rows)
        what = f"{op.name} {sample.name} {chosen}"
        assert expected.dtype is found.dtype, what
        assert tuple(expected.shape) == tuple(found.shape), what
        compare(expected, found, what)


def compare(expected: Any, found: Any, what: str) -> None:
    if expected.dtype.is_floating_point or expected.dtype.is_complex:
        wide = expected.dtype in (dtypes.float64, dtypes.complex128)
        left, right = (
            (x if x.dtype.is_complex else x.double()).resolve_conj().resolve_neg()
            for x in (expected, found)
        )
        np.testing.assert_allclose(
            right.numpy(), left.numpy(), rtol=1e-9 if wide else 2e-2, atol=1e-9 if wide else 2e-2,
            err_msg=what,
        )  # fmt: skip
    else:
        assert expected.tolist() == found.tolist(), what


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
@pytest.mark.parametrize(
    "dtype", (dtypes.float64, dtypes.int64, dtypes.complex128), ids=lambda dtype: dtype.name
)
def test_a_rule_gives_what_every_sample_gives(op: Op, dtype: DType) -> None:
    for sample in accepted(op, dtype):
        check(op, sample)
