"""The order in which arrays of NumPy's lie in memory: which one NumPy gives a result, and dims put
in another order.

Contract: what cannot be known breaks the graph, naming NumPy's function.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.contents import list_items
from dynajit.capture.python.tensors.arrays import (
    by_strides,
    flipped_dims,
    is_odd,
    is_writeable,
    laid_out,
    memory_in,
    new_view,
    order_of,
    strides_of_tensor,
)
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.ops.functions.arrays.table import Order
from dynajit.ops.table.result_layouts import is_row_major


def permuted(
    machine: Machine, function: Any, args: list[Value], given: list[Value],
    named: dict[str, Value],
) -> Value:  # fmt: skip
    """Dims of an odd array in another order: those that are flipped go along."""
    array = args[0]
    tensor = memory_in(machine, array)
    made = native_call(machine, function, [tensor, *given[1:]], named)
    assert isinstance(made, TensorValue)
    before, after = (strides_of_tensor(machine, t) for t in (tensor, made))
    steps = None if before is None or after is None else [*before, *after]
    if (
        steps is None
        or not all(type(step) is int for step in steps)
        or len(set(steps)) < len(before)
    ):
        raise GraphBreak(breaks.UNKNOWN_CALL, "dims in another order of an array with flipped dims")
    flipped = {before[dim] for dim in flipped_dims(machine, array)}
    dims = tuple(dim for dim, step in enumerate(after) if step in flipped)
    return new_view(machine, made, dims, is_writeable(machine, array))


def lies_in_rows(machine: Machine, array: Value, tensor: Value) -> bool:
    """Whether an array lies in one piece, row by row.

    Raises:
        GraphBreak: it is not known.
    """
    if is_odd(array):
        return False
    if not isinstance(tensor, TensorValue):
        return True
    shape, strides = tensor_type(machine, tensor).shape, strides_of_tensor(machine, tensor)
    if strides is not None and is_row_major(tuple(shape), tuple(strides)):
        return True
    if strides is None or not all(type(size) is int for size in (*shape, *strides)):
        raise GraphBreak(breaks.UNKNOWN_CALL, "numpy.ravel of dims in an order that varies")
    return False


def order_of_result(
    machine: Machine, name: str, rule: Order, given: Sequence[Value]
) -> tuple[int, ...] | None:
    """How NumPy lays out the result for arrays whose dims lie in another order; None: as made here.

    Raises:
        GraphBreak: it is not known.
    """
    orders = {known_order(machine, name, value) for value in _tensors_in(machine, given)}
    if all(order == tuple(range(len(order))) for order in orders):
        return None
    if rule is Order.ROWS:
        return tuple(range(max(map(len, orders))))
    if len(orders) > 1 or rule is Order.NOT_KNOWN:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of dims in another order")
    (order,) = orders
    if rule is Order.ENDS and not all(
        _lies_in_columns(machine, t) for t in _tensors_in(machine, given)
    ):
        return tuple(range(len(order)))
    return order


def _lies_in_columns(machine: Machine, tensor: TensorValue) -> bool:
    """Whether an array lies in one piece, column by column."""
    shape, strides = tensor_type(machine, tensor).shape, strides_of_tensor(machine, tensor)
    return strides is not None and is_row_major(tuple(shape)[::-1], tuple(strides)[::-1])


def known_order(machine: Machine, name: str, value: TensorValue) -> tuple[int, ...]:
    """The dims of an array from the outermost in memory on.

    Raises:
        GraphBreak: it is not known.
    """
    order = order_of(machine, value)
    has_ones = any(size == 1 for size in tensor_type(machine, value).shape)
    if order is None or (has_ones and order != tuple(range(len(order)))):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of dims in an order that varies")
    return order


def _tensors_in(machine: Machine, given: Sequence[Value]) -> Iterator[TensorValue]:
    for value in given:
        if isinstance(value, ListValue):
            yield from _tensors_in(machine, list_items(machine, value))
        elif isinstance(value, TupleValue):
            yield from _tensors_in(machine, value.items)
        elif isinstance(value, TensorValue):
            yield value


def as_numpy_lays_out(machine: Machine, name: str, made: Value, given: Sequence[Value]) -> Value:
    """A result by elements: in the order that its operands have, or with rows where they differ.

    Source: "C-order wins" in NumPy's `npyiter_find_best_axis_ordering`; tensors have the order of
    the first operand.

    Raises:
        GraphBreak: there are more than two dims, or an order is not known.
    """
    if not isinstance(made, TensorValue) or tensor_type(machine, made).rank < 2:
        return made
    rank = tensor_type(machine, made).rank
    orders = {
        _order(machine, name, value)
        for value in given
        if isinstance(value, TensorValue)
        and sum(size != 1 for size in tensor_type(machine, value).shape) > 1
    }
    orders = {order for order in orders if len(order) > 1}
    have_rows = all(order == tuple(sorted(order)) for order in orders)
    if have_rows:
        return made
    if len(orders) == 1 and len(*orders) == rank:
        return laid_out(machine, made, *orders)
    if rank > 2:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of dims in another order")
    return laid_out(machine, made, (0, 1))


def _order(machine: Machine, name: str, value: TensorValue) -> tuple[int, ...]:
    """The dims of an operand with more than one place in memory, from the outermost on.

    Raises:
        GraphBreak: it is not known.
    """
    shape, strides = tensor_type(machine, value).shape, strides_of_tensor(machine, value)
    if strides is not None and is_row_major(tuple(shape), tuple(strides)):
        return tuple(range(len(shape)))
    found = None if strides is None else by_strides(shape, strides)
    if found is None:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of dims in an order that varies")
    return found


__all__ = ["as_numpy_lays_out", "known_order", "lies_in_rows", "order_of_result", "permuted"]
