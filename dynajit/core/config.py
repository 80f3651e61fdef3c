"""Configuration: one frozen record, read from the environment once, replaced as a whole.

Call `current()` where a setting is needed; use `override(...)` in tests and in user code that
wants a setting for a block. Settings are never module-level globals elsewhere.
"""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Config:
    """Every switch of dynajit.

    Args:
        disable: compiled functions run eagerly (`DYNAJIT_DISABLE=1`).
        log: channels to print to stderr: `DYNAJIT_LOG=breaks,guards,graph,kernels,recompiles,perf`.
        dump: folder that receives one sub-folder per compiled function (`DYNAJIT_DUMP`).
        cache_dir: folder of compiled kernels (`DYNAJIT_CACHE_DIR`, else the XDG cache folder).
        cache_size_bytes: the kernel cache is trimmed, oldest first, above this size.
        compiler: C compiler command (`DYNAJIT_CC`, else `CC`, else gcc, clang or cc on PATH).
        num_threads: OpenMP team size of generated kernels (`DYNAJIT_NUM_THREADS`, 0: all cores).
        strict: internal errors are raised instead of falling back to eager (`DYNAJIT_STRICT=1`).
        recompile_limit: cache entries kept per compiled function; the oldest is evicted beyond it.
        verify_graphs: check every graph after every pass (on in tests).
    """

    disable: bool = False
    log: frozenset[str] = frozenset()
    dump: Path | None = None
    cache_dir: Path = Path()
    cache_size_bytes: int = 1 << 30
    compiler: str | None = None
    num_threads: int = 0
    strict: bool = False
    recompile_limit: int = 32
    verify_graphs: bool = False


def from_environment(environ: dict[str, str] | None = None) -> Config:
    """The configuration that the environment variables ask for."""
    env = dict(os.environ) if environ is None else environ
    cache_home = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    dump = env.get("DYNAJIT_DUMP")
    return Config(
        disable=_flag(env, "DYNAJIT_DISABLE"),
        log=frozenset(part for part in env.get("DYNAJIT_LOG", "").split(",") if part),
        dump=Path(dump) if dump else None,
        cache_dir=Path(env.get("DYNAJIT_CACHE_DIR") or cache_home / "dynajit"),
        compiler=env.get("DYNAJIT_CC") or env.get("CC") or None,
        num_threads=int(env.get("DYNAJIT_NUM_THREADS", "0")),
        strict=_flag(env, "DYNAJIT_STRICT"),
        verify_graphs=_flag(env, "DYNAJIT_VERIFY_GRAPHS"),
    )


def _flag(env: dict[str, str], name: str) -> bool:
    return env.get(name, "").lower() in ("1", "true", "yes", "on")


_current: ContextVar[Config] = ContextVar("dynajit_config")
_default = from_environment()


def current() -> Config:
    """The configuration in force in this thread or task."""
    return _current.get(_default)


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[Config]:
    """Use a changed configuration within a `with` block.

    Raises:
        TypeError: a name in `changes` is not a setting.
    """
    changed = replace(current(), **changes)
    token = _current.set(changed)
    try:
        yield changed
    finally:
        _current.reset(token)
