"""`DYNAJIT_DUMP=dir`: one folder per compiled function with everything that was made of it.

An internal error leaves a folder with `reproduction.py`: the function's source, a call with
arguments like those of the failing call, and the traceback.

Files, in the order of the stages: `0_bytecode.txt`, `1_graph.py`, `2_passes.txt`, `3_forward.py`,
`4_backward.py`, `5_forward.c`, `6_backward.c`, `7_bytecode_new.txt`, `8_breaks.txt`, `9_guards.py`.
Of kernels of a GPU the text is `5_forward.cu`, and `5_forward_steps.txt` says how they are
launched.
"""

import dis
import inspect
import io
import platform
import textwrap
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from dynajit.capture.entry.session import Compilation
from dynajit.capture.region.region import Region
from dynajit.codegen import pipeline as code
from dynajit.core.errors import ConfigurationWarning
from dynajit.core.process import config
from dynajit.core.process.warning import warn
from dynajit.core.quoting import as_file_name, as_python_name, on_a_line, on_a_terminal
from dynajit.eager import Tensor

MSG_UNWRITABLE: Final = (
    "dynajit: the folder {root} of DYNAJIT_DUMP cannot be written ({reason}); nothing is dumped.  "
    "Name a folder that can be written, or unset the variable."
)

#: Longer containers are not written into a reproduction.
_SHOWN: Final = 20


def dump_compilation(function: FunctionType, compilation: Compilation) -> Path | None:
    """Write the files of one compilation; returns their folder, None if dumps are off."""
    root = config.current().dump
    if root is None:
        return None
    try:
        return _write(root, function.__qualname__, _files(compilation, function.__code__))
    except OSError as error:
        _warn_unwritable(root, error)
        return None


def dump_reproduction(
    function: FunctionType, arguments: tuple[Any, ...], error: Exception
) -> Path | None:
    """Write what reproduces an internal error; returns its folder, None if dumps are off.

    Args:
        function: what was being compiled.
        arguments: bound arguments, in the order of `co_varnames`.
        error: what the compiler raised.
    """
    root = config.current().dump
    if root is None:
        return None
    files = {
        "reproduction.py": reproduction(function, arguments, error),
        "0_bytecode.txt": _disassembled(function.__code__),
    }
    try:
        return _write(root, f"{function.__qualname__}_error", files)
    except OSError as refused:
        _warn_unwritable(root, refused)
        return None


def _write(root: Path, name: str, files: Mapping[str, str]) -> Path:
    folder = _fresh_folder(root, name)
    for file, text in files.items():
        if text:
            (folder / file).write_text(text, encoding="utf-8", errors="backslashreplace")
    return folder


def _warn_unwritable(root: Path, error: OSError) -> None:
    """Say it once per folder: a dump that is missing changes nothing for the program."""
    if root not in _unwritable:
        _unwritable.add(root)
        warn(MSG_UNWRITABLE.format(root=root, reason=error.strerror or error), ConfigurationWarning)


_unwritable: Final[set[Path]] = set()


def reproduction(function: FunctionType, arguments: tuple[Any, ...], error: Exception) -> str:
    """A Python program like the call that failed; what cannot be written down is named."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError, ValueError, SyntaxError):  # the last of odd files and lines
        name = on_a_line(function.__qualname__)
        source = f"# the source of {name} is not known; see 0_bytecode.txt\n"
    names = [as_python_name(name) for name in function.__code__.co_varnames]
    values = [f"{name} = {_literal(value)}" for name, value in zip(names, arguments, strict=False)]
    called = as_python_name(function.__name__)
    trace = "".join(traceback.format_exception(error))
    lines = [
        '"""An internal error of dynajit: please report it with this file."""',
        "",
        f"# Python {platform.python_version()}, {platform.platform()}",
        *(f"# {on_a_line(line)}" for line in trace.splitlines()),
        "",
        "from __future__ import annotations",
        "",
        "import dynajit as dj",
        "",
        source,
        *values,
        "with dj.config.override(strict=True):",
        f"    dj.compile({called})({', '.join(names[: len(arguments)])})",
    ]
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    """Python text of a like value; nothing of the user's runs."""
    if isinstance(value, Tensor):
        sizes = ", ".join(str(size) for size in value.shape)
        grad = ", requires_grad=True" if value.requires_grad else ""
        return f"dj.ones({sizes or '()'}, dtype=dj.{value.dtype.name}{grad})"
    if type(value) in (int, float, bool, str, bytes, type(None)):
        return repr(value)
    if type(value) in (list, tuple) and len(value) <= _SHOWN:
        items = ", ".join(_literal(item) for item in value)
        comma = "," if type(value) is tuple and len(value) == 1 else ""
        return f"[{items}]" if type(value) is list else f"({items}{comma})"
    return f"...  # a {on_a_line(f'{type(value).__module__}.{type(value).__qualname__}')}"


def _files(compilation: Compilation, original: CodeType) -> dict[str, str]:
    files = {"0_bytecode.txt": _disassembled(original)}
    if compilation.function is not None:
        files["7_bytecode_new.txt"] = _disassembled(compilation.function.__code__)
    region = compilation.region
    if not isinstance(region, Region):
        files["8_breaks.txt"] = f"runs as plain Python: {on_a_terminal(region.reason)}\n"
        return files
    files["1_graph.py"] = str(region.graph)
    files["8_breaks.txt"] = on_a_terminal("\n\n".join(map(str, region.breaks)))
    files["9_guards.py"] = "".join(
        f"assert {on_a_line(str(g.expression()))}\n" for g in region.guards
    )
    record = getattr(compilation.launch, "record", None)
    if record is None:
        return files
    files["2_passes.txt"] = "\n".join(
        f"== {p.role}: {p.name} ({p.milliseconds:.2f} ms)\n{p.after}" for p in record.passes
    )
    files["3_forward.py"] = "" if record.forward is None else str(record.forward)
    files["4_backward.py"] = "" if record.backward is None else str(record.backward)
    for number, (role, program) in enumerate(record.programs, start=5):
        suffix = "cu" if code.is_cuda(program) else "c"
        files[f"{number}_{role}.{suffix}"] = program.source
        files[f"{number}_{role}_steps.txt"] = program.explain if suffix == "cu" else ""
    return files


def _disassembled(code: CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text)
    return on_a_terminal(text.getvalue())


def _fresh_folder(root: Path, name: str) -> Path:
    """A new sub-folder named after the function, numbered if the name is taken."""
    plain = as_file_name(name, "function")
    for number in range(100_000):
        folder = root / (plain if number == 0 else f"{plain}_{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise OSError(f"{root} holds too many dumps of {plain}; remove some")
