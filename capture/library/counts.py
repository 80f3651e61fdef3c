"""Numbers and truths of Python's that the launch computes: a tensor over the one element.

How many turns a loop had that ended by a tensor is an int, and so is what it counted. Sums,
differences and products with numbers of Python's are computed by the graph as well, bits of ints,
quotients and remainders by a literal, and comparisons are truths that it computes; what else is
asked of one asks for its value, which ends the graph.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.library.table import only_captured, rebuilds, stands_for
from dynajit.core.operators import BINARY, COMPARISONS, UNARY


def compute(name: str, *operands: Any) -> Any:
    """What an operator gives; for captured code only."""
    only_captured(name, operands)


def ask(name: str, number: Any) -> Any:
    """Leave to Python what asks for the value; for captured code only."""
    only_captured(name, number)


def _forward(name: str) -> Callable[..., Any]:
    def operate(self, other, /):
        return compute(name, self, other)

    return operate


def _reflected(name: str) -> Callable[..., Any]:
    def operate(self, other, /):
        return compute(name, other, self)

    return operate


def _of_one(name: str) -> Callable[..., Any]:
    def operate(self, /):
        return compute(name, self)

    return operate


def _asked(name: str) -> Callable[..., Any]:
    def operate(self, /, *args):
        return ask(name, self)

    return operate


_ASKED: Final = (
    "__bool__", "__int__", "__float__", "__index__", "__hash__", "__repr__", "__str__",
    "__format__", "__round__", "__trunc__", "__floor__", "__ceil__", "__divmod__", "__rdivmod__",
    "is_integer", "hex", "as_integer_ratio", "bit_length", "bit_count", "to_bytes",
)  # fmt: skip


def _made_of(original: type) -> Any:
    members: dict[str, Any] = {"__module__": __name__}
    for name in (*BINARY, *COMPARISONS):
        members[f"__{name}__"] = _forward(name)
    for name in BINARY:
        members[f"__r{name}__"] = _reflected(name)
    for name in UNARY:
        members[f"__{name}__"] = _of_one(name)
    for name in _ASKED:
        members[name] = _asked(name)
    members = {name: item for name, item in members.items() if hasattr(original, name)}
    for name, member in members.items():
        if name != "__module__":
            member.__name__ = name
    form = type(original.__name__, (), members)
    stands_for(original, form)
    return form


#: The forms of ints, of floats, of truths, and of complex numbers, which are returned only.
COUNT: Final = _made_of(int)
FLOAT: Final = _made_of(float)
TRUTH: Final = _made_of(bool)
COMPLEX: Final = _made_of(complex)


@rebuilds(COUNT)
def _int_of(tensor: Any) -> int:
    return int(tensor.array)


@rebuilds(FLOAT)
def _float_of(tensor: Any) -> float:
    return float(tensor.array)


@rebuilds(TRUTH)
def _truth_of(tensor: Any) -> bool:
    return bool(tensor.array)


@rebuilds(COMPLEX)
def _complex_of(tensor: Any) -> complex:
    return complex(tensor.array)
