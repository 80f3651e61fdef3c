"""The cache behind a compiled function: one compile at a time, reasons, eviction, fallbacks."""

import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture import _capture
from dynajit.capture.entry import cache
from dynajit.capture.entry.cache import Callees, Published, cache_of, compiled_function, mark_skip
from dynajit.capture.execution import unrolled
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.relations import Relation, Term
from dynajit.capture.places.sources import Local
from dynajit.core.errors import InternalError
from dynajit.core.process import config
from dynajit.core.types.symint import symbol

X = Local("x", 0)


def specialise(function, arguments):
    """A compile that specialises on the value of x."""
    value = arguments[0]
    guards = (Guard(X, Kind.EQUALS, value, reason="branch condition"),)
    made = eval(f"lambda x: ('compiled', {value!r})", function.__globals__)
    return Published(guards, made, facts=f"facts {value}")


def make(compile=specialise):
    def function(x):
        return ("original", x)

    compiled = compiled_function(function, compile)
    return compiled, cache_of(compiled)


def test_a_miss_compiles_once_and_runs_the_entry():
    compiled, cache = make()

    assert [("compiled", 1)] * 3 == [compiled(1) for _ in range(3)]
    assert 1 == cache.compile_count
    assert (3, 2) == (compiled.calls, compiled.hits)
    (entry,) = cache.entries(compiled)
    assert (0, "facts 1") == (entry.number, entry.facts)
    assert {0: 2} == cache.hits(compiled)
    assert [] == cache.recompiles


def test_a_relation_to_a_number_of_more_than_64_bits_is_left_to_python():
    size = symbol("x", None)

    def compile(function, arguments):
        relation = Relation("<", size, 2**70, (Term("x", X, None),))
        return Published((Guard(X, Kind.RELATION, relation),), lambda x: ("compiled", x))

    compiled, cache = make(compile)
    assert [("original", 1)] * 2 == [compiled(1) for _ in range(2)]
    assert () == cache.entries(compiled)
    assert "64 bits" in cache.skips[0]


def test_a_recompile_says_which_guard_failed():
    compiled, cache = make()
    compiled(1)
    compiled(2)
    compiled(3)
    first, second = cache.recompiles

    assert 1 == first.number
    (failure,) = first.failures
    assert "x == 1" == failure.guard.expression()
    assert ("1", "2") == (failure.old, failure.new)
    assert "x: expected 1, now 2" == first.reason
    assert ["x: expected 2, now 3", "x: expected 1, now 3"] == [
        failure.explanation for failure in second.failures
    ]


def test_recompiles_are_logged(capsys):
    compiled, _ = make()
    with config.override(log=frozenset({"recompiles"})):
        compiled(1)
        compiled(2)

    assert "recompiles: make.<locals>.function: x: expected 1, now 2" in capsys.readouterr().err


def test_the_oldest_entry_is_evicted_with_one_warning():
    compiled, cache = make()
    with config.override(recompile_limit=2):
        compiled(1)
        compiled(2)
        with pytest.warns(RuntimeWarning, match="was compiled 2 times.*x: expected 2, now 3"):
            compiled(3)
        compiled(4)

    assert [3, 2] == [entry.number for entry in cache.entries(compiled)]
    assert 2 == cache.evicted_count


def test_a_permanent_skip_disables_the_entry_object():
    compiled, cache = make(lambda f, a: Published(permanent=True, reason="a generator"))

    assert ("original", 1) == compiled(1)
    assert ("original", 1) == compiled(1)
    assert compiled.disabled
    assert (1, ["a generator"]) == (cache.compile_count, cache.skips)
    cache.clear(compiled)
    assert not compiled.disabled


def test_a_passing_skip_is_tried_again_but_not_for_ever():
    compiled, cache = make(lambda f, a: Published(reason="no tensor"))
    with config.override(recompile_limit=3):
        for _ in range(10):
            assert ("original", 1) == compiled(1)

    assert 3 == cache.compile_count


def test_a_guard_that_does_not_hold_at_once_is_reported():
    wrong = lambda f, a: Published((Guard(X, Kind.EQUALS, "other"),), lambda x: "wrong")
    compiled, _ = make(wrong)
    with pytest.warns(RuntimeWarning, match="right after it was compiled"):
        assert ("original", 1) == compiled(1)
    assert ("original", 1) == compiled(1)

    compiled, _ = make(wrong)
    with config.override(strict=True), pytest.raises(InternalError, match="right after"):
        compiled(1)


@pytest.mark.parametrize("changes", [1, 2, 5])
def test_what_changes_while_it_is_compiled_is_compiled_again_and_then_left_alone(changes):
    pending = []

    def compile(function, arguments):
        guards = (Guard(X, Kind.LENGTH, len(pending)),)
        if len(pending) < changes:
            pending.append("from another thread")
        return Published(guards, lambda x: ("compiled", len(x)))

    compiled, cache = make(compile)
    with config.override(strict=True):
        expected = "compiled" if changes < 3 else "original"
        assert expected == compiled(pending)[0]
    assert 1 == cache.compile_count
    if changes == 5:
        (reason,) = cache.skips
        assert "changed meanwhile" in reason
        assert "x: expected length 2, now length 3" in reason
        assert ("compiled", 5) == compiled(pending)


def test_a_place_that_did_not_change_is_no_excuse_for_a_guard_that_does_not_hold():
    wanted = iter(range(10, 20))
    wrong = lambda f, a: Published((Guard(X, Kind.EQUALS, next(wanted)),), lambda x: "wrong")
    compiled, _ = make(wrong)

    with config.override(strict=True), pytest.raises(InternalError, match="expected 12, now 1"):
        compiled(1)


def test_an_error_of_the_compile_reaches_the_caller_and_the_lock_is_free():
    def fails(function, arguments):
        raise KeyError("compile")

    compiled, cache = make(fails)
    for _ in range(2):
        with pytest.raises(KeyError):
            compiled(1)
    cache.compile = specialise

    assert ("compiled", 1) == compiled(1)


def test_disable_runs_the_original():
    compiled, cache = make()
    with config.override(disable=True):
        assert ("original", 1) == compiled(1)

    assert 0 == cache.compile_count


def test_the_compiler_may_call_what_it_compiles():
    def calls_itself(function, arguments):
        assert ("original", 1) == compiled(1)
        return specialise(function, arguments)

    compiled, cache = make(calls_itself)

    assert ("compiled", 1) == compiled(1)
    assert 1 == cache.compile_count


def test_threads_compile_one_version_once():
    def slow(function, arguments):
        time.sleep(0.02)
        return specialise(function, arguments)

    compiled, cache = make(slow)
    results = []
    threads = [threading.Thread(target=lambda: results.append(compiled(1))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [("compiled", 1)] * 6 == results
    assert 1 == cache.compile_count


def test_the_cache_dies_with_the_function():
    compiled, cache = make()
    compiled(1)
    references = [weakref.ref(o) for o in (compiled, cache.entries(compiled)[0].function)]
    del compiled, cache
    gc.collect()

    assert [None, None] == [reference() for reference in references]


def test_only_compiled_functions_with_a_cache_have_one():
    bare = _capture.CompiledFunction(lambda: 0, [].append)
    with pytest.raises(InternalError, match="has no FunctionCache"):
        cache_of(bare)
    with pytest.raises(TypeError):
        compiled_function(len, specialise)


def test_callees_are_made_once_per_code_and_the_rest_is_skipped():
    made = []

    def leaf(x):
        return ("original", x)

    def library(x):
        return leaf(x)

    def choose(function):
        if function.__code__ is not leaf.__code__:
            return None
        made.append(function)
        return compiled_function(function, specialise, callees)

    callees = Callees(choose)
    _capture.hook_enter(callees)
    try:
        results = [library(1), library(1), library(2)]
    finally:
        _capture.hook_leave()

    assert [("compiled", 1), ("compiled", 1), ("compiled", 2)] == results
    assert [leaf.__code__] == [function.__code__ for function in made]
    assert _capture.is_skipped(library.__code__)
    assert callees(leaf, (1,)) is callees.functions[leaf.__code__]


def test_callees_do_not_keep_closures_alive():
    class Value:
        pass

    def make_leaf(value):
        def leaf(x):
            return (value, x)

        return leaf

    def replace(function, arguments):
        scope = {}
        exec(
            "def outer(value):\n def leaf(x):\n  y = 'new'\n  return (value, x, y)\n return leaf",
            scope,
        )
        made = type(function)(
            scope["outer"](0).__code__, function.__globals__, "leaf", None, function.__closure__
        )
        return Published((), made)

    callees = Callees(lambda function: compiled_function(function, replace))
    first, second = Value(), Value()
    reference = weakref.ref(first)
    _capture.mark_skip(make_leaf.__code__)
    _capture.hook_enter(callees)
    try:
        assert (first, 1, "new") == make_leaf(first)(1)
        assert (second, 2, "new") == make_leaf(second)(2)
    finally:
        _capture.hook_leave()
    del first
    gc.collect()

    assert reference() is None


def test_mark_skip_takes_functions():
    function = lambda: 0
    mark_skip([function])

    assert _capture.is_skipped(function.__code__)


def test_reference_counts_of_arguments_are_balanced_over_compiles():
    compiled, _ = make()
    argument = "some text that nobody else holds " + str(time.time())
    before = sys.getrefcount(argument)
    compiled(argument)
    during = sys.getrefcount(argument)
    compiled.clear_entries()
    cache_of(compiled).recompiles.clear()
    gc.collect()

    assert during > before == sys.getrefcount(argument)


def test_what_is_noted_of_versions_has_a_bound(monkeypatch) -> None:
    """Of calls with a new class each time only the last ones are remembered."""
    monkeypatch.setattr(cache, "MOST_NOTED", 5)
    known = cache.FunctionCache("f", lambda *call: cache.Published(reason="no"))
    for number in range(20):
        known._note_recompile(cache.Recompile(number, ()))

    assert [15, 16, 17, 18, 19] == [recompile.number for recompile in known.recompiles]


def test_a_function_that_gives_nothing_to_run_is_left_alone_after_as_many_tries(
    monkeypatch,
) -> None:
    monkeypatch.setattr(cache, "MOST_NOTED", 2)
    compiled = cache.compiled_function(
        lambda x: x, lambda *call: cache.Published(reason=f"no {call[1]}")
    )
    with config.override(recompile_limit=4):
        for number in range(6):
            assert number == compiled(number)

    assert ["no (2,)", "no (3,)"] == cache.cache_of(compiled).skips
    assert compiled.disabled


def test_after_as_many_captures_in_vain_versions_serve_and_none_is_made():
    tried = []

    def only_of_two(function, arguments):
        tried.append(arguments)
        if arguments[0] == 2:
            return specialise(function, arguments)
        return Published(reason=f"no {arguments[0]}")

    with config.override(recompile_limit=3):
        compiled, _ = make(only_of_two)
        assert compiled(2) == ("compiled", 2)
        for number in range(3, 20):
            assert compiled(number) == ("original", number)
        assert compiled(2) == ("compiled", 2)
    assert [(2,), (3,), (4,), (5,)] == tried
    assert not compiled.disabled


def test_nobody_asks_for_ever_whether_a_version_fits(monkeypatch):
    monkeypatch.setattr(unrolled, "MOST_OF_ARRAYS", unrolled.MOST_OF_LAYERS)
    asked, on_miss = [], cache.FunctionCache.on_miss
    monkeypatch.setattr(
        cache.FunctionCache,
        "on_miss",
        lambda self, *given: asked.append(self.name) or on_miss(self, *given),
    )

    def escapes(x, y, **none):  # which no nest has
        z, c = 0.0j, complex(x, y)
        for i in range(8):
            z = z * z + c
            if abs(z) > 2:
                return i
        return 8

    def count(image):
        for x in range(image.shape[1]):
            for y in range(image.shape[0]):
                image[y, x] = escapes(x / 8 - 1.5, y / 9 - 1)
        return image

    compiled = dj.compile(count)
    expected = count(np.zeros((18, 20), np.uint8))
    for _ in range(3):
        assert np.array_equal(expected, compiled(np.zeros((18, 20), np.uint8)))

    assert 0 < sum("escapes" in name for name in asked) < 120
