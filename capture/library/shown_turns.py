"""What turns of a loop write out (prints, logs, warnings), turn by turn when the launch is over.

Contract: calls are made in the program's order, with the values that each turn had.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dynajit.core.records import record


@record
class InRow:
    """An argument that a turn has at a place of its row."""

    place: int


@record
class Fixed:
    """An argument that is the same in all turns, by its place among those."""

    place: int


@record
class Made:
    """An argument that a function makes of others."""

    function: Callable[..., Any]
    arguments: tuple["Argument", ...]


Argument: TypeAlias = InRow | Fixed | Made


@record
class ShownInTurn:
    """A call that each turn makes where all of some truths hold.

    Args:
        keywords: names of the last arguments.
    """

    function: Callable[..., Any]
    when: tuple[Argument, ...]
    arguments: tuple[Argument, ...]
    keywords: tuple[str, ...]


def show_turns(shown: Sequence[ShownInTurn], rows: Sequence[tuple[Any, ...]], *fixed: Any) -> None:
    """Make the calls of all turns.

    Args:
        shown: the calls of one turn.
        rows: of each turn the values that it has.
        fixed: the values that all turns have.
    """
    for row in rows:
        for call in shown:
            if not all(_value(truth, row, fixed) for truth in call.when):
                continue
            given = [_value(argument, row, fixed) for argument in call.arguments]
            first = len(given) - len(call.keywords)
            named = dict(zip(call.keywords, given[first:], strict=True))
            call.function(*given[:first], **named)


def _value(argument: Argument, row: tuple[Any, ...], fixed: tuple[Any, ...]) -> Any:
    if isinstance(argument, InRow):
        return row[argument.place]
    if isinstance(argument, Fixed):
        return fixed[argument.place]
    return argument.function(*(_value(part, row, fixed) for part in argument.arguments))


__all__ = ["Argument", "Fixed", "InRow", "Made", "ShownInTurn", "show_turns"]
