"""Keys that hash by identity: which of them are two objects stays so.

A key that is not found is another object than every key there; a call in which it is one of them
needs another version. Objects that are keys of existing dicts and sets are known by identity.
"""

from typing import Any, Final

from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places import sources
from dynajit.capture.values.containers import HeapValue

#: Objects that are kept apart by a guard per pair; if there are more, each is guarded to be itself.
KEPT_APART: Final = 32


def note_key(recorder: Any, value: HeapValue) -> None:
    """An object is a key; guarded that it is none of the others that are.

    Args:
        recorder: of the capture; its `identity_keys` are heap ids -> (handle, known by identity).
    """
    existing = recorder.existing(value)
    if existing is None:
        return  # made by the captured code: no other object can be it
    known = recorder.identity_keys
    is_known = isinstance(value.source, (sources.NthKey, sources.Constant))
    found = known.get(value.identity)
    if found is not None:
        known[value.identity] = (found[0], found[1] or is_known)
        return
    place = recorder.first_source(value)
    if not is_known and len(known) >= KEPT_APART:
        for identity, (other, is_other_known) in [*known.items(), (value.identity, (value, False))]:
            if not is_other_known:
                recorder.guard(
                    recorder.first_source(other), Kind.IDENTITY, recorder.existing(other), "key"
                )
            known[identity] = (other, True)
        return
    for other, is_other_known in known.values():
        if not (is_known and is_other_known):
            recorder.guard(place, Kind.NOT_ALIASED, recorder.first_source(other), "key")
    known[value.identity] = (value, is_known)


def holds_nan(key: Any) -> bool:
    """True for a nan and a tuple with one: keys by identity that guards compare by value."""
    if type(key) is tuple:
        return any(map(holds_nan, key))
    return type(key) in (float, complex) and key != key
