"""How tensors print: `tensor([1., 2.], requires_grad=True)`.

Contract: four digits after the point, one width for all elements, scientific notation where the
range asks for it, three elements at each edge of large tensors: the layout that PyTorch users
know. Called by `Tensor.__repr__`.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

PRECISION: Final = 4
THRESHOLD: Final = 1000  # elements above which only the edges are shown
EDGE_ITEMS: Final = 3
LINE_WIDTH: Final = 80


def format_tensor(tensor: Any) -> str:
    """The text of `tensor`, with the dtype where it is not the default of its values."""
    prefix = "tensor("
    array = _readable(tensor.array)
    body = "[]" if array.size == 0 else _body(array, len(prefix))
    if array.size == 0 and array.ndim == 0:
        body = "[]"
    suffixes = _suffixes(tensor, array)
    return prefix + _joined(body, suffixes, len(prefix)) + ")"


def _readable(array: Any) -> Any:
    """16-bit floats as float32: their text is that of their value."""
    if array.dtype.kind == "V" or array.dtype == np.float16:
        return array.astype(np.float32)
    return np.asarray(array)


def _suffixes(tensor: Any, array: Any) -> list[str]:
    found = []
    if tensor.device.type != "cpu":
        found.append(f"device='{tensor.device}'")
    dtype = tensor.dtype
    if array.size == 0 and array.ndim != 1:
        found.append(f"size={tuple(array.shape)}")
    default = ("float32", "int64", "bool", "complex64")
    if dtype.name not in default or (array.size == 0 and dtype.name != "float32"):
        found.append(f"dtype={dtype!r}")
    if tensor.grad_fn is not None:
        found.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        found.append("requires_grad=True")
    return found


def _joined(body: str, suffixes: list[str], indent: int) -> str:
    """The suffixes after the body, on lines of at most LINE_WIDTH characters."""
    text = body
    last = len(body) - body.rfind("\n") + (indent if "\n" not in body else 0)
    for suffix in suffixes:
        if last + len(suffix) + 2 > LINE_WIDTH:
            text += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text


def _body(array: Any, indent: int) -> str:
    summarize = array.size > THRESHOLD
    shown = _edges(array) if summarize else array
    return _lines(array, indent, summarize, _formatter(shown))


def _edges(array: Any) -> Any:
    """Only the elements that a summary shows."""
    for axis, size in enumerate(array.shape):
        if size > 2 * EDGE_ITEMS:
            keep = [*range(EDGE_ITEMS), *range(size - EDGE_ITEMS, size)]
            array = array.take(keep, axis=axis)
    return array


def _lines(array: Any, indent: int, summarize: bool, write: Callable[[Any], str]) -> str:
    if array.ndim == 0:
        return write(array[()])
    cut = summarize and array.shape[0] > 2 * EDGE_ITEMS
    if array.ndim == 1:
        return _row(array, indent, cut, write)
    first = array[:EDGE_ITEMS] if cut else array
    parts = [_lines(item, indent + 1, summarize, write) for item in first]
    if cut:
        parts.append("...")
        parts += [_lines(item, indent + 1, summarize, write) for item in array[-EDGE_ITEMS:]]
    separator = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(parts) + "]"


def _row(array: Any, indent: int, cut: bool, write: Callable[[Any], str]) -> str:
    if cut:
        words = [write(x) for x in array[:EDGE_ITEMS]] + [" ..."]
        words += [write(x) for x in array[-EDGE_ITEMS:]]
    else:
        words = [write(x) for x in array]
    width = max(map(len, words), default=1) + 2
    per_line = max(1, (LINE_WIDTH - indent) // width)
    lines = [", ".join(words[start : start + per_line]) for start in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _formatter(shown: Any) -> Callable[[Any], str]:
    """Text of one element, right-aligned to the widest of `shown`."""
    kind = shown.dtype.kind
    if kind == "c":
        real, imaginary = _formatter(shown.real), _formatter(np.abs(shown.imag))
        return lambda x: (
            f"{real(x.real)}{'-' if _negative(x.imag) else '+'}{imaginary(abs(x.imag)).strip()}j"
        )
    if kind == "b":
        return _aligned(shown, lambda x: "True" if x else "False")
    if kind in "iu":
        return _aligned(shown, lambda x: str(int(x)))
    return _aligned(_ordinary(shown), _float_style(shown))


def _negative(x: Any) -> bool:
    return bool(math.copysign(1.0, x) < 0)


def _aligned(shown: Any, text: Callable[[Any], str]) -> Callable[[Any], str]:
    width = max((len(text(x)) for x in shown.ravel()), default=0)
    return lambda x: text(x).rjust(width)


def _ordinary(shown: Any) -> Any:
    """The elements that decide style and width: PyTorch leaves out zeros, inf and nan."""
    return shown[np.isfinite(shown) & (shown != 0)]


def _float_style(shown: Any) -> Callable[[Any], str]:
    values = np.abs(_ordinary(shown)).astype(np.float64)
    if values.size == 0:
        return lambda x: _special(x) or f"{float(x):.0f}."
    low, high = float(values.min()), float(values.max())
    if bool((values == np.ceil(values)).all()):
        if high > 1e8 or high / low > 1000:
            return lambda x: _special(x) or f"{float(x):.{PRECISION}e}"
        return lambda x: _special(x) or f"{float(x):.0f}."
    if high / low > 1000 or high > 1e8 or low < 1e-4:
        return lambda x: _special(x) or f"{float(x):.{PRECISION}e}"
    return lambda x: _special(x) or f"{float(x):.{PRECISION}f}"


def _special(x: Any) -> str:
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return ""
