"""Transforms of parts along a dim: `CatTransform` and `StackTransform`.

Contract: as `transform_base`. `transforms` publishes both.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.transform_base import Transform
from dynajit.distributions.utils import sum_rightmost
from dynajit.ops.functions import cat, stack


class _PartsTransform(Transform):
    """Base class: what both share."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(one, Transform) for one in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(one.bijective for one in self.transforms)

    def _parts(self, value: Any) -> list[Any]:
        raise NotImplementedError

    def _check_dim(self, value: Any, size: int) -> None:
        """Refuse what does not have as many parts.

        Raises:
            AssertionError: it does not.
        """
        rank = len(value.shape)
        if not -rank <= self.dim < rank or value.shape[self.dim] != size:
            raise AssertionError(
                f"{type(self).__name__}: expected size {size} in dim {self.dim}, got shape "
                f"{tuple(value.shape)}"
            )


class CatTransform(_PartsTransform):
    """A transform per part, as of `cat`.

    Args:
        tseq: the transforms.
        dim: along which the parts lie.
        lengths: of the parts; 1 each by default.

    Raises:
        AssertionError: something else than transforms, or another number of lengths.
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"CatTransform: {len(self.lengths)} lengths for {len(self.transforms)} transforms"
            )

    @property
    def length(self) -> int:
        """The size of the dim."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        same = self._cache_size == cache_size
        return self if same else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.cat([one.domain for one in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([one.codomain for one in self.transforms], self.dim, self.lengths)

    def _parts(self, value: Any) -> list[Any]:
        self._check_dim(value, self.length)
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return cat([one(part) for one, part in pairs], self.dim)

    def _inverse(self, y: Any) -> Any:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return cat([one.inv(part) for one, part in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        found = []
        for one, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            change = one.log_abs_det_jacobian(a, b)
            found.append(sum_rightmost(change, self.event_dim - one.event_dim))
        # Where the dim belongs to the event, its parts add up.
        dim = self.dim - (len(x.shape) if self.dim >= 0 else 0) + self.event_dim
        return cat(found, dim) if dim < 0 else sum(found)


class StackTransform(_PartsTransform):
    """A transform per position along a dim, as of `stack`.

    Args:
        tseq: the transforms.
        dim: along which the parts lie.

    Raises:
        AssertionError: something else than transforms.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Any:
        same = self._cache_size == cache_size
        return self if same else StackTransform(self.transforms, self.dim, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.stack([one.domain for one in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([one.codomain for one in self.transforms], self.dim)

    def _parts(self, value: Any) -> list[Any]:
        self._check_dim(value, len(self.transforms))
        return list(value.unbind(self.dim))

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return stack([one(part) for one, part in pairs], self.dim)

    def _inverse(self, y: Any) -> Any:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return stack([one.inv(part) for one, part in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return stack([one.log_abs_det_jacobian(a, b) for one, a, b in triples], self.dim)
