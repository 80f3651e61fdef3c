"""Whole training steps are one graph, and leave what eager steps leave.

`DYNAJIT_TRAINING_STEPS` sets how many steps are compared (4 by default), and from 20 on all models
are compiled to kernels, in float64, too: rounding may grow over many steps.
"""

import os
from collections.abc import Iterator

import pytest

import dynajit as dj
from dynajit.capture.entry import cache
from tests.training_steps.comparing import differences, trained
from tests.training_steps.models import OPTIMIZERS, TRAININGS

STEPS = int(os.environ.get("DYNAJIT_TRAINING_STEPS", "4"))
IS_LONG = STEPS >= 20
#: Compiled to kernels in every run: what takes the compiler least.
SMALL = ("mlp", "gan", "wgan_gp", "physics", "mixed_precision")
#: The first call makes state; the second finds it. Gradients that are zeroed in place are there
#: from the second call on only, and a rate that some steps lower is another one then.
MOST_GRAPHS = {name: 3 if name == "convnet" else 2 for name in TRAININGS}


@pytest.fixture(autouse=True)
def _state_of_the_process() -> Iterator[None]:
    before = dj.get_default_dtype()
    with dj.config.override(strict=True):
        yield
    dj.set_default_dtype(before)
    dj.reset()


@pytest.fixture
def compiled_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions compiled so far, one name for each graph."""
    names: list[str] = []
    original = cache.FunctionCache._compile

    def counted(self, *arguments):
        names.append(self.name)
        return original(self, *arguments)

    monkeypatch.setattr(cache.FunctionCache, "_compile", counted)
    return names


def assert_trained_alike(name: str, optimizer: str, backend: str, tolerance: float) -> None:
    def make():
        return TRAININGS[name](OPTIMIZERS[optimizer])

    expected = trained(make, STEPS)
    actual = trained(make, STEPS, fullgraph=True, backend=backend)
    assert differences(expected, actual, tolerance) == []


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", TRAININGS)
def test_a_step_is_one_graph_with_the_results_of_eager_execution(name, optimizer, compiled_names):
    """Graphs are run op by op; in float64, where many steps keep what few say."""
    dj.set_default_dtype(dj.float64)
    assert_trained_alike(name, optimizer, "numpy", 1e-9)
    assert set(compiled_names) == {f"{name}.<locals>.step"}
    assert len(compiled_names) <= MOST_GRAPHS[name]


@pytest.mark.one_python
@pytest.mark.c_only
@pytest.mark.parametrize("optimizer", OPTIMIZERS if IS_LONG else ["SGD"])
@pytest.mark.parametrize("name", TRAININGS if IS_LONG else SMALL)
def test_kernels_of_a_step_give_the_results_of_eager_execution(name, optimizer):
    if IS_LONG:
        dj.set_default_dtype(dj.float64)
    assert_trained_alike(name, optimizer, "native", 1e-9 if IS_LONG else 1e-5)
