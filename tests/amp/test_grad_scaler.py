"""GradScaler against PyTorch's: scales, stages, errors, state dicts."""

import math
import pickle
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, ExpectationError, InvalidValueError


def torch_or_skip() -> Any:
    """The oracle."""
    return pytest.importorskip("torch", reason="PyTorch is the oracle")


SETTINGS = {"init_scale": 1000.0, "growth_factor": 1.5, "backoff_factor": 0.3, "growth_interval": 2}


def trajectory(lib: Any, factors: list[float], settings: dict[str, Any]) -> list[Any]:
    """Scale, tracker, whether the step was made, and the parameters, after each step.

    The gradient of step i is multiplied by factors[i]: infinity and NaN leave the step out.
    """
    scaler = lib.amp.GradScaler("cpu", **settings)
    weights = [
        lib.tensor([1.0, -2.0, 3.0], requires_grad=True),
        lib.tensor([0.5], dtype=lib.float64, requires_grad=True),
        lib.tensor([0.5, 2.0], dtype=lib.bfloat16, requires_grad=True),
        lib.tensor([9.0], requires_grad=True),  # never used: it has no gradient
    ]
    optimizer = lib.optim.SGD(weights, lr=0.1)
    steps = []
    optimizer.register_step_post_hook(lambda *args: steps.append(True))
    found = []
    for factor in factors:
        optimizer.zero_grad()
        loss = sum((weight.float() ** 2).sum() for weight in weights[:3]) * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        values = [weight.detach().double().tolist() for weight in weights]
        found.append((scaler.get_scale(), scaler.state_dict(), len(steps), values))
    return found


FACTORS = [1.0, 1.0, math.inf, 1.0, math.nan, math.inf, 1.0, 1.0, 1.0, 1e-3, 1.0]


@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["defaults", "others"])
def test_scales_and_steps_are_those_of_pytorch(settings: dict[str, Any]) -> None:
    expected = trajectory(torch_or_skip(), FACTORS, settings)
    actual = trajectory(dj, FACTORS, settings)

    for ours, theirs in zip(actual, expected, strict=True):
        assert ours[:3] == theirs[:3]
        for mine, its in zip(ours[3], theirs[3], strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-6)


def test_the_scale_does_not_grow_to_infinity() -> None:
    settings = {"init_scale": 3e38, "growth_interval": 1}
    assert trajectory(torch_or_skip(), [1e-38] * 2, settings)[-1][0] == pytest.approx(3e38)
    assert trajectory(dj, [1e-38] * 2, settings)[-1][0] == pytest.approx(3e38)


def one_step(**settings: Any) -> tuple[Any, Any, Any]:
    """(scaler, optimizer, weight) after a backward of a scaled loss."""
    scaler = dj.amp.GradScaler("cpu", **settings)
    weight = dj.ones(2, requires_grad=True)
    optimizer = dj.optim.SGD([weight], lr=0.5)
    scaler.scale((weight * 3).sum()).backward()
    return scaler, optimizer, weight


def test_gradients_are_unscaled_once() -> None:
    scaler, optimizer, weight = one_step()
    assert weight.grad.tolist() == [3.0 * 65536] * 2
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [3.0] * 2
    with pytest.raises(AutogradError, match="already been called"):
        scaler.unscale_(optimizer)

    scaler.step(optimizer)
    assert weight.tolist() == [-0.5] * 2
    with pytest.raises(AutogradError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(AutogradError, match="already been called"):
        scaler.step(optimizer)
    scaler.update()


def test_a_step_returns_what_the_optimizer_returns() -> None:
    scaler, optimizer, _ = one_step()
    assert scaler.step(optimizer) is None
    with pytest.raises(AutogradError, match="Closure use"):
        scaler.step(optimizer, closure=lambda: 0)


def test_float16_gradients_are_refused() -> None:
    scaler = dj.amp.GradScaler("cpu", init_scale=2.0)
    weight = dj.ones(2, dtype=dj.float16, requires_grad=True)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(InvalidValueError, match="FP16 gradients"):
        scaler.unscale_(dj.optim.SGD([weight], lr=0.1))


def test_steps_need_a_scaled_loss_and_gradients() -> None:
    scaler = dj.amp.GradScaler("cpu")
    optimizer = dj.optim.SGD([dj.ones(2, requires_grad=True)], lr=0.1)
    for call in (scaler.unscale_, scaler.step, lambda _: scaler.update()):
        with pytest.raises(ExpectationError, match="_scale is None"):
            call(optimizer)
    scaler.scale(dj.ones(1))
    with pytest.raises(ExpectationError, match="No inf checks"):
        scaler.step(optimizer)
    with pytest.raises(ExpectationError, match="No inf checks"):
        scaler.update()


def test_the_scale_can_be_set() -> None:
    scaler, optimizer, _ = one_step()
    scaler.step(optimizer)
    scaler.update(8.0)
    assert scaler.get_scale() == 8.0
    scaler.update(dj.tensor(16.0))
    assert scaler.get_scale() == 16.0
    with pytest.raises(ExpectationError, match="new_scale should be"):
        scaler.update(dj.ones(2))


def test_lists_of_tensors_are_scaled() -> None:
    scaler = dj.amp.GradScaler("cpu", init_scale=4.0)
    scaled = scaler.scale([dj.ones(1), (dj.ones(1), dj.ones(1) * 2)])
    assert scaled[0].item() == 4.0
    assert [x.item() for x in scaled[1]] == [4.0, 8.0]
    assert [x.item() for x in scaler.scale(x for x in [dj.ones(1)])] == [4.0]
    with pytest.raises(InvalidValueError, match="iterable of Tensors"):
        scaler.scale(3)


def test_two_optimizers_share_a_scale() -> None:
    scaler = dj.amp.GradScaler("cpu", init_scale=4.0)
    weights = [dj.ones(1, requires_grad=True), dj.ones(1, requires_grad=True)]
    optimizers = [dj.optim.SGD([weight], lr=1.0) for weight in weights]
    scaler.scale(weights[0].sum() + (weights[1] * math.inf).sum()).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()

    assert [weight.item() for weight in weights] == [0.0, 1.0]
    assert scaler.get_scale() == 2.0


def test_a_scaler_that_is_off_does_nothing() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = dj.amp.GradScaler()
    weight = dj.ones(1, requires_grad=True)
    optimizer = dj.optim.SGD([weight], lr=1.0)
    loss = weight.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()

    assert weight.item() == 0.0
    assert (scaler.is_enabled(), scaler.get_scale(), scaler.state_dict()) == (False, 1.0, {})
    with pytest.warns(FutureWarning):
        assert not dj.cuda.amp.GradScaler(enabled=False).is_enabled()


def test_settings_are_checked() -> None:
    with pytest.raises(ExpectationError, match="growth factor"):
        dj.amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(ExpectationError, match="backoff factor"):
        dj.amp.GradScaler("cpu", backoff_factor=1.0)


def test_state_dicts_and_pickles_go_on_where_the_scaler_was() -> None:
    scaler, optimizer, _ = one_step(**SETTINGS)
    with pytest.raises(ExpectationError, match="only be pickled"):
        scaler.step(optimizer)
        pickle.dumps(scaler)
    scaler.update()
    other = dj.amp.GradScaler("cpu")
    other.scale(dj.ones(1))
    other.load_state_dict(scaler.state_dict())
    again = pickle.loads(pickle.dumps(scaler))

    assert scaler.state_dict()["_growth_tracker"] == 1
    assert scaler.state_dict() == other.state_dict() == again.state_dict()
    with pytest.raises(AutogradError, match="state dict is empty"):
        other.load_state_dict({})


def test_state_dicts_are_pytorch_s() -> None:
    torch = torch_or_skip()
    scaler = torch.amp.GradScaler("cpu", **SETTINGS)
    ours = dj.amp.GradScaler("cpu")
    ours.load_state_dict(scaler.state_dict())

    assert scaler.state_dict() == ours.state_dict()
