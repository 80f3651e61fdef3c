"""In-place methods and operators on tensors that existed before: written back once, exactly."""

import numpy as np
import pytest

from dynajit import eager
from dynajit.ops import functions as F
from tests.support.python.tensor_effects import check_program


def tensor(*shape, dtype=np.float32, seed=0, grad=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * 3 if np.dtype(dtype).kind == "f" else None
    if values is None:
        values = rng.integers(-5, 6, size=shape)
    made = eager.tensor(np.asarray(values, dtype))
    return made.requires_grad_() if grad else made


def two():
    return [tensor(2, 3), tensor(2, 3, seed=1)]


def iadd(x, y):
    x += y
    return x * 2


def isub_number(x, y):
    x -= 2
    x *= y
    x /= 4.0
    return x


def ipow_floordiv_mod(x, y):
    x **= 2
    y //= 2
    x %= 3
    return x + y


def methods_in_a_row(x, y):
    x.add_(y, alpha=2).mul_(3).sub_(1).div_(2)
    return x.sum()


def add_of_an_expression(x, y):
    x.add_((x * y).sum(dim=0))
    return x


def zero_and_fill(x, y):
    x.zero_()
    y.fill_(3)
    return x + y


def copy_broadcasts(x, y):
    x.copy_(y[0])
    return x


def copy_of_itself(x, y):
    x.copy_(x)
    return x + 1


def copy_casts(x, y):
    y.copy_(x > 0)
    return y


def clamp_and_unary(x, y):
    x.clamp_(-1, 1).abs_()
    y.exp_().sqrt_().neg_()
    return x + y


def masked_fill_and_where(x, y):
    x.masked_fill_(y > 0, 7.0)
    return x


def index_add(x, y):
    x.index_add_(0, F.tensor_of(y), y) if False else x.index_add_(1, INDEX, y)
    return x


def index_copy_and_fill(x, y):
    x.index_copy_(1, INDEX, y)
    y.index_fill_(1, INDEX[:1], 9.0)
    return x + y


def scatter(x, y):
    x.scatter_(1, POSITIONS, y)
    return x


def scatter_add(x, y):
    x.scatter_add_(1, POSITIONS, y)
    return x


def triangles(x, y):
    x.tril_()
    y.triu_(1)
    return x - y


def lerp_addcmul(x, y):
    x.lerp_(y, 0.25)
    x.addcmul_(y, y, value=0.5)
    x.addcdiv_(y, y * y + 1)
    return x


def comparison_in_place(x, y):
    x.gt_(y)
    return x


def cumulative(x, y):
    x.cumsum_(1)
    return x


def returned_object_is_the_argument(x, y):
    z = x.add_(1)
    return z, x, z is x


def both_arguments(x, y):
    x += y
    y += x
    x += y
    return x, y


def swap(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


def nothing_is_returned(x, y):
    x.add_(y)


def read_before_and_after(x, y):
    before = x * 1
    x.add_(1)
    after = x * 1
    return before, after


def written_back_and_forth(x, y):
    x.add_(1)
    x.sub_(1)
    return x


def in_a_loop(x, y):
    for i in range(5):
        x.mul_(0.5).add_(y, alpha=i)
    return x


def under_a_condition(x, y):
    if x.shape[0] == 2:
        x.neg_()
    return x


def operand_is_itself(x, y):
    x.add_(x)
    x.mul_(x.t().t())
    return x


def closure_and_global(x, y):
    def inner():
        x.add_(1)
        STATE.add_(1)
        STATE.sub_(1)

    inner()
    return x * y


def in_containers(x, y):
    table = {"a": [x, y]}
    table["a"][0] += 1
    for entry in table["a"]:
        entry.mul_(2)
    return table


def uniform_normal(x, y):
    eager.default_generator.manual_seed(3) if False else None
    return x.add_(0), y


INDEX = eager.tensor(np.array([2, 0, 1]))
POSITIONS = eager.tensor(np.array([[0, 1, 2], [2, 0, 0]]))
STATE = eager.tensor(np.zeros(3, np.float32))

PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and name not in ("tensor", "two")
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_arguments_are_written_as_by_plain_python(program, compiler):
    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, two)
    assert [str(record) for record in compiler.breaks] == []
    assert len(compiler.graphs) == 1, compiler.skips


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_under_no_grad_leaves_are_written(program, compiler):
    def make():
        return [tensor(2, 3, grad=True), tensor(2, 3, seed=1, grad=True)]

    compiled = compiler.compile(program)
    with eager.no_grad():
        for _ in range(2):
            check_program(compiled, program, make, backward=False)
    assert [str(record) for record in compiler.breaks] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_results_with_a_history_are_written(program, compiler):
    """x and y are no leaves: eager gives them a new history."""
    from tests.support.python.tensor_effects import Arguments

    def make():
        leaves = [tensor(2, 3, grad=True), tensor(2, 3, seed=1, grad=True)]
        return Arguments([leaves[0] * 1.5, leaves[1] + 0.5], leaves)

    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, make)
    assert [str(record) for record in compiler.breaks] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_only_the_second_has_a_history(program, compiler):
    from tests.support.python.tensor_effects import Arguments

    def make():
        leaves = [tensor(2, 3), tensor(2, 3, seed=1, grad=True)]
        return Arguments([leaves[0], leaves[1] + 0.5], leaves)

    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, make)
