"""Tables of vectors looked up by integers: Embedding, EmbeddingBag."""

from typing import Any

from dynajit.core.errors import ExpectationError
from dynajit.core.types.dtypes import DType
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn import init
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.ops.functions.networks.embedding import row_number


class _Table(Module):
    """A learned table, and how its rows are looked up."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
        max_norm: float | None, norm_type: float, scale_grad_by_freq: bool, sparse: bool,
        weight: Tensor | None, is_frozen: bool, device: Any, dtype: DType | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else row_number(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            table = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not is_frozen)
            self.reset_parameters()
            return
        if tuple(weight.shape) != (num_embeddings, embedding_dim):
            raise ExpectationError(
                "Shape of weight does not match num_embeddings and embedding_dim: "
                f"{tuple(weight.shape)} is not {(num_embeddings, embedding_dim)}"
            )
        self.weight = Parameter(weight, requires_grad=not is_frozen)

    def reset_parameters(self) -> None:
        """Standard normal rows; the padding row zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _sizes_of(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise ExpectationError(
            "Embeddings parameter is expected to be 2-dimensional, but has "
            f"{embeddings.dim()} dimensions"
        )
    count, width = embeddings.shape
    return count, width


class Embedding(_Table):
    """Rows of a learned table.

    Args:
        num_embeddings: number of rows.
        embedding_dim: size of each row.
        padding_idx: row that stays zero at first and gets no gradient.
        max_norm: rows that are looked up and longer are shortened in place.
        norm_type: which norm.
        scale_grad_by_freq: whether a row's gradient is divided by how often it is looked up.
        sparse: whether the gradient of the table is a sparse tensor, for `SGD`, `SparseAdam` and
            `Adagrad`.

    Shape: (*) int -> (*, embedding_dim).

    Raises:
        ExpectationError: there is no row `padding_idx`.
        UnsupportedError: in a call, for `sparse` together with `scale_grad_by_freq`.
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
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, _freeze, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """(*) int -> (*, embedding_dim)."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> "Embedding":
        """An embedding whose table is `embeddings`, shape (num_embeddings, embedding_dim)."""
        return cls(
            *_sizes_of(embeddings),
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )

    def extra_repr(self) -> str:
        """Sizes and options, for repr."""
        options = {
            "padding_idx": (self.padding_idx, None),
            "max_norm": (self.max_norm, None),
            "norm_type": (self.norm_type, 2),
            "scale_grad_by_freq": (self.scale_grad_by_freq, False),
            "sparse": (self.sparse, False),
        }
        changed = [f"{name}={value}" for name, (value, usual) in options.items() if value != usual]
        return ", ".join([str(self.num_embeddings), str(self.embedding_dim), *changed])


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a learned table, one per bag.

    Args:
        num_embeddings: number of rows.
        embedding_dim: size of each row.
        max_norm, norm_type, scale_grad_by_freq, sparse, padding_idx: see `Embedding`; the row
            `padding_idx` counts in no bag.
        mode: "sum", "mean" or "max".
        include_last_offset: whether one more offset says where the last bag ends.

    Shape: (bags, size) int, or (samples) int with offsets (bags) -> (bags, embedding_dim).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, False, device, dtype,
        )  # fmt: skip
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """See `nn.functional.embedding_bag`."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> "EmbeddingBag":
        """Bags over the table `embeddings`, shape (num_embeddings, embedding_dim)."""
        made = cls(
            *_sizes_of(embeddings),
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made

    def extra_repr(self) -> str:
        """Sizes and options, for repr."""
        options = {
            "max_norm": (self.max_norm, None),
            "norm_type": (self.norm_type, 2),
            "scale_grad_by_freq": (self.scale_grad_by_freq, False),
        }
        changed = [f"{name}={value}" for name, (value, usual) in options.items() if value != usual]
        padding = [] if self.padding_idx is None else [f"padding_idx={self.padding_idx}"]
        sizes = [str(self.num_embeddings), str(self.embedding_dim)]
        return ", ".join([*sizes, *changed, f"mode={self.mode!r}", *padding])
