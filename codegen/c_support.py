"""What all C printers share: functions with their parameters, loops, threads, accumulators.

Contract: helpers return lines of C; nothing here knows a kernel kind. Called by `c_rows`,
`c_scatter` and `c_products`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dynajit.codegen.c_expressions import INDENT, Scope
from dynajit.codegen.loops import (
    Accumulate,
    Apply,
    Axis,
    Buffer,
    DataIndex,
    Expression,
    Kernel,
    Load,
    Slot,
    Store,
    cost,
    walk,
)
from dynajit.core.dtypes import Category

PARALLEL_WORK = 1 << 18
"""Additions below which a kernel stays on one thread: waking a team costs about 10 us, and much
more while other processes use the cores."""

PARALLEL_ELEMENTS = 1 << 14
"""Elements below which a kernel stays on one thread, whatever they cost."""

MAY_DIVIDE = frozenset(("remainder", "fmod", "floor_divide"))


@dataclass(frozen=True, slots=True)
class Function:
    """A printed kernel.

    Args:
        name: C name.
        kernel: what was printed.
        text: the definition.
        buffers: parameters, in order.
        may_fail: it may leave an error in `status`.
    """

    name: str
    kernel: Kernel
    text: str
    buffers: tuple[Buffer, ...]
    may_fail: bool


def all_expressions(roots: Iterable[Expression], indices: Sequence[DataIndex]) -> list[Expression]:
    """Every expression of a kernel, data indices included."""
    return walk((*roots, *(index.value for index in indices)))


def define(
    kernel: Kernel,
    name: str,
    body: Sequence[str],
    expressions: Sequence[Expression],
    stores: Sequence[Store],
    indices: Sequence[DataIndex],
) -> Function:
    """The function of a kernel: parameters are the buffers it reads and writes."""
    written = tuple(dict.fromkeys(store.buffer for store in stores))
    read = tuple(
        buffer
        for buffer in dict.fromkeys(e.buffer for e in expressions if isinstance(e, Load))
        if buffer not in written
    )
    parameters = [f"const {buffer.dtype.c} *restrict {buffer.name}" for buffer in read]
    parameters += [f"{buffer.dtype.c} *restrict {buffer.name}" for buffer in written]
    text = function_text(name, parameters, body)
    return Function(name, kernel, text, (*read, *written), may_fail(expressions, indices))


def may_fail(expressions: Sequence[Expression], indices: Sequence[DataIndex]) -> bool:
    """True if a kernel may report an index out of range or an integer division by zero."""
    return bool(indices) or any(
        isinstance(e, Apply) and e.function in MAY_DIVIDE and e.dtype.category is Category.INTEGER
        for e in expressions
    )


def function_text(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    """A static C function with the common last parameters."""
    common = [
        "const dj_scalar *scalars", "const dj_runtime *runtime", "int threads", "int64_t *status",
    ]  # fmt: skip
    head = f"static __attribute__((noinline)) void {name}("
    arguments = (",\n" + INDENT * 2).join([*parameters, ", ".join(common)])
    return "\n".join(
        [
            f"{head}\n{INDENT * 2}{arguments}) {{",
            f"{INDENT}(void)scalars, (void)runtime, (void)threads, (void)status;",
            *(INDENT + line for line in body),
            "}",
        ]
    )


def block(head: str, lines: Sequence[str]) -> list[str]:
    """`head { lines }`."""
    return [f"{head} {{", *(INDENT + line for line in lines), "}"]


def loop(
    variable: str,
    start: str,
    stop: str,
    lines: Sequence[str],
    step: str = "1",
    integer: str = "int64_t",
) -> list[str]:
    """A counting loop."""
    advance = f"{variable}++" if step == "1" else f"{variable} += {step}"
    return block(f"for ({integer} {variable} = {start}; {variable} < {stop}; {advance})", lines)


def nest(axes: Sequence[Axis], lines: Sequence[str]) -> list[str]:
    """Loops over axes, the first outermost."""
    result = list(lines)
    for axis in reversed(axes):
        if axis.size == 1:
            result = ["{", *result, "}"]
            continue
        result = loop(axis.name, "0", str(axis.size), result)
    return result


def parallel(work: int, lines: Sequence[str], team: str = "threads") -> list[str]:
    """A loop run by the team if there is enough work; the decision is made here, once."""
    if work < PARALLEL_WORK:
        return list(lines)
    return [f"#pragma omp parallel for schedule(static) num_threads({team})", *lines]


def unflattened(variable: str, axes: Sequence[Axis], integer: str = "int64_t") -> list[str]:
    """Definitions of loop variables from the row-major position `variable`."""
    lines = []
    kept = [axis for axis in axes if axis.size > 1]
    rest = variable
    for i, axis in enumerate(reversed(kept)):
        last = i == len(kept) - 1
        value = rest if last else f"{rest} % {axis.size}"
        lines.append(f"const {integer} {axis.name} = {value};")
        rest = f"({rest} / {axis.size})"
    return lines


def work_of(expressions: Sequence[Expression], elements: int) -> int:
    """Additions that evaluating `expressions` for `elements` elements costs; 0 for few elements."""
    if elements < PARALLEL_ELEMENTS:
        return 0
    return elements * max(1, sum(map(cost, expressions)))


# ---------------------------------------------------------------------------------------------
# accumulators


def accumulator_names(accumulate: Accumulate, prefix: str) -> list[str]:
    """C variables of an accumulator."""
    return [f"{prefix}{k}_{accumulate.name}" for k in range(len(accumulate.element))]


def combine(
    scope: Scope, accumulate: Accumulate, left: Sequence[str], right: Sequence[str]
) -> list[str]:
    """Names of `left` combined with `right` (the later elements), computed in a fresh scope."""
    for k, element in enumerate(accumulate.element):
        scope.known[Slot("a", k, element.dtype)] = left[k]
        scope.known[Slot("b", k, element.dtype)] = right[k]
    return [scope.emit(part) for part in accumulate.combine]


def combine_into(
    scope: Scope, accumulate: Accumulate, target: Sequence[str], right: Sequence[str]
) -> None:
    """Append `target = combine(target, right)`; `scope` is not used for anything else."""
    inner = Scope(scope.names)
    values = combine(inner, accumulate, target, right)
    held = []
    for k, value in enumerate(values):
        # All components are read before any is written.
        if len(values) > 1:
            inner.add(f"const {accumulate.element[k].dtype.c} n{k} = {value};")
            value = f"n{k}"
        held.append(value)
    inner.add(*(f"{t} = {v};" for t, v in zip(target, held, strict=True)))
    scope.add("{", *inner.text(), "}")


def start_values(scope: Scope, accumulate: Accumulate) -> list[str]:
    """Values to start from: the identity, or the first element."""
    start = accumulate.identity if accumulate.identity is not None else accumulate.first
    assert start is not None
    return [scope.emit(part) for part in start]
