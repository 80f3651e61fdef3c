"""`record` makes what the standard decorator makes of the same class."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, ClassVar

import pytest

import dynajit as dj
from dynajit.capture.control import why_not_captured
from dynajit.core.records import record

MAKERS: dict[str, Callable[..., Any]] = {
    "record": record,
    "standard": lambda **options: dataclass(frozen=True, slots=True, **options),
}


@record
class Kept:
    """A class that pickles can name."""

    a: int
    b: Any = ()


def _classes(decorate: Any) -> dict[str, Any]:
    """Small classes of every form."""

    @decorate()
    class Empty:
        pass

    @decorate()
    class Plain:
        """Some text."""

        a: int
        b: str = "x"
        c: tuple[int, ...] = ()
        known: ClassVar[int] = 7

        def sum(self) -> int:
            return self.a + len(self.c)

        @property
        def twice(self) -> int:
            return 2 * self.a

    @decorate()
    class Derived(Plain):
        d: int = 4

    @decorate(eq=False)
    class ByIdentity:
        a: int

    @decorate(eq=False, repr=False)
    class Bare:
        a: int

    @decorate()
    class Checked:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    @decorate()
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.a % 10 == other.a % 10

        def __hash__(self) -> int:
            return self.a % 10

        def __repr__(self) -> str:
            return f"<{self.a}>"

    @decorate()
    class Special:
        a: int
        b: list[int] = field(default_factory=list, compare=False)
        c: int = field(default=5, repr=False)
        d: int = field(init=False, default=8)

    @decorate()
    class Set(Special):
        e: int = field(init=False, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "e", self.a + 1)

    local = {k: v for k, v in locals().items() if isinstance(v, type)}
    return local


CLASSES = {name: _classes(maker) for name, maker in MAKERS.items()}
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "Empty": [()],
    "Plain": [(1,), (1, "y"), (1, "x", (2, 3)), (2,)],
    "Derived": [(1,), (1, "x", (), 4), (1, "x", (), 5)],
    "ByIdentity": [(1,), (1,)],
    "Bare": [(1,)],
    "Checked": [(3,)],
    "Own": [(1,), (11,), (2,)],
    "Special": [(1,), (1, [2]), (1, [2], 6)],
    "Set": [(1,), (1, [2]), (1, [2], 6)],
}


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_instances_are_those_of_the_standard_decorator(name: str) -> None:
    """Fields, text, comparison, hash, copies, refusals."""
    found = []
    for classes in CLASSES.values():
        cls = classes[name]
        instances = [cls(*arguments) for arguments in ARGUMENTS[name]]
        first = instances[0]
        has_text = "Bare" not in name
        by_value = name not in ("ByIdentity", "Bare")
        found.append(
            [
                [dataclasses.astuple(one) for one in instances],
                [repr(one).split(".")[-1] for one in instances if has_text],
                [one == other for one in instances for other in instances],
                [_outcome(lambda one=one: hash(one)) for one in instances if by_value],
                copy.copy(first) == first if by_value else None,
                _outcome(lambda one=first: name == "Empty" or setattr(one, "a", 1)),
                _outcome(lambda one=first: name == "Empty" or delattr(one, "a")),
                _outcome(lambda one=first: one.__dict__),
                [f.name for f in dataclasses.fields(cls)],
                cls.__match_args__,
                cls.__doc__ if name == "Plain" else None,
                _outcome(lambda cls=cls: cls()) is TypeError,
                _outcome(lambda cls=cls: cls(1, 2, 3, 4, 5, 6)) is TypeError,
                first == 3,
            ]
        )

    assert found[1] == found[0]


def test_methods_and_class_variables_stay() -> None:
    """Also in derived classes."""
    one = CLASSES["record"]["Derived"](3, c=(1, 2), d=0)

    assert (5, 6, 7) == (one.sum(), one.twice, one.known)
    assert dataclasses.replace(one, d=9).d == 9
    assert one != CLASSES["record"]["Plain"](3, c=(1, 2))


def test_checks_behind_the_constructor_run() -> None:
    """`__post_init__`."""
    with pytest.raises(ValueError, match="negative"):
        CLASSES["record"]["Checked"](-1)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_are_equal(protocol: int) -> None:
    """With every protocol that keeps slots."""
    kept = Kept(1, [2])

    assert kept == pickle.loads(pickle.dumps(kept, protocol))
    assert kept == copy.deepcopy(kept)


def test_patterns_match_by_position() -> None:
    match Kept(4, 5):
        case Kept(a, b):
            assert (4, 5) == (a, b)


@record
class WithFactory:
    a: int
    b: list[int] = field(default_factory=list)


@pytest.mark.parametrize("kind", [Kept, WithFactory])
def test_methods_that_are_made_belong_to_the_library(kind: Any) -> None:
    """Capture does not compile frames of the library that it meets below a region."""
    for name in ("__init__", "__eq__", "__hash__", "__repr__", "__setattr__"):
        made = vars(kind)[name]
        met = FunctionType(made.__code__, made.__globals__)  # as a frame shows it

        assert "dynajit.core.records" == met.__module__, name
        assert "it belongs to the library" == why_not_captured(met)


def test_devices_and_dtypes_are_no_data_classes() -> None:
    """Programs that walk through data take data classes apart."""
    for value in (dj.device("cpu"), dj.float32):
        assert not dataclasses.is_dataclass(value)
        assert pickle.loads(pickle.dumps(value)) is value
        assert copy.deepcopy(value) is value
