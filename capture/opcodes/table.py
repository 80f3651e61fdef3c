"""The handler table: one entry per canonical operation, or a stated reason why there is none."""

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
