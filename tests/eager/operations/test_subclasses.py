"""Classes derived from Tensor: results keep the class, and functions ask `__torch_function__`."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

LIBRARIES = (torch, dj)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda t, x: (x + 1, 1 - x, -x, x * x, x / 2, x**2, 2**x, x // 2, x % 2, x @ x),
    "comparisons": lambda t, x: (x > 0, x == 1, x != 1, x <= 2),
    "operators of a plain tensor": lambda t, x: (t.ones(3) + x, t.ones(3) * x, x + t.ones(3)),
    "subscripts": lambda t, x: (x[0], x[1:], x[None], x[t.tensor([0, 1])]),
    "methods": lambda t, x: (x.sum(), x.reshape(3, 1), x.clone(), x.detach(), x.to(t.float64)),
    "pairs": lambda t, x: tuple(x.max(0)) + tuple(x.sort()),
    "parts": lambda t, x: (*x.split(1), *t.split(x, 2), *x.unbind()),
    "functions": lambda t, x: (
        t.relu(x), t.cat([x, x]), t.stack([t.ones(3), x]), t.where(x > 0, x, x)
    ),
    "functions of networks": lambda t, x: (
        t.nn.functional.relu(x), t.nn.functional.softmax(x, 0), t.nn.functional.dropout(x, 0.0),
        t.nn.functional.linear(x[None], t.ones(2, 3)), t.nn.functional.pad(x, (1, 1)),
        t.nn.functional.conv1d(t.ones(1, 1, 3), x[None, None]),
    ),
    "layers": lambda t, x: (t.nn.ReLU()(x), t.nn.Flatten(0)(x)),
    "attributes": lambda t, x: (x[None].T, x[None].mT, x.data, x.real),
    "in place": lambda t, x: (x.clone().add_(1), x.clone().zero_()),
    "others": lambda t, x: (t.zeros_like(x), x.new_zeros(2), t.tensor(x.tolist())),
    "numbers": lambda t, x: (x.sum().item(), x.tolist(), tuple(x.shape), x.dtype.is_complex),
}  # fmt: skip


def derived(t: Any) -> Any:
    """A class that adds a method."""

    class Mine(t.Tensor):
        def twice(self) -> Any:
            return self * 2

    return Mine


def logging(t: Any, log: list[Any]) -> Any:
    """A class that notes what it is asked about."""

    class Logged(t.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            log.append((func.__name__, [kind.__name__ for kind in types]))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logged


def described(result: Any) -> Any:
    """Class names and values of a result."""
    if hasattr(result, "detach"):
        return (
            type(result).__name__,
            tuple(result.shape),
            [round(v, 5) for v in result.detach().flatten().tolist()],
        )
    if isinstance(result, (tuple, list)):
        return [described(item) for item in result]
    return result


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_class(name: str) -> None:
    expected, actual = (
        described(CALLS[name](t, t.tensor([3.0, 1.0, 2.0]).as_subclass(derived(t))))
        for t in LIBRARIES
    )

    assert expected == actual


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: x + 1,
        lambda t, x: x * x,
        lambda t, x: t.relu(x),
        lambda t, x: t.stack([x, x]),
        lambda t, x: x.mean(),
        lambda t, x: t.ones(3) + x,
        lambda t, x: t.nn.functional.linear(t.ones(2, 3), x[None]),
        lambda t, x: t.nn.functional.relu(x),
    ],
)
def test_classes_are_asked_about_functions(call: Any) -> None:
    seen = []
    for t in LIBRARIES:
        log: list[Any] = []
        x = t.ones(3).as_subclass(logging(t, log))
        log.clear()
        result = call(t, x)
        seen.append((type(result).__name__, tuple(log), described(result)))

    assert seen[0] == seen[1]


def test_derived_classes_are_asked_first() -> None:
    for t in LIBRARIES:
        log: list[Any] = []
        base = logging(t, log)
        more = type("More", (base,), {})
        result = t.ones(2).as_subclass(base) + t.ones(2).as_subclass(more)

        assert type(result) is more
        assert ("add", ["More", "Logged"]) == log[0]


def test_classes_that_do_not_know_each_other_are_refused() -> None:
    for t in LIBRARIES:
        with pytest.raises(TypeError):
            t.add(t.ones(2).as_subclass(derived(t)), t.ones(2).as_subclass(logging(t, [])))


def test_objects_that_are_no_tensors_are_asked() -> None:
    class Answers:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func.__name__, types == (cls,), len(args)

    for t in LIBRARIES:
        assert ("add", True, 2) == t.add(Answers(), t.ones(2))
        assert ("stack", True, 1) == t.stack([Answers()])
        assert ("relu", True) == t.nn.functional.relu(Answers())[:2]
        assert t.overrides.has_torch_function((Answers(),))
        assert t.overrides.is_tensor_like(Answers())


def test_functions_that_make_tensors_or_ask_what_something_is_are_not_overridden() -> None:
    class Refuses:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise AssertionError(func)

    derived(dj)
    for t in LIBRARIES:
        assert not t.is_tensor(Refuses())
        with pytest.raises(AssertionError):
            t.relu(Refuses())


def test_programs_set_attributes_on_functions() -> None:
    dj.nn.functional.leaky_relu.note = "kept"
    dj.nn.functional.softmax.note = "kept"

    assert ("kept", "kept") == (dj.nn.functional.leaky_relu.note, dj.nn.functional.softmax.note)
    del dj.nn.functional.leaky_relu.note, dj.nn.functional.softmax.note


def test_methods_of_the_class_count() -> None:
    for t in LIBRARIES:

        class Own(t.Tensor):
            @staticmethod
            def __new__(cls: Any, x: Any, tag: str, t: Any = t) -> Any:
                return t.Tensor._make_subclass(cls, x)

            def __init__(self, x: Any, tag: str) -> None:
                self.tag = tag

            def add(self, other: Any) -> str:
                return "own"

            def __getitem__(self, place: Any) -> Any:
                return super().__getitem__(place)

        x = Own(t.ones(2), "tag")

        assert ("tag", "own", Own, Own) == (x.tag, x.add(1), type(x[0]), type(x * 2))
        assert not hasattr(x * 2, "tag")


def test_parameters_and_disabled_classes_stay_out() -> None:
    for t in LIBRARIES:
        kept = type("Kept", (t.nn.Parameter,), {})
        off = type(
            "Off",
            (t.Tensor,),
            {"__torch_function__": t._C._disabled_torch_function_impl},
        )

        assert type(kept(t.ones(2)) + 1) is t.Tensor
        assert type(t.ones(2).as_subclass(off) + 1) is t.Tensor
        with t._C.DisableTorchFunctionSubclass():
            assert type(t.ones(2).as_subclass(derived(t)) + 1) is t.Tensor


def test_gradients_pass() -> None:
    leaf = dj.ones(3, requires_grad=True)
    (leaf * 2).as_subclass(derived(dj)).mul(3).sum().backward()
    own = dj.ones(3).as_subclass(derived(dj)).requires_grad_()
    (own * 2).sum().backward()

    np.testing.assert_array_equal(leaf.grad.numpy(), [6, 6, 6])
    np.testing.assert_array_equal(own.grad.numpy(), [2, 2, 2])
    assert type(leaf.grad) is dj.Tensor


def test_texts_name_the_class_and_copies_have_it() -> None:
    kind = derived(dj)
    x = dj.ones(2).as_subclass(kind)

    assert "Mine([1., 1.])" == repr(x)
    assert "Mine([2., 2.])" == repr(x.twice())
    assert type(copy.copy(x)) is kind


def test_compiled_functions_give_the_class() -> None:
    kind = derived(dj)
    compiled = dj.compile(lambda x: dj.relu(x) * 2 + 1)

    results = [compiled(x) for x in (dj.ones(2), dj.ones(2).as_subclass(kind), dj.ones(2))]

    assert [dj.Tensor, kind, dj.Tensor] == [type(result) for result in results]
    assert all([3.0, 3.0] == result.tolist() for result in results)
