"""Frozen classes of data: what `dataclass(frozen=True, slots=True)` makes, in a tenth of the time.

The standard decorator compiles six small texts for each class, 0.7 ms together; there are hundreds
of classes, and they were half of the first `compile()`. Here the methods of a class are copies of
those made once for each number of fields, with other names in their code objects. Contract:
`@record` gives what the standard decorator gives, `fields`, `replace` and pickles included; fields
for keywords only and `InitVar` are not for it. Records are derived from records alone.
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
def record(
    *, eq: bool = True, repr: bool = True, is_shown: bool = True
) -> Callable[[type[_T]], type[_T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: Any = None, *, eq: bool = True, repr: bool = True, is_shown: bool = True) -> Any:
    """A decorator of classes whose instances do not change.

    Args:
        eq: instances are equal, and hash alike, if their fields do; else by identity.
        repr: the text of an instance names its fields.
        is_shown: `dataclasses` knows the class. Not for what programs meet as a value: those that
            walk through data take data classes apart, and PyTorch's devices and dtypes are none.
    """
    if cls is None:
        return lambda given: _made(given, eq, repr, is_shown)
    return _made(cls, eq, repr, is_shown)


def _made(cls: Any, eq: bool, repr: bool, is_shown: bool) -> Any:
    own = set(vars(cls))
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    fields = dataclasses.fields(made)
    methods: dict[str, Any] = {
        "__init__": _initializer(fields, hasattr(made, "__post_init__")),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _set_state,
    }
    if repr:
        methods["__repr__"] = _text
    if eq:
        compared = tuple(field.name for field in fields if field.compare)
        methods["__eq__"] = _comparison(compared)
        methods["__hash__"] = _hash(compared)
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and vars(cls).get(name) is None):
            setattr(made, name, method)
    made.__record_fields__ = fields
    if not is_shown:
        del made.__dataclass_fields__, made.__dataclass_params__
    return made


# -- methods that are the same for all classes -------------------------------------------------


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in self.__record_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(self.__record_fields__, state, strict=True):
        object.__setattr__(self, field.name, value)


def _text(self: Any) -> str:
    shown = (field.name for field in self.__record_fields__ if field.repr)
    parts = (f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({', '.join(parts)})"


# -- methods by the names of the fields --------------------------------------------------------


def _globals(**names: Any) -> dict[str, Any]:
    """What a method that is made here sees. The name tells capture that it is the library's."""
    return {"__name__": __name__, **names}


def _initializer(fields: tuple[dataclasses.Field[Any], ...], has_more: bool) -> Any:
    missing = dataclasses.MISSING
    if any(not field.init or field.default_factory is not missing for field in fields):
        return _unusual_initializer(fields, has_more)
    names = tuple(field.name for field in fields)
    defaults = tuple(field.default for field in fields if field.default is not missing)
    code = _renamed(_init_template(len(names), has_more), names)
    return FunctionType(code, _globals(_set=object.__setattr__), "__init__", defaults)


def _unusual_initializer(fields: tuple[dataclasses.Field[Any], ...], has_more: bool) -> Any:
    """For fields that factories make, or that `__post_init__` sets: a text of its own."""
    missing = dataclasses.MISSING
    given = _globals(_set=object.__setattr__, _missing=missing)
    parameters, lines = ["self"], ["  pass"]
    for field in fields:
        name = field.name
        has_factory = field.default_factory is not missing
        given[f"_{name}"] = field.default_factory if has_factory else field.default
        if not field.init:
            if has_factory or field.default is not missing:
                value = f"_{name}()" if has_factory else f"_{name}"
                lines.append(f"  _set(self, {name!r}, {value})")
            continue
        default = "=_missing" if has_factory else "" if field.default is missing else f"=_{name}"
        parameters.append(f"{name}{default}")
        value = f"_{name}() if {name} is _missing else {name}" if has_factory else name
        lines.append(f"  _set(self, {name!r}, {value})")
    if has_more:
        lines.append("  self.__post_init__()")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines]), given)
    return given["__init__"]


def _comparison(names: tuple[str, ...]) -> Any:
    code = _renamed(_eq_template(len(names)), names)
    return FunctionType(code, _globals(NotImplemented=NotImplemented), "__eq__")


def _hash(names: tuple[str, ...]) -> Any:
    return FunctionType(
        _renamed(_hash_template(len(names)), names), _globals(hash=hash), "__hash__"
    )


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
