"""Mixtures of distributions of one family."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributions import constraints
from dynajit.distributions.categorical import Categorical
from dynajit.distributions.distribution import Distribution
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Size
from dynajit.ops.functions import log_softmax


class MixtureSameFamily(Distribution):
    """A draw of one component, which a Categorical chooses.

    Args:
        mixture_distribution: the Categorical, of k numbers.
        component_distribution: the components, along its last batch dim of size k.

    Raises:
        ValueError: something else than these, or shapes that do not fit.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        _check_parts(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        batch, event = component_distribution.batch_shape, component_distribution.event_shape
        super().__init__(tuple(batch)[:-1], event, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        count = self._component_distribution.batch_shape[-1]
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._component_distribution = self._component_distribution.expand((*batch_shape, count))
        return super().expand(batch_shape, new)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The Categorical."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _with_component_dim(self, value: Any) -> Any:
        return value.unsqueeze(-1 - len(self._event_shape))

    def _average(self, values: Any) -> Any:
        """The weighted sum of what the components have, shape batch_shape + event_shape."""
        weights = self._mixture_distribution.probs
        for _ in self._event_shape:
            weights = weights.unsqueeze(-1)
        return (weights * values).sum(-1 - len(self._event_shape))

    @property
    def mean(self) -> Any:
        return self._average(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        parts = self._component_distribution
        distance = parts.mean - self._with_component_dim(self.mean)
        return self._average(parts.variance + distance.pow(2))

    def cdf(self, x: Any) -> Any:
        found = self._component_distribution.cdf(self._with_component_dim(x))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        found = self._component_distribution.log_prob(self._with_component_dim(x))
        return (found + log_softmax(self._mixture_distribution.logits, dim=-1)).logsumexp(-1)

    def _chooser(self) -> Any:
        """The Categorical with the batch of the components: each draws for itself."""
        mixture = self._mixture_distribution
        same = tuple(mixture.batch_shape) == self._batch_shape
        return mixture if same else mixture.expand(self._batch_shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            chosen = self._chooser().sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            for _ in range(1 + len(self._event_shape)):
                chosen = chosen.unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            positions = chosen.expand(*shape[:dim], 1, *shape[dim:])
            return drawn.gather(dim, positions).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self._mixture_distribution},\n  "
            f"{self._component_distribution})"
        )


def _check_parts(mixture: Any, component: Any) -> None:
    if not isinstance(mixture, Categorical):
        raise InvalidValueError(
            " The Mixture distribution needs to be an instance of dynajit.distributions.Categorical"
        )
    if not isinstance(component, Distribution):
        raise InvalidValueError(
            "The Component distribution needs to be an instance of "
            "dynajit.distributions.Distribution"
        )
    batch, wanted = tuple(mixture.batch_shape), tuple(component.batch_shape)
    for given, expected in zip(reversed(batch), reversed(wanted[:-1]), strict=False):
        if given != 1 and expected != 1 and given != expected:
            raise InvalidValueError(
                f"`mixture_distribution.batch_shape` ({Size(batch)}) is not compatible with "
                f"`component_distribution.batch_shape`({Size(wanted[:-1])})"
            )
    count = mixture.param_shape[-1]
    if not wanted or count != wanted[-1]:
        raise InvalidValueError(
            f"`mixture_distribution component` ({count}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({wanted[-1] if wanted else 'none'})"
        )


__all__ = ["MixtureSameFamily"]
