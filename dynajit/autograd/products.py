"""Products of vectors and Jacobians, of flat lists of tensors.

Contract: inputs are tensors that the outputs were computed from; where there is no dependence the
product is 0.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.eager.backward.engine import grad
from dynajit.eager.modes.grad_mode import enable_grad
from dynajit.eager.samples import mapping
from dynajit.eager.samples.sample_tensor import Level, SingleSampleNeeded, made, of_all
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions
from dynajit.ops.table.dispatch import is_recording


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


class Linear:
    """The Jacobian times vectors. Immutable.

    A backward run is linear in its vectors, and the derivative of that run by them is the answer:
    one run for all products, and one for each.

    Args:
        outputs, inputs: see the module; their graph is kept.
    """

    def __init__(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        with enable_grad():
            self._dummies = [functions.zeros_like(y).requires_grad_() for y in outputs]
            self._gradients = reverse(
                outputs, inputs, self._dummies, create_graph=True, missing=True
            )

    def __call__(self, vectors: Sequence[Tensor], create_graph: bool = False) -> list[Any]:
        """One tensor per output, from a vector per input: one backward run."""
        known = [(g, v) for g, v in zip(self._gradients, vectors, strict=True) if g is not None]
        gradients, given = [g for g, _ in known], [v for _, v in known]
        with enable_grad():
            return reverse(gradients, self._dummies, given, create_graph, retain_graph=True)


def jacobian_of(
    output: Tensor,
    inputs: Sequence[Tensor],
    create_graph: bool = False,
    chunk_size: int | None = None,
) -> list[Tensor]:
    """The Jacobian of one output, per input, of shape (*output.shape, *input.shape).

    The graph is kept.

    Args:
        chunk_size: how many rows are computed at once; None: all.
    """
    flat = output if output.ndim == 1 else output.reshape(-1)
    count = flat.shape[0]
    if not count:
        return [x.new_zeros((*output.shape, *x.shape)) for x in inputs]
    basis = functions.eye(count, dtype=flat.dtype, device=flat.device)
    size = chunk_size or count
    parts = [
        _rows_of(flat, inputs, create_graph, basis[start : start + size] if size < count else basis)
        for start in range(0, count, size)
    ]
    whole = [
        functions.cat(list(column)) if len(column) > 1 else column[0]
        for column in zip(*parts, strict=True)
    ]
    if output.ndim == 1:
        return whole
    return [j.reshape((*output.shape, *x.shape)) for j, x in zip(whole, inputs, strict=True)]


def _rows_of(
    flat: Tensor, inputs: Sequence[Tensor], create_graph: bool, vectors: Tensor
) -> list[Tensor]:
    """Some vectors times the Jacobian of a vector, per input: in one backward run, or, where a
    derivative takes one vector only, in one for each."""

    def row(vector: Tensor) -> tuple[Tensor, ...]:
        return tuple(reverse([flat], inputs, [vector], create_graph, True))

    if is_recording():
        return list(mapping.called(row, 0, 0, "error", (vectors,), {}))
    level = Level(vectors.shape[0], ())
    try:
        with level.opened():
            return [of_all(x, level) for x in row(made(vectors, level))]
    except SingleSampleNeeded as needed:
        if needed.level is not level:
            raise
    rows = [row(vector) for vector in vectors]
    return [functions.stack(list(column)) for column in zip(*rows, strict=True)]
