"""What a setting is: its sentence, the values it takes, the environment variables that give it.

Contract: the fields of `Config` (`core.process.config`) are declared by `setting(...)`, and
`declared(Config)` reads the table off them. Whatever tells of settings (checks of values, what the
environment says, the documentation, `doctor`) is derived from it. `FURTHER` are variables that are
read elsewhere. Everything here is frozen.
"""

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from dynajit.core.records import record

_T = TypeVar("_T")


class NotTakenError(ValueError):
    """A value is none that a setting takes. Whoever asked says which, and what is taken.

    Args:
        understood: the part of the value that is taken; None where there is none.
        unknown: names among the value that are not taken, in order.
        taken: names that are.
    """

    def __init__(
        self, understood: Any = None, unknown: Sequence[str] = (), taken: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self.understood = understood
        self.unknown = unknown
        self.taken = taken


@record(eq=False)
class Kind:
    """The values of a setting.

    Args:
        accepts: in words, as what is expected of the program.
        of_value: what the program gives, as the setting holds it; raises NotTakenError.
        of_text: what a variable says, the same.
        as_text: what is expected of a variable, where that is something else.
    """

    accepts: str
    of_value: Callable[[Any], Any]
    of_text: Callable[[str], Any]
    as_text: str = ""


@record(eq=False)
class Setting:
    """One row of the table.

    Args:
        name: the field of `Config`.
        about: what it does, without the name: the end of a sentence.
        kind: the values.
        variables: of the environment, the first one that is set counts.
        default: what holds where nothing is set.
        by_default: the same in words, where the value alone says too little; else empty.
    """

    name: str
    about: str
    kind: Kind
    variables: tuple[str, ...]
    default: Any
    by_default: str

    def checked(self, value: Any) -> Any:
        """A value as the setting holds it.

        Raises:
            NotTakenError: it is none.
        """
        return self.kind.of_value(value)


@record
class Variable:
    """A variable of the environment that is no setting of `Config`.

    Args:
        name: of the variable.
        about: what it does.
        is_told: the library sets it, and programs read it.
    """

    name: str
    about: str
    is_told: bool = False


FURTHER: Final = (
    Variable("DYNAJIT_MPIEXEC", "the `mpiexec` that starts several processes"),
    Variable("DYNAJIT_LAUNCHED", "how this process was started: `run`, `mpi` or `spawn`", True),
    Variable("DYNAJIT_LAUNCH", "what a launcher tells its ranks; not for programs"),
    Variable("XDG_CACHE_HOME", "the cache lies in `dynajit` below it, unless `cache_dir` is set"),
    Variable("GOMP_SPINCOUNT", "how long idle threads of kernels wait before they sleep"),
    Variable("OMP_WAIT_POLICY", "the same, as OpenMP names it"),
    Variable("CUDA_VISIBLE_DEVICES", "the GPUs of this process, as for every program"),
    Variable(
        "TORCH_DISTRIBUTED_DEBUG", "`DETAIL`: collectives of several processes are compared"
    ),
)  # fmt: skip


def setting(
    default: _T, about: str, kind: Kind, variables: Iterable[str] = (), by_default: str = ""
) -> _T:
    """The field of a setting, for the class that holds them; arguments as of `Setting`."""
    facts = {"about": about, "kind": kind, "variables": tuple(variables), "by_default": by_default}
    return dataclasses.field(default=default, metadata=facts)


def declared(holder: Any) -> dict[str, Setting]:
    """The table: name -> setting, in the order of the class."""
    return {
        field.name: Setting(name=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(holder)
    }


# ---------------------------------------------------------------------------------------------
# kinds

_ON: Final = ("1", "true", "yes", "on")
_OFF: Final = ("", "0", "false", "no", "off")


def _switch_of_value(value: Any) -> bool:
    if type(value) is not bool:
        raise NotTakenError
    return value


def _switch_of_text(text: str) -> bool:
    if text.lower() not in (*_ON, *_OFF):
        raise NotTakenError
    return text.lower() in _ON


SWITCH: Final = Kind(
    "True or False",
    _switch_of_value,
    _switch_of_text,
    f"one of {', '.join(_ON)}, or of {', '.join(_OFF[1:])}",
)


def number(least: int, most: int, words: str = "") -> Kind:
    """Whole numbers in a range; a list with commas, as OpenMP's variables have, by its first."""

    def of_value(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise NotTakenError
        return value

    def of_text(text: str) -> int:
        first = text.partition(",")[0].strip()
        if not (first.isascii() and first.isdigit() and len(first) < 20):
            raise NotTakenError
        return of_value(int(first))

    return Kind(f"a whole number from {words or least} to {most}", of_value, of_text)


def one_of(values: Mapping[str, Any]) -> Kind:
    """Some values only, by the words that mean them in the environment."""

    def of_value(value: Any) -> Any:
        if not any(type(value) is type(known) and value == known for known in values.values()):
            raise NotTakenError
        return value

    def of_text(text: str) -> Any:
        if text not in values:
            raise NotTakenError
        return values[text]

    accepts = f"one of {', '.join(map(repr, values.values()))}"
    return Kind(accepts, of_value, of_text, f"one of {', '.join(values)}")


def names(known: Iterable[str], aliases: Iterable[str] = ()) -> Kind:
    """Some names of a list: a text with commas, or a collection."""
    taken = frozenset((*known, *aliases))

    def of_value(value: Any) -> frozenset[str]:
        if isinstance(value, str):
            return of_text(value)
        if not isinstance(value, (list, tuple, set, frozenset)) or not taken >= set(value):
            raise NotTakenError
        return frozenset(value)

    def of_text(text: str) -> frozenset[str]:
        found = frozenset(part.strip() for part in text.split(",")) - {""}
        if not found <= taken:
            raise NotTakenError(found & taken, sorted(found - taken), taken)
        return found

    return Kind(f"some of {', '.join(sorted(known))}, with commas between", of_value, of_text)


def _folder(value: Any) -> Path:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise NotTakenError
    return Path(value)


FOLDER: Final = Kind("a path", _folder, _folder)
FOLDER_OR_NONE: Final = Kind(
    "a path, or None", lambda value: None if value is None else _folder(value), _folder
)


def text(accepts: str, pattern: str = ".+", or_none: bool = False) -> Kind:
    """A text of a form."""

    def of_value(value: Any) -> str | None:
        if value is None and or_none:
            return None
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise NotTakenError
        return value

    return Kind(accepts, of_value, of_value)
