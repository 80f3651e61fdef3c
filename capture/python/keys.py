"""Keys of dicts and members of sets: `__hash__` and `__eq__` of user classes, inlined.

A key is found among the entries as Python finds it: same object, or same hash and equal. Values
that are known, tensors and objects that hash by identity are keys by `hashable`, without a search.
Functions of the machine (`capture.machine.machine`).
"""

from collections import OrderedDict
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import (
    describe,
    hashable,
    hashable_as,
    raise_for_role,
    same_object,
    type_of,
)
from dynajit.capture.python.contents import dict_entries, dict_store, new_dict
from dynajit.capture.python.results import hash_by_method
from dynajit.capture.python.truth import truth
from dynajit.capture.values.containers import SetEntries, UserKey
from dynajit.capture.values.objects import InstanceDictValue, ObjectValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.users_code import own_method


def key_token(machine: Machine, entries: Any, key: Value) -> Steps[Any]:
    """The key under which `key` is, or would be, among `entries`.

    Args:
        entries: contents of a dict or set by key.
    """
    role = "set element" if isinstance(entries, SetEntries) else "dict key"
    if own_method(key, "__hash__") is None:
        token = hashable_as(machine, key, role)
        if token in entries or not any(isinstance(other, UserKey) for other in entries):
            return token
        identity = None
    else:
        if not isinstance(key, ObjectValue):
            raise GraphBreak(breaks.UNKNOWN_HASH, describe(key))
        try:
            number = yield from hash_by_method(machine, key)
        except Raised as raised:
            raise_for_role(machine, key, role, raised)
        token = UserKey(number, key.identity, key)
        identity = key.identity
    for other in entries:
        if hash(other) != hash(token):
            continue
        if other == token:
            return other
        stored = other.value if isinstance(other, UserKey) else _stored(entries, other)
        if identity is None and not isinstance(other, UserKey):
            continue
        if same_object(machine, stored, key):
            return other
        equal = yield from machine.compare("==", stored, key)
        if (yield from truth(machine, equal)):
            return other
    return token


def _stored(entries: Any, token: Any) -> Value:
    found = entries[token]
    key: Value = found[0] if isinstance(found, tuple) else found
    return key


def token_in(machine: Machine, dictionary: Any, key: Value) -> Steps[Any]:
    """`key_token` in a dict; one that existed and was not read holds no objects as keys."""
    is_unread = (
        isinstance(dictionary, InstanceDictValue) or machine.heap[dictionary.identity] is None
    )
    if is_unread and own_method(key, "__hash__") is None:
        return hashable_as(machine, key, "dict key")
    return (yield from key_token(machine, dict_entries(machine, dictionary), key))


def store_key(machine: Machine, dictionary: Any, key: Value, item: Value) -> Steps[None]:
    """`dictionary[key] = item`."""
    if type_of(machine, dictionary) is OrderedDict:
        hashable(machine, key)  # its own error, not the dict's
    token = yield from token_in(machine, dictionary, key)
    dict_store(machine, dictionary, key, item, token)


def build_dict(machine: Machine, pairs: Any, cls: type = dict) -> Steps[Value]:
    """A new dict of (key, value) pairs."""
    made = new_dict(machine, [], cls)
    for key, item in pairs:
        yield from store_key(machine, made, key, item)
    return made
