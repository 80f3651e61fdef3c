"""Every step of a nest in C gives what NumPy gives, or refuses; what was given stays as it was."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.core.errors import BoundsError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ir.nests import (
    NEST,
    Nest,
    Register,
    Size,
    Step,
    Turn,
    Window,
    scratch_slot,
)

pytestmark = pytest.mark.one_python

REFUSED = object()


def run(nest: Nest, *arrays: np.ndarray[Any, Any], strided: bool = False) -> Any:
    """The results of a nest; REFUSED."""
    nest.check()
    builder = Builder("nested")
    given = []
    for number, array in enumerate(arrays):
        dtype = dtypes.from_numpy(array.dtype)
        strides = tuple(step // array.itemsize for step in array.strides) if strided else None
        kind = TensorType(array.shape, dtype, strides=strides)
        given.append(builder.placeholder(f"x{number}", kind))
    calls = [
        builder.call(NEST, given, {"nest": nest, "result": result}).node
        for result in range(len(nest.results))
    ]
    program = pipeline.compile_graph(builder.finish(calls))
    try:
        found = program(*arrays)
    except BoundsError:
        return REFUSED
    return found


def step_of(operation: str, dtype: DType, given: Sequence[Any], **facts: Any) -> Any:
    """What one step makes of some numbers."""
    registers = [Register(f"x{k}", dtypes.from_numpy(x.dtype)) for k, x in enumerate(given)]
    target = Register("found", facts.pop("result", dtype))
    step = Step(operation, target, tuple(registers), dtype, **facts)
    nest = Nest(((step, Step("leave")),), tuple(enumerate(registers)), (), (target,))
    found = run(nest, *given)
    return found if found is REFUSED else found[0][()]


def of(dtype: Any, *values: Any) -> list[Any]:
    return [np.array(value, dtype) for value in values]


INTS = [(7, 3), (-7, 3), (7, -3), (100, 100), (-128, 2)]


@pytest.mark.parametrize(("a", "b"), INTS)
@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.int32, dtypes.int64])
def test_integers_wrap_and_divide_downwards(a: int, b: int, dtype: DType) -> None:
    x, y = of(dtype.numpy, a, b)
    with np.errstate(all="ignore"):
        for operation, expected in {
            "add": x + y, "sub": x - y, "mul": x * y, "floordiv": x // y, "mod": x % y,
            "bitand": x & y, "bitor": x | y, "bitxor": x ^ y,
        }.items():  # fmt: skip
            assert step_of(operation, dtype, (x, y)) == expected


@pytest.mark.parametrize(("a", "b"), [(7.5, 2.0), (-7.5, 2.0), (4.0, -2.0), (-0.0, 3.0), (1.0, 0)])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_floats_are_those_of_numpy(a: float, b: float, dtype: DType) -> None:
    x, y = of(dtype.numpy, a, b)
    with np.errstate(all="ignore"):
        for operation, expected in {
            "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "floordiv": x // y,
            "mod": x % y,
        }.items():  # fmt: skip
            found = step_of(operation, dtype, (x, y))
            np.testing.assert_array_equal(found, expected)
            assert np.isnan(expected) or np.signbit(found) == np.signbit(expected)


def test_comparisons_and_truths_are_bools() -> None:
    x, y = of(np.float64, 1.0, 2.0)
    facts = {"result": dtypes.bool_}
    found = {
        name: bool(step_of(name, dtypes.float64, (x, y), **facts))
        for name in ("lt", "le", "eq", "ne", "gt", "ge")
    }
    assert found == {"lt": 1, "le": 1, "eq": 0, "ne": 1, "gt": 0, "ge": 0}
    truths = of(np.bool_, True, False)
    assert not step_of("both", dtypes.bool_, truths)
    assert step_of("either", dtypes.bool_, truths)
    assert step_of("not", dtypes.bool_, truths[1:])


@pytest.mark.parametrize("operation", ["add_whole", "sub_whole", "mul_whole"])
def test_whole_numbers_that_do_not_fit_are_refused(operation: str) -> None:
    most = np.iinfo(np.int64).max
    assert step_of(operation, dtypes.int64, of(np.int64, 6, 3)) in (9, 3, 18)
    b = -2 if operation == "sub_whole" else 2
    assert step_of(operation, dtypes.int64, of(np.int64, most, b)) is REFUSED


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (3.9, dtypes.int64, 3), (-3.9, dtypes.int32, -3), (np.nan, dtypes.int64, REFUSED),
        (np.inf, dtypes.int64, REFUSED), (2.0**63, dtypes.int64, REFUSED),
        (-129.0, dtypes.int8, REFUSED), (-128.5, dtypes.int8, -128), (127.9, dtypes.int8, 127),
        (128.0, dtypes.int8, REFUSED), (255.5, dtypes.uint8, 255), (-0.5, dtypes.uint8, 0),
        (-1.0, dtypes.uint8, REFUSED),
    ],
)  # fmt: skip
def test_floats_lose_their_fraction_where_they_fit(value: float, dtype: DType, expected) -> None:
    found = step_of("truncate", dtype, of(np.float64, value))
    assert found is REFUSED if expected is REFUSED else found == expected


def test_a_float_that_was_an_integer_is_no_negative_zero() -> None:
    x, whole, again = (Register(n, d) for n, d in (
        ("x", dtypes.float64), ("whole", dtypes.int32), ("again", dtypes.float64)
    ))  # fmt: skip
    steps = (
        Step("truncate", whole, (x,), dtypes.int32),
        Step("set", again, (whole,), dtypes.int32),
        Step("leave"),
    )
    (found,) = run(Nest((steps,), ((0, x),), (), (again,)), np.array(-0.5))
    assert found == 0 and not np.signbit(found)


def doubling(size: int) -> Nest:
    """`for i in range(size): x[i] = x[i] + x[i]`, which refuses where x is shorter."""
    i, place, value = (Register(n, dtypes.int64) for n in ("i", "place", "value"))
    value = Register("value", dtypes.float64)
    goes_on = Register("goes_on", dtypes.bool_)
    return Nest(
        (
            (Step("set", i, (0,), dtypes.int64), Step("goto", name=1)),
            (
                Step("lt", goes_on, (i, size), dtypes.int64),
                Step("branch", operands=(goes_on,), name=(2, 3)),
            ),
            (
                Step("poll", name=2),
                Step("index", place, (i, Size(0, 0))),
                Step("load", value, (place,), slot=0),
                Step("add", value, (value, value), dtypes.float64),
                Step("store", operands=(place, value), slot=0),
                Step("add", i, (i, 1), dtypes.int64),
                Step("goto", name=1),
            ),
            (Step("leave"),),
        ),
        (),
        (0,),
        (0, i),
    )


def test_an_array_that_is_written_is_a_copy() -> None:
    x = np.arange(5.0)
    found, count = run(doubling(5), x)
    np.testing.assert_array_equal(found, np.arange(5.0) * 2)
    assert count == 5
    np.testing.assert_array_equal(x, np.arange(5.0))


def test_an_index_out_of_range_is_refused_and_leaves_no_trace() -> None:
    x = np.arange(5.0)
    assert run(doubling(6), x) is REFUSED
    np.testing.assert_array_equal(x, np.arange(5.0))


def transposing() -> Nest:
    """`y[j, i] = x[i, j]` for one element, and the size of a dim."""
    value, size = Register("value", dtypes.float64), Register("size", dtypes.int64)
    i, j = (Register(n, dtypes.int64) for n in "ij")
    steps = (
        Step("index", i, (-1, Size(0, 0))),
        Step("index", j, (1, Size(0, 1))),
        Step("load", value, (i, j), slot=0),
        Step("store", operands=(j, i, value), slot=1),
        Step("set", size, (Size(0, 0),), dtypes.int64),
        Step("leave"),
    )
    return Nest((steps,), (), (1,), (1, size))


def test_arrays_are_read_by_their_strides() -> None:
    x = np.arange(12.0).reshape(4, 3).T
    y = np.zeros((4, 3))
    found, size = run(transposing(), x, y, strided=True)
    assert found[1, 2] == x[-1, 1] and size == 3


def test_windows_are_parts_of_one_array() -> None:
    value = Register("value", dtypes.float64)
    steps = (
        Step("load", value, (1,), slot=0),
        Step("store", operands=(1, value), slot=1),
        Step("leave"),
    )
    windows = (Window(0, 2, 0, (1,)), Window(1, 2, 2, (2,)))
    x = np.arange(8.0)
    (found,) = run(Nest((steps,), (), (2,), (2,), windows), x[:4], x[2::2], x)
    np.testing.assert_array_equal(found, [0, 1, 2, 3, 1, 5, 6, 7])


def test_branches_select_and_requirements_refuse() -> None:
    x, truth = Register("x", dtypes.float64), Register("truth", dtypes.bool_)
    steps = (
        Step("gt", truth, (x, 1), dtypes.float64),
        Step("require", operands=(truth,)),
        Step("select", x, (truth, 5.0, x), dtypes.float64),
        Step("call", x, (x,), dtypes.float64, name="sqrt"),
        Step("neg", x, (x,), dtypes.float64),
        Step("leave"),
    )
    nest = Nest((steps,), ((0, x),), (), (x,))
    assert run(nest, np.array(2.0))[0] == -np.sqrt(5.0)
    assert run(nest, np.array(1.0)) is REFUSED


def total(count: Any, *, is_total: bool, dtype: DType = dtypes.float64) -> Nest:
    """A sum of as many elements."""
    i, x, s = Register("i", dtypes.int64), Register("x", dtype), Register("s", dtypes.float64)
    steps = (
        Step("load", x, (i,), slot=0),
        Step("add", s, (s, x), dtypes.float64),
    )
    turn = Turn(steps, s if is_total else None)
    block = (Step("set", s, (0.0,)), Step("each", i, (count,), name=turn), Step("leave"))
    return Nest((block,), (), (), (s,))


@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_turns_add_to_a_register(is_total: bool, dtype: Any) -> None:
    x = np.arange(100).astype(dtype)
    nest = total(Size(0, 0), is_total=is_total, dtype=dtypes.from_numpy(x.dtype))
    assert run(nest, x)[0] == x.sum()
    assert run(nest, x[:0])[0] == 0


def test_a_sum_that_may_refuse_refuses() -> None:
    """Nothing leaves a loop of vectors: this is none."""
    nest = total(Size(0, 0), is_total=True)
    first, each, leave = nest.blocks[0]
    x = Register("x", dtypes.float64)
    turn = each.name
    steps = (*turn.steps, Step("require", operands=(x,)))
    block = (first, Step("each", each.target, each.operands, name=Turn(steps, turn.total)), leave)
    nest = Nest((block,), (), (), nest.results)
    assert run(nest, np.ones(9))[0] == 9
    assert run(nest, np.arange(9.0)) is REFUSED


def test_turns_within_turns_have_registers_of_their_own() -> None:
    """The sum of each row, held in a scratch array that grows."""
    i, j, x, s = (Register(n, dtypes.int64) for n in "ijxs")
    own = scratch_slot(0)
    sums = (
        Step("set", s, (0,)),
        Step("scratch", operands=(Size(0, 1),), slot=own),
        Step("each", j, (Size(0, 1),), name=Turn((
            Step("load", x, (i, j), slot=0),
            Step("store", operands=(j, x), slot=own),
        ))),
        Step("each", j, (Size(0, 1),), name=Turn((
            Step("load", x, (j,), slot=own),
            Step("add", s, (s, x), dtypes.int64),
        ))),
        Step("store", operands=(i, s), slot=1),
    )  # fmt: skip
    block = (
        Step("scratch", operands=(1,), slot=own),
        Step("each", i, (Size(0, 0),), name=Turn(sums)),
        Step("leave"),
    )
    nest = Nest((block,), (), (1,), (1,), (), (dtypes.int64,))
    a = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(run(nest, a, np.zeros(3, np.int64))[0], a.sum(1))
