"""Loops with faster forms of sines, cosines, tangents and powers while their operands are ordinary.

Contract: the forms say when they are wrong (large angles, negative bases: `codegen.c.expressions`);
a loop that meets such an operand is run again without them, so what it does must not depend on how
often it is done.
"""

from collections.abc import Callable

from dynajit.codegen.c.expressions import Scope
from dynajit.codegen.c.support import block, loop


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
