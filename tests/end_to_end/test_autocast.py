"""Compiled functions under autocast, and regions of autocast in compiled functions."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

F = dj.nn.functional
W = dj.randn(4, 4)


def step(x: Any) -> Any:
    """A function of lower precision, one as given, one in float32."""
    y = F.softmax(x @ W, -1)
    return y, F.mse_loss(y, x)


def same(expected: Any, actual: Any) -> None:
    """Equal dtypes and, up to the rounding of 16-bit floats, numbers."""
    assert type(expected) is type(actual)
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(actual)
        for ours, theirs in zip(expected, actual, strict=True):
            same(ours, theirs)
    elif isinstance(expected, dj.Tensor):
        assert expected.dtype is actual.dtype
        assert dj.allclose(expected.double(), actual.double(), rtol=2e-2, atol=2e-2)
    else:
        assert expected == actual


def test_a_version_belongs_to_one_state() -> None:
    compiled = dj.compile(step, fullgraph=True)
    x = dj.randn(3, 4)
    states: list[dict[str, Any]] = [
        {"enabled": False}, {"dtype": dj.bfloat16}, {"dtype": dj.float16}, {"enabled": False},
        {"dtype": dj.bfloat16},
    ]  # fmt: skip
    for state in states:
        with dj.autocast("cpu", **state):
            same(step(x), compiled(x))
    same(step(x), compiled(x))

    report = str(compiled.report())
    assert "3 versions" in report
    assert "from autocast off to autocast on (cpu: bfloat16)" in report


def nested(x: Any) -> Any:
    """Regions in regions, and what they say."""
    with dj.autocast("cpu"):
        a = x @ W
        with dj.autocast("cpu", enabled=False):
            b = x @ W
        with dj.autocast("cpu", dtype=dj.float16):
            c, dtype = x @ W, dj.get_autocast_dtype("cpu")
        d, is_on = x @ W, dj.is_autocast_enabled("cpu")
    return a, b, c, d, x @ W, dtype, is_on, dj.is_autocast_cpu_enabled()


@dj.autocast("cpu", dtype=dj.float16)
def decorated(x: Any) -> Any:
    """A product under the decorator."""
    return x @ W


def calls_decorated(x: Any) -> Any:
    """Inlined."""
    return decorated(x), x @ W


def written(x: Any) -> Any:
    """In-place forms are not cast."""
    y = x.clone()
    with dj.autocast("cpu"):
        y.addmm_(x, W)
        return y, dj.addmm(x, x, W), dj.cat([x, x @ W])


@pytest.mark.parametrize("function", [nested, calls_decorated, decorated, written])
def test_regions_are_captured(function: Callable[..., Any]) -> None:
    compiled = dj.compile(function, fullgraph=True)
    x = dj.randn(4, 4)
    for _ in range(2):
        same(function(x), compiled(x))
        with dj.autocast("cpu", dtype=dj.float16):
            same(function(x), compiled(x))
        assert not dj.is_autocast_enabled("cpu")


def breaks_in_a_region(x: Any) -> Any:
    """The graph ends within the region, and the rest goes on in it."""
    with dj.autocast("cpu"):
        a = x @ W
        dj.graph_break()
        b = a @ W
        if b.sum().item() > 1e9:
            return a
        c = b @ W
    return a, b, c, x @ W


def raises_in_a_region(x: Any) -> Any:
    """The error leaves the region."""
    try:
        with dj.autocast("cpu"):
            a = x @ W
            raise ValueError("left")
    except ValueError:
        return a, x @ W


def returns_with_a_state_set(x: Any) -> Any:
    """The state outlives the call."""
    dj.set_autocast_enabled("cpu", True)
    return x @ W


@pytest.mark.parametrize("function", [breaks_in_a_region, raises_in_a_region])
def test_breaks_and_errors_keep_the_state(function: Callable[..., Any]) -> None:
    compiled = dj.compile(function)
    x = dj.randn(3, 4)
    for _ in range(2):
        same(function(x), compiled(x))
        assert not dj.is_autocast_enabled("cpu")


def test_a_state_that_is_set_stays_set() -> None:
    compiled = dj.compile(returns_with_a_state_set)
    x = dj.randn(3, 4)
    for _ in range(2):
        try:
            assert compiled(x).dtype is dj.bfloat16
            assert dj.is_autocast_enabled("cpu")
            assert (x @ W).dtype is dj.bfloat16
        finally:
            dj.set_autocast_enabled("cpu", False)


def test_an_error_of_the_call_leaves_the_state() -> None:
    @dj.compile
    def wrong(x: Any) -> Any:
        with dj.autocast("cpu"):
            return x @ W @ x

    for _ in range(2):
        with pytest.raises(RuntimeError):
            wrong(dj.randn(3, 4))
        assert not dj.is_autocast_enabled("cpu")


def test_models_train_compiled_under_autocast() -> None:
    def make() -> Any:
        dj.manual_seed(0)
        return dj.nn.Sequential(
            dj.nn.Linear(8, 16), dj.nn.LayerNorm(16), dj.nn.GELU(), dj.nn.Linear(16, 4)
        )

    x, target = dj.randn(6, 8), dj.tensor([0, 1, 2, 3, 0, 1])
    plain, model = make(), make()
    compiled = dj.compile(model)
    losses: list[list[float]] = [[], []]
    for found, run, owner in zip(losses, (plain, compiled), (plain, model), strict=True):
        optimizer = dj.optim.Adam(owner.parameters(), lr=1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            with dj.autocast("cpu"):
                loss = F.cross_entropy(run(x), target)
            loss.backward()
            optimizer.step()
            found.append(loss.item())

    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
    for expected, actual in zip(plain.parameters(), model.parameters(), strict=True):
        assert expected.grad.dtype is actual.grad.dtype is dj.float32
        assert dj.allclose(expected.grad, actual.grad, rtol=0.1, atol=5e-3)


@pytest.mark.parametrize("mode", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_under_autocast(mode: str) -> None:
    layer = getattr(dj.nn, mode)(4, 5)
    compiled = dj.compile(layer)
    x = dj.randn(3, 2, 4, dtype=dj.bfloat16)
    with dj.autocast("cpu"):
        same(layer(x), compiled(x))


def test_attention_under_autocast() -> None:
    layer = dj.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    compiled = dj.compile(layer)
    x = dj.randn(2, 3, 8)
    with dj.autocast("cpu"):
        same(layer(x), compiled(x))
    same(layer(x), compiled(x))
