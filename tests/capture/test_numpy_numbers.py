"""NumPy's numbers in captured code: computed while capturing, and taken by tensors for numbers."""

import operator
import warnings

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.entry import session

WIDTH = 8

FUNCTIONS = {
    "division": lambda x: x / np.sqrt(8),
    "size": lambda x: x @ x.t() / np.sqrt(x.shape[-1]),
    "global": lambda x: x * np.sqrt(WIDTH),
    "from the left": lambda x: np.sqrt(2) * x - np.float32(0.5) / x,
    "float64": lambda x: x + np.float64(0.1),
    "int64": lambda x: x.long() * np.int64(3),
    "float of integers": lambda x: x.long() * np.float64(1.5),
    "bool": lambda x: x * np.bool_(True),
    "arithmetic": lambda x: x * (np.log(3) * 2 + 1) ** np.float64(0.5),
    "comparison": lambda x: x > np.exp(0.0),
    "branch": lambda x: x + 1 if np.sqrt(4) == 2 else x - 1,
    "in place": lambda x: x.clone().mul_(np.sqrt(3)).add_(np.float32(1)),
    "operator": lambda x: operator.iadd(x.clone(), np.float64(2)),
    "argument": lambda x: dj.clamp(x, min=np.float64(0.2)).pow(np.float64(2)),
    "filled": lambda x: dj.full((2,), np.sqrt(2)) + x.sum(),
    "python number": lambda x: x * int(np.floor(2.7)) + float(np.sqrt(9)),
    "item": lambda x: x * np.sqrt(16).item(),
    "constant": lambda x: x * np.pi + np.inf,
    "tensor": lambda x: dj.tensor(np.float64(3)) + x.double(),
    "cast": lambda x: x * np.ceil(np.log(x.shape[-1])).astype("int").item(),
    "cast to a class": lambda x: x * np.float64(2.7).astype(np.int32),
    "product of sizes": lambda x: x.reshape(int(np.prod(x.shape))),
    "sum": lambda x: x * np.sum([1, 2, 3]) + np.sum(x.shape, dtype=np.float32),
    "extremes": lambda x: x * np.max(x.shape) - np.amin((2, 3)) + np.argmax([1, 5, 2]),
    "answers": lambda x: x + 1 if np.any([0, 1]) and not np.all((1, 0)) else x - 1,
    "rounded": lambda x: x * np.round(2.567, 2) + np.float64(2.567).round(1) + np.clip(5, 0, 3),
    "math": lambda x: x * round(np.sqrt(5), 2) + abs(np.float64(-2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_graph_breaks_and_the_result_is_that_of_eager_execution(name: str) -> None:
    function = FUNCTIONS[name]
    x = dj.tensor(np.linspace(0.3, 2, 6, dtype=np.float32).reshape(2, 3))
    expected, found = function(x), dj.compile(function, fullgraph=True)(x)
    assert found.dtype is expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: x * np.sqrt(-1.0), lambda x: x / np.float64(0) ** -1]
)
def test_what_makes_numpy_warn_is_left_to_it(function) -> None:
    x = dj.ones(3)
    compiled = dj.compile(function)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as plain:
            warnings.simplefilter("always")
            expected = function(x)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = compiled(x)
        assert [str(w.message) for w in seen] == [str(w.message) for w in plain]
        np.testing.assert_array_equal(found, expected)


def test_a_number_that_an_object_holds_is_no_constant() -> None:
    class Annealed:
        factor = np.float64(2)

    holder = Annealed()
    compiled = dj.compile(lambda x: x * holder.factor)
    for factor in (2, 3, 4):
        holder.factor = np.float64(factor)
        np.testing.assert_array_equal(compiled(dj.ones(2)), np.full(2, factor))


def test_results_may_be_numbers_of_numpy() -> None:
    def function(x):
        return x + 1, np.sqrt(2), {np.int64(3): np.float32(0.5)}

    _, root, table = dj.compile(function)(dj.ones(2))
    assert type(root) is np.float64 and root == np.sqrt(2)
    assert type(next(iter(table))) is np.int64 and type(table[3]) is np.float32


def test_arrays_are_left_to_numpy() -> None:
    function = lambda x: x + float(np.sqrt([4.0, 9.0])[1])
    (found,) = session.capture(function, (dj.ones(2),)).breaks
    assert found.reason.name in ("unsupported_operation", "unknown_call")
    np.testing.assert_array_equal(dj.compile(function)(dj.ones(2)), [4, 4])


OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod),
    *(operator.floordiv, operator.eq, operator.ne, operator.lt),
]


@pytest.mark.parametrize("symbol", OPERATORS, ids=lambda item: item.__name__)
@pytest.mark.parametrize("number", [True, 3, 2.5, 1 + 2j])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_classes_of_results_are_those_of_python(number: object, symbol: object) -> None:
    """A complex number of Python's takes a double for the float that it derives from."""
    for dtype in (np.float64, np.float32, np.int64, np.bool_, np.complex128, np.complex64):
        x = np.array([2, 1, 3]).astype(dtype)
        for function in (lambda x: symbol(number, x[0]), lambda x: symbol(x[0], number)):
            try:
                expected = function(x)
            except TypeError:
                with pytest.raises(TypeError):
                    dj.compile(function)(x)
                continue
            found = dj.compile(function)(x)
            assert type(expected) is type(found)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
