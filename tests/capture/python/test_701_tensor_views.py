"""Views: what is written through one is seen through all, and returned views share memory."""

import numpy as np
import pytest

from dynajit import eager
from dynajit.ops import functions as F
from tests.support.python.tensor_effects import Arguments, check_program


def slice_of_argument(x, y):
    v = x[1:]
    v.mul_(2)
    return x + 1, v


def view_before_and_after(x, y):
    before = x[0]
    x.add_(1)
    after = x[0]
    return before * 2, after, before


def overlapping_views(x, y):
    a, b = x[:2], x[1:]
    a += 10
    b *= 2
    return a, b, x.amax()


def select_and_transpose(x, y):
    x.t()[0].fill_(5)
    x.transpose(0, 1)[1:].neg_()
    return x * 1


def chain(x, y):
    x[1:].t()[1:].reshape(2, 2)[0].zero_()
    return x


def flat_view(x, y):
    x.view(-1)[::2] = 0
    return x


def reshape_that_copies(x, y):
    x.t().reshape(-1).add_(1)
    return x


def reshape_of_a_result(x, y):
    z = x * 2
    z.reshape(-1)[1:4].add_(1)
    z.t().reshape(-1).add_(100)
    return z


def diagonals(x, y):
    x.diagonal().fill_(1)
    x.diagonal(1).mul_(3)
    x.diagonal(-1).copy_(y[0, :2])
    x.fill_diagonal_(2)
    return x


def expansion_of_ones(x, y):
    x[:, :1].expand(3, 1).add_(1)
    x.unsqueeze(0).expand(1, 3, 3).mul_(2)
    return x


def item_assignments(x, y):
    x[0] = y[1]
    x[1, 2] = 7
    x[:, 0] = F.arange(3).float()
    x[..., 1] = True
    x[None, 2] = y[:1]
    return x


def item_assignment_casts(x, y):
    x[0] = F.arange(3)
    x[1] = y[1] > 0
    return x


def augmented_items(x, y):
    x[:, 1:3] += y[:, 1:]
    x[0] *= 2
    x[1, 1] -= 1
    return x


def masks(x, y):
    x[x > 0] = 0
    x[y < 0] = -1.5
    y[[True, False, True]] = 2
    return x, y


def index_tensors(x, y):
    x[INDEX] = y[:2]
    x[:, INDEX] = 4
    y[INDEX, INDEX] = 9
    y[1:][:, INDEX] = x[1:, :2]
    return x, y


def lists_as_indices(x, y):
    x[[0, 2]] = y[1]
    x[0, [1, 2]] += 1
    return x


def shifted_onto_itself(x, y):
    x[1:] = x[:-1].clone()
    y[:, :-1].copy_(y[:, 1:])
    return x, y


def pieces(x, y):
    a, b = x.split(2)
    a.add_(1)
    c, d = y.chunk(2, dim=1)
    d.zero_()
    first, *rest = x.unbind(0)
    first.mul_(2)
    return b * 1, c, rest


def stored_views(x, y):
    table = {"row": x[0], "again": x[0]}
    table["row"].add_(1)
    return table, x[0] is x[0]


def views_of_fresh(x, y):
    z = x + y
    row, column = z[0], z[:, 0]
    row.fill_(1)
    column.fill_(2)
    return row, column


def view_of_fresh_alone(x, y):
    z = x + y
    z[1] = 0
    return z[1:]


def detached(x, y):
    d = x.detach()
    d.mul_(2)
    x.data.add_(1)
    return d * 1, x * 1


def permuted_twice(x, y):
    v = x.permute(1, 0)
    w = v.permute(1, 0)
    w[0] = 3
    return v, w


def squeezed(x, y):
    x[None].squeeze(0)[1].sub_(5)
    x.unsqueeze(-1)[..., 0].mul_(2)
    return x


def narrowed(x, y):
    x.narrow(1, 1, 2).add_(y.narrow(0, 0, 3)[:, :2])
    return x


def loop_over_rows(x, y):
    for i in range(3):
        x[i] += i
        for j in range(i):
            x[i, j] = y[j, i] * x[j, i]
    return x


def running_sums(x, y):
    for i in range(1, 3):
        x[i] = x[i] + x[i - 1]
    return x[-1]


def read_between_writes(x, y):
    total = 0
    v = x[0]
    for _ in range(3):
        total = total + v.sum()
        x.add_(1)
    return total


def view_as_condition(x, y):
    v = x[0]
    if v.shape == y[0].shape:
        v.copy_(y[0])
    return x


def contiguous_is_itself(x, y):
    c = x.contiguous()
    c.add_(1)
    d = x.t().contiguous()
    d.add_(1)
    return c, d, c is x


def same_dtype_is_itself(x, y):
    x.float().add_(1)
    x.to(y.dtype).add_(1)
    return x


def view_with_other_shape(x, y):
    v = x.view(9)
    w = v.view(1, 9)
    w += 1
    return v, w


def results_share_memory(x, y):
    return x[1:], y.t(), x.view(-1), (x * 2)[0]


INDEX = eager.tensor(np.array([0, 2]))

PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__
]


def tensor(seed):
    rng = np.random.default_rng(seed)
    return eager.tensor((rng.normal(size=(3, 3)) * 3).astype(np.float32))


def plain():
    return [tensor(0), tensor(1)]


def permuted():
    return [tensor(0).t(), tensor(1)]


def parts():
    """Views of larger tensors: gaps between their rows."""
    rng = np.random.default_rng(2)
    wide = eager.tensor(rng.normal(size=(4, 7)).astype(np.float32))
    return [wide[:3, :3], wide[1:, 4:]]


def results():
    leaves = [tensor(0).requires_grad_(), tensor(1).requires_grad_()]
    return Arguments([leaves[0] * 1.5, leaves[1] + 0.5], leaves)


def second_has_a_history():
    leaf = tensor(1).requires_grad_()
    return Arguments([tensor(0), leaf * 2], [leaf])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_without_a_break(program, compiler):
    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, plain)
    assert [str(record) for record in compiler.breaks] == []


@pytest.mark.parametrize(
    "make", [permuted, results, second_has_a_history], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_for_other_layouts_and_histories(program, make, compiler):
    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, make)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_of_arguments_that_are_views(program, compiler):
    """Their memory interleaves, which is not told from an overlap: a break, and no wrong result."""
    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, parts)
