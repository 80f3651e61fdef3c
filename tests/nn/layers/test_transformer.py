"""Encoders and decoders against PyTorch, with its state: values, gradients, compiled."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ShapeError

torch = pytest.importorskip("torch")

# PyTorch tells how its faster paths could be reached, and that it will drop mixed masks.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")

RANDOM = np.random.default_rng(0)
LENGTH, SOURCES, BATCH, SIZE = 5, 7, 3, 8


def drawn(*shape: int) -> np.ndarray:
    """Standard normal float32."""
    return RANDOM.standard_normal(shape).astype(np.float32)


def causal(size: int) -> np.ndarray:
    """-inf above the diagonal."""
    return np.triu(np.full((size, size), -np.inf, np.float32), 1)


def padded(counts: list[int], size: int) -> np.ndarray:
    """-inf behind the first `counts` of each sequence."""
    behind = np.arange(size) >= np.array(counts)[:, None]
    return np.where(behind, -np.inf, 0).astype(np.float32)


SOURCE, TARGET = drawn(BATCH, SOURCES, SIZE), drawn(BATCH, LENGTH, SIZE)
SOURCE_PADDING, TARGET_PADDING = padded([7, 4, 6], SOURCES), padded([5, 3, 2], LENGTH)
ENCODER_MASKS: dict[str, dict[str, Any]] = {
    "no mask": {},
    "mask": {"mask": causal(SOURCES)},
    "hint": {"mask": causal(SOURCES), "is_causal": True},
    "padding": {"src_key_padding_mask": SOURCE_PADDING},
    "both": {"mask": causal(SOURCES), "src_key_padding_mask": SOURCE_PADDING},
}
DECODER_MASKS: dict[str, dict[str, Any]] = {
    "no mask": {},
    "mask": {"tgt_mask": causal(LENGTH)},
    "hint": {"tgt_mask": causal(LENGTH), "tgt_is_causal": True},
    "all": {
        "tgt_mask": causal(LENGTH),
        "memory_mask": drawn(LENGTH, SOURCES),
        "tgt_key_padding_mask": TARGET_PADDING,
        "memory_key_padding_mask": SOURCE_PADDING,
    },
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "norm first": {"norm_first": True},
    "gelu": {"activation": "gelu"},
    "no bias": {"bias": False, "layer_norm_eps": 1e-3},
    "callable": {"activation": "tanh of the library"},
    "module": {"activation": "module of the library"},
}


def with_activation(library: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options with the library's own function or module where they ask for it."""
    found = dict(options)
    if options.get("activation") == "tanh of the library":
        found["activation"] = library.tanh
    if options.get("activation") == "module of the library":
        found["activation"] = library.nn.GELU()
    return found


def taken_over(theirs: Any, ours: Any) -> tuple[Any, Any]:
    """Both without dropout, ours with PyTorch's state, whose names and order are the same."""
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    state = {name: dj.from_numpy(value.numpy()) for name, value in theirs.state_dict().items()}
    ours.load_state_dict(state, strict=True)
    assert list(state) == list(ours.state_dict())
    assert [n for n, _ in theirs.named_modules()] == [n for n, _ in ours.named_modules()]
    return theirs, ours


def run(library: Any, layer: Any, arrays: list[np.ndarray], **options: Any) -> list[Any]:
    """Output and gradients of inputs and parameters, as arrays."""
    tensors = [library.from_numpy(array.copy()).requires_grad_() for array in arrays]
    given = {
        name: library.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in options.items()
    }
    output = layer(*tensors, **given)
    (output * output.cos()).sum().backward()
    found = [output, *(t.grad for t in tensors), *(p.grad for p in layer.parameters())]
    return [x.detach().numpy() for x in found]


def assert_equal(expected: list[Any], actual: list[Any]) -> None:
    """Arrays within rounding of float32."""
    for theirs, ours in zip(expected, actual, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("masks", ENCODER_MASKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_encoders_equal_pytorchs(options: str, masks: str) -> None:
    """Two layers and a norm, gradients of everything."""

    def made(library: Any) -> Any:
        given = with_activation(library, OPTIONS[options])
        layer = library.nn.TransformerEncoderLayer(
            SIZE, 2, 16, dropout=0.0, batch_first=True, **given
        )
        return library.nn.TransformerEncoder(layer, 2, library.nn.LayerNorm(SIZE))

    theirs, ours = taken_over(made(torch), made(dj))
    expected = run(torch, theirs, [SOURCE], **ENCODER_MASKS[masks])
    assert_equal(expected, run(dj, ours, [SOURCE], **ENCODER_MASKS[masks]))
    assert theirs.layers[0].activation_relu_or_gelu == ours.layers[0].activation_relu_or_gelu


@pytest.mark.parametrize("masks", DECODER_MASKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_decoders_equal_pytorchs(options: str, masks: str) -> None:
    """Two layers, gradients of target, memory and parameters; one layer with a module as its
    activation, which PyTorch's copies of decoder layers replace by relu."""

    def made(library: Any) -> Any:
        given = with_activation(library, OPTIONS[options])
        layer = library.nn.TransformerDecoderLayer(
            SIZE, 2, 16, dropout=0.0, batch_first=True, **given
        )
        return layer if options == "module" else library.nn.TransformerDecoder(layer, 2)

    theirs, ours = taken_over(made(torch), made(dj))
    expected = run(torch, theirs, [TARGET, SOURCE], **DECODER_MASKS[masks])
    assert_equal(expected, run(dj, ours, [TARGET, SOURCE], **DECODER_MASKS[masks]))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("is_batched", [False, True])
def test_transformers_equal_pytorchs(batch_first: bool, is_batched: bool) -> None:
    """Source and target, in both orders of dims, and without a batch."""
    options = {"dropout": 0.0, "batch_first": batch_first}
    theirs, ours = taken_over(*(
        library.nn.Transformer(SIZE, 2, 1, 2, 16, **options) for library in (torch, dj)
    ))  # fmt: skip
    arrays = [SOURCE, TARGET]
    if not is_batched:
        arrays = [array[0] for array in arrays]
    elif not batch_first:
        arrays = [array.swapaxes(0, 1).copy() for array in arrays]
    given: dict[str, Any] = {"tgt_mask": causal(LENGTH), "src_mask": causal(SOURCES)}
    if is_batched:
        given["src_key_padding_mask"] = SOURCE_PADDING

    assert_equal(run(torch, theirs, arrays, **given), run(dj, ours, arrays, **given))


def test_evaluation_without_gradients_equals_pytorchs_where_nothing_is_padding() -> None:
    """PyTorch takes a faster path there; positions that are padding are zeros on it."""
    options = {"batch_first": True}
    theirs, ours = (
        library.nn.TransformerEncoder(library.nn.TransformerEncoderLayer(SIZE, 2, 16, **options), 2)
        for library in (torch, dj)
    )
    theirs, ours = taken_over(theirs.eval(), ours.eval())
    behind = SOURCE_PADDING < 0
    with torch.no_grad(), pytest.warns(UserWarning, match="nested tensors"):
        expected = theirs(
            torch.from_numpy(SOURCE), src_key_padding_mask=torch.from_numpy(behind)
        ).numpy()
    with dj.no_grad():
        actual = ours(dj.from_numpy(SOURCE), src_key_padding_mask=dj.from_numpy(behind)).numpy()

    np.testing.assert_allclose(actual[~behind], expected[~behind], rtol=1e-4, atol=1e-5)
    assert np.isfinite(actual).all()


def test_compiled_transformers_give_the_same_numbers() -> None:
    """One graph, with masks, forward and backward."""
    model = dj.nn.Transformer(SIZE, 2, 2, 2, 16, dropout=0.0, batch_first=True)
    given = {"tgt_mask": causal(LENGTH), "tgt_is_causal": True}
    given["src_key_padding_mask"] = given["memory_key_padding_mask"] = SOURCE_PADDING
    expected = run(dj, model, [SOURCE, TARGET], **given)
    model.zero_grad()

    assert_equal(expected, run(dj, dj.compile(model, fullgraph=True), [SOURCE, TARGET], **given))


def test_dropout_of_compiled_encoders_draws_eager_numbers() -> None:
    """In training, from the same seed."""
    layer = dj.nn.TransformerEncoderLayer(SIZE, 2, 16, dropout=0.3, batch_first=True)
    x = dj.from_numpy(SOURCE)
    dj.manual_seed(3)
    expected = layer(x).detach().numpy()
    dj.manual_seed(3)
    actual = dj.compile(layer, fullgraph=True)(x).detach().numpy()

    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(expected, layer(x).detach().numpy())


def test_layers_of_a_stack_are_copies() -> None:
    """They start alike and are apart."""
    layer = dj.nn.TransformerEncoderLayer(SIZE, 2, 16)
    stack = dj.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False, mask_check=False)
    first, second = stack.layers

    assert dj.equal(first.linear1.weight, second.linear1.weight)
    assert first.linear1.weight is not second.linear1.weight
    assert layer.linear1.weight is not first.linear1.weight


def test_custom_parts_are_used() -> None:
    """In place of encoder and decoder."""
    layer = dj.nn.TransformerEncoderLayer(SIZE, 2, 16, dropout=0.0)
    encoder = dj.nn.TransformerEncoder(layer, 1)
    model = dj.nn.Transformer(SIZE, 2, 6, 1, 16, custom_encoder=encoder)

    assert model.encoder is encoder
    assert 1 == len(model.decoder.layers)


def test_repr_and_first_values_are_pytorchs() -> None:
    """Matrices by Xavier's bound, every layer with the same names."""
    made = [library.nn.Transformer(SIZE, 2, 1, 1, 16) for library in (torch, dj)]
    assert repr(made[0]) == repr(made[1])
    dj.manual_seed(0)
    weight = dj.nn.Transformer(64, 2, 1, 1, 256).encoder.layers[0].linear1.weight
    bound = (6 / (64 + 256)) ** 0.5
    assert 0.95 * bound < weight.abs().max().item() <= bound


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_causal_mask_is_pytorchs(dtype: str) -> None:
    """-inf above the diagonal, in the dtype that is asked for."""
    masks = [
        library.nn.Transformer.generate_square_subsequent_mask(4, dtype=getattr(library, dtype))
        for library in (torch, dj)
    ]
    assert masks[0].float().tolist() == masks[1].float().tolist()
    assert getattr(dj, dtype) is masks[1].dtype
    assert (0, 0) == tuple(dj.nn.Transformer.generate_square_subsequent_mask(0).shape)


def test_what_does_not_fit_is_refused() -> None:
    """RuntimeErrors, as in PyTorch."""
    model = dj.nn.Transformer(SIZE, 2, 1, 1, 16)
    with pytest.raises(ShapeError, match="batch number of src and tgt must be equal"):
        model(dj.zeros(4, 2, SIZE), dj.zeros(4, 3, SIZE))
    with pytest.raises(ShapeError, match="feature number of src and tgt must be equal to d_model"):
        model(dj.zeros(4, 2, SIZE), dj.zeros(4, 2, 6))
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        dj.nn.TransformerEncoderLayer(SIZE, 2, activation="tanh")
