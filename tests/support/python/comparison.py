"""Are two results of one program the same? In value, class, structure and aliasing.

`same(expected, actual)` walks both sides together and raises AssertionError with the path to the
first difference. Objects of the same class made by two runs are the same if their contents are;
two places that hold one object on one side must hold one object on the other.
"""

import itertools
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType, GeneratorType, MethodType, TracebackType
from typing import Any

import numpy as np

from dynajit import eager

#: What never has an identity worth comparing: equal values may or may not be one object.
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...), range, slice, tuple)

#: Attributes that differ between two runs without meaning anything.
_INCIDENTAL = frozenset({"__weakref__", "__dict__", "__doc__", "__firstlineno__"})


def same(expected: Any, actual: Any) -> None:
    """Raise AssertionError unless both are the same; floats and tensors exactly."""
    Comparison().compare(expected, actual, "result")


class Comparison:
    """One walk; remembers which objects were met together (mutable)."""

    def __init__(self) -> None:
        self._partner: dict[int, Any] = {}
        self._reverse: dict[int, Any] = {}
        self._alive: list[Any] = []

    def compare(self, expected: Any, actual: Any, path: str) -> None:
        """Compare two values at `path`."""
        if expected is actual:
            return
        assert type(expected) is type(actual) or self._are_twins(expected, actual), (
            f"{path}: {type(expected)} became {type(actual)}: {expected!r} and {actual!r}"
        )
        if isinstance(expected, (float, complex)) or not isinstance(expected, _PLAIN):
            self._compare_object(expected, actual, path)
        elif isinstance(expected, tuple):
            self._compare_sequence(expected, actual, path)
            if hasattr(expected, "__dict__"):
                self.compare(vars(expected), vars(actual), f"{path}.__dict__")
        elif isinstance(expected, slice):
            self.compare(_parts(expected), _parts(actual), path)
        else:
            assert expected == actual, f"{path}: {expected!r} became {actual!r}"

    @staticmethod
    def _are_twins(expected: Any, actual: Any) -> bool:
        """True for instances of one class statement that ran twice."""
        return (
            type(expected).__qualname__ == type(actual).__qualname__
            and "<locals>" in type(expected).__qualname__
        )

    def _compare_object(self, expected: Any, actual: Any, path: str) -> None:
        if isinstance(expected, (float, complex)):
            assert repr(expected) == repr(actual), f"{path}: {expected!r} became {actual!r}"
            return
        if id(expected) in self._partner or id(actual) in self._reverse:
            assert self._partner.get(id(expected)) is actual, f"{path}: other objects are aliases"
            assert self._reverse.get(id(actual)) is expected, f"{path}: other objects are aliases"
            return
        self._partner[id(expected)] = actual
        self._reverse[id(actual)] = expected
        self._alive += (expected, actual)
        self._compare_contents(expected, actual, path)

    def _compare_contents(self, expected: Any, actual: Any, path: str) -> None:
        if isinstance(expected, eager.Tensor):
            _compare_tensors(expected, actual, path)
        elif isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(expected, actual)
        elif isinstance(expected, FunctionType):
            self._compare_functions(expected, actual, path)
        elif isinstance(expected, MethodType):
            self.compare(expected.__func__, actual.__func__, f"{path}.__func__")
            self.compare(expected.__self__, actual.__self__, f"{path}.__self__")
        elif isinstance(expected, CellType):
            self.compare(_cell(expected), _cell(actual), f"{path} cell")
        elif isinstance(expected, type):
            self._compare_classes(expected, actual, path)
        elif isinstance(expected, BaseException):
            self._compare_exceptions(expected, actual, path)
        elif isinstance(expected, GeneratorType):
            taken = [list(itertools.islice(side, 100)) for side in (expected, actual)]
            self.compare(*taken, f"list({path})")
        elif isinstance(expected, Iterator) and not hasattr(expected, "__dict__"):
            self.compare(_rest_of(expected), _rest_of(actual), f"rest of {path}")
        else:
            self._compare_containers(expected, actual, path)

    def _compare_containers(self, expected: Any, actual: Any, path: str) -> None:
        known = False
        if isinstance(expected, (list, deque)):
            self._compare_sequence(expected, actual, path)
            known = True
        elif isinstance(expected, Mapping):
            self._compare_sequence(list(expected), list(actual), f"{path}.keys()")
            self._compare_sequence(list(expected.values()), list(actual.values()), path)
            known = True
        elif isinstance(expected, (set, frozenset)):
            assert len(expected) == len(actual), f"{path}: {expected!r} became {actual!r}"
            known = bool(expected) and expected != actual and _all_have_identity(expected)
        names = _slots(type(expected))
        if names:
            found = [
                {name: getattr(side, name) for name in names if hasattr(side, name)}
                for side in (expected, actual)
            ]
            self.compare(*found, f"{path}.__slots__")
        if hasattr(expected, "__dict__"):
            self.compare(vars(expected), vars(actual), f"{path}.__dict__")
        elif not known and not names and type(expected) is type(actual):
            if type(expected).__eq__ is object.__eq__:
                return  # nothing but its class is visible
            assert expected == actual, f"{path}: {expected!r} became {actual!r}"

    def _compare_sequence(self, expected: Any, actual: Any, path: str) -> None:
        assert len(expected) == len(actual), f"{path}: {expected!r} became {actual!r}"
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            self.compare(left, right, f"{path}[{index}]")

    def _compare_functions(self, expected: FunctionType, actual: FunctionType, path: str) -> None:
        assert _is_same_code(expected.__code__, actual.__code__), f"{path}: other code"
        for name in ("__qualname__", "__defaults__", "__kwdefaults__", "__dict__", "__closure__"):
            self.compare(getattr(expected, name), getattr(actual, name), f"{path}.{name}")

    def _compare_classes(self, expected: type, actual: type, path: str) -> None:
        for name in ("__qualname__", "__bases__"):
            self.compare(getattr(expected, name), getattr(actual, name), f"{path}.{name}")
        left, right = (
            {name: item for name, item in vars(side).items() if name not in _INCIDENTAL}
            for side in (expected, actual)
        )
        assert list(left) == list(right), f"{path}: other members"
        for name, item in left.items():
            if isinstance(item, (FunctionType, *_PLAIN)):
                self.compare(item, right[name], f"{path}.{name}")

    def _compare_exceptions(
        self, expected: BaseException, actual: BaseException, path: str
    ) -> None:
        for name in ("args", "__cause__", "__context__", "__suppress_context__", "__dict__"):
            self.compare(getattr(expected, name), getattr(actual, name), f"{path}.{name}")
        left, right = (_last_line(side.__traceback__) for side in (expected, actual))
        assert left == right, f"{path}: raised at {left}, and at {right}"


def _compare_tensors(expected: eager.Tensor, actual: eager.Tensor, path: str) -> None:
    for name in ("dtype", "device", "requires_grad", "is_leaf"):
        left, right = getattr(expected, name), getattr(actual, name)
        assert left == right, f"{path}.{name}: {left} became {right}"
    assert tuple(expected.shape) == tuple(actual.shape), f"{path}.shape"
    left, right = expected.detach().numpy(), actual.detach().numpy()
    np.testing.assert_array_equal(left, right, err_msg=path, strict=True)


def _parts(value: slice) -> tuple[Any, ...]:
    return value.start, value.stop, value.step


def _cell(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _slots(cls: type) -> list[str]:
    """Names of the slots that Python classes among the bases declare."""
    found: list[str] = []
    for base in cls.__mro__:
        declared = vars(base).get("__slots__", ())
        declared = (declared,) if isinstance(declared, str) else tuple(declared)
        found += [name for name in declared if name not in _INCIDENTAL]
    return found


def _all_have_identity(items: Any) -> bool:
    return all(type(item).__eq__ is object.__eq__ for item in items)


def _is_same_code(expected: CodeType, actual: CodeType) -> bool:
    names = ("co_qualname", "co_filename", "co_firstlineno", "co_consts", "co_code")
    return all(getattr(expected, name) == getattr(actual, name) for name in names)


def _rest_of(iterator: Any) -> Any:
    """What an iterator of a built-in type still gives, without taking it where that is possible."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return iterator.__reduce__()
        except (TypeError, AttributeError):
            return list(itertools.islice(iterator, 100))


def _last_line(traceback: TracebackType | None) -> tuple[str, int | None] | None:
    """Where an exception came from: file and line of the innermost frame."""
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
