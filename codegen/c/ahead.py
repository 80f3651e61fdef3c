"""Reading ahead in row kernels: what later rows need is asked for while this one is computed.

Contract: `streams` are the arrays that a kernel reads from one end to the other; `lines` ask for
what lies some way further on in them, in the pass that `busiest` names. Nothing is read for its
value: positions beyond the end of an array are harmless.

Processors foresee reads within a page of 4 KiB. A row kernel goes through a row several times
before it comes to the next one, which is often another page: its first pass would wait for memory
while the others leave it idle. The pass that computes most asks, where requests have time to be
answered: in a first pass that only compares they come faster than memory takes them. Measured on
one core of an EPYC (Zen 4) over 4096 rows of 1024 floats, against requests in the first pass:
softmax 0.78 of the time, log-softmax 0.73, layer norm 0.89; without requests 0.81, 0.70, 0.92. On
an older EPYC requests in the first pass made softmax 1.6 times as fast as none, layer norm 1.35,
variance 1.5.

What a later pass stores is asked for, too, for the row at hand: a store waits until its line is
there, and the pass that stores often computes little. Measured on one core of a Xeon (Sapphire
Rapids) with results that are not in cache: softmax 0.68 of the time, RMS norm 0.86. On an EPYC (Zen
4) softmax takes 0.87 of the time and norms 1.1 to 1.3: there passes without exponentials and their
like do not ask (`DJ_ASK_STORED_SOON` in host.h). What bypasses the caches (`codegen.c.bypass`)
waits for no line.

A single pass gains by requests close ahead. Measured on two cores of a Xeon (Sapphire Rapids) over
64 and 128 MiB of floats in large pages, best at 512 bytes: sum 0.79 of the time, `a += 1` 0.94,
`a -= 0.1 * b` 0.89, Adam 0.89; at 8 KiB updates take longer than without. Small pages gain as much.
Kernels whose results are arrays of their own would gain 3 to 6 %, and are left alone. AMD's
processors lose: on one core of an EPYC (Zen 3) sums take 1.1 to 1.2 of the time, Adam 1.15. There
such requests are nothing (`DJ_ASK_CLOSE` in host.h), as those of choices are: argmax takes 1.08 of
the time with them (Zen 4).

Such a pass that computes next to nothing waits for memory only, and on one core of an EPYC (Zen 4,
which takes vectors of 512 bits in halves) memory answers vectors of 256 bits faster: sums of 128
MiB of floats take 0.94 of the time. `only_reads` tells such kernels (`DJ_READS` in host.h).
"""

from dynajit.codegen.c import bypass as c_bypass
from dynajit.codegen.c.choices import is_choice
from dynajit.codegen.c.support import is_rounded
from dynajit.codegen.loops.loop_ir import (
    COST_EXPENSIVE,
    Axis,
    Buffer,
    Expression,
    Load,
    Phase,
    RowKernel,
    cost,
    is_size,
    product_of,
    walk,
)
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, is_at_least

LINE_BYTES = 64
"""What one request brings: a cache line."""

LEAST_BYTES = 1 << 20
"""Arrays smaller than this stay in a core's own cache."""

NEAR_BYTES, FAR_BYTES = 8 << 10, 32 << 10
"""How far ahead: a row, within these bounds. A row further on is too soon for short rows, and too
much for a first-level cache with long ones."""

CLOSE_BYTES = 512
"""How far ahead a single pass asks."""

RUN = 64
"""Elements of a loop without accumulators between two requests."""

MOST_STREAMS = 4
"""Arrays read ahead in one kernel: more would crowd the first-level cache."""


@record
class Stream:
    """An array that is read or written in order.

    Args:
        buffer: the array.
        offset: of the element at hand.
        distance: elements to look ahead.
        is_stored: it is written.
        is_close: the request is one of a single pass, or of a choice.
        moved: bytes that the kernel moves, if the array may bypass the caches; else 0.
        is_soon: the requests stand in a pass that computes little.
    """

    buffer: Buffer
    offset: Number
    distance: int
    is_stored: bool = False
    is_close: bool = False
    moved: int = 0
    is_soon: bool = False


def streams(kernel: RowKernel) -> tuple[Stream, ...]:
    """The large arrays that a kernel goes through without gaps, one row after the other: what it
    reads, and what it stores behind the busiest pass."""
    chooses = _chooses(kernel)
    again = len(kernel.phases) > 1 or chooses
    if not again and not _reduces(kernel) and not kernel.in_place:
        return ()
    found: dict[Buffer, Stream] = {}
    row = product_of(kernel.elements)
    for expression in walk(_roots(kernel)):
        if not isinstance(expression, Load) or expression.buffer in found:
            continue
        buffer = expression.buffer
        if _is_large(buffer) and _is_dense(expression.offset, kernel):
            distance = _distance(row, buffer) if again else CLOSE_BYTES // buffer.dtype.itemsize
            found[buffer] = Stream(
                buffer, expression.offset, distance, is_close=not again or chooses
            )
    reads = tuple(found.values())[:MOST_STREAMS]
    return (*reads, *_stored_later(kernel)) if again else reads


MOST_COST = 4
"""Additions for each element of a kernel that only reads."""


def only_reads(kernel: RowKernel) -> bool:
    """True if a kernel adds up large arrays in one pass and computes next to nothing."""
    if kernel.in_place or not any(stream.is_close for stream in streams(kernel)):
        return False
    added = (*kernel.element_totals, *(a for phase in kernel.phases for a in phase.accumulates))
    if not all(map(is_rounded, added)):
        return False
    return sum(map(cost, walk(_roots(kernel)))) <= MOST_COST


def _stored_later(kernel: RowKernel) -> tuple[Stream, ...]:
    """What is stored in passes behind the busiest one."""
    phases = list(kernel.phases)
    busy = busiest(kernel)
    later = phases[phases.index(busy) + 1 :] if busy in phases else []
    moved = dict.fromkeys(
        (store.buffer for store in c_bypass.stores(kernel)), c_bypass.moved_bytes(kernel)
    )
    is_soon = busy is not None and _work(busy) < COST_EXPENSIVE
    found = {
        store.buffer: Stream(
            store.buffer, store.offset, 0, True, moved=moved.get(store.buffer, 0), is_soon=is_soon
        )
        for phase in later
        for store in phase.stores
        if _is_large(store.buffer) and _is_dense(store.offset, kernel)
    }
    return tuple(found.values())[:MOST_STREAMS]


def _is_large(buffer: Buffer) -> bool:
    return not is_at_least((LEAST_BYTES - 1) // buffer.dtype.itemsize, buffer.size)


def busiest(kernel: RowKernel) -> Phase | None:
    """The phase with accumulators whose elements cost most; the later of equals."""
    phases = [phase for phase in reversed(kernel.phases) if phase.accumulates]
    return max(phases, key=_work, default=kernel.phases[0] if kernel.phases else None)


def _work(phase: Phase) -> int:
    elements = tuple(part for accumulate in phase.accumulates for part in accumulate.element)
    return sum(map(cost, walk(elements)))


def lines(ahead: tuple[Stream, ...], axis: Axis, base: Number, count: int) -> list[str]:
    """Requests for what stands `distance` behind `count` elements of a row from `base` on."""
    result = []
    for stream in ahead:
        offset = symint.substitute(stream.offset, {axis.name: base}) + stream.distance
        step = LINE_BYTES // stream.buffer.dtype.itemsize
        result += [
            _request(stream, f"&{stream.buffer.name}[{symint.c(offset + k)}]")
            for k in range(0, count, step)
        ]
    return result


def _request(stream: Stream, address: str) -> str:
    if stream.is_stored:
        return f"DJ_ASK_STORED{'_SOON' if stream.is_soon else ''}({stream.moved}, {address});"
    return f"DJ_ASK_CLOSE({address});" if stream.is_close else f"__builtin_prefetch({address});"


def _roots(kernel: RowKernel) -> tuple[Expression, ...]:
    roots: list[Expression] = []
    for phase in kernel.phases:
        for accumulate in phase.accumulates:
            roots += accumulate.element
        roots += [keep.value for keep in phase.keeps]
        roots += [store.value for store in phase.stores]
    for total in (*kernel.element_totals, *kernel.column_totals):
        roots += total.element
    return tuple(roots)


def _chooses(kernel: RowKernel) -> bool:
    """True if a row is gone through again for the position of what was chosen; the processor
    foresees a single pass."""
    return any(map(is_choice, kernel.phases[0].accumulates)) if kernel.phases else False


def _reduces(kernel: RowKernel) -> bool:
    """True if a kernel reads more than it writes."""
    return bool(kernel.element_totals) or any(phase.accumulates for phase in kernel.phases)


def _is_dense(offset: Number, kernel: RowKernel) -> bool:
    """True if neighbours in the order of the loops are neighbours in memory."""
    axes = (*kernel.rows, *kernel.elements)
    if any(name not in {axis.name for axis in axes} for name in _variables(offset)):
        return False
    size: Number = 1
    for axis in (*reversed(kernel.elements), *kernel.rows[-1:]):
        if axis.size != 1 and _step(offset, axis) != size:
            return False
        size = size * axis.size
    return True


def _variables(offset: Number) -> list[str]:
    return [name for name in symint.symbols(offset) if not is_size(name)]


def _step(offset: Number, axis: Axis) -> Number:
    return symint.substitute(offset, {axis.name: axis.symbol + 1}) - offset


def _distance(row: Number, buffer: Buffer) -> int:
    itemsize = buffer.dtype.itemsize
    if not isinstance(row, int):
        return NEAR_BYTES // itemsize
    return min(max(row, NEAR_BYTES // itemsize), FAR_BYTES // itemsize)
