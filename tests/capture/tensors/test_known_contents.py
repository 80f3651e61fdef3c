"""Elements that are constants of a graph: Python may ask for them; for others it may not."""

import pytest

import dynajit as dj


def sliced(x):
    count = dj.tensor(2)
    return x[:count], x[:, : count + 1], x[: count.item()]


def asked(x):
    count = dj.tensor(2)
    return int(count), float(count), bool(count > 1), [1, 2, 3][count], (3 if count else 4)


def listed(x):
    return dj.tensor([3, 4]).tolist(), dj.tensor([1, 2]).sum().item(), dj.ones(2).tolist()


def written(x):
    made = dj.zeros(2)
    made[0] = 5
    made.add_(1)
    return x * made[0].item(), made.tolist()


def of_a_dtype(x):
    return dj.tensor(1.5, dtype=dj.bfloat16).item(), dj.tensor(True).item(), dj.tensor(7).item()


@pytest.mark.parametrize("function", [sliced, asked, listed, written, of_a_dtype])
def test_constants_are_known(function):
    compiled = dj.compile(function, fullgraph=True)
    for start in (0.0, 1.0):
        x = (dj.arange(12.0) + start).reshape(3, 4)
        assert repr(function(x)) == repr(compiled(x))


def of_an_input(x, number):
    return x * (dj.tensor([number, 1]).sum().item())


def of_random_numbers(x, number):
    return x * dj.rand(1).item()


def of_a_tensor(x, number):
    return x * (x.sum() + number).item()


@pytest.mark.parametrize("function", [of_an_input, of_random_numbers, of_a_tensor])
def test_what_may_differ_is_not_known(function):
    compiled = dj.compile(function)
    for number in (1, 2, 3, 1):
        dj.manual_seed(number)
        expected = function(dj.ones(2) * number, number)
        dj.manual_seed(number)
        assert expected.tolist() == compiled(dj.ones(2) * number, number).tolist()
