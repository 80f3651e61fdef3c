"""What keeps GCC from taking elements side by side, read under a condition each, for one group.

GCC before 12.4 and 13.3 (its bug 114375) loads such a group with a mask, and permutes what it loads
but not the mask: `p[3 * i + k] = m[3 * i + k] > k ? a[3 * i + k] : 0` for k in 0, 1, 2 has wrong
values. It may do so in any loop whose turn, short loops in it written out, has two such reads.
An empty `asm` in the turn leaves that loop, and no other, as it is; reads without a condition and
reads of which a turn has one are right.

Contract: `guarded` gives back the lines of a kernel with `BARRIER` where it is needed; `barred`
says which blocks of a loop nest begin with it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.types.symint import Number
from dynajit.ir.nests import Register, Step, all_steps

BARRIER: Final = '__asm__ volatile ("");'
"""Nothing, but not what a loop of vectors may have."""

_LOOP: Final = re.compile(r"( *)for \(\w+ (\w+) = (.+?); \w+ < (.+?); .*\{")
_MOST_STEPS: Final = 8
"""Between what a counter is and what it was, at most."""
_SHORT: Final = range(2, 100)
"""Turns of loops that a compiler may write out."""
_CHOICE: Final = re.compile(r"\bif \(| \? ")
_IN_A_CHOICE: Final = re.compile(r"[?:] \((b\d\w*)\[([^][]*)\]\)")
_READ: Final = re.compile(r"(?<!^)\b(b\d\w*)\[([^][]*)\]")
_BEGINS: Final = re.compile(r" *(if \(|\} else )")
_DEFINED: Final = re.compile(r" *const int(?:64|32)_t (\w+) = ")


# -- lines of kernels


def guarded(lines: Sequence[str]) -> list[str]:
    """Lines of a function's body, and what keeps loops from being taken for groups."""
    kept = list(_with_short_loops_kept(lines))
    result = []
    for at, line in enumerate(kept):
        result.append(line)
        found = _LOOP.fullmatch(line)
        if found and _has_group(kept, at, found):
            result.append(f"{found[1]}    {BARRIER}")
    return result


def _with_short_loops_kept(lines: Sequence[str]) -> Iterator[str]:
    """`lines`, and a word to the compiler in front of short loops with choices: not to unroll them.

    Loops with `omp simd` are not unrolled before they are turned into vectors.
    """
    for at, line in enumerate(lines):
        found = _LOOP.fullmatch(line)
        is_told = at > 0 and lines[at - 1].lstrip().startswith("#pragma")
        if found and not is_told and _turns(found) in _SHORT:
            inside = lines[at + 1 : _end(lines, at, found[1])]
            if any(map(_CHOICE.search, inside)):
                yield f"{found[1]}#pragma GCC unroll 1"
        yield line


def _end(lines: Sequence[str], at: int, indent: str) -> int:
    return lines.index(f"{indent}}}", at)


def _has_group(lines: Sequence[str], at: int, found: re.Match[str]) -> bool:
    """Whether a turn of a loop reads an array at two places, far apart in turns, by conditions."""
    own = list(_own_lines(lines, at, found))
    names = {found[2], *(defined[1] for line in own if (defined := _DEFINED.match(line)))}
    places: dict[str, set[str]] = {}
    for buffer, offset in _guarded_reads(own):
        if any(re.search(rf"\b{name}\s*\*", offset) for name in names):
            places.setdefault(buffer, set()).add(offset)
    return any(len(found) > 1 for found in places.values())


def _own_lines(lines: Sequence[str], at: int, found: re.Match[str]) -> Iterator[str]:
    """The lines of a loop but for those of loops in it that have more than one turn."""
    end = _end(lines, at, found[1])
    at += 1
    while at < end:
        inner = _LOOP.fullmatch(lines[at])
        if inner and _turns(inner) != 1:
            at = _end(lines, at, inner[1]) + 1
            continue
        yield lines[at]
        at += 1


def _turns(found: re.Match[str]) -> int | None:
    """How many turns a loop has; None where the text does not say it."""
    start, stop = found[3], found[4]
    return int(stop) - int(start) if start.isdecimal() and stop.isdecimal() else None


def _guarded_reads(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(array, place) of what is read under a condition."""
    arms: list[int] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        while arms and indent <= arms[-1]:
            arms.pop()
        if _BEGINS.match(line):
            arms.append(indent)
            continue
        read = _READ if arms else _IN_A_CHOICE
        for found in read.finditer(line.lstrip()):
            yield found[1], found[2]


# -- blocks of loop nests


@record
class Elements:
    """Where an operand of a nest has its elements.

    Args:
        memory: the same for operands that share it.
        strides: of the dims, in elements.
    """

    memory: str
    strides: tuple[Number, ...]


def barred(blocks: Sequence[Sequence[Step]], arrays: Mapping[int, Elements]) -> frozenset[int]:
    """The blocks of a nest that begin with `BARRIER`.

    Args:
        blocks: the first is run first.
        arrays: by slots.
    """
    flow = _Blocks(blocks)
    loops = flow.loops()
    reads = {head: list(_reads_by_conditions(flow, loops, head)) for head in loops}
    result = set()
    for head, inside in loops.items():
        steps = _Steps(step for block in inside for step in all_steps(blocks[block]))
        apart = [arrays[step.slot].memory for step in reads[head] if steps.is_apart(step, arrays)]
        within = [other for other in loops if other != head and other in inside]
        if len(apart) != len(set(apart)) or any(reads[other] for other in within):
            result.add(head)
    return frozenset(result)


def _reads_by_conditions(
    flow: "_Blocks", loops: Mapping[int, frozenset[int]], head: int
) -> Iterator[Step]:
    """Each read in a loop, but not in one within it, that not every turn does."""
    inside = loops[head]
    within = [loops[other] for other in loops if other != head and other in inside]
    ends = [block for block in inside if head in flow.following[block]]
    for block in sorted(inside):
        if any(block in inner for inner in within):
            continue
        if all(flow.dominates(block, end) for end in ends):
            continue
        yield from (step for step in flow.blocks[block] if step.operation == "load")


class _Steps:
    """The steps of a turn, and by how much a turn changes what they compute. Immutable.

    Args:
        steps: in any order.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self._by_target: dict[Register, list[Step]] = {}
        self._changes: dict[Register, int | None] = {}
        for step in steps:
            if step.target is not None:
                self._by_target.setdefault(step.target, []).append(step)

    def is_apart(self, step: Step, arrays: Mapping[int, Elements]) -> bool:
        """Whether a read is of an element that is not beside that of the next turn."""
        changes = [self._change(index, frozenset()) for index in step.operands]
        moved = [
            (change, stride)
            for change, stride in zip(changes, arrays[step.slot].strides, strict=True)
            if change != 0
        ]
        return bool(moved) and moved not in ([(1, 1)], [(-1, 1)])

    def _change(self, operand: Any, seen: frozenset[Register]) -> int | None:
        """What a turn adds to an operand; None: it is not known."""
        if not isinstance(operand, Register):
            return 0
        steps = self._by_target.get(operand, [])
        if not steps:
            return 0
        if operand in seen:
            return None
        if operand not in self._changes:
            found = {self._change_by(operand, step, seen | {operand}) for step in steps}
            self._changes[operand] = found.pop() if len(found) == 1 else None
        return self._changes[operand]

    def _change_by(self, target: Register, step: Step, seen: frozenset[Register]) -> int | None:
        added = self._added(step, target, 0)
        if added is not None:
            return added
        changes = [self._change(operand, seen) for operand in step.operands]
        if step.operation == "each":
            return None
        if step.operation == "load" or any(change is None for change in changes):
            return None
        known = [change for change in changes if change is not None]
        if step.operation in ("set", "index"):
            return known[0]
        if step.operation in ("add", "add_whole"):
            return sum(known)
        if step.operation in ("sub", "sub_whole"):
            return known[0] - known[1]
        return None if any(known) else 0

    def _added(self, step: Step, target: Register, depth: int) -> int | None:
        """The number that a step adds to what its target was; None: it does something else."""
        if depth > _MOST_STEPS:
            return None
        if step.operation in ("add", "add_whole", "sub", "sub_whole"):
            first, number = step.operands
            if isinstance(number, Register) or not isinstance(number, int):
                return None
            number = -number if step.operation.startswith("sub") else number
        elif step.operation == "set":
            first, number = step.operands[0], 0
        else:
            return None
        if first == target:
            return number
        steps = self._by_target.get(first, []) if isinstance(first, Register) else []
        if len(steps) != 1:
            return None
        before = self._added(steps[0], target, depth + 1)
        return None if before is None else before + number


class _Blocks:
    """The graph of blocks. Immutable.

    Args:
        blocks: the first is run first.
    """

    def __init__(self, blocks: Sequence[Sequence[Step]]) -> None:
        self.blocks = blocks
        self.following = [_following(steps) for steps in blocks]
        self._dominators = self._dominated()

    def dominates(self, block: int, other: int) -> bool:
        """Whether every way to `other` leads through `block`."""
        return bool(self._dominators[other] >> block & 1)

    def _dominated(self) -> list[int]:
        """For each block the set, as bits, of those that every way to it leads through."""
        everything = (1 << len(self.blocks)) - 1
        found = [1, *([everything] * (len(self.blocks) - 1))]
        before: list[list[int]] = [[] for _ in self.blocks]
        for block, following in enumerate(self.following):
            for other in following:
                before[other].append(block)
        changed = True
        while changed:
            changed = False
            for block in range(1, len(self.blocks)):
                through = everything
                for other in before[block]:
                    through &= found[other]
                through |= 1 << block
                changed |= through != found[block]
                found[block] = through
        return found

    def loops(self) -> dict[int, frozenset[int]]:
        """The first block of each loop: all of its blocks."""
        result: dict[int, set[int]] = {}
        for block, following in enumerate(self.following):
            for head in following:
                if self.dominates(head, block):
                    result.setdefault(head, {head}).update(self._between(head, block))
        return {head: frozenset(inside) for head, inside in result.items()}

    def _between(self, head: int, last: int) -> set[int]:
        """The blocks from which `last` is reached without leaving through `head`."""
        found = {head}
        pending = [last]
        while pending:
            block = pending.pop()
            if block in found:
                continue
            found.add(block)
            pending += [n for n, following in enumerate(self.following) if block in following]
        return found


def _following(steps: Sequence[Step]) -> tuple[int, ...]:
    last = steps[-1]
    if last.operation == "goto":
        return (last.name,)
    return tuple(last.name) if last.operation == "branch" else ()


def has_choices(steps: Sequence[Step]) -> bool:
    """Whether a turn of a nest chooses between values of which two may be reads of one memory."""
    operations = [step.operation for step in steps]
    return operations.count("load") > 1 and "select" in operations
