"""Recurrent layers in C: what NumPy computes step by step, for any number of threads."""

from typing import Any

import numpy as np
import pytest

from dynajit.core.arrays import _products
from dynajit.ops.native import _recurrent
from dynajit.ops.rows.networks import recurrent

pytestmark = pytest.mark.skipif(
    not _products.addresses(), reason="this CPU has no products of ours: NumPy computes"
)

MODES = ("LSTM", "projected LSTM", "GRU", "RNN_TANH", "RNN_RELU")

#: Steps, sequences, features: one of each, around a vector and a tile, two blocks of a sum, and
#: weights whose packed columns find no room.
SIZES = [(1, 1, 1), (5, 3, 4), (3, 17, 20), (7, 33, 65), (12, 2, 400), (3, 2, 760)]


def operands(mode: str, sizes: tuple[int, int, int], packed: Any, dtype: Any) -> list[Any]:
    """Of the row `recurrent_states`; weights keep sums about as large as they are."""
    steps, batch, size = sizes
    values = np.random.default_rng(size)
    width = size // 2 + 1 if mode == "projected LSTM" else size
    gates = {"GRU": 3, "LSTM": 4, "projected LSTM": 4}.get(mode, 1) * size

    def draw(*shape: int, scale: float = 0.5) -> np.ndarray:
        return (values.standard_normal(shape) * scale).astype(dtype)

    rows = (steps, batch) if packed is None else (sum(packed),)
    scale = 0.5 / size**0.5
    found = [draw(*rows, gates), draw(gates, width, scale=scale), draw(batch, width)]
    if "LSTM" in mode:
        found.append(draw(batch, size))
    if mode == "GRU":
        found.append(draw(size))
    if mode == "projected LSTM":
        found.append(draw(width, size, scale=scale))
    return found


def lengths(sizes: tuple[int, int, int]) -> tuple[int, ...]:
    """Sequences per step of a packed input: falling, and once by more than one."""
    steps, batch, _ = sizes
    return tuple(max(1, batch - t * t) for t in range(steps))


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-11)])
def test_steps_and_slopes_are_those_of_numpy(
    mode: str, sizes: Any, is_packed: bool, is_reversed: bool, dtype: Any, tolerance: float
) -> None:
    """With the same bits for one thread and for three."""
    packed = lengths(sizes) if is_packed else None
    given = operands(mode, sizes, packed, dtype)
    options = (mode.removeprefix("projected "), packed, is_reversed, False)
    states = recurrent._states(recurrent._ARRAYS, options[0], given, *options[1:])
    g = np.cos(np.arange(states.size, dtype=dtype)).reshape(states.shape)
    slopes = recurrent._slopes(recurrent._ARRAYS, options[0], g, states, given, *options[1:])

    for function, expected, arrays in (
        (_recurrent.states, states, tuple(given)),
        (_recurrent.slopes, slopes, (g, states, *given)),
    ):
        found = function(arrays, *options, 1)
        assert (expected.shape, expected.dtype) == (found.shape, found.dtype)
        np.testing.assert_allclose(found, expected, tolerance, tolerance)
        np.testing.assert_array_equal(found, function(arrays, *options, 3))


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mode", ["LSTM", "GRU"])
def test_gates_that_are_kept_give_the_slopes_of_those_computed_again(
    mode: str, sizes: Any, is_packed: bool, is_reversed: bool
) -> None:
    """The states' bits are the same; the slopes' products have other orders of sums."""
    packed = lengths(sizes) if is_packed else None
    given = operands(mode, sizes, packed, np.float64)
    plain, keeping = (mode, packed, is_reversed, False), (mode, packed, is_reversed, True)
    states, kept = (
        _recurrent.states((*given,), *plain, 1),
        _recurrent.states((*given,), *keeping, 1),
    )
    expected = recurrent._states(recurrent._ARRAYS, mode, given, packed, is_reversed, True)
    np.testing.assert_array_equal(states, kept[..., : states.shape[-1]])
    np.testing.assert_allclose(kept, expected, 1e-11, 1e-11)

    g = np.cos(np.arange(states.size, dtype=np.float64)).reshape(states.shape)
    slopes = _recurrent.slopes((g, states, *given), *plain, 1)
    found = _recurrent.slopes((g, kept, *given[1:]), *keeping, 1)
    rows = recurrent._slopes(
        recurrent._ARRAYS, mode, g, expected, given[1:], packed, is_reversed, True
    )
    np.testing.assert_allclose(found, slopes, 1e-11, 1e-11)
    np.testing.assert_allclose(found, rows, 1e-11, 1e-11)
    np.testing.assert_array_equal(found, _recurrent.slopes((g, kept, *given[1:]), *keeping, 3))


@pytest.mark.parametrize("mode", ["projected LSTM", "RNN_TANH", "RNN_RELU"])
def test_modes_without_gates_to_keep_are_left_to_others(mode: str) -> None:
    given = tuple(operands(mode, (5, 3, 4), None, np.float32))
    options = (mode.removeprefix("projected "), None, False)
    states = _recurrent.states(given, *options, False, 1)
    assert NotImplemented is _recurrent.states(given, *options, True, 1)
    assert NotImplemented is _recurrent.slopes((states, states, *given[1:]), *options, True, 1)


@pytest.mark.parametrize("mode", MODES)
def test_threads_share_the_sequences_of_much_work(mode: str) -> None:
    """More than one thread would be used for; the bits are the same."""
    sizes = (40, 50, 64 if "LSTM" in mode else 256)
    given = tuple(operands(mode, sizes, None, np.float32))
    steps, batch, size = sizes
    assert steps * batch * given[1].size >= 1 << 22, f"too little work for threads: {size}"
    options = (mode.removeprefix("projected "), None, False, False)

    states = _recurrent.states(given, *options, 1)
    g = np.cos(states)
    for threads in (2, 3, 64):
        np.testing.assert_array_equal(states, _recurrent.states(given, *options, threads))
        np.testing.assert_array_equal(
            _recurrent.slopes((g, states, *given), *options, 1),
            _recurrent.slopes((g, states, *given), *options, threads),
        )


def test_operands_may_lie_anywhere() -> None:
    """Transposed, broadcast and backwards ones: the numbers of their copies."""
    gates, weight, hidden, cell = operands("LSTM", (5, 3, 4), None, np.float32)
    for given in (
        (
            gates.swapaxes(0, 1).copy().swapaxes(0, 1),
            weight.T.copy().T,
            hidden[::-1],
            cell[:, ::-1],
        ),
        (np.broadcast_to(gates[0], gates.shape), weight, np.broadcast_to(hidden[0], (3, 4)), cell),
    ):
        copies = tuple(np.ascontiguousarray(x) for x in given)
        np.testing.assert_array_equal(
            _recurrent.states(copies, "LSTM", None, False, False, 1),
            _recurrent.states(given, "LSTM", None, False, False, 1),
        )


def test_nan_and_infinity_are_those_of_numpy() -> None:
    """In one sequence each; the others have numbers."""
    for mode in MODES:
        given = operands(mode, (4, 5, 6), None, np.float32)
        given[0][1, 0], given[0][2, 1], given[0][1, 2] = np.nan, np.inf, -np.inf
        options = (mode.removeprefix("projected "), None, False, False)
        with np.errstate(all="ignore"):
            expected = recurrent._states(recurrent._ARRAYS, options[0], given, *options[1:])
        found = _recurrent.states(tuple(given), *options, 1)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
        assert np.isnan(found[1:, 0]).any()
        assert np.isfinite(found[:, 3:]).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda given: [x.astype(np.float16) for x in given],
        lambda given: [given[0].astype(np.float64), *given[1:]],
        lambda given: [given[0][:, :0], *given[1:]],
        lambda given: [given[0], given[1][:, 1:], *given[2:]],
        lambda given: [given[0], given[1], given[2][1:], given[3]],
        lambda given: [*given[:3], given[3][:, 1:]],
        lambda given: given[:3],
        lambda given: [],
        lambda given: [*given, given[2][0]],
        lambda given: [given[0][0], *given[1:]],
    ],
)
def test_what_does_not_fit_is_left_to_others(change: Any) -> None:
    """NotImplemented: the row's function computes it, or refuses."""
    given = operands("LSTM", (5, 3, 4), None, np.float32)
    assert NotImplemented is _recurrent.states(tuple(change(given)), "LSTM", None, False, False, 1)


def test_steps_that_do_not_add_up_are_left_to_others() -> None:
    """Sizes that rise, that are 0, or that count other rows; other modes; other gradients."""
    given = tuple(operands("GRU", (3, 2, 4), (2, 2, 1), np.float32))
    states = _recurrent.states(given, "GRU", (2, 2, 1), False, False, 1)
    assert states is not NotImplemented
    for sizes in ((1, 2, 2), (2, 2, 1, 0), (2, 2), (3, 2), None):
        assert NotImplemented is _recurrent.states(given, "GRU", sizes, False, False, 1)
    assert NotImplemented is _recurrent.states(given, "ELMAN", (2, 2, 1), False, False, 1)
    for g in (states[1:], states[:, 1:], states[0]):
        arrays = (g, states, *given)
        assert NotImplemented is _recurrent.slopes(arrays, "GRU", (2, 2, 1), False, False, 1)
