"""What all C printers share: functions with their parameters, loops, threads, accumulators.

Contract: helpers return lines of C; nothing here knows a kernel kind.
"""

import re
from collections.abc import Callable, Sequence

from dynajit.codegen.c import masked_groups
from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Apply,
    Axis,
    Buffer,
    DataIndex,
    Expression,
    Kernel,
    Load,
    RowKernel,
    Slot,
    Store,
    cost,
)
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import Number

PARALLEL_WORK = 1 << 18
"""Additions below which a kernel stays on one thread: waking a team costs about 10 us, and much
more while other processes use the cores."""

PARALLEL_ELEMENTS = 1 << 14
"""Elements below which a kernel stays on one thread, whatever they cost."""

KERNEL = "static __attribute__((noinline)) void"
"""What the definition of every kernel begins with."""

MAY_DIVIDE = frozenset(("remainder", "fmod", "floor_divide"))


@record
class Function:
    """A printed kernel.

    Args:
        name: C name.
        kernel: what was printed.
        text: the definition.
        buffers: parameters, in order.
        may_fail: it may leave an error in `status`.
        sizes: parameters after the buffers: symbols of the graph.
        team: condition under which a team should call the function, each thread as one `member`
            of `members`; empty if the function takes care of threads itself.
    """

    name: str
    kernel: Kernel
    text: str
    buffers: tuple[Buffer, ...]
    may_fail: bool
    sizes: tuple[str, ...] = ()
    team: str = ""

    def call(
        self,
        name: str,
        buffers: Sequence[str],
        member: str = "0",
        members: str = "1",
        scalars: str = "scalars",
    ) -> str:
        """The call of the function (or of another one with its parameters)."""
        arguments = [*buffers, *self.sizes, scalars, "runtime", "threads", "status"]
        if self.team:
            arguments += [member, members]
        return f"{name}({', '.join(arguments)});"


def define(
    kernel: Kernel,
    name: str,
    body: Sequence[str],
    expressions: Sequence[Expression],
    stores: Sequence[Store],
    indices: Sequence[DataIndex],
    scratch: Sequence[Buffer] = (),
    team: str = "",
) -> Function:
    """The function of a kernel: parameters are the buffers it reads and writes, and `scratch`."""
    written = tuple(dict.fromkeys(store.buffer for store in stores))
    read = tuple(
        buffer
        for buffer in dict.fromkeys(e.buffer for e in expressions if isinstance(e, Load))
        if buffer not in written
    )
    same = dict(kernel.in_place) if isinstance(kernel, RowKernel) else {}
    # A pointer made of a restricted one may be used beside it.
    body = [*(f"const {b.dtype.c} *{b.name} = {same[b].name};" for b in read if b in same), *body]
    read = tuple(buffer for buffer in read if buffer not in same)
    fails = may_fail(expressions, indices)
    return define_over(kernel, name, body, read, (*written, *scratch), fails, team)


def define_over(
    kernel: Kernel,
    name: str,
    body: Sequence[str],
    read: Sequence[Buffer],
    written: Sequence[Buffer],
    fails: bool,
    team: str = "",
) -> Function:
    """The function of a kernel whose parameters are known; it may report errors if it `fails`."""
    parameters = [f"const {buffer.dtype.c} *restrict {buffer.name}" for buffer in read]
    parameters += [f"{buffer.dtype.c} *restrict {buffer.name}" for buffer in written]
    sizes = sizes_used(body)
    lines = masked_groups.guarded(body)
    text = function_text(name, [*parameters, *size_parameters(sizes)], lines, bool(team))
    return Function(name, kernel, text, (*read, *written), fails, sizes, team)


_SIZE = re.compile(r"\bs\d+\b")


def sizes_used(body: Sequence[str]) -> tuple[str, ...]:
    """The symbols of the graph in lines of C: no other name in them has this form."""
    return tuple(sorted({name for line in body for name in _SIZE.findall(line)}))


def size_parameters(sizes: Sequence[str]) -> list[str]:
    """The declarations of sizes as parameters."""
    return [f"int64_t {name}" for name in sizes]


def may_fail(expressions: Sequence[Expression], indices: Sequence[DataIndex]) -> bool:
    """True if a kernel may report an index out of range or an integer division by zero."""
    return any(not index.is_checked for index in indices) or any(
        isinstance(e, Apply) and e.function in MAY_DIVIDE and e.dtype.category is Category.INTEGER
        for e in expressions
    )


def function_text(
    name: str, parameters: Sequence[str], body: Sequence[str], is_shared: bool = False
) -> str:
    """A static C function with the common last parameters."""
    common = [
        "const dj_scalar *scalars", "const dj_runtime *runtime", "int threads", "int64_t *status",
    ]  # fmt: skip
    if is_shared:
        common += ["int member", "int members"]
    head = f"{KERNEL} {name}("
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
    return [f"{head} {{".lstrip(), *(INDENT + line for line in lines), "}"]


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


def simd_loop(
    element: Callable[[], Scope],
    body: Callable[[Scope], None],
    name: str,
    start: str,
    stop: str,
) -> list[str]:
    """A vector loop that runs `body`, with the faster forms of sines, cosines, tangents and powers
    while their operands are ordinary.

    The forms say when they are wrong (large angles, negative bases: `codegen.c.expressions`); a
    loop that meets such an operand is run again without them, so what it does must not depend on
    how often it is done.

    Args:
        element: makes a scope of one element.
        body: appends what is done for it.
        name: of the loop variable, from `start` to below `stop`.
    """
    near: list[str] = []
    scope = element()
    scope.near = near
    body(scope)
    if not near:
        return ["#pragma omp simd", *loop(name, start, stop, scope.lines)]
    whole = element()
    body(whole)
    far = " | ".join(dict.fromkeys(near))
    step = [*scope.lines, f"far |= {far};"]
    inner = [
        "int far = 0;",
        "#pragma omp simd reduction(|:far)",
        *loop(name, start, stop, step),
        *block("if (far)", loop(name, start, stop, whole.lines)),
    ]
    return ["{", *inner, "}"]


def target(scope: Scope, store: Store) -> str:
    """The element that a store writes."""
    scope.bind([store.offset])
    return f"{store.buffer.name}[{symint.c(store.offset)}]"


def ceil_div(a: Number, b: int) -> Number:
    """`a / b`, rounded up."""
    return symint.floordiv(a + b - 1, b)


def nest(axes: Sequence[Axis], lines: Sequence[str]) -> list[str]:
    """Loops over axes, the first outermost."""
    result = list(lines)
    for axis in reversed(axes):
        if axis.size == 1:
            result = ["{", *result, "}"]
            continue
        result = loop(axis.name, "0", symint.c(axis.size), result)
    return result


@record
class Work:
    """What a loop does: whether that is worth a team of threads.

    Args:
        elements: computed elements.
        least: elements from which a team is worth waking.
    """

    elements: Number
    least: int

    @property
    def is_large(self) -> bool | None:
        """Whether a team is worth it; None where the program has to look."""
        if symint.is_at_least(self.elements, self.least):
            return True
        return False if symint.is_at_least(self.least - 1, self.elements) else None

    @property
    def condition(self) -> str:
        """The C condition for `is_large` where the program has to look; else empty."""
        return f"{symint.c(self.elements)} >= {self.least}" if self.is_large is None else ""


def parallel(
    work: Work, variable: str, count: str, lines: Sequence[str], team: str = "threads"
) -> list[str]:
    """A loop from 0 to `count` run by the team if there is enough work.

    That is decided here where the sizes are known. Elsewhere the function is called by a team or
    by one thread, whatever its caller decides (see `Function.team`), and does its member's share:
    a parallel region that turns out to be of one thread would cost more than small kernels do.
    """
    if work.is_large is None:
        shares = [f"{count} * {member} / members" for member in ("member", "(member + 1)")]
        return [
            f"const int64_t begin = {shares[0]}, end = {shares[1]};",
            *loop(variable, "begin", "end", lines),
        ]
    whole = loop(variable, "0", count, lines)
    if not work.is_large:
        return whole
    return [f"#pragma omp parallel for schedule(static) num_threads({team})", *whole]


def after_all(lines: Sequence[str]) -> list[str]:
    """Lines that one member runs once all members are done (see `parallel`)."""
    return [
        *block("if (members > 1)", ["#pragma omp barrier"]),
        *block("if (member == 0)", lines),
    ]


def unflattened(variable: str, axes: Sequence[Axis], integer: str = "int64_t") -> list[str]:
    """Definitions of loop variables from the row-major position `variable`."""
    lines = []
    kept = [axis for axis in axes if not isinstance(axis.size, int) or axis.size > 1]
    rest = variable
    for i, axis in enumerate(reversed(kept)):
        last = i == len(kept) - 1
        size = symint.c(axis.size)
        value = rest if last else f"{rest} % {size}"
        lines.append(f"const {integer} {axis.name} = {value};")
        rest = f"({rest} / {size})"
    return lines


def work_of(expressions: Sequence[Expression], elements: Number) -> Work:
    """The work of evaluating `expressions` for `elements` elements."""
    additions = max(1, sum(map(cost, expressions)))
    return Work(elements, max(PARALLEL_ELEMENTS, -(-PARALLEL_WORK // additions)))


# ---------------------------------------------------------------------------------------------
# accumulators


def accumulator_names(accumulate: Accumulate, prefix: str) -> list[str]:
    """C variables of an accumulator."""
    return [f"{prefix}{k}_{accumulate.name}" for k in range(len(accumulate.element))]


def is_rounded(accumulate: Accumulate) -> bool:
    """True if the order of the elements changes how the result is rounded."""
    is_floating = accumulate.element[0].dtype.is_floating_point
    return accumulate.identity is not None and is_floating


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
