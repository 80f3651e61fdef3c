"""Functions of Python numbers that are computed before a launch: their names, and what they are.

Each is written in C and depends on nothing but the numbers, so that guards may call it
(`capture.guards.conditions`), and so may the code in front of a launch. Results are Python's own:
whatever is asked of them here, the interpreter answers.
"""

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from dynajit.capture import _capture
from dynajit.core.operators import SIGNS, SYMBOLS

#: Operators by their symbols; of one operand where the symbol would stand for two.
OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    symbol: getattr(operator, f"__{name}__") for name, symbol in SYMBOLS.items() if symbol != "@"
}

#: Functions of `math` that take iterables, or give tuples.
_NOT_OF_NUMBERS: Final = frozenset({"fsum", "prod", "dist", "sumprod", "frexp", "modf"})

_OF_MATH: Final = {
    f"math.{name}": function
    for name, function in vars(math).items()
    if callable(function) and not name.startswith("_") and name not in _NOT_OF_NUMBERS
}

#: Results of these are numbers of the operands' class where that is one, whatever they are.
CLOSED: Final = frozenset({"+", "-", "*"})

#: Those of `builtins` whose cost and whose results' sizes are bounded, whatever the numbers are.
_BOUNDED_BUILTINS: Final = {function.__name__: function for function in (abs, min, max, int, float)}

_ALL: Final[Mapping[str, Callable[..., Any]]] = {
    **OPERATORS,
    "in": operator.contains, "item": operator.getitem, "choose": _capture.choose,
    **{name: getattr(operator, name) for name in SIGNS},
    **_BOUNDED_BUILTINS, **{function.__name__: function for function in (round, pow)},
    **{f.__qualname__: f for f in (int.bit_length, int.bit_count, float.is_integer)},
    **_OF_MATH,
}  # fmt: skip

#: Those of all functions whose cost and whose results' sizes are bounded, whatever the numbers are:
#: they may be computed with numbers that they are not meant for.
BOUNDED: Final[Mapping[str, Callable[..., Any]]] = {
    name: function
    for name, function in _ALL.items()
    if name in ("+", "-", "*", "/", "//", "%", "neg", "pos", *_BOUNDED_BUILTINS)
    or (name in _OF_MATH and name not in ("math.factorial", "math.comb", "math.perm"))
}

#: In front of the name of a function that gives None where it raises, or one of its operands is
#: None: it is a part of an expression that is perhaps not asked for.
ATTEMPT: Final = "attempt "

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **_ALL,
    **{ATTEMPT + name: partial(_capture.attempt, function) for name, function in _ALL.items()},
}


def call_text(name: str, operands: list[str]) -> str:
    """A call of one of the functions as Python text; operands stand in parentheses already."""
    name = name.removeprefix(ATTEMPT)
    if name == "choose":
        return f"({operands[1]} if {operands[0]} else {operands[2]})"
    if name in OPERATORS:
        return f"({operands[0]} {name} {operands[1]})"
    if name in SIGNS:
        return f"({SIGNS[name]}{operands[0]})"
    if name == "in":
        return f"({operands[1]} in {operands[0]})"
    if name == "item":
        return f"{operands[0]}[{operands[1]}]"
    kind, _, method = name.partition(".")
    if kind in ("int", "float") and method:
        return f"{operands[0]}.{method}()"
    return f"{name}({', '.join(operands)})"
