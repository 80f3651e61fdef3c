"""Loops, branches, comprehensions, unpacking, exceptions that are caught."""

# The programs under test are spelled as users spell them.

import pytest

from dynajit.ops import functions as F


def for_range(x, y):
    for i in range(3):
        x = x + y * i
    return x


def while_loop(x, y):
    n = 0
    while n < 4:
        x = x * 0.5
        n += 1
    return x, n


def break_and_continue(x, y):
    for i in range(10):
        if i == 1:
            continue
        if i > 3:
            break
        x = x + i
    return x


def loop_else(x, y):
    for i in range(2):
        x = x + i
    else:
        x = x * 2
    while False:
        pass
    else:
        x = x - 1
    return x


def nested_loops(x, y):
    for i in range(2):
        for j in range(i + 1):
            x = x + i * j
    return x


def enumerate_and_zip(x, y):
    total = x * 0
    for i, (a, b) in enumerate(zip([x, y], (y, x)), start=1):
        total = total + a * b * i
    return total


def loop_over_rows(x, y):
    total = y[0]
    for row in x:
        total = total + row
    return total


def list_comprehension(x, y):
    return sum([x * i for i in range(4) if i % 2]) + y


def dict_comprehension(x, y):
    table = {f"k{i}": x + i for i in range(3)}
    return table["k2"], table


def set_comprehension(x, y):
    return x + len({i % 2 for i in range(5)})


def nested_comprehension(x, y):
    return [[x * i + j for j in range(2)] for i in range(2)]


def generator_expression(x, y):
    return sum(x * i for i in range(3)), any(i > 1 for i in range(3)), max(i * i for i in (1, 2))


def starred_unpacking(x, y):
    first, *rest, last = [x, 1, 2, y]
    return first + last * len(rest), rest


def reversed_and_sorted(x, y):
    for i in reversed([1, 2, 3]):
        x = x * i
    order = sorted([3, 1, 2], key=lambda v: -v)
    return x, order, sorted("bca", reverse=True)


def map_and_filter(x, y):
    kept = list(filter(lambda v: v > 1, [1, 2, 3]))
    return list(map(lambda a, b: a * b, [x, y], kept))


def iterator_protocol(x, y):
    iterator = iter([1, 2])
    total = x + next(iterator)
    total = total + next(iterator) + next(iterator, 10)
    return total


def caught_key_error(x, y):
    table = {"a": 1}
    try:
        return x * table["b"]
    except KeyError:
        return x * 2


def caught_custom_raise(x, y):
    try:
        if x.shape[0] == 2:
            raise ValueError("two rows")
        z = x
    except (TypeError, ValueError) as error:
        z = x + len(error.args[0])
    finally:
        y = y + 1
    return z + y


def nothing_raised(x, y):
    try:
        z = x + 1
    except ValueError:
        z = x - 1
    else:
        z = z * 2
    finally:
        z = z + y
    return z


def raise_in_callee(x, y):
    def pick(table, key):
        return table[key]

    try:
        return x + pick([1], 5)
    except IndexError:
        return x - y


def return_in_finally_path(x, y):
    def inner():
        try:
            return x + 1
        finally:
            pass

    return inner() * y


def nested_try(x, y):
    try:
        try:
            raise KeyError("a")
        except ValueError:
            return x
    except KeyError:
        return y * 2


def any_all(x, y):
    return x + any([0, 0, 1]), all([1, 0]), all([])


def min_max(x, y):
    return x * max(1, 3, 2) + min([4, 2]), max("a", "bb", key=len), min([], default=7)


def chained_conditions(x, y):
    if (x.ndim == 2 and x.shape[1] == 3) or False:
        return x + 1
    elif x is y:
        return y
    return x - 1


def is_none(x, y):
    z = None
    if z is None and x is not None:
        z = x
    return z + y


def zip_lists_of_tensors(x, y):
    out = []
    for a, b in zip([x, y], [y, x]):
        out.append(F.maximum(a, b))
    return out


def while_true(x, y):
    n = 0
    while True:
        n += 1
        x = x + n
        if n == 3:
            return x


def delete_in_loop(x, y):
    items = [1, 2, 3]
    while items:
        x = x + items.pop()
    return x, items


def generator_function(x, y):
    def numbers(n):
        for i in range(n):
            yield i * 2

    total = y
    for i in numbers(3):
        total = total + x * i
    return total, list(numbers(2))


def yield_from(x, y):
    def inner():
        yield x
        yield y

    def outer():
        yield 1
        yield from inner()

    return [item * 2 for item in outer()]


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gives_one_graph_and_the_same_result(function, x, y, assert_captured):
    assert_captured(function, x, y)
