"""Loop nests over single elements: a row whose attribute is a small program of scalars.

Contract: `nest(*operands; nest, result)` runs `Nest.blocks` from the first on, and gives one of its
results; calls with the same operands and the same nest are one run. Operands are arrays, or numbers
without dims. An array that the program writes is a copy of the operand; it is a result as it is at
the end. The program refuses its values where Python would raise, and where what Python does
cannot be said by it: then nothing has happened, and whoever called runs plainly.

A program is blocks of steps; a block ends with a jump. `Step` says what each step does. There are
no types but those of registers: conversions are steps of their own. Who makes a nest (`capture`)
sees to Python's rules; who prints one (`codegen.c.nests`) computes what it is told, one operation
after the other.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from dynajit.core.errors import BoundsError, InternalError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.table.op_table import FURTHER, REQUIRED, Extern, Kind, Op


@record
class Register:
    """A variable of the program."""

    name: str
    dtype: DType


@record
class Size:
    """The size of a dim of an operand."""

    slot: int
    dim: int


@record
class Step:
    """One operation.

    Args:
        operation: what is done; `target` gets it where there is one:
            "set": the operand, converted as C converts; with `dtype` first to that.
            "add", "sub", "mul", "div", "floordiv", "mod", "neg", "bitand", "bitor", "bitxor",
            "invert", "shl", "shr": of operands that are converted to `dtype`; integers wrap.
            "lt", "le", "eq", "ne", "gt", "ge": a truth, compared in `dtype`.
            "not": whether the operand is 0. "both", "either": of two truths.
            "select": the second operand where the first is true, else the third.
            "call": the scalar function `name` (`ops.table.scalar`) in `dtype`.
            "library": the function `name` of the C library, of doubles; of floats in float32.
            "add_whole", "sub_whole", "mul_whole": of int64; refuses a result that does not fit.
            "truncate": a float without its fraction; refuses what an int of `dtype` does not hold.
            "index": an index, counted from the front of a dim of as many elements as the second
            operand says; refuses one that is out of range.
            "load": an element of array `slot`. "store": the last operand, into that element.
            "scratch": memory for as many elements as the operand says, with any contents, for the
            scratch array `slot`.
            "grow": the same, keeping its contents.
            "hand_over": the address of scratch array `slot` as an int64, which whoever gets it
            frees; an end of the program follows.
            "draw": what the function `name` of `codegen/headers/random.h` draws from the state of a
            generator of random numbers, which array `slot` holds and which is changed.
            "each": the steps of the turn `name` as many times as the operand says; the target
            counts them from 0.
            "poll": asks for signals now and then; once in `name` times.
            "require": refuses where the operand is false.
            "goto": block `name`. "branch": the first of the blocks `name` where the operand is
            true, else the second. "leave": the end. "refuse".
        target: the register that is written.
        operands: registers, sizes and literals.
        dtype: see above.
        slot: number of an operand of the row, or of a scratch array (`scratch_slot`).
        name: see above.
    """

    operation: str
    target: Register | None = None
    operands: tuple[Any, ...] = ()
    dtype: DType | None = None
    slot: int = -1
    name: Any = None


@record
class Turn:
    """A turn of an "each".

    Args:
        steps: none of which is a jump.
        total: a register to which turns add, in any order; None: their order matters.
    """

    steps: tuple[Step, ...]
    total: Register | None = None


def scratch_slot(number: int) -> int:
    """The slot of a scratch array, which has one dim and belongs to the program."""
    return -2 - number


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, and those of turns in them."""
    for step in steps:
        yield step
        if isinstance(step.name, Turn):
            yield from all_steps(step.name.steps)


ENDS: Final = frozenset({"goto", "branch", "leave", "refuse"})
"""The operations that a block ends with."""


@record
class Window:
    """An array that is a part of another one.

    Args:
        slot: of the array, which is read for its sizes only.
        base: slot of the other one, which lies row by row.
        offset, strides: where its elements are there.
    """

    slot: int
    base: int
    offset: int
    strides: tuple[int, ...]


@record(eq=False, repr=False)
class Nest:
    """A program of scalars.

    Args:
        blocks: the first is run first.
        numbers: (slot, register) of the operands without dims, which are read once.
        written: slots of the arrays that are written.
        results: a slot, or a register, for each result.
        windows: the arrays that share their elements with others, one of which is written.
        scratch: the dtype of each scratch array.
        is_alone: no other thread may run meanwhile: it draws from a generator of Python's, which
            has no lock but the interpreter's.
    """

    blocks: tuple[tuple[Step, ...], ...]
    numbers: tuple[tuple[int, Register], ...]
    written: tuple[int, ...]
    results: tuple[int | Register, ...]
    windows: tuple[Window, ...] = ()
    scratch: tuple[DType, ...] = ()
    is_alone: bool = False

    def __repr__(self) -> str:
        return f"<nest of {len(self.blocks)} blocks, writes {list(self.written)}>"

    @property
    def is_polled(self) -> bool:
        """Whether it may run long enough to ask for signals."""
        return any(step.operation == "poll" for block in self.blocks for step in block)

    @property
    def text(self) -> str:
        """Everything: equal texts mean equal programs."""
        lines = [f"numbers {self.numbers} written {self.written} results {self.results}"]
        lines += map(repr, (*self.windows, *self.scratch, self.is_alone))
        for number, block in enumerate(self.blocks):
            lines += [f"block {number}", *map(repr, block)]
        return "\n".join(lines)

    def check(self) -> None:
        """
        Raises:
            InternalError: a block does not end with a jump, or one leads nowhere.
        """
        for block in self.blocks:
            ends = [step.operation in ENDS for step in block]
            if not ends or not ends[-1] or any(ends[:-1]):
                raise InternalError("nest: a block has one jump, its last step")
            if any(step.operation in ENDS for step in all_steps(block[:-1])):
                raise InternalError("nest: a turn has no jump")
            last = block[-1]
            targets = {"goto": (last.name,), "branch": last.name}.get(last.operation, ())
            if any(not 0 <= target < len(self.blocks) for target in targets):
                raise InternalError(f"nest: {last} leads to no block")


def _infer(*types: ValueType, nest: Nest, result: int) -> TensorType:
    """The type of one result."""
    found = nest.results[result]
    if isinstance(found, Register):
        return TensorType((), found.dtype)
    given = types[found]
    assert isinstance(given, TensorType)
    return TensorType(given.shape, given.dtype, given.device)


MSG_NO_CODE: Final = "nest: only generated code runs it; the plain function runs instead."


def _array(xp: Any, *operands: Any, nest: Nest, result: int) -> Any:
    raise BoundsError(MSG_NO_CODE)


NEST: Final = FURTHER.enter(
    Op(
        "nest",
        Kind.EXTERN,
        ("operands",),
        {"nest": REQUIRED, "result": REQUIRED},
        _infer,
        Extern(_array, widens=True, refuses=True),
        variadic=True,
        opaque=True,
        takes=dtypes.UNSIGNED,
        document="A loop nest over single elements: see `dynajit.ir.nests`.",
    )
)


__all__ = [
    "ENDS",
    "NEST",
    "Nest",
    "Register",
    "Size",
    "Step",
    "Turn",
    "Window",
    "all_steps",
    "scratch_slot",
]
