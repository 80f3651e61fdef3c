"""Forced breaks: a test switch that ends the graph at chosen lines.

`session.Options(forced=ForcedBreaks())` makes the executor break at every statement boundary of
the user's code, `ForcedBreaks(lines={12, 14})` at those lines only. Breaks exist to change nothing
but the number of graphs, so every test of capture can run in this mode as well. Read by
`capture.execution.executor`; never set in production.
"""

from dynajit.capture.bytecode.instructions import Instruction
from dynajit.capture.machine.frames import Frame
from dynajit.core.records import record


@record
class ForcedBreaks:
    """Where to break: whenever control passes to another line, in the root and in inlined callees.

    The first line that a frame runs never breaks, and neither does the first line of a resume
    function: each piece runs at least one line, so that a forced break always makes progress.

    Args:
        lines: break only when control passes to one of these lines; None: to any line.
        filename: break only in this file; None: in all of the user's code.
    """

    lines: frozenset[int] | None = None
    filename: str | None = None

    def wants(self, frame: Frame, instruction: Instruction) -> bool:
        """True if the break belongs in front of `instruction`; remembers the frame's line."""
        if not frame.is_user or instruction.operation == "MAKE_CELL":
            return False
        before, frame.line = frame.line, instruction.location.line
        if before is None or before == frame.line:
            return False
        if self.filename is not None and self.filename != frame.code.co_filename:
            return False
        return self.lines is None or frame.line in self.lines
