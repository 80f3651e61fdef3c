"""Checks of contents: what functions ask of the elements of their operands before they compute.

Contract: a function that refuses elements asks `holds` or `occurs` and raises. Eager execution
looks the answer up. Where operations are recorded there is no answer yet: the one that refuses
nothing is taken for granted, and what is recorded checks it. A launch that finds it wrong refuses
its values, and the call runs eagerly, where the same question is asked again and the error raised
(`capture.emit.plain_run`). So such a function must not look at `dispatch.is_recording` itself.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynajit.core.types import dtypes
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.table.dispatch import is_recording
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


def holds(condition: Any) -> bool:
    """True if a bool tensor is True everywhere: looked up, or taken for granted and recorded.

    Args:
        condition: of any shape.
    """
    if not is_recording():
        return bool(_of_all_samples(condition).all())
    require(everywhere(condition))
    return True


def occurs(condition: Any) -> bool:
    """True if a bool tensor is True somewhere: looked up, or ruled out and recorded."""
    if not is_recording():
        return bool(_of_all_samples(condition).any())
    require(TABLE.logical_not(_somewhere(condition)))
    return False


def _of_all_samples(condition: Any) -> Any:
    """A condition on a tensor that holds samples, for all of them."""
    while not getattr(condition, "_has_array", True) and hasattr(condition, "_batch"):
        condition = condition._batch
    return condition


def accepts(x: "TensorMethods", condition: Callable[[Any], Any]) -> bool:
    """Whether a condition `holds` of the elements of a tensor in this machine's memory; True of
    others, which nobody waits for.

    Args:
        condition: gives a bool tensor; NaN holds in no comparison.
    """
    return x.device.type != "cpu" or holds(condition(TABLE.detach(x)))


def are_probabilities(x: "TensorMethods | float") -> bool:
    """Whether a number, or all elements of a tensor (see `accepts`), lie in [0, 1]."""
    if is_tensor(x):
        return accepts(x, lambda p: TABLE.logical_and(TABLE.ge(p, 0), TABLE.le(p, 1)))
    return bool(0 <= x <= 1)


def everywhere(condition: Any) -> Any:
    """Whether all elements hold, as a bool tensor without dims."""
    dims = tuple(range(len(condition.shape)))
    return TABLE.all(condition, dim=dims, keepdim=False) if dims else condition


def _somewhere(condition: Any) -> Any:
    dims = tuple(range(len(condition.shape)))
    return TABLE.any(condition, dim=dims, keepdim=False) if dims else condition


def require(truth: Any) -> Any:
    """Record that a bool tensor holds: the divisor of an integer division, which may not be 0.

    Nobody reads the quotient; rows that may refuse stay outputs of a captured graph.
    """
    return TABLE.floor_divide(1, TABLE.cast(truth, dtype=dtypes.int64))


__all__ = ["accepts", "are_probabilities", "everywhere", "holds", "occurs", "require"]
