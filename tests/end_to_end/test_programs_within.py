"""Compiled functions that make leaves, ask for gradients, run checkpoints or compute with NumPy.

PyTorch's eager execution is the referee: what is no graph is a break, and gives the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def numbers(t: Any, *shape: int) -> Any:
    return t.arange(float(np.prod(shape))).reshape(*shape)


def leaf(t: Any, *shape: int) -> Any:
    return numbers(t, *shape).clone().requires_grad_()


def of_factory(name: str, *args: Any) -> Callable[[Any], Any]:
    def program(t: Any) -> Any:
        made = getattr(t, name)(*args, requires_grad=True)
        result = made * 2
        result.sum().backward()
        return made.requires_grad, made.is_leaf, result.requires_grad, made.grad

    return program


def of_data(t: Any) -> Any:
    weight = t.tensor([1.0, 2.0], requires_grad=True)
    (weight * t.ones(2)).sum().backward()
    like = t.zeros_like(weight, requires_grad=True)
    new = weight.new_ones(2, requires_grad=True)
    (like + new * 3).sum().backward()
    return weight.grad, like.grad, new.grad, like.is_leaf


def of_integers(t: Any) -> Any:
    try:
        t.ones(2, dtype=t.int64, requires_grad=True)
    except RuntimeError:
        return "refused"


def without_recording(t: Any) -> Any:
    with t.no_grad():
        made = t.ones(2, requires_grad=True)
        return made.requires_grad, (made * 2).requires_grad


def marked_between(t: Any) -> Any:
    between = (numbers(t, 3) * 2).requires_grad_()
    (between**2).sum().backward()
    return between.grad, between.is_leaf


def unmarked_between(t: Any) -> Any:
    try:
        (leaf(t, 2) * 2).requires_grad_(False)
    except RuntimeError:
        return "refused"


def twice(t: Any) -> Any:
    x = leaf(t, 3)
    (first,) = t.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = t.autograd.grad(first.sum(), x)
    return first, second, x.grad


def penalty(t: Any) -> Any:
    x = leaf(t, 3)
    (slope,) = t.autograd.grad((x**2).sum(), x, create_graph=True)
    ((slope - 1) ** 2).sum().backward()
    return x.grad


def unused(t: Any) -> Any:
    a, b = leaf(t, 2), leaf(t, 2)
    return t.autograd.grad(a.sum(), [a, b], allow_unused=True, materialize_grads=True)


def chosen(t: Any) -> Any:
    a, b = leaf(t, 2), leaf(t, 2)
    (a * b).sum().backward(inputs=[a])
    return a.grad, b.grad


def cut(t: Any) -> Any:
    a = leaf(t, 3)
    (a.detach() * a).sum().backward()
    return a.grad


def retained(t: Any) -> Any:
    a = leaf(t, 3)
    b = a * 2
    b.retain_grad()
    (b**2).sum().backward()
    return a.grad, b.grad


def checkpointed(is_reentrant: bool, kind: str) -> Callable[[Any], Any]:
    def program(t: Any) -> Any:
        checkpoint = t.utils.checkpoint.checkpoint
        options: dict[str, Any] = {"use_reentrant": is_reentrant}
        a = leaf(t, 2, 2)
        if kind == "plain":
            result = checkpoint(lambda x: (x @ x).sin(), a, **options)
        elif kind == "other arguments":
            result = checkpoint(lambda x, k, d: x * k * d["by"], a, 3, {"by": 2}, **options)
        elif kind == "several results":
            first, nothing, second = checkpoint(lambda x: (x * 2, None, x + 1), a, **options)
            assert nothing is None
            result = first.sum() + second.prod()
        elif kind == "nested":
            inner = lambda y: checkpoint(lambda z: z.sin(), y * 2, **options)
            result = checkpoint(lambda x: inner(x) * x, a, **options)
        elif kind == "no random numbers":
            result = checkpoint(lambda x: x.exp(), a, preserve_rng_state=False, **options)
        elif kind == "writes":
            result = checkpoint(lambda x: x.mul(2).add_(1).mul_(3), a, **options)
        elif kind == "chain":
            parts = [lambda x: x * 2, t.nn.Sigmoid(), lambda x: x + 1]
            result = t.utils.checkpoint.checkpoint_sequential(parts, 2, a, **options)
        else:
            noisy = checkpoint(lambda x: t.nn.functional.dropout(x + 1, 0.5), a, **options)
            noisy.sum().backward()
            return bool(((a.grad != 0) == (noisy != 0)).all())
        result.sum().backward()
        return result, a.grad

    return program


KINDS = ("plain", "other arguments", "several results", "nested", "no random numbers", "writes",
         "chain", "dropout")  # fmt: skip

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **{f"leaf of {name}": of_factory(name, 2) for name in ("ones", "zeros", "rand", "randn")},
    "leaf of full": of_factory("full", (2,), 1.5),
    "leaf of linspace": of_factory("linspace", 0.0, 1.0, 3),
    "leaf of eye": of_factory("eye", 2),
    "leaf of data": of_data,
    "leaf of integers": of_integers,
    "leaf without recording": without_recording,
    "leaf between": marked_between,
    "no leaf between": unmarked_between,
    "gradient of gradient": twice,
    "penalty": penalty,
    "unused": unused,
    "chosen": chosen,
    "cut": cut,
    "retained": retained,
    **{
        f"checkpoint, {kind}, {'reentrant' if flag else 'not reentrant'}": checkpointed(flag, kind)
        for kind in KINDS
        for flag in (True, False)
    },
    "array": lambda t: t.from_numpy(ARRAY.mean(axis=0)),
    "array of a tensor": lambda t: np.asarray(numbers(t, 3)) + 1,
    "array of a tensor, back": lambda t: t.from_numpy(np.sin(numbers(t, 3).numpy())) * 2,
    "shared memory": lambda t: _written(numbers(t, 2, 2)),
    "products": lambda t: t.from_numpy(np.einsum("ij,kj->ik", ARRAY, ARRAY)),
    "chosen elements": lambda t: t.tensor(np.where(ARRAY > 2, ARRAY, 0)),
    "random numbers": lambda t: t.from_numpy(np.random.default_rng(0).random(2)),
    "index": lambda t: numbers(t, 3)[np.array([0, 2])],
    "number as index": lambda t: numbers(t, 3)[np.int64(1)],
    "numbers": lambda t: numbers(t, 3) * np.float32(2) + float(ARRAY[0, 1]),
    "shape": lambda t: numbers(t, 6).reshape(*ARRAY.shape),
    "out": lambda t: t.from_numpy(np.add(ARRAY, 1, out=np.zeros_like(ARRAY))),
    "matrix": lambda t: t.from_numpy(np.linalg.inv(np.eye(2) * 2)),
    "dtype": lambda t: t.from_numpy(np.arange(3)),
}


def _written(x: Any) -> Any:
    x.numpy()[0, 0] = 9.0
    return x


def plain(found: Any) -> Any:
    if isinstance(found, (tuple, list)):
        return [plain(item) for item in found]
    if hasattr(found, "detach"):
        return found.requires_grad, str(found.dtype).rpartition(".")[2], plain(found.tolist())
    if isinstance(found, np.ndarray):
        return "array", str(found.dtype), plain(found.tolist())
    return float(np.float32(round(found, 4))) if isinstance(found, float) else found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad")
def test_a_compiled_program_gives_what_pytorch_gives(name: str) -> None:
    """In its first calls and later ones; random leaves have the same gradients."""
    program = PROGRAMS[name]
    expected = plain(program(torch))
    assert expected == plain(program(dj))
    compiled = dj.compile(lambda: program(dj))
    for _ in range(3):
        assert expected == plain(compiled())


def test_a_leaf_that_gradients_reach_later_is_refused_by_what_it_is() -> None:
    """Not by an attribute that graph values lack."""

    def with_leaf(x: Any) -> Any:
        leaf = dj.ones(2, requires_grad=True)
        return x * leaf, leaf

    with pytest.raises(dj.errors.GraphBreakError, match="gradients are asked for, or a leaf is"):
        dj.compile(with_leaf, fullgraph=True)(dj.ones(2))
