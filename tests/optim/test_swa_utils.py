"""Averaged weights against PyTorch: models, rates, statistics."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ExpectationError, InvalidValueError

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.standard_normal((4, 3, 2))
FORMS: dict[str, Any] = {
    "mean": lambda swa: {},
    "mean of each": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "mean of lists": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "exponential": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
    "exponential of each": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.9)},
    "own": lambda swa: {"avg_fn": lambda average, current, n: average * 0.5 + current * n},
    "buffers": lambda swa: {"use_buffers": True},
    "buffers, exponential": lambda swa: {
        "use_buffers": True, "multi_avg_fn": swa.get_ema_multi_avg_fn(0.75),
    },
}  # fmt: skip


def averaged(library: Any, form: str) -> dict[str, Any]:
    """The state of an average of four models."""
    model = library.nn.Sequential(library.nn.Linear(2, 3), library.nn.BatchNorm1d(3)).double()
    average = library.optim.swa_utils.AveragedModel(model, **FORMS[form](library.optim.swa_utils))
    for number, weights in enumerate(WEIGHTS):
        with library.no_grad():
            model[0].weight.copy_(library.from_numpy(weights))
            model[0].bias.fill_(number)
            model[1].running_mean.fill_(number)
            model[1].num_batches_tracked.fill_(2 * number)
        average.update_parameters(model)
    assert model[0].weight.requires_grad
    return {key: value.numpy() for key, value in average.state_dict().items()}


@pytest.mark.parametrize("form", FORMS)
def test_averages_are_pytorchs(form: str) -> None:
    """Names and values of the whole state."""
    expected, actual = averaged(torch, form), averaged(dj, form)

    assert list(expected) == list(actual)
    for key, value in expected.items():
        np.testing.assert_allclose(actual[key], value, rtol=1e-6, err_msg=key)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_rates_are_pytorchs(strategy: str, epochs: int) -> None:
    """Of two groups."""
    found = []
    for library in (torch, dj):
        x, y = (library.ones(1, requires_grad=True) for _ in range(2))
        optimizer = library.optim.SGD([{"params": [x]}, {"params": [y], "lr": 0.5}], lr=0.1)
        schedule = library.optim.swa_utils.SWALR(optimizer, [0.05, 0.01], epochs, strategy)
        rates = []
        for _ in range(7):
            optimizer.step()
            schedule.step()
            rates.append([group["lr"] for group in optimizer.param_groups])
        found.append(rates)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_statistics_are_computed_anew() -> None:
    """From batches and tuples with them; momentum and mode stay."""
    batches = [RANDOM.standard_normal((5, 3)).astype(np.float32) * n for n in (1, 2, 3)]
    found = []
    for library in (torch, dj):
        model = library.nn.Sequential(library.nn.BatchNorm1d(3, momentum=0.3)).eval()
        loader = [(library.from_numpy(batch.copy()), None) for batch in batches]
        library.optim.swa_utils.update_bn(loader, model)
        library.optim.swa_utils.update_bn([loader[0][0]], library.nn.Linear(3, 1))
        assert (0.3, False) == (model[0].momentum, model.training)
        found.append([value.numpy() for value in model.state_dict().values()])
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_averaged_models_are_called_and_compiled() -> None:
    """As the model that they average."""
    model = dj.nn.Linear(3, 2)
    average = dj.optim.swa_utils.AveragedModel(model)
    x = dj.ones(1, 3)
    for call in (average, dj.compile(average)):
        assert (call(x) == model(x)).all()


def test_wrong_options_are_refused() -> None:
    """Two functions, decays, strategies, epochs."""
    swa = dj.optim.swa_utils
    with pytest.raises(ExpectationError, match="Only one"):
        swa.AveragedModel(dj.nn.Linear(1, 1), avg_fn=print, multi_avg_fn=print)
    with pytest.raises(InvalidValueError, match="decay"):
        swa.get_ema_multi_avg_fn(1.5)
    optimizer = dj.optim.SGD([dj.ones(1, requires_grad=True)])
    with pytest.raises(InvalidValueError, match="anneal_strategy"):
        swa.SWALR(optimizer, 0.1, anneal_strategy="steps")
    with pytest.raises(InvalidValueError, match="anneal_epochs"):
        swa.SWALR(optimizer, 0.1, anneal_epochs=-1)
