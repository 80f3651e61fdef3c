"""Handlers of the canonical instructions, by family.

A handler is `handler(machine, frame, argument)`. One that may run user code is a
generator: it yields frames to run and is sent their results. `HANDLERS` has one for every
operation that can be executed; `UNSUPPORTED` says why for the others.
"""

from typing import Final

from dynajit.capture.bytecode.instruction_set import OPERATIONS
from dynajit.capture.machine.machine import Handler
from dynajit.capture.opcodes import (
    control,
    exceptions,
    imports,
    match,
    operators,
    star_calls,
    variables,
)

HANDLERS: Final[dict[str, Handler]] = {
    **variables.HANDLERS,
    **operators.HANDLERS,
    **control.HANDLERS,
    **exceptions.HANDLERS,
    **imports.HANDLERS,
    **match.HANDLERS,
    **star_calls.HANDLERS,
}

#: Operations that break, and why.
UNSUPPORTED: Final[dict[str, str]] = {
    row.name: row.uncaptured for row in OPERATIONS.values() if row.uncaptured
}
