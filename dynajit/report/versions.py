"""Versions: what one compilation made, as reports keep and show it.

`Made` is kept by the cache's entry (`capture.entry.cache.Published.facts`): it has graphs, records
and texts, no object of the program's. `Version` is what reports show: the same with its guards as
text and how often it ran.
"""

import os
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from dynajit import capture, codegen, core, eager
from dynajit.capture.bytecode.resume import start_of
from dynajit.capture.entry.cache import cache_of
from dynajit.capture.entry.session import Compilation
from dynajit.capture.guards.facts import FunctionFacts, Remembered
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.places.sources import Attribute, ClassAttribute, Constant, Source, State
from dynajit.capture.region.region import Region
from dynajit.core.records import record
from dynajit.ir.graph import Graph
from dynajit.ops.native._library_call import LibraryFunction

if TYPE_CHECKING:
    from dynajit.driver.launches import GraphRecord

#: A place in user code: file and line.
Line = tuple[str, int]

#: Guards of how objects are looked up, not of what they hold: nobody's call changes them.
_MACHINERY: Final = frozenset(
    {
        Kind.HAS_NO_ATTRIBUTE, Kind.INSTANCE_LACKS, Kind.CLASS_UNCHANGED, Kind.REGISTRATIONS,
        Kind.ENDS_QUIETLY, Kind.EXISTS, Kind.WRITES_CHECKED, Kind.CLASSES_ASKED, Kind.SUBCLASSES,
    }
)  # fmt: skip
#: Where modules keep what programs reach by other names.
_REGISTRIES: Final = frozenset(
    {"_parameters", "_buffers", "_modules", "_call_hooks", "_compiled_call", "_call_forward"}
)

#: Classes of values that programs pass.
_PLAIN: Final = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)


@record
class Break:
    """One graph break.

    Args:
        reason: what happened, a sentence.
        file, line: the user's line.
        hint: what to change.
        name: the row of the table of breaks.
        fundamental: True where no compiler could go on.
        text: everything, with the source line and a caret.
        follows: it is only there because of another break: it is not counted.
    """

    reason: str
    file: str
    line: int
    hint: str
    name: str
    fundamental: bool
    text: str
    follows: bool = False


@record(eq=False)
class Made:
    """What one compilation made.

    Args:
        function: qualified name.
        code: of the function, as it was written.
        lines: user lines that were captured.
        breaks: where it ends, at most one.
        graph: what is computed; None if nothing is.
        launched: what was made of the graph; None where a backend of the program's keeps none.
        stages: milliseconds of capture and of emission.
        started: `time.perf_counter()` at the beginning.
        milliseconds: from there to the end.
        skip: why the function runs as plain Python; empty if it does not.
        is_rest: it is what follows a break: its code was made.
    """

    function: str
    code: CodeType
    lines: frozenset[Line]
    breaks: tuple[Break, ...]
    graph: Graph | None
    launched: "GraphRecord | None"
    stages: dict[str, float]
    started: float
    milliseconds: float
    skip: str = ""
    is_rest: bool = False

    @property
    def place(self) -> Line:
        """File and line of the definition."""
        return self.code.co_filename, self.code.co_firstlineno

    def all_stages(self) -> dict[str, float]:
        """Milliseconds per stage, those of the backend one by one, in the order in which they ran.

        Programs are compiled while others wait, so the sum may be more than `milliseconds`.
        """
        inner = {} if self.launched is None else self.launched.stages
        found: dict[str, float] = {}
        for name, value in self.stages.items():
            found.update(inner if name == "backend" and inner else {name: value})
        return found


@record
class GuardText:
    """A guard in words.

    Args:
        text: the condition as Python.
        place: what it is about, as Python.
        location: the user's line that relied on it, if any.
        reason: why, such as "branch condition"; may be empty.
        is_own: the library checks something of its own; else it is about the program's values.
    """

    text: str
    place: str
    location: Line | None
    reason: str
    is_own: bool


@record(eq=False)
class Version:
    """One version of one function.

    Args:
        made: what was compiled.
        number: 0 for the first version of the function, or of the explanation.
        conditions: when it may run, as published: they keep no object of the program's alive.
        hits: how often it ran after the call that made it; None where that is not counted.
    """

    made: Made
    number: int
    conditions: tuple[Guard, ...]
    hits: int | None = None

    @property
    def guards(self) -> tuple[GuardText, ...]:
        """The conditions in words, made anew each time."""
        return guard_texts(self.conditions)


def made_of(
    function: FunctionType, compilation: Compilation, started: float, milliseconds: float
) -> Made:
    """What reports keep of a compilation."""
    region = compilation.region
    name, code = function.__qualname__, function.__code__
    is_rest = start_of(code) > 0
    if not isinstance(region, Region):
        stages, skip = compilation.stages, region.reason
        return Made(
            name, code, frozenset(), (), None, None, stages, started, milliseconds, skip, is_rest
        )
    return Made(
        function=name,
        code=code,
        lines=region.lines,
        breaks=tuple(map(break_of, region.breaks)),
        graph=region.graph if region.graph.calls else None,
        launched=getattr(compilation.launch, "record", None),
        stages=compilation.stages,
        started=started,
        milliseconds=milliseconds,
        is_rest=is_rest,
    )


def break_of(found: Any) -> Break:
    """A break record of capture as report data."""
    detail = f": {found.detail}" if found.detail else ""
    return Break(
        reason=f"{found.reason.explanation}{detail}",
        file=found.location.file,
        line=found.location.line,
        hint=found.hint,
        name=found.reason.name,
        fundamental=found.reason.fundamental,
        text=str(found),
        follows=found.follows,
    )


def guard_texts(guards: Iterable[Guard]) -> tuple[GuardText, ...]:
    """Guards in words, each text once."""
    found: dict[str, GuardText] = {}
    for guard in guards:
        text = guard.expression()
        if text not in found:
            at = guard.location
            location = None if at is None else (at.file, at.line)
            place = guard.source.expression()
            found[text] = GuardText(text, place, location, guard.reason, is_own(guard))
    return tuple(found.values())


def is_own(guard: Guard) -> bool:
    """True if a guard checks what the library itself relies on, not what the program passes."""
    source, expected = guard.source, guard.expected
    if guard.kind in (Kind.TENSOR, Kind.SEPARATE_MEMORY, Kind.NO_SHARED_STORAGE):
        return False
    if guard.kind in _MACHINERY or _is_in_registry(source):
        return True
    if guard.kind is Kind.HAS_NO_KEY and _is_in_registry(source.parent or source):
        return True
    if isinstance(source.root, State):
        return guard.kind is not Kind.GRAD_MODE
    if guard.kind is Kind.TYPE_IS and _held(expected) in _PLAIN:
        return any(map(_is_of_library, source.chain()))
    return _is_librarys(_held(expected)) or any(map(_is_of_library, source.chain()))


def _is_in_registry(source: Source) -> bool:
    return isinstance(source, (Attribute, ClassAttribute)) and source.name in _REGISTRIES


def _is_of_library(source: Source) -> bool:
    """A place within the library: one of its modules or functions, or a hook of a module's call."""
    if isinstance(source, Constant):
        return _is_librarys(_held(source.value))
    return isinstance(source, Attribute) and source.name == "_call_hooks"


def _held(value: Any) -> Any:
    if type(value) is Remembered:
        return value.reference()
    if type(value) is FunctionFacts:
        return value.code
    return value


def _is_librarys(value: Any) -> bool:
    """True for modules, classes, functions and code of dynajit and of Python itself."""
    if type(value) is CodeType:
        return is_library_file(value.co_filename)
    if isinstance(value, ModuleType):
        name = vars(value).get("__name__")
    elif isinstance(value, type):
        name = type.__dict__["__module__"].__get__(value)
    elif isinstance(value, (FunctionType, BuiltinFunctionType, LibraryFunction)):
        name = value.__module__
    else:
        return False
    return type(name) is str and name.partition(".")[0] in ("dynajit", "builtins", "collections")


def is_library_file(file: str) -> bool:
    """True for files of dynajit."""
    return file.startswith(_FOLDERS)


def _folder_of(package: ModuleType) -> str:
    return os.path.dirname(os.path.abspath(str(package.__file__)))


#: Where dynajit lies: its engines may be in folders beside it.
_FOLDERS: Final = tuple(
    os.path.join(folder, "")
    for folder in (os.path.dirname(_folder_of(core)), *map(_folder_of, (capture, codegen, eager)))
)


def versions_alive(members: Iterable[Any]) -> tuple[Version, ...]:
    """The versions of compiled functions that may still run, in the order of their making."""
    found = []
    for member in members:
        cache = cache_of(member)
        hits = cache.hits(member)
        for entry in cache.entries(member):
            if isinstance(entry.facts, Made):
                guards = entry.guards.guards
                found.append(Version(entry.facts, entry.number, guards, hits[entry.number]))
    return tuple(sorted(found, key=lambda version: version.made.started))
