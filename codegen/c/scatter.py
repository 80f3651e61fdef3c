"""Scatter kernels in C: the target is filled, then written in row-major order by one thread.

Contract: writes that meet are combined in the order of the loop, so results are the same every
time. 16-bit targets add in float32 and round once.
"""

from dynajit.codegen.c.expressions import Names, Scope, converted
from dynajit.codegen.c.support import Function, define, loop, nest
from dynajit.codegen.loops.loop_ir import ScatterKernel, all_expressions
from dynajit.core.types import dtypes, symint


def print_scatter(kernel: ScatterKernel) -> Function:
    """The C function of a scatter kernel."""
    names = Names(kernel.indices)
    root = Scope(names)
    buffer = kernel.initial.buffer
    is_wide = kernel.accumulator is not buffer.dtype
    target = "wide" if is_wide else buffer.name
    size = symint.c(symint.maximum(buffer.size, 1))
    if is_wide:
        root.add(f"{kernel.accumulator.c} *wide = malloc(sizeof(*wide) * {size});")
        root.add("if (!wide) { status[0] = 3; return; }")
    fill = root.child([axis.name for axis in kernel.fill])
    value = fill.emit(kernel.initial.value)
    value = converted(value, kernel.initial.value.dtype, kernel.accumulator)
    fill.add(f"{target}[{symint.c(kernel.initial.offset)}] = {value};")
    filled = nest(kernel.fill, fill.lines)
    write = root.child([axis.name for axis in kernel.loops])
    added = write.emit(kernel.write.value)
    write.bind([kernel.write.offset])
    place = f"{target}[{symint.c(kernel.write.offset)}]"
    combined = added
    if kernel.mode == "add":
        operator = "|" if kernel.accumulator is dtypes.bool_ else "+"
        combined = f"({kernel.accumulator.c})({place} {operator} {added})"
    write.add(f"if (!status[0]) {place} = {combined};")
    written = nest(kernel.loops, write.lines)
    root.add(*filled, *written)
    if is_wide:
        text = converted("wide[i]", kernel.accumulator, buffer.dtype)
        root.add(
            *loop("i", "0", symint.c(buffer.size), [f"{buffer.name}[i] = {text};"]), "free(wide);"
        )
    expressions = all_expressions((kernel.initial.value, kernel.write.value), kernel.indices)
    return define(kernel, kernel.name, root.lines, expressions, [kernel.initial], kernel.indices)
