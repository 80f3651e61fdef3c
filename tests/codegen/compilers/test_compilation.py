"""How a unit becomes code: in parts or whole, loaded or linked, or refused."""

import ctypes
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen import pipeline
from dynajit.codegen._runtime import LOADS_OBJECTS, Library
from dynajit.codegen.c import text as c_text
from dynajit.codegen.compilers import compilation, toolchain
from dynajit.codegen.compilers.compilation import Ahead, Request, Unit, compiled_unit
from dynajit.core.errors import ToolchainError
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE as ops

GCC = shutil.which("gcc")
pytestmark = [pytest.mark.c_only, pytest.mark.skipif(GCC is None, reason="needs gcc")]

DIVIDED = """\
#define DJ_PARTS 2
#ifdef DJ_PART
#define DJ_IN(part) (DJ_PART == part)
#define DJ_KERNEL __attribute__((visibility("hidden"))) int
#else
#define DJ_IN(part) 1
#define DJ_KERNEL static int
#endif
DJ_KERNEL seven(void);
#if DJ_IN(1)
DJ_KERNEL seven(void) { return 7; }
#endif
#if DJ_IN(0)
int run(void) { return 6 * seven(); }
#endif
"""


def request(source: str, compiler: str | None = None, is_plain: bool = True) -> Request:
    return Request((compiler or str(GCC), "-shared", "-fPIC"), "the compiler", source, is_plain)


def compile_unit(asked: Request, ahead: Ahead | None = None) -> Unit:
    with compiled_unit(asked, ahead) as unit:
        return unit


loads_objects = pytest.mark.skipif(not LOADS_OBJECTS, reason="object files are linked here")


@pytest.fixture
def links(monkeypatch):
    """Nothing is loaded by ourselves."""
    monkeypatch.setattr(compilation, "LOADS_OBJECTS", False)


@pytest.fixture
def commands(monkeypatch):
    """What was run, as lists of arguments."""
    seen: list[list[str]] = []
    run = compilation._run

    def recorded(command):
        seen.append(list(command))
        return run(command)

    monkeypatch.setattr(compilation, "_run", recorded)
    return seen


def result_of(unit: Unit, folder: Path) -> int:
    library = unit.library
    if library is None:
        path = folder / f"{len(list(folder.iterdir()))}.so"  # a loaded file must stay as it is
        path.write_bytes(unit.contents[0])
        library = Library(path)
    return ctypes.CFUNCTYPE(ctypes.c_int)(library.address("run"))()


@loads_objects
@pytest.mark.parametrize(("processors", "runs"), [(1, 1), (2, 2)])
def test_a_divided_unit_is_compiled_in_parts_where_there_are_processors(
    commands, monkeypatch, tmp_path, processors, runs
) -> None:
    monkeypatch.setattr(compilation, "available_processors", lambda: processors)

    unit = compile_unit(request(DIVIDED))

    assert result_of(unit, tmp_path) == 42
    assert len(unit.contents) == runs
    assert len(commands) == runs
    assert all("-c" in command for command in commands)


@loads_objects
def test_object_files_that_are_not_loaded_are_linked_with_all_libraries(commands, tmp_path) -> None:
    """Variables of a thread need an offset that the dynamic linker of the C library gives out."""
    source = "_Thread_local int six = 6; int run(void) { return 7 * six; }"
    unit = compile_unit(request(source))

    assert unit.library is None
    assert result_of(unit, tmp_path) == 42
    assert ["-c" in command for command in commands] == [True, False]
    assert "-nostdlib" not in commands[-1]


def test_a_unit_is_linked_with_few_libraries_where_these_are_enough(
    commands, links, tmp_path
) -> None:
    source = "double sqrt(double); int run(void) { return (int)sqrt(49.0); }"

    assert result_of(compile_unit(request(source)), tmp_path) == 7
    assert result_of(compile_unit(request(source, is_plain=False)), tmp_path) == 7
    assert ["-nostdlib" in command for command in commands if "-c" not in command] == [True, False]


def test_a_compiler_without_openmp_compiles_for_one_thread(commands, tmp_path) -> None:
    script = tmp_path / "cc"
    script.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case $word in -fopenmp|-lgomp)\n'
        '  echo "ld: cannot find -lgomp" >&2; exit 1;; esac; done\n'
        f'exec {GCC} "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    assert result_of(compile_unit(request(DIVIDED, str(script))), tmp_path) == 42
    assert "-fopenmp-simd" in commands[-1]


def test_the_compiler_may_be_named_by_a_relative_path(monkeypatch, tmp_path) -> None:
    (tmp_path / "cc").symlink_to(str(GCC))
    monkeypatch.chdir(tmp_path)

    assert result_of(compile_unit(request(DIVIDED, "./cc")), tmp_path) == 42


PLAIN = "int run(void) { return 42; }"


@pytest.fixture
def ahead(monkeypatch):
    """A compiler that waits for a text."""
    monkeypatch.setattr(compilation, "available_processors", lambda: 2)
    started = compilation.start_ahead(request("").command)
    assert started is not None
    yield started
    started.dismiss()


def is_gone(ahead: compilation.Ahead) -> bool:
    return ahead.process.returncode is not None and not Path(ahead.folder.name).exists()


def test_a_compiler_that_was_started_ahead_makes_the_same_object(ahead, commands) -> None:
    unit = compile_unit(request(PLAIN), ahead)

    assert commands == []
    assert unit.contents == compile_unit(request(PLAIN)).contents
    assert is_gone(ahead)


@pytest.mark.parametrize(
    "asked",
    [request(DIVIDED), Request((str(GCC), "-shared", "-fPIC", "-O2"), "", PLAIN, True)],
    ids=["divided", "other flags"],
)
def test_a_compiler_that_was_started_ahead_for_another_unit_is_dismissed(
    ahead, commands, asked, tmp_path
) -> None:
    assert result_of(compile_unit(asked, ahead), tmp_path) == 42
    assert commands
    assert is_gone(ahead)


def test_what_a_compiler_started_ahead_refuses_is_compiled_as_ever(ahead, commands) -> None:
    with pytest.raises(ToolchainError, match=r"line 1: .*missing.*\n    int run"):
        compile_unit(request("int run(void) { return missing; }"), ahead)

    assert len(commands) == 1
    assert is_gone(ahead)


def test_a_compiler_that_died_meanwhile_is_replaced(ahead, commands, tmp_path) -> None:
    ahead.process.kill()

    assert result_of(compile_unit(request(PLAIN), ahead), tmp_path) == 42
    assert len(commands) == 1


def test_no_compiler_is_started_ahead_on_one_processor(monkeypatch) -> None:
    monkeypatch.setattr(compilation, "available_processors", lambda: 1)

    assert compilation.start_ahead(request("").command) is None


def test_a_compiler_that_cannot_be_started_ahead_is_none(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(compilation, "available_processors", lambda: 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    assert compilation.start_ahead((str(tmp_path / "missing"),)) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_hold_the_text_open(ahead, tmp_path) -> None:
    """The compiler would wait for the end of its text until the child has ended."""
    release, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        os.read(release, 1)
        os._exit(0)
    os.close(release)
    try:
        assert result_of(compile_unit(request(PLAIN), ahead), tmp_path) == 42
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.close(told)
        os.waitpid(child, 0)


def test_a_refused_source_is_not_compiled_in_other_ways(commands) -> None:
    with pytest.raises(ToolchainError, match=r"line 1: .*missing.*\n    int run"):
        compile_unit(request("int run(void) { return missing; }"))

    assert len(commands) == 1


def test_an_error_in_a_part_shows_the_generated_line(monkeypatch) -> None:
    monkeypatch.setattr(compilation, "available_processors", lambda: 2)

    with pytest.raises(ToolchainError, match=r"line 11: .*\n    DJ_KERNEL seven\(void\) \{ oops;"):
        compile_unit(request(DIVIDED.replace("return 7", "oops")))


def test_a_failure_without_a_line_is_shown_whole(tmp_path) -> None:
    with pytest.raises(ToolchainError, match="the compiler failed on generated code"):
        compile_unit(Request((str(GCC), "-fno-such-flag"), "the compiler", "int run;", True))


def many_kernels(x, y):
    values = []
    for shift in range(1, 7):
        scaled = ops.mul(ops.add(x, float(shift)), y)
        values += [ops.sum(scaled, dim=(0,)), ops.softmax(ops.matmul(scaled, x), dim=1)]
    return values


@pytest.mark.parametrize("processors", [1, 2])
def test_a_graph_of_many_kernels_computes_the_same_bits_in_parts(
    codegen, monkeypatch, tmp_path, processors
) -> None:
    type = TensorType((9, 9), dtypes.float32)
    graph = codegen.graph_of(many_kernels, type, type)
    x, y = np.random.default_rng(0).standard_normal((2, 9, 9), dtype=np.float32)
    monkeypatch.setattr(compilation, "available_processors", lambda: processors)
    monkeypatch.setattr(c_text, "PART_LINES", 10**6)
    undivided = pipeline.compile_graph(graph)
    whole = undivided(x, y)
    monkeypatch.setattr(c_text, "PART_LINES", 60)

    with config.override(cache_dir=tmp_path):
        program = pipeline.compile_graph(graph)

    assert "DJ_PART" not in undivided.source
    assert f"#define DJ_PARTS {c_text.MOST_PARTS}" in program.source
    assert program.source.count("\nDJ_KERNEL") == 2 * program.source.count(") {\n    (void)scalars")
    for expected, found in zip(whole, program(x, y), strict=True):
        np.testing.assert_array_equal(expected, found)


def test_sums_of_rows_of_any_length_are_compiled_in_parts(monkeypatch, tmp_path) -> None:
    """Short rows have a function of their own in front of the kernel, which other parts call."""

    def sums(x, n):
        rest = x[n:]
        return rest.sum(), rest.max() + x, dj.cumsum(rest, 0), (rest * 2).exp().sum(), rest.prod()

    monkeypatch.setattr(compilation, "available_processors", lambda: 2)
    monkeypatch.setattr(c_text, "PART_LINES", 40)
    with config.override(cache_dir=tmp_path, strict=True):
        compiled, x = dj.compile(sums, fullgraph=True), dj.rand(90)
        for start in (3, 5, 70, 1):
            dj.testing.assert_close(compiled(x, start), sums(x, start))


@pytest.mark.parametrize(
    ("name", "version", "is_gcc"),
    [
        ("gcc", "gcc (Debian 12.2.0-14) 12.2.0", True),
        ("x86_64-linux-gnu-gcc-13", "x86_64-linux-gnu-gcc-13 (Ubuntu) 13.1.0", True),
        ("gcc", "Apple clang version 15.0.0", False),
        ("clang", "Debian clang version 14.0.6", False),
        ("icx", "Intel(R) oneAPI DPC++/C++ Compiler 2024.0", False),
    ],
)
def test_gcc_is_known_by_its_name_or_by_what_it_says(
    name, version, is_gcc, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")  # where Clang has GCC's name, too

    assert toolchain.Compiler(str(tmp_path / name), "", lambda: version).is_gcc is is_gcc


def test_gcc_under_another_name_is_known(tmp_path) -> None:
    (tmp_path / "gcc-12").touch()
    (tmp_path / "cc").symlink_to("gcc-12")

    compiler = toolchain.Compiler(str(tmp_path / "cc"), "", lambda: "unknown version")

    assert compiler.is_gcc
    assert set(toolchain.GCC_FLAGS) < set(toolchain.flags(compiler))
