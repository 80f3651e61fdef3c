"""Anomaly detection points at the forward call."""

import pytest

from dynajit.core.errors import AutogradError
from dynajit.eager.backward.function import Function
from dynajit.eager.tape.anomaly import detect_anomaly, is_detecting, set_detect_anomaly
from dynajit.eager.tensor.creation import tensor


class Failing(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        raise KeyError("in backward")


def test_nan_in_backward_names_the_operation_and_the_line() -> None:
    x = tensor([0.0], requires_grad=True)
    with detect_anomaly(), pytest.raises(AutogradError, match="returned nan values") as caught:
        (x.sqrt() * 0.0).sum().backward()  # the line to be shown

    assert "the line to be shown" in caught.value.__notes__[0]
    assert "eager/" not in caught.value.__notes__[0].replace("tests/eager", "")


def test_errors_in_backward_say_where_the_node_was_made() -> None:
    with detect_anomaly(check_nan=False), pytest.raises(KeyError) as caught:
        Failing.apply(tensor([1.0], requires_grad=True)).sum().backward()

    assert "FailingBackward was made" in caught.value.__notes__[0]


def test_nan_passes_without_detection() -> None:
    x = tensor([0.0], requires_grad=True)
    (x.sqrt() * 0.0).sum().backward()

    assert x.grad.isnan().item()


def test_detection_ends_with_the_block() -> None:
    with detect_anomaly():
        assert is_detecting()
    with set_detect_anomaly(True, check_nan=False):
        assert is_detecting() is False

    assert is_detecting() is None
