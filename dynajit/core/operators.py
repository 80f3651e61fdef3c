"""Python's operators, by the names of their methods without underscores.

Contract: names in the words of the data model ("truediv" is `__truediv__`), each kind in one tuple.
Source: The Python Language Reference, "Emulating numeric types" and "Basic customization".
"""

from typing import Final

_BINARY: Final = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_ORDER: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

SYMBOLS: Final = {**_BINARY, **_ORDER, "eq": "==", "ne": "!="}
"""Those that stand between two operands -> how they are written."""

SIGNS: Final = {"neg": "-", "pos": "+", "invert": "~"}
"""Those in front of one."""

BINARY: Final = tuple(_BINARY)
"""Those with a reflected form (`__radd__`) and one that writes (`__iadd__`); `divmod` has only the
first."""

ORDER: Final = tuple(_ORDER)
COMPARISONS: Final = (*ORDER, "eq", "ne")
UNARY: Final = ("neg", "pos", "abs", "invert")
