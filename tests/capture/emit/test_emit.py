"""The code of a captured region does what its parts say, in order."""

import sys
import types
from dataclasses import dataclass
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

from dynajit.capture import _capture, breaks
from dynajit.capture.bytecode.instructions import decode
from dynajit.capture.bytecode.resume import Spot, resume
from dynajit.capture.emit.emit import emit
from dynajit.capture.places import sources
from dynajit.capture.region.region import Break, Region, Return
from dynajit.capture.values.objects import HandledException
from dynajit.core.errors import InternalError, LaunchFailed
from dynajit.core.location import Location

FACTOR = 10
ASKED = breaks.BreakRecord(breaks.REQUESTED, "", Location(__file__, 1, "f"))


@dataclass(frozen=True, eq=False)
class Held:
    """A value that `push(emitter)` pushes."""

    push: Any
    object_id: int | None = None
    source: Any = None


def held(source):
    return Held(lambda emitter: emitter.load_source(source), source=source)


def local(function, name):
    return held(sources.Local(name, decode(function.__code__).parameters.index(name)))


def constant(value):
    return Held(lambda emitter: emitter.load_constant(value))


def output(index):
    return Held(lambda emitter: emitter.load_output(index))


def rebuild(value, emitter):
    value.push(emitter)


class Effect:
    def __init__(self, replay):
        self.replay = replay


def region(end, inputs=(), outputs=0, effects=()):
    graph = SimpleNamespace(outputs=(None,) * outputs)
    flags = (False,) * len(inputs)
    replays = tuple(Effect(effect) for effect in effects)
    return Region("test", graph, tuple(inputs), flags, (), replays, end, rebuild)


class Runner:
    # The new code as a function, with the tail calls that its caller makes.

    def __init__(self, made):
        self.made = made
        self.__doc__ = made.__doc__

    def __call__(self, *arguments, **keywords):
        return _capture.finish_tail_calls(self.made(*arguments, **keywords))

    def __getattr__(self, name):
        return getattr(self.made, name)


def compiled(function, *arguments, make_resume=None, launch=None, **parts):
    code = emit(function, region(*arguments, **parts), launch, make_resume)
    closure = function.__closure__
    made = FunctionType(code, function.__globals__, "f", function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return Runner(made)


def plain_resume(function):
    """Rests run as plain functions; each call is noted."""
    calls = []

    def make(made, home):
        rest = home.function(made.code)

        def run(*arguments):
            calls.append((made, arguments))
            return rest(*arguments)

        return run

    make.calls = calls
    return make


# ------------------------------------------------------------------------------------- returning


def two(x, y=2, *args, k=3, **kwargs):
    """Two."""
    return x, y, args, k, kwargs


def test_a_returning_region_launches_and_returns():
    end = Return(Held(lambda e: (e.load_output(1), e.load_output(0), e.build("tuple", 2))))
    made = compiled(
        two, end, inputs=[local(two, "x"), local(two, "k")], outputs=2,
        launch=lambda x, k: (x + k, x * k),
    )  # fmt: skip
    assert made(5) == (15, 8)
    assert made(5, k=1) == (5, 6)
    assert made.__doc__ == "Two."
    assert made.__code__.co_varnames[:5] == two.__code__.co_varnames[:5]


def test_a_returning_region_has_no_copy_of_the_original():
    made = compiled(two, Return(constant(1)))
    assert len(made.__code__.co_code) < len(two.__code__.co_code)


def test_results_of_the_launch_are_only_there_after_it():
    with pytest.raises(InternalError, match="no output 0"):
        compiled(two, Return(output(0)))


def test_sources_are_read_before_effects_change_them():
    def f(box):
        return box

    place = sources.Attribute(sources.Local("box", 0), "value")

    def effect(emitter):
        emitter.load_constant("new")
        emitter.load_source(sources.Local("box", 0))
        emitter.store_attribute("value")

    box = SimpleNamespace(value="old")
    assert compiled(f, Return(held(place)), effects=[effect])(box) == "old"
    assert box.value == "new"


def test_effects_happen_in_order():
    def f(log):
        return log

    def note(text):
        def replay(emitter):
            emitter.call(
                list.append,
                lambda: emitter.load_source(sources.Local("log", 0)),
                lambda: emitter.load_constant(text),
            )
            emitter.pop()

        return replay

    assert compiled(f, Return(local(f, "log")), effects=[note("a"), note("b")])([]) == ["a", "b"]


def test_one_heap_object_is_made_once():
    shared = Held(lambda e: e.build("list", 0), object_id=7)
    pair = Held(lambda e: (e.load_value(shared), e.load_value(shared), e.build("tuple", 2)))
    first, second = compiled(two, Return(pair))(0)
    assert first is second


def test_a_container_can_hold_itself():
    def push(emitter):
        emitter.build("list", 0)
        emitter.memoise(cycle)
        emitter.call(
            list.append,
            partial(emitter.load_value, cycle),
            partial(emitter.load_value, cycle),
        )
        emitter.pop()

    cycle = Held(push, object_id=1)
    made = compiled(two, Return(cycle))(0)
    assert made[0] is made and len(made) == 1


def test_containers_slices_and_strings_are_built():
    def push(emitter):
        for kind, items, count in (
            ("dict", ("a", 1, "b", 2), 2),
            ("set", (1, 2), 2),
            ("slice", (1, None, 2), 3),
            ("string", ("x", "y"), 2),
            ("tuple", (), 0),
        ):
            for item in items:
                emitter.load_constant(item)
            emitter.build(kind, count)
        emitter.build("list", 5)

    expected = [{"a": 1, "b": 2}, {1, 2}, slice(1, None, 2), "xy", ()]
    assert compiled(two, Return(Held(push)))(0) == expected


def test_items_attributes_globals_and_temporaries():
    def push(emitter):
        name = emitter.new_temporary()
        emitter.call(SimpleNamespace)
        emitter.writer.store_local(name)
        for value in (5, 6):
            emitter.load_constant(value)
            emitter.writer.load_local(name)
            emitter.store_attribute(f"a{value}")
        emitter.writer.load_local(name)
        emitter.delete_attribute("a6")
        emitter.load_constant("item")
        emitter.writer.load_local(name)
        emitter.load_attribute("__dict__")
        emitter.load_constant("key")
        emitter.store_item()
        emitter.load_constant(9)
        emitter.store_global("_EMITTED")
        emitter.writer.load_local(name)
        emitter.load_attribute("__dict__")
        emitter.copy_top()
        emitter.load_constant("a5")
        emitter.load_item()
        emitter.build("list", 2)

    result = compiled(two, Return(Held(push)))(0)
    assert result == [{"a5": 5, "key": "item"}, 5]
    assert globals().pop("_EMITTED") == 9


def test_keyword_arguments_are_passed_by_name():
    def push(emitter):
        emitter.call(
            dict,
            lambda: emitter.load_constant({"a": 1}),
            lambda: emitter.load_constant(2),
            keywords=("b",),
        )

    assert compiled(two, Return(Held(push)))(0) == {"a": 1, "b": 2}


# --------------------------------------------------------------------------------------- sources


class Slotted:
    __slots__ = ("inside",)
    constant = "class constant"

    def __init__(self):
        self.inside = "slot"

    def method(self):
        return self


class Contrary(list):
    """A list whose `__getitem__` lies."""

    def __getitem__(self, index):
        return "lie"


class ContraryDict(dict):
    def __getitem__(self, key):
        return "lie"


def target(a, b=(4, 5), *args, c=6, **kw):
    return a


def helper(x=1, *, y=2):
    return FACTOR + x


def cell_owner():
    inside = "contents"

    def inner():
        return inside

    return inner


ROOT = sources.Local("a", 0)
INNER = cell_owner()


@pytest.mark.parametrize(
    ("source", "argument", "expected"),
    [
        (ROOT, 1, 1),
        (sources.Local("args", 3), 1, ("extra",)),
        (sources.Item(sources.Local("args", 3), 0), 1, "extra"),
        (sources.Local("kw", 4), 1, {"z": 8}),
        (sources.Key(sources.Local("kw", 4), "z"), 1, 8),
        (sources.Global("FACTOR"), 1, FACTOR),
        (sources.Builtin("len"), 1, len),
        (sources.Constant(helper), 1, helper),
        (sources.Function(), 1, target),
        (sources.Attribute(ROOT, "inside"), Slotted(), "slot"),
        (sources.ClassAttribute(ROOT, "method"), Slotted(), Slotted.method),
        (sources.ClassAttribute(ROOT, "constant"), Slotted(), "class constant"),
        (sources.InstanceDict(ROOT), SimpleNamespace(q=1), {"q": 1}),
        (sources.Item(ROOT, 1), [1, 2], 2),
        (sources.Item(ROOT, 1), (1, 2), 2),
        (sources.Item(ROOT, 0), Contrary([3]), 3),
        (sources.Key(ROOT, "k"), ContraryDict(k=4), 4),
        (sources.TypeOf(ROOT), 1.5, float),
        (sources.MethodFunction(ROOT), Slotted().method, Slotted.method),
        (sources.Global("FACTOR", sources.Constant(helper)), 1, FACTOR),
        (sources.Builtin("len", sources.Constant(helper)), 1, len),
        (sources.DefaultOf(ROOT, 0), helper, 1),
        (sources.DefaultOf(ROOT, "y"), helper, 2),
        (sources.PartOf(ROOT, "__code__"), helper, helper.__code__),
        (sources.Closure(ROOT, 0), INNER, "contents"),
        (sources.ClosureCell(ROOT, 0), INNER, INNER.__closure__[0]),
        (sources.CellContents(sources.ClosureCell(ROOT, 0)), INNER, "contents"),
    ],
    ids=lambda value: value.expression() if isinstance(value, sources.Source) else "",
)
def test_every_source_is_reloaded(source, argument, expected):
    made = compiled(target, Return(held(source)))
    assert made(argument, 2, "extra", z=8) == expected


def test_the_receiver_of_a_method_is_reloaded():
    instance = Slotted()
    made = compiled(target, Return(held(sources.MethodSelf(ROOT))))
    assert made(instance.method) is instance


def test_free_variables_and_their_cells_are_reloaded():
    variable = compiled(INNER, Return(held(sources.free("inside", 0))))
    cell = compiled(INNER, Return(held(sources.ClosureCell(sources.Function(), 0))))
    assert variable() == "contents"
    assert cell() is INNER.__closure__[0]


def test_a_source_without_a_value_is_an_error_of_the_compiler():
    with pytest.raises(InternalError, match="State"):
        compiled(target, Return(held(sources.State())))


# ----------------------------------------------------------------------------------------- cells


def own_cell(start):
    def inner():
        return start

    return inner


def test_a_captured_parameter_is_read_at_entry():
    code = next(item for item in own_cell.__code__.co_consts if isinstance(item, types.CodeType))

    def push(emitter):
        emitter.call(
            types.FunctionType,
            lambda: emitter.load_constant(code),
            lambda: emitter.load_constant({}),
            lambda: emitter.load_constant("inner"),
            lambda: emitter.load_constant(None),
            lambda: emitter.load_constant((types.CellType("written"),)),
        )

    end = Return(Held(lambda e: (push(e), e.load_source(ROOT_START), e.build("tuple", 2))))
    inner, at_entry = compiled(own_cell, end)("given")
    assert inner() == "written"
    assert at_entry == "given"


ROOT_START = sources.Local("start", 0)


# ---------------------------------------------------------------------------------------- breaks


def index_of(function, operation, number=0):
    found = [item.index for item in decode(function.__code__) if item.operation == operation]
    return found[number]


def branch(x, y):
    if y:
        result = x + 1
    else:
        result = x - 1
    return result * 2


def test_both_ways_of_a_branch_are_resumed():
    make = plain_resume(branch)
    start = index_of(branch, "LOAD_FAST")
    end = Break(start, (), {"x": output(0), "y": local(branch, "y")}, {}, ASKED)
    made = compiled(
        branch, end, inputs=[local(branch, "x")], outputs=1, launch=lambda x: (x * 100,),
        make_resume=make,
    )  # fmt: skip
    assert made(1, True) == 202
    assert made(1, False) == 198
    assert [call[0].locals for call in make.calls] == [("x", "y")] * 2  # y is kept alive
    assert [call[1] for call in make.calls] == [(100, True, True), (100, False, False)]


def test_a_jump_leads_to_its_own_resume_function():
    make = plain_resume(branch)
    jump = index_of(branch, "POP_JUMP_IF_FALSE")
    end = Break(jump, (held(sources.Local("y", 1)),), {"x": local(branch, "x")}, {}, ASKED)
    made = compiled(branch, end, make_resume=make)
    assert (made(1, True), made(1, False)) == (4, 0)
    first, second = make.calls
    assert first[0].code is not second[0].code
    assert first[0].locals == second[0].locals == ("x", "y")
    assert first[1] == (1, None)  # a local that nothing reads and that was not kept


def loop(xs, total):
    for x in xs:
        total += x
    return total, "end"


def test_both_ways_of_a_loop_are_resumed():
    make = plain_resume(loop)
    step = index_of(loop, "FOR_ITER")
    iterator = Held(lambda e: e.call(iter, lambda: e.load_source(sources.Local("xs", 0))))
    end = Break(step, (iterator,), {"total": local(loop, "total")}, {}, ASKED)
    made = compiled(loop, end, make_resume=make)
    assert made([1, 2, 3], 10) == loop([1, 2, 3], 10)
    assert made((x for x in (5,)), 0) == (5, "end")
    assert made([], 1) == (1, "end")
    assert len({call[0].code for call in make.calls}) == 2


def test_without_resume_functions_the_copy_goes_on():
    step = index_of(loop, "FOR_ITER")
    iterator = Held(lambda e: e.call(iter, lambda: e.load_source(sources.Local("xs", 0))))
    end = Break(step, (iterator,), {"total": local(loop, "total")}, {}, ASKED)
    made = compiled(loop, end)
    assert made([1, 2, 3], 10) == loop([1, 2, 3], 10)
    assert made([], 1) == (1, "end")


def waiting_loop(xs, total):
    while len(xs) > 3:
        try:
            total += xs.pop()
        except TypeError:
            total = 0
    return total, "end"


@pytest.mark.parametrize("fails", [False, True])
def test_the_copy_that_goes_on_stands_beside_the_one_for_a_failed_launch(fails):
    def launch():
        if fails:
            raise LaunchFailed("an index is out of range")
        return ()

    step = decode(waiting_loop.__code__).first_of_offset(index_of(waiting_loop, "LOAD_GLOBAL"))
    arguments = {name: local(waiting_loop, name) for name in ("xs", "total")}
    end = Break(step, (), arguments, {}, ASKED)
    code = emit(waiting_loop, region(end), launch, None, may_fail=True)
    made = FunctionType(code, globals())
    assert made([1, 2, 3, 4, 5], 10) == (19, "end")
    assert made([1, 2, 3, 4, 5, None], 10) == (9, "end")


def nested_call(x):
    return max(x, min(x * 2, 7), key=abs)


def test_a_call_inside_an_expression_keeps_the_slots_below():
    make = plain_resume(nested_call)
    call = index_of(nested_call, "CALL")
    body = decode(nested_call.__code__)
    empty_first = body[0].operation == "PUSH_NULL"
    below = [constant(max), local(nested_call, "x")]
    inside = [constant(min), constant(-9), constant(7)]
    if empty_first:
        stack = (None, *below, None, *inside)
    else:
        stack = (below[0], None, below[1], inside[0], None, *inside[1:])
    end = Break(call, stack, {"x": local(nested_call, "x")}, {}, ASKED)
    assert compiled(nested_call, end, make_resume=make)(2) == -9
    (made, arguments) = make.calls[0]
    assert len(made.slots) == 3 == body.depths[call + 1] - 1
    assert arguments == (2, max, 2, -9)


def guarded(x, log):
    try:
        y = 1 / x
    except ZeroDivisionError as error:
        log.append(str(error))
        y = 0
    finally:
        log.append("finally")
    return y + 1


def test_a_break_inside_try_is_handled_where_the_original_handles_it():
    make = plain_resume(guarded)
    divide = index_of(guarded, "BINARY_OP")
    end = Break(
        divide, (constant(1), local(guarded, "x")), {"log": local(guarded, "log")}, {}, ASKED
    )
    made = compiled(guarded, end, make_resume=make)
    log = []
    assert made(2, log) == 1.5
    assert log == ["finally"] and len(make.calls) == 1
    assert made(0, log) == 1
    assert log == ["finally", "division by zero", "finally"] and len(make.calls) == 2
    assert isinstance(make.calls[1][1][-1], ZeroDivisionError)


def handled(x):
    try:
        raise ValueError("first")
    except ValueError:
        x = len(x)
        if x == 2:
            raise
    return x


def test_a_break_inside_except_takes_the_exception_along():
    call = index_of(handled, "CALL", 1)
    body = decode(handled.__code__)
    (slot,) = body.handling[call]
    error = ValueError("first")
    callee = (None, constant(len)) if body[call - 2].operation == "LOAD_GLOBAL" else (
        constant(len), None,
    )  # fmt: skip
    for text, expected in (("abc", 3), ("ab", "first")):
        make = plain_resume(handled)
        stack = (HandledException(constant(error)), *callee, constant(text))
        made = compiled(handled, Break(call, stack, {}, {}, ASKED), make_resume=make)
        assert slot == 0
        try:
            assert made("unused") == expected
        except ValueError as raised:
            assert (raised, str(raised)) == (error, expected)
        assert make.calls[0][1] == (len(text), error)  # bound for real, in front of the rest
        assert sys.exc_info() == (None, None, None)


def test_a_deleted_parameter_stays_deleted():
    def f(x, flag):
        del x
        if flag:
            x = 1
        return x

    start = index_of(f, "LOAD_FAST")
    made = compiled(
        f, Break(start, (), {"flag": local(f, "flag")}, {}, ASKED), make_resume=plain_resume(f)
    )
    assert made(5, True) == 1
    with pytest.raises(UnboundLocalError, match="x"):
        made(5, False)


def test_the_stack_is_rebuilt_before_the_locals_change():
    def f(a, b):
        return a + abs(b)

    call = index_of(f, "CALL")
    body = decode(f.__code__)
    callee = (None, constant(abs)) if body[call - 2].operation == "LOAD_GLOBAL" else (
        constant(abs), None,
    )  # fmt: skip
    stack = (local(f, "b"), *callee, local(f, "a"))
    end = Break(call, stack, {"a": local(f, "b"), "b": local(f, "a")}, {}, ASKED)
    assert compiled(f, end, make_resume=plain_resume(f))(-3, 10) == 13


def method_call(box):
    return box.compute(3)


def test_an_attribute_loaded_for_a_call_can_break():
    class Box:
        def __getattr__(self, name):
            return lambda x: (name, x)

        def other(self, x):
            return ("other", x)

    for box in (Box(), types.SimpleNamespace(compute=abs)):
        load = index_of(method_call, "LOAD_METHOD")
        make = plain_resume(method_call)
        end = Break(load, (held(sources.Local("box", 0)),), {}, {}, ASKED)
        assert compiled(method_call, end, make_resume=make)(box) == method_call(box)
        assert make.calls[0][0].slots in ((0,), (1,))


def make_adder(amount):
    def adder(x):
        abs(x)
        return x + amount

    return adder


def test_the_rest_uses_the_closure_of_the_running_function():
    first, second = make_adder(1), make_adder(100)
    start = next(i.index for i in decode(first.__code__) if i.operation in ("PUSH_NULL",
                 "LOAD_GLOBAL"))  # fmt: skip
    make = plain_resume(first)
    end = Break(start, (), {"x": local(first, "x")}, {}, ASKED)
    code = emit(first, region(end), None, make)
    made = [
        FunctionType(code, globals(), "adder", None, function.__closure__)
        for function in (first, second)
    ]
    assert [_capture.finish_tail_calls(function(5)) for function in made] == [6, 105]
    assert len(make.calls) == 2


def test_a_break_must_be_where_the_original_can_be_restarted():
    def f(x):
        return print(x)

    body = decode(f.__code__)
    index = next(i for i in range(len(body)) if body.first_of_offset(i) != i)
    with pytest.raises(InternalError, match="cannot be restarted"):
        compiled(f, Break(index, (None,), {}, {}, ASKED))
    with pytest.raises(InternalError, match="stack slots"):
        compiled(f, Break(0, (constant(1),), {}, {}, ASKED))


def test_a_resume_needs_the_stack_that_is_there():
    body = decode(loop.__code__)
    with pytest.raises(InternalError, match="stack slots"):
        resume(body, Spot(index_of(loop, "FOR_ITER"), frozenset({"total"}), frozenset(), ()))


def test_resumes_of_a_resume_are_those_of_the_original():
    body = decode(loop.__code__)
    step = index_of(loop, "FOR_ITER")
    first = resume(body, Spot(step, frozenset({"total", "xs"}), frozenset(), (False,)))
    inner = decode(first.code)
    again = next(item.index for item in inner if item.operation == "FOR_ITER")
    assert resume(inner, Spot(again, frozenset({"total"}), frozenset(), (False,))) is first
    assert first.locals == ("xs", "total", "x")
    assert first.original == "loop"


def test_temporaries_are_released_before_the_rest_runs():
    import weakref

    class Big:
        pass

    def f(x):
        abs(0)
        return x()

    start = next(i.index for i in decode(f.__code__) if i.operation in ("PUSH_NULL", "LOAD_GLOBAL"))
    big = Held(lambda e: e.load_output(0), object_id=1)
    seen = []

    def effect(emitter):
        emitter.call(lambda value: seen.append(weakref.ref(value)), lambda: emitter.load_value(big))
        emitter.pop()

    probe = Held(lambda e: e.load_constant(lambda: seen[0]()))
    end = Break(start, (), {"x": probe}, {}, ASKED)
    made = compiled(
        f, end, outputs=1, launch=lambda: (Big(),), effects=[effect], make_resume=plain_resume(f)
    )
    assert made(0) is None
