"""Arguments that share memory: told apart by guards; modelled, or left to plain Python."""

import numpy as np
import pytest

from dynajit import eager
from dynajit.capture.guards.kinds import Kind
from tests.support.python.tensor_effects import check_program


def base():
    return eager.tensor(np.arange(1.0, 13.0, dtype=np.float32))


def write_first(x, y):
    x.add_(1)
    return x * y


def write_second(x, y):
    before = x * 1
    y.mul_(2)
    return before, x + y


def write_both(x, y):
    x.add_(y)
    y.add_(x)
    return x - y


def write_unseen(x, y):
    x.add_(1)
    return y


def view_of_the_other(x, y):
    x.add_(1)
    return y[1:], y[0] + 1


def in_a_loop(x, y):
    for _ in range(3):
        x.add_(y)
    return x


WEIGHT = eager.tensor([2.0], requires_grad=True)


def write_history(x, y):
    x[:2] = WEIGHT * 3
    return y + 0


def ask_about_history(x, y):
    x[:2] = WEIGHT * 3
    return eager.tensor([y.requires_grad, y.is_leaf, y.grad_fn is None])


def differentiate_beside(x, y):
    y.mul_(2).add_(1)
    return x * WEIGHT, y + 0


PROGRAMS = [
    write_first, write_second, write_both, write_unseen, view_of_the_other, in_a_loop,
    write_history, ask_about_history, differentiate_beside,
]  # fmt: skip

RELATIONS = {
    "apart": lambda b: (b[:4], b[8:]),
    "one object": lambda b: (b[:4],) * 2,
    "one array": lambda b: (b[:4], b[:4]),
    "overlap": lambda b: (b[:4], b[2:6]),
    "overlap the other way": lambda b: (b[2:6], b[:4]),
    "neighbours": lambda b: (b[:4], b[4:8]),
    "interleaved": lambda b: (b[:8:2], b[1:8:2]),
    "detached": lambda b: (b[:4], b[:4].detach()),
    "data": lambda b: (b[:4], b[:4].data),
    "reversed roles": lambda b: (b[:4].data, b[:4]),
    "copies": lambda b: (b[:4].clone(), b[:4].clone()),
    "one array of NumPy": lambda b: (eager.from_numpy(ARRAY), eager.from_numpy(ARRAY)),
}

ARRAY = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_every_relation_after_every_other(program, relation, compiler):
    """One compiled function sees arguments apart, then related, then apart again."""
    compiled = compiler.compile(program)
    for name in ("apart", relation, "neighbours", relation):

        def make(name=name):
            ARRAY[:] = [1, 2, 3, 4]
            whole = base()
            return [*RELATIONS[name](whole), whole]

        if name == "one array of NumPy":
            continue  # plain and compiled would write the same array

        def of_two(x, y, whole):
            return program(x, y)

        def compiled_of_two(x, y, whole):
            return compiled(x, y)

        check_program(compiled_of_two, of_two, make)


def test_arguments_around_one_array_of_numpy(compiler):
    compiled = compiler.compile(write_first)
    found = []
    for run in (write_first, compiled, compiled):
        array = np.arange(4, dtype=np.float32)
        found.append([run(eager.from_numpy(array), eager.from_numpy(array[1:3].repeat(2)[:4]))])
        found[-1] += [run(eager.from_numpy(array), eager.from_numpy(array)), array.tolist()]
        found[-1] = [entry if isinstance(entry, list) else entry.tolist() for entry in found[-1]]
    assert found[0] == found[1] == found[2]


def test_arguments_that_were_one_object_are_given_back_each(compiler):
    def program(x, y, z):
        z.add_(1)
        return [x, y, (x, y)], {"x": x, "y": y}

    compiled = compiler.compile(program)
    one, other = base(), base()
    for x, y in ((one, one), (one, other), (other, other)):
        found, table = compiled(x, y, base())
        assert found[0] is table["x"] is found[2][0] is x
        assert found[1] is table["y"] is found[2][1] is y


def test_neighbours_need_no_break(compiler):
    compiled = compiler.compile(write_first)
    whole = base()
    compiled(whole[:4], whole[4:8])
    assert compiler.breaks == []
    kinds = [guard.kind for region in compiler.regions for guard in region.guards]
    assert 1 == kinds.count(Kind.SEPARATE_MEMORY)


def test_a_parameter_and_its_data(compiler):
    """`p.data` is made inside and outside of the function."""

    def inside(p):
        d = p.data
        d.mul_(2)
        return p * 3, d

    def outside(p, d):
        d.mul_(2)
        return p * 3

    def leaf():
        return base().requires_grad_()

    check_program(compiler.compile(inside), inside, lambda: [leaf()])
    assert compiler.breaks == []

    def related():
        p = leaf()
        return [p, p.data]

    check_program(compiler.compile(outside), outside, related)


def test_many_written_tensors_are_checked_in_one_guard(compiler):
    def program(tensors):
        for tensor in tensors:
            tensor.add_(1)

    compiled = compiler.compile(program)
    compiled([base() for _ in range(30)])
    kinds = [guard.kind for region in compiler.regions for guard in region.guards]
    assert 1 == kinds.count(Kind.SEPARATE_MEMORY)
    assert 0 == kinds.count(Kind.NOT_ALIASED)
    whole = base()
    views = [whole[i % 6 : i % 6 + 6] for i in range(30)]
    compiled(views)
    assert whole.tolist() == plain_result(program)


def plain_result(program):
    whole = base()
    program([whole[i % 6 : i % 6 + 6] for i in range(30)])
    return whole.tolist()


def test_a_read_only_array_is_refused_as_by_eager(compiler):
    def program(x):
        x.add_(1)

    compiled = compiler.compile(program)
    compiled(base())
    frozen = np.ones(12, np.float32)
    frozen.flags.writeable = False
    for run in (program, compiled):
        with pytest.raises(Exception, match="read-only"):
            run(eager.from_numpy(frozen))
    assert 12.0 == frozen.sum()


def test_writes_before_an_error_are_visible(compiler):
    def program(x, y):
        x.add_(1)
        x[0] = 5
        raise ValueError("after two writes")

    def data_dependent(x, y):
        x.add_(1)
        if x.sum() > 0:
            raise ValueError("after one write")
        x.add_(1)

    for function in (program, data_dependent):
        compiled = compiler.compile(function)
        for _ in range(2):
            check_program(compiled, function, lambda: [base(), base()])


def test_writes_before_and_after_a_break(compiler):
    def program(x, y):
        v = x[2:5]
        x.add_(1)
        if x.sum() > 0:
            v.mul_(y[:3])
        x.mul_(2)
        return v, x[0]

    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, lambda: [base(), base()])
    assert compiler.breaks


def test_an_array_of_numpy_sees_later_writes(compiler):
    def program(x, y):
        array = x.numpy()
        x.add_(1)
        first = array[0]
        array[1] = 100
        return x * 1, float(first)

    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, lambda: [base(), base()])


def test_random_writes_draw_as_eager(compiler):
    def program(x, y):
        x.uniform_(1, 2)
        y.normal_(0, 3)
        z = y * x
        x.bernoulli_(0.5)
        return z

    found = []
    for run in (program, compiler.compile(program)):
        eager.default_generator.manual_seed(7)
        x, y = base(), base()
        z = run(x, y)
        found.append([t.tolist() for t in (x, y, z)])
    assert found[0] == found[1]
    assert compiler.breaks == []
