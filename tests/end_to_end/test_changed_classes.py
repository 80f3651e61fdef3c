"""Classes changed after compiling: the next call does what the class says now."""

import dataclasses
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.capture.entry import cache

MISSING = object()


class Meta(type):
    """A metaclass with a method, an operator and a property."""

    def twice(cls) -> float:
        """A method of the class."""
        return 2.0

    def __len__(cls) -> int:
        return 3

    @property
    def half(cls) -> float:
        """Computed from nothing."""
        return 0.5


def make_classes() -> Any:
    """Fresh classes for each test: (base, class, metaclass)."""

    class OwnMeta(Meta):
        pass

    class Base:
        def inherited(self) -> float:
            return 1.0

        @staticmethod
        def below() -> float:
            return 2.0

    class C(Base, metaclass=OwnMeta):
        factor = 3.0

        def method(self) -> float:
            return 4.0

        @staticmethod
        def s() -> float:
            return 5.0

        @classmethod
        def c(cls) -> float:
            return 6.0

        @property
        def p(self) -> float:
            return 7.0

    return Base, C, OwnMeta


def plain(value: Any) -> Callable[..., Any]:
    """A function of any arguments that gives `value`."""
    return lambda *args, **keywords: value


def set_x(self: Any, *args: Any) -> None:
    """An initialiser."""
    object.__setattr__(self, "x", 11.0)


def store_twice(self: Any, name: str, value: Any) -> None:
    """A `__setattr__`."""
    object.__setattr__(self, name, value * 2)


def written(obj: Any) -> Any:
    """What is found after writing an attribute."""
    obj.written = 3.0
    return obj.written


def deleted(obj: Any) -> Any:
    """What deleting an attribute leaves."""
    obj.gone = 1.0
    try:
        del obj.gone
    except KeyError:
        return 5.0
    return 1.0


def refuse(self: Any, name: str) -> None:
    """A `__delattr__`."""
    raise KeyError(name)


def number(use: Callable[[Any], Any]) -> Callable[[Any, Any], float]:
    """What `use` gives of (class, instance) as a number; -1.0 for an error."""

    def read(cls: Any, obj: Any) -> float:
        try:
            return float(use(cls, obj))
        except (TypeError, AttributeError):
            return -1.0

    return read


#: name -> (which of (base, class, metaclass), attribute, new value, program)
CHANGES: dict[str, tuple[int, str, Any, Callable[[Any, Any], Any]]] = {
    "staticmethod": (1, "s", staticmethod(plain(50.0)), lambda C, c: C.s()),
    "staticmethod of an instance": (1, "s", staticmethod(plain(50.0)), lambda C, c: c.s()),
    "classmethod": (1, "c", classmethod(plain(60.0)), lambda C, c: C.c()),
    "classmethod of an instance": (1, "c", classmethod(plain(60.0)), lambda C, c: c.c()),
    "property": (1, "p", property(plain(70.0)), lambda C, c: c.p),
    "method": (1, "method", plain(40.0), lambda C, c: c.method()),
    "method by the class": (1, "method", plain(40.0), lambda C, c: C.method(c)),
    "method becomes property": (1, "method", property(plain(40.0)), lambda C, c: c.method),
    "inherited method": (0, "inherited", plain(10.0), lambda C, c: c.inherited()),
    "inherited staticmethod": (0, "below", staticmethod(plain(20.0)), lambda C, c: C.below()),
    "method in front of a base's": (1, "inherited", plain(10.0), lambda C, c: c.inherited()),
    "staticmethod in front": (1, "below", staticmethod(plain(9.0)), lambda C, c: C.below()),
    "data": (1, "factor", 30.0, lambda C, c: C.factor * c.factor),
    "data becomes property": (1, "factor", property(plain(8.0)), lambda C, c: c.factor),
    "method of the metaclass": (2, "twice", plain(20.0), lambda C, c: C.twice()),
    "property of the metaclass": (2, "half", property(plain(9.0)), lambda C, c: C.half),
    "operator of the metaclass": (2, "__len__", plain(7), lambda C, c: len(C)),
    "truth of the metaclass": (2, "__bool__", plain(False), lambda C, c: 1.0 if C else 2.0),
    "call of the metaclass": (2, "__call__", plain(7.0), lambda C, c: 1.0 if C() == 7.0 else 2.0),
    "__getattr__ of the metaclass": (2, "__getattr__", plain(7.0), lambda C, c: C.missing),
    "__instancecheck__": (2, "__instancecheck__", plain(True), lambda C, c: isinstance(3, C)),
    "getattr default": (1, "missing", plain(7.0), lambda C, c: 1.0 if hasattr(c, "missing") else 2),
    "class getattr default": (1, "missing", 7.0, lambda C, c: getattr(C, "missing", 1.0)),
    "__init__": (1, "__init__", set_x, lambda C, c: getattr(C(), "x", 1.0)),
    "inherited __init__": (0, "__init__", set_x, lambda C, c: getattr(C(), "x", 1.0)),
    "__new__": (1, "__new__", plain(7.0), lambda C, c: 1.0 if type(C()) is C else 2.0),
    "__eq__": (1, "__eq__", plain(True), lambda C, c: 1.0 if c == 3 else 2.0),
    "__ne__": (1, "__ne__", plain(False), lambda C, c: 1.0 if c != 3 else 2.0),
    "__lt__": (1, "__lt__", plain(True), lambda C, c: 1.0 if c < 3 else 2.0),
    "__bool__": (1, "__bool__", plain(False), lambda C, c: 1.0 if c else 2.0),
    "inherited __bool__": (0, "__bool__", plain(False), lambda C, c: 1.0 if c else 2.0),
    "__len__": (1, "__len__", plain(0), lambda C, c: 1.0 if c else 2.0),
    "__len__ asked": (1, "__len__", plain(4), lambda C, c: len(c)),
    "__getattr__": (1, "__getattr__", plain(7.0), lambda C, c: c.missing),
    "__getattribute__": (1, "__getattribute__", plain(7.0), lambda C, c: c.factor),
    "__setattr__": (1, "__setattr__", store_twice, lambda C, c: written(c)),
    "__delattr__": (1, "__delattr__", refuse, lambda C, c: deleted(c)),
    "__iter__": (1, "__iter__", lambda self: iter([1.0, 2.0]), lambda C, c: sum(c)),
    "__contains__": (1, "__contains__", plain(True), lambda C, c: 3 in c),
    "__getitem__": (1, "__getitem__", plain(7.0), lambda C, c: c[2]),
    "__add__": (1, "__add__", plain(7.0), lambda C, c: c + 1),
    "__radd__": (1, "__radd__", plain(7.0), lambda C, c: 1 + c),
    "__neg__": (1, "__neg__", plain(7.0), lambda C, c: -c),
    "__call__": (1, "__call__", plain(7.0), lambda C, c: c()),
    "callable": (1, "__call__", plain(7.0), lambda C, c: 1.0 if callable(c) else 2.0),
    "__hash__": (1, "__hash__", plain(7), lambda C, c: 1.0 if hash(c) == 7 else 2.0),
    "unhashable": (1, "__hash__", None, lambda C, c: len({c})),
    "__float__": (1, "__float__", plain(7.0), lambda C, c: float(c)),
    "__index__": (1, "__index__", plain(1), lambda C, c: [1.0, 2.0][c]),
    "__str__": (1, "__str__", plain("seven"), lambda C, c: 1.0 if str(c) == "seven" else 2.0),
    "method added": (1, "added", plain(7.0), lambda C, c: c.added()),
    "deleted method": (1, "method", MISSING, lambda C, c: c.method()),
    "deleted staticmethod": (1, "s", MISSING, lambda C, c: C.s()),
    "deleted property": (1, "p", MISSING, lambda C, c: c.p),
    "deleted data": (1, "factor", MISSING, lambda C, c: C.factor),
    "deleted inherited": (0, "inherited", MISSING, lambda C, c: c.inherited()),
}


def change(cls: type, name: str, value: Any) -> None:
    """Set the attribute, or delete it."""
    if value is MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, value)


@pytest.mark.parametrize("is_argument", [False, True], ids=["global", "argument"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_class_is_seen(name: str, is_argument: bool) -> None:
    place, attribute, value, use = CHANGES[name]
    classes = make_classes()
    C, old, x = classes[1], classes[1](), dj.ones(2)
    read = number(use)
    if is_argument:
        compiled = dj.compile(lambda x, obj: x + read(C, obj), backend="numpy")
    else:
        holder = [old]
        compiled = dj.compile(lambda x, _: x + read(C, holder[0]), backend="numpy")
    for _ in range(4):
        assert compiled(x, old)[0].item() == 1 + read(C, old)
    before = read(C, old)
    change(classes[place], attribute, value)
    after = read(C, old)
    assert before != after, "the change shows in plain Python"
    for _ in range(4):
        assert compiled(x, old)[0].item() == 1 + after
    if attribute not in ("__new__", "__call__"):
        new = object.__new__(C)
        assert compiled(x, new)[0].item() == 1 + read(C, new if is_argument else old)


def test_a_context_manager_is_changed() -> None:
    class Manager:
        def __enter__(self) -> float:
            return 1.0

        def __exit__(self, *exception: object) -> bool:
            return False

    manager = Manager()

    def program(x: Any) -> Any:
        with manager as value:
            return x + value

    compiled = dj.compile(program, backend="numpy")
    for value in (1.0, 2.0, 3.0):
        assert compiled(dj.ones(2)).tolist() == program(dj.ones(2)).tolist() == [1 + value] * 2
        Manager.__enter__ = plain(value + 1.0)  # type: ignore[method-assign]


def test_bases_are_assigned() -> None:
    class First:
        def value(self) -> float:
            return 1.0

    class Second:
        def value(self) -> float:
            return 2.0

    class C(First):
        pass

    instance = C()
    compiled = dj.compile(lambda x: x + instance.value() + isinstance(instance, First))
    assert compiled(dj.ones(2)).tolist() == [3, 3]
    C.__bases__ = (Second,)
    assert compiled(dj.ones(2)).tolist() == [3, 3] == [1 + 2.0 + isinstance(instance, First)] * 2
    C.__bases__ = (First, Second)
    assert compiled(dj.ones(2)).tolist() == [3, 3]


def test_a_class_gets_another_metaclass() -> None:
    class First(type):
        def value(cls) -> float:
            return 1.0

    class Second(type):
        def value(cls) -> float:
            return 2.0

    class C(metaclass=First):
        pass

    compiled = dj.compile(lambda x: x + C.value(), backend="numpy")
    assert compiled(dj.ones(2)).tolist() == [2, 2]
    C.__class__ = Second
    assert compiled(dj.ones(2)).tolist() == [3, 3]


def test_super_sees_a_replaced_method() -> None:
    Base, C, _ = make_classes()

    class D(C):
        def inherited(self) -> float:
            return super().inherited() * 10

    instance = D()
    compiled = dj.compile(lambda x: x + instance.inherited(), backend="numpy")
    assert compiled(dj.ones(2)).tolist() == [11, 11]
    Base.inherited = plain(2.0)
    assert compiled(dj.ones(2)).tolist() == [21, 21]
    C.inherited = plain(3.0)
    assert compiled(dj.ones(2)).tolist() == [31, 31]
    del C.inherited
    assert compiled(dj.ones(2)).tolist() == [21, 21]


@pytest.mark.parametrize("name", ["forward", "helper", "__call__", "__getattr__", "scale"])
def test_a_module_is_changed(name: str) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        @staticmethod
        def scale() -> float:
            return 2.0

        def helper(self, x: Any) -> Any:
            return x * self.scale()

        def forward(self, x: Any) -> Any:
            return self.helper(self.layer(x)) + 1

    changed = {
        "forward": lambda self, x: self.layer(x) * 3,
        "helper": lambda self, x: x * 5,
        "__call__": lambda self, x: x * 7,
        "__getattr__": lambda self, name: lambda x: x * 9,
        "scale": staticmethod(plain(11.0)),
    }
    block, x = Block(), dj.ones(1, 2)
    compiled = dj.compile(lambda x: block(x), backend="numpy")
    for _ in range(3):
        assert compiled(x).tolist() == block(x).tolist()
    before = block(x).tolist()
    setattr(Block, name, changed[name])
    assert block(x).tolist() != before
    for _ in range(3):
        assert compiled(x).tolist() == block(x).tolist()


def test_methods_of_a_dataclass_are_changed() -> None:
    @dataclasses.dataclass
    class Point:
        x: float
        y: float = 2.0

    def program(x: Any) -> Any:
        return x + (1.0 if Point(1.0) == Point(1.0) else 2.0) + Point(1.0).y

    def initialise(self: Any, x: float) -> None:
        self.x, self.y = x, 20.0

    compiled = dj.compile(program, backend="numpy")
    assert compiled(dj.ones(1)).tolist() == [4]
    Point.__eq__ = plain(False)  # type: ignore[method-assign]
    assert compiled(dj.ones(1)).tolist() == program(dj.ones(1)).tolist() == [5]
    Point.__init__ = initialise  # type: ignore[method-assign]
    assert compiled(dj.ones(1)).tolist() == program(dj.ones(1)).tolist() == [23]


def entries_of(compiled: Any) -> int:
    """How many versions were compiled."""
    return len(cache.cache_of(compiled).entries(compiled))


def test_data_of_a_class_may_change_in_every_call() -> None:
    class Counted:
        count = 0
        log: list[float] = []  # noqa: RUF012

        def step(self) -> float:
            return 2.0

    counted = Counted()
    compiled = dj.compile(lambda x: x * counted.step(), backend="numpy")
    for count in range(1200):  # more than a class has version tags
        assert compiled(dj.ones(1)).item() == 2.0
        Counted.count += 1
        Counted.log = [float(count)]
    assert entries_of(compiled) == 1
    Counted.step = plain(3.0)  # type: ignore[method-assign]
    assert compiled(dj.ones(1)).item() == 3.0


def test_a_replaced_method_that_comes_back_needs_no_third_version() -> None:
    _, C, _ = make_classes()
    compiled = dj.compile(lambda x: x + C.s(), backend="numpy")
    first, second = vars(C)["s"], staticmethod(plain(50.0))
    for _ in range(3):
        for method, expected in ((first, 6), (second, 51)):
            C.s = method
            assert compiled(dj.ones(1)).item() == expected
    assert entries_of(compiled) == 2


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("s", staticmethod(plain(50.0)), "C.s was replaced"),
        ("__bool__", plain(False), "C.__bool__ was added"),
        ("p", MISSING, "C.p was removed"),
        ("__bases__", None, "C.__bases__ was replaced"),
    ],
)
def test_a_report_names_the_attribute(name: str, value: Any, text: str) -> None:
    Base, C, _ = make_classes()
    compiled = dj.compile(lambda x: x + C.s(), backend="numpy")
    compiled(dj.ones(1))
    if name == "__bases__":
        C.__bases__ = (type("Other", (Base,), {}),)
    else:
        change(C, name, value)
    entry = cache.cache_of(compiled).entries(compiled)[0]
    failure = entry.guards.explain_failure((dj.ones(1),), compiled.__wrapped__)
    assert failure is not None
    assert failure.explanation.endswith(text)
    assert failure.old.endswith("C")


def test_no_code_of_the_user_runs_in_the_check() -> None:
    asked: list[str] = []

    class Watching:
        def __get__(self, instance: Any, owner: Any) -> float:
            asked.append("get")
            return 1.0

        def __eq__(self, other: object) -> bool:
            asked.append("eq")
            return True

        __hash__ = None  # type: ignore[assignment]

    class C:
        watching = Watching()

        def value(self) -> float:
            return 2.0

    instance = C()
    compiled = dj.compile(lambda x: x + instance.value(), backend="numpy")
    for _ in range(3):
        compiled(dj.ones(1))
        C.count = 1  # type: ignore[attr-defined]
    assert asked == []
    assert entries_of(compiled) == 1
    C.watching = Watching()
    compiled(dj.ones(1))
    assert asked == []
    assert entries_of(compiled) == 2


def test_replaced_methods_end_with_the_compiled_function() -> None:
    _, C, _ = make_classes()
    ends = weakref.ref(vars(C)["method"])
    instance = C()
    compiled = dj.compile(lambda x: x + instance.method(), backend="numpy")
    compiled(dj.ones(1))
    C.method = plain(1.0)
    compiled(dj.ones(1))
    del compiled
    dj.reset()
    gc.collect()
    assert ends() is None
