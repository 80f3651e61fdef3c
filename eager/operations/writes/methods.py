"""`InPlaceMethods`: the methods of `Tensor` whose names end in an underscore.

Contract: those of `NAMES` follow the function of that name; fills and copies stand here.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import ArgumentError, AutogradError, ShapeError
from dynajit.core.types.device import CPU
from dynajit.eager._tensor import TensorBase
from dynajit.eager.operations.writes.assignment import set_item
from dynajit.eager.operations.writes.commit import copy_into
from dynajit.eager.operations.writes.refusals import require_own_dtype
from dynajit.eager.operations.writes.update import update
from dynajit.ops.calls.arguments import NUMBERS, constant, is_tensor
from dynajit.ops.calls.autocast import disabled
from dynajit.ops.calls.public import InPlace
from dynajit.ops.calls.signatures import describe_in_place
from dynajit.ops.functions import published
from dynajit.ops.functions.creation.creation import reserve
from dynajit.ops.functions.creation.random_fills import FILLS
from dynajit.ops.functions.elements import complex as complex_functions
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.rows.random import blocks_of
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.eager._tensor import Fields
else:
    Fields = object

NAMES: Final = frozenset(
    name for name, facts in published().items() if facts.in_place is not InPlace.ABSENT
)
"""Out-of-place methods with an in-place form of the same arguments."""


# Autocast casts operands of the out-of-place form only, as in PyTorch.
UNCAST: Final = frozenset(("addmm", "baddbmm", "addbmm", "index_copy"))


def _fill_parts(tensor: Any, fill: Callable[[Any], Any]) -> Any:
    """The complex tensor, after `fill` wrote its real and imaginary parts."""
    if not tensor._is_mirrored:
        fill(TABLE.view_as_real(tensor))
        return tensor
    drawn = TABLE.clone(tensor.detach())
    fill(TABLE.view_as_real(drawn))
    return tensor.copy_(drawn)


def _main_diagonal(tensor: Any) -> Any:
    """The elements with equal indices, as a view in one dim."""
    while tensor.ndim > 1:
        tensor = TABLE.diagonal(tensor, offset=0, dim1=0, dim2=1)
    return tensor


_OF_OWN_DTYPE: Final = frozenset({"abs", "absolute", "float_power"})


def _in_place(name: str) -> Callable[..., Any]:
    written = f"{name}_"

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        require_own_dtype(name, self.dtype)
        return update(self, name, args, kwargs, written)

    def plain(self: Any, *args: Any, **kwargs: Any) -> Any:
        return update(self, name, args, kwargs, written)

    def uncast(self: Any, *args: Any, **kwargs: Any) -> Any:
        with disabled():
            return update(self, name, args, kwargs, written)

    method = checked if name in _OF_OWN_DTYPE else uncast if name in UNCAST else plain
    method.__name__ = method.__qualname__ = f"{name}_"
    describe_in_place(method, getattr(TensorMethods, name), "self")
    return method


def _operator(name: str, written: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return update(self, name, (other,), {}, written)

    method.__name__ = method.__qualname__ = f"__i{name.strip('_')}__"
    method.__doc__ = f"In place: `{name}`."
    return method


def _write_part(part: Any, value: Any) -> None:
    """Write a tensor or a number into a view."""
    if is_tensor(value):
        part.copy_(value)
    else:
        part.fill_(value)


def _write_mapped(name: str, tensor: Any, others: tuple[Any, ...], function: Any) -> Any:
    """See `apply_`."""
    for operand in (tensor, *others):
        if operand.requires_grad:
            raise AutogradError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
                "instead."
            )
        if operand.device is not CPU or operand.dtype is not tensor.dtype:
            raise ArgumentError(
                f"{name}: expected tensors on the CPU with dtype {tensor.dtype.name}, but got one "
                f"of {operand.dtype.name} on {operand.device}."
            )
    if not callable(function):
        raise ArgumentError(f"{name}: {type(function).__name__!r} object is not callable.")
    rows = [operand.expand(tensor.shape).reshape(-1).tolist() for operand in (tensor, *others)]
    values = [_as_element(name, tensor, function(*row)) for row in zip(*rows, strict=True)]
    found = np.array(values, dtype=tensor.dtype.numpy).reshape(tuple(tensor.shape))
    return tensor.copy_(constant(found, CPU))


def _as_element(name: str, tensor: Any, value: Any) -> Any:
    """What a callable gave as a number of the tensor's kind; fractions are cut off."""
    if not isinstance(value, NUMBERS) and not is_tensor(value) and not hasattr(value, "dtype"):
        raise ArgumentError(f"{name}: must be real number, not {type(value).__name__}")
    if tensor.dtype.is_complex:
        return complex(value)
    return float(value) if tensor.dtype.is_floating_point else int(value)


def _without_repetition(tensor: Any) -> Any:
    """The part of an expanded tensor that has each element once: the same number in all needs no
    other; the tensor itself where gradients would have to follow, or nothing is repeated."""
    memory = tensor._memory
    if memory.flags.c_contiguous or tensor.requires_grad:
        return tensor
    steps = any_arrays.strides_of(memory)
    key = tuple(
        0 if step == 0 and n > 1 else slice(None)
        for step, n in zip(steps, tensor.shape, strict=True)
    )
    return tensor[key] if 0 in key else tensor


class InPlaceMethods(Fields):
    """Mixin of `Tensor`: every method whose name ends in an underscore, and item assignment."""

    __slots__: tuple[()] = ()

    if TYPE_CHECKING:  # those of `NAMES`, as far as modules above call them
        add_: Callable[..., Any]
        clamp_: Callable[..., Any]
        erfinv_: Callable[..., Any]
        lerp_: Callable[..., Any]
        mul_: Callable[..., Any]
        sub_: Callable[..., Any]

    __iadd__ = _operator("__add__", "+=")
    __isub__ = _operator("__sub__", "-=")
    __imul__ = _operator("__mul__", "*=")
    __itruediv__ = _operator("__truediv__", "/=")
    __ifloordiv__ = _operator("__floordiv__", "//=")
    __imod__ = _operator("__mod__", "%=")
    __ipow__ = _operator("__pow__", "**=")
    __iand__ = _operator("__and__", "&=")
    __ior__ = _operator("__or__", "|=")
    __ixor__ = _operator("__xor__", "^=")

    def __setitem__(self, index: Any, value: Any) -> None:
        set_item(self, index, value)

    @property
    def real(self) -> Any:
        """The real parts, as a view; assigning writes into them."""
        return complex_functions.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        _write_part(complex_functions.real(self), value)

    @property
    def imag(self) -> Any:
        """The imaginary parts, as a view; assigning writes into them."""
        return complex_functions.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        _write_part(complex_functions.imag(self), value)

    def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
        """Write `callable(element)` in the place of each element, row by row.

        Raises:
            AutogradError: the tensor requires a gradient.
            ArgumentError: it is not on the CPU, or `callable` is none or gives no number.
        """
        return _write_mapped("apply_", self, (), callable)

    def map_(self: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
        """Write `callable(element, other)` in the place of each element, with the elements of a
        tensor of the same dtype, broadcast; raises as `apply_`."""
        return _write_mapped("map_", self, (tensor,), callable)

    def map2_(self: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
        """`map_` with two tensors."""
        return _write_mapped("map2_", self, (x, y), callable)

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """Copy the elements of `src`, broadcast and cast."""
        return copy_into(self, src, "copy_")

    def fill_(self, value: Any) -> Any:
        """Set every element to a number or zero-dim tensor."""
        if isinstance(value, TensorBase) and value.ndim:
            raise ShapeError(
                "fill_: expected a number or a tensor with 0 dimensions, got one with "
                f"{value.ndim}."
            )
        if isinstance(value, TensorBase):
            return copy_into(self, value, "fill_")
        copy_into(_without_repetition(self), value, "fill_")
        return self

    def zero_(self) -> Any:
        """Set every element to 0."""
        copy_into(_without_repetition(self), 0, "zero_")
        return self

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Any:
        """Set the elements with equal indices to a number; `wrap`: below a square of a tall matrix
        an empty row follows, then the next diagonal.

        Raises:
            ShapeError: there is one dim, or there are more than two of different sizes.
        """
        shape = tuple(self.shape)
        if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
            raise ShapeError(
                f"fill_diagonal_: got shape {list(shape)}.  Expected a matrix, or more dims of one "
                "size: all dimensions must be of equal length."
            )
        part: Any = self
        copy_into(_main_diagonal(part), fill_value, "fill_diagonal_")
        while wrap and len(shape) == 2 and part.shape[0] > shape[1] + 1:
            part = part[shape[1] + 1 :]
            copy_into(_main_diagonal(part), fill_value, "fill_diagonal_")
        return self

    def uniform_(self, from_: float = 0.0, to: float = 1.0, generator: Any = None) -> Any:
        """Fill with uniform values in [from_, to)."""
        if self.dtype.is_complex:
            return _fill_parts(self, lambda parts: parts.uniform_(from_, to, generator))
        return self._filled("uniform", generator, from_, to)

    def normal_(self, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
        """Fill with normal values; both parts of complex ones share the variance."""
        if self.dtype.is_complex:
            scale = std / math.sqrt(2)
            _fill_parts(self, lambda parts: parts.normal_(0.0, scale, generator))
            return self.add_(mean) if mean else self
        return self._filled("normal", generator, mean, std)

    def bernoulli_(self, p: Any = 0.5, generator: Any = None) -> Any:
        """Fill with 1 with probability `p` (a number or tensor), else 0."""
        return self._filled("bernoulli", generator, p)

    def random_(self, from_: int | None = None, to: Any = ..., generator: Any = None) -> Any:
        """Fill with integers in [from_, to), or in [0, from_) if only one is given; `to=None` is
        one more than the largest that the dtype holds."""
        return self._filled("random", generator, from_, *(() if to is ... else (to,)))

    def exponential_(self, lambd: float = 1.0, generator: Any = None) -> Any:
        """Fill with exponential values of mean 1 / lambd, which are not 0."""
        return self._filled("exponential", generator, lambd)

    def geometric_(self, p: float, generator: Any = None) -> Any:
        """Fill with numbers of trials until the first success, which has probability `p`."""
        return self._filled("geometric", generator, p)

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, generator: Any = None) -> Any:
        """Fill with Cauchy values."""
        return self._filled("cauchy", generator, median, sigma)

    def log_normal_(self, mean: float = 1.0, std: float = 2.0, generator: Any = None) -> Any:
        """Fill with values whose logarithms are normal with this mean and deviation."""
        return self._filled("log_normal", generator, mean, std)

    def _filled(self, name: str, generator: Any, *numbers: Any) -> Any:
        def draw(row_name: str, dtype: Any) -> Any:
            row, shape = TABLE[row_name], tuple(self.shape)
            blocks = int(blocks_of(row, shape, dtype))
            seed, offset, _ = reserve(blocks, generator, self.device)
            return row(seed, offset, shape=shape, dtype=dtype, device=self.device, shift=0)

        return self._take(FILLS[name](draw, self.dtype, *numbers), f"{name}_")

    def _take(self, value: Any, name: str) -> Any:
        """Hold a value, which `name` wrote."""
        return copy_into(self, value, name)


for _name in sorted(NAMES):
    if hasattr(TensorMethods, _name):
        setattr(InPlaceMethods, f"{_name}_", _in_place(_name))
