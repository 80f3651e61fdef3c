"""`out=`, NumPy's names and older overloads in compiled functions: as in eager ones."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj


def both(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], full: bool) -> None:
    """The function gives the same, and leaves its arguments the same, compiled."""
    plain_args, args = make(), make()
    compiled = dj.compile(function, fullgraph=full)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(*plain_args)
        for _ in range(2):
            args = make()
            found = compiled(*args)
            assert flat(expected) == flat(found)
            assert flat(plain_args) == flat(args)
            assert versions(plain_args) == versions(args)


def flat(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [flat(item) for item in value]
    return (value.tolist(), value.dtype) if isinstance(value, dj.Tensor) else value


def versions(args: tuple[Any, ...]) -> list[int]:
    return [a._version for a in args if isinstance(a, dj.Tensor)]


def x() -> Any:
    return dj.tensor([[1.0, 3.0, 2.0], [6.0, 5.0, 4.0]])


CAPTURED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "exp": (lambda x, out: (dj.square(x, out=out), out + 1), lambda: (x(), dj.zeros(2, 3))),
    "itself": (lambda x: dj.add(x, x, out=x) * 2, lambda: (x(),)),
    "a view": (lambda x, out: dj.sum(x, 1, out=out[0]), lambda: (x(), dj.zeros(2, 2))),
    "sort": (
        lambda x, a, b: dj.sort(x, out=(a, b)).values + 1,
        lambda: (x(), dj.zeros(2, 3), dj.zeros(2, 3, dtype=dj.int64)),
    ),
    "max": (
        lambda x, a, b: dj.max(x, dim=1, out=[a, b])[1],
        lambda: (x(), dj.zeros(2), dj.zeros(2, dtype=dj.int64)),
    ),
    "made inside": (lambda x: dj.mul(x, 2, out=dj.empty(2, 3)), lambda: (x(),)),
    "zeros": (lambda out: dj.zeros(2, 3, out=out), lambda: (x(),)),
    "None": (lambda x: dj.square(x, out=None), lambda: (x(),)),
    "axis": (lambda x: x.sum(axis=0), lambda: (x(),)),
    "axis of a function": (lambda x: dj.max(x, axis=1).values, lambda: (x(),)),
    "keepdims": (lambda x: dj.mean(x, axis=-1, keepdims=True), lambda: (x(),)),
    "x1, x2": (lambda x: dj.add(x1=x, x2=x), lambda: (x(),)),
    "a method of the class": (lambda x: dj.Tensor.sum(x, axis=0), lambda: (x(),)),
    "cat": (lambda x: dj.cat([x, x], axis=1), lambda: (x(),)),
}

BROKEN: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "resized": (lambda x, out: dj.square(x, out=out) + 1, lambda: (x(), dj.zeros(2))),
    "grown": (lambda x, out: dj.square(x, out=out) + 1, lambda: (x(), dj.empty(0))),
    "cast": (lambda x, out: dj.square(x, out=out), lambda: (x(), dj.zeros(2, 3, dtype=dj.float64))),
    "a dtype of a factory": (
        lambda out: dj.full((2, 3), 2.5, out=out), lambda: (dj.zeros(2, 3, dtype=dj.int64),),
    ),
    "a sum in the dtype of out": (
        lambda x, out: dj.sum(x, out=out), lambda: (x(), dj.zeros((), dtype=dj.float64)),
    ),
    "add, older": (lambda x: dj.add(x, 2, x), lambda: (x(),)),
    "add_, older": (lambda x: x.add_(2, x), lambda: (x(),)),
    "addcmul_, older": (lambda x: x.addcmul_(2, x, x), lambda: (x(),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED)
def test_written_into_out_within_the_graph(name: str) -> None:
    both(*CAPTURED[name], full=True)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_plain_write_is_done_by_the_real_call(name: str) -> None:
    both(*BROKEN[name], full=False)


def test_gradients_are_refused_as_eagerly() -> None:
    def function(x: Any, out: Any) -> Any:
        return dj.square(x, out=out)

    leaf, out = dj.ones(3, requires_grad=True), dj.zeros(3)
    compiled = dj.compile(function)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        compiled(leaf, out)
    assert out.tolist() == [0.0] * 3
    with dj.no_grad():
        assert compiled(leaf, out).tolist() == function(leaf, dj.zeros(3)).tolist()


def test_autocast_is_left_to_the_real_call() -> None:
    def function(x: Any, out: Any) -> Any:
        return dj.mm(x, x, out=out)

    square, out = dj.tensor([[1.001, 2.0], [3.0, 4.0]]), dj.zeros(2, 2)
    with dj.autocast("cpu", dtype=dj.bfloat16):
        found = dj.compile(function)(square, out)
    assert found is out
    assert found.tolist() == (square @ square).tolist()


def test_a_function_held_by_a_class_is_not_bound() -> None:
    class Layer(dj.nn.Module):
        activation = dj.tanh

        def forward(self, x: Any) -> Any:
            return self.activation(x)

    layer = Layer()
    compiled = dj.compile(layer, fullgraph=True)
    assert compiled(x()).tolist() == layer(x()).tolist()


def test_another_function_is_noticed() -> None:
    def function(x: Any, activation: Any) -> Any:
        return activation(x, out=None)

    compiled = dj.compile(function, fullgraph=True)
    for activation in (dj.square, dj.neg, dj.square):
        assert compiled(x(), activation).tolist() == activation(x()).tolist()
