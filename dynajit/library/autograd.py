"""Calls of operators as nodes of the tape.

Contract: `call` runs the kernel unrecorded and gives its results one node, whose gradient is what
`register_autograd` was given; `setup_context` and `backward` see the operator's arguments and
results in its own structure: lists of tensors as lists. Without a registered derivative backward
raises.
"""

import functools
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import AutogradError
from dynajit.eager._tensor import TensorBase
from dynajit.eager.backward.function import Function
from dynajit.library.schema import Schema

MSG_NONE: str = (
    "Trying to backward through {name} but no autograd formula was registered.  Register one with "
    "register_autograd."
)


def call(overload: Any, values: Sequence[Any]) -> Any:
    """The results of a call of which an operand requires a gradient.

    Args:
        overload: the operator.
        values: its arguments, in the order of its schema.
    """
    leaves = flat(values)
    made = _Call(overload, shapes_of(values))
    results = _function_of(overload).apply(made, *leaves)
    return made.nest_results(results)


class _Call:
    """One call. Mutable: knows the structure of the results when the kernel has run.

    Args:
        overload: the operator.
        lengths: per argument the length of a list of tensors; None for other arguments.
    """

    def __init__(self, overload: Any, lengths: tuple[int | None, ...]) -> None:
        self.overload = overload
        self.lengths = lengths
        self.results: tuple[int | None, ...] = ()
        self.is_tuple = False

    def flatten_results(self, results: Any) -> tuple[Any, ...]:
        """The results, lists opened."""
        self.is_tuple = isinstance(results, tuple)
        items = results if self.is_tuple else (results,)
        self.results = shapes_of(items)
        return tuple(flat(items))

    def nest_results(self, leaves: Sequence[Any]) -> Any:
        """The results as the kernel gave them."""
        items = nested(leaves, self.results)
        return tuple(items) if self.is_tuple else items[0]


def results_of(made: Any) -> tuple[Any, ...]:
    """The results in what a kernel or a fake returned."""
    if made is None:
        return ()
    return made if isinstance(made, tuple) else (made,)


def shapes_of(values: Sequence[Any]) -> tuple[int | None, ...]:
    """Per value the length of a list of tensors; None for another value."""
    return tuple(len(value) if _is_tensor_list(value) else None for value in values)


def flat(values: Sequence[Any]) -> list[Any]:
    """Values with lists of tensors opened."""
    leaves: list[Any] = []
    for value in values:
        leaves += value if _is_tensor_list(value) else [value]
    return leaves


def nested(leaves: Sequence[Any], lengths: Sequence[int | None]) -> list[Any]:
    """The inverse of `flat`."""
    rest = iter(leaves)
    return [
        next(rest) if length is None else [next(rest) for _ in range(length)] for length in lengths
    ]


def needs(overload: Any, flags: Sequence[bool], lengths: Sequence[int | None]) -> tuple[Any, ...]:
    """`ctx.needs_input_grad`: for each argument that can be passed by place.

    Args:
        flags: for each leaf of the arguments.
        lengths: see `shapes_of`, of the arguments.
    """
    positional: tuple[Any, ...]
    positional, _ = overload._schema.split(nested(flags, lengths))
    return positional


def _is_tensor_list(value: Any) -> bool:
    """True for a list of tensors and None, with a tensor in it."""
    if not isinstance(value, list) or not value:
        return False
    are_tensors = [isinstance(item, TensorBase) for item in value]
    return any(are_tensors) and all(a or v is None for a, v in zip(are_tensors, value, strict=True))


def set_up(overload: Any, context: Any, values: Sequence[Any], results: Any) -> None:
    """Call `setup_context` as PyTorch does: by keyword."""
    derivative = overload.derivative
    if derivative is None or derivative.setup_context is None:
        return
    inputs, keyword_only = overload._schema.split(values)
    named = {"keyword_only_inputs": keyword_only} if overload._schema.has_keyword_only else {}
    derivative.setup_context(ctx=context, inputs=inputs, output=results, **named)


def gradients_of(
    overload: Any, context: Any, gradients: Sequence[Any], lengths: Sequence[int | None]
) -> list[Any]:
    """What `backward` gives, one gradient per leaf of the arguments.

    Args:
        gradients: per result; a list for a list of tensors.
        lengths: see `shapes_of`, of the arguments.

    Raises:
        RuntimeError: there is no derivative, or it gives another number of gradients.
    """
    derivative = overload.derivative
    if derivative is None:
        raise AutogradError(MSG_NONE.format(name=overload))
    found = derivative.backward(context, *gradients)
    given = list(found) if isinstance(found, tuple) else [found]
    while len(given) > len(lengths) and given[-1] is None:
        given.pop()
    if len(given) > len(lengths) or len(given) < _fewest(overload._schema, lengths):
        raise AutogradError(
            f"{overload}: its backward returned an incorrect number of gradients (expected "
            f"{len(lengths)}, got {len(given)}).  Return one per argument, None where there is "
            "none."
        )
    given += [None] * (len(lengths) - len(given))
    leaves: list[Any] = []
    for gradient, length in zip(given, lengths, strict=True):
        leaves += _per_leaf(overload, gradient, length)
    return leaves


def _fewest(schema: Schema, lengths: Sequence[int | None]) -> int:
    """How many gradients backward has to give: those for tensors, and all in front of them."""
    tensors = [n for n, argument in enumerate(schema.arguments) if argument.type.is_tensor]
    return min(max(tensors, default=-1) + 1, len(lengths))


def _per_leaf(overload: Any, gradient: Any, length: int | None) -> Sequence[Any]:
    if length is None:
        return [gradient]
    if gradient is None:
        return [None] * length
    if not isinstance(gradient, (list, tuple)) or len(gradient) != length:
        raise AutogradError(
            f"{overload}: Expected the return from backward to be of the same structure as the "
            f"inputs: a list of {length} gradients, or None, for a list of {length} tensors."
        )
    return gradient


@functools.cache
def _function_of(overload: Any) -> type[Function]:
    """The Function of an operator; its name is what `grad_fn` shows."""

    class Generated(Function):
        @staticmethod
        def forward(ctx: Any, call: _Call, *leaves: Any) -> Any:
            values = nested(leaves, call.lengths)
            ctx.call = call
            ctx.needs_input_grad = needs(overload, ctx.needs_input_grad[1:], call.lengths)
            results = overload.run_untaped(values)
            set_up(overload, ctx, values, results)
            return call.flatten_results(results)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            call = ctx.call
            given = nested(gradients, call.results)
            return (None, *gradients_of(overload, ctx, given, call.lengths))

    name = f"{overload._namespace}_{overload._opname}_{overload._overloadname}"
    Generated.__name__ = Generated.__qualname__ = f"GeneratedBackwardFor_{name}"
    return Generated
