"""The recorder: what one capture has learnt so far (guards, heap, graph inputs, nodes).

Mutable; one per capture. `wrap` turns an existing Python object into a value, `use` records the
facts that an operation relies on, `Builder` makes graph nodes. Everything can be undone to a
`mark`, because a graph break goes back to the start of an instruction.
"""

import enum
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np

from dynajit.capture import breaks
from dynajit.capture._capture import CompiledFunction
from dynajit.capture.guards.classes_met import ClassesMet
from dynajit.capture.guards.conditions import Condition
from dynajit.capture.guards.guards import Guard, guard_key, without_implied
from dynajit.capture.guards.kinds import Kind, is_about_a_value
from dynajit.capture.machine import lifetimes
from dynajit.capture.machine.heap import Heap
from dynajit.capture.machine.immutables import ARRAYS, is_immutable, is_lasting, is_read_as_tensor
from dynajit.capture.places import sources
from dynajit.capture.places.reload import leaf_of, proxied
from dynajit.capture.places.sources import Source
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.tensors import turns
from dynajit.capture.tensors.backward import Tape
from dynajit.capture.tensors.expressions import expression_of
from dynajit.capture.tensors.graph_building import Builder
from dynajit.capture.tensors.intervals import Intervals
from dynajit.capture.tensors.size_memory import SizeMemory
from dynajit.capture.tensors.sizes import Sizes
from dynajit.capture.tensors.spans import Spans
from dynajit.capture.values.class_layouts import (
    is_modelled_class,
    is_modelled_tensor,
    is_plain_tuple,
)
from dynajit.capture.values.containers import (
    DictValue,
    ExistingIterator,
    HeapValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import BoundMethod, CellValue
from dynajit.capture.values.objects import READ_AS, ObjectContents, ObjectValue
from dynajit.capture.values.storage import CHANGING, DequeItems, native_base, plain
from dynajit.capture.values.symbolic import LITERAL_TYPES, Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.capture.values.users_code import answers_itself
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.location import Location
from dynajit.core.records import record
from dynajit.core.types import dtypes, symint
from dynajit.core.types.device import CPU, META, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.eager import Tensor
from dynajit.eager.tensor.creation import tensor_over
from dynajit.ir import graph
from dynajit.ir.sizes import symbol_places, symbols
from dynajit.ops.calls.namespaces import GraphCallable
from dynajit.ops.native._library_call import LibraryFunction
from dynajit.ops.table.op_table import Op

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
    LibraryFunction,
    GraphCallable,
    np.ufunc,
    type(np.prod),  # most functions of NumPy: they look for `__array_function__` first
    type(len),
    CompiledFunction,
)

_HARMLESS = (type, types.FunctionType, types.BuiltinFunctionType, LibraryFunction)

_ITERATOR_TYPES: Final[tuple[type, ...]] = (
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

# By id: comparing the class of a user's object with another class may ask its metaclass.
_LITERALS = frozenset(map(id, LITERAL_TYPES))

#: Places that the program can empty: attributes and variables. Lengths and keys are guarded.
_MAY_BE_MISSING: Final = (
    sources.Attribute, sources.Builtin, sources.CellContents, sources.Closure, sources.Global,
)  # fmt: skip
_ITERATORS = frozenset(map(id, _ITERATOR_TYPES))
_ARRAYS = frozenset(map(id, ARRAYS))


@record
class Mark:
    """Where to go back to."""

    heap: int
    nodes: tuple[int, int]
    guards: int
    inputs: int
    random_blocks: Mapping[Device, Number]
    lines: int
    unproven: int


def _reads_as_module(kind: type) -> bool:
    """True for a class of modules that shows attributes, `__class__` among them, as modules do."""
    plain = types.ModuleType
    return all(getattr(kind, n) is getattr(plain, n) for n in ("__getattribute__", "__class__"))


def is_harmless(obj: Any) -> bool:
    """True for a literal, a class or a function, and for tuples and frozensets of such."""
    kind = type(obj)
    if kind in (tuple, frozenset):
        return all(map(is_harmless, obj))
    return kind in LITERAL_TYPES or kind in _HARMLESS


#: A family of handles.
Handle = TypeVar("Handle", bound=HeapValue)


class Recorder:
    """See the module's text.

    Args:
        name: name of the graph.
        grad_enabled: grad mode at entry.
        autocast: autocast word at entry (`ops.calls.autocast_words`).
        inference: inference mode at entry.
        unasked: in how many blocks of the program that ask no class it begins.
        sizes: which sizes of existing tensors are symbols; None: none are.
    """

    def __init__(
        self,
        name: str,
        grad_enabled: bool,
        sizes: Sizes | None = None,
        autocast: int = 0,
        inference: bool = False,
        unasked: int = 0,
    ) -> None:
        self.heap = Heap()
        self.builder = Builder(name, self)
        self.location: Location | None = None
        self.random_blocks: Mapping[Device, Number] = {}
        self.sizes = Sizes(SizeMemory(mode=False)) if sizes is None else sizes
        self.sizes.serve(self)
        #: Node -> heap id of the tensor that it was read from, or that it was returned as.
        self.owners: dict[graph.Node, int] = {}
        self.writes = tensor_memory.Writes()
        #: What is known of the turns of the loops that are being captured, innermost last.
        self.turns: list[turns.Turns] = []
        self.intervals = Intervals()
        self.asks_compiling = False
        #: Arrays of NumPy's are read as tensors: not in functions of this library.
        self.reads_arrays = True
        #: Leaves that functions make break the graph: see `machine.Refusals.histories`.
        self.refuses_leaves = False
        #: Code runs that may be left to Python where it is: not outside of instructions.
        self.may_break = False
        self._lines: dict[tuple[str, int], None] = {}
        self._guards: dict[tuple[Any, ...], Guard] = {}
        self._guarded: Counter[Source] = Counter()  # guards per source
        self._kinds: Counter[Kind] = Counter()
        self._used: dict[int, Value] = {}  # by id: values whose facts are guarded
        self._inputs: dict[Any, tuple[graph.Value, Value, bool]] = {}
        self._wrapped: dict[Source, Value] = {}
        self._by_object: dict[int, HeapValue] = {}
        self._by_fields: dict[int, HeapValue] = {}
        self._existing: dict[int, Any] = {}
        #: Heap ids of tensors that became graph inputs, and of memories that were written.
        self.input_spans, self.written_spans = Spans(), Spans()
        #: Heap id -> (handle, known by identity), of objects that were keys of dicts or sets.
        self.identity_keys: dict[int, tuple[HeapValue, bool]] = {}
        self._storages: list[HeapValue] = []
        #: Tensor, copy of it that stands for a view: see
        #: `capture.python.builtins.written_derivatives`.
        self.copies: list[tuple[TensorValue, TensorValue]] = []
        self.classes = ClassesMet()
        #: Source or heap id -> a value whose end does something
        #: (`capture.python.objects.watching`).
        self.watched: dict[Any, Value] = {}
        self._grad_mode = self.heap.adopt(grad_enabled)
        self._autocast = self.heap.adopt(autocast)
        self._inference = self.heap.adopt(inference)
        self._unasked = self.heap.adopt(unasked)
        self._tensor_classes: dict[int, type] = {}
        self._draws = self.heap.adopt(())
        self._output = self.heap.adopt(())
        self._printed = self.heap.adopt(())
        self._tape = self.heap.adopt(Tape())

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

    # -- autocast --------------------------------------------------------------------------

    @property
    def autocast_word(self) -> int:
        """The autocast word at this point of the captured code."""
        return int(self.heap[self._autocast])

    def set_autocast_word(self, word: int) -> None:
        """Change the autocast word from here on."""
        if self.autocast_word != word:
            self.heap.write(self._autocast, word)

    @property
    def autocast_id(self) -> int:
        """Heap id under which the autocast word is kept."""
        return self._autocast

    # -- inference mode --------------------------------------------------------------------

    @property
    def inference_enabled(self) -> bool:
        """Whether inference mode is on at this point of the captured code."""
        return bool(self.heap[self._inference])

    def set_inference_enabled(self, mode: bool) -> None:
        """Change inference mode from here on."""
        if self.inference_enabled != mode:
            self.heap.write(self._inference, mode)

    @property
    def inference_id(self) -> int:
        """Heap id under which inference mode is kept."""
        return self._inference

    # -- classes that override functions ---------------------------------------------------

    @property
    def unasked_id(self) -> int:
        """Heap id under which is kept in how many blocks of the program no class is asked."""
        return self._unasked

    def with_class(self, value: TensorValue, cls: type) -> TensorValue:
        """A tensor that the captured code made, as one of class `cls`."""
        self._tensor_classes[value.identity] = cls
        self.classes.add(cls)
        return TensorValue(value.identity, cls)

    def class_of(self, identity: int) -> type:
        """The class of a tensor that the captured code made."""
        return self._tensor_classes.get(identity, Tensor)

    def alias_of(self, value: TensorValue) -> TensorValue:
        """A new tensor that shares memory and history."""
        return tensor_memory.alias_of(self, value)

    @property
    def mode_ids(self) -> frozenset[int]:
        """Heap ids of the modes of the library."""
        return frozenset((self._grad_mode, self._autocast, self._inference, self._unasked))

    # -- random numbers of Python ----------------------------------------------------------

    @property
    def draws_id(self) -> int:
        """Heap id under which the draws from existing generators are kept, in order."""
        return self._draws

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

    def cells_of(self, function: types.FunctionType, base: Source) -> tuple[CellValue, ...]:
        """The closure of an existing function, which is found at `base`."""
        found = []
        for index, cell in enumerate(function.__closure__ or ()):
            value = self.wrap(cell, sources.ClosureCell(base, index))
            assert isinstance(value, CellValue)
            found.append(value)
        return tuple(found)

    def is_met(self, obj: Any) -> bool:
        """Whether the captured code has reached this object."""
        return id(obj) in self._by_object

    def handle_of(self, obj: Any) -> HeapValue | None:
        """The first handle of an existing object, if the captured code has reached it."""
        return self._by_object.get(id(obj))

    def add_printed(self, tensor: TensorValue) -> None:
        """A further existing tensor that is shown."""
        self.heap.write(self._printed, (*self.printed, tensor))

    # -- backward within the capture -------------------------------------------------------

    @property
    def tape_id(self) -> int:
        """Heap id under which is kept what backward has left at nodes."""
        return self._tape

    @property
    def tape(self) -> Tape:
        """What backward has left at nodes so far."""
        found: Tape = self.heap[self._tape]
        return found

    def write_tape(self, tape: Tape) -> None:
        """Let backward leave this from here on."""
        self.heap.write(self._tape, tape)

    def move_retained(self, tensor: TensorValue, before: graph.Node, after: graph.Node) -> None:
        """Let a tensor that keeps its gradient keep that of what a write has made of it."""
        retained = dict(self.tape.retained)
        kept = retained.get(before)
        if isinstance(kept, TensorValue) and kept.identity == tensor.identity:
            del retained[before]
            self.write_tape(replace(self.tape, retained={**retained, after: kept}))

    @property
    def leaf_nodes(self) -> tuple[graph.Node, ...]:
        """Nodes that stand for leaves which the captured code made."""
        return tuple(self.builder.leaves)

    def leaf_at(self, node: graph.Node) -> int | None:
        """Heap id of the leaf that a node of the graph holds; None for all other nodes."""
        if node.kind is not graph.NodeKind.PLACEHOLDER:
            return self.builder.leaves.get(node)
        identity = self.owners.get(node)
        existing = self.existing_at(identity)
        return identity if existing is not None and existing.is_leaf else None

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
            len(self.intervals.unproven),
        )

    def restore(self, mark: Mark) -> None:
        """Forget everything learnt since `mark`."""
        self.heap.restore(mark.heap)
        self.builder.restore(mark.nodes)
        while len(self._guards) > mark.guards:
            _, guard = self._guards.popitem()
            self._guarded[guard.source] -= 1
            self._kinds[guard.kind] -= 1
            self._used.clear()
        while len(self._inputs) > mark.inputs:
            self._inputs.popitem()
        self.random_blocks = mark.random_blocks
        while len(self._lines) > mark.lines:
            self._lines.popitem()
        del self.intervals.unproven[mark.unproven :]

    # -- guards ----------------------------------------------------------------------------

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards recorded so far, in order of use; then those of the classes met."""
        return (*without_implied(self._guards.values()), *self.classes.guards())

    def guard(self, source: Source, kind: Kind, expected: Any, reason: str = "") -> None:
        """Record a fact once.

        Raises:
            GraphBreak: the guard evaluator cannot reach the source, or such guards keep failing.
        """
        key = guard_key(source, kind, expected)
        if key in self._guards:  # so it is for most uses
            return
        self._refuse_churn(source, kind, expected)
        if not source.is_guardable:
            raise breaks.GraphBreak(
                breaks.UNSUPPORTED_OPERATION, f"{source.expression()} cannot be guarded"
            )
        self._add(key, Guard(source, kind, expected, self.location, reason))

    def add_guard(self, guard: Guard) -> None:
        """Record a fact once.

        Raises:
            GraphBreak: such guards keep failing.
        """
        key = guard.identity()
        if key not in self._guards:
            self._refuse_churn(guard.source, guard.kind, guard.expected)
            self._add(key, guard)

    def _refuse_churn(self, source: Source, kind: Kind, expected: Any) -> None:
        churn = self.sizes.memory.churn
        if churn.is_empty or not self.may_break:
            return
        place = source.expression()
        is_left = churn.is_left_to_python(place, kind is Kind.TYPE_IS)
        if kind in _OF_CONTENTS and _is_on_the_stack(source):
            is_left |= churn.is_line_left_to_python(self.location)
        if is_left and is_about_a_value(kind, expected):
            raise breaks.GraphBreak(breaks.CHANGES, place)

    def _add(self, key: tuple[Any, ...], guard: Guard) -> None:
        self._guards[key] = guard
        self._guarded[guard.source] += 1
        self._kinds[guard.kind] += 1

    def use(self, value: Value) -> None:
        """An operation relies on what `value` is: guard the fact that its family stands for."""
        source = getattr(value, "source", None)
        if source is None or id(value) in self._used:
            return  # what the captured code made is not kept alive for this
        self._use(value, source)
        self._used[id(value)] = value

    def _use(self, value: Value, source: Source) -> None:
        is_number = isinstance(value, Scalar) and isinstance(source, sources.Contents)
        if is_number or isinstance(source, (sources.SizeOf, sources.Drawn, sources.Turn)):
            return  # read from a tensor whose facts are guarded, or made anew in every call
        if isinstance(source, sources.Storage):
            self._use_storage(value, source.base)
        elif isinstance(value, HeapValue):
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

    def _use_storage(self, value: Value, base: Source) -> None:
        """The class of the instance is guarded where its storage is asked for."""
        if isinstance(value, Constant):
            self.guard(base, Kind.STORAGE_EQUALS, value.value)
        elif isinstance(value, TupleValue):
            self.guard(base, Kind.LENGTH, len(value.items))

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

    def leaf_of(self, value: TensorValue, cls: type) -> TensorValue | None:
        """A leaf that requires a gradient, made before the launch of an existing tensor that is as
        it was; None: it is not."""
        existing = self.existing(value)
        if existing is None or tensor_memory.written(self) or not self.grad_enabled:
            return None
        self.use(value)
        base = self.first_source(value)
        if isinstance(base, sources.LeafOf) or self.heap[value.identity].has_new_data:
            return None
        source = sources.LeafOf(base, cls, self.heap.adopt(None))
        made = self.wrap(leaf_of(existing, cls), source)
        assert isinstance(made, TensorValue)
        return made

    def _use_object(self, value: HeapValue, source: Source) -> None:
        if isinstance(source, sources.LeafOf):
            return  # the tensor that it is made of is guarded
        first = self._first_handle(value)
        if first is not None and first.source is not None and first.source != source:
            self._use_object(first, first.source)
            self.guard(source, Kind.ALIASED, first.source)
        elif isinstance(value, TensorValue):
            self._use_tensor(self._existing[value.identity], source)
        elif value.cls is READ_AS.get(types.MappingProxyType):
            self.guard(source, Kind.TYPE_IS, types.MappingProxyType)
        elif id(type(self._existing.get(value.identity))) in _ARRAYS:
            self.guard(source, Kind.TYPE_IS, value.python_type)
        elif value.cls is READ_AS.get(deque):
            limit = self._existing[value.identity].maxlen
            self.guard(source, Kind.TYPE_IS, deque)
            self.guard(source, Kind.MAX_LENGTH, -1 if limit is None else limit)
        else:
            self.guard(source, Kind.TYPE_IS, value.cls)

    def _use_tensor(self, tensor: Any, source: Source) -> None:
        for kind, expected, guard in self.sizes.guards_of(tensor, source):
            if guard is None:
                self.guard(source, kind, expected)
            else:
                self.add_guard(guard)

    def tensor_type(self, value: HeapValue) -> TensorType:
        """The graph type of an existing tensor; its facts are guarded."""
        self.use(value)
        place = self.first_source(value)
        if isinstance(place, sources.LeafOf):
            place = place.base
        return self.sizes.type_of(self._existing[value.identity], place)

    def _first_handle(self, value: HeapValue) -> HeapValue | None:
        existing = self._existing.get(value.identity)
        return None if existing is None else self._by_object.get(id(existing))

    def handles(self) -> list[HeapValue]:
        """The first handle of every existing object met so far; storage has one of its own."""
        return [*self._by_object.values(), *self._storages]

    def is_relied_on(self, source: Source) -> bool:
        """True if a guard was recorded on a source."""
        return self._guarded[source] > 0

    def first_source(self, value: HeapValue) -> Source:
        """The source under which an existing object was met first."""
        first = self._first_handle(value)
        source: Source = value.source if first is None else first.source
        return source

    def guard_exists(self, place: Source, reason: str = "") -> None:
        """Guard that there is something at a place that the program can empty."""
        self.guard(place, Kind.EXISTS, None, reason)

    def existing(self, value: HeapValue) -> Any:
        """The Python object behind a handle of an object that existed before; else None."""
        return self._existing.get(value.identity)

    def existing_at(self, identity: int | None) -> Any:
        """The same by heap id."""
        return None if identity is None else self._existing.get(identity)

    def existing_of(self, value: Value) -> Any:
        """The same for any value that stands for an object; else None."""
        if isinstance(value, HeapValue):
            return self.existing(value)
        return value.object if isinstance(value, (Opaque, Known)) else None

    def objects_at(self, keys: Iterable[Any]) -> list[Any]:
        """The existing objects among these sources and heap ids."""
        found = []
        for key in keys:
            if isinstance(key, int):
                obj = self._existing.get(key)
            else:
                value = self._wrapped.get(key)
                obj = None if value is None else self.existing_of(value)
            if obj is not None:
                found.append(obj)
        return found

    def owner_of_fields(self, value: HeapValue, fields: dict[str, Any]) -> HeapValue:
        """The instance under which `fields`, the dict of the instance `value`, was met first.

        Instances may have one and the same dict: that they do is guarded.
        """
        first = self._by_fields.setdefault(id(fields), value)
        if first.identity != value.identity:
            ours, others = self.first_source(value), self.first_source(first)
            self.guard(
                sources.InstanceDict(ours), Kind.ALIASED, sources.InstanceDict(others), "one dict"
            )
        return first

    # -- existing objects as values ----------------------------------------------------------

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value of an existing object; of the object, no guard but that it is found there."""
        if source is None:
            source = sources.Constant(obj)
        if isinstance(source, _MAY_BE_MISSING) and source.is_guardable:
            self.guard_exists(source)
        found = self._wrapped.get(source)
        if found is None:
            found = self._wrapped[source] = self._wrap(obj, source)
            if lifetimes.ends_in_place(obj) and not lifetimes.is_held_by_its_place(source):
                self.watched[source] = found
        return found

    def _wrap(self, obj: Any, source: Source) -> Value:
        kind = type(obj)  # never isinstance(obj, ...): that would ask obj.__class__, user code
        meta = kind if issubclass(kind, type) else type(kind)
        if meta is not type and answers_itself(meta):
            return Opaque(obj, source)
        self.classes.add(obj if issubclass(kind, type) else kind)
        if kind is frozenset and not all(map(is_harmless, obj)):
            return Opaque(obj, source)  # comparing it would run code of the user's
        if id(kind) in _LITERALS and isinstance(source, sources.Constant):
            return Constant(obj)
        if (kind is int or kind is float) and not isinstance(source.root, sources.Constant):
            return Scalar(obj, source)
        if id(kind) in _LITERALS:
            return Constant(obj, source)
        if issubclass(kind, Tensor):
            if not is_modelled_tensor(kind):
                return Opaque(obj, source)
            return self._adopt(obj, TensorValue, source, TensorContents(None, obj))
        if kind is tuple or (issubclass(kind, tuple) and is_plain_tuple(kind)):
            items = [self.wrap(item, sources.Item(source, i)) for i, item in enumerate(obj)]
            return TupleValue(tuple(items), kind, source)
        if kind is list:
            return self._adopt(obj, ListValue, source, None)
        if kind is dict and NAMESPACE_MARK in obj:
            return Opaque(obj, source)  # its items are variables, too: left to Python
        if kind is dict or kind is OrderedDict or kind is defaultdict:
            return self._adopt(obj, DictValue, source, None)
        if kind is set:
            return self._adopt(obj, SetValue, source, None)
        if kind is slice:
            start, stop, step = (
                self.wrap(getattr(obj, n), sources.Attribute(source, n)) for n in _SLICE
            )
            return SliceValue(start, stop, step, source)
        return self._wrap_object(obj, kind, source)

    def _wrap_object(self, obj: Any, kind: type, source: Source) -> Value:
        descriptor = _descriptor_of(obj)
        if descriptor is not None and not isinstance(source, sources.Constant):
            function = self.wrap(descriptor, sources.MethodFunction(source))
            receiver = self.wrap(obj.__self__, sources.MethodSelf(source))
            return BoundMethod(function, receiver, source)
        if issubclass(kind, types.ModuleType) and not _reads_as_module(kind):
            return Opaque(obj, source)
        if issubclass(kind, (type, types.FunctionType, types.ModuleType, _KNOWN_INSTANCES)):
            if isinstance(source, sources.Constant):
                return Known(obj)
            return Known(obj, source)
        if kind is types.MethodType:
            function = self.wrap(obj.__func__, sources.MethodFunction(source))
            receiver = self.wrap(obj.__self__, sources.MethodSelf(source))
            return BoundMethod(function, receiver, source, is_method_object=True)
        if kind is types.CellType:
            return self._adopt(obj, CellValue, source, None)
        if id(kind) in _ITERATORS:
            return self._adopt(obj, IteratorValue, source, ExistingIterator())
        if kind is deque and (obj.maxlen is None or obj.maxlen < _MOST_LIMITED):
            return self._adopt_deque(obj, source)
        if kind is types.MappingProxyType and type(proxied(obj)) in (dict, OrderedDict):
            return self._adopt_proxy(obj, source)
        if id(kind) in _ARRAYS and self.reads_arrays and is_read_as_tensor(obj, source):
            return self._adopt_array(obj, source)
        if is_immutable(obj) and is_lasting(source):
            return Known(obj, None if isinstance(source, sources.Constant) else source)
        if is_modelled_class(kind):
            return self._adopt_instance(obj, kind, source)
        return Opaque(obj, source)

    def _adopt_instance(self, obj: Any, kind: type, source: Source) -> Value:
        is_new = id(obj) not in self._by_object
        value = self._adopt(obj, ObjectValue, source, ObjectContents(obj))
        base = native_base(kind)
        if is_new and base is not None:
            storage = self._storage_of(obj, base, value)
            self.heap.load_entry(value.identity, ObjectContents(obj, storage=storage))
        return value

    def _storage_of(self, obj: Any, base: type, owner: ObjectValue) -> Value:
        assert owner.source is not None
        place = sources.Storage(owner.source)
        if base in CHANGING:
            handle: HeapValue = CHANGING[base](self.heap.adopt(None), base, place, owner)
            self._existing[handle.identity] = obj
            self._storages.append(handle)
            return handle
        if base is tuple:
            count = tuple.__len__(obj)
            found = [
                self.wrap(tuple.__getitem__(obj, i), sources.Item(owner.source, i))
                for i in range(count)
            ]
            return TupleValue(tuple(found), tuple, place)
        return Constant(plain(obj), place)

    def _adopt_deque(self, obj: deque[Any], source: Source) -> ObjectValue:
        """An instance of the Python form of deques; its items are read when they are asked for."""
        form, first = READ_AS[deque], self._by_object.get(id(obj))
        if first is not None:
            return ObjectValue(first.identity, form, source)
        value = ObjectValue(self.heap.adopt(None), form, source)
        self._by_object[id(obj)] = value
        self._existing[value.identity] = obj
        items = DequeItems(self.heap.adopt(None), list, sources.Storage(source), value)
        self._existing[items.identity] = obj
        self._storages.append(items)
        fields = {"items": items, "maxlen": Constant(obj.maxlen), "state": Constant(0)}
        self.heap.load_entry(value.identity, ObjectContents(obj, fields))
        return value

    def _adopt_array(self, obj: Any, source: Source) -> ObjectValue:
        """An instance of the Python form of arrays, or of numbers of NumPy's: a tensor over it."""
        form, first = READ_AS[type(obj)], self._by_object.get(id(obj))
        if first is not None:
            return ObjectValue(first.identity, form, source)
        tensor = self.wrap(tensor_over(obj), sources.TensorOver(source))
        contents = ObjectContents(obj, {"tensor": tensor})
        value = ObjectValue(self.heap.adopt(contents), form, source)
        self._by_object[id(obj)] = value
        self._existing[value.identity] = obj
        return value

    def _adopt_proxy(self, obj: Any, source: Source) -> ObjectValue:
        """An instance of the Python form of mapping proxies."""
        form, first = READ_AS[types.MappingProxyType], self._by_object.get(id(obj))
        if first is not None:
            return ObjectValue(first.identity, form, source)
        mapping = self.wrap(proxied(obj), sources.PartOf(source, "mapping"))
        value = ObjectValue(
            self.heap.adopt(ObjectContents(obj, {"mapping": mapping})), form, source
        )
        self._by_object[id(obj)] = value
        self._existing[value.identity] = obj
        return value

    def _adopt(self, obj: Any, family: type[Handle], source: Source, contents: Any) -> Handle:
        first = self._by_object.get(id(obj))
        if first is not None:
            return family(first.identity, type(obj), source)
        if any(touched.object is obj for effect in self.output for touched in effect.touched):
            raise breaks.GraphBreak(breaks.OUTPUT, "a list that texts are recorded in is used")
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
        if tensor.device is META:
            raise breaks.GraphBreak(
                breaks.TENSOR_FAILURE, "a tensor on 'meta', which has no elements"
            )
        if tensor.dtype in dtypes.STORED and not _is_of_array(tensor, source):
            raise breaks.GraphBreak(
                breaks.TENSOR_FAILURE,
                f"a tensor of {tensor.dtype}, which graphs do not compute with",
            )
        if key not in self._inputs:
            handle = self.wrap(tensor, source)
            self.use(handle)
            assert isinstance(handle, HeapValue)
            value = self.builder.input(
                _input_name(source), self.tensor_type(handle), bool(tensor.requires_grad)
            )
            self._inputs[key] = (value, handle, bool(tensor.requires_grad))
            if isinstance(handle, TensorValue):
                tensor_memory.refuse_written(self, tensor)
                self.input_spans.add(tensor, handle.identity)
                self.owners[value.node] = handle.identity
        return self._inputs[key][0]

    def lift_scalar(self, scalar: Scalar) -> graph.Value:
        """The graph input of a run-time number; that of a symbol has the symbol's name."""
        if self.turns and turns.is_of_a_turn(scalar):
            return turns.lift(self.turns, self.of_turns_only(scalar))
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

    def of_turns_only(self, scalar: Scalar) -> Scalar:
        """A number of a turn without numbers that are relied on, or that differ in no call yet."""

        def known(part: Scalar) -> Constant | None:
            is_plain = part.source is not None and part.symbolic is None
            if not is_plain or isinstance(part.source, (sources.Drawn, sources.Contents)):
                return None
            is_fixed = guard_key(part.source, Kind.EQUALS, part.value) in self._guards
            if not is_fixed and self.sizes.varies(part):
                return None
            return Constant(self.specialise(part))

        return turns.with_known(scalar, known)

    def is_found_ahead(self, scalar: Scalar) -> bool:
        """Whether a number of a turn is computed for all turns before there is a loop."""
        if not self.turns or not turns.is_of_a_turn(scalar):
            return False
        return turns.rely(self.turns, self.of_turns_only(scalar))

    def use_scalar_type(self, scalar: Scalar) -> None:
        """Guard the types of the numbers that a run-time number is made of."""
        if scalar.expression is None:
            self.use(scalar)
            return
        for operand in scalar.expression[1]:
            self.use_number(operand)

    def use_number(self, number: Scalar | Constant) -> None:
        """`use` of a number: of a run-time number, the classes of what it is made of."""
        if isinstance(number, Scalar):
            self.use_scalar_type(number)
        else:
            self.use(number)

    def specialise(self, scalar: Scalar) -> int | float:
        """Guard that a run-time number has today's value; returns it."""
        if isinstance(scalar.source, (sources.Drawn, sources.Turn)):
            detail = f"a decision on {scalar.source.expression()}"
            raise breaks.GraphBreak(breaks.UNSUPPORTED_OPERATION, detail)
        if isinstance(scalar.source, sources.Contents):  # a version per value would never end
            raise breaks.GraphBreak(breaks.DATA_DEPENDENT_VALUE, scalar.source.expression())
        if scalar.symbolic is not None:
            return self.sizes.number(scalar.symbolic)
        if scalar.expression is None:
            self.sizes.saw_number(scalar)
            self.guard(scalar.source, Kind.EQUALS, scalar.value)
            return scalar.value
        self.use_scalar_type(scalar)
        if not self.guard_number(scalar, "value of a number"):
            for operand in scalar.expression[1]:
                if isinstance(operand, Scalar):
                    self.specialise(operand)
        return scalar.value

    def guard_number(self, number: Scalar, reason: str, is_class: bool = False) -> bool:
        """Guard the value of a result of arithmetic, or its class alone.

        Returns:
            False, and there is no guard, where the evaluator cannot compute it.
        """
        expression = expression_of(self.sizes, number)
        if expression is None or self._kinds[Kind.CONDITION] >= MOST_CONDITIONS:
            return False
        outcome = number.python_type if is_class else number.value
        condition = Condition(expression, outcome, is_class)
        if not condition.terms or not condition.is_checkable:
            return False
        self.guard_condition(condition, reason)
        return True

    def guard_condition(self, condition: Condition, reason: str) -> None:
        """Record a condition on numbers."""
        self.guard(condition.terms[0].source, Kind.CONDITION, condition, reason)

    def graph_value(self, value: TensorValue, is_detached: bool = False) -> graph.Value:
        """What a tensor holds now, as an operand.

        Args:
            is_detached: nobody asks for a gradient by it.

        Raises:
            GraphBreak: a gradient would be asked for by new data, which is no input of the graph.
        """
        self.use(value)
        contents: TensorContents = self.heap[value.identity]
        is_leaf = contents.has_new_data and contents.tensor is not None
        if is_leaf and self.grad_enabled and not is_detached and contents.tensor.requires_grad:
            raise breaks.GraphBreak(breaks.AUTOGRAD_CALL, "a gradient by new Tensor.data")
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
            return TensorValue(identity, self.class_of(identity))
        handle = self._by_object[id(existing)]
        assert isinstance(handle, TensorValue)
        return handle

    @property
    def lifted_tensors(self) -> list[TensorValue]:
        """The existing tensors that are graph inputs."""
        return [entry[1] for entry in self._inputs.values() if isinstance(entry[1], TensorValue)]

    def is_input(self, identity: int) -> bool:
        """True if the existing tensor with this heap id is a graph input."""
        return ("tensor", id(self._existing.get(identity))) in self._inputs

    def reserve_random(self, blocks: Any, device: Device) -> tuple[Any, Any, Any]:
        """Seed and offset inputs, and how many blocks of the device this graph reserved before."""
        kind, device = ScalarType(Category.INTEGER), gpu.resolve(device, "random numbers")
        place = "" if device is CPU else f"_{device.type}_{device.index}"
        seed, offset = f"seed{place}", f"offset{place}"
        for name, source in (
            (seed, sources.RandomSeed(device)),
            (offset, sources.RandomOffset(device=device)),
        ):
            if name not in self._inputs:
                value = self.builder.input(name, kind, False)
                self._inputs[name] = (value, Scalar(0, source), False)
        if self.sizes.is_computed(blocks):
            blocks = self.sizes.number(blocks)  # an offset is reserved from what tensors show
        shift = self.random_blocks.get(device, 0)
        self.random_blocks = {**self.random_blocks, device: shift + blocks}
        return self._inputs[seed][0], self._inputs[offset][0], shift


#: Conditions on numbers of one region: each costs a call per operation, a value costs little.
MOST_CONDITIONS: Final = 64
#: A guard's number is an int of C.
_MOST_LIMITED: Final = 2**31

_SLICE = ("start", "stop", "step")

#: Every dict that code ran in as its globals has this key.
NAMESPACE_MARK: Final = "__builtins__"

_SINGLETONS = (type(None), type(Ellipsis), type(NotImplemented))


#: Facts about what a value is: others changing, these change with them.
_OF_CONTENTS: Final = (Kind.EQUALS, Kind.STORAGE_EQUALS, Kind.LENGTH, Kind.DICT_KEYS)


def _is_on_the_stack(source: Source) -> bool:
    """True for what the line in front of a break has computed."""
    root = source.root
    return isinstance(root, sources.Local) and root.name.startswith(".stack")


def _is_of_array(tensor: Any, source: Source) -> bool:
    """Whether a tensor is that of an array of unsigned integers, which nests compute with."""
    return isinstance(source, sources.TensorOver) and tensor.dtype in dtypes.UNSIGNED


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
