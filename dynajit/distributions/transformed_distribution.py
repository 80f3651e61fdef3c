"""The distribution of a function of a random value."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.independent import Independent
from dynajit.distributions.transforms import ComposeTransform, Transform
from dynajit.distributions.utils import sum_rightmost
from dynajit.eager.modes.grad_mode import no_grad


class TransformedDistribution(Distribution):
    """Values of a base distribution, sent through transforms.

    Args:
        base_distribution: what is drawn from.
        transforms: one transform or a list, applied in order.

    Raises:
        ValueError: something else than transforms, or the base has too few dims.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(one, Transform) for one in self.transforms):
            raise InvalidValueError(
                f"transforms must be a Transform or a list of Transforms, but was {transforms}"
            )
        whole = ComposeTransform(self.transforms)
        base_shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        if len(base_shape) < whole.domain.event_dim:
            raise InvalidValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {base_distribution}."
            )
        base_event = len(base_distribution.event_shape)
        reinterpreted = whole.domain.event_dim - base_event
        self.base_dist: Any = (
            Independent(base_distribution, reinterpreted)
            if reinterpreted > 0
            else base_distribution
        )
        event_dim = whole.codomain.event_dim + max(base_event - whole.domain.event_dim, 0)
        shape = tuple(whole.forward_shape(base_shape))
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        new.transforms = self.transforms
        shape = (*batch_shape, *self._event_shape)
        for transform in reversed(self.transforms):
            shape = tuple(transform.inverse_shape(shape))
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])
        return super().expand(batch_shape, new)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has."""
        return bool(self.base_dist.has_rsample)

    @constraints.dependent_property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        missing = len(self._event_shape) - found.event_dim
        return constraints.independent(found, missing) if missing > 0 else found

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            value = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                value = transform(value)
            return value

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        value = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            value = transform(value)
        return value

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        event_dim, total, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(change, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _sign(self) -> Any:
        found = 1
        for transform in self.transforms:
            found = found * transform.sign
        return found

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        sign = self._sign()
        return sign * (self.base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Any) -> Any:
        found = self.base_dist.icdf(self._sign() * (value - 0.5) + 0.5)
        for transform in self.transforms:
            found = transform(found)
        return found


__all__ = ["TransformedDistribution"]
