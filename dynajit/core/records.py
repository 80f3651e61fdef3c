"""Frozen classes of data: what `dataclass(frozen=True, slots=True)` makes, in a tenth of the time.

The standard decorator compiles six small texts for each class, 0.7 ms together; there are hundreds
of classes, and they were half of the first `compile()`. Here the methods of a class are copies of
those made once for each number of fields, with other names in their code objects. Contract:
`@record` gives what the standard decorator gives, `fields`, `replace` and pickles included; classes
with fields that it does not know (factories, fields left out of `__init__`, keywords only) are left
to the standard one. Called by every module that declares frozen data.
"""

import dataclasses
import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform, overload

_T = TypeVar("_T")


@overload
def record(cls: type[_T]) -> type[_T]: ...
@overload
def record(*, eq: bool = True, repr: bool = True) -> Callable[[type[_T]], type[_T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: Any = None, *, eq: bool = True, repr: bool = True) -> Any:
    """A decorator of classes whose instances do not change.

    Args:
        eq: instances are equal, and hash alike, if their fields do; else by identity.
        repr: the text of an instance names its fields.
    """
    if cls is None:
        return lambda given: _made(given, eq, repr)
    return _made(cls, eq, repr)


def _made(cls: Any, eq: bool, repr: bool) -> Any:
    if any(map(_is_special, vars(cls).values())):
        return dataclasses.dataclass(frozen=True, slots=True, eq=eq, repr=repr)(cls)
    own = set(cls.__dict__)
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    fields = dataclasses.fields(made)
    names = tuple(field.name for field in fields)
    defaults = tuple(f.default for f in fields if f.default is not dataclasses.MISSING)
    methods: dict[str, Any] = {
        "__init__": _initializer(names, defaults, hasattr(made, "__post_init__")),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _set_state,
    }
    if repr:
        methods["__repr__"] = _text
    if eq:
        methods["__eq__"] = _comparison(names)
        methods["__hash__"] = _hash(names)
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and cls.__dict__.get(name) is None):
            setattr(made, name, method)
    return made


def _is_special(found: Any) -> bool:
    """True for a `field(...)` that says more than a default."""
    if not isinstance(found, dataclasses.Field):
        return False
    return (
        found.default_factory is not dataclasses.MISSING
        or not (found.init and found.compare and found.repr)
        or found.hash is not None
        or found.kw_only is True
    )


# -- methods that are the same for all classes -------------------------------------------------


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _text(self: Any) -> str:
    parts = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
    return f"{type(self).__qualname__}({', '.join(parts)})"


# -- methods by the names of the fields --------------------------------------------------------


def _initializer(names: tuple[str, ...], defaults: tuple[Any, ...], has_more: bool) -> Any:
    code = _renamed(_init_template(len(names), has_more), names)
    made = FunctionType(code, {"_set": object.__setattr__}, "__init__", defaults)
    made.__qualname__ = "__init__"
    return made


def _comparison(names: tuple[str, ...]) -> Any:
    code = _renamed(_eq_template(len(names)), names)
    return FunctionType(code, {"NotImplemented": NotImplemented}, "__eq__")


def _hash(names: tuple[str, ...]) -> Any:
    return FunctionType(_renamed(_hash_template(len(names)), names), {"hash": hash}, "__hash__")


def _renamed(code: CodeType, names: tuple[str, ...]) -> CodeType:
    """The code of a template with the names of fields in the place of f0_, f1_, ..."""
    new = {f"f{place}_": name for place, name in enumerate(names)}

    def other(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([new.get(v, v) if type(v) is str else v for v in values])

    return code.replace(
        co_varnames=other(code.co_varnames),
        co_names=other(code.co_names),
        co_consts=other(code.co_consts),
    )


def _template(lines: list[str]) -> CodeType:
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)
    code: CodeType = made["method"].__code__
    return code


@functools.cache
def _init_template(count: int, has_more: bool) -> CodeType:
    names = [f"f{place}_" for place in range(count)]
    lines = [f"def method({', '.join(['self', *names])}):", "  pass"]
    lines += [f"  _set(self, {name!r}, {name})" for name in names]
    if has_more:
        lines.append("  self.__post_init__()")
    return _template(lines)


@functools.cache
def _eq_template(count: int) -> CodeType:
    sides = [
        f"({''.join(f'{side}.f{place}_, ' for place in range(count))})"
        for side in ("self", "other")
    ]
    return _template(
        [
            "def method(self, other):",
            "  if other.__class__ is not self.__class__:",
            "    return NotImplemented",
            f"  return {sides[0]} == {sides[1]}",
        ]
    )


@functools.cache
def _hash_template(count: int) -> CodeType:
    fields = "".join(f"self.f{place}_, " for place in range(count))
    return _template(["def method(self):", f"  return hash(({fields}))"])
