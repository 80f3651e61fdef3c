"""Embedding: a table of vectors looked up by integer indices."""

from typing import Any

from dynajit.core.dtypes import DType
from dynajit.core.errors import ArgumentError, UnsupportedError
from dynajit.eager.creation import empty
from dynajit.eager.grad_mode import no_grad
from dynajit.eager.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn import init
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter


class Embedding(Module):
    """Rows of a learned table.

    Args:
        num_embeddings: number of rows.
        embedding_dim: size of each row.
        padding_idx: row that stays zero at first and gets no gradient.

    Shape: (*) int -> (*, embedding_dim).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if max_norm is not None or scale_grad_by_freq or sparse:
            raise UnsupportedError(
                "Embedding: max_norm, scale_grad_by_freq and sparse are not available.  "
                "Leave them at their defaults."
            )
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ArgumentError(
                    f"Embedding: padding_idx {padding_idx} must be within num_embeddings "
                    f"({num_embeddings})"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        if _weight is None:
            table = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Standard normal rows; the padding row zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """(*) int -> (*, embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> "Embedding":
        """An embedding whose table is `embeddings`, shape (num_embeddings, embedding_dim)."""
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze)

    def extra_repr(self) -> str:
        """Sizes, for repr."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
