"""Loop nests over single elements in C: one function, blocks by labels, registers by variables.

Contract: steps are printed one by one, in their order and in the dtype that they name, so that
results are those of Python's own order of operations. Arrays that the program writes are copied
first: where it refuses its values, what it was given is as it was. Element by element, all arrays
are read by their strides; those that are written lie row by row.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from dynajit.codegen.c import masked_groups
from dynajit.codegen.c.expressions import INDENT
from dynajit.codegen.c.support import (
    Function,
    block,
    function_text,
    loop,
    size_parameters,
    sizes_used,
)
from dynajit.codegen.loops.loop_ir import OPERATORS, NestKernel
from dynajit.core.operators import COMPARISONS
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import numel
from dynajit.ir.nests import Register, Size, Step, Turn, all_steps, scratch_slot
from dynajit.ops.table.scalar import spell

REFUSED: Final = "status[0] = 1;"
"""Code 1 is an index out of range: the plain function runs, and says what is wrong."""
INTERRUPTED: Final = "status[0] = 4;"
"""A signal has raised an exception, which is that of the call."""
OPAQUE: Final = '__asm__("" : "+r"({name}));'
"""GCC 12 takes a float that was made an integer, and a float again, for `trunc`, which keeps -0."""
NO_MEMORY: Final = "status[0] = 3;"

_BITS: Final = {"bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>"}
_WHOLE: Final = {"add_whole": "add", "sub_whole": "sub", "mul_whole": "mul"}
_COPYSIGN: Final = {dtypes.float32: "copysignf", dtypes.float64: "copysign"}
_TRUTHS: Final = {"both": "&", "either": "|"}


def print_nest(kernel: NestKernel) -> Function:
    """The C function of a loop nest."""
    same = {source for source, _ in kernel.in_place}
    found = dict.fromkeys(operand.buffer for operand in kernel.operands)
    reads = [buffer for buffer in found if buffer not in same]
    writes = [buffer for buffer in kernel.writes if buffer is not None]
    parameters = [f"const {buffer.dtype.c} *restrict {buffer.name}" for buffer in reads]
    parameters += [f"{buffer.dtype.c} *restrict {buffer.name}" for buffer in writes]
    body = [*_Printer(kernel).lines()]
    sizes = sizes_used(body)
    text = function_text(kernel.name, [*parameters, *size_parameters(sizes)], body)
    return Function(kernel.name, kernel, text, (*reads, *writes), True, sizes)


class _Printer:
    """The body of one function. Mutable; used once.

    Args:
        kernel: what is printed.
    """

    def __init__(self, kernel: NestKernel) -> None:
        self._kernel, self._nest = kernel, kernel.nest
        results = kernel.nest.results
        self._own: dict[int, str] = {
            result: f"own{result}" if buffer is None else buffer.name
            for result, buffer in zip(results, kernel.writes, strict=True)
            if isinstance(result, int)
        }
        self._scratch = {scratch_slot(n): f"scratch{n}" for n in range(len(kernel.nest.scratch))}
        self._windows = {window.slot: window for window in kernel.nest.windows}
        self._unread = [
            result
            for result, buffer in zip(results, kernel.writes, strict=True)
            if isinstance(result, int) and buffer is None
        ]

        self._declared: set[Register] = set(self._registers())
        steps = [step for block in kernel.nest.blocks for step in _steps_of_pairs(block)]
        self._rounded = _subtracted_products(steps) | _narrowed(steps)

    def lines(self) -> Iterator[str]:
        """All lines."""
        used = {step.operation for steps in self._nest.blocks for step in all_steps(steps)}
        if "poll" in used:
            yield "uint32_t polled = 0;"
        yield from _library(step for steps in self._nest.blocks for step in all_steps(steps))
        for number, dtype in enumerate(self._nest.scratch):
            yield f"{dtype.c} *scratch{number} = NULL;"
            yield f"int64_t room{number} = 0;"
        for register in self._registers():
            yield f"{register.dtype.c} {register.name} = 0;"
        for slot in self._unread:
            place = self._kernel.operands[slot]
            count = f"sizeof({place.buffer.dtype.c}) * ({symint.c(numel(place.shape))}) + 1"
            yield f"{place.buffer.dtype.c} *own{slot} = malloc({count});"
        for slot in self._unread:
            yield f"if (!own{slot}) {{ {NO_MEMORY} goto done; }}"
        for slot in self._nest.written:
            yield from self._copied(slot)
        for slot, register in self._nest.numbers:
            place = self._kernel.operands[slot]
            yield f"{register.name} = {place.buffer.name}[{symint.c(place.offset)}];"
        barred = masked_groups.barred(self._nest.blocks, self._arrays())
        for number, steps in enumerate(self._nest.blocks):
            yield f"block{number}:;"
            if number in barred:
                yield INDENT + masked_groups.BARRIER
            for step in steps:
                yield from (INDENT + line for line in self._step(step))
        if "poll" in used:
            yield "interrupted:;"
            yield f"{INDENT}{INTERRUPTED} goto done;"
        if used & _REFUSING:
            yield "refused:;"
            yield INDENT + REFUSED
        yield "done:;"
        yield from (f"{INDENT}free(own{slot});" for slot in self._unread)
        yield from (f"{INDENT}free(scratch{n});" for n in range(len(self._nest.scratch)))

    def _registers(self) -> list[Register]:
        found = [register for _, register in self._nest.numbers]
        for steps in self._nest.blocks:
            found += _targets(steps)
        return [*dict.fromkeys(found)]

    # -- arrays

    def _arrays(self) -> dict[int, masked_groups.Elements]:
        """Where each operand and each scratch array has its elements."""
        found = {slot: self._elements(slot) for slot in range(len(self._kernel.operands))}
        for number in range(len(self._nest.scratch)):
            found[scratch_slot(number)] = masked_groups.Elements(f"scratch{number}", (1,))
        return found

    def _elements(self, slot: int) -> masked_groups.Elements:
        window, place = self._windows.get(slot), self._kernel.operands[slot]
        if window is not None:
            return masked_groups.Elements(self._own[window.base], window.strides)
        own = self._own.get(slot)
        if own is not None:
            return masked_groups.Elements(own, tuple(_row_major(place.shape)))
        return masked_groups.Elements(place.buffer.name, tuple(place.strides))

    def _copied(self, slot: int) -> Iterator[str]:
        """Lines that fill the copy of an array that is written."""
        place, own = self._kernel.operands[slot], self._own[slot]
        if any(source == place.buffer for source, _ in self._kernel.in_place):
            return
        shape = place.shape
        names = [f"c{dim}" for dim in range(len(shape))]
        to, source = (
            _linear(names, strides, offset)
            for strides, offset in ((_row_major(shape), 0), (place.strides, place.offset))
        )
        if to == source:
            count = symint.c(numel(shape))
            yield f"memcpy({own}, {place.buffer.name}, sizeof(*{own}) * ({count}));"
            return
        lines = [f"{own}[{to}] = {place.buffer.name}[{source}];"]
        for name, size in zip(reversed(names), reversed(shape), strict=True):
            head = f"for (int64_t {name} = 0; {name} < {symint.c(size)}; {name}++)"
            lines = block(head, lines)
        yield from lines

    def _element(self, slot: int, indices: Sequence[Any]) -> str:
        names = [self._text(index) for index in indices]
        if slot in self._scratch:
            return f"{self._scratch[slot]}[{_linear(names, (1,), 0)}]"
        window = self._windows.get(slot)
        if window is not None:
            linear = _linear(names, window.strides, window.offset)
            return f"{self._own[window.base]}[{linear}]"
        own, place = self._own.get(slot), self._kernel.operands[slot]
        if own is not None:
            return f"{own}[{_linear(names, _row_major(place.shape), 0)}]"
        return f"{place.buffer.name}[{_linear(names, place.strides, place.offset)}]"

    # -- steps

    def _text(self, operand: Any) -> str:
        """A register, a size or a literal."""
        if isinstance(operand, Register):
            return operand.name
        if isinstance(operand, Size):
            return f"(int64_t){symint.c(self._kernel.operands[operand.slot].shape[operand.dim])}"
        if isinstance(operand, float):
            return _float(operand)
        if operand >= 1 << 63:
            return f"UINT64_C({int(operand)})"
        return f"INT64_C({int(operand)})" if operand > -(1 << 63) else "INT64_MIN"

    def _as(self, dtype: DType | None, operand: Any) -> str:
        """An operand, converted."""
        given = operand.dtype if isinstance(operand, Register) else None
        text = self._text(operand)
        if dtype is None or given is dtype:
            return text
        if dtype is dtypes.bool_:
            return f"(uint8_t)({text} != 0)"
        return f"({dtype.c}){text}"

    def _step(self, step: Step) -> Iterator[str]:
        target = "" if step.target is None else f"{step.target.name} = "
        text = self._value(step)
        if text is not None:
            yield f"{target}{text};"
            if step.operation in ("mul", "set") and step.target in self._rounded:
                yield f"DJ_ROUNDED({step.target.name});"
            if step.operation == "mod" and step.dtype in _COPYSIGN and step.target is not None:
                sign = f"{_COPYSIGN[step.dtype]}(0, {self._as(step.dtype, step.operands[1])})"
                yield f"if ({step.target.name} == 0) {target}{sign};"  # that of the divisor
            return
        yield from _OTHERS[step.operation](self, step)

    def _value(self, step: Step) -> str | None:
        """The value of a step that only computes; None for all others."""
        name, dtype, target = step.operation, step.dtype, step.target
        if name == "set":
            assert target is not None
            given = self._as(dtype, step.operands[0])
            return given if dtype is target.dtype else self._converted(given, step)
        spelling = OPERATORS.get(name) or _BITS.get(name)
        if spelling is not None:
            assert dtype is not None
            a, b = (self._as(dtype, operand) for operand in step.operands)
            if name in COMPARISONS:
                return f"{a} {spelling} {b}"
            return f"({dtype.c})({a} {spelling} {b})"
        if name in ("neg", "invert"):
            assert dtype is not None
            return (
                f"({dtype.c})({'-' if name == 'neg' else '~'}{self._as(dtype, step.operands[0])})"
            )
        if name == "not":
            return f"{self._text(step.operands[0])} == 0"
        if name in _TRUTHS:
            a, b = (self._text(operand) for operand in step.operands)
            return f"{a} {_TRUTHS[name]} {b}"
        if name == "select":
            truth, a, b = step.operands
            return f"{self._text(truth)} ? {self._as(dtype, a)} : {self._as(dtype, b)}"
        if name in ("call", "floordiv", "mod"):
            assert dtype is not None
            texts = [self._as(dtype, operand) for operand in step.operands]
            if name != "call" and dtype in dtypes.UNSIGNED:
                a, b = texts
                return f"({dtype.c})({a} {'/' if name == 'floordiv' else '%'} {b})"
            function = {"floordiv": "floor_divide", "mod": "remainder"}.get(name, step.name)
            return spell(function, dtype, "c", *texts)
        if name == "library":
            texts = [self._as(dtype, operand) for operand in step.operands]
            return f"library_{_library_name(step)}({', '.join(texts)})"
        if name == "load":
            return self._element(step.slot, step.operands)
        if name == "draw":
            texts = [self._own[step.slot], *map(self._text, step.operands)]
            return f"dj_draw_{step.name}({', '.join(texts)})"
        return None

    def _converted(self, text: str, step: Step) -> str:
        assert step.target is not None
        (operand,) = step.operands
        given = step.dtype or (operand.dtype if isinstance(operand, Register) else None)
        if given is step.target.dtype:
            return text
        if step.target.dtype is dtypes.bool_:
            return f"({text}) != 0"
        return f"({step.target.dtype.c})({text})"

    def _whole(self, step: Step) -> Iterator[str]:
        assert step.target is not None
        a, b = (self._as(dtypes.int64, operand) for operand in step.operands)
        function = f"__builtin_{_WHOLE[step.operation]}_overflow"
        yield f"if ({_unlikely(f'{function}({a}, {b}, &{step.target.name})')}) goto refused;"

    def _truncate(self, step: Step) -> Iterator[str]:
        assert step.target is not None and step.dtype is not None
        (operand,) = step.operands
        low, high = _bounds(step.dtype)
        given = self._as(dtypes.float64, operand)
        inside = f"{given} > {_float(low)} && {given} < {_float(high)}"
        yield f"if (!({inside})) goto refused;"
        yield f"{step.target.name} = ({step.dtype.c}){given};"
        yield OPAQUE.format(name=step.target.name)

    def _index(self, step: Step) -> Iterator[str]:
        assert step.target is not None
        index, size = (self._as(dtypes.int64, operand) for operand in step.operands)
        name = step.target.name
        yield f"{name} = {index};"
        yield f"if ({name} < 0) {name} += {size};"
        yield f"if ({_unlikely(f'(uint64_t){name} >= (uint64_t){size}')}) goto refused;"

    def _store(self, step: Step) -> Iterator[str]:
        *indices, value = step.operands
        dtype = self._dtype(step.slot)
        yield f"{self._element(step.slot, indices)} = {self._as(dtype, value)};"

    def _dtype(self, slot: int) -> DType:
        if slot in self._scratch:
            return self._nest.scratch[[*self._scratch].index(slot)]
        return self._kernel.operands[slot].buffer.dtype

    def _make_room(self, step: Step) -> Iterator[str]:
        (operand,) = step.operands
        name, room = self._scratch[step.slot], self._scratch[step.slot].replace("scratch", "room")
        count = self._as(dtypes.int64, operand)
        yield f"if ({count} > {room}) {{"
        yield f"{INDENT}free({name});"
        yield f"{INDENT}{room} = {count};"
        yield f"{INDENT}{name} = malloc(sizeof(*{name}) * (uint64_t){room});"
        yield f"{INDENT}if (!{name}) {{ {NO_MEMORY} goto done; }}"
        yield "}"

    def _grow(self, step: Step) -> Iterator[str]:
        (operand,) = step.operands
        name, room = self._scratch[step.slot], self._scratch[step.slot].replace("scratch", "room")
        count = self._as(dtypes.int64, operand)
        yield f"if ({_unlikely(f'{count} > {room}')}) {{"
        yield f"{INDENT}int64_t wanted = 2 * ({count});"
        yield f"{INDENT}void *grown = realloc({name}, sizeof(*{name}) * (uint64_t)wanted);"
        yield f"{INDENT}if (!grown) {{ {NO_MEMORY} goto done; }}"
        yield f"{INDENT}{name} = grown;"
        yield f"{INDENT}{room} = wanted;"
        yield "}"

    def _hand_over(self, step: Step) -> Iterator[str]:
        assert step.target is not None
        yield f"{step.target.name} = (int64_t){self._scratch[step.slot]};"
        yield f"{self._scratch[step.slot]} = NULL;"

    def _each(self, step: Step) -> Iterator[str]:
        """A loop whose registers are its own, but for those that are set outside, too."""
        assert step.target is not None
        turn: Turn = step.name
        outside = self._declared
        own = dict.fromkeys(_targets(turn.steps))
        declared = [register for register in own if register not in outside]
        self._declared = outside | set(declared)
        lines = [f"{register.dtype.c} {register.name};" for register in declared]
        for item in turn.steps:
            lines += self._step(item)
        self._declared = outside
        if masked_groups.has_choices(turn.steps):
            lines.insert(0, masked_groups.BARRIER)
        operations = {item.operation for item in all_steps(turn.steps)}
        if turn.total is not None and not operations & _REFUSING:
            yield f"#pragma omp simd reduction(+:{turn.total.name})"
        count = self._as(dtypes.int64, step.operands[0])
        yield from loop(step.target.name, "0", count, lines)
        yield masked_groups.BARRIER  # the loop around it is none of vectors

    def _require(self, step: Step) -> Iterator[str]:
        yield f"if ({_unlikely(f'!{self._text(step.operands[0])}')}) goto refused;"

    def _poll(self, step: Step) -> Iterator[str]:
        due = _unlikely(f"++polled % {step.name} == 0")
        yield f"if ({due} && runtime->is_interrupted()) goto interrupted;"

    def _goto(self, step: Step) -> Iterator[str]:
        yield f"goto block{step.name};"

    def _branch(self, step: Step) -> Iterator[str]:
        first, second = step.name
        yield f"if ({self._text(step.operands[0])}) goto block{first}; else goto block{second};"

    def _leave(self, step: Step) -> Iterator[str]:
        for result, buffer in zip(self._nest.results, self._kernel.writes, strict=True):
            if isinstance(result, Register) and buffer is not None:
                yield f"{buffer.name}[0] = {result.name};"
        yield "goto done;"

    def _refuse(self, step: Step) -> Iterator[str]:
        yield "goto refused;"


_OTHERS: Final[dict[str, Callable[[_Printer, Step], Iterator[str]]]] = {
    **dict.fromkeys(_WHOLE, _Printer._whole),
    "truncate": _Printer._truncate,
    "index": _Printer._index,
    "store": _Printer._store,
    "scratch": _Printer._make_room,
    "grow": _Printer._grow,
    "hand_over": _Printer._hand_over,
    "each": _Printer._each,
    "require": _Printer._require,
    "poll": _Printer._poll,
    "goto": _Printer._goto,
    "branch": _Printer._branch,
    "leave": _Printer._leave,
    "refuse": _Printer._refuse,
}
_REFUSING: Final = frozenset({*_WHOLE, "truncate", "index", "require", "refuse"})


def _narrowed(steps: Iterable[Step]) -> set[Register]:
    """Doubles that become floats: see `DJ_ROUNDED`."""
    return {
        step.target
        for step in steps
        if step.operation == "set"
        and step.target is not None
        and step.target.dtype is dtypes.float32
        and isinstance(step.operands[0], Register)
        and step.operands[0].dtype is dtypes.float64
    }


def _subtracted_products(steps: Sequence[Step]) -> set[Register]:
    """Products of floats that are subtracted, where others are added: see `DJ_ROUNDED`."""
    products = {step.target: {step.target} for step in steps if step.operation == "mul"}
    copies = [step for step in steps if step.operation == "set"]
    has_grown = True
    while has_grown:
        has_grown = False
        for step in copies:
            found = products.get(step.operands[0], set()) - products.get(step.target, set())
            if found:
                products.setdefault(step.target, set()).update(found)
                has_grown = True
    summed = {
        operation: {
            product
            for step in steps
            if step.operation == operation and step.dtype in _COPYSIGN
            for operand in step.operands
            if isinstance(operand, Register)
            for product in products.get(operand, ())
        }
        for operation in ("add", "sub")
    }
    return {product for product in summed["sub"] if product} if summed["add"] else set()


def _steps_of_pairs(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps, but for those of turns with one store at most, which puts no two side by side."""
    for step in steps:
        yield step
        if isinstance(step.name, Turn):
            stores = [inner for inner in all_steps(step.name.steps) if inner.operation == "store"]
            if len(stores) > 1:
                yield from _steps_of_pairs(step.name.steps)


def _targets(steps: Sequence[Step]) -> list[Register]:
    """The registers that steps set, but for counters, which loops declare."""
    return [s.target for s in steps if s.target is not None and s.operation != "each"]


def _unlikely(condition: str) -> str:
    return f"__builtin_expect({condition}, 0)"


def _float(number: float) -> str:
    if math.isnan(number):
        return "((double)NAN)"
    return repr(number) if math.isfinite(number) else f"{'-' * (number < 0)}((double)INFINITY)"


def _bounds(dtype: DType) -> tuple[float, float]:
    """Between which floats all are that an integer dtype holds, and no others but for int64."""
    bits = 8 * dtype.itemsize
    if not dtype.is_signed:
        return -1.0, float(2**bits)
    half = float(2 ** (bits - 1))
    return (-half if dtype.category is Category.INTEGER and bits == 64 else -half - 1.0), half


def _row_major(shape: Sequence[Number]) -> list[Number]:
    found: list[Number] = []
    step: Number = 1
    for size in reversed(shape):
        found.append(step)
        step = step * size
    return found[::-1]


def _library(steps: Iterable[Step]) -> Iterator[str]:
    """Pointers to the functions of the C library that are called: through them, since a compiler
    replaces what it knows by what has other bits (`pow(x, 2)` by `x * x`)."""
    found = {_library_name(step): step for step in steps if step.operation == "library"}
    for name, step in found.items():
        assert step.dtype is not None
        real = step.dtype.c
        parameters = ", ".join([real] * len(step.operands))
        yield f"{real} (*const volatile library_{name})({parameters}) = {name};"


def _library_name(step: Step) -> str:
    return f"{step.name}f" if step.dtype is dtypes.float32 else str(step.name)


def _linear(names: Sequence[str], strides: Sequence[Number], offset: Number) -> str:
    """The place of an element."""
    parts = [
        name if stride == 1 else f"{name} * {symint.c(stride)}"
        for name, stride in zip(names, strides, strict=True)
        if stride != 0
    ]
    if offset != 0 or not parts:
        parts.append(symint.c(offset))
    return " + ".join(parts)
