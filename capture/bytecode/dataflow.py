"""Facts about a body that follow from all paths through it: stack depths, live locals."""

from collections.abc import Iterator
from types import CodeType
from typing import TYPE_CHECKING, Final

from dynajit.capture.bytecode.instruction_set import JUMPS, OPERATIONS
from dynajit.core.errors import InternalError

if TYPE_CHECKING:
    from dynajit.capture.bytecode.instructions import Body


def stack_depths(body: "Body") -> tuple[int | None, ...]:
    """Stack depth before each instruction; None where it is unreachable.

    Raises:
        InternalError: two paths disagree.
    """
    depths: list[int | None] = [None] * len(body)
    pending = [(0, 0)] if len(body) else []
    while pending:
        index, depth = pending.pop()
        known = depths[index]
        if known is not None:
            if known != depth:
                raise InternalError(
                    f"{body.code.co_qualname}: stack depth {depth} and {known} at "
                    f"{body[index]} ({body[index].location})"
                )
            continue
        depths[index] = depth
        pending.extend(_depths_after(body, index, depth))
    return tuple(depths)


def _depths_after(body: "Body", index: int, depth: int) -> Iterator[tuple[int, int]]:
    """(successor, stack depth there), handlers included."""
    instruction = body[index]
    row = OPERATIONS[instruction.operation]
    popped, pushed = row.effect(instruction.argument)
    if row.falls_through:
        yield index + 1, depth - popped + pushed
    if row.on_jump is not None:
        popped, pushed = row.on_jump
        yield instruction.argument, depth - popped + pushed
    if instruction.handler is not None:
        handler = instruction.handler
        yield handler.target, handler.depth + handler.push_lasti + 1


def handling(body: "Body") -> tuple[tuple[int, ...], ...]:
    """For each instruction the slots with the exceptions being handled, outermost first.

    Each is the lower of the two slots pushed by PUSH_EXC_INFO.
    """
    slots: list[tuple[int, ...] | None] = [None] * len(body)
    pending: list[tuple[int, tuple[int, ...]]] = [(0, ())] if len(body) else []
    while pending:
        index, before = pending.pop()
        if slots[index] is not None:
            continue
        slots[index] = before
        instruction = body[index]
        after = before
        if instruction.operation == "PUSH_EXC_INFO":
            after = (*before, (body.depths[index] or 1) - 1)
        elif instruction.operation == "POP_EXCEPT":
            after = before[:-1]
        pending.extend((successor, after) for successor in body.successors(index))
        if (handler := instruction.handler) is not None:
            # covered from PUSH_EXC_INFO on, which itself cannot raise
            pending.append((handler.target, tuple(s for s in after if s < handler.depth)))
    return tuple(() if entry is None else entry for entry in slots)


#: Operations that only move values: nothing in them can break.
_MOVES: Final = frozenset(
    {"LOAD_CONST", "LOAD_FAST", "STORE_FAST", "LOAD_CLOSURE", "STORE_CELL", "PUSH_NULL",
     "POP_TOP", "COPY", "SWAP", "JUMP", "MAKE_CELL"}
)  # fmt: skip


def stops(body: "Body") -> tuple[bool, ...]:
    """Where a region may end: see `Body.stops`."""
    targets = {item.argument for item in body if OPERATIONS[item.operation].on_jump is not None}
    targets.update(item.handler.target for item in body if item.handler is not None)
    result = []
    for index, item in enumerate(body):
        previous = body[index - 1] if index else None
        is_first = previous is None or previous.offset != item.offset
        begins = previous is None or previous.location.line != item.location.line
        useful = begins or index in targets or item.operation not in _MOVES
        result.append(is_first and useful)
    return tuple(result)


def while_loops(body: "Body") -> dict[int, int]:
    """Where the turns of loops begin that are no `for`: the last jump back to there.

    A jump back is one of a loop if there is no way to it but by way of its target: handlers, which
    3.12 and later put behind everything else, jump back, too, to what follows their `try`. Where a
    `continue` leads to the first test, and the test at the end to the turn behind that, these are
    two heads of one loop.
    """
    result: dict[int, int] = {}
    for index, item in enumerate(body):
        head = item.argument
        if item.operation not in JUMPS or head > index:
            continue
        if body[head].operation in ("FOR_ITER", "SEND"):
            continue
        if not _is_reached(body, index, without=head):
            result[head] = index
    for head in sorted(result, reverse=True):
        result[head] = max(last for at, last in result.items() if head <= at <= result[head])
    return result


def _is_reached(body: "Body", wanted: int, without: int) -> bool:
    """Whether there is a path to an instruction that does not go through another one."""
    reached = {without}
    pending = [0]
    while pending:
        index = pending.pop()
        if index in reached:
            continue
        reached.add(index)
        pending.extend(body.successors(index))
        if (handler := body[index].handler) is not None:
            pending.append(handler.target)
    return wanted in reached


_READS: Final = frozenset({"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "MAKE_CELL"})
_WRITES: Final = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})
_UNBINDS: Final = frozenset({"DELETE_FAST", "LOAD_FAST_AND_CLEAR", "MAKE_CELL"})
#: Names that give a function access to its own locals without an instruction for each.
_INTROSPECTION: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe"})


def liveness(body: "Body") -> tuple[frozenset[str], ...]:
    """Plain locals whose value before each instruction may still be read.

    Backward dataflow; handlers count as successors of every instruction they cover.
    """
    always = _always_live(body.code)
    live: list[frozenset[str]] = [always] * (len(body) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(body) - 1, -1, -1):
            instruction = body[index]
            after = frozenset().union(*(live[at] for at in body.successors(index)))
            if instruction.operation in _WRITES:
                after -= {instruction.argument}
            if instruction.operation in _READS:
                after |= {instruction.argument}
            if instruction.handler is not None:
                after |= live[instruction.handler.target]
            if not after <= live[index]:
                live[index] |= after
                changed = True
    return tuple(live[:-1])


def kept(body: "Body") -> tuple[frozenset[str], ...]:
    """Plain locals that may have a value before each instruction, but that nothing reads.

    Forward dataflow. Such a local keeps its object alive until it is bound anew or deleted, or
    the frame ends.
    """
    start = frozenset(body.parameters) - frozenset(body.cellvars)
    bound: list[frozenset[str] | None] = [None] * len(body)
    pending = [(0, start)] if len(body) else []
    while pending:
        index, names = pending.pop()
        known = bound[index]
        if known is not None and names <= known:
            continue
        names = bound[index] = names if known is None else names | known
        instruction = body[index]
        after = names - {instruction.argument} if instruction.operation in _UNBINDS else names
        if instruction.operation == "STORE_FAST":
            after |= {instruction.argument}
        pending.extend((successor, after) for successor in body.successors(index))
        if instruction.handler is not None:
            pending.append((instruction.handler.target, names | after))
    return tuple((names or frozenset()) - body.live[index] for index, names in enumerate(bound))


def _always_live(code: CodeType) -> frozenset[str]:
    """Locals that something else than an instruction may read."""
    if _INTROSPECTION & set(code.co_names):
        return frozenset(code.co_varnames)
    if "__class__" in code.co_freevars and code.co_argcount:
        return frozenset(code.co_varnames[:1])  # zero-argument super() reads the first parameter
    return frozenset()
