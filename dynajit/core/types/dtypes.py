"""Element types, and how they promote.

Contract: a `DType` is a singleton per name; `result_type` follows PyTorch 2.x: dimensioned tensors
beat zero-dim tensors, which beat Python numbers, as long as the category (bool, integer, floating,
complex) does not rise; within a category the numeric lattice decides. Some dtypes are for storage
only (`STORED`): their elements are kept, moved and cast, and no row computes with them
(`ops.table.stored`). One setting, of the process: the floating dtype by default, float32 at first
(`set_default_floating`).
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from dynajit.core.errors import ArgumentError, DTypeError, DTypeTypeError
from dynajit.core.records import record
from dynajit.core.types.symint import SymInt


class Category(enum.IntEnum):
    """Promotion category: a higher one wins over a lower one."""

    BOOL = 0
    INTEGER = 1
    FLOATING = 2
    COMPLEX = 3


@record(eq=False, is_shown=False)
class DType:
    """One element type; compared by identity.

    Args:
        name: PyTorch's name, such as `float32`.
        numpy: the NumPy dtype of arrays that hold it.
        category: promotion category.
        c: the C type in generated kernels.
        itemsize: bytes per element.
    """

    name: str
    numpy: np.dtype
    category: Category
    c: str

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.numpy.itemsize)

    @property
    def is_floating_point(self) -> bool:
        """True for the floats of 8, 16, 32 and 64 bits."""
        return self.category is Category.FLOATING

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.category is Category.COMPLEX

    @property
    def is_signed(self) -> bool:
        """True for every dtype but bool, unsigned integers, and powers of two (float8_e8m0fnu)."""
        return self.numpy.kind not in "bu" and self.name != "float8_e8m0fnu"

    def __repr__(self) -> str:
        return f"dynajit.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], "DType"], tuple[str]]:
        return (by_name, (self.name,))


bool_ = DType("bool", np.dtype(np.bool_), Category.BOOL, "uint8_t")
uint8 = DType("uint8", np.dtype(np.uint8), Category.INTEGER, "uint8_t")
int8 = DType("int8", np.dtype(np.int8), Category.INTEGER, "int8_t")
int16 = DType("int16", np.dtype(np.int16), Category.INTEGER, "int16_t")
int32 = DType("int32", np.dtype(np.int32), Category.INTEGER, "int32_t")
int64 = DType("int64", np.dtype(np.int64), Category.INTEGER, "int64_t")
float16 = DType("float16", np.dtype(np.float16), Category.FLOATING, "dj_half")
bfloat16 = DType("bfloat16", np.dtype(ml_dtypes.bfloat16), Category.FLOATING, "dj_bfloat")
float32 = DType("float32", np.dtype(np.float32), Category.FLOATING, "float")
float64 = DType("float64", np.dtype(np.float64), Category.FLOATING, "double")
complex64 = DType("complex64", np.dtype(np.complex64), Category.COMPLEX, "float _Complex")
complex128 = DType("complex128", np.dtype(np.complex128), Category.COMPLEX, "double _Complex")

uint16 = DType("uint16", np.dtype(np.uint16), Category.INTEGER, "uint16_t")
uint32 = DType("uint32", np.dtype(np.uint32), Category.INTEGER, "uint32_t")
uint64 = DType("uint64", np.dtype(np.uint64), Category.INTEGER, "uint64_t")


def _short(name: str) -> DType:
    return DType(name, np.dtype(getattr(ml_dtypes, name)), Category.FLOATING, "uint8_t")


float8_e4m3fn = _short("float8_e4m3fn")
float8_e4m3fnuz = _short("float8_e4m3fnuz")
float8_e5m2 = _short("float8_e5m2")
float8_e5m2fnuz = _short("float8_e5m2fnuz")
float8_e8m0fnu = _short("float8_e8m0fnu")

ALL: tuple[DType, ...] = (
    bool_, uint8, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
"""The dtypes that rows compute with."""

UNSIGNED: Final = (uint16, uint32, uint64)
SHORT: Final = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
STORED: Final = UNSIGNED + SHORT
"""The dtypes that elements are only kept in."""

KNOWN: Final = ALL + STORED
FLOATING = tuple(d for d in ALL if d.category is Category.FLOATING)
INTEGER = tuple(d for d in ALL if d.category is Category.INTEGER)

_BY_NUMPY: dict[np.dtype, DType] = {d.numpy: d for d in KNOWN}
_BY_NAME: dict[str, DType] = {d.name: d for d in KNOWN}
_SIGNED_ORDER = (int8, int16, int32, int64)
_FLOAT_ORDER = (float32, float64)
_COMPLEX_OF = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}


def from_numpy(dtype: np.dtype | type) -> DType:
    """The DType of a NumPy dtype.

    Raises:
        DTypeError: NumPy knows more dtypes than tensors do (datetime64, object, ...).
    """
    found = _BY_NUMPY.get(np.dtype(dtype))
    if found is None:
        accepted = ", ".join(d.name for d in KNOWN)
        raise DTypeTypeError(
            f"NumPy dtype {np.dtype(dtype)} has no tensor dtype.  Expected one of {accepted}; "
            "convert the array with astype first."
        )
    return found


def by_name(name: str) -> DType:
    """The DType called `name`, such as "float32".

    Raises:
        DTypeError: no dtype has that name.
    """
    if name not in _BY_NAME:
        raise DTypeError(f"dtype {name!r} is not known.  Expected one of {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]


def promote(a: DType, b: DType) -> DType:
    """The dtype that holds both (PyTorch's `promote_types`).

    Source: PyTorch 2.x documentation, "Tensor Attributes", promotion table.
    """
    if a is b:
        return a
    if not (isinstance(a, DType) and isinstance(b, DType)):
        raise ArgumentError(f"promote_types({a!r}, {b!r}): expected two dtypes.")
    if a in STORED or b in STORED:
        return _promote_stored(a, b)
    if a.category < b.category:
        a, b = b, a
    if a.category is Category.COMPLEX:
        return _promote_complex(a, b)
    if a.category is Category.FLOATING:
        return _promote_floating(a, b)
    return _promote_integer(a, b)


def _promote_stored(a: DType, b: DType) -> DType:
    """An unsigned integer gives way to a float; nothing else holds both."""
    for one, other in ((a, b), (b, a)):
        if one in UNSIGNED and other in FLOATING:
            return other
    raise DTypeError(
        f"{a.name} and {b.name} have no common dtype: elements of {', '.join(map(_name, STORED))} "
        "are kept, moved and cast, but not computed with.  Convert with to(...) first."
    )


def _name(dtype: DType) -> str:
    return dtype.name


def _promote_complex(a: DType, b: DType) -> DType:
    if b is float64 or complex128 in (a, b):
        return complex128
    return a


def _promote_floating(a: DType, b: DType) -> DType:
    if b.category is not Category.FLOATING:
        return a
    if {a, b} == {float16, bfloat16}:
        return float32
    return max((d for d in (a, b) if d in _FLOAT_ORDER), key=_FLOAT_ORDER.index)


def _promote_integer(a: DType, b: DType) -> DType:
    if b is bool_:
        return a
    if uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return max((a, b), key=_SIGNED_ORDER.index)


@dataclass
class _Default:
    """What floats get that nothing else decides. Mutable, one per process."""

    floating: DType


_default: Final = _Default(float32)
_watchers: Final[list[Callable[[], None]]] = []


def default_floating() -> DType:
    """The dtype of new floating tensors, and of what integers become where floats are needed."""
    return _default.floating


def default_complex() -> DType:
    """The complex dtype whose parts hold the default floating dtype."""
    return _COMPLEX_OF[_default.floating]


def set_default_floating(dtype: DType) -> None:
    """Make `dtype` the default; whoever watches is told if it was another one."""
    if dtype is _default.floating:
        return
    _default.floating = dtype
    for forget in _watchers:
        forget()


def watch_default(forget: Callable[[], None]) -> None:
    """Call `forget` when the default changes: what was derived under another one is void."""
    _watchers.append(forget)


def default_of(category: Category) -> DType:
    """The dtype that a Python number of this category gets when it stands alone."""
    if category >= Category.FLOATING:
        return _default.floating if category is Category.FLOATING else default_complex()
    return int64 if category is Category.INTEGER else bool_


def category_of(value: object) -> Category:
    """The category of a Python (or NumPy) number.

    Raises:
        ArgumentError: it is none: a text, a sequence, None.
    """
    if isinstance(value, (bool, np.bool_)):
        return Category.BOOL
    if isinstance(value, (int, np.integer, SymInt)):
        return Category.INTEGER
    if isinstance(value, (float, np.floating)):
        return Category.FLOATING
    if value is None or isinstance(value, (str, bytes, list, tuple, dict, set)):
        raise ArgumentError(f"expected a tensor or a number, got {type(value).__name__} {value!r}.")
    return Category.COMPLEX


def of_number(value: object) -> DType:
    """The dtype of a Python (or NumPy) number standing alone: bool, int64, and the default ones."""
    return default_of(category_of(value))


_OF_PYTHON: Final = {bool: bool_, int: int64, float: float64, complex: complex128}


def parse(value: Any) -> DType | None:
    """The dtype that `value` means: a DType, or Python's bool, int, float or complex; float and
    complex are those of Python, 64 bits wide each part. None: it means none."""
    if isinstance(value, DType):
        return value
    return _OF_PYTHON.get(value) if isinstance(value, type) else None


def result_type(tensors: Iterable[tuple[DType, int]], numbers: Iterable[Category] = ()) -> DType:
    """The dtype in which a pointwise operation computes.

    Args:
        tensors: (dtype, rank) of each tensor operand.
        numbers: category of each Python number operand.

    Source: the three-level rule of PyTorch's `torch.result_type`.
    """
    dimensioned: DType | None = None
    zero_dim: DType | None = None
    for dtype, rank in tensors:
        if rank:
            dimensioned = dtype if dimensioned is None else promote(dimensioned, dtype)
        else:
            zero_dim = dtype if zero_dim is None else promote(zero_dim, dtype)
    number: DType | None = None
    for category in numbers:
        dtype = default_of(category)
        number = dtype if number is None else promote(number, dtype)
    result: DType | None = dimensioned
    for weaker in (zero_dim, number):
        if weaker is None:
            continue
        if result is None:
            result = weaker
        elif weaker.category > result.category:
            result = _raise_category(result, weaker)
    if result is None:
        raise DTypeError("result_type: no operand was given.  Expected a tensor or a number.")
    return result


def _raise_category(strong: DType, weak: DType) -> DType:
    """`weak` has the higher category: it decides, but a floating `strong` keeps its width."""
    if weak.category is Category.COMPLEX and strong in _COMPLEX_OF:
        return _COMPLEX_OF[strong]
    return weak


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts hold `dtype`; complex64 for bool and integers."""
    return dtype if dtype.is_complex else _COMPLEX_OF.get(dtype, complex64)


def real_of(dtype: DType) -> DType:
    """The dtype of the parts of a complex dtype; another dtype itself."""
    if not dtype.is_complex:
        return dtype
    return float32 if dtype is complex64 else float64


_WIDENED: Final = frozenset((float16, bfloat16, *SHORT))


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which scalar code computes: float32 for shorter floats, else itself."""
    return float32 if dtype in _WIDENED else dtype
