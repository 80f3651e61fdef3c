"""Loops over single elements of arrays, which are captured as one nest.

Contract: `at_while`, `at_start` and `at_loop` say whether what begins at an instruction has been
captured as a nest; the frame is behind it then, else nothing has happened. `at_whole` says it of
all that a function does with lists of numbers.
"""

from dynajit.capture.execution.nests.nest import at_loop, at_start, at_while, at_whole

__all__ = ["at_loop", "at_start", "at_while", "at_whole"]
