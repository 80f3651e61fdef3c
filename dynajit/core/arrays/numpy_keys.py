"""What NumPy makes of keys where tensors do otherwise.

`forwards`: NumPy's `x[::-1]` is a view with a negative stride, which tensors lack. Here it is a
forward view and the dims of it that are seen from the end to the start. `order_of_chosen`: how
elements that arrays choose lie in memory.
"""

from collections.abc import Sequence
from typing import Any, Final

#: Entries of keys that are no arrays: None, and slices.
NEW: Final = "new"
KEPT: Final = "kept"


def forwards(
    entries: Sequence[Any], shape: Sequence[Any], flipped: Sequence[int]
) -> tuple[list[Any] | None, tuple[int, ...]]:
    """A key of integers, slices, None and `...` of an array with flipped dims.

    Returns:
        The key that chooses the same elements of what the array lies in, and which dims of that are
        flipped. None instead of the key: a size is not known, or an entry has no dim.
    """
    named = sum(entry is not None and entry is not ... for entry in entries)
    if named > len(shape) or sum(entry is ... for entry in entries) > 1:
        return None, ()
    whole = [slice(None, None, None)] * (len(shape) - named)
    at = next((k for k, entry in enumerate(entries) if entry is ...), len(entries))
    full = [*entries[:at], *whole, *entries[at + 1 :]]
    key: list[Any] = []
    backward: list[int] = []
    dim = made = 0
    for entry in full:
        if entry is None:
            key.append(None)
            made += 1
            continue
        is_flipped, size = dim in flipped, shape[dim]
        dim += 1
        found = _forward(entry, size, is_flipped)
        if found is None:
            return None, ()
        key.append(found[0])
        if isinstance(entry, slice):
            backward += [made] * found[1]
            made += 1
    return key, tuple(backward)


def _forward(entry: Any, size: Any, is_flipped: bool) -> tuple[Any, bool] | None:
    """One entry, and whether its dim is flipped."""
    if isinstance(entry, slice) and entry.start is None and entry.stop is None:
        if entry.step in (None, 1):
            return slice(None, None, None), is_flipped
        if entry.step == -1:
            return slice(None, None, None), not is_flipped
    if type(size) is not int:
        return None
    if not isinstance(entry, slice):
        at = entry + size if entry < 0 else entry
        return (size - 1 - at if is_flipped else at, False) if 0 <= at < size else None
    places = range(size)[entry]
    if is_flipped:
        places = range(size)[::-1][entry]
    if not places:
        return slice(0, 0, 1), is_flipped != (places.step < 0)
    is_backward = places.step < 0
    if is_backward:
        places = places[::-1]
    return slice(places.start, places[-1] + 1, places.step), is_backward


def order_of_chosen(
    entries: Sequence[Any], order: Sequence[int], batch: int
) -> tuple[int, ...] | None:
    """The dims of `x[key]` from the outermost in memory on, where arrays choose elements.

    NumPy reads the places that arrays name one after the other: their dims lie outside, row by row,
    whichever place they have in the shape; the others lie as in `x`.

    Args:
        entries: one for each dim of `x` (`KEPT` for a slice, "array" for an array or an integer),
            and `NEW` for new dims.
        order: the dims of `x` from the outermost in memory on.
        batch: how many dims the arrays have together.

    Returns:
        None: arrays are apart, where tensors put their dims elsewhere.
    """
    places = [k for k, entry in enumerate(entries) if entry not in (NEW, KEPT)]
    if places[-1] - places[0] != len(places) - 1:
        return None
    result: list[Any] = []
    dim = 0
    for k, entry in enumerate(entries):
        if k == places[0]:
            result += [("batch", n) for n in range(batch)]
        if entry == NEW:
            result.append(NEW)
            continue
        if entry == KEPT:
            result.append(dim)
        dim += 1
    outer = [k for k, found in enumerate(result) if isinstance(found, tuple)]
    inner = [result.index(d) for d in order if d in result]
    new = [k for k, found in enumerate(result) if found == NEW]
    return (*outer, *new, *inner)
