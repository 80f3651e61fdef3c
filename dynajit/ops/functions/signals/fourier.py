"""Fourier transforms with PyTorch's signatures: what `dynajit.fft` publishes.

Contract: as `ops.functions`. Operands are cut or padded with zeros to the sizes asked for; bool and
integers count as float32. A division by the number of elements belongs to the inverse transform
("backward", the default), to the forward one ("forward"), or its root to both ("ortho").
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dynajit.core.errors import BoundsError, DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Size
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import cast, device_of, require_tensor
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.creation.creation import arange
from dynajit.ops.functions.elements.complex import conj
from dynajit.ops.functions.shapes.shape import roll
from dynajit.ops.table.families import floating_of, normalize_dim
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

#: norm -> what a forward and what an inverse transform divides by (`ops.rows.fourier`).
_DIVISIONS: Final = {
    None: ("none", "full"),
    "backward": ("none", "full"),
    "ortho": ("ortho", "ortho"),
    "forward": ("full", "none"),
}
#: norm -> the one that swaps the two.
_SWAPPED: Final = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _division(norm: str | None, inverse: bool) -> str:
    if norm not in _DIVISIONS:
        raise ShapeError(f'Invalid normalization mode: "{norm}"')
    return _DIVISIONS[norm][inverse]


def _swapped(norm: str | None) -> str:
    _division(norm, False)
    return _SWAPPED[norm]


def _numbers(input: Any, name: str) -> Any:
    """input with at least 32 bits per part.

    Raises:
        DTypeError: 16-bit floats.
    """
    require_tensor(input, name)
    dtype = floating_of(input.dtype)
    if dtype in (dtypes.float16, dtypes.bfloat16):
        raise DTypeError(f"fft.{name}: Unsupported dtype {dtype.name}.  Cast it with .float().")
    return cast(input, dtype)


def _complex_numbers(input: Any, name: str) -> Any:
    x = _numbers(input, name)
    return cast(x, dtypes.complex_of(x.dtype))


def _real_numbers(input: Any, name: str) -> Any:
    if require_tensor(input, name).dtype.is_complex:
        raise DTypeError(f"{name} expects a real input tensor, but got {input.dtype.name}")
    return _numbers(input, name)


def _dim(input: Any, dim: int, name: str) -> int:
    if not input.shape:
        raise BoundsError(f"fft.{name}: Dimension specified as {dim} but tensor has no dimensions")
    return normalize_dim(dim, len(input.shape), f"fft.{name}")


def _resized(x: "TensorMethods", dim: int, size: Size) -> Any:
    """x cut or padded with zeros to `size` elements along `dim`."""
    known, size = x.shape[dim], arguments.size(size, "fft")
    if isinstance(size, int) and size < 1:
        raise ShapeError(f"Invalid number of data points ({size}) specified")
    if known == size:
        return x
    rank = len(x.shape)
    if size > known:
        after = tuple(size - known if d == dim else 0 for d in range(rank))
        return TABLE.pad(x, before=(0,) * rank, after=after, value=0)
    stop = tuple(size if d == dim else n for d, n in enumerate(x.shape))
    return TABLE.slice(x, start=(0,) * rank, stop=stop, step=(1,) * rank)


def _sized(
    x: "TensorMethods", s: Sequence[int] | None, dim: Any, name: str
) -> tuple[list[int], list[Any]]:
    """The dims of a transform over several, and the sizes there (-1 and None: as they are)."""
    rank = len(x.shape)
    if dim is not None:
        given = [dim] if arguments.is_integer(dim) else list(dim)
        dims = [_dim(x, d, name) for d in given]
        if len(set(dims)) != len(dims):
            raise ShapeError("FFT dims must be unique")
    elif s is not None:
        dims = list(range(rank - len(_listed(s)), rank))
    else:
        dims = list(range(rank))
    sizes = [-1] * len(dims) if s is None else _listed(s)
    if dim is not None and len(sizes) != len(dims):
        raise ShapeError("When given, dim and shape arguments must have the same length")
    if len(dims) > rank or any(d < 0 for d in dims):
        raise ShapeError(
            f"Got shape with {len(sizes)} values but input tensor only has {rank} dimensions."
        )
    return dims, sizes


def _listed(s: Any) -> list[Any]:
    return list(arguments.integers(s, "fft"))


def _resized_all(x: "TensorMethods", dims: Sequence[int], sizes: Sequence[Any]) -> Any:
    for d, size in zip(dims, sizes, strict=True):
        x = _resized(x, d, x.shape[d] if isinstance(size, int) and size == -1 else size)
    return x


# ---------------------------------------------------------------------------------------------
# one dim


def _one(name: str, inverse: bool) -> Callable[..., Any]:
    @autocast(cpu=Autocast.FULL)
    def function(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        x = _complex_numbers(input, name)
        d = _dim(x, dim, name)
        x = _resized(x, d, x.shape[d] if n is None else n)
        return TABLE.fourier(x, dims=(d,), inverse=inverse, norm=_division(norm, inverse))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{'Inverse' if inverse else 'Discrete'} Fourier transform along `dim`, of the first n "
        "elements (padded with zeros). Complex."
    )
    return function


fft = public("fft")(_one("fft", False))
ifft = public("fft")(_one("ifft", True))


@public("fft")
@autocast(cpu=Autocast.FULL)
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The frequencies 0 to n // 2 of real numbers along `dim`.

    Raises:
        DTypeError: the input is complex.
    """
    x = _real_numbers(input, "rfft")
    d = _dim(x, dim, "rfft")
    x = _resized(x, d, x.shape[d] if n is None else n)
    return TABLE.half_fourier(x, dim=d, norm=_division(norm, False))


@public("fft")
@autocast(cpu=Autocast.FULL)
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Real numbers, n of them along `dim` (2 (m - 1) by default), from m frequencies."""
    x = _complex_numbers(input, "irfft")
    d = _dim(x, dim, "irfft")
    return _to_real(x, d, n, _division(norm, True))


def _to_real(x: "TensorMethods", dim: int, size: Any, division: str) -> Any:
    size = 2 * (x.shape[dim] - 1) if size is None else arguments.size(size, "fft")
    if isinstance(size, int) and size < 1:
        raise ShapeError(f"Invalid number of data points ({size}) specified")
    half = _resized(x, dim, size // 2 + 1)
    return TABLE.real_fourier(half, dim=dim, size=size, norm=division)


@public("fft")
@autocast(cpu=Autocast.FULL)
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Real frequencies, n of them along `dim` (2 (m - 1) by default), of numbers of which the m
    given are the first half: the others are their conjugates."""
    return irfft(conj(require_tensor(input, "hfft")), n, dim, _swapped(norm))


@public("fft")
@autocast(cpu=Autocast.FULL)
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`: n // 2 + 1 complex numbers from n real frequencies.

    Raises:
        DTypeError: the input is complex.
    """
    x = _real_numbers(input, "ihfft")
    return conj(rfft(x, n, dim, _swapped(norm)))


# ---------------------------------------------------------------------------------------------
# several dims


def _several(name: str, inverse: bool) -> Callable[..., Any]:
    @autocast(cpu=Autocast.FULL)
    def function(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
        x = _complex_numbers(input, name)
        dims, sizes = _sized(x, s, dim, name)
        x = _resized_all(x, dims, sizes)
        return TABLE.fourier(x, dims=tuple(dims), inverse=inverse, norm=_division(norm, inverse))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{'Inverse' if inverse else 'Discrete'} Fourier transform over `dim` (all dims, or the "
        "last ones that `s` gives sizes for). Complex."
    )
    return function


fftn = public("fft")(_several("fftn", False))
ifftn = public("fft")(_several("ifftn", True))


@public("fft")
@autocast(cpu=Autocast.FULL)
def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Transform of real numbers over `dim`; of the last one only the frequencies 0 to n // 2.

    Raises:
        DTypeError: the input is complex.
        ShapeError: there is no dim.
    """
    x = _real_numbers(input, "rfftn")
    dims, sizes = _sized(x, s, dim, "rfftn")
    if not dims:
        raise ShapeError("rfftn must transform at least one axis")
    x = _resized_all(x, dims, sizes)
    division = _division(norm, False)
    half = TABLE.half_fourier(x, dim=dims[-1], norm=division)
    if len(dims) == 1:
        return half
    return TABLE.fourier(half, dims=tuple(dims[:-1]), inverse=False, norm=division)


@public("fft")
@autocast(cpu=Autocast.FULL)
def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `rfftn`; the last size is 2 (m - 1) by default.

    Raises:
        ShapeError: there is no dim.
    """
    x = _complex_numbers(input, "irfftn")
    dims, sizes = _sized(x, s, dim, "irfftn")
    if not dims:
        raise ShapeError("irfftn must transform at least one axis")
    division = _division(norm, True)
    x = _resized_all(x, dims[:-1], sizes[:-1])
    if len(dims) > 1:
        x = TABLE.fourier(x, dims=tuple(dims[:-1]), inverse=True, norm=division)
    last = sizes[-1]
    return _to_real(x, dims[-1], None if isinstance(last, int) and last == -1 else last, division)


@public("fft")
def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """`hfft` over the last of `dim`, and `fft` over the others."""
    return irfftn(conj(require_tensor(input, "hfftn")), s, dim, _swapped(norm))


@public("fft")
def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """`ihfft` over the last of `dim`, and `ifft` over the others.

    Raises:
        DTypeError: the input is complex.
    """
    x = _real_numbers(input, "ihfftn")
    return TABLE.conj(rfftn(x, s, dim, _swapped(norm)))


def _two(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def over_two(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
        return function(input, s, dim, norm)

    over_two.__name__ = over_two.__qualname__ = name
    over_two.__doc__ = f"`{function.__name__}` over the last two dims."
    return over_two


fft2 = public("fft")(_two("fft2", fftn))
ifft2 = public("fft")(_two("ifft2", ifftn))
rfft2 = public("fft")(_two("rfft2", rfftn))
irfft2 = public("fft")(_two("irfft2", irfftn))
hfft2 = public("fft")(_two("hfft2", hfftn))
ihfft2 = public("fft")(_two("ihfft2", ihfftn))


# ---------------------------------------------------------------------------------------------
# frequencies


def _frequencies(whole: Any, n: int, d: float, dtype: Any, device: Any, requires_grad: bool) -> Any:
    kind: DType = dtypes.default_floating() if dtype is None else arguments.dtype_of(dtype)
    step = 1.0 / (arguments.float_operand(n) * d)
    result = TABLE.mul(cast(whole, kind), cast(step, kind) if arguments.is_tensor(step) else step)
    return result.requires_grad_(True) if requires_grad else result


@public("fft", out=Out.FACTORY)
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None,
            requires_grad: bool = False, **ignored: Any) -> Any:  # fmt: skip
    """The frequencies of `fft` for n points at distances d: 0, 1, ..., -2, -1, over n d."""
    n, place = arguments.size(n, "fftfreq"), device_of(device)
    rising = arange((n + 1) // 2, device=place)
    falling = arange(-(n // 2), 0, device=place)
    whole = TABLE.cat(rising, falling, dim=0)
    return _frequencies(whole, n, d, dtype, device, requires_grad)


@public("fft", out=Out.FACTORY)
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **ignored: Any) -> Any:  # fmt: skip
    """The frequencies of `rfft` for n points at distances d: 0, 1, ..., n // 2, over n d."""
    n = arguments.size(n, "rfftfreq")
    whole = arange(n // 2 + 1, device=device_of(device))
    return _frequencies(whole, n, d, dtype, device, requires_grad)


def _shifted_dims(input: Any, dim: Any, name: str) -> list[int]:
    rank = len(require_tensor(input, name).shape)
    if dim is None:
        return list(range(rank))
    given = [dim] if arguments.is_integer(dim) else list(dim)
    return [normalize_dim(d, rank, f"fft.{name}") for d in given]


@public("fft", out=Out.ABSENT)
def fftshift(input: Any, dim: Any = None) -> Any:
    """input rolled so that the frequency 0 is in the middle of each of `dim` (all of them)."""
    dims = _shifted_dims(input, dim, "fftshift")
    if not dims:
        return TABLE.clone(input)
    return roll(input, [input.shape[d] // 2 for d in dims], dims)


@public("fft", out=Out.ABSENT)
def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of `fftshift`."""
    dims = _shifted_dims(input, dim, "ifftshift")
    if not dims:
        return TABLE.clone(input)
    return roll(input, [(input.shape[d] + 1) // 2 for d in dims], dims)
