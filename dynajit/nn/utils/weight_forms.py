"""What the old and the new forms of weight and spectral normalization compute.

Contract: functions of tensors only; the power iteration writes its two vectors in place.

Source: T. Salimans, D. Kingma, arXiv:1602.07868; T. Miyato et al., arXiv:1802.05957.
"""

from typing import Any

from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.layers.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from dynajit.ops.functions import dot, mv, randn

#: Modules whose output channels are dim 1 of the weight.
TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """The 2-norm over all dims but one, which are kept with size 1; -1 or None: over all, zero-dim.

    Raises:
        IndexError: there is no such dim.
    """
    if dim is None or dim == -1:
        return v.norm(2)
    if not -v.ndim <= dim < v.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-v.ndim}, {v.ndim - 1}], "
            f"but got {dim})"
        )
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return v.norm(2, others, True) if others else v.abs()


def weight_of(g: Tensor, v: Tensor, dim: int | None) -> Tensor:
    """Direction `v` with norm `g`: `g * v / norm_except_dim(v, dim)`."""
    return v * (g / norm_except_dim(v, dim))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Dim `dim` as the rows, all others as the columns."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.ndim) if d != dim))
    return weight.reshape(weight.shape[0], -1)


def drawn_vectors(matrix: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Random unit vectors to start from, of as many elements as rows and as columns."""
    rows, columns = matrix.shape
    options: dict[str, Any] = {"dtype": matrix.dtype, "device": matrix.device}
    with no_grad():
        u = F.normalize(randn(rows, **options), dim=0, eps=eps)
        v = F.normalize(randn(columns, **options), dim=0, eps=eps)
    return u, v


def iterate(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Bring `u` and `v` nearer to the first singular vectors, in place."""
    with no_grad():
        for _ in range(count):
            u.copy_(F.normalize(mv(matrix, v), dim=0, eps=eps))
            v.copy_(F.normalize(mv(matrix.t(), u), dim=0, eps=eps))


def iterate_right_first(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """As `iterate`, beginning with `v`: the order of the form with hooks."""
    with no_grad():
        for _ in range(count):
            v.copy_(F.normalize(mv(matrix.t(), u), dim=0, eps=eps))
            u.copy_(F.normalize(mv(matrix, v), dim=0, eps=eps))


def largest_singular_value(matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """`u @ matrix @ v`, zero-dim; the vectors count as constants."""
    return dot(u, mv(matrix, v))
