"""`Optimizer` as programs derive from it and ask it: hooks, groups, names, copies, errors."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import UnsupportedError
from dynajit.optim.optimizer import (
    Optimizer,
    _use_grad_for_differentiable,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)

torch = pytest.importorskip("torch")


class Lion(Optimizer):
    """As programs write optimisers of their own: a loop over groups, state by parameter."""

    def __init__(self, params: Any, lr: Any = required, betas: Any = (0.9, 0.99), decay: float = 0):
        super().__init__(params, {"lr": lr, "betas": betas, "decay": decay})

    @dj.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with dj.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = dj.zeros_like(p)
                beta1, beta2 = group["betas"]
                p.data.mul_(1 - group["lr"] * group["decay"])
                update = state["exp_avg"].clone().mul_(beta1).add(p.grad, alpha=1 - beta1).sign_()
                p.add_(update, alpha=-group["lr"])
                state["exp_avg"].mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss


def leaf(*shape: int) -> Any:
    """A parameter of ones, with a gradient of ones."""
    parameter = dj.nn.Parameter(dj.ones(*shape))
    parameter.grad = dj.ones(*shape)
    return parameter


def test_an_optimiser_of_a_program_steps() -> None:
    """Its state is saved and loaded, and its loss returned."""
    parameter = leaf(3)
    optimizer = Lion([parameter], lr=0.5, decay=0.2)

    assert 7 == optimizer.step(lambda: 7)
    np.testing.assert_allclose(parameter.detach().numpy(), np.full(3, 0.9 - 0.5), rtol=1e-6)

    other = Lion([leaf(3)], lr=0.1)
    other.load_state_dict(optimizer.state_dict())

    assert 0.5 == other.param_groups[0]["lr"]
    (entry,) = other.state.values()
    np.testing.assert_allclose(entry["exp_avg"].numpy(), np.full(3, 0.01), rtol=1e-5)


def test_a_required_option_is_asked_for() -> None:
    """By the group, where there is no default."""
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Lion([leaf(1)])
    assert "<required parameter>" == repr(required)


def test_a_compiled_step_of_a_programs_optimiser() -> None:
    """The same numbers as eagerly."""
    found = []
    for compiles in (False, True):
        parameter = leaf(4)
        optimizer = Lion([parameter], lr=0.1)
        step = dj.compile(optimizer.step) if compiles else optimizer.step
        for number in range(4):
            parameter.grad = dj.full((4,), 2.0 - number)
            step()
        found.append(parameter.detach().numpy())

    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize("kind", [dj.optim.SGD, Lion])
def test_hooks_see_each_step(kind: Any) -> None:
    """In PyTorch's order; a removed hook is silent; classes of programs have them, too."""
    seen: list[str] = []
    optimizer = kind([leaf(2)], lr=0.1)
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append("pre")),
        optimizer.register_step_post_hook(lambda o, a, k: seen.append("post")),
        register_optimizer_step_pre_hook(lambda o, a, k: seen.append("all pre")),
        register_optimizer_step_post_hook(lambda o, a, k: seen.append("all post")),
    ]
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()

    assert ["all pre", "pre", "post", "all post"] == seen


def test_a_hook_may_change_the_arguments() -> None:
    """What it returns is taken; anything but a pair is refused."""
    optimizer = dj.optim.SGD([leaf(2)], lr=0.1)
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: ((lambda: 3,), {}))

    assert 3 == optimizer.step()

    handle.remove()
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 1)
    with pytest.raises(RuntimeError, match="None or a tuple"):
        optimizer.step()


def test_hooks_of_state_dicts() -> None:
    """Before and after saving and loading; what they return is taken."""
    seen: list[str] = []
    optimizer = dj.optim.Adam([leaf(2)])
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: {**state, "state": {}})
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("after"))
    optimizer.step()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)

    assert 1 == state["more"]
    assert ["before", "after"] == seen
    assert {} == optimizer.state


def test_a_compiled_step_has_hooks() -> None:
    """One that is registered after the compilation is called, too."""
    seen: list[int] = []
    optimizer = dj.optim.SGD([leaf(2)], lr=0.1)
    step = dj.compile(optimizer.step)
    step()
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(1))
    step()

    assert [1] == seen


def test_the_rate_of_a_compiled_step_changes_without_a_version() -> None:
    """As schedulers change it."""
    optimizer = dj.optim.Adam([leaf(2)], lr=0.1)
    step = dj.compile(optimizer.step)
    for number in range(6):
        optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
        step()

    assert 1 == step.report().graphs


def test_names_of_parameters_are_kept_in_the_groups() -> None:
    """And in state dicts, as PyTorch's."""
    found = []
    for library in (dj, torch):
        model = library.nn.Linear(2, 1)
        optimizer = library.optim.SGD(model.named_parameters(), lr=0.1)
        found.append(optimizer.state_dict())

    assert found[1] == found[0]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer = dj.optim.SGD([("a", leaf(1))], lr=0.1)
        optimizer.add_param_group({"params": [leaf(1)]})
    with pytest.raises(ValueError, match="Some param names are missing"):
        dj.optim.SGD([("a", leaf(1)), leaf(1)], lr=0.1)


def test_text_is_pytorchs() -> None:
    """The options of each group, sorted."""
    found = [repr(library.optim.AdamW([library.ones(1)], lr=0.5)) for library in (dj, torch)]

    assert found[1] == found[0]


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_step_by_themselves(copier: Callable[[Any], Any]) -> None:
    """With state of their own."""
    parameter = leaf(2)
    optimizer = dj.optim.Adam([parameter], lr=0.1)
    optimizer.step()
    twin = copier(optimizer)
    twin.param_groups[0]["params"][0].grad = dj.ones(2)
    before = parameter.detach().clone()
    twin.step()

    assert dj.equal(before, parameter.detach())
    assert 1.0 == optimizer.state_dict()["state"][0]["step"].item()
    assert 2.0 == twin.state_dict()["state"][0]["step"].item()


def test_gradients_are_zeroed_or_dropped() -> None:
    """`set_to_none=False` keeps the tensor, without a history."""
    parameter = leaf(2)
    optimizer = dj.optim.SGD([parameter], lr=0.1)
    optimizer.zero_grad(set_to_none=False)

    assert [0.0, 0.0] == parameter.grad.tolist()
    optimizer.zero_grad()
    assert parameter.grad is None


def test_a_decorated_step_runs_without_gradients() -> None:
    """`_use_grad_for_differentiable` restores the mode afterwards."""

    class Plain(Optimizer):
        @_use_grad_for_differentiable
        def step(self, closure: Any = None) -> Any:
            return dj.is_grad_enabled()

    assert not Plain([leaf(1)], {"differentiable": False}).step()
    assert Plain([leaf(1)], {"differentiable": True}).step()
    assert dj.is_grad_enabled()


WRONG: dict[str, Callable[[Any], Any]] = {
    "rate": lambda optim: optim.Adam([optim.ones], lr=-1),
    "epsilon": lambda optim: optim.Adam([optim.ones], eps=-1),
    "first beta": lambda optim: optim.AdamW([optim.ones], betas=(1.0, 0.9)),
    "second beta": lambda optim: optim.NAdam([optim.ones], betas=(0.9, -0.1)),
    "decay": lambda optim: optim.RAdam([optim.ones], weight_decay=-0.5),
    "momentum decay": lambda optim: optim.NAdam([optim.ones], momentum_decay=-0.5),
    "momentum": lambda optim: optim.SGD([optim.ones], momentum=-0.5),
    "nesterov": lambda optim: optim.SGD([optim.ones], nesterov=True),
    "alpha": lambda optim: optim.RMSprop([optim.ones], alpha=-0.5),
    "rho": lambda optim: optim.Adadelta([optim.ones], rho=1.5),
    "etas": lambda optim: optim.Rprop([optim.ones], etas=(1.5, 0.5)),
    "rate decay": lambda optim: optim.Adagrad([optim.ones], lr_decay=-1),
    "accumulator": lambda optim: optim.Adagrad([optim.ones], initial_accumulator_value=-1),
    "adafactor": lambda optim: optim.Adafactor([optim.ones], d=0.5),
    "adafactor's decay": lambda optim: optim.Adafactor([optim.ones], beta2_decay=0.5),
    "muon": lambda optim: optim.Muon([optim.ones], adjust_lr_fn="other"),
    "fused and foreach": lambda optim: optim.Adam([optim.ones], fused=True, foreach=True),
    "fused and differentiable": lambda optim: optim.SGD(
        [optim.ones], fused=True, differentiable=True
    ),
    "rate of two": lambda optim: optim.Adam([optim.ones], lr=optim.two),
    "rate for foreach": lambda optim: optim.Adam([optim.ones], lr=optim.one, foreach=True),
    "nothing": lambda optim: optim.SGD([], lr=0.1),
    "group": lambda optim: optim.SGD([optim.ones], lr=0.1).add_param_group([1]),
    "a number": lambda optim: optim.SGD([1], lr=0.1),
    "twice": lambda optim: optim.SGD([{"params": [optim.ones]}, {"params": [optim.ones]}]),
}


class Names:
    """A library's `optim`, and tensors of it."""

    def __init__(self, library: Any) -> None:
        self._optim = library.optim
        self.ones = library.ones(1, requires_grad=True)
        self.one, self.two = library.ones(1), library.ones(2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optim, name)


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_pytorchs(name: str) -> None:
    """Class and text; the texts about types name our class."""
    errors = []
    for library in (dj, torch):
        with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
            WRONG[name](Names(library))
        errors.append(caught.value)

    assert isinstance(errors[0], type(errors[1]))
    assert str(errors[1]) == str(errors[0])


def test_a_set_is_refused() -> None:
    """Its order changes from run to run."""
    with pytest.raises(TypeError, match="ordered collections"):
        dj.optim.SGD({leaf(1)}, lr=0.1)


def test_a_repeated_parameter_is_warned_about() -> None:
    """It is updated twice, as in PyTorch."""
    parameter = leaf(1)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = dj.optim.SGD([parameter, parameter], lr=0.25)
    optimizer.step()

    assert [0.5] == parameter.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dj.optim.Adam([leaf(1)], differentiable=True), "differentiable=True"),
        (lambda: dj.optim.Adam([leaf(1)], betas=(dj.ones(()), 0.9)), "betas"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(make: Callable[[], Any], message: str) -> None:
    """Before any step."""
    with pytest.raises(UnsupportedError, match=message):
        make()


def test_old_states_with_numbers_are_loaded() -> None:
    """Counts of steps that old programs saved as numbers become tensors."""
    optimizer = dj.optim.NAdam([leaf(2)], lr=0.1)
    optimizer.step()
    state = optimizer.state_dict()
    for name in ("step", "mu_product"):
        state["state"][0][name] = state["state"][0][name].item()
    twin = dj.optim.NAdam([leaf(2)], lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twin.load_state_dict(state)
        twin.step()

    assert 2.0 == twin.state_dict()["state"][0]["step"].item()


def test_modules_have_pytorchs_names() -> None:
    """What programs import from."""
    from dynajit.optim.adam import Adam
    from dynajit.optim.adamw import AdamW
    from dynajit.optim.optimizer import Optimizer as Base
    from dynajit.optim.sgd import SGD

    assert (dj.optim.Adam, dj.optim.AdamW, dj.optim.SGD) == (Adam, AdamW, SGD)
    assert issubclass(AdamW, Base)
