"""Where the parts of a tensor of several processes lie: PyTorch's words for it, as values.

Contract: placements can be made, compared and asked, since programs write plans of them. There are
no tensors of several processes that would follow one (`distributed.tensor`).
"""

from typing import Any


class Placement:
    """How a tensor lies on one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether every process has a part, split along `dim` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every process has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the whole is what processes have, reduced, by `reduce_op` if that is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


class _Value(Placement):
    """A placement that is equal to others of its class with the same contents. Immutable."""

    __slots__ = ("_contents",)

    def __init__(self, *contents: Any) -> None:
        self._contents = contents

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._contents == other._contents

    def __hash__(self) -> int:
        return hash((type(self), self._contents))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self._contents))
        return f"{type(self).__name__}({shown})"


class Shard(_Value):
    """Every process has a part.

    Args:
        dim: the dimension of the tensor that is split.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)

    @property
    def dim(self) -> int:
        """The dimension of the tensor that is split."""
        return self._contents[0]  # type: ignore[no-any-return]


class _StridedShard(Shard):
    """A part of each of several parts.

    Args:
        dim: the dimension of the tensor that is split.
        split_factor: into how many it was split before.
    """

    def __init__(self, dim: int, *, split_factor: int) -> None:
        _Value.__init__(self, dim, split_factor)

    @property
    def split_factor(self) -> int:
        """Into how many parts it was split before."""
        return self._contents[1]  # type: ignore[no-any-return]


class Replicate(_Value):
    """Every process has the whole."""

    def __init__(self) -> None:
        super().__init__()


class Partial(_Value):
    """The whole is what processes have, reduced.

    Args:
        reduce_op: how.
    """

    def __init__(self, reduce_op: str = "sum") -> None:
        super().__init__(reduce_op)

    @property
    def reduce_op(self) -> str:
        """How the parts are reduced."""
        return self._contents[0]  # type: ignore[no-any-return]


__all__ = ["Partial", "Placement", "Replicate", "Shard"]
