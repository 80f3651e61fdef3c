"""Where a call of a row is its own operand, or one call where two were written.

Contract: what a rule says holds to the bit for every value, NaN, infinities, -0 and integers that
wrap around included. Rows name theirs (`RowFacts.same`, `twice` and `neutral`); passes read them.
"""

import math
from collections.abc import Mapping
from typing import Any

from dynajit.core.types.dtypes import Category, DType

# -- same: of the attributes ----------------------------------------------------------------------


def always(**attributes: Any) -> bool:
    """Whatever the attributes are: the type of the result says everything."""
    return True


def in_order(*, dims: tuple[int, ...]) -> bool:
    """Dims that stay where they are."""
    return dims == tuple(range(len(dims)))


def without_gaps(*, step: tuple[int, ...], **bounds: Any) -> bool:
    """A slice that leaves no element out between two."""
    return all(by == 1 for by in step)


# -- twice: of the attributes of two calls, one on the result of the other ------------------------


def undone(first: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    """The second call undoes the first."""


def the_later(first: Mapping[str, Any], then: Mapping[str, Any]) -> Mapping[str, Any]:
    """The second call alone does the same."""
    return then


def composed_orders(first: Mapping[str, Any], then: Mapping[str, Any]) -> Mapping[str, Any]:
    """Orders of dims, one after the other."""
    return {"dims": tuple(first["dims"][d] for d in then["dims"])}


# -- neutral: of a number, and of the result's dtype -----------------------------------------------


def added_nothing(number: Any, dtype: DType) -> bool:
    """0 for integers; -0 for floats: -0 + 0 is 0, so 0 is not neutral there."""
    if dtype.category is Category.FLOATING:
        return _is_negative_zero(number)
    return bool(number == 0) and dtype.category is Category.INTEGER


def subtracted_nothing(number: Any, dtype: DType) -> bool:
    """0, but not -0: -0 - -0 is 0."""
    return bool(number == 0) and not _is_negative_zero(number)


def one(number: Any, dtype: DType) -> bool:
    """1, of any kind of number."""
    return bool(number == 1)


def _is_negative_zero(number: Any) -> bool:
    return isinstance(number, float) and number == 0 and math.copysign(1.0, number) < 0
