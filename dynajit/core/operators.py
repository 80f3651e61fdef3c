"""Python's operators, by the names of their methods without underscores.

Contract: names in the words of the data model ("truediv" is `__truediv__`), each kind in one tuple.
Source: The Python Language Reference, "Emulating numeric types" and "Basic customization".
"""

from typing import Final

BINARY: Final = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and",
    "or", "xor",
)  # fmt: skip
"""Those with a reflected form (`__radd__`) and one that writes (`__iadd__`); `divmod` has only the
first."""

ORDER: Final = ("lt", "le", "gt", "ge")
COMPARISONS: Final = (*ORDER, "eq", "ne")
UNARY: Final = ("neg", "pos", "abs", "invert")
