"""Generators of Python's random numbers, and what was drawn from those that existed before."""

import functools
from collections.abc import Callable
from typing import Any

from dynajit.capture.values.containers import HeapValue
from dynajit.capture.values.symbolic import Opaque
from dynajit.core.records import record


class RandomValue(HeapValue):
    """A `random.Random` made by the captured code; contents: its state."""

    __slots__ = ()


@record(eq=False)
class Draw:
    """A call of a method of a generator that existed before.

    Args:
        generator: whose.
        name: of the method.
        args: known.
        keywords: known.
        state: of the generator behind it, in the call that is captured.
    """

    generator: Opaque
    name: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    state: Any

    @property
    def function(self) -> Callable[[Any], Any]:
        """Draws from the generator of another call."""
        return functools.partial(_drawn, self.name, self.args, self.keywords)


def _drawn(name: str, args: tuple[Any, ...], keywords: dict[str, Any], generator: Any) -> Any:
    return getattr(generator, name)(*args, **keywords)
