"""Values that are one known number everywhere, and when a number may stand for one."""

from typing import Any

import numpy as np

from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.value_types import TensorType
from dynajit.ir.node import Argument, Node, NodeKind, rearranges, type_of
from dynajit.ops.table.families import promoted_dtype
from dynajit.ops.table.op_table import Kind, Op


def uniform_value(argument: Argument) -> Any:
    """The number that `argument` is everywhere, rounded to its dtype; None if not known.

    A literal is itself. Known are zero-dim constants, `full` of a literal, and rearrangements.
    """
    while isinstance(argument, Node) and rearranges(argument):
        argument = argument.args[0]
    if not isinstance(argument, Node):
        return argument
    if argument.kind is NodeKind.CONSTANT:
        return argument.value.item() if argument.value.shape == () else None
    if argument.op is None or argument.op.name != "full":
        return None
    assert isinstance(argument.type, TensorType)
    return _rounded(uniform_value(argument.args[0]), argument.type.dtype)


def with_literals(op: Op | None, args: tuple[Argument, ...], node: Node) -> tuple[Argument, ...]:
    """`args` of a pointwise `node` with uniform tensors as numbers, where nothing else changes.

    Shape, result dtype and the dtype of computation stay the same, and one tensor stays.
    """
    if op is None or op.kind is not Kind.POINTWISE or op.opaque:
        return args
    for position, argument in enumerate(args):
        value = uniform_value(argument) if isinstance(argument, Node) else None
        if value is None or op.inputs[position] in op.rule.uncast:
            continue
        tried = (*args[:position], value, *args[position + 1 :])
        if _means_the_same(op, args, tried, node):
            args = tried
    return args


def _means_the_same(
    op: Op, old: tuple[Argument, ...], new: tuple[Argument, ...], node: Node
) -> bool:
    """True if `op` computes in the same dtype and gives the same type with arguments `new`."""
    if not any(isinstance(type_of(argument), TensorType) for argument in new):
        return False
    dtype = _promoted(op, old)
    if dtype is None or _promoted(op, new) is not dtype:
        return False
    if not all(_fits(number, dtype) for number in new if not isinstance(number, Node)):
        return False
    return bool(op.infer(*(type_of(argument) for argument in new), **node.attributes) == node.type)


def _promoted(op: Op, args: tuple[Argument, ...]) -> DType | None:
    """The dtype in which the promoting arguments meet; None without any."""
    types = [
        type_of(argument)
        for name, argument in zip(op.inputs, args, strict=True)
        if name not in op.rule.uncast
    ]
    return promoted_dtype(types) if any(type is not None for type in types) else None


def _rounded(value: Any, dtype: DType) -> Any:
    if value is None or dtype.is_complex or not _fits(value, dtype):
        return None
    with np.errstate(over="ignore"):
        return np.asarray(value, dtype.numpy).item()


def _fits(number: Any, dtype: DType) -> bool:
    """True if a Python number turns into `dtype` without wrapping or truncation."""
    if number is None or isinstance(number, complex):
        return False
    if dtype.category is Category.INTEGER:
        limits = np.iinfo(dtype.numpy)
        return isinstance(number, int) and bool(limits.min <= number <= limits.max)
    if dtype.category is Category.BOOL:
        return isinstance(number, bool)
    return True
