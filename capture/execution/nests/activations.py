"""Functions that run in a loop nest, and the paths out of it.

Contract: an `Activation` is copied where paths part; values are those of `values`.
"""

from typing import Any

from dynajit.capture.bytecode.instructions import Body
from dynajit.capture.execution.nests.values import Handed
from dynajit.capture.machine.frames import Frame
from dynajit.core.records import record


class Activation:
    """One function that runs in a nest. Mutable.

    Args:
        frame: its code, and where its globals are.
        locals: by name.
        stack: the deepest first.
        index: of the next instruction.
        cells: the variables among `locals` that inner functions know.
    """

    __slots__ = ("cells", "frame", "index", "locals", "stack")

    def __init__(
        self, frame: Frame, locals: dict[str, Any], stack: list[Any], index: int,
        cells: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.frame, self.locals, self.stack, self.index = frame, locals, stack, index
        self.cells = cells

    @property
    def body(self) -> Body:
        """The instructions."""
        return self.frame.body

    def copy(self) -> "Activation":
        """The same, to go on by itself."""
        return Activation(self.frame, dict(self.locals), list(self.stack), self.index, self.cells)

    @property
    def live(self) -> frozenset[str]:
        """The variables that may still be asked for."""
        return self.body.live[self.index] | self.cells


State = list[Activation]
"""The functions that run, the outermost first."""


@record(eq=False)
class Exit:
    """A path out of the loop.

    Args:
        block: that ends there, but for its last step.
        index: of the instruction that comes next.
        is_over: the range of the loop is used up.
        locals: what is live there.
        lists: the results that are lists.
    """

    block: int
    index: int
    locals: dict[str, Any]
    is_over: bool = False
    lists: tuple[Handed, ...] = ()


__all__ = ["Activation", "Exit", "State"]
