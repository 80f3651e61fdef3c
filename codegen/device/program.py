"""Programs on a GPU: from a CUDA unit to something that launches its kernels.

Contract: as `codegen.run.blueprints` has it for C. A `DeviceBlueprint` is all that is known of a
program besides its compiled kernels, and can lie on disk; `load` makes a program of it and an image
for the GPU at hand. Programs take arrays of CuPy and numbers and give a tuple of new arrays, on the
current stream.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np

from dynajit.codegen import _device
from dynajit.codegen.cuda.text import Unit
from dynajit.codegen.cuda.units.steps import CudaKernel, Memset, Step
from dynajit.codegen.device import driver as device_driver
from dynajit.codegen.device.plan import Array, PlanData, arrange
from dynajit.codegen.run.blueprints import (
    LARGEST_CONSTANTS,
    Kernel,
    Unstorable,
    array_data,
    array_from,
    failure,
    kernel_from,
    literal,
    place_of,
)
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import DeviceError, OutOfMemoryError
from dynajit.core.records import record
from dynajit.core.types import dtypes, symint
from dynajit.core.types.value_types import TensorType
from dynajit.ir.node import Node, NodeKind

MSG_NO_MEMORY: Final = (
    "{name}: cuda:{device} has no memory for {what}, {size} bytes.  Nothing was computed or "
    "changed.  {error}"
)


@record(eq=False)
class DeviceBlueprint:
    """A program on a GPU without its compiled kernels.

    Args:
        name: of the graph.
        device: number of the GPU.
        source: the whole CUDA text.
        kernels: steps in running order, as text.
        plan: what runs, as numbers.
        results: (`_device.RESULT_...`, position, object) of each result.
        constants: contiguous arrays that the program reads.
        peak: (bytes of results, bytes of temporaries) of a call; None where sizes are symbolic.
        explain: fusion decisions in words.
    """

    name: str
    device: int
    source: str
    kernels: tuple[Kernel, ...]
    plan: PlanData
    results: tuple[tuple[int, int, Any], ...]
    constants: tuple[np.ndarray[Any, Any], ...]
    peak: tuple[int, int] | None
    explain: str

    @property
    def may_fail(self) -> bool:
        """A kernel may refuse its values."""
        return self.plan.may_fail


def blueprint_of(
    unit: Unit, device: int, arrays: Mapping[Node, TensorType] = MappingProxyType({})
) -> DeviceBlueprint:
    """What is known of a unit's program.

    Args:
        unit: its kernels.
        device: number of the GPU that its tensors are on.
        arrays: see `Split.array_types`.
    """
    return DeviceBlueprint(
        name=unit.name,
        device=device,
        source=unit.source,
        kernels=tuple(Kernel(step.name, step_text(step), _kind(step)) for step in unit.steps),
        plan=arrange(unit, arrays),
        results=tuple(_result(unit, output) for output in unit.graph.outputs),
        constants=tuple(np.ascontiguousarray(value) for value in unit.layout.constants),
        peak=_peak(unit),
        explain=_explained(unit, device),
    )


def _result(unit: Unit, output: Any) -> tuple[int, int, Any]:
    inputs = unit.graph.inputs
    if not isinstance(output, Node):
        return _device.RESULT_OBJECT, 0, output
    if output.kind is NodeKind.PLACEHOLDER:
        return _device.RESULT_ARGUMENT, inputs.index(output), None
    if output.kind is NodeKind.CONSTANT:
        return _device.RESULT_OBJECT, 0, output.value
    if output in unit.in_place:
        return _device.RESULT_WRITTEN, inputs.index(unit.in_place[output]), None
    return _device.RESULT_NEW, unit.layout.outputs.index(output), None


def _peak(unit: Unit) -> tuple[int, int] | None:
    results = 0
    for node in unit.layout.outputs:
        assert isinstance(node.type, TensorType)
        numel = node.type.numel
        if not isinstance(numel, int):
            return None
        results += numel * node.type.dtype.itemsize
    workspace = unit.layout.workspace_bytes
    return (results, workspace) if isinstance(workspace, int) else None


# ---------------------------------------------------------------------------------------------
# words for reports


def step_text(step: Step) -> str:
    """A step as text: a kernel's CUDA, or what the library is called for."""
    if isinstance(step, CudaKernel):
        return step.source
    if isinstance(step, Memset):
        return f"// memset of {step.buffer} with {step.byte}"
    kernel = step.kernel
    sizes = " x ".join(symint.python(size) for size in (kernel.rows, kernel.inner, kernel.columns))
    bias = "" if kernel.bias is None else f" + {kernel.bias.name}"
    batch = "".join(f"{symint.python(size)} x " for size in kernel.batch)
    return (
        f"// cublasLtMatmul: {batch}{sizes}, {kernel.left.buffer.name} @ "
        f"{kernel.right.buffer.name}{bias} -> {kernel.result.buffer.name}"
    )


def _kind(step: Step) -> str:
    if isinstance(step, Memset):
        return "memset"
    return type(step.kernel).__name__.removesuffix("Kernel").lower()


def launch_text(kernel: CudaKernel) -> str:
    """How a kernel is launched."""
    grid = ", ".join(map(symint.python, kernel.grid))
    shared = kernel.dynamic_bytes
    dynamic = "" if shared == 0 else f", {symint.python(shared)} bytes of shared memory"
    return f"{kernel.entry}<<<({grid}), {kernel.block}>>>{dynamic}"


def _explained(unit: Unit, device: int) -> str:
    lines = [f"{len(unit.steps)} steps on cuda:{device}"]
    for step in unit.steps:
        if isinstance(step, CudaKernel):
            lines.append(f"  {step.name}: {_kind(step)}, {launch_text(step)}")
        else:
            lines.append(f"  {step.name}: {step_text(step).removeprefix('// ')}")
    lines += [f"  {note}" for note in unit.notes]
    if unit.layout.workspace_bytes != 0:
        lines.append(f"  workspace: {symint.python(unit.layout.workspace_bytes)} bytes")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------
# programs


def load(
    blueprint: DeviceBlueprint,
    image: bytes,
    replays: bool = False,
    presets: tuple[bytes, ...] = (),
) -> _device.Program:
    """The program.

    Args:
        blueprint: what runs.
        image: its kernels, compiled for the GPU at hand.
        replays: calls whose addresses were met before replay a CUDA graph.
        presets: algorithms of the products, measured before.

    Raises:
        DeviceError: the GPU cannot be used.
    """
    if _device.is_forked():
        raise DeviceError(device_driver.MSG_FORKED)
    plan, driver = blueprint.plan, device_driver.driver()
    with gpu.on(blueprint.device):
        module = _device.Module(driver, image, blueprint.device)
        made = _device.Plan(module, plan.slots, plan.numbers, plan.arithmetic, plan.steps, presets)
        program = _device.Program(
            name=blueprint.name,
            plan=made,
            arguments=tuple(map(_spec, plan.arguments)),
            outputs=tuple(map(_spec, plan.outputs)),
            results=blueprint.results,
            symbols=plan.symbols,
            constants=tuple(map(gpu.module().asarray, blueprint.constants)),
            scalars_first=plan.scalars_first,
            constants_first=plan.constants_first,
            arrays=_arrays(blueprint.name, blueprint.device),
            fail=failure(blueprint.name),
            replays=replays,
        )
    program.kernels = blueprint.kernels
    program.source = blueprint.source
    program.may_fail = blueprint.may_fail
    program.explain = blueprint.explain
    program.blueprint = blueprint
    return program


def _spec(array: Array | int) -> Any:
    if isinstance(array, int):
        return array
    is_row_major = array.strides is None
    return (
        dtypes.by_name(array.dtype).numpy, array.sizes, array.strides or (), is_row_major,
        array.shape,
    )  # fmt: skip


def _arrays(name: str, device: int) -> tuple[Any, ...]:
    """What a program needs of CuPy, as `_device.Program` takes it."""
    cupy = gpu.module()
    ndarray, alloc, current = cupy.ndarray, cupy.cuda.alloc, cupy.cuda.get_current_stream
    no_memory = cupy.cuda.memory.OutOfMemoryError

    def refuse(what: str, size: int, error: Exception) -> NoReturn:
        raise OutOfMemoryError(
            MSG_NO_MEMORY.format(name=name, device=device, what=what, size=size, error=error)
        ) from error

    def empty(shape: tuple[int, ...], dtype: Any) -> Any:
        try:
            return ndarray(shape, dtype)
        except no_memory as error:
            size = int(np.prod(shape, dtype=object)) * dtype.itemsize
            refuse(f"a result of shape {shape} and dtype {dtype}", size, error)

    def memory(size: int) -> Any:
        try:
            return alloc(size)
        except no_memory as error:
            refuse("temporaries", size, error)

    def stream() -> Any:
        return current().ptr

    return ndarray, empty, cupy.ascontiguousarray, memory, stream, _elsewhere


def _elsewhere(program: _device.Program, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """A call from a thread in which the program's device is not the current one, or none is.

    Raises:
        DeviceError: the process is a fork.
    """
    if _device.is_forked():
        raise DeviceError(device_driver.MSG_FORKED)
    with gpu.on(program.blueprint.device):
        return program.run_here(arguments)


# ---------------------------------------------------------------------------------------------
# as data


def to_data(blueprint: DeviceBlueprint) -> dict[str, Any]:
    """Dicts, lists, strings and numbers that JSON writes and reads unchanged.

    Raises:
        Unstorable: a result is an object of its own, or the constants are large.
    """
    if sum(array.nbytes for array in blueprint.constants) > LARGEST_CONSTANTS:
        raise Unstorable("the constants are large")
    plan = {field.name: getattr(blueprint.plan, field.name) for field in _FIELDS}
    plan["arguments"] = [_array_or_kind(argument) for argument in blueprint.plan.arguments]
    plan["outputs"] = [_array_or_kind(output) for output in blueprint.plan.outputs]
    return {
        "name": blueprint.name,
        "device": blueprint.device,
        "source": blueprint.source,
        "kernels": [place_of(blueprint.source, kernel) for kernel in blueprint.kernels],
        "plan": plan,
        "results": [(kind, place, literal(value)) for kind, place, value in blueprint.results],
        "constants": [array_data(array) for array in blueprint.constants],
        "peak": blueprint.peak,
        "explain": blueprint.explain,
    }


def from_data(data: Mapping[str, Any]) -> DeviceBlueprint:
    """The blueprint that `to_data` was given.

    Raises:
        KeyError, IndexError, TypeError, ValueError: the data is something else.
    """
    source = data["source"]
    plan: dict[str, Any] = {name: _frozen(value) for name, value in data["plan"].items()}
    for name in ("arguments", "outputs"):
        plan[name] = tuple(map(_array_from, plan[name]))
    return DeviceBlueprint(
        name=data["name"],
        device=data["device"],
        source=source,
        kernels=tuple(kernel_from(source, *place) for place in data["kernels"]),
        plan=PlanData(**plan),
        results=tuple((kind, position, value) for kind, position, value in data["results"]),
        constants=tuple(array_from(entry) for entry in data["constants"]),
        peak=_frozen(data["peak"]),
        explain=data["explain"],
    )


_FIELDS: Final = dataclasses.fields(PlanData)


def _array_or_kind(argument: Array | int) -> Any:
    if isinstance(argument, int):
        return argument
    return argument.dtype, argument.sizes, argument.strides, argument.shape


def _array_from(data: Any) -> Any:
    return data if isinstance(data, int) else Array(*map(_frozen, data))


def _frozen(value: Any) -> Any:
    """Lists, which JSON makes of tuples, as tuples again."""
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
