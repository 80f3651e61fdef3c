"""What an integer in a tensor chooses shares memory with what it is chosen from, as in PyTorch.

Each program runs in PyTorch, here, and compiled, with sizes that are known and that vary: what it
returns, what the caller then writes to the result, and what the arguments hold must be the same.
"""

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn

torch = pytest.importorskip("torch")

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def written(library, x, t):
    x[t].add_(1)
    return x * 1


@program
def returned(library, x, t):
    return x[t]


@program
def part_returned(library, x, t):
    return x[t][1:], x[:, t], x[1:, t, None]


@program
def made_before_a_write(library, x, t):
    y = x[t]
    x.add_(5)
    return y * 1


@program
def number_is_written_after(library, x, t):
    y = x[t]
    t.zero_()
    y.add_(1)
    return y


@program
def number_is_computed(library, x, t):
    x[x[:, 0].argmax()].zero_()
    x[(t - 1).abs()] *= 2
    return x.sum(0)


@program
def numbers_of_a_loop(library, x, t):
    for i in library.tensor([0, 2, 0]):
        x[i].copy_(x[i] + i)
    return x * 1


@program
def two_numbers(library, x, t):
    x[t, t].fill_(7)
    x[t - 1, ..., -t].mul_(3)
    return x[t, 0]


@program
def of_a_result(library, x, t):
    y = x * 2
    z = y[t]
    z.add_(1)
    return y, z


@program
def beside_index_tensors(library, x, t):
    y = x.view(1, 2, 2, 3)
    y[t - 2, :, [0, 1]] += 1
    y[0, :, t - 1, [0, 2]] = library.tensor([[8.0], [9.0]])
    return y[0, :, [1, 0], t]


@program
def assigned(library, x, t):
    x[t] = 7.0
    x[:, t] = x[:, t - 1]
    x[t - 1, 1:] = x[0, 1:]
    return x.sum()


@program
def out(library, x, t):
    library.add(x[0], 1, out=x[t])
    return x * 1


@program
def across_a_break(library, x, t):
    y = x[t]
    y.add_(1)
    (dj.graph_break if library is dj else int)()
    y.add_(x[0])
    return y


@program
def under_no_grad(library, x, t):
    with library.no_grad():
        y = x[t]
        y.mul_(2)
    return y


@program
def initialised(library, x, t):
    (nn if library is dj else torch.nn).init.ones_(x[t])
    return x * 1


@program
def of_a_permuted_tensor(library, x, t):
    y = x.view(2, 2, 3).permute(2, 1, 0)
    z = y[t] * 2
    return z, z.stride(), y[:, t - 1].stride()


@program
def a_mask_of_no_dims(library, x, t):
    y = x[t > 1]
    y.add_(1)
    return y


@program
def bytes_of_no_dims(library, x, t):
    return (x * 1)[t.byte()]


@program
def slices_that_tensors_bound(library, x, t):
    x[t:].add_(1)
    return x[:-t, : x[0].long().max()]


@program
def taken(library, x, t):
    y = library.take(x, t)
    y.add_(1)
    return y


def outcome(library, function):
    x, t = library.arange(12.0).view(4, 3), library.tensor(2)
    found = function(x, t)
    results = found if isinstance(found, tuple) else (found,)
    tensors = [r for r in results if not isinstance(r, tuple)]
    seen = [r if isinstance(r, tuple) else (r.tolist(), r.stride()) for r in results]
    for tensor in tensors:
        tensor.add_(1000)
    return seen, [tensor.tolist() for tensor in tensors], x.tolist(), t.item()


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.filterwarnings("ignore:indexing with dtype uint8")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_what_they_do_in_pytorch(name):
    def run(library):
        return lambda x, t: PROGRAMS[name](library, x, t)

    expected = outcome(torch, run(torch))

    assert expected == outcome(dj, run(dj))
    for dynamic in (False, True):
        compiled = dj.compile(run(dj), dynamic=dynamic)
        assert expected == outcome(dj, compiled)
        assert expected == outcome(dj, compiled)


WITHOUT_BREAKS = sorted(
    PROGRAMS.keys()
    - {"across_a_break", "bytes_of_no_dims", "a_mask_of_no_dims", "slices_that_tensors_bound"}
)


@pytest.mark.parametrize("name", WITHOUT_BREAKS)
def test_a_number_in_a_tensor_breaks_no_graph(name):
    compiled = dj.compile(lambda x, t: PROGRAMS[name](dj, x, t), fullgraph=True, backend="numpy")

    assert outcome(dj, compiled) == outcome(dj, lambda x, t: PROGRAMS[name](dj, x, t))


def gradients(library, function):
    leaf = library.arange(12.0).view(4, 3).requires_grad_()
    result = function(leaf * 1, library.tensor(2))
    (result * library.arange(1.0, 1 + result.numel()).view_as(result)).sum().backward()
    return leaf.grad.tolist()


GRADIENTS = {
    "read": lambda x, t: x[t] * x[t],
    "read and written elsewhere": lambda x, t: (x[t], x.mul_(x.detach() + 1))[0],
    "written": lambda x, t: (x[t].mul_(3), x)[1],
    "written by itself": lambda x, t: (x[:, t].copy_(x[:, 0] * 2), x)[1],
    "assigned": lambda x, t: (x.__setitem__(t, x[0] * 2), x)[1],
    "assigned apart": lambda x, t: (
        x.view(1, 2, 2, 3).__setitem__((0, slice(None), [1, 0], t), x[:2, :2]),
        x,
    )[1],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_pass_through_numbers(name):
    expected = gradients(torch, GRADIENTS[name])

    assert expected == gradients(dj, GRADIENTS[name])
    for dynamic in (False, True):
        assert expected == gradients(dj, dj.compile(GRADIENTS[name], dynamic=dynamic))


def test_a_part_of_a_result_has_its_strides():
    def run(x, t):
        return (x * 2)[:, t]

    x, t = dj.ones(4, 3), dj.tensor(2)

    assert run(x, t).stride() == dj.compile(run)(x, t).stride() == (3,)


USES = {
    "returned": lambda x, t: x[t],
    "read": lambda x, t: x[t] * 2,
    "not used": lambda x, t: (x[t], x)[1],
    "written": lambda x, t: x[t].add_(1),
    "assigned": lambda x, t: (x.__setitem__(t, 0), x)[1],
}


@pytest.mark.parametrize("name", USES)
def test_numbers_out_of_range_are_refused(name):
    use = USES[name]
    compiled = dj.compile(use)
    for number in (4, -5, 4):
        x = dj.arange(12.0).view(4, 3)
        for function in (use, compiled):
            with pytest.raises(IndexError):
                function(x, dj.tensor(number))
        assert np.arange(12.0).reshape(4, 3).tolist() == x.tolist()
    last, ones = dj.tensor(-1), dj.ones(4, 3)
    assert use(ones.clone(), last).tolist() == compiled(ones.clone(), last).tolist()
