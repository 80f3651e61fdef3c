"""Tuples that variables hold, as the parts that they are built of: a turn of a loop that makes a
tuple anew (`state = cell(x, state)`) hands on what it holds.

Contract: the parts of a variable have names of their own, by which they stand among the locals in
its place; a tuple whose parts are the same is the same tuple.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeGuard

from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.symbolic import Value

#: Between the name of a variable and the place of a part: no name has it.
_AT: Final = "@"


def is_tuple(value: Any) -> TypeGuard[TupleValue]:
    """True for a tuple, or a named one, that the captured code has made."""
    if not isinstance(value, TupleValue) or value.source is not None:
        return False
    return value.cls is tuple or hasattr(value.cls, "_fields")


def is_built_alike(a: Value | None, b: Value | None) -> bool:
    """Whether two values are tuples of a class and of equally many parts, and so on in these; or
    are none."""
    if not is_tuple(a) or not is_tuple(b):
        return is_tuple(a) is is_tuple(b)
    same = a.cls is b.cls and len(a.items) == len(b.items)
    return same and all(map(is_built_alike, a.items, b.items))


def parts_of(name: str, value: Value) -> dict[str, Value]:
    """What a tuple is built of, by names that say whose part it is; of another value itself."""
    if not is_tuple(value):
        return {name: value}
    found: dict[str, Value] = {}
    for place, item in enumerate(value.items):
        found |= parts_of(f"{name}{_AT}{place}", item)
    return found


def root_of(name: str) -> str:
    """The variable of which something of this name is a part, or is all."""
    return name.partition(_AT)[0]


def with_parts(locals: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Some locals, with parts in the place of these tuples."""
    found = {name: value for name, value in locals.items() if name not in names}
    for name in names:
        found |= parts_of(name, locals[name])
    return found


def with_tuples(
    locals: Mapping[str, Value], templates: Mapping[str, TupleValue]
) -> dict[str, Value]:
    """Some locals, with tuples in the place of parts; without one of which a part is missing.

    Args:
        templates: variable -> a tuple built as its own is.
    """
    found = dict(locals)
    for name, template in templates.items():
        parts = parts_of(name, template)
        held = {part: found.pop(part, None) for part in parts}
        if None not in held.values():
            found[name] = _made(name, template, held)
    return found


def _made(name: str, template: Value, parts: Mapping[str, Any]) -> Any:
    if not is_tuple(template):
        return parts[name]
    items = [_made(f"{name}{_AT}{place}", item, parts) for place, item in enumerate(template.items)]
    is_same = all(made is item for made, item in zip(items, template.items, strict=True))
    return template if is_same else TupleValue(tuple(items), template.cls)


__all__ = ["is_built_alike", "is_tuple", "parts_of", "root_of", "with_parts", "with_tuples"]
