"""What operations ask of the machine that runs a captured function symbolically.

Mutable; one per capture: the recorder, the heap, the frames, and what else instructions change.
Operations are functions of the machine, which call each other. Where Python's own semantics go in
circles (a call reads attributes, an attribute may be a call), one of the circle is asked of the
machine: the abstract methods here. `capture.execution.executor` answers them, and has the loop.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.guards import GRAD_MODE_SOURCE
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.namespaces import Namespace
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.machine.trial import Trial
from dynajit.capture.places import sources
from dynajit.capture.values.containers import SliceValue, TupleValue
from dynajit.capture.values.functions import CellValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import Known, Value, constant
from dynajit.core.records import record
from dynajit.core.types.symint import Number


@record
class LoopPlace:
    """A loop of the program: the code, and the offset of the instruction that begins a turn."""

    code: CodeType
    offset: int


@record
class Refusals:
    """What a capture breaks at, since another one of the same code has found that it must.

    Args:
        copies: a copy would stand for a view (`written_derivatives`).
        histories: a gradient of a result of the region would reach a leaf, or a hook, that is made
            here.
        loops: those that are too long to be unrolled, and why; None: all are unrolled.
        plain: whether programs in which no tensor can turn up are left to Python; where all loops
            are unrolled, only those with many turns, which may be a nest over lists of numbers.
        lists: all arrays stand for lists of Python's numbers; nothing but one nest is captured.
    """

    copies: bool = False
    histories: bool = False
    loops: Mapping[LoopPlace, GraphBreak] | None = None
    plain: bool = False
    lists: bool = False


NOTHING_REFUSED: Final = Refusals()


class Machine(ABC):
    """See the module's text.

    Args:
        function: the root function.
        recorder: collects guards and the graph.
        max_depth: how many frames may be active.
        refusals: see `Refusals`.

    Attributes:
        root: the root function's frame.
        frames: that are active, innermost last.
        generator_results: what finished generators returned, by heap id.
        global_ids: heap id and dict of globals that were written, by id of the dict.
        result: what the root function returned.
        being_shown: objects whose text is being made: one that holds itself ends there.
        removals: heap id of the list of removals, by heap id of a dict or set.
        trial: what is inlined on trial.
        unasked_blocks: in how many calls the machine is that ask no class (`__torch_function__`).
        is_caller_handling: the caller of the root function is handling an exception.
    """

    root: Frame

    def __init__(
        self, function: FunctionType, recorder: Recorder, max_depth: int, refusals: Refusals
    ) -> None:
        self.root_function = function
        self.recorder = recorder
        self.heap = recorder.heap
        self.max_depth = max_depth
        self.frames: list[Frame] = []
        self.generator_results: dict[int, Value] = {}
        self.global_ids: dict[int, tuple[int, dict[str, Any]]] = {}
        self.result: Value | None = None
        self.being_shown: list[int | None] = []
        self.removals: dict[int, int] = {}
        self.trial: Trial | None = None
        self.refusals = refusals
        recorder.refuses_leaves = refusals.histories
        self.unasked_blocks = 0
        self.is_caller_handling = sys.exc_info()[1] is not None
        self._constants: dict[int, Value] = {}

    # -- frames ------------------------------------------------------------------------------

    @abstractmethod
    def leave(self, value: Value) -> None:
        """The top frame returns `value`."""

    @abstractmethod
    def suspend(self, value: Value) -> None:
        """The top frame, a generator's, yields `value`."""

    @abstractmethod
    def may_compute_numbers(self, is_of_array: bool) -> bool:
        """Whether a number that is asked of a tensor now may be one that the launch computes: in a
        turn of a loop that may become one of the graph.

        Args:
            is_of_array: it is asked of an array of NumPy's.
        """

    @abstractmethod
    def refuse_watched(self, values: list[Value | None]) -> None:
        """Refuse an instruction that takes these values if one of them is or holds a watched one.

        Raises:
            GraphBreak: it must run for real.
        """

    # -- operations that ask for each other ----------------------------------------------------

    @abstractmethod
    def call(self, callee: Value, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        """`callee(*args, **keywords)`."""

    @abstractmethod
    def call_method(
        self, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
    ) -> Steps[Value]:
        """`receiver.name(*args, **keywords)` for a method written in C."""

    @abstractmethod
    def call_object_method(
        self,
        name: str,
        receiver: Value,
        args: list[Value],
        keywords: dict[str, Value] | None = None,
    ) -> Steps[Value]:
        """`object.name(receiver, *args, **keywords)`."""

    @abstractmethod
    def get_attribute(self, value: Value, name: str) -> Steps[Value]:
        """`value.name`."""

    @abstractmethod
    def get_special(self, value: Value, name: str) -> Steps[Value]:
        """A special method, looked up on the class as Python does."""

    @abstractmethod
    def set_attribute(self, value: Value, name: str, item: Value) -> Steps[None]:
        """`value.name = item`."""

    @abstractmethod
    def set_plain_attribute(self, value: ObjectValue, name: str, item: Value) -> Steps[None]:
        """`object.__setattr__(value, name, item)`."""

    @abstractmethod
    def compare(self, symbol: str, a: Value, b: Value) -> Steps[Value]:
        """`a < b` and its likes."""

    @abstractmethod
    def advance(self, iterator: Value) -> Steps[Value | None]:
        """The next item, or None (Python's None, not a value) when exhausted."""

    @abstractmethod
    def to_items(self, value: Value, asks_length: bool = False) -> Steps[list[Value]]:
        """All items that iterating over `value` gives."""

    @abstractmethod
    def to_text(self, value: Value, conversion: str = "str") -> Steps[str]:
        """`str(value)`, `repr(value)` or `ascii(value)` as a Python str."""

    # -- cells, globals, constants -----------------------------------------------------------

    def new_cell(self, contents: Value) -> CellValue:
        """A cell made by the captured code."""
        return CellValue(self.heap.allocate(contents), type((lambda: self).__closure__[0]))  # type: ignore[index]

    def cell_contents(self, cell: CellValue) -> Value:
        """What a cell holds, or UNBOUND."""
        contents = self.heap[cell.identity]
        if contents is None:
            contents = self._read_cell(cell)
            self.heap.load_entry(cell.identity, contents)
        found: Value = contents
        return found

    def _read_cell(self, cell: CellValue) -> Value:
        existing = self.recorder.existing(cell)
        source = cell.source
        if isinstance(source, sources.ClosureCell):
            place: sources.Source = sources.Closure(source.base, source.index)
        else:
            self.recorder.use(cell)
            place = sources.CellContents(source)
        try:
            contents = existing.cell_contents
        except ValueError:
            raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "an empty closure cell") from None
        return self.recorder.wrap(contents, place)

    def global_write(self, namespace: dict[str, Any], name: str) -> Value | None:
        """What the captured code stored into a global, or None."""
        found = self.global_ids.get(id(namespace))
        if found is None:
            return None
        written: Value | None = self.heap[found[0]].get(name)
        return written

    def module_write(self, module: Any, name: str) -> Value | None:
        """What the captured code stored into a module's global, or None."""
        return self.global_write(vars(module), name)

    def write_global(self, namespace: Namespace, name: str, value: Value) -> None:
        """Store a global variable."""
        key = id(namespace.globals)
        if key not in self.global_ids:
            self.global_ids[key] = (self.heap.adopt({}), namespace.globals)
        identity = self.global_ids[key][0]
        self.heap.write(identity, {**self.heap[identity], name: value})

    def constant_value(self, literal: Any) -> Value:
        """The value of a constant of a code object."""
        found = self._constants.get(id(literal))
        if found is None:
            found = self._constants[id(literal)] = _constant(literal)
        return found

    # -- small services ----------------------------------------------------------------------

    def uses_grad_mode(self) -> None:
        """The region depends on the grad mode at entry."""
        entry = bool(self.heap.entry(self.recorder.grad_mode_id))
        self.recorder.guard(GRAD_MODE_SOURCE, Kind.GRAD_MODE, entry, "grad mode")

    def uses_autocast(self) -> None:
        """The region depends on the autocast word at entry."""
        entry = int(self.heap.entry(self.recorder.autocast_id))
        self.recorder.guard(GRAD_MODE_SOURCE, Kind.AUTOCAST, entry, "autocast")

    def uses_inference_mode(self) -> None:
        """The region depends on the inference mode at entry."""
        entry = bool(self.heap.entry(self.recorder.inference_id))
        self.recorder.guard(GRAD_MODE_SOURCE, Kind.INFERENCE, entry, "inference mode")

    def generator_result(self, receiver: Any) -> list[Value]:
        """What a finished generator returned, as arguments of StopIteration."""
        result = self.generator_results.pop(getattr(receiver, "identity", -1), None)
        if result is None or (getattr(result, "value", result) is None):
            return []
        return [result]

    def size_value(self, size: Number) -> Value:
        """A size as the program sees it: a literal, or a run-time int."""
        return self.recorder.sizes.value_of(size)


#: Runs one instruction of the top frame, whose argument is the last.
Handler = Callable[[Machine, Frame, Any], Steps[None] | None]


def _constant(literal: Any) -> Value:
    if isinstance(literal, tuple):
        return TupleValue(tuple(_constant(item) for item in literal))
    if isinstance(literal, slice):  # 3.14 has constants for them
        return SliceValue(*map(_constant, (literal.start, literal.stop, literal.step)))
    if isinstance(literal, (CodeType, BuiltinFunctionType)):  # a resume code calls a function
        return Known(literal)
    return constant(literal)
