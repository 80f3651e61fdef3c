"""Hostile names: what generated C, CUDA, Python, HTML, files and terminals make of them.

Every kind of name that a program chooses goes through everything that prints it.
"""

import ast
import re
import types
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit import fx
from dynajit.codegen import pipeline
from dynajit.codegen.cuda import text as cuda_text
from dynajit.core import quoting
from dynajit.core.arrays.gpu.memory import Event
from dynajit.core.errors import InvalidValueError, OperatorError
from dynajit.core.location import Location
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ops.methods import methods  # noqa: F401 (values of graphs have methods)
from dynajit.report import dump, log, memory_timeline

MARK = "evil_marker"
NAMES = {
    "end of a comment": f"x */ int {MARK}(void); /*",
    "line of a comment": f"x // \\\nint {MARK};",
    "newline": f"x\n{MARK} = 1\n#",
    "carriage return": f"a\r{MARK} = 1",
    "separators": f"a\x0c\x1c\x85\u2028{MARK} = 1",
    "NUL": f"x\0{MARK}",
    "trigraph": f"x *??/\n/ int {MARK}; /*??/\n*",
    "quotes": f'x"\');{MARK}("\\',
    "docstring": f'x""" + {MARK} + """',
    "markup": f"<script>{MARK}</script>&quot;",
    "folders": "../../marker",
    "absolute": "/tmp/marker_of_a_test",
    "dots": "..",
    "long": "n" * 400,
    "long in bytes": "é" * 300,
    "surrogate": f"x\udc80{MARK}",
    "braces": "{x}{0}{" + MARK + "}",
    "digit": "1x",
    "keyword": "def",
    "taken": "ops",
    "nothing": "",
    "terminal": f"\x1b]0;{MARK}\x07\x9b2J",
    "other direction": "a\u202eb",
    "no identifier": "²",
}
named = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)


def without_comments(text: str) -> str:
    """C without comments, as a compiler with trigraphs reads it."""
    spliced = text.replace("??/", "\\").replace("\\\n", "")
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", spliced, flags=re.DOTALL)


@named
def test_a_comment_of_c_stays_one(name: str) -> None:
    text = f"/* {quoting.in_c_comment(name)} */\nint a;\n// {quoting.in_c_comment(name)}\nint b;"

    assert "\nint a;\n\nint b;" == without_comments(text)
    assert text.isascii()


@named
def test_a_comment_of_python_stays_one(name: str) -> None:
    text = f"a = 1  # {quoting.on_a_line(name)}\nb = 2\n"

    assert ast.dump(ast.parse("a = 1\nb = 2")) == ast.dump(ast.parse(text))
    assert 2 == len(text.splitlines())
    text.encode()


@named
def test_a_name_of_python_is_one(name: str) -> None:
    made = quoting.as_python_name(name, {"ops"})

    assert isinstance(ast.parse(made, mode="eval").body, ast.Name)
    assert made != "ops"


@named
def test_a_name_of_a_file_is_in_its_folder(name: str, tmp_path: Path) -> None:
    path = tmp_path / quoting.as_file_name(name, "function")
    path.mkdir()

    assert [path] == list(tmp_path.iterdir())


def test_long_names_of_files_differ() -> None:
    first, second = ("n" * 400 + end for end in "ab")

    assert quoting.as_file_name(first, "f") != quoting.as_file_name(second, "f")


@named
def test_a_terminal_is_not_commanded(name: str) -> None:
    shown = quoting.on_a_terminal(name)

    assert all(character.isprintable() for character in shown if character != "\n")
    shown.encode()


def test_readable_names_stay() -> None:
    assert "f.<locals>.g (resumed at line 3)" == quoting.in_c_comment(
        "f.<locals>.g (resumed at line 3)"
    )
    assert "größe" == quoting.as_python_name("größe")
    assert "größe → x" == quoting.on_a_line("größe → x")
    assert "a\tb\nc" == quoting.on_a_terminal("a\tb\nc")
    assert "Net.forward" == quoting.as_file_name("Net.forward", "function")


# ---------------------------------------------------------------------------------------------
# all that prints names


def _function(name: str) -> Any:
    def function(x: Any, y: Any) -> Any:
        return (x * 2 + y).sum()

    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function


def _file(name: str) -> Any:
    def function(x: Any, y: Any) -> Any:
        return (x * 2 + y).sum()

    function.__code__ = function.__code__.replace(co_filename=name)
    return function


def _argument(name: str) -> Any:
    def function(x: Any, y: Any) -> Any:
        return (x * 2 + y).sum()

    function.__code__ = function.__code__.replace(co_varnames=(name, "y"))
    return function


def _module(name: str) -> Any:
    def function(x: Any, y: Any) -> Any:
        return (x * 2 + y).sum()

    return types.FunctionType(function.__code__, {**globals(), "__name__": name})


def _class(name: str) -> Any:
    class Layer(dj.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return (x * 2 + y).sum()

    if "\0" not in name and "\udc80" not in name:  # Python refuses those
        Layer.__name__ = Layer.__qualname__ = name
    return Layer()


def _attribute(name: str) -> Any:
    holder = types.SimpleNamespace()
    setattr(holder, name, dj.ones(3))
    return lambda x, y: (x * getattr(holder, name) * 2 + y).sum()


def _buffer(name: str) -> Any:
    class Layer(dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._buffers[name] = dj.ones(3)
            self._parameters[f"w{name}"] = dj.nn.Parameter(dj.ones(3))

        def forward(self, x: Any, y: Any) -> Any:
            return (x * self._buffers[name] * self._parameters[f"w{name}"] * 2 + y).sum()

    return Layer()


KINDS = {
    "function": _function, "file": _file, "argument": _argument, "module": _module,
    "class": _class, "attribute": _attribute, "buffer": _buffer,
}  # fmt: skip


def _check_dumped(folder: Path) -> int:
    """Look at what was dumped; the number of its files."""
    count = 0
    for path in folder.rglob("*"):
        assert path.resolve().is_relative_to(folder.resolve())
        if path.is_dir():
            continue
        count += 1
        text = path.read_text(encoding="utf-8")
        assert "\x1b" not in text
        if path.name in ("1_graph.py", "3_forward.py", "4_backward.py"):
            names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            assert MARK not in names
        if path.suffix == ".c" and not text.startswith("def"):
            assert MARK not in without_comments(text)
    return count


@named
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.usefixtures("strict_programs")
def test_compiled_programs_may_have_any_names(
    make: Callable[[str], Any], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = dj.ones(3), dj.ones(3)
    with dj.config.override(dump=tmp_path, log=log.CHANNELS):
        expected = 9.0

        assert expected == dj.compile(make(name))(*arguments).item()
        assert expected == dj.compile(make(name), backend="eager")(*arguments).item()
        shown = str(dj.explain(make(name))(*arguments))

    assert _check_dumped(tmp_path) > 10
    assert "\x1b" not in capsys.readouterr().err + shown


def _graph(name: str) -> Any:
    builder = Builder(name)
    builder.location = Location(name, 1, name)
    x = builder.placeholder(name, TensorType((3,), dj.float32))
    return builder.finish((x * 2.0,))


@named
@pytest.mark.usefixtures("strict_programs")
def test_units_of_cuda_and_c_may_have_any_names(name: str) -> None:
    unit = cuda_text.generate(_graph(name), name)
    program = pipeline.compile_graph(_graph(name))

    for source in (unit.source, program.source):
        assert MARK not in without_comments(source)
        assert source.isascii()


@named
def test_reproductions_may_have_any_names(name: str, tmp_path: Path) -> None:
    with dj.config.override(dump=tmp_path):
        for make in (_function, _file, _argument):
            function = make(name)
            odd = type("Odd", (), {"__module__": name})()
            folder = dump.dump_reproduction(function, (odd, 1), ValueError(name))
            assert folder is not None
            text = (folder / "reproduction.py").read_text(encoding="utf-8")
            tree = ast.parse(text)

            assert MARK not in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} or (
                quoting.as_python_name(name) == MARK
            )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.met: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.met.add(tag)


@named
def test_pages_may_name_any_function(name: str, tmp_path: Path) -> None:
    event = Event("alloc", 1, 10, 0, 0, 0.0, ((name, 1, name),))
    memory_timeline.save(tmp_path / "page.html", [event], name)
    tags = _Tags()
    tags.feed((tmp_path / "page.html").read_text(encoding="utf-8"))

    assert "polygon" in tags.met
    assert "script" not in tags.met


@named
def test_traced_modules_may_have_any_names(name: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder(name)
    own = _function(name)
    called = graph.call_function(own, (x,), {"y": 1.0})
    graph.output(graph.call_method("add", (called, {name: 1.0}[name])))
    module = fx.GraphModule(dj.nn.Module(), graph)
    tree = ast.parse(module.code)

    assert 7.0 == module(dj.ones(3)).item() - 3
    assert MARK not in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert "\x1b" not in str(graph)


@named
def test_traced_modules_ask_for_any_method_and_argument(name: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method(name, (x,), {name: {name: x}}))
    asked: list[Any] = []

    class Odd:
        def __getattr__(self, attribute: str) -> Any:
            return lambda **keywords: asked.append((attribute, keywords))

    odd = Odd()
    fx.GraphModule(dj.nn.Module(), graph)(odd)

    assert [(name, {name: {name: odd}})] == asked


def test_a_traced_value_has_a_name_of_python() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.name = f"x = {MARK}"
    graph.output(x)

    with pytest.raises(InvalidValueError, match="none of Python's"):
        graph.python_code("self")


def test_a_traced_function_is_not_hidden_by_a_value() -> None:
    def x(value: Any) -> Any:
        return value + 1

    x.__qualname__, x.__module__ = "x", "builtins"
    graph = fx.Graph()
    graph.output(graph.call_function(x, (graph.placeholder("x"),)))

    assert 2 == fx.GraphModule(dj.nn.Module(), graph)(1)


ALLOWED = {"digit": False, "keyword": True, "taken": True, "long": True}


@pytest.mark.parametrize("kind", NAMES)
def test_operators_have_names_of_letters(kind: str) -> None:
    name = NAMES[kind]

    def kernel(x: dj.Tensor) -> dj.Tensor:
        return x.clone()

    for full in (f"quoting_test::{name}", f"{name}::f"):
        if ALLOWED.get(kind, False):
            operator = dj.library.custom_op(full, kernel, mutates_args=())
            assert 3.0 == operator(dj.ones(3)).sum().item()
            continue
        with pytest.raises((OperatorError, InvalidValueError), match="name of an operator"):
            dj.library.custom_op(full, kernel, mutates_args=())
