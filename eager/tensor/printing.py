"""How tensors print: `tensor([1., 2.], requires_grad=True)`.

Contract: four digits after the point, one width for all elements, scientific notation where the
range asks for it, three elements at each edge of large tensors: the layout that PyTorch users know;
`set_printoptions` changes the numbers.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.meta_arrays import is_meta
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.short_floats import is_own
from dynajit.eager.modes.forward_levels import acting
from dynajit.eager.operations.duals import tangent_of
from dynajit.ops.table import overriding


@record
class PrintOptions:
    """How tensors print.

    Args:
        precision: digits after the point.
        threshold: elements above which only the edges are shown.
        edgeitems: elements shown at each edge.
        linewidth: characters of a line.
        sci_mode: whether numbers are written as powers of ten; None: where their range asks for it.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: Final = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_chosen: list[PrintOptions] = [PrintOptions()]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors print; what is None stays as it is, except `sci_mode`.

    Args: as of `PrintOptions`; `profile` is "default", "short" or "full", and the others change it.
        Another name of a profile changes nothing, as in PyTorch.
    """
    before = _chosen[0]
    if profile is not None:
        before = _PROFILES.get(profile, before)
    given = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "linewidth": linewidth,
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    _chosen[0] = replace(before, **changes, sci_mode=sci_mode)  # type: ignore[arg-type]


def get_printoptions() -> dict[str, Any]:
    """The present choice by the names of `set_printoptions`."""
    return asdict(_chosen[0])


def format_tensor(tensor: Any) -> str:
    """The text of `tensor`, with the dtype where it is not the default of its values."""
    kind = type(tensor)
    is_asked = kind.__dynajit_priority__ == overriding.PRIORITY
    prefix = f"{kind.__name__}(" if is_asked else "tensor("
    if is_meta(tensor.array):
        return prefix + _joined("...", _facts_of_meta(tensor), len(prefix)) + ")"
    array = _readable(tensor.array)
    body = "[]" if array.size == 0 else _body(array, len(prefix))
    if array.size == 0 and array.ndim == 0:
        body = "[]"
    suffixes = _suffixes(tensor, array)
    return prefix + _joined(body, suffixes, len(prefix)) + ")"


def _facts_of_meta(tensor: Any) -> list[str]:
    facts = [f"device='{tensor.device}'", f"size={tuple(tensor.shape)}"]
    if tensor.dtype is not dtypes.default_floating():
        facts.append(f"dtype={tensor.dtype!r}")
    return [*facts, *_history(tensor)]


def format_elements(tensor: Any, indent: int) -> str:
    """The text of the elements alone, `indent` characters from the left."""
    array = _readable(tensor.array)
    return "[]" if array.size == 0 else _body(array, indent)


def format_sparse(tensor: Any) -> str:
    """The text of a sparse tensor: its positions and values, and what it is."""
    prefix = "tensor("
    space = " " * len(prefix)
    parts = (("indices=", tensor._indices()), ("values=", tensor._values()))
    lines = [name + _part(part, len(prefix + name)) for name, part in parts]
    facts = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    facts += [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if not _is_default(tensor.dtype):
        facts.append(f"dtype={tensor.dtype!r}")
    facts += [f"layout={tensor.layout!r}", *_history(tensor)]
    last = _joined(facts[0], facts[1:], len(prefix))
    return prefix + f",\n{space}".join([*lines, last]) + ")"


def _part(tensor: Any, indent: int) -> str:
    """One of the tensors that a sparse tensor is made of, `indent` characters from the left."""
    prefix = "tensor("
    array = _readable(tensor.array)
    if array.size == 0:
        return f"{prefix}[], size={tuple(array.shape)})"
    return prefix + _body(array, indent + len(prefix)) + ")"


def _readable(array: Any) -> Any:
    """16-bit floats as float32: their text is that of their value. On the host."""
    array = any_arrays.as_numpy(array)
    if is_own(array.dtype) or array.dtype == np.float16:
        return array.astype(np.float32)
    return np.asarray(array)


def _suffixes(tensor: Any, array: Any) -> list[str]:
    found = []
    if tensor.device.type != "cpu":
        found.append(f"device='{tensor.device}'")
    dtype = tensor.dtype
    if array.size == 0 and array.ndim != 1:
        found.append(f"size={tuple(array.shape)}")
    if not _is_default(dtype) or (array.size == 0 and dtype is not dtypes.default_floating()):
        found.append(f"dtype={dtype!r}")
    return found + _history(tensor)


def _is_default(dtype: dtypes.DType) -> bool:
    """Whether tensors have the dtype by themselves, so that their text need not say it."""
    return dtype is dtypes.default_of(dtype.category)


def _history(tensor: Any) -> list[str]:
    """Whether gradients flow to a tensor, and what made it; its tangent in forward mode."""
    found = []
    if tensor.grad_fn is not None:
        found.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        found.append("requires_grad=True")
    levels = acting()
    tangent = tangent_of(levels[-1], tensor) if levels else None
    return found if tangent is None else [*found, f"tangent={format_tensor(tangent)}"]


def _joined(body: str, suffixes: list[str], indent: int) -> str:
    """The suffixes after the body, on lines of at most `linewidth` characters."""
    text = body
    last = len(body) - body.rfind("\n") + (indent if "\n" not in body else 0)
    for suffix in suffixes:
        if last + len(suffix) + 2 > _chosen[0].linewidth:
            text += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text


def _body(array: Any, indent: int) -> str:
    summarize = array.size > _chosen[0].threshold
    shown = _edges(array) if summarize else array
    return _lines(array, indent, summarize, _formatter(shown))


def _edges(array: Any) -> Any:
    """Only the elements that a summary shows."""
    edge = _chosen[0].edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            keep = [*range(edge), *range(size - edge, size)]
            array = array.take(keep, axis=axis)
    return array


def _lines(array: Any, indent: int, summarize: bool, write: Callable[[Any], str]) -> str:
    if array.ndim == 0:
        return write(array[()])
    edge = _chosen[0].edgeitems
    cut = summarize and array.shape[0] > 2 * edge
    if array.ndim == 1:
        return _row(array, indent, cut, write)
    first = array[:edge] if cut else array
    parts = [_lines(item, indent + 1, summarize, write) for item in first]
    if cut:
        parts.append("...")
        parts += [_lines(item, indent + 1, summarize, write) for item in array[len(array) - edge :]]
    separator: str = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(parts) + "]"


def _row(array: Any, indent: int, cut: bool, write: Callable[[Any], str]) -> str:
    if cut:
        edge = _chosen[0].edgeitems
        words = [write(x) for x in array[:edge]] + [" ..."]
        words += [write(x) for x in array[len(array) - edge :]]
    else:
        words = [write(x) for x in array]
    width = max(map(len, words), default=1) + 2
    per_line = max(1, (_chosen[0].linewidth - indent) // width)
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


def _negative(x: float) -> bool:
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
    precision, scientific = _chosen[0].precision, _chosen[0].sci_mode
    low, high = float(values.min()), float(values.max())
    whole = bool((values == np.ceil(values)).all())
    if scientific is None:
        scientific = high > 1e8 or high / low > 1000 or (not whole and low < 1e-4)
    if scientific:
        return lambda x: _special(x) or f"{float(x):.{precision}e}"
    if whole:
        return lambda x: _special(x) or f"{float(x):.0f}."
    return lambda x: _special(x) or f"{float(x):.{precision}f}"


def _special(x: float) -> str:
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return ""
