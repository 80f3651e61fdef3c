"""Resume functions and breaks: every instruction of a function can be the breaking one.

The strongest check of `emit`, `breaking` and `resume` together: a function runs one instruction
at a time, each as the break of a region that captured nothing, continued in a resume function.
"""

import sys
import traceback
from dataclasses import dataclass
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

import pytest

from dynajit.capture import _capture, breaks
from dynajit.capture.bytecode.instructions import decode
from dynajit.capture.bytecode.resume import Home, Spot, entry, resume
from dynajit.capture.emit.emit import emit
from dynajit.capture.places import sources
from dynajit.capture.region.region import Break, Region
from dynajit.capture.values.objects import HandledException
from dynajit.core.location import Location

ASKED = breaks.BreakRecord(breaks.REQUESTED, "", Location(__file__, 1, "f"))


@dataclass(frozen=True, eq=False)
class Held:
    """A value that is wherever its source says."""

    source: Any
    object_id: int | None = None


@dataclass(frozen=True, eq=False)
class MadeCell:
    """A cell of the function's own, with the value of a parameter in it or empty."""

    source: Any
    object_id: int | None = None


def rebuild(value, emitter):
    if isinstance(value, Held):
        emitter.load_source(value.source)
        return
    contents = [] if value.source is None else [lambda: emitter.load_source(value.source)]
    emitter.call(CellType, *contents)


def region(end):
    graph = SimpleNamespace(outputs=())
    return Region("test", graph, (), (), (), (), end, rebuild)


class Stepper:
    """Runs a function with a break at every instruction, as far as resume functions reach."""

    def __init__(self, function):
        self.function = function
        self.made = {}
        self.steps = 0

    def make_resume(self, made, home):
        def run(*arguments):
            if made.code not in self.made:
                self.made[made.code] = self.compiled_resume(made)
            self.steps += 1
            return self.made[made.code](*arguments)

        return run

    def compiled_resume(self, made):
        body = decode(made.code)
        index = next(item.argument for item in body if item.operation == "JUMP")
        where = {name: Held(sources.Local(name, i)) for i, name in enumerate(body.parameters)}
        stack = []
        for slot in range(body.depths[index]):
            value = where[f".stack{slot}"] if slot in made.slots else None
            stack.append(HandledException(value) if slot in body.handling[index] else value)
        plain = {name: where[name] for name in made.locals}
        cells = {name: where[f".cell {name}"] for name in made.cells}
        rest = Home.of(self.function).function(made.code)
        return self.compiled(rest, index, tuple(stack), plain, cells)

    def compiled(self, function, index, stack, plain, cells):
        body = decode(function.__code__)
        while body[index].operation == "JUMP":
            index = body[index].argument
        end = Break(index, stack, plain, cells, ASKED)
        code = emit(function, region(end), None, self.make_resume)
        return FunctionType(code, function.__globals__, "f", None, function.__closure__)

    def __call__(self, *arguments, **keywords):
        body = decode(self.function.__code__)
        start = next(item.index for item in body if item.operation != "MAKE_CELL")
        plain = {
            name: Held(sources.Local(name, i))
            for i, name in enumerate(body.parameters)
            if name not in body.cellvars
        }
        cells = {
            name: MadeCell(sources.Local(name, body.parameters.index(name)))
            if name in body.parameters
            else MadeCell(None)
            for name in body.cellvars
        }
        compiled = self.compiled(self.function, start, (), plain, cells)
        compiled.__defaults__ = self.function.__defaults__
        compiled.__kwdefaults__ = self.function.__kwdefaults__
        return _capture.finish_tail_calls(compiled(*arguments, **keywords))


class Context:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind and kind.__name__)
        return self.swallow


def arithmetic(a, b=3):
    c = a + b * 2
    d = c if c > 10 else -c
    d += 1
    return (a, b, c, d, a < b < c, not a, ~a, a // 2, a @ Matrix())


class Matrix:
    def __rmatmul__(self, other):
        return ("matmul", other)


def loops(n):
    total = 0
    for i in range(n):
        for j in (1, 2):
            if i == j:
                continue
            if i + j > 6:
                break
            total += i * j
        else:
            total += 100
    while total > 50:
        total -= 17
    return total


def calls(*args, scale=2, **kwargs):
    first = max(*args, key=lambda x: -x)
    text = f"{first!r:>{scale}} {scale} {kwargs!s}"
    pairs = dict(zip("abc", args), **kwargs)
    return first, text, sorted(pairs.items(), key=str), print(end=""), "a,b".split(",", maxsplit=1)


def containers(xs):
    a, *b = xs
    c = [*b, a]
    d = {"a": a, **{"b": b}}
    e = {a, *b}
    c[0] = 5
    c[1:2] = [7, 8]
    del d["a"]
    return a, b, c, d, e, c[::2], c[1:3], (lambda y=a: y)(), a in b, a is None


def comprehensions(xs, y):
    i = "kept"
    squares = [i * i for i in xs if i]
    table = {k: v for k, v in enumerate(xs)}
    unique = {x % 2 for x in xs}
    return i, squares, table, unique, y, [[j for j in range(k)] for k in xs]


def deleted(a, b):
    del a
    a = b
    if b:
        c = 1
    return a, c


def with_blocks(log, fail):
    with Context(log) as one, Context(log, swallow=True):
        log.append(one is not None)
        if fail:
            raise ValueError("inside")
        value = len(log)
    return fail or value


def try_blocks(x):
    log = []
    for step in range(3):
        try:
            log.append(10 // (x - step))
            if step == 1:
                continue
        except ZeroDivisionError as error:
            log.append(str(error))
            if x == 2:
                break
        else:
            log.append("else")
        finally:
            log.append(("finally", step))
    return log


def raising(x):
    if x:
        raise KeyError(x)
    return x


def calls_that_raise(x):
    log = []
    for value in (0, x):
        try:
            raising(value)
        except KeyError as error:
            log.append(error.args)
        with Context(log, swallow=True):
            raising(value)
    return log


def early_finally(x):
    try:
        return x + 1
    finally:
        x = 100


def matching(x):
    match x:
        case [a, *rest]:
            return a, rest
        case {"k": value, **others}:
            return value, others
        case complex(real=r):
            return r
        case None:
            return "none"
        case _:
            return "other"


def unpacking(pair):
    (a, b), c = pair
    a, b = b, a
    return a and b or c, None if c is None else c, c is not None and a


def failing(x):
    y = x + 1
    z = [y, y / (x - 1), y]
    return z


def attributes(x):
    x.first = 1
    x.first += 2
    x.other = x.copy()
    del x.first
    return x.other.first, vars(x.other), sorted(vars(x))


def globals_and_imports():
    global _COUNTER
    import math as mathematics
    from os import path

    _COUNTER = 4
    assert _COUNTER == 4
    return mathematics.sqrt(_COUNTER), path.join("a", "b"), locals()["path"] is path


def namespace():
    class Box:
        def copy(self):
            other = Box()
            other.__dict__.update(vars(self))
            return other

    return Box()


def closure():
    scale = 3

    def inner(x, y=2):
        nonlocal scale
        scale += x
        return scale * y

    return inner


class Base:
    def value(self, x):
        return x


class Derived(Base):
    def value(self, x):
        y = x + 1
        return super().value(y) + super(Derived, self).value(x)

    def plain(self, x):
        return super().value(x) + len([super])


CASES = [
    (arithmetic, (1,)), (arithmetic, (7, 8)), (loops, (6,)), (loops, (0,)),
    (calls, (3, 1, 2)), (containers, ([1, 2, 3],)), (comprehensions, ([0, 1, 2, 3], 5)),
    (deleted, (1, 2)), (matching, ([1, 2, 3],)), (matching, ({"k": 1, "z": 2},)),
    (matching, (3j,)), (matching, (None,)), (matching, (7,)), (unpacking, (((1, 2), 3),)),
    (unpacking, (((0, 0), None),)), (try_blocks, (5,)), (try_blocks, (1,)), (try_blocks, (2,)),
    (try_blocks, (0,)), (calls_that_raise, (3,)), (early_finally, (1,)), (globals_and_imports, ()),
]  # fmt: skip


@pytest.fixture(autouse=True)
def deep():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_a_break_at_every_instruction_changes_nothing(function, arguments):
    stepper = Stepper(function)
    assert function(*arguments) == stepper(*arguments)
    assert stepper.steps > 2


@pytest.mark.parametrize("fail", [0, 1])
def test_with_blocks_leave_in_the_same_order(fail):
    expected, actual = [], []
    assert with_blocks(expected, fail) == Stepper(with_blocks)(actual, fail)
    assert expected == actual


def test_attributes_of_user_objects():
    expected, actual = attributes(namespace()), Stepper(attributes)(namespace())
    assert repr(expected[0]) == repr(actual[0])
    assert expected[2] == actual[2]


@pytest.mark.parametrize("name", ["value", "plain"])
def test_super_finds_the_instance(name):
    method = getattr(Derived, name)
    assert method(Derived(), 4) == Stepper(method)(Derived(), 4)


def test_free_variables_are_shared_with_the_original():
    inner = closure()
    stepped = Stepper(inner)
    assert stepped(1) == 8
    assert inner(1) == 10
    assert stepped(1, y=1) == 6


def test_cells_made_before_a_break_are_shared_by_what_follows():
    stepper = Stepper(closure)
    inner = stepper()
    assert [inner(1), inner(1)] == [8, 10]
    assert stepper.steps > 2


def test_a_parameter_in_a_cell_is_shared():
    def counter(n, step=2):
        def bump():
            nonlocal n
            n += step
            return n

        bump()
        n += 100
        return bump(), n

    assert counter(1) == Stepper(counter)(1)


def test_a_function_that_calls_itself_across_breaks():
    def factorial(n):
        def inner(k):
            return 1 if k == 0 else k * inner(k - 1)

        return inner(n)

    assert factorial(5) == Stepper(factorial)(5)


def captured_in_comprehension(xs):
    i = "kept"
    functions = [lambda: i for i in xs]
    table = {k: (lambda: (k, i)) for k in xs}
    return [f() for f in functions], i, [table[k]() for k in xs]


def test_comprehension_variables_that_are_captured():
    assert captured_in_comprehension([1, 2]) == Stepper(captured_in_comprehension)([1, 2])


def reraising(x, log):
    try:
        try:
            raise KeyError(x)
        except KeyError as error:
            log.append(type(sys.exc_info()[1]))
            if x == 1:
                raise
            if x == 2:
                raise ValueError(x)
            if x == 3:
                raise ValueError(x) from error
            try:
                raise TypeError(x)
            except TypeError:
                log.append(sys.exc_info()[0])
            log.append(sys.exc_info()[0])
        finally:
            log.append("finally")
    finally:
        log.append(sys.exc_info()[0])
    return sys.exc_info()[0]


@pytest.mark.parametrize("x", [1, 2, 3, 4])
def test_the_handled_exception_is_the_same_after_every_break(x):
    results = []
    for function in (reraising, Stepper(reraising)):
        log = []
        try:
            log.append(function(x, log))
        except Exception as error:
            log += [repr(error), repr(error.__context__), repr(error.__cause__)]
        results.append(log)
    assert results[0] == results[1]


def lines(function, *arguments):
    """Type of the exception and the lines of this file in its traceback, from `function` on."""
    try:
        function(*arguments)
    except Exception as error:
        entries = traceback.extract_tb(error.__traceback__)
        start = decode_first_line(function)
        return type(error), str(error), [e.lineno for e in entries if start <= e.lineno < start + 9]
    raise AssertionError("nothing was raised")


def decode_first_line(function):
    return getattr(function, "function", function).__code__.co_firstlineno


def test_tracebacks_end_at_the_same_line():
    expected, actual = lines(failing, 1), lines(Stepper(failing), 1)
    assert expected == actual


def test_an_unbound_local_is_reported_by_name():
    expected, actual = lines(deleted, 1, 0), lines(Stepper(deleted), 1, 0)
    assert expected[:2] == actual[:2]


def test_a_loop_uses_one_resume_code_per_place():
    stepper = Stepper(loops)
    stepper(6)
    assert len(stepper.made) < len(decode(loops.__code__)) + 10 < stepper.steps


def test_a_resume_code_names_the_function_and_the_line():
    body = decode(failing.__code__)
    index = next(item.index for item in body if item.operation == "STORE_FAST")
    made = resume(body, Spot(index, frozenset({"x"}), frozenset(), (False,)))
    assert made.code.co_name == "failing"
    line = failing.__code__.co_firstlineno + 1
    assert made.code.co_qualname == f"failing (resumed at line {line})"
    assert made.locals == ("x",)


def test_one_entry_per_place_function_and_maker():
    body = decode(failing.__code__)
    index = next(item.index for item in body if item.operation == "STORE_FAST")
    made = resume(body, Spot(index, frozenset({"x"}), frozenset(), (False,)))

    def make(rest):
        return lambda *arguments: rest(*arguments)

    home = Home.of(failing)
    first = entry(made.code, home, make)
    assert entry(made.code, home, make) is first
    assert entry(made.code, home, lambda rest: rest) is not first
    assert first(3, 8) == [8, 4.0, 8]
