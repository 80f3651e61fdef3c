"""Variables of comprehensions that inner functions capture, or that shadow captured variables.

From 3.12 on a comprehension runs in its function's frame: its variable takes the place of another.
"""

import pytest

from tests.support.python.harness import case


def each_sees_the_last(x):
    functions = [(lambda: x + i) for i in range(3)]
    return [function() for function in functions]


def variable_comes_back(x):
    functions = [(lambda: x) for x in (1, 2)]
    return x, [function() for function in functions]


def outer_function_keeps_its_cell(x):
    outer = lambda: x
    inner = [(lambda: x) for x in (10, 20)]
    x = x + 1
    return outer(), x, [function() for function in inner]


def captured_only_outside(x):
    return [x + 1 for x in (1, 2)], (lambda: x)()


def free_variable_shadowed(y):
    def inner():
        return [y * 2 for y in (1, 2)], y

    return inner(), y


def free_variable_shadowed_by_nothing_read(y):
    def inner():
        return [0 for y in (1, 2)], y

    return inner()


def unbound_before_and_after():
    functions = {n: (lambda: n) for n in (1, 2)}
    try:
        return n, functions
    except NameError as error:
        return type(error), [function() for function in functions.values()]


def nested(x):
    rows = [[(lambda: (i, j, x)) for j in range(2)] for i in range(2)]
    return [function() for row in rows for function in row]


def a_set_and_a_dict(x):
    return {(lambda: k)() + x for k in range(3)}, {k: (lambda: k)() for k in range(3)}


def raised_inside(x):
    try:
        [(lambda: x)() / (x - 1) for x in (0, 1)]
    except ZeroDivisionError:
        return x, (lambda: x)()


def changed_inside(x):
    def add():
        nonlocal x
        x += 1
        return x

    return [x + add() for x in (10, 20)], x, add()


def cells_as_items(y):
    def inner():
        return [type(y).__name__ for y in inner.__closure__], y

    return inner()


def captured_beside_a_shadowed_one(y, z):
    def inner():
        numbers = [len(memoryview(b"ab")) + y for y in (1, 2)]
        return numbers, y, z, (lambda: (y, z))()

    return inner()


def written_beside_shadowed_ones(a, y, z):
    def inner():
        nonlocal z
        names = [type(y).__name__ for y in inner.__closure__]
        z = z + y
        later = [(y, z, (lambda: (a, z))()) for y in (a, z)]
        return names, a, y, z, (lambda: (z, y, a))(), later

    return inner()


def in_a_generator(x):
    def made():
        yield [(lambda: n)() for n in (1, 2)]
        yield x

    return list(made())


def breaks_inside(x):
    functions = [(print(x), lambda: x)[1] for x in (1, 2)]
    return x, (lambda: x)(), [function() for function in functions]


def breaks_inside_where_unbound():
    functions = [(print(n), lambda: n)[1] for n in (1, 2)]
    return [function() for function in functions]


def yields_inside(log):
    def made():
        [(log.append(n), lambda: n)[1] for n in (1, 2)]
        yield len(log)
        functions = [lambda: n for n in (3, 4)]
        yield [function() for function in functions]

    return list(made())


CASES = [
    case(each_sees_the_last, 5, graphs=0),
    case(variable_comes_back, 5, graphs=0),
    case(outer_function_keeps_its_cell, 5, graphs=0),
    case(captured_only_outside, 5, graphs=0),
    case(free_variable_shadowed, 5, graphs=0),
    case(free_variable_shadowed_by_nothing_read, 5, graphs=0),
    case(unbound_before_and_after, graphs=0),
    case(nested, 5, graphs=0),
    case(a_set_and_a_dict, 5, graphs=0),
    case(raised_inside, 5, graphs=0),
    case(changed_inside, 5, graphs=0),
    case(cells_as_items, 5, graphs=0, breaks=1),
    case(captured_beside_a_shadowed_one, 5, 6, graphs=0, breaks=None),
    case(written_beside_shadowed_ones, 5, 6, 7, graphs=0, breaks=1),
    case(in_a_generator, 5, graphs=0),
    case(breaks_inside, 5, graphs=0),
    case(breaks_inside_where_unbound, graphs=0),
    case(yields_inside, [], graphs=0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_tensors_in_captured_variables_are_one_graph(assert_captured, x):
    def f(x):
        functions = [(lambda: x * i) for i in range(3)]
        return [function() for function in functions], [(lambda: x)() for x in (x, x + 1)], x

    assert_captured(f, x)
