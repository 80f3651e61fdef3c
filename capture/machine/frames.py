"""Frames of the symbolic execution: one per inlined call, on an explicit stack.

Mutable: locals, stack and position change as instructions run. A frame remembers the states in
front of its instructions (`points`), because a break goes back to one of them.
"""

from collections.abc import Generator
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dynajit.capture.bytecode.instruction_set import OPERATIONS
from dynajit.capture.bytecode.instructions import Body
from dynajit.capture.machine.namespaces import Namespace
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.functions import CellValue, GeneratorValue
from dynajit.capture.values.symbolic import Value
from dynajit.core.location import Location
from dynajit.core.records import record

if TYPE_CHECKING:
    from dynajit.capture.machine.exceptions import Raised


@record
class SavedFrame:
    """A frame's state between two instructions."""

    index: int
    stack: tuple[Any, ...]
    locals: dict[str, Value]
    cells: dict[str, CellValue]


_UNBROKEN: Final = frozenset(row.name for row in OPERATIONS.values() if not row.can_follow_end)


def _is_closure(value: Any) -> bool:
    """True for a cell, or a tuple of cells, that a function is about to be made with."""
    if isinstance(value, TupleValue):
        return bool(value.items) and all(map(_is_closure, value.items))
    return isinstance(value, CellValue)


class Frame:
    """One activation of a function.

    Args:
        body: canonical instructions and exception table.
        code: the code object.
        namespace: where globals are read.
        locals: bound plain locals by name.
        closure: cells of the free variables, in order.

    `handled` is the heap id under which the exception being handled is kept; a generator has its
    own, other frames share their caller's. `start` is where the prologue of a resume code ends.
    """

    __slots__ = ("body", "cells", "closure", "code", "generator", "handled", "index", "is_user",
                 "line", "locals", "namespace", "pending", "points", "stack", "start",
                 "thrown")  # fmt: skip

    def __init__(
        self,
        body: Body,
        code: CodeType,
        namespace: Namespace,
        locals: dict[str, Value],
        closure: tuple[CellValue, ...] = (),
    ) -> None:
        self.body = body
        self.code = code
        self.namespace = namespace
        self.locals = locals
        self.closure = closure
        self.cells: dict[str, CellValue] = {}
        self.stack: list[Any] = []
        self.index = 0
        self.pending: Steps[None] | None = None
        self.generator: GeneratorValue | None = None
        self.is_user = True
        self.line: int | None = None
        self.handled = 0
        self.thrown: Raised | None = None
        self.points: list[Any] = []
        self.start = 0

    def bind_free_cells(self) -> None:
        """Make the closure's cells reachable by name."""
        self.cells.update(zip(self.code.co_freevars, self.closure, strict=True))

    @property
    def can_end(self) -> bool:
        """True if a region may end in front of the next instruction."""
        if not self.body.stops[self.index]:
            return False
        instruction = self.body.instructions[self.index]
        if instruction.operation in _UNBROKEN:
            return False
        for value in self.stack[-2:]:
            if isinstance(value, (CellValue, TupleValue)) and _is_closure(value):
                return False
        return not self.start or instruction.offset >= self.start

    @property
    def can_restart(self) -> bool:
        """True if real code can go on in front of the next instruction."""
        is_first = self.body.first_of_offset(self.index) == self.index
        return is_first and (
            not self.start or self.body.instructions[self.index].offset >= self.start
        )

    def push(self, value: Any) -> None:
        """Push one slot."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Pop one slot."""
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Any]:
        """Pop `count` slots; the deepest comes first."""
        if count == 0:
            return []
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def save(self) -> SavedFrame:
        """The state before the instruction at `index`."""
        return SavedFrame(self.index, tuple(self.stack), dict(self.locals), dict(self.cells))

    def restore(self, saved: SavedFrame) -> None:
        """Back to a saved state."""
        self.index = saved.index
        self.stack = list(saved.stack)
        self.locals = dict(saved.locals)
        self.cells = dict(saved.cells)
        self.pending = None

    def location(self, index: int | None = None) -> Location:
        """The user's line of an instruction; of the one running by default."""
        at = self.index - 1 if index is None else index
        return self.body.instructions[max(at, 0)].location


Answer = TypeVar("Answer")

#: What may run frames: it yields them, is sent what they return, and returns an answer.
Steps = Generator[Frame, Any, Answer]
