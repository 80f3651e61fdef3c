"""Schemas of operators: `name(Tensor x, int n=2, *, float[] k) -> (Tensor, Tensor)`.

Contract: `parse` reads the text of a schema, `str` of a `Schema` writes it again; `Schema.bind`
puts the arguments of a call into the schema's order, completes defaults and converts each to what
its type says, or raises OperatorError with the declaration.

Source of the language: "func" in PyTorch's README of its native functions.
"""

import ast
import numbers
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from dynajit.core.errors import OperatorError
from dynajit.core.records import record
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.memory_format import MemoryFormat
from dynajit.core.types.symint import SymInt
from dynajit.core.types.tensor_layouts import Layout
from dynajit.cuda.streams import Stream
from dynajit.eager.modes.random import Generator
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ir.graph import Value


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()

BASES: Final = (
    "Tensor", "SymInt", "int", "float", "bool", "str", "Scalar", "ScalarType", "Device", "Layout",
    "MemoryFormat", "Generator", "Stream",
)  # fmt: skip
"""Names of types; what they take is in `_CONVERSIONS`."""


@record
class SchemaType:
    """The type of an argument or a result.

    Args:
        base: one of `BASES`.
        is_list: a list of them.
        length: of a list that one number may stand for (`int[2]`), else None.
        items_optional: a list's items may be None.
        optional: None is accepted.
    """

    base: str
    is_list: bool = False
    length: int | None = None
    items_optional: bool = False
    optional: bool = False

    @property
    def is_tensor(self) -> bool:
        """True for a tensor, perhaps None, and for lists of such."""
        return self.base == "Tensor"

    def text(self, alias: str = "") -> str:
        """As schemas write it, with an alias behind the base."""
        items = "?" if self.items_optional else ""
        length = "" if self.length is None else self.length
        brackets = f"{items}[{length}]" if self.is_list else ""
        return f"{self.base}{alias}{brackets}{'?' if self.optional else ''}"


@record
class Argument:
    """One argument.

    Args:
        name: as callers may write it.
        type: see SchemaType.
        default: a Python value, or REQUIRED.
        keyword_only: it stands behind `*`.
        alias: what stands in parentheses behind the base, `a!` for what is written; or empty. A
            lone `!` behind the base is an alias of its own, `$0!`.
    """

    name: str
    type: SchemaType
    default: Any = REQUIRED
    keyword_only: bool = False
    alias: str = ""

    @property
    def is_written(self) -> bool:
        """True if a call writes to it."""
        return self.alias.endswith("!")

    def __str__(self) -> str:
        alias = f"({self.alias})" if self.alias else ""
        default = "" if self.default is REQUIRED else f"={_default_text(self.default)}"
        return f"{self.type.text(alias)} {self.name}{default}"


@record
class Return:
    """One result: its type, its alias, and its name if it has one."""

    type: SchemaType
    alias: str = ""
    name: str = ""

    def __str__(self) -> str:
        alias = f"({self.alias})" if self.alias else ""
        return f"{self.type.text(alias)} {self.name}".rstrip()


@record
class Schema:
    """What an operator takes and gives.

    Args:
        name: with the namespace and the overload, `mylib::sort.stable`; perhaps empty.
        arguments: in order.
        returns: in order.
    """

    name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    @property
    def is_mutable(self) -> bool:
        """True if a call writes to an argument."""
        return any(argument.is_written for argument in self.arguments)

    @property
    def is_functional(self) -> bool:
        """True if no argument is written, and no result is an argument."""
        return not self.is_mutable and not any(result.alias for result in self.returns)

    @property
    def has_keyword_only(self) -> bool:
        """True if an argument can be passed by name only."""
        return any(argument.keyword_only for argument in self.arguments)

    def bind(self, args: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """The values of all arguments in order, converted.

        Raises:
            OperatorError: too many or too few, or a value of another type.
        """
        positional = [argument for argument in self.arguments if not argument.keyword_only]
        if len(args) > len(positional):
            raise self.refusal(
                f"takes {len(positional)} positional argument(s) but {len(args)} was/were given"
                if self.has_keyword_only
                else f"expected at most {len(positional)} argument(s) but received {len(args)} "
                "argument(s)"
            )
        given = dict(zip((argument.name for argument in positional), args, strict=False))
        for name, value in keywords.items():
            if name in given:
                raise self.refusal(f"got multiple values for argument '{name}'")
            given[name] = value
        unknown = given.keys() - {argument.name for argument in self.arguments}
        if unknown:
            raise self.refusal(f"got unknown keyword argument(s) {sorted(unknown)}")
        return [
            self._value(position, argument, given)
            for position, argument in enumerate(self.arguments)
        ]

    def _value(self, position: int, argument: Argument, given: dict[str, Any]) -> Any:
        value = given.get(argument.name, argument.default)
        if value is REQUIRED:
            raise self.refusal(f"is missing value for argument '{argument.name}'")
        try:
            return converted(argument.type, value)
        except _Unfit:
            raise self.refusal(
                f"Expected a value of type '{_python_name(argument.type)}' for argument "
                f"'{argument.name}' but instead found type '{type(value).__name__}'.  Position: "
                f"{position}"
            ) from None

    def split(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Values in the schema's order as positional and keyword-only arguments of a function."""
        pairs = list(zip(self.arguments, values, strict=True))
        return (
            tuple(value for argument, value in pairs if not argument.keyword_only),
            {argument.name: value for argument, value in pairs if argument.keyword_only},
        )

    def refusal(self, what: str) -> OperatorError:
        """An error about a call."""
        return OperatorError(f"{self.name}() {what}.  Declaration: {self}")

    def __str__(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.keyword_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        returns = ", ".join(map(str, self.returns))
        results = returns if len(self.returns) == 1 else f"({returns})"
        return f"{self.name}({', '.join(parts)}) -> {results}"


# -- values --------------------------------------------------------------------------------------


class _Unfit(Exception):
    """A value is not of a type; used only between `converted` and its callers."""


def converted(kind: SchemaType, value: Any) -> Any:
    """A value as a type has it: lists for tuples, floats for integers, devices for texts.

    Raises:
        _Unfit: it is of another type.
    """
    if value is None and (kind.optional or (kind.is_tensor and not kind.is_list)):
        return None
    convert = _CONVERSIONS[kind.base]
    if not kind.is_list:
        return convert(value)
    if kind.length is not None and not isinstance(value, (list, tuple)):
        return [convert(value)] * kind.length
    if not isinstance(value, (list, tuple)):
        raise _Unfit
    return [None if item is None and kind.items_optional else convert(item) for item in value]


def converted_result(schema: Schema, kind: SchemaType, value: Any) -> Any:
    """A result as its type has it; None stands for a tensor, too.

    Raises:
        OperatorError: it is of another type.
    """
    try:
        return converted(kind, value)
    except _Unfit:
        raise OperatorError(
            f"{schema.name}: Unable to cast a result of type '{type(value).__name__}' to "
            f"{_python_name(kind)}.  Declaration: {schema}"
        ) from None


def is_tensor(value: Any) -> bool:
    """True for an eager tensor and for a value of a graph."""
    return isinstance(value, (Tensor, Value))


def tensors_in(values: Sequence[Any]) -> Iterator[Any]:
    """The tensors among values, and those in lists, in order."""
    for value in values:
        if isinstance(value, list):
            yield from filter(is_tensor, value)
        elif is_tensor(value):
            yield value


def _tensor(value: Any) -> Any:
    if not is_tensor(value):
        raise _Unfit
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, SymInt):
        return value
    if is_tensor(value):
        raise _Unfit
    try:
        return operator.index(value)
    except TypeError:
        raise _Unfit from None


def _real(value: Any) -> float:
    if not isinstance(value, numbers.Real):
        raise _Unfit
    return float(value)


def _of(*kinds: type) -> Any:
    def convert(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise _Unfit
        return value

    return convert


def _device(value: Any) -> Device:
    return devices.parse(value) if isinstance(value, str) else _of(Device)(value)


_CONVERSIONS: Final = {
    "Tensor": _tensor,
    "SymInt": _integer,
    "int": _integer,
    "float": _real,
    "bool": _of(bool),
    "str": _of(str),
    "Scalar": _of(numbers.Number, SymInt),
    "ScalarType": _of(DType),
    "Device": _device,
    "Layout": _of(Layout),
    "MemoryFormat": _of(MemoryFormat),
    "Generator": _of(Generator),
    "Stream": _of(Stream),
}


def _python_name(kind: SchemaType) -> str:
    name = {"SymInt": "int", "ScalarType": "dtype", "Scalar": "number"}.get(kind.base, kind.base)
    name = f"List[{name}]" if kind.is_list else name
    return f"Optional[{name}]" if kind.optional else name


# -- text ----------------------------------------------------------------------------------------

_SCHEMA: Final = re.compile(r"\s*([\w:.]*)\s*\((.*)\)\s*->\s*(.*?)\s*", re.DOTALL)
_ITEM: Final = re.compile(
    r"(\w+)(?:\(([^)]*)\)|(\$\d+!))?((?:\[\d*\]|\?)*)(?:\s+(\w+))?(?:\s*=\s*(.+))?", re.DOTALL
)
_SUFFIX: Final = re.compile(r"(\?)?(?:\[(\d*)\])?(\?)?")


def parse(text: str) -> Schema:
    """The schema of a text; its name may be missing.

    Raises:
        OperatorError: the text is none, or names a type that is not known here.
    """
    found = _SCHEMA.fullmatch(_with_aliases(text))
    if found is None:
        raise OperatorError(
            f"the schema {text!r} cannot be read.  Expected for example "
            "'name(Tensor x, int n=2, *, float[] k) -> (Tensor, Tensor)'."
        )
    name, arguments, returns = found.groups()
    if returns.startswith("(") and returns.endswith(")"):
        returns = returns[1:-1]
    return Schema(
        name,
        tuple(_arguments(arguments, text)),
        tuple(_return(item, text) for item in _split(returns)),
    )


def _with_aliases(text: str) -> str:
    """A schema in which each `Tensor!` has an alias of its own, by number."""
    first, *others = text.split("Tensor!")
    return first + "".join(f"Tensor${i}!{part}" for i, part in enumerate(others))


def _arguments(text: str, schema: str) -> Iterator[Argument]:
    keyword_only = False
    for item in _split(text):
        if item == "*":
            keyword_only = True
            continue
        kind, alias, name, default = _item(item, schema)
        if not name:
            raise OperatorError(f"the schema {schema!r}: the argument {item!r} has no name.")
        value = REQUIRED if default is None else _default(default, kind)
        yield Argument(name, kind, value, keyword_only, alias)


def _return(text: str, schema: str) -> Return:
    kind, alias, name, _ = _item(text, schema)
    return Return(kind, alias, name)


def _item(text: str, schema: str) -> tuple[SchemaType, str, str, str | None]:
    """Type, alias, name and text of the default."""
    found = _ITEM.fullmatch(text)
    suffix = None if found is None else _SUFFIX.fullmatch(found[4])
    if found is None or suffix is None or found[1] not in BASES:
        raise OperatorError(
            f"the schema {schema!r}: unknown type specifier in {text!r}.  Expected one of "
            f"{', '.join(BASES)}, with [] for lists and ? for what may be None."
        )
    before, length, after = suffix.groups()
    if length is None:
        kind = SchemaType(found[1], optional=bool(before or after))
    else:
        number = int(length) if length else None
        kind = SchemaType(found[1], True, number, bool(before), bool(after))
    return kind, (found[2] or found[3] or "").replace(" ", ""), found[5] or "", found[6]


def _split(text: str) -> list[str]:
    """Items between commas that stand in no brackets and no quotes."""
    items, depth, quote, item = [], 0, "", ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        if letter == "," and not depth and not quote:
            items.append(item.strip())
            item = ""
        else:
            item += letter
    return [*items, item.strip()] if item.strip() else items


_NAMED: Final[dict[str, Callable[[str], Any]]] = {
    "ScalarType": dtypes.by_name,
    "Layout": lambda name: Layout[name],
    "MemoryFormat": lambda name: MemoryFormat[name],
}
"""What the name of a default stands for."""


def _default(text: str, kind: SchemaType) -> Any:
    if kind.base in _NAMED and text != "None":
        return _NAMED[kind.base](text)
    try:
        value = ast.literal_eval(text)
    except ValueError:
        value = text  # a name, such as mean
    try:
        return converted(kind, value)
    except _Unfit:
        raise OperatorError(f"the default {text!r} is no {kind.text()}.") from None


def _default_text(value: Any) -> str:
    if isinstance(value, (DType, Layout, MemoryFormat)):
        return value.name
    if isinstance(value, (str, Device)):
        return f'"{value}"'
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}."
    if isinstance(value, list):
        return f"[{', '.join(map(_default_text, value))}]"
    return str(value)
