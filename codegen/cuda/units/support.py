"""What all CUDA printers share: functions with their launches, choices, exchanges between lanes.

Contract: the body of a kernel is a `Scope` of `codegen.c.expressions`, as in C; here are only the
parts that C does not have. Launch geometry depends on sizes and choices alone, never on the device,
so results have the same bits on every GPU of an architecture.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Names, Scope
from dynajit.codegen.c.support import (
    accumulator_names,
    combine,
    combine_into,
    is_rounded,
    loop,
    may_fail,
    sizes_used,
    start_values,
)
from dynajit.codegen.cuda.units.steps import (
    STATUS,
    Argument,
    Block,
    Choice,
    CudaKernel,
    Grid,
    ScalarArgument,
    SizeArgument,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Apply,
    Buffer,
    Cast,
    DataIndex,
    Expression,
    Kernel,
    Load,
    Parameter,
    RowKernel,
    Slot,
    Store,
    all_expressions,
    commutes,
)
from dynajit.core.records import record
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number

WARP: Final = 32

NARROW_LIMIT: Final = 1 << 30
"""Index expressions below it are computed in 32 bits; a stride more cannot overflow."""


def power_of_two(count: int) -> int:
    """The smallest power of two that is not below `count`."""
    return 1 << max(count - 1, 0).bit_length()


def names(indices: Sequence[DataIndex]) -> Names:
    """Names of a CUDA function."""
    return Names(indices, "cuda")


def target_of(scope: Scope, store: Store) -> str:
    """The element that a store writes."""
    scope.bind([store.offset])
    return f"{store.buffer.name}[{symint.c(store.offset)}]"


class Choices:
    """What was chosen for the kernels of a unit, and what might have been. Mutable: grows.

    Args:
        given: values by name (see `codegen.cuda.units.steps.Choice`); others are the defaults.
    """

    def __init__(self, given: Mapping[str, int] = MappingProxyType({})) -> None:
        self.given = given
        self.found: dict[str, Choice] = {}

    def of(self, kernel: str, what: str, values: Sequence[int], default: int) -> int:
        """The value for a kernel; one that is not offered counts as the default."""
        choice = Choice(f"{kernel}:{what}", tuple(values), default)
        self.found[choice.name] = choice
        value = self.given.get(choice.name, default)
        return value if value in values else default


# ---------------------------------------------------------------------------------------------
# the whole function


RESIDENT_THREADS: Final = 1024
"""Threads of an SM that a kernel leaves registers for: 64 each. Without a bound the compiler spills
some to have all 2048, which threads that have several packs on their way do not need."""


@record
class Launch:
    """Geometry of a launch; see `CudaKernel`.

    Args:
        blocks: along x, or along all three dims.
        resident: threads that an SM shall hold at once; registers are bounded by it.
    """

    blocks: "Number | Grid"
    threads: int
    shared_bytes: int = 0
    dynamic_bytes: Number = 0
    resident: int = RESIDENT_THREADS

    @property
    def bounds(self) -> str:
        """The kernel's attribute: threads of a block, blocks of an SM."""
        return f"__launch_bounds__({self.threads}, {max(1, self.resident // self.threads)})"

    @property
    def grid(self) -> Grid:
        """Numbers of blocks."""
        return self.blocks if isinstance(self.blocks, tuple) else (self.blocks, 1, 1)

    @property
    def block(self) -> Block:
        """Numbers of threads."""
        return (self.threads, 1, 1)


_OF_16_BITS: Final = {"float16": "dj_f16", "bfloat16": "dj_bf16"}


def scalar_type(dtype: DType) -> str:
    """The type of an element in the headers of attention, convolutions, pools and orders: those of
    16 bits tell their formats apart."""
    return _OF_16_BITS.get(dtype.name, dtype.c)


def only_if(blocks: Number, value: Number, low: int, high: int | None) -> Number:
    """`blocks` where `low <= value <= high`, else 0: another kernel is meant for such sizes."""
    room = value - low + 1
    if high is not None:
        room = symint.minimum(room, high - value + 1)
    return blocks * symint.minimum(symint.maximum(room, 0), 1)


def roots_of(stores: Iterable[Store], accumulates: Iterable[Accumulate]) -> list[Expression]:
    """What a kernel evaluates."""
    roots = [store.value for store in stores]
    for accumulate in accumulates:
        roots.extend((*accumulate.element, *(accumulate.first or ())))
    return roots


def used_expressions(
    roots: Sequence[Expression], offsets: Iterable[Number], indices: Sequence[DataIndex]
) -> tuple[list[Expression], tuple[DataIndex, ...]]:
    """Expressions below `roots`, and the data indices that they and the offsets mention."""
    used: dict[str, DataIndex] = {}
    numbers = list(offsets)
    while True:
        expressions = all_expressions(roots, tuple(used.values()))
        mentioned = set[str]().union(
            *(symint.symbols(n) for n in numbers),
            *(symint.symbols(n) for e in expressions for n in e.numbers),
        )
        more = [i for i in indices if i.name in mentioned and i.name not in used]
        if not more:
            return expressions, tuple(used.values())
        used.update({index.name: index for index in more})


_SCALAR: Final = re.compile(r"\bscalars\[(\d+)\]")
"""How `codegen.c.expressions` spells a run-time number; here it is a parameter of its own."""


def by_value(lines: Sequence[str]) -> list[str]:
    """Lines in which run-time numbers are parameters of their own."""
    return [_SCALAR.sub(r"scalar\1", line) for line in lines]


def define(
    kernel: Kernel,
    name: str,
    body: Sequence[str],
    launch: Launch,
    expressions: Sequence[Expression],
    written: Iterable[Buffer],
    indices: Sequence[DataIndex],
    also_read: Iterable[Buffer] = (),
) -> CudaKernel:
    """The kernel function: parameters are the buffers it reads and writes, then numbers."""
    outputs = tuple(dict.fromkeys(written))
    loaded = [e.buffer for e in expressions if isinstance(e, Load) and e.buffer.size != 0]
    loaded += also_read
    inputs = tuple(b for b in dict.fromkeys(loaded) if b not in outputs)
    same = dict(kernel.in_place) if isinstance(kernel, RowKernel) else {}
    # A pointer made of a restricted one may be used beside it.
    head = [f"const {b.dtype.c} *{b.name} = {same[b].name};" for b in inputs if b in same]
    inputs = tuple(b for b in inputs if b not in same)
    arguments: list[Argument] = [*inputs, *outputs]
    parameters = [f"const {b.dtype.c} *__restrict__ {b.name}" for b in inputs]
    parameters += [f"{b.dtype.c} *__restrict__ {b.name}" for b in outputs]
    for position in sorted({e.position for e in expressions if isinstance(e, Parameter)}):
        arguments.append(ScalarArgument(position))
        parameters.append(f"const dj_scalar scalar{position}")
    lines = by_value([*head, *body])
    for size in sizes_used(lines):
        arguments.append(SizeArgument(symint.symbol(size)))
        parameters.append(f"const int64_t {size}")
    if may_fail(expressions, indices):
        arguments.append(STATUS)
        parameters.append("int64_t *status")
    text = function_text(name, launch.bounds, parameters, lines)
    return CudaKernel(
        name, name, text, launch.grid, launch.block, launch.shared_bytes, launch.dynamic_bytes,
        tuple(arguments), kernel,
    )  # fmt: skip


def with_parameters(
    kernel: Kernel,
    name: str,
    body: Sequence[str],
    launch: Launch,
    reads: Iterable[Buffer | None],
    writes: Iterable[Buffer | None],
) -> CudaKernel:
    """A kernel function that is given buffers and the sizes that its lines name."""
    outputs = tuple(b for b in dict.fromkeys(writes) if b is not None)
    inputs = tuple(b for b in dict.fromkeys(reads) if b is not None and b not in outputs)
    arguments: list[Argument] = [*inputs, *outputs]
    parameters = [f"const {b.dtype.c} *__restrict__ {b.name}" for b in inputs]
    parameters += [f"{b.dtype.c} *__restrict__ {b.name}" for b in outputs]
    for size in sizes_used(body):
        arguments.append(SizeArgument(symint.symbol(size)))
        parameters.append(f"const int64_t {size}")
    text = function_text(name, launch.bounds, parameters, body)
    return CudaKernel(
        name, name, text, launch.grid, launch.block, launch.shared_bytes, launch.dynamic_bytes,
        tuple(arguments), kernel,
    )  # fmt: skip


def function_text(name: str, bounds: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    """The definition of a kernel."""
    listed = (",\n" + INDENT * 2).join(parameters)
    head = f'extern "C" __global__ void {bounds} {name}('
    return "\n".join((f"{head}\n{INDENT * 2}{listed}) {{", *(INDENT + line for line in body), "}"))


# ---------------------------------------------------------------------------------------------
# 32-bit indices


def magnitude(number: Number) -> int | None:
    """A bound of every intermediate result of computing `number`; None if there is none."""
    if isinstance(number, int):
        return abs(number)
    total = largest = 0
    for monomial, factor in number.terms:
        size = abs(factor)
        for atom in monomial:
            if atom.low is None or atom.high is None:
                return None
            size *= max(abs(atom.low), abs(atom.high), 1)
            for operand in atom.operands:
                inner = magnitude(operand)
                if inner is None:
                    return None
                largest = max(largest, inner)
        total += size
    return max(total, largest)


def index_type(
    expressions: Sequence[Expression], numbers: Iterable[Number], *counts: Number
) -> str:
    """The C type of loop variables: `int` where everything fits, since 64-bit division is slow."""
    every = [*numbers, *counts, *(number for e in expressions for number in e.numbers)]
    for number in every:
        size = magnitude(number)
        if size is None or size >= NARROW_LIMIT:
            return "int64_t"
    return "int"


# ---------------------------------------------------------------------------------------------
# accumulators of several threads


def is_commutative(accumulate: Accumulate) -> bool:
    """True if the sides of `combine` may be exchanged, to the last bit."""
    if len(accumulate.combine) != 1:
        return False
    (value,) = accumulate.combine
    while isinstance(value, Cast):
        value = value.operand
    return (
        isinstance(value, Apply)
        and commutes(value.function)
        and all(isinstance(x, Slot) or _is_cast_slot(x) for x in value.arguments)
    )


def _is_cast_slot(expression: Expression) -> bool:
    return isinstance(expression, Cast) and isinstance(expression.operand, Slot)


def is_positioned(accumulate: Accumulate) -> bool:
    """True for a chosen value with its position, which tells which of two comes earlier."""
    if len(accumulate.element) != 2 or accumulate.element[1].dtype is not dtypes.int64:
        return False
    return _chooses_position(accumulate.combine[1])


def _chooses_position(expression: Expression) -> bool:
    if isinstance(expression, Apply) and expression.function == "where":
        return all(map(_chooses_position, expression.arguments[1:]))
    return isinstance(expression, Slot) and expression.component == 1


def exchange(scope: Scope, accumulate: Accumulate, prefix: str, size: int, mask: str) -> None:
    """Append: `size` neighbouring lanes combine their accumulators; all end with the same result.

    A butterfly. The lower lane is the earlier side, but where values have positions.
    """
    if size == 1:
        return
    own = accumulator_names(accumulate, prefix)
    inner = Scope(scope.names)
    others = [f"other{k}" for k in range(len(own))]
    for k, name in enumerate(own):
        c = accumulate.element[k].dtype.c
        inner.add(f"const {c} {others[k]} = dj_exchange({mask}, {name}, offset);")
    combine_either(inner, accumulate, own, others, "threadIdx.x & offset")
    scope.add(
        "#pragma unroll",
        f"for (int offset = 1; offset < {size}; offset *= 2) {{",
        *inner.text(),
        "}",
    )


def combine_either(
    scope: Scope,
    accumulate: Accumulate,
    own: Sequence[str],
    others: Sequence[str],
    is_later: str,
) -> None:
    """Append: `own` becomes the combination of both.

    Args:
        scope: not used for anything else.
        is_later: whether `own` is the later side, in C; not asked where that does not matter.
    """
    earlier, later = list(own), list(others)
    if not is_commutative(accumulate):
        if is_positioned(accumulate):
            is_later = f"{others[1]} < {own[1]}"
        scope.add(f"const bool is_later = {is_later};")
        for k, element in enumerate(accumulate.element):
            c = element.dtype.c
            scope.add(
                f"const {c} earlier{k} = is_later ? {others[k]} : {own[k]};",
                f"const {c} later{k} = is_later ? {own[k]} : {others[k]};",
            )
            earlier[k], later[k] = f"earlier{k}", f"later{k}"
    values = combine(scope, accumulate, earlier, later)
    scope.add(*(f"{name} = {value};" for name, value in zip(own, values, strict=True)))


def remember(scope: Scope, accumulate: Accumulate, prefix: str) -> None:
    """From here on the accumulator's variables are its result."""
    for k, name in enumerate(accumulator_names(accumulate, prefix)):
        dtype = accumulate.element[k].dtype
        scope.known[Accumulated(accumulate.name, k, dtype)] = name


def partial_buffers(kernel_name: str, accumulate: Accumulate, size: Number) -> list[Buffer]:
    """Device memory for `size` accumulators between two kernels."""
    parts = accumulator_names(accumulate, f"{kernel_name}_p")
    return [
        Buffer(name, element.dtype, size)
        for name, element in zip(parts, accumulate.element, strict=True)
    ]


def folding(
    accumulate: Accumulate, partials: Sequence[Buffer], offset: Number, first: Number
) -> Accumulate:
    """The reduction of partial accumulators, which takes the original's place.

    Args:
        offset: of a partial; `first`: of the first one.
    """
    start = None
    if accumulate.identity is None:
        start = tuple(Load(partial, first) for partial in partials)
    element = tuple(Load(partial, offset) for partial in partials)
    return Accumulate(accumulate.name, element, start, accumulate.identity, accumulate.combine)


# ---------------------------------------------------------------------------------------------
# long sums

SPAN: Final = 64
"""Elements that are added up one after the other before their sum is added to others: the error of
a sum of n elements grows with SPAN + n / SPAN instead of n."""


class Spans:
    """A long loop over what a thread accumulates, in spans. Built once, then only read.

    Args:
        accumulates: of the loop.
        turns: of the thread, at most.
        width: accumulators of each.
    """

    def __init__(self, accumulates: Sequence[Accumulate], turns: Number, width: int) -> None:
        self.width = width
        is_short = symint.is_at_least(2 * SPAN, turns)
        self.accumulates = [] if is_short else [a for a in accumulates if is_rounded(a)]

    def running(self, accumulate: Accumulate, name: str) -> str:
        """The accumulator within the loop; `name` is that of all spans."""
        return f"span_{name}" if accumulate in self.accumulates else name

    def cut(
        self,
        scope: Scope,
        turns: Sequence[str],
        bounds: tuple[str, str, str, int],
        integer: str,
        own: Callable[[Accumulate], str],
    ) -> list[str]:
        """The loop `turns` within a loop over spans; `scope` is that of what starts it.

        Args:
            turns: the body of the loop.
            bounds: its variable, start and stop, and how far it goes in a turn.
            own: the name of an accumulator, an array where there are several.
        """
        variable, start, stop, step = bounds
        if not self.accumulates:
            whole = loop(variable, start, stop, turns, str(step), integer)
            return ["#pragma unroll 4", *whole]
        lines = [f"const {integer} end = dj_min_index(span + {step * SPAN}, {stop});"]
        after: list[str] = []
        for accumulate in self.accumulates:
            name, c = own(accumulate), accumulate.element[0].dtype.c
            (start_value,) = start_values(scope, accumulate)
            following = Scope(scope.names)
            item = "[item]" if self.width > 1 else ""
            combine_into(following, accumulate, [f"{name}{item}"], [f"span_{name}{item}"])
            if self.width == 1:
                lines.append(f"{c} span_{name} = {start_value};")
                after += following.lines
                continue
            lines.append(f"{c} span_{name}[{self.width}];")
            lines += items(self.width, [f"span_{name}[item] = {start_value};"])
            after += items(self.width, following.lines)
        inner = loop(variable, "span", "end", turns, str(step), integer)
        lines += ["#pragma unroll 4", *inner, *after]
        return loop("span", start, stop, lines, str(step * SPAN), integer)


def items(width: int, lines: Sequence[str], start: int = 0) -> list[str]:
    """Lines for every element of a pack."""
    return ["#pragma unroll", *loop("item", str(start), str(width), lines, integer="int")]
