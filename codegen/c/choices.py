"""Reductions that choose an element, in C: the value by lanes first, then the position of its first
occurrence.

Contract: `is_choice` holds for reductions of (value, position) whose value does not depend on the
positions; their result is the position of the first element that the final value does not beat,
which is the one that meeting the elements in order would have chosen. `value_of` is the reduction
of the value alone; `search` finds the position in a second pass, which ends where it succeeds.
"""

from collections.abc import Collection, Sequence
from typing import Final

from dynajit.codegen.c.expressions import Scope
from dynajit.codegen.c.support import accumulator_names, block, loop
from dynajit.codegen.loops.loop_ir import Accumulate, Apply, Expression, Literal, Slot, cost, walk
from dynajit.core.operators import ORDER
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType

BLOCK = 128
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


def beaten(scope: Scope, accumulate: Accumulate, value: str, best: str, outcome: Expression) -> str:
    """C condition: `best`, coming later, would replace `value`.

    Args:
        outcome: see `outcome_of`.
    """
    inner = Scope(scope.names)
    dtype = accumulate.element[0].dtype
    inner.known[Slot("a", 0, dtype)] = value
    inner.known[Slot("b", 0, dtype)] = best
    condition = inner.emit(outcome)
    scope.add(*inner.lines)
    return condition


AS_WIDE: Final = {d.itemsize: d for d in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)}


def outcome_of(position: Expression, dtype: DType, unusual: Collection[Expression]) -> Expression:
    """The choice of a position as 0 for the earlier element, and 1 for the later one.

    Args:
        dtype: an integer as wide as the elements, as many of which are in a vector: with 64 bits
            beside floats, argmax took 1.4 times as long.
        unusual: conditions that do not hold.
    """
    if isinstance(position, Slot):
        return Literal(int(position.side == "b"), dtype)
    assert isinstance(position, Apply), "see _choices"
    condition, yes, no = position.arguments
    otherwise = outcome_of(no, dtype, unusual)
    if condition in unusual:
        return otherwise
    chosen = outcome_of(yes, dtype, unusual)
    if chosen == Literal(0, dtype) and _is_false_for_nan(otherwise, condition):
        return otherwise
    return Apply("where", (condition, chosen, otherwise), dtype)


def _is_false_for_nan(outcome: Expression, condition: Expression) -> bool:
    """True if `condition` is that a value is NaN, and then `outcome` is 0 without asking."""
    if not isinstance(condition, Apply) or condition.function != "isnan":
        return False
    if not isinstance(outcome, Apply) or outcome.function != "where":
        return False
    asked, yes, no = outcome.arguments
    return (
        isinstance(asked, Apply)
        and asked.function in ORDER
        and condition.arguments[0] in asked.arguments
        and (yes, no) == (Literal(1, outcome.dtype), Literal(0, outcome.dtype))
    )


def of_best(accumulate: Accumulate) -> list[Expression]:
    """Conditions of the choice that ask about the later value alone: here the final one."""
    conditions, _ = _choices(accumulate.combine[1]) or ([], set())
    sides = [{e.side for e in walk((c,)) if isinstance(e, Slot)} for c in conditions]
    return [c for c, asked in zip(conditions, sides, strict=True) if asked == {"b"}]


def search(
    accumulate: Accumulate,
    scopes: Sequence[Scope],
    variable: str,
    stop: str,
) -> list[str]:
    """Lines that leave the position in the second `r` variable, given the value in the first.

    Args:
        accumulate: a choice.
        scopes: three empty scopes of one element, `variable`, and an empty one of the row.
        variable: index along the row.
        stop: length of the row in C.
    """
    best, position = accumulator_names(accumulate, "r")
    many, which, one, row = scopes
    here = f"const int64_t {variable} = base + lane;"
    choice, value = accumulate.combine[1], accumulate.element[0]
    dtype = AS_WIDE[value.dtype.itemsize]
    unusual = of_best(accumulate)
    usually = outcome_of(choice, dtype, unusual)
    outcome = beaten(many, accumulate, many.emit(value), best, usually)
    step = [here, *many.lines, f"met |= !({outcome});"]
    together = [
        "int met = 0;",
        "#pragma omp simd reduction(|:met)",
        *loop("lane", "0", str(BLOCK), step),
        "if (met) break;",
    ]
    # In a loop of its own the block that has it is small enough for vectors of positions.
    outcome = beaten(which, accumulate, which.emit(value), best, usually)
    step = [here, *which.lines, f"const int32_t at = {outcome} ? {BLOCK} : lane;",
            "first = at < first ? at : first;"]  # fmt: skip
    within = [
        f"int32_t first = {BLOCK};",
        "#pragma omp simd reduction(min:first)",
        *loop("lane", "0", str(BLOCK), step, integer="int32_t"),
        "base += first;",
    ]
    blocks = [
        *block(f"for (; base < {stop} - {BLOCK - 1}; base += {BLOCK})", together),
        *block(f"if (base < {stop} - {BLOCK - 1})", within),
    ]
    asked = [beaten(row, accumulate, best, best, condition) for condition in unusual]
    if asked:
        blocks = [*row.lines, *block(f"if (!({' || '.join(asked)}))", blocks)]
    outcome = beaten(one, accumulate, one.emit(value), best, outcome_of(choice, dtype, ()))
    found = one.child(is_arm=True)
    found.add(f"{position} = {found.emit(accumulate.element[1])};", "break;")
    alone = [*one.lines, *block(f"if (!({outcome}))", found.lines)]
    return [
        "{",
        "int64_t base = 0;",
        *blocks,
        *loop(variable, "base", stop, alone),
        "}",
    ]
