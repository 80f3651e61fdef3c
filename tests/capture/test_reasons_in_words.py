"""The reason of a break names things as the program knows them: no handle of the compiler's, no
address, no module of its insides, whatever object is used for whatever operation."""

import collections
import contextvars
import decimal
import functools
import io
import random
import re
import sys
import threading
import types
import weakref

import pytest

import dynajit as dj
from dynajit.core.errors import GraphBreakError


class Plain:
    def method(self):
        return super()


class Derived(dj.Tensor):
    pass


def generated():
    yield 1


def failed():
    try:
        raise ValueError(1)
    except ValueError as error:
        return error


OBJECTS = {
    "list": lambda: [1, Plain()], "dict": lambda: {Plain(): 1}, "set": lambda: {1, "a"},
    "tuple": lambda: (Plain(),), "iterator": lambda: iter([1]), "zip": lambda: zip([1]),
    "generator": generated, "partial": lambda: functools.partial(Plain),
    "method": lambda: Plain().method, "built-in method": lambda: [].append,
    "super": lambda: Plain().method(), "slice": lambda: slice(1, Plain()), "error": failed,
    "traceback": lambda: failed().__traceback__, "deque": lambda: collections.deque([1]),
    "deque iterator": lambda: iter(collections.deque([1])), "tensor": lambda: dj.ones(2),
    "derived tensor": lambda: dj.ones(2).as_subclass(Derived), "random": lambda: random.Random(3),
    "weak reference": lambda: weakref.ref(Plain), "proxy": lambda: types.MappingProxyType({}),
    "object": object, "instance": Plain, "class": lambda: Plain, "module": lambda: sys,
    "function": lambda: generated, "bytearray": lambda: bytearray(b"a"),
    "memoryview": lambda: memoryview(b"a"), "thread's": threading.local,
    "variable": lambda: contextvars.ContextVar("v"), "decimal": lambda: decimal.Decimal(1),
    "long text": lambda: "a" * 200, "view": lambda: {}.keys(), "code": lambda: generated.__code__,
    "frozenset": lambda: frozenset([Plain()]), "file": io.StringIO, "dtype": lambda: dj.float32,
    "sparse": lambda: dj.eye(2).to_sparse(), "namespace": lambda: types.SimpleNamespace(a=1),
}  # fmt: skip

OPERATIONS = {
    "+": lambda x, v: x + v, "call": lambda x, v: v(x), "attribute": lambda x, v: v.unknown,
    "item": lambda x, v: v[x], "index": lambda x, v: x[v], "C": lambda x, v: sys.getrefcount(v),
    "function": lambda x, v: dj.add(x, v), "method": lambda x, v: x.sum(v),
    "key": lambda x, v: {v: 1}, "loop": lambda x, v: list(v),
    "kind": lambda x, v: isinstance(x, v), "id": lambda x, v: id(v), "text": lambda x, v: f"{v}",
    "write": lambda x, v: setattr(v, "a", 1), "data": lambda x, v: dj.tensor(v),
    "shape": lambda x, v: x.reshape(v),
}  # fmt: skip

INSIDES = re.compile(
    r"0x[0-9a-f]{4}|object at|Value\(|\w+Value\b|Opaque\b|Constant\(|Known\b|dynajit\.capture"
)


@pytest.mark.parametrize("made_inside", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_reason_shows_the_insides_of_the_compiler(operation, made_inside):
    apply = OPERATIONS[operation]
    reasons = []
    for name, make in OBJECTS.items():

        def function(x, given, make=make):
            return apply(x, make() if made_inside else given)

        try:
            dj.compile(function, fullgraph=True)(dj.ones(3), None if made_inside else make())
        except GraphBreakError as error:
            reasons.append((name, str(error).splitlines()[0]))
        except Exception:  # what the operation itself raises is not the question
            continue
    assert [] == [found for found in reasons if INSIDES.search(found[1])]
    assert reasons or operation in ("id", "key")
