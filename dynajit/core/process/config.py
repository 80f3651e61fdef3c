"""Configuration: one frozen record, read from the environment once, replaced as a whole.

Call `current()` where a setting is needed; use `override(...)` in tests and in user code that
wants a setting for a block, `configure(...)` to change the process's default. Settings are never
module-level globals elsewhere. The entry object of compiled functions reads `CURRENT` and
`Config.is_eager` from C.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from dynajit.core.process.warning import warn

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


@dataclass(frozen=True, slots=True)
class Config:
    """Every switch of dynajit.

    Args:
        disable: compiled functions run eagerly (`DYNAJIT_DISABLE=1`).
        stance: `default`; `force_eager`: as `disable`; `eager_on_recompile`: versions compiled so
            far run, other calls run eagerly; `fail_on_recompile`: other calls raise.
        log: channels to print to stderr (`DYNAJIT_LOG=a,b`); see `CHANNELS`.
        dump: folder that receives one sub-folder per compiled function (`DYNAJIT_DUMP`).
        cache_dir: folder of compiled kernels (`DYNAJIT_CACHE_DIR`, else the XDG cache folder).
        cache_size_bytes: the kernel cache is trimmed, oldest first, above this size.
        compiler: C compiler command (`DYNAJIT_CC`, else `CC`, else gcc, clang or cc on PATH).
        cpu: what generated C is compiled for, as the compiler's -march names it (`DYNAJIT_CPU`,
            else `native`): `x86-64-v3` has no AVX-512.
        num_threads: OpenMP team size of generated kernels (`DYNAJIT_NUM_THREADS`, 0: all cores).
        strict: internal errors are raised instead of falling back to eager (`DYNAJIT_STRICT=1`).
        recompile_limit: cache entries kept per compiled function; the oldest is evicted beyond it.
        verify_graphs: check every graph after every pass (on in tests).
        cuda_driver: library of the CUDA driver, for compiled functions on a GPU
            (`DYNAJIT_CUDA_DRIVER`).
        allow_tf32: products of float32 on a GPU may be made with ten bits of mantissa, on tensor
            cores.
        sanitize: generated C is compiled with AddressSanitizer and UndefinedBehaviorSanitizer
            (`DYNAJIT_SANITIZE=1`); the process must run with libasan preloaded.
        link_kernels: kernels become shared objects of the cache, whose functions profilers and
            debuggers name (`DYNAJIT_LINK_KERNELS=1`). Else the process loads them by itself where
            it can, which is faster.
    """

    disable: bool = False
    stance: str = "default"
    log: frozenset[str] = frozenset()
    dump: Path | None = None
    cache_dir: Path = Path()
    cache_size_bytes: int = 1 << 30
    compiler: str | None = None
    cpu: str = "native"
    num_threads: int = 0
    strict: bool = False
    recompile_limit: int = 32
    verify_graphs: bool = False
    cuda_driver: str = "libcuda.so.1"
    allow_tf32: bool = False
    sanitize: bool = False
    link_kernels: bool = False

    @property
    def thread_count(self) -> int:
        """Size of the team of generated kernels."""
        return self.num_threads if self.num_threads > 0 else len(os.sched_getaffinity(0))

    @property
    def is_eager(self) -> bool:
        """Compiled functions run as plain Python, whatever was compiled before."""
        return self.disable or self.stance == "force_eager"


def from_environment(environ: dict[str, str] | None = None) -> Config:
    """The configuration that the environment variables ask for."""
    env = dict(os.environ) if environ is None else environ
    dump = env.get("DYNAJIT_DUMP")
    return Config(
        disable=_flag(env, "DYNAJIT_DISABLE"),
        log=_channels(env),
        dump=Path(dump) if dump else None,
        cache_dir=Path(env.get("DYNAJIT_CACHE_DIR") or _cache_of_user(env)),
        compiler=env.get("DYNAJIT_CC") or env.get("CC") or None,
        cpu=_cpu(env),
        num_threads=_number(env, "DYNAJIT_NUM_THREADS", MOST_THREADS),
        strict=_flag(env, "DYNAJIT_STRICT"),
        verify_graphs=_flag(env, "DYNAJIT_VERIFY_GRAPHS"),
        cuda_driver=env.get("DYNAJIT_CUDA_DRIVER") or "libcuda.so.1",
        sanitize=_flag(env, "DYNAJIT_SANITIZE"),
        link_kernels=_flag(env, "DYNAJIT_LINK_KERNELS"),
    )


def _cache_of_user(env: dict[str, str]) -> Path:
    """By the XDG rules; of a user without a home, below the temporary folder."""
    named = env.get("XDG_CACHE_HOME")
    if named:
        return Path(named) / "dynajit"
    try:
        return Path.home() / ".cache" / "dynajit"
    except (RuntimeError, OSError, KeyError):  # neither HOME nor an entry in the list of users
        user = os.getuid() if hasattr(os, "getuid") else "user"
        return Path(env.get("TMPDIR") or "/tmp") / f"dynajit_cache_of_{user}"


_ON: Final = ("1", "true", "yes", "on")
_OFF: Final = ("", "0", "false", "no", "off")


def _flag(env: dict[str, str], name: str) -> bool:
    text = env.get(name, "").strip().lower()
    if text not in (*_ON, *_OFF):
        _warn(env, name, f"one of {', '.join(_ON)}, or of {', '.join(_OFF[1:])}")
    return text in _ON


def _number(env: dict[str, str], name: str, most: int) -> int:
    text = env.get(name, "").strip() or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
        _warn(env, name, f"a whole number from 0 (all cores) to {most}")
        return 0
    return int(text)


def _channels(env: dict[str, str]) -> frozenset[str]:
    given = {part.strip() for part in env.get("DYNAJIT_LOG", "").split(",")} - {""}
    known = given & (CHANNELS | CHANNEL_ALIASES.keys())
    if given != known:
        _warn(env, "DYNAJIT_LOG", f"some of {', '.join(sorted(CHANNELS))}, with commas between")
    return frozenset(known)


def _cpu(env: dict[str, str]) -> str:
    text = env.get("DYNAJIT_CPU", "").strip() or "native"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", text):
        _warn(env, "DYNAJIT_CPU", "a name that the compiler's -march takes, such as x86-64-v3")
        return "native"
    return text


def _warn(env: dict[str, str], name: str, accepted: str) -> None:
    """Say that a variable is not what it could be: it counts as not set, in whole or in part."""
    message = f"dynajit: the environment variable {name}={env[name]!r}: expected {accepted}."
    warn(f"{message}  What is not known is ignored.", stacklevel=4)


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
        TypeError: a name in `changes` is not a setting.
    """
    before = _defaults[0]
    _defaults[0] = replace(before, **changes)
    overridden = CURRENT.get()
    if overridden is not None:
        CURRENT.set(replace(overridden, **changes))
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
        TypeError: a name in `changes` is not a setting.
    """
    changed = replace(current(), **changes)
    token = CURRENT.set(changed)
    try:
        yield changed
    finally:
        CURRENT.reset(token)
