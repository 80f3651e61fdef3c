"""The loop IR: scalar expressions and the kernels that evaluate them.

Contract: everything is frozen. Expressions are hash-consed: building the same expression twice
gives the same object, so `==`, `hash` and sharing are by identity and a kernel is a DAG without
repeated work. Offsets and sizes are `core.types.symint` numbers over loop variables (`i0`, `i1`,
...), data indices (`j0`, ...: integers loaded from memory and checked against a size) and the
symbols of the graph (`s0`, ...: sizes that are known when the program runs).
16-bit floats appear only as the dtype of loads, casts and stores; arithmetic is never done in them.
`codegen.plan.lowering` builds expressions and kernels; the printers of C and CUDA read both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Final, TypeAlias
from weakref import WeakValueDictionary

from dynajit.codegen.loops.turns import Turns
from dynajit.core.errors import InternalError
from dynajit.core.operators import SYMBOLS
from dynajit.core.records import record
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import numel
from dynajit.ir.nests import Nest
from dynajit.ops.table.op_table import TABLE, Kind
from dynajit.ops.table.scalar import SCALARS, Effort

ALIGNMENT: Final = 64
"""Bytes, of places in memory: a cache line, and the widest vector register."""

_interned: Final["WeakValueDictionary[tuple[Any, ...], Any]"] = WeakValueDictionary()


def _key(value: Any) -> Any:
    """Tells 0.0 from -0.0 and 1 from True, and finds NaN equal to itself."""
    if isinstance(value, (bool, int, float)):
        return (type(value), repr(value))
    return value


class _Interned(type):
    """Metaclass of hash-consed frozen dataclasses."""

    def __call__(cls, *args: Any) -> Any:
        key = (cls, *map(_key, args))
        found = _interned.get(key)
        if found is None:
            found = _interned[key] = super().__call__(*args)
        return found


@record
class Buffer:
    """A block of memory with elements of one dtype.

    Args:
        name: unique within a program; the C name of its pointer.
        dtype: element type as stored.
        size: number of elements addressed from the pointer (0: nothing may be read).
    """

    name: str
    dtype: DType
    size: Number

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}[{self.size}]"


class Expression(metaclass=_Interned):
    """A scalar value at one point of a kernel's loops; see the subclasses."""

    __slots__ = ("__weakref__",)

    dtype: DType

    @property
    def operands(self) -> tuple["Expression", ...]:
        """Expressions that this one is computed from."""
        return ()

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Index expressions that this one uses directly."""
        return ()

    def __str__(self) -> str:
        parts: list[str] = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                parts.extend(map(str, value))
            elif isinstance(value, (DType, Buffer)):
                parts.append(value.name)
            else:
                parts.append(str(value))
        return f"{type(self).__name__.lower()}({', '.join(parts)})"

    __repr__ = __str__


@record(eq=False, repr=False)
class Literal(Expression):
    """A number known at compile time."""

    value: bool | int | float
    dtype: DType


@record(eq=False, repr=False)
class Parameter(Expression):
    """A run-time Python number: argument number `position` among the scalar arguments."""

    position: int
    dtype: DType


@record(eq=False, repr=False)
class Index(Expression):
    """An index expression as an int64 value."""

    value: Number
    dtype: ClassVar[DType] = dtypes.int64  # type: ignore[misc]

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The index expression."""
        return (self.value,)


@record(eq=False, repr=False)
class Compare(Expression):
    """Whether `left` is `less` than, or `equal` to, `right`; both are index expressions."""

    relation: str
    left: Number
    right: Number
    dtype: ClassVar[DType] = dtypes.bool_  # type: ignore[misc]

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Both sides."""
        return (self.left, self.right)


@record(eq=False, repr=False)
class Load(Expression):
    """The element of `buffer` at `offset` (in elements)."""

    buffer: Buffer
    offset: Number

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The buffer's dtype."""
        return self.buffer.dtype

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The offset."""
        return (self.offset,)


@record(eq=False, repr=False)
class Apply(Expression):
    """A scalar function or operator: a key of `ops.table.scalar.SCALARS` or of `OPERATORS`."""

    function: str
    arguments: tuple[Expression, ...]
    dtype: DType

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The arguments; all have one dtype, except the condition of `where`."""
        return self.arguments


@record(eq=False, repr=False)
class Cast(Expression):
    """`operand` in another dtype, by the rules of the row `cast`."""

    operand: Expression
    dtype: DType

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


@record(eq=False, repr=False)
class Select(Expression):
    """`yes` where the condition holds, else `no`; only the chosen one is evaluated.

    Made by index maps: the arm that is not chosen may read out of range.
    """

    condition: Expression
    yes: Expression
    no: Expression

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """That of both arms."""
        return self.yes.dtype

    @property
    def operands(self) -> tuple[Expression, ...]:
        """Condition and arms."""
        return (self.condition, self.yes, self.no)


@record(eq=False, repr=False)
class Word(Expression):
    """Word number `position` of the Philox stream of `seed` whose block 0 is `block`.

    `seed` and `block` are int64 expressions; the value is an int64 in [0, 2**32).
    """

    seed: Expression
    block: Expression
    position: Number
    dtype: ClassVar[DType] = dtypes.int64  # type: ignore[misc]

    @property
    def operands(self) -> tuple[Expression, ...]:
        """Seed and block."""
        return (self.seed, self.block)

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The position."""
        return (self.position,)


@record(eq=False, repr=False)
class Accumulated(Expression):
    """Component `component` of the accumulator of reduction `name`, once it is complete."""

    name: str
    component: int
    dtype: DType


@record(eq=False, repr=False)
class Slot(Expression):
    """A hole in a `combine` expression: component of the earlier (`a`) or later (`b`) side."""

    side: str
    component: int
    dtype: DType


@record(eq=False)
class DataIndex:
    """An integer from memory used as an index: the meaning of a symbol `j0`, `j1`, ...

    Args:
        name: the symbol.
        value: the integer expression.
        size: number of valid positions; anything else is reported as out of range.
        wrap: negative values count from the end.
        is_checked: it was reported already; one that is out of range is position 0.
    """

    name: str
    value: Expression
    size: Number
    wrap: bool
    is_checked: bool = False


OPERATORS: Final = {
    row.name: SYMBOLS[row.operator]
    for row in TABLE
    if row.operator in SYMBOLS and row.kind is Kind.POINTWISE and row.name not in SCALARS
}
"""Operators of row bodies that are no scalar functions, and their C spelling."""

COST_EXPENSIVE: Final = 12
COST_DIVISION: Final = 4
COST_WORD: Final = 40


def is_expensive(function: str) -> bool:
    """Whether a function of row bodies is worth storing instead of computing twice."""
    row = SCALARS.get(function)
    return row is not None and row.effort is Effort.MANY


def commutes(function: str) -> bool:
    """Whether the two operands of a function of row bodies may be exchanged, to the last bit."""
    row = SCALARS.get(function)
    return function in ("add", "mul") if row is None else row.commutes


def cost(expression: Expression) -> int:
    """Cost of evaluating this one node, in additions of the same width."""
    if isinstance(expression, Word):
        return COST_WORD
    if isinstance(expression, Apply):
        row = SCALARS.get(expression.function)
        if row is None:
            return COST_DIVISION if expression.function == "div" else 1
        if row.effort is Effort.MANY:
            return COST_EXPENSIVE
        return COST_DIVISION if row.effort is Effort.DIVISION else 1
    return 0 if isinstance(expression, (Literal, Parameter, Accumulated, Slot)) else 1


TYPICAL_SIZE: Final = 256
"""What a symbolic size counts as in decisions that change nothing but speed."""


def is_size(name: str) -> bool:
    """True for the name of a symbol of the graph: known when the program runs."""
    return name.startswith("s") and name[1:].isdecimal()


def size_symbols(number: Number) -> frozenset[str]:
    """The symbols of the graph in an index expression."""
    return frozenset(filter(is_size, symint.symbols(number)))


def typical(size: Number) -> int:
    """A size, or for a symbolic one a guess, for decisions that change nothing but speed."""
    if isinstance(size, int):
        return size
    guess = symint.substitute(size, dict.fromkeys(symint.symbols(size), TYPICAL_SIZE))
    assert isinstance(guess, int)
    return max(guess, 0)


def walk(roots: tuple[Expression, ...]) -> list[Expression]:
    """Every expression below `roots` once, operands before users."""
    seen: set[Expression] = set()
    order: list[Expression] = []
    stack: list[tuple[Expression, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expression, done = stack.pop()
        if done:
            order.append(expression)
        elif expression not in seen:
            seen.add(expression)
            stack.append((expression, True))
            stack.extend((o, False) for o in reversed(expression.operands) if o not in seen)
    return order


# ---------------------------------------------------------------------------------------------
# kernels


@record
class Axis:
    """One loop: variable `name` from 0 to `size - 1`."""

    name: str
    size: Number

    @property
    def symbol(self) -> Number:
        """The loop variable as an index expression; 0 for a loop of one turn."""
        if not isinstance(self.size, int):
            return symint.symbol(self.name, 0, symint.bounds(self.size - 1)[1], self.size)
        return symint.symbol(self.name, 0, self.size - 1) if self.size > 1 else 0

    @property
    def known(self) -> int:
        """The size, where symbolic ones are refused (CUDA).

        Raises:
            InternalError: it is symbolic.
        """
        if not isinstance(self.size, int):
            raise InternalError(f"the size of the loop {self} must be known")
        return self.size

    def __str__(self) -> str:
        return f"{self.name} < {self.size}"


@record
class Store:
    """`buffer[offset] = value`, cast to the buffer's dtype."""

    buffer: Buffer
    offset: Number
    value: Expression

    def __str__(self) -> str:
        return f"{self.buffer.name}[{self.offset}] = {self.value}"


@record
class Accumulate:
    """A reduction: elements combined into an accumulator of one or more components.

    Args:
        name: what `Accumulated` refers to.
        element: the accumulator of one element.
        first: the accumulator of the first element, where there is no identity (such a reduction
            chooses one of its elements, so meeting the first one twice changes nothing).
        identity: the accumulator of no elements, or None.
        combine: the components, from `Slot`s.
    """

    name: str
    element: tuple[Expression, ...]
    first: tuple[Expression, ...] | None
    identity: tuple[Expression, ...] | None
    combine: tuple[Expression, ...]

    def __str__(self) -> str:
        values = ", ".join(map(str, self.element))
        return f"{self.name} <- {', '.join(map(str, self.combine))} of {values}"


@record
class Keep:
    """An expensive value kept per row: computed in one phase, read in later ones."""

    name: str
    value: Expression


@record
class Phase:
    """One pass over the elements of a row.

    Args:
        accumulates: reductions of this pass; complete after it.
        keeps: row buffers filled in this pass.
        stores: elements written in this pass.
    """

    accumulates: tuple[Accumulate, ...] = ()
    keeps: tuple[Keep, ...] = ()
    stores: tuple[Store, ...] = ()


@record
class RowKernel:
    """For every row: phases over its elements, then row stores; then totals over all rows.

    A pointwise kernel has one phase without accumulates. `totals` combine one value per row (or,
    with no row phases that reduce, per element); `finals` are stored once, after all rows.

    Args:
        name: the C function's name.
        rows: loops over rows, outermost first; independent of each other.
        elements: loops over the elements of a row.
        phases: passes, in order.
        row_stores: values per row, after all phases.
        totals: reductions over all rows of a value per row.
        element_totals: reductions over all elements of all rows (of the only phase).
        finals: values stored once.
        indices: meaning of the data indices used.
        in_place: (read, written) buffers that are one array: each element is read, then written.
        column_totals: reductions over all rows for each position in a row.
        column_stores: values at a position in a row, from those, after all rows.
    """

    name: str
    rows: tuple[Axis, ...]
    elements: tuple[Axis, ...]
    phases: tuple[Phase, ...]
    row_stores: tuple[Store, ...] = ()
    totals: tuple[Accumulate, ...] = ()
    element_totals: tuple[Accumulate, ...] = ()
    finals: tuple[Store, ...] = ()
    indices: tuple[DataIndex, ...] = ()
    in_place: tuple[tuple[Buffer, Buffer], ...] = ()
    column_totals: tuple[Accumulate, ...] = ()
    column_stores: tuple[Store, ...] = ()


@record
class ColumnKernel:
    """Reductions over `reduced` loops with the kept `columns` innermost.

    Args:
        name: the C function's name.
        outer: kept loops outside the reduced ones.
        reduced: the reduced loops.
        columns: kept loops inside.
        accumulates: reductions, one result per (outer, column) point.
        stores: values at an (outer, column) point, from `Accumulated`.
        indices: meaning of the data indices used.
    """

    name: str
    outer: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    accumulates: tuple[Accumulate, ...]
    stores: tuple[Store, ...]
    indices: tuple[DataIndex, ...] = ()


@record
class ScanKernel:
    """Running values along one loop, and what follows from them at the same element.

    `Accumulated` is here the running value, the element at hand included.

    Args:
        name: the C function's name.
        outer: loops outside the scanned one.
        scanned: the loop along which values run.
        columns: loops inside.
        phases: what needs no running value, or those of earlier phases only.
        is_reverse: values run from the last element to the first.
        indices: meaning of the data indices used.
    """

    name: str
    outer: tuple[Axis, ...]
    scanned: Axis
    columns: tuple[Axis, ...]
    phases: tuple[Phase, ...]
    is_reverse: bool
    indices: tuple[DataIndex, ...] = ()


@record
class ScatterKernel:
    """`target` filled with `initial`, then written at computed indices, in row-major order.

    Args:
        name: the C function's name.
        fill: loops over the target.
        initial: value of the target before, stored at `Store.offset`.
        loops: loops over the writes.
        write: the write; the value is combined with what is there as `mode` says.
        mode: see `Scatter` of the op table.
        accumulator: dtype in which values are combined (float32 for 16-bit targets).
        indices: meaning of the data indices used.
        in_place: (initial, target) buffers that are one array: nothing is filled, and nothing
            written before all indices were found to be valid.
    """

    name: str
    fill: tuple[Axis, ...]
    initial: Store
    loops: tuple[Axis, ...]
    write: Store
    mode: str
    accumulator: DType
    indices: tuple[DataIndex, ...] = ()
    in_place: tuple[tuple[Buffer, Buffer], ...] = ()


@record
class Matrix:
    """A strided matrix (or batch of matrices) in a buffer; strides in elements."""

    buffer: Buffer
    offset: Number
    batch_strides: tuple[Number, ...]
    row_stride: Number
    column_stride: Number


@record
class MatmulKernel:
    """`result = left @ right` for every batch index.

    Args:
        name: the C function's name.
        batch: batch sizes of the result.
        rows, inner, columns: n, k, m of (n, k) @ (k, m).
        left, right, result: operands; the result is row-major.
        bias: what sums of each row go on from, or, for GPUs, what a library adds to it; None:
            nothing.
        epilogue: what is computed of parts of the result in their place, see `plan.epilogues`.
    """

    name: str
    batch: tuple[Number, ...]
    rows: Number
    inner: Number
    columns: Number
    left: Matrix
    right: Matrix
    result: Matrix
    bias: Buffer | None = None
    epilogue: RowKernel | None = None


@record
class NativeKernel:
    """A composite row computed by a function of its own: see `codegen.plan.natives`.

    Args:
        name: the C function's name.
        row: of the table.
        reads: the operands; None for one that is left out.
        writes: the results, row-major; None for one that nobody needs.
        numbers: sizes, strides and options (integers and floats) that the row's printer knows.
        epilogue: as that of a product.
    """

    name: str
    row: str
    reads: tuple[Buffer | None, ...]
    writes: tuple[Buffer | None, ...]
    numbers: tuple[tuple[str, tuple[Any, ...]], ...]
    epilogue: RowKernel | None = None


@record
class NestOperand:
    """An operand of a loop nest by its strides, in elements."""

    buffer: Buffer
    offset: Number
    strides: tuple[Number, ...]
    shape: tuple[Number, ...]


@record
class NestKernel:
    """A loop nest over single elements.

    Args:
        name: the C function's name.
        nest: what it does.
        operands: of the row.
        writes: the results, row-major; None for one that nobody needs.
        in_place: (operand, result) that are one array.
    """

    name: str
    nest: Nest
    operands: tuple[NestOperand, ...]
    writes: tuple[Buffer | None, ...]
    in_place: tuple[tuple[Buffer, Buffer], ...] = ()


@record
class Cycle:
    """Where turns write one of their outputs.

    Args:
        row: the result of the loop that collects it: a turn's row of that; or None.
        own: the result that it is in the end, whose array is the first of the cycle; or None.
        count: how many arrays are written in order.
        place, step: where they are in the kernel's memory, in bytes, but for the result's own.
    """

    row: int | None
    own: int | None
    count: int
    place: int
    step: int


@record
class TurnsKernel:
    """A loop whose turns call one function: see `codegen.loops.turns`.

    Args:
        name: the C function's name.
        turns: the loop.
        go: whether the first turn runs.
        operands: of the body but the numbers.
        listed: the numbers that have no steps, in order.
        numbers: positions, among the numbers that the program is given, of those that are operands:
            they are the same in all turns, and come behind the turns' own.
        writes: the results; None for one that nobody needs.
        cycles: of each output of the body.
        bytes: of memory for the cycles, and in front of them what a turn needs.
        memory: where that is; None for chunks, which have their own, and for nothing.
    """

    name: str
    turns: Turns
    go: bool | Buffer
    operands: tuple[Buffer, ...]
    listed: tuple[Buffer, ...]
    numbers: tuple[int, ...]
    writes: tuple[Buffer | None, ...]
    cycles: tuple[Cycle, ...]
    bytes: int
    memory: Buffer | None


@record
class PanelKernel:
    """Products and row kernels over the same rows: all of them for one panel of rows, while it is
    cached, then for the next.

    Args:
        name: the C function's name.
        rows: of all panels together.
        panel: rows of a panel, but for the last one.
        steps: in running order. What one reads of another's result are the rows at hand.
        local: (buffer, elements of a row) of results that nothing else reads: there is memory for
            one panel of them per tile.
    """

    name: str
    rows: Number
    panel: int
    steps: tuple[RowKernel | MatmulKernel, ...]
    local: tuple[tuple[Buffer, int], ...]


Kernel: TypeAlias = (
    RowKernel
    | ColumnKernel
    | ScanKernel
    | ScatterKernel
    | MatmulKernel
    | NativeKernel
    | NestKernel
    | PanelKernel
    | TurnsKernel
)


def all_expressions(roots: Iterable[Expression], indices: Sequence[DataIndex]) -> list[Expression]:
    """Every expression of a kernel, data indices included."""
    return walk((*roots, *(index.value for index in indices)))


def product_of(axes: Sequence[Axis]) -> Number:
    """Turns of loops inside each other."""
    return numel(tuple(axis.size for axis in axes))
