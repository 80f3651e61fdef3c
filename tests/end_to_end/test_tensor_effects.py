"""Writes to tensors through the native backend: the same programs as with interpreted graphs."""

import warnings
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.python.tensor_effects import Arguments, check_program
from tests.support.python.tensor_programs import program


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_random_programs_are_as_in_plain_python(first: int) -> None:
    """Values, versions, identity, aliasing (seen by writes), errors, gradients."""
    for seed in range(first, first + 8):
        text, function, make = program(seed)
        compiled = dj.compile(function)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                for _ in range(2):
                    check_program(compiled, function, make, exact=False)
            except AssertionError as error:
                raise AssertionError(f"{text}\n{error}") from None


def leaves(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [dj.tensor(rng.normal(size=s).astype(np.float32)).requires_grad_() for s in shapes]


def momentum(p: Any, v: Any) -> None:
    with dj.no_grad():
        v.mul_(0.9).add_(p.grad)
        p.add_(v, alpha=-0.1)


def running_statistics(x: Any, mean: Any, weight: Any) -> Any:
    batch = x.mean(dim=0)
    with dj.no_grad():
        mean.mul_(0.9).add_(0.1 * batch)
    return (x - batch) * weight + mean


def saved_input_is_written(x: Any, w: Any) -> Any:
    y = x * w
    z = y.exp()
    y.add_(1)
    return z * y


def argument_is_written_after_use(x: Any, w: Any) -> Any:
    z = x * w
    x.mul_(2)
    return z + x


def item_assignment(x: Any, w: Any) -> Any:
    x[0] = w[1] * 2
    x[:, 1] += w[:, 0]
    return (x * x).sum()


def history_of(make: Any, count: int) -> Any:
    """Arguments of which the first `count` are no leaves."""

    def made() -> Arguments:
        found = make()
        return Arguments([t * 1.5 if i < count else t for i, t in enumerate(found)], found)

    return made


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (saved_input_is_written, lambda: leaves((3, 4), (3, 4))),
        (argument_is_written_after_use, history_of(lambda: leaves((3, 4), (3, 4)), 1)),
        (item_assignment, history_of(lambda: leaves((3, 4), (3, 4)), 1)),
    ],
)
def test_gradients_through_writes(function: Any, make: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        check_program(compiled, function, make, exact=False)


def test_running_statistics_of_a_training_forward() -> None:
    compiled = dj.compile(running_statistics, fullgraph=True)

    def make() -> Arguments:
        x, weight = leaves((5, 4), (4,))
        return Arguments([x, dj.zeros(4), weight], [x, weight])

    for _ in range(2):
        check_program(compiled, running_statistics, make, exact=False)


def test_a_momentum_step() -> None:
    compiled = dj.compile(momentum, fullgraph=True)
    found = []
    for run in (momentum, compiled):
        (p,) = leaves((3, 4))
        p.grad = dj.ones(3, 4)
        v = dj.zeros(3, 4)
        for _ in range(3):
            run(p, v)
        found.append([p.tolist(), v.tolist(), p._version, v._version])
    assert found[0][2:] == found[1][2:]
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)


def test_training_with_a_compiled_step_of_the_optimiser() -> None:
    """Forward compiled, backward outside, step compiled: as in eager."""
    found = []
    for compiles in (False, True):
        dj.manual_seed(0)
        model = dj.nn.Linear(4, 2)
        optimiser = dj.optim.Adam(model.parameters(), lr=0.05)
        x = dj.arange(12.0).reshape(3, 4) / 10
        forward = dj.compile(model, fullgraph=True) if compiles else model
        step = dj.compile(optimiser.step) if compiles else optimiser.step
        losses = []
        for _ in range(5):
            loss = (forward(x) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            step()
            losses.append(loss.item())
        found.append(losses)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert found[0][-1] < found[0][0]


def test_strides_of_results_are_those_of_eager() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x.t() * 2
        return z, z + y, x.t().exp().sum(dim=0), (x + 1).t(), x.t().contiguous() + 1

    x, y = dj.arange(6.0).reshape(2, 3), dj.ones(3, 2)
    for expected, actual in zip(
        function(x, y), dj.compile(function, fullgraph=True)(x, y), strict=True
    ):
        assert expected.stride() == actual.stride()
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-6)
