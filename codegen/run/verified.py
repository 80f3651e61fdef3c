"""Programs whose every kernel is checked against NumPy's results when it runs.

Contract: `VerifiedProgram` runs a program that hands out all values it stores, then computes each
stored value row by row from the stored values before it, so that an error is found where it is
made. What differs by more than rounding can explain raises VerificationError, which names the
kernel, its value and the user's line, and writes the C text to a file. Where all kernels are right,
the first row whose values are far from those of float64 is warned of (`reference`).

How much rounding can explain is found by stochastic arithmetic: the rows run again with every
floating result, and every addend of a sum, changed at random by up to one unit in the last place,
and the largest effect, times `SAFETY`, is allowed; `FLOOR` more for what cancels within one row.
Source: J. Vignes, "A stochastic arithmetic for reliable scientific
computation", Mathematics and Computers in Simulation 35 (1993).
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from dynajit.codegen.compilers.cache_folder import folder_of, write_atomically
from dynajit.codegen.run.reference import Reference
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import PrecisionWarning, VerificationError
from dynajit.core.process import config
from dynajit.core.process.warning import warn
from dynajit.core.quoting import as_bytes, as_file_name
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret, sizes
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind, type_of
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import TABLE, Kind

SAFETY: Final = 32.0
"""Rows are several operations each, and the changed runs are few."""

RUNS: Final = 4
"""Runs with changed results beside the plain one."""

EXACT_BITS: Final = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}

FLOOR: Final = 4.0
"""Units in the last place of the largest element, or of 1 if that is less, allowed everywhere."""

FEW: Final = 1e-3
"""Part of the integers made of floats that may differ: comparisons of values that are equal but for
rounding."""

MSG_DIFFERS: Final = (
    "verify: kernel {kernel} of {graph} computes {node} wrongly: {count} of {size} elements differ "
    "by more than rounding explains.  First at {index}: it computed {got!r}, NumPy computes "
    "{want!r} (allowed difference {allowed:.3g}).{place}  The text of the kernel is at line "
    "{line} of {file}.  Please report this; backend='numpy' or disable=True go without the kernel."
)


@record
class Stored:
    """A value that a kernel stores.

    Args:
        node: the value.
        kernel: name of the kernel.
    """

    node: Node
    kernel: str


@dataclass(slots=True)
class _Value:
    """A value of a node: as NumPy computes it, and as it might be. Not changed once made.

    Args:
        runs: the plain result first.
        terms: how many elements were added up for one of these, since the last stored value.
        is_exact: no floating value was computed on the way.
    """

    runs: tuple[Any, ...]
    terms: int = 1
    is_exact: bool = True


def _as_pairs(array: Any) -> Any:
    """A complex array as its pairs of parts, which the graph has; another one as it is."""
    is_complex = getattr(array, "dtype", np.dtype(bool)).kind == "c"
    return evaluate(TABLE.view_as_real, [array], {}) if is_complex else array


def _readable(array: Any) -> Any:
    """A stored value as NumPy reads it."""
    return _as_pairs(_on_host(array))


class VerifiedProgram:
    """A program that checks itself in every call; has the attributes of the program.

    Args:
        program: returns the graph's outputs, then the stored values.
        graph: what it computes.
        stored: the values behind the outputs, in running order of their kernels.
        paired: positions of complex arguments, of which the graph has the pairs of their parts.
    """

    def __init__(
        self, program: Any, graph: Graph, stored: Sequence[Stored], paired: Sequence[int] = ()
    ) -> None:
        self.program = program
        self.graph = graph
        self.stored = tuple(stored)
        self.paired = frozenset(paired)
        self._random = np.random.default_rng(0)
        self._told: set[Node] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run and check.

        Raises:
            VerificationError: a stored value is wrong.
        """
        results = self.program(*arguments)
        count = len(self.graph.outputs)
        values = map(_readable, results[count:])
        found = dict(zip((stored.node for stored in self.stored), values, strict=True))
        self._check([*map(_on_host, arguments)], found)
        return tuple(results[:count])

    def _check(self, arguments: Sequence[Any], found: Mapping[Node, Any]) -> None:
        graph = self.graph
        inputs = [
            value if isinstance(node.type, ScalarType) else np.asarray(value)
            for node, value in zip(graph.inputs, arguments, strict=True)
        ]
        for place in self.paired:
            inputs[place] = _as_pairs(inputs[place])
        known: dict[Any, _Value] = {
            node: _Value((value,)) for node, value in zip(graph.inputs, inputs, strict=True)
        }
        numbers = sizes.bind(sizes.symbol_places(graph), inputs)
        uses = interpret.last_uses(graph)
        kernels = {stored.node: stored.kernel for stored in self.stored}
        reference = Reference(graph, inputs, numbers)
        wrong: list[tuple[int, Callable[[], VerificationError]]] = []
        order = {stored.kernel: number for number, stored in enumerate(self.stored)}
        for node in graph.nodes:
            if node.kind is NodeKind.CONSTANT:
                known[node] = _Value((node.value,))
            elif node.kind is NodeKind.CALL:
                value = self._computed(node, known, numbers)
                known[node] = value
                if node in found:
                    error = self._difference(node, kernels[node], value, found[node])
                    if error is not None:
                        wrong.append((order[kernels[node]], error))
                    known[node] = _Value((found[node],))
                reference.follow(node, known[node].runs[0])
            for argument in uses.get(node, ()):
                del known[argument]
                reference.forget(argument)
        if wrong:
            raise min(wrong, key=lambda pair: pair[0])[1]()
        if reference.first is not None and reference.first.node not in self._told:
            self._told.add(reference.first.node)
            warn(reference.first.text(self.program.name), PrecisionWarning)

    # -- what NumPy computes

    def _computed(
        self, node: Node, known: Mapping[Any, _Value], numbers: Mapping[str, int]
    ) -> _Value:
        given = [known[a] for a in node.args if isinstance(a, Node)]
        attributes = sizes.attributes(node.attributes, numbers)
        assert node.op is not None
        runs = []
        changes = _is_floating(node) and node.op.kind not in (Kind.MOVEMENT, Kind.RANDOM)
        is_exact = not changes and all(value.is_exact for value in given)
        count = 1 if is_exact else 1 + RUNS
        for run in range(count):
            args = [
                known[a].runs[min(run, len(known[a].runs) - 1)] if isinstance(a, Node) else a
                for a in node.args
            ]
            with np.errstate(all="ignore"):
                if run and changes and node.op.kind is not Kind.POINTWISE:
                    args = [self._changed(a) for a in args]
                result = _evaluated(node, args, attributes)
                runs.append(self._changed(result) if run and changes else result)
        terms = max((value.terms for value in given), default=1)
        return _Value(tuple(runs), max(terms, _added(node, given, runs[0])), is_exact)

    def _changed(self, value: Any) -> Any:
        """Every element up to one unit in the last place up or down; what is no float as it is."""
        name = str(getattr(value, "dtype", ""))
        if name not in EXACT_BITS:
            return value
        change = 2.0 ** -EXACT_BITS[name] * self._random.uniform(-1, 1, value.shape)
        return np.asarray(value.astype(np.float64) * (1 + change)).astype(value.dtype)

    # -- comparing

    def _difference(
        self, node: Node, kernel: str, value: _Value, got: Any
    ) -> Callable[[], VerificationError] | None:
        """What makes the error, if a stored value is wrong."""
        want = np.asarray(value.runs[0])
        if got.shape != want.shape or not want.size:
            return None
        if _is_floating(node):
            wrong, allowed = _wrong_floats(want, got, value)
        else:
            wrong, allowed = _wrong_integers(want, got, value), np.zeros(want.shape)
        if not wrong.any():
            return None
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        count, first = int(wrong.sum()), (got[index], want[index], float(allowed[index]))
        return lambda: self._error(node, kernel, index, count, want.size, first)

    def _error(
        self,
        node: Node,
        kernel: str,
        index: tuple[int, ...],
        count: int,
        size: int,
        first: tuple[Any, Any, float],
    ) -> VerificationError:
        file = _written(self.program.name, self.program.source, _suffix(node))
        lines = self.program.source.splitlines()
        heads = [number for number, line in enumerate(lines, 1)
                 if (" void " in f" {line}" and f" {kernel}(" in line)
                 or f"/* {kernel} is " in line]  # fmt: skip
        place = ""
        if node.location is not None:
            place = f"  It comes from {node.location}: {node.location.text}"
        got, want, allowed = first
        return VerificationError(
            MSG_DIFFERS.format(
                kernel=kernel, graph=self.program.name, node=node.name, count=count, size=size,
                index=list(index), got=got.item(), want=want.item(), allowed=allowed, place=place,
                line=heads[0] if heads else 1, file=file,
            )
        )  # fmt: skip


def _evaluated(node: Node, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The result of a row, or of a composite's rows."""
    assert node.op is not None
    if node.op.kind is not Kind.COMPOSITE:
        return evaluate(node.op, args, attributes)
    inputs = [a for a in dict.fromkeys(node.args) if isinstance(a, Node)]
    values = {a: value for a, value in zip(node.args, args, strict=True) if isinstance(a, Node)}
    return _alone(node, inputs, [values[a] for a in inputs], attributes)


def _alone(
    node: Node, inputs: Sequence[Node], values: Sequence[Any], attributes: Mapping[str, Any]
) -> Any:
    """A composite as a graph of its own."""
    places = {
        a: Node(NodeKind.PLACEHOLDER, f"x{i}", _type_like(a, value))
        for i, (a, value) in enumerate(zip(inputs, values, strict=True))
    }
    args = tuple(places[a] if isinstance(a, Node) else a for a in node.args)
    assert node.op is not None
    type = node.op.infer(*map(type_of, args), **attributes)
    inner = Node(NodeKind.CALL, node.name, type, node.op, args, attributes)
    return interpret.run(Graph(node.name, (*places.values(), inner), (inner,)), values)[0]


def _type_like(node: Node, value: Any) -> Any:
    if not isinstance(node.type, TensorType):
        return node.type
    return TensorType(tuple(value.shape), node.type.dtype, node.type.device)


def _is_floating(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.is_floating_point


def _added(node: Node, given: Sequence[_Value], result: Any) -> int:
    """How many elements are added up for one of the result."""
    assert node.op is not None
    if node.op.kind in (Kind.POINTWISE, Kind.MOVEMENT, Kind.RANDOM) or not given:
        return 1
    largest = max(int(np.size(value.runs[0])) for value in given)
    if node.op.kind is Kind.REDUCTION:
        return max(largest // max(int(np.size(result)), 1), 1)
    return max(largest, 1)


def _wrong_floats(want: Any, got: Any, value: _Value) -> tuple[Any, Any]:
    """Which elements differ by more than rounding explains, and what was allowed."""
    dtype = dtypes.from_numpy(want.dtype)
    runs = [np.asarray(run).astype(np.float64) for run in value.runs]
    want, got = runs[0], got.astype(np.float64)
    with np.errstate(all="ignore"):
        spread = np.zeros(want.shape)
        is_sure = np.isfinite(want)
        for run in runs[1:]:
            spread = np.maximum(spread, np.nan_to_num(np.abs(run - want), posinf=0.0))
            is_sure &= np.isfinite(run)
        spread = np.maximum(spread, np.quantile(spread, 0.99))
        step = 2.0 ** -EXACT_BITS[dtype.name]
        grown = step * (SAFETY + 4 * math.sqrt(value.terms))
        largest = np.max(np.abs(want), where=is_sure, initial=0.0)
        floor = FLOOR * step * min(largest, 1.0)
        allowed = np.abs(want) * grown + SAFETY * spread + floor + _smallest(dtype)
        close = np.isfinite(want) & (np.abs(got - want) <= allowed)
    # An infinity and NaN may stand for each other: blocked sums meet what is not finite earlier.
    same = (want == got) | ~(np.isfinite(want) | np.isfinite(got) | (want == -got))
    agree = np.ones(want.shape, bool)
    for run in runs[1:]:
        agree &= (np.isnan(run) & np.isnan(want)) | (run == want)
    # Beside the largest number, and where changed runs are not finite, infinities may differ.
    size = np.maximum(np.where(is_sure, np.abs(want), 0), np.where(np.isinf(got), 0, np.abs(got)))
    near_limit = size >= _largest(dtype) * (1 - grown)
    judged = is_sure | agree
    return judged & ~same & ~close & ~(near_limit & ~np.isnan(got)), allowed


def _smallest(dtype: DType) -> float:
    """A few of the smallest positive numbers."""
    return {"float16": 2.0**-22, "float64": 0.0}.get(dtype.name, 2.0**-130)


def _largest(dtype: DType) -> float:
    return {"float16": 65504.0, "float64": 1.7e308}.get(dtype.name, 3.38e38)


def _wrong_integers(want: Any, got: Any, value: _Value) -> Any:
    """Which elements differ; few may where floating values decide."""
    wrong = want != got
    if value.is_exact:
        return wrong
    for run in value.runs[1:]:
        wrong &= np.asarray(run) == want
    if wrong.sum() <= max(1, FEW * wrong.size) and wrong.size > 1:
        return np.zeros(wrong.shape, bool)
    return wrong


def _on_host(value: Any) -> Any:
    """An array of a GPU as one of NumPy's; anything else as it is."""
    return gpu.to_host(value) if gpu.is_gpu_array(value) else value


def _suffix(node: Node) -> str:
    """What files with the text of a value's kernel are called."""
    on_gpu = isinstance(node.type, TensorType) and node.type.device.type == "cuda"
    return "cu" if on_gpu else "c"


def _written(name: str, source: str, suffix: str) -> Path:
    """The file with a program's text, in the dump folder or beside the kernel cache."""
    digest = hashlib.sha256(as_bytes(source)).hexdigest()[:12]
    file = _wrong_folder() / f"{as_file_name(name, 'graph')}-{digest}.{suffix}"
    write_atomically(file, source.encode("utf-8", "backslashreplace"))
    return file


def _wrong_folder() -> Path:
    dump = config.current().dump
    if dump is not None:
        with suppress(OSError):
            (dump / "wrong").mkdir(parents=True, exist_ok=True)
            return dump / "wrong"
    return folder_of("wrong")
