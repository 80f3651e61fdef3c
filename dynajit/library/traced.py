"""Fakes and derivatives of operators, read by calling them with tensors that have no contents.

Contract: `results` gives the types of an operator's results, `derivative` the graph of its
gradients. The user's functions are called with `TracedTensor`s, values of a graph that is thrown
away, or kept as the derivative; `isinstance(x, Tensor)` holds for them. Functions that ask for
contents raise.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import AutogradError, OperatorError
from dynajit.core.records import record
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.eager.backward.function import FunctionContext
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Node
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.library import autograd
from dynajit.ops import TABLE
from dynajit.ops.table import dispatch


class TracedTensor(Value):
    """A tensor without contents; passes for a Tensor."""

    __slots__ = ()

    @property  # type: ignore[misc]  # object has a setter, too
    def __class__(self) -> Any:
        return Tensor

    def is_contiguous(self, *args: Any, **keywords: Any) -> bool:
        """True: kernels get row-major arrays."""
        return True

    def __repr__(self) -> str:
        return f"TracedTensor({self.node.type})"


class _Builder(Builder):
    """Makes TracedTensors; takes the contents of eager tensors in as constants."""

    def placeholder(self, name: str, type: ValueType) -> TracedTensor:
        """See Builder."""
        return TracedTensor(self, super().placeholder(name, type).node)

    def call(self, *args: Any, **keywords: Any) -> TracedTensor:
        """See Builder."""
        return TracedTensor(self, super().call(*args, **keywords).node)

    def lift(self, operand: Any) -> Any:
        """See Builder."""
        if type(operand) is Tensor and operand.device is CPU and not operand.requires_grad:
            return self.constant(np.array(any_arrays.as_numpy(operand.array)))
        return super().lift(operand)

    def refuse(self, value: Value, what: str) -> Any:
        """See Builder."""
        raise OperatorError(f"{what} of a tensor without contents ({value.type}) is asked for")


def results(overload: Any, fill: Callable[[Sequence[Any]], list[Any]], types: Sequence[Any]) -> Any:
    """The results of an operator as its fake gives them: traced tensors, in the operator's nest.

    Args:
        overload: with a fake, or without results.
        fill: the operator's arguments from its tensors.
        types: of the tensors.

    Raises:
        RuntimeError: a result is no tensor, or of another type than the schema says.
        Exception: the fake raises.
    """
    builder = _Builder(overload.__name__)
    operands = [builder.placeholder(f"x{i}", type) for i, type in enumerate(types)]
    with dispatch.recording(builder.handle):
        made = overload.call_python(overload.fake, fill(operands)) if overload.fake else None
    made = overload.checked(made)
    if not all(isinstance(leaf, Tensor) for leaf in autograd.flat(autograd.results_of(made))):
        raise OperatorError(f"{overload}: a result is no tensor")
    return made


def type_of(tensor: Any) -> TensorType:
    """The type of what a fake returned, without its layout."""
    return TensorType(tuple(tensor.shape), tensor.dtype, tensor.device)


@record
class Derivative:
    """The gradients of one call.

    Args:
        inputs: the operands, the results, then a gradient for each of `differentiable`.
        gradients: per operand the graph of its gradient, with these inputs, or None.
        differentiable: positions of the results that have a gradient.
    """

    inputs: tuple[Node, ...]
    gradients: tuple[Graph | None, ...]
    differentiable: tuple[int, ...]


def derivative(
    overload: Any,
    fill: Callable[[Sequence[Any]], list[Any]],
    types: Sequence[TensorType],
    fakes: Any,
    wanted: tuple[bool, ...],
) -> Derivative:
    """What `setup_context` and `backward` compute.

    Args:
        overload: with a derivative.
        fill, types: as for `results`.
        fakes: what `results` gave.
        wanted: for each tensor among the arguments, whether its gradient is.

    Raises:
        RuntimeError: no operand gets a gradient, or one that is no tensor.
        Exception: one of the functions raises.
    """
    builder = _Builder(f"{overload.__name__}_backward")
    operands = [builder.placeholder(f"x{i}", type) for i, type in enumerate(types)]
    values = fill(operands)
    items = autograd.results_of(fakes)
    lengths = autograd.shapes_of(items)
    outputs = [
        builder.placeholder(f"result{i}", type_of(fake))
        for i, fake in enumerate(autograd.flat(items))
    ]
    flags = iter(wanted)
    leaves = [isinstance(leaf, Tensor) and next(flags) for leaf in autograd.flat(values)]
    context = FunctionContext(autograd.needs(overload, leaves, autograd.shapes_of(values)))
    with dispatch.recording(builder.handle):
        nest = autograd.nested(outputs, lengths)
        autograd.set_up(
            overload, context, values, tuple(nest) if isinstance(fakes, tuple) else nest[0]
        )
        places = tuple(
            position
            for position, output in enumerate(outputs)
            if output.dtype.category >= Category.FLOATING
            and not any(output is tensor for tensor in context.non_differentiable)
        )
        given = [
            builder.placeholder(f"gradient{i}", type_of(output))
            if i in places
            else _unused(context, output)
            for i, output in enumerate(outputs)
        ]
        found = autograd.gradients_of(
            overload, context, autograd.nested(given, lengths), autograd.shapes_of(values)
        )
    gradients = _of_operands(overload, values, found, wanted)
    return _finished(builder, overload, gradients, places)


def _unused(context: FunctionContext, output: Any) -> Any:
    """What backward gets for a result without a gradient."""
    if not context.materialize_grads:
        return None
    return TABLE.full(0, shape=tuple(output.shape), dtype=output.dtype, device=output.device)


def _of_operands(
    overload: Any, values: Sequence[Any], found: Sequence[Any], wanted: Sequence[bool]
) -> list[Any]:
    """The gradients of the tensors among the arguments, those that are wanted."""
    gradients = []
    flags = iter(wanted)
    for leaf, gradient in zip(autograd.flat(values), found, strict=True):
        if isinstance(leaf, Tensor):
            gradients.append(gradient if next(flags) else None)
        elif gradient is not None:
            raise AutogradError(f"{overload}: its backward gives a gradient for what is no tensor")
    if not any(gradient is not None for gradient in gradients):
        raise AutogradError(f"{overload}: its backward gives no gradient")
    return gradients


def _finished(
    builder: _Builder, overload: Any, gradients: Sequence[Any], places: tuple[int, ...]
) -> Derivative:
    lifted = [None if g is None else builder.lift(g) for g in gradients]
    if not all(g is None or isinstance(g, Value) for g in lifted):
        raise AutogradError(f"{overload}: its backward gives a gradient that is no tensor")
    graphs = [
        None if gradient is None else eliminate_dead_code(builder.finish([gradient]))
        for gradient in lifted
    ]
    return Derivative(builder.finish([]).inputs, tuple(graphs), places)
