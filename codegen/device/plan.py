"""A CUDA unit as a launch plan: numbers in place of buffers, sizes and steps.

Contract: `arrange(unit)` gives `PlanData`, which is nothing but numbers and names: JSON keeps it,
and `_device.Plan` and `_device.Program` are made of it without looking at the graph again. The
words of a plan are, in order: those that every program has, addresses of inputs, of outputs and of
constants, run-time numbers, symbolic sizes, then constants and what is computed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from dynajit.codegen import _device
from dynajit.codegen.cuda.text import Unit
from dynajit.codegen.cuda.units.steps import (
    STATUS,
    Argument,
    CudaKernel,
    LibraryCall,
    Memset,
    ScalarArgument,
    SizeArgument,
    Step,
    TableArgument,
    Word,
)
from dynajit.codegen.device.products import product_step
from dynajit.codegen.device.words import Words
from dynajit.codegen.loops.loop_ir import Buffer
from dynajit.codegen.run.blueprints import stride_in_bytes
from dynajit.core.errors import CodegenError
from dynajit.core.records import record
from dynajit.core.types.symint import Number, bounds
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.node import Node

DEFAULT_SHARED: Final = 48 << 10
"""Bytes of dynamic shared memory that a launch may ask for without more ado."""

Place: TypeAlias = tuple[int, int]
"""Two words that are added: a base, and what is added to it or -1."""


@record
class Array:
    """An argument or a result that is an array.

    Args:
        dtype: its name.
        sizes: words of its sizes.
        strides: in bytes; None for a row-major array, into which others are copied.
        shape: its sizes where all are known, else None.
    """

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    shape: tuple[int, ...] | None


@record
class PlanData:
    """A plan and what a program has to know about its words.

    Args:
        arguments: `Array`s, or kinds of numbers (`_device.ARGUMENT_...`).
        outputs: arrays that a call makes.
        symbols: (argument, dimension or -1, word, low, high) of each symbolic size.
        constants_first, scalars_first: their first words.
        slots: number of words.
        numbers: (word, value) of constants.
        arithmetic: (operation, (target, left, right)), in order.
        steps: as `_device.Plan` takes them.
        may_fail: a kernel may refuse its values.
    """

    arguments: tuple[Array | int, ...]
    outputs: tuple[Array, ...]
    symbols: tuple[tuple[int, int, int, int, int], ...]
    constants_first: int
    scalars_first: int
    slots: int
    numbers: tuple[tuple[int, int], ...]
    arithmetic: tuple[tuple[int, tuple[int, int, int]], ...]
    steps: tuple[tuple[Any, ...], ...]
    may_fail: bool


def arrange(unit: Unit, arrays: Mapping[Node, TensorType] = MappingProxyType({})) -> PlanData:
    """The plan of a unit.

    Args:
        unit: kernels, library calls and layout.
        arrays: see `Split.array_types`.

    Raises:
        CodegenError: a size is not known when the program runs, or a product is none for cuBLASLt.
    """
    return _Arranger(unit, arrays).data()


class _Arranger:
    """Makes one plan. Mutable: words are added."""

    def __init__(self, unit: Unit, arrays: Mapping[Node, TensorType]) -> None:
        self.unit, self.layout, self.arrays = unit, unit.layout, arrays
        self.inputs = unit.graph.inputs
        self.tensors = [n for n in self.inputs if isinstance(n.type, TensorType)]
        scalars = [n for n in self.inputs if isinstance(n.type, ScalarType)]
        self.outputs_first = _device.SLOT_FIRST + len(self.tensors)
        self.constants_first = self.outputs_first + len(self.layout.outputs)
        self.scalars_first = self.constants_first + len(self.layout.constants)
        symbols = unit.symbols
        first = self.scalars_first + len(scalars)
        places = {symbol.name: first + k for k, symbol in enumerate(symbols)}
        self.symbols = tuple((s.argument, s.dim, places[s.name], s.low, s.high) for s in symbols)
        self.words = Words(first + len(symbols), places)

    def data(self) -> PlanData:
        arguments = tuple(self._argument(node) for node in self.inputs)
        outputs = tuple(self._array(node, is_input=False) for node in self.layout.outputs)
        steps = [self._step(step) for step in self.unit.steps]
        workspace = self.words.of(self.layout.workspace_bytes)
        return PlanData(
            arguments=arguments,
            outputs=outputs,
            symbols=self.symbols,
            constants_first=self.constants_first,
            scalars_first=self.scalars_first,
            slots=self.words.count,
            numbers=tuple(self.words.constants),
            arithmetic=(
                *self.words.arithmetic,
                (_device.ADD, (_device.SLOT_WORKSPACE_BYTES, workspace, self.words.of(0))),
            ),
            steps=tuple(steps),
            may_fail=self.unit.may_fail,
        )

    # -- arguments and results

    def _argument(self, node: Node) -> Array | int:
        if isinstance(node.type, ScalarType):
            return (
                _device.ARGUMENT_BOOL, _device.ARGUMENT_INTEGER, _device.ARGUMENT_FLOATING
            )[node.type.category]  # fmt: skip
        return self._array(node, is_input=True)

    def _array(self, node: Node, *, is_input: bool) -> Array:
        type = self.arrays.get(node, node.type)
        assert isinstance(type, TensorType)
        strides = None
        if is_input and not type.is_contiguous:
            itemsize = type.dtype.itemsize
            strides = tuple(stride_in_bytes(s, itemsize) for s in type.strides or ())
        shape = tuple(size for size in type.shape if isinstance(size, int))
        return Array(
            type.dtype.name,
            tuple(map(self.words.of, type.shape)),
            strides,
            shape if len(shape) == type.rank else None,
        )

    # -- places

    def _place(self, buffer: Buffer, offset: Number = 0) -> Place:
        """Where an element lies; the offset is in elements."""
        kind, position = self.layout.places[buffer]
        more = offset * buffer.dtype.itemsize
        if kind == "workspace":
            return self._sum(_device.SLOT_WORKSPACE, position + more)
        first = {
            "inputs": _device.SLOT_FIRST,
            "outputs": self.outputs_first,
            "constants": self.constants_first,
        }[kind]
        assert isinstance(position, int)
        return self._sum(first + position, more)

    def _sum(self, base: int, offset: Number) -> Place:
        return base, -1 if offset == 0 else self.words.of(offset)

    def _word(self, word: Word) -> Place:
        if isinstance(word, Buffer):
            return self._place(word)
        if isinstance(word, ScalarArgument):
            return self.scalars_first + word.position, -1
        return self.words.of(word.value), -1

    def _parameter(self, argument: Argument) -> tuple[Place, ...]:
        """The words of one parameter."""
        if isinstance(argument, TableArgument):
            return tuple(self._word(word) for row in argument.rows for word in row)
        if isinstance(argument, (Buffer, ScalarArgument, SizeArgument)):
            return (self._word(argument),)
        if argument != STATUS:
            raise CodegenError(f"{argument!r} is no argument of a kernel.")
        return ((_device.SLOT_STATUS, -1),)

    # -- steps

    def _step(self, step: Step) -> tuple[Any, ...]:
        if isinstance(step, LibraryCall):
            return product_step(step, self.words, self._place)
        if isinstance(step, Memset):
            size = step.buffer.size * step.buffer.dtype.itemsize
            return _device.STEP_MEMSET, self._place(step.buffer), self.words.of(size), step.byte
        return (
            _device.STEP_KERNEL,
            step.entry,
            tuple(map(self.words.of, step.grid)),
            step.block,
            self.words.of(step.dynamic_bytes),
            _most_dynamic(step),
            tuple(map(self._parameter, step.arguments)),
            step.may_fail,
        )


def _most_dynamic(kernel: CudaKernel) -> int:
    """What the function must be allowed; 0 where nothing has to be said."""
    size = kernel.dynamic_bytes
    most = size if isinstance(size, int) else bounds(size)[1]
    if most is None:
        raise CodegenError(f"{kernel.name}: its dynamic shared memory has no bound.")
    return most if most > DEFAULT_SHARED else 0
