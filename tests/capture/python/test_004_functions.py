"""Calls: defaults, keywords, closures, lambdas, partials, decorators, recursion, globals."""

import contextlib
import functools
import operator

import pytest

from dynajit import eager
from dynajit.ops import functions as F

STATE = {"calls": 0}
COUNTER = 0


def helper(a, b=2, *, scale=1.0):
    return a * b * scale


def variadic(*args, **kwargs):
    return sum(args[1:], args[0]) * len(kwargs)


def positional_only(a, /, b):
    return a - b


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@twice
def decorated(a):
    """Documented."""
    return a + 1


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def make_adder(amount):
    def add(v):
        return v + amount

    return add


ADD_FIVE = make_adder(5.0)


def defaults_and_keywords(x, y):
    return helper(x) + helper(y, 3) + helper(x, scale=0.5) + helper(b=x, a=y)


def star_arguments(x, y):
    return variadic(x, y, x, k=1, j=2) + positional_only(x, b=y)


def lambdas(x, y):
    double = lambda v: v * 2
    return double(x) + (lambda a, b=y: a * b)(x)


def closures(x, y):
    scale = 3

    def inner(v):
        return v * scale + y

    return inner(x)


def nonlocal_variable(x, y):
    count = 0

    def bump(v):
        nonlocal count
        count += 1
        return v + count

    return bump(x) + bump(y), count


def late_binding(x, y):
    functions = []
    for i in range(3):
        functions.append(lambda v: v * i)
    return [f(x) for f in functions]


def closure_from_outside(x, y):
    return ADD_FIVE(x) * y


def decorators(x, y):
    return decorated(x) + y, decorated.__name__


def local_decorator(x, y):
    @twice
    def inner(v):
        return v - 1

    return inner(x)


def recursion(x, y):
    return x * factorial(5)


def partials(x, y):
    bound = functools.partial(helper, b=y, scale=2.0)
    return bound(x) + functools.partial(operator.mul, x)(y)


def reduce_call(x, y):
    return functools.reduce(operator.add, [x, y, x])


def higher_order(x, y):
    def compose(*functions):
        def run(v):
            for function in functions:
                v = function(v)
            return v

        return run

    return compose(F.relu, lambda v: v + 1, F.exp)(x)


def operator_module(x, y):
    return operator.add(x, y), operator.getitem([x, 1], 1), operator.neg(x), operator.lt(1, 2)


def returns_functions_result_tuple(x, y):
    def pair(a):
        return a + 1, a - 1

    (a, b), c = pair(x), pair(y)
    return a * b + c[0]


def default_argument_made_by_code(x, y):
    def inner(v, factor=x.shape[0], *, shift=y):
        return v * factor + shift

    return inner(x)


def keyword_dict(x, y):
    def collect(**kwargs):
        return kwargs

    made = collect(a=x + 1, b=2)
    return made, list(made)


def argument_tuple(x, y):
    def collect(*args):
        return args[::-1]

    return collect(x, y * 2)


def no_grad_block(x, y):
    with eager.no_grad():
        z = x * 2
    return z + y, eager.is_grad_enabled()


def enable_grad_inside(x, y):
    with eager.no_grad():
        with eager.enable_grad():
            z = x + 1
        w = z * 2
    return z, w


class Manager:
    def __init__(self, value):
        self.value = value
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self.value

    def __exit__(self, kind, error, trace):
        self.log.append("exit" if kind is None else kind.__name__)
        return kind is ValueError


def context_manager(x, y):
    manager = Manager(3)
    with manager as value:
        z = x * value
    return z, manager.log


def context_manager_that_swallows(x, y):
    manager = Manager(2)
    z = x
    with manager as value:
        z = x + value
        raise ValueError("swallowed")
    return z, manager.log


FUNCTIONS = [
    defaults_and_keywords, star_arguments, lambdas, closures, nonlocal_variable, late_binding,
    closure_from_outside, decorators, local_decorator, recursion, partials, reduce_call,
    higher_order, operator_module, returns_functions_result_tuple,
    default_argument_made_by_code, keyword_dict, argument_tuple, no_grad_block,
    enable_grad_inside, context_manager, context_manager_that_swallows,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gives_one_graph_and_the_same_result(function, x, y, assert_captured):
    assert_captured(function, x, y)


def test_nothing_of_the_users_runs_while_capturing(x, compiler):
    seen = []

    class Table(dict):
        def __missing__(self, key):
            seen.append(key)
            return 1

    table = Table()
    compiled = compiler.compile(lambda x: x * 2 + (1 if STATE["calls"] == 0 else 2))
    compiled(x)
    assert [] == seen
    assert {} == table


def test_writes_to_globals_are_replayed(x, compiler):
    def function(x):
        global COUNTER
        COUNTER += 1
        STATE["calls"] += 1
        return x * 2 + COUNTER

    global COUNTER
    COUNTER = 0
    STATE["calls"] = 0
    compiled = compiler.compile(function)
    for count in (1, 2, 3):
        assert (compiled(x).numpy() == (x * 2 + count).numpy()).all()
        assert (count, count) == (COUNTER, STATE["calls"])


def test_writes_to_closure_cells_are_replayed(x, compiler):
    count = 0

    def function(x):
        nonlocal count
        count += 1
        return x * count

    compiled = compiler.compile(function)
    for expected in (1, 2, 3):
        assert (compiled(x).numpy() == (x * expected).numpy()).all()
        assert expected == count


def test_a_changed_global_function_is_noticed(x, compiler, monkeypatch):
    compiled = compiler.compile(lambda x: helper(x))
    assert (compiled(x).numpy() == (x * 2).numpy()).all()
    monkeypatch.setitem(globals(), "helper", lambda a: a * 5)
    assert (compiled(x).numpy() == (x * 5).numpy()).all()


def test_a_new_lambda_of_the_same_code_is_the_same_program(x, compiler):
    compiled = compiler.compile(lambda x, function: function(x) + 1)
    for amount in (1.0, 2.0, 3.0):
        expected = x * amount + 1
        assert (compiled(x, lambda v: v * amount).numpy() == expected.numpy()).all()
    assert 1 == len(compiler.graphs)


def test_a_returned_closure_works(x, compiler):
    def function(x):
        scale = x.sum()

        def inner(v):
            return v * scale

        return inner

    inner = compiler.compile(function)(x)
    assert (inner(x).numpy() == (x * x.sum()).numpy()).all()


def test_grad_mode_is_left_as_the_function_leaves_it(x, compiler):
    def function(x):
        eager.set_grad_enabled(False)
        return x * 2

    compiled = compiler.compile(function)
    try:
        compiled(x)
        assert not eager.is_grad_enabled()
        compiled(x)
        assert not eager.is_grad_enabled()
    finally:
        eager.set_grad_enabled(True)


def test_results_under_no_grad_need_no_gradient(x, compiler):
    weight = eager.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def function(x):
        with eager.no_grad():
            a = x * weight
        return a, x + weight

    compiled = compiler.compile(function)
    a, b = compiled(x)
    assert (False, True) == (a.requires_grad, b.requires_grad)


@contextlib.contextmanager
def generator_manager(value):
    yield value


def test_a_generator_based_context_manager_breaks_or_works(x, compiler):
    def function(x):
        with generator_manager(2) as value:
            z = x * value
        return z + 1

    assert (compiler.compile(function)(x).numpy() == (x * 2 + 1).numpy()).all()


def test_functions_made_in_a_comprehension_give_pythons_result(x, compiler):
    def function(x):
        return [f(x) for f in [lambda v: v * i for i in range(3)]]

    results = compiler.compile(function)(x)
    assert all((result.numpy() == (x * 2).numpy()).all() for result in results)


def test_the_identity_of_a_function_argument_is_guarded_if_asked(x, compiler):
    compiled = compiler.compile(lambda x, f: x * (2 if f is helper else 3))
    assert (compiled(x, helper).numpy() == (x * 2).numpy()).all()
    assert (compiled(x, variadic).numpy() == (x * 3).numpy()).all()


def test_long_sums_of_a_number_argument_stay_small(x, compiler):
    def function(x, n):
        for _ in range(60):
            n = n + n
        return x * float(n)

    compiled = compiler.compile(function)
    for n in (1.0, 2.0):
        assert (compiled(x, n).numpy() == (x * (n * 2.0**60)).numpy()).all()


def test_library_functions_of_one_code_are_told_apart(x, compiler):
    compiled = compiler.compile(lambda x, f: f(x))
    for function in (F.exp, F.neg, F.relu, F.sin):
        assert (compiled(x, function).numpy() == function(x).numpy()).all()
