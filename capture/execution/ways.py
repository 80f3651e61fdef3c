"""Where instructions lead: ways round a loop, and out of it.

Contract: facts about a body alone; exceptions are left aside.
"""

from typing import Final

from dynajit.capture.bytecode.instructions import Body
from dynajit.capture.execution.arms import JUMPS, both_ways, jump_at

_ENDS: Final = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})


def arms_of_loop(body: Body, place: int) -> tuple[int, int] | None:
    """(the arm of a test that stays in the loop, the one that leaves it); None: no loop."""
    jump = jump_at(body, place)
    assert jump is not None
    first, second = both_ways(body, jump)
    ways = [way_between(body, arm, place) for arm in (first, second)]
    if ways == [None, None]:
        stay, leave = min(first, second), max(first, second)
        if jump < stay and any(_leads_back(body, index, stay) for index in range(stay, leave)):
            return stay, leave
        return None
    if ways[1] is None or (ways[0] is not None and ways[0] < ways[1]):
        return first, second
    return second, first


def _leads_back(body: Body, index: int, start: int) -> bool:
    return any(start <= target <= index for target in _next(body, index))


def _next(body: Body, index: int) -> list[int]:
    """Where an instruction may lead, exceptions aside."""
    instruction = body.instructions[index]
    name = instruction.operation
    if name in _ENDS:
        return []
    if name == "JUMP":
        return [instruction.argument]
    if "JUMP" in name or name in ("FOR_ITER", "SEND"):
        return [index + 1, instruction.argument]
    return [index + 1]


def way_between(body: Body, start: int, end: int) -> int | None:
    """The fewest instructions from one to another; None: it is not reached."""
    steps, front, seen = 0, [start], {start}
    while front:
        if end in front:
            return steps
        following = [index for place in front for index in _next(body, place)]
        front = [index for index in dict.fromkeys(following) if index not in seen]
        seen.update(front)
        steps += 1
    return None


def settled(body: Body, index: int, depth: int) -> tuple[int, int]:
    """The first instruction that does something, and the depth of the stack in front of it."""
    while True:
        instruction = body.instructions[index]
        if instruction.operation == "JUMP":
            index = instruction.argument
        elif instruction.operation == "NOP":
            index += 1
        elif instruction.operation == "POP_TOP":
            index, depth = index + 1, depth - 1
        else:
            return index, depth


def is_same_way(body: Body, a: int, b: int) -> bool:
    """Whether the instructions from two places on do the same."""
    seen: set[tuple[int, int]] = set()
    work = [(a, b)]
    while work:
        a, b = (_skipped(body, index) for index in work.pop())
        if a == b or (a, b) in seen:
            continue
        seen.add((a, b))
        first, second = body.instructions[a], body.instructions[b]
        if first.handler != second.handler:
            return False
        if first.operation in JUMPS and second.operation in JUMPS:
            work += zip(both_ways(body, a), both_ways(body, b), strict=True)
            continue
        if len(_next(body, a)) > 1 or first.operation != second.operation:
            return False
        if repr(first.argument) != repr(second.argument):
            return False
        if _next(body, a):
            work.append((a + 1, b + 1))
    return True


def _skipped(body: Body, index: int) -> int:
    while body.instructions[index].operation in ("JUMP", "NOP"):
        index = _next(body, index)[0]
    return index


def span_of(body: Body, head: int) -> range:
    """The instructions of a loop that is no `for`: from its first test on, to which a `continue`
    leads, and which has the line of the jump back.

    Args:
        head: where its turns begin.
    """
    last = body.while_loops[head]
    line, first = body.instructions[last].location.line, head
    while first and body.instructions[first - 1].location.line == line:
        first -= 1
    return range(first, last + 1)


def stays_in(body: Body, span: range, start: int, head: int) -> bool:
    """Whether there is a way from an instruction to the head of a loop within the loop.

    Args:
        span: see `span_of`.
    """
    work, seen = [start] if start in span else [], {start}
    for index in work:
        if index == head:
            return True
        following = [i for i in _next(body, index) if i in span and i not in seen]
        seen.update(following)
        work.extend(following)
    return False


__all__ = ["arms_of_loop", "is_same_way", "settled", "span_of", "stays_in", "way_between"]
