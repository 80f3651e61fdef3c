"""What a launch has begun with other processes before it refuses its values.

Contract: while `following` runs a call, whoever begins something notes it. If the call refuses its
values, the program runs again as plain Python, and finds there what was begun: the others take part
once. What is begun twice would put a group out of step.
"""

import threading
from collections.abc import Callable
from typing import Any, Final


class Begun(threading.local):
    """What was begun by this thread. Mutable: each item is there until somebody takes it.

    Attributes:
        handed_over: by a launch that refused its values, in order.
    """

    def __init__(self) -> None:
        self.handed_over: list[Any] = []
        self._noted: list[Any] | None = None

    def note(self, item: Any) -> None:
        """Something was begun; outside of a launch nobody will begin it again."""
        if self._noted is not None:
            self._noted.append(item)

    def following(
        self, call: Callable[..., Any], refusals: tuple[type[Exception], ...]
    ) -> Callable[..., Any]:
        """The call, after which the plain run takes over what was begun.

        Args:
            call: of a launch.
            refusals: what it raises where it refuses its values.
        """

        def run(*inputs: Any) -> Any:
            outer, self._noted = self._noted, []
            try:
                return call(*inputs)
            except refusals:
                self.handed_over[:0] = self._noted
                raise
            finally:
                self._noted = outer

        return run


BEGUN: Final = Begun()
