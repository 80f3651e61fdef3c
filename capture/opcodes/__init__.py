"""Handlers of the canonical instructions, by family.

A handler is `handler(machine, frame, argument)`. One that may run user code is a
generator: it yields frames to run and is sent their results. `HANDLERS` has one for every
operation that can be executed; `UNSUPPORTED` says why for the others.
"""

from dynajit.capture.opcodes.table import HANDLERS, UNSUPPORTED

__all__ = ["HANDLERS", "UNSUPPORTED"]
