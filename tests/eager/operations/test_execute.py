"""The dispatch handler: wrapping, recording, views, composites."""

import numpy as np
import pytest

from dynajit.core.errors import ShapeError
from dynajit.core.types import dtypes
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.operations.execute import handle
from dynajit.eager.tape.node import OpNode
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Kind


def leaf(*values: float) -> Tensor:
    return tensor(list(values), requires_grad=True)


def test_rows_run_on_tensors_and_numbers() -> None:
    result = TABLE.add(tensor([1.0, 2.0]), 3)

    assert (Tensor, [4.0, 5.0], dtypes.float32) == (type(result), result.tolist(), result.dtype)


def test_zero_dim_results_are_tensors() -> None:
    result = tensor(2.0) * tensor(3.0)

    assert ((), np.ndarray, 6.0) == (result.shape, type(result.array), result.item())


def test_ops_without_operands_run_eagerly() -> None:
    assert [7.0, 7.0] == TABLE.full(7.0, shape=(2,), dtype=dtypes.float32).tolist()


def test_a_node_is_recorded_only_where_needed() -> None:
    x, y = leaf(1.0), tensor([1.0])

    assert (True, False, False) == (
        isinstance((x + y).grad_fn, OpNode),
        (y + y).requires_grad,
        (x > y).requires_grad,
    )


def test_only_what_formulas_need_is_saved() -> None:
    x, y = leaf(1.0), tensor([2.0])

    assert ([], [1], []) == (
        list((x + y).grad_fn.saved),
        list((x * y).grad_fn.saved),
        list(x.exp().grad_fn.saved),
    )


def test_a_detached_tensor_shares_storage_but_no_history() -> None:
    x = leaf(1.0) * 2.0
    y = x.detach()
    y.add_(1.0)

    assert (True, False, None, 1) == (
        y._storage is x._storage,
        y.requires_grad,
        y._base,
        x._version,
    )


def test_a_reshape_that_copies_is_no_view() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0).reshape(2, 2)
    y = x.T.reshape(4)

    assert (None, True) == (y._base, y._storage is not x._storage)
    y.sum().backward()


def test_a_composite_with_its_own_derivative_is_one_node() -> None:
    own = [op for op in TABLE if op.kind is Kind.COMPOSITE and op.vjp]
    assert own
    result = leaf(1.0, 2.0).softmax(-1)

    assert result.grad_fn.name().startswith("Softmax")


def test_errors_of_the_row_reach_the_user() -> None:
    with pytest.raises(ShapeError, match="broadcast"):
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])


def test_backward_and_composites_run_eagerly_while_something_else_records() -> None:
    def refuse(op, inputs, attributes):
        raise AssertionError(f"{op} was sent to the recorder")

    x = leaf(1.0, 2.0)
    view = x[:1]
    base = x * 1.0
    other = base[0]
    with dispatch.recording(refuse):
        (view * 2.0).sum().backward()
        x.softmax(-1)
        base.mul_(2.0)
        assert other.requires_grad

    assert [2.0, 0.0] == x.grad.tolist()


def test_views_made_without_gradients_know_their_base() -> None:
    x = leaf(1.0, 2.0)
    with no_grad():
        view = x[0]

    assert (True, None, False) == (view._base is x, view._replay, view.requires_grad)


def test_the_handler_is_the_one_of_the_tensor() -> None:
    assert handle is tensor([1.0]).__dynajit_handler__ is dispatch.default_handler()
