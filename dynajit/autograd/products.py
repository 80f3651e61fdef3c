"""Products of vectors and Jacobians, of flat lists of tensors.

Contract: inputs are tensors that the outputs were computed from; where there is no dependence the
product is 0.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.eager.backward.engine import grad
from dynajit.eager.modes.grad_mode import enable_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions


def reverse(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    vectors: Sequence[Tensor],
    create_graph: bool = False,
    retain_graph: bool | None = None,
    missing: bool = False,
) -> list[Any]:
    """Vectors, one per output, times the Jacobian: one tensor per input.

    Args:
        missing: None instead of zeros where an input does not matter.
    """
    pairs = [(y, v) for y, v in zip(outputs, vectors, strict=True) if y.requires_grad]
    found: Sequence[Any] = [None] * len(inputs)
    used = [x for x in inputs if x.requires_grad]
    if pairs and used:
        gradients = iter(
            grad(
                [y for y, _ in pairs],
                used,
                [v for _, v in pairs],
                retain_graph=create_graph if retain_graph is None else retain_graph,
                create_graph=create_graph,
                allow_unused=True,
            )
        )
        found = [next(gradients) if x.requires_grad else None for x in inputs]
    if missing:
        return list(found)
    return [
        functions.zeros_like(x) if gradient is None else gradient
        for x, gradient in zip(inputs, found, strict=True)
    ]


def forward(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    vectors: Sequence[Tensor],
    create_graph: bool = False,
) -> list[Any]:
    """The Jacobian times vectors, one per input: one tensor per output.

    By two backward runs: the first is linear in its vectors, whose derivative is the answer.
    """
    with enable_grad():
        dummies = [functions.zeros_like(y).requires_grad_() for y in outputs]
        gradients = reverse(outputs, inputs, dummies, create_graph=True, missing=True)
        known = [(g, v) for g, v in zip(gradients, vectors, strict=True) if g is not None]
        return reverse(
            [g for g, _ in known], dummies, [v for _, v in known], create_graph, retain_graph=True
        )


def jacobian_of(
    output: Tensor, inputs: Sequence[Tensor], create_graph: bool = False
) -> list[Tensor]:
    """The Jacobian of one output, per input, of shape (*output.shape, *input.shape).

    The graph is kept.
    """
    flat = output.reshape(-1)
    count = flat.shape[0]
    rows = [
        reverse(
            [flat[i]], inputs, [functions.zeros_like(flat[i]) + 1], create_graph, retain_graph=True
        )
        for i in range(count)
    ]
    found = []
    for number, x in enumerate(inputs):
        shape = (*output.shape, *x.shape)
        if not count:
            found.append(x.new_zeros(shape))
            continue
        found.append(functions.stack([row[number] for row in rows]).reshape(shape))
    return found
