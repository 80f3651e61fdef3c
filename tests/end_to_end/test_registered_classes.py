"""Classes registered with abstract ones after compiling: the next call knows."""

import _abc
import abc
import collections.abc as ca
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

Case = Callable[[], tuple[Callable[[], float], Callable[[], Any]]]

#: Each makes something that a program uses: (the use as a number, a change of what is used).
# ruff: noqa: B024
CASES: list[Case] = []


def case(make: Case) -> Case:
    """Enter a case."""
    CASES.append(make)
    return make


@case
def abc_register() -> Any:
    class A(abc.ABC):
        pass

    class C:
        pass

    c = C()
    return lambda: float(isinstance(c, A)), lambda: A.register(C)


@case
def abc_register_sub() -> Any:
    class A(abc.ABC):
        pass

    class C:
        pass

    return lambda: float(issubclass(C, A)), lambda: A.register(C)


@case
def abc_register_base() -> Any:
    class A(abc.ABC):
        pass

    class B(A):
        pass

    class C:
        pass

    c = C()
    return lambda: float(isinstance(c, A)), lambda: B.register(C)


@case
def abc_register_except() -> Any:
    class A(abc.ABC):
        pass

    class C:
        pass

    c = C()

    def f():
        match c:
            case A():
                return 1.0
        return 0.0

    return f, lambda: A.register(C)


@case
def coll_register2() -> Any:
    class C:
        pass

    c = C()
    return lambda: float(isinstance(c, ca.Sequence)), lambda: ca.Sequence.register(C)


@case
def abc_isinstance_tuple() -> Any:
    class A(abc.ABC):
        pass

    class C:
        pass

    c = C()
    return lambda: float(isinstance(c, (int, A))), lambda: A.register(C)


@case
def abc_isinstance_union() -> Any:
    class A(abc.ABC):
        pass

    class C:
        pass

    c = C()
    return lambda: float(isinstance(c, int | A)), lambda: A.register(C)


@case
def match_seq() -> Any:
    class C:
        def __len__(self):
            return 1

        def __getitem__(self, i):
            if i > 0:
                raise IndexError
            return 5.0

    c = C()

    def f():
        match c:
            case [x]:
                return x
        return 0.0

    return f, lambda: ca.Sequence.register(C)


@case
def match_map() -> Any:
    class C:
        def __len__(self):
            return 1

        def __getitem__(self, i):
            return 5.0

        def get(self, k, d=None):
            return 7.0

        def keys(self):
            return ["a"]

    c = C()

    def f():
        match c:
            case {"a": x}:
                return x
        return 0.0

    return f, lambda: ca.Mapping.register(C)


@case
def subclasshook_code() -> Any:
    class A(abc.ABC):
        @classmethod
        def __subclasshook__(cls, c):
            return True

    class C:
        pass

    c = C()

    def no(cls, c):
        return False

    def ch():
        A.__subclasshook__.__func__.__code__ = no.__code__
        _abc._reset_caches(A)

    return lambda: float(isinstance(c, A)), ch


@case
def abstract_methods() -> Any:
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self):
            pass

    def u():
        try:
            A()
            return 1.0
        except TypeError:
            return 2.0

    return u, lambda: setattr(A, "__abstractmethods__", frozenset())


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_the_next_call_sees_the_change(make: Case) -> None:
    use, change = make()
    compiled = dj.compile(lambda x: x + use(), backend="numpy")
    x = dj.tensor([1.0])
    assert pytest.approx(1.0 + use()) == compiled(x).item()

    before = use()
    change()
    assert use() != before  # plain Python notices

    assert pytest.approx(1.0 + use()) == compiled(x).item()


def test_a_backend_may_register_classes_while_it_compiles() -> None:
    """As modules do that it imports for the first time."""

    class Asked(abc.ABC):
        pass

    class Unrelated(abc.ABC):
        pass

    calls = []

    def backend(graph: Any, types: Any) -> Any:
        if not calls:
            Unrelated.register(type("Imported", (), {}))
        calls.append(graph)
        return lambda x: (x + 0,)

    item = object()
    compiled = dj.compile(lambda x: x + isinstance(item, Asked), backend=backend)
    with dj.config.override(strict=True):
        assert [1.0] == compiled(dj.ones(1)).tolist()
    compiled(dj.ones(1))
    assert 2 == len(calls)
