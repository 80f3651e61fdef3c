"""What was made of a graph, kept on disk: a known graph needs no passes and no code generation.

Contract: `key_of(captured)` names everything on which the result depends: the graph's text
(`ir.keys`), what capture says about its inputs and outputs, this version of dynajit down to the
files that make the result, Python and NumPy. `restore(key)` gives what `keep(key, artefact)` wrote,
or None: for files that are missing, damaged or of another kind. The compiled kernels lie apart
(`codegen.compilers.toolchain`), under the names that their source texts give them.
"""

import functools
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any, Final

import numpy as np

from dynajit import codegen, core, ir, ops
from dynajit.capture.region.region import CapturedGraph
from dynajit.codegen.compilers import store
from dynajit.codegen.pipeline import from_data, to_data
from dynajit.codegen.run.blueprints import Unstorable
from dynajit.core.errors import DTypeError
from dynajit.core.process import config
from dynajit.core.quoting import as_bytes
from dynajit.core.records import record
from dynajit.ir.keys import Unkeyed, graph_text
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.saved import SavingRow
from dynajit.ir.sizes import Place


@record
class Gradients:
    """What a training call has to know besides its two programs.

    Args:
        differentiable_outputs, saved_inputs, saved_outputs, saved_copies, sizes, saved_bytes,
            recomputed: as in `ir.partition.Partition`.
        saved: number of saved values.
        reached: as in `ir.autodiff.Joint`.
        rows: those of `ir.saved.rows_that_save`, in terms of the differentiable outputs.
        ends: as in `eager.backward.training.Training`.
    """

    differentiable_outputs: tuple[int, ...]
    saved_inputs: tuple[int | None, ...]
    saved_outputs: tuple[int | None, ...]
    saved_copies: tuple[int | None, ...]
    sizes: Mapping[str, Place]
    reached: tuple[frozenset[int], ...]
    rows: tuple[SavingRow, ...]
    ends: tuple[int, ...]
    saved_bytes: int
    saved: int
    recomputed: int


@record
class Artefact:
    """What was made of a graph.

    Args:
        programs: blueprints: "forward", and "backward" with gradients.
        gradients: None for a graph without.
    """

    programs: Mapping[str, Any]
    gradients: Gradients | None = field(default=None)


def key_of(captured: CapturedGraph, memory_budget: float = 1.0, merges: bool = False) -> str | None:
    """The name of what is made of a captured graph; None where nothing may be kept.

    Graphs are made afresh while they are verified, or their code is built with sanitizers, and
    where an array of the graph itself is given out: another one would be another object.
    """
    graph = captured.graph
    if config.current().verify_graphs or config.current().sanitize:
        return None
    if any(isinstance(o, Node) and o.kind is NodeKind.CONSTANT for o in graph.outputs):
        return None
    try:
        text = graph_text(graph)
    except Unkeyed:
        return None
    saved = captured.saved
    shared = None if saved is None else sorted((p.is_output, p.position) for p in saved.shareable)
    facts = (
        captured.requires_grad,
        sorted(captured.written),
        shared,
        sorted(captured.copied.items()),
        sorted(captured.spent),
        memory_budget,
        sorted(config.current().disabled_passes),
        merges,
    )
    if not version():
        return None
    parts = (version(), repr(facts), text)
    return hashlib.sha256(as_bytes("\0".join(parts))).hexdigest()[:40]


#: Packages whose files make the result, beside this package's own.
_MAKERS: Final = (core, ops, ir, codegen)
_SUFFIXES: Final = (".py", ".h", ".so")


@functools.lru_cache(maxsize=1)
def version() -> str:
    """This version of what makes the result; empty where its files are not known.

    Files count by size and time of change, as for Python's own cache of bytecode.
    """
    parts = [sys.version, np.__version__, sys.byteorder]
    try:
        for module in _MAKERS:
            folder = os.path.dirname(str(module.__file__))
            parts += sorted(_states(folder))
        rows = f"{os.path.dirname(os.path.dirname(str(core.__file__)))}/distributed/captured"
        parts += sorted(_states(rows))  # rows of graphs that lie outside of `ops`
        own = os.path.dirname(str(__file__))
        parts += (
            _state(name, f"{own}/{name}")
            for name in sorted(os.listdir(own))
            if name.endswith(_SUFFIXES) and not name.startswith("__")
        )
    except OSError:
        return ""
    return "\n".join(parts)


def _states(folder: str) -> Iterator[str]:
    """The state of every file that matters below a folder."""
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        if name.endswith(_SUFFIXES):
            yield _state(name, path)
        elif "." not in name and not name.startswith("_") and os.path.isdir(path):
            yield from _states(path)


def _state(name: str, path: str) -> str:
    status = os.stat(path)
    return f"{name} {status.st_size} {status.st_mtime_ns}"


# ---------------------------------------------------------------------------------------------
# on disk


def keep(key: str | None, programs: Mapping[str, Any], gradients: Gradients | None) -> None:
    """Write what was made under its key, if all of it is native."""
    blueprints = {role: program for role, program in programs.items() if program is not None}
    if key is None or len(blueprints) < len(programs):
        return
    try:
        made = {role: to_data(blueprint) for role, blueprint in blueprints.items()}
    except Unstorable:
        return
    store.write(key, {"programs": made, "gradients": _gradients_data(gradients)})


def restore(key: str | None) -> Artefact | None:
    """What was written under a key, or None."""
    data = None if key is None else store.read(key)
    if data is None:
        return None
    try:
        programs = {role: from_data(entry) for role, entry in data["programs"].items()}
        if None in programs.values():
            return None
        found = data["gradients"]
        return Artefact(programs, None if found is None else _gradients(found))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, DTypeError):
        return None  # written by something else: it is made and written again


def _gradients_data(gradients: Gradients | None) -> dict[str, Any] | None:
    if gradients is None:
        return None
    data = {part.name: getattr(gradients, part.name) for part in fields(Gradients)}
    rows = [(row.outputs, row.targets, row.is_spent) for row in gradients.rows]
    return {**data, "reached": [sorted(inputs) for inputs in gradients.reached], "rows": rows}


def _gradients(data: dict[str, Any]) -> Gradients:
    return Gradients(
        differentiable_outputs=tuple(data["differentiable_outputs"]),
        saved_inputs=tuple(data["saved_inputs"]),
        saved_outputs=tuple(data["saved_outputs"]),
        saved_copies=tuple(data["saved_copies"]),
        sizes={name: (position, dim) for name, (position, dim) in data["sizes"].items()},
        reached=tuple(frozenset(inputs) for inputs in data["reached"]),
        rows=tuple(SavingRow(*row) for row in data["rows"]),
        ends=tuple(data["ends"]),
        saved_bytes=data["saved_bytes"],
        saved=data["saved"],
        recomputed=data["recomputed"],
    )
