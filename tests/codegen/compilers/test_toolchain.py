"""The compiler and the disk cache: found, missing, corrupt, unwritable."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.codegen._runtime import LOADS_OBJECTS
from dynajit.codegen.compilers import compilation, toolchain
from dynajit.codegen.pipeline import compile_graph
from dynajit.codegen.run.numpy_backend import NumpyProgram
from dynajit.core.errors import ArgumentError, ToolchainError
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.c_only

TYPE = TensorType((5,), dtypes.float32)
SOURCE = "int run(void) { return 7; }\n"


@pytest.fixture
def graph(codegen):
    return codegen.graph_of(lambda x: ops.add(x, 41.5), TYPE)


@pytest.fixture
def fresh(tmp_path: Path):
    """An empty cache folder."""
    with config.override(cache_dir=tmp_path):
        yield tmp_path


def finish_behind() -> None:
    """What is done when results are there: files are written, and the cache is trimmed."""
    for thread in set(threading.enumerate()) - {threading.current_thread()}:
        thread.join(60)


CODE = ".o" if LOADS_OBJECTS and not config.current().link_kernels else ".so"


def run(program) -> list[float]:
    (result,) = program(np.ones(5, np.float32))
    return result.tolist()


def test_second_compilation_comes_from_the_cache(graph, fresh) -> None:
    """Equal graphs compile once; the entry has a record beside it."""
    first, second = compile_graph(graph), compile_graph(graph)

    assert (False, True) == (first.from_cache, second.from_cache)
    assert [42.5] * 5 == run(first) == run(second)
    finish_behind()
    assert {CODE, ".json"} == {p.suffix for p in (fresh / "kernels").iterdir()}


def test_another_process_uses_the_cache(graph, fresh) -> None:
    """The key does not depend on the process."""
    compiler = toolchain.find_compiler()
    assert compiler is not None
    code = (
        "from dynajit.codegen.compilers import toolchain\n"
        f"print(toolchain.cache_key({SOURCE!r}, toolchain.find_compiler()))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)

    assert toolchain.cache_key(SOURCE, compiler) == result.stdout.strip()


def test_key_depends_on_source_and_compiler() -> None:
    """Anything that changes the object changes the key."""
    one, two = (toolchain.Compiler("/bin/cc", state, str) for state in "12")
    keys = {toolchain.cache_key(s, c) for s in (SOURCE, SOURCE + " ") for c in (one, two)}

    assert len(keys) == 4


@pytest.mark.skipif(os.name != "posix", reason="a shell")
def test_another_version_of_a_compiler_has_another_key(monkeypatch, tmp_path) -> None:
    """Its file tells: the compiler itself is not asked."""
    script = tmp_path / "gcc"
    keys = []
    for number in (7, 10):
        script.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho version {number}\n")
        script.chmod(0o755)
        toolchain._find_compiler.cache_clear()
        with config.override(compiler=str(script)):
            compiler = toolchain.find_compiler()
            keys.append(toolchain.cache_key(SOURCE, compiler))

    assert keys[0] != keys[1]
    assert not (tmp_path / "asked").exists()
    assert str(compiler) == f"{script} (version 10)"


@pytest.fixture
def started(monkeypatch):
    """The compilers that were started ahead."""
    seen: list[compilation.Ahead] = []
    start = toolchain.start_ahead

    def recorded(command):
        ahead = start(command)
        seen.extend([] if ahead is None else [ahead])
        return ahead

    monkeypatch.setattr(compilation, "available_processors", lambda: 2)
    monkeypatch.setattr(toolchain, "start_ahead", recorded)
    with config.override(link_kernels=False):
        yield seen


@pytest.mark.parametrize("is_cached", [False, True], ids=["compiled", "cached"])
def test_the_compiler_that_was_started_ahead_is_of_one_unit(
    graph, fresh, started, is_cached
) -> None:
    """None is left at the end of the block, whether the cache had the object or not."""
    if is_cached:
        run(compile_graph(graph))
    with toolchain.compiler_ahead():
        assert len(started) == 1
        assert started[0].process.poll() is None
        program = compile_graph(graph)

    assert program.from_cache is is_cached
    assert [42.5] * 5 == run(program)
    assert started[0].process.returncode == (-signal.SIGKILL if is_cached else 0)


def test_a_compiler_that_nobody_took_ends_with_the_block(started) -> None:
    with pytest.raises(KeyError), toolchain.compiler_ahead():
        raise KeyError

    assert started[0].process.returncode is not None
    assert toolchain.take_ahead(SOURCE) is None


def test_a_block_within_another_one_has_its_compiler(graph, fresh, started) -> None:
    with toolchain.compiler_ahead():
        with toolchain.compiler_ahead():
            assert [42.5] * 5 == run(compile_graph(graph))
        assert len(started) == 1
        with toolchain.compiler_ahead():
            assert len(started) == 2

    assert [0, -signal.SIGKILL] == [each.process.returncode for each in started]


def test_a_divided_unit_leaves_the_compiler_that_waits(fresh, started) -> None:
    with toolchain.compiler_ahead():
        assert toolchain.take_ahead(f"#define DJ_PARTS 2\n{SOURCE}") is None
        assert started[0].process.returncode == -signal.SIGKILL


def test_none_is_started_ahead_for_sanitizers(started) -> None:
    """They need more libraries than the one that is started would link."""
    with config.override(sanitize=True), toolchain.compiler_ahead():
        assert toolchain.take_ahead(SOURCE) is None
    assert not started


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_corrupt_entry_is_compiled_again(graph, fresh, content) -> None:
    """A damaged object, or one without its record, is never loaded."""
    run(compile_graph(graph))
    finish_behind()
    (library,) = (fresh / "kernels").glob(f"*{CODE}")
    if content is None:
        library.with_suffix(".json").unlink()
    else:
        library.unlink()  # the mapped file itself stays as it is
        library.write_bytes(content)

    program = compile_graph(graph)

    assert not program.from_cache
    assert [42.5] * 5 == run(program)


@pytest.mark.parametrize("suffix", [".o", ".so"])
@pytest.mark.parametrize("sizes", [[9], [4, 5], [], "?", [-1], None])
def test_an_object_that_does_not_load_is_compiled_again(graph, fresh, suffix, sizes) -> None:
    """A record that matches a file which is no code does not help it."""
    run(compile_graph(graph))
    finish_behind()
    (library,) = (fresh / "kernels").glob(f"*{CODE}")
    library.unlink()
    library.with_suffix(suffix).write_bytes(b"no object")
    record = {"sha256": hashlib.sha256(b"no object").hexdigest(), "objects": sizes}
    library.with_suffix(".json").write_text(json.dumps(record))

    program = compile_graph(graph)

    assert not program.from_cache
    assert [42.5] * 5 == run(program)


def test_equal_units_of_a_process_have_the_same_code(graph, fresh) -> None:
    """So it is there before its file, and once in memory."""
    first = compile_graph(graph)
    built = toolchain.find_built(first.source)
    assert built is not None
    finish_behind()
    shutil.rmtree(fresh / "kernels")
    assert toolchain.find_built(first.source) == built

    source = first.source
    del first, built
    assert toolchain.find_built(source) is None


def test_code_that_is_not_loaded_from_memory_is_kept_as_a_shared_object(
    graph, fresh, monkeypatch
) -> None:
    monkeypatch.setattr(compilation, "LOADS_OBJECTS", False)
    run(compile_graph(graph))
    finish_behind()

    assert {".so", ".json"} == {p.suffix for p in (fresh / "kernels").iterdir()}
    monkeypatch.setattr(toolchain, "_loaded", {})
    program = compile_graph(graph)
    assert program.from_cache
    assert [42.5] * 5 == run(program)


def test_kernels_that_are_linked_have_names_for_profilers(graph, fresh) -> None:
    with config.override(link_kernels=False):
        run(compile_graph(graph))
    with config.override(link_kernels=True):
        program = compile_graph(graph)
        finish_behind()
    (code,) = (fresh / "kernels").glob("*.so")
    names = subprocess.run(["nm", code], capture_output=True, text=True, check=True).stdout

    assert not program.from_cache
    assert [42.5] * 5 == run(program)
    assert " T run\n" in names
    content = code.read_bytes()  # inlined functions have names in what describes the code
    assert all(f"{kernel.name}\0".encode() in content for kernel in program.kernels)


def test_unwritable_folder_falls_back_with_one_warning(graph, tmp_path) -> None:
    """Kernels go to a temporary folder; the message names the remedy."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with config.override(cache_dir=blocked):
        with pytest.warns(RuntimeWarning, match="cannot be written.*DYNAJIT_CACHE_DIR"):
            program = compile_graph(graph)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile_graph(graph)

    assert [42.5] * 5 == run(program)


@pytest.mark.skipif(not LOADS_OBJECTS, reason="shared objects are loaded from the cache")
def test_a_kernel_that_cannot_be_written_computes_and_warns(fresh, monkeypatch) -> None:
    """As when the disk is full."""

    def refuse(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(toolchain, "write_atomically", refuse)
    with (
        config.override(link_kernels=False),
        pytest.warns(RuntimeWarning, match="No space left.*will compile it again"),
    ):
        built = toolchain.build(SOURCE)

    assert built.library.address("run")
    assert not list((fresh / "kernels").iterdir())


STRICT = """
import ctypes, sys
from dynajit.codegen.compilers import toolchain

PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
if sys.argv[1] == "strict" and ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0):
    sys.exit("unknown")
built = toolchain.build("int run(void) { return 7; }")
run = ctypes.CFUNCTYPE(ctypes.c_int)(built.library.address("run"))
print(run(), built.from_cache)
"""


@pytest.mark.skipif(not LOADS_OBJECTS, reason="object files are linked here")
def test_where_no_memory_may_become_code_it_is_linked(tmp_path) -> None:
    """Also where the cache has what others load: then it is replaced by what all can open."""
    environment = {**os.environ, "DYNAJIT_CACHE_DIR": str(tmp_path), "DYNAJIT_LINK_KERNELS": ""}
    printed = []
    for system in ("free", "strict", "strict", "free"):
        command = [sys.executable, "-c", STRICT, system]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.stderr == "unknown\n":
            pytest.skip("this system does not forbid memory to become code")
        printed.append(done.stdout + done.stderr)

    assert ["7 False\n", "7 False\n", "7 True\n", "7 True\n"] == printed
    assert {".so", ".json"} == {p.suffix for p in (tmp_path / "kernels").iterdir()}


@pytest.mark.parametrize("text", ["[]", "3", '"sha256"', "null", "{}"])
def test_a_record_of_another_kind_is_none(fresh, text) -> None:
    compiler = toolchain.find_compiler()
    entry = toolchain._entry_of(SOURCE, compiler)
    entry.write_text(text)

    assert toolchain.find_built(SOURCE) is None


def test_cache_is_trimmed_oldest_first(tmp_path) -> None:
    """Above the size cap old entries disappear with their records; the newest always stays."""
    files = [tmp_path / f"{name}.so" for name in ("c", "b", "a", "0")]
    for number, file in enumerate(files):
        file.write_bytes(bytes(100))
        file.with_suffix(".json").write_text("{}")
        os.utime(file, (number, number))
    toolchain.trim(files[3], 250)

    assert [False, False, True, True] == [file.exists() for file in files]
    assert [False, False, True, True] == [file.with_suffix(".json").exists() for file in files]
    toolchain.trim(files[3], 50)
    assert [files[3]] == list(tmp_path.glob("*.so"))
    toolchain.trim(tmp_path / "missing" / "0.so", 50)


def test_both_kinds_of_code_count_when_the_cache_is_trimmed(tmp_path) -> None:
    files = [tmp_path / name for name in ("a.so", "b.o", "c.txt", "d.o")]
    for number, file in enumerate(files):
        file.write_bytes(bytes(100))
        os.utime(file, (number, number))
    toolchain.trim(files[3], 250)

    assert [False, True, True, True] == [file.exists() for file in files]


def test_one_name_in_16_has_the_cache_trimmed(tmp_path) -> None:
    old = tmp_path / "f.so"
    for first in "123456789abcdef0":
        old.write_bytes(bytes(100))
        os.utime(old, (1, 1))
        new = tmp_path / f"{first}00.so"
        new.write_bytes(bytes(100))
        toolchain.trim_at_times(new, 10_000)
        assert old.exists()
        toolchain.trim_at_times(new, 100)
        assert old.exists() == (first != "0")


def test_a_kernel_has_the_cache_trimmed(graph, fresh, monkeypatch) -> None:
    trimmed = []
    monkeypatch.setattr(toolchain, "trim_at_times", lambda *given: trimmed.append(given))
    with config.override(cache_size_bytes=12345):
        compile_graph(graph)
    finish_behind()

    assert trimmed == [(next((fresh / "kernels").glob(f"*{CODE}")), 12345)]


def test_compiler_error_shows_the_generated_line(codegen, fresh) -> None:
    """The message has the compiler, its complaint and the line."""
    with pytest.raises(ToolchainError, match=r"line 2.*\n\s+int x = undeclared;"):
        toolchain.build("int run(void) {\nint x = undeclared;\nreturn x; }\n")


def test_configured_compiler_must_exist(graph) -> None:
    """A wrong DYNAJIT_CC is an error, not a silent fallback."""
    with (
        config.override(compiler="no-such-compiler"),
        pytest.raises(ToolchainError, match="no-such-compiler"),
    ):
        compile_graph(graph)


def test_without_a_compiler_numpy_runs(graph, monkeypatch) -> None:
    """One warning that names the remedy; the results are the same."""
    monkeypatch.setenv("PATH", "")
    with (
        config.override(compiler=None),
        pytest.warns(RuntimeWarning, match="Install gcc or clang"),
    ):
        program = compile_graph(graph)

    assert isinstance(program, NumpyProgram)
    assert [42.5] * 5 == run(program)


def test_numpy_backend_by_name(graph) -> None:
    """`backend="numpy"` interprets without a warning and never returns an input's memory."""
    program = compile_graph(graph, backend="numpy")

    assert [42.5] * 5 == run(program)
    assert () == program.kernels


def test_unknown_backend_is_refused(graph) -> None:
    """The message lists the backends."""
    with pytest.raises(ArgumentError, match="native, numpy"):
        compile_graph(graph, backend="fortran")


def test_numpy_backend_copies_views(codegen) -> None:
    """An output that is a view of an input is a copy, as from native code."""
    graph = codegen.graph_of(lambda x: ops.reshape(x, shape=(5, 1)), TYPE)
    x = np.zeros(5, np.float32)
    (result,) = compile_graph(graph, backend="numpy")(x)

    assert not np.shares_memory(x, result)


def script(folder: Path, name: str, text: str) -> str:
    """A compiler that is a shell script."""
    path = folder / name
    path.write_bytes(b"#!/bin/sh\n" + text.encode("latin-1"))
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@pytest.mark.parametrize("name", ["gcc", "cc"])
def test_a_compiler_may_print_any_bytes(fresh, tmp_path, name) -> None:
    path = script(tmp_path, name, "printf '\\377\\200 unit.c:1:1: error: \\376' >&2\nexit 1\n")
    with config.override(compiler=path), pytest.raises(ToolchainError, match="refused generated"):
        toolchain.build(SOURCE)


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@pytest.mark.parametrize("is_ahead", [False, True], ids=["late", "ahead"])
@pytest.mark.parametrize("name", ["gcc", "cc"])
def test_numpy_computes_where_the_compiler_does_not_end(
    graph, fresh, tmp_path, monkeypatch, name, is_ahead
) -> None:
    """It is killed with all that it has started, and is not asked again; there is one warning."""
    monkeypatch.setattr(compilation, "COMPILE_LIMIT_S", 0.5)
    monkeypatch.setattr(toolchain, "VERSION_LIMIT_S", 0.5)
    monkeypatch.setattr(pipeline, "_warned", set())
    monkeypatch.setattr(compilation, "available_processors", lambda: 2)
    text = f"sleep 1000 &\necho $! >> {tmp_path}/started\nwait\n"
    with config.override(compiler=script(tmp_path, name, text), link_kernels=False):
        with (
            pytest.warns(RuntimeWarning, match=f"{name} did not finish in 0.5 s.*NumPy") as met,
            toolchain.compiler_ahead() if is_ahead else nullcontext(),
        ):
            program = compile_graph(graph)
        asked = (tmp_path / "started").read_text()
        again = compile_graph(graph)

    assert 1 == len(met)
    assert [[42.5] * 5] * 2 == [run(program), run(again)]
    assert {NumpyProgram} == {type(program), type(again)}
    assert asked == (tmp_path / "started").read_text()
    assert all(ends(int(pid)) for pid in asked.split())


def ends(pid: int) -> bool:
    """Whether a process that was killed is gone, soon."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.1)
    return False
