"""Kernels that reduce nothing in CUDA: a grid-stride loop, by packs of 16 bytes where it may be.

Contract: one thread computes an element, or the elements of one pack: as many neighbours along the
last loop as fit into 16 bytes of the widest array. Loads and stores of neighbours become packs if
their offset is the last loop variable plus multiples of the pack; whether the pointers are aligned
is asked at run time, once per kernel. Compiled, not yet run on a GPU. Called by `cuda_rows` and
`cuda_scatter`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dynajit.codegen.c_expressions import INDENT, Scope
from dynajit.codegen.c_support import loop, unflattened
from dynajit.codegen.cuda_steps import CudaKernel
from dynajit.codegen.cuda_support import (
    MOST_BLOCKS,
    THREADS,
    Launch,
    define,
    index_type,
    names,
    product,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.loops import Buffer, Load, RowKernel, Store
from dynajit.codegen.lowering import unconditional
from dynajit.core import symint
from dynajit.core.symint import Number

PACK_BYTES: Final = 16
"""The widest load of a thread."""

WIDEST_PACK: Final = 8
"""Elements per thread; more of a one-byte type would only unroll arithmetic."""

BASE: Final = "base"
"""Value of the last loop variable at the first element of a pack."""


def print_pointwise(kernel: RowKernel) -> tuple[CudaKernel, ...]:
    """The kernel, or none if no element is computed."""
    printer = _Pointwise(kernel)
    return (printer.kernel_text(),) if printer.count and printer.stores else ()


@dataclass(frozen=True, slots=True)
class _Packs:
    """What is read and written by packs of `width`."""

    width: int
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]

    @property
    def buffers(self) -> list[Buffer]:
        """Arrays that must be aligned."""
        parts = [load.buffer for load in self.loads] + [store.buffer for store in self.stores]
        return list(dict.fromkeys(parts))


class _Pointwise:
    """Prints one kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: RowKernel) -> None:
        self.kernel = kernel
        self.axes = (*kernel.rows, *kernel.elements)
        self.count = product(self.axes)
        self.stores = tuple(store for phase in kernel.phases for store in phase.stores)
        offsets = [store.offset for store in self.stores]
        self.expressions, self.indices = used_expressions(
            roots_of(self.stores, ()), offsets, kernel.indices
        )
        self.integer = index_type(self.expressions, offsets, self.count)
        self.names = names(self.indices)

    def kernel_text(self) -> CudaKernel:
        packs = self._packs()
        root = Scope(self.names)
        body = self._by_element(root)
        per_thread = 1
        if packs is not None:
            per_thread = packs.width
            aligned = " && ".join(
                f"dj_is_aligned<{packs.width}>({buffer.name})" for buffer in packs.buffers
            )
            wide = self._by_pack(root, packs)
            body = [
                f"if ({aligned}) {{", *(INDENT + line for line in wide),
                "} else {", *(INDENT + line for line in body), "}",
            ]  # fmt: skip
        grid = max(1, min(MOST_BLOCKS, -(-self.count // (THREADS * per_thread))))
        return define(
            self.kernel, self.kernel.name, [*root.lines, *body], Launch(grid, THREADS),
            self.expressions, [store.buffer for store in self.stores], self.indices,
        )  # fmt: skip

    def _by_element(self, root: Scope) -> list[str]:
        scope = root.child([axis.name for axis in self.axes])
        for store in self.stores:
            scope.store(target_of(scope, store), store.buffer.dtype, store.value)
        lines = [*unflattened("position", self.axes, self.integer), *scope.lines]
        return self._grid_stride("position", self.count, lines)

    def _grid_stride(self, variable: str, count: int, lines: Sequence[str]) -> list[str]:
        start = f"({self.integer})blockIdx.x * {THREADS} + threadIdx.x"
        step = f"({self.integer})gridDim.x * {THREADS}"
        return loop(variable, start, str(count), lines, step, self.integer)

    # -- packs

    def _packs(self) -> _Packs | None:
        """Packs, or None where nothing lies side by side."""
        last = self.axes[-1] if self.axes else None
        if last is None:
            return None
        loads = [
            e for e in unconditional(tuple(store.value for store in self.stores))
            if isinstance(e, Load) and e.buffer.size and last.name in symint.symbols(e.offset)
        ]  # fmt: skip
        sizes = [e.dtype.itemsize for e in loads] + [s.buffer.dtype.itemsize for s in self.stores]
        width = min(PACK_BYTES // max(sizes), WIDEST_PACK)
        if width < 2 or last.size % width:
            return None
        fitting = tuple(e for e in loads if self._is_pack(e.offset, width))
        stores = tuple(store for store in self.stores if self._is_pack(store.offset, width))
        return _Packs(width, fitting, stores) if stores else None

    def _is_pack(self, offset: Number, width: int) -> bool:
        """True if neighbours along the last loop are neighbours in memory, and a whole pack."""
        rest = offset - self.axes[-1].symbol
        names_used = symint.symbols(rest)
        if self.axes[-1].name in names_used or any(name.startswith("j") for name in names_used):
            return False
        return symint.mod(rest, width) == 0

    def _by_pack(self, root: Scope, packs: _Packs) -> list[str]:
        *outer_axes, last = self.axes
        outer = root.child([axis.name for axis in outer_axes])
        inner = outer.child([last.name])
        base = {last.name: symint.symbol(BASE, 0, last.known - 1)}
        before, after = [], []
        for number, load in enumerate(packs.loads):
            place = symint.c(symint.substitute(load.offset, base))
            source = f"dj_load_pack<{packs.width}>({load.buffer.name} + {place})"
            before.append(f"const auto pack{number} = {source};")
            inner.known[load] = f"pack{number}.at[item]"
        for number, store in enumerate(self.stores):
            if store not in packs.stores:
                inner.store(target_of(inner, store), store.buffer.dtype, store.value)
                continue
            inner.store(f"result{number}.at[item]", store.buffer.dtype, store.value)
            before.append(f"dj_pack<{store.buffer.dtype.c}, {packs.width}> result{number};")
            place = symint.c(symint.substitute(store.offset, base))
            after.append(f"dj_store_pack({store.buffer.name} + {place}, result{number});")
        per_row = last.size // packs.width
        whole = self.count // last.size
        position = "pack" if whole == 1 else f"pack % {per_row}"
        lines = [f"const {self.integer} {BASE} = {position} * {packs.width};"]
        lines += unflattened(f"(pack / {per_row})", outer_axes, self.integer)
        head = f"const {self.integer} {last.name} = {BASE} + item;"
        items = loop("item", "0", str(packs.width), [head, *inner.lines], integer="int")
        lines += [*outer.lines, *before, "#pragma unroll", *items, *after]
        return self._grid_stride("pack", self.count // packs.width, lines)
