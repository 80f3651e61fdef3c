"""What to do about a place that keeps changing, by the kind of guard that fails.

Contract: a sentence or two for the user, about this place; never a guess about code that was not
seen.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dynajit.capture.guards.kinds import Kind

_VALUE: Final = (
    "a version is needed for each value that decides what runs.  Pass {place} as a tensor if it is "
    "only computed with, or keep it fixed."
)
_TEXT: Final = (
    "a version is needed for each value of {place} that decides what runs: nothing, if there are "
    "few."
)
_COMPUTED: Final = (
    "{place} is made in front of a break: remove the break, keep the sizes that it is made of "
    "fixed, or compile with dynamic=True."
)
_LEFT: Final = (
    "nothing by itself: a break left this value; what is said of the break helps here, too."
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
_PARTS: Final = re.compile(r"\w+=?(?:\[[^\]]*\]|(?<==)\w+)")


def advice_for(
    place: str, kind: Kind, old: str, new: str, sizes: tuple[str, ...], is_rest: bool = False
) -> str:
    """What to do about a place.

    Args:
        place: what changes, as Python text; a name with a dot in front is a value of no name.
        kind: which fact about it.
        old, new: what was expected last, and what was met, in words.
        sizes: what was generalised, if anything was.
        is_rest: it changes for what follows a break.
    """
    if sizes:
        return "nothing: the size is dynamic from now on, and one version serves all others."
    if place.startswith("."):
        return _LEFT
    if kind is Kind.TENSOR:
        text = _of_tensor(place, old, new)
        return _COMPUTED.format(place=place) if is_rest and "mark_dynamic" in text else text
    if {old, new} & {"True", "False", "None"} or old[:1] in ("'", '"'):
        return _TEXT.format(place=place)
    text = _BY_KIND.get(kind, "keep {place} as it is between calls.")
    return text.format(place=place)


def difference(old: str, new: str) -> tuple[str, str]:
    """Two descriptions of tensors without what they have in common; of other things as they are.

    Strides follow from sizes where those differ.
    """
    before, after = _PARTS.findall(old), _PARTS.findall(new)
    if not old.startswith("Tensor ") or len(before) != len(after) or before == after:
        return old, new
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    if len(pairs) > 1 and before[0] != after[0]:
        pairs = [pair for pair in pairs if not pair[0].startswith("strides=")]
    return ", ".join(one for one, _ in pairs), ", ".join(other for _, other in pairs)


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
