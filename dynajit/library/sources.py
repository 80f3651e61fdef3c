"""Operators by source text: expressions of C that are fused into kernels, functions of C that are
called.

Contract: an `Expression` says what a pointwise operator computes per element, in C and in CUDA C++;
graphs have a row of it where operands and result are what the expression is about, and generated
kernels contain its text. `c_kernel` makes a kernel of a function of C. Both are compiled when they
are registered: what is wrong with the text is said there.
"""

import ctypes
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dynajit.codegen._runtime import Library
from dynajit.codegen.c import prelude as c_prelude
from dynajit.codegen.compilers import toolchain
from dynajit.core.errors import (
    DTypeError,
    InternalError,
    InvalidValueError,
    OperatorError,
    ToolchainError,
)
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.eager import _tensor
from dynajit.library import autograd, traced
from dynajit.library.forms import Form
from dynajit.library.schema import Argument, Schema, tensors_in
from dynajit.ops.table import scalar
from dynajit.ops.table.scalar import SCALARS, Result, Scalar

_TOKEN: Final = re.compile(
    r"\s+|[A-Za-z_]\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlLuU]*|<<|>>|<=|>=|==|!=|&&|\|\|"
    r"|[-+*/%<>!&|^~?:(),]"
)
_REAL: Final = re.compile(r"(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
_WORDS: Final = frozenset(
    ("float", "double", "int", "long", "int64_t", "INFINITY", "NAN", "isfinite", "isinf", "isnan")
)
_numbers: Final = itertools.count()

#: dtypes whose elements are computed with as they are.
DTYPES: Final = (dtypes.float32, dtypes.float64)


@record
class Expression:
    """What an operator computes per element.

    Args:
        names: of the operator's arguments.
        c, cuda: the text in parts: `$name` stands for an argument, `{f}` and `{s}` are those of
            `ops.table.scalar`.
    """

    names: tuple[str, ...]
    c: tuple[str, ...]
    cuda: tuple[str, ...]

    def scalar(self, numbers: Mapping[str, Any]) -> str:
        """The name of a new scalar function that computes it.

        Args:
            numbers: arguments that are numbers; the others are its operands, in order.
        """
        operands = [name for name in self.names if name not in numbers]
        places = {f"${name}": f"({{{place}}})" for place, name in enumerate(operands)}
        places |= {f"${name}": _literal(value) for name, value in numbers.items()}
        c, cuda = (
            _template(places.get(part, part) for part in text) for text in (self.c, self.cuda)
        )
        name = f"own_{next(_numbers)}"
        row = Scalar(name, len(operands), Result.SAME, _refuse, c, None, cuda)
        scalar.enter(row)
        return name


def _template(parts: Iterable[str]) -> str:
    return f"(({{t}})({''.join(parts)}))"


def _refuse(*operands: Any) -> Any:
    raise InternalError("an expression of C has no function of NumPy: its operator's kernel runs")


def _literal(value: Any) -> str:
    """A number in C; a real one in the dtype of the expression."""
    if not isinstance(value, float):
        return f"({int(value)})"
    if math.isfinite(value):
        return f"({value!r}{{f}})" if "." in repr(value) else f"({value:.17e}{{f}})"
    return "(NAN)" if math.isnan(value) else f"({'-' if value < 0 else ''}INFINITY)"


def expression(schema: Schema, c: str, cuda: str | None) -> Expression:
    """An expression of an operator's arguments.

    Args:
        schema: its arguments are tensors and numbers, and it has one result, a tensor.
        c: such as `x * exp(-y) + 1.5`. Functions of math.h are meant in the dtype of the operands,
            and so are numbers with a point.
        cuda: the same for GPUs; None: the text of `c`.

    Raises:
        ValueError: the schema is another, or the text has a name or a sign that is not known.
        RuntimeError: the compiler refuses it.
    """
    results = [returned.type.text() for returned in schema.returns]
    are_plain = all(_is_plain(argument) for argument in schema.arguments)
    if not are_plain or results != ["Tensor"] or not schema.is_functional:
        raise InvalidValueError(
            f"{schema.name}: an expression needs arguments that are tensors or numbers and one "
            f"result, a tensor.  Declaration: {schema}"
        )
    names = tuple(argument.name for argument in schema.arguments)
    texts = [
        tuple(_parts(schema, text, target))
        for text, target in ((c, "c"), (c if cuda is None else cuda, "cuda"))
    ]
    made = Expression(names, *texts)
    _try_expression(schema, made)
    return made


def _is_plain(argument: Argument) -> bool:
    kind = argument.type
    return not kind.is_list and not kind.optional and kind.base in ("Tensor", *_NUMBERS)


def _parts(schema: Schema, text: str, target: str) -> Iterator[str]:
    """The text in parts, with the functions that the target has."""
    names = {argument.name for argument in schema.arguments}
    position = depth = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        depth += (text[position] == "(") - (text[position] == ")")
        if found is None or depth < 0:
            raise InvalidValueError(
                f"{schema.name}: {text[position]!r} cannot be part of an expression.  Expected one "
                f"expression of C without assignments, got {text!r}."
            )
        position = found.end()
        yield _part(schema, found[0], names, target)


def _part(schema: Schema, token: str, names: set[str], target: str) -> str:
    if token in names:
        return f"${token}"
    if _REAL.fullmatch(token):
        return f"{token}{{f}}"
    if not (token[0].isalpha() or token[0] == "_") or token in _WORDS:
        return token
    row = SCALARS.get(token)
    if row is not None:
        pattern = (row.floating if target == "c" else row.cuda) or ""
        head, _, operands = pattern.partition("(")
        if head and operands == ", ".join(f"{{{i}}}" for i in range(row.arity)) + ")":
            return head
    if f"{token}f" in c_prelude.STANDARD:
        return f"{token}{{f}}"
    raise InvalidValueError(
        f"{schema.name}: {token!r} is no argument and no function of math.h.  Declaration: {schema}"
    )


def _try_expression(schema: Schema, made: Expression) -> None:
    """Let the compiler say what is wrong with an expression, if there is one."""
    if toolchain.find_compiler() is None:
        return
    numbers = {a.name: 1 for a in schema.arguments if a.type.base != "Tensor"}
    operands = [name for name in made.names if name not in numbers]
    row = made.scalar(numbers)
    functions = []
    for dtype in DTYPES:
        names = ", ".join(f"{dtype.c} x{i}" for i in range(len(operands)))
        text = scalar.spell(row, dtype, "c", *(f"x{i}" for i in range(len(operands))))
        functions.append(f"{dtype.c} try_{dtype.name}({names})\n{{\n    return {text};\n}}")
    body = "\n\n".join(functions)
    _built(schema, f"{c_prelude.prelude(body)}\n\n{body}\n")


def _built(schema: Schema, source: str) -> Library:
    """The library that the compiler makes of a source.

    Raises:
        RuntimeError: there is no compiler, or it refuses the source.
    """
    try:
        return toolchain.build(source).library
    except ToolchainError as error:
        reason = str(error).partition("\nThis is an error of dynajit")[0]
        raise OperatorError(f"{schema.name}: its source text: {reason}") from error


# -- functions -----------------------------------------------------------------------------------

_NUMBERS: Final = ("SymInt", "int", "float", "bool", "Scalar")

#: Types of C: that of ctypes, and the dtypes of tensors whose elements they are.
_C_TYPES: Final[Mapping[str, tuple[Any, tuple[DType, ...]]]] = {
    "float": (ctypes.c_float, (dtypes.float32,)),
    "double": (ctypes.c_double, (dtypes.float64,)),
    "bool": (ctypes.c_bool, (dtypes.bool_,)),
    "_Bool": (ctypes.c_bool, (dtypes.bool_,)),
    "uint8_t": (ctypes.c_uint8, (dtypes.uint8, dtypes.bool_)),
    "int8_t": (ctypes.c_int8, (dtypes.int8,)),
    "int16_t": (ctypes.c_int16, (dtypes.int16,)),
    "int32_t": (ctypes.c_int32, (dtypes.int32,)),
    "int": (ctypes.c_int32, (dtypes.int32,)),
    "int64_t": (ctypes.c_int64, (dtypes.int64,)),
}
_UNTYPED: Final = re.compile(r"\b(?:const|restrict|__restrict__|__restrict)\b")
_PARAMETER: Final = re.compile(r"\s*(\w+)\s*(\*?)\s*(?:\w+\s*)?")


@record
class _Parameter:
    """A parameter of a function of C: the name of its type, and whether it is a pointer."""

    type: str
    is_pointer: bool


def c_kernel(overload: Any, source: str, function: str) -> Callable[..., Any]:
    """A kernel that calls a function of C: see `CustomOpDef.register_c_kernel`.

    Raises:
        ValueError: the operator's schema and the function's parameters do not go together.
        RuntimeError: there is no compiler, it refuses the source, or there is no such function.
    """
    schema = overload._schema
    returned = [result.type.text() for result in schema.returns]
    if not all(map(_is_plain, schema.arguments)) or any(text != "Tensor" for text in returned):
        raise InvalidValueError(
            f"{schema.name}: a function of C needs arguments that are tensors or numbers, and "
            f"results that are tensors.  Declaration: {schema}"
        )
    library = _built(schema, source)
    parameters = _parameters(schema, source, function)
    try:
        address = library.address(function)
    except OSError:
        raise OperatorError(
            f"{schema.name}: the source exports no function {function!r}."
        ) from None
    types = (
        ctypes.c_void_p if parameter.is_pointer else _C_TYPES[parameter.type][0]
        for parameter in parameters
    )
    entry: Any = ctypes.CFUNCTYPE(None, *types)(address)
    entry.library = library  # its code stays as long as this

    def kernel(*args: Any, **keywords: Any) -> Any:
        return _call_c(overload, entry, parameters, schema.bind(args, keywords))

    return kernel


def _parameters(schema: Schema, source: str, function: str) -> tuple[_Parameter, ...]:
    """The parameters of the function, which fit the schema.

    Raises:
        ValueError: they do not, or are not found.
        RuntimeError: there is no such function.
    """
    found = re.search(rf"\bvoid\s+{re.escape(function)}\s*\(([^)]*)\)", source)
    if found is None:
        raise OperatorError(f"{schema.name}: the source has no function `void {function}(...)`.")
    parameters = []
    for text in found[1].split(","):
        match = _PARAMETER.fullmatch(_UNTYPED.sub(" ", text))
        if match is None or match[1] not in _C_TYPES:
            raise InvalidValueError(
                f"{schema.name}: the parameter {text.strip()!r} of {function} is neither of a type "
                f"out of {', '.join(_C_TYPES)}, nor a pointer to one."
            )
        parameters.append(_Parameter(match[1], bool(match[2])))
    tensors = [argument.type.base == "Tensor" for argument in schema.arguments]
    wanted = [*tensors, *(True for _ in schema.returns), False]
    is_counted = bool(parameters) and parameters[-1] == _Parameter("int64_t", False)
    if [parameter.is_pointer for parameter in parameters] != wanted or not is_counted:
        raise InvalidValueError(
            f"{schema.name}: the parameters of {function} are not those of the operator.  Expected "
            "pointers for tensors and numbers for numbers, in order, a pointer for each result, an "
            f"int64_t for the number of elements.  Declaration: {schema}"
        )
    return tuple(parameters)


def _call_c(
    overload: Any, entry: Any, parameters: Sequence[_Parameter], values: Sequence[Any]
) -> Any:
    """One call; results are new tensors, or None."""
    made = _empty_results(overload, values)
    arrays: list[np.ndarray] = []  # copies live until the call is over
    given: list[Any] = []
    for argument, value in zip(overload._schema.arguments, values, strict=True):
        if argument.type.base == "Tensor":
            arrays.append(_elements(overload, argument, value))
            given.append(arrays[-1])
        else:
            given.append(value)
    given += made
    for parameter, array in zip(parameters, given, strict=False):
        if (
            parameter.is_pointer
            and dtypes.from_numpy(array.dtype) not in (_C_TYPES[parameter.type][1])
        ):
            raise DTypeError(
                f"{overload}: its function of C has a pointer to {parameter.type} where the tensor "
                f"is {dtypes.from_numpy(array.dtype).name}.  Cast the tensor."
            )
    count = (*made, *arrays)[0].size
    entry(*(x.ctypes.data if isinstance(x, np.ndarray) else x for x in given), count)
    results = tuple(_tensor.wrap(array) for array in made)
    return results if len(results) > 1 else next(iter(results), None)


def _empty_results(overload: Any, values: Sequence[Any]) -> list[np.ndarray]:
    """Arrays for the results, as the fake says."""
    if not overload._schema.returns:
        return []
    if overload.fake is None:
        raise OperatorError(
            f"{overload}: results of a function of C are made as its fake says, and no fake is "
            "registered (register_fake)."
        )
    types = [traced.type_of(tensor) for tensor in tensors_in(values)]
    form = Form(overload, values)
    fakes = traced.results(overload, form.filled, types)
    leaves = autograd.flat(autograd.results_of(fakes))
    found = [traced.type_of(leaf) for leaf in leaves]
    return [np.empty(kind.shape, kind.dtype.numpy) for kind in found]


def _elements(overload: Any, argument: Argument, value: Any) -> np.ndarray:
    """The elements of a tensor, row by row; of one that is written the memory itself."""
    if value is None or not isinstance(value.array, np.ndarray):
        raise OperatorError(f"{overload}: the argument '{argument.name}' has no elements of a CPU.")
    array: np.ndarray = value.array
    if argument.is_written and value._is_mirrored:
        raise OperatorError(
            f"{overload}: the argument '{argument.name}' is written and must not be a conjugate "
            "view."
        )
    if array.flags.c_contiguous:
        return array
    if argument.is_written:
        raise OperatorError(
            f"{overload}: the argument '{argument.name}' is written and must be contiguous."
        )
    return np.ascontiguousarray(array)
