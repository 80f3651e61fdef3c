"""Schedules against PyTorch: rates and momenta of 30 epochs, state dicts, resuming, warnings."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.optim import lr_scheduler

torch = pytest.importorskip("torch")


def optimizer_of(library: Any, kind: str = "SGD") -> Any:
    """Two groups with different rates."""
    one, other = (library.nn.Parameter(library.ones(1)) for _ in range(2))
    options = {"momentum": 0.9} if kind == "SGD" else {}
    groups = [{"params": [one]}, {"params": [other], "lr": 0.05}]
    return getattr(library.optim, kind)(groups, lr=0.5, **options)


Make = Callable[[Any, Any], Any]
SCHEDULES: dict[str, Make] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0.5]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.95),
    "step": lambda s, o: s.StepLR(o, 3),
    "step, gamma": lambda s, o: s.StepLR(o, step_size=2, gamma=0.7),
    "milestones": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 11], gamma=0.5),
    "constant": lambda s, o: s.ConstantLR(o),
    "constant, short": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=3),
    "linear": lambda s, o: s.LinearLR(o),
    "linear, down": lambda s, o: s.LinearLR(o, 1.0, 0.1, total_iters=12),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o),
    "polynomial, square": lambda s, o: s.PolynomialLR(o, total_iters=9, power=2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 7),
    "cosine, bound": lambda s, o: s.CosineAnnealingLR(o, T_max=10, eta_min=0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "restarts, doubled": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=4),
    "cyclic, halves": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.2], step_size_up=3, step_size_down=5, mode="triangular2"
    ),
    "cyclic, range": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, step_size_up=4, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "cyclic, own": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, step_size_up=4, scale_fn=lambda x: 0.5**x, scale_mode="cycle"
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=40),
    "one cycle, linear": lambda s, o: s.OneCycleLR(
        o, [1.0, 2.0], epochs=8, steps_per_epoch=4, anneal_strategy="linear", pct_start=0.4
    ),
    "one cycle, three": lambda s, o: s.OneCycleLR(
        o, 1.0, 31, three_phase=True, div_factor=10, final_div_factor=100
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9), s.StepLR(o, 5)]
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 9)], [5]
    ),
    "sequential, three": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], milestones=[3, 9]
    ),
}


def trace(library: Any, optimizer: Any, schedule: Any, epochs: int) -> list[Any]:
    """Rates and momenta, epoch by epoch."""
    found = []
    for _ in range(epochs):
        optimizer.step()
        schedule.step()
        groups = optimizer.param_groups
        momenta = [g["betas"] if "betas" in g else (g.get("momentum"),) for g in groups]
        found.append([schedule.get_last_lr(), [g["lr"] for g in groups], *momenta])
    return found


def rounded(found: Any) -> Any:
    """Numbers to ten digits, tuples as lists: what is compared."""
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [rounded(value) for value in found]
    return float(f"{found:.10g}") if isinstance(found, float) else found


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_thirty_epochs_are_pytorchs(name: str, kind: str) -> None:
    """Rates, momenta, the groups' other entries and the state dict."""
    found, states, groups = [], [], []
    for library in (dj, torch):
        optimizer = optimizer_of(library, kind)
        schedule = SCHEDULES[name](library.optim.lr_scheduler, optimizer)
        first = [list(schedule.get_last_lr())]
        found.append(first + trace(library, optimizer, schedule, 30))
        states.append(schedule.state_dict())
        groups.append([sorted(group) for group in optimizer.param_groups])

    assert rounded(found[1]) == rounded(found[0])
    assert groups[1] == groups[0]
    assert sorted(set(states[1]) - {"_scale_fn_ref"}) == sorted(states[0])
    if "_schedulers" not in states[0] and "_schedule_phases" not in states[0]:
        assert rounded(states[1]) == rounded(states[0])


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_saved_schedule_goes_on(name: str) -> None:
    """Ten epochs, new objects with the saved states, five more: as fifteen in one go."""
    optimizer = optimizer_of(dj)
    expected = trace(dj, optimizer, SCHEDULES[name](lr_scheduler, optimizer), 15)[10:]
    optimizer = optimizer_of(dj)
    schedule = SCHEDULES[name](lr_scheduler, optimizer)
    trace(dj, optimizer, schedule, 10)
    other = optimizer_of(dj)
    resumed = SCHEDULES[name](lr_scheduler, other)
    resumed.load_state_dict(schedule.state_dict())
    other.load_state_dict(optimizer.state_dict())

    assert rounded(expected) == rounded(trace(dj, other, resumed, 5))


RESUMED: dict[str, Make] = {
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 7, last_epoch=4),
    "step": lambda s, o: s.StepLR(o, 3, last_epoch=4),
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch, last_epoch=4),
    "linear": lambda s, o: s.LinearLR(o, last_epoch=2),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9, last_epoch=2),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4, last_epoch=5),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=4, last_epoch=3),
    "polynomial": lambda s, o: s.PolynomialLR(o, 9, last_epoch=3),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9, last_epoch=3),
}


@pytest.mark.parametrize("name", RESUMED)
def test_an_epoch_to_go_on_behind(name: str) -> None:
    """`last_epoch` with groups that have their initial rates."""
    found = []
    for library in (dj, torch):
        optimizer = optimizer_of(library)
        for group in optimizer.param_groups:
            group.update(initial_lr=0.4, max_momentum=0.9, base_momentum=0.8)
        schedule = RESUMED[name](library.optim.lr_scheduler, optimizer)
        found.append([schedule.get_last_lr(), *trace(library, optimizer, schedule, 8)])

    assert rounded(found[1]) == rounded(found[0])
    with pytest.raises(KeyError, match="initial_lr"):
        RESUMED[name](lr_scheduler, optimizer_of(dj))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"factor": 0.5, "patience": 1, "cooldown": 2},
        {"mode": "max", "patience": 0, "threshold": 0.1, "threshold_mode": "abs"},
        {"mode": "max", "patience": 2, "min_lr": [0.1, 0.02]},
        {"patience": 0, "min_lr": 0.04, "eps": 1e-2},
    ],
)
def test_plateaus_are_pytorchs(options: dict[str, Any]) -> None:
    """Rates of an uneven metric, and the state."""
    metrics = [3.0, 2.0, 2.0, 2.1, 1.9, 1.9, 1.9, 1.9, 5.0, 1.0, *[1.0] * 20]
    found, states = [], []
    for library in (dj, torch):
        optimizer = optimizer_of(library)
        schedule = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        lines = []
        for metric in metrics:
            schedule.step(library.tensor(metric))
            lines.append([list(schedule.get_last_lr()), schedule.num_bad_epochs])
        found.append(lines)
        states.append(schedule.state_dict())

    assert rounded(found[1]) == rounded(found[0])
    assert sorted(states[1]) == sorted(states[0])
    assert states[1] == states[0]


def test_restarts_take_fractions_of_epochs() -> None:
    """`step(epoch + share)`, as in the documentation."""
    found = []
    for library in (dj, torch):
        optimizer = optimizer_of(library)
        schedule = library.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2)
        lines = []
        for number in range(50):
            optimizer.step()
            schedule.step(number / 4)
            lines.append(list(schedule.get_last_lr()))
        found.append([lines, schedule.last_epoch, schedule.T_cur, schedule.T_i])

    assert rounded(found[1]) == rounded(found[0])


@pytest.mark.parametrize("name", ["step", "milestones", "cosine", "linear", "exponential"])
def test_a_given_epoch_is_deprecated(name: str) -> None:
    """It still sets the closed form, with a warning."""
    found = []
    for library in (dj, torch):
        optimizer = optimizer_of(library)
        schedule = SCHEDULES[name](library.optim.lr_scheduler, optimizer)
        optimizer.step()
        with pytest.warns(UserWarning, match="epoch parameter"):
            schedule.step(6)
        found.append(schedule.get_last_lr())

    assert rounded(found[1]) == rounded(found[0])


def test_a_schedule_before_the_first_step_is_warned_about() -> None:
    """Once; and not where the optimiser, or its compiled step, came first."""
    for compiles in (False, True):
        optimizer = optimizer_of(dj)
        step = dj.compile(optimizer.step) if compiles else optimizer.step
        schedule = lr_scheduler.StepLR(optimizer, 1)
        with pytest.warns(UserWarning, match="before `optimizer.step"):
            schedule.step()
        optimizer = optimizer_of(dj)
        step = dj.compile(optimizer.step) if compiles else optimizer.step
        schedule = lr_scheduler.StepLR(optimizer, 1)
        step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule.step()


def test_asking_for_the_rate_is_warned_about() -> None:
    """`get_lr` answers for a step that is being made."""
    schedule = lr_scheduler.StepLR(optimizer_of(dj), 1)
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_verbose_schedules_print(capsys: Any) -> None:
    """And say that they will stop doing so."""
    optimizer = optimizer_of(dj)
    with pytest.warns(UserWarning, match="verbose"):
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.5, verbose=True)
    optimizer.step()
    schedule.step()

    assert "adjusting learning rate of group 1 to 2.5000e-02" in capsys.readouterr().out


def test_a_tensor_rate_is_written_in_place() -> None:
    """A compiled step that reads it needs no new version."""
    parameter = dj.nn.Parameter(dj.ones(2))
    rate = dj.tensor(0.5)
    optimizer = dj.optim.SGD([parameter], lr=rate)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    parameter.grad = dj.ones(2)
    step = dj.compile(optimizer.step)
    for _ in range(3):
        step()
        schedule.step()

    assert rate is optimizer.param_groups[0]["lr"]
    assert [1 - 0.5 - 0.25 - 0.125] * 2 == parameter.tolist()
    assert 1 == step.report().graphs


def test_a_schedule_of_a_program() -> None:
    """A class derived from the older name, with the older arguments."""

    class WarmUp(lr_scheduler._LRScheduler):
        def __init__(self, optimizer: Any, length: int, last_epoch: int = -1) -> None:
            self.length = length
            super().__init__(optimizer, last_epoch)

        def get_lr(self) -> list[float]:
            return [base * min(1, (self.last_epoch + 1) / self.length) for base in self.base_lrs]

    optimizer = optimizer_of(dj)
    schedule = WarmUp(optimizer, 4)
    found = [schedule.get_last_lr()[0]]
    for _ in range(4):
        optimizer.step()
        schedule.step()
        found.append(schedule.get_last_lr()[0])

    assert [0.125, 0.25, 0.375, 0.5, 0.5] == found


WRONG: dict[str, Make] = {
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 1] * 3),
    "constant": lambda s, o: s.ConstantLR(o, factor=2),
    "start": lambda s, o: s.LinearLR(o, start_factor=0),
    "end": lambda s, o: s.LinearLR(o, end_factor=2),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "restarts' factor": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 0),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.1),
    "one cycle, steps": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=0),
    "one cycle, share": lambda s, o: s.OneCycleLR(o, 0.1, 10, pct_start=1.5),
    "one cycle, strategy": lambda s, o: s.OneCycleLR(o, 0.1, 10, anneal_strategy="square"),
    "plateau": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau's mode": lambda s, o: s.ReduceLROnPlateau(o, "least"),
    "plateau's threshold": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="least"),
    "plateau's bounds": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "chained": lambda s, o: s.ChainedScheduler([]),
    "sequential": lambda s, o: s.SequentialLR(o, [], []),
    "milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [1]),
    "no optimiser": lambda s, o: s.StepLR(3, 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_have_pytorchs_classes(name: str) -> None:
    """And begin with its words."""
    errors = []
    for library in (dj, torch):
        with pytest.raises((ValueError, TypeError)) as caught:
            WRONG[name](library.optim.lr_scheduler, optimizer_of(library))
        errors.append(caught.value)

    assert isinstance(errors[0], type(errors[1]))
    assert str(errors[1]).split()[:3] == str(errors[0]).split()[:3]


def test_too_many_steps_of_one_cycle_are_refused() -> None:
    """With the number of steps."""
    optimizer = optimizer_of(dj)
    schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, 3)
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        trace(dj, optimizer, schedule, 5)


def test_momentum_must_exist_to_be_moved() -> None:
    """Adagrad has none."""
    optimizer = dj.optim.Adagrad([dj.ones(1, requires_grad=True)])
    for make in (
        lambda: lr_scheduler.CyclicLR(optimizer, 0.1, 0.2),
        lambda: lr_scheduler.OneCycleLR(optimizer, 0.1, 10),
    ):
        with pytest.raises(ValueError, match="must support momentum"):
            make()
