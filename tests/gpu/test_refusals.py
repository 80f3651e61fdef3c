"""What eager execution refuses because of elements, kernels on a GPU refuse with the same error."""

from collections.abc import Callable
from typing import Any, Final

import pytest

import dynajit as dj
from dynajit import distributions as d

I, J = [0, 2], [0, 7]

#: program, good data, data that it refuses
CASES: Final[dict[str, tuple[Callable[..., Any], list[Any], list[Any]]]] = {
    "a uniform table": (lambda i: dj.ones(3, device="cuda")[i], [I], [J]),
    "a part of the result": (lambda i, x: x[i][:1] + 1, [I, [1.0, 2.0, 3.0]], [J, [1.0, 2.0, 3.0]]),
    "an overwritten result": (lambda i, x: x[i].fill_(2.0), [I, [1.0, 2.0, 3.0]],
                              [J, [1.0, 2.0, 3.0]]),
    "a quotient": (lambda a, b: (a // b)[:1] + 1, [I, [1, 2]], [I, [1, 0]]),
    "a parameter": (lambda s, x: d.Normal(0.0, s).log_prob(x), [[1.0, 2.0], [0.5, 0.5]],
                    [[1.0, -2.0], [0.5, 0.5]]),
    "variances": (lambda x, v: dj.nn.functional.gaussian_nll_loss(x, x + 1, v),
                  [[1.0, 2.0], [0.5, 0.5]], [[1.0, 2.0], [0.5, -0.5]]),
}  # fmt: skip


def outcome(function: Callable[..., Any], arguments: list[Any]) -> str:
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@pytest.mark.parametrize("name", CASES)
def test_compiled_calls_refuse_what_eager_ones_refuse(driver: Any, name: str) -> None:
    function, good, bad = CASES[name]
    given = [[dj.tensor(data, device="cuda") for data in each] for each in (bad, good, bad)]
    expected = [outcome(function, each) for each in given]
    assert "no error" == expected[1]
    assert expected[0] != expected[1]

    compiled = dj.compile(function)

    assert expected == [outcome(compiled, each) for each in given]
