"""What one capture produces: a region of user code as a graph, guards, effects and an end.

Frozen data, made by the executor (`capture.execution.executor`), read by `capture.emit.emit`, which
writes the
new bytecode: load `inputs`, launch, replay `effects` in order, then do what `end` says.

The contract with the emitter: whatever must appear on the stack is a capture value.
`emitter.load_value(value)` pushes it, by calling `region.rebuild(value, emitter)` once per
`value.object_id` (None: not a heap object, rebuild every time) and keeping the result in a
temporary for later uses, so that aliases stay aliases. `effect.replay(emitter)` leaves the stack
as it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

from dynajit.core.records import record
from dynajit.core.types.value_types import ValueType
from dynajit.ir.graph import Graph

if TYPE_CHECKING:
    from dynajit.capture.breaks import BreakRecord
    from dynajit.capture.bytecode.resume import Home
    from dynajit.capture.machine.awaiting import Awaited


@record
class Return:
    """The region runs to the function's end and returns `value`."""

    value: Any


@record
class Raise:
    """The region runs to where the exception `value` leaves the function."""

    value: Any


@record
class InnerFrame:
    """An inlined call inside which the region ends.

    Args:
        code: the callee's code.
        home: its globals and name.
        index, stack, locals, cells, awaits, keeps: as for `Break`.
    """

    code: CodeType
    home: "Home"
    index: int
    stack: tuple[Any, ...]
    locals: Mapping[str, Any]
    cells: Mapping[str, Any]
    awaits: "Awaited | None"
    keeps: bool = False


@record
class Break:
    """The region ends just before a canonical instruction, of the root function or a callee's.

    Args:
        index: canonical index of the instruction that must run for real; the first one at its
            bytecode offset. With `awaits` the instruction that waits for an inlined call.
        stack: values on the stack at that point, bottom first. `None` stands for the NULL that
            the calling convention pushes. Of a waiting instruction the operands are gone.
        locals: bound plain locals, by name.
        cells: captured variables: name -> the cell value.
        record: why.
        awaits: what the instruction does with the result of the first of `inner`; None where
            the region ends in the root frame itself.
        inner: the inlined calls inside which the region ends, outermost first; the last one
            has no `awaits`.
        keeps: an exception that the frame catches must keep this very frame alive: see
            `kept_frames`.
    """

    index: int
    stack: tuple[Any, ...]
    locals: Mapping[str, Any]
    cells: Mapping[str, Any]
    record: "BreakRecord"
    awaits: "Awaited | None" = None
    inner: tuple[InnerFrame, ...] = ()
    keeps: bool = False


End: TypeAlias = Return | Raise | Break


@record
class Place:
    """A tensor that the user can reach: an output of the graph, or an input; and which one."""

    is_output: bool
    position: int


@record
class SavedCheck:
    """A tensor that eager execution would save for backward.

    Args:
        place: where it is found; None: the region wrote to it, backward fails always.
        counted: writes that the region counts until it is saved.
        total: writes that the region counts in all.
        outputs: bit set of the graph's outputs whose gradients need it.
        inputs: bit set of the graph's inputs whose gradients need it.
        node: what the tape calls the operation that saves it.
        type: of the tensor.
    """

    place: Place | None
    counted: int
    total: int
    outputs: int
    inputs: int
    node: str
    type: ValueType


@record
class SavedTensors:
    """What backward of a region has to look at.

    Args:
        checks: in the order in which backward meets them.
        shareable: inputs and outputs whose memory backward may read, because a write to them
            fails a check.
    """

    checks: tuple[SavedCheck, ...]
    shareable: frozenset[Place]


@record(eq=False)
class Region:
    """One captured region.

    Args:
        name: the function's qualified name.
        graph: what the launch computes; may have no calls when only Python work was captured.
        inputs: one capture value per graph input, loaded before the launch in this order.
        requires_grad: per graph input, whether gradients flow to it.
        guards: facts to check before the new code may run (`capture.guards.guards.Guard`).
        effects: writes to replay after the launch, in order; each has `replay(emitter)`.
        end: how the region ends.
        rebuild: `rebuild(value, emitter)` pushes a value; see the module's text.
        has_history: the launch records gradients whatever the grad mode at entry is: the captured
            code turned it on.
        breaks: every break met, of this region (at most one).
        lines: (file, line) of the user's lines that were executed symbolically.
        written: positions of the inputs that an effect overwrites.
        saved: what backward has to look at; None where nothing has a gradient.
        writes: per graph output, how many writes count in the version of what it becomes.
        copied: output -> the input that an effect copies it to, and nothing else gets it.
        heads: values that lead back to themselves, made before the effects, in this order.
        asks_compiling: `is_compiling()` was called: the original would get another answer.
        draws: random numbers of Python's, drawn before the launch (`values.random_numbers.Draw`).
        states: of each generator of random numbers that the launch draws from, for `emit.drawing`:
            the input and the output that are its state, and whether normal numbers are drawn.
        spent: names of the graph's nodes that have let go of what they saved for backward.
    """

    name: str
    graph: Graph
    inputs: tuple[Any, ...]
    requires_grad: tuple[bool, ...]
    guards: tuple[Any, ...]
    effects: tuple[Any, ...]
    end: End
    rebuild: Callable[[Any, Any], None]
    has_history: bool = False
    breaks: "tuple[BreakRecord, ...]" = field(default=())
    lines: frozenset[tuple[str, int]] = frozenset()
    written: tuple[int, ...] = ()
    saved: SavedTensors | None = None
    writes: tuple[int, ...] = ()
    copied: Mapping[int, int] = field(default_factory=dict)
    heads: tuple[Any, ...] = ()
    asks_compiling: bool = False
    draws: tuple[Any, ...] = ()
    states: tuple[tuple[int, int, bool], ...] = ()
    spent: frozenset[str] = frozenset()


@record
class Skip:
    """Nothing to compile here: run the original function.

    Args:
        reason: one sentence for reports.
        permanent: True where no other call of the same function could do better.
        guards: if there are some, so it is for all calls for which they hold.
        may_be_nest: see `entry.list_programs`.
    """

    reason: str
    permanent: bool = True
    guards: tuple[Any, ...] = ()
    may_be_nest: bool = False


@record(eq=False)
class CapturedGraph:
    """What a backend receives.

    Args:
        graph: placeholders in input order.
        requires_grad: per input.
        name: what is compiled, for reports.
        written: positions of the inputs that are overwritten after each launch.
        saved, writes, copied, spent: as in Region; without `saved` any input or output may be kept
            for backward.
    """

    graph: Graph
    requires_grad: tuple[bool, ...]
    name: str
    written: tuple[int, ...] = ()
    saved: SavedTensors | None = None
    writes: tuple[int, ...] = ()
    copied: Mapping[int, int] = field(default_factory=dict)
    spent: frozenset[str] = frozenset()


Backend: TypeAlias = Callable[[CapturedGraph], Callable[..., tuple[Any, ...]]]
