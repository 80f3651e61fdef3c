"""Reductions that choose an element, in C: the value by lanes first, then the position of its first
occurrence.

Contract: `is_choice` holds for reductions of (value, position) whose value does not depend on the
positions; their result is the position of the first element that the final value does not beat,
which is the one that meeting the elements in order would have chosen. `value_of` is the reduction
of the value alone; `search` finds the position in a second pass, which ends where it succeeds.
Called by `codegen.c_rows`.
"""

from collections.abc import Sequence

from dynajit.codegen.c_expressions import Scope
from dynajit.codegen.c_support import accumulator_names, block, loop
from dynajit.codegen.loops import Accumulate, Apply, Expression, Slot, cost, walk
from dynajit.core import dtypes

BLOCK = 256
"""Elements that are looked at together: whether one of them is meant is asked after each block."""

CHEAP = 12
"""Cost of an element, in additions, up to which it is computed again in the search."""


def is_choice(accumulate: Accumulate) -> bool:
    """True if the value can be reduced alone, and the position be found from it."""
    if len(accumulate.element) != 2 or accumulate.first is None:
        return False
    value, position = accumulate.combine
    leaves = _choices(position)
    if leaves is None:
        return False
    conditions, chosen = leaves
    return (
        chosen == {Slot("a", 1, dtypes.int64), Slot("b", 1, dtypes.int64)}
        and not any(_is_position(e) for e in walk((value, *conditions)))
        and sum(map(cost, walk(accumulate.element[:1]))) <= CHEAP
    )


def _is_position(expression: Expression) -> bool:
    return isinstance(expression, Slot) and expression.component == 1


def _choices(position: Expression) -> tuple[list[Expression], set[Expression]] | None:
    """(conditions, what is chosen from) of choices inside each other."""
    conditions: list[Expression] = []
    chosen: set[Expression] = set()
    pending = [position]
    while pending:
        expression = pending.pop()
        if isinstance(expression, Apply) and expression.function == "where":
            conditions.append(expression.arguments[0])
            pending.extend(expression.arguments[1:])
        elif isinstance(expression, Slot):
            chosen.add(expression)
        else:
            return None
    return conditions, chosen


def value_of(accumulate: Accumulate) -> Accumulate:
    """The reduction of the value alone, under the same name."""
    assert accumulate.first is not None
    return Accumulate(
        accumulate.name,
        accumulate.element[:1],
        accumulate.first[:1],
        None,
        accumulate.combine[:1],
    )


def beaten(scope: Scope, accumulate: Accumulate, value: str, best: str) -> str:
    """C condition: `best`, coming later, would replace `value`."""
    inner = Scope(scope.names)
    dtype = accumulate.element[0].dtype
    inner.known[Slot("a", 0, dtype)] = value
    inner.known[Slot("b", 0, dtype)] = best
    inner.known[Slot("a", 1, dtypes.int64)] = "0"
    inner.known[Slot("b", 1, dtypes.int64)] = "1"
    position = inner.emit(accumulate.combine[1])
    scope.add(*inner.lines)
    return position


def search(
    accumulate: Accumulate,
    scopes: Sequence[Scope],
    variable: str,
    stop: str,
) -> list[str]:
    """Lines that leave the position in the second `r` variable, given the value in the first.

    Args:
        accumulate: a choice.
        scopes: three empty scopes of one element, `variable`.
        variable: index along the row.
        stop: length of the row in C.
    """
    best, position = accumulator_names(accumulate, "r")
    many, which, one = scopes
    here = f"const int64_t {variable} = base + lane;"
    outcome = beaten(many, accumulate, many.emit(accumulate.element[0]), best)
    step = [here, *many.lines, f"met |= !({outcome});"]
    together = [
        "int met = 0;",
        "#pragma omp simd reduction(|:met)",
        *loop("lane", "0", str(BLOCK), step),
        "if (met) break;",
    ]
    # In a loop of its own the block that has it is small enough for vectors of positions.
    outcome = beaten(which, accumulate, which.emit(accumulate.element[0]), best)
    step = [here, *which.lines, f"const int32_t at = {outcome} ? {BLOCK} : lane;",
            "first = at < first ? at : first;"]  # fmt: skip
    within = [
        f"int32_t first = {BLOCK};",
        "#pragma omp simd reduction(min:first)",
        *loop("lane", "0", str(BLOCK), step, integer="int32_t"),
        "base += first;",
    ]
    outcome = beaten(one, accumulate, one.emit(accumulate.element[0]), best)
    found = one.child(is_arm=True)
    found.add(f"{position} = {found.emit(accumulate.element[1])};", "break;")
    alone = [*one.lines, *block(f"if (!({outcome}))", found.lines)]
    return [
        "{",
        "int64_t base = 0;",
        *block(f"for (; base < {stop} - {BLOCK - 1}; base += {BLOCK})", together),
        *block(f"if (base < {stop} - {BLOCK - 1})", within),
        *loop(variable, "base", stop, alone),
        "}",
    ]
