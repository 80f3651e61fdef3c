"""`x.data = y`: the tensor looks at other memory from then on, and writes go there."""

import pytest

import dynajit as dj


def looks_at_the_other(x, y):
    x.data = y
    x.add_(1)
    return x, y * 2


def gets_a_result(x, y):
    x.data = x.data * 2 + y
    x.data.add_(1)
    return y + 1


def gets_a_part(x, y):
    x.data = y[:1]
    return x.shape, x.is_leaf, x.requires_grad


def is_left_by_the_other(x, y):
    x.data = y
    y.data = dj.zeros(2)
    return x is y, x.shape, y.shape


def exchange(x, y):
    x.data, y.data = y.data, x.data
    with dj.no_grad():
        return x + 0, y + 0


def read_before_and_after(x, y):
    before = y * 3
    x.data = y + 1
    return before, y * 2


def a_result_gets_data(x, y):
    made = x.detach() + 1
    made.data = y
    made.add_(1)
    return made, y.detach() + 0


FUNCTIONS = [
    looks_at_the_other, gets_a_result, gets_a_part, is_left_by_the_other, exchange,
    read_before_and_after, a_result_gets_data,
]  # fmt: skip


def made(is_same, **changes):
    first = dj.full((2, 3), 2.0, **changes)
    return first, first if is_same else dj.full((2, 3), 5.0, **changes)


def outcome(function, x, y):
    found = function(x, y)
    shared = x.data_ptr() == y.data_ptr()
    facts = [(t.requires_grad, t.is_leaf, t.shape, t.tolist()) for t in (x, y)]
    values = [part.tolist() if isinstance(part, dj.Tensor) else part for part in found]
    return values, shared, facts


@pytest.mark.parametrize("function", FUNCTIONS)
def test_new_data_is_as_in_eager_execution(function):
    compiled = dj.compile(function, fullgraph=True)
    for is_same in (False, True, False):
        if is_same and function is is_left_by_the_other:
            continue
        assert outcome(function, *made(is_same)) == outcome(compiled, *made(is_same))


@pytest.mark.parametrize(
    "function", [gets_a_result, gets_a_part, is_left_by_the_other, exchange, read_before_and_after]
)
def test_leaves_that_require_gradients_get_new_data(function):
    def listed(x, y):
        found = function(x, y)
        return found if isinstance(found, tuple) else (found,)

    compiled = dj.compile(listed, fullgraph=True)
    for _ in range(2):
        expected, actual = (made(False, requires_grad=True) for _ in range(2))
        assert outcome(listed, *expected) == outcome(compiled, *actual)


def views_of_what_was_left(x, y):
    view = x.view(-1)
    x.data = y
    view.add_(1)
    return view, x


def gradient_of_new_data(x, y):
    x.data = y
    return ((x * x).sum(),)


def saved_for_backward(x, y):
    before = (x * x).sum()
    x.data = y
    return (before,)


@pytest.mark.parametrize(
    "function", [views_of_what_was_left, gradient_of_new_data, saved_for_backward]
)
def test_what_cannot_be_followed_is_left_to_python(function):
    needs = function is not views_of_what_was_left
    compiled = dj.compile(function)
    for _ in range(2):
        (x, y), (a, b) = made(False, requires_grad=needs), made(False, requires_grad=needs)
        assert outcome(function, x, y) == outcome(compiled, a, b)
        if needs:
            for one, other in ((x, a), (y, b)):
                one.grad = other.grad = None
            function(x, y)[0].backward()
            compiled(a, b)[0].backward()
            assert x.grad.tolist() == a.grad.tolist()


def test_a_step_of_a_training_loop_is_one_graph():
    parameters = [dj.nn.Parameter(dj.ones(3)), dj.nn.Parameter(dj.ones(2))]

    @dj.compile(fullgraph=True)
    def step(rate):
        for p in parameters:
            p.data = p.data - rate * p.grad

    for number in range(1, 4):
        for p in parameters:
            p.grad = dj.ones(p.shape[0])
        step(0.5)
        assert [[1 - 0.5 * number] * n for n in (3, 2)] == [p.tolist() for p in parameters]
        (parameters[0] * 2).sum().backward()
