"""User-written operations."""

import importlib
from typing import Any

import numpy as np
import pytest

import dynajit as dj
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


def tripled(m: Any) -> Any:
    class Tripled(m.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None)
            ctx.factor = 3
            return x * 3

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * ctx.factor

    return Tripled


def torch_or_none() -> Any:
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


LIBRARIES = [m for m in (dj, torch_or_none()) if m is not None]


@pytest.mark.parametrize("m", LIBRARIES)
def test_a_node_has_the_name_of_its_function_and_what_its_context_has(m: Any) -> None:
    x = m.tensor([1.0, 2.0], requires_grad=True)
    node = tripled(m).apply(x).grad_fn
    saved, nothing = node.saved_tensors

    assert saved is x and nothing is None
    assert ("TripledBackward", "TripledBackward") == (type(node).__name__, node.name())
    assert (3, (True,)) == (node.factor, node.needs_input_grad)
    with pytest.raises(AttributeError, match="'TripledBackward' object has no attribute 'other'"):
        _ = node.other


@pytest.mark.parametrize("m", LIBRARIES)
def test_what_a_node_saved_is_gone_after_backward(m: Any) -> None:
    x = m.tensor([1.0, 2.0], requires_grad=True)
    y = tripled(m).apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = y.grad_fn.saved_tensors


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("m", LIBRARIES)
def test_older_names_of_contexts_warn(m: Any, compiled: bool) -> None:
    class Square(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_variables
            return 2 * x * g

    if compiled and m is not dj:
        pytest.skip("one compiler is tried")
    apply = m.compile(Square.apply) if compiled else Square.apply
    x = m.tensor([1.0, 3.0], requires_grad=True)
    with pytest.warns(DeprecationWarning, match="saved_tensors"):
        apply(x).sum().backward()
    assert [2.0, 6.0] == x.grad.tolist()


@pytest.mark.parametrize("m", LIBRARIES)
def test_a_node_has_what_it_saved_by_the_older_name_and_shared_storages_are_nothing(m: Any) -> None:
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            with pytest.warns(FutureWarning, match="mark_shared_storage"):
                ctx.mark_shared_storage((x, x))
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = m.tensor([1.0, 3.0], requires_grad=True)
    y = Same.apply(x)
    with pytest.warns(DeprecationWarning, match="saved_tensors"):
        assert y.grad_fn.saved_variables[0] is x


@pytest.mark.parametrize("m", LIBRARIES)
def test_a_function_has_backward_or_vjp(m: Any) -> None:
    def same(ctx: Any, gradient: Any) -> Any:
        return gradient

    class Neither(m.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

    class Backward(Neither):
        backward = staticmethod(same)

    class Vjp(Neither):
        vjp = staticmethod(same)

    class Both(Neither):
        backward = staticmethod(same)
        vjp = staticmethod(same)

    class Further(Backward):
        vjp = staticmethod(same)

    class Again(Vjp):
        vjp = staticmethod(same)

    x = m.ones(2, requires_grad=True)
    for function in (Backward, Vjp, Again):
        (gradient,) = m.autograd.grad(function.apply(x).sum(), x)
        assert [1.0, 1.0] == gradient.tolist()
    with pytest.raises(RuntimeError, match="must implement either the backward"):
        Neither.apply(x).sum().backward()
    for function in (Both, Further):
        with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
            function.apply(x).sum().backward()


def added_in_place(m: Any) -> Any:
    class Added(m.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            a.add_(b)
            ctx.mark_dirty(a)
            ctx.save_for_backward(a, b)
            return a

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            a, b = ctx.saved_tensors
            return gradient * a, gradient * b * 2

    return Added


@pytest.mark.parametrize("m", LIBRARIES)
def test_a_function_may_write_to_a_view(m: Any) -> None:
    """The base and its other views have the history of what was written."""
    leaf, b = m.tensor([1.0, 2.0, 3.0], requires_grad=True), m.full((2,), 4.0, requires_grad=True)
    base = leaf.clone()
    view, other = base[1:], base.view(3, 1)
    out = added_in_place(m).apply(view, b)
    assert out is view and type(base.grad_fn).__name__ == "CopySlices"
    (base * other[:, 0]).sum().backward()

    assert ([2.0, 6.0 * 12, 7.0 * 14], [8.0 * 12, 8.0 * 14]) == (
        leaf.grad.tolist(), b.grad.tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("m", LIBRARIES)
def test_a_function_may_write_to_a_view_of_what_requires_no_gradient(m: Any) -> None:
    base, b = m.zeros(3), m.full((2,), 4.0, requires_grad=True)
    added_in_place(m).apply(base[:2], b)
    assert base.requires_grad
    base.sum().backward()

    assert [8.0, 8.0] == b.grad.tolist()


def test_derivatives_of_a_write_to_views_are_those_of_differences() -> None:
    class Plus(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            ctx.save_for_backward(y)
            return x.add_(y * y)

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g, g * y * 2

    def program(root, b):
        x = root * 1
        Plus.apply(x.narrow(1, 2, 2).narrow(0, 1, 2), b)
        Plus.apply(x.narrow(1, 0, 2).narrow(0, 1, 2), b)
        return x * x

    root = dj.rand(4, 4, dtype=dj.float64, requires_grad=True)
    b = (dj.rand(2, 2, dtype=dj.float64) + 1).requires_grad_()

    assert gradcheck(program, (root, b))
    assert gradgradcheck(program, (root, b))


@pytest.mark.parametrize("m", LIBRARIES)
def test_writes_to_views_whose_gradient_could_not_follow_are_refused(m: Any) -> None:
    leaf, b = m.ones(4, requires_grad=True), m.ones(2, requires_grad=True)
    function = added_in_place(m)

    class Two(m.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.mark_dirty(a)
            return a.add_(1), a * 2

    base = leaf.clone()
    with m.no_grad():
        unseen = base[:2]
    for view in (leaf[:2], leaf.clone().chunk(2)[0], unseen):
        with pytest.raises(RuntimeError, match=r"in-place|inplace"):
            function.apply(view, b)
    with pytest.raises(RuntimeError, match="modifies inplace an input that is a view"):
        Two.apply(leaf.clone()[:2])


@pytest.mark.parametrize("m", LIBRARIES)
def test_what_is_marked_dirty_and_no_input_gives_a_warning(m: Any) -> None:
    class Marked(m.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            b = a * 2
            ctx.mark_dirty(b)
            return b

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    x = m.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        y = Marked.apply(x)
    y.sum().backward()

    assert [2.0, 2.0] == x.grad.tolist()


@pytest.mark.parametrize("m", LIBRARIES)
def test_defaults_of_forward_reach_setup_context_of_class_methods_too(m: Any) -> None:
    class Power(m.autograd.Function):  # type: ignore[misc, name-defined]
        @classmethod
        def forward(cls, x: Any, y: int = 3) -> Any:
            return x**y

        @classmethod
        def setup_context(cls, ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.y = inputs
            ctx.save_for_backward(x)

        @classmethod
        def backward(cls, ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            return gradient * ctx.y * x ** (ctx.y - 1), None

    x = m.tensor(2.0, requires_grad=True)
    Power.apply(x).backward()
    Power.apply(x, 2).backward()

    assert 16.0 == x.grad.item()
