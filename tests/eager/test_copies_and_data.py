"""Copies of tensors, and `data`, `grad` and `_grad` set to all sorts of things, beside PyTorch."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


def told(x: Any) -> Any:
    """What a program can see of a tensor."""
    if x is None:
        return None
    dtype = str(x.dtype).rpartition(".")[2]
    return x.tolist(), dtype, x.requires_grad, x.is_leaf, x.grad_fn is None, x.grad is None


def outcome(call: Callable[[], Any]) -> Any:
    """The result; of an error which of the classes that programs catch it has."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's, of gradients of what is no leaf
            return call()
    except Exception as error:
        return [kind.__name__ for kind in (RuntimeError, TypeError) if isinstance(error, kind)]


def leaf(t: Any) -> Any:
    return t.ones(2, requires_grad=True)


def parameter_with_gradient(t: Any) -> Any:
    made = t.nn.Parameter(t.ones(2))
    made.grad = t.ones(2)
    return made


def with_attribute(t: Any) -> Any:
    made = t.ones(2)
    made.note = ["mine"]
    return made


MADE: dict[str, Callable[[Any], Any]] = {
    "plain": lambda t: t.ones(2),
    "integers": lambda t: t.arange(2),
    "leaf": leaf,
    "recorded": lambda t: leaf(t) * 2,
    "recorded view": lambda t: (leaf(t) * 2)[1:],
    "detached": lambda t: (leaf(t) * 2).detach(),
    "parameter": parameter_with_gradient,
    "attribute": with_attribute,
}


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("made", MADE)
def test_a_copy_is_what_pytorchs_is(made: str, how: Callable[[Any], Any]) -> None:
    def look(t: Any) -> Any:
        original = MADE[made](t)
        copied = how(original)
        notes = getattr(copied, "note", None)
        return (
            told(copied),
            type(copied).__name__,
            copied.data_ptr() == original.data_ptr(),
            notes,
            notes is getattr(original, "note", None),
        )

    assert outcome(lambda: look(torch)) == outcome(lambda: look(dj))


def test_a_copy_of_a_recorded_tensor_is_a_leaf_of_its_own() -> None:
    found = []
    for t in (dj, torch):
        x = leaf(t)
        copied = copy.copy(x * 3)
        (copied * 2).sum().backward()
        found.append((x.grad is None, copied.grad.tolist()))
    assert found[0] == found[1]


def test_leaves_survive_pickling() -> None:
    assert told(pickle.loads(pickle.dumps(leaf(torch)))) == told(
        pickle.loads(pickle.dumps(leaf(dj)))
    )


VALUES: dict[str, Callable[[Any], Any]] = {
    "same": lambda t: t.zeros(2),
    "another dtype": lambda t: t.zeros(2, dtype=t.float64),
    "integers": lambda t: t.zeros(2, dtype=t.int64),
    "complex": lambda t: t.zeros(2, dtype=t.complex64),
    "another size": lambda t: t.zeros(3),
    "no dims": lambda t: t.tensor(1.0),
    "recorded": lambda t: leaf(t) * 0,
    "leaf": lambda t: t.zeros(2, requires_grad=True),
    "None": lambda t: None,
    "number": lambda t: 3,
    "list": lambda t: [1.0, 2.0],
}


@pytest.mark.parametrize("attribute", ["data", "grad", "_grad"])
@pytest.mark.parametrize("target", ["plain", "leaf", "recorded"])
@pytest.mark.parametrize("value", VALUES)
def test_an_attribute_takes_what_pytorchs_takes(value: str, target: str, attribute: str) -> None:
    def look(t: Any) -> Any:
        x, given = MADE[target](t), VALUES[value](t)
        setattr(x, attribute, given)
        gradient = None if attribute == "data" else x.grad
        return told(x.detach()), x.requires_grad, told(gradient), gradient is x._grad

    assert outcome(lambda: look(torch)) == outcome(lambda: look(dj))


def test_the_gradient_has_two_names() -> None:
    for t in (dj, torch):
        x, gradient = leaf(t), t.ones(2)
        x._grad = gradient
        assert x.grad is gradient is x._grad
        del x._grad
        assert x.grad is x._grad is None


def versions(t: Any) -> Any:
    """Of a tensor whose memory is replaced, a view, a detached one, and where it came from."""
    x, source = t.ones(2), t.zeros(2)
    view, detached = x[:], x.detach()
    x.add_(1)
    source.add_(1)
    x.data = source
    found = [part._version for part in (x, view, detached, source)]
    x.add_(1)
    source.add_(1)
    return found, [(part.tolist(), part._version) for part in (x, view, detached, source)]


def test_the_version_counter_stays_where_memory_is_replaced() -> None:
    assert versions(torch) == versions(dj)


@pytest.mark.parametrize("library", [dj, torch])
def test_a_write_after_memory_was_replaced_is_noticed_by_backward(library: Any) -> None:
    x = leaf(library)
    y = x.exp()
    z = y.exp()
    y.data = library.zeros(2)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
