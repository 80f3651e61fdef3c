"""The symbolic executor: runs canonical instructions on values instead of objects.

Mutable; one per capture. Frames are on an explicit stack; an inlined call is a frame that a
handler's generator yields. Before each instruction the state is marked, so that a graph break
goes back to the start of the instruction: the region ends there, inside the calls that were
inlined. Where the state cannot be rebuilt, or a caller cannot go on by itself, an earlier
instruction is tried.

What Python objects can do is in `capture.python`, written as functions of the machine. Those that
ask for each other in circles are asked of the machine, and bound here.
"""

import functools
import sys
from collections.abc import Iterator
from types import FrameType, FunctionType
from typing import Any, Final

from dynajit.capture import breaks, control
from dynajit.capture.breaks import BreakRecord, GraphBreak, SkipFrame
from dynajit.capture.bytecode.instructions import Body, decode
from dynajit.capture.bytecode.resume import start_of
from dynajit.capture.bytecode.versions import IS_311, POSITION_IS_NULL
from dynajit.capture.execution import branches, nests, tested_loops
from dynajit.capture.execution.ending_arguments import quiet_ends, watch_arguments
from dynajit.capture.execution.forced import ForcedBreaks
from dynajit.capture.execution.loops import Watcher
from dynajit.capture.execution.tried_turns import Differs
from dynajit.capture.execution.unrolled import HEADS, Unrolled
from dynajit.capture.machine.awaiting import Awaited, awaited_by
from dynajit.capture.machine.exceptions import NotKnown, Raised, enter_by_throw, record_passage
from dynajit.capture.machine.frames import Frame, SavedFrame
from dynajit.capture.machine.lifetimes import has_guards
from dynajit.capture.machine.machine import NOTHING_REFUSED, Machine, Refusals
from dynajit.capture.machine.namespaces import Namespace
from dynajit.capture.machine.recording import Mark, Recorder
from dynajit.capture.opcodes import HANDLERS, UNSUPPORTED
from dynajit.capture.places import sources
from dynajit.capture.python import arithmetic as operations_arithmetic
from dynajit.capture.python import attributes as operations_attributes
from dynajit.capture.python import basic as operations_basic
from dynajit.capture.python import calls as operations_calls
from dynajit.capture.python import generators as operations_generators
from dynajit.capture.python import iteration as operations_iteration
from dynajit.capture.python import writing as operations_writing
from dynajit.capture.python.builtins import arrays as builtins_arrays
from dynajit.capture.python.builtins import backward as builtins_backward
from dynajit.capture.python.builtins import containers as builtins_containers
from dynajit.capture.python.builtins import copies as builtins_copies
from dynajit.capture.python.builtins import counts as builtins_counts
from dynajit.capture.python.builtins import forward_mode, mapped_calls, written_derivatives
from dynajit.capture.python.builtins import functions as builtins_functions
from dynajit.capture.python.builtins import generic as builtins_generic
from dynajit.capture.python.builtins import library as builtins_library
from dynajit.capture.python.builtins import methods as builtins_methods
from dynajit.capture.python.builtins import objects as builtins_objects
from dynajit.capture.python.builtins import output as builtins_output
from dynajit.capture.python.builtins import signatures as builtins_signatures
from dynajit.capture.python.builtins import wrapped_numpy as builtins_wrapped_numpy
from dynajit.capture.python.objects import instances as operations_instances
from dynajit.capture.python.objects import kept_frames, watching
from dynajit.capture.python.objects.watching import Keys
from dynajit.capture.python.text import text as operations_text
from dynajit.capture.values.functions import GeneratorState
from dynajit.capture.values.objects import ExceptionValue, TracebackValue
from dynajit.capture.values.symbolic import NONE, Value, constant
from dynajit.core.errors import InternalError
from dynajit.core.records import record

#: Instructions executed in one capture before it breaks: some seconds of symbolic execution.
MAX_INSTRUCTIONS: Final = 500_000

#: Values looked at, all instructions together, to see which let go of a watched object; counted
#: where one instruction must look at so many.
MAX_LOOKED_AT: Final = 300_000
MANY_LOOKED_AT: Final = 5_000
MSG_MANY: Final = "it meets objects whose end does something among too many others"

MSG_NO_NEST: Final = "what it does with lists of numbers is no loop nest"

#: `start` of a frame in which no region ends.
NEVER: Final = sys.maxsize

#: Instructions that may end a loop, or choose between two ways through a turn.
_TESTS: Final = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "TO_BOOL"})

#: What a loop begins with.
_STARTS: Final = frozenset({"CALL", "CALL_FUNCTION_EX", "GET_ITER", "LOAD_ATTR"})

#: Frames of the library's own code point at the user's line that called them.
_LIBRARY: Final = ("dynajit/nn/", "dynajit/ops/", "eager/", "capture/library/")


@record
class Point:
    """A place where a region can end: in front of an instruction of the frame at `depth`."""

    depth: int
    frame: SavedFrame
    mark: Mark


@record
class Trail:
    """The frames at some moment, and what each of them but the last waits for."""

    frames: tuple[Frame, ...]
    awaited: tuple[Awaited | None, ...]

    @property
    def points(self) -> Iterator[Point]:
        """Where the region can end, latest first."""
        for frame in reversed(self.frames):
            yield from reversed(frame.points)


@record
class Returned:
    """The root function returned."""

    value: Value


@record
class Thrown:
    """An exception left the root function; `stopped` is the break to make where it cannot be
    made again.
    """

    value: ExceptionValue
    stopped: "Stopped"


@record
class Stopped:
    """A graph break, and the frames that were active.

    Args:
        record: what is reported.
        trail: where the region can end.
        travelling: heap id of an exception whose traceback must hold the real frames, handlers
            that it passes included.
    """

    record: BreakRecord
    trail: Trail
    travelling: int | None = None


class Executor(Machine):
    """See the module's text.

    Args:
        function: the root function.
        arguments: bound arguments in the order of `co_varnames`.
        recorder: collects guards and the graph.
        forced: where to break although nothing asks for it (tests), or None.
        refusals: what this capture breaks at, since another one found that it must.
    """

    def __init__(
        self,
        function: FunctionType,
        arguments: tuple[Any, ...],
        recorder: Recorder,
        forced: ForcedBreaks | None = None,
        refusals: Refusals = NOTHING_REFUSED,
    ) -> None:
        depth = min(operations_calls.MAX_DEPTH, _room())
        super().__init__(function, recorder, depth, refusals)
        self.forced = forced
        self.given = arguments
        self._left: tuple[Frame, ...] = ()
        self._thrown: Thrown | None = None
        self._last_trail: Trail | None = None
        self._looked_at = 0
        self._travelling: int | None = None
        self._has_caught = False
        self.loops = Watcher()
        self.unrolled = Unrolled()
        body = decode(function.__code__)
        if body.unsupported is not None:
            raise SkipFrame(body.unsupported)
        self.root = self._root_frame(function, arguments, body)
        self.root.start = start_of(function.__code__)

    def _root_frame(self, function: FunctionType, arguments: tuple[Any, ...], body: Body) -> Frame:
        quiet = quiet_ends(body, arguments)
        base = sources.Function(function.__qualname__)
        namespace = Namespace.of(function, base)
        bound = {
            name: self.recorder.wrap(
                argument, sources.Local(name, index, _passed_on(function, name))
            )
            for index, (name, argument) in enumerate(zip(body.parameters, arguments, strict=True))
        }
        cells = self.recorder.cells_of(function, base)
        self.arguments = watch_arguments(self.recorder, body, bound, quiet)
        frame = Frame(body, function.__code__, namespace, bound, cells)
        frame.bind_free_cells()
        frame.handled = self.heap.allocate(None)
        return frame

    def close(self) -> None:
        """Let go of everything: waiting handlers refer to the executor, which refers to them."""
        for frame in (*self.frames, *self._left):
            frame.pending = None
        self.frames = []
        self.given = ()
        self._left = ()

    # -- the loop ----------------------------------------------------------------------------

    def run(self) -> Returned | Thrown | Stopped:
        """Execute until the root returns, raises, or a break."""
        self.frames.append(self.root)
        if self.refusals.lists and not nests.at_whole(self, self.root):
            raise SkipFrame(MSG_NO_NEST)
        try:
            for _ in range(MAX_INSTRUCTIONS):
                if self._thrown is not None:
                    return self._thrown
                if not self.frames:
                    assert self.result is not None
                    self.unrolled.end(self)
                    return Returned(self.result)
                self._step()
            raise GraphBreak(breaks.LIMIT, f"{MAX_INSTRUCTIONS} instructions")
        except GraphBreak as asked:
            self._end_trial()
            self.unrolled.leave(self, asked)
            trail = self._last_trail or self._trail()
            self._left = trail.frames
            return Stopped(self._record(asked), trail, self._travelling)
        except NotKnown as reason:
            self._end_trial()
            stop = GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{reason} is not known by value")
            return Stopped(self._record(stop), self._trail())
        except RecursionError:
            self._end_trial()
            stop = GraphBreak(breaks.LIMIT, "objects that are nested too deeply")
            return Stopped(self._record(stop), self._trail())

    def _end_trial(self) -> None:
        """A break in what is captured on trial ends the capture: see `remembered_calls`.

        Raises:
            SkipFrame: by the trial.
        """
        if self.trial is not None:
            self.trial.end()

    def _trail(self) -> Trail:
        self._left = tuple(self.frames)
        waiting = self.frames[:-1]
        return Trail(tuple(self.frames), tuple(awaited_by(frame) for frame in waiting))

    def _step(self) -> None:
        frame = self.frames[-1]
        instruction = frame.body.instructions[frame.index]
        if self.trial is not None:
            self.trial.step()
        watched = len(self.recorder.watched)
        if nests.at_while(self, frame, instruction):
            return
        if instruction.operation in _TESTS and (
            branches.at_branch(self, frame)
            or tested_loops.at_test(self, frame)
            or branches.around_loop(self, frame)
        ):
            return
        if instruction.operation == "FOR_ITER" and self.loops.at_head(self, frame):
            return
        if instruction.operation in _STARTS and nests.at_start(self, frame, instruction):
            return
        if frame.can_end or (watched and frame.can_restart):
            point = Point(len(self.frames) - 1, frame.save(), self.recorder.mark())
            frame.points.append(point)
        frame.index += 1
        if frame.is_user:
            self.recorder.at(instruction.location)
        if self.forced is not None and self.forced.wants(frame, instruction):
            raise GraphBreak(breaks.REQUESTED, "forced by the test switch")
        if instruction.operation in HEADS:
            self.unrolled.check(self, frame, instruction)
        handler = HANDLERS.get(instruction.operation)
        if handler is None:
            reason = UNSUPPORTED.get(instruction.operation, instruction.operation)
            raise GraphBreak(breaks.UNSUPPORTED_INSTRUCTION, reason)
        watches = watched and not watching.is_harmless(instruction.operation)
        before = None
        if watches and (open_ones := self._open_ones()):
            before = self._trail(), self._reachable(open_ones)
        try:
            steps = handler(self, frame, instruction.argument)
            if steps is not None:
                frame.pending = steps
                self._advance(frame, None)
            if instruction.operation in HEADS and frame.index <= instruction.index:
                self.loops.at_way_back(self, frame, instruction.index)
        except Raised as raised:
            self._unwind(raised.with_traceback(None))  # whose frames refer to the exception
        if (before is not None or len(self.recorder.watched) > watched) and self._thrown is None:
            self._refuse_ends(before, watched)

    def run_one(self) -> None:
        """Execute one instruction of a turn that is tried."""
        self._step()

    def _leaves_turn(self) -> bool:
        """True where the top frame runs a loop of which a turn is being tried."""
        return self.loops.depth == len(self.frames)

    def _refuse_ends(self, before: tuple[Trail, Keys] | None, known: int) -> None:
        """An instruction that has let go of an object whose end does something runs for real.

        Args:
            before: the frames, and what could be reached, before the instruction.
            known: how many objects were watched then; the others existed, too.

        Raises:
            GraphBreak: it must.
        """
        open_ones = self._open_ones()
        if not open_ones:
            return
        trail, keys = before or (self._trail(), set())
        keys |= set(list(self.recorder.watched)[known:])
        try:
            watching.refuse_end(keys, self._reachable(open_ones), open_ones)
        except GraphBreak:
            self.frames = list(trail.frames)
            self._last_trail = trail
            raise

    def _reachable(self, watched: list[tuple[Any, Value]]) -> watching.Keys:
        """Which of these keys the frames and the world outside hold.

        Raises:
            SkipFrame: so much, asked for so often, that running the frame is cheaper.
        """
        search = watching.reached(self, [key for key, _ in watched])
        if search.looked_at > MANY_LOOKED_AT:
            self._looked_at += search.looked_at
        if self._looked_at > MAX_LOOKED_AT:
            raise SkipFrame(MSG_MANY, permanent=not self.recorder.met_tensor)
        return search.found

    def refuse_watched(self, values: list[Value | None]) -> None:
        """Refuse an instruction that takes these values if one of them is or holds a watched one.

        Raises:
            GraphBreak: it must run for real.
        """
        if self.recorder.watched:
            open_ones = self._open_ones()
            keys = [key for key, _ in open_ones]
            held = watching.held_by(values, self.recorder.heap, keys)
            watching.refuse_end(held, set(), open_ones)

    def _open_ones(self) -> list[tuple[Any, Value]]:
        """What is watched and still has something to do: key and value."""
        return [
            (key, value)
            for key, value in self.recorder.watched.items()
            # the end of the real frame lets go of what existed
            if (isinstance(key, sources.Source) and self.frames)
            or operations_generators.is_open(self, key)
        ]

    def _advance(self, frame: Frame, sent: Any) -> None:
        """Continue the handler that runs in `frame`; push the frame that it asks for."""
        assert frame.pending is not None
        try:
            request = frame.pending.send(sent)
        except StopIteration:
            frame.pending = None
            return
        self._push(request)

    def _push(self, frame: Frame) -> None:
        caller = self.frames[-1]
        frame.is_user = not (frame.namespace.is_fixed or _is_library(frame.code.co_filename))
        frame.handled = frame.handled or caller.handled
        if frame.namespace.is_fixed or caller.start == NEVER:
            frame.start = NEVER  # the Python form of a C function never runs for real
        elif frame.generator is not None and has_guards(frame.body):
            frame.start = NEVER  # a frame that goes on by itself is not closed
        self.unrolled.recursion.enter(self, frame)
        self.frames.append(frame)
        if frame.thrown is not None:
            raised, frame.thrown = frame.thrown, None
            frame.push(NONE)  # in the place of what `send` would have given
            enter_by_throw(self, frame, raised)
            self._unwind(raised)

    def leave(self, value: Value) -> None:
        """The top frame returns `value`."""
        if self._leaves_turn():
            raise Differs
        frame = self.frames.pop()
        if self._has_caught and kept_frames.outlive(self, [frame], value):
            raise SkipFrame(kept_frames.MSG_KEPT)
        if self.frames:
            self._advance(self.frames[-1], value)
        else:
            self.result = value

    def may_compute_numbers(self, is_of_array: bool) -> bool:
        """See `Machine`."""
        return self.forced is None and self.loops.ask(self.frames, is_of_array)

    def suspend(self, value: Value) -> None:
        """The top frame, a generator's, yields `value`."""
        if self._leaves_turn():
            raise Differs
        frame = self.frames.pop()
        if frame.generator is None:
            raise InternalError("a frame that is not a generator's yields")
        state = GeneratorState(
            frame.body, frame.code, frame.namespace, frame.closure, frame.save(), frame.handled
        )
        self.heap.write(frame.generator.identity, state)
        if operations_generators.is_guarded(state):
            self.recorder.watched[frame.generator.identity] = frame.generator
        self._advance(self.frames[-1], operations_generators.Yielded(value))

    def _unwind(self, raised: Raised) -> None:
        """Find the handler of an exception of the captured program."""
        if self.loops.depth:
            raise Differs
        trail = self._trail()
        while True:
            frame = self.frames[-1]
            frame.pending = None
            record_passage(self, frame, raised)
            instruction = frame.body.instructions[frame.index - 1]
            if instruction.handler is not None:
                target = instruction.handler
                del frame.stack[target.depth :]
                if target.push_lasti:
                    frame.push(None if POSITION_IS_NULL else constant(instruction.offset))
                frame.push(raised.value)
                frame.index = target.target
                self._has_caught = True
                return
            # the traceback keeps the frame's objects alive
            if kept_frames.is_noticed(self, frame):
                self.frames = list(trail.frames)
                self._last_trail = trail
                self._travelling = raised.value.identity
                raise GraphBreak(breaks.USER_EXCEPTION, self._exception_text(raised))
            self.frames.pop()
            if IS_311 and frame.generator is not None:
                left = operations_generators.stop_iteration_error(self, raised.value)
                raised = raised if left is raised.value else Raised(left, is_going_on=True)
            if not self.frames:
                self.frames.append(frame)
                stop = GraphBreak(breaks.USER_EXCEPTION, self._exception_text(raised))
                self._thrown = Thrown(raised.value, Stopped(self._record(stop), trail))
                return
            try:
                self._throw(self.frames[-1], raised)
                return
            except Raised as another:
                raised = another.with_traceback(None)  # which would refer to this very frame

    def _throw(self, frame: Frame, raised: Raised) -> None:
        assert frame.pending is not None
        try:
            request = frame.pending.throw(raised)
        except StopIteration:
            frame.pending = None
            return
        finally:
            raised.__traceback__ = None  # its frames lead back to this one
        self._push(request)

    def _exception_text(self, raised: Raised) -> str:
        args = self.heap[raised.value.identity].construct
        shown = ", ".join(operations_basic.describe(argument) for argument in args)
        return f"{raised.value.cls.__name__}({shown})"

    # -- breaks ------------------------------------------------------------------------------

    def _record(self, stop: GraphBreak) -> BreakRecord:
        places = [frame.location() for frame in self.frames if frame.is_user]
        innermost = places[-1] if places else self.root.location()
        return BreakRecord(stop.reason, self._detail(stop), innermost, tuple(places[:-1]))

    def _detail(self, stop: GraphBreak) -> str:
        """What breaks; inside a function of NumPy's, which the program called, its name first."""
        for frame in self.frames:
            if frame.namespace.is_fixed and not frame.namespace.is_form:
                return f"numpy.{frame.code.co_name} ({stop.detail})"
        return stop.detail

    def is_travelling(self, stopped: Stopped) -> bool:
        """True if the exception that must not be on its way in the present state is."""
        identity = stopped.travelling
        if identity is None or not self.heap.has(identity):
            return False
        return isinstance(self.heap[identity].state.get("__traceback__"), TracebackValue)

    def may_be_kept(self) -> bool:
        """True if an exception that is left here keeps what one of the active frames holds."""
        return self._has_caught and kept_frames.outlive(self, self.frames)

    def go_back(self, trail: Trail, point: Point) -> None:
        """Restore the state in front of an instruction of one of the active frames."""
        self.recorder.restore(point.mark)
        self.frames = list(trail.frames[: point.depth + 1])
        self.frames[-1].restore(point.frame)

    # -- operations that ask for each other, bound as methods ----------------------------------

    call = operations_calls.call
    call_method = builtins_methods.call_method
    call_object_method = operations_calls.call_object_method
    get_attribute = operations_attributes.get_attribute
    get_special = operations_instances.get_special
    set_attribute = operations_writing.set_attribute
    set_plain_attribute = operations_writing.set_plain_attribute
    compare = operations_arithmetic.compare
    advance = operations_iteration.advance
    to_items = operations_iteration.to_items
    to_text = operations_text.to_text


#: Loaded for the handlers that they enter into `capture.python.builtins.table`.
_TABLES: Final = (
    builtins_arrays,
    builtins_containers,
    builtins_objects,
    builtins_copies,
    builtins_counts,
    builtins_output,
    builtins_signatures,
    builtins_functions,
    builtins_generic,
    builtins_library,
    builtins_backward,
    builtins_wrapped_numpy,
    mapped_calls,
    forward_mode,
    written_derivatives,
)


def _passed_on(function: FunctionType, parameter: str) -> tuple[str, ...] | None:
    """`Local.passed_on` of a parameter."""
    names: tuple[str, ...] | None = function.__dict__.get(control.PASSED_ON)
    if names is None or parameter not in ("args", "kwargs"):
        return None
    return names if parameter == "args" else ()


@functools.cache
def _is_library(filename: str) -> bool:
    path = filename.replace("\\", "/")
    return any(part in path for part in _LIBRARY)


def _room() -> int:
    """How many calls plain Python could still nest here, without the compiler's own frames."""
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        depth += "dynajit" not in frame.f_globals.get("__name__", "")
        frame = frame.f_back
    return sys.getrecursionlimit() - depth
