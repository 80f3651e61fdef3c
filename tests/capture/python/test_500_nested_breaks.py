"""Breaks inside inlined calls: every frame goes on by itself, and nothing runs twice.

Each function is compared with plain Python in result and effects (`assert_captured`); here the
number of graphs says that what comes before and after the break, in every frame, is compiled.
"""

# The programs under test are spelled as users spell them.

import sys
import traceback

import numpy as np
import pytest

from dynajit import eager, nn

LOG = []


def opaque(value):
    """What the compiler does not know: a C function."""
    memoryview(b"abc")
    return value


def deepest(v):
    w = v * 2
    memoryview(b"abc")
    return w + 1


def middle(v):
    a = v - 1
    b = deepest(a)
    return b * a


def outer(x):
    y = x + 3
    z = middle(y)
    return z / y


def with_arguments(x, *rest, scale=2, **more):
    y = x * scale
    memoryview(b"abc")
    return y + len(rest) + len(more)


def calls_with_everything(x):
    return with_arguments(x, 1, 2, scale=3, k=4) + with_arguments(*[x, 5], **{"z": 1})


class Number:
    def __init__(self, value):
        self.value = value
        memoryview(b"abc")
        self.double = value * 2

    def __add__(self, other):
        memoryview(b"abc")
        return Number(self.value + other)

    def __neg__(self):
        memoryview(b"abc")
        return -self.value

    def __getitem__(self, key):
        memoryview(b"abc")
        return self.value * key

    def __setitem__(self, key, value):
        memoryview(b"abc")
        self.value = self.value * key + value

    def __bool__(self):
        memoryview(b"abc")
        return self.value.ndim == 2

    def __len__(self):
        memoryview(b"abc")
        return 3

    def __call__(self, x):
        memoryview(b"abc")
        return self.value + x

    @property
    def half(self):
        memoryview(b"abc")
        return self.value / 2

    @half.setter
    def half(self, value):
        memoryview(b"abc")
        self.value = value * 2


class Sized:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        memoryview(b"abc")
        return self.length


class Steps:
    def __init__(self, x, stop):
        self.x, self.stop, self.count = x, stop, 0

    def __iter__(self):
        memoryview(b"abc")
        return self

    def __next__(self):
        self.count += 1
        memoryview(b"abc")
        if self.count > self.stop:
            raise StopIteration
        return self.x * self.count


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        memoryview(b"abc")
        return self

    def __exit__(self, kind, error, trace):
        memoryview(b"abc")
        self.log.append(kind and kind.__name__)
        return kind is KeyError


def constructor(x):
    made = Number(x + 1)
    return made.value * made.double


def operators(x):
    made = Number(x) + 1
    negative = -made
    item = made[3]
    made[2] = x
    return negative + item, made.value


def properties(x):
    made = Number(x)
    made.half = made.half + 1
    return made.value


def method_of_property(x):
    class Holder:
        @property
        def function(self):
            memoryview(b"abc")
            return lambda v: v * 2

    return Holder().function(x) + 1


def called_instance(x):
    return Number(x)(x * 2) + 1


def truth(x):
    number, empty = Number(x), Sized(0)
    if number:
        x = x + 1
    if not empty:
        x = x * 2
    while empty:
        x = x - 1
    return x, not number, bool(Sized(2))


def iteration(x):
    total = x * 0
    for step in Steps(x, 3):
        total = total + step
    else:
        total = total * 2
    return total


def early_end_of_iteration(x):
    for step in Steps(x, 5):
        if step.shape[0] == 2:
            break
    return step + 1


def managers(x):
    log = []
    with Manager(log) as manager:
        y = x * 2
        with manager:
            log.append(y + 1)
    return y, log


def swallowing_manager(x):
    log = []
    y = x
    with Manager(log):
        y = x * 2
        raise KeyError("inside")
    return y + 1, log


def raising(x):
    y = x * 2
    memoryview(b"abc")
    raise ValueError("deep", y.ndim)


def caught_two_frames_up(x):
    def between(v):
        return raising(v + 1)

    try:
        return between(x)
    except ValueError as error:
        return x * 3, error.args


def finally_in_between(x):
    log = []

    def between(v):
        try:
            return raising(v + 1)
        finally:
            log.append(v * 5)

    try:
        between(x)
    except ValueError:
        log.append(x - 1)
    return log


def inner_function_shares_a_cell(x):
    count = 0
    total = [x]

    def bump(v):
        nonlocal count
        count += 1
        memoryview(b"abc")
        count += 10
        total.append(v * count)

    bump(x)
    y = x + count
    bump(y)
    return y, count, total


def functions_made_anew(x):
    results = []
    for i in range(3):

        def scaled(v):
            w = v * (i + 1)
            memoryview(b"abc")
            return w + i

        results.append(scaled(x))
    return results


def recursive(x):
    def down(v, n):
        if n == 0:
            memoryview(b"abc")
            return v * 2
        return down(v + n, n - 1) + n

    return down(x, 3)


def lambda_and_default(x):
    return (lambda v, k=2: opaque(v * k) + k)(x) + 1


class Base:
    def value(self, x):
        y = x + 1
        memoryview(b"abc")
        return y * 2


class Derived(Base):
    def value(self, x):
        y = super().value(x) * 3
        return y + super().value(x)


def super_calls(x):
    return Derived().value(x)


def in_arguments(x):
    return [deepest(x), {"a": deepest(x + 1)}, (x, *[deepest(x - 1)])], f"{deepest(x).ndim}!"


def in_boolean_operators(x):
    a = deepest(x) if deepest(x).ndim else None
    return (deepest(x).ndim and opaque(0)) or opaque("default"), a, 1 < opaque(2) < opaque(3)


FUNCTIONS = [
    outer, calls_with_everything, constructor, operators, properties, method_of_property,
    called_instance, truth, iteration, early_end_of_iteration, managers, swallowing_manager,
    caught_two_frames_up, finally_in_between, inner_function_shares_a_cell, functions_made_anew,
    recursive, lambda_and_default, super_calls, in_arguments, in_boolean_operators,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_nested_break_changes_nothing(function, x, assert_captured):
    assert_captured(function, x, graphs=None, breaks=None)


@pytest.mark.parametrize(
    ("function", "graphs"),
    [(outer, 2), (constructor, 2), (called_instance, 3), (super_calls, 3), (recursive, 2),
     (caught_two_frames_up, 2)],
)  # fmt: skip
def test_everything_before_and_after_is_compiled(function, graphs, x, compiler):
    compiler.compile(function)(x)
    names = {r.name.partition(" (")[0] for r in compiler.regions if hasattr(r, "graph")}
    assert function.__qualname__ in names
    assert graphs <= len(compiler.graphs)
    assert [] == compiler.skips


def operations(compiler):
    """The operations of all graphs, in the order in which the graphs were made."""
    return [[node.op.name for node in graph.calls] for graph in compiler.graphs]


def test_one_graph_before_the_break_and_one_after_in_each_frame(x, compiler):
    compiler.compile(outer)(x)
    assert [["add", "sub", "mul"], ["add"], ["mul"], ["div"]] == operations(compiler)


def test_steady_state_compiles_nothing(x, compiler):
    compiled = compiler.compile(outer)
    compiled(x)
    made = len(compiler.regions)
    for _ in range(5):
        compiled(x)
    assert made == len(compiler.regions)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(eager.tensor(np.full((3,), 2.0, np.float32)))

    def forward(self, x):
        y = x * self.weight
        memoryview(b"abc")
        return y + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        y = self.first(x + 1) * 2
        return self.second(y) - 1


@pytest.mark.parametrize("hooked", [False, True])
def test_a_break_deep_in_submodules(x, compiler, check_same, hooked):
    net = Net()
    seen = []
    if hooked:
        net.first.register_forward_hook(lambda module, args, result: seen.append(1) or result * 3)
    expected = net(x)
    compiled = compiler.compile(lambda v: net(v))
    check_same(expected, compiled(x))
    check_same(expected, compiled(x))
    assert [["add", "mul"], ["add"]] == operations(compiler)[:2]
    assert 4 <= len(compiler.graphs)
    assert len(seen) == (3 if hooked else 0)


def lines_of(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        here = [e for e in traceback.extract_tb(error.__traceback__) if e.filename == __file__]
        return type(error), str(error), [(e.name, e.lineno) for e in here[1:]]
    raise AssertionError("nothing was raised")


def fails_deep(x):
    y = x + 1
    return fails_in_the_middle(y) * 2


def fails_in_the_middle(v):
    w = v * 2
    memoryview(b"abc")
    return fails(w)


def fails(w):
    z = w + 1
    memoryview(b"abc")
    z = z.ndim
    memoryview(b"abc")
    raise ValueError(z)


def test_tracebacks_show_each_function_once_at_its_line(x, compiler):
    expected = lines_of(fails_deep, x)
    compiled = compiler.compile(fails_deep)
    assert 3 == len(expected[2])
    for _ in range(2):
        assert expected == lines_of(compiled, x)


def test_the_handled_exception_of_the_caller_is_kept(x, compiler):
    def function(v):
        memoryview(b"abc")
        return sys.exc_info()[0], v + 1

    compiled = compiler.compile(function)
    for _ in range(2):
        try:
            raise KeyError("outer")
        except KeyError:
            assert KeyError is compiled(x)[0]
        assert compiled(x)[0] is None


def test_a_break_below_a_module_is_reported_at_the_users_line(x, compiler):
    net = Net()
    compiler.compile(lambda v: net(v))(x)
    assert 'memoryview(b"abc")' == compiler.breaks[0].location.text
