"""Hooks of modules, beside PyTorch's: eager and compiled."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")


def compiled_or_not(t: Any, module: Any, how: str) -> Any:
    if how == "eager" or t is torch:
        return module
    return dj.compile(module, fullgraph=how == "whole")


def scaling(t: Any, error: str = "") -> Any:
    class Scaling(t.nn.Module):
        def forward(self, x: Any, *, by: int = 2) -> Any:
            if error:
                raise ValueError(error)
            return x * by

    return Scaling()


def parent(t: Any, child: Any) -> Any:
    class Parent(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = child

        def forward(self, x: Any) -> Any:
            return self.child(x, by=3) + 1

    return Parent()


@pytest.mark.parametrize("how", ["eager", "broken", "whole"])
def test_forward_hooks_see_keyword_arguments(how: str) -> None:
    """And change them, and the result."""
    found = []
    for t in (dj, torch):
        child = scaling(t)
        child.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True
        )
        child.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["by"],
                                    with_kwargs=True)  # fmt: skip
        child.register_forward_hook(lambda m, args, out: out * 10, prepend=True)
        module = compiled_or_not(t, parent(t, child), how)
        found.append([module(t.ones(2)).tolist() for _ in range(2)])
    assert found[0] == found[1]


def with_always_called(t: Any, error: str) -> tuple[Any, list[Any]]:
    seen: list[Any] = []

    def see(name: str, answer: Any = None) -> Callable[..., Any]:
        def hook(module: Any, args: Any, *rest: Any) -> Any:
            seen.append((name, rest))
            return answer

        return hook

    module = scaling(t, error)
    module.register_forward_hook(see("plain"))
    module.register_forward_hook(see("always", t.ones(1)), always_call=True)
    module.register_forward_hook(see("kwargs"), always_call=True, with_kwargs=True)
    return module, seen


@pytest.mark.parametrize("how", ["eager", "broken", "whole"])
@pytest.mark.parametrize("raises", [False, True])
def test_some_hooks_are_called_also_where_forward_raises(how: str, raises: bool) -> None:
    """With None as the result; what they return is seen by the next one."""
    found = []
    for t in (dj, torch):
        module, seen = with_always_called(t, "mine" if raises else "")
        called = compiled_or_not(t, module, how)
        if raises:
            with pytest.raises(ValueError, match="mine"):
                called(t.zeros(2), by=4)
        else:
            called(t.zeros(2), by=4)
        found.append([(name, [str(x).replace(", ", ",") for x in rest]) for name, rest in seen])
    assert found[0] == found[1]
    assert len(found[0]) == (2 if raises else 3)


@pytest.mark.parametrize("t", [dj, torch])
def test_a_hook_that_raises_ends_the_call(t: Any) -> None:
    """Those that are always called follow, each once; what they raise is a warning."""
    seen = []

    def fails(module: Any, args: Any, out: Any) -> None:
        seen.append("fails")
        raise KeyError("hook")

    module = scaling(t)
    module.register_forward_hook(lambda m, a, out: seen.append("first"), always_call=True)
    module.register_forward_hook(fails)
    module.register_forward_hook(lambda m, a, out: seen.append(out.tolist()), always_call=True)
    module.register_forward_hook(lambda m, a, out: 1 / 0, always_call=True)
    with pytest.raises(KeyError, match="hook"), pytest.warns(UserWarning, match="silenced"):
        module(t.ones(1))
    assert seen == ["first", "fails", [2.0]]


@pytest.mark.parametrize("t", [dj, torch])
def test_a_removed_hook_is_called_no_more(t: Any) -> None:
    seen = []
    module = scaling(t, "mine")
    handle = module.register_forward_hook(
        lambda m, a, k, out: seen.append(out), always_call=True, with_kwargs=True
    )
    handle.remove()
    with pytest.raises(ValueError, match="mine"):
        module(t.ones(1))
    assert not seen
    assert not module._forward_hooks_always_called
    assert not module._forward_hooks_with_kwargs


def note(module: Any, args: Any, out: Any) -> None:
    NOTED.append(out)


NOTED: list[Any] = []


def test_hooks_that_are_always_called_are_pickled() -> None:
    layer = dj.nn.Linear(2, 2)
    layer.register_forward_hook(note, always_call=True)
    copied = pickle.loads(pickle.dumps(layer))
    with pytest.raises(RuntimeError):
        copied(dj.ones(3))
    assert NOTED == [None]


@pytest.mark.parametrize("how", ["eager", "broken", "whole"])
def test_hooks_of_all_modules_are_found_by_the_path_of_pytorch(how: str) -> None:
    found = []
    for t in (dj, torch):
        hooks = t.nn.modules.module
        child = scaling(t)
        module = compiled_or_not(t, parent(t, child), how)
        results = [module(t.ones(2)).tolist()]
        handles = [
            hooks.register_module_forward_pre_hook(lambda m, args: (args[0] + 1,)),
            hooks.register_module_forward_hook(lambda m, args, out: out * 2),
            hooks.register_module_forward_hook(
                lambda m, args, kwargs, out: out + kwargs.get("by", 0), with_kwargs=True
            ),
        ]
        try:
            results.append(module(t.ones(2)).tolist())
        finally:
            for handle in handles:
                handle.remove()
        results.append(module(t.ones(2)).tolist())
        found.append(results)
    assert found[0] == found[1]


@pytest.mark.parametrize("t", [dj, torch])
def test_a_hook_of_all_modules_may_always_be_called(t: Any) -> None:
    seen = []
    with (
        t.nn.modules.module.register_module_forward_hook(
            lambda m, args, out: seen.append((type(m).__name__, out)), always_call=True
        ),
        pytest.raises(ValueError, match="mine"),
    ):
        parent(t, scaling(t, "mine"))(t.ones(1))
    with pytest.raises(ValueError, match="mine"):
        parent(t, scaling(t, "mine"))(t.ones(1))
    assert seen == [("Scaling", None), ("Parent", None)]


@pytest.mark.parametrize("how", ["eager", "broken"])
def test_backward_hooks_of_all_modules_see_gradients(how: str) -> None:
    found = []
    for t in (dj, torch):
        seen: list[Any] = []
        hooks = t.nn.modules.module
        layer = t.nn.Linear(2, 2)
        with t.no_grad():
            layer.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))

        def pre(m: Any, grads: Any, seen: list[Any] = seen) -> Any:
            seen.append(("pre", grads[0].tolist()))
            return (grads[0] * 3,)

        def full(m: Any, inputs: Any, outputs: Any, seen: list[Any] = seen) -> Any:
            seen.append(("full", inputs[0].tolist(), outputs[0].tolist()))
            return (inputs[0] * 10,)

        x = t.ones(1, 2, requires_grad=True)
        with (
            hooks.register_module_full_backward_pre_hook(pre),
            hooks.register_module_full_backward_hook(full),
        ):
            compiled_or_not(t, layer, how)(x).sum().backward()
        found.append((seen, x.grad.tolist(), layer.weight.grad.tolist()))
    assert found[0] == found[1]


def shown(t: Any, value: Any) -> Any:
    """What can be compared between libraries."""
    if isinstance(value, t.Tensor):
        return value.tolist(), value.requires_grad
    if isinstance(value, (tuple, list)):
        return [shown(t, part) for part in value]
    return value if value is None or isinstance(value, (int, str)) else type(value).__name__


class Pair(NamedTuple):
    first: Any
    second: Any


def requiring(t: Any) -> Any:
    return t.tensor([1.0, 2.0], requires_grad=True)


FORWARDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a mask": lambda x, k, w: (x * k, k.requires_grad),
    "results that nobody uses": lambda x, k, w: (x * k, x, k, 3),
    "what cannot require gradients": lambda x, k, w: (x * k, k.bool(), x.detach()),
    "a weight alone": lambda x, k, w: x.detach() * w,
    "a named tuple": lambda x, k, w: Pair(x * 2, 3),
    "a list": lambda x, k, w: [x * 2],
    "its input": lambda x, k, w: x,
    "a mask that it writes to": lambda x, k, w: k.add_(1) * x,
    "a keyword": lambda x, k=None, w=None: x * k,
}


def module_of(t: Any, forward: Callable[..., Any]) -> Any:
    class Made(t.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return forward(*args, **kwargs)

    return Made()


def calls(module: Any, forward: str, t: Any, x: Any, k: Any, w: Any) -> Any:
    return module(x, k=k, w=w) if forward == "a keyword" else module(x, k, w)


@pytest.mark.parametrize("how", ["eager", "broken"])
@pytest.mark.parametrize("recorded", ["x", "x w", "w"])
@pytest.mark.parametrize("forward", FORWARDS)
def test_backward_hooks_get_what_pytorchs_get(forward: str, recorded: str, how: str) -> None:
    """And leave what does not require gradients alone."""
    found = []
    for t in (dj, torch):
        seen: list[Any] = []
        module = module_of(t, FORWARDS[forward])
        module.register_full_backward_hook(
            lambda m, i, o, seen=seen, t=t: seen.append(("full", shown(t, i), shown(t, o)))
        )
        module.register_full_backward_pre_hook(
            lambda m, o, seen=seen, t=t: seen.append(("pre", shown(t, o)))
        )
        called = compiled_or_not(t, module, how)
        x, w = (requiring(t).requires_grad_(name in recorded) for name in "xw")
        k = t.ones(2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = calls(called, forward, t, x, k, w)
            first = result[0] if isinstance(result, (tuple, list)) else result
            if first.requires_grad:
                first.sum().backward()
        found.append((seen, shown(t, [result, x.grad, k, w.grad]), type(result).__name__))
    assert found[0] == found[1]


def test_backward_hooks_run_once_where_gradients_are_differentiated() -> None:
    found = []
    for t in (dj, torch):
        seen: list[Any] = []
        module = module_of(t, lambda x: x**3)
        module.register_full_backward_hook(
            lambda m, i, o, seen=seen, t=t: seen.append((shown(t, i), shown(t, o)))
        )
        x = requiring(t)
        (gradient,) = t.autograd.grad(module(x).sum(), x, create_graph=True)
        seen.append("the second")
        gradient.sum().backward()
        found.append((seen, x.grad.tolist()))
    assert found[0] == found[1]


REPLACED: dict[str, Callable[[Any, Any], Any]] = {
    "both": lambda grads, t: (grads[0] * 3, grads[1]),
    "with None": lambda grads, t: (grads[0] * 3, None),
    "a list": lambda grads, t: [grads[0] * 3, grads[1]],
    "too few": lambda grads, t: (grads[0] * 3,),
    "too many": lambda grads, t: (*grads, None),
}


@pytest.mark.parametrize("kind", ["full_backward_hook", "full_backward_pre_hook"])
@pytest.mark.parametrize("how", REPLACED)
def test_backward_hooks_replace_all_gradients_or_none(how: str, kind: str) -> None:
    found = []
    for t in (dj, torch):
        module = module_of(t, lambda x, k: (x * k, k))
        getattr(module, f"register_{kind}")(lambda m, grads, *outputs, t=t: REPLACED[how](grads, t))
        x = requiring(t)
        try:
            module(x, t.ones(2))[0].sum().backward()
            found.append(x.grad.tolist())
        except RuntimeError:
            found.append("refused")
    assert found[0] == found[1]


def hooked(t: Any, place: str, keeps: list[Any]) -> Callable[[Any], Any]:
    def hook(gradient: Any) -> Any:
        keeps.append(gradient.tolist())
        return gradient * 10

    def function(x: Any) -> Any:
        if place == "input":
            x.register_hook(hook)
        y = x * 2
        if place == "between":
            y.register_hook(hook)
        z = (y * 3).sum()
        if place == "result":
            z.register_hook(hook)
        if place == "accumulated":
            x.register_post_accumulate_grad_hook(lambda leaf: keeps.append(leaf.grad.tolist()))
        return z

    return function


@pytest.mark.parametrize("place", ["input", "between", "result", "accumulated"])
def test_hooks_of_tensors_registered_within_a_compiled_function_are_called(place: str) -> None:
    """In every call, for the tensors of that call."""
    found = []
    for t in (dj, torch):
        seen: list[Any] = []
        function = hooked(t, place, seen)
        called = dj.compile(function) if t is dj else function
        gradients = []
        for number in (1.0, 2.0):
            x = t.full((2,), number, requires_grad=True)
            called(x).backward()
            gradients.append(x.grad.tolist())
        found.append((seen, gradients))
    assert found[0] == found[1]


def test_nothing_is_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module, _ = with_always_called(dj, "")
        module(dj.zeros(2))
