"""Helpers of the tests of code generation for GPUs: graphs on a device, programs against rows.

Contract: `check(function, *arguments)` compiles a function over rows for the GPU, runs it on arrays
of CuPy and compares with the rows on NumPy's arrays; `arrays` moves arrays to the GPU.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynajit.codegen import pipeline
from dynajit.codegen.device.pipeline import DEFAULT, Launching
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph, NodeKind
from dynajit.ir.pipeline import optimize
from dynajit.ops import TABLE
from dynajit.ops.evaluate import type_of_operand
from dynajit.ops.table import dispatch

GPU = Device("cuda", 0)


def type_of(argument: Any, device: Device = GPU) -> Any:
    """Type of an array with its strides on a device, or of a number."""
    type = type_of_operand(argument)
    if isinstance(type, ScalarType):
        return type
    strides = tuple(stride // argument.itemsize for stride in argument.strides)
    contiguous = argument.flags.c_contiguous
    return TensorType(type.shape, type.dtype, device, None if contiguous else strides)


def graph_of(function: Callable[..., Any], *types: Any, name: str = "graph") -> Graph:
    """The optimised graph of a function over rows."""
    builder = Builder(name)
    values = [builder.placeholder(f"x{i}", type) for i, type in enumerate(types)]
    with dispatch.recording(builder.handle):
        out = function(*values)
    return optimize(builder.finish(out if isinstance(out, (tuple, list)) else [out]))


def on_host(graph: Graph) -> Graph:
    """The same graph with all values on the CPU."""
    return moved(graph, CPU)


def moved(graph: Graph, device: Device) -> Graph:
    """The same graph with all values on a device; constants are copied there from the CPU."""
    builder = Builder(graph.name)
    new: dict[Any, Any] = {}
    for node in graph.nodes:
        type = node.type
        if isinstance(type, TensorType) and node.kind is not NodeKind.CONSTANT:
            type = dataclasses.replace(type, device=device)
        attributes = dict(node.attributes)
        if "device" in attributes:
            attributes["device"] = device
        args = tuple(new.get(a, a) for a in node.args)
        made = dataclasses.replace(node, type=type, args=args, attributes=attributes)
        value = builder.adopt(made)
        if node.kind is NodeKind.CONSTANT and node.type.shape and device is not CPU:
            moving = {"device": device, "non_blocking": False}
            value = builder.call(TABLE.to_device, [value], moving)
        new[node] = value.node
    return builder.finish(new.get(o, o) for o in graph.outputs)


def array(value: Any) -> Any:
    """A NumPy array on the GPU, strides and all; numbers as they are."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    value = np.asarray(value)
    made = gpu.to_device(value, 0)
    return made if value.flags.c_contiguous else strided_like(value, made)


def strided_like(value: np.ndarray, made: Any) -> Any:
    """The elements of `made` with the strides of `value`, in memory of its own."""
    cupy = gpu.module()
    spans = [(n - 1) * abs(s) for n, s in zip(value.shape, value.strides, strict=True) if n]
    memory = cupy.cuda.alloc(sum(spans) + value.itemsize)
    start = sum(-s * (n - 1) for n, s in zip(value.shape, value.strides, strict=True) if s < 0)
    target = cupy.ndarray(value.shape, value.dtype, memory + start, value.strides)
    target[...] = made
    return target


def host(value: Any) -> Any:
    """An array of the GPU as NumPy's; anything else as it is."""
    return gpu.to_host(value) if gpu.is_gpu_array(value) else value


def compiled(graph: Graph, launching: Launching = DEFAULT) -> Any:
    """The program of a graph."""
    return pipeline.start_compile(graph, launching=launching)()


def check(
    function: Callable[..., Any],
    *arguments: Any,
    tolerance: float | None = None,
    launching: Launching = DEFAULT,
) -> Any:
    """Compile for the GPU, run, compare with NumPy; returns the program."""
    graph = graph_of(function, *map(type_of, arguments))
    program = compiled(graph, launching)
    check_program(program, graph, arguments, tolerance)
    return program


def check_program(
    program: Any, graph: Graph, arguments: Sequence[Any], tolerance: float | None = None
) -> None:
    """A program gives what rows give on NumPy's arrays."""
    got = program(*map(array, arguments))
    want = interpret.run(on_host(graph), arguments)
    for expected, actual in zip(want, got, strict=True):
        assert_same(expected, actual, tolerance)


def assert_same(expected: Any, actual: Any, tolerance: float | None = None) -> None:
    """Same dtype and shape, on the GPU; equal, or close for floats."""
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert expected == actual
        return
    expected = np.asarray(expected)
    assert gpu.is_gpu_array(actual)
    actual = host(actual)
    assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape)
    if not dtypes.from_numpy(expected.dtype).is_floating_point:
        np.testing.assert_array_equal(expected, actual)
        return
    if tolerance is None:
        tolerance = {2: 2e-2, 4: 2e-5, 8: 1e-11}[expected.dtype.itemsize]
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )
