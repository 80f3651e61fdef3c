"""Stores of large results past the caches.

Contract: `stores` are the results of a row kernel that may bypass the caches; `lines` print the
loop that computes them, `LANES` elements at a time, into memory that becomes registers, and stores
whole cache lines. Whether they bypass is decided where the unit is compiled, by the size of the
caches (`toolchain.bypass_bytes`), and for each row by its alignment; otherwise the same loop stores
as any other. The values are the same. Called by `codegen.c_rows`.

A store brings its line into the caches first. For a result that is written as a whole that is read
for nothing, and it pushes out what may be needed: a kernel that reads one array and writes another
moves three halves of what it must. Measured on one core of an EPYC (Zen 4, 32 MiB of cache) over
floats in large pages: `y = 1.5 * x` 0.72 of the time at 64 MiB each, 0.87 at 16, 1.08 at 8; RMS
norm 0.66 at 16 MiB and 0.62 at 64. Other processors were not measured.
"""

from collections.abc import Callable, Sequence

from dynajit.codegen import c_near
from dynajit.codegen.c_expressions import Scope
from dynajit.codegen.c_support import all_expressions, block, loop, nest
from dynajit.codegen.loops import Axis, Buffer, Load, RowKernel, Store, is_size
from dynajit.core import symint

LEAST_BYTES = 8 << 20
"""Results smaller than this are left to the caches, whose sizes are not known here: half of those
of a small server."""

LEAST_RUN = 256
"""Elements of the innermost loop that are worth lines of their own."""

LANES = 32
"""Elements whose lines are stored together: at least one line of every dtype of two bytes."""

LEAST_ITEMSIZE = 2


def stores(kernel: RowKernel) -> tuple[Store, ...]:
    """The stores of the last pass that may bypass the caches: of large results that the kernel does
    not read, in lines."""
    phase = kernel.phases[-1] if kernel.phases else None
    if phase is None or phase.accumulates or not kernel.elements:
        return ()
    if kernel.in_place or kernel.column_totals or kernel.element_totals:
        return ()
    axis = kernel.elements[-1]
    if not isinstance(axis.size, int) or axis.size < LEAST_RUN:
        return ()
    found = [store for store in phase.stores if _is_large(store.buffer)]
    if not found:
        return ()
    read = _read(kernel)
    axes = {axis.name for axis in (*kernel.rows, *kernel.elements)}
    return tuple(s for s in found if s.buffer not in read and _is_in_lines(s, axis, axes))


def _is_large(buffer: Buffer) -> bool:
    if not isinstance(buffer.size, int) or buffer.dtype.itemsize < LEAST_ITEMSIZE:
        return False
    return bytes_of(buffer) >= LEAST_BYTES


def bytes_of(buffer: Buffer) -> int:
    """The bytes of a buffer of known size."""
    assert isinstance(buffer.size, int)
    return buffer.size * buffer.dtype.itemsize


def _read(kernel: RowKernel) -> set[Buffer]:
    parts = [part for phase in kernel.phases for a in phase.accumulates for part in a.element]
    parts += [part for total in kernel.totals for part in total.element]
    parts += [keep.value for phase in kernel.phases for keep in phase.keeps]
    written = [*kernel.row_stores, *(store for phase in kernel.phases for store in phase.stores)]
    parts += [store.value for store in written]
    return {e.buffer for e in all_expressions(parts, kernel.indices) if isinstance(e, Load)}


def _is_in_lines(store: Store, axis: Axis, axes: set[str]) -> bool:
    """True if neighbours of the innermost loop are neighbours in memory, at a computed place."""
    names = [name for name in symint.symbols(store.offset) if not is_size(name)]
    step = symint.substitute(store.offset, {axis.name: axis.symbol + 1}) - store.offset
    return step == 1 and set(names) <= axes


def lines(
    kernel: RowKernel,
    element: Callable[[], Scope],
    stored: Sequence[Store],
    body: Callable[[Scope, Sequence[Store]], None],
    bounds: tuple[str, str, bool],
) -> list[str]:
    """The loops over the elements of a row.

    Args:
        kernel: whose row it is.
        element: makes a scope of one element.
        stored: what bypasses the caches.
        body: appends what is done for an element, but for some stores.
        bounds: the first element of the innermost loop, the one after the last, and whether it is
            known that they are a multiple of `LANES`, at the start of a line of an aligned array.
    """
    axis = kernel.elements[-1]
    start, stop, is_even = bounds

    def lane() -> Scope:
        scope = element()
        scope.add(f"const int64_t {axis.name} = base + lane;")
        return scope

    def compute(scope: Scope) -> None:
        body(scope, stored)
        for number, store in enumerate(stored):
            scope.store(f"line{number}[lane]", store.buffer.dtype, store.value)

    first = _address(stored[0], axis, start)
    size = stored[0].buffer.dtype.itemsize
    head = [f"int64_t base = {start};"]
    if not is_even:
        head.append(f"base += dj_min_index(dj_before_line({first}, {size}), {stop} - {start});")
        head.append("const int64_t edge = base;")
    step = []
    after = []
    for number, store in enumerate(stored):
        place = _address(store, axis, "base")
        head.append(
            f"const int bypass{number} = DJ_BYPASSES({bytes_of(store.buffer)}, {place});"
        )  # fmt: skip
        step.append(f"{store.buffer.dtype.c} line{number}[{LANES}] __attribute__((aligned(64)));")
        after.append(
            f"dj_store_lines({place}, line{number}, sizeof line{number}, bypass{number});"
        )  # fmt: skip
    step += [*c_near.simd_loop(lane, compute, "lane", "0", str(LANES)), *after]
    main = block(f"for (; base < {stop} - {LANES - 1}; base += {LANES})", step)
    edges = [] if is_even else _edges(axis, element, body, start, stop)
    return nest(kernel.elements[:-1], ["{", *head, *main, *edges, "}"])


def _address(store: Store, axis: Axis, position: str) -> str:
    place = int(position) if position.isdigit() else symint.symbol(position)
    offset = symint.substitute(store.offset, {axis.name: place})
    return f"&{store.buffer.name}[{symint.c(offset)}]"


def _edges(
    axis: Axis,
    element: Callable[[], Scope],
    body: Callable[[Scope, Sequence[Store]], None],
    start: str,
    stop: str,
) -> list[str]:
    """What stands before the first whole line and behind the last."""
    ends = f"const int64_t low = part ? base : {start}, high = part ? {stop} : edge;"
    inner = c_near.simd_loop(element, lambda scope: body(scope, ()), axis.name, "low", "high")
    return loop("part", "0", "2", [ends, *inner], integer="int")
