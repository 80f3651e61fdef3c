"""Attention in several heads against PyTorch: every option, forward and backward, and compiled."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ExpectationError, InvalidValueError, ShapeError

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
LENGTH, SOURCES, BATCH, SIZE = 5, 7, 3, 8


def drawn(*shape: int) -> np.ndarray:
    """Standard normal float32."""
    return RANDOM.standard_normal(shape).astype(np.float32)


QUERY, KEY, VALUE = (drawn(n, BATCH, SIZE) for n in (LENGTH, SOURCES, SOURCES))
NARROW_KEY, NARROW_VALUE = drawn(SOURCES, BATCH, 6), drawn(SOURCES, BATCH, 4)
PADDING = np.arange(SOURCES) >= np.array([[4], [7], [6]])
FORBIDDEN = np.arange(SOURCES) > np.arange(LENGTH)[:, None]
ADDED = drawn(BATCH * 2, LENGTH, SOURCES)

MASKS: dict[str, dict[str, np.ndarray]] = {
    "none": {},
    "padding": {"key_padding_mask": PADDING},
    "added padding": {"key_padding_mask": drawn(BATCH, SOURCES)},
    "mask": {"attn_mask": FORBIDDEN},
    "added mask": {"attn_mask": drawn(LENGTH, SOURCES)},
    "mask per head": {"attn_mask": ADDED},
    "bool mask per head": {"attn_mask": ADDED > 1},
    "both": {"key_padding_mask": PADDING, "attn_mask": FORBIDDEN},
    "both, added": {"key_padding_mask": drawn(BATCH, SOURCES), "attn_mask": ADDED},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "added key": {"add_bias_kv": True},
    "zero key": {"add_zero_attn": True},
    "all keys": {"add_bias_kv": True, "add_zero_attn": True},
    "sizes": {"kdim": 6, "vdim": 4},
}


def pair(**options: Any) -> tuple[Any, Any]:
    """A layer of PyTorch's and ours with its state, in evaluation."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(SIZE, 2, **options)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    ours = dj.nn.MultiheadAttention(SIZE, 2, **options)
    state = {name: dj.from_numpy(value.numpy()) for name, value in theirs.state_dict().items()}
    ours.load_state_dict(state, strict=True)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    return theirs, ours


def attended(library: Any, layer: Any, arrays: list[np.ndarray], **options: Any) -> list[Any]:
    """Output, weights, and the gradients of inputs and parameters, as arrays."""
    tensors = [library.from_numpy(array.copy()).requires_grad_() for array in arrays]
    options = {
        name: library.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
        for name, value in options.items()
    }
    output, weights = layer(*tensors, **options)
    total = (output * output).sum()
    if weights is not None:
        total = total + (weights * weights).sum()
    total.backward()
    found = [output, weights, *(t.grad for t in tensors), *(p.grad for p in layer.parameters())]
    return [None if x is None else x.detach().numpy() for x in found]


def assert_equal(expected: list[Any], actual: list[Any], **tolerance: float) -> None:
    """Arrays within rounding; None where None is."""
    for theirs, ours in zip(expected, actual, strict=True):
        assert (theirs is None) == (ours is None)
        if theirs is not None:
            assert theirs.shape == ours.shape
            np.testing.assert_allclose(ours, theirs, **(tolerance or {"rtol": 1e-4, "atol": 1e-4}))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_gives_pytorchs_numbers(options: str, masks: str, need_weights: bool) -> None:
    """Output, weights and every gradient."""
    theirs, ours = pair(**OPTIONS[options])
    arrays = [QUERY, KEY, VALUE]
    if options == "sizes":
        arrays = [QUERY, NARROW_KEY, NARROW_VALUE]
    given = {"need_weights": need_weights, "average_attn_weights": False, **MASKS[masks]}

    expected = attended(torch, theirs, arrays, **given)
    assert_equal(expected, attended(dj, ours, arrays, **given))


@pytest.mark.parametrize("is_averaged", [False, True])
def test_batch_first_turns_operands_not_weights(is_averaged: bool) -> None:
    """(N, L, E), with weights (N, L, S) or (N, heads, L, S)."""
    theirs, ours = pair(batch_first=True)
    arrays = [array.swapaxes(0, 1).copy() for array in (QUERY, KEY, VALUE)]
    given = {"average_attn_weights": is_averaged, **MASKS["both"]}

    expected = attended(torch, theirs, arrays, **given)
    assert (BATCH, LENGTH, SIZE) == expected[0].shape
    assert_equal(expected, attended(dj, ours, arrays, **given))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_no_batch_is_no_dim(batch_first: bool, need_weights: bool) -> None:
    """(L, E) and a padding mask (S)."""
    theirs, ours = pair(batch_first=batch_first)
    arrays = [array[:, 0].copy() for array in (QUERY, KEY, VALUE)]
    given = {"need_weights": need_weights, "key_padding_mask": PADDING[0], "attn_mask": FORBIDDEN}

    expected = attended(torch, theirs, arrays, **given)
    assert (LENGTH, SIZE) == expected[0].shape
    assert_equal(expected, attended(dj, ours, arrays, **given))


@pytest.mark.parametrize("count", [1, 2])
def test_one_tensor_for_several_operands_is_projected_alike(count: int) -> None:
    """Query, key and value of one tensor, and key and value of one."""
    theirs, ours = pair()

    def gradients(library: Any, layer: Any) -> list[Any]:
        made = [library.from_numpy(array.copy()).requires_grad_() for array in (QUERY, KEY)]
        query, key = made[0], made[0] if count == 1 else made[1]
        output, _ = layer(query, key, key, need_weights=False)
        output.square().sum().backward()
        found = [output, *(t.grad for t in made[:count]), layer.in_proj_weight.grad]
        return [x.detach().numpy() for x in found]

    assert_equal(gradients(torch, theirs), gradients(dj, ours))


CAUSAL = np.triu(np.full((LENGTH, LENGTH), -np.inf, np.float32), 1)


@pytest.mark.parametrize(
    "given",
    [
        {"need_weights": False, "attn_mask": np.zeros_like(CAUSAL)},
        {"need_weights": True, "attn_mask": CAUSAL},
        {
            "need_weights": False,
            "attn_mask": CAUSAL,
            "key_padding_mask": np.where(PADDING[:, :LENGTH], -np.inf, 0).astype(np.float32),
        },
    ],
    ids=["hint alone", "with weights", "with padding"],
)
def test_the_causal_hint_spares_the_mask(given: dict[str, Any]) -> None:
    """Without weights and padding it is not read, whatever it says; otherwise it is added."""
    theirs, ours = pair()
    arrays = [QUERY, KEY[:LENGTH], VALUE[:LENGTH]]

    expected = attended(torch, theirs, arrays, is_causal=True, **given)
    assert_equal(expected, attended(dj, ours, arrays, is_causal=True, **given))


def test_a_query_without_keys_is_zero_or_nan() -> None:
    """Zeros before the last projection where weights are not wanted; NaN where they are."""
    theirs, ours = pair()
    nothing = {"key_padding_mask": np.ones((BATCH, SOURCES), bool)}
    for need_weights in (False, True):
        given = {"need_weights": need_weights, **nothing}
        expected = attended(torch, theirs, [QUERY, KEY, VALUE], **given)[:2]
        assert_equal(expected, attended(dj, ours, [QUERY, KEY, VALUE], **given)[:2])
        assert need_weights == bool(np.isnan(expected[0]).all())


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_dtypes_are_kept(dtype: str) -> None:
    """Output and weights in the dtype of the layer."""
    theirs, ours = pair()
    given = {"key_padding_mask": torch.from_numpy(PADDING)}
    tensors = [torch.from_numpy(a).to(getattr(torch, dtype)) for a in (QUERY, KEY, VALUE)]
    with torch.no_grad():
        output, weights = theirs.to(getattr(torch, dtype))(*tensors, **given)
    tensors = [dj.from_numpy(a).to(getattr(dj, dtype)) for a in (QUERY, KEY, VALUE)]
    our_output, our_weights = ours.to(getattr(dj, dtype))(
        *tensors, key_padding_mask=dj.from_numpy(PADDING)
    )

    close = 1e-6 if dtype == "float64" else 0.05
    for expected, actual in ((output, our_output), (weights, our_weights)):
        assert dtype == str(actual.dtype).removeprefix("torch.").removeprefix("dynajit.")
        np.testing.assert_allclose(
            actual.detach().float().numpy(), expected.float().numpy(), rtol=close, atol=close
        )


def test_dropout_drops_weights_in_training_alone() -> None:
    """A share of the weights is 0 and the others are scaled; none in evaluation."""
    layer = dj.nn.MultiheadAttention(SIZE, 2, dropout=0.5)
    x = dj.ones(40, 2, SIZE)
    dj.manual_seed(0)
    _, weights = layer(x, x, x, average_attn_weights=False)
    share = (weights == 0).float().mean().item()
    assert 0.4 < share < 0.6
    np.testing.assert_allclose(weights[weights != 0].detach().numpy(), 2 / 40, rtol=1e-5)

    dj.manual_seed(0)
    first, _ = layer(x, x, x, need_weights=False)
    second, _ = layer(x, x, x, need_weights=False)
    assert not dj.equal(first, second)
    layer.eval()
    _, weights = layer(x, x, x)
    np.testing.assert_allclose(weights.detach().numpy(), 1 / 40, rtol=1e-5)


def test_static_keys_replace_projected_ones() -> None:
    """The function alone takes them: (N * heads, S, E / heads)."""
    theirs, ours = pair()
    static = [drawn(BATCH * 2, 4, SIZE // 2) for _ in range(2)]

    def found(library: Any, layer: Any) -> list[Any]:
        function = library.nn.functional.multi_head_attention_forward
        tensors = [library.from_numpy(a) for a in (QUERY, KEY, VALUE, *static)]
        output, weights = function(
            *tensors[:3], SIZE, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, True, 0.0,
            layer.out_proj.weight, layer.out_proj.bias, static_k=tensors[3], static_v=tensors[4],
        )  # fmt: skip
        return [output.detach().numpy(), weights.detach().numpy()]

    assert_equal(found(torch, theirs), found(dj, ours))


@pytest.mark.parametrize("need_weights", [False, True])
def test_compiled_layers_give_the_same_numbers(need_weights: bool) -> None:
    """In one graph, gradients too."""
    _, ours = pair(add_bias_kv=True, batch_first=True)
    arrays = [array.swapaxes(0, 1).copy() for array in (QUERY, KEY, VALUE)]
    given = {"need_weights": need_weights, **MASKS["both"]}
    expected = attended(dj, ours, arrays, **given)
    ours.zero_grad()

    actual = attended(dj, dj.compile(ours, fullgraph=True), arrays, **given)
    assert_equal(expected, actual, rtol=1e-4, atol=1e-5)


def test_first_weights_lie_within_pytorchs_bounds() -> None:
    """Xavier's bounds for the projections, zeros for the biases."""
    dj.manual_seed(0)
    layer = dj.nn.MultiheadAttention(64, 2, add_bias_kv=True)
    bound = (6 / (4 * 64)) ** 0.5

    assert 0.95 * bound < layer.in_proj_weight.abs().max().item() <= bound
    assert 0.95 / 8 < layer.out_proj.weight.abs().max().item() <= 1 / 8
    assert 0 == layer.in_proj_bias.abs().max().item() == layer.out_proj.bias.abs().max().item()
    # As many in as out: (1, 1, 64) counts 64 of each.
    assert 0.07 < layer.bias_k.std().item() < 0.18
    assert repr(torch.nn.MultiheadAttention(64, 2)) == repr(dj.nn.MultiheadAttention(64, 2))


REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "rank": ({"query": (2, 2, 2, SIZE)}, ExpectationError),
    "rank of key": ({"key": (SOURCES, SIZE)}, ExpectationError),
    "features": ({"query": (LENGTH, BATCH, 6)}, ExpectationError),
    "key and value": ({"key": (4, BATCH, SIZE)}, ExpectationError),
    "padding": ({"key_padding_mask": (BATCH, 4)}, ExpectationError),
    "rank of padding": ({"key_padding_mask": (SOURCES,)}, ExpectationError),
    "mask": ({"attn_mask": (4, SOURCES)}, ShapeError),
    "mask per head": ({"attn_mask": (2, LENGTH, SOURCES)}, ShapeError),
    "rank of mask": ({"attn_mask": (SOURCES,)}, ExpectationError),
    "causal": ({"is_causal": True}, ShapeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_pytorchs_class(name: str) -> None:
    """ExpectationError where PyTorch asserts, ShapeError where it raises RuntimeError."""
    changes, error = REFUSED[name]
    theirs, ours = pair()

    def call(library: Any, layer: Any) -> Any:
        shapes = {"query": QUERY.shape, "key": KEY.shape, "value": VALUE.shape, **changes}
        return layer(**{
            k: library.zeros(*v) if isinstance(v, tuple) else v for k, v in shapes.items()
        })  # fmt: skip

    with pytest.raises((AssertionError, RuntimeError)) as expected:
        call(torch, theirs)
    with pytest.raises(error) as actual:
        call(dj, ours)
    assert isinstance(actual.value, type(expected.value))


def test_integer_masks_and_wrong_sizes_are_refused() -> None:
    """When called, and when made."""
    _, ours = pair()
    x = dj.zeros(LENGTH, BATCH, SIZE)
    with pytest.raises(ExpectationError, match="only bool and floating types of attn_mask"):
        ours(x, x, x, attn_mask=dj.zeros(LENGTH, LENGTH, dtype=dj.int64))
    with pytest.raises(ExpectationError, match="divisible by num_heads"):
        dj.nn.MultiheadAttention(9, 2)
    with pytest.raises(InvalidValueError, match="greater than 0"):
        dj.nn.MultiheadAttention(0, 2)
