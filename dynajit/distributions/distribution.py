"""`Distribution`: what every distribution has, and how its arguments are checked.

Contract: samples have shape `sample_shape + batch_shape + event_shape`; `log_prob` of a value has
what is left without the event. Parameters and values are checked unless `validate_args=False`; in
compiled regions, the launch checks them (`ops.calls.contents`). Subclasses name their parameters
in `_parameter_dims` (how many dims of each belong to the event) and define what they can; what they
do not define raises NotImplementedError. Names and errors are PyTorch's.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributions import constraints
from dynajit.distributions.utils import lazy_property
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Size, Tensor
from dynajit.ops.functions import exp


class Distribution:
    """Base class.

    Args:
        batch_shape: shape over which parameters are batched.
        event_shape: shape of one sample of one batch entry.
        validate_args: whether arguments are checked; None: the default, see
            `set_default_validate_args`.

    Raises:
        ValueError: a parameter lies outside of its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _parameter_dims: Mapping[str, int] = {}

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments where they do not say so themselves.

        Raises:
            ValueError: not a bool.
        """
        if value not in (True, False):
            raise InvalidValueError(f"set_default_validate_args({value!r}): expected a bool.")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = tuple(batch_shape)
        self._event_shape = tuple(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()  # of what a program derives it together with

    def _check_parameters(self) -> None:
        try:
            known = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=4,
            )
            return
        for name, constraint in known.items():
            late = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (late and name not in vars(self)):
                continue
            value = getattr(self, name)
            if not constraints.are_met(constraint, value):
                raise InvalidValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    # -- shapes -------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return Size(self._batch_shape)

    @property
    def event_shape(self) -> Size:
        """The shape of one sample of one batch entry."""
        return Size(self._event_shape)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution with its parameters expanded to another batch shape."""
        new = self._get_checked_instance(type(self), _instance)
        for name, dims in self._parameter_dims.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                kept = tuple(value.shape)[len(value.shape) - dims :]
                setattr(new, name, value.expand(*batch_shape, *kept))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> tuple[int, ...]:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    # -- what subclasses define ---------------------------------------------------------------

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Parameter name -> constraint."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw values, without gradients: shape sample_shape + batch_shape + event_shape."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw values that have gradients with respect to the parameters.

        Raises:
            NotImplementedError: the distribution cannot be drawn from so.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """`sample((n,))`, of older programs."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability at a value."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The value below which this probability lies."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution, along a new first dim."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return exp(self.entropy())

    # -- checks and text ----------------------------------------------------------------------

    def _validate_sample(self, value: Any) -> None:
        """Refuse what is no value of this distribution.

        Raises:
            ValueError: it is no tensor, its shape does not fit, or it lies outside the support.
        """
        if not isinstance(value, Tensor):
            raise InvalidValueError("The value argument to log_prob must be a Tensor")
        _check_event(tuple(value.shape), tuple(self._event_shape))
        _check_batch(tuple(value.shape), (*self._batch_shape, *self._event_shape))
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not constraints.are_met(support, value):
            raise InvalidValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        texts = [f"{name}: {_in_text(self.__dict__[name])}" for name in names]
        return f"{type(self).__name__}({', '.join(texts)})"


def _in_text(value: Any) -> str:
    return str(value.item()) if value.numel() == 1 else str(value.shape)


def _check_event(shape: tuple[int, ...], event: tuple[int, ...]) -> None:
    if shape[len(shape) - len(event) :] != event:
        raise InvalidValueError(
            f"The right-most size of value must match event_shape: {list(shape)} vs {list(event)}."
        )


def _check_batch(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    for given, wanted in zip(reversed(shape), reversed(expected), strict=False):
        if given != 1 and wanted != 1 and given != wanted:
            raise InvalidValueError(
                "Value is not broadcastable with batch_shape+event_shape: "
                f"{list(shape)} vs {list(expected)}."
            )


class ExponentialFamily(Distribution):
    """Base class of distributions whose density is exp of an inner product: a name to ask for."""


__all__ = ["Distribution", "ExponentialFamily"]
