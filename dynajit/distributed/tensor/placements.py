"""Where the parts of a tensor of several processes lie on one dim of a mesh: PyTorch's words.

Contract: placements are values: they can be made, compared and asked. `layouts` says which elements
each process has by them.
"""

from typing import Any, Final

from dynajit.core.errors import InvalidValueError

REDUCTIONS: Final = ("sum", "avg", "max", "min", "product")
"""How parts that are `Partial` may be joined."""


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


class Shard(_Value):
    """Every process has a part, as `Tensor.chunk` makes them: the last ones may be smaller, or
    empty.

    Args:
        dim: the dimension of the tensor that is split.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)

    @property
    def dim(self) -> int:
        """The dimension of the tensor that is split."""
        return self._contents[0]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class _StridedShard(Shard):
    """A part of each of several parts: what a later dim of the mesh splits, too, was split by that
    first.

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

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(_Value):
    """Every process has the whole."""

    def __init__(self) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(_Value):
    """The whole is what processes have, reduced.

    Args:
        reduce_op: how: "sum", "avg", "max", "min" or "product".

    Raises:
        InvalidValueError: there is no such reduction.
    """

    def __init__(self, reduce_op: str = "sum") -> None:
        if reduce_op not in REDUCTIONS:
            raise InvalidValueError(
                f"Partial({reduce_op!r}): no such reduction.  Expected one of "
                f"{', '.join(REDUCTIONS)}."
            )
        super().__init__(reduce_op)

    @property
    def reduce_op(self) -> str:
        """How the parts are reduced."""
        return self._contents[0]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


__all__ = ["Partial", "Placement", "Replicate", "Shard"]
