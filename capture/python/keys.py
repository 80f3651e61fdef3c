"""Keys of dicts and members of sets: `__hash__` and `__eq__` of user classes, inlined.

A key is found among the entries as Python finds it: same object, or same hash and equal. Values
that are known, tensors and objects that hash by identity are keys by `hashable`, without a search.
Methods of the executor (`x`), written as functions; see `capture.execution.executor`.
"""

from collections import OrderedDict
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.python.basic import Steps, describe, hashable, hashable_as, raise_for_role
from dynajit.capture.python.containers import same_object
from dynajit.capture.python.results import hash_by_method
from dynajit.capture.python.text.text import own_method
from dynajit.capture.values.containers import SetEntries, UserKey
from dynajit.capture.values.objects import InstanceDictValue, ObjectValue
from dynajit.capture.values.symbolic import Value


def key_token(x: Any, entries: Any, key: Value) -> Steps:
    """The key under which `key` is, or would be, among `entries`.

    Args:
        entries: contents of a dict or set by key.
    """
    role = "set element" if isinstance(entries, SetEntries) else "dict key"
    if own_method(key, "__hash__") is None:
        token = hashable_as(x, key, role)
        if token in entries or not any(isinstance(other, UserKey) for other in entries):
            return token
        identity = None
    else:
        if not isinstance(key, ObjectValue):
            raise GraphBreak(breaks.UNKNOWN_HASH, describe(key))
        try:
            number = yield from hash_by_method(x, key)
        except Raised as raised:
            raise_for_role(x, key, role, raised)
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
        if same_object(x, stored, key):
            return other
        equal = yield from x.compare("==", stored, key)
        if (yield from x.truth(equal)):
            return other
    return token


def _stored(entries: Any, token: Any) -> Value:
    found = entries[token]
    key: Value = found[0] if isinstance(found, tuple) else found
    return key


def token_in(x: Any, dictionary: Any, key: Value) -> Steps:
    """`key_token` in a dict; one that existed and was not read holds no objects as keys."""
    is_unread = isinstance(dictionary, InstanceDictValue) or x.heap[dictionary.identity] is None
    if is_unread and own_method(key, "__hash__") is None:
        return hashable_as(x, key, "dict key")
    return (yield from key_token(x, x.dict_entries(dictionary), key))


def store_key(x: Any, dictionary: Any, key: Value, item: Value) -> Steps:
    """`dictionary[key] = item`."""
    if x.type_of(dictionary) is OrderedDict:
        hashable(x, key)  # its own error, not the dict's
    token = yield from token_in(x, dictionary, key)
    x.dict_store(dictionary, key, item, token)


def build_dict(x: Any, pairs: Any, cls: type = dict) -> Steps:
    """A new dict of (key, value) pairs."""
    made = x.new_dict([], cls)
    for key, item in pairs:
        yield from store_key(x, made, key, item)
    return made
