"""The recorder: what one capture has learnt so far (guards, heap, graph inputs, nodes).

Mutable; one per capture. `wrap` turns an existing Python object into a value, `use` records the
facts that an operation relies on, `Builder` makes graph nodes. Everything can be undone to a
`mark`, because a graph break goes back to the start of an instruction.
Called by the executor and the operations; never by users.
"""

import enum
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.capture import breaks, layouts, sources, tensor_memory
from dynajit.capture._capture import CompiledFunction
from dynajit.capture.by_class import remembered
from dynajit.capture.guard_facts import FunctionFacts
from dynajit.capture.guards import Guard, Kind
from dynajit.capture.heap import Heap
from dynajit.capture.size_memory import SizeMemory
from dynajit.capture.sizes import Sizes
from dynajit.capture.sources import Source
from dynajit.capture.values import LITERAL_TYPES, Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values_containers import (
    DictValue,
    ExistingIterator,
    HeapValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values_functions import BoundMethod, CellValue
from dynajit.capture.values_objects import ObjectContents, ObjectValue
from dynajit.capture.values_tensors import Step, TensorContents, TensorValue
from dynajit.core import symint
from dynajit.core.device import CPU, Device
from dynajit.core.dtypes import Category, DType
from dynajit.core.errors import DeviceError
from dynajit.core.location import Location
from dynajit.core.symint import Number, SymInt
from dynajit.core.types import ScalarType, Shape, TensorType
from dynajit.eager import Size, Tensor
from dynajit.eager.execute import missing_device
from dynajit.ir import graph
from dynajit.ir.node import Node
from dynajit.ir.sizes import symbol_places, symbols
from dynajit.ops import TABLE
from dynajit.ops.table import Kind as OpKind
from dynajit.ops.table import Op

#: Classes whose instances are known by identity, although they are not functions or classes.
_KNOWN_INSTANCES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodWrapperType,
    types.CodeType,
    types.GenericAlias,
    types.UnionType,
    staticmethod,
    classmethod,
    property,
    enum.Enum,
    DType,
    Device,
    Op,
    type(len),
    CompiledFunction,
)

_ITERATOR_TYPES = (
    type(iter([])),
    type(iter(())),
    type(iter({})),
    type(iter(range(0))),
    type(iter({}.values())),
    type(iter({}.items())),
    enumerate,
    zip,
    map,
    filter,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where to go back to."""

    heap: int
    nodes: tuple[int, int]
    guards: int
    inputs: int
    random_blocks: Number
    lines: int


class Namespace:
    """The globals of one function: its real dict, and the source of each name.

    With `is_fixed` they never change, and need no guards.
    """

    __slots__ = ("base", "builtins", "globals", "is_fixed")

    def __init__(
        self,
        base: Source,
        globals: dict[str, Any],
        builtins: Mapping[str, Any],
        is_fixed: bool = False,
    ) -> None:
        self.is_fixed = is_fixed
        self.base = base
        self.globals = globals
        self.builtins = builtins


class Builder(graph.Builder):
    """Builds the graph of a capture; takes eager tensors in, refuses to show contents."""

    def __init__(self, name: str, recorder: "Recorder") -> None:
        super().__init__(name)
        self.recorder: Recorder = weakref.proxy(recorder)  # no cycle: captures die at once
        self._needs_gradient: dict[graph.Node, bool] = {}
        self._strides: dict[graph.Node, Shape | None] = {}
        #: Nodes that stand for operands read while grad mode is off.
        self.automatic: set[graph.Node] = set()

    def lift(self, operand: Any) -> Any:
        """Eager tensors and sizes become graph inputs."""
        if isinstance(operand, Tensor):
            constant = self.recorder.wrap(operand, sources.Constant(operand))
            if isinstance(constant, TensorValue):
                return self.recorder.graph_value(constant)
            return self.recorder.lift_tensor(operand, sources.Constant(operand))
        if isinstance(operand, SymInt):
            size = self.recorder.sizes.value_of(operand)
            assert isinstance(size, Scalar)
            return self.recorder.lift_scalar(size)
        return super().lift(operand)

    def is_name_free(self, name: str) -> bool:
        """True if no node has this name yet; then it is kept for a symbol."""
        if name in self._names:
            return False
        self._names[name] = 0
        return True

    def size_input(self, symbol: str) -> graph.Value:
        """The INTEGER input that has the name of a symbol."""
        return self.adopt(Node(graph.NodeKind.PLACEHOLDER, symbol, ScalarType(Category.INTEGER)))

    @property
    def nodes(self) -> list[graph.Node]:
        """Everything recorded so far but the inputs."""
        return self._nodes

    def lay_out(self, value: graph.Value, strides: Shape | None) -> None:
        """A value that was written into memory has the layout of that memory."""
        self._strides[value.node] = strides

    def copy_of(self, value: graph.Value) -> graph.Node:
        """A row-major copy, whatever the grad mode is now."""
        result = self.call(TABLE.clone, [value], {})
        self._needs_gradient[result.node] = self.needs_gradient(value)
        return result.node

    def strides_of(self, value: graph.Value) -> Shape | None:
        """See `layouts.strides_of`; what was found is remembered."""
        found: list[graph.Node] = [value.node]
        while found:
            node = found[-1]
            missing = [
                argument
                for argument in node.args
                if isinstance(argument, graph.Node)
                and argument not in self._strides
                and isinstance(argument.type, TensorType)
            ]
            if missing:
                found += missing
            else:
                self._strides[node] = layouts.strides_of(node, self._strides)
                found.pop()
        return self._strides[value.node]

    def refuse(self, value: graph.Value, what: str) -> Any:
        """Contents are asked for: break."""
        row = breaks.DATA_DEPENDENT_VALUE
        if "truth" in what:
            row = breaks.DATA_DEPENDENT_BRANCH
        raise breaks.GraphBreak(row, f"{what} of {value.node.name}: {value.type}")

    def input(self, name: str, type: Any, requires_grad: bool) -> graph.Value:
        """A further graph input."""
        value = self.placeholder(name, type)
        self._needs_gradient[value.node] = requires_grad
        return value

    def handle(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> graph.Value:
        """Record an op; with grad mode off, operands are detached first."""
        operands = [self.lift(operand) for operand in inputs]
        if attributes.get("device", CPU) != CPU:
            raise DeviceError(missing_device(op.name, attributes["device"]))
        if not self.recorder.grad_enabled and op.name != "detach":
            operands = [self.without_gradient(operand) for operand in operands]
        result = self.call(op, operands, attributes)
        self._needs_gradient[result.node] = self._result_needs_gradient(op, operands, result)
        return result

    def call(self, *args: Any, **keywords: Any) -> graph.Value:
        """Append a call; sizes of its result that are symbolic are at least 1."""
        result = super().call(*args, **keywords)
        for size in result.shape:
            if isinstance(size, SymInt):
                self.recorder.sizes.check_result(size)
        return result

    def needs_gradient(self, value: graph.Value) -> bool:
        """What `requires_grad` of the value is."""
        return self.node_needs_gradient(value.node)

    def node_needs_gradient(self, node: graph.Node) -> bool:
        """The same of a node."""
        return self._needs_gradient.get(node, False)

    def without_gradient(self, operand: Any) -> Any:
        """An operand as operations see it while grad mode is off."""
        if isinstance(operand, graph.Value) and self.needs_gradient(operand):
            detached = self.call(TABLE.detach, [operand], TABLE.detach.bind({}))
            self._needs_gradient[detached.node] = False
            self.automatic.add(detached.node)
            return detached
        return operand

    def view(self, step: Step, value: graph.Value) -> graph.Value:
        """A view of a value, whatever the grad mode is now."""
        operand = value if step.is_recorded else self.without_gradient(value)
        result = self.call(step.op, [operand], step.attributes)
        follows = self.needs_gradient(operand) and step.op is not TABLE.detach
        self._needs_gradient[result.node] = follows
        return result

    def with_history_of(self, old: graph.Value, elements: graph.Value) -> graph.Value:
        """What a tensor holds after a write that was not recorded."""
        result = self.call(TABLE.overwrite_unrecorded, [old, elements], {})
        self._needs_gradient[result.node] = True
        return result

    def _result_needs_gradient(self, op: Op, operands: list[Any], result: graph.Value) -> bool:
        if op.name == "detach" or not result.dtype.is_floating_point:
            return False
        if op.kind is not OpKind.COMPOSITE and not any(op.vjp.values()):
            return False
        return any(
            isinstance(operand, graph.Value) and self.needs_gradient(operand)
            for operand in operands
        )


class Recorder:
    """See the module's text.

    Args:
        name: name of the graph.
        grad_enabled: grad mode at entry.
        sizes: which sizes of existing tensors are symbols; None: none are.
    """

    def __init__(self, name: str, grad_enabled: bool, sizes: Sizes | None = None) -> None:
        self.heap = Heap()
        self.builder = Builder(name, self)
        self.location: Location | None = None
        self.random_blocks: Number = 0
        self.sizes = Sizes(SizeMemory(mode=False)) if sizes is None else sizes
        self.sizes.serve(self)
        #: Node -> heap id of the tensor that it was read from, or that it was returned as.
        self.owners: dict[graph.Node, int] = {}
        self._lines: dict[tuple[str, int], None] = {}
        self._guards: dict[tuple[Any, ...], Guard] = {}
        self._inputs: dict[Any, tuple[graph.Value, Value, bool]] = {}
        self._wrapped: dict[Source, Value] = {}
        self._by_object: dict[int, HeapValue] = {}
        self._existing: dict[int, Any] = {}
        self._grad_mode = self.heap.adopt(grad_enabled)
        self._output = self.heap.adopt(())
        self._printed = self.heap.adopt(())

    def at(self, location: Location) -> None:
        """Where the executor is: nodes and guards carry it."""
        self.location = location
        self.builder.location = location
        self.sizes.location = location
        self._lines[location.file, location.line] = None

    @property
    def lines(self) -> frozenset[tuple[str, int]]:
        """(file, line) of the user's lines executed so far."""
        return frozenset(self._lines)

    # -- grad mode -------------------------------------------------------------------------

    @property
    def grad_enabled(self) -> bool:
        """Grad mode at this point of the captured code."""
        return bool(self.heap[self._grad_mode])

    def set_grad_enabled(self, mode: bool) -> None:
        """Change grad mode from here on."""
        if self.grad_enabled != mode:
            self.heap.write(self._grad_mode, mode)

    @property
    def grad_mode_at_entry_and_end(self) -> tuple[bool, bool]:
        """Grad mode at entry and at this point: views are made under one of them."""
        return bool(self.heap.entry(self._grad_mode)), self.grad_enabled

    @property
    def grad_mode_id(self) -> int:
        """Heap id under which grad mode is kept."""
        return self._grad_mode

    # -- text that is written --------------------------------------------------------------

    @property
    def output_ids(self) -> tuple[int, int]:
        """Heap ids under which the written text, and the tensors in it, are kept."""
        return (self._output, self._printed)

    @property
    def output(self) -> tuple[Any, ...]:
        """Effects that write text, in order."""
        found: tuple[Any, ...] = self.heap[self._output]
        return found

    @property
    def printed(self) -> tuple[TensorValue, ...]:
        """Existing tensors that are shown after the launch: they must not be written."""
        found: tuple[TensorValue, ...] = self.heap[self._printed]
        return found

    def add_output(self, effect: Any) -> None:
        """A further effect that writes text."""
        self.heap.write(self._output, (*self.output, effect))

    def add_printed(self, tensor: TensorValue) -> None:
        """A further existing tensor that is shown."""
        self.heap.write(self._printed, (*self.printed, tensor))

    # -- undo ------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """The present state, for `restore`."""
        return Mark(
            self.heap.mark(),
            self.builder.snapshot(),
            len(self._guards),
            len(self._inputs),
            self.random_blocks,
            len(self._lines),
        )

    def restore(self, mark: Mark) -> None:
        """Forget everything learnt since `mark`."""
        self.heap.restore(mark.heap)
        self.builder.restore(mark.nodes)
        while len(self._guards) > mark.guards:
            self._guards.popitem()
        while len(self._inputs) > mark.inputs:
            self._inputs.popitem()
        self.random_blocks = mark.random_blocks
        while len(self._lines) > mark.lines:
            self._lines.popitem()

    # -- guards ----------------------------------------------------------------------------

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards recorded so far, in order of use."""
        return tuple(self._guards.values())

    def guard(self, source: Source, kind: Kind, expected: Any, reason: str = "") -> None:
        """Record a fact once.

        Raises:
            GraphBreak: the guard evaluator cannot reach the source.
        """
        if not source.is_guardable:
            raise breaks.GraphBreak(
                breaks.UNSUPPORTED_OPERATION, f"{source.expression()} cannot be guarded"
            )
        self.add_guard(Guard(source, kind, expected, self.location, reason))

    def add_guard(self, guard: Guard) -> None:
        """Record a fact once."""
        self._guards.setdefault(guard.identity(), guard)

    def use(self, value: Value) -> None:
        """An operation relies on what `value` is: guard the fact that its family stands for."""
        source = value.source if hasattr(value, "source") else None
        if source is None or isinstance(source, sources.SizeOf):
            return  # a size is read from a tensor whose facts are guarded
        if isinstance(value, HeapValue):
            self._use_object(value, source)
        elif isinstance(value, Constant):
            self._use_literal(value, source)
        elif isinstance(value, Known):
            self._use_known(value, source)
        elif isinstance(value, (Scalar, Opaque, BoundMethod, SliceValue)):
            self.guard(source, Kind.TYPE_IS, value.python_type)
        elif isinstance(value, TupleValue):
            self.guard(source, Kind.TYPE_IS, value.cls)
            self.guard(source, Kind.LENGTH, len(value.items))

    def _use_literal(self, value: Constant, source: Source) -> None:
        literal = value.value
        if isinstance(literal, range):
            self.guard(source, Kind.TYPE_IS, range)
            for name in _SLICE:
                self.guard(sources.Attribute(source, name), Kind.EQUALS, getattr(literal, name))
        elif type(literal) in (bool, frozenset, *_SINGLETONS):
            self.guard(source, Kind.IDENTITY, literal)
        else:
            self.guard(source, Kind.EQUALS, literal)

    def _use_known(self, value: Known, source: Source) -> None:
        self.guard(source, Kind.IDENTITY, value.object)

    def use_function(self, value: Known) -> None:
        """A function is called: of an argument only the code matters, not the identity."""
        source = value.source
        if source is not None and isinstance(source.root, sources.Local):
            facts = FunctionFacts(value.object.__code__, value.object.__qualname__)
            self.guard(source, Kind.FUNCTION, facts)
        else:
            self.use(value)

    def _use_object(self, value: HeapValue, source: Source) -> None:
        first = self._first_handle(value)
        if first is not None and first.source is not None and first.source != source:
            self._use_object(first, first.source)
            self.guard(source, Kind.ALIASED, first.source)
        elif isinstance(value, TensorValue):
            self._use_tensor(self._existing[value.identity], source)
        else:
            self.guard(source, Kind.TYPE_IS, value.cls)

    def _use_tensor(self, tensor: Any, source: Source) -> None:
        for kind, expected, guard in self.sizes.guards_of(tensor, source):
            if guard is None:
                self.guard(source, kind, expected)
            else:
                self.add_guard(guard)

    def tensor_type(self, value: TensorValue) -> TensorType:
        """The graph type of an existing tensor; its facts are guarded."""
        self.use(value)
        return self.sizes.type_of(self._existing[value.identity], self.first_source(value))

    def _first_handle(self, value: HeapValue) -> HeapValue | None:
        existing = self._existing.get(value.identity)
        return None if existing is None else self._by_object.get(id(existing))

    def handles(self) -> list[HeapValue]:
        """The first handle of every existing object met so far."""
        return list(self._by_object.values())

    def is_relied_on(self, source: Source) -> bool:
        """True if a guard was recorded on a source."""
        return any(guard.source == source for guard in self._guards.values())

    def first_source(self, value: HeapValue) -> Source:
        """The source under which an existing object was met first."""
        first = self._first_handle(value)
        source: Source = value.source if first is None else first.source
        return source

    def guard_exists(self, place: Source, obj: Any) -> None:
        """Guard that a place that was only found, not read, is still there."""
        self.guard(place, Kind.TYPE_IS, type(obj), "present key")

    def existing(self, value: HeapValue) -> Any:
        """The Python object behind a handle of an object that existed before; else None."""
        return self._existing.get(value.identity)

    # -- existing objects as values ----------------------------------------------------------

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value of an existing object; records no guard."""
        if source is None:
            source = sources.Constant(obj)
        found = self._wrapped.get(source)
        if found is None:
            found = self._wrapped[source] = self._wrap(obj, source)
        return found

    def _wrap(self, obj: Any, source: Source) -> Value:
        kind = type(obj)  # never isinstance(obj, ...): that would ask obj.__class__, user code
        if kind in LITERAL_TYPES and isinstance(source, sources.Constant):
            return Constant(obj)
        if kind in (int, float) and not isinstance(source.root, sources.Constant):
            return Scalar(obj, source)
        if kind in LITERAL_TYPES:
            return Constant(obj, source)
        if issubclass(kind, Tensor):
            if not _is_plain_tensor(kind):
                return Opaque(obj, source)
            return self._adopt(obj, TensorValue, source, TensorContents(None, obj))
        if kind is tuple or (issubclass(kind, tuple) and _is_plain_tuple(kind)):
            items = [self.wrap(item, sources.Item(source, i)) for i, item in enumerate(obj)]
            return TupleValue(tuple(items), kind, source)
        if kind is list:
            return self._adopt(obj, ListValue, source, None)
        if kind in (dict, OrderedDict, defaultdict):
            return self._adopt(obj, DictValue, source, None)
        if kind is set:
            return self._adopt(obj, SetValue, source, None)
        if kind is slice:
            parts = [self.wrap(getattr(obj, n), sources.Attribute(source, n)) for n in _SLICE]
            return SliceValue(*parts, source)
        return self._wrap_object(obj, kind, source)

    def _wrap_object(self, obj: Any, kind: type, source: Source) -> Value:
        descriptor = _descriptor_of(obj)
        if descriptor is not None and not isinstance(source, sources.Constant):
            function = self.wrap(descriptor, sources.MethodFunction(source))
            receiver = self.wrap(obj.__self__, sources.MethodSelf(source))
            return BoundMethod(function, receiver, source)
        if issubclass(kind, (type, types.FunctionType, types.ModuleType, _KNOWN_INSTANCES)):
            if isinstance(source, sources.Constant):
                return Known(obj)
            return Known(obj, source)
        if kind is types.MethodType:
            function = self.wrap(obj.__func__, sources.MethodFunction(source))
            return BoundMethod(
                function, self.wrap(obj.__self__, sources.MethodSelf(source)), source
            )
        if kind is types.CellType:
            return self._adopt(obj, CellValue, source, None)
        if kind in _ITERATOR_TYPES:
            return self._adopt(obj, IteratorValue, source, ExistingIterator())
        if is_modelled_class(kind):
            return self._adopt(obj, ObjectValue, source, ObjectContents(obj))
        return Opaque(obj, source)

    def _adopt(self, obj: Any, family: type, source: Source, contents: Any) -> Value:
        first = self._by_object.get(id(obj))
        if first is not None:
            return family(first.identity, type(obj), source)
        handle = family(self.heap.adopt(contents), type(obj), source)
        self._by_object[id(obj)] = handle
        self._existing[handle.identity] = obj
        return handle

    # -- graph inputs ------------------------------------------------------------------------

    @property
    def met_tensor(self) -> bool:
        """True if an existing tensor was reached, or an op was recorded."""
        reached = any(isinstance(handle, TensorValue) for handle in self._by_object.values())
        return reached or bool(self.builder.nodes)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Per graph input, the value that loads it."""
        return tuple(entry[1] for entry in self._inputs.values())

    @property
    def input_nodes(self) -> dict[graph.Node, Value]:
        """Placeholder -> the value that loads it."""
        return {entry[0].node: entry[1] for entry in self._inputs.values()}

    def show_sizes(self, outputs: Sequence[Any]) -> None:
        """Add an input for each symbol that no tensor input of the graph shows."""
        found = self.builder.finish(outputs)
        for name in sorted(symbols(found) - symbol_places(found).keys()):
            self.lift_scalar(self.sizes.scalar(name))

    @property
    def inputs_require_grad(self) -> tuple[bool, ...]:
        """Per graph input, whether gradients flow to it."""
        return tuple(entry[2] for entry in self._inputs.values())

    def lift_tensor(self, tensor: Any, source: Source) -> graph.Value:
        """The graph input of an existing tensor; one per tensor object."""
        key = ("tensor", id(tensor))
        if key not in self._inputs:
            handle = self.wrap(tensor, source)
            self.use(handle)
            value = self.builder.input(
                _input_name(source), self.tensor_type(handle), bool(tensor.requires_grad)
            )
            self._inputs[key] = (value, handle, bool(tensor.requires_grad))
            if isinstance(handle, TensorValue):
                for memory in tensor_memory.written(self):
                    tensor_memory.refuse_overlap(self, memory.base)
                self.owners[value.node] = handle.identity
        return self._inputs[key][0]

    def lift_scalar(self, scalar: Scalar) -> graph.Value:
        """The graph input of a run-time number; that of a symbol has the symbol's name."""
        key = ("scalar", scalar.source if scalar.source is not None else id(scalar))
        symbol = None if scalar.symbolic is None else symint.name_of(scalar.symbolic)
        if symbol is not None:
            key = ("size", symbol)
        elif scalar.symbolic is not None:
            key = ("size", scalar.symbolic)
        if key not in self._inputs:
            self.use_scalar_type(scalar)
            category = Category.FLOATING if scalar.python_type is float else Category.INTEGER
            if symbol is not None:
                value = self.builder.size_input(symbol)
            else:
                name = "number" if scalar.source is None else _input_name(scalar.source)
                value = self.builder.input(name, ScalarType(category), False)
            self._inputs[key] = (value, scalar, False)
        return self._inputs[key][0]

    def use_scalar_type(self, scalar: Scalar) -> None:
        """Guard the types of the numbers that a run-time number is made of."""
        if scalar.expression is None:
            self.use(scalar)
            return
        for operand in scalar.expression[1]:
            if isinstance(operand, Scalar):
                self.use_scalar_type(operand)

    def specialise(self, scalar: Scalar) -> int | float:
        """Guard that a run-time number has today's value; returns it."""
        if scalar.symbolic is not None:
            return self.sizes.number(scalar.symbolic)
        if scalar.expression is None:
            self.sizes.saw_int(scalar)
            self.guard(scalar.source, Kind.EQUALS, scalar.value)
        else:
            for operand in scalar.expression[1]:
                if isinstance(operand, Scalar):
                    self.specialise(operand)
        return scalar.value

    def graph_value(self, value: TensorValue) -> graph.Value:
        """What a tensor holds now, as an operand."""
        self.use(value)
        contents: TensorContents = self.heap[value.identity]
        if contents.value is not None:
            return tensor_memory.read(self, value)
        first = self._first_handle(value) or value
        return self.lift_tensor(contents.tensor, first.source)

    def new_tensor(self, value: graph.Value, cls: type = Tensor) -> TensorValue:
        """A tensor made by the captured code."""
        return tensor_memory.new_tensor(self, value, cls)

    def tensor_of(self, identity: int) -> TensorValue:
        """The handle of a tensor by its heap id."""
        existing = self._existing.get(identity)
        if existing is None:
            return TensorValue(identity, Tensor)
        handle = self._by_object[id(existing)]
        assert isinstance(handle, TensorValue)
        return handle

    @property
    def lifted_tensors(self) -> list[TensorValue]:
        """The existing tensors that are graph inputs."""
        return [entry[1] for entry in self._inputs.values() if isinstance(entry[1], TensorValue)]

    def reserve_random(self, blocks: Any) -> tuple[Any, Any, Any]:
        """Seed and offset inputs, and how many blocks this graph reserved before."""
        kind = ScalarType(Category.INTEGER)
        for name, source in (("seed", sources.RandomSeed()), ("offset", sources.RandomOffset())):
            if name not in self._inputs:
                value = self.builder.input(name, kind, False)
                self._inputs[name] = (value, Scalar(0, source), False)
        shift = self.random_blocks
        self.random_blocks = self.random_blocks + blocks
        return self._inputs["seed"][0], self._inputs["offset"][0], shift


_SLICE = ("start", "stop", "step")

_SINGLETONS = (type(None), type(Ellipsis), type(NotImplemented))


@remembered
def _is_plain_tensor(kind: type) -> bool:
    """True for Tensor and subclasses that change nothing but how they are made and shown."""
    allowed = {"__new__", "__init__", "__repr__", "__deepcopy__", "__reduce__", "__doc__",
               "__module__", "__dict__", "__weakref__", "__annotations__", "__qualname__",
               "__static_attributes__", "__firstlineno__", "__slots__"}  # fmt: skip
    added = kind.__mro__[: kind.__mro__.index(Tensor)]
    return all(set(vars(cls)) <= allowed for cls in added)


def _is_plain_tuple(kind: type) -> bool:
    """True for named tuples and other tuple classes that only add names."""
    if kind is Size:
        return True
    return hasattr(kind, "_fields") and kind.__getitem__ is tuple.__getitem__


def is_modelled_class(kind: Any) -> bool:
    """True if instances keep their state in an instance dict and slots of Python classes only."""
    return is_made_class(kind) and kind.__getattribute__ is object.__getattribute__


def is_made_class(kind: Any) -> bool:
    """The same for instances that the captured code makes: reading them may run user code."""
    if issubclass(kind, (BaseException, type)) or not kind.__flags__ & _HEAP_TYPE:
        return False
    reader = kind.__getattribute__
    if reader is not object.__getattribute__ and not isinstance(reader, types.FunctionType):
        return False
    return _has_plain_layout(kind)


@remembered
def _has_plain_layout(kind: type) -> bool:
    """True if an instance is no bigger than its header, slots, dict and weak references need."""
    words = 2
    for cls in kind.__mro__[:-1]:
        slots = vars(cls).values()
        words += sum(isinstance(member, types.MemberDescriptorType) for member in slots)
    words += (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ <= words * 8


_HEAP_TYPE = 1 << 9


def _input_name(source: Source) -> str:
    """An identifier for a graph input."""
    text = source.expression()
    name = "".join(c if c.isalnum() else "_" for c in text).strip("_")
    name = name.removeprefix("self_") or "input"
    return name if not name[0].isdigit() else f"input_{name}"


def _descriptor_of(obj: Any) -> Any:
    """`list.append` of a bound `some_list.append`; None for everything else."""
    if type(obj) is not types.BuiltinMethodType:
        return None
    found = vars(type(obj.__self__)).get(obj.__name__)
    return found if type(found) is types.MethodDescriptorType else None
