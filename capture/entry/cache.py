"""What a compiled function remembers: entries, recompiles with their reasons, eviction.

One `FunctionCache` stands behind each `_capture.CompiledFunction` and is asked when no entry's
guards hold. It explains which guards failed, has one region compiled at a time per code object,
publishes an immutable `Entry`, and evicts the oldest entry beyond `config.recompile_limit`.
`Callees` does the same for frames that the scoped hook meets below a region with breaks.

The injected `compile` is `capture.entry.session`'s.
"""

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, Final, TypeAlias

from dynajit.capture import _capture
from dynajit.capture.entry import own_builtins
from dynajit.capture.entry.recurring import Recompiles
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind, is_about_a_value
from dynajit.capture.guards.tree import CompiledGuards, Failure, compile_guards
from dynajit.capture.tensors.size_memory import SizeMemory
from dynajit.core.errors import CompileWarning, InternalError, RecompileError
from dynajit.core.process import config
from dynajit.core.process.collector import seldom
from dynajit.core.process.logs import write
from dynajit.core.process.warning import warn
from dynajit.core.records import record
from dynajit.ops.table import dispatch, overriding

MSG_LIMIT: Final = (
    "{name} was compiled {limit} times for different inputs; the oldest version is dropped from "
    "now on.  The last recompile: {reason}.  Pass the changing number as a tensor, keep shapes "
    "fixed, or raise dynajit.config.recompile_limit."
)
MSG_GIVEN_UP: Final = (
    "{name} was compiled {count} times, and calls come that no version fits: they run as plain "
    "Python from now on; versions that fit are still used.  The last reason: {reason}.  Pass what "
    "changes as a tensor, or call dynajit.reset()."
)
#: Versions dropped, per version kept, before a function that never settles is left alone.
PATIENCE: Final = 8
#: Versions for classes of one class statement before it counts as one that every call runs.
VERSIONS_OF_A_CLASS: Final = 2
#: Compiles of the rest of a function before it is asked whether they pay.
VERSIONS_OF_A_REST: Final = 8
#: Calls that ran plainly, since versions are made in vain, before nobody asks any more whether one
#: fits, and how many of them there are for one that fitted.
MOST_IN_VAIN: Final = 64
HITS_WORTH: Final = 8
#: Recompiles and skips that are kept for reports: a program that needs a version for each of the
#: classes that it makes does not keep what each was compiled for, for ever.
MOST_NOTED: Final = 100
MSG_RARE: Final = "nearly every call needs a version of its own"
MSG_NOT_WHOLE: Final = (
    "{name} runs as plain Python where no version fits: {reason}.  Without fullgraph=True the code "
    "around the place that needs it is compiled."
)
MSG_CHANGES: Final = "versions were made again and again for another {reason}"

#: How often a call is compiled whose guards do not hold right afterwards: another thread, a
#: finalizer or the collector may change what was looked at meanwhile.
ATTEMPTS: Final = 3
#: Guards that ask about a moment: nothing at their place says whether the world changed.
_OF_THE_MOMENT: Final = (Kind.REGISTRATIONS, Kind.ENDS_QUIETLY)
MSG_NEW_CLASS: Final = (
    "{name} runs as plain Python for a class that a class statement makes anew in every call "
    "({reason}).  Define the class outside of the compiled function."
)
MSG_UNSTABLE: Final = (
    "{name} runs as plain Python: right after it was compiled its guard did not hold ({reason}).  "
    "Please report this."
)
MSG_CHANGED: Final = (
    "what it was compiled for changed meanwhile, by another thread, a finalizer or the collector "
    "({reason})"
)
MSG_LARGE: Final = "a relation between numbers needs one of more than 64 bits"
MSG_STANCE: Final = (
    "{name} would have to be compiled, and the stance is fail_on_recompile: {reason}.  Call it "
    "with what it was compiled for, or set another stance."
)


@record
class Published:
    """What one compile hands to the cache.

    Args:
        guards: facts under which `function` may run.
        function: replacement with the original's signature, globals and closure; None where the
            original must run.
        is_scoped: the region has breaks: frames called from it are shown to the hook's callback.
        facts: anything the reports want to keep (kernels, graph, breaks); must not hold user
            objects.
        permanent: with `function` None: no other call could do better, never ask again.
        reason: with `function` None: why.
        compiled: the guards compiled, if they are already.
    """

    guards: tuple[Guard, ...] = ()
    function: Callable[..., Any] | None = None
    is_scoped: bool = False
    facts: Any = None
    permanent: bool = False
    reason: str = ""
    compiled: CompiledGuards | None = None


Compile: TypeAlias = Callable[[FunctionType, tuple[Any, ...]], Published]


@record(eq=False)
class Entry:
    """One published version of a function. Its hits are counted in C: `FunctionCache.hits`.

    Args:
        number: 0 for the first compile of the function.
        guards: the facts it relies on.
        function: the function that runs.
        is_scoped: see `Published`.
        facts: see `Published`.
    """

    number: int
    guards: CompiledGuards
    function: Callable[..., Any]
    is_scoped: bool
    facts: Any


@record
class Recompile:
    """One compile that was needed although entries existed.

    Args:
        number: of the entry that was made, or None where nothing was published.
        failures: per existing entry the first guard that failed: what no entry knows comes first,
            then those of the most recently used ones.
        sizes: the sizes that are symbols from now on, such as "x.shape[0]: 3 -> 4; now dynamic".
        milliseconds: that it took.
    """

    number: int | None
    failures: tuple[Failure, ...]
    sizes: tuple[str, ...] = ()
    milliseconds: float = 0.0

    @property
    def reason(self) -> str:
        """What changed, or where nothing is new, why the most recently used entry did not fit."""
        if self.sizes:
            return "; ".join(self.sizes)
        return self.failures[0].explanation if self.failures else "its entries were dropped"


@dataclass(slots=True, eq=False)
class FunctionCache:
    """Entries and history of one compiled function (mutable; changed under the compile lock).

    Args:
        name: qualified name for messages.
        compile: (function, flat arguments) -> Published.
        sizes: what `compile` knows about sizes, or None.
        recompiles: compiles that existing entries could have spared, the last `MOST_NOTED`.
        recurring: all of them, counted by the guard that failed.
        skips: reasons of calls that ran as plain Python, the last `MOST_NOTED`.
        compile_count: compiles so far, also those that published nothing.
        evicted_count: entries dropped because of the limit.
        skip_count: captures so far that gave nothing to run.
        skips_in_a_row: those since the last version was made.
        plain_count: calls that ran plainly, since versions are made in vain.
    """

    name: str
    compile: Compile
    sizes: SizeMemory | None = None
    recompiles: list[Recompile] = field(default_factory=list)
    recurring: Recompiles = field(default_factory=lambda: Recompiles(MOST_NOTED))
    skips: list[str] = field(default_factory=list)
    compile_count: int = 0
    evicted_count: int = 0
    skip_count: int = 0
    skips_in_a_row: int = 0
    plain_count: int = 0
    _next_number: int = 0
    _warned: bool = False
    _said_given_up: bool = False
    _said_new_class: bool = False

    def on_miss(
        self, compiled: Any, function: FunctionType, arguments: tuple[Any, ...]
    ) -> Callable[..., Any] | None:
        """The function to call when no entry fits; None: the original. Called by C, for which a
        RecursionError is None, too: there is no room for the compiler.

        Args:
            compiled: the CompiledFunction.
            function: the function being called; below the hook it may be another closure of the
                same code than the one `compiled` was made from.
            arguments: flat, in the order of `co_varnames`.
        """
        if own_builtins.are_replaced():
            if self.skips[-1:] != [own_builtins.MSG_BUILTINS]:
                self.skips.append(own_builtins.MSG_BUILTINS)
            return None
        if overriding.active_modes():
            return None  # they see every call
        stance = config.current().stance
        if stance == "eager_on_recompile":
            return None
        if stance == "fail_on_recompile":
            self._refuse(compiled, function, arguments)
        if _thread.is_compiling:  # by the compiler, or a handler of signals that interrupts it
            is_recorded = dispatch.is_recording() and function is compiled.__wrapped__
            return _unrecorded(function) if is_recorded else None
        _thread.is_compiling = True
        try:
            return self._miss(compiled, function, arguments)
        finally:
            _thread.is_compiling = False

    def _miss(
        self, compiled: Any, function: FunctionType, arguments: tuple[Any, ...]
    ) -> Callable[..., Any] | None:
        """The same where something may be compiled."""
        with _lock_of(function.__code__):
            found = self._find(compiled, function, arguments)
            if found is not None:
                return found  # another thread was faster
            self._drop_dead(compiled)
            if self._is_rarely_met_again(compiled) or self._gives_up():
                self._note_plain(compiled)
                return None
            failures = self._failures(compiled, function, arguments)
            if self._meets_new_class(compiled, failures) or self._compiles_in_vain(failures):
                self._note_plain(compiled)
                return None
            with seldom():
                return self._compile(compiled, function, arguments, failures)

    def _refuse(self, compiled: Any, function: FunctionType, arguments: tuple[Any, ...]) -> None:
        failures = self._failures(compiled, function, arguments)
        reason = failures[0].explanation if failures else "nothing has been compiled yet"
        raise RecompileError(MSG_STANCE.format(name=self.name, reason=reason))

    def entries(self, compiled: Any) -> tuple[Entry, ...]:
        """Published entries, in the order in which they are tried."""
        return tuple(entry for entry, _ in compiled.entries())

    def hits(self, compiled: Any) -> dict[int, int]:
        """Entry number -> how often it ran (not counting the call that made it)."""
        return {entry.number: hits for entry, hits in compiled.entries()}

    def clear(self, compiled: Any) -> None:
        """Forget every entry and the history, and compile again at the next call."""
        with _lock_of(compiled.__code__):
            compiled.clear_entries()
            compiled.disabled = False
            self.recompiles.clear()
            self.recurring.clear()
            self.skips.clear()
            self.skip_count = self.skips_in_a_row = self.evicted_count = self.plain_count = 0
            self._said_given_up = False
            self._said_new_class = False
            if self.sizes is not None:
                self.sizes.forget()

    def _find(
        self, compiled: Any, function: FunctionType, arguments: tuple[Any, ...]
    ) -> Callable[..., Any] | None:
        for entry in self.entries(compiled):
            if entry.guards.evaluator.check(arguments, function):
                return entry.function
        return None

    def _compile(
        self,
        compiled: Any,
        function: FunctionType,
        arguments: tuple[Any, ...],
        failures: tuple[Failure, ...],
    ) -> Callable[..., Any] | None:
        if failures:
            self._note_failure(failures[0].guard)
        self.compile_count += 1
        started = time.perf_counter()
        published, guards, unstable = self._make(function, arguments)
        upset = [unstable]
        while unstable is not None and len(upset) < ATTEMPTS:
            published, guards, unstable = self._make(function, arguments)
            upset.append(unstable)
        if published.function is None:
            self._skip(compiled, published)
            return None
        if unstable is not None:
            self._refuse_unstable(compiled, upset)
            return None
        replacement: Any = published.function
        if function is not compiled.__wrapped__:  # a frame of the hook: only the code will run
            replacement = shell_of(replacement)
        entry = Entry(self._next_number, guards, replacement, published.is_scoped, published.facts)
        self._next_number += 1
        if entry.number:
            news = () if self.sizes is None else tuple(self.sizes.news)
            elapsed_ms = 1e3 * (time.perf_counter() - started)
            self._note_recompile(Recompile(entry.number, failures, news, elapsed_ms))
        self.skips_in_a_row = 0
        self._evict(compiled)
        compiled.add_entry(guards.evaluator, entry.function, entry, entry.is_scoped)
        return entry.function

    def _make(
        self, function: FunctionType, arguments: tuple[Any, ...]
    ) -> tuple[Published, CompiledGuards, Failure | None]:
        """A version for a call, its guards, and which of them does not hold for that call."""
        published = self.compile(function, arguments)
        try:
            guards = published.compiled
            if guards is None:
                guards = compile_guards(published.guards)
        except OverflowError:  # relations are computed with 64 bits
            return Published(reason=MSG_LARGE), compile_guards(()), None
        if published.function is None:
            return published, guards, None
        return published, guards, guards.explain_failure(arguments, function)

    def _failures(
        self, compiled: Any, function: FunctionType, arguments: tuple[Any, ...]
    ) -> tuple[Failure, ...]:
        """See `Recompile`."""
        entries = self.entries(compiled)
        found = [entry.guards.explain_failure(arguments, function) for entry in entries]
        failures = [failure for failure in found if failure is not None]
        if len(failures) < 2:
            return tuple(failures)
        guards = [entry.guards for entry in entries]
        known = {
            id(failure): any(other.knows(failure.guard, arguments, function) for other in guards)
            for failure in failures
        }
        return tuple(sorted(failures, key=lambda failure: known[id(failure)]))

    def _note_failure(self, guard: Guard) -> None:
        """A version is made since this guard failed."""
        place = guard.source.expression()
        if self.sizes is None:
            return
        if guard.kind is Kind.TENSOR:
            self.sizes.note_forced(place)
        elif is_about_a_value(guard.kind, guard.expected):
            self.sizes.churn.note(place, guard.kind is Kind.TYPE_IS, guard.location)

    def _note_plain(self, compiled: Any) -> None:
        """A call runs plainly, since versions are made in vain. To find that out takes as long as
        hundreds of lines: after many such calls, and hardly any that fit a version, nobody asks.
        """
        self.plain_count += 1
        if self.plain_count >= MOST_IN_VAIN and compiled.hits * HITS_WORTH < self.plain_count:
            compiled.disabled = True

    def _drop_dead(self, compiled: Any) -> None:
        """Forget versions for objects that have died, but for the last: `_meets_new_class` asks."""
        dead = [entry for entry in self.entries(compiled) if entry.guards.evaluator.is_dead]
        for entry in dead[VERSIONS_OF_A_CLASS:]:
            compiled.remove_entry(entry)

    def _is_rarely_met_again(self, compiled: Any) -> bool:
        """True for the rest of a function, such as the next turns of a loop, whose versions fit
        hardly any later call: it runs plainly as long as they do not.
        """
        rare = self.compile_count >= VERSIONS_OF_A_REST and compiled.hits * 2 < self.compile_count
        if not compiled.is_rest or not rare:
            return False
        if self.skips[-1:] != [MSG_RARE]:
            self.skips.append(MSG_RARE)
        return True

    def _gives_up(self) -> bool:
        """True if so many versions were dropped that new ones would be dropped, too, or so many
        captures in a row gave nothing to run that the next would give nothing, too."""
        if self.skips_in_a_row >= config.current().recompile_limit:
            return True
        if self.evicted_count < PATIENCE * config.current().recompile_limit:
            return False
        if not self._said_given_up:
            self._said_given_up = True
            reason = self.recompiles[-1].reason if self.recompiles else "unknown"
            message = MSG_GIVEN_UP.format(name=self.name, count=self.compile_count, reason=reason)
            warn(message, CompileWarning)
        return True

    def _compiles_in_vain(self, failures: tuple[Failure, ...]) -> bool:
        """True if versions are made again and again for a place that was left to Python."""
        if self.sizes is None or not failures:
            return False
        guard = failures[0].guard
        place = guard.source.expression()
        if not self.sizes.churn.is_in_vain(place, guard.kind is Kind.TYPE_IS):
            return False
        reason = MSG_CHANGES.format(reason=place)
        if reason not in self.skips:
            self.skips.append(reason)
            if not self.sizes.churn.may_break:
                warn(MSG_NOT_WHOLE.format(name=self.name, reason=reason), CompileWarning)
        return True

    def _meets_new_class(self, compiled: Any, failures: tuple[Failure, ...]) -> bool:
        """True if a class statement that runs in every call makes every version useless.

        Its class is another one each time; two versions that failed for no other reason show it.
        """
        if compiled.entry_count < VERSIONS_OF_A_CLASS:
            return False
        if not failures or not all(failure.is_about_new_class for failure in failures):
            return False
        if not self._said_new_class:
            self._said_new_class = True
            message = MSG_NEW_CLASS.format(name=self.name, reason=failures[0].explanation)
            self.skips.append(message)
            write("recompiles", message)
        return True

    def _skip(self, compiled: Any, published: Published) -> None:
        self.skips.append(published.reason)
        self.skip_count += 1
        self.skips_in_a_row += 1
        del self.skips[:-MOST_NOTED]
        limit = config.current().recompile_limit
        hopeless = self.skip_count >= limit and not compiled.entry_count
        if hopeless or (published.permanent and not compiled.entry_count):
            compiled.disabled = True

    def _refuse_unstable(self, compiled: Any, failures: list[Failure | None]) -> None:
        """Leave a call alone whose guards did not hold after any attempt.

        A place where every attempt found the same, and none had captured that, did not change:
        the compiler is at fault.
        """
        failure = failures[-1]
        assert failure is not None
        places = {f and (f.guard.source.expression(), f.guard.kind, f.new) for f in failures}
        if len(places) > 1 or failure.guard.kind in _OF_THE_MOMENT:
            self._skip(compiled, Published(reason=MSG_CHANGED.format(reason=failure.explanation)))
            return
        message = MSG_UNSTABLE.format(name=self.name, reason=failure.explanation)
        if config.current().strict:
            raise InternalError(message)
        compiled.disabled = True
        self.skips.append(message)
        warn(message, CompileWarning)

    def _note_recompile(self, recompile: Recompile) -> None:
        self.recompiles.append(recompile)
        del self.recompiles[:-MOST_NOTED]
        self.recurring.note(recompile.failures, recompile.milliseconds, recompile.sizes)
        write("recompiles", f"{self.name}: {recompile.reason}")

    def _evict(self, compiled: Any) -> None:
        limit = config.current().recompile_limit
        while compiled.entry_count >= limit:
            oldest = min(self.entries(compiled), key=lambda entry: entry.number)
            compiled.remove_entry(oldest)
            self.evicted_count += 1
            if not self._warned:
                self._warned = True
                reason = self.recompiles[-1].reason if self.recompiles else "unknown"
                message = MSG_LIMIT.format(name=self.name, limit=limit, reason=reason)
                warn(message, CompileWarning)


def compiled_function(
    function: FunctionType,
    compile: Compile,
    callback: Any = None,
    sizes: SizeMemory | None = None,
) -> "_capture.CompiledFunction":
    """A compiled function with an empty cache.

    Args:
        function: a plain Python function.
        compile: makes a region for one call; its exceptions reach the caller.
        callback: `Callees` for frames below regions with breaks, or None.
        sizes: what `compile` knows about sizes: forgotten with the entries.

    Raises:
        TypeError: `function` is not a Python function.
    """
    cache = FunctionCache(getattr(function, "__qualname__", repr(function)), compile, sizes)
    return _capture.CompiledFunction(function, cache.on_miss, callback)


def is_deep() -> bool:
    """True if the program, not the compiler, has used up the stack."""
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth > sys.getrecursionlimit() // 2


def cache_of(compiled: Any) -> FunctionCache:
    """The cache behind a compiled function."""
    cache = compiled.on_miss.__self__
    if not isinstance(cache, FunctionCache):
        raise InternalError(f"{compiled!r} has no FunctionCache")
    return cache


@dataclass(slots=True, eq=False)
class Callees:
    """The hook's callback: which CompiledFunction a frame's code uses (mutable).

    The C side remembers the answer in the code object, so this runs once per code object and
    thread of interest; it owns the CompiledFunctions it made.

    Args:
        make: function -> CompiledFunction, or None where its frames shall run as they are
            (library code, code that cannot be captured). It gets a `shell_of` the function met:
            its code, globals and names; nothing that belongs to one closure or one call.
    """

    make: Callable[[FunctionType], Any]
    functions: dict[CodeType, Any] = field(default_factory=dict)

    def __call__(self, function: FunctionType, arguments: tuple[Any, ...]) -> Any:
        """The CompiledFunction for a frame met for the first time, or None."""
        code = function.__code__
        found = self.functions.get(code)
        if found is not None and found.__code__ is code:
            return found
        made = self.make(shell_of(function))
        if made is None:
            _capture.mark_skip(code)
            return None
        self.functions[code] = made
        return made


def shell_of(function: FunctionType) -> FunctionType:
    """The function without closure contents and defaults, so that it keeps no user object alive.

    For functions known only by frames of their code: a frame brings its own closure.
    """
    closure = function.__closure__
    shell = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        None,
        closure and tuple(CellType() for _ in closure),
    )
    shell.__qualname__ = function.__qualname__
    shell.__module__ = function.__module__
    return shell


def mark_skip(functions: Iterable[Any]) -> None:
    """Tell the hook to leave frames of these functions alone."""
    for function in functions:
        _capture.mark_skip(function.__code__)


def _unrecorded(function: FunctionType) -> FunctionType:
    """The function, to be called while something else is being captured."""

    def call(*args: Any, **keywords: Any) -> Any:
        with dispatch.suspended():
            return function(*args, **keywords)

    return call  # type: ignore[return-value]


class _Thread(threading.local):
    """Whether this thread is compiling: what it calls meanwhile runs as plain Python, since it
    holds locks of its own, and those of others."""

    is_compiling = False
    is_compiling_apart = False


_thread: Final = _Thread()


@contextlib.contextmanager
def compiling(code: CodeType) -> Iterator[bool]:
    """What compiles outside of a miss; gives whether it may: not within another compile."""
    if _thread.is_compiling_apart:
        yield False
        return
    was, _thread.is_compiling = _thread.is_compiling, True
    _thread.is_compiling_apart = True
    try:
        with _lock_of(code):
            yield True
    finally:
        _thread.is_compiling, _thread.is_compiling_apart = was, False


class _Locks:
    """One re-entrant lock per code object; mutable. A forked child has none of its parent's, which
    threads may hold that it does not have."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """As a new process has them."""
        self.guard = threading.RLock()
        self.known: weakref.WeakKeyDictionary[CodeType, Any] = weakref.WeakKeyDictionary()


_locks: Final = _Locks()


def _lock_of(code: CodeType) -> Any:
    with _locks.guard:
        return _locks.known.setdefault(code, threading.RLock())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.forget)
