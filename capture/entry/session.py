"""One compile, from a missed call to a published entry.

`capture` runs the executor; `compile_entry` adds the backend, the emitter and the cache. Called
by `dynajit.compile` (which injects the backend) through the C entry object on a guard miss, and
by the scoped frame hook for frames inside a region that broke.

Contract: the user's grad mode, random state and objects are as before when a function here
returns; nothing of the user's is run but modules that are imported for the first time
(`capture.entry.early_imports`). A defect of the compiler itself never reaches the user: the
call runs eagerly, with one warning per function, unless `config.strict`.
"""

import contextlib
import inspect
import time
from collections.abc import Callable, Collection
from dataclasses import field, replace
from types import CodeType, FunctionType
from typing import Any, Final

from dynajit.capture import _capture
from dynajit.capture.breaks import SkipFrame
from dynajit.capture.bytecode.instructions import decode
from dynajit.capture.bytecode.resume import Home, Resume, entry
from dynajit.capture.emit.breaking import MakeResume
from dynajit.capture.emit.drawing import Drawing
from dynajit.capture.emit.emit import emit
from dynajit.capture.entry import cache, early_imports, own_builtins
from dynajit.capture.entry.early_imports import ModuleWanted
from dynajit.capture.entry.list_programs import ListProgram
from dynajit.capture.execution.executor import Executor, Stopped
from dynajit.capture.execution.forced import ForcedBreaks
from dynajit.capture.execution.unrolled import TooLong
from dynajit.capture.guards.tree import CompiledGuards, compile_guards
from dynajit.capture.machine.machine import NOTHING_REFUSED, Refusals
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.places import sources
from dynajit.capture.python.builtins.written_derivatives import SharingNoticed
from dynajit.capture.region.finish import finish
from dynajit.capture.region.region import Backend, CapturedGraph, Raise, Region, Return, Skip
from dynajit.capture.tensors.backward import HistoryNoticed
from dynajit.capture.tensors.size_memory import SizeMemory
from dynajit.capture.tensors.sizes import Sizes, SizesChanged
from dynajit.capture.values.symbolic import Scalar
from dynajit.core.errors import (
    BackendError,
    CompileWarning,
    DynamicSizeError,
    GraphBreakError,
    InternalError,
    NoDerivativeError,
    ToolchainError,
)
from dynajit.core.process import config, progress
from dynajit.core.process.warning import warn
from dynajit.core.records import record
from dynajit.core.types.symint import deciding
from dynajit.eager.modes.autocast_mode import _autocast_word
from dynajit.eager.modes.grad_mode import enable_grad, is_grad_enabled, is_inference_mode_enabled
from dynajit.ops.native._library_call import ask_no_class
from dynajit.ops.table import dispatch, overriding

MSG_INTERNAL: Final = (
    "dynajit could not compile {name} because of a defect of its own ({kind}: {error}).  The "
    "function runs as plain Python.  Set DYNAJIT_STRICT=1 to see the error, DYNAJIT_DUMP=dir to "
    "have a reproduction written; please report it."
)
MSG_TOOLCHAIN: Final = (
    "dynajit could not compile {name}: {error}  The function runs as plain Python."
)

MSG_NEST: Final = "no tensor can turn up in it; its numbers are computed by one loop nest"
MSG_NO_NEST: Final = "what it does with lists of numbers is no loop nest"
MSG_DEEP: Final = "it is called so deep in a recursion that the compiler has no room"
MSG_MEMORY: Final = "the compiler ran out of memory"
MSG_NESTED: Final = "objects that are nested too deeply"

#: How often a capture starts again because more became known about sizes.
MAX_ATTEMPTS: Final = 64
_PACKAGE: Final = f"{__name__.partition('.')[0]}."
#: Where the program's `forward` is called from.
_MODULES: Final = (f"{_PACKAGE}nn.module", f"{_PACKAGE}nn.layers.", f"{_PACKAGE}nn.parallel.")


@record
class Options:
    """How a function is compiled; one per `dj.compile` call.

    Args:
        backend: makes a callable from a CapturedGraph: tensors and numbers in graph-input order
            in, a tuple with one Tensor per graph output out. If that has a method `settle`, it is
            called before the first call: the rest is made while a compiler works.
        fullgraph: a graph break raises GraphBreakError.
        resume: makes the object that runs the rest of a function after a break, from that rest as
            a plain function: usually a compiled function with these same options. None: the rest
            runs as plain Python.
        needs_tensors: a frame that breaks before it met any tensor runs as plain Python; for
            frames that only happen to run below a region.
        lists: all arrays are lists of Python's numbers, read into memory (`list_programs`): what is
            not one loop nest is skipped, and a launch that refuses its values raises.
        keeps_plain: a program in which no tensor can turn up is captured all the same.
        publish_all: a frame that computes nothing with tensors is replaced all the same; for
            tests of how Python is captured.
        forced: a switch for tests: break at these lines as well (`capture.execution.forced`).
    """

    backend: Backend
    fullgraph: bool = False
    resume: Callable[[FunctionType], Callable[..., Any]] | None = None
    needs_tensors: bool = False
    lists: bool = False
    keeps_plain: bool = False
    publish_all: bool = False
    forced: ForcedBreaks | None = None


@record(eq=False)
class Compilation:
    """What one compile made.

    Args:
        region: what was captured, or Skip with the reason.
        function: the new Python function (same signature, globals and closure), or None where
            the original must run.
        launch: what the backend returned, or None where the graph computes nothing.
        stages: name -> milliseconds (`capture`, `backend`, `emit`).
        error: the internal error that made the call fall back to plain Python, if any.
        guards: the region's, where they were compiled while the backend's compiler worked.
    """

    region: Region | Skip
    function: Callable[..., Any] | None
    launch: Callable[..., tuple[Any, ...]] | None = None
    stages: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None
    guards: CompiledGuards | None = None


def capture(
    function: FunctionType,
    arguments: tuple[Any, ...],
    *,
    fullgraph: bool = False,
    needs_tensors: bool = False,
    forced: ForcedBreaks | None = None,
    memory: SizeMemory | None = None,
    unasked: int = 0,
    keeps_plain: bool = False,
    lists: bool = False,
) -> Region | Skip:
    """Execute `function` symbolically on one call's arguments; runs no user code.

    Args:
        function: a plain Python function (not a generator or coroutine).
        arguments: bound arguments in the order of `co_varnames`: positional, keyword-only, the
            `*args` tuple, the `**kwargs` dict; defaults filled in.
        fullgraph: raise instead of ending the region at a break.
        needs_tensors: see Options.
        forced: see Options.
        memory: what earlier captures of the function learnt about sizes; None: nothing.
        unasked: in how many blocks of the program the call is that ask no class.
        keeps_plain: also a program in which no tensor can turn up is captured.
        lists: see Options.

    Returns:
        The region; Skip where nothing can or need be compiled.

    Raises:
        GraphBreakError: `fullgraph` and a break; the message shows the user's line.
        DynamicSizeError: the code forces a number on a size that is marked dynamic.
    """
    if decode(function.__code__).is_generator:
        return Skip("generators and coroutines run as plain Python")
    known = SizeMemory() if memory is None else memory
    known.start()
    asked: set[str] = set()
    refusals = replace(NOTHING_REFUSED, lists=lists, plain=not keeps_plain and not lists)
    if not fullgraph and not lists:
        refusals = replace(refusals, loops={})
    for _ in range(MAX_ATTEMPTS):
        sizes = Sizes(known)
        recorder = Recorder(
            function.__qualname__,
            is_grad_enabled(),
            sizes,
            _autocast_word(),
            is_inference_mode_enabled(),
            unasked,
        )
        recorder.reads_arrays = not _keeps_arrays(function)
        try:
            region = _execute(function, arguments, recorder, fullgraph, forced, asked, refusals)
        except SizesChanged:
            continue
        except SharingNoticed:
            refusals = replace(refusals, copies=True)
            continue
        except HistoryNoticed:
            refusals = replace(refusals, histories=True)
            continue
        except TooLong as loop:
            refusals = replace(refusals, loops={**(refusals.loops or {}), loop.place: loop.refusal})
            continue
        except ModuleWanted as module:
            asked.add(module.name)
            early_imports.load(module.name)
            continue
        sizes.finish()
        if isinstance(region, Skip):
            return region
        if needs_tensors and region.breaks and not recorder.met_tensor:
            return Skip("it breaks before it meets a tensor", permanent=False)
        return region
    raise InternalError(f"{function.__qualname__}: the sizes do not settle")


def _keeps_arrays(function: FunctionType) -> bool:
    """True for a function of this library, but not for those that run the program's `forward`.

    A program may have put anything into a function's globals.
    """
    name = dict.get(function.__globals__, "__name__")
    return type(name) is str and name.startswith(_PACKAGE) and not name.startswith(_MODULES)


def _execute(
    function: FunctionType,
    arguments: tuple[Any, ...],
    recorder: Recorder,
    fullgraph: bool,
    forced: ForcedBreaks | None,
    asked: Collection[str],
    refusals: Refusals,
) -> Region | Skip:
    """One attempt at a capture.

    Args:
        asked: modules whose import was tried before an earlier attempt.
        refusals: see `Machine`.

    Raises:
        SizesChanged: it must start again.
        SharingNoticed, HistoryNoticed: it must start again, and refuse that.
        TooLong: it must start again, and break at a loop.
        ModuleWanted: it must start again after an import.
    """
    recording = dispatch.recording(recorder.builder.handle, recorder.reserve_random)
    with recording, deciding(recorder.sizes), contextlib.ExitStack() as after:
        try:
            executor = Executor(function, arguments, recorder, forced, refusals)
            after.callback(executor.close)
            recorder.may_break = True
            outcome = executor.run()
            recorder.may_break = False
            module = early_imports.wanted(outcome)
            is_early = module is not None and module not in asked
            if fullgraph and isinstance(outcome, Stopped) and not is_early:
                raise outcome.record.error()
            region = finish(executor, outcome)
            if module is not None and is_early and early_imports.may_come_early(region):
                raise ModuleWanted(module)
            if fullgraph and region.breaks:
                raise region.breaks[0].error()
            return region
        except SkipFrame as skip:
            if fullgraph and not skip.even_whole and not skip.may_be_nest:
                raise GraphBreakError(f"{function.__qualname__}: {skip.reason}") from None
            return Skip(skip.reason, skip.permanent, skip.guards, skip.may_be_nest)


def computes_nothing(region: Region) -> bool:
    """True for a region that reaches the function's end without any tensor operation.

    The original does the same for every call under the same guards, unless it asked whether it is
    compiled: it is what runs.
    """
    is_whole = isinstance(region.end, (Raise, Return))
    return is_whole and not region.graph.outputs and not region.asks_compiling


def compile_entry(
    function: FunctionType,
    arguments: tuple[Any, ...],
    options: Options,
    memory: SizeMemory | None = None,
) -> Compilation:
    """Capture one call, compile its graph, and make the new function.

    The caller publishes `compilation.region.guards` with `compilation.function`; where
    `function` is None it remembers to run the original (`region.permanent`: for every call).

    Raises:
        GraphBreakError: `options.fullgraph` and a break, or a derivative that nobody has.
        DynamicSizeError: the code forces a number on a size that is marked dynamic.
        BackendError: of a backend of the program's own.
    """
    stages: dict[str, float] = {}
    if own_builtins.are_replaced():
        return Compilation(Skip(own_builtins.MSG_BUILTINS, permanent=False), None, None, stages)
    try:
        with overriding.classes_unasked():  # what is read of tensors here, no program reads
            return _compile(function, arguments, options, stages, memory)
    except (GraphBreakError, DynamicSizeError, BackendError):
        raise
    except NoDerivativeError as error:  # if backward needs it, it raises there
        if options.fullgraph:
            raise GraphBreakError(f"{function.__qualname__}: {error}") from None
        return Compilation(Skip(str(error)), None, None, stages)
    except MemoryError:
        return Compilation(Skip(MSG_MEMORY, permanent=False), None, None, stages)
    except Exception as error:
        if isinstance(error, RecursionError):
            reason = MSG_DEEP if cache.is_deep() else MSG_NESTED
            return Compilation(Skip(reason, permanent=False), None, None, stages)
        if config.current().strict:
            raise
        message = failure_text(function.__qualname__, error)
        warn(message, CompileWarning)
        return Compilation(Skip(message), None, None, stages, error)


def failure_text(name: str, error: Exception) -> str:
    """What the user is told where a function runs as plain Python because of an error."""
    text = MSG_TOOLCHAIN if isinstance(error, ToolchainError) else MSG_INTERNAL
    return text.format(name=name, kind=type(error).__name__, error=error)


def _compile(
    function: FunctionType,
    arguments: tuple[Any, ...],
    options: Options,
    stages: dict[str, float],
    memory: SizeMemory | None,
) -> Compilation:
    started = time.perf_counter()
    region = capture(
        function,
        arguments,
        fullgraph=options.fullgraph,
        needs_tensors=options.needs_tensors,
        forced=options.forced,
        memory=memory,
        unasked=ask_no_class(0) - 1,
        keeps_plain=options.keeps_plain or options.publish_all,
        lists=options.lists,
    )
    stages["capture"] = _milliseconds(started)
    if isinstance(region, Skip):
        is_kept = region.guards or region.may_be_nest
        plain = _plain_version(function) if is_kept else None
        if plain is None or not region.may_be_nest or options.needs_tensors:
            return Compilation(region, plain, None, stages)
        made = _list_version(plain, arguments, options)
        if made is plain and options.fullgraph:  # every turn is captured
            return _compile(function, arguments, replace(options, keeps_plain=True), stages, memory)
        reason = region.reason if made is plain else MSG_NEST
        return Compilation(replace(region, reason=reason), made, None, stages)
    if options.lists and (region.breaks or not region.graph.outputs):
        return Compilation(Skip(MSG_NO_NEST), None, None, stages)
    if computes_nothing(region) and not options.publish_all:
        return Compilation(region, _plain_version(function), None, stages)
    launch = None
    if region.graph.outputs:
        started = time.perf_counter()
        launch = options.backend(
            CapturedGraph(
                region.graph,
                region.requires_grad,
                region.name,
                region.written,
                region.saved,
                region.writes,
                region.copied,
                region.spent,
            )
        )
        stages["backend"] = _milliseconds(started)
    progress.note("emit")
    started = time.perf_counter()
    called = launch if launch is None or not region.has_history else enable_grad()(launch)
    if called is not None and region.states:
        called = Drawing(called, region.states)
    may_fail = bool(getattr(launch, "may_fail", False)) or _takes_integers(region)
    may_fail |= bool(region.states)
    may_fail &= not options.lists  # the list program runs plainly
    try:
        code = emit(function, region, called, _make_resume(options), may_fail)
    except RecursionError:
        return Compilation(Skip(MSG_NESTED, permanent=False), None, None, stages)
    made = like(function, code)
    stages["emit"] = _milliseconds(started)
    settle = getattr(launch, "settle", None)
    if settle is None:
        return Compilation(region, made, launch, stages)
    guards = None
    with contextlib.suppress(OverflowError):  # the cache meets it again
        guards = compile_guards(region.guards)
    progress.note("compiler")
    started = time.perf_counter()
    settle()
    stages["backend"] += _milliseconds(started)
    return Compilation(region, made, launch, stages, guards=guards)


def _takes_integers(region: Region) -> bool:
    """True if a number of the program's reaches the launch that may be larger than int64."""
    return any(
        isinstance(value, Scalar) and value.python_type is int and not _is_bounded(value)
        for value in region.inputs
    )


def _is_bounded(number: Scalar) -> bool:
    bounded = (sources.RandomSeed, sources.RandomOffset, sources.SizeOf, sources.Drawn)
    return isinstance(number.source, bounded)


def _plain_version(function: FunctionType) -> FunctionType:
    """The function with a code object of its own, which the hook lets run."""
    made = like(function, function.__code__.replace())
    _capture.mark_skip(made.__code__)
    return made


def _list_version(
    plain: FunctionType, arguments: tuple[Any, ...], options: Options
) -> Callable[..., Any]:
    """What runs a program over lists of numbers: one nest where it can, else plain Python."""
    code = plain.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_kwonlyargcount:
        return plain
    chosen = replace(options, lists=True, resume=None, fullgraph=False)

    def make(given: tuple[Any, ...], sizes: SizeMemory) -> tuple[CompiledGuards, Any] | None:
        with cache.compiling(code) as is_free:
            if not is_free:
                return None
            made = compile_entry(plain, given, chosen, sizes)
            if made.function is None or isinstance(made.region, Skip):
                return None
            _capture.mark_skip(made.function.__code__)
            return made.guards or compile_guards(made.region.guards), made.function

    program = ListProgram(plain, make, arguments)
    return plain if program.is_given_up else program


def _milliseconds(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


def _make_resume(options: Options) -> MakeResume | None:
    make = options.resume
    if make is None:
        return None

    def resume(rest: Resume, home: Home) -> Callable[..., Any]:
        made: Callable[..., Any] = entry(rest.code, home, make)
        if type(made) is _capture.CompiledFunction:
            made.is_rest = True  # what runs before it may have set a tracer
        return made

    return resume


def like(function: FunctionType, code: CodeType) -> FunctionType:
    """A function with the same globals, closure, defaults and name, and other code."""
    made = _bare(function, code)
    made.__defaults__ = function.__defaults__
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__dict__.update(function.__dict__)
    return made


def _bare(function: FunctionType, code: CodeType) -> FunctionType:
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def bind(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments in the order of `co_varnames`, as `capture` wants them.

    Raises:
        TypeError: as the call itself would raise.
    """
    bound = inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments[name] for name in decode(function.__code__).parameters)
