"""Constraints: sets of values that parameters and samples must lie in.

Contract: `check(value)` gives a bool tensor, one element per event: the last `event_dim` dims of
the value are one event. Distributions name constraints in `arg_constraints` and `support`; names
and texts are PyTorch's.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.process import late
from dynajit.core.types import dtypes
from dynajit.core.types.type_info import finfo
from dynajit.ops import functions
from dynajit.ops.calls.contents import holds
from dynajit.ops.functions import full, isclose, ones
from dynajit.ops.functions.matrices.linalg import cholesky, eigvalsh
from dynajit.ops.table.dispatch import is_recording


class Constraint:
    """A set of values. Subclasses define `check`.

    `is_discrete` and `event_dim` say what an event is.
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Any:
        """Per event, whether it lies in the set: a bool tensor."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters; it cannot be checked by itself."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> Any:
        """The same with other facts."""
        return _Dependent(
            is_discrete=self.is_discrete if is_discrete is None else is_discrete,
            event_dim=self.event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Any) -> Any:
        """It cannot.

        Raises:
            ValueError: always.
        """
        raise InvalidValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint cannot be checked by itself."""
    return isinstance(constraint, (_Dependent, dependent_property))


def are_met(constraint: Any, value: Any) -> bool:
    """Whether a value lies in a set, which recorded operations check when they run.

    A factorization refuses what has no positive pivots: a graph has it once, with the one that a
    distribution computes with.
    """
    if isinstance(constraint, _PositiveDefinite) and is_recording():
        is_symmetric = holds(_Symmetric.check(constraint, value))
        cholesky(value)
        return is_symmetric
    return holds(constraint.check(value))


class dependent_property(property):
    """A property that gives a constraint, as `support` where it depends on parameters.

    Args:
        fn: the method.
        is_discrete, event_dim: facts that hold for every instance.
    """

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: bool = False,
        event_dim: int = 0,
    ) -> None:
        super().__init__(fn)
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> "dependent_property":
        """Use as a decorator with arguments."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _IndependentConstraint(Constraint):
    """Events that are blocks of smaller ones, which must all lie in `base_constraint`."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        count = self.reinterpreted_batch_ndims
        found = self.base_constraint.check(value)
        if len(found.shape) < count:
            raise InvalidValueError(
                f"Expected value.dim() >= {self.event_dim} but got {len(value.shape)}"
            )
        return found if count == 0 else found.flatten(-count).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Real(Constraint):
    """Every number but NaN."""

    def check(self, value: Any) -> Any:
        return value == value


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _Bounded(Constraint):
    """Base of the sets between bounds, which their text names."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _GreaterThan(_Bounded):
    """Above a bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return value > self.lower_bound


class _GreaterThanEq(_GreaterThan):
    """At or above a bound."""

    def check(self, value: Any) -> Any:
        return value >= self.lower_bound


class _LessThan(_Bounded):
    """Below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Bounded):
    """Between two bounds, which belong to it."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """Between two bounds, of which the lower belongs to it."""

    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """Whole numbers between two bounds, which belong to it."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return super().check(value) & (value % 1 == 0)


class _IntegerGreaterThan(_GreaterThanEq):
    """Whole numbers at or above a bound."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Simplex(Constraint):
    """Vectors of numbers that are not negative and sum to 1."""

    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    """Vectors of zeros and one 1."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Vectors of counts with a sum of at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Such matrices whose rows have length 1: Cholesky factors of correlations."""

    def check(self, value: Any) -> Any:
        # What rounding may make of a length, ten times.
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        unit = ((value.pow(2).sum(-1).sqrt() - 1).abs() <= tolerance).all(-1)
        return super().check(value) & unit


class _Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        *batch, rows, columns = value.shape
        return full(tuple(batch), rows == columns, dtype=dtypes.bool_, device=value.device)


class _Symmetric(_Square):
    """Matrices that equal their transposes, but for rounding."""

    def check(self, value: Any) -> Any:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return symmetric & (eigvalsh(value) >= 0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive pivots."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        square = value.shape[-2] == value.shape[-1]
        return symmetric & _has_positive_pivots(value) if square else symmetric


def _has_positive_pivots(value: Any) -> Any:
    """Per matrix, whether elimination meets positive pivots only."""
    size = value.shape[-1]
    good = ones(tuple(value.shape[:-2]), dtype=value.dtype, device=value.device) > 0
    rest = value
    for _ in range(size):
        pivot = rest[..., 0, 0]
        good = good & (pivot > 0)
        column = rest[..., 1:, 0]
        outer = column.unsqueeze(-1) * column.unsqueeze(-2)
        rest = rest[..., 1:, 1:] - outer / pivot.unsqueeze(-1).unsqueeze(-1)
    return good


class _Parts(Constraint):
    """Base of the sets whose parts along a dim lie in different sets."""

    def __init__(self, cseq: Sequence[Any], dim: int) -> None:
        if not all(isinstance(one, Constraint) for one in cseq):
            raise AssertionError(f"{self!r}: expected constraints, not {list(cseq)}")
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(one.is_discrete for one in cseq)
        self.event_dim = max(one.event_dim for one in cseq)


class _Cat(_Parts):
    """Parts of the given lengths (1 each by default), side by side along a dim."""

    def __init__(
        self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"cat: {len(self.lengths)} lengths for {len(self.cseq)} constraints"
            )

    def check(self, value: Any) -> Any:
        parts = zip(self.cseq, value.split(self.lengths, self.dim), strict=True)
        return functions.cat([one.check(part) for one, part in parts], self.dim)


class _Stack(_Parts):
    """Parts stacked along a dim."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        super().__init__(cseq, dim)
        self.event_dim += int(dim + self.event_dim < 0)

    def check(self, value: Any) -> Any:
        parts = zip(self.cseq, value.unbind(self.dim), strict=True)
        return functions.stack([one.check(part) for one, part in parts], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """Values that every component of a mixture may draw.

    Args:
        base_constraint: the support of the components.
    """

    def __init__(self, base_constraint: Any) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"base_constraint must be a Constraint, got {type(base_constraint).__name__}"
            )
        self.base_constraint = base_constraint
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim

    def check(self, value: Any) -> Any:
        batch = len(value.shape) - self.event_dim
        if batch < 0:
            raise InvalidValueError(
                f"Expected value.dim() >= {self.event_dim} but got {len(value.shape)}"
            )
        found = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return found.flatten(batch).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


boolean = _Boolean()
cat = _Cat
corr_cholesky = _CorrCholesky()
dependent = _Dependent()
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
half_open_interval = _HalfOpenInterval
independent = _IndependentConstraint
integer_interval = _IntegerInterval
interval = _Interval
less_than = _LessThan
lower_cholesky = _LowerCholesky()
lower_triangular = _LowerTriangular()
multinomial = _Multinomial
nonnegative = _GreaterThanEq(0.0)
nonnegative_integer = _IntegerGreaterThan(0)
one_hot = _OneHot()
positive = _GreaterThan(0.0)
positive_definite = _PositiveDefinite()
positive_integer = _IntegerGreaterThan(1)
positive_semidefinite = _PositiveSemidefinite()
real = _Real()
real_vector = independent(real, 1)
simplex = _Simplex()
square = _Square()
stack = _Stack
symmetric = _Symmetric()
unit_interval = _Interval(0.0, 1.0)

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

late.show(__name__)
