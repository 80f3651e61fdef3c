"""The recorder: what one capture has learnt so far (guards, heap, graph inputs, nodes).

Mutable; one per capture. `wrap` turns an existing Python object into a value (`ExistingObjects`),
`use` records the facts that an operation relies on, `Builder` makes graph nodes. Everything can be
undone to a `mark`, because a graph break goes back to the start of an instruction.
"""

import types
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.guards.conditions import Condition
from dynajit.capture.guards.guards import Guard, guard_key, without_implied
from dynajit.capture.guards.kinds import Kind, is_about_a_value
from dynajit.capture.machine.existing import ARRAYS_BY_ID, SLICE_FIELDS, ExistingObjects
from dynajit.capture.places import sources
from dynajit.capture.places.reload import leaf_of
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
from dynajit.capture.values import generator_states
from dynajit.capture.values.containers import (
    HeapValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import BoundMethod
from dynajit.capture.values.objects import READ_AS
from dynajit.capture.values.symbolic import Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.location import Location
from dynajit.core.records import record
from dynajit.core.types import dtypes, symint
from dynajit.core.types.device import CPU, META, Device
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ir.sizes import symbol_places, symbols
from dynajit.ops import TABLE


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


class Recorder(ExistingObjects):
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
        super().__init__()
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
        self._by_fields: dict[int, HeapValue] = {}
        #: Heap ids of tensors that became graph inputs, and of memories that were written.
        self.input_spans, self.written_spans = Spans(), Spans()
        #: Heap id -> (handle, known by identity), of objects that were keys of dicts or sets.
        self.identity_keys: dict[int, tuple[HeapValue, bool]] = {}
        #: Tensor, copy of it that stands for a view: see
        #: `capture.python.builtins.written_derivatives`.
        self.copies: list[tuple[TensorValue, TensorValue]] = []
        self._grad_mode = self.heap.adopt(grad_enabled)
        self._autocast = self.heap.adopt(autocast)
        self._inference = self.heap.adopt(inference)
        self._unasked = self.heap.adopt(unasked)
        self._tensor_classes: dict[int, type] = {}
        self._draws = self.heap.adopt(())
        self._states = self.heap.adopt({})
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

    @property
    def states_id(self) -> int:
        """Heap id under which is kept what the graph has left of the states of generators."""
        return self._states

    @property
    def states(self) -> dict[int, tuple[graph.Value, bool]]:
        """Identity of a generator -> its state, where the graph has drawn from it, and whether
        normal numbers were."""
        found: dict[int, tuple[graph.Value, bool]] = self.heap[self._states]
        return found

    def state_of(self, generator: Opaque) -> graph.Value:
        """The state of a generator of random numbers as an operand: see
        `capture.values.generator_states`."""
        known = self._inputs.get(("state", id(generator.object)))
        self.use(generator)
        if known is None:
            kind = TensorType((generator_states.LENGTH,), dtypes.int64, CPU)
            value = self.builder.input(_input_name(generator.source), kind, False)
            self._inputs["state", id(generator.object)] = (value, generator, False)
            return value
        first = known[1]
        assert isinstance(first, Opaque)
        if first.source != generator.source:
            self.guard(generator.source, Kind.ALIASED, first.source)
        return self.states.get(id(generator.object), known)[0]

    def write_state(self, generator: Opaque, state: graph.Value, has_normals: bool) -> None:
        """Let a generator that was an operand have another state from here on."""
        identity = id(generator.object)
        has_normals |= identity in self.states and self.states[identity][1]
        self.heap.write(self._states, {**self.states, identity: (state, has_normals)})

    @property
    def drawn_states(self) -> tuple[tuple[int, graph.Value, bool], ...]:
        """Of each generator that the graph draws from the position of the graph's input, the state
        behind the graph, and whether normal numbers are drawn."""
        places = {key: position for position, key in enumerate(self._inputs)}
        return tuple((places["state", key], *found) for key, found in self.states.items())

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
            for name in SLICE_FIELDS:
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
        elif id(type(self._existing.get(value.identity))) in ARRAYS_BY_ID:
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

    def is_relied_on(self, source: Source) -> bool:
        """True if a guard was recorded on a source."""
        return self._guarded[source] > 0

    def guard_exists(self, place: Source, reason: str = "") -> None:
        """Guard that there is something at a place that the program can empty."""
        self.guard(place, Kind.EXISTS, None, reason)

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
        arm = self.builder.arm
        return turns.rely(self.turns, self.of_turns_only(scalar), None if arm is None else arm.node)

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
        """Seed and offset, and how many blocks of the device this graph, or this turn of a loop
        that is captured as one, reserved before: the offset is that in front of the turn."""
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
        begin = self._inputs[offset][0]
        for entry in self.turns:
            of_sizes, of_turn = turns.blocks_before(entry, device)
            parts = (
                [of_turn] if isinstance(of_sizes, int) else [self.sizes.value_of(of_sizes), of_turn]
            )
            for part in parts:
                assert isinstance(part, Scalar)
                before = self.lift_scalar(part)
                moved = TABLE.full(before, shape=(), dtype=dtypes.int64, device=device)
                begin = TABLE.add(moved, begin)
        return self._inputs[seed][0], begin, shift


#: Conditions on numbers of one region: each costs a call per operation, a value costs little.
MOST_CONDITIONS: Final = 64

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
