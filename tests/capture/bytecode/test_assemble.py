"""Copies of code objects behave like the originals."""

import bisect
import calendar
import configparser
import contextlib
import csv
import difflib
import dis
import fractions
import heapq
import inspect
import io
import itertools
import json.decoder
import json.encoder
import random
import re
import shlex
import statistics
import string
import textwrap
import traceback
from types import CodeType, FunctionType

import numpy
import pytest
from bytecode import Instr
from bytecode.instr import InstrLocation

from dynajit.capture.bytecode.assemble import Copy, Signature, Writer, assemble, boxed, prologue
from dynajit.capture.bytecode.instructions import _exception_table, decode, parameters
from dynajit.core.errors import InternalError

MODULES = (
    bisect, calendar, configparser, contextlib, csv, difflib, fractions, heapq, json.decoder,
    json.encoder, random, re, shlex, statistics, string, textwrap,
)  # fmt: skip


def signature(code):
    return Signature(
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, parameters(code),
        code.co_flags,
    )  # fmt: skip


def copied(code):
    """`code` through Copy and assemble, with a jump over a prologue of its own."""
    if decode(code).is_generator:
        return code
    copy = Copy(code)
    writer = Writer(InstrLocation(code.co_firstlineno, None, None, None))
    start = next(item for item in decode(code) if item.operation != "MAKE_CELL")
    writer.jump(copy.label(start.offset))
    items = [*prologue(code), *writer.items, *copy.items()]
    return assemble(items, code, signature(code), code.co_stacksize, code.co_qualname)


def nested(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def functions(module):
    codes = nested(compile(inspect.getsource(module), module.__file__, "exec"))
    return [code for code in codes if code.co_flags & 1]  # CO_OPTIMIZED: functions


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_copy_has_the_same_instructions_handlers_and_lines(module):
    for code in functions(module):
        if decode(code).is_generator:
            continue
        old, new = decode(code), decode(copied(code))
        start = next(item.index for item in new if item.operation == "JUMP") + 1
        rest = list(new)[start:]
        assert len(old) == len(rest), code
        for before, after in zip(old, rest, strict=True):
            assert before.operation == after.operation
            assert before.location == after.location
            if before.operation != "MAKE_CELL":  # jumped over in the copy
                assert old.depths[before.index] == new.depths[after.index]
            if before.handler is None:
                assert after.handler is None
            else:
                assert before.handler.target == after.handler.target - start
                assert before.handler.depth == after.handler.depth
                assert before.handler.push_lasti == after.handler.push_lasti


def replaced(module, monkeypatch):
    """Replace every function of the module, and of its classes, by a copy."""
    count = 0
    for owner in [module, *(c for c in vars(module).values() if isinstance(c, type))]:
        for value in list(vars(owner).values()):
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                monkeypatch.setattr(value, "__code__", copied(value.__code__))
                count += 1
    return count


def use_textwrap():
    return textwrap.fill("the quick brown fox " * 5, 30), textwrap.dedent("  a\n   b")


def use_json():
    decoder = json.decoder.JSONDecoder()
    text = json.encoder.JSONEncoder(indent=2, sort_keys=True).encode({"b": [1, None], "a": "é"})
    with pytest.raises(json.decoder.JSONDecodeError) as caught:
        decoder.decode("[1, ")
    return text, decoder.decode(text), str(caught.value)


def use_configparser():
    parser = configparser.ConfigParser()
    parser.read_string("[a]\nx = 1\ny = %(x)s2\n[b]\nz: on")
    out = io.StringIO()
    parser.write(out)
    return parser["a"]["y"], parser.getboolean("b", "z"), parser.sections(), out.getvalue()


def use_statistics():
    data = [1.5, 2.5, 2.5, 4.0]
    return statistics.mean(data), statistics.stdev(data), statistics.multimode(data)


def use_difflib():
    return list(difflib.unified_diff(["a\n", "b\n"], ["a\n", "c\n"])), difflib.get_close_matches(
        "appel", ["ape", "apple", "peach"]
    )


def use_fractions():
    third = fractions.Fraction("1/3")
    return third + 1, round(third, 2), third**2, str(fractions.Fraction(0.25))


def use_shlex():
    return shlex.split("a 'b c' \"d e\" # f", comments=True), shlex.quote("it's")


def use_calendar():
    return calendar.TextCalendar().formatyear(2024), calendar.isleap(2100)


@pytest.mark.parametrize(
    ("module", "use"),
    [
        (textwrap, use_textwrap), (json.decoder, use_json), (configparser, use_configparser),
        (statistics, use_statistics), (difflib, use_difflib), (fractions, use_fractions),
        (shlex, use_shlex), (calendar, use_calendar),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_modules_work_with_every_function_copied(module, use, monkeypatch):
    expected = use()
    assert replaced(module, monkeypatch) > 2
    assert expected == use()


def test_signature_name_and_docstring_stay():
    def f(a, /, b, *args, c=1, **kwargs):
        """What it does."""
        return a, b, args, c, kwargs

    code = copied(f.__code__)
    made = FunctionType(code, globals(), "f", None, None)
    made.__kwdefaults__ = f.__kwdefaults__
    assert made.__doc__ == "What it does."
    assert f(1, 2, 3, d=4) == made(1, 2, 3, d=4)
    assert code.co_flags == f.__code__.co_flags
    assert code.co_qualname == f.__code__.co_qualname


def test_equal_literals_stay_different_objects():
    numbers = [float("1.5"), float("1.5"), float("nan"), float("nan")]
    kept = [*numbers, *(kind([1, 2]) for kind in (frozenset, tuple) * 2), numbers[0]]

    def f():
        return None

    writer = Writer(InstrLocation(1, None, None, None))
    for value in kept:
        writer.load_constant(value)
    writer.append("BUILD_TUPLE", len(kept), len(kept), 1)
    writer.append("RETURN_VALUE", None, 1, 0)
    items = [*prologue(f.__code__), *writer.items]
    code = assemble(items, f.__code__, signature(f.__code__), writer.maximum, "f")
    result = FunctionType(code, {})()
    assert all(found is value for found, value in zip(result, kept, strict=True))
    assert sum(value is numbers[0] for value in code.co_consts) == 1


def test_equal_constants_stay_different_objects():
    first, second = numpy.float32(1), numpy.float32(1)
    left, right = [1], [1]

    def f():
        return None

    writer = Writer(InstrLocation(1, None, None, None))
    for value in (first, second, left, right, (left,), 1, 1.0, True, "a"):
        writer.load_constant(value)
    writer.append("BUILD_TUPLE", 9, 9, 1)
    writer.append("RETURN_VALUE", None, 1, 0)
    items = [*prologue(f.__code__), *writer.items]
    code = assemble(items, f.__code__, signature(f.__code__), writer.maximum, "f")
    result = FunctionType(code, {})()
    assert result[0] is first and result[1] is second
    assert result[2] is left and result[3] is right and result[4][0] is left
    assert [type(value) for value in result[5:]] == [int, float, bool, str]
    assert boxed(None) is None and boxed(True) is True


def test_functions_with_many_locals_keep_them_apart():
    names = [f"v{i}" for i in range(40)]
    lines = [f"    {name} = {i}" for i, name in enumerate(names)]
    pairs = [f"    {a}, {b} = {b}, {a}" for a, b in itertools.pairwise(names)]
    text = "def f():\n" + "\n".join([*lines, *pairs]) + f"\n    return {', '.join(names)}"
    namespace = {}
    exec(text, namespace)
    f = namespace["f"]
    assert f() == FunctionType(copied(f.__code__), {})()


def test_the_writer_counts_the_stack():
    writer = Writer(InstrLocation(1, None, None, None))
    writer.callable(lambda: writer.load_constant(max))
    writer.load_constant(1)
    writer.load_constant(2)
    assert (writer.depth, writer.maximum) == (4, 4)
    writer.call(2)
    assert writer.depth == 1
    writer.pop()
    with pytest.raises(InternalError, match="POP_TOP"):
        writer.pop()


def test_a_copy_is_addressed_by_offset():
    def f(x, y):
        return x + y

    copy = Copy(f.__code__)
    add = next(item for item in decode(f.__code__) if item.operation == "BINARY_OP")
    (instruction,) = copy.between(add.offset, add.last_offset)
    assert isinstance(instruction, Instr) and instruction.name == "BINARY_OP"
    with pytest.raises(InternalError, match="no instruction at"):
        copy.label(add.offset + 1)
    assert Copy.offsets(f.__code__) == [item.offset for item in dis.get_instructions(f.__code__)]


def nested_handlers(lines):
    """A function where a handler begins at a jump, over so many lines."""
    body = [
        "def f(k):",
        "    log = []",
        "    for i in range(3):",
        "        try:",
        "            log.append(1 // k)",
        "            item = [1][k]",
        "        except IndexError:",
        *(["            log.append((k, i))"] * lines),
        "        except TypeError:",
        "            log.append('type')",
        "            raise",
        "        finally:",
        "            log.append([0, 1][k - i])",
        "        if i == 2:",
        "            return i, log",
    ]
    namespace = {}
    exec("\n".join(body), namespace)
    return namespace["f"]


@pytest.mark.parametrize("lines", range(1, 30, 4))
def test_a_copy_of_a_copy_has_the_handlers_of_long_jumps(lines):
    def outcome(function, k):
        try:
            return function(k)
        except Exception as error:
            return repr(error), [line for _, line in traceback.walk_tb(error.__traceback__)]

    f = nested_handlers(lines)
    twice = FunctionType(copied(copied(f.__code__)), {})
    assert all(start < stop for start, stop, *_ in _exception_table(twice.__code__))
    assert [outcome(f, k) for k in (0, 1, 2, "a")] == [outcome(twice, k) for k in (0, 1, 2, "a")]
