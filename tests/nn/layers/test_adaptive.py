"""AdaptiveLogSoftmaxWithLoss: log probabilities, losses, gradients and predictions of PyTorch."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

CASES = [
    ([4], {}),
    ([2, 5], {"div_value": 2.0}),
    ([1, 2, 3], {"head_bias": True, "div_value": 1.5}),
    ([9], {"head_bias": True}),
]


def _pair(cutoffs: list[int], options: dict[str, Any]) -> tuple[Any, Any, Any]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 10, cutoffs, **options)
    ours = dj.nn.AdaptiveLogSoftmaxWithLoss(16, 10, cutoffs, **options)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    ours.load_state_dict({k: dj.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return torch, theirs, ours


def _close(expected: Any, actual: Any) -> None:
    np.testing.assert_allclose(expected.detach().numpy(), actual.detach().numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize(("cutoffs", "options"), CASES)
@pytest.mark.parametrize("targets", [list(range(10)), [0, 0], [9], [3, 9, 3, 1], []])
def test_losses_and_gradients_are_pytorchs(
    cutoffs: list[int], options: dict[str, Any], targets: list[int]
) -> None:
    """Whichever clusters the targets are in, one or all; an empty batch has no mean."""
    torch, theirs, ours = _pair(cutoffs, options)
    x = np.random.default_rng(2).normal(size=(len(targets), 16)).astype("float32")
    their_x, our_x = torch.tensor(x, requires_grad=True), dj.tensor(x, requires_grad=True)
    expected = theirs(their_x, torch.tensor(targets, dtype=torch.int64))
    actual = ours(our_x, dj.tensor(targets, dtype=dj.int64))

    assert ("output", "loss") == actual._fields
    _close(expected.output, actual.output)
    _close(expected.loss, actual.loss)
    if not targets:
        return
    expected.loss.backward()
    actual.loss.backward()
    _close(their_x.grad, our_x.grad)
    for wanted, got in zip(theirs.parameters(), ours.parameters(), strict=True):
        assert (wanted.grad is None) == (got.grad is None)
        if wanted.grad is not None:
            _close(wanted.grad, got.grad)


@pytest.mark.parametrize(("cutoffs", "options"), CASES)
def test_all_log_probabilities_and_predictions_are_pytorchs(
    cutoffs: list[int], options: dict[str, Any]
) -> None:
    """For rows whose best class is frequent, rare, and both."""
    torch, theirs, ours = _pair(cutoffs, options)
    x = 3 * np.random.default_rng(4).normal(size=(40, 16)).astype("float32")
    for rows in (x, x[:1], x[:0]):
        _close(theirs.log_prob(torch.tensor(rows)), ours.log_prob(dj.tensor(rows)))
        expected = theirs.predict(torch.tensor(rows))
        assert expected.tolist() == ours.predict(dj.tensor(rows)).tolist()
    total = ours.log_prob(dj.tensor(x)).exp().sum(1)
    np.testing.assert_allclose(np.ones(40), total.detach().numpy(), 1e-5)


def test_a_single_input_has_a_single_target() -> None:
    """No dim of a batch: the output has none, either."""
    torch, theirs, ours = _pair([2, 5], {})
    x = np.ones(16, "float32")
    expected = theirs(torch.tensor(x), torch.tensor(7))
    actual = ours(dj.tensor(x), dj.tensor(7))

    assert () == tuple(actual.output.shape) == tuple(actual.loss.shape)
    _close(expected.output, actual.output)


@pytest.mark.parametrize("cutoffs", [[], [0], [10], [5, 3], [3, 3], [2.5], [-1]])
def test_wrong_cutoffs_are_refused(cutoffs: list[int]) -> None:
    """Empty, out of range, not rising, not whole."""
    torch = pytest.importorskip("torch")
    for library in (torch, dj):
        with pytest.raises(ValueError, match="cutoffs"):
            library.nn.AdaptiveLogSoftmaxWithLoss(16, 10, cutoffs)


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((2, 16), [1]),
        ((16,), [1]),
        ((1, 16), 1),
        ((1, 16), [[1]]),
        ((1, 16), [10]),
        ((2, 16), [1, -1]),
    ],
)
def test_wrong_inputs_are_refused(shape: tuple[int, ...], target: Any) -> None:
    """Sizes that do not fit, targets that are no classes: RuntimeError as in PyTorch."""
    torch, theirs, ours = _pair([2, 5], {})
    for library, layer in ((torch, theirs), (dj, ours)):
        with pytest.raises(RuntimeError):
            layer(library.ones(*shape), library.tensor(target))


def test_start_values_are_drawn_again() -> None:
    """`reset_parameters` reaches the head and both layers of each cluster."""
    layer = dj.nn.AdaptiveLogSoftmaxWithLoss(16, 10, [2, 5])
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    layer.reset_parameters()

    assert 5 == len(before)
    for old, new in zip(before, layer.parameters(), strict=True):
        assert not dj.equal(old, new)


def test_a_compiled_loss_is_the_plain_one() -> None:
    """Which rows a cluster has depends on the data: the graph breaks there."""
    layer = dj.nn.AdaptiveLogSoftmaxWithLoss(16, 10, [2, 5])
    compiled = dj.compile(layer, backend="eager")
    x = dj.randn(4, 16)
    for targets in ([0, 3, 9, 1], [0, 1, 0, 1], [9, 9, 9, 9]):
        target = dj.tensor(targets)
        assert dj.allclose(layer(x, target).output, compiled(x, target).output, atol=1e-6)
