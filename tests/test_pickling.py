"""What programs keep in their objects can be pickled: every function and class, tensors, layers."""

import importlib
import pickle
import pkgutil
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import dynajit as dj

#: Packages of the library itself: programs do not import them.
INNER = tuple(
    f"dynajit.{name}"
    for name in ("capture", "codegen", "core", "demo", "doctor", "eager", "ir", "ops", "report")
)


def modules() -> Iterator[Any]:
    """All that programs import."""
    yield dj
    for info in pkgutil.walk_packages(dj.__path__, "dynajit."):
        if not info.name.startswith((*INNER, "dynajit.__main__")):
            yield importlib.import_module(info.name)


def test_every_public_function_and_class_is_the_same_after_pickling() -> None:
    differing = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some names are deprecated
        for module in modules():
            for name in dir(module):
                value = None if name.startswith("_") else getattr(module, name, None)
                is_one = isinstance(value, type) or (
                    callable(value) and hasattr(value, "__qualname__")
                )
                if not is_one or not str(value.__module__).startswith("dynajit"):
                    continue
                try:
                    again = pickle.loads(pickle.dumps(value))
                except (pickle.PicklingError, AttributeError) as error:
                    again = error
                if again is not value:
                    differing.append(f"{module.__name__}.{name}: {again!r}")
    assert not differing, "\n".join(differing)


def test_functions_that_write_into_their_input_are_those_of_nn_functional() -> None:
    functional = dj.nn.functional
    for function in (functional.relu, functional.relu_, functional.dropout):
        assert ("dynajit.nn.functional", function) == (
            function.__module__,
            getattr(functional, function.__name__),
        )


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_transformer_layer_is_pickled(activation: str) -> None:
    layer = dj.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation=activation).eval()
    again = pickle.loads(pickle.dumps(layer))
    x = dj.randn(3, 2, 4)

    assert (layer(x) == again(x)).all()


def test_a_tensor_with_a_history_is_pickled_as_a_leaf_that_requires_grad() -> None:
    """As PyTorch does; the history is not kept."""
    x = dj.ones(2, requires_grad=True) * 2
    again = pickle.loads(pickle.dumps(x))

    assert ([2.0, 2.0], True, True) == (again.tolist(), again.is_leaf, again.requires_grad)


def test_a_function_that_names_its_home_elsewhere_is_captured_by_where_it_was_written() -> None:
    """`wraps` copies the home of a function of the library to one of the program."""

    def shifted(x: Any) -> Any:
        seen.append(len(seen))
        return x + 1

    shifted.__module__ = "dynajit.ops.functions.elements.elementwise"
    seen: list[int] = []
    compiled = dj.compile(lambda x: shifted(x) * 2, backend="numpy")

    assert [[4.0], [4.0]] == [compiled(dj.ones(1)).tolist() for _ in range(2)]
    assert [0, 1] == seen
