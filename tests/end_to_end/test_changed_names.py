"""Names and descriptors changed after compiling: the next call sees them."""

import collections
import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

Case = Callable[[], tuple[Callable[[], float], Callable[[], Any]]]

#: Each makes something that a program uses: (the use as a number, a change of what is used).
CASES: list[Case] = []


def case(make: Case) -> Case:
    """Enter a case."""
    CASES.append(make)
    return make


@case
def staticmethod_init_again() -> Any:
    class A:
        @staticmethod
        def p():
            return 1.0

    c = A()
    return lambda: c.p(), lambda: vars(A)["p"].__init__(lambda: 2.0)


@case
def classmethod_init_again() -> Any:
    class A:
        @classmethod
        def p(cls):
            return 1.0

    c = A()
    return lambda: c.p(), lambda: vars(A)["p"].__init__(lambda s: 2.0)


@case
def cached_property_func() -> Any:
    class A:
        @functools.cached_property
        def p(self):
            return 1.0

    def u():
        return A().p

    return u, lambda: setattr(vars(A)["p"], "func", lambda s: 2.0)


@case
def setting_getter() -> Any:
    class A:
        x = property(lambda s: 1.0, lambda s, v: setattr(s, "y", v))

    a = A()

    def f():
        a.x = 3.0
        return a.y

    def ch():
        vars(A)["x"].__init__(lambda s: 1.0, lambda s, v: setattr(s, "y", v + 1))

    return f, ch


@case
def getattr_meta() -> Any:
    class M(type):
        @property
        def p(cls):
            return 1.0

    class A(metaclass=M):
        pass

    return lambda: A.p, lambda: vars(M)["p"].__init__(lambda c: 2.0)


@case
def slot_replaced() -> Any:
    class A:
        __slots__ = ("x", "y")

    c = A()
    c.x = 1.0
    c.y = 2.0
    return lambda: c.x, lambda: setattr(A, "x", A.y)


@case
def slot_replaced_prop() -> Any:
    class A:
        __slots__ = ("x", "y")

    c = A()
    c.x = 1.0
    c.y = 2.0
    return lambda: c.x, lambda: setattr(A, "x", property(lambda s: 7.0))


@case
def bases_deep() -> Any:
    class X:
        pass

    class A(X):
        pass

    class Y(X):
        def m(self):
            return 1.0

    class Z(X):
        def m(self):
            return 2.0

    class B(Y):
        pass

    class C(B):
        pass

    c = C()
    return lambda: c.m(), lambda: setattr(B, "__bases__", (Z,))


@case
def class_of_instance() -> Any:
    class A:
        def m(self):
            return 1.0

    class B:
        def m(self):
            return 2.0

    c = A()
    return lambda: c.m(), lambda: setattr(c, "__class__", B)


@case
def class_of_descr() -> Any:
    class D:
        def __get__(self, o, t):
            return 1.0

    class E:
        def __get__(self, o, t):
            return 2.0

    class C:
        d = D()

    c = C()
    return lambda: c.d, lambda: setattr(vars(C)["d"], "__class__", E)


@case
def class_of_callable() -> Any:
    class D:
        def __call__(self):
            return 1.0

    class E:
        def __call__(self):
            return 2.0

    class C:
        d = D()

    c = C()
    return lambda: c.d(), lambda: setattr(vars(C)["d"], "__class__", E)


@case
def class_of_class() -> Any:
    class M(type):
        def f(cls):
            return 1.0

    class N(type):
        def f(cls):
            return 2.0

    class C(metaclass=M):
        pass

    return lambda: C.f(), lambda: setattr(C, "__class__", N)


@case
def descr_inst_attr() -> Any:
    class D:
        def __init__(self):
            self.v = None

        def __get__(self, o, t):
            return 1.0 if self.v is None else self.v

    class C:
        d = D()

    c = C()
    return lambda: c.d, lambda: setattr(vars(C)["d"], "v", 3.0)


@case
def mro_entries() -> Any:
    class A:
        pass

    class B(A):
        pass

    class D(A):
        v = 4.0

    b = B()
    return lambda: getattr(b, "v", 1.0), lambda: setattr(B, "__bases__", (D,))


@case
def class_mro_read() -> Any:
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    return lambda: 1.0 if A in C.__mro__ else 2.0, lambda: setattr(C, "__bases__", (B,))


@case
def match_args() -> Any:
    class P:
        __match_args__ = ("x", "y")

        def __init__(s):
            s.x = 1.0
            s.y = 2.0

    p = P()

    def u():
        match p:
            case P(v):
                return v

    return u, lambda: setattr(P, "__match_args__", ("y", "x"))


@case
def func_name() -> Any:
    def g():
        pass

    return lambda: 1.0 if g.__name__ == "g" else 2.0, lambda: setattr(g, "__name__", "h")


@case
def func_doc() -> Any:
    def g():
        "doc"

    return lambda: 1.0 if g.__doc__ == "doc" else 2.0, lambda: setattr(g, "__doc__", "h")


@case
def func_qualname() -> Any:
    def g():
        pass

    n = g.__qualname__
    return lambda: 1.0 if g.__qualname__ == n else 2.0, lambda: setattr(g, "__qualname__", "h")


@case
def func_module() -> Any:
    def g():
        pass

    n = g.__module__
    return lambda: 1.0 if g.__module__ == n else 2.0, lambda: setattr(g, "__module__", "h")


@case
def class_name() -> Any:
    class C:
        pass

    return lambda: 1.0 if C.__name__ == "C" else 2.0, lambda: setattr(C, "__name__", "D")


@case
def class_qualname() -> Any:
    class C:
        pass

    n = C.__qualname__
    return lambda: 1.0 if C.__qualname__ == n else 2.0, lambda: setattr(C, "__qualname__", "D")


@case
def class_repr() -> Any:
    class C:
        pass

    n = repr(C)
    return lambda: 1.0 if repr(C) == n else 2.0, lambda: setattr(C, "__qualname__", "D")


@case
def type_name_of() -> Any:
    class C:
        pass

    c = C()
    return lambda: float(len(type(c).__name__)), lambda: setattr(C, "__name__", "long")


@case
def text_of_list() -> Any:
    class C:
        pass

    return lambda: float(len(repr([C]))), lambda: setattr(C, "__qualname__", "D")


@case
def text_of_func() -> Any:
    def g():
        pass

    return lambda: float(len(repr(g).split(" at ")[0])), lambda: setattr(g, "__qualname__", "D")


@case
def text_fmt() -> Any:
    class C:
        pass

    return lambda: float(len(f"{C}")), lambda: setattr(C, "__qualname__", "D")


@case
def text_pct() -> Any:
    class C:
        pass

    return lambda: float(len("%s" % C)), lambda: setattr(C, "__qualname__", "D")  # noqa: UP031


@case
def text_pct2() -> Any:
    class C:
        pass

    return lambda: float(len("%s %s" % (C, 1))), lambda: setattr(C, "__qualname__", "D")  # noqa: UP031


@case
def text_format() -> Any:
    class C:
        pass

    return lambda: float(len(f"{C} {1}")), lambda: setattr(C, "__qualname__", "D")


@case
def text_dc() -> Any:
    @dataclasses.dataclass
    class C:
        x: int = 1

    return lambda: float(len(repr(C()))), lambda: setattr(C, "__qualname__", "D3456")


@case
def text_nt() -> Any:
    N = collections.namedtuple("N", "a b", defaults=[2.0])
    return lambda: float(len(repr(N(1)))), lambda: setattr(N, "__name__", "D3456")


@case
def gen_name() -> Any:
    def g():
        yield 1

    return lambda: float(len(g().__name__)), lambda: setattr(g, "__name__", "long")


@case
def method_name() -> Any:
    class C:
        def m(self):
            pass

    c = C()
    return lambda: float(len(c.m.__name__)), lambda: setattr(C.m, "__name__", "long")


@case
def wraps_name() -> Any:
    def g():
        pass

    def f():
        @functools.wraps(g)
        def h():
            pass

        return float(len(h.__name__))

    return f, lambda: setattr(g, "__name__", "long")


@case
def enum_val() -> Any:
    class E(enum.Enum):
        A = 1

    return lambda: float(E.A.value), lambda: setattr(E.A, "_value_", 7)


@case
def enum_name() -> Any:
    class E(enum.Enum):
        A = 1

    return lambda: float(len(E.A.name)), lambda: setattr(E.A, "_name_", "BC")


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
