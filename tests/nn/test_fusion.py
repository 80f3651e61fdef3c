"""Batch normalisation taken into the layer in front of it gives PyTorch's weights."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ExpectationError

torch = pytest.importorskip("torch")

LAYERS = {
    "conv1d": (lambda n: n.Conv1d(3, 4, 3), lambda n: n.BatchNorm1d(4), (2, 3, 7)),
    "conv2d": (lambda n: n.Conv2d(3, 4, 3, padding=1), lambda n: n.BatchNorm2d(4), (2, 3, 5, 5)),
    "no bias": (lambda n: n.Conv2d(3, 4, 3, bias=False), lambda n: n.BatchNorm2d(4), (2, 3, 5, 5)),
    "groups": (lambda n: n.Conv2d(4, 6, 3, groups=2), lambda n: n.BatchNorm2d(6), (2, 4, 5, 5)),
    "not affine": (
        lambda n: n.Conv2d(3, 4, 3), lambda n: n.BatchNorm2d(4, affine=False), (2, 3, 5, 5),
    ),
    "conv3d": (lambda n: n.Conv3d(2, 3, 2), lambda n: n.BatchNorm3d(3, eps=1e-3), (1, 2, 3, 3, 3)),
    "transposed": (
        lambda n: n.ConvTranspose2d(3, 4, 3, stride=2), lambda n: n.BatchNorm2d(4), (2, 3, 4, 4),
    ),
    "linear": (lambda n: n.Linear(5, 4), lambda n: n.BatchNorm1d(4), (6, 5)),
    "linear without a bias": (
        lambda n: n.Linear(5, 4, bias=False), lambda n: n.BatchNorm1d(4), (6, 5),
    ),
}  # fmt: skip


def pair(name: str) -> tuple[list[tuple[Any, Any]], np.ndarray]:
    """The layers of both libraries in evaluation, with equal random numbers, and an input."""
    make, make_norm, shape = LAYERS[name]
    rng = np.random.default_rng(2)
    state: dict[Any, Any] = {}
    pairs = []
    for t in (torch, dj):
        modules = (make(t.nn).eval(), make_norm(t.nn).eval())
        for place, module in enumerate(modules):
            for key, value in module.state_dict().items():
                if value.ndim == 0:
                    continue
                known = state.setdefault(
                    (place, key), (rng.random(tuple(value.shape)) + 0.5).astype(np.float32)
                )
                with t.no_grad():
                    value.copy_(t.from_numpy(known.copy()))
        pairs.append(modules)
    return pairs, rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", LAYERS)
def test_a_fused_layer_does_what_both_do(name: str) -> None:
    pairs, x = pair(name)
    found = []
    for t, (layer, norm) in zip((torch, dj), pairs, strict=True):
        before = layer.weight.tolist()
        if "linear" in name:
            fused = t.nn.utils.fusion.fuse_linear_bn_eval(layer, norm)
        else:
            fused = t.nn.utils.fuse_conv_bn_eval(layer, norm, transpose=name == "transposed")
        given = t.from_numpy(x.copy())
        np.testing.assert_allclose(
            fused(given).detach().numpy(), norm(layer(given)).detach().numpy(), atol=3e-5
        )
        assert layer.weight.tolist() == before
        assert type(fused) is type(layer)
        assert (fused.weight.requires_grad, fused.weight.is_leaf) == (True, True)
        found.append((fused.weight, fused.bias, fused.bias.requires_grad))
    for theirs, ours in zip(*found, strict=True):
        if isinstance(theirs, bool):
            assert theirs is ours
        else:
            np.testing.assert_allclose(theirs.detach().numpy(), ours.detach().numpy(), rtol=1e-5)


def test_weights_keep_their_dtype_and_whether_they_are_trained() -> None:
    for t in (torch, dj):
        ones = t.ones(4)
        weight, bias = t.nn.utils.fuse_conv_bn_weights(
            t.ones(4, 3, 2, 2, dtype=t.float16), None, ones, ones, 0.0, None, None
        )
        assert isinstance(weight, t.nn.Parameter)
        assert (weight.dtype, bias.dtype) == (t.float16, t.float16)
        assert (weight.requires_grad, bias.requires_grad) == (False, False)
        assert bias.tolist() == [-1.0] * 4


def test_what_is_no_fixed_scale_is_refused() -> None:
    for t in (torch, dj):
        n, fusion = t.nn, t.nn.utils.fusion
        refused = (
            lambda n, fusion: fusion.fuse_conv_bn_eval(n.Conv2d(3, 4, 3), n.BatchNorm2d(4).eval()),
            lambda n, fusion: fusion.fuse_conv_bn_eval(
                n.Conv2d(3, 4, 3).eval(), n.BatchNorm2d(4, track_running_stats=False).eval()
            ),
            lambda n, fusion: fusion.fuse_linear_bn_eval(
                n.Linear(3, 4).eval(), n.BatchNorm1d(3).eval()
            ),
        )
        for call in refused:
            with pytest.raises(AssertionError):
                call(n, fusion)
    with pytest.raises(ExpectationError, match="only for eval"):
        dj.nn.utils.fuse_linear_bn_eval(dj.nn.Linear(3, 4), dj.nn.BatchNorm1d(4))
