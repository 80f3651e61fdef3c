"""A function that is inlined on trial: see `capture.python.remembered_calls`."""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from dynajit.capture.values.symbolic import Value

#: Instructions that are inlined on trial, a few tenths of a second.
MOST_TRIED: Final = 20_000


class Trial:
    """Ended by a break, or by too many instructions (mutable).

    Args:
        run_plainly: ends the capture with a SkipFrame: the frame runs as plain Python.

    Attributes:
        results: by function and key, what others would remember by now.
    """

    def __init__(self, run_plainly: Callable[[], NoReturn]) -> None:
        self.end = run_plainly
        self._instructions = 0
        self.results: dict[tuple[int, Any], Value] = {}

    def step(self) -> None:
        """Count an instruction.

        Raises:
            SkipFrame: running the function plainly is cheaper.
        """
        self._instructions += 1
        if self._instructions > MOST_TRIED:
            self.end()
