"""Recurrent layers and cells: values, gradients, state and refusals equal PyTorch's."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops.rows.networks import recurrent as recurrent_rows

torch = pytest.importorskip("torch")
# What PyTorch says of its own choice of implementation.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

RANDOM = np.random.default_rng(0)
INPUT, HIDDEN, STEPS, BATCH = 3, 4, 5, 2


def draw(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "rnn": lambda nn: nn.RNN(INPUT, HIDDEN),
    "rnn of relu": lambda nn: nn.RNN(INPUT, HIDDEN, 2, "relu", bidirectional=True),
    "gru": lambda nn: nn.GRU(INPUT, HIDDEN),
    "gru deep": lambda nn: nn.GRU(INPUT, HIDDEN, 3, batch_first=True),
    "gru both ways without bias": lambda nn: nn.GRU(INPUT, HIDDEN, 2, False, bidirectional=True),
    "lstm": lambda nn: nn.LSTM(INPUT, HIDDEN),
    "lstm without bias": lambda nn: nn.LSTM(INPUT, HIDDEN, bias=False),
    "lstm both ways": lambda nn: nn.LSTM(INPUT, HIDDEN, 2, bidirectional=True, batch_first=True),
    "lstm projected": lambda nn: nn.LSTM(INPUT, HIDDEN, 2, bidirectional=True, proj_size=2),
}


def pair(name: str, dtype: str = "float32") -> tuple[Any, Any]:
    """PyTorch's layer with the same weights in every run, and ours with its state."""
    torch.manual_seed(0)
    theirs, ours = LAYERS[name](torch.nn), LAYERS[name](dj.nn)
    state = {key: dj.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()}
    assert list(state) == list(ours.state_dict())
    assert "<All keys matched successfully>" == repr(ours.load_state_dict(state))
    return theirs.to(getattr(torch, dtype)), ours.to(getattr(dj, dtype))


def state_for(layer: Any, batch: tuple[int, ...] = (BATCH,)) -> list[np.ndarray]:
    """Initial state: hidden, and for an LSTM the cell."""
    count = layer.num_layers * (1 + layer.bidirectional)
    widths = [layer.proj_size or HIDDEN, *([HIDDEN] if layer.mode == "LSTM" else [])]
    return [draw(count, *batch, width) for width in widths]


def run(library: Any, layer: Any, call: Any, x: Any, hx: Any = None) -> list[np.ndarray]:
    """Output, last state, and the gradients of input, state and parameters."""
    layer.zero_grad()
    dtype = next(layer.parameters()).dtype
    inputs = [library.from_numpy(a).to(dtype).requires_grad_() for a in (x, *(hx or ()))]
    given = None if hx is None else tuple(inputs[1:]) if layer.mode == "LSTM" else inputs[1]
    output, state = call(inputs[0], given)
    results = [output, *(state if layer.mode == "LSTM" else (state,))]
    loss = 0
    for result in results:
        weight = np.cos(np.arange(result.numel())).reshape(tuple(result.shape))
        loss = loss + (result * library.from_numpy(weight).to(dtype)).sum()
    loss.backward()
    gradients = [tensor.grad for tensor in (*inputs, *layer.parameters())]
    return [tensor.detach().to(library.float64).numpy() for tensor in (*results, *gradients)]


def assert_close(expected: list[np.ndarray], found: list[np.ndarray], tolerance: float) -> None:
    for theirs, ours in zip(expected, found, strict=True):
        assert theirs.shape == ours.shape
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_pytorchs(name: str, dtype: str) -> None:
    """repr, names, values and gradients; without a state, with one, and without a batch dim."""
    theirs, ours = pair(name, dtype)
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    assert repr(theirs) == repr(ours)
    x, hx = draw(STEPS, BATCH, INPUT), state_for(ours)
    x = x.swapaxes(0, 1) if ours.batch_first else x
    single = draw(STEPS, INPUT)
    for arguments in ((x,), (x, hx), (single,), (single, state_for(ours, ()))):
        expected = run(torch, theirs, theirs, *arguments)
        assert_close(expected, run(dj, ours, ours, *arguments), tolerance)


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.RNN(INPUT, HIDDEN, 2, nonlinearity="relu"),
        lambda nn: nn.GRU(INPUT, HIDDEN, batch_first=True),
        lambda nn: nn.LSTM(INPUT, HIDDEN, bidirectional=True),
        lambda nn: nn.LSTM(INPUT, HIDDEN, proj_size=2),
    ],
)
def test_layer_compiles_without_a_break(make: Callable[[Any], Any]) -> None:
    """The same numbers as eager execution, gradients included."""
    ours = make(dj.nn)
    compiled = dj.compile(ours, fullgraph=True)
    x, hx = draw(2, 2, INPUT), state_for(ours, (2,))
    assert_close(run(dj, ours, ours, x, hx), run(dj, ours, compiled, x, hx), 1e-5)


@pytest.mark.parametrize("name", ["rnn", "gru deep", "lstm both ways", "lstm projected"])
def test_more_steps_than_a_graph_unrolls_are_one_call(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No break, the same numbers and gradients as eager execution."""
    monkeypatch.setattr(recurrent_rows, "MOST_STEPS", 4)
    _, ours = pair(name)
    x = draw(STEPS, BATCH, INPUT)
    if ours.batch_first:
        x = x.swapaxes(0, 1).copy()
    compiled = dj.compile(ours, fullgraph=True)

    assert_close(run(dj, ours, ours, x), run(dj, ours, compiled, x), 1e-5)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm projected"])
def test_16_bit_floats_compute_in_float32(name: str) -> None:
    """The result has the dtype, and is the float32 result up to the rounding of each layer."""
    _, ours = pair(name)
    narrow = copy.deepcopy(ours).to(dj.bfloat16)
    wide = copy.deepcopy(narrow).to(dj.float32)
    x = dj.from_numpy(draw(STEPS, BATCH, INPUT)).to(dj.bfloat16)

    result = narrow(x)[0]
    assert dj.bfloat16 is result.dtype
    assert bool((result.float() - wide(x.float())[0]).abs().max() < 0.02)


@pytest.mark.parametrize("name", ["rnn", "gru deep", "lstm both ways", "lstm projected"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_packed_sequences_equal_pytorchs(name: str, is_sorted: bool) -> None:
    """Outputs behind a sequence's end are padding; the state is the one at its own end."""
    theirs, ours = pair(name)
    lengths = [5, 3, 3, 1] if is_sorted else [3, 1, 5, 3]
    x, hx = draw(5, 4, INPUT), state_for(ours, (4,))

    def call(library: Any, layer: Any) -> Any:
        rnn = library.nn.utils.rnn

        def on_packed(x: Any, state: Any) -> Any:
            packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=is_sorted)
            output, last = layer(packed, state)
            padded, found = rnn.pad_packed_sequence(output)
            assert lengths == found.tolist()
            return padded, last

        return on_packed

    for state in (None, hx):
        expected = run(torch, theirs, call(torch, theirs), x, state)
        assert_close(expected, run(dj, ours, call(dj, ours), x, state), 1e-4)


def test_second_derivatives() -> None:
    """gradcheck and gradgradcheck in float64, of every kind of cell."""
    for name in ("rnn", "gru", "lstm projected"):
        _, ours = pair(name, "float64")
        x = dj.from_numpy(draw(2, 1, INPUT)).double().requires_grad_()
        assert dj.autograd.gradcheck(lambda x, ours=ours: ours(x)[0], (x,))
        assert dj.autograd.gradgradcheck(lambda x, ours=ours: ours(x)[0], (x,))


def test_the_output_may_be_written() -> None:
    """In place, before backward, as PyTorch's."""
    found = []
    for library, layer in zip((torch, dj), pair("gru"), strict=True):
        output, hidden = layer(library.ones(STEPS, BATCH, INPUT))
        output.mul_(2.0)
        hidden.add_(output[0])
        (output.sum() + hidden.sum()).backward()
        found.append(layer.weight_hh_l0.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], 1e-5)


def test_dropout_is_between_layers_and_in_training_only() -> None:
    """With probability 1 the second layer sees zeros; evaluation has none."""
    layer = dj.nn.GRU(INPUT, HIDDEN, 2, dropout=1.0)
    x = dj.from_numpy(draw(STEPS, BATCH, INPUT))

    assert (layer(x)[0] == layer(dj.zeros_like(x))[0]).all()
    assert not (layer.eval()(x)[0] == layer(dj.zeros_like(x))[0]).all()
    half = dj.nn.GRU(INPUT, HIDDEN, 2, dropout=0.5)
    assert not (half(x)[0] == half(x)[0]).all()
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1"):
        dj.nn.LSTM(INPUT, HIDDEN, dropout=0.5)


def test_parameters_are_listed_by_layer_and_drawn_within_their_bound() -> None:
    """`all_weights` by layer and direction; `flatten_parameters` changes nothing."""
    layer = dj.nn.LSTM(INPUT, HIDDEN, 2, bidirectional=True)
    layer.flatten_parameters()

    assert [4] * 4 == [len(weights) for weights in layer.all_weights]
    assert layer.all_weights[1][0] is layer.weight_ih_l0_reverse
    assert (4 * HIDDEN, 2 * HIDDEN) == tuple(layer.weight_ih_l1.shape)
    largest = max(float(p.detach().abs().max()) for p in layer.parameters())
    assert 0.4 < largest <= 0.5
    assert {dj.float64} == {p.dtype for p in dj.nn.GRU(2, 3, dtype=dj.float64).parameters()}


CELLS: dict[str, Callable[[Any], Any]] = {
    "rnn": lambda nn: nn.RNNCell(INPUT, HIDDEN),
    "rnn of relu": lambda nn: nn.RNNCell(INPUT, HIDDEN, nonlinearity="relu"),
    "gru": lambda nn: nn.GRUCell(INPUT, HIDDEN),
    "gru without bias": lambda nn: nn.GRUCell(INPUT, HIDDEN, bias=False),
    "lstm": lambda nn: nn.LSTMCell(INPUT, HIDDEN),
}


def loop(library: Any, cell: Any, xs: Any, hx: Any) -> Any:
    """The last state of a cell that steps over the rows of xs."""
    for x in xs:
        hx = cell(x, hx)
    return hx[0] * hx[1] if isinstance(hx, tuple) else hx


@pytest.mark.parametrize("name", CELLS)
def test_cell_equals_pytorchs(name: str) -> None:
    """repr, names, values and gradients, with and without a batch dim; compiled, too."""
    theirs, ours = CELLS[name](torch.nn), CELLS[name](dj.nn)
    state = {key: dj.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()}
    assert repr(theirs) == repr(ours)
    ours.load_state_dict(state)
    for xs, hidden in ((draw(2, BATCH, INPUT), draw(BATCH, HIDDEN)), (draw(3, INPUT), None)):
        found = []
        for library, cell in ((torch, theirs), (dj, ours)):
            start = None if hidden is None else library.from_numpy(hidden)
            start = (start, start * 0.5) if name == "lstm" and hidden is not None else start
            calls = [loop]
            if library is dj and hidden is not None:
                calls.append(dj.compile(loop, fullgraph=True))
            for call in calls:
                cell.zero_grad()
                result = call(library, cell, library.from_numpy(xs), start)
                result.sum().backward()
                values = [result.detach(), *(p.grad for p in cell.parameters())]
                found.append([value.numpy() for value in values])
        for values in found[1:]:
            assert_close(found[0], values, 1e-4)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dropout": (lambda t: t.nn.GRU(3, 4, dropout=1.5), "dropout should be a number in range"),
    "dropout of bool": (lambda t: t.nn.GRU(3, 4, dropout=True), "dropout should be a number"),
    "hidden_size": (lambda t: t.nn.LSTM(3, 0), "hidden_size must be greater than zero"),
    "kind of size": (lambda t: t.nn.LSTM(3, 4.0), "hidden_size should be of type int"),
    "layers": (lambda t: t.nn.LSTM(3, 4, 0), "num_layers must be greater than zero"),
    "large projection": (lambda t: t.nn.LSTM(3, 4, proj_size=4), "has to be smaller"),
    "projection": (lambda t: t.nn.GRU(3, 4, proj_size=2), "only supported for LSTM"),
    "nonlinearity": (lambda t: t.nn.RNN(3, 4, nonlinearity="sin"), "Unknown nonlinearity 'sin'"),
    "mode": (lambda t: t.nn.RNNBase("ELMAN", 3, 4), "Unrecognized RNN mode: ELMAN"),
    "rank": (lambda t: t.nn.LSTM(3, 4)(t.zeros(3)), "LSTM: Expected input to be 2D or 3D, got 1D"),
    "features": (lambda t: t.nn.LSTM(3, 4)(t.zeros(2, 2, 5)), "Expected 3, got 5"),
    "dtype": (lambda t: t.nn.LSTM(3, 4)(t.zeros(2, 2, 3).double()), "does not match weight dtype"),
    "state": (
        lambda t: t.nn.GRU(3, 4)(t.zeros(5, 2, 3), t.zeros(1, 3, 4)),
        r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\]",
    ),
    "cell": (
        lambda t: t.nn.LSTM(3, 4)(t.zeros(5, 2, 3), (t.zeros(1, 2, 4), t.zeros(1, 2, 3))),
        r"Expected hidden\[1\] size \(1, 2, 4\), got \[1, 2, 3\]",
    ),
    "rank of state": (
        lambda t: t.nn.GRU(3, 4)(t.zeros(5, 3), t.zeros(1, 1, 4)),
        "For unbatched 2-D input, hx should also be 2-D but got 3-D tensor",
    ),
    "ranks of state": (
        lambda t: t.nn.LSTM(3, 4)(t.zeros(5, 2, 3), (t.zeros(1, 4), t.zeros(1, 4))),
        r"hx and cx should also be 3-D but got \(2-D, 2-D\) tensors",
    ),
    "no steps": (lambda t: t.nn.LSTM(3, 4)(t.zeros(0, 2, 3)), "sequence length to be larger than"),
    "rank of a cell": (lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 2, 3)), "to be 1D or 2D, got 3D"),
    "rank of a cell's state": (
        lambda t: t.nn.LSTMCell(3, 4)(t.zeros(2, 3), (t.zeros(2, 4), t.zeros(1, 2, 4))),
        r"Expected hx\[1\] to be 1D or 2D, got 3D",
    ),
    "features of a cell": (
        lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 5)),
        "input has inconsistent input_size: got 5 expected 3",
    ),
    "batch of a cell": (
        lambda t: t.nn.GRUCell(3, 4)(t.zeros(2, 3), t.zeros(1, 4)),
        "Input batch size 2 doesn't match hidden",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_pytorchs(name: str) -> None:
    """The class of the error, and what it says."""
    program, message = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((RuntimeError, ValueError, TypeError), match=message) as theirs:
            program(torch)
    with pytest.raises(theirs.type, match=message):
        program(dj)
