"""Scalar functions: the few names that differ between NumPy, C and CUDA.

A row body is written with Python operators and with these functions on a namespace `m`. Each
function is one frozen `Scalar` row: how many operands it takes, what category its result has, its
NumPy function, and its C and CUDA spelling. It is made with the row of its name (`scalar=` of
`families.pointwise`), where the rules for NaN, inf, -0 and integers stand, which hold for every
spelling.

Spelling: `spell(name, dtype, target, *operands)` fills the template for the operands' dtype. Where
plain C has no exact expression the template is a call of `dj_<name>_<suffix>` with the suffix of
`SUFFIX` (`dj_exp_f32`, `dj_remainder_i64`); code generation defines those functions in its
headers, for C with the polynomials of its vector maths. bool is 0 or 1 in `uint8_t`; 16-bit
floats never reach a scalar function (bodies compute in float32).

`NumpyScalars` is the namespace for arrays; it keeps dtypes (float32 in, float32 out). Its functions
are NumPy's, or ufuncs of NumPy's names with the bits of generated C (`ops.native._vecmath`). Both
hand arrays of CuPy over to CuPy's functions of the same names (NEP 13 and 18):
`np.ndarray` stands for those, too, and for scalars of NumPy, all of which have the same methods.
Python operators on body values mean: `+ - *` and comparisons as in C on the compute dtype (integers
wrap; on bool, `+` is or and `*` is and), `/` on floating values only (IEEE), unary `-`, and
`& | ^ ~` on bool and integers.
"""

import enum
import math
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import BoundsError, InternalError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType

SUFFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "b8", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32",
        "int64": "i64", "float32": "f32", "float64": "f64",
    }
)  # fmt: skip
"""dtype name -> suffix of helper functions in the generated headers."""


class Result(enum.Enum):
    """Category of a scalar function's result."""

    SAME = "same"  # dtype of the operands (of `where`: of the last two)
    BOOL = "bool"
    GIVEN = "given"  # named by an argument (`cast`), or int64 (`index`)


class Effort(enum.Enum):
    """How much work one element is."""

    FEW = "one or two instructions"
    DIVISION = "a division or a root"
    SOME = "more, or not known: a function of the program's own"
    MANY = "a polynomial or a loop: worth storing instead of computing twice"


@record
class InPython:
    """The function of `math` that gives the same numbers.

    Args:
        name: of the function; "": the scalar function's.
        where: comparisons of operand 0 that hold where it does not raise, as (row, number).
        is_finite: it raises where the result would be infinite.
    """

    name: str = ""
    where: tuple[tuple[str, float], ...] = ()
    is_finite: bool = False


FINITE: Final = (("gt", -math.inf), ("lt", math.inf))
"""For `InPython.where`."""


@record
class Scalar:
    """One scalar function.

    Args:
        name: as in `m.<name>`.
        arity: number of value operands.
        result: dtype rule of the result.
        numpy: the function on NumPy arrays and scalars.
        floating, integer: C template for float32/float64 operands and for bool/integers, with
            `{0}`, `{1}`, ... the operands, `{f}` = "f" for float32 and "" for float64, `{s}` =
            the suffix, `{t}` = the C type. None: not defined there.
        cuda: CUDA template for floating operands.
        kernels: names of the dtypes of which generated C has it; None: all. A row of the same name
            is computed by itself, as library calls are, in other dtypes, and on a GPU without a
            template.
        effort: of one element.
        commutes: its two operands may be exchanged, to the last bit.
        far: C template of a condition, for floating operands. Where it does not hold,
            `dj_<name>_near_<s>` of the headers is the same in fewer instructions; `{most}` is the
            largest quotient of which every integer below it is a floating number.
        math: Python's function, if it has one.
    """

    name: str
    arity: int
    result: Result
    numpy: Callable[..., Any]
    floating: str | None
    integer: str | None
    cuda: str | None
    kernels: frozenset[str] | None = None
    effort: Effort = Effort.SOME
    commutes: bool = False
    far: str | None = None
    math: InPython | None = None


_rows: dict[str, Scalar] = {}
SCALARS: Final[Mapping[str, Scalar]] = MappingProxyType(_rows)
"""Every scalar function by name; closed after import, but for `enter`."""

_of_library: set[str] = set()
OF_LIBRARY: Final[Set[str]] = _of_library
"""The names of those that no program has entered."""


def enter(row: Scalar) -> None:
    """Add a function that a program brings as text (`dynajit.library`).

    Args:
        row: its name is not taken. Row bodies call it in generated code only.
    """
    if row.name in _rows:
        raise InternalError(f"two scalar functions are called {row.name!r}")
    _rows[row.name] = row


def define(row: Scalar) -> None:
    """Add a function of the library's own: row bodies call it with arrays, too."""
    enter(row)
    _of_library.add(row.name)
    if not hasattr(NumpyScalars, row.name):
        setattr(NumpyScalars, row.name, staticmethod(row.numpy))


def scalar(
    numpy: Callable[..., Any],
    *,
    result: Result = Result.SAME,
    floating: str | None = "",
    integer: str | None = None,
    cuda: str | None = "",
    kernels: frozenset[str] | None = None,
    effort: Effort = Effort.FEW,
    commutes: bool = False,
    far: str | None = None,
    math: InPython | None = None,
) -> Callable[[str, int], Scalar]:
    """What makes a scalar function of its name and its number of operands.

    An empty template means the helper `dj_<name>_<s>`. An empty `cuda` is the CUDA library function
    of the same name if `floating` is a helper, else `floating` itself; "dj" is the helper.
    """

    def made(name: str, arity: int) -> Scalar:
        operands = ", ".join(f"{{{i}}}" for i in range(arity))
        helper = f"dj_{name}_{{s}}({operands})"
        library = f"{name}{{f}}({operands})"
        c = helper if floating == "" else floating
        gpu = (library if floating == "" else floating) if cuda == "" else cuda
        whole = helper if integer == "" else integer
        gpu = helper if gpu == "dj" else gpu
        return Scalar(
            name, arity, result, numpy, c, whole, gpu, kernels, effort, commutes, far, math
        )

    return made


def spell(name: str, dtype: DType, target: str, *operands: str) -> str:
    """The C or CUDA expression of `m.<name>(*operands)` on operands of `dtype`.

    Args:
        name: a key of `SCALARS`.
        dtype: bool, an integer dtype, float32 or float64.
        target: "c" or "cuda".
        operands: C expressions; they are put in parentheses by the templates where needed.

    Raises:
        InternalError: the function is not defined for the dtype.
    """
    row = SCALARS[name]
    floating = row.cuda if target == "cuda" else row.floating
    template = floating if dtype.is_floating_point else row.integer
    is_missing = target == "c" and row.kernels is not None and dtype.name not in row.kernels
    if template is None or is_missing or dtype.name not in SUFFIX:
        raise InternalError(f"the scalar function {name} is not defined for {dtype.name}")
    narrow = "f" if dtype is dtypes.float32 else ""
    return template.format(*operands, f=narrow, s=SUFFIX[dtype.name], t=dtype.c)


def near_form(name: str, dtype: DType, text: str, *operands: str) -> tuple[str, str] | None:
    """`text`, the C of a function on floating operands, for ordinary ones, and when they are not;
    None for a function without such a form. See `Scalar.far`."""
    row = SCALARS.get(name)
    if row is None or row.far is None:
        return None
    is_single = dtype is dtypes.float32
    narrow, most = ("f", "0x1p24f") if is_single else ("", "0x1p53")
    suffix = SUFFIX[dtype.name]
    near = text.replace(f"_{suffix}(", f"_near_{suffix}(", 1)
    return near, row.far.format(*operands, f=narrow, most=most)


FAR_ANGLE: Final = "(fabs{f}({0}) > DJ_NEAR)"
FAR_QUOTIENT: Final = "!(fabs{f}({0}) < {most} * fabs{f}({1}))"
MOST_WHOLE_POWER: Final = 2.0**16


def is_whole_power(y: float) -> bool:
    """True for exponents that `_vecmath.whole_power` takes (dj_whole_pow_f32 in C)."""
    return y.is_integer() and abs(y) <= MOST_WHOLE_POWER


def is_integer(x: np.ndarray) -> bool:
    """True for arrays and numbers of integers and truth values."""
    return x.dtype.kind in "iub" if hasattr(x, "dtype") else isinstance(x, int)


def is_on_gpu(x: np.ndarray, y: np.ndarray) -> bool:
    """True if one of two operands is an array on a GPU."""
    return gpu.is_gpu_array(x) or gpu.is_gpu_array(y)


class NumpyScalars:
    """The namespace `m` for arrays and NumPy scalars. Immutable.

    Has every function of `SCALARS`, and, in index maps, `less`, `equal` and `as_index`.

    Args:
        shape: shape of the result, which `index` needs (creation ops only).
        xp: the array module of the result (creation ops only).
    """

    def __init__(self, shape: Sequence[int] = (), xp: Any = np) -> None:
        self._shape = shape
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"m.{name} is not a scalar function; see ops/table/scalar.py")

    def index(self, d: int) -> Any:
        """int64 index along dimension d of the result, shaped to broadcast."""
        trailing = len(self._shape) - d - 1
        return self._xp.arange(self._shape[d], dtype=np.int64).reshape((-1,) + (1,) * trailing)

    @staticmethod
    def integer(value: Any) -> Any:
        """A size as an int64 scalar."""
        return np.int64(value)

    @staticmethod
    def less(i: Any, j: Any) -> Any:
        """i < j, of indices."""
        return np.less(i, j)

    @staticmethod
    def equal(i: Any, j: Any) -> Any:
        """i == j, of indices."""
        return np.equal(i, j)

    @staticmethod
    def as_index(value: Any, size: Any, wrap: bool = True) -> Any:
        """Integers as indices into a dimension of `size`; negative ones count from the end.

        Raises:
            BoundsError: a value is out of range.
        """
        whole = value if hasattr(value, "dtype") else np.asarray(value)
        index = whole.astype(np.int64, copy=False)
        lowest = -size if wrap else 0
        if index.size and not _are_within(index, lowest, size):
            wrong = index.reshape(-1)[((index < lowest) | (index >= size)).reshape(-1)][0]
            raise BoundsError(
                f"index {wrong} is out of range for a dimension of size {size}.  Expected a "
                f"value in [{lowest}, {size - 1}]."
            )
        return np.where(index < 0, index + size, index) if wrap else index


def _are_within(index: Any, lowest: Any, size: Any) -> bool:
    """True if some int64 are in [lowest, size)."""
    if type(index) is np.ndarray and lowest == 0:  # negative ones are the largest without a sign
        return bool(np.maximum.reduce(index.view(np.uint64), axis=None) < size)
    return bool(index.min() >= lowest and index.max() < size)


define(Scalar("index", 0, Result.GIVEN, NumpyScalars.index, None, None, None, effort=Effort.FEW))
