"""Methods that eager tensors and graph values share, with PyTorch's names and signatures.

Contract: a method reads only `shape`, `dtype` and `device` of its operands and otherwise calls
rows and library functions, so the same text runs eagerly and while a graph is recorded. Nothing
here writes in place: the eager tensor adds those forms, and whatever needs the contents.

Most methods are library functions whose first parameter is the tensor: those that say so.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from dynajit.core.errors import DTypeError, DTypeTypeError
from dynajit.core.operators import BINARY, SYMBOLS
from dynajit.core.types.value_types import numel
from dynajit.ops.calls import placing
from dynajit.ops.calls.arguments import NUMBERS, dim_of, is_operand, is_tensor, operand
from dynajit.ops.calls.library_calls import adapt_methods
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.functions.creation import creation
from dynajit.ops.functions.elements import elementwise
from dynajit.ops.functions.matrices import matrix
from dynajit.ops.functions.reductions import reduction as reductions
from dynajit.ops.functions.shapes import index as indices
from dynajit.ops.functions.shapes import shape as shapes
from dynajit.ops.methods.analysis_methods import AnalysisMethods
from dynajit.ops.methods.function_methods import FunctionMethods
from dynajit.ops.methods.kind_methods import KindMethods
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.overriding import override_operator

_PLAIN = frozenset(NUMBERS)


def _is_no_number(value: Any) -> bool:
    """True for tensors and raw arrays."""
    return is_tensor(value) or (is_operand(value) and getattr(value, "ndim", 0) > 0)


def _forward(
    name: str, function: Callable[[Any, Any], Any], takes_numbers: bool = True
) -> Callable[[Any, Any], Any]:
    """`x.__name__(y)`."""
    plain, takes = (_PLAIN, is_operand) if takes_numbers else (frozenset(), _is_no_number)

    def method(self: Any, other: Any) -> Any:
        kind = type(other)
        if kind in plain or kind is type(self):  # nearly always: 0.4 of 1.6 us saved
            return function(self, other)
        if takes(other):
            return function(self, operand(other))
        return override_operator(method, self, other)

    method.__name__ = method.__qualname__ = f"__{name}__"
    return method


def _reflected(
    name: str, function: Callable[[Any, Any], Any], takes_numbers: bool = True
) -> Callable[[Any, Any], Any]:
    """`y.__rname__(x)`."""
    plain, takes = (_PLAIN, is_operand) if takes_numbers else (frozenset(), _is_no_number)

    def method(self: Any, other: Any) -> Any:
        if type(other) in plain:
            return function(other, self)
        if takes(other):
            return function(operand(other), self)
        return override_operator(method, self, other)

    method.__name__ = method.__qualname__ = f"__r{name}__"
    return method


def number_divided(number: Any, divisor: Any) -> Any:
    """`number / divisor`: the reciprocal, times the number, as PyTorch rounds it."""
    reciprocal = TABLE.reciprocal(divisor)
    return (
        reciprocal
        if type(number) in (int, float) and number == 1
        else TABLE.mul(reciprocal, number)
    )


class Operators:
    """The operators of Python."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy numbers and arrays leave binary operators to tensors
    __hash__ = object.__hash__  # identity, although == is elementwise

    __add__ = _forward("add", TABLE.add)
    __radd__ = _reflected("add", TABLE.add)
    __sub__ = _forward("sub", TABLE.sub)
    __rsub__ = _reflected("sub", TABLE.sub)
    __mul__ = _forward("mul", TABLE.mul)
    __rmul__ = _reflected("mul", TABLE.mul)
    __truediv__ = _forward("truediv", TABLE.div)
    __rtruediv__ = _reflected("truediv", number_divided)
    __floordiv__ = _forward("floordiv", TABLE.floor_divide)
    __rfloordiv__ = _reflected("floordiv", TABLE.floor_divide)
    __mod__ = _forward("mod", TABLE.remainder)
    __rmod__ = _reflected("mod", TABLE.remainder)
    __pow__ = _forward("pow", elementwise.pow)
    __rpow__ = _reflected("pow", elementwise.pow)
    __matmul__ = _forward("matmul", matrix.matmul, takes_numbers=False)
    __rmatmul__ = _reflected("matmul", matrix.matmul, takes_numbers=False)
    __and__ = _forward("and", TABLE.bitwise_and)
    __rand__ = _reflected("and", TABLE.bitwise_and)
    __or__ = _forward("or", TABLE.bitwise_or)
    __ror__ = _reflected("or", TABLE.bitwise_or)
    __xor__ = _forward("xor", TABLE.bitwise_xor)
    __rxor__ = _reflected("xor", TABLE.bitwise_xor)
    __lshift__ = _forward("lshift", TABLE.left_shift)
    __rlshift__ = _reflected("lshift", TABLE.left_shift)
    __rshift__ = _forward("rshift", TABLE.right_shift)
    __rrshift__ = _reflected("rshift", TABLE.right_shift)
    __eq__ = _forward("eq", TABLE.eq)  # elementwise, not a bool
    __ne__ = _forward("ne", TABLE.ne)
    __lt__ = _forward("lt", TABLE.lt)
    __le__ = _forward("le", TABLE.le)
    __gt__ = _forward("gt", TABLE.gt)
    __ge__ = _forward("ge", TABLE.ge)
    __neg__ = elementwise.neg
    __abs__ = elementwise.abs

    def __invert__(self) -> Any:
        try:
            return elementwise.bitwise_not(self)
        except DTypeError as error:
            words = str(error)
        raise DTypeTypeError(words)

    def __pos__(self) -> Any:
        return self

    def __getitem__(self: Any, key: Any) -> Any:
        return subscript.get_item(self, key)

    def __len__(self: Any) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]  # type: ignore[no-any-return]

    def _note_parts(self: Any, parts: tuple[Any, ...]) -> None:
        """Views that one call gave of this tensor."""

    def __iter__(self: Any) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(indices.unbind(self, 0))


#: Operators that PyTorch names by their own methods, not by the method that does the same.
_OF_ITSELF = frozenset({"floordiv", "pow", "and", "or", "xor", "lshift", "rshift", "eq"})

BINARY_OPERATORS: Final = {
    **{f"__{way}{name}__": f"__{way}{name}__" for name in BINARY for way in ("", "r")},
    "__eq__": "__eq__",
    **{
        f"__{row.operator}__": row.name
        for row in TABLE
        if row.operator in SYMBOLS and row.operator not in _OF_ITSELF
    },
    **{"__radd__": "add", "__rmul__": "mul"},
}
"""Binary operators -> the method that PyTorch names for them."""

OF_OPERATORS: Final = {
    **BINARY_OPERATORS,
    **{"__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_"},
}
"""The same with those that write in place."""


class ShapeMethods(FunctionMethods):
    """Sizes, views, joins, gathers and scatters."""

    __slots__ = ()

    @property
    def ndim(self: Any) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def T(self: Any) -> Any:
        """Dims in reverse order."""
        return TABLE.permute(self, dims=tuple(reversed(range(len(self.shape)))))

    @property
    def mT(self) -> Any:
        """The last two dims swapped."""
        return matrix.matrix_transpose(self)

    @property
    def is_cuda(self: Any) -> bool:
        """Whether the tensor lives on a GPU."""
        return self.device.type == "cuda"  # type: ignore[no-any-return]

    @property
    def is_cpu(self: Any) -> bool:
        """Whether the tensor lives in the CPU's memory."""
        return self.device.type == "cpu"  # type: ignore[no-any-return]

    def get_device(self: Any) -> int:
        """The number of the tensor's GPU; -1: it lives in the CPU's memory."""
        return self.device.index if self.is_cuda else -1

    @property
    def itemsize(self: Any) -> int:
        """Bytes per element."""
        return self.dtype.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self: Any) -> Any:
        """Bytes of all elements."""
        return numel(tuple(self.shape)) * self.dtype.itemsize

    def size(self: Any, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        if not self.shape:
            raise IndexError("dimension specified as 0 but tensor has no dimensions")
        return self.shape[dim_of(self, dim, "size")]

    def dim(self: Any) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def element_size(self: Any) -> int:
        """Bytes per element."""
        return self.dtype.itemsize  # type: ignore[no-any-return]

    def reshape_as(self, other: Any) -> Any:
        """The elements under the shape of `other`."""
        return shapes.view_as(self, other)

    ndimension = dim
    view = shapes.view
    view_as = shapes.view_as
    expand = shapes.expand
    expand_as = shapes.expand_as
    repeat = shapes.repeat

    def split(self: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
        """Views of at most `split_size` along `dim`, or of the sizes in a list."""
        return indices.split(self, split_size, dim)

    unsafe_chunk = indices.unsafe_chunk
    unsafe_split = indices.unsafe_split
    sum_to_size = reductions.sum_to_size
    unfold = shapes.unfold
    contiguous = placing.contiguous


class ElementwiseMethods(FunctionMethods):
    """Choice, and conversion of elements."""

    __slots__ = ()

    def where(self, condition: Any, other: Any) -> Any:
        """self where the condition holds, else other."""
        return elementwise.where(condition, self, other)

    to = elementwise.to
    type_as = elementwise.type_as
    float = elementwise.to_float
    double = elementwise.to_double
    cfloat = elementwise.to_cfloat
    cdouble = elementwise.to_cdouble
    half = elementwise.to_half
    bfloat16 = elementwise.to_bfloat16
    int = elementwise.to_int
    long = elementwise.to_long
    short = elementwise.to_short
    char = elementwise.to_char
    byte = elementwise.to_byte
    bool = elementwise.to_bool


class CreationMethods:
    """New tensors with the dtype and device of this one."""

    __slots__ = ()

    new_full = creation.new_full
    new_zeros = creation.new_zeros
    new_ones = creation.new_ones
    new_empty = creation.new_empty
    new_empty_strided = creation.new_empty_strided


class TensorMethods(
    Operators,
    ShapeMethods,
    ElementwiseMethods,
    CreationMethods,
    AnalysisMethods,
    KindMethods,
):
    """Mixin of `eager.Tensor` and `ir.graph.Value`."""

    __slots__ = ()


ReductionMethods = MatrixMethods = FunctionMethods  # pickles may have these names

adapt_methods(*TensorMethods.__mro__[:-1])
