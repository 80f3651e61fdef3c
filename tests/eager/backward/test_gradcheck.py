"""Finite differences find wrong derivatives; every differentiable row passes them."""

import numpy as np
import pytest

from dynajit.core.errors import ArgumentError, AutogradError
from dynajit.eager.backward.function import Function
from dynajit.eager.backward.gradcheck import gradcheck, gradgradcheck
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.table.op_table import TABLE, Kind


class WrongSquare(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 3.0 * ctx.saved_tensors[0]


def double(*values: float) -> Tensor:
    return tensor(np.array(values), requires_grad=True)


def test_a_right_derivative_passes() -> None:
    assert gradcheck(lambda x: x * x, double(1.0, 2.0))


def test_a_wrong_derivative_shows_both_jacobians() -> None:
    with pytest.raises(AutogradError, match=r"(?s)Jacobian mismatch.*numerical.*analytical"):
        gradcheck(WrongSquare.apply, double(1.0, 2.0))


def test_without_exception_the_answer_is_false() -> None:
    assert not gradcheck(WrongSquare.apply, double(1.0, 2.0), raise_exception=False)


def test_a_wrong_second_derivative_is_found() -> None:
    class HalfRight(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3.0 * (x * x).detach()

    assert gradcheck(HalfRight.apply, double(1.0, 2.0))
    assert not gradgradcheck(HalfRight.apply, double(1.0, 2.0), raise_exception=False)


def test_several_inputs_and_outputs() -> None:
    assert gradcheck(lambda x, n, y: (x * y * n, x + y), (double(1.0, 2.0), 3.0, double(4.0)))


def test_an_input_must_require_a_gradient() -> None:
    with pytest.raises(ArgumentError, match="at least one input"):
        gradcheck(lambda x: x, tensor([1.0]))


def test_single_precision_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda x: x * 1.0, tensor([1.0], requires_grad=True), eps=1e-2, atol=1e-2)


def test_a_detached_function_is_found_out() -> None:
    with pytest.raises(AutogradError, match="no output requires grad"):
        gradcheck(lambda x: (x * x).detach(), double(1.0, 2.0))


UNARY = [
    op
    for op in TABLE
    if op.kind is Kind.POINTWISE
    and op.inputs == ("x",)
    and not op.attributes
    and op.vjp.get("x") is not None
]


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_unary_rows_have_right_first_and_second_derivatives(op) -> None:
    low, high = op.domain
    points = np.array([0.13, 0.41, 0.77]) * (high - low) + low

    assert gradcheck(op, tensor(points, requires_grad=True))
    assert gradgradcheck(op, tensor(points, requires_grad=True))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "atan2"])
def test_binary_rows_have_right_derivatives_under_broadcasting(name: str) -> None:
    x = tensor(np.array([[0.3], [1.7]]), requires_grad=True)
    y = tensor(np.array([0.5, 0.9, 2.1]), requires_grad=True)

    assert gradcheck(TABLE[name], (x, y))
    assert gradgradcheck(TABLE[name], (x, y))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(),
        lambda x: x.prod(0),
        lambda x: x.amax(1),
        lambda x: x.mean(0),
        lambda x: x.var(1),
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(0),
        lambda x: x[:, 1:],
        lambda x: x[1],
        lambda x: x[:, ::2],
        lambda x: x[[0, 1, 0]],
        lambda x: x.T,
        lambda x: x.flip(0),
        lambda x: x.reshape(-1),
        lambda x: x.expand(4, 2, 3),
        lambda x: x @ x.T,
        lambda x: x.tril(),
        lambda x: x.cumsum(1),
    ],
)
def test_methods_have_right_derivatives(function) -> None:
    x = tensor(np.random.default_rng(0).uniform(0.5, 2.0, (2, 3)), requires_grad=True)

    assert gradcheck(function, x, check_forward_ad=True)
    assert gradgradcheck(function, x, check_fwd_over_rev=True)


class Cube(Function):
    """A function of the program, whose tangent may be wrong."""

    factor = 3.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return Cube.factor * x * x * t


def test_a_wrong_tangent_is_found_where_it_is_asked_for(monkeypatch) -> None:
    x = double(1.0, 2.0)
    assert gradcheck(Cube.apply, x, check_forward_ad=True)
    assert gradgradcheck(Cube.apply, x, check_fwd_over_rev=True, check_rev_over_rev=False)
    monkeypatch.setattr(Cube, "factor", 2.0)
    assert gradcheck(Cube.apply, x)
    with pytest.raises(RuntimeError, match="computed with forward mode mismatch for output 0"):
        gradcheck(Cube.apply, x, check_forward_ad=True)
    assert not gradcheck(
        Cube.apply, x, check_forward_ad=True, check_backward_ad=False, raise_exception=False
    )


def test_forward_mode_is_checked_of_complex_numbers_and_several_inputs() -> None:
    draw = np.random.default_rng(0)
    x, y = (
        tensor(draw.standard_normal((2, 2)) + 1j * draw.standard_normal((2, 2)), requires_grad=True)
        for _ in range(2)
    )

    def function(x, y):
        return x.abs() @ y.real, (x * y.conj()).sin(), x.shape[0]

    assert gradcheck(function, (x, y), check_forward_ad=True)
    assert gradgradcheck(lambda x, y: function(x, y)[:2], (x, y), check_fwd_over_rev=True)


def test_options_of_pytorchs_are_taken_or_refused() -> None:
    x = double(1.0, 2.0)
    assert gradcheck(lambda x: x * x, x, fast_mode=True, check_undefined_grad=False)
    assert gradgradcheck(lambda x: x * x, x, fast_mode=True, gen_non_contig_grad_outputs=True)
    with pytest.raises(NotImplementedError, match="check_batched_grad"):
        gradcheck(lambda x: x * x, x, check_batched_grad=True)
    with pytest.raises(AssertionError, match="at least one"):
        gradcheck(lambda x: x * x, x, check_backward_ad=False)
    with pytest.raises(AssertionError, match="at least one"):
        gradgradcheck(lambda x: x * x, x, check_rev_over_rev=False)
