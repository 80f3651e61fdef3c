"""Modules of dynajit that are imported when they, or one of their names, are first asked for.

`import dynajit` makes tensors, layers and optimisers ready; capture, graphs and code generation
are loaded by the first `compile`, so a process that never compiles does not pay for them. Contract:
`Late("dynajit.package.module")` stands at the top of a module, where the import would stand, and
the same rules hold for it (`tests/test_layering.py` reads the name). Used by `dynajit.driver` and
`dynajit.report`. What only some programs use (`dynajit.distributions`, `utils.data`) is published
late: `__getattr__ = publish(__name__, ...)` in the package that holds it. Capture brings such a
name itself (`brought`), so a compiled function may be the first to ask.
"""

import importlib
import logging  # noqa: F401  # before our hooks around forks: they run first then, see `_Imports`
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType, ModuleType
from typing import Any, Final

from dynajit.core.errors import UnknownNameError
from dynajit.core.process.collector import paused
from dynajit.core.records import record


class Late:
    """Stands for a module; mutable: the first use of a name imports it, and keeps it.

    Args:
        name: of the module, dotted.
    """

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        return getattr(load(self), attribute)

    def __repr__(self) -> str:
        return f"Late({self._name!r})"


def load(late: Late) -> ModuleType:
    """The module itself, imported now if it was not before.

    Two threads may both come here first: the import system gives them the same module.
    """
    if late._module is None:
        with _imports.running(), paused():
            late._module = importlib.import_module(late._name)
    return late._module


class _Imports:
    """Imports that are under way, by thread. Mutable.

    Python keeps a lock per module while it is imported. A child that is forked meanwhile has that
    lock and not the thread that would release it: its own import would wait for ever, or find half
    a module. So a fork waits until the imports of other threads are done, before `logging` takes
    its lock for the fork: such an import may ask for it.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.RLock())
        self._running: dict[int, int] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block with an import."""
        thread = threading.get_ident()
        with self._condition:
            self._running[thread] = self._running.get(thread, 0) + 1
        try:
            yield
        finally:
            with self._condition:
                self._running[thread] -= 1
                if not self._running[thread]:
                    del self._running[thread]
                self._condition.notify_all()

    def before_fork(self) -> None:
        """Wait for other threads, and keep them from beginning."""
        known = sys.modules.keys() & _LOCKED_BY_FORKS.keys()
        self._condition.acquire()
        thread = threading.get_ident()
        self._condition.wait_for(lambda: not self._running.keys() - {thread}, LONGEST_IMPORT_S)
        for name in sys.modules.keys() & _LOCKED_BY_FORKS.keys() - known:
            lock = getattr(sys.modules[name], _LOCKED_BY_FORKS[name], None)
            if lock is not None:
                lock.acquire(timeout=LONGEST_IMPORT_S)

    def after_fork(self) -> None:
        """In the parent: others may begin."""
        self._condition.release()

    def after_fork_in_child(self) -> None:
        """There are no other threads, and nobody to release what they hold."""
        thread = threading.get_ident()
        depth = self._running.get(thread, 0)
        self._condition = threading.Condition(threading.RLock())
        self._running = {thread: depth} if depth else {}


_LOCKED_BY_FORKS: Final = {
    "concurrent.futures.thread": "_global_shutdown_lock",
}
"""Modules of Python that lock something around forks. Those that were imported while a fork waited
come too late to lock it, but will release it."""
LONGEST_IMPORT_S: Final = 20.0
"""After so long a fork goes on: the import may wait for what this thread holds."""

_imports: Final = _Imports()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_imports.before_fork,
        after_in_parent=_imports.after_fork,
        after_in_child=_imports.after_fork_in_child,
    )


@record
class _Published:
    """What a package publishes late.

    Args:
        names: name -> the module, dotted, that it is or that defines it.
        families: start of names -> the module that defines all of them.
    """

    names: Mapping[str, str]
    families: Mapping[str, str]

    def module_of(self, name: str) -> str | None:
        """The module behind a name, or None: the package has no such name."""
        found = self.names.get(name)
        if found is None:
            return next((m for start, m in self.families.items() if name.startswith(start)), None)
        return found


_published: Final[dict[str, _Published]] = {}
_further: Final[dict[str, Iterable[str]]] = {}


def further(below: Mapping[str, Iterable[str]]) -> None:
    """Let packages that publish late have more modules below them.

    Args:
        below: dotted name of a package -> names of modules that are imported below it, though no
            file says so.
    """
    _further.update(below)


def publish(
    package: str,
    modules: Iterable[str] = (),
    names: Mapping[str, str] = MappingProxyType({}),
    families: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[str], Any]:
    """The `__getattr__` of a package that publishes names of modules that it has not imported.

    Args:
        package: its dotted name.
        modules: names of modules directly below it, beside those of `further`.
        names: name -> the module, dotted, that defines it.
        families: start of names -> the module, dotted, that defines all names that start so.
    """
    own = {name: f"{package}.{name}" for name in (*_further.get(package, ()), *modules)}
    _published[package] = _Published(MappingProxyType(own | dict(names)), families)

    def missing(name: str) -> Any:
        if not is_published_late(package, name):
            raise unknown_name(package, name)
        return brought(package, name)

    missing.__name__ = missing.__qualname__ = "__getattr__"
    return missing


def is_published_late(package: str, name: str) -> bool:
    """True if `package` has the name, though perhaps not imported yet."""
    published = _published.get(package)
    return published is not None and published.module_of(name) is not None


def brought(package: str, name: str) -> Any:
    """The module or object behind a name that is published late; the package's own from now on.

    Raises:
        AttributeError: the module of a family has no such name.
    """
    target = _published[package].module_of(name)
    assert target is not None, "asked for by is_published_late"
    with _imports.running():
        module = importlib.import_module(target)
    found = module if target == f"{package}.{name}" else getattr(module, name)
    setattr(sys.modules[package], name, found)
    return found


def unknown_name(package: str, name: str) -> UnknownNameError:
    """The error of a module that has no such name; it says what is near when it is printed."""
    error = UnknownNameError(f"module {package!r} has no attribute {name!r}", name=name)
    error.module = package
    return error


def show(module: str, also: Iterable[str] = ()) -> None:
    """Let `dir` of a module give what is public, and a misspelt name say what is near.

    Called at the end of a module: so type checkers do not see a `__getattr__`, which would allow
    any name. A package that has none publishes what `further` says is below it. What the module
    imports for itself, and modules without `__all__`, stay out.

    Args:
        module: its dotted name.
        also: further names to show: PyTorch has them in this place, though nobody needs them.
    """
    fields = vars(sys.modules[module])
    if "__getattr__" not in fields:
        fields["__getattr__"] = publish(module)
    _refusing[module] = fields["__getattr__"]
    fields["__dir__"] = lambda: names_of(module, also)


_refusing: Final[dict[str, Any]] = {}
"""Modules that `show` was called for -> their `__getattr__`."""


def refuses(fields: Mapping[str, Any], name: str) -> bool:
    """True for a module, given by its dict, that has no such name and says so in our words."""
    module = fields.get("__name__")
    if type(module) is not str or fields.get("__getattr__") is not _refusing.get(module, fields):
        return False
    return not is_published_late(module, name)


def names_of(module: str, also: Iterable[str] = ()) -> list[str]:
    """What `dir` gives for a module; see `show`."""
    fields = vars(sys.modules[module])
    published = _published[module].names if module in _published else ()
    parts = (name for name, value in fields.items() if _is_public_part(module, name, value))
    own = (name for name in fields if name.startswith("__") and name.endswith("__"))
    return sorted({*own, *fields.get("__all__", fields), *published, *also, *parts})


def _is_public_part(package: str, name: str, value: Any) -> bool:
    """True for a module within a package; the root lists its own, beside its engines."""
    is_part = isinstance(value, ModuleType) and value.__name__ == f"{package}.{name}"
    return is_part and "." in package and hasattr(value, "__all__")
