"""`compile` and what belongs to it: the one place where capture, ir and codegen are joined.

`compile(fn)` makes a C entry object (`capture.entry.cache.compiled_function`) whose misses come
back to `Compiler.publish`: capture the call, build its graph with the chosen backend, and publish
guards and new code. Frames met below a region with breaks, and resume functions, use the same
Compiler.
"""

import functools
import inspect
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import field
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture import control
from dynajit.capture._capture import CompiledFunction
from dynajit.capture.control import (
    allow_in_graph,
    graph_break,
    is_compiling,
    set_stance,
)
from dynajit.capture.guards.churn import Churn
from dynajit.capture.tensors.size_memory import SizeMemory, mark_dynamic, mark_static
from dynajit.core.errors import ArgumentError, ArgumentRuntimeError, ExpectationError
from dynajit.core.process import config, progress
from dynajit.core.process.late import Late, load
from dynajit.core.process.logs import is_on, write
from dynajit.core.process.recording import Kind, recorded
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.driver import cost_model, watching
from dynajit.driver.patterns import register_pattern
from dynajit.driver.registered_backends import list_backends, register_backend
from dynajit.nn.compiled_calls import made_compiled_calls, original_of, shared
from dynajit.nn.module import Module
from dynajit.nn.state import install_compiler
from dynajit.ops.native._library_call import LibraryFunction
from dynajit.ops.table.overriding import as_written
from dynajit.report import history
from dynajit.report.family import Family, Statistics
from dynajit.report.log import log_compilation

if TYPE_CHECKING:
    from dynajit.capture.entry.cache import Published
    from dynajit.capture.entry.session import Compilation
    from dynajit.capture.region.region import Backend
    from dynajit.report.explanation import Explanation
    from dynajit.report.versions import Made

backends = Late("dynajit.driver.backend")
cache = Late("dynajit.capture.entry.cache")
dump = Late("dynajit.report.dump")
explanations = Late("dynajit.report.explanation")
regions = Late("dynajit.capture.region.region")
session = Late("dynajit.capture.entry.session")
sessions = Late("dynajit.profiler.session")
versions = Late("dynajit.report.versions")

__all__ = [
    "allow_in_graph",
    "compile",
    "compile_stats",
    "disable",
    "explain",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "register_backend",
    "register_pattern",
    "reset",
    "set_stance",
]

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""What `compile(mode=...)` takes."""

OPTIONS: Final = frozenset(
    {"activation_memory_budget", "async", "cost_model", "merge_collectives", "verify"}
)
"""Keys of `compile(options=...)`."""

_statistics = Statistics()
_compiled: "weakref.WeakSet[Any]" = weakref.WeakSet()
_families: "weakref.WeakSet[Family]" = weakref.WeakSet()


@record(eq=False)
class Compiler:
    """How the regions of one `compile` call are made.

    Args:
        backend: see `make_backend`.
        fullgraph: a graph break is an error.
        dynamic: see `compile`.
        watched: gathers every compilation, or None.
        family: everything compiled for this call, for reports.
        churn: guards that keep failing, by the code that they belong to.
        is_measured: versions that are slower than plain Python are left to it.
    """

    backend: "Backend"
    fullgraph: bool = False
    dynamic: bool | None = None
    watched: watching.Watched | None = field(default_factory=watching.begun)
    family: Family = field(default_factory=Family)
    churn: dict[tuple[str, str, int], Churn] = field(default_factory=dict)
    is_measured: bool = False

    def __post_init__(self) -> None:
        # Here, so that a first call takes the time of its own compilation only.
        for part in (backends, cache, session, dump, versions):
            load(part)

    def publish(
        self,
        needs_tensors: bool,
        sizes: SizeMemory,
        function: FunctionType,
        arguments: tuple[Any, ...],
    ) -> "Published":
        """Compile one call; see `capture.entry.cache.Compile`.

        Args:
            needs_tensors: without a tensor it runs as it is.
            sizes: what is known about sizes.
            function, arguments: the call.

        Raises:
            GraphBreakError: fullgraph=True and a break.
        """
        options = session.Options(self.backend, self.fullgraph, self.entry, needs_tensors)
        early = getattr(self.backend, "early", None)  # a callable of the user's has none
        started = time.perf_counter()
        early_compiler = nullcontext() if early is None else early(function.__code__)
        with recorded(Kind.COMPILE, f"compile {function.__qualname__}"):
            with progress.shown(function.__qualname__), early_compiler:
                compilation = session.compile_entry(function, arguments, options, sizes)
            elapsed_ms = 1e3 * (time.perf_counter() - started)
            made = versions.made_of(function, compilation, started, elapsed_ms)
            self._tell(made, compilation, function, arguments)
        region = compilation.region
        published: type[Published] = cache.Published
        if isinstance(region, regions.Skip):
            return published(
                region.guards,
                compilation.function,
                facts=made,
                permanent=region.permanent,
                reason=region.reason,
            )
        return published(
            guards=region.guards,
            function=compilation.function,
            is_scoped=bool(region.breaks),
            facts=made,
            reason="" if compilation.function else "nothing to compile",
            compiled=compilation.guards,
        )

    def entry(self, function: FunctionType) -> Any:
        """A compiled function for `function`."""
        return self._entry(function, needs_tensors=False)

    def _entry(self, function: FunctionType, needs_tensors: bool) -> Any:
        code = function.__code__  # what runs after a break has the name and the line of it all
        place = (code.co_filename, code.co_name, code.co_firstlineno)
        dynamic = config.current().dynamic if self.dynamic is None else self.dynamic
        sizes = SizeMemory(dynamic, churn=self.churn.setdefault(place, Churn(not self.fullgraph)))
        publish = functools.partial(self.publish, needs_tensors, sizes)
        made = cache.compiled_function(function, publish, cache.Callees(self.callee), sizes)
        _compiled.add(made)
        self.family.add(made)
        _families.add(self.family)
        return made

    def callee(self, function: FunctionType) -> Any:
        """A compiled function for a frame below a region, or None if it runs as it is."""
        if control.why_not_captured(function) is not None:
            return None
        return self._entry(function, needs_tensors=True)

    def _tell(
        self,
        made: "Made",
        compilation: "Compilation",
        function: FunctionType,
        arguments: tuple[Any, ...],
    ) -> None:
        if isinstance(compilation.region, regions.Region):
            _statistics.count(compilation.region)
        self.family.count(function.__qualname__, function.__code__, compilation)
        if self.watched is not None:
            self.watched.add(made, function, arguments, compilation)
        log_compilation(function.__qualname__, compilation)
        dump.dump_compilation(function, compilation)
        if compilation.error is not None:
            dump.dump_reproduction(function, arguments, compilation.error)
        record = getattr(compilation.launch, "record", None)
        if record is not None and self.watched is None:
            record.release()


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "native",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
) -> Any:
    """Compile a function, method, lambda, partial or module; usable as a decorator.

    Args:
        model: what to compile; None returns a decorator.
        fullgraph: a graph break is an error that shows the line and what to change.
        dynamic: True: the sizes of arguments are symbols from the first call on, so that one
            version serves all sizes from 2 on. False: every new shape is compiled on its own. None:
            as `config.dynamic` says, which is None unless it was set: a size becomes a symbol when
            it changes. See also `mark_dynamic`.
        backend: "native" (generated C, or CUDA where the tensors are on a GPU; "inductor" is
            accepted, too), "cuda" (on a GPU only), "numpy", "eager" (operation by operation;
            "aot_eager" is accepted, too), a name of `register_backend`, or a callable
            `backend(graph_module, example_inputs) -> callable` (docs/backends.md).
        mode: one of `MODES`, as in PyTorch. They choose how work is launched on a GPU:
            "reduce-overhead" replays CUDA graphs, "max-autotune-no-cudagraphs" chooses kernels by
            measuring in the first call, "max-autotune" does both. On the CPU, where a call is one
            launch and nothing is tuned by measuring, all of them are alike.
        options: `{"verify": True}`: the values that each kernel stores are compared with NumPy's
            in every call, which raises VerificationError if they differ by more than rounding
            explains. Slow; for finding out which kernel is wrong. Only with backend "native".
            Where all kernels are right, the first operation whose values are far from those of
            float64 is named in a PrecisionWarning, with the line.
            `{"activation_memory_budget": 0.5}`: training saves at most so much of the bytes that
            it would save for backward, where computing values again can bring that about; from 0
            to 1. In a function that runs backward itself, so much is kept where it keeps most; only
            what is cheap is computed again there. Gradients may differ by roundings.
            `{"async": True}`: calls run op by op while code for their version is generated and
            compiled, which begins with the second one or a second after the first, and compiled
            from the first call after it is done. A process that ends before waits for the
            compiler. With `Config.log` or `Config.dump`, calls wait for it, too.
            `{"merge_collectives": True}`: small sums over processes (`all_reduce`, `broadcast`)
            that follow each other are one message, where none needs the result of another. All
            processes must compile the function so, and run the same code in it.
            `{"cost_model": True}`: the first calls of a version run compiled and plain in turn, and
            the faster way stays; `report()` and the channel `perf` tell of versions that are left
            to plain Python.
        disable: return `model` as it is.
        name: name in reports, instead of the function's own.

    Returns:
        For a function a callable with the same signature and `report()`, `guards()`. For a module
        a second object of its class with the very same `__dict__`, whose call is compiled: what
        is set, registered or switched (`eval()`) on one holds for both. The original's call
        stays as it is; `forward` and hooks get the original as `self`.

    Raises:
        ArgumentError: `model` cannot be compiled, or an option is not known.
    """
    _check_options(dynamic, mode, options)
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            name=name,
        )
    if disable:
        return model
    is_measured = (options or {}).get("cost_model", False)
    compiler = Compiler(
        _backend(backend, options, mode), fullgraph, dynamic, is_measured=is_measured
    )
    return _compile_any(model, compiler, name)


def _check_options(dynamic: Any, mode: str | None, options: dict[str, Any] | None) -> None:
    if dynamic not in (None, True, False):
        raise ArgumentError(f"compile(dynamic={dynamic!r}): expected None, True or False.")
    if mode not in (None, *MODES):
        raise ArgumentRuntimeError(
            f"compile(mode={mode!r}): not known.  Expected one of {list(MODES)}."
        )
    if mode not in (None, "default") and options:
        raise ArgumentError(
            f"compile(mode={mode!r}, options={options!r}): expected either a mode or options."
        )
    if not set(options or {}) <= OPTIONS:
        raise ArgumentRuntimeError(
            f"compile(options={options!r}): not known.  Expected keys of {sorted(OPTIONS)}."
        )
    for name in ("async", "cost_model", "merge_collectives", "verify"):
        value = (options or {}).get(name, False)
        if type(value) is not bool:
            raise ArgumentError(
                f"compile(options={{{name!r}: {value!r}}}): expected True or False."
            )
    if (options or {}).get("async") and (options or {}).get("merge_collectives"):
        raise ArgumentError(
            f"compile(options={options!r}): while code is compiled, collectives travel one by one, "
            "and other processes may have theirs by then.  Expected 'async' or "
            "'merge_collectives', not both."
        )
    budget = (options or {}).get("activation_memory_budget", 1.0)
    if type(budget) not in (int, float) or not 0 <= budget <= 1:
        raise ArgumentError(
            f"compile(options={{'activation_memory_budget': {budget!r}}}): expected a number from "
            "0 (save as little as possible) to 1 (save what is cheapest)."
        )


def _backend(backend: Any, options: dict[str, Any] | None, mode: str | None = None) -> "Backend":
    """The backend as `compile` was asked for it."""
    chosen = options or {}
    budget = float(chosen.get("activation_memory_budget", 1.0))
    verify, in_background = chosen.get("verify", False), chosen.get("async", False)
    launching = backends.launching_of(mode)
    merges = chosen.get("merge_collectives", False)
    made: Backend = backends.make_backend(backend, verify, budget, in_background, launching, merges)
    return made


def _compile_any(model: Any, compiler: Compiler, name: str | None = None) -> Any:
    if isinstance(model, CompiledFunction):
        model = model.__wrapped__
    if isinstance(model, LibraryFunction):
        return _compile_any(_calling(model), compiler, name or model.__name__)
    if isinstance(model, FunctionType):
        entry = compiler.entry(as_written(model))
        return _with_reports(compiler, entry, name or model.__qualname__)
    if isinstance(model, Module):
        return _compile_module(model, compiler)
    if isinstance(model, MethodType):
        return MethodType(_compile_any(model.__func__, compiler, name), model.__self__)
    if isinstance(model, functools.partial):
        inner = _compile_any(model.func, compiler, name)
        return functools.partial(inner, *model.args, **model.keywords)
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(_compile_any(model.__func__, compiler, name))
    call = inspect.getattr_static(type(model), "__call__", None)
    if isinstance(call, FunctionType) and not isinstance(model, type):
        return MethodType(_compile_any(call, compiler, name), model)
    raise ArgumentError(_why_not(model))


def _calling(library: LibraryFunction) -> Any:
    """A function that calls one of the library as programs do, with `out=` and other names."""

    @functools.wraps(library)
    def call(*args: Any, **named: Any) -> Any:
        return library(*args, **named)

    return call


def disable(
    fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True
) -> Any:
    """What always runs as plain Python, also when compiled code calls it.

    Args:
        fn: a function or any other callable, a module (a second object with its state, as of
            `compile`), or a class, which stays itself: instances are made and called plainly.
            None: a decorator.
        recursive: what it calls runs as plain Python, too; else that may be captured.
        reason: why; graph breaks say so.
        wrapping: accepted for PyTorch's programs, without an effect.

    Raises:
        ExpectationError: `fn` cannot be called.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise ExpectationError(f"disable({fn!r}): expected what can be called.")
    if isinstance(fn, Module):
        original = original_of(fn)
        original._made_call_hooks()
        call = control.disable(type(original)._call_forward, recursive, reason)
        return shared(original, MethodType(call, original))
    if not isinstance(fn, type):
        return control.disable(fn, recursive, reason)
    names = ("__init__", "_call_forward" if issubclass(fn, Module) else "__call__")
    for name in names:
        function = inspect.getattr_static(fn, name, None)
        if isinstance(function, FunctionType):
            setattr(fn, name, control.disable(function, recursive, reason))
    return fn


def _why_not(model: Any) -> str:
    if isinstance(model, BuiltinFunctionType):
        what = f"the built-in function {model.__name__} has no Python code"
    elif isinstance(model, type):
        what = f"{model.__name__} is a class; compile an instance or one of its methods"
    else:
        what = f"{type(model).__name__} objects cannot be called as Python functions"
    return (
        f"compile({model!r}): {what}.  Expected a function, method, lambda, functools.partial or "
        "nn.Module."
    )


def _compile_module(module: Module, compiler: Compiler) -> Module:
    """An object with the very state of `module` whose call is compiled; see `compile`."""
    original = original_of(module)
    original._made_call_hooks()
    made: Module = shared(original, MethodType(_module_call(original, compiler), original))
    return made


def _module_call(module: Module, compiler: Compiler) -> Any:
    """The compiled call of modules of this class, to be called with the module."""
    name = type(module).__qualname__
    call: Any = type(module)._call_forward
    named = FunctionType(call.__code__, call.__globals__, name, call.__defaults__, call.__closure__)
    named.__qualname__ = name
    forward = getattr(type(module), "forward", None)
    if isinstance(forward, FunctionType):
        code = forward.__code__
        setattr(named, control.PASSED_ON, code.co_varnames[1 : code.co_argcount])
    return _with_reports(compiler, compiler.entry(named), name)


def _compile_module_in_place(module: Module, **options: Any) -> None:
    fullgraph, backend = options.pop("fullgraph", False), options.pop("backend", "native")
    dynamic, chosen = options.pop("dynamic", None), options.pop("options", None)
    mode = options.pop("mode", None)
    _check_options(dynamic, mode, {**(chosen or {}), **options})
    is_measured = (chosen or {}).get("cost_model", False)
    made = _backend(backend, chosen, mode)
    call = _module_call(module, Compiler(made, fullgraph, dynamic, is_measured=is_measured))
    made_compiled_calls(module).in_place = call


install_compiler(_compile_module_in_place)


class _Reports:
    """The `report` and `guards` methods of one compiled function, without keeping it alive."""

    __slots__ = ("compiled", "family", "is_measured", "name")

    def __init__(self, compiled: Any, family: Family, name: str, is_measured: bool) -> None:
        self.compiled = weakref.ref(compiled)
        self.family = family
        self.name = name
        self.is_measured = is_measured

    def measure(self, compiled: Any) -> None:
        """After each call that compiled: see `driver.cost_model`."""
        cost_model.measure_versions(compiled, self.name, self.note)

    def note(self, text: str) -> None:
        """Tell reports of a version that is left to plain Python."""
        self.family.skips[text] = None

    def summarise(self, compiled: Any) -> None:
        """After the first call: one line on the channel `summary`."""
        compiled.after_miss = self.measure if self.is_measured else None
        if self.is_measured:
            self.measure(compiled)
        if is_on("summary"):
            write("summary", self.report().summary)

    def report(self) -> history.Report:
        """Calls, hits, versions, recompiles and breaks so far.

        Raises:
            ArgumentRuntimeError: the compiled function does not exist any more.
        """
        return history.report_of(self.name, self._alive("report"), self.family)

    def _alive(self, asked: str) -> Any:
        compiled: Any = self.compiled()
        if compiled is None:
            raise ArgumentRuntimeError(
                f"{self.name}.{asked}(): the compiled function does not exist any more.  Ask "
                "while something refers to it; a report that was made before stays as it is."
            )
        return compiled

    def as_html(self) -> str:
        """What a notebook shows of the compiled function."""
        return self.report().short_html()

    def guards(self) -> list[list[str]]:
        """Per version, most recently used first: its guards as Python expressions."""
        compiled = self._alive("guards")
        entries = cache.cache_of(compiled).entries(compiled)
        return [[guard.expression() for guard in entry.guards.guards] for entry in entries]


def _with_reports(compiler: Compiler, compiled: Any, name: str) -> Any:
    reports = _Reports(compiled, compiler.family, name, compiler.is_measured)
    compiled.report = reports.report
    compiled.guards = reports.guards
    compiled._repr_html_ = reports.as_html
    compiled.after_miss = reports.summarise
    if compiler.watched is not None:
        compiler.watched.made(name, compiled)
    return compiled


def explain(
    model: Any, *, backend: Any = "native", options: dict[str, Any] | None = None
) -> "Callable[..., Explanation]":
    """`explain(fn)(*args)`: compile one call afresh, run it, and say everything that was done.

    Args:
        model: as for `compile`; something already compiled is compiled again from its original.
        backend, options: as for `compile`.
    """
    _check_options(None, None, options)

    def run(*args: Any, **kwargs: Any) -> "Explanation":
        watched = watching.Watched()
        compiler = Compiler(_backend(backend, options), watched=watched)
        compiled = _compile_any(original(model), compiler)
        with sessions.profile() as profile:
            compiled(*args, **kwargs)
        found: Explanation = explanations.explanation_of(
            _name_of(model), watched.compilations, sessions.kernel_times(profile)
        )
        return found

    return run


def original(model: Any) -> Any:
    """What was compiled, if `model` is the result of `compile`; else `model`."""
    if isinstance(model, CompiledFunction):
        return model.__wrapped__
    if isinstance(model, Module):
        return original_of(model)
    if isinstance(model, MethodType) and isinstance(model.__func__, CompiledFunction):
        return MethodType(model.__func__.__wrapped__, model.__self__)
    return model


def _name_of(model: Any) -> str:
    return getattr(model, "__qualname__", None) or type(model).__qualname__


def compile_stats() -> dict[str, Any]:
    """Counts over the process: `{"graphs": n, "breaks": n, "reasons": [...]}`."""
    return _statistics.as_dict()


def reset() -> None:
    """Forget every compiled version in the process; compiled functions compile again."""
    _forget_versions()
    _statistics.reset()


def _forget_versions() -> None:
    for compiled in list(_compiled):
        cache.cache_of(compiled).clear(compiled)
    for family in list(_families):
        family.clear()


dtypes.watch_default(_forget_versions)
