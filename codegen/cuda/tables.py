"""Many small updates in a few launches: pointwise kernels that differ in arrays and numbers alone.

Contract: `group(kernels)` gives the kernels in an order that computes the same, those that can run
side by side put together; `print_group` prints one function for all of them, which is given a table
by value: for each kernel its pointers, numbers and size. A block works on a piece of one array. The
hundreds of updates of an optimiser become a few launches so.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from dynajit.codegen.c.support import may_fail
from dynajit.codegen.cuda.pointwise import THREADS, Pointwise
from dynajit.codegen.cuda.units.steps import (
    STATUS,
    Argument,
    CudaKernel,
    ScalarArgument,
    SizeArgument,
    TableArgument,
    Word,
)
from dynajit.codegen.cuda.units.support import (
    NARROW_LIMIT,
    Choices,
    Launch,
    by_value,
    function_text,
)
from dynajit.codegen.loops import rewriting
from dynajit.codegen.loops.buffers import written
from dynajit.codegen.loops.loop_ir import (
    Axis,
    Buffer,
    Expression,
    Kernel,
    Load,
    Parameter,
    Phase,
    RowKernel,
    Store,
    product_of,
    walk,
)
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

TABLE_BYTES: Final = 4000
"""Parameters of a kernel that every driver takes are 4096 bytes."""

MOST_ROWS: Final = 64

PIECE: Final = 4096
"""Elements of an array that a block works on."""

SIZE: Final = "s0"
"""The number of elements, in the text."""


@record
class Group:
    """Kernels whose function is one.

    Args:
        kernels: independent of each other.
        form: what they have in common.
    """

    kernels: tuple[RowKernel, ...]
    form: "_Form"


@record
class _Form:
    """A kernel without its own names.

    Args:
        kernel: over `SIZE` elements, its buffers and numbers named in order of appearance.
        buffers: as in the kernel that it is of, in that order.
        positions: of the numbers, likewise.
    """

    kernel: RowKernel
    buffers: tuple[Buffer, ...]
    positions: tuple[int, ...]


def group(kernels: Sequence[Kernel], reads: Mapping[str, set[Buffer]]) -> list[Kernel | Group]:
    """The kernels in running order, those of one form that may run side by side together.

    Args:
        reads: the buffers that each kernel uses, by its name.
    """
    found: list[list[RowKernel] | Kernel] = []
    forms: dict[int, _Form] = {}
    for kernel in kernels:
        form = _form_of(kernel) if isinstance(kernel, RowKernel) else None
        place = None
        if form is not None:
            place = _place(found, forms, kernel, form, reads)
        if form is None:
            found.append(kernel)
        elif place is None:
            assert isinstance(kernel, RowKernel)
            forms[len(found)] = form
            found.append([kernel])
        else:
            members = found[place]
            assert isinstance(members, list) and isinstance(kernel, RowKernel)
            members.append(kernel)
    return [
        entry if not isinstance(entry, list)
        else entry[0] if len(entry) == 1
        else Group(tuple(entry), forms[number])
        for number, entry in enumerate(found)
    ]  # fmt: skip


def _place(
    found: Sequence[list[RowKernel] | Kernel],
    forms: Mapping[int, _Form],
    kernel: Kernel,
    form: _Form,
    reads: Mapping[str, set[Buffer]],
) -> int | None:
    """Where kernels of this form stand that `kernel` may join; None if it may join none."""
    own, uses = _written(kernel), reads[kernel.name]
    for place in range(len(found) - 1, -1, -1):
        if place in forms and forms[place].kernel == form.kernel:
            members = found[place]
            assert isinstance(members, list)
            is_apart = all(not (_written(m) & uses) and not (own & reads[m.name]) for m in members)
            if is_apart:
                return place
        entry = found[place]
        for other in entry if isinstance(entry, list) else [entry]:
            if _written(other) & uses or own & reads[other.name]:
                return None
    return None


def _written(kernel: Kernel) -> set[Buffer]:
    """What a kernel writes, by any of its names."""
    found = written(kernel)
    if isinstance(kernel, RowKernel):
        found |= {source for source, target in kernel.in_place if target in found}
    return found


def _form_of(kernel: RowKernel) -> _Form | None:
    """The form of a kernel that computes each element from those at the same place; else None."""
    others = kernel.row_stores or kernel.totals or kernel.element_totals or kernel.column_totals
    if others or len(kernel.phases) != 1 or kernel.indices or kernel.finals:
        return None
    axes = [axis for axis in (*kernel.rows, *kernel.elements) if axis.size != 1]
    if len(axes) > 1 or not all(isinstance(axis.size, int) for axis in axes):
        return None
    (phase,) = kernel.phases
    size = product_of(axes)
    if phase.accumulates or phase.keeps or size == 0 or not phase.stores:
        return None
    size_of = symint.symbol(SIZE, 1, NARROW_LIMIT - 1)
    assert isinstance(size, int)
    if size >= NARROW_LIMIT:
        return None
    return _Renamed(kernel, axes, Axis("i0", size_of)).form()


class _Renamed:
    """Takes a kernel's own names out of it. Mutable: names are given in order of appearance."""

    def __init__(self, kernel: RowKernel, axes: Sequence[Axis], axis: Axis) -> None:
        self.kernel, self.axes, self.axis = kernel, axes, axis
        self.buffers: dict[Buffer, Buffer] = {}
        self.positions: dict[int, int] = {}

    def form(self) -> _Form | None:
        """The form, or None if an element is not where all others are."""
        (phase,) = self.kernel.phases
        roots = [store.value for store in phase.stores]
        known: dict[Expression, Expression] = {}
        for e in walk(tuple(roots)):
            if isinstance(e, Parameter):
                number = self.positions.setdefault(e.position, len(self.positions))
                known[e] = Parameter(number, e.dtype)
            elif isinstance(e, Load):
                # Of one element, which may be written where it is read, it is the element at hand.
                is_own = not self.axes and any(e.buffer == a for a, _ in self.kernel.in_place)
                offset = self._offset(e.offset, is_own)
                if offset is None:
                    return None
                known[e] = Load(self._buffer(e.buffer), offset)
            elif e.numbers:
                return None
        stores = []
        for store, value in zip(phase.stores, rewriting.replaced(roots, known), strict=True):
            offset = self._offset(store.offset, is_own=True)
            if offset is None:
                return None
            stores.append(Store(self._buffer(store.buffer), offset, value))
        same = tuple((self._buffer(a), self._buffer(b)) for a, b in self.kernel.in_place)
        renamed = RowKernel("k", (), (self.axis,), (Phase(stores=tuple(stores)),), in_place=same)
        return _Form(renamed, tuple(self.buffers), tuple(self.positions))

    def _buffer(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            found = Buffer(f"p{len(self.buffers)}", buffer.dtype, 1)
            self.buffers[buffer] = found
        return found

    def _offset(self, offset: Number, is_own: bool = False) -> "Number | None":
        """The place of the element at hand, or of a number that all share; else None.

        Args:
            is_own: it must be the element at hand.
        """
        symbol = self.axes[0].symbol if self.axes else 0
        if offset == symbol and (self.axes or is_own):
            return self.axis.symbol
        return 0 if offset == 0 and not is_own else None


# ---------------------------------------------------------------------------------------------
# as text


def print_group(given: Group, choices: Choices) -> tuple[CudaKernel, ...]:
    """The launches of a group."""
    members = [_form_of(kernel) for kernel in given.kernels]
    forms = [form for form in members if form is not None]
    common = [
        number for number in range(len(given.form.positions))
        if len({form.positions[number] for form in forms}) == 1
    ]  # fmt: skip
    printer = _Table(given, common)
    width = printer.columns
    most = max(1, min(MOST_ROWS, TABLE_BYTES // (8 * width)))
    launches = -(-len(forms) // most)
    per = -(-len(forms) // launches)
    steps = []
    for number in range(launches):
        own = slice(number * per, (number + 1) * per)
        steps.append(printer.launch(number, per, forms[own], given.kernels[own]))
    return tuple(steps)


class _Table:
    """Prints the function of a group.

    Args:
        given: the group.
        common: numbers that are the same for all of its kernels.
    """

    def __init__(self, given: Group, common: Sequence[int]) -> None:
        self.given, self.common = given, common
        form = given.form
        same = dict(form.kernel.in_place)
        self.pointers = [
            number for number in range(len(form.buffers)) if not self._is_same(number, same)
        ]
        self.numbers = [n for n in range(len(form.positions)) if n not in common]
        printer = Pointwise(form.kernel, Choices())
        self.may_fail = may_fail(printer.expressions, printer.indices)
        self.columns = 2 + len(self.pointers) + len(self.numbers)

    def _is_same(self, number: int, same: Mapping[Buffer, Buffer]) -> bool:
        """True for a buffer that is read where another one is written."""
        return any(buffer.name == f"p{number}" for buffer in same)

    def launch(
        self, number: int, rows: int, forms: Sequence[_Form], kernels: Sequence[RowKernel]
    ) -> CudaKernel:
        """One launch: the table of some kernels, and rows of nothing up to `rows`."""
        table: list[tuple[Word, ...]] = []
        first = 0
        for form, kernel in zip(forms, kernels, strict=True):
            size = product_of((*kernel.rows, *kernel.elements))
            assert isinstance(size, int)
            words: list[Word] = [SizeArgument(first), SizeArgument(size)]
            words += [form.buffers[n] for n in self.pointers]
            words += [ScalarArgument(form.positions[n]) for n in self.numbers]
            table.append(tuple(words))
            first += -(-size // PIECE)
        nothing: list[Word] = [SizeArgument(first), SizeArgument(0)]
        nothing += [forms[0].buffers[n] for n in self.pointers]
        nothing += [ScalarArgument(forms[0].positions[n]) for n in self.numbers]
        table += [tuple(nothing)] * (rows - len(table))
        arguments: list[Argument] = [TableArgument(tuple(table))]
        arguments += [ScalarArgument(forms[0].positions[n]) for n in self.common]
        arguments += [STATUS] if self.may_fail else []
        name = self.given.kernels[0].name
        suffix = f"_{number}" if number else ""
        launch = Launch(first, THREADS)
        return CudaKernel(
            f"{name}_table{suffix}", f"{name}_table", self._text(f"{name}_table", rows),
            launch.grid, launch.block, 0, 0, tuple(arguments), kernels[0],
        )  # fmt: skip

    def _text(self, name: str, rows: int) -> str:
        form = self.given.form
        printer = Pointwise(form.kernel, Choices())
        parameters = [f"const __grid_constant__ dj_table<{rows}, {self.columns}> table"]
        parameters += [f"const dj_scalar scalar{n}" for n in self.common]
        parameters += ["int64_t *status"] if self.may_fail else []
        same = {a.name: b.name for a, b in form.kernel.in_place}
        body = [
            "const int row = dj_table_row(table, blockIdx.x);",
            "const int block = blockIdx.x - (int)table.at[row][0];",
            f"const int {SIZE} = (int)table.at[row][1];",
        ]
        writes = {store.buffer.name for phase in form.kernel.phases for store in phase.stores}
        for column, n in enumerate(self.pointers, 2):
            c = form.buffers[n].dtype.c
            const = "" if f"p{n}" in writes else "const "
            body.append(f"{const}{c} *const p{n} = ({const}{c} *)table.at[row][{column}];")
        body += [
            f"const {buffer.dtype.c} *const {buffer.name} = {same[buffer.name]};"
            for buffer, _ in form.kernel.in_place
        ]
        for column, n in enumerate(self.numbers, 2 + len(self.pointers)):
            body.append(f"const dj_scalar scalar{n} = dj_scalar_of(table.at[row][{column}]);")
        body += printer.piece(PIECE)
        launch = Launch(1, THREADS, resident=printer.resident)
        return function_text(name, launch.bounds, parameters, by_value(body))
