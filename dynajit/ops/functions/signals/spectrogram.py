"""Short-time Fourier transforms: `stft` and its inverse `istft`, with PyTorch's signatures.

Contract: as `ops.functions`. Frames of `n_fft` samples, `hop_length` apart, are multiplied by the
window (padded with zeros on both sides to `n_fft`) and transformed. `istft` adds the frames where
they overlap and divides by what the squared windows add up to there, which it has to look at: a
graph breaks there. Source of the inverse: D. Griffin and J. Lim, "Signal estimation from modified
short-time Fourier transform" (1984).
"""

import warnings
from typing import Any

from dynajit.core.errors import DTypeError, DTypeNotImplementedError, ShapeError, UnsupportedError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.symint import agree, equals, shapes_agree
from dynajit.core.types.value_types import Size
from dynajit.ops.calls.arguments import describe_tensor, is_tensor, require_tensor, with_integers
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.contents import occurs
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.elements.complex import view_as_real
from dynajit.ops.functions.networks.nn import pad
from dynajit.ops.functions.shapes.shape import sliced, squeeze, transpose, unsqueeze
from dynajit.ops.functions.signals.fourier import fft, ifft, irfft, rfft
from dynajit.ops.table.op_table import TABLE, Autocast


@record
class _Frames:
    """How a signal is cut.

    Args:
        length: samples per frame, `n_fft`.
        hop: samples from one frame to the next.
        window: `length` factors, or None for ones.
    """

    length: int
    hop: int
    window: Any


def _frames(
    call: str, n_fft: int, hop: int | None, win_length: int | None, window: Any, device: Device
) -> _Frames:
    """The cut, with the window in the middle of its frame.

    Raises:
        ShapeError: a length is out of range, or the window has another one.
    """
    hop = n_fft // 4 if hop is None else hop
    length = n_fft if win_length is None else win_length
    if hop <= 0:
        raise ShapeError(f"{call}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise ShapeError(f"{call}: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and not shapes_agree(window.shape, (length,)):
        raise ShapeError(
            f"{call}: expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {list(window.shape)}"
        )
    if length < n_fft:
        left = (n_fft - length) // 2
        if window is None:
            window = TABLE.full(1.0, shape=(length,), dtype=dtypes.float32, device=device)
        window = pad(window, (left, n_fft - length - left))
    return _Frames(n_fft, hop, window)


@public(out=Out.ABSENT, numpy_names=False, method=True)
@autocast(cpu=Autocast.FULL)
@with_integers
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """Short-time Fourier transform of signals.

    Shape: (batch, frequencies, frames), or without batch.

    Args:
        input: (time,) or (batch, time), real or complex.
        n_fft: samples per frame.
        hop_length: samples between frames, n_fft // 4 by default.
        win_length, window: factors of the samples of a frame, ones by default.
        center: frame t is around sample t * hop_length; the signal is padded by `pad_mode`.
        normalized: divide by the root of n_fft.
        onesided: only the frequencies 0 to n_fft // 2; the default of real signals.
        return_complex: has to be given for real signals; False: pairs of parts along a last dim.

    Raises:
        ShapeError: the signal, a length or the window does not fit; `return_complex` is missing.
        DTypeError: one-sided transforms of complex signals; signals of integers.
        UnsupportedError: `align_to_window` is set.
    """
    call = f"stft(input: {describe_tensor(require_tensor(input, 'stft'))}, n_fft={n_fft})"
    if align_to_window is not None:
        raise UnsupportedError("stft(align_to_window=...) is not available.  Leave it out.")
    rank = len(input.shape)
    if rank not in (1, 2):
        raise ShapeError(f"{call}: expected a 1D or 2D tensor")
    if input.dtype.category < dtypes.Category.FLOATING:
        raise DTypeNotImplementedError(
            f"{call}: expected a tensor of floating point or complex values"
        )
    is_complex = input.dtype.is_complex or (is_tensor(window) and window.dtype.is_complex)
    if return_complex is None and not is_complex:
        raise ShapeError(
            "stft requires the return_complex parameter be given for real inputs.  Pass "
            "return_complex=True."
        )
    onesided = not is_complex if onesided is None else onesided
    if onesided and is_complex:
        raise DTypeError("Cannot have onesided output if window or input is complex")
    x = input if rank == 2 else unsqueeze(input, 0)
    if center:
        x = pad(x, (n_fft // 2, n_fft // 2), mode=pad_mode)
    if n_fft <= 0 or n_fft > x.shape[1]:
        raise ShapeError(f"{call}: expected 0 < n_fft < {x.shape[1]}, but got n_fft={n_fft}")
    frames = _frames(call, n_fft, hop_length, win_length, window, input.device)
    parts = TABLE.unfold(x, dim=1, size=n_fft, step=frames.hop)
    if frames.window is not None:
        parts = TABLE.mul(parts, frames.window)
    transform = rfft if onesided else fft
    result = transpose(transform(parts, norm="ortho" if normalized else "backward"), 1, 2)
    result = result if rank == 2 else squeeze(result, 0)
    return result if return_complex or return_complex is None else view_as_real(result)


@public(out=Out.ABSENT, method=True)
@with_integers
def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """The signals whose `stft` is closest to input. Shape: (batch, time), or without batch.

    Args:
        input: (frequencies, frames) or (batch, frequencies, frames), complex.
        n_fft, hop_length, win_length, window, center, normalized, onesided: those of `stft`.
        length: samples of the result; what the frames do not reach is 0.
        return_complex: the signals are complex; input has all n_fft frequencies.

    Raises:
        ShapeError: the input or the window does not fit, or the windows are 0 somewhere.
        DTypeError: the input is real.
    """
    call = f"istft(input: {describe_tensor(require_tensor(input, 'istft'))}, n_fft={n_fft})"
    if not input.dtype.is_complex:
        raise DTypeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    rank = len(input.shape)
    if rank not in (2, 3) or 0 in input.shape:
        raise ShapeError(f"{call}: expected a tensor with 2 or 3 dimensions and elements")
    found = input.shape[-2]
    onesided = not equals(found, n_fft) if onesided is None else onesided
    if not agree(found, n_fft // 2 + 1 if onesided else n_fft):
        raise ShapeError(
            f"{call}: expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft / 2 + 1 when onesided=True, or n_fft when onesided=False, but got {found}"
        )
    if return_complex and onesided:
        raise DTypeError("cannot have onesided input together with return_complex=True")
    if is_tensor(window) and window.dtype.is_complex and not return_complex:
        raise DTypeError(f"{call}: complex windows are incompatible with return_complex=False")
    frames = _frames(call, n_fft, hop_length, win_length, window, input.device)
    if frames.hop > (n_fft if win_length is None else win_length):
        raise ShapeError(f"{call}: expected 0 < hop_length <= win_length")
    x = transpose(input if rank == 3 else unsqueeze(input, 0), 1, 2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        parts = ifft(x, norm=norm)
    else:
        parts = irfft(sliced(x, 2, 0, n_fft // 2 + 1), n_fft, norm=norm)
    signal = _signal(call, parts, frames, _span(parts.shape[1], frames, center, length))
    return signal if rank == 3 else squeeze(signal, 0)


def _span(count: Size, frames: _Frames, center: bool, length: int | None) -> tuple[int, Size]:
    """The samples of what the frames cover that are the signal: from, to."""
    start = frames.length // 2 if center else 0
    if length is not None:
        return start, start + length
    whole = frames.length + frames.hop * (count - 1)
    return start, whole - start


def _overlapped(parts: Any, frames: _Frames) -> Any:
    """Frames (batch, count, n) added at their places. Shape: (batch, samples)."""
    batch, count, size = parts.shape
    total = size + frames.hop * (count - 1)
    starts = TABLE.arange(0, frames.hop, size=count, dtype=dtypes.int64, device=parts.device)
    within = TABLE.arange(0, 1, size=size, dtype=dtypes.int64, device=parts.device)
    places = TABLE.reshape(
        TABLE.add(TABLE.reshape(starts, shape=(count, 1)), within), shape=(count * size,)
    )
    zeros = TABLE.full(0, shape=(batch, total), dtype=parts.dtype, device=parts.device)
    return TABLE.index_add(zeros, places, TABLE.reshape(parts, shape=(batch, count * size)), dim=1)


def _signal(call: str, parts: Any, frames: _Frames, span: tuple[int, Size]) -> Any:
    """The sum of windowed frames over the sum of squared windows, cut to `span`.

    Raises:
        ShapeError: the squared windows add up to 0 somewhere.
    """
    window = frames.window
    if window is None:
        kind = dtypes.real_of(parts.dtype)
        window = TABLE.full(1.0, shape=(frames.length,), dtype=kind, device=parts.device)
    shape = (1, parts.shape[1], frames.length)
    squares = TABLE.expand(
        TABLE.reshape(TABLE.square(window), shape=(1, 1, frames.length)), shape=shape
    )
    start, stop = span
    total = frames.length + frames.hop * (parts.shape[1] - 1)
    reach = min(stop, total)
    signal = sliced(_overlapped(TABLE.mul(parts, window), frames), 1, start, reach)
    envelope = sliced(_overlapped(squares, frames), 1, start, reach)
    low = TABLE.lt(TABLE.abs(envelope), 1e-11)
    if occurs(low):
        raise ShapeError(f"{call}: window overlap add is 0 somewhere; the signal is lost there")
    signal = TABLE.div(signal, envelope)
    if stop <= total:
        return signal
    warnings.warn(
        "The length of signal is shorter than the length parameter. Result is being padded with "
        "zeros in the tail. Please check your center and hop_length settings.",
        UserWarning,
        stacklevel=4,
    )
    return pad(signal, (0, stop - total))
