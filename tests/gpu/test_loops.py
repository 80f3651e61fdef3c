"""Loops whose tensors are on a GPU: one loop of the graph, whose turns launch the body's plan."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.execution import loops
from dynajit.codegen.device import tuning
from tests.support.loops import loops_of

pytestmark = pytest.mark.usefixtures("driver", "kernel_cache", "strict_programs")
X = np.arange(6, dtype=np.float32)
MATRIX = (np.random.default_rng(0).random((6, 6)) + 0.1).astype(np.float32)
ROWS = np.random.default_rng(1).random((40, 6)).astype(np.float32)
TURNS = 40


@pytest.fixture(autouse=True)
def however_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few operations are loops of the graph, too."""
    monkeypatch.setattr(loops, "FEWEST_NODES", 0)


def heat(u: Any) -> Any:
    for _ in range(TURNS):
        u = u + 0.1 * (dj.roll(u, 1, 0) + dj.roll(u, -1, 0) - 2 * u)
    return u


def two_values(x: Any) -> Any:
    y = x + 1
    for i in range(TURNS):
        x, y = y * 0.9, x + 0.1 * i
    return x, y, i


def value_before(x: Any) -> Any:
    before = x
    for _ in range(TURNS):
        before = x
        x = x * 0.9 + 1
    return before, x


def recurrence(xs: Any) -> Any:
    h = xs[0] * 0
    for t in range(xs.shape[0]):
        h = dj.tanh(h * 0.5 + xs[t])
    return h


def all_states(xs: Any) -> Any:
    h, states = xs[0] * 0, []
    for t in range(xs.shape[0] - 1, -1, -1):
        h = dj.tanh(h * 0.5 + xs[t])
        states.append(h)
    return dj.stack(states), h


def power_iteration(a: Any) -> Any:
    v = a[0]
    for _ in range(TURNS):
        v = a @ v
        v = v / v.norm()
    return v


def with_a_transpose(a: Any) -> Any:
    turned, b = a.T, a * 0
    for _ in range(TURNS):
        b = (turned @ b) * 0.1 + turned
    return b


def nested(x: Any) -> Any:
    for i in range(TURNS):
        for j in range(TURNS):
            x = x * 0.99 + 0.01 * i - j
    return x


def counted_hits(x: Any) -> Any:
    count = dj.zeros(x.shape, dtype=dj.int64, device=x.device)
    for _ in range(TURNS):
        x = x * 0.9
        count = count + (x > 1).to(dj.int64)
    return x, count


def halve(x: Any) -> Any:
    x = x + 1
    while x.sum() > 0.1:
        x = x * 0.5
    return x


def newton(a: Any) -> Any:
    a = a + 2
    x, error = a * 1.0, a.max()
    while error > 1e-4:
        new = 0.5 * (x + a / x)
        error = (new - x).abs().max()
        x = new
    return x, error


def at_most(x: Any) -> Any:
    x, k = x + 1, 0
    while x.sum() > 0.1 and k < 5:
        x = x * 0.5
        k += 1
    return x


def done_at_once(x: Any) -> Any:
    x = x * 0
    while x.sum() > 0.1:
        x = x * 0.5
    return x


def kept_rows(u: Any) -> Any:
    kept = dj.zeros((TURNS, u.shape[0]), device=u.device)
    for i in range(TURNS):
        kept[i] = u
        u = u + 0.1 * (dj.roll(u, 1, 0) - u)
    return kept, u


def written_in_front(u: Any) -> Any:
    table = dj.zeros(TURNS + 1, device=u.device)
    table[0] = u[1]
    for i in range(TURNS):
        table[i + 1] = table[i] * 0.9 + u.sum()
    return table


def accumulated(u: Any) -> Any:
    total = dj.zeros_like(u)
    for i in range(TURNS):
        total += u * i
    return total


def branches(u: Any) -> Any:
    x = u + 1
    for _ in range(TURNS):
        if x.sum() > 20:
            x = x * 0.5
        else:
            x = x + u * 0.1
    return x


def clipped(u: Any) -> Any:
    x = u + 1
    for _ in range(TURNS):
        x = x * 1.1
        if x.max() > 10 and x.min() > 0:
            x = x / x.max()
    return x


def ended_by_a_number(x: Any) -> Any:
    k, t = 0, 0.0
    while k < TURNS and t < 100.0:
        x = x * 0.9 + 0.1 * k + t
        k += 1
        t += 0.5
    return x, k, t


def windows(xs: Any) -> Any:
    found, means = dj.zeros_like(xs), xs[0] * 0
    for i in range(0, 40, 2):
        found[i : i + 2] = dj.tanh(xs[i : i + 2])
        means = means * 0.9 + xs[i : i + 2, 1:4].mean()
    return found, means


def overlapping_windows(xs: Any) -> Any:
    y = xs[:, 0] + 1
    for i in range(1, 39):
        y[i] = y[i - 1 : i + 2].mean()
    return y


def split(xs: Any) -> Any:
    total = xs[0] * 0
    for part in xs.split(2):
        total = total * 0.9 + part.sum(0)
    return total


LOOPS: list[tuple[Callable[..., Any], Any]] = [
    (heat, X), (two_values, X), (value_before, X), (recurrence, ROWS), (all_states, ROWS),
    (power_iteration, MATRIX), (with_a_transpose, MATRIX), (nested, X), (counted_hits, X),
    (kept_rows, X), (written_in_front, X), (accumulated, X), (branches, X), (clipped, X),
    (halve, X), (newton, X), (at_most, X), (done_at_once, X),
    (ended_by_a_number, X), (windows, ROWS), (overlapping_windows, ROWS), (split, ROWS),
]  # fmt: skip


def on_gpu(value: Any) -> Any:
    return dj.from_numpy(value).to("cuda")


def assert_same(expected: Any, found: Any) -> None:
    """Equal to what plain Python gives on the CPU, and on the GPU."""
    assert type(expected) is type(found)
    if isinstance(expected, tuple):
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_same(a, b)
    elif isinstance(expected, dj.Tensor):
        assert found.is_cuda
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        assert expected.stride() == found.stride()
        np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=2e-5, atol=1e-6)
    else:
        assert expected == found


@pytest.mark.parametrize(("function", "value"), LOOPS, ids=[f.__name__ for f, _ in LOOPS])
def test_turns_that_do_the_same_are_one_loop(function: Callable[..., Any], value: Any) -> None:
    """With plain Python's results, called three times."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(dj.from_numpy(value))
    for _ in range(3):
        assert_same(expected, compiled(on_gpu(value)))
    # Of nested loops: in the first two turns and in the last, in the body, and the outer one.
    assert loops_of(function, on_gpu(value)) == (5 if function is nested else 1)


SETTINGS: dict[str, dict[str, Any]] = {
    "rows": {"backend": "numpy"}, "replays": {"mode": "reduce-overhead"},
    "verified": {"options": {"verify": True}}, "tuned": {"mode": "max-autotune"},
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    ("function", "value"), [(all_states, ROWS), (nested, X), (halve, X), (kept_rows, X)]
)
def test_loops_run_in_every_mode(
    function: Any,
    value: Any,
    setting: str,
    is_stand_in: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_stand_in:  # what it takes says nothing: measuring once is enough
        monkeypatch.setattr(tuning, "REPEATS", 1)
    compiled = dj.compile(function, fullgraph=True, **SETTINGS[setting])
    expected = function(dj.from_numpy(value))
    for _ in range(4):
        assert_same(expected, compiled(on_gpu(value)))


def test_results_of_two_calls_share_no_memory() -> None:
    compiled = dj.compile(all_states, fullgraph=True)
    rows = on_gpu(ROWS)
    first, last = compiled(rows)
    kept = first.cpu().numpy()
    second, _ = compiled(rows * 2)

    np.testing.assert_array_equal(first.cpu().numpy(), kept)
    assert first.data_ptr() != second.data_ptr()
    last.zero_()
    np.testing.assert_array_equal(first.cpu().numpy(), kept)


def hidden_states(xs: Any, w: Any) -> Any:
    h, states = xs[0] * 0, []
    for t in range(xs.shape[0]):
        h = dj.tanh(h @ w + xs[t])
        states.append(h)
    return dj.stack(states).sum() + h.square().sum()


def decay(xs: Any, w: Any) -> Any:
    h = xs[0]
    for _ in range(TURNS):
        h = h * w[0].sigmoid() + 0.1
    return h.sum()


def roots(xs: Any, w: Any) -> Any:
    a = xs[0] + w[0] + 2
    x, error = a * 1.0, a.max()
    while error > 1e-4:
        new = 0.5 * (x + a / x)
        error = (new - x).abs().max()
        x = new
    return x.sum()


def noisy_states(xs: Any, w: Any) -> Any:
    h = xs[0]
    for t in range(xs.shape[0]):
        h = dj.tanh(dj.nn.functional.dropout(h, 0.3, True) @ w + xs[t])
    return h.sum()


def gradients_of(function: Callable[..., Any], device: str) -> list[Any]:
    dj.manual_seed(3)
    xs, w = (dj.from_numpy(value).to(device).requires_grad_() for value in (ROWS, MATRIX))
    value = function(xs, w)
    value.backward()
    return [x.cpu().numpy() for x in (value.detach(), xs.grad, w.grad)]


@pytest.mark.parametrize("function", [hidden_states, decay, roots, noisy_states])
def test_gradients_pass_loops(function: Callable[..., Any]) -> None:
    """Those that eager execution gives on the CPU."""
    compiled = dj.compile(function, fullgraph=True)
    expected = gradients_of(function, "cpu")
    for _ in range(2):
        for want, found in zip(expected, gradients_of(compiled, "cuda"), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    xs, w = (on_gpu(value).requires_grad_() for value in (ROWS, MATRIX))
    assert loops_of(function, xs, w) >= 1


def diffused(x: Any) -> Any:
    """Draws in front of the loop, two in each turn, in loops within turns, and behind the loop."""
    x = x + dj.rand(x.shape, device=x.device)
    for i in range(TURNS):
        x = x * 0.9 + 0.1 * i * dj.randn_like(x)
        x = dj.nn.functional.dropout(x, 0.2, True)
    for _ in range(20):
        for _ in range(20):
            x = x * 0.9 + dj.rand_like(x)
    return x, dj.rand(3, device=x.device)


@pytest.mark.parametrize("setting", [None, *SETTINGS])
def test_turns_draw_what_plain_python_draws(
    setting: str | None, is_stand_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_stand_in:
        monkeypatch.setattr(tuning, "REPEATS", 1)
    compiled = dj.compile(
        diffused, fullgraph=True, **({} if setting is None else SETTINGS[setting])
    )
    dj.manual_seed(3)
    expected = [diffused(dj.from_numpy(X)) for _ in range(3)]
    state = dj.get_rng_state()
    dj.manual_seed(3)
    for want in expected:
        assert_same(want, compiled(on_gpu(X)))
    assert dj.cuda.get_rng_state().tolist() == state.tolist()
    assert loops_of(diffused, on_gpu(X)) == 6
