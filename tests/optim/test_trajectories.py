"""Every optimiser and option against PyTorch: 50 steps, state, groups, saved states; compiled."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

SHAPES = [(3, 4), (5,), (), (2, 3, 2)]
# name: (class, options)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.01}),
    "sgd, all but nesterov": (
        "SGD",
        {"lr": 0.01, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    ),
    "nesterov": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "foreach": True}),
    "sgd, ascent": ("SGD", {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    "adam": ("Adam", {"lr": 0.05}),
    "adam, fused": ("Adam", {"lr": 0.05, "fused": True}),
    "adam, decay": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.7, 0.8)}),
    "adam, decoupled": ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True, "betas": (0.5, 0.6), "eps": 1e-3}),
    "adam, ascent": ("Adam", {"maximize": True, "foreach": False}),
    "adamw": ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
    "adamw, amsgrad": ("AdamW", {"lr": 0.05, "amsgrad": True, "maximize": True}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad, all": (
        "Adagrad",
        {
            "lr": 0.1,
            "lr_decay": 0.05,
            "weight_decay": 0.1,
            "initial_accumulator_value": 0.2,
            "eps": 1e-4,
        },
    ),
    "adagrad, ascent": ("Adagrad", {"maximize": True}),
    "rmsprop": ("RMSprop", {"lr": 0.01}),
    "rmsprop, all": (
        "RMSprop",
        {"alpha": 0.9, "momentum": 0.8, "centered": True, "weight_decay": 0.1, "eps": 1e-2},
    ),
    "rmsprop, momentum": ("RMSprop", {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    "adadelta": ("Adadelta", {}),
    "adadelta, all": ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1}),
    "adadelta, ascent": ("Adadelta", {"maximize": True}),
    "adamax": ("Adamax", {"lr": 0.05}),
    "adamax, all": ("Adamax", {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    "adamax, ascent": ("Adamax", {"maximize": True}),
    "nadam": ("NAdam", {"lr": 0.02}),
    "nadam, all": (
        "NAdam",
        {"betas": (0.8, 0.9), "weight_decay": 0.1, "momentum_decay": 0.1, "eps": 1e-4},
    ),
    "nadam, decoupled": (
        "NAdam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "radam": ("RAdam", {"lr": 0.02}),
    "radam, all": ("RAdam", {"betas": (0.8, 0.9), "weight_decay": 0.1, "eps": 1e-3}),
    "radam, decoupled": (
        "RAdam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "asgd": ("ASGD", {"lr": 0.02}),
    "asgd, all": (
        "ASGD",
        {"lr": 0.02, "lambd": 0.1, "alpha": 0.5, "t0": 10.0, "weight_decay": 0.1},
    ),
    "asgd, ascent": ("ASGD", {"lr": 0.001, "t0": 5, "maximize": True}),
    "rprop": ("Rprop", {"lr": 0.02}),
    "rprop, all": ("Rprop", {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (0.01, 0.2)}),
    "rprop, ascent": ("Rprop", {"maximize": True}),
    "adafactor": ("Adafactor", {}),
    "adafactor, all": (
        "Adafactor",
        {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-3, 0.1), "d": 1.5, "weight_decay": 0.1},
    ),
    "adafactor, ascent": ("Adafactor", {"maximize": True}),
    "tensor rate": ("AdamW", {"lr": 0.05, "tensor rate": True}),
    "tensor rate of sgd": ("SGD", {"lr": 0.01, "momentum": 0.9, "tensor rate": True}),
    "tensor rate of nadam": ("NAdam", {"lr": 0.05, "tensor rate": True}),
}
# Ratios of what is nearly 0 to what is nearly 0 move with the last bit.
LOOSE = {"adadelta, all": 1e-4, "adafactor": 1e-4, "adafactor, all": 1e-4}
TOLERANCES = {"float32": 2e-5, "float64": 1e-9}


def _made(library: Any, name: str, dtype: str, shapes: Any = SHAPES) -> tuple[Any, list[Any]]:
    """An optimiser of the case, and its parameters in two groups."""
    random = np.random.default_rng(0)
    parameters = [
        library.nn.Parameter(library.tensor(random.normal(size=shape).astype(dtype)))
        for shape in shapes
    ]
    kind, options = CASES[name]
    options = dict(options)
    if options.pop("tensor rate", False):
        options["lr"] = library.tensor(options["lr"])
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.004}]
    return getattr(library.optim, kind)(groups, **options), parameters


def _run(
    library: Any, optimizer: Any, parameters: list[Any], numbers: Any, step: Any = None
) -> None:
    """Steps with the gradients of these numbers; every seventh leaves one parameter out."""
    for number in numbers:
        random = np.random.default_rng(number)
        optimizer.zero_grad()
        for position, parameter in enumerate(parameters):
            noise = random.normal(size=tuple(parameter.shape))
            if number % 7 == 3 and position == 1:
                continue
            values = parameter.detach().numpy() * 0.5 + noise
            parameter.grad = library.tensor(
                np.asarray(values, dtype=parameter.detach().numpy().dtype)
            )
        (step or optimizer.step)()


def _same(actual: Any, expected: Any, tolerance: float) -> None:
    """State dicts, lists and tensors are the same, in their names, dtypes and shapes."""
    if isinstance(expected, dict):
        assert list(expected) == list(actual)
        for key, value in expected.items():
            _same(actual[key], value, tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual)
        for one, other in zip(actual, expected, strict=True):
            _same(one, other, tolerance)
    elif isinstance(expected, torch.Tensor):
        assert str(expected.dtype).split(".")[-1] == str(actual.dtype).split(".")[-1]
        np.testing.assert_allclose(
            actual.detach().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance
        )
    else:
        assert type(expected) is type(actual)
        assert expected == actual


def _translated(state: Any, library: Any) -> Any:
    """A state dict with the tensors of another library."""
    if isinstance(state, dict):
        return {key: _translated(value, library) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(_translated(value, library) for value in state)
    return library.tensor(state.numpy()) if hasattr(state, "numpy") else state


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_fifty_steps_are_pytorchs(name: str, dtype: str) -> None:
    """Parameters, state and groups, to rounding."""
    tolerance = max(TOLERANCES[dtype], LOOSE.get(name, 0.0) if dtype == "float32" else 0.0)
    if name.startswith("tensor rate"):
        tolerance = 2e-5  # The rate is a float32.
    optimizer, parameters = _made(dj, name, dtype)
    reference, expected = _made(torch, name, dtype)
    _run(dj, optimizer, parameters, range(50))
    _run(torch, reference, expected, range(50))

    _same([p.detach() for p in parameters], [p.detach() for p in expected], tolerance)
    _same(optimizer.state_dict(), reference.state_dict(), tolerance)


@pytest.mark.parametrize("name", CASES)
def test_saved_states_go_both_ways(name: str) -> None:
    """Five steps there, a state dict, five steps here, and the other way round."""
    for first, second in ((torch, dj), (dj, torch)):
        optimizer, parameters = _made(first, name, "float64")
        other, others = _made(second, name, "float64")
        _run(first, optimizer, parameters, range(5))
        _run(second, other, others, range(3))
        other.load_state_dict(_translated(optimizer.state_dict(), second))
        for mine, theirs in zip(parameters, others, strict=True):
            theirs.data = second.tensor(mine.detach().numpy().copy())
        _run(first, optimizer, parameters, range(5, 10))
        _run(second, other, others, range(5, 10))

        for mine, theirs in zip(parameters, others, strict=True):
            tolerance = 2e-5 if name.startswith("tensor rate") else 1e-9
            np.testing.assert_allclose(
                theirs.detach().numpy(), mine.detach().numpy(), rtol=tolerance, atol=tolerance
            )


COMPILED = [
    "adagrad, all", "rmsprop, all", "adadelta", "adamax, all", "nadam, all", "radam, all",
    "asgd, all", "rprop, all", "adafactor, all", "adam, decoupled", "tensor rate",
]  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_step_is_one_graph(name: str) -> None:
    """The same numbers without a break, from the step that makes the state on."""
    plain, expected = _made(dj, name, "float32", SHAPES[:2])
    optimizer, parameters = _made(dj, name, "float32", SHAPES[:2])
    step = dj.compile(optimizer.step, fullgraph=True)
    _run(dj, plain, expected, [0, 1, 2, 4, 5])
    _run(dj, optimizer, parameters, [0, 1, 2, 4, 5], step)

    for mine, theirs in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(
            mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6
        )
    assert 2 >= step.report().graphs


@pytest.mark.parametrize("adjust", [None, "original", "match_rms_adamw"])
@pytest.mark.parametrize("shape", [(3, 5), (6, 2)])
def test_muon_is_pytorchs(shape: tuple[int, int], adjust: str | None) -> None:
    """To the rounding of bfloat16, in which its iteration runs."""
    found = []
    for library in (dj, torch):
        start = np.random.default_rng(1).normal(size=shape).astype("float32")
        parameter = library.nn.Parameter(library.tensor(start))
        optimizer = library.optim.Muon(
            [parameter], lr=0.02, adjust_lr_fn=adjust, nesterov=adjust is not None
        )
        _run(library, optimizer, [parameter], range(10))
        found.append(parameter.detach().numpy())

    np.testing.assert_allclose(found[0], found[1], atol=0.01)


def test_muon_takes_matrices() -> None:
    """PyTorch's error."""
    with pytest.raises(ValueError, match="2D parameters"):
        dj.optim.Muon([dj.nn.Parameter(dj.ones(3))])
