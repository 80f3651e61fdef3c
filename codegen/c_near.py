"""Loops whose sines, cosines and tangents are vector code while their operands are small.

Contract: the vector forms are right up to DJ_NEAR (headers/vecmath.h); a loop that meets a larger
operand is run again with the C library, so what it does must not depend on how often it is done.
Called by `codegen.c_row_loops` and `codegen.c_scans`.
"""

from collections.abc import Callable

from dynajit.codegen.c_expressions import Scope
from dynajit.codegen.c_support import block, loop


def simd_loop(
    element: Callable[[], Scope],
    body: Callable[[Scope], None],
    name: str,
    start: str,
    stop: str,
) -> list[str]:
    """A vector loop that runs `body`.

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
