"""PyTorch's private parts of attention, as copies of it call them."""

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")
F, G = dj.nn.functional, torch.nn.functional

DRAW = np.random.default_rng(0)
Q, K = (DRAW.standard_normal((2, 4, 3)).astype(np.float32) for _ in range(2))
W, B = DRAW.standard_normal((9, 3)).astype(np.float32), DRAW.standard_normal(9).astype(np.float32)


@pytest.mark.parametrize("pattern", ["self", "encoder", "apart"])
@pytest.mark.parametrize("bias", [B, None])
def test_packed_projections_are_those_of_pytorch(pattern: str, bias: object) -> None:
    results = []
    for library, functional in ((dj, F), (torch, G)):
        q, k, w = (library.tensor(x) for x in (Q, K, W))
        given = {"self": (q, q, q), "encoder": (q, k, k), "apart": (q, k, q)}[pattern]
        b = None if bias is None else library.tensor(bias)
        results.append(functional._in_projection_packed(*given, w, b))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)


def test_projections_apart_are_linear_functions() -> None:
    q, w = dj.tensor(Q), dj.tensor(W)
    found = F._in_projection(q, q, q, w[:3], w[3:6], w[6:], None, dj.tensor(B[:3]), None)

    assert [F.linear(q, w[:3]).tolist(), F.linear(q, w[3:6], dj.tensor(B[:3])).tolist()] == [
        x.tolist() for x in found[:2]
    ]


def test_masks_become_what_is_added_to_the_scores() -> None:
    mask = F._canonical_mask(dj.tensor([True, False]), "mask", None, "other", dj.float32)
    own = dj.tensor([0.5, 0.0])

    assert [float("-inf"), 0.0] == mask.tolist()
    assert own is F._canonical_mask(own, "mask", dj.float32, "other", dj.float32)
    assert F._canonical_mask(None, "mask", None, "other", dj.float32) is None
    with pytest.raises(AssertionError, match="only bool and floating types of mask"):
        F._canonical_mask(dj.tensor([1]), "mask", None, "other", dj.float32)
    with pytest.warns(UserWarning, match="mismatched mask and other"):
        F._canonical_mask(own, "mask", dj.bool, "other", dj.float32)


def test_dtypes_of_masks_are_asked_for() -> None:
    assert dj.float32 is F._none_or_dtype(dj.ones(1))
    assert F._none_or_dtype(None) is None
    with pytest.raises(RuntimeError, match="must be None or"):
        F._none_or_dtype(3)


def test_plain_tensors_override_nothing() -> None:
    assert not F.has_torch_function((dj.ones(1),))
    assert not F.has_torch_function_unary(dj.ones(1))
    assert not F.has_torch_function_variadic(dj.ones(1), dj.ones(1))
    assert F.handle_torch_function is dj.overrides.handle_torch_function
