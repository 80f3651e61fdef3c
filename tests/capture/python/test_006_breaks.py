"""Functions that break: the result and every effect are those of plain Python."""

# The programs under test are spelled as users spell them.

import pytest

from dynajit import eager
from dynajit.capture.entry import session
from dynajit.core.errors import GraphBreakError

LOG = []


def unknown(value):
    """Calls a C function that the compiler does not know."""
    LOG.append("unknown")
    return memoryview(b"abc")[value]


class Thing:
    def __init__(self):
        self.count = 0
        self.notes = []

    def branch(self, x):
        self.count += 1
        if x.sum() > 0:
            self.notes.append("positive")
            return x * 2
        self.notes.append("negative")
        return x * 3


def data_dependent_branch(x, y):
    z = x * 2
    if z.sum() > 0:
        return z + y
    return z - y


def data_dependent_branch_with_effects(x, y):
    log = []
    z = x * 2
    log.append("before")
    if z.sum() > 100:
        log.append("large")
    else:
        log.append("small")
    log.append(z + 1)
    return log


def data_dependent_loop(x, y):
    n = 0
    while x.sum() < 50:
        x = x * 2 + 1
        n += 1
    return x, n


def item(x, y):
    total = x.sum().item()
    return y * total, total


def float_of_tensor(x, y):
    return y * float(x.sum()) + int(y.sum())


def printing(x, y):
    z = x + 1
    print("captured?", z.shape)
    return z * y


def unknown_call(x, y):
    z = x * 2
    LOG.append("before")
    number = unknown(1)
    LOG.append("after")
    return z + number * y


def break_in_loop(x, y):
    for i in range(3):
        x = x + i
        unknown(0)
        x = x * 2
    return x


def break_in_loop_over_list(x, y):
    results = []
    for i, v in enumerate([x, y, x]):
        w = v * i
        unknown(0)
        results.append(w + i)
    return results


def break_in_inlined_callee(x, y):
    def callee(v):
        w = v * 2
        return w + unknown(1)

    return callee(x) + y


def break_in_method(x, y):
    thing = Thing()
    first = thing.branch(x)
    second = thing.branch(-x)
    return first, second, thing.count, thing.notes


def break_in_nested_expression(x, y):
    return (x + 1) * max(x.ndim, unknown(0)) + (y - 1)


def break_with_stack(x, y):
    return [x * 2, {"a": y + 1, "b": unknown(1)}, (x, unknown(0))]


def break_in_try(x, y):
    try:
        z = x * 2
        unknown(100)
        return z
    except IndexError as error:
        return y * 3, str(error)
    finally:
        LOG.append("finally")


def break_in_handler(x, y):
    try:
        raise KeyError("a")
    except KeyError:
        z = x * 2
        unknown(0)
        return z + 1


def break_in_with(x, y):
    with eager.no_grad():
        z = x * 2
        unknown(0)
        w = z + 1
        mode = eager.is_grad_enabled()
    return w * y, mode, eager.is_grad_enabled()


def break_in_comprehension(x, y):
    return [x * unknown(i) for i in range(2)]


def break_in_generator(x, y):
    def numbers():
        yield x * 2
        unknown(0)
        yield y * 3

    return [v + 1 for v in numbers()]


def break_in_closure(x, y):
    total = []

    def inner(v):
        total.append(v * 2)
        return unknown(0)

    inner(x)
    inner(y)
    return total


def nonlocal_across_break(x, y):
    count = 0

    def bump():
        nonlocal count
        count += 1

    bump()
    z = x * 2
    unknown(0)
    bump()
    return z, count


def uncaught_exception(x, y):
    z = x * 2
    if z.shape[0] == 2:
        raise ValueError("wrong rows")
    return z


def exception_of_an_operation(x, y):
    z = x * 2
    return z @ y


def exception_in_callee(x, y):
    return x * 2 + {"a": 1}["b"]


def in_place_on_argument(x, y):
    x += 1
    x.mul_(2)
    return x * y


def in_place_on_view(x, y):
    z = x * 2
    row = z[0]
    row += 1
    return z


def item_assignment(x, y):
    z = x * 1
    z[0, 1] = 5.0
    return z + y


def import_inside(x, y):
    import math

    return x * math.floor(2.5)


def class_inside(x, y):
    class Local:
        factor = 3

    return x * Local.factor


def tensor_in_condition_expression(x, y):
    return x + 1 if (x > 100).any() else y + 1


def and_of_tensors(x, y):
    return (x.sum() > 0 and y.sum() > 0), x + 1


def assertion_on_tensor(x, y):
    assert x.sum() > 0, "sum must be positive"
    return x * 2


def tolist_and_back(x, y):
    return sum(x.reshape(-1).tolist()), y * 2


def live_after_break(x, y):
    a, b, c = x + 1, {"k": y}, [1, (2, x)]
    unknown(0)
    b["k"] = b["k"] + a
    c.append(a)
    return a, b, c


def deleted_before_break(x, y):
    a = x + 1
    b = a * 2
    del a
    unknown(0)
    return b


def iterator_across_break(x, y):
    iterator = iter([1, 2, 3])
    first = next(iterator)
    unknown(0)
    return x * first, list(iterator)


def sorted_by_tensor(x, y):
    return sorted([x.sum(), y.sum()], key=lambda v: v.item()), x + 1


def starred_call_of_unknown(x, y):
    args = [1]
    return x * 2 + unknown(*args)


def keyword_call_of_unknown(x, y):
    return x * 2 + unknown(value=1)


def break_in_default_argument(x, y):
    def inner(v, k=unknown(1)):
        return v * k

    return inner(x) + y


def return_in_loop_with_break(x, y):
    for i in range(5):
        x = x + 1
        if x.sum() > 10:
            return x, i
    return y, -1


def nested_breaks(x, y):
    def middle(v):
        def deepest(w):
            if w.sum() > 0:
                return w * 2
            return w * 3

        return deepest(v) + 1

    return middle(x) + middle(y)


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and not isinstance(value, type)
    and name != "unknown"
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_break_changes_nothing(function, x, y, assert_captured):
    assert_captured(function, x, y, graphs=None, breaks=None)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_fullgraph_names_the_line(function, x, y):
    try:
        region = session.capture(function, (x, y), fullgraph=True)
    except GraphBreakError as error:
        assert "test_006_breaks.py:" in str(error)
        assert "Hint: " in str(error) or "cannot" in str(error)
    else:
        assert region is not None


def test_both_sides_of_a_break_are_graphs(x, y, compiler):
    compiler.compile(data_dependent_branch)(x, y)
    assert 2 == len(compiler.graphs)
    assert ["data_dependent_branch"] == [record.reason.name for record in compiler.breaks]


def test_a_loop_that_breaks_uses_one_resume_code(x, y, compiler):
    def loop(x):
        for i in range(100):
            x = x + i
            memoryview(b"abc")
            x = x * 0.5
        return x

    compiler.compile(loop)(x)
    assert len(compiler.regions) <= 4


def test_the_record_shows_the_users_line_and_a_hint(x, y, compiler):
    compiler.compile(item)(x, y)
    (record, *_) = compiler.breaks
    assert "data_dependent_value" == record.reason.name
    assert "total = x.sum().item()" == record.location.text
    assert "item" in str(record)


def test_a_break_in_a_callee_shows_the_call(x, y):
    with pytest.raises(GraphBreakError, match="called from") as error:
        session.capture(nested_breaks, (x, y), fullgraph=True)
    assert "data" in str(error.value) or "branch" in str(error.value)
