"""`DYNAJIT_DUMP=dir`: one folder per compiled function with everything that was made of it.

Files, in the order of the stages: `0_bytecode.txt`, `1_graph.py`, `2_passes.txt`, `3_forward.py`,
`4_backward.py`, `5_forward.c`, `6_backward.c`, `7_bytecode_new.txt`, `8_breaks.txt`,
`9_guards.py`. Called by `dynajit.compile` once per compilation.
"""

import dis
import io
import re
from pathlib import Path
from types import CodeType, FunctionType

from dynajit.capture.region import Region
from dynajit.capture.session import Compilation
from dynajit.core import config


def dump_compilation(function: FunctionType, compilation: Compilation) -> Path | None:
    """Write the files of one compilation; returns their folder, None if dumps are off."""
    root = config.current().dump
    if root is None:
        return None
    folder = _fresh_folder(root, function.__qualname__)
    for name, text in _files(compilation, function.__code__).items():
        if text:
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def _files(compilation: Compilation, original: CodeType) -> dict[str, str]:
    files = {"0_bytecode.txt": _disassembled(original)}
    if compilation.function is not None:
        files["7_bytecode_new.txt"] = _disassembled(compilation.function.__code__)
    region = compilation.region
    if not isinstance(region, Region):
        files["8_breaks.txt"] = f"runs as plain Python: {region.reason}\n"
        return files
    files["1_graph.py"] = str(region.graph)
    files["8_breaks.txt"] = "\n\n".join(str(record) for record in region.breaks)
    files["9_guards.py"] = "".join(f"assert {g.expression()}\n" for g in region.guards)
    record = getattr(compilation.launch, "record", None)
    if record is None:
        return files
    files["2_passes.txt"] = "\n".join(
        f"== {p.role}: {p.name} ({p.milliseconds:.2f} ms)\n{p.after}" for p in record.passes
    )
    files["3_forward.py"] = "" if record.forward is None else str(record.forward)
    files["4_backward.py"] = "" if record.backward is None else str(record.backward)
    for number, (role, program) in enumerate(record.programs, start=5):
        files[f"{number}_{role}.c"] = program.source
    return files


def _disassembled(code: CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text)
    return text.getvalue()


def _fresh_folder(root: Path, name: str) -> Path:
    """A new sub-folder named after the function, numbered if the name is taken."""
    plain = re.sub(r"[^\w.]+", "_", name).strip("_") or "function"
    for number in range(100_000):
        folder = root / (plain if number == 0 else f"{plain}_{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise OSError(f"{root} holds too many dumps of {plain}; remove some")
