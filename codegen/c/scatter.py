"""Scatter kernels in C: the target is filled, then written in row-major order by one thread.

Contract: writes that meet are combined in the order of the loop, so results are the same every
time. 16-bit targets are combined in float32 and rounded once. A target that is the array of what it
is filled with is written to only if all indices are valid: a failure must leave no trace.
"""

from dynajit.codegen.c.expressions import Names, Scope, converted
from dynajit.codegen.c.support import Function, define, loop, nest
from dynajit.codegen.loops.loop_ir import ScatterKernel, all_expressions
from dynajit.core.types import dtypes, symint
from dynajit.ops.table.scalar import spell


def print_scatter(kernel: ScatterKernel) -> Function:
    """The C function of a scatter kernel."""
    root = Scope(Names(kernel.indices))
    buffer = kernel.initial.buffer
    is_wide = kernel.accumulator is not buffer.dtype
    target = "wide" if is_wide else buffer.name
    size = symint.c(symint.maximum(buffer.size, 1))
    if is_wide:
        root.add(f"{kernel.accumulator.c} *wide = malloc(sizeof(*wide) * {size});")
        root.add("if (!wide) { status[0] = 3; return; }")
    first = _checked(kernel, root) if kernel.in_place else _filled(kernel, root, target)
    write = root.child([axis.name for axis in kernel.loops])
    added = write.emit(kernel.write.value)
    write.bind([kernel.write.offset])
    place = f"{target}[{symint.c(kernel.write.offset)}]"
    write.add(f"if (!status[0]) {place} = {combined(kernel, place, added, 'c')};")
    written = nest(kernel.loops, write.lines)
    root.add(*first, *written)
    if is_wide:
        text = converted("wide[i]", kernel.accumulator, buffer.dtype)
        root.add(
            *loop("i", "0", symint.c(buffer.size), [f"{buffer.name}[i] = {text};"]), "free(wide);"
        )
    values = (
        (kernel.write.value,) if kernel.in_place else (kernel.initial.value, kernel.write.value)
    )
    expressions = all_expressions(values, kernel.indices)
    return define(kernel, kernel.name, root.lines, expressions, [kernel.initial], kernel.indices)


def combined(kernel: ScatterKernel, place: str, value: str, target: str) -> str:
    """What a write leaves at a place, as text for a target ("c" or "cuda")."""
    dtype, is_bool = kernel.accumulator, kernel.accumulator is dtypes.bool_
    match kernel.mode:
        case "set":
            return value
        case "add":
            operator = "|" if is_bool else "+"
        case "prod":
            operator = "&" if is_bool else "*"
        case mode:
            return spell("maximum" if mode == "amax" else "minimum", dtype, target, place, value)
    return f"({dtype.c})({place} {operator} {value})"


def _filled(kernel: ScatterKernel, root: Scope, target: str) -> list[str]:
    fill = root.child([axis.name for axis in kernel.fill])
    value = fill.emit(kernel.initial.value)
    value = converted(value, kernel.initial.value.dtype, kernel.accumulator)
    fill.add(f"{target}[{symint.c(kernel.initial.offset)}] = {value};")
    return nest(kernel.fill, fill.lines)


def _checked(kernel: ScatterKernel, root: Scope) -> list[str]:
    """Look at all indices, which leaves an error where one is out of range."""
    if not kernel.indices:
        return []
    look = root.child([axis.name for axis in kernel.loops])
    look.bind([kernel.write.offset])
    return [*nest(kernel.loops, look.lines), "if (status[0]) return;"]
