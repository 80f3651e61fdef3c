"""Ready-made parametrizations: orthogonal matrices, weight norm, spectral norm.

Contract: as `torch.nn.utils.parametrizations`.

Source: M. Lezcano-Casado, D. Martinez-Rubio, arXiv:1901.08428 (orthogonal); `weight_forms` names
those of the norms.
"""

import enum
from typing import Any

from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.linalg import matrix_exp, qr, solve
from dynajit.nn import functional as F
from dynajit.nn.module import Module
from dynajit.nn.utils import parametrize
from dynajit.nn.utils.reflections import product_of_reflections, reflections_of
from dynajit.nn.utils.weight_forms import (
    TRANSPOSED,
    as_matrix,
    drawn_vectors,
    iterate,
    largest_singular_value,
    norm_except_dim,
    weight_of,
)
from dynajit.ops.functions import cat, eye, randn, zeros_like


class _OrthMaps(enum.Enum):
    """How a matrix becomes an orthogonal one."""

    matrix_exp = enum.auto()
    cayley = enum.auto()
    householder = enum.auto()


def _with_orthogonal_columns(tall: Tensor) -> Tensor:
    """The orthogonal factor of a (..., n, k) matrix, with a positive triangular diagonal."""
    q, r = qr(tall)
    signs = r.diagonal(dim1=-2, dim2=-1).sign()
    return q * signs.unsqueeze(-2)


def _is_orthogonal(tall: Tensor) -> bool:
    size = tall.shape[-1]
    wanted = eye(size, dtype=tall.dtype, device=tall.device)
    difference = (tall.mT @ tall - wanted).abs().max()
    bound = 10.0 * size * _epsilon(tall)
    return float(difference) <= bound


def _epsilon(tensor: Tensor) -> float:
    return 2.0**-52 if tensor.dtype.itemsize == 8 else 2.0**-23


class _Orthogonal(Module):
    """(..., n, k) to a matrix of that shape with orthonormal columns, or rows where n < k."""

    base: Any

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.has_base = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if wide else X
        if self.orthogonal_map is _OrthMaps.householder:
            result = _by_reflections(tall)
        else:
            result = self._by_skew_matrix(tall)
        if self.has_base:
            result = self.base @ result
        return result.mT if wide else result

    def _by_skew_matrix(self, tall: Tensor) -> Tensor:
        rows, columns = tall.shape[-2], tall.shape[-1]
        lower = tall.tril()
        if rows != columns:
            rest = lower.new_zeros((*lower.shape[:-2], rows, rows - columns))
            lower = cat([lower, rest], dim=-1)
        skew = lower - lower.mT
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            square = matrix_exp(skew)
        else:
            one = eye(rows, dtype=skew.dtype, device=skew.device)
            square = solve(one - 0.5 * skew, one + 0.5 * skew)
        return square if rows == columns else square[..., :columns]

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """What `forward` makes Q of, or what is next to it; sets `base`.

        Raises:
            ValueError: the shape is another.
            NotImplementedError: there is no base, and the map has no inverse here.
        """
        if tuple(Q.shape) != tuple(self.shape):
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {tuple(self.shape)}. Got a "
                f"tensor of shape {tuple(Q.shape)}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        if not self.has_base:
            kept = self._without_base(tall)
            return kept.mT if wide else kept
        rows, columns = tall.shape[-2], tall.shape[-1]
        if rows == columns:
            self.base = tall.clone() if _is_orthogonal(tall) else _with_orthogonal_columns(tall)
        else:
            drawn = randn(
                (*tall.shape[:-2], rows, rows - columns), dtype=tall.dtype, device=tall.device
            )
            self.base = _with_orthogonal_columns(cat([tall, drawn], dim=-1))
        # Zeros below the diagonal, and -1 on it, are the identity for each of the maps.
        identity = zeros_like(Q)
        identity.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return identity

    def _without_base(self, tall: Tensor) -> Tensor:
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        vectors, factors = reflections_of(tall)
        diagonal = vectors.diagonal(dim1=-2, dim2=-1)
        # A column without a reflection has factor 0; in `forward` it will have 2, a change of sign.
        diagonal.copy_(diagonal.sign() * (1 - 2 * (factors == 0).to(diagonal.dtype)))
        return vectors


def _by_reflections(tall: Tensor) -> Tensor:
    vectors = tall.tril(-1)
    factors = 2.0 / (1.0 + (vectors * vectors).sum(-2))
    signs = tall.detach().diagonal(dim1=-2, dim2=-1).trunc()
    return product_of_reflections(vectors, factors) * signs.unsqueeze(-2)


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Keep a matrix, or each of a batch, orthogonal; returns the module.

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder"; None: the first for square
            matrices, else the last.
        use_trivialization: keep a base that is multiplied to what is trained; any orthogonal
            matrix can then be assigned.

    Raises:
        ValueError: no such parameter, fewer than two dims, or no such map.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square else "householder"
    chosen = _OrthMaps.__members__.get(orthogonal_map)
    if chosen is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module


class _WeightNorm(Module):
    """A norm and a direction to a weight."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_of(weight_g, weight_v, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Its norm and its direction."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replace a parameter by its norm `original0` and direction `original1`; returns the module.

    State dicts of the older form (`<name>_g`, `<name>_v`) can be loaded, too.

    Args:
        dim: the dim whose slices have a norm each; None: one norm for the whole weight.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(module: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{number}"
                state_dict[new] = state_dict.pop(key)

    module.register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight over its largest singular value; the buffers are its singular vectors."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        self.is_vector = weight.ndim == 1
        if self.is_vector:
            return
        self.n_power_iterations = n_power_iterations
        matrix = as_matrix(weight.detach(), self.dim)
        u, v = drawn_vectors(matrix, eps)
        self.register_buffer("_u", u)
        self.register_buffer("_v", v)
        iterate(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if self.is_vector:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterate(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        # Clones: backward needs what the next call overwrites.
        return weight / largest_singular_value(matrix, self._u.clone(), self._v.clone())

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value: its norm is not known to be 1."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a parameter by its largest singular value; returns the module.

    Args:
        n_power_iterations: steps of the power iteration each time it is computed in training.
        eps: keeps norms from 0.
        dim: the dim of the output channels; None: 1 for transposed convolutions, else 0.

    Raises:
        ValueError: no such parameter, or `n_power_iterations` is not positive.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if isinstance(module, TRANSPOSED) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, made)
    return module


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
