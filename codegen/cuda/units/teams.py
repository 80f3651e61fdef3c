"""How the rows of a kernel are spread over threads: teams of lanes, what they hold, sections.

Contract: decided from sizes and choices alone. A row of few packs is worked on by lanes of a warp,
a longer one by a block, with what several phases need in registers; of a row that does not fit
there, it is in dynamic shared memory, and of one that fits nowhere it is read again. Where rows are
so few that their blocks would not fill a GPU, each is cut into sections. Rows of symbolic length
have several forms, of which the launch takes one by its size.
"""

from dataclasses import replace
from typing import Final

from dynajit.codegen.cuda.units.registers import GRANULE, MOST_REGISTERS, SM_REGISTERS
from dynajit.codegen.cuda.units.support import WARP, Choices, power_of_two
from dynajit.core.records import record
from dynajit.core.types.symint import Number

THREADS: Final = 256
"""Threads of a block: eight warps, so that an SM of 64 warps holds eight blocks."""

MOST_THREADS: Final = 1024

MOST_STEPS: Final = 8
"""Packs of a lane up to which the loop is unrolled: all of them are on their way at once."""

BLOCK_STEPS: Final = 4
"""Packs of a lane that a block aims at."""

HELD_BYTES: Final = 256
"""Registers of a lane for values that several phases need: a quarter of what a thread can have."""

CROWDED_HELD_BYTES: Final = 128
"""The same in blocks of `MOST_THREADS`, whose threads can have 64 registers."""

COLUMN_STEPS: Final = (2, 3, 4)
"""Packs of a lane whose block keeps columns."""

BUSY: Final = 0.75
"""Part of the lanes that shall have packs."""

OTHER_REGISTERS: Final = 40
"""Of a thread, for addresses and what it computes."""

REGISTER: Final = 4
"""Bytes."""

STATIC_BYTES: Final = 48 << 10
"""Shared memory that a block has without asking for it."""

SHARED_BYTES: Final = 99 << 10
"""Dynamic shared memory that every GPU from sm_80 on has for a block."""

WANTED_BLOCKS: Final = 1024
"""Blocks of `THREADS` that fill the largest GPUs about once: 132 SMs with eight each."""

FEW_ROWS: Final = WANTED_BLOCKS // 4
"""Rows from which each has a block of its own."""

LEAST_SECTION: Final = THREADS * 4
"""Packs from which a section is worth its share of another kernel."""

REGISTERS: Final = "registers"
SHARED: Final = "shared"
NOTHING: Final = "nothing"


@record
class Team:
    """Threads that share a row.

    Args:
        lanes: a power of two; at most a warp, or the whole block.
        threads: in a block.
        steps: packs of a lane; 0 for any number.
        holds: where what several phases need is: `REGISTERS`, `SHARED` or `NOTHING`.
        sections: blocks that share a row.
        low, high: packs of the rows that this is meant for; None: any number from `low` on.
        is_ahead: a row is read while the one before it is worked on.
    """

    lanes: int
    threads: int
    steps: int = 0
    holds: str = NOTHING
    sections: int = 1
    low: int = 0
    high: int | None = None
    is_ahead: bool = False

    @property
    def per_block(self) -> int:
        """Rows that a block works on at once."""
        return self.threads // self.lanes

    @property
    def is_block(self) -> bool:
        """True if warps must exchange through shared memory."""
        return self.lanes > WARP

    @property
    def mask(self) -> str:
        """The lanes that shuffle together, in C."""
        return "0xffffffffu" if self.lanes >= WARP else "team_mask"

    @property
    def suffix(self) -> str:
        """What tells the kernels of several forms apart."""
        if self.low == 0 and self.high is None:
            return ""
        return "_short" if self.low == 0 else "_long" if self.high is None else "_medium"


@record
class Rows:
    """What decides about teams.

    Args:
        name: of the loop kernel.
        rows: how many.
        packs: of a row.
        width: elements of a pack.
        held_bytes: of a pack, for values that several phases need.
        phases: passes over a row.
        may_cut: rows may be cut into sections.
        holds_columns: bytes of a pack for accumulators that stay from row to row.
        widest_column: the same for the widest of them.
        ahead_bytes: of a pack, for what may be read a row ahead.
    """

    name: str
    rows: Number
    packs: Number
    width: int
    held_bytes: int
    phases: int
    may_cut: bool
    holds_columns: int = 0
    widest_column: int = 0
    ahead_bytes: int = 0


def teams_for(given: Rows, choices: Choices) -> tuple[Team, ...]:
    """The teams for all lengths that the rows may have; one where it is known."""
    if not isinstance(given.packs, int):
        return _symbolic(given, choices)
    if given.holds_columns:
        return (_with_columns(given, given.packs),)
    sections = _sections(given, given.packs, choices)
    if sections > 1:
        return (Team(THREADS, THREADS, sections=sections),)
    return (_known(given, given.packs, choices),)


def _most_steps(given: Rows) -> int:
    """Packs of a lane up to which held values fit into registers."""
    if given.held_bytes == 0:
        return MOST_STEPS
    return max(1, min(MOST_STEPS, HELD_BYTES // given.held_bytes))


def _known(given: Rows, packs: int, choices: Choices) -> Team:
    most = _most_steps(given)
    if packs <= WARP * most:
        lanes = min(WARP, power_of_two(packs))
        return Team(lanes, THREADS, -(-packs // lanes), REGISTERS)
    wanted = power_of_two(-(-packs // min(most, BLOCK_STEPS)))
    default = max(2 * WARP, min(wanted, MOST_THREADS))
    threads = choices.of(given.name, "threads", (128, 256, 512, 1024), default)
    steps = -(-packs // threads)
    room = HELD_BYTES if threads < MOST_THREADS else CROWDED_HELD_BYTES
    if steps <= MOST_STEPS and steps * given.held_bytes <= room:
        return Team(threads, threads, steps, REGISTERS)
    if given.phases > 1 and 0 < packs * given.held_bytes <= SHARED_BYTES:
        return Team(threads, threads, holds=SHARED)
    if given.phases == 1:
        threads = choices.of(given.name, "threads", (128, 256, 512, 1024), THREADS)
    return Team(threads, threads)


def _with_columns(given: Rows, packs: int) -> Team:
    """Rows one after the other by the same lanes, which keep their columns.

    A warp needs no barriers, and several of them are at different places of their rows. Blocks wait
    at theirs: what keeps the memory busy meanwhile is the row that is read ahead.
    """
    forms = (_columns_by_warp(given, packs), *_columns_by_block(given, packs))
    for team in forms:
        for is_ahead in (True, False):
            found = replace(team, is_ahead=is_ahead and given.ahead_bytes > 0)
            if _has_room(given, found):
                return found
    return forms[-1]


def _columns_by_warp(given: Rows, packs: int) -> Team:
    lanes = min(WARP, power_of_two(packs))
    return Team(lanes, THREADS, -(-packs // lanes), REGISTERS)


def _columns_by_block(given: Rows, packs: int) -> list[Team]:
    """Two packs of a lane; more where that many threads would have nothing to do."""
    teams = []
    for wanted in COLUMN_STEPS:
        lanes = max(2 * WARP, min(power_of_two(-(-packs // wanted)), MOST_THREADS))
        steps = -(-packs // lanes)
        if packs >= BUSY * lanes * steps or wanted == COLUMN_STEPS[-1]:
            teams.append(Team(lanes, lanes, steps, REGISTERS))
    return teams


def _has_room(given: Rows, team: Team) -> bool:
    """True if a team that keeps columns has registers, and shared memory for combining them."""
    if team.per_block > 1:
        combined = team.threads * team.steps * given.widest_column
        if team.steps > MOST_STEPS or combined > STATIC_BYTES:
            return False
    if team.threads == MOST_THREADS:
        return _own_bytes(given, team) <= CROWDED_HELD_BYTES
    return column_registers(given, team) <= MOST_REGISTERS and blocks_of_sm(given, team) > 0


def column_registers(given: Rows, team: Team) -> int:
    """An estimate of the registers of a thread that keeps columns."""
    wanted = _own_bytes(given, team) // REGISTER + OTHER_REGISTERS
    return -(-wanted // GRANULE) * GRANULE


def _own_bytes(given: Rows, team: Team) -> int:
    """What a lane keeps, and what is on its way."""
    ahead = given.ahead_bytes if team.is_ahead else 0
    return team.steps * (given.held_bytes + given.holds_columns + ahead)


def blocks_of_sm(given: Rows, team: Team) -> int:
    """Blocks whose registers an SM has, for a team that keeps columns."""
    return SM_REGISTERS // (team.threads * column_registers(given, team))


def may_hold_columns(given: Rows) -> bool:
    """True if the threads of a block can keep the accumulators of all columns of a row."""
    if not isinstance(given.packs, int) or not isinstance(given.rows, int):
        return False
    return _has_room(given, _with_columns(given, given.packs))


def _sections(given: Rows, packs: int, choices: Choices) -> int:
    """Blocks for each row: more than one where rows are few and long."""
    if not given.may_cut or not isinstance(given.rows, int) or given.rows >= FEW_ROWS:
        return 1
    fitting = packs // LEAST_SECTION
    if fitting < 2:
        return 1
    default = min(fitting, -(-WANTED_BLOCKS // max(given.rows, 1)))
    values = sorted({default, max(1, default // 2), min(fitting, 2 * default)})
    return choices.of(given.name, "sections", values, default)


def _symbolic(given: Rows, choices: Choices) -> tuple[Team, ...]:
    """Teams for rows of any length."""
    if given.may_cut and given.rows == 1:
        return (Team(THREADS, THREADS, sections=WANTED_BLOCKS // 2),)
    short = WARP * _most_steps(given)
    teams = [Team(WARP, THREADS, _most_steps(given), REGISTERS, 1, 0, short)]
    low = short + 1
    if given.phases > 1 and given.held_bytes:
        fitting = SHARED_BYTES // given.held_bytes
        teams.append(Team(THREADS, THREADS, 0, SHARED, 1, low, fitting))
        low = fitting + 1
    threads = MOST_THREADS if given.phases > 1 else THREADS
    teams.append(Team(threads, threads, 0, NOTHING, 1, low, None))
    return tuple(teams)
