"""The head of every random program: imports, globals, classes and functions to use."""

HEADER = """\
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator

import dynajit as dj

COUNTER = 0
LOG = []
TABLE = {"k": 1}


class Box:
    kind = "box"

    def __init__(self, value=0):
        self.value = value
        self.items = []

    @property
    def doubled(self):
        return self.value * 2

    @doubled.setter
    def doubled(self, new):
        self.value = new / 2

    def bump(self, by=1):
        self.value = self.value + by
        self.items.append(by)
        return self

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __add__(self, other):
        return Box(self.value + other)

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value

    __hash__ = None


class Child(Box):
    kind = "child"

    def bump(self, by=2, *, twice=False):
        super().bump(by)
        if twice:
            super().bump(by)
        return self


@contextlib.contextmanager
def logged(name):
    LOG.append(("enter", name))
    try:
        yield name
    finally:
        LOG.append(("exit", name))


def countdown(n):
    while n > 0:
        yield n
        n -= 1
    return "done"


def stepwise(t, n):
    try:
        for q in range(n):
            got = yield t * q
            if got is not None:
                LOG.append(("got", got))
        return "end"
    finally:
        LOG.append("closed")


def delegating(t, n):
    result = yield from stepwise(t, n)
    LOG.append(result)
    yield t


def starred(*args, k=1, **more):
    LOG.append((len(args), sorted(more), k))
    return args[0] * k + len(args)


def collecting(t, seen=[]):
    seen.append(len(seen))
    return t + len(seen)


def factorial(t, k):
    return t if k <= 0 else factorial(t * 0.5 + k, k - 1)


def noted(function):
    @functools.wraps(function)
    def wrapper(*args, **named):
        LOG.append(function.__name__)
        return function(*args, **named)

    return wrapper


@noted
def halved(t, by=2):
    return t / by


class Steps:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Store:
    made = 0

    def __init__(self, **start):
        Store.made += 1
        self.data = dict(start)

    def __setitem__(self, key, value):
        self.data[key] = value

    def __getitem__(self, key):
        return self.data[key]

    def __delitem__(self, key):
        del self.data[key]

    def __contains__(self, key):
        return key in self.data

    def __bool__(self):
        return bool(self.data)

    def __call__(self, t, *rest):
        return t * len(self.data) + len(rest)

    def __getattr__(self, name):
        if name.startswith("_") or name == "data":
            raise AttributeError(name)
        return self.data.get(name)

    def __enter__(self):
        self.data["depth"] = self.data.get("depth", 0) + 1
        return self

    def __exit__(self, kind, error, trace):
        self.data["depth"] -= 1
        LOG.append(kind.__name__ if kind else None)
        return kind is KeyError

    @classmethod
    def full(cls, n):
        return cls(**{f"k{i}": i for i in range(n)})

    @staticmethod
    def double(value):
        return value * 2


@dataclasses.dataclass
class Point:
    a: object
    b: int = 2
    rest: list = dataclasses.field(default_factory=list)


Pair = collections.namedtuple("Pair", "left right")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dj.disable
def outside(value):
    LOG.append("outside")
    return value


class Net(dj.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = dj.nn.Parameter(dj.ones(1))
        self.register_buffer("seen", dj.zeros(1))
        self.inner = dj.nn.Sequential(dj.nn.ReLU(), dj.nn.Tanh())
        self.calls = 0
        self.last = None

    def forward(self, t, scale=1):
        self.calls += 1
        self.seen += 1
        self.last = self.inner(t * self.weight) * scale
        return self.last + self.seen


def hook(module, passed, result):
    LOG.append((type(module).__name__, len(passed)))
    return result * 2 if SCALE > 1 else None


NET = Net()


class Bag:  # compares and counts on its own terms
    __slots__ = ("held", "spare")

    def __init__(self, *held):
        self.held = list(held)

    def __iter__(self):
        for one in self.held:
            yield one

    def __contains__(self, other):
        LOG.append("contains")
        return any(one is other for one in self.held)

    def __lt__(self, other):
        return len(self.held) < len(other.held)

    def __hash__(self):
        return 7

    def __eq__(self, other):
        LOG.append("equal")
        return isinstance(other, Bag) and len(self.held) == len(other.held)

    def __iadd__(self, other):
        self.held.append(other)
        return self

    def __radd__(self, other):
        return len(self.held) + other

    def __neg__(self):
        return Bag(*self.held[::-1])

    def __bool__(self):
        raise TypeError("a bag is neither true nor false")


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name, None)

    def __set__(self, instance, new):
        if new is None:
            raise TypeError(self.name)
        setattr(instance, self.name, new)


class Base:
    size = Typed()
    shared = []

    def __init__(self, size):
        self.size = size

    def __setattr__(self, name, new):
        if name != "_size":
            LOG.append(name)
        object.__setattr__(self, name, new)

    def area(self):
        return self.size


class Left(Base):
    def area(self):
        return ("left", super().area())


class Right(Base):
    def area(self):
        return ("right", super().area())


class Both(Left, Right):
    pass


@dataclasses.dataclass(order=True)
class Item:
    rank: int
    body: object = dataclasses.field(default=None, compare=False)

    def __post_init__(self):
        self.rank = self.rank * 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: int = 0


class Failing:
    def __init__(self, fails=False, eats=False):
        self.fails, self.eats = fails, eats

    def __enter__(self):
        LOG.append("in")
        return self

    def __exit__(self, kind, error, trace):
        LOG.append(("out", str(error)))
        if self.fails:
            raise RuntimeError("on the way out")
        return self.eats


class Noted(Exception):
    def __init__(self, text, held=None):
        super().__init__(text)
        self.held = held


def pairs(t, n):
    with logged("pairs"):
        for q in range(n):
            try:
                yield q, t + q
            except KeyError as error:
                LOG.append(error.args)
            except GeneratorExit:
                LOG.append("left")
                raise


def changing(held, *, to=None):
    held.append(to)
    if len(held) > 4:
        del held[1:3]
    return held


def filling(mapping, t):
    mapping["last"] = t
    mapping.setdefault("all", []).append(t)
    return mapping


def written(t, by=2):
    t.mul_(by)
    return t[1:]


def failing(n):
    if n > 1:
        raise Noted(f"failing {n}", held=n)
    return n


SCALE = 1
FACTOR = 0.5


def scaled(t):
    return t * SCALE + FACTOR

"""
