"""Every opcode is read, and the declared stack effects agree with real functions."""

import argparse
import calendar
import configparser
import contextlib
import copy
import csv
import dataclasses
import datetime
import difflib
import dis
import enum
import fractions
import functools
import gc
import heapq
import inspect
import json.decoder
import pathlib
import pprint
import random
import shutil
import statistics
import string
import sys
import tempfile
import textwrap
import typing
import weakref
from asyncio import base_events, tasks
from collections.abc import Callable
from email import message
from http import client
from types import CodeType

import pytest

from dynajit.capture.bytecode.instruction_set import DROPPED, JUMPS, OPERATIONS
from dynajit.capture.bytecode.instructions import Handler, Recent, decode, live_locals
from dynajit.core.location import Location

MODULES = (
    argparse, base_events, calendar, client, configparser, contextlib, copy, csv, dataclasses,
    datetime, difflib, dis, enum, fractions, functools, heapq, inspect, json.decoder, message,
    pathlib, pprint, random, shutil, statistics, string, tasks, tempfile, textwrap, typing,
)  # fmt: skip


def nested(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def all_codes(module):
    source = inspect.getsource(module)
    return nested(compile(source, module.__file__, "exec"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_stack_depths_agree_on_all_paths_and_with_the_compiler(module):
    for code in all_codes(module):
        body = decode(code)
        depths = [depth for depth in body.depths if depth is not None]
        constants = any(item.opname == "RETURN_CONST" for item in dis.get_instructions(code))
        assert max(depths) <= code.co_stacksize + constants, code
        for instruction in body:
            depth = body.depths[instruction.index]
            if instruction.handler is not None and depth is not None:
                assert instruction.handler.depth <= depth


#: Opcodes that `dis` knows but no code object contains, and why.
IMPOSSIBLE = {
    "JUMP": "pseudo instruction of the compiler",
    "JUMP_IF_FALSE": "pseudo instruction of the compiler",
    "JUMP_IF_TRUE": "pseudo instruction of the compiler",
    "JUMP_NO_INTERRUPT": "pseudo instruction of the compiler",
    "ANNOTATIONS_PLACEHOLDER": "pseudo instruction of the compiler",
    "LOAD_SUPER_METHOD": "pseudo instruction of the compiler",
    "LOAD_ZERO_SUPER_ATTR": "pseudo instruction of the compiler",
    "LOAD_ZERO_SUPER_METHOD": "pseudo instruction of the compiler",
    "POP_BLOCK": "pseudo instruction of the compiler",
    "SETUP_CLEANUP": "pseudo instruction of the compiler",
    "SETUP_FINALLY": "pseudo instruction of the compiler",
    "SETUP_WITH": "pseudo instruction of the compiler",
    "STORE_FAST_MAYBE_NULL": "pseudo instruction of the compiler",
    "INTERPRETER_EXIT": "bottom frame of the interpreter",
    "EXIT_INIT_CHECK": "trampoline of a specialised constructor call",
    "ENTER_EXECUTOR": "optimiser, replaced in `co_code`",
    "RESERVED": "unused number",
}


def test_every_opcode_is_read_or_has_a_reason():
    known = {"CALL_KW", "MAKE_FUNCTION", *OPERATIONS, *DROPPED, *IMPOSSIBLE}
    renamed = {
        "BINARY_SLICE", "STORE_SLICE", "CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "CONVERT_VALUE",
        "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST",
        "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "RETURN_CONST", "PREP_RERAISE_STAR",
        "LOAD_ASSERTION_ERROR", "LOAD_SMALL_INT", "LOAD_FAST_BORROW", "POP_ITER",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "JUMP_BACKWARD", "JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT",
        *(f"POP_JUMP_{way}_IF_{what}" for way in ("FORWARD", "BACKWARD")
          for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")),
    }  # fmt: skip
    opcodes = {name for name in dis.opmap if not name.startswith("INSTRUMENTED")}
    assert opcodes - known - renamed == set()


def test_a_row_says_its_effect():
    assert OPERATIONS["CALL"].effect((2, ("k",))) == (4, 1)
    assert OPERATIONS["FOR_ITER"].effect(5) == (1, 2)
    assert OPERATIONS["FOR_ITER"].effect(5, jump=True) == (1, 0)
    assert OPERATIONS["UNPACK_EX"].effect((1, 2)) == (1, 4)


def operations(function):
    return [(item.operation, item.argument) for item in decode(function.__code__)]


def names(function):
    return [operation for operation, _ in operations(function)]


def test_keyword_calls_look_the_same_everywhere():
    def f(g, x):
        return g(1, x, key=2)

    listed = [pair for pair in operations(f) if pair[0] not in ("PUSH_NULL", "LOAD_FAST")]
    assert listed == [
        ("LOAD_CONST", 1),
        ("LOAD_CONST", 2),
        ("CALL", (3, ("key",))),
        ("RETURN_VALUE", None),
    ]


def test_slices_are_built_and_subscripted():
    def f(x, y):
        x[1:y] = x[y:]

    assert names(f).count("BUILD_SLICE") == 2
    assert {"BINARY_SUBSCR", "STORE_SUBSCR"} <= set(names(f))


def test_formatting_is_conversion_then_format():
    def f(x):
        return f"{x!r:>5}{x}"

    listed = [pair for pair in operations(f) if pair[0] in ("CONVERT_VALUE", "FORMAT_VALUE")]
    assert listed == [("CONVERT_VALUE", "repr"), ("FORMAT_VALUE", True), ("FORMAT_VALUE", False)]


def test_operators_are_symbols():
    def f(x, y):
        x @= y
        return x // y < y, x is not y, x not in y

    arguments = [argument for name, argument in operations(f) if name.endswith("_OP")]
    assert arguments == ["@=", "//", "<", True, True]


def test_jumps_go_to_indices_behind_the_loop():
    def f(xs):
        for x in xs:
            if x is None:
                return x
        return 5

    body = decode(f.__code__)
    loop = next(item for item in body if item.operation == "FOR_ITER")
    assert body[loop.argument].operation == "LOAD_CONST"
    assert body[loop.argument].argument == 5
    assert body.depths[loop.argument] == 0
    back = [item for item in body if item.operation == "JUMP"]
    assert [loop.index] == [item.argument for item in back]


def test_functions_are_made_then_completed():
    def f(x):
        def g(y=1, *, z: int = 2):
            return x, y, z

        return g

    attributes = [argument for name, argument in operations(f) if name == "SET_FUNCTION_ATTRIBUTE"]
    annotations = "annotate" if sys.version_info >= (3, 14) else "annotations"
    assert attributes == ["closure", annotations, "keyword_defaults", "defaults"]
    assert ("MAKE_CELL", "x") in operations(f)
    assert ("LOAD_CLOSURE", "x") in operations(f)


def test_a_call_restarts_at_its_keyword_names():
    def f(g, x):
        return g(key=x)

    body = decode(f.__code__)
    call = next(item for item in body if item.operation == "CALL")
    load = [item for item in body if item.operation == "LOAD_FAST"][-1]
    assert load.offset < call.offset <= call.last_offset
    assert body.depths[call.index] == 3


def test_instructions_with_one_offset_restart_at_the_first():
    def f(x):
        return print(x)

    body = decode(f.__code__)
    second = next(item for item in body if item.operation in ("PUSH_NULL", "LOAD_GLOBAL")).index + 1
    assert body.first_of_offset(second) == second - 1
    assert body.after(second - 1) == second + 1


def test_locations_name_function_line_and_columns():
    def f(x):
        return x + 1

    body = decode(f.__code__)
    add = next(item for item in body if item.operation == "BINARY_OP")
    line = f.__code__.co_firstlineno + 1
    assert Location(__file__, line, f.__qualname__, 15, 20) == add.location
    assert "x + 1" in add.location.text


def test_handlers_cover_the_instructions_of_the_block():
    def f(x):
        try:
            x.a
        except KeyError:
            return 1
        x.b

    body = decode(f.__code__)
    inside, outside = (item for item in body if item.operation == "LOAD_ATTR")
    assert body[inside.handler.target].operation == "PUSH_EXC_INFO"
    assert Handler(inside.handler.target, 0, False) == inside.handler
    assert outside.handler is None
    check = next(item for item in body if item.operation == "CHECK_EXC_MATCH")
    assert body.handling[check.index] == (0,)
    assert body.handling[outside.index] == ()


def test_liveness_stops_at_the_last_read():
    def f(a, b, c):
        d = a + b
        for _ in range(c):
            d = d + b
        return d

    body = decode(f.__code__)
    start = live_locals(body, 0)
    loop = next(item for item in body if item.operation == "FOR_ITER")
    last = next(item for item in body if item.operation == "RETURN_VALUE")
    assert frozenset("abc") == start
    assert frozenset("bd") == live_locals(body, loop.index)
    assert frozenset() == live_locals(body, last.index)


def test_locals_read_by_a_handler_are_live_inside_the_block():
    def f(a, b):
        try:
            b()
        except ValueError:
            return a
        return 0

    body = decode(f.__code__)
    call = next(item for item in body if item.operation == "CALL")
    assert "a" in live_locals(body, call.index)


def test_locals_and_super_keep_what_they_read():
    def f(a, b):
        return locals()

    class Derived(dict):
        def g(self, x):
            return super().copy()

    assert {"a", "b"} == live_locals(decode(f.__code__), 0)
    body = decode(Derived.g.__code__)
    assert all("self" in live for live in body.live)


def test_turns_of_a_while_are_told_from_what_follows_a_handler():
    """Handlers of 3.12 and later jump back, too."""

    def handled(x):
        try:
            x()
        except ValueError as error:
            print(error)
        return x

    def handled_in_turns(x):
        for item in x:
            try:
                item()
            except ValueError as error:
                print(error)
            print(item)
        return x

    def handled_in_a_while(x):
        while x:
            try:
                x = x()
            except ValueError:
                continue
            print(x)
        return x

    def two(x):
        while x > 1:
            while x > 5:
                x -= 2
            x -= 1
        while True:
            x += 1

    def continued(x):
        while x > 1:
            x -= 1
            if x > 5:
                continue
            x -= 2
        return x

    body = decode(continued.__code__)
    last = max(i for i, item in enumerate(body) if item.operation in JUMPS and item.argument <= i)
    assert {last} == set(body.while_loops.values())
    counts = [
        len(decode(f.__code__).while_loops)
        for f in (handled, handled_in_turns, handled_in_a_while, two)
    ]
    # Up to 3.13 `continue` goes to the test in front of the turns: that is a head, too.
    assert [0, 0, 1 if sys.version_info >= (3, 14) else 2, 3] == counts


def test_a_body_is_made_once_and_dies_with_its_code():
    namespace = {}
    exec("def f(): return 1", namespace)
    code = namespace.pop("f").__code__
    body = decode(code)
    assert decode(code) is body
    reference = weakref.ref(code)
    namespace.clear()
    del code
    gc.collect()
    assert reference() is None


def test_parameters_come_in_slot_order():
    def f(a, /, b, *args, c, **kwargs):
        return a, b, args, c, kwargs

    assert decode(f.__code__).parameters == ("a", "b", "c", "args", "kwargs")


def test_generators_say_so():
    def f():
        yield 1

    async def g():
        await f()

    assert decode(f.__code__).is_generator
    assert decode(g.__code__).is_generator
    assert decode(f.__code__)[0].operation == "RETURN_GENERATOR"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="comprehensions are functions")
def test_a_free_variable_and_a_captured_one_of_a_comprehension_with_one_name_are_refused():
    def outer(x):
        def f():  # Python itself gives the comprehension's last x here
            return [(lambda: x) for x in (1, 2)], x  # noqa: B023

        return f

    f = outer(0)

    assert "captured variable: x" in decode(f.__code__).unsupported
    assert f()[1] == 2


def test_a_listing_has_lines_and_operations():
    def f(x):
        return -x

    text = decode(f.__code__).text()
    assert "UNARY_NEGATIVE" in text
    assert str(f.__code__.co_firstlineno + 1) in text


def test_what_was_made_of_few_codes_is_kept_and_ends_with_them() -> None:
    made: list[str] = []

    def make(code: CodeType) -> str:
        made.append(code.co_name)
        return code.co_name

    def code_named(name: str) -> CodeType:
        return (lambda: None).__code__.replace(co_name=name)

    recent = Recent(make, 2)
    first, second, third = map(code_named, ("first", "second", "third"))
    for code in (first, second, first, third, first, second):
        assert recent(code) == code.co_name
    assert made == ["first", "second", "third", "second"]

    del first, second, third, code
    gc.collect()
    assert recent.known == {}


def test_a_code_object_at_the_place_of_one_that_ended_is_another() -> None:
    recent = Recent(lambda code: code.co_name, 8)
    for turn in range(50):
        code = (lambda: None).__code__.replace(co_name=f"turn{turn}")
        assert recent(code) == f"turn{turn}"
        del code


def test_threads_share_what_was_made(side_by_side: Callable[..., None]) -> None:
    recent = Recent(lambda code: code.co_name, 3)
    codes = [(lambda: None).__code__.replace(co_name=f"own{n}") for n in range(20)]
    wrong: list[str] = []

    def ask(seed: int) -> None:
        order = random.Random(seed).choices(codes, k=3000)
        wrong.extend(code.co_name for code in order if recent(code) != code.co_name)

    side_by_side(*(functools.partial(ask, seed) for seed in range(4)))

    assert [] == wrong
    assert len(recent.known) <= 3 + 4
