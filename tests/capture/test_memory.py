"""Nothing leaks over many calls: hits, misses, failing calls, snapshots, replaced frames."""

import contextlib
import gc
import resource
import sys
import weakref

import numpy as np
import pytest

from dynajit.capture import _capture
from dynajit.capture.guards.facts import TensorFacts
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import Attribute, Key, Local
from dynajit.eager import _tensor

CALLS = 100_000
# one leaked reference-counted object per call would be at least 16 bytes
LEAK_BYTES = CALLS * 16


class Tensor(_tensor.TensorBase):
    """The C layout without the methods."""


class Module:
    def __init__(self):
        self._parameters = {"weight": Tensor(np.zeros((2, 2), np.float32))}
        self.step = 0


def resident_bytes():
    """Bytes of this process in memory now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def growth_of(work, calls=CALLS):
    """Bytes that many runs of `work` add, after a warm-up."""
    for _ in range(CALLS // 10):
        work()
    gc.collect()
    before = resident_bytes()
    for _ in range(calls):
        work()
    gc.collect()
    return resident_bytes() - before


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_hits_with_tensors_do_not_grow():
    x, y = (Tensor(np.zeros((2, 3), np.float32)) for _ in range(2))
    compiled = _capture.CompiledFunction(lambda x, y: None, lambda *_: None)
    facts = TensorFacts.of(x)
    guards = [Guard(Local(n, i), Kind.TENSOR, facts) for i, n in enumerate("xy")]
    compiled.add_entry(compile_guards(guards).evaluator, lambda x, y: x)

    assert growth_of(lambda: compiled(x, y), 1_000_000) < LEAK_BYTES
    assert compiled.hits == compiled.calls


def test_calls_of_every_signature_do_not_grow():
    def function(a, b=2, *rest, k=3, **more):
        return a

    compiled = _capture.CompiledFunction(function, lambda *_: None)

    def work():
        compiled(1)
        compiled(1, 2, 3, 4, k=5, z=6)
        compiled(b=1, a=2)
        with contextlib.suppress(TypeError):
            compiled()
        compiled.bind(1, 2, 3, z=4)

    assert growth_of(work) < LEAK_BYTES


def test_a_model_with_a_changing_counter_does_not_grow():
    module = Module()
    place = Key(Attribute(Local("self", 0), "_parameters"), "weight")
    guards = compile_guards(
        [
            Guard(place, Kind.TENSOR, TensorFacts.of(module._parameters["weight"])),
            Guard(Local("self", 0), Kind.IDENTITY, module),
        ]
    )
    compiled = _capture.CompiledFunction(lambda self: None, lambda *_: None)
    compiled.add_entry(guards.evaluator, lambda self: 1)

    def work():
        module.step += 1
        module._parameters["other"] = module.step
        compiled(module)
        guards.evaluator.first_failure((place,), work)

    assert growth_of(work) < LEAK_BYTES
    assert compiled.hits == compiled.calls


def test_replaced_frames_do_not_grow():
    def function(a, *rest, **more):
        return a

    def replacement(a, *rest, **more):
        extra = a
        if more:
            raise ValueError(extra)
        return extra

    compiled = _capture.CompiledFunction(function, lambda *_: None)
    compiled.add_entry(compile_guards([]).evaluator, replacement)

    def work():
        function(1, 2, 3)
        with contextlib.suppress(ValueError):
            function(1, z=2)

    _capture.mark_skip(work.__code__)
    _capture.hook_enter(lambda function, arguments: None)
    try:
        assert growth_of(work) < LEAK_BYTES
    finally:
        _capture.hook_leave()
    assert compiled.hits == compiled.calls > 0


def test_objects_made_and_dropped_do_not_grow():
    def work():
        compiled = _capture.CompiledFunction(lambda a: a, lambda *_: None)
        guards = [
            Guard(Local("a", 0), Kind.EQUALS, (1, "a", 2.5)),
            Guard(Local("a", 0), Kind.LENGTH, 3),
        ]
        compiled.add_entry(compile_guards(guards).evaluator, lambda a: a, guards)
        compiled((1, "a", 2.5))
        compiled.cycle = compiled

    for _ in range(3000):  # until the collector comes, so many need room
        work()
    gc.collect()
    before = resident_bytes()
    for _ in range(3000):
        work()
    gc.collect()

    assert resident_bytes() - before < 3000 * 64


def test_arguments_are_released_after_the_call():
    class Value:
        pass

    compiled = _capture.CompiledFunction(lambda a, *rest, **more: None, lambda *_: None)
    value = Value()
    reference = weakref.ref(value)
    compiled(value, value, value, k=value)
    del value

    assert reference() is None
