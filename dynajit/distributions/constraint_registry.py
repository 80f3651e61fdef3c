"""Transforms from unconstrained values to those that a constraint accepts.

Contract: `biject_to(constraint)` is one-to-one, `transform_to(constraint)` need not be; `register`
adds to either.
"""

from collections.abc import Callable
from typing import Any

from dynajit.core.errors import ArgumentError, UnsupportedError
from dynajit.distributions import constraints, transforms


class ConstraintRegistry:
    """Constraint class -> function that makes its transform. Mutable."""

    def __init__(self) -> None:
        self._makers: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Enter a function of a constraint, for a constraint's class; also a decorator.

        Raises:
            TypeError: no constraint.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise ArgumentError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._makers[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform onto a constraint.

        Raises:
            NotImplementedError: none is known.
        """
        maker = self._makers.get(type(constraint))
        if maker is None:
            raise UnsupportedError(
                f"Cannot transform {type(constraint).__name__} constraints.  Register a transform."
            )
        return maker(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if not hasattr(low, "shape") and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    scaled = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), scaled])


def _to_above(constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _to_positive(constraint: Any) -> Any:
    bound = constraint.lower_bound
    is_zero = not hasattr(bound, "shape") and bound == 0
    return transforms.ExpTransform() if is_zero else _to_above(constraint)


def _to_below(constraint: Any) -> Any:
    turned = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), turned])


for _registry in (biject_to, transform_to):
    _registry.register(constraints.real, lambda constraint: transforms.identity_transform)
    _registry.register(constraints.greater_than, _to_positive)
    _registry.register(constraints.greater_than_eq, _to_positive)
    _registry.register(constraints.less_than, _to_below)
    _registry.register(constraints.interval, _to_interval)
    _registry.register(constraints.half_open_interval, _to_interval)
    _registry.register(
        constraints.independent,
        lambda constraint, registry=_registry: transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    _registry.register(
        constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform()
    )
    _registry.register(
        constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform()
    )
    _registry.register(
        constraints.cat,
        lambda constraint, registry=_registry: transforms.CatTransform(
            [registry(one) for one in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    _registry.register(
        constraints.stack,
        lambda constraint, registry=_registry: transforms.StackTransform(
            [registry(one) for one in constraint.cseq], constraint.dim
        ),
    )
for _matrices in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrices, lambda constraint: transforms.PositiveDefiniteTransform())
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
