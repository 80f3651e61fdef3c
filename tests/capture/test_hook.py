"""The scoped frame hook: frames are replaced in place, and nothing else changes."""

import asyncio
import gc
import inspect
import sys
import threading
import traceback
import weakref

import pytest

from dynajit.capture import _capture
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import Closure, Function, Item, Local


class Scope:
    """`with Scope({function: replacement}) as scope:` replaces frames of those functions."""

    def __init__(self, replacements, is_scoped=True, guards=()):
        self.replacements = {f.__code__: r for f, r in replacements.items()}
        self.guards = guards
        self.is_scoped = is_scoped
        self.met = []
        self.made = []

    def __call__(self, function, arguments):
        self.met.append(function.__name__)
        replacement = self.replacements.get(function.__code__)
        if replacement is None:
            _capture.mark_skip(function.__code__)
            return None
        made = _capture.CompiledFunction(function, lambda *_: None, self)
        made.add_entry(compile_guards(self.guards).evaluator, replacement, None, self.is_scoped)
        self.made.append(made)
        return made

    def __enter__(self):
        _capture.hook_enter(self)
        return self

    def __exit__(self, *exception):
        _capture.hook_leave()


def wider(function):
    """A replacement that says so and needs a larger frame than the original."""
    code = function.__code__
    filler = compile(
        "def f():\n extra1 = extra2 = extra3 = 0\n return 'x', (1, (2, (3, (4, 5))))", "<x>", "exec"
    ).co_consts[0]
    return type(function)(
        code.replace(co_stacksize=code.co_stacksize + filler.co_stacksize + 6),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def signatures():
    """(function, replacement, calls): the replacement tags what the function returns."""

    def plain(a, b=2):
        return (a, b)

    def plain_(a, b=2):
        extra = "new"
        return (extra, a, b)

    def keyword(a, *, k=3):
        return (a, k)

    def keyword_(a, *, k=3):
        extra = "new"
        return (extra, a, k)

    def star(a, *rest, k=1, **more):
        return (a, rest, k, more)

    def star_(a, *rest, k=1, **more):
        x = y = z = "new"
        return (x, a, rest, k, more) if y is z else None

    def cell(a, b=2):
        return [a for _ in range(1) if (lambda: a)() == a], b

    def cell_(a, b=2):
        extra = "new"
        return [a for _ in range(1) if (lambda: a)() == a and extra], b, extra

    yield plain, plain_, [((1,), {}), ((1, 5), {}), ((), {"a": 1, "b": 3})]
    yield keyword, keyword_, [((1,), {}), ((1,), {"k": 9})]
    yield star, star_, [((1,), {}), ((1, 2, 3), {"k": 4, "z": 5}), ((), {"a": 1})]
    yield cell, cell_, [((1,), {}), ((1, 7), {})]


@pytest.mark.parametrize("index", range(4))
def test_arguments_of_every_kind_reach_the_replacement(index):
    function, replacement, calls = list(signatures())[index]

    def outer():
        return [function(*args, **kwargs) for args, kwargs in calls]

    with Scope({function: replacement}):
        replaced = outer()

    assert [replacement(*args, **kwargs) for args, kwargs in calls] == replaced
    assert [function(*args, **kwargs) for args, kwargs in calls] == outer()


def test_the_hook_is_installed_only_inside_a_scope():
    assert (None, False) == _capture.hook_state()
    scope = Scope({})
    with scope:
        assert (scope, True) == _capture.hook_state()
        _capture.hook_enter(None)
        assert (None, False) == _capture.hook_state()
        _capture.hook_leave()
        assert (scope, True) == _capture.hook_state()
    assert (None, False) == _capture.hook_state()
    with pytest.raises(RuntimeError, match="without hook_enter"):
        _capture.hook_leave()


def test_closures_keep_their_own_cells():
    def make(value):
        def inner(x):
            return (value, x)

        return inner

    def make_new(value):
        def inner(x):
            extra = "new"
            return (extra, value, x)

        return inner

    first, second = make(1), make(2)
    with Scope({first: make_new(None)}):
        results = first(0), second(0)

    assert (("new", 1, 0), ("new", 2, 0)) == results


def test_on_miss_gets_the_closure_that_runs():
    met = []

    def make(value):
        def inner():
            return value

        return inner

    first, second = make(1), make(2)
    compiled = _capture.CompiledFunction(first, lambda c, f, a: met.append(f))
    compiled.add_entry(
        compile_guards([Guard(Closure(Function(), 0), Kind.EQUALS, 1)]).evaluator, make(1)
    )
    _capture.hook_enter(lambda function, arguments: None)
    try:
        results = first(), second()
    finally:
        _capture.hook_leave()

    assert (1, 2) == results
    assert [second] == met


def test_guards_choose_per_frame():
    def function(a):
        return ("original", a)

    def small(a):
        return ("small", a)

    compiled = _capture.CompiledFunction(function, lambda *_: None)
    compiled.add_entry(compile_guards([Guard(Local("a", 0), Kind.EQUALS, 1)]).evaluator, small)

    def outer():
        return function(1), function(2)

    with Scope({}):
        results = outer()

    assert (("small", 1), ("original", 2)) == results
    assert (2, 1) == (compiled.calls, compiled.hits)


def test_super_and_class_cells_work():
    class Base:
        def name(self):
            return "base"

    class Derived(Base):
        def name(self):
            return "derived of " + super().name()

    with Scope({Derived.name: wider(Derived.name)}) as scope:
        result = Derived().name()

    assert "derived of base" == result
    assert "name" in scope.met


def test_an_exception_has_the_lines_of_the_replacement():
    def fails(a):
        raise ValueError("original")

    def fails_(a):
        extra = 1
        raise ValueError("new", extra)

    def outer():
        return fails(1)

    with Scope({fails: fails_}), pytest.raises(ValueError, match="new") as caught:
        outer()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]

    assert "fails_" == last.name
    assert inspect.getsourcelines(fails_)[1] + 2 == last.lineno


def test_an_exception_is_caught_in_the_replacement():
    def function(a):
        return None

    def replacement(a):
        try:
            return 1 / a
        except ZeroDivisionError as error:
            return ("caught", str(error))

    with Scope({function: replacement}):
        result = function(0)

    assert ("caught", "division by zero") == result


def test_frames_that_escape_stay_valid():
    def function(a):
        return None

    def replacement(a):
        local = [a]
        return sys._getframe(), local

    with Scope({function: replacement}):
        frame, local = function(5)

    assert replacement.__code__ is frame.f_code
    assert {"a": 5, "local": local} == dict(frame.f_locals)


def test_an_error_in_the_callback_reaches_the_caller():
    def function(a):
        return a

    def callback(function, arguments):
        raise LookupError("callback")

    def outer():
        try:
            return function(1)
        except LookupError as error:
            return str(error)

    _capture.mark_skip(outer.__code__)
    _capture.hook_enter(callback)
    try:
        result = outer()
    finally:
        _capture.hook_enter(None)
        _capture.hook_leave()
        _capture.hook_leave()

    assert "callback" == result


def test_a_wrong_answer_of_the_callback_is_refused():
    def function():
        return 1

    _capture.hook_enter(lambda function, arguments: 3)
    try:
        with pytest.raises(TypeError, match="Expected a CompiledFunction or None"):
            function()
    finally:
        _capture.hook_enter(None)
        _capture.hook_leave()
        _capture.hook_leave()


def test_generators_and_coroutines_run_untouched():
    def generator(n):
        try:
            for i in range(n):
                sent = yield i
                if sent:
                    yield sent
        except KeyError:
            yield "thrown"

    async def coroutine(n):
        await asyncio.sleep(0)
        return n

    async def asynchronous(n):
        for i in range(n):
            yield i

    async def main():
        return [i async for i in asynchronous(3)], await coroutine(4)

    with Scope({}) as scope:
        items = list(generator(3))
        running = generator(3)
        stepped = next(running), running.send("s"), running.throw(KeyError)
        running.close()
        finished = asyncio.run(main())

    assert [0, 1, 2] == items
    assert (0, "s", "thrown") == stepped
    assert ([0, 1, 2], 4) == finished
    assert not {"generator", "coroutine", "asynchronous", "main"} & set(scope.met)


def test_class_bodies_and_exec_run_untouched():
    with Scope({}):

        class Made:
            x = tuple(i + 1 for i in range(3))

        scope = {}
        exec("y = tuple([i + 1 for i in range(3)])", scope)

    assert (1, 2, 3) == Made.x == scope["y"]


def test_recursion_is_replaced_at_every_depth():
    def count(n):
        return 0 if n == 0 else 1 + count(n - 1)

    new = wider(count)
    with Scope({count: new}) as scope:
        result = count(200)

    assert 200 == result
    assert 201 == scope.made[0].calls


def test_the_recursion_limit_is_the_usual_one():
    def depth(n):
        try:
            return depth(n + 1)
        except RecursionError:
            return n

    without = depth(0)
    with Scope({}):
        with_hook = depth(0)

    assert abs(without - with_hook) < 40


def test_a_recursion_without_end_is_an_error_and_not_a_crash():
    def depth(n):
        return depth(n + 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with Scope({depth: wider(depth)}), pytest.raises(RecursionError):
            depth(0)
    finally:
        sys.setrecursionlimit(limit)


def test_large_frames_at_any_depth_give_the_right_result():
    names = ", ".join(f"v{i}" for i in range(300))
    scope = {}
    exec(f"def deep(n):\n    return 0 if n == 0 else 1 + deep(n - 1)\n"
         f"def large(n):\n    {names.replace(', ', ' = ')} = n\n"
         f"    return 0 if v0 == 0 else 1 + deep(v299 - 1)\n", scope)  # fmt: skip
    deep, large = scope["deep"], scope["large"]
    with Scope({deep: large}):
        result = deep(300)

    assert 300 == result


def test_different_signatures_are_not_swapped():
    def function(a):
        return ("original", a)

    def other(a, b=None):
        return ("other", a)

    with Scope({function: other}):
        result = function(1)

    assert ("original", 1) == result


def test_frames_below_an_unscoped_entry_are_not_shown():
    def leaf():
        return 1

    def middle():
        return leaf()

    def middle_():
        extra = leaf()
        return extra

    with Scope({middle: middle_}, is_scoped=False) as unscoped:
        middle()
    with Scope({middle: middle_}, is_scoped=True) as scoped:
        _capture.hook_leave()
        _capture.hook_enter(scoped)
        middle()

    assert "leaf" not in unscoped.met


def test_a_scoped_entry_installs_the_hook_for_its_call():
    def leaf():
        return "original"

    def leaf_():
        extra = "replaced"
        return extra

    def function():
        return leaf()

    scope = Scope({leaf: leaf_})
    compiled = _capture.CompiledFunction(function, lambda *_: None, scope)
    evaluator = compile_guards([]).evaluator
    compiled.add_entry(evaluator, function, 0, True)
    assert "replaced" == compiled()
    assert (None, False) == _capture.hook_state()
    compiled.clear_entries()
    compiled.add_entry(evaluator, function, 0, False)
    assert "original" == compiled()


def test_the_hook_is_off_while_on_miss_runs():
    states = []

    def function():
        return 1

    def on_miss(compiled, original, arguments):
        states.append(_capture.hook_state())

    compiled = _capture.CompiledFunction(function, on_miss)
    with Scope({}):
        compiled()
        function()

    assert [(None, False)] * 2 == states


def test_on_miss_is_asked_once_for_a_call_that_runs_the_original():
    asked = []

    def function():
        return 1

    compiled = _capture.CompiledFunction(function, lambda *_: asked.append(1))
    with Scope({}):
        compiled()

    assert [1] == asked


def test_tracing_sees_the_original():
    events = []

    def function():
        return 1

    def replacement():
        extra = 2
        return extra

    def trace(frame, event, argument):
        if frame.f_code.co_name in ("function", "replacement"):
            events.append(frame.f_code.co_name)
        return None

    before = sys.gettrace()
    with Scope({function: replacement}):
        sys.settrace(trace)
        try:
            result = function()
        finally:
            sys.settrace(before)

    assert 1 == result
    assert ["function"] == events


def test_each_thread_has_its_own_scope(side_by_side):
    def function():
        return "original"

    def replacement():
        extra = "new"
        return extra

    results = []
    barrier = threading.Barrier(2)

    def inside():
        with Scope({function: replacement}):
            barrier.wait()
            results.append(("inside", {function() for _ in range(60)}))
            barrier.wait()

    def outside():
        barrier.wait()
        results.append(("outside", {function() for _ in range(60)}))
        barrier.wait()

    side_by_side(inside, outside)

    assert [("inside", {"new"}), ("outside", {"original"})] == sorted(results)
    assert (None, False) == _capture.hook_state()


def test_references_are_balanced():
    class Value:
        pass

    def function(a, *rest, **more):
        return a

    def replacement(a, *rest, **more):
        extra = a
        return extra

    value = Value()
    with Scope({function: replacement}):
        function(value)
        before = [sys.getrefcount(o) for o in (value, function.__code__, replacement.__code__)]
        for _ in range(100):
            function(value, value, z=value)
        after = [sys.getrefcount(o) for o in (value, function.__code__, replacement.__code__)]

    assert before == after


def test_code_that_dies_takes_nothing_with_it():
    scope = {}
    exec("def f(): return 1", scope)
    compiled = _capture.CompiledFunction(scope["f"], lambda *_: None)
    assert compiled is _capture.cached_function(scope["f"].__code__)
    reference = weakref.ref(compiled)
    function = scope.pop("f")
    del compiled
    gc.collect()

    assert reference() is None
    assert _capture.cached_function(function.__code__) is None
    _capture.mark_skip(function.__code__)
    assert _capture.is_skipped(function.__code__)
    assert _capture.cached_function(function.__code__) is None
    with pytest.raises(TypeError):
        _capture.mark_skip(function)


def test_cell_contents_reads_a_cell():
    def outer(value):
        return lambda: value

    cell = outer(5).__closure__[0]
    assert 5 == _capture.cell_contents(cell)
    del cell.cell_contents
    assert NotImplemented is _capture.cell_contents(cell)
    with pytest.raises(TypeError):
        _capture.cell_contents(5)


@pytest.mark.parametrize("is_slower", [True, False])
def test_what_is_slower_than_the_original_is_given_up(is_slower):
    """Frames on trial run in turns as they are and as they were compiled."""
    ran = []

    def original(x):
        ran.append("original")
        return x if is_slower else sum(range(3000)) - sum(range(3000)) + x

    def replacement(x):
        ran.append("compiled")
        return sum(range(3000)) - sum(range(3000)) + x if is_slower else x

    original.__code__ = original.__code__.replace()  # that no other test has met
    with Scope({original: replacement}) as scope:
        for number in range(200):
            assert number == original(number)
    (made,) = scope.made
    assert is_slower == made.is_slower == made.disabled
    assert 8 == ran[64:80].count("original")
    assert {"original" if is_slower else "compiled"} == {*ran[80:]}

    made.clear_entries()
    assert not made.is_slower


@pytest.mark.parametrize("heavy", [0, 1])
def test_calls_of_two_kinds_in_turns_are_run_both_ways(heavy):
    """What is as fast compiled is kept, whichever calls do more."""

    def original(x):
        return sum(range(3000 if x % 2 == heavy else 3))

    def replacement(x):
        return sum(range(3000 if x % 2 == heavy else 3))

    original.__code__ = original.__code__.replace()  # that no other test has met
    with Scope({original: replacement}) as scope:
        for number in range(100):
            original(number)
    (made,) = scope.made
    assert not made.is_slower


def test_guards_that_cost_more_than_the_original_are_given_up():
    def original(x):
        return len(x)

    def replacement(x):
        return len(x)

    original.__code__ = original.__code__.replace()  # that no other test has met
    place = Local("x", 0)
    guards = [Guard(Item(place, i), Kind.TYPE_IS, int) for i in range(3000)]
    with Scope({original: replacement}, guards=guards) as scope:
        for _ in range(100):
            assert 3000 == original((1,) * 3000)
    (made,) = scope.made
    assert made.is_slower


def test_what_is_slow_only_when_it_runs_plainly_for_the_first_time_is_given_up():
    ran = []

    def original(x):
        ran.append("original")
        return sum(range(300_000)) * 0 + x if ran.count("original") == 1 else x

    def replacement(x):
        ran.append("compiled")
        return sum(range(3000)) - sum(range(3000)) + x

    original.__code__ = original.__code__.replace()  # that no other test has met
    with Scope({original: replacement}) as scope:
        for number in range(100):
            assert number == original(number)
    (made,) = scope.made
    assert made.is_slower
