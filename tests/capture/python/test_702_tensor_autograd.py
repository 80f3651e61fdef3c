"""What autograd keeps in tensors: gradients, leaves, writes that are not recorded, optimisers."""

import numpy as np
import pytest

from dynajit import eager, optim
from dynajit.ops import functions as F
from tests.support.python.tensor_effects import Arguments, check_program


def leaf(seed, *shape):
    values = np.random.default_rng(seed).normal(size=shape or (2, 3)).astype(np.float32)
    return eager.tensor(values).requires_grad_()


def with_gradients():
    made = [leaf(0), leaf(1)]
    for i, tensor in enumerate(made):
        tensor.grad = eager.tensor(np.full((2, 3), i + 0.5, np.float32))
    return made


def sgd(p, q):
    with eager.no_grad():
        for t in (p, q):
            t.add_(t.grad, alpha=-0.1)


def sgd_operator(p, q):
    with eager.no_grad():
        p -= 0.1 * p.grad
        q -= p.grad * q.grad


def sgd_by_data(p, q):
    p.data.add_(p.grad, alpha=-0.1)
    p.data.mul_(0.9)
    return p * 2


def zeroed(p, q):
    p.grad.zero_()
    q.grad = None
    return p.grad is None, q.grad is None


def new_gradient(p, q):
    p.grad = q.grad * 2
    q.grad = p.grad
    p.grad.add_(1)
    return p.grad is q.grad


def clipped(p, q):
    total = F.sqrt(sum((t.grad * t.grad).sum() for t in (p, q)))
    scale = F.clamp(1.0 / (total + 1e-6), max=1.0)
    for t in (p, q):
        t.grad.mul_(scale)
    return total


def moving_average(p, q):
    with eager.no_grad():
        q.mul_(0.9).add_(p, alpha=0.1)
    return p * q


def written_then_used(p, q):
    y = p * q
    with eager.no_grad():
        p.mul_(2)
    return p * 3, y


def leaf_facts(p, q):
    z = p * 2
    return p.is_leaf, z.is_leaf, p.grad_fn is None, z.detach().is_leaf, z.detach().grad_fn is None


def leaf_after_an_unrecorded_write(p, q):
    with eager.no_grad():
        p.add_(1)
    return p.is_leaf, p.requires_grad, p.grad_fn is None, p * 2


def requires_what_it_requires(p, q):
    return p.requires_grad_(True) is p, (p * q).requires_grad_()


def detached_shares_memory(p, q):
    d = p.detach()
    d.mul_(2)
    d[0] = 1
    return d, p * q, d.requires_grad


def cleared_in_a_loop(p, q):
    for t in [p, q]:
        if t.grad is not None:
            t.grad = None


def hidden_history(p, q):
    y = p * 2
    y.zero_()
    y.add_(q)
    z = q * 3
    z.copy_(p)
    return y, z


def partly_hidden(p, q):
    y = p * 2
    y[0] = 1
    y[:, 1] = q[:, 0]
    return y


def history_through_a_view(p, q):
    y = p * 2
    v = y[0]
    v.mul_(q[1])
    return y, v


def unrecorded_part(p, q):
    y = p * q
    with eager.no_grad():
        y[0] = 0
        y.view(-1)[3:].mul_(2)
    return y * p


def saved_value_is_overwritten_later(p, q):
    b = p * 2
    c = b.exp()
    b.add_(1)
    return b, c


def copy_of_itself_in_a_graph(p, q):
    y = p * q
    y.copy_(y)
    return y * y


def mode_in_the_middle(p, q):
    before = eager.is_grad_enabled()
    y = p * 2
    eager.set_grad_enabled(False)
    p.add_(1)
    z = p * 3
    eager.set_grad_enabled(before)
    return y, z, p * 4


def tagged(p, q):
    p.tag = "weight"
    y = p + q
    y.source = p
    y.names = ["a", p.tag]
    return p.tag, y.source is p, hasattr(y, "missing"), y.names


def keys(p, q):
    table = {p: 1, q: 2}
    return table[p], table[q], p in table, [t is q for t in (p, q)]


def fills(p, q):
    with eager.no_grad():
        p.fill_(1.5)
        q.zero_()
        q.copy_(p)
    return p + q


PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and name not in ("leaf", "with_gradients")
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_without_a_break(program, compiler):
    made = {}

    def make():
        arguments = Arguments(with_gradients(), [])
        arguments.leaves = list(arguments)
        made["gradients"] = [t.grad for t in arguments]
        return arguments

    compiled = compiler.compile(program)
    with eager.enable_grad():
        for _ in range(2):
            check_program(compiled, program, make)
    assert [str(record) for record in compiler.breaks] == []


@pytest.mark.parametrize("program", [sgd, sgd_operator, zeroed, new_gradient, clipped])
def test_gradients_are_as_after_plain_python(program, compiler):
    """Contents of `.grad`, or None; also those that were replaced."""
    compiled = compiler.compile(program)
    for _ in range(2):
        found = []
        for run in (program, compiled):
            arguments = with_gradients()
            before = [t.grad for t in arguments]
            run(*arguments)
            after = [None if t.grad is None else t.grad.tolist() for t in arguments]
            found.append([after, [t.tolist() for t in before], [t.tolist() for t in arguments]])
        assert found[0] == found[1]


def leaf_is_written(p, q):
    y = p * 2
    p.add_(1)
    return y


def view_of_a_leaf_is_written(p, q):
    p[0] = 1


def expanded(p, q):
    (p * 2)[:, :1].expand(2, 3).add_(1)


def category(p, q):
    F.arange(3).add_(0.5)


def shape(p, q):
    y = p * 2
    y.add_(F.ones(4, 2, 3) if False else F.ones_like(p).expand(4, 2, 3))


@pytest.mark.parametrize(
    "program", [leaf_is_written, view_of_a_leaf_is_written, expanded, category, shape]
)
def test_what_eager_refuses_is_refused_by_a_clean_break(program, compiler):
    compiled = compiler.compile(program)
    for _ in range(2):
        with pytest.raises(Exception) as expected:
            program(*with_gradients())
        with pytest.raises(type(expected.value)) as found:
            compiled(*with_gradients())
        assert str(expected.value) == str(found.value)


def test_a_leaf_and_a_result_are_told_apart(compiler):
    """The second call gets a tensor that has a history: the write is allowed there."""

    def program(p):
        if p.is_leaf:
            return p * 2
        p.add_(1)
        return p * 3

    compiled = compiler.compile(program)
    for _ in range(2):
        check_program(compiled, program, lambda: [leaf(0)])
        check_program(compiled, program, lambda: [leaf(0) * 2])


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimiser_is_one_graph(name, compiler):
    """From the first step, which makes the state, to the fifth."""
    states = []
    for compiles in (False, True):
        parameters = [leaf(0), leaf(1)]
        optimiser = OPTIMIZERS[name](parameters)
        optimiser.state = {p: {} for p in parameters}
        step = compiler.compile(type(optimiser).step) if compiles else type(optimiser).step
        for i in range(5):
            for j, parameter in enumerate(parameters):
                parameter.grad = eager.tensor(np.full((2, 3), i - j + 0.5, np.float32))
            step(optimiser)
        kept = [list(entry.items()) for entry in optimiser.state.values()]
        states.append([parameters, kept])
    for plain, compiled in zip(states[0][0], states[1][0], strict=True):
        np.testing.assert_allclose(
            compiled.detach().numpy(), plain.detach().numpy(), rtol=1e-6, atol=1e-7
        )
        assert plain._version == compiled._version
    for plain, compiled in zip(states[0][1], states[1][1], strict=True):
        assert [key for key, _ in plain] == [key for key, _ in compiled]
        for (_, left), (_, right) in zip(plain, compiled, strict=True):
            np.testing.assert_allclose(right.numpy(), left.numpy(), rtol=1e-6, atol=1e-7)
    assert ([], []) == ([str(record) for record in compiler.breaks], compiler.skips)
    assert compiler.graphs
