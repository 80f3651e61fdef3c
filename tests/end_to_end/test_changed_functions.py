"""Functions changed after compiling: the next call has their code, defaults and attributes now."""

import collections
import contextlib
import dataclasses
import functools
import types
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


def fifty(*args: Any, **keywords: Any) -> float:
    """Its code replaces that of others."""
    return 50.0


other_code = fifty.__code__


#: A program that sees whether `g` takes no arguments.
REFUSED = "def f():\n  try: return g()\n  except TypeError: return 9.0"


def namespace_of(text: str) -> dict[str, Any]:
    """The globals after running some text."""
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return namespace


@case
def method_code() -> Any:
    class C:
        def m(self):
            return 4.0

    c = C()
    return lambda: c.m(), lambda: setattr(C.m, "__code__", other_code)


@case
def global_code() -> Any:
    ns = namespace_of("def g(): return 1.0\ndef f(): return g()")
    return ns["f"], lambda: setattr(ns["g"], "__code__", other_code)


@case
def closure_code() -> Any:
    def g():
        return 1.0

    def f():
        return g()

    return f, lambda: setattr(g, "__code__", other_code)


@case
def instattr_code() -> Any:
    class C:
        pass

    c = C()
    c.g = lambda: 1.0
    return lambda: c.g(), lambda: setattr(c.g, "__code__", other_code)


@case
def prop_code() -> Any:
    class C:
        @property
        def p(self):
            return 1.0

    c = C()
    return lambda: c.p, lambda: setattr(C.p.fget, "__code__", other_code)


@case
def init_code() -> Any:
    class C:
        def __init__(self):
            self.x = 1.0

    def oi(self):
        self.x = 2.0

    return lambda: C().x, lambda: setattr(C.__init__, "__code__", oi.__code__)


@case
def new_code() -> Any:
    class C:
        def __new__(cls):
            return 1.0

    def oi(cls):
        return 2.0

    return lambda: C(), lambda: setattr(C.__new__, "__code__", oi.__code__)


@case
def op_code() -> Any:
    class C:
        def __add__(self, o):
            return 1.0

    c = C()
    return lambda: c + 1, lambda: setattr(C.__add__, "__code__", other_code)


@case
def getattr_code() -> Any:
    class C:
        def __getattr__(self, o):
            return 1.0

    c = C()
    return lambda: c.x, lambda: setattr(C.__getattr__, "__code__", other_code)


@case
def descr_code() -> Any:
    class D:
        def __get__(self, o, t):
            return 1.0

    class C:
        d = D()

    c = C()
    return lambda: c.d, lambda: setattr(D.__get__, "__code__", other_code)


@case
def bound_method_code() -> Any:
    class C:
        def m(self):
            return 1.0

    b = C().m
    return lambda: b(), lambda: setattr(C.m, "__code__", other_code)


@case
def generator_code() -> Any:
    def g():
        yield 1.0

    def h():
        yield 2.0

    return lambda: sum(g()), lambda: setattr(g, "__code__", h.__code__)


@case
def contextmanager_code() -> Any:
    @contextlib.contextmanager
    def g():
        yield 1.0

    def h():
        yield 2.0

    def f():
        with g() as v:
            return v

    return f, lambda: setattr(g.__wrapped__, "__code__", h.__code__)


@case
def sorted_key() -> Any:
    def k(v):
        return v

    def k2(v):
        return -v

    return lambda: float(sorted([1, 2, 3], key=k)[0]), lambda: setattr(k, "__code__", k2.__code__)


@case
def metaclass_call_code() -> Any:
    class M(type):
        def __call__(cls):
            return 1.0

    class C(metaclass=M):
        pass

    return lambda: C(), lambda: setattr(M.__call__, "__code__", other_code)


@case
def super_code() -> Any:
    class A:
        def m(self):
            return 1.0

    class B(A):
        def m(self):
            return super().m()

    b = B()
    return lambda: b.m(), lambda: setattr(A.m, "__code__", other_code)


@case
def setattr_code() -> Any:
    class A:
        def __setattr__(self, n, v):
            object.__setattr__(self, n, v)

    def o(self, n, v):
        object.__setattr__(self, n, v * 2)

    a = A()

    def f():
        a.x = 1.0
        return a.x

    return f, lambda: setattr(A.__setattr__, "__code__", o.__code__)


@case
def dataclass_eq() -> Any:
    @dataclasses.dataclass
    class D:
        x: float = 1.0

    return lambda: 1.0 if D() == D() else 2.0, lambda: setattr(
        D.__eq__, "__code__", (lambda a, b: False).__code__
    )


@case
def func_get_bound() -> Any:
    def g(self=None):
        return 1.0

    m = types.MethodType(g, 3)
    return lambda: m(), lambda: setattr(g, "__code__", other_code)


@case
def callable_inst_code() -> Any:
    class C:
        def __call__(self):
            return 1.0

    c = C()
    return lambda: c(), lambda: setattr(C.__call__, "__code__", other_code)


@case
def defaults_method_none() -> Any:
    class C:
        def m(self, x=None):
            return 1.0 if x is None else x

    c = C()
    return lambda: c.m(), lambda: setattr(C.m, "__defaults__", (2.0,))


@case
def defaults_global() -> Any:
    ns = namespace_of("def g(x=None): return 1.0 if x is None else x\ndef f(): return g()")
    return ns["f"], lambda: setattr(ns["g"], "__defaults__", (2.0,))


@case
def defaults_removed() -> Any:
    ns = namespace_of(
        "def g(x=1.0): return x\ndef f():\n  try: return g()\n  except TypeError: return 9.0"
    )
    return ns["f"], lambda: setattr(ns["g"], "__defaults__", None)


@case
def defaults_removed_unused() -> Any:
    ns = namespace_of(
        "def g(x=1.0): return 3.0\ndef f():\n  try: return g()\n  except TypeError: return 9.0"
    )
    return ns["f"], lambda: setattr(ns["g"], "__defaults__", None)


@case
def defaults_added() -> Any:
    ns = namespace_of(
        "def g(x): return 3.0\ndef f():\n  try: return g()\n  except TypeError: return 9.0"
    )
    return ns["f"], lambda: setattr(ns["g"], "__defaults__", (1,))


@case
def defaults_same_first() -> Any:
    ns = namespace_of("def g(x, y=1.0): return y\ndef f(): return g(5.0)")
    return ns["f"], lambda: setattr(ns["g"], "__defaults__", (1.0, 8.0))


@case
def kwdefaults_set() -> Any:
    ns = namespace_of("def g(*, x=None): return 1.0 if x is None else x\ndef f(): return g()")
    return ns["f"], lambda: setattr(ns["g"], "__kwdefaults__", {"x": 2.0})


@case
def kwdefaults_removed() -> Any:
    ns = namespace_of(
        "def g(*, x=1.0): return 3.0\ndef f():\n  try: return g()\n  except TypeError: return 9.0"
    )
    return ns["f"], lambda: ns["g"].__kwdefaults__.clear()


@case
def kwdefaults_removed_method() -> Any:
    class C:
        def m(self, *, x=1.0):
            return 3.0

    c = C()

    def f():
        try:
            return c.m()
        except TypeError:
            return 9.0

    return f, lambda: setattr(C.m, "__kwdefaults__", None)


@case
def kwdefaults_added() -> Any:
    ns = namespace_of(
        "def g(*, x): return 3.0\ndef f():\n  try: return g()\n  except TypeError: return 9.0"
    )
    return ns["f"], lambda: setattr(ns["g"], "__kwdefaults__", {"x": 1})


@case
def argfunc_defaults() -> Any:
    def g(x=None):
        return 1.0 if x is None else x

    return (lambda: g(), lambda: setattr(g, "__defaults__", (2.0,)))


@case
def nt_defaults() -> Any:
    N = collections.namedtuple("N", "a b", defaults=[2.0])
    return lambda: N(1.0).b, lambda: setattr(N.__new__, "__defaults__", (3.0,))


@case
def partial_keywords() -> Any:
    p = functools.partial(lambda a, b=1.0: a + b, 1.0, b=2.0)
    return lambda: p(), lambda: p.keywords.update(b=9.0)


@case
def partial_longer() -> Any:
    p = functools.partial(lambda *a, **k: float(len(a)), 1.0)
    return lambda: p(), lambda: p.__setstate__((p.func, (1.0, 2.0), {}, None))


@case
def partial_kw() -> Any:
    p = functools.partial(lambda *a, **k: float(len(k)), 1.0)
    return lambda: p(), lambda: p.keywords.update(b=4)


@case
def partial_func() -> Any:
    p = functools.partial(lambda *a, **k: float(len(k)), 1.0)
    return lambda: p(), lambda: p.__setstate__((lambda *a: 7.0, (1.0, 2.0), {}, None))


@case
def partialmethod() -> Any:
    class A:
        def g(self, v):
            return v

        p = functools.partialmethod(g, 1.0)

    a = A()

    def change():
        vars(A)["p"].args = (2.0,)

    return lambda: a.p(), change


@case
def partialmethod_func() -> Any:
    class A:
        def g(self, v):
            return v

        p = functools.partialmethod(g, 1.0)

    a = A()

    def change():
        vars(A)["p"].func = lambda s, v: 9.0

    return lambda: a.p(), change


@case
def partialmethod_longer() -> Any:
    class A:
        def g(self, *v):
            return float(len(v))

        p = functools.partialmethod(g, 1.0)

    a = A()

    def change():
        vars(A)["p"].args = (1.0, 2.0)

    return lambda: a.p(), change


@case
def partialmethod_kw() -> Any:
    class A:
        def g(self, *v, **k):
            return float(len(k))

        p = functools.partialmethod(g, 1.0)

    a = A()

    def change():
        vars(A)["p"].keywords = {"a": 1}

    return lambda: a.p(), change


@case
def singledispatchmethod() -> Any:
    class A:
        @functools.singledispatchmethod
        def g(self, x):
            return 1.0

    a = A()
    return lambda: a.g(3), lambda: A.g.register(int, lambda s, x: 2.0)


@case
def hasattr_func() -> Any:
    def g():
        pass

    return lambda: float(hasattr(g, "v")), lambda: setattr(g, "v", 3)


@case
def func_code_read() -> Any:
    def g(x=1):
        pass

    return lambda: float(g.__code__.co_argcount), lambda: setattr(g, "__code__", other_code)


@case
def wraps_dict() -> Any:
    def g():
        pass

    def f():
        @functools.wraps(g)
        def h():
            pass

        return float(len(h.__dict__))

    return f, lambda: setattr(g, "foo", "long")


@case
def wraps_attr() -> Any:
    def g():
        pass

    def f():
        @functools.wraps(g)
        def h():
            pass

        return float(hasattr(h, "foo"))

    return f, lambda: setattr(g, "foo", "long")


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
