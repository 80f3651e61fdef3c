"""A compiled function that is dropped leaves nothing behind: entries, guards, code, programs."""

import gc
import linecache
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.capture.entry import cache

KEPT = ("CompiledFunction", "Guards", "Entry", "FunctionCache", "Callees", "Body", "Resume",
        "CompiledGuards", "Guard", "Graph", "NumpyProgram", "Launch", "Compiler", "function",
        "cell")  # fmt: skip


def straight() -> Any:
    def f(x: Any) -> Any:
        return x * 2 + 1

    return f


def broken() -> Any:
    def f(x: Any) -> Any:
        y = x + 1
        dj.graph_break()
        return y * 3

    return f


def looping() -> Any:
    def f(x: Any) -> Any:
        for i in range(3):
            x = x + i
            dj.graph_break()
        return x

    return f


def looping_inside() -> Any:
    def inner(x: Any) -> Any:
        while x.sum().item() < 100:
            x = x * 2
        return x

    def f(x: Any) -> Any:
        return inner(x) + 1

    return f


def ended_by_a_tensor() -> Any:
    def f(x: Any) -> Any:
        seen = []
        while x.sum() < 100:
            x = x * 2
        for _ in range(30):
            x = x * 0.5
            seen.append(x)
        return seen

    return f


def recursive() -> Any:
    def f(x: Any, depth: int = 2) -> Any:
        if not depth:
            return x
        dj.graph_break()
        return f(x + 1, depth - 1)

    return f


def generating() -> Any:
    def numbers(n: int) -> Any:
        yield from range(n)

    def f(x: Any) -> Any:
        for i in numbers(3):
            x = x + i
            dj.graph_break()
        return x

    return f


def in_a_module() -> Any:
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())


def in_a_class() -> Any:
    class Owner:
        def method(self, x: Any) -> Any:
            for _ in range(2):
                x = x + type(self).__name__.count("O")
                dj.graph_break()
            return x, Owner()

    Owner.method = dj.compile(Owner.method, backend="numpy")  # type: ignore[method-assign]
    return Owner().method


MAKERS = [straight, broken, looping, looping_inside, ended_by_a_tensor, recursive, generating,
          in_a_module, in_a_class]  # fmt: skip


def compile_and_drop(make: Callable[[], Any]) -> None:
    made = make()
    compiled = made if make is in_a_class else dj.compile(made, backend="numpy")
    x = dj.ones(2, 2)
    compiled(x)
    compiled(x)


def living() -> Counter[str]:
    gc.collect()
    gc.collect()
    return Counter(type(o).__name__ for o in gc.get_objects() if type(o).__name__ in KEPT)


@pytest.mark.parametrize("make", MAKERS, ids=[make.__name__ for make in MAKERS])
def test_nothing_grows_when_functions_come_and_go(make: Callable[[], Any]) -> None:
    """After some rounds, as many rounds more leave no object of any kind behind."""
    rounds = 8
    for _ in range(rounds):
        compile_and_drop(make)
    before, lines, modules = living(), set(linecache.cache), len(sys.modules)
    for _ in range(rounds):
        compile_and_drop(make)
    grown = living()
    grown.subtract(before)

    assert {} == {name: count for name, count in grown.items() if count >= rounds // 2}
    assert lines == set(linecache.cache)
    assert modules == len(sys.modules)


@pytest.mark.parametrize("make", MAKERS, ids=[make.__name__ for make in MAKERS])
def test_no_memory_block_stays(make: Callable[[], Any], blocks: Callable[[], int]) -> None:
    """Also what the garbage collector does not know: strings, code, references of C."""
    rounds = 10
    for _ in range(rounds):
        compile_and_drop(make)
    before = blocks()
    for _ in range(rounds):
        compile_and_drop(make)

    assert blocks() - before < rounds // 2


def test_the_code_of_a_loop_that_breaks_dies_with_the_function() -> None:
    """The rest of a loop calls itself: the code refers to the object that owns it."""
    compiled = dj.compile(looping(), backend="numpy")
    compiled(dj.ones(2))
    codes = [entry.function.__code__ for entry in cache.cache_of(compiled).entries(compiled)]
    rests = [const for code in codes for const in code.co_consts if type(const) is type(compiled)]
    codes += [entry.function.__code__ for rest in rests
              for entry in cache.cache_of(rest).entries(rest)]  # fmt: skip
    dead = [weakref.ref(item) for item in (compiled, *rests, *codes)]
    assert rests
    del compiled, codes, rests
    gc.collect()

    assert {None} == {reference() for reference in dead}


def test_collections_do_not_touch_code_that_runs() -> None:
    """A loop whose function is dropped while it runs, with a collection in every turn."""

    def f(x: Any) -> Any:
        for i in range(5):
            x = x + i
            gc.collect()
        return x

    holder = [dj.compile(f, backend="numpy")]
    expected = f(dj.ones(2)).tolist()
    assert expected == holder[0](dj.ones(2)).tolist()
    assert expected == holder.pop()(dj.ones(2)).tolist()


def test_a_collection_leaves_functions_that_others_hold() -> None:
    """The replacement of a dropped function, held by itself, can still be called."""
    compiled = dj.compile(looping(), backend="numpy")
    x = dj.ones(2)
    expected = compiled(x).tolist()
    (entry,) = cache.cache_of(compiled).entries(compiled)
    replacement: FunctionType = entry.function
    function = weakref.ref(compiled)
    del compiled, entry
    gc.collect()

    assert function() is None
    assert expected == cache._capture.finish_tail_calls(replacement(x)).tolist()


def test_reasons_of_breaks_are_kept_once() -> None:
    """However often functions are compiled that break at the same line."""
    dj.reset()
    for _ in range(4):
        compile_and_drop(broken)
    reasons = dj.compile_stats()["reasons"]

    assert len(reasons) == 4
    assert len({id(reason) for reason in reasons}) == 1
    dj.reset()


class Held:
    """An argument whose end is watched."""

    number = 1.0


def catches_from_a_callee(held: Held) -> float:
    """An exception leaves a call that was inlined."""

    def callee() -> None:
        raise ValueError

    try:
        try:
            callee()
        finally:
            len([held])
    except ValueError:
        return held.number
    return 0.0


def closes_a_generator(held: Held) -> float:
    """A generator is closed while it waits."""

    def generator() -> Any:
        try:
            yield held.number
        finally:
            pass

    made = generator()
    found = next(made)
    made.close()
    return float(found)


@pytest.mark.parametrize("function", [catches_from_a_callee, closes_a_generator])
def test_compiling_leaves_no_cycle_that_holds_arguments(function: Callable[..., Any]) -> None:
    compiled = dj.compile(function, backend="numpy")
    gc.collect()
    gc.disable()
    try:
        held = Held()
        reference = weakref.ref(held)
        compiled(held)
        del held
        assert reference() is None
    finally:
        gc.enable()
