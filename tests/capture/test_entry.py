"""The entry object behaves like the function it wraps and runs the first entry that fits."""

import copy
import functools
import gc
import inspect
import pickle
import sys
import traceback
import weakref

import pytest

from dynajit.capture import _capture
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import Local


def run_original(compiled, function, arguments):
    return None


def compiled(function, on_miss=run_original):
    return _capture.CompiledFunction(function, on_miss)


def guards(*facts):
    return compile_guards([Guard(Local(f"a{i}", i), kind, e) for i, kind, e in facts]).evaluator


def signatures():
    """Functions of every signature shape; each returns everything it received."""

    def nothing():
        return ()

    def plain(a, b):
        return (a, b)

    def defaults(a, b=2, c=3):
        return (a, b, c)

    def positional_only(a, b=2, /, c=3):
        return (a, b, c)

    def keyword_only(a, *, b, c=3):
        return (a, b, c)

    def star(a, *rest):
        return (a, rest)

    def double_star(a, **rest):
        return (a, rest)

    def mixed(a, /, b, c=3, *rest, d, e=5, **more):
        return (a, b, c, rest, d, e, more)

    def all_keywords(*rest, **more):
        return (rest, more)

    def many(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18,
             a19, a20, a21, a22, a23, a24, a25, a26, a27=27, *, k=1):  # fmt: skip
        return (a0, a26, a27, k)

    return [nothing, plain, defaults, positional_only, keyword_only, star, double_star, mixed,
            all_keywords, many]  # fmt: skip


CALLS = [
    ((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1, 2, 3, 4), {}), ((1,), {"b": 5}),
    ((), {"a": 1, "b": 2}), ((1,), {"c": 5}), ((1,), {"b": 2, "c": 4}), ((1, 2), {"d": 4}),
    ((1, 2, 3, 4, 5), {"d": 4, "z": 6}), ((1,), {"a": 1}), ((1,), {"zz": 1}),
    ((1,), {"c": 1, "c ": 2}),
    (tuple(range(27)), {}), (tuple(range(28)), {"k": 2}), (tuple(range(26)), {"a26": "x"}),
]  # fmt: skip


def outcome(callable_, args, kwargs):
    try:
        return callable_(*args, **kwargs)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("function", signatures(), ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["miss", "hit", "disabled"])
def test_every_call_gives_what_the_function_gives(function, mode):
    wrapper = compiled(function)
    if mode == "hit":
        wrapper.add_entry(guards(), function)
    wrapper.disabled = mode == "disabled"
    for args, kwargs in CALLS:
        assert outcome(function, args, kwargs) == outcome(wrapper, args, kwargs)


@pytest.mark.parametrize("function", signatures(), ids=lambda f: f.__name__)
def test_flat_arguments_are_those_of_inspect(function):
    wrapper = compiled(function)
    signature = inspect.signature(function)
    names = function.__code__.co_varnames
    for args, kwargs in CALLS:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            assert wrapper.bind(*args, **kwargs) is None
            continue
        bound.apply_defaults()
        expected = {name: bound.arguments[name] for name in names if name in bound.arguments}

        assert tuple(expected.values()) == wrapper.bind(*args, **kwargs)


def test_on_miss_gets_the_function_and_flat_arguments_and_chooses():
    met = []

    def function(a, b=2, *, k=3):
        return "original"

    def replacement(a, b=2, *, k=3):
        return ("replacement", a, b, k)

    def on_miss(wrapper, original, arguments):
        met.append((wrapper, original, arguments))
        return replacement

    wrapper = compiled(function, on_miss)

    assert ("replacement", 1, 2, 9) == wrapper(1, k=9)
    assert [(wrapper, function, (1, 2, 9))] == met


def test_defaults_are_read_at_the_call():
    def function(a, b=2, *, k=3):
        return (a, b, k)

    wrapper = compiled(function)
    wrapper.add_entry(guards(), lambda a, b=0, *, k=0: (a, b, k))
    assert (1, 2, 3) == wrapper(1)
    function.__defaults__ = (7,)
    function.__kwdefaults__["k"] = 8

    assert (1, 7, 8) == wrapper(1)


def test_an_error_in_on_miss_reaches_the_caller():
    def on_miss(wrapper, original, arguments):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        compiled(lambda a: a, on_miss)(1)


def test_a_wrong_answer_of_on_miss_is_refused():
    with pytest.raises(TypeError, match="Expected a function or None"):
        compiled(lambda a: a, lambda *_: 3)(1)


def test_the_entry_that_hit_last_is_tried_first():
    wrapper = compiled(lambda a0: "original")
    for number in range(5):
        wrapper.add_entry(
            guards((0, Kind.EQUALS, number)), lambda a0, number=number: number, number
        )
    assert [4, 3, 2, 1, 0] == [owner for owner, _ in wrapper.entries()]
    assert 1 == wrapper(1)
    assert 1 == wrapper(1)
    assert 3 == wrapper(3)
    assert "original" == wrapper(9)

    assert [(3, 1), (1, 2), (4, 0), (2, 0), (0, 0)] == wrapper.entries()
    assert (4, 3) == (wrapper.calls, wrapper.hits)
    assert wrapper.remove_entry(1)
    assert not wrapper.remove_entry(1)
    assert "original" == wrapper(1)
    wrapper.clear_entries()
    assert 0 == wrapper.entry_count


def test_it_binds_as_a_method():
    class Owner:
        def __init__(self, value):
            self.value = value

        @compiled
        def method(self, x, y=2):
            return (self.value, x, y)

        static = staticmethod(compiled(lambda x: x))
        klass = classmethod(compiled(lambda cls, x: (cls, x)))

    owner = Owner(5)
    assert (5, 1, 2) == owner.method(1)
    assert (5, 1, 3) == owner.method(1, y=3)
    assert (5, 1, 2) == Owner.method(owner, 1)
    bound = owner.method
    assert (5, 1, 2) == bound(1)
    assert 4 == owner.static(4)
    assert (Owner, 4) == owner.klass(4)
    assert owner is bound.__self__
    assert Owner.method is bound.__func__


def test_it_looks_like_the_function():
    def function(a: int, b=2) -> str:
        """What it does."""

    function.mark = 7
    wrapper = compiled(function)

    assert function is wrapper.__wrapped__
    assert "function" == wrapper.__name__
    assert function.__qualname__ == wrapper.__qualname__
    assert "What it does." == wrapper.__doc__
    assert __name__ == wrapper.__module__
    assert {"a": int, "return": str} == wrapper.__annotations__
    assert inspect.signature(function) == inspect.signature(wrapper)
    assert 7 == wrapper.mark
    wrapper.other = 8
    assert 8 == wrapper.other
    assert repr(wrapper).startswith("<compiled test_it_looks_like")
    assert callable(wrapper)


@compiled
def at_module_level(x):
    return x


def test_it_is_copied_by_name():
    assert at_module_level is copy.deepcopy(at_module_level)
    assert at_module_level is copy.copy(at_module_level)


def test_it_is_pickled_by_name(monkeypatch):
    module = type(sys)("pickled_module")
    exec("def f(x): return x", module.__dict__)
    module.f = compiled(module.f)
    monkeypatch.setitem(sys.modules, "pickled_module", module)

    assert module.f is pickle.loads(pickle.dumps(module.f))


def test_new_code_of_the_function_drops_the_entries():
    def function(a):
        return "old"

    def other(a, b):
        return ("new", a, b)

    wrapper = compiled(function)
    wrapper.add_entry(guards(), lambda a: "entry")
    assert "entry" == wrapper(1)
    function.__code__ = other.__code__

    assert ("new", 1, 2) == wrapper(1, 2)
    assert 0 == wrapper.entry_count


def test_only_python_functions_and_guards_are_accepted():
    with pytest.raises(TypeError):
        compiled(len)
    with pytest.raises(TypeError):
        compiled(lambda: 0).add_entry(None, lambda: 0)
    with pytest.raises(TypeError):
        compiled(lambda: 0).add_entry(guards(), 3)


def test_entries_die_with_it():
    class Owner:
        pass

    def make():
        def function(a0):
            return wrapper  # a cycle through the closure

        wrapper = compiled(function)
        owner = Owner()
        replacement = lambda a0: wrapper
        wrapper.add_entry(guards((0, Kind.TYPE_IS, Owner)), replacement, owner)
        wrapper.itself = wrapper
        return wrapper, [weakref.ref(o) for o in (wrapper, owner, function, replacement)]

    wrapper, references = make()
    gc.collect()
    assert None not in [reference() for reference in references]
    del wrapper
    gc.collect()

    assert [None] * 4 == [reference() for reference in references]


def test_it_may_lose_its_entries_while_one_runs():
    def function(a):
        return 0

    wrapper = compiled(function)

    def entry(a):
        wrapper.clear_entries()
        gc.collect()
        return "done"

    wrapper.add_entry(guards(), entry)
    del entry

    assert "done" == wrapper(1)


def test_without_on_miss_the_original_runs():
    wrapper = compiled(lambda a: a)
    del wrapper.on_miss

    assert 3 == wrapper(3)


def test_threads_share_it(side_by_side):
    wrapper = compiled(lambda a0: -1)
    for number in range(4):
        wrapper.add_entry(guards((0, Kind.EQUALS, number)), lambda a0, n=number: n, number)
    wrong = []

    def work(start):
        for i in range(2000):
            value = (start + i) % 4
            if wrapper(value) != value:
                wrong.append(value)

    side_by_side(*(functools.partial(work, k) for k in range(4)))

    assert [] == wrong
    assert 8000 == wrapper.hits


def test_recursion_reaches_the_usual_limit():
    def depth(n):
        return n if n == 0 else wrapper(n - 1)

    wrapper = compiled(depth)
    wrapper.add_entry(guards(), depth)

    assert 0 == wrapper(300)
    with pytest.raises(RecursionError):
        wrapper(10**6)


def test_tail_calls_are_made_one_after_the_other_at_one_depth():
    depths = []

    def step(n):
        depths.append(len(traceback.extract_stack()))
        return n if n == 0 else _capture.tail_call(again, n - 1)

    def original(n):
        raise AssertionError("the replacement runs")

    again = _capture.CompiledFunction(original, lambda *_: None)
    again.add_entry(compile_guards([]).evaluator, step)
    assert 0 == again(5000)
    assert 1 == len(set(depths))


def test_the_frame_in_front_of_a_tail_call_is_gone():
    class Local:
        """Takes a weak reference."""

    def rest(reference):
        return reference() is None

    def front():
        local = Local()
        return _capture.tail_call(rest, weakref.ref(local))

    def original():
        raise AssertionError("the replacement runs")

    compiled = _capture.CompiledFunction(original, lambda *_: None)
    compiled.add_entry(compile_guards([]).evaluator, front)
    assert compiled()


def test_an_error_in_a_tail_call_reaches_the_caller_and_leaves_nothing_behind():
    def rest(value):
        raise ValueError(value)

    value = object()
    references = sys.getrefcount(value)
    with pytest.raises(ValueError, match="object"):
        _capture.finish_tail_calls(_capture.tail_call(rest, value))
    gc.collect()
    assert references == sys.getrefcount(value)
    with pytest.raises(TypeError, match="what to call is missing"):
        _capture.tail_call()
