"""What to do about a place that keeps changing, by the kind of guard that fails.

Contract: a sentence or two for the user, about this place; never a guess about code that was not
seen. Read by `history`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dynajit.capture.entry.recurring import Recurring
from dynajit.capture.guards.kinds import Kind

_VALUE: Final = (
    "a version is needed for each value that decides what runs.  Pass {place} as a tensor if it is "
    "only computed with, or keep it fixed."
)
_OBJECT: Final = (
    "each object has its own version.  Make {place} once, outside of the call (a lambda, a partial "
    "or a class made in a loop is another one each time)."
)
_SIZES: Final = (
    "keep the sizes of {place} fixed, mark the one that changes with "
    "dj.mark_dynamic({place}, dim), or compile with dynamic=True."
)
_CONTAINER: Final = (
    "keep the number of items and the keys of {place} the same, or pass what changes as a tensor."
)
_SAME: Final = (
    "each way in which {place} and other arguments are one object has a version: nothing, if all "
    "are meant."
)
_MODE: Final = "nothing, if both modes are meant: each has its version from now on."

#: By kind; a kind that is not here has the last words of `advice_for`.
_BY_KIND: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        Kind.EQUALS: _VALUE,
        Kind.PREDICATE: _VALUE,
        Kind.STORAGE_EQUALS: _VALUE,
        Kind.CONDITION: _VALUE,
        Kind.RELATION: _SIZES,
        Kind.TYPE_IS: "pass objects of one class as {place}: each class has its own version.",
        Kind.IDENTITY: _OBJECT,
        Kind.FUNCTION: _OBJECT,
        Kind.LENGTH: _CONTAINER,
        Kind.TRUE_VALUE: _CONTAINER,
        Kind.DICT_KEYS: _CONTAINER,
        Kind.HAS_NO_KEY: _CONTAINER,
        Kind.ALIASED: _SAME,
        Kind.NOT_ALIASED: _SAME,
        Kind.GRAD_MODE: _MODE,
        Kind.INFERENCE: _MODE,
        Kind.AUTOCAST: _MODE,
        Kind.CLASS_UNCHANGED: "change classes before the first call: a method was replaced.",
    }
)
_TENSOR: Final = re.compile(r"(\w+)\[([^\]]*)\]")


def advice_for(found: Recurring) -> str:
    """What to do about the place, without its end the same for all values of it."""
    if found.sizes:
        return "nothing: the size is dynamic from now on, and one version serves all others."
    if found.kind is Kind.TENSOR:
        return _of_tensor(found.place, *found.last)
    text = _BY_KIND.get(found.kind, "keep {place} as it is between calls.")
    return text.format(place=found.place)


def _of_tensor(place: str, old: str, new: str) -> str:
    """By what differs between the descriptions of two tensors."""
    before, after = _TENSOR.search(old), _TENSOR.search(new)
    if before is None or after is None:
        return f"pass a tensor as {place} each time."
    if before[1] != after[1]:
        return f"convert {place} to one dtype before the call, such as {place}.to(dj.{before[1]})."
    if before[2] != after[2]:
        return _SIZES.format(place=place)
    if ("requires_grad=True" in old) != ("requires_grad=True" in new):
        return "nothing, if both are meant: calls with and without gradients have a version each."
    return f"give {place} one layout, such as {place}.contiguous()."
