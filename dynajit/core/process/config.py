"""Configuration: one frozen record, read from the environment once, replaced as a whole.

`Config` declares every setting, with the values it takes and the variables that give it
(`core.process.settings`): what is said of settings elsewhere is derived from there. Call
`current()` where a setting is needed. Programs set attributes of this module
(`dynajit.config.recompile_limit = 8`, the process's default) or use `override(...)` for a block;
what is no setting, or takes no such value, is refused. Settings are never module-level globals
elsewhere. The entry object of compiled functions reads `CURRENT` and `Config.is_eager` from C.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from dynajit.core.errors import ArgumentError, ConfigurationWarning
from dynajit.core.process import settings
from dynajit.core.process.late import unknown_name
from dynajit.core.process.processors import available_processors
from dynajit.core.process.settings import Setting, setting
from dynajit.core.process.warning import warn
from dynajit.core.quoting import on_a_line

CHANNELS: Final = frozenset(
    {"summary", "breaks", "guards", "recompiles", "graph", "kernels", "perf"}
)
"""What can be printed while functions are compiled, see `dynajit.report.log`."""
CHANNEL_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"graph_breaks": "breaks", "graphs": "graph"}
)
MOST_THREADS: Final = 4096
"""More than any machine has cores: a larger number is a mistake."""

#: What compiled functions may do; see `Config.stance`.
STANCES: Final = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


PASSES: Final = (
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "fold_constants",
    "fuse",
    "keep_gates",
    "merge_loops",
    "replace_patterns",
    "rewrite_products",
    "share_products",
    "simplify_algebra",
)
"""Passes that can be left out: results stay as they are, but for roundings. See `ir.pipeline`, and
for products and fusion `codegen.pipeline`. The others are needed by what follows."""
_DYNAMIC: Final = MappingProxyType({"auto": None, "1": True, "0": False})


@dataclass(frozen=True, slots=True)
class Config:
    """Every switch of dynajit, each declared once: see `core.process.settings`."""

    disable: bool = setting(
        False, "compiled functions run as plain Python", settings.SWITCH, ["DYNAJIT_DISABLE"]
    )
    stance: str = setting(
        "default",
        "what compiled functions may do; `force_eager`: run as plain Python; `eager_on_recompile`: "
        "versions compiled so far run, other calls run as plain Python; `fail_on_recompile`: other "
        "calls raise",
        settings.one_of({stance: stance for stance in STANCES}),
    )
    dynamic: bool | None = setting(
        None,
        "what `compile(dynamic=None)` means. True: sizes are symbols from the first call on; "
        "False: every new shape is compiled on its own; None: a size becomes a symbol when it "
        "changes",
        settings.one_of(_DYNAMIC),
    )
    recompile_limit: int = setting(
        32,
        "versions kept per compiled function; the oldest is dropped beyond it",
        settings.number(1, 1_000_000),
    )
    disabled_passes: frozenset[str] = setting(
        frozenset(),
        "passes that are left out, for finding out which one is wrong or does not pay; `fuse`: "
        "every operation is a kernel of its own",
        settings.names(PASSES),
        ["DYNAJIT_DISABLED_PASSES"],
    )
    num_threads: int = setting(
        0,
        "threads that compute; 0: all cores that this process may use",
        settings.number(0, MOST_THREADS, "0 (all cores)"),
        ["DYNAJIT_NUM_THREADS", "OMP_NUM_THREADS"],
    )
    cpu: str = setting(
        "native",
        "what generated C is compiled for, as the compiler's -march names it: `x86-64-v3` has no "
        "AVX-512",
        settings.text(
            "a name that the compiler's -march takes, such as x86-64-v3",
            r"[A-Za-z0-9][A-Za-z0-9_.+-]*",
        ),
        ["DYNAJIT_CPU"],
    )
    compiler: str | None = setting(
        None,
        "command of the C compiler",
        settings.text("a command, or None", or_none=True),
        ["DYNAJIT_CC", "CC"],
        "gcc, clang or cc on PATH",
    )
    cuda_driver: str = setting(
        "libcuda.so.1",
        "library of the CUDA driver, for compiled functions on a GPU",
        settings.text("a path or a name of a library"),
        ["DYNAJIT_CUDA_DRIVER"],
    )
    allow_tf32: bool = setting(
        False,
        "products of float32 on a GPU may be made with ten bits of mantissa, on tensor cores",
        settings.SWITCH,
    )
    cache_dir: Path = setting(
        Path(),
        "folder of what is kept of compiled functions",
        settings.FOLDER,
        ["DYNAJIT_CACHE_DIR"],
        "`dynajit` in the cache folder of the user",
    )
    cache_size_bytes: int = setting(
        1 << 30,
        "kernels of the cache are trimmed, oldest first, above this size",
        settings.number(0, 1 << 50),
    )
    log: frozenset[str] = setting(
        frozenset(),
        "what is printed to stderr while functions are compiled",
        settings.names(CHANNELS, CHANNEL_ALIASES),
        ["DYNAJIT_LOG"],
    )
    dump: Path | None = setting(
        None,
        "folder that receives one sub-folder per compiled function, with all that was made of it",
        settings.FOLDER_OR_NONE,
        ["DYNAJIT_DUMP"],
    )
    strict: bool = setting(
        False,
        "internal errors are raised; else the function runs as plain Python, with a warning",
        settings.SWITCH,
        ["DYNAJIT_STRICT"],
    )
    verify_graphs: bool = setting(
        False,
        "every graph is checked after every pass (on in tests)",
        settings.SWITCH,
        ["DYNAJIT_VERIFY_GRAPHS"],
    )
    sanitize: bool = setting(
        False,
        "generated C is compiled with AddressSanitizer and UndefinedBehaviorSanitizer; the process "
        "must run with libasan preloaded",
        settings.SWITCH,
        ["DYNAJIT_SANITIZE"],
    )
    link_kernels: bool = setting(
        False,
        "kernels become shared objects of the cache, whose functions profilers and debuggers name; "
        "else the process loads them by itself where it can, which is faster",
        settings.SWITCH,
        ["DYNAJIT_LINK_KERNELS"],
    )
    progress: bool = setting(
        True,
        "on a terminal, a compilation of more than two seconds says what it does",
        settings.SWITCH,
        ["DYNAJIT_PROGRESS"],
    )
    full_tracebacks: bool = setting(
        False,
        "frames of this library are shown where an uncaught exception is shown",
        settings.SWITCH,
        ["DYNAJIT_FULL_TRACEBACKS"],
    )

    @property
    def thread_count(self) -> int:
        """Size of the team of generated kernels."""
        return self.num_threads if self.num_threads > 0 else available_processors()

    @property
    def is_eager(self) -> bool:
        """Compiled functions run as plain Python, whatever was compiled before."""
        return self.disable or self.stance == "force_eager"


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(settings.declared(Config))
"""The table of settings, by name."""
VARIABLES: Final = frozenset(
    (
        *(variable for known in SETTINGS.values() for variable in known.variables),
        *(variable.name for variable in settings.FURTHER),
    )
)
"""The variables of the environment that are read."""
OURS: Final = "DYNAJIT_"
"""What the names of our own variables begin with."""


def from_environment(environ: Mapping[str, str] | None = None) -> Config:
    """The configuration that the environment variables ask for.

    A variable that is not what it could be counts as not set, in whole or in part, with a warning;
    one whose name is nearly one of ours is warned of.
    """
    env = dict(os.environ) if environ is None else environ
    given: dict[str, Any] = {"cache_dir": _cache_of_user(env)}
    for known in SETTINGS.values():
        variable = next((name for name in known.variables if env.get(name, "").strip()), None)
        if variable is None:
            continue
        try:
            given[known.name] = known.kind.of_text(env[variable].strip())
        except settings.NotTakenError as error:
            accepted = known.kind.as_text or known.kind.accepts
            _warn(variable, env[variable], accepted, _meant(error.unknown, error.taken))
            given[known.name] = known.default if error.understood is None else error.understood
    for name, near in misspelt(env).items():
        if near:
            message = f"dynajit: the environment variable {name} is not known."
            warn(f"{message}  Did you mean {near}?", ConfigurationWarning)
    return Config(**given)


def misspelt(env: Mapping[str, str]) -> dict[str, str]:
    """Variables of our name that nobody reads -> the variable that is near, or an empty text."""
    unknown = [name for name in env if name.startswith(OURS) and name not in VARIABLES]
    return {name: _near(name, VARIABLES, len(OURS)) for name in unknown}


def _near(name: str, known: Iterable[str], common: int = 0) -> str:
    """The known name that is most like another one, but for a common beginning; else empty."""
    difflib = importlib.import_module("difflib")  # takes 4 ms to load
    ends = {other[common:]: other for other in known}
    found = difflib.get_close_matches(name[common:], ends, 1, cutoff=0.75)
    return ends[found[0]] if found else ""


def _cache_of_user(env: Mapping[str, str]) -> Path:
    """By the XDG rules; of a user without a home, below the temporary folder."""
    named = env.get("XDG_CACHE_HOME")
    if named:
        return Path(named) / "dynajit"
    try:
        return Path.home() / ".cache" / "dynajit"
    except (RuntimeError, OSError, KeyError):  # neither HOME nor an entry in the list of users
        user = os.getuid() if hasattr(os, "getuid") else "user"
        return Path(env.get("TMPDIR") or "/tmp") / f"dynajit_cache_of_{user}"


def _warn(name: str, value: str, accepted: str, meant: str) -> None:
    """Say that a variable is not what it could be."""
    message = f"dynajit: the environment variable {name}={value!r}: expected {accepted}."
    warn(f"{message}{meant}  What is not known is ignored.", ConfigurationWarning)


def near_channels(unknown: Iterable[str]) -> str:
    """What may be meant by names of channels that do not exist, as a sentence; or nothing."""
    return _meant(unknown, (*CHANNELS, *CHANNEL_ALIASES))


def _meant(unknown: Iterable[str], known: Iterable[str]) -> str:
    found = [_near(name, sorted(known)) for name in unknown]
    near = ", ".join(name for name in dict.fromkeys(found) if name)
    return f"  Did you mean {near}?" if near else ""


#: The configuration of this thread or task; None: the process's default.
CURRENT: Final[ContextVar[Config | None]] = ContextVar("dynajit_config", default=None)
_defaults = [from_environment()]
_listeners: list[Callable[[Config], object]] = []


def current() -> Config:
    """The configuration in force in this thread or task."""
    return CURRENT.get() or _defaults[0]


def default() -> Config:
    """The configuration of the process, whatever an `override` in force here says."""
    return _defaults[0]


def configure(**changes: Any) -> Config:
    """Change the process's default, and what an `override` in force here says.

    Returns:
        The default before.

    Raises:
        ArgumentError: a name in `changes` is not a setting, or a value none that it takes.
    """
    checked = _checked("configure", changes)
    before = _defaults[0]
    _defaults[0] = replace(before, **checked)
    overridden = CURRENT.get()
    if overridden is not None:
        CURRENT.set(replace(overridden, **checked))
    for listener in _listeners:
        listener(_defaults[0])
    return before


def on_default(listener: Callable[[Config], object]) -> None:
    """Call `listener(default)` now and whenever the process's default changes."""
    _listeners.append(listener)
    listener(_defaults[0])


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[Config]:
    """Use a changed configuration within a `with` block.

    Raises:
        ArgumentError: a name in `changes` is not a setting, or a value none that it takes.
    """
    changed = replace(current(), **_checked("override", changes))
    token = CURRENT.set(changed)
    try:
        yield changed
    finally:
        CURRENT.reset(token)


def _checked(asker: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values as settings hold them."""
    found = {}
    for name, value in changes.items():
        known = SETTINGS.get(name)
        if known is None:
            near = _near(name, SETTINGS)
            hint = f"Did you mean {near!r}?" if near else f"Settings are {', '.join(SETTINGS)}."
            raise ArgumentError(f"config.{asker}({name}=...): there is no such setting.  {hint}")
        try:
            found[name] = known.checked(value)
        except settings.NotTakenError:
            shown = on_a_line(repr(value))
            raise ArgumentError(
                f"config.{name} = {shown}: expected {known.kind.accepts}."
            ) from None
    return found


class _Module(ModuleType):
    """This module: settings are its attributes. Those that are set are the process's default."""

    def __getattr__(self, name: str) -> Any:
        if name in SETTINGS:
            return getattr(current(), name)
        raise unknown_name(__name__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SETTINGS:
            configure(**{name: value})
        elif name in vars(self) or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            raise unknown_name(__name__, name)

    def __dir__(self) -> list[str]:
        return sorted({*__all__, *SETTINGS, *(name for name in vars(self) if name[:2] == "__")})


sys.modules[__name__].__class__ = _Module

__all__ = [
    "SETTINGS",
    "VARIABLES",
    "Config",
    "configure",
    "current",
    "default",
    "from_environment",
    "on_default",
    "override",
]
