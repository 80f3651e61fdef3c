"""What a native program is besides its compiled library: data that can lie on disk.

Contract: a `Blueprint` and the library that its source is compiled to make a program (`load`);
`to_data` and `from_data` turn it into what JSON can hold and back, and the program made of the
result does the same.
"""

import base64
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from dynajit.codegen import _runtime
from dynajit.codegen.compilers import toolchain
from dynajit.codegen.run import blas
from dynajit.core.errors import BoundsError, DivisionError, InternalError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.symint import Number
from dynajit.ops.native import _sums

#: A number's kind (`_runtime.ARGUMENT_...`), or dtype, shape, strides in bytes, is it contiguous.
Spec: TypeAlias = "int | tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...], bool]"

LARGEST_CONSTANTS: Final = 1 << 24
"""Bytes of constants beyond which a program is not kept: reading them would take longer than
generating code, and the cache holds kernels, not data."""


class Unstorable(Exception):
    """A blueprint holds what a file cannot; used only between `to_data` and its callers."""


@record(repr=False)
class Kernel:
    """One generated kernel, for reports.

    Args:
        name: of the C function.
        source: its C text; of a product the call of the library.
        kind: what kind of loops it is, such as `row` or `matmul`; empty where nobody said so.
        stores: names of the graph's values that it leaves in memory.
    """

    name: str
    source: str
    kind: str = ""
    stores: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Kernel {self.name}: {self.source.count(chr(10))} lines>"


@record(eq=False)
class Blueprint:
    """A native program without its library.

    Args:
        name: of the graph.
        source: the whole C text.
        kernels: in running order.
        arguments, outputs: what each array or number is.
        results: (`_runtime.RESULT_...`, position, object) of each result.
        constants: contiguous arrays that the program reads.
        symbols: (argument, dimension or -1, low, high) of each symbolic size.
        workspace: bytes of memory for temporaries, where they are known.
        releases_gil: a call is worth a release of the interpreter's lock.
        has_products: it multiplies matrices.
        may_fail: a kernel may refuse its values.
        explain: fusion decisions in words.
    """

    name: str
    source: str
    kernels: tuple[Kernel, ...]
    arguments: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    results: tuple[tuple[int, int, Any], ...]
    constants: tuple[np.ndarray[Any, Any], ...]
    symbols: tuple[tuple[int, int, int, int], ...]
    workspace: int
    releases_gil: bool
    has_products: bool
    may_fail: bool
    explain: str

    @property
    def peak(self) -> tuple[int, int] | None:
        """(bytes of results, bytes of temporaries) of a call; None where sizes are symbolic.

        Results are what the call makes; those that are arguments or share their memory are not
        counted.
        """
        if self.symbols:
            return None
        specs = [spec for spec in self.outputs if not isinstance(spec, int)]
        return sum(math.prod(s[1]) * s[0].itemsize for s in specs), self.workspace


def load(blueprint: Blueprint, library: _runtime.Library) -> _runtime.Program:
    """The program, with this process's number of threads and BLAS.

    Raises:
        OSError: the library is of something else.
    """
    program = _runtime.Program(
        name=blueprint.name,
        library=library,
        arguments=blueprint.arguments,
        outputs=blueprint.outputs,
        results=blueprint.results,
        constants=blueprint.constants,
        symbols=blueprint.symbols,
        workspace=blueprint.workspace,
        threads=toolchain.team_size(),
        releases_gil=blueprint.releases_gil,
        blas=blas.addresses() if blueprint.has_products else blas.NOWHERE,
        products=blas.own_products(),
        sums=_sums.column_addresses(),
        fail=failure(blueprint.name),
    )
    program.kernels = blueprint.kernels
    program.source = blueprint.source
    program.may_fail = blueprint.may_fail
    program.explain = blueprint.explain
    program.blueprint = blueprint
    return program


def failure(name: str) -> Callable[[int, int, int, int], None]:
    """What a program of this name calls when a kernel reports an error."""

    def fail(code: int, value: int, size: int, lowest: int) -> None:
        """Raise the error that a kernel reported; see headers/indices.h for the codes."""
        if code == 1:
            raise BoundsError(
                f"{name}: index {value} is out of range for a dimension of size {size}.  Expected "
                f"a value in [{lowest}, {size - 1}]."
            )
        if code == 2:
            raise DivisionError(
                f"{name}: integer division by zero.  Expected a divisor without zeros; convert an "
                "operand to floating point for inf and nan."
            )
        if code == 3:
            raise MemoryError(f"{name}: no memory for a temporary")
        raise InternalError(f"{name}: a kernel reported the unknown code {code}")

    return fail


# ---------------------------------------------------------------------------------------------
# as data


def to_data(blueprint: Blueprint) -> dict[str, Any]:
    """Dicts, lists, strings and numbers that JSON writes and reads unchanged.

    Raises:
        Unstorable: a result is an object of its own, or the constants are large.
    """
    if sum(array.nbytes for array in blueprint.constants) > LARGEST_CONSTANTS:
        raise Unstorable("the constants are large")
    return {
        "name": blueprint.name,
        "source": blueprint.source,
        "kernels": [place_of(blueprint.source, kernel) for kernel in blueprint.kernels],
        "arguments": [_spec_data(spec) for spec in blueprint.arguments],
        "outputs": [_spec_data(spec) for spec in blueprint.outputs],
        "results": [(kind, place, literal(value)) for kind, place, value in blueprint.results],
        "constants": [array_data(array) for array in blueprint.constants],
        "symbols": blueprint.symbols,
        "workspace": blueprint.workspace,
        "releases_gil": blueprint.releases_gil,
        "has_products": blueprint.has_products,
        "may_fail": blueprint.may_fail,
        "explain": blueprint.explain,
    }


def from_data(data: dict[str, Any]) -> Blueprint:
    """The blueprint that `to_data` was given.

    Raises:
        KeyError, IndexError, TypeError, ValueError: the data is something else.
    """
    source = data["source"]
    return Blueprint(
        name=data["name"],
        source=source,
        kernels=tuple(kernel_from(source, *place) for place in data["kernels"]),
        arguments=tuple(_spec(entry) for entry in data["arguments"]),
        outputs=tuple(_spec(entry) for entry in data["outputs"]),
        results=tuple((kind, position, value) for kind, position, value in data["results"]),
        constants=tuple(array_from(entry) for entry in data["constants"]),
        symbols=tuple((a, d, low, high) for a, d, low, high in data["symbols"]),
        workspace=data["workspace"],
        releases_gil=data["releases_gil"],
        has_products=data["has_products"],
        may_fail=data["may_fail"],
        explain=data["explain"],
    )


def place_of(source: str, kernel: Kernel) -> tuple[str, int, int, str, str, tuple[str, ...]]:
    """Where a kernel's text stands in the source; the text itself where it does not."""
    start = source.find(kernel.source)
    text = "" if start >= 0 else kernel.source
    return kernel.name, start, len(kernel.source), text, kernel.kind, kernel.stores


def kernel_from(
    source: str, name: str, start: int, length: int, text: str, kind: str, stores: Sequence[str]
) -> Kernel:
    return Kernel(name, source[start : start + length] if start >= 0 else text, kind, tuple(stores))


def _spec_data(spec: Any) -> Any:
    if isinstance(spec, int):
        return spec
    dtype, shape, strides, is_contiguous = spec
    return dtypes.from_numpy(dtype).name, shape, strides, is_contiguous


def _spec(data: Any) -> Spec:
    if isinstance(data, int):
        return data
    name, shape, strides, is_contiguous = data
    return _numpy(name), tuple(shape), tuple(strides), is_contiguous


def literal(value: Any) -> Any:
    """A result that the program gives out as it is: a number, which JSON keeps as it is."""
    if type(value) not in (type(None), bool, int, float):
        raise Unstorable(f"a result is a {type(value).__name__}")
    return value


def array_data(array: np.ndarray[Any, Any]) -> Any:
    content = base64.b64encode(array.tobytes()).decode("ascii")
    return dtypes.from_numpy(array.dtype).name, array.shape, content


def array_from(data: Sequence[Any]) -> np.ndarray[Any, Any]:
    name, shape, content = data
    return np.frombuffer(base64.b64decode(content), _numpy(name)).reshape(shape).copy()


def _numpy(name: str) -> np.dtype[Any]:
    return dtypes.by_name(name).numpy


def stride_in_bytes(stride: Number, itemsize: int) -> int:
    """A stride that the one of an argument is compared with: `ANY_STRIDE` for a symbolic one, which
    guards have looked at."""
    return stride * itemsize if isinstance(stride, int) else ANY_STRIDE


ANY_STRIDE: Final = -(1 << 63)
