"""What a function can change besides its arguments: globals, classes, cells, defaults, modes.

`Surroundings(function)` finds the places by the names that the function and the functions and
classes of its module that it names use. `take()` copies what they hold, `put_back(taken)` restores
it in place, so that every run of a test starts from the same state and none is lost.
"""

import copy
from collections import deque
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from dynajit import eager

#: Values that no run changes: looked through, never copied.
_FIXED = (FunctionType, MethodType, ModuleType, type, CodeType, staticmethod, classmethod, property)


class Surroundings:
    """The places of one function.

    Args:
        function: a plain Python function.
    """

    def __init__(self, function: FunctionType) -> None:
        self._globals = function.__globals__
        self._names: dict[str, Any] = {}
        self._classes: list[type] = []
        self._functions: list[FunctionType] = []
        self._visit(function)

    def _visit(self, value: Any) -> None:
        if isinstance(value, type):
            self._visit_class(value)
        function = (
            value.__func__ if isinstance(value, (MethodType, staticmethod, classmethod)) else value
        )
        if isinstance(function, FunctionType) and function not in self._functions:
            if function.__globals__ is not self._globals:
                return
            self._functions.append(function)
            for cell in function.__closure__ or ():
                self._visit(_contents(cell))
            for name in _names(function.__code__):
                if name in self._globals or name not in self._names:
                    self._names.setdefault(name, self._globals.get(name, _MISSING))
                    self._visit(self._globals.get(name))

    def _visit_class(self, cls: type) -> None:
        if cls in self._classes or cls.__module__ != self._globals.get("__name__"):
            return
        self._classes.append(cls)
        for item in list(vars(cls).values()):
            self._visit(item.fget if isinstance(item, property) else item)

    def take(self) -> dict[str, Any]:
        """Copies of everything, by a name for messages."""
        found: dict[str, Any] = {"grad mode": eager.is_grad_enabled()}
        for name in self._names:
            found[name] = _copy(self._globals.get(name, _MISSING))
        for number, cls in enumerate(self._classes):
            found[f"class {cls.__qualname__} ({number})"] = {
                name: _copy(item) for name, item in vars(cls).items() if _is_data(name, item)
            }
        for number, function in enumerate(self._functions):
            at = f"{function.__qualname__} ({number})"
            found[f"{at} defaults"] = _copy(function.__defaults__)
            found[f"{at} attributes"] = _copy(function.__dict__)
            found[f"{at} cells"] = [_copy(_contents(c)) for c in function.__closure__ or ()]
        return found

    def put_back(self, taken: dict[str, Any]) -> None:
        """The state of `take()` again, in the same objects where they are containers."""
        eager.set_grad_enabled(taken["grad mode"])
        for name, original in self._names.items():
            _store(self._globals, name, _restored(original, taken[name]))
        for number, cls in enumerate(self._classes):
            self._put_back_class(cls, taken[f"class {cls.__qualname__} ({number})"])
        for number, function in enumerate(self._functions):
            at = f"{function.__qualname__} ({number})"
            _restored(function.__defaults__, taken[f"{at} defaults"])
            _restored(function.__dict__, taken[f"{at} attributes"])
            for cell, saved in zip(function.__closure__ or (), taken[f"{at} cells"], strict=True):
                if saved is _MISSING:
                    del cell.cell_contents
                else:
                    cell.cell_contents = _restored(_contents(cell), saved)

    @staticmethod
    def _put_back_class(cls: type, saved: dict[str, Any]) -> None:
        for name, item in list(vars(cls).items()):
            if _is_data(name, item) and name not in saved:
                delattr(cls, name)
        for name, item in saved.items():
            current = vars(cls).get(name, _MISSING)
            new = _restored(current, item)
            if new is not current:
                setattr(cls, name, new)


class _Missing:
    def __deepcopy__(self, memo: Any) -> "_Missing":
        return self

    def __copy__(self) -> "_Missing":
        return self


_MISSING = _Missing()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _is_data(name: Any, item: Any) -> bool:
    is_special = type(name) is not str or (name.startswith("__") and name.endswith("__"))
    return not is_special and not isinstance(item, _FIXED) and not hasattr(item, "__get__")


def _copy(value: Any) -> Any:
    """A deep copy; the value itself where it cannot be copied."""
    if isinstance(value, _FIXED):
        return value
    try:
        return copy.deepcopy(value)
    except TypeError:
        return value


def _store(namespace: dict[str, Any], name: str, value: Any) -> None:
    if value is _MISSING:
        namespace.pop(name, None)
    elif namespace.get(name, _MISSING) is not value:
        namespace[name] = value


def _restored(current: Any, saved: Any) -> Any:
    """`current` with the contents of `saved`, or a copy of `saved`."""
    if current is saved or isinstance(saved, _FIXED):
        return saved
    if type(current) is not type(saved):
        return _copy(saved)
    if isinstance(current, (list, bytearray)):
        current[:] = _copy(saved)
    elif isinstance(current, (dict, set)):
        current.clear()
        current.update(_copy(saved))
    elif isinstance(current, deque):
        current.clear()
        current.extend(_copy(saved))
    elif isinstance(current, tuple):
        for left, right in zip(current, saved, strict=True):
            _restored(left, right)
    elif hasattr(current, "__dict__") and not isinstance(current, eager.Tensor):
        _restored(vars(current), vars(saved))
    else:
        return _copy(saved)
    return current
