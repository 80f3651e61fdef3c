"""From values back to Python objects: the instructions that make each kind of value again.

`Rebuilder` writes them through `capture.emit.emit.Emitter`; what a value needs first, and whether
it can be made at all, is in `capture.python.objects.references`. Used by `capture.region.finish`,
which turns the executor's final state into a region.
"""

import functools
import operator
import random
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from dynajit.capture.machine import suspended
from dynajit.capture.machine.effects import field_access
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.python.exceptions_in_c import native_class
from dynajit.capture.python.objects.rebuild_storage import make_with_storage
from dynajit.capture.python.objects.references import maker, parameters
from dynajit.capture.region.rebuild_exceptions import (
    adopt_context,
    in_order_of_writing,
    make_traceback,
)
from dynajit.capture.region.rebuild_functions import is_exchanged, partial_method, set_annotations
from dynajit.capture.region.rebuild_iterators import (
    TEXT_ITERATORS,
    exhausted,
    range_iterator,
    sequence_iterator,
    table_iterator,
)
from dynajit.capture.tensors.memory import window_length
from dynajit.capture.tensors.sizes import function_of
from dynajit.capture.values import hashed
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    EnumerateIterator,
    Exhausted,
    ExistingIterator,
    FilterIterator,
    IndexIterator,
    IteratorValue,
    ListValue,
    MapIterator,
    RangeIterator,
    SequenceIterator,
    SetEntries,
    SetValue,
    SliceValue,
    TableIterator,
    TupleValue,
    ZipIterator,
)
from dynajit.capture.values.functions import (
    BoundMethod,
    CellValue,
    FunctionContents,
    FunctionValue,
    GeneratorValue,
    NativeMethod,
    PartialValue,
    SuperValue,
)
from dynajit.capture.values.hashed import hashes_of
from dynajit.capture.values.numbers import FUNCTIONS
from dynajit.capture.values.objects import (
    DELETED,
    ENTRY_CONTEXT,
    ExceptionValue,
    InstanceDictValue,
    ObjectContents,
    ObjectValue,
    TracebackValue,
)
from dynajit.capture.values.random_numbers import RandomValue
from dynajit.capture.values.storage import DequeItems, DictStorage, ListStorage, SetStorage
from dynajit.capture.values.symbolic import UNBOUND, Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import MemoryContents, Step, TensorContents, TensorValue
from dynajit.capture.values.texts import LaterText
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.eager import Tensor
from dynajit.eager._tensor import count_writes
from dynajit.eager.backward.compiled import note_within
from dynajit.eager.modes.grad_mode import enable_grad, no_grad
from dynajit.eager.operations.writes.commit import restored
from dynajit.eager.tape.node import spent
from dynajit.ir.node import Node
from dynajit.ir.sizes import attributes as known_attributes
from dynajit.ir.sizes import expressions
from dynajit.ops.rows.movement import inverse_permutation
from dynajit.ops.table import overriding

_SLOT_TYPES: Final = (types.WrapperDescriptorType, types.MethodDescriptorType)


@record
class Held:
    """What the launch returns for a tensor.

    Args:
        node: of the graph.
        value: the tensor's own node; `node` may lay it out in another way.
        order: which dims of the tensor those of the node are; None: the same.
        writes: how many writes count in its version.
        spent: where a backward run has let go of what any other would need, the inputs and the
            results that gradients would reach; None: none has.
    """

    node: Node
    value: Node
    order: tuple[int, ...] | None = None
    writes: int = 0
    spent: tuple[TensorValue, ...] | None = None


def _load_end(end: TensorValue, emitter: Any) -> None:
    """Push what a gradient would reach, which nobody can ask for again."""
    if end.source is None:
        emitter.load_value(end)
    else:
        emitter.load_source(end.source)


def view_by_numbers(dims: tuple[int, ...], tensor: Any, numbers: Any) -> Any:
    """The part of a tensor that numbers, which the launch has computed, choose in some dims."""
    key = dict(zip(dims, numbers.tolist(), strict=True))
    return tensor[tuple(key.get(d, slice(None)) for d in range(tensor.ndim))]


def window_at(dim: int, length: int, tensor: Any, start: Any) -> Any:
    """So many elements of a dim of a tensor, from a place on that the launch has computed."""
    first = start.item()
    return tensor[(*[slice(None)] * dim, slice(first, first + length))]


def view_of_sizes(
    op: Any, attributes: Mapping[str, Any], names: tuple[str, ...], base: Any, *numbers: int
) -> Any:
    """A view whose attributes depend on sizes that are known now."""
    known = dict(zip(names, numbers, strict=True))
    return op(base, **known_attributes(attributes, known))


def _one_of_several(view: Callable[..., Any], tensor: Any, *numbers: Any) -> Any:
    """A view that the program was given together with others."""
    made = view(tensor, *numbers)
    tensor._note_parts((made,))
    return made


def _view_of_elements(view: Callable[..., Any], tensor: Any, *numbers: Any) -> Any:
    """A view of a tensor of a derived class, which is not asked."""
    with overriding.classes_unasked():
        return view(tensor, *numbers)


def _generator_of(state: Any) -> random.Random:
    made = random.Random()
    made.setstate(state)
    return made


def _leaf_of_class(tensor: Any, cls: Any) -> Any:
    made = tensor.as_subclass(cls)
    made.requires_grad = True
    return made


class Rebuilder:
    """Pushes values. Immutable.

    Args:
        recorder: the capture's final state.
        outputs: graph node -> its position in the launch's results.
        held: heap id of a tensor -> what the launch returns for it.
        within: heap id of a tensor that is made after the launch -> the results that the launch
            computes with it, and that have gradients.
    """

    def __init__(
        self,
        recorder: Recorder,
        outputs: Mapping[Any, int],
        held: Mapping[int, Held],
        within: Mapping[int, tuple[int, ...]],
    ) -> None:
        self.recorder = recorder
        self.heap = recorder.heap
        self.outputs = outputs
        self.held = held
        self.within = within

    def rebuild(self, value: Value, emitter: Any) -> None:
        """Push `value`; see `capture.region.region`."""
        if isinstance(value, CellValue):
            self._cell(value, emitter)
            return
        source = getattr(value, "source", None)
        if isinstance(value, TensorValue):
            self._tensor(value, emitter)
        elif source is not None:
            emitter.load_source(source)
        else:
            _WRITERS[type(value)](self, value, emitter)

    def pusher(self, value: Value, emitter: Any) -> Callable[[], None]:
        """A callable that pushes `value`."""
        return functools.partial(emitter.load_value, value)

    def call(self, emitter: Any, function: Any, *values: Any) -> None:
        """Push `function(...)`; a Value is pushed, anything else is a constant."""
        pushers = [
            self.pusher(v, emitter)
            if isinstance(v, Value)
            else functools.partial(emitter.load_constant, v)
            for v in values
        ]
        emitter.call(function, *pushers)

    def _tensor(self, value: TensorValue, emitter: Any) -> None:
        contents: TensorContents = self.heap[value.identity]
        if self.heap.is_adopted(value.identity):
            emitter.load_source(value.source)
        elif value.identity in self.within:
            results = self.within[value.identity]
            push = [functools.partial(emitter.load_output, position) for position in results]
            emitter.call(note_within, functools.partial(self._made, value, emitter), *push)
        else:
            self._made(value, emitter)
        if contents.attributes and not self.heap.is_adopted(value.identity):
            emitter.memoise(value)
            for name, item in contents.attributes.items():
                emitter.load_value(item)
                emitter.load_value(value)
                emitter.store_attribute(name)

    def _made(self, value: TensorValue, emitter: Any) -> None:
        """The tensor, of its class."""
        cls = self.recorder.class_of(value.identity)
        is_leaf = self.heap[value.identity].is_new_leaf
        if cls is Tensor and not is_leaf:
            self._made_plain(value, emitter)
            return
        push = functools.partial(self._made_plain, value, emitter)
        make = _leaf_of_class if is_leaf else Tensor.as_subclass
        emitter.call(make, push, lambda: emitter.load_object(cls))

    def _made_plain(self, value: TensorValue, emitter: Any) -> None:
        """A result of the launch, or a view of one or of an input."""
        if value.identity in self.held:
            self._held(self.held[value.identity], emitter)
            return
        contents: TensorContents = self.heap[value.identity]
        memory: MemoryContents = self.heap[contents.memory]
        self._steps(memory.base, contents.steps, emitter)

    def _held(self, held: Held, emitter: Any) -> None:
        """A result of the launch, with the layout and the version of eager execution."""
        push = functools.partial(emitter.load_output, self.outputs[held.node])
        if held.spent is not None:
            ends = [functools.partial(_load_end, end, emitter) for end in held.spent]
            push = functools.partial(emitter.call, spent, push, *ends)
        if held.order is None and not held.writes:
            push()
            return
        if held.order is None:
            writes = functools.partial(emitter.load_constant, held.writes)
            emitter.call(count_writes, push, writes)
            return
        dims = inverse_permutation(held.order)
        emitter.call(functools.partial(restored, dims=dims, writes=held.writes), push)

    def _steps(self, base: TensorValue, steps: tuple[Step, ...], emitter: Any) -> None:
        """A view of an input or of a result of the launch, made eagerly."""
        if not steps:
            emitter.load_value(base)
            return
        step = steps[-1]
        view: Any = functools.partial(step.op, **step.attributes)
        used = expressions(tuple(step.attributes.values()))
        names = tuple(sorted({name for size in used for name in symint.symbols(size)}))
        if names:
            view = functools.partial(view_of_sizes, step.op, step.attributes, names)
        given = step.numbers if step.start is None else step.start
        length = window_length(self.recorder, step)
        if length is not None:
            view = functools.partial(window_at, step.attributes["dims"][0], length)
        elif step.numbers is not None:
            view = functools.partial(view_by_numbers, step.attributes["dims"])
        if step.is_data:
            view = operator.attrgetter("data")
        if step.is_part:
            view = functools.partial(_one_of_several, view)
        if self.recorder.grad_mode_at_entry_and_end != (step.is_recorded, step.is_recorded):
            view = (enable_grad if step.is_recorded else no_grad)()(view)
        if isinstance(base, TensorValue) and base.cls is not Tensor:
            view = functools.partial(_view_of_elements, view)
        told = [self.pusher(self.recorder.sizes.scalar(name), emitter) for name in names]
        told += [self.pusher(given, emitter)] if given is not None else []
        emitter.call(view, functools.partial(self._steps, base, steps[:-1], emitter), *told)

    def _cell(self, value: CellValue, emitter: Any) -> None:
        if value.source is not None:
            emitter.load_source(value.source)
            return
        contents = self.heap[value.identity]
        self.call(emitter, types.CellType)
        emitter.memoise(value)  # what it holds may refer to it: a function that calls itself
        if contents is not UNBOUND:
            emitter.copy_top()
            self.pusher(contents, emitter)()
            emitter.swap()
            emitter.store_attribute("cell_contents")

    def _literal(self, value: Any, emitter: Any) -> None:
        literal = value.value if isinstance(value, Constant) else value.object
        if type(literal) is str and is_exchanged(literal):
            emitter.load_constant([literal])
            emitter.load_constant(0)
            emitter.load_item()
        else:
            emitter.load_object(literal)

    def _scalar(self, value: Scalar, emitter: Any) -> None:
        assert value.expression is not None
        symbol, operands = value.expression
        if symbol == "size":
            names = tuple(sorted(symint.symbols(value.symbolic)))
            self.call(emitter, function_of(value.symbolic, names), *operands)
            return
        self.call(emitter, FUNCTIONS[symbol], *operands)

    def _tuple(self, value: TupleValue, emitter: Any) -> None:
        if hasattr(value.cls, "_fields"):
            # not the class's own `__new__`, which has run
            self.call(emitter, tuple.__new__, Known(value.cls), TupleValue(value.items))
            return
        if value.cls is not tuple:
            self.call(emitter, value.cls, TupleValue(value.items))
            return
        emitter.build_of("tuple", value.items)

    def _slice(self, value: SliceValue, emitter: Any) -> None:
        self.call(emitter, slice, value.start, value.stop, value.step)

    def _later_text(self, value: LaterText, emitter: Any) -> None:
        self.call(emitter, value.function, *value.arguments)

    def _list(self, value: ListValue, emitter: Any) -> None:
        emitter.build_of("list", self.heap[value.identity])

    def _dict(self, value: DictValue, emitter: Any) -> None:
        entries = self.heap[value.identity]
        hashes = hashes_of(entries)
        if hashes is not None and value.cls is dict:
            keys, items = zip(*entries.values(), strict=True)
            make = functools.partial(hashed.dict_of, hashes)
            self.call(emitter, make, TupleValue(keys), TupleValue(items))
            return

        def push() -> None:
            for key, item in entries.values():
                emitter.load_value(key)
                emitter.load_value(item)
            emitter.build("dict", len(entries))

        if value.cls is OrderedDict:
            emitter.call(OrderedDict, push)
        else:
            push()

    def _set(self, value: SetValue, emitter: Any) -> None:
        entries: SetEntries = self.heap[value.identity]
        if entries.is_ordered and not entries.is_plain:
            emitter.call(entries.real)
            return
        hashes = hashes_of(entries)
        if hashes is not None:
            make = functools.partial(hashed.set_of, hashes)
            self.call(emitter, make, TupleValue(tuple(entries.values())))
            return
        for item in entries.values():
            emitter.load_value(item)
        emitter.build("set", len(entries))

    def _view(self, value: DictViewValue, emitter: Any) -> None:
        self.call(emitter, getattr(value.dictionary.cls, value.kind), value.dictionary)

    def _instance_dict(self, value: InstanceDictValue, emitter: Any) -> None:
        emitter.load_value(value.owner)
        emitter.load_attribute("__dict__")

    def _iterator(self, value: IteratorValue, emitter: Any) -> None:
        state = self.heap[value.identity]
        if isinstance(state, TableIterator):
            order = reversed if state.is_reversed else iter
            named = "__reversed__" if state.is_reversed else "__iter__"
            start = getattr(getattr(state.table, "cls", None), named, order)
            self.call(emitter, table_iterator, state.table, state.position, start)
        elif isinstance(state, RangeIterator):
            if state.stop is None:
                self.call(emitter, iter, Constant(state.rest))
            else:
                first = state.last
                first = Constant(state.rest[0]) if first is None else first
                self.call(emitter, range_iterator, first, state.stop)
        elif isinstance(state, SequenceIterator) and state.is_reversed:
            start = getattr(getattr(state.sequence, "cls", None), "__reversed__", reversed)
            self.call(emitter, sequence_iterator, state.sequence, state.position, start)
        elif isinstance(state, SequenceIterator) and not isinstance(state.sequence, TupleValue):
            start = getattr(getattr(state.sequence, "cls", None), "__iter__", iter)
            self.call(emitter, sequence_iterator, state.sequence, state.position, start)
        elif isinstance(state, SequenceIterator) and value.cls in TEXT_ITERATORS:
            letters = [item.value for item in state.sequence.items]
            whole = bytes(letters) if value.cls is type(iter(b"")) else "".join(letters)
            self.call(emitter, sequence_iterator, Constant(whole), state.position)
        elif isinstance(state, SequenceIterator) and value.cls is type(iter(())):
            self.call(emitter, sequence_iterator, state.sequence, state.position)
        elif isinstance(state, SequenceIterator):
            rest = TupleValue(state.sequence.items[state.position :])
            self.call(emitter, iter, rest)
        elif isinstance(state, IndexIterator):
            self.call(emitter, sequence_iterator, state.sequence, state.position)
        elif isinstance(state, EnumerateIterator):
            self.call(emitter, enumerate, state.inner, state.count)
        elif isinstance(state, ZipIterator):
            function = functools.partial(zip, strict=True) if state.strict else zip
            self.call(emitter, function, *state.inner)
        elif isinstance(state, MapIterator):
            self.call(emitter, map, state.function, *state.inner)
        elif isinstance(state, FilterIterator):
            self.call(emitter, filter, state.function, state.inner)
        else:
            assert isinstance(state, (Exhausted, ExistingIterator))
            self.call(emitter, exhausted, value.cls)

    def _object(self, value: ObjectValue, emitter: Any) -> None:
        contents: ObjectContents = self.heap[value.identity]
        make = maker(value.cls)
        if make is not None:
            self.call(emitter, make, *(contents.written[name] for name in parameters(make)))
            return
        if contents.storage is None:
            emitter.call(object.__new__, lambda: emitter.load_object(value.cls))
            emitter.memoise(value)
        else:
            make_with_storage(self, value, contents, emitter)
        for name, item in contents.written.items():
            if item is not DELETED:
                self.call(emitter, field_access(value.cls, name)[0], value, name, item)
                emitter.pop()

    def _owner(self, value: Any, emitter: Any) -> None:
        """Storage exists in its owner only."""
        emitter.load_value(value.owner)

    def _exception(self, value: ExceptionValue, emitter: Any) -> None:
        contents: ObjectContents = self.heap[value.identity]
        native = native_class(value.cls)
        is_group = issubclass(native, BaseExceptionGroup)
        given = [contents.state[name] for name in ("message", "exceptions")] if is_group else []
        self.call(emitter, native.__new__, value.cls, *given)
        emitter.memoise(value)
        args = {"args": TupleValue(contents.construct)}
        fields = {**args, **contents.written, **in_order_of_writing(contents.state)}
        for name, item in fields.items():
            if item is ENTRY_CONTEXT:
                self.call(emitter, adopt_context, value)
                emitter.pop()
            elif item is not DELETED and name not in ("message", "exceptions"):
                self.call(emitter, object.__setattr__, value, name, item)
                emitter.pop()

    def _traceback(self, value: TracebackValue, emitter: Any) -> None:
        innermost = value.chain[-1]
        following = Constant(None) if innermost.following is None else innermost.following
        self.call(emitter, make_traceback, following, innermost.entry)
        for link in reversed(value.chain[:-1]):
            if not emitter.is_memoised(link.following):
                emitter.memoise(link.following)
            emitter.pop()
            self.call(emitter, make_traceback, link.following, link.entry)

    def _function(self, value: FunctionValue, emitter: Any) -> None:
        contents: FunctionContents = self.heap[value.identity]
        for cell in contents.closure:
            emitter.load_value(cell)
            emitter.pop()
        if emitter.is_memoised(value):  # one of the cells holds it
            emitter.load_value(value)
            return
        closure = TupleValue(contents.closure) if contents.closure else Constant(None)
        defaults = contents.defaults if contents.defaults is not None else Constant(None)
        code, namespace = contents.code, contents.namespace.globals
        self.call(emitter, types.FunctionType, code, namespace, code.co_name, defaults, closure)
        emitter.memoise(value)
        if contents.annotations is not None:
            self.call(emitter, set_annotations, value, contents.annotations)
            emitter.pop()
        if contents.annotate is not None:
            self.call(emitter, setattr, value, "__annotate__", contents.annotate)
            emitter.pop()
        extra: dict[str, Value] = dict(contents.attributes)
        if contents.keyword_defaults is not None:
            extra["__kwdefaults__"] = contents.keyword_defaults
        wrapped = contents.updated_from
        if wrapped is not None:
            if extra.get("__wrapped__") is wrapped:
                del extra["__wrapped__"]
            self.call(emitter, functools.update_wrapper, value, wrapped)
            emitter.pop()
        for name, item in extra.items():
            self.call(emitter, setattr, value, name, item)
            emitter.pop()

    def _generator(self, value: GeneratorValue, emitter: Any) -> None:
        state = self.heap[value.identity]
        if state is None:
            emitter.call(suspended.finished)
            return
        pushers = [self.pusher(item, emitter) for item in suspended.values(state)]
        if state.frame.index:
            emitter.call(suspended.function(state), *pushers)
            emitter.memoise(value)
            self._name_generator(value, state.code, emitter)
            self.call(emitter, next, value)  # up to the `yield` at which it is suspended
            emitter.pop()
            return
        cells = TupleValue(suspended.closure(state)) if state.closure else Constant(None)
        code, namespace = suspended.code(state), state.namespace.globals

        def push() -> None:
            name = state.code.co_name
            self.call(emitter, types.FunctionType, code, namespace, name, Constant(None), cells)

        emitter.call_value(push, *pushers)
        emitter.memoise(value)
        self._name_generator(value, state.code, emitter)

    def _name_generator(self, value: GeneratorValue, code: types.CodeType, emitter: Any) -> None:
        """Where its function has got other names than its code."""
        for attribute, name in zip(("name", "qualname"), value.names, strict=True):
            assert isinstance(name, Constant)
            if name.value != getattr(code, f"co_{attribute}"):
                self.call(emitter, setattr, value, f"__{attribute}__", name)
                emitter.pop()

    def _bound(self, value: BoundMethod, emitter: Any) -> None:
        function = value.function
        space = getattr(getattr(function, "object", None), "__globals__", {})
        if str(space.get("__name__")).startswith("dynajit.capture.library"):
            # the method of the original that the object is made as
            self.call(emitter, getattr, value.self, function.object.__name__)  # type: ignore[attr-defined]
        elif isinstance(function, Known) and isinstance(function.object, _SLOT_TYPES):
            # not by name: `super().__init__` is not the `__init__` of the object's class
            # with the class: methods in C that want theirs crash without it
            kind = value.self.python_type
            self.call(emitter, function.object.__get__, value.self, kind)
        else:
            self.call(emitter, types.MethodType, function, value.self)

    def _native(self, value: NativeMethod, emitter: Any) -> None:
        self.call(emitter, getattr, value.receiver, value.name)

    def _partial(self, value: PartialValue, emitter: Any) -> None:
        pushers = [self.pusher(v, emitter) for v in (value.function, *value.args)]
        pushers += [self.pusher(v, emitter) for v in value.keywords.values()]
        make = partial_method if value.is_method else functools.partial
        emitter.call(make, *pushers, keywords=tuple(value.keywords))

    def _random(self, value: RandomValue, emitter: Any) -> None:
        emitter.call(functools.partial(_generator_of, self.heap[value.identity]))

    def _super(self, value: SuperValue, emitter: Any) -> None:
        self.call(emitter, super, value.cls, value.receiver)


_WRITERS: Final[dict[type, Callable[[Rebuilder, Any, Any], None]]] = {
    Constant: Rebuilder._literal,
    Known: Rebuilder._literal,
    Scalar: Rebuilder._scalar,
    TupleValue: Rebuilder._tuple,
    SliceValue: Rebuilder._slice,
    LaterText: Rebuilder._later_text,
    ListValue: Rebuilder._list,
    DictValue: Rebuilder._dict,
    SetValue: Rebuilder._set,
    DictViewValue: Rebuilder._view,
    InstanceDictValue: Rebuilder._instance_dict,
    IteratorValue: Rebuilder._iterator,
    DictStorage: Rebuilder._owner,
    ListStorage: Rebuilder._owner,
    SetStorage: Rebuilder._owner,
    DequeItems: Rebuilder._owner,
    ObjectValue: Rebuilder._object,
    ExceptionValue: Rebuilder._exception,
    TracebackValue: Rebuilder._traceback,
    FunctionValue: Rebuilder._function,
    GeneratorValue: Rebuilder._generator,
    BoundMethod: Rebuilder._bound,
    NativeMethod: Rebuilder._native,
    PartialValue: Rebuilder._partial,
    RandomValue: Rebuilder._random,
    SuperValue: Rebuilder._super,
}
