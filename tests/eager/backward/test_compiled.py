"""Programs over arrays as calls over tensors."""

import numpy as np
import pytest

from dynajit.core.errors import AutogradError
from dynajit.eager.backward import engine as tape
from dynajit.eager.backward.compiled import CompiledCall
from dynajit.eager.backward.training import Training
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor


class Programs:
    """z = sin(x * y * k), and x * y as a second, differentiable output."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def forward(self, x, y, k):
        self.log.append("forward")
        product = x * y
        cosine = np.cos(product * k)
        return np.sin(product * k), product, x, y, k, cosine, product

    def backward(self, x, y, k, cosine, product, gz, gp):
        self.log.append("backward")
        assert gz.flags.c_contiguous
        inner = gz * cosine * k + gp
        return inner * y, inner * x

    def replay(self, x, y, k):
        self.log.append("replay")
        product = x * y
        return (product * k).sin(), product

    def part(self, positions):
        def replay(*operands):
            found = self.replay(*operands)
            return [found[position] for position in positions]

        return replay

    def call(self, inference=None):
        facts = Training(
            forward=self.forward,
            backward=self.backward,
            output_count=2,
            differentiable_outputs=(0, 1),
            saved_inputs=(0, 1, 2, None, None),
            saved_outputs=(None, None, None, None, 1),
            requires_grad=(True, True, False),
            replay=lambda positions: (frozenset({0, 1, 2}), self.part(positions)),
            without=lambda absent: self.backward,
            inference=inference,
        )
        return CompiledCall.training(facts)


def operands() -> tuple[Tensor, Tensor, float]:
    x = tensor(np.array([0.1, 0.2, 0.3]), requires_grad=True)
    y = tensor(np.array([1.0, -2.0, 3.0]), requires_grad=True)
    return x, y, 0.5


def gradients(call) -> list[list[float]]:
    x, y, k = operands()
    z, product = call(x, y, k)
    (z * 2.0 + product * product).sum().backward()
    return [z.tolist(), product.tolist(), x.grad.tolist(), y.grad.tolist()]


def test_outputs_and_gradients_are_those_of_eager() -> None:
    programs = Programs()
    np.testing.assert_allclose(gradients(Programs().replay), gradients(programs.call()))

    assert ["forward", "backward"] == programs.log


def test_an_unused_output_has_a_zero_gradient() -> None:
    x, y, k = operands()
    _, product = Programs().call()(x, y, k)
    product.sum().backward()

    assert y.tolist() == x.grad.tolist()


def test_without_gradients_nothing_is_recorded() -> None:
    programs = Programs()
    x, y, k = operands()
    with no_grad():
        z, product = programs.call()(x, y, k)

    assert (None, None, ["forward"]) == (z.grad_fn, product.grad_fn, programs.log)


def test_the_inference_program_runs_where_nothing_is_recorded() -> None:
    programs = Programs()
    x, y, k = operands()
    call = programs.call(inference=lambda x, y, k: (x, y))
    first, second = call(x.detach(), y.detach(), k)

    assert (x.tolist(), y.tolist(), []) == (first.tolist(), second.tolist(), programs.log)


def test_an_inference_call_keeps_literal_outputs() -> None:
    call = CompiledCall.inference(lambda x, n: (x + n, 3, None, True))
    result = call(tensor([1.0]), 2)

    assert ([3.0], 3, None, True) == (result[0].tolist(), *result[1:])


def test_second_backward_is_refused_and_a_retained_graph_works() -> None:
    x, y, k = operands()
    z, _ = Programs().call()(x, y, k)
    total = z.sum()
    total.backward(retain_graph=True)
    total.backward()
    with pytest.raises(AutogradError, match="second time"):
        total.backward()


def test_a_write_to_a_saved_input_is_noticed() -> None:
    x, y, k = operands()
    z, _ = Programs().call()(x * 1.0, y, k)
    with no_grad():
        y.add_(1.0)
    with pytest.raises(AutogradError, match="modified by an inplace"):
        z.sum().backward()


def test_a_write_to_an_output_that_is_saved_is_noticed() -> None:
    x, y, k = operands()
    z, product = Programs().call()(x, y, k)
    product.zero_()
    with pytest.raises(AutogradError, match="modified by an inplace"):
        z.sum().backward()


def test_double_backward_replays_the_graph() -> None:
    results = []
    for call in (Programs().replay, Programs().call()):
        x, y, k = operands()
        z, product = call(x, y, k)
        (first,) = tape.grad((z * product).sum(), x, create_graph=True)
        second = tape.grad((first * first).sum(), [x, y])
        results.append([first.tolist(), *(g.tolist() for g in second)])

    np.testing.assert_allclose(*results)


def test_double_backward_where_one_input_comes_from_another() -> None:
    results = []
    for call in (Programs().replay, Programs().call()):
        x, _, k = operands()
        z, product = call(x, x * 3.0, k)
        (first,) = tape.grad((z + product).sum(), x, create_graph=True)
        (second,) = tape.grad(first.sum(), x)
        results.append([first.tolist(), second.tolist()])

    np.testing.assert_allclose(*results)


def test_a_chain_of_calls() -> None:
    results = []
    for call in (Programs().replay, Programs().call()):
        x, y, k = operands()
        for _ in range(5):
            x, _ = call(x, y, k)
        (g,) = tape.grad(x.sum(), y)
        results.append(g.tolist())

    np.testing.assert_allclose(*results)
