"""User-written operations."""

import numpy as np
import pytest

from dynajit.core.errors import ArgumentError, AutogradError
from dynajit.eager.backward import engine as tape
from dynajit.eager.backward.function import Function, once_differentiable
from dynajit.eager.backward.gradcheck import gradcheck, gradgradcheck
from dynajit.eager.modes.grad_mode import is_grad_enabled, no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3.0 * x * x


class ExpKeepingTheResult(Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        return g * out


class SplitInTwo(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor, x + factor

    @staticmethod
    def backward(ctx, first, second):
        ctx.seen = first, second
        SplitInTwo.seen = first, second
        return first * ctx.factor + second, None


def leaf(*values: float) -> Tensor:
    return tensor(list(values), dtype=None, requires_grad=True)


def double(*values: float) -> Tensor:
    return tensor(np.array(values), requires_grad=True)


def test_the_derivative_is_the_users() -> None:
    x = leaf(2.0, 3.0)
    y = Cube.apply(x)
    y.sum().backward()

    assert ("CubeBackward", [12.0, 27.0]) == (y.grad_fn.name(), x.grad.tolist())


def test_forward_runs_unrecorded() -> None:
    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.enabled = is_grad_enabled()
            Look.enabled = ctx.enabled
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g

    Look.apply(leaf(1.0))

    assert not Look.enabled


@pytest.mark.parametrize("function", [Cube, ExpKeepingTheResult])
def test_first_and_second_derivatives_agree_with_differences(function: type[Function]) -> None:
    x = double(0.5, -1.5, 2.0)

    assert gradcheck(function.apply, x)
    assert gradgradcheck(function.apply, x)


def test_several_outputs_and_plain_arguments() -> None:
    x = leaf(1.0, 2.0)
    scaled, shifted = SplitInTwo.apply(x, 4.0)
    (scaled * 2.0 + shifted).sum().backward()

    assert [9.0, 9.0] == x.grad.tolist()


def test_gradients_of_unused_outputs_are_zeros() -> None:
    x = leaf(1.0, 2.0)
    scaled, _ = SplitInTwo.apply(x, 4.0)
    scaled.sum().backward()

    assert [0.0, 0.0] == SplitInTwo.seen[1].tolist()


def test_gradients_of_unused_outputs_are_none_if_asked() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1.0, x * 2.0

        @staticmethod
        def backward(ctx, first, second):
            Two.second = second
            return first

    x = leaf(1.0)
    Two.apply(x)[0].sum().backward()

    assert Two.second is None


def test_setup_context_is_the_other_way_to_save() -> None:
    class Square(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * 2.0 * ctx.saved_tensors[0]

    x = leaf(3.0)
    Square.apply(x).sum().backward()

    assert [6.0] == x.grad.tolist()


def test_needs_input_grad_says_which_inputs_matter() -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            Product.needs = ctx.needs_input_grad
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g, g

    Product.apply(leaf(1.0), tensor([1.0]))

    assert (True, False) == Product.needs


def test_nothing_is_recorded_without_gradients() -> None:
    with no_grad():
        y = Cube.apply(leaf(1.0))

    assert (None, None) == (y.grad_fn, Cube.apply(tensor([1.0])).grad_fn)


def test_non_differentiable_outputs_require_no_gradient() -> None:
    class Largest(Function):
        @staticmethod
        def forward(ctx, x):
            mask = x * 0.0
            ctx.mark_non_differentiable(mask)
            return x * 2.0, mask

        @staticmethod
        def backward(ctx, g, unused):
            return g * 2.0

    value, mask = Largest.apply(leaf(1.0))

    assert (True, False) == (value.requires_grad, mask.requires_grad)


def test_a_dirty_input_gets_the_history() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    x = leaf(1.0)
    y = x * 3.0
    result = Double.apply(y)
    y.sum().backward()

    assert (True, [6.0]) == (result is y, x.grad.tolist())


def test_a_dirty_leaf_is_refused() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    with pytest.raises(AutogradError, match="leaf Variable"):
        Double.apply(leaf(1.0))


def test_returning_an_input_makes_a_new_tensor() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5.0

    x = leaf(1.0)
    y = Same.apply(x)
    y.sum().backward()

    assert (False, True, [5.0]) == (y is x, x.is_leaf, x.grad.tolist())


def test_saving_something_else_than_tensors_is_refused() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)

    with pytest.raises(ArgumentError, match="can only save variables, but got int"):
        Wrong.apply(leaf(1.0))


def test_a_write_to_a_saved_input_is_noticed() -> None:
    x = leaf(1.0)
    y = x * 1.0
    z = Cube.apply(y)
    y.add_(1.0)
    with pytest.raises(AutogradError, match="modified by an inplace"):
        z.sum().backward()


def test_second_backward_is_refused() -> None:
    y = Cube.apply(leaf(1.0)).sum()
    y.backward()
    with pytest.raises(AutogradError, match="second time"):
        y.backward()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda g: (g, g, g), "incorrect number of gradients"),
        (lambda g: (g, g), "gradient different than None at position 2"),
        (lambda g: (3.0, None), "Expected a Tensor or None"),
        (lambda g: (tensor([1.0, 2.0, 3.0]), None), "invalid gradient at index 0"),
    ],
)
def test_wrong_gradients_are_refused(returned: object, message: str) -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, number):
            return x * number

        @staticmethod
        def backward(ctx, g):
            return returned(g)

    with pytest.raises(AutogradError, match=message):
        Wrong.apply(leaf(1.0, 2.0), 2.0).sum().backward()


def test_once_differentiable_refuses_a_second_derivative() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2.0 * ctx.saved_tensors[0]

    x = leaf(3.0)
    start = leaf(1.0)
    (g,) = tape.grad(Once.apply(x), x, start, create_graph=True)
    assert [6.0] == g.tolist()
    with pytest.raises(AutogradError, match="once_differentiable"):
        g.sum().backward()


def test_missing_methods_are_named() -> None:
    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(leaf(1.0))


class HandsOn(Function):
    """Gives what lies in a container as it is."""

    @staticmethod
    def forward(ctx, box):
        return box[0], box[1] * 2.0

    @staticmethod
    def backward(ctx, *gradients):
        return None


def test_without_an_input_that_requires_grad_no_output_has_a_history() -> None:
    """Also not a tensor that forward took from elsewhere: it is detached, as in PyTorch."""
    leaf, other = tensor([1.0], requires_grad=True), tensor([1.0], requires_grad=True)
    given, computed = HandsOn.apply((leaf, other))

    assert given is leaf
    assert [False, False, True] == [leaf.requires_grad, computed.requires_grad, other.requires_grad]


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_an_input_that_is_given_back_without_history_is_an_alias() -> None:
    x = tensor([1.0], requires_grad=True)
    with no_grad():
        y = Same.apply(x)
    y.add_(1.0)

    assert y is not x
    assert [True, False] == [x.requires_grad, y.requires_grad]
    assert [2.0] == x.tolist()


def test_outputs_that_are_marked_as_not_differentiable_have_no_history() -> None:
    x, kept = tensor([1.0], requires_grad=True), tensor([1.0], requires_grad=True)

    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x, kept)
            return x * 2.0, x, kept

        @staticmethod
        def backward(ctx, gradient, *others):
            return gradient

    doubled, alias, given = Marked.apply(x)

    assert given is kept and alias is not x
    assert [True, False, False] == [y.requires_grad for y in (doubled, alias, given)]
    assert x.requires_grad
