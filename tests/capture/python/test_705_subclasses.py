"""`cls.__subclasses__()`: known while a function is compiled, and looked at in every call."""

import gc

import pytest

import dynajit as dj
from dynajit import eager
from tests.support.python.harness import Compiler, case


class Shape:
    sides = 0


class Triangle(Shape):
    sides = 3


class Quad(Shape):
    sides = 4


class Square(Quad):
    pass


class Lonely:
    pass


class Announced(type):
    def __subclasses__(cls):
        return [int, cls]


class Own(metaclass=Announced):
    pass


class Derived(Own):
    pass


def all_below(cls, x):
    found, left = [], cls.__subclasses__()
    while left:
        taken = left.pop()
        left += taken.__subclasses__()
        found.append(taken)
    return found, x + sum(each.sides for each in found)


def asked_of_type(x):
    return type.__subclasses__(Shape), [c.__name__ for c in type.__subclasses__(Quad)], x


def a_list_of_its_own(x):
    first, second = Shape.__subclasses__(), Shape.__subclasses__()
    first.clear()
    return first is second, first, second, x


X = eager.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "case",
    [
        case(all_below, Shape, X),
        case(all_below, Lonely, X),
        case(a_list_of_its_own, X),
        case(asked_of_type, X),
        case(lambda x: (Own.__subclasses__(), x), X),
        case(lambda x: (type.__subclasses__(Own), x), X),
        case(lambda x: (len(object.__subclasses__()) > 64, x), X, breaks=1, graphs=None),
        case(lambda x: Shape.__subclasses__(x), X, breaks=None, graphs=None),
        case(lambda x: x.__subclasses__(), X, breaks=None, graphs=None),
    ],
    ids=str,
)
def test_is_as_in_plain_python(case, assert_captured) -> None:
    case.check(assert_captured)


def test_another_subclass_is_another_version() -> None:
    """One that comes, one that goes, and one in another one's place."""

    class Root:
        sides = 0

    def make(count: int) -> type:
        return type("Made", (Root,), {"sides": count})

    compiled = dj.compile(all_below, backend="numpy", fullgraph=True)

    def both() -> int:
        expected, found = all_below(Root, X), compiled(Root, X)
        assert found[0] == expected[0]
        assert found[1].tolist() == expected[1].tolist()
        return len(found[0])

    assert both() == 0
    made = make(3)
    assert both() == 1
    assert both() == 1
    assert len(compiled.guards()) == 2
    del made
    gc.collect()
    assert both() == 0
    made = make(5)
    assert both() == 1


def test_the_guard_explains_itself() -> None:
    class Root:
        pass

    compiler = Compiler(fullgraph=True)
    compiler.compile(lambda x: (len(Root.__subclasses__()), x))(X)
    (guard,) = (g for g in compiler.regions[0].guards if "subclasses" in g.expression())
    only = type("Only", (Root,), {})

    assert guard.expression().endswith(".__subclasses__() == []")
    assert "expected the subclasses [], now the subclasses [class Only]" in guard.explain(Root)
    assert only in Root.__subclasses__()
