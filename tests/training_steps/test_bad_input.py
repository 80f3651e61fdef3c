"""What goes wrong in a training step, or changes between two of them, is as in eager execution: the
error, and all that the step had done by then."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from tests.training_steps.comparing import differences
from tests.training_steps.models import noise


@pytest.fixture(autouse=True)
def _state_of_the_process() -> Iterator[None]:
    with dj.config.override(strict=True):
        yield
    dj.reset()


class Bench:
    """A model, its optimizer, a step of them, and what was seen (mutable)."""

    def __init__(self, wrap: Callable[..., Any]) -> None:
        self.wrap = wrap
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.optimizer = dj.optim.AdamW(self.model.parameters(), lr=0.01)
        self.seen: list[Any] = []
        self.calls = 0
        self.notes_versions = True

    def plain_step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def run(self, function: Callable[..., Any], times: int = 2, x: Any = None) -> None:
        """Call a wrapped function; note its result, or its error, and the state."""
        for _ in range(times):
            self.calls += 1
            try:
                found = function(noise(self.calls, 5, 4) if x is None else x)
            except Exception as error:
                found = _kinds(error)
            self.note(found)

    def note(self, found: Any = None) -> None:
        """Keep copies of all that a user sees."""
        parameters = dict(self.model.named_parameters())
        grads = {n: None if p.grad is None else p.grad.clone() for n, p in parameters.items()}
        versions = [
            (n, p._version if self.notes_versions else None, p.requires_grad)
            for n, p in parameters.items()
        ]
        state = {n: p.detach().clone() for n, p in parameters.items()}
        moments = [
            {k: v.clone() if isinstance(v, dj.Tensor) else v for k, v in s.items()}
            for s in self.optimizer.state_dict()["state"].values()
        ]
        self.seen.append(
            (found, grads, versions, state, moments, self.optimizer.param_groups[0]["lr"])
        )


def _kinds(error: BaseException) -> list[str]:
    """The class of an error; the library's own by their bases, which programs catch."""
    return [c.__name__ for c in type(error).__mro__]


def backward_twice(bench: Bench) -> None:
    def step(x: Any) -> Any:
        loss = bench.model(x).square().mean()
        loss.backward()
        loss.backward()
        bench.optimizer.step()
        return loss

    bench.run(bench.wrap(step))


def backward_twice_with_a_kept_graph(bench: Bench) -> None:
    def step(x: Any) -> Any:
        loss = bench.model(x).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        bench.optimizer.step()
        return loss.detach()

    bench.run(bench.wrap(step))


def backward_of_what_needs_no_gradient(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        loss = bench.model(x).detach().square().mean()
        loss.backward()
        return loss

    bench.run(bench.wrap(step))


def backward_of_several_numbers(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.model(x).square().backward()
        bench.optimizer.step()

    bench.run(bench.wrap(step))


def missing_gradients(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        loss = bench.model[0](x).square().mean()
        loss.backward()
        bench.optimizer.step()
        return loss.detach()

    bench.run(bench.wrap(step))


def a_step_without_any_gradient(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        bench.optimizer.step()
        return bench.model(x).detach()

    bench.run(bench.wrap(step))


def frozen(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.model[0].weight.requires_grad_(False)
    bench.run(step)
    bench.model[0].weight.requires_grad_(True)
    bench.run(step)


def all_frozen(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.model.requires_grad_(False)
    bench.run(step)


def swapped(bench: Bench) -> None:
    """The optimizer still has the old one."""
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.model[2].weight = nn.Parameter(noise(77, 2, 6))
    bench.run(step)


def resized(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.model[2] = nn.Linear(6, 3)
    bench.optimizer = dj.optim.AdamW(bench.model.parameters(), lr=0.02)
    bench.run(step)


def data_exchanged(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.model[0].weight.data = noise(78, 6, 4)
    bench.run(step)


def added(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.model.append(nn.Linear(2, 2))
    bench.run(step)
    bench.optimizer.add_param_group({"params": list(bench.model[3].parameters()), "lr": 0.1})
    bench.run(step)


def state_loaded(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    other = dj.optim.AdamW(bench.model.parameters(), lr=0.5)
    bench.plain_step(noise(9, 5, 4))
    other.load_state_dict(bench.optimizer.state_dict())
    bench.run(step)
    bench.optimizer.load_state_dict(other.state_dict())
    bench.run(step)


def state_emptied(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.optimizer.state.clear()
    bench.run(step)


def groups_changed(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    for name, value in (("lr", 0.2), ("betas", (0.5, 0.9)), ("eps", 1e-3), ("weight_decay", 0.0),
                        ("amsgrad", True), ("maximize", True)):  # fmt: skip
        bench.optimizer.param_groups[0][name] = value
        bench.run(step, 1)


def gradients_that_are_no_numbers(bench: Bench) -> None:
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    for bad in (float("inf"), float("nan")):
        bench.run(step, 1, dj.full((5, 4), bad))


def scaled_gradients_that_overflow(bench: Bench) -> None:
    """A graph writes parameters also where a step is skipped, with what they hold."""
    scaler = dj.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=2)
    bench.notes_versions = False

    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        scaler.scale(bench.model(x).square().mean()).backward()
        scaler.step(bench.optimizer)
        scaler.update()

    compiled = bench.wrap(step)
    for scale in (1.0, 1e306, float("nan"), 1.0, 1.0, 1.0, float("inf")):
        bench.run(compiled, 1, dj.full((5, 4), scale))
        bench.note(scaler.get_scale())


def a_norm_that_must_be_finite(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        bench.model(x).square().mean().backward()
        nn.utils.clip_grad_norm_(bench.model.parameters(), 1.0, error_if_nonfinite=True)
        bench.optimizer.step()

    compiled = bench.wrap(step)
    bench.run(compiled)
    bench.run(compiled, 1, dj.full((5, 4), float("inf")))
    bench.run(compiled)


def a_hook_that_raises(bench: Bench) -> None:
    calls: list[int] = []

    def hook(gradient: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("third")
        return gradient * 2

    step = bench.wrap(bench.plain_step)
    handle = bench.model[0].weight.register_hook(hook)
    bench.run(step, 5)
    handle.remove()
    bench.run(step)
    bench.note(len(calls))


def a_hook_within(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        hidden = bench.model[0](x)
        hidden.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        hidden.retain_grad()
        loss = bench.model[1:](hidden).square().mean()
        loss.backward()
        bench.optimizer.step()
        return hidden.grad, loss.detach()

    bench.run(bench.wrap(step))


def an_exception_in_the_middle(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        bench.model(x).square().mean().backward()
        if bench.calls == 3:
            raise KeyError("no update")
        bench.optimizer.step()
        if bench.calls == 5:
            raise KeyError("updated")

    bench.run(bench.wrap(step), 6)


def an_exception_that_is_caught(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        loss = bench.model(x).square().mean()
        try:
            loss.backward()
            loss.backward()
        except RuntimeError:
            bench.seen.append("refused")
        bench.optimizer.step()

    bench.run(bench.wrap(step))


def two_optimizers(bench: Bench) -> None:
    other = dj.optim.SGD(bench.model[2].parameters(), lr=0.1, momentum=0.5)

    def step(x: Any) -> Any:
        bench.optimizer.zero_grad()
        bench.model(x).square().mean().backward()
        bench.optimizer.step()
        other.step()
        other.zero_grad()

    bench.run(bench.wrap(step), 3)


def a_parameter_written_before_backward(bench: Bench) -> None:
    def step(x: Any) -> Any:
        loss = bench.model(x).square().mean()
        with dj.no_grad():
            bench.model[2].weight.add_(1)
        loss.backward()
        bench.optimizer.step()

    bench.run(bench.wrap(step))


def a_loss_from_outside(bench: Bench) -> None:
    def step(loss: Any) -> Any:
        loss.backward()
        bench.optimizer.step()
        return loss.detach()

    compiled = bench.wrap(step)
    for _ in range(2):
        loss = bench.model(noise(5, 5, 4)).square().mean()
        bench.run(compiled, 2, loss)


def a_gradient_of_the_wrong_shape(bench: Bench) -> None:
    def step(x: Any) -> Any:
        bench.model(x).backward(dj.ones(3))

    bench.run(bench.wrap(step))


def an_input_without_a_path(bench: Bench) -> None:
    def step(x: Any) -> Any:
        loss = bench.model[0](x).sum()
        return dj.autograd.grad(loss, [bench.model[0].weight, bench.model[2].weight])

    bench.run(bench.wrap(step))


def modes_and_aliases(bench: Bench) -> None:
    """Gradients set by the program: shared, of another layout, zero."""
    step = bench.wrap(bench.plain_step)
    bench.run(step)
    bench.model[2].weight.grad = bench.model[0].weight.grad.t()[:2, :].repeat(1, 1)
    bench.run(step, 1)
    with dj.no_grad():
        bench.run(step, 1)
    bench.run(step, 1)


CASES = (
    backward_twice, backward_twice_with_a_kept_graph, backward_of_what_needs_no_gradient,
    backward_of_several_numbers, missing_gradients, a_step_without_any_gradient, frozen, all_frozen,
    swapped, resized, data_exchanged, added, state_loaded, state_emptied, groups_changed,
    gradients_that_are_no_numbers, scaled_gradients_that_overflow, a_norm_that_must_be_finite,
    a_hook_that_raises, a_hook_within, an_exception_in_the_middle, an_exception_that_is_caught,
    two_optimizers, a_parameter_written_before_backward, a_loss_from_outside,
    a_gradient_of_the_wrong_shape, an_input_without_a_path, modes_and_aliases,
)  # fmt: skip


def seen(case: Callable[[Bench], None], wrap: Callable[..., Any]) -> list[Any]:
    dj.manual_seed(3)
    bench = Bench(wrap)
    case(bench)
    return bench.seen


@pytest.mark.filterwarnings("ignore:.*found no parameter")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_compiled_steps_do_and_refuse_what_eager_steps_do(case: Callable[[Bench], None]) -> None:
    dj.set_default_dtype(dj.float64)
    try:
        expected = seen(case, lambda function: function)
        actual = seen(case, lambda function: dj.compile(function, backend="numpy"))
    finally:
        dj.set_default_dtype(dj.float32)
    assert differences(expected, actual, 1e-9) == []
