"""Constants, locals, arithmetic on tensors and numbers."""

# The programs under test are spelled as users spell them.

import math

import pytest

from dynajit.ops import functions as F

FACTOR = 3.0
COUNT = 4


def add(x, y):
    return x + y


def chain(x, y):
    z = x * 2 - y / 4
    return -z + 1.5


def reversed_operands(x, y):
    return (1 - x) * (2 / (y + 10))


def powers(x, y):
    return x**2 + abs(y) ** 0.5


def comparisons(x, y):
    return x < y, x >= y, x == y, x != 0.5


def floor_and_remainder(x, y):
    return x // 2, x % 2


def matrix_product(x, y):
    return x @ y.T


def unused_result(x, y):
    x * y
    return x + 1


def constant_folding(x, y):
    scale = (2 + 3) * 4 - 1
    return x * scale + len("abc")


def global_number(x, y):
    return x * FACTOR + COUNT


def math_on_constants(x, y):
    return x * math.sqrt(2.0) + math.pi


def augmented(x, y):
    total = x + 0
    total += y
    total *= 2
    return total


def chained_comparison(x, y):
    if 1 < COUNT < 10:
        return x + y
    return x - y


def ternary(x, y):
    return x + 1 if COUNT > 2 else x - 1


def boolean_operators(x, y):
    flag = COUNT and FACTOR
    other = None or 2
    return x * flag * other


def string_choice(x, y):
    mode = "add" + ""
    if mode == "add":
        return x + y
    return x - y


def f_string(x, y):
    name = f"{COUNT:03d}-{FACTOR!r}-{'a'}"
    return x + len(name), name


def percent_format(x, y):
    return x + 1, "%s %d" % ("a", COUNT)


def negative_constant(x, y):
    return x * -COUNT


def bitwise(x, y):
    return x * (COUNT << 2 | 1) + (~COUNT)


def tuple_swap(x, y):
    a, b = x, y
    a, b = b, a
    return a - b


def returns_number(x, y):
    return x + 1, 5, "s", None, True, 2.5


def functions_of_library(x, y):
    return F.relu(x), F.exp(y), F.where(x > 0, x, y)


def methods(x, y):
    return x.sum(), x.mean(dim=1), x.reshape(3, 2), x.T, y.exp().log()


def delete_local(x, y):
    z = x + y
    w = z * 2
    del z
    return w


def tensor_facts(x, y):
    rows, columns = x.shape
    return x.reshape(columns, rows) * x.ndim + x.dim() + x.numel(), x.shape[0], x.dtype


def assertion(x, y):
    assert COUNT == 4, "never"
    return x + y


def walrus(x, y):
    return (z := x + y) * 2 + z


FUNCTIONS = [
    add, chain, reversed_operands, powers, comparisons, floor_and_remainder, matrix_product,
    unused_result, constant_folding, global_number, math_on_constants, augmented,
    chained_comparison, ternary, boolean_operators, string_choice, f_string, percent_format,
    negative_constant, bitwise, tuple_swap, returns_number, functions_of_library, methods,
    delete_local, tensor_facts, assertion, walrus,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gives_one_graph_and_the_same_result(function, x, y, assert_captured):
    assert_captured(function, x, y)


def test_a_number_argument_is_not_specialised(x, compiler):
    compiled = compiler.compile(lambda x, n: x * n + (n - 1.0))
    for n in (2.0, 3.0, 0.5):
        assert (compiled(x, n).numpy() == (x * n + (n - 1.0)).numpy()).all()
    assert 1 == len(compiler.graphs)


def test_a_number_in_a_branch_is_guarded_by_its_predicate(x, compiler):
    def function(x, n):
        return x * 2 if n > 1 else x * 3

    compiled = compiler.compile(function)
    for n in (2, 3, 40):
        assert (compiled(x, n).numpy() == (x * 2).numpy()).all()
    assert 1 == len(compiler.graphs)
    assert (compiled(x, 1).numpy() == (x * 3).numpy()).all()
    assert 2 == len(compiler.graphs)


def test_a_number_used_as_a_size_is_specialised(x, compiler):
    compiled = compiler.compile(lambda x, n: x.reshape(n, -1) + 1)
    assert (3, 2) == tuple(compiled(x, 3).shape)
    assert (6, 1) == tuple(compiled(x, 6).shape)
    assert 2 == len(compiler.graphs)


def test_an_int_and_a_float_are_different_programs(x, compiler):
    compiled = compiler.compile(lambda x, n: (x * n, n))
    assert 2 == compiled(x, 2)[1]
    result = compiled(x, 2.0)[1]
    assert (float, 2.0) == (type(result), result)


def test_a_function_without_tensors_runs_as_it_is(compiler):
    compiled = compiler.compile(lambda a, b: a * b + 1)
    assert 7 == compiled(2, 3)
    assert [] == compiler.graphs


def test_an_argument_is_returned_by_identity(x, compiler):
    compiled = compiler.compile(lambda x: (x, x * 2))
    assert compiled(x)[0] is x


def test_one_result_returned_twice_is_one_object(x, compiler):
    def function(x):
        z = x * 2
        return z, [z]

    first, (second,) = compiler.compile(function)(x)
    assert first is second


def test_one_tensor_passed_twice_is_one_input(x, y, compiler):
    compiled = compiler.compile(lambda a, b: a * b + a)
    assert (compiled(x, x).numpy() == (x * x + x).numpy()).all()
    assert 1 == len(compiler.graphs[0].inputs)
    assert (compiled(x, y).numpy() == (x * y + x).numpy()).all()
    assert 2 == len(compiler.graphs[1].inputs)


def test_nodes_point_at_the_users_line(x, compiler):
    compiler.compile(add)(x, x)
    location = compiler.graphs[0].calls[0].location
    assert "return x + y" == location.text
