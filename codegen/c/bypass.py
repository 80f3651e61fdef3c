"""Stores of large results past the caches.

Contract: `stores` are the results of a row kernel that may bypass the caches; `lines` print the
loop that computes them, `LANES` elements at a time, into memory that becomes registers, and stores
whole cache lines. Whether they bypass is decided where the unit is compiled, by what the kernel
reads and writes and by the CPU (`toolchain.bypass_bytes`), and for each row by its alignment; what
does not is computed by the loop that other kernels have. The values are the same.

A store brings its line into the caches first. For a result that is written as a whole that is read
for nothing, and it pushes out what may be needed: a kernel that reads one array and writes another
moves three halves of what it must. Measured over floats in large pages, both arrays of n MiB, one
core (two cores), against the best form of other stores:

| processor | n | RMS norm | y = 1.5 * x |
| --- | --- | --- | --- |
| EPYC (Zen 4), 32 MiB of cache | 8 | 1.14 (2.1) | 1.38 (3.1) |
| | 16 | 0.88 (1.11) | 0.94 (1.33) |
| | 32 | 0.91 (0.87) | 0.90 (0.96) |
| | 64 | 1.00 (0.74) | 0.76 (0.78) |
| Xeon (Sapphire Rapids), 300 MiB | 8 | 0.69 (0.77) | 0.80 (0.80) |
| | 16 | 0.64 (0.69) | 0.75 (0.77) |
| | 64 | 0.68 (0.67) | 0.61 (0.51) |
"""

from collections.abc import Callable, Sequence

from dynajit.codegen.c.expressions import Scope
from dynajit.codegen.c.support import (
    block,
    loop,
    nest,
    simd_loop,
)
from dynajit.codegen.loops.loop_ir import (
    Axis,
    Buffer,
    Load,
    RowKernel,
    Store,
    all_expressions,
    is_size,
)
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

LEAST_MOVED = 16 << 20
"""Bytes that a kernel reads and writes from which results may bypass the caches, on any CPU."""

LEAST_RESULT = 4 << 20
"""Bytes of such a result: smaller ones are left where they may be read again."""

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
    if not found or moved_bytes(kernel) < LEAST_MOVED:
        return ()
    read = _read(kernel)
    axes = {axis.name for axis in (*kernel.rows, *kernel.elements)}
    return tuple(s for s in found if s.buffer not in read and _is_in_lines(s, axis, axes))


def _is_large(buffer: Buffer) -> bool:
    return buffer.dtype.itemsize >= LEAST_ITEMSIZE and _bytes(buffer) >= LEAST_RESULT


def _bytes(buffer: Buffer) -> int:
    """The bytes of a buffer; 0 where they are known only when the program runs."""
    return buffer.size * buffer.dtype.itemsize if isinstance(buffer.size, int) else 0


def moved_bytes(kernel: RowKernel) -> int:
    """The bytes of all arrays of known size that a kernel reads and writes."""
    return sum(map(_bytes, _read(kernel) | {store.buffer for store in _written(kernel)}))


def _written(kernel: RowKernel) -> list[Store]:
    return [*kernel.row_stores, *(store for phase in kernel.phases for store in phase.stores)]


def _read(kernel: RowKernel) -> set[Buffer]:
    parts = [part for phase in kernel.phases for a in phase.accumulates for part in a.element]
    parts += [part for total in kernel.totals for part in total.element]
    parts += [keep.value for phase in kernel.phases for keep in phase.keeps]
    parts += [store.value for store in _written(kernel)]
    return {e.buffer for e in all_expressions(parts, kernel.indices) if isinstance(e, Load)}


def _is_in_lines(store: Store, axis: Axis, axes: set[str]) -> bool:
    """True if neighbours of the innermost loop are neighbours in memory, at a computed place."""
    names = [name for name in symint.symbols(store.offset) if not is_size(name)]
    step = symint.substitute(store.offset, {axis.name: axis.symbol + 1}) - store.offset
    return step == 1 and set(names) <= axes


def lines(
    elements: Sequence[Axis],
    moved: int,
    element: Callable[[], Scope],
    stored: Sequence[Store],
    body: Callable[[Scope, Sequence[Store]], None],
    bounds: tuple[str, str, bool],
) -> list[str]:
    """The loops over the elements of a row.

    Args:
        elements: the loops.
        moved: bytes that the kernel moves.
        element: makes a scope of one element.
        stored: what bypasses the caches.
        body: appends what is done for an element, but for some stores.
        bounds: the first element of the innermost loop, the one after the last, and whether it is
            known that they are a multiple of `LANES`, at the start of a line of an aligned array.
    """
    axis = elements[-1]
    start, stop, is_even = bounds
    places = [_address(store, axis, "base") for store in stored]

    def lane() -> Scope:
        scope = element()
        scope.add(f"const int64_t {axis.name} = base + lane;")
        return scope

    def compute(scope: Scope) -> None:
        body(scope, stored)
        for number, store in enumerate(stored):
            scope.store(f"line{number}[lane]", store.buffer.dtype, store.value)

    head = [f"int64_t base = {start};"]
    if not is_even:
        first, size = _address(stored[0], axis, start), stored[0].buffer.dtype.itemsize
        head.append(f"base += dj_min_index(dj_before_line({first}, {size}), {stop} - {start});")
    bypasses = " && ".join(f"DJ_BYPASSES({moved}, {place})" for place in places)
    held = [
        f"{store.buffer.dtype.c} line{number}[{LANES}] __attribute__((aligned(64)));"
        for number, store in enumerate(stored)
    ]
    after = [
        f"dj_bypass({place}, line{number}, sizeof line{number});"
        for number, place in enumerate(places)
    ]
    step = [*held, *simd_loop(lane, compute, "lane", "0", str(LANES)), *after]
    main = block(f"for (; base < {stop} - {LANES - 1}; base += {LANES})", step)
    choice = block(f"if ({bypasses})", main)
    rest = _loop(axis, element, body, "base", stop)
    if not is_even:
        head.append("int64_t edge = base;")
        choice += block("else", [f"edge = base = {start};"])
        ends = f"const int64_t low = part ? base : {start}, high = part ? {stop} : edge;"
        both = [ends, *_loop(axis, element, body, "low", "high")]
        rest = loop("part", "0", "2", both, integer="int")
    return nest(elements[:-1], ["{", *head, *choice, *rest, "}"])


def _loop(
    axis: Axis,
    element: Callable[[], Scope],
    body: Callable[[Scope, Sequence[Store]], None],
    start: str,
    stop: str,
) -> list[str]:
    """The loop that stores as any other."""
    return simd_loop(element, lambda scope: body(scope, ()), axis.name, start, stop)


def _address(store: Store, axis: Axis, position: str) -> str:
    place: Number = int(position) if position.isdigit() else symint.symbol(position)
    offset = symint.substitute(store.offset, {axis.name: place})
    return f"&{store.buffer.name}[{symint.c(offset)}]"
