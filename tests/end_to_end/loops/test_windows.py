"""Slices of so many elements that follow the counter of a loop: mini-batches, windows over a
signal, blocks that are written.

Results are plain Python's in values, dtypes, strides, memory, versions and gradients.
"""

import warnings
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.loops import assert_same, loops_of


def signal(*shape: int) -> Any:
    return dj.arange(float(np.prod(shape))).reshape(*shape).sin()


def mini_batches(x, w):
    for i in range(0, 103, 10):  # the last one is shorter
        part, wanted = x[i : i + 10, :2], x[i : i + 10, 2]
        w = w - 0.01 * (part.T @ (part @ w - wanted))
    return w, part, dj.tensor(i)


def by_their_number(x, w):
    sums = []
    for k in range(10):
        sums.append(x[k * 10 : (k + 1) * 10].sum(0))
    return dj.stack(sums), w


def shuffled(x, w):
    order = dj.arange(100).flip(0)
    for i in range(0, 100, 10):
        places = order[i : i + 10]
        w = w * 0.9 + x[places, 1:].mean(0)
    return w, places


def of_a_while(x, w):
    i = 0
    while i < len(x):
        w = w * 0.9 + x[i : i + 10, :2].sum(0)
        i += 10
    return w, dj.tensor(i)


def moving_means(x, w):
    y = x[:, 0] * 1
    for i in range(1, 99):
        y[i] = x[i - 1 : i + 2, 0].mean()
    return y, w


def in_place(x, w):
    y = x[:, 0].clone()
    for i in range(1, 99):
        y[i] = y[i - 1 : i + 2].mean()
    return y, w


def from_the_end(x, w):
    for i in range(25):
        w = w * 0.9 + x[-i - 10 : -i - 8, 0]
    return w, x


def every_second(x, w):
    for i in range(25):
        w = w * 0.9 + x[i : i + 4 : 2, 1]
    return w, x


def of_two_dims(x, w):
    y = x.repeat(1, 4)
    total = dj.zeros(3, 2)
    for i in range(10):
        total = total * 0.9 + y[i : i + 3, i + 1 : i + 3] + y[2 * i, None, i : i + 2]
    return total, w


def beside_indices(x, w):
    places = dj.tensor([0, 2])
    for i in range(30):
        w = w * 0.5 + x[i : i + 4, places].sum(0) + x[places, i % 2 : i % 2 + 2].sum(0)
        w = w + x[i : i + 4, None, -1].sum()
    return w, x


def blocks(x, w):
    found = dj.zeros(103, 3)
    for i in range(0, 103, 10):
        found[i : i + 10] = x[i : i + 10] * 2
    return found, w


def blocks_with_gaps(x, w):
    found = dj.ones(103, 3)
    for i in range(90, 0, -10):
        found[i : i + 4] *= x[i : i + 4]
        found[i : i + 4] += 1
    return found, w


def columns(x, w):
    found, y = dj.zeros(3, 103), x.T
    for i in range(0, 100, 5):
        found[:, i : i + 5] += y[:, i : i + 5] * 2
    return found, w


def blocks_that_overlap(x, w):
    y = x[:, 0].clone()
    for i in range(0, 90, 5):
        y[i : i + 10] += 1.0
        y[i : i + 10] *= 0.5
    return y, w


def a_view_of_the_last_turn(x, w):
    y = x.clone()
    for i in range(0, 100, 10):
        part = y[i : i + 10]
        w = w * 0.9 + part[:2, 0]
    part.add_(1)
    return y, part, w


def under_a_condition(x, w):
    y = x[:, 0] * 1
    for i in range(100):
        if i + 5 <= 100:
            w = w * 0.5 + y[i : i + 5].sum()
    return w, x


def under_a_condition_on_data(x, w):
    for i in range(100):
        if x[i, 0] > 0.5:
            w = w + x[i // 2 : i // 2 + 2, 1]
        else:
            w = w * 0.5
    return w, x


def of_inner_loops(x, w):
    for i in range(9):
        for j in range(8):
            w = w * 0.9 + x[10 * i + j : 10 * i + j + 2, 0]
    return w, x


def by_what_data_count(x, w):
    k = 0
    for i in range(40):
        if x[i, 0] > 0:
            k += 1
        w = w * 0.9 + x[k : k + 2, 1]
    return w, x


def until_a_tensor_says_so(x, w):
    i = 0
    while w.sum() < 10 and i < 90:
        w = w * 0.9 + x[i : i + 2, 0].abs()
        i += 1
    return w, w * 0 + i


def split(x, w):
    for part, other in zip(x.split(10), x[:, 1:].split(10)):  # noqa: B905
        w = w * 0.9 + part[0, :2] * other.sum(0)
    return w, part, other


def chunks_by_number(x, w):
    for k, part in enumerate(x[:100].chunk(10)):
        w = w * 0.9 + part[0, :2] * k
    return w, part


def columns_of_a_split(x, w):
    total = dj.zeros(3)
    for part in x.T.split(8, dim=1):
        total = total * 0.9 + part.sum(1)
    return total, part, w


def places_of_a_split(x, w):
    for places in dj.arange(100).flip(0).split(10):
        w = w * 0.9 + x[places, 1:].sum(0)
    return w, places


LOOPS = [
    split, chunks_by_number, columns_of_a_split, places_of_a_split,
    mini_batches, by_their_number, shuffled, of_a_while, moving_means, in_place, from_the_end,
    every_second, of_two_dims, beside_indices, blocks, blocks_with_gaps, columns,
    blocks_that_overlap, a_view_of_the_last_turn, under_a_condition,
    under_a_condition_on_data, by_what_data_count, until_a_tensor_says_so,
]  # fmt: skip


def cut_in_some_turns(x, w):
    for i in range(0, 100, 5):
        w = w * 0.9 + x[i : i + 20, 0].sum()
    return w, x


def empty_at_first(x, w):
    for i in range(25):
        w = w * 0.9 + x[i - 5 : i, 0].sum()
    return w, x


def always_empty(x, w):
    for i in range(25):
        w = w * 0.9 + x[i:i, 0].sum() + x[i + 3 : i, 0].sum() + i
    return w, x


def of_other_lengths(x, w):
    for i in range(25):
        w = w * 0.9 + x[i : 2 * i, 0].sum() + x[:i, 0].sum() + x[i:, 0].sum()
    return w, x


def written_through_views(x, w):
    y = x[:, 0].clone()
    for i in range(0, 90, 5):
        part = y[i : i + 10]
        part.mul_(0.5)
        part[0] = 7.0
        y[i + 3] = part[9]
    return y, part, w


def kept_views(x, w):
    y, parts = x.clone(), []
    for i in range(0, 100, 10):
        parts.append(y[i : i + 10])
    parts[3].add_(1)
    return y, w, *parts


def split_backwards(x, w):
    for part in reversed(x.split(10)):
        w = w * 0.9 + part[0, :2]
    return w, part


def split_by_sizes(x, w):
    for part in x.split([5] * 10 + [6] * 8 + [5]):
        w = w * 0.9 + part[0, :2] * part.shape[0]
    return w, part


def decided_by_the_last_shape(x, w):
    y = w
    for part in x.split(10):
        if len(part) < 10:
            w = w + y
        y = part[0, :2] * 1
        w = w * 0.9 + y
    return w, y


OTHERS = [
    split_backwards, split_by_sizes, decided_by_the_last_shape,
    of_inner_loops, cut_in_some_turns, empty_at_first, always_empty, of_other_lengths,
    written_through_views, kept_views,
]  # fmt: skip


@pytest.mark.parametrize("function", [*LOOPS, *OTHERS])
def test_results_are_those_of_plain_python(function: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        given = [[signal(103, 3), dj.zeros(2)] for _ in range(2)]
        expected, found = function(*given[0]), compiled(*given[1])
        assert_same((*given[0], *expected), (*given[1], *found))
        assert [each._version for each in found] == [each._version for each in expected]


@pytest.mark.parametrize("function", LOOPS)
def test_slices_that_follow_the_counter_leave_a_loop_whole(function: Any) -> None:
    assert loops_of(function, signal(103, 3), dj.zeros(2)) == 1


def test_gradients_of_windows_add_up_where_they_overlap() -> None:
    def run(x):
        h = x[:5] * 0
        for i in range(0, 95, 3):
            h = dj.tanh(h * 0.9 + x[i : i + 5])
        return h

    grads = []
    for function in (run, dj.compile(run, fullgraph=True)):
        x = signal(100).double().requires_grad_()
        function(x).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-12)
    assert loops_of(run, signal(100).requires_grad_()) == 1


def test_parts_of_one_call_are_not_written_while_gradients_are_recorded() -> None:
    def run(x):
        y = x * 1
        for part in y.split(5):
            part.mul_(2)
        return y

    for function in (run, dj.compile(run)):
        with pytest.raises(RuntimeError, match="in-place writes"):
            function(signal(100).requires_grad_())
        dj.testing.assert_close(function(signal(100)), signal(100) * 2)


def test_an_epoch_by_slices_is_one_loop() -> None:
    def epoch(x, y, w):
        losses = []
        for i in range(0, 100, 8):
            loss = ((x[i : i + 8] @ w - y[i : i + 8]) ** 2).mean()
            loss.backward()
            with dj.no_grad():
                w -= 0.1 * w.grad
                w.grad.zero_()
            losses.append(loss.item())
        return losses

    results = []
    for run in (epoch, dj.compile(epoch, fullgraph=True)):
        w = dj.ones(4).requires_grad_()
        results.append([*run(signal(100, 4), signal(100), w), *w.tolist()])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
    assert loops_of(epoch, signal(100, 4), signal(100), dj.ones(4).requires_grad_()) == 1


def of_arrays(x, w):
    found = np.zeros((600, 40))
    for i in range(0, 600, 30):
        found[i : i + 30] = np.maximum(x[i : i + 30] @ w, 0)
    return (found,)


def columns_of_arrays(x, w):
    x, total = x.T, np.zeros((40, 40))
    found = np.zeros(x.shape)
    for i in range(0, 560, 40):
        total = total * 0.5 + x[:, i : i + 40] @ w
        found[:, i : i + 40] += total
        found[:, i : i + 40] *= 2
    return found, total


@pytest.mark.parametrize("function", [of_arrays, columns_of_arrays])
def test_slices_of_arrays_leave_a_loop_whole(function: Any) -> None:
    values = np.random.default_rng(0)
    x, w = values.random((600, 40)), values.random((40, 40))
    assert_same(function(x, w), dj.compile(function, fullgraph=True)(x, w))
    assert loops_of(function, x, w) == 1


@pytest.mark.parametrize("start", [-6, 90])
def test_a_place_that_the_launch_computes_may_have_slices_cut(start: int) -> None:
    """Where Python cuts one, the launch refuses its values, and the function runs plainly."""

    def run(x, starts):
        total = x[:1] * 0
        for k in range(20):
            first = int(starts[k])
            total = total * 0.5 + x[first : first + 12].sum()
        return total

    compiled = dj.compile(run)
    x, starts = signal(100), dj.arange(20)
    for place in (3, start, 88):
        starts[7] = place
        np.testing.assert_allclose(compiled(x, starts), run(x, starts), rtol=1e-5)


def test_a_view_of_a_computed_place_is_made_behind_the_launch() -> None:
    def run(x):
        y, k = x * 1, 0
        for i in range(30):
            if x[i] > 0:
                k += 1
        part = y[k : k + 4]
        return y, part

    compiled = dj.compile(run)
    for values in (signal(50), -signal(50)):
        (y, part), (z, other) = run(values), compiled(values)
        assert_same((y, part), (z, other))
        other.add_(1)
        part.add_(1)
        assert_same((y, part), (z, other))


@pytest.mark.parametrize(
    "key",
    [
        "[0, 2], {w}",
        "{w}, [0, 2]",
        "[[0, 1], [2, 0]], {w}",
        "[True, False, True], {w}",
        "p, {w}",
        "p, p, {w}",
        "{w}, p",
        "m, {w}",
        "two, {w}",
        "{w}, two",
        "t, {w}",
        "old, {w}",
        "None, {w}",
        "{w}, None, [1]",
        "..., {w}",
        "..., {w}, 1",
        "1, ..., {w}",
        "1, {w}, 2",
        "-1, {w}",
        "[1], ..., {w}",
        "{w}, ..., [1]",
        "p, None, {w}",
        "{w}, {w}",
        "{w}, 1, {w}",
        ":, {w}",
        "{w}, ::2",
        "1:, {w}, 2",
        "i % 3, {w}",
        "{w}, i",
        "True, {w}",
        "{w}, i:",
    ],
)
@pytest.mark.parametrize("module", ["dj", "np"])
def test_a_window_is_of_the_dim_that_its_place_in_the_key_says(key: str, module: str) -> None:
    """Sums do not tell the dims apart: elements have weights by their place."""
    text = (
        "def run(x, p, m, two, t, old):\n"
        " total = x[0, 0, 0] * 0\n"
        " for i in range(18):\n"
        f"  part = x[{key.format(w='i:i + 2')}]\n"
        "  total = total * 0.5 + (part * part).sum()\n"
        " return total\n"
    )
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    run = namespace["run"]
    values = np.random.default_rng(0).random((30, 30, 30))
    places, mask = np.array([2, 0]), np.arange(30) % 3 == 0
    given = (values, places, mask, values[:, :, 0] > 0.7, np.array(True), mask.astype(np.uint8))
    args = given if module == "np" else tuple(map(dj.tensor, given))
    results = []
    for function in (run, dj.compile(run)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                results.append(float(function(*args)))
            except Exception as error:
                results.append(type(error))
    assert type(results[0]) is type(results[1])
    assert results[0] == (
        pytest.approx(results[1], rel=1e-9) if type(results[1]) is float else results[1]
    )
