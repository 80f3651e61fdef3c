"""Settings by PyTorch's names: each acts on one of ours, or says that it does not.

Contract: a setting is a row. An `Acting` row reads and writes `dynajit.config`. A `Telling` row
keeps what is set, and warns, once, where dynajit does something else than was asked. A name without
a row is kept as well, with a warning.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final, TypeAlias

from dynajit.core.errors import ConfigurationWarning, UnknownNameError
from dynajit.core.process import config
from dynajit.core.process.late import unknown_name
from dynajit.core.process.warning import warn
from dynajit.core.quoting import on_a_line
from dynajit.core.records import record


@record(eq=False)
class Acting:
    """A setting that is one of ours: how it is read and written."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


@record(eq=False)
class Telling:
    """A setting that changes nothing.

    Args:
        like: values for which dynajit does what is asked; the first one is read where none was set.
        why: a sentence for all others: what there is instead.
    """

    like: tuple[Any, ...]
    why: str


Row: TypeAlias = "Acting | Telling | Group"

MSG_NO_EFFECT: Final = "dynajit: {name} = {value} has no effect: {why}"
WHY_UNKNOWN: Final = "dynajit has no such setting.  Its own are in dynajit.config."


def acting(setting: str, negated: bool = False) -> Acting:
    """A row that is a setting of ours, or its opposite."""

    def read() -> Any:
        found = getattr(config.current(), setting)
        return not found if negated else found

    def write(value: Any) -> None:
        config.configure(**{setting: not value if negated else value})

    return Acting(read, write)


def _keep(holder: Any, name: str, value: Any) -> None:
    """Set a setting of a group."""
    path, rows, kept, told = holder._facts
    row = rows.get(name)
    if isinstance(row, Acting):
        row.write(value)
        return
    kept[name] = value
    agrees = isinstance(row, Telling) and any(
        type(like) is type(value) and like == value for like in row.like
    )
    if not agrees and name not in told:
        told.add(name)
        why = row.why if isinstance(row, Telling) else WHY_UNKNOWN
        shown = on_a_line(repr(value))
        message = MSG_NO_EFFECT.format(name=f"{path}.{name}", value=shown, why=why)
        warn(message, ConfigurationWarning)


def _read(holder: Any, name: str) -> Any:
    """A setting of a group."""
    path, rows, kept, _ = holder._facts
    row = rows.get(name)
    if isinstance(row, Acting):
        return row.read()
    if name in kept:
        return kept[name]
    if isinstance(row, Group):
        return row
    if row is None:
        if isinstance(holder, Settings):
            raise unknown_name(holder.__name__, name)
        raise UnknownNameError(f"{path} has no setting {name!r}.")
    return row.like[0]


class Group:
    """Settings with a name in common, such as `inductor.config.triton`. Mutable.

    Args:
        path: how messages name it.
        rows: the table.
    """

    _facts: tuple[str, Mapping[str, Row], dict[str, Any], set[str]]

    def __init__(self, path: str, rows: Mapping[str, Row]) -> None:
        object.__setattr__(self, "_facts", (path, rows, {}, set()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _read(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _keep(self, name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._facts[1])


class Settings(ModuleType):
    """The class of a module whose attributes are settings. Mutable; `become` makes it so."""

    _facts: tuple[str, Mapping[str, Row], dict[str, Any], set[str]]

    def __getattr__(self, name: str) -> Any:
        return _read(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            _keep(self, name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self._facts[1], "patch", *(n for n in vars(self) if n.startswith("__"))})


class _Patch:
    """`patch` of a module of settings, which sets some for a block or a function.

    Args:
        module: its dotted name.
    """

    def __init__(self, module: str) -> None:
        self.module = module

    @contextlib.contextmanager
    def __call__(self, changes: Any = None, value: Any = None, **named: Any) -> Iterator[None]:
        """Settings for the block: a dict, a name and its value, or keywords; with dots in names."""
        module = sys.modules[self.module]
        given = {changes: value} if isinstance(changes, str) else dict(changes or {})
        given |= named
        before = {name: _at(module, name) for name in given}
        try:
            for name, wanted in given.items():
                _set_at(module, name, wanted)
            yield
        finally:
            for name, old in before.items():
                _set_at(module, name, old)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _patch_of, (self.module,)


def _patch_of(module: str) -> Any:
    return importlib.import_module(module).patch


def become(module: ModuleType, path: str, rows: Mapping[str, Row]) -> None:
    """Let a module hold settings, and `patch`, which sets some for a block or a function."""
    fields = vars(module)
    fields["_facts"] = (path, rows, {}, set())
    fields["patch"] = _Patch(module.__name__)
    fields["__all__"] = ["patch"]
    module.__class__ = Settings


def _at(module: ModuleType, name: str) -> Any:
    holder: Any = module
    for part in name.split("."):
        holder = getattr(holder, part, None)
    return holder


def _set_at(module: ModuleType, name: str, value: Any) -> None:
    group, _, last = name.rpartition(".")
    setattr(_at(module, group) if group else module, last, value)


__all__ = ["Acting", "Group", "Settings", "Telling", "acting", "become"]
