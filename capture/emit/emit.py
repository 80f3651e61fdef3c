"""From a captured region to the new code object that runs instead of the user's function.

The code does, in this order: load every source that is needed later (their values at entry),
load the graph's inputs, launch, replay the effects, then end. A region that returns is complete.
A region that breaks rebuilds the stack and the live locals, runs the breaking instruction for
real, and passes what is live to a resume function, one per place where the instruction can go on
(`capture.emit.nesting`, `capture.emit.breaking`).

`Emitter` is what values and effects use to write themselves.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from bytecode.instr import InstrLocation

from dynajit.capture.bytecode import resume
from dynajit.capture.bytecode.assemble import Item, Signature, Writer, assemble, prologue
from dynajit.capture.bytecode.instructions import parameters
from dynajit.capture.emit import nesting
from dynajit.capture.emit.breaking import MakeResume
from dynajit.capture.emit.plain_run import DEPTH, PlainRun, kept
from dynajit.capture.guards import mortal
from dynajit.capture.library import rows
from dynajit.capture.places import reload, sources
from dynajit.capture.region.region import Break, Raise, Region, Return
from dynajit.capture.values.containers import SliceValue, TupleValue
from dynajit.capture.values.functions import BoundMethod, FunctionValue, NativeMethod, PartialValue
from dynajit.capture.values.objects import InstanceDictValue, ObjectValue
from dynajit.capture.values.storage import STORAGE
from dynajit.capture.values.texts import LaterText
from dynajit.core.errors import InternalError
from dynajit.core.types.device import Device
from dynajit.eager.modes.random import signed_bits
from dynajit.ops.table.dispatch import reserve_random

_BUILDS: Final = {
    "list": ("BUILD_LIST", 1),
    "tuple": ("BUILD_TUPLE", 1),
    "set": ("BUILD_SET", 1),
    "dict": ("BUILD_MAP", 2),
    "slice": ("BUILD_SLICE", 1),
    "string": ("BUILD_STRING", 1),
}

#: Immutable objects that the captured code made: the program can ask for their identity.
_MADE_ONCE: Final = (
    TupleValue, SliceValue, BoundMethod, NativeMethod, PartialValue, LaterText,
)  # fmt: skip

#: What is made of, or by, what it belongs to: a cell that holds the function, the owner.
_MADE_WITH_ANOTHER: Final = (FunctionValue, InstanceDictValue, *STORAGE)


def _key(value: Any) -> Any:
    """What stands for the object of a handle: its heap id, or the handle."""
    return value.object_id if value.object_id is not None else ("value", id(value))


class Emitter:
    """Writes one region. Mutable; used once.

    Every `load_...` pushes one slot. Methods named after an instruction take their operands from
    the stack.

    Args:
        function: the function whose new code is written.
        region: what was captured.
    """

    def __init__(self, function: FunctionType, region: Region) -> None:
        code = function.__code__
        self.function = function
        self.region = region
        location = InstrLocation(code.co_firstlineno, None, None, None)
        self.writer = Writer(location)
        self._entry = Writer(location)
        self._sources: dict[sources.Source, str] = {}
        self._values: dict[Any, str] = {}
        self._being_made: set[Any] = set()
        self._memoised: list[Any] = []  # keeps the ids of handles from being used again
        self._outputs: list[str] = []
        self._random: dict[Device, tuple[str, str]] = {}
        self._temporaries: list[str] = []
        self._plain: PlainRun | None = None
        self._states: list[str] = []
        self._mortal = mortal.guarded(region.guards)
        self._members = mortal.members(region.guards)

    # -- loading -------------------------------------------------------------------------------

    def load_constant(self, value: Any) -> None:
        """Push any Python object, by reference."""
        self.writer.load_constant(value)

    def load_object(self, value: Any) -> None:
        """Push an object of the program's, which the code does not keep alive."""
        self._push_source(sources.Constant(value), self.writer)

    def load_source(self, source: sources.Source) -> None:
        """Push the value that `source` had when the function was entered."""
        self._push_source(source, self.writer)

    def load_output(self, index: int) -> None:
        """Push the launch's result number `index`.

        Raises:
            InternalError: the launch has no such result, or has not been written yet.
        """
        if index >= len(self._outputs):
            raise InternalError(f"emit({self.region.name}): no output {index} at this point.")
        self.writer.load_local(self._outputs[index])

    def load_value(self, value: Any) -> None:
        """Push a capture value; the same heap object is made once. None pushes NULL."""
        if value is None:
            self.writer.push_null()
            return
        has_identity = value.object_id is not None or isinstance(value, _MADE_ONCE)
        if not has_identity or getattr(value, "source", None) is not None:
            # Each from its own place: that two places hold one object may not be guarded.
            self.region.rebuild(value, self)
            return
        if self.is_memoised(value):
            self.writer.load_local(self._values[_key(value)])
            return
        if isinstance(value, _MADE_WITH_ANOTHER):
            self.region.rebuild(value, self)
        else:
            self._make(value)
        if not self.is_memoised(value):
            self.memoise(value)

    def _make(self, value: Any) -> None:
        if _key(value) in self._being_made:
            raise InternalError(f"emit({self.region.name}): a {value.python_type} holds itself.")
        self._being_made.add(_key(value))
        self.region.rebuild(value, self)
        self._being_made.discard(_key(value))

    def memoise(self, value: Any) -> None:
        """Name the object on top as the one that `value` stands for; it stays on top.

        `load_value` does this after rebuilding. A container that can contain itself does it
        earlier: build it empty, memoise, fill.
        """
        name = self.new_temporary()
        self.writer.copy_top()
        self.writer.store_local(name)
        self._values[_key(value)] = name
        self._memoised.append(value)

    def new_temporary(self) -> str:
        """The name of a fresh local."""
        name = f".temporary{len(self._temporaries)}"
        self._temporaries.append(name)
        return name

    # -- making and changing objects -------------------------------------------------------------

    def build(self, kind: str, count: int) -> None:
        """Build from `count` items on the stack (dict: keys and values alternate).

        Args:
            kind: `list`, `tuple`, `set`, `dict`, `slice` (2 or 3) or `string`.
            count: number of items; for a dict, of pairs.
        """
        operation, slots = _BUILDS[kind]
        self.writer.append(operation, count, count * slots, 1)

    def build_of(self, kind: str, values: Sequence[Any]) -> None:
        """Push capture values, and build a list or a tuple of them.

        Where what turns of a loop have appended is among them it is a list.
        """
        if any(isinstance(value, ObjectValue) and value.cls is rows.Turns for value in values):
            self.call(rows.spread, functools.partial(self._build_of, "tuple", values))
        else:
            self._build_of(kind, values)

    def _build_of(self, kind: str, values: Sequence[Any]) -> None:
        for value in values:
            self.load_value(value)
        self.build(kind, len(values))

    def call(
        self,
        function: Callable[..., Any],
        *pushers: Callable[[], None],
        keywords: tuple[str, ...] = (),
    ) -> None:
        """Push `function(...)`.

        Args:
            function: any callable; becomes a constant.
            pushers: each pushes one argument.
            keywords: names of the last arguments.
        """
        self.call_value(lambda: self.load_constant(function), *pushers, keywords=keywords)

    def call_value(
        self,
        push_function: Callable[[], None],
        *pushers: Callable[[], None],
        keywords: tuple[str, ...] = (),
    ) -> None:
        """As `call`, for a callable that `push_function` pushes."""
        self.writer.callable(push_function)
        for push in pushers:
            push()
        self.writer.call(len(pushers), keywords)

    def load_attribute(self, name: str) -> None:
        """object -> object.name."""
        self.writer.load_attribute(name)

    def load_item(self) -> None:
        """container, key -> container[key]."""
        self.writer.subscript()

    def store_attribute(self, name: str) -> None:
        """value, object -> ; object.name = value."""
        self.writer.append("STORE_ATTR", name, 2, 0)

    def delete_attribute(self, name: str) -> None:
        """object -> ; del object.name."""
        self.writer.append("DELETE_ATTR", name, 1, 0)

    def store_item(self) -> None:
        """value, container, key -> ; container[key] = value."""
        self.writer.append("STORE_SUBSCR", None, 3, 0)

    def delete_item(self) -> None:
        """container, key -> ; del container[key]."""
        self.writer.append("DELETE_SUBSCR", None, 2, 0)

    def store_global(self, name: str) -> None:
        """value -> ; a global variable of the function."""
        self.writer.append("STORE_GLOBAL", name, 1, 0)

    def delete_global(self, name: str) -> None:
        """Delete a global variable of the function."""
        self.writer.append("DELETE_GLOBAL", name)

    def store_local(self, name: str) -> None:
        """value -> ; a plain local of the function; not before the last source was loaded."""
        self.writer.store_local(name)

    def pop(self) -> None:
        """Drop the top."""
        self.writer.pop()

    def copy_top(self) -> None:
        """Push the top again."""
        self.writer.copy_top()

    def swap(self) -> None:
        """Swap the two slots on top."""
        self.writer.append("SWAP", 2)

    # -- sources ---------------------------------------------------------------------------------

    def _push_source(self, source: sources.Source, writer: Writer) -> None:
        """Load directly what cannot change; everything else is read once, at entry."""
        own = self.function.__code__.co_cellvars
        if isinstance(source, sources.Constant):
            source = self._members.get(id(source.value), source)
        is_fixed = (
            isinstance(source, sources.Function)
            or (isinstance(source, sources.Constant) and id(source.value) not in self._mortal)
            or (isinstance(source, sources.Local) and source.name not in own)
        )
        if is_fixed:
            reload.load(source, writer, self._push_base, self.function)
            return
        writer.load_local(self._read_at_entry(source))

    def _read_at_entry(self, source: sources.Source) -> str:
        """The temporary that holds the value of `source`; loaded in front of everything."""
        if isinstance(source, (sources.RandomSeed, sources.RandomOffset)):
            return self._reserve(source)
        if source not in self._sources:
            if isinstance(source, sources.Constant):  # a mortal one: the guards hold, so it lives
                reference = weakref.ref(source.value)
                self._entry.callable(lambda: self._entry.load_constant(reference))
                self._entry.call(0)
            else:
                reload.load(source, self._entry, self._push_base, self.function)
            name = self.new_temporary()
            self._entry.store_local(name)
            self._sources[source] = name
        return self._sources[source]

    def _push_base(self, source: sources.Source) -> None:
        self._push_source(source, self._entry)

    def _reserve(self, source: sources.RandomSeed | sources.RandomOffset) -> str:
        """Reserve the region's random blocks of a device once; the temporary with the seed or the
        offset."""
        device = source.device
        if device not in self._random:
            entry = self._entry
            seed, offset = self.new_temporary(), self.new_temporary()
            entry.callable(lambda: entry.load_constant(_reserve_signed))
            self._push_random_blocks(entry, device)
            entry.load_constant(device)
            entry.call(2)
            entry.append("UNPACK_SEQUENCE", 3, 1, 3)
            entry.store_local(seed)
            entry.store_local(offset)
            entry.pop()
            self._random[device] = (seed, offset)
        return self._random[device][0 if isinstance(source, sources.RandomSeed) else 1]

    def _push_random_blocks(self, entry: Writer, device: Device) -> None:
        offset = _random_offset(self.region, device)
        if isinstance(offset.blocks, int):
            entry.load_constant(offset.blocks)
            return
        entry.callable(lambda: entry.load_constant(offset.blocks))
        for source in offset.sizes:
            self._push_source(source, entry)
        entry.call(len(offset.sizes))

    # -- the region ------------------------------------------------------------------------------

    def draw(self, may_fail: bool) -> None:
        """Draw the random numbers of Python that the region has, in order.

        Args:
            may_fail: the original may run instead: the generators' states are kept for it.
        """
        entry = self._entry
        generators = {draw.generator.source: draw.generator for draw in self.region.draws}
        for source in generators if may_fail else ():
            entry.callable(lambda: entry.load_constant(kept))
            self._push_source(source, entry)
            entry.call(1)
            name = self.new_temporary()
            entry.store_local(name)
            self._states.append(name)
        for index, draw in enumerate(self.region.draws):
            entry.callable(functools.partial(entry.load_constant, draw.function))
            self._push_source(draw.generator.source, entry)
            entry.call(1)
            place = sources.Drawn(draw.generator.source, index, draw.name)
            name = self._sources[place] = self.new_temporary()
            entry.store_local(name)

    def launch(
        self,
        function: Callable[..., tuple[Any, ...]] | None,
        outputs: int,
        may_fail: bool = False,
    ) -> None:
        """Load the inputs, call, keep the results in temporaries.

        Args:
            may_fail: a launch that refuses its values leaves everything as it was; then a copy of
                the original runs, which does what comes before the error, and raises it.
        """
        if function is None:
            return
        if may_fail:
            self._plain = PlainRun(self.function.__code__)
            self.writer.extend(self._plain.enter(self.writer.location))
        pushers = [lambda value=value: self.load_value(value) for value in self.region.inputs]
        self.call(function, *pushers)
        if self._plain is not None:
            self.writer.extend(self._plain.leave())
        self.writer.append("UNPACK_SEQUENCE", outputs, 1, outputs)
        self._outputs = [self.new_temporary() for _ in range(outputs)]
        for name in self._outputs:
            self.writer.store_local(name)

    def release(self) -> None:
        """Let go of everything that only the rebuilding needed."""
        for name in self._temporaries:
            self.writer.delete_local(name)

    def is_memoised(self, value: Any) -> bool:
        """True if the object that `value` stands for exists by now."""
        return _key(value) in self._values

    def finish(self, copy: Sequence[Item] = ()) -> CodeType:
        """The code object; `copy`, of the original's instructions, is appended."""
        code = self.function.__code__
        releasing = Writer(self.writer.location)
        if isinstance(self.region.end, Break) and parameters(code):
            resume.release(releasing)
        parts = (releasing, self._entry, self.writer)
        plain = [] if self._plain is None else self._plain.items(self._random, self._states)
        written = [item for part in parts for item in part.items]
        items = [*prologue(code), *written, *copy, *plain]
        stacksize = max(code.co_stacksize, DEPTH, *(part.maximum for part in parts))
        signature = Signature(
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
            parameters(code), code.co_flags,
        )  # fmt: skip
        return assemble(items, code, signature, stacksize, code.co_qualname)


def emit(
    function: FunctionType,
    region: Region,
    launch: Callable[..., tuple[Any, ...]] | None,
    make_resume: MakeResume | None = None,
    may_fail: bool = False,
) -> CodeType:
    """The code that runs instead of `function` where the region's guards hold.

    Args:
        function: the captured function.
        region: what was captured.
        launch: takes the graph's inputs, returns one result per graph output; None where the
            graph computes nothing.
        make_resume: makes the object that is called to go on after a break; None: go on as plain
            Python.
        may_fail: `launch` can raise `LaunchFailed`.

    Returns:
        A code object with the same signature, free variables and name, for
        `FunctionType(code, function.__globals__, name, defaults, closure)`.
    """
    emitter = Emitter(function, region)
    emitter.draw(may_fail)
    emitter.launch(launch, len(region.graph.outputs), may_fail)
    for head in region.heads:
        emitter.load_value(head)
        emitter.pop()
    for effect in region.effects:
        effect.replay(emitter)
    if isinstance(region.end, Raise):
        emitter.load_value(region.end.value)
        emitter.writer.append("RERAISE", 0, 1, 0)  # context and traceback are complete
        return emitter.finish()
    if isinstance(region.end, Return):
        emitter.load_value(region.end.value)
        emitter.writer.append("RETURN_VALUE", None, 1, 0)
        return emitter.finish()
    return emitter.finish(nesting.write(emitter, function, region.end, make_resume))


def _reserve_signed(blocks: Any, device: Device) -> tuple[Any, Any, Any]:
    """As `reserve_random`, in numbers that programs take."""
    seed, offset, shift = reserve_random(blocks, device)
    return signed_bits(seed), signed_bits(offset), shift


def _random_offset(region: Region, device: Device) -> sources.RandomOffset:
    """The input that says how many random blocks of a device the region reserves."""
    for value in region.inputs:
        source = getattr(value, "source", None)
        if isinstance(source, sources.RandomOffset) and source.device is device:
            return source
    raise InternalError(f"emit({region.name}): a random seed without a number of blocks.")
