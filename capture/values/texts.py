"""Texts of numbers that are not known before the launch."""

from collections.abc import Callable
from typing import Any

from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record


@record(eq=False)
class LaterText(Value):
    """A text that is made when the launch is over: of numbers that it computes, or that differ
    between the turns of a loop.

    Args:
        function: makes it, and raises nothing.
        arguments: of the function: such numbers, such texts, and literals.
    """

    function: Callable[..., Any]
    arguments: tuple[Value, ...]

    @property
    def python_type(self) -> type:
        return str


__all__ = ["LaterText"]
