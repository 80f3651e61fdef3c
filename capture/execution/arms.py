"""Where jumps on a truth lead: their arms, and the place where these meet.

Contract: facts about a body alone; exceptions are left aside. `branches` and `tested_loops` ask.
"""

from typing import Final

from dynajit.capture.bytecode.instructions import Body

#: Stands for every return of a function.
RETURN: Final = -1

#: Instructions of both arms that are looked at.
MOST_INSTRUCTIONS: Final = 400

#: Name -> the truth with which it jumps.
JUMPS: Final = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_IF_FALSE": False}


def jump_at(body: Body, index: int) -> int | None:
    """The index of a jump on a truth that begins here; None: there is none."""
    instructions = body.instructions
    if instructions[index].operation == "TO_BOOL":
        index += 1
    return index if instructions[index].operation in JUMPS else None


def both_ways(body: Body, jump: int) -> tuple[int, int]:
    """Where a jump leads, if the truth is true and if it is false."""
    instruction = body.instructions[jump]
    target: int = instruction.argument
    is_if_true = JUMPS[instruction.operation]
    return (target, jump + 1) if is_if_true else (jump + 1, target)


def meeting(body: Body, place: int) -> int | None:
    """The first instruction that is met whichever way a jump goes.

    Args:
        place: where the jump begins.

    Returns:
        RETURN: both ways lead to returns; None: ways go round, raise, are long, or there is none.
    """
    jump = jump_at(body, place)
    assert jump is not None
    starts = both_ways(body, jump)
    seen: list[int] = []
    work = list(starts)
    for index in work:
        if index in seen:
            continue
        if len(seen) > MOST_INSTRUCTIONS:
            break
        seen.append(index)
        if index != RETURN:
            work.extend(_after(body, index))
    return next((end for end in seen if all(_all_lead(body, s, end, place) for s in starts)), None)


def meeting_behind_loops(body: Body, place: int) -> int | None:
    """The same where ways may go round, and by the jump again, as long as they come to an end.

    The first instruction there that does something but to drop what is on the stack.
    """
    jump = jump_at(body, place)
    assert jump is not None
    starts = both_ways(body, jump)
    seen = list(starts)
    for index in seen:
        if len(seen) > MOST_INSTRUCTIONS:
            return None
        following = _after(body, index) if index != RETURN else ()
        seen += [other for other in dict.fromkeys(following) if other not in seen]
    end = next((end for end in seen if all(_ends_at(body, s, end) for s in starts)), None)
    while end is not None and end != RETURN and body[end].operation in _PASSING:
        (end,) = _after(body, end)
    return end


#: Instructions that only lead on.
_PASSING: Final = frozenset({"JUMP", "NOP", "POP_TOP"})


def _ends_at(body: Body, start: int, end: int) -> bool:
    """Whether whatever way is taken from `start`, it may come to `end` and ends nowhere else."""
    ways: dict[int, tuple[int, ...]] = {}
    work = [start]
    for index in work:
        if index == end or index in ways:
            continue
        ways[index] = _after(body, index) if index != RETURN else ()
        if not ways[index]:
            return False
        work += ways[index]
    reaching = {end}
    grown = True
    while grown:
        more = {index for index, others in ways.items() if not reaching.isdisjoint(others)}
        grown = not more <= reaching
        reaching |= more
    return reaching >= ways.keys()


def _after(body: Body, index: int) -> tuple[int, ...]:
    if body.instructions[index].operation == "RETURN_VALUE":
        return (RETURN,)
    return body.successors(index)


def _all_lead(body: Body, start: int, end: int, place: int) -> bool:
    """Whether every way from `start` comes to `end`, without going round or by `place`."""
    done: set[int] = set()
    open_ones: list[tuple[int, list[int]]] = []
    way: set[int] = set()

    def enter(index: int) -> bool:
        following = _after(body, index) if index != RETURN else ()
        if not following or index == place or index in way:
            return False
        way.add(index)
        open_ones.append((index, list(following)))
        return True

    if start == end:
        return True
    if not enter(start):
        return False
    while open_ones:
        index, following = open_ones[-1]
        if not following:
            open_ones.pop()
            way.discard(index)
            done.add(index)
            continue
        other = following.pop()
        if other != end and other not in done and not enter(other):
            return False
    return True


def lies_in_loop(body: Body, index: int) -> bool:
    """Whether the program may come to an instruction again."""
    work = list(body.successors(index))
    seen: set[int] = set()
    while work:
        other = work.pop()
        if other == index:
            return True
        if other not in seen:
            seen.add(other)
            work.extend(body.successors(other))
    return False


def is_before(body: Body, index: int, end: int) -> bool:
    """Whether an instruction is the meeting place, or one of the returns that stand for it."""
    if end == RETURN:
        return body.instructions[index].operation == "RETURN_VALUE"
    return index == end


__all__ = ["JUMPS", "RETURN", "both_ways", "is_before", "jump_at", "lies_in_loop", "meeting",
           "meeting_behind_loops"]  # fmt: skip
