"""Elements that Python may ask for: constants of a graph, and what small arguments hold; others
are left to it."""

import numpy as np
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


def steps_of_numpy(x):
    times = np.linspace(0, 99, 7).astype(int)
    for i, j in zip(times[:-1], times[1:], strict=True):  # noqa: RUF007
        x = x + int(j - i) * float(times[2])
    return x[: int(times[0]) + 2], times.tolist(), times[1].item(), bool(times[1] > 3)


def asked_of_numpy(x):
    made = np.zeros(3, np.float32)
    made[1] = 2.5
    return (
        [1, 2, 3][made.astype(int)[1]],
        int(made[1:].sum()),
        x * made[1].item(),
        made[::-1].tolist(),
    )


@pytest.mark.parametrize(
    "function",
    [sliced, asked, listed, written, of_a_dtype, steps_of_numpy, asked_of_numpy],
)
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


def of_an_array(x, number):
    made = np.array([number, 1])
    made[1] += number
    return x * int(made.sum())


@pytest.mark.parametrize("function", [of_an_input, of_random_numbers, of_a_tensor, of_an_array])
def test_what_may_differ_is_not_known(function):
    compiled = dj.compile(function)
    for number in (1, 2, 3, 1):
        dj.manual_seed(number)
        expected = function(dj.ones(2) * number, number)
        dj.manual_seed(number)
        assert expected.tolist() == compiled(dj.ones(2) * number, number).tolist()


# -- arguments that hold a number ------------------------------------------------------------------

READ = {
    "arithmetic": lambda x, n: x * n.item() + n.item(),
    "a slice": lambda x, n: (x[:n], x[n - 1 :]),
    "a slice by its number": lambda x, n: x[: n.item()],
    "a size": lambda x, n: dj.ones(n.item() + 1, 2),
    "a decision": lambda x, n: x if n.item() > 2 else x * 2,
    "the truth": lambda x, n: (x if n else -x, bool(n)),
    "several numbers": lambda x, n: x.sum() + sum(dj.stack([n, n]).tolist()),
    "a write afterwards": lambda x, n: (x * n.item(), n.add_(1)),
    "a write before": lambda x, n: (n.add_(1), x * n.item()),
    "a text": lambda x, n: f"{n.item()}",
    "rounds": lambda x, n: [x * i for i in range(int(n))],
}


@pytest.mark.parametrize("name", READ)
def test_a_number_in_an_argument_is_that_of_the_call(name):
    function = READ[name]
    compiled = dj.compile(function)
    for dtype in (dj.int64, dj.int32):
        for number in (2, 3, 2, 1, 0, 4):
            results = []
            for called in (function, compiled):
                given = dj.tensor(number, dtype=dtype)
                results.append((repr(called(dj.arange(5.0), given)), given.item()))
            assert results[0] == results[1]


@pytest.mark.parametrize(
    "name", ["arithmetic", "a slice by its number", "a size", "a decision", "a write afterwards"]
)
def test_numbers_that_change_need_no_version_each(name):
    compiled = dj.compile(READ[name], fullgraph=True)
    for number in (2, 3, 4, 5, 2, 3):
        given = dj.tensor(number)
        assert repr(READ[name](dj.arange(6.0), given.clone())) == repr(
            compiled(dj.arange(6.0), given)
        )
    assert len(compiled.report().recompiles) <= 1


def test_what_shares_memory_with_a_written_tensor_is_not_read_early():
    def write_and_read(x, n):
        x.add_(1)
        return n.item()

    compiled = dj.compile(write_and_read)
    for is_shared in (False, True, False):
        found = []
        for function in (write_and_read, compiled):
            x = dj.full((2,), 5.0)
            found.append(function(x, x[0] if is_shared else dj.tensor(3.0)))
        assert found[0] == found[1]


def test_what_a_loop_nest_computes_of_constants_is_asked_of_the_launch():
    """Nobody else can run it."""

    def filled(x):
        table = np.zeros(5)
        for j in range(18):
            table[j % 5] = j * 0.1
        turns = 0
        while np.abs(table).sum() > 0.5 and turns < 60:
            table = table * 0.7
            turns += 1
        return table, turns, x + 1

    x = np.ones(3)
    with dj.config.override(strict=True):
        found, expected = dj.compile(filled)(x), filled(x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other)
