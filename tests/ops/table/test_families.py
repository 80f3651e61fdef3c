"""The decorators make rows; the type rules accept and refuse."""

import itertools

import numpy as np
import pytest

from dynajit.core.errors import (
    ArgumentError,
    BoundsError,
    DeviceError,
    DTypeError,
    InternalError,
    ShapeError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ops import TABLE, Kind
from dynajit.ops.table import families, type_rules
from dynajit.ops.table.op_table import REQUIRED


def tensor(*shape, dtype=dtypes.float32, device=CPU):
    return TensorType(shape, dtype, device)


@pytest.fixture
def scratch(monkeypatch):
    """Rows declared in the test leave the table afterwards."""
    before = dict(TABLE._rows)
    yield
    TABLE._rows.clear()
    TABLE._rows.update(before)


def test_a_pointwise_body_gives_inputs_and_attributes(scratch):
    @families.pointwise(domain=(0.0, 1.0))
    def blend(m, x, y, *, weight, scale=2):
        """Doc."""
        return x * weight + y * scale

    assert TABLE.blend is blend
    assert Kind.POINTWISE is blend.kind
    assert ("x", "y") == blend.inputs
    assert {"weight": REQUIRED, "scale": 2} == blend.attributes
    assert "Doc." == blend.document
    assert (0.0, 1.0) == blend.domain


def test_a_star_parameter_makes_a_variadic_row():
    assert TABLE.cat.variadic
    assert ("tensors",) == TABLE.cat.inputs


def test_two_rows_of_one_name_are_refused(scratch):
    with pytest.raises(InternalError):
        families.pointwise(name="exp")(lambda m, x: x)


def test_a_missing_or_unknown_attribute_is_refused():
    with pytest.raises(ArgumentError, match="'dim' is required"):
        TABLE.sum.bind({})
    with pytest.raises(ArgumentError, match="unknown attributes"):
        TABLE.sum.bind({"dim": (0,), "axis": 0})


def test_a_composite_finds_its_type_by_running_on_types(scratch):
    @families.composite()
    def centred(ops, x):
        """Doc."""
        return x - ops.sum(x, dim=(1,), keepdim=True) / 3

    assert tensor(2, 3) == centred.infer(tensor(2, 3))
    assert tensor(2, 3) == centred.infer(tensor(2, 3, dtype=dtypes.int64))


def test_a_composite_that_asks_for_contents_is_an_internal_error(scratch):
    @families.composite()
    def branching(ops, x):
        """Doc."""
        return x if x > 0 else -x

    with pytest.raises(InternalError):
        branching.infer(tensor(1))


SHAPES = [(), (1,), (3,), (2, 1), (2, 3), (4, 1, 3), (0,), (1, 0)]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SHAPES, repeat=2)))
def test_shapes_broadcast_as_in_numpy(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            families.broadcast_shapes([a, b], "f()")
        return
    assert expected == families.broadcast_shapes([a, b], "f()")


def test_symbolic_sizes_broadcast_with_themselves_and_one():
    n = symbol("n")
    assert (2, n) == families.broadcast_shapes([(2, n), (n,)], "f()")
    assert (2, n) == families.broadcast_shapes([(2, 1), (n,)], "f()")
    many = symbol("many", 4)
    with pytest.raises(ShapeError):
        families.broadcast_shapes([(many,), (3,)], "f()")
    with pytest.raises(ShapeError):
        families.broadcast_shapes([(n,), (n + 1,)], "f()")


def test_symbolic_sizes_that_may_be_equal_agree_where_nobody_decides():
    n = symbol("n", 2)
    assert (2, 3) == families.broadcast_shapes([(2, n), (3,)], "f()")
    assert (2, 3) == families.broadcast_shapes([(3,), (2, n)], "f()")


def test_a_message_shows_the_call():
    with pytest.raises(ShapeError, match=r"add\(x: float32\[2\], y: int64\[3\]\): sizes 2 and 3"):
        TABLE.add.infer(tensor(2), tensor(3, dtype=dtypes.int64))


def test_operands_on_two_devices_are_refused_unless_zero_dim():
    gpu = Device("cuda", 0)
    assert gpu == TABLE.add.infer(tensor(2, device=gpu), tensor()).device
    with pytest.raises(DeviceError):
        TABLE.add.infer(tensor(2, device=gpu), tensor(2))


def test_a_number_counts_as_a_number_in_promotion():
    number = ScalarType(dtypes.Category.FLOATING)
    assert dtypes.float16 is TABLE.add.infer(tensor(2, dtype=dtypes.float16), number).dtype
    assert dtypes.float32 is TABLE.add.infer(tensor(2, dtype=dtypes.int8), number).dtype
    assert dtypes.float32 is TABLE.add.infer(number, number).dtype


@pytest.mark.parametrize(
    ("row", "dtype"),
    [("neg", "bool"), ("bitwise_and", "float32"), ("lerp", "int64"), ("left_shift", "bool")],
)
def test_a_refused_dtype_is_named(row, dtype):
    op = TABLE[row]
    types = [tensor(2, dtype=dtypes.by_name(dtype)) for _ in op.inputs]
    with pytest.raises(DTypeError, match=f"{dtype} is refused"):
        op.infer(*types)


def test_dims_are_counted_from_the_front():
    assert 1 == families.normalize_dim(-1, 2, "f()")
    assert 0 == families.normalize_dim(-1, 0, "f()")
    assert (0, 2) == families.normalize_dims((-1, 0), 3, "f()")
    assert (0, 1) == families.normalize_dims(None, 2, "f()")
    assert (0, 1) == families.normalize_dims((), 2, "f()")
    assert () == families.normalize_dims(0, 0, "f()")
    with pytest.raises(BoundsError, match=r"\[-2, 1\]"):
        families.normalize_dim(2, 2, "f()")
    with pytest.raises(ShapeError, match="twice"):
        families.normalize_dims((0, -2), 2, "f()")
    with pytest.raises(ArgumentError):
        families.normalize_dim(1.5, 2, "f()")


def test_a_reduction_takes_only_normal_dims():
    with pytest.raises(InternalError):
        TABLE.sum.infer(tensor(2, 3), dim=(-1,), keepdim=False)
    with pytest.raises(InternalError):
        TABLE.sum.infer(tensor(2, 3), dim=(1, 0), keepdim=False)


def test_a_number_cannot_be_reduced():
    with pytest.raises(ArgumentError, match="Expected a tensor"):
        TABLE.sum.infer(ScalarType(dtypes.Category.FLOATING), dim=(), keepdim=False)


@pytest.mark.parametrize("row", ["amax", "amin", "argmax", "argmin"])
def test_an_empty_extremum_is_refused(row):
    for shape, dim in (((0, 3), (0,)), ((0, 0), (1,)), ((2, 0), (0, 1))):
        with pytest.raises(BoundsError, match="no identity"):
            TABLE[row].infer(tensor(*shape), dim=dim, keepdim=False)
    assert (0,) == TABLE[row].infer(tensor(0, 3), dim=(1,), keepdim=False).shape


def test_every_dtype_rule_states_what_it_accepts():
    rules = [r for r in vars(type_rules).values() if isinstance(r, families.DTypeRule)]
    assert len(rules) > 10
    assert all(rule.accepted for rule in rules)
