"""Arguments that are written in place: the kernels write into their memory where that is safe."""

import numpy as np
import pytest

import dynajit as dj


def scale(x, y):
    x.mul_(0.5).add_(y)


def scale_and_use(x, y):
    before = x * 3
    x.mul_(0.5).add_(y)
    return before, x * 2, x.sum()


def chosen(x, y):
    old = x * 1
    x.copy_(y)
    return dj.where(y > 0, old, y)


def swap(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


def shifted(x, y):
    x[1:] = x[:-1].clone() + y[1:]


def reversed_into(x, y):
    x.copy_(x.flip(0) + y)


def centred(x, y):
    x.sub_(x.mean()).mul_(y)


def read_behind(x, y):
    old = x.clone()
    x.add_(1)
    return (old.reshape(2, -1) @ y.reshape(-1, 2)).sum() + x.sum()


def both(x, y):
    x.add_(y)
    y.mul_(x)
    x.exp_()
    return x


FUNCTIONS = [
    scale, scale_and_use, chosen, swap, shifted, reversed_into, centred, read_behind, both,
]  # fmt: skip


def arrays(values):
    if values is None:
        return []
    return [value.numpy() for value in (values if isinstance(values, tuple) else (values,))]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_written_arguments_hold_what_eager_execution_writes(function) -> None:
    """For fixed sizes, and the second time for a symbolic one; other layouts, too."""
    compiled = dj.compile(function)
    rng = np.random.default_rng(3)
    for size in (6, 6, 10, 40):
        a, b = (rng.standard_normal((2, size)).astype(np.float32) for _ in range(2))
        for read in (lambda n: dj.tensor(n[0]), lambda n: dj.tensor(n.T.copy())[:, 0]):
            x, y, u, v = read(a), read(b), read(a), read(b)
            expected, found = arrays(function(x, y)), arrays(compiled(u, v))

            np.testing.assert_allclose(u.numpy(), x.numpy(), rtol=2e-6, atol=1e-6)
            np.testing.assert_allclose(v.numpy(), y.numpy(), rtol=2e-6, atol=1e-6)
            assert (u._version, v._version) == (x._version, y._version)
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_no_array_is_made_for_an_argument_that_is_only_scaled() -> None:
    """The program's result is the argument's own array, or the copy that it had to make of it."""
    x, y = dj.ones(64), dj.ones(64)
    (record,) = dj.explain(scale)(x, y).records
    ((_, program),) = record.programs

    (written,) = program(x.array, y.array)

    assert written is x.array
    crooked = np.ones(64 * 4 + 1, np.uint8)[1:].view(np.float32)
    crooked[:] = 2
    (written,) = program(crooked, y.array)
    assert written is not crooked
    assert written.tolist() == [2.0] * 64
