"""Transforms, constraints and registries against PyTorch's."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

X = [[0.3, -1.2, 0.7], [2.0, 0.1, -0.4]]
P = [[0.3, 1.2, 0.7], [2.0, 0.1, 0.4]]
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "exp": (lambda t: t.distributions.ExpTransform(), X),
    "power": (lambda t: t.distributions.PowerTransform(2.5), P),
    "sigmoid": (lambda t: t.distributions.SigmoidTransform(), X),
    "softplus": (lambda t: t.distributions.SoftplusTransform(), X),
    "tanh": (lambda t: t.distributions.TanhTransform(), X),
    "tanh, remembered": (lambda t: t.distributions.TanhTransform(cache_size=1), X),
    "affine": (lambda t: t.distributions.AffineTransform(1.0, -2.0), X),
    "affine of tensors": (
        lambda t: t.distributions.AffineTransform(t.ones(3), t.tensor([1.0, -2.0, 0.5]), 1), X),
    "stick": (lambda t: t.distributions.StickBreakingTransform(), X),
    "composed": (lambda t: t.distributions.ComposeTransform(
        [t.distributions.ExpTransform(), t.distributions.AffineTransform(1.0, 3.0)]), X),
    "independent": (lambda t: t.distributions.IndependentTransform(
        t.distributions.ExpTransform(), 1), X),
    "reshape": (lambda t: t.distributions.ReshapeTransform((2, 3), (6,)), X),
    "inverse": (lambda t: t.distributions.ExpTransform().inv, P),
    "softmax": (lambda t: t.distributions.SoftmaxTransform(), X),
    "absolute": (lambda t: t.distributions.AbsTransform(), X),
    "factor": (lambda t: t.distributions.LowerCholeskyTransform(),
               [[0.3, 0.1, 0.2], [1.0, -0.7, 0.4], [0.5, 0.2, 0.9]]),
    "definite": (lambda t: t.distributions.PositiveDefiniteTransform(),
                 [[0.3, 0.1, 0.2], [1.0, -0.7, 0.4], [0.5, 0.2, 0.9]]),
    "correlations": (lambda t: t.distributions.CorrCholeskyTransform(), X),
    "one correlation": (lambda t: t.distributions.CorrCholeskyTransform(), [[0.4], [-0.2]]),
    "distribution function": (
        lambda t: t.distributions.CumulativeDistributionTransform(
            t.distributions.Normal(0.1, 1.5)), X),
    "joined": (lambda t: t.distributions.CatTransform(
        [t.distributions.ExpTransform(), t.distributions.AffineTransform(1.0, -2.0)], 1, [1, 2]),
        X),
    "joined over batches": (lambda t: t.distributions.CatTransform(
        [t.distributions.StickBreakingTransform().inv, t.distributions.ExpTransform().inv][1:] * 2,
        0), P),
    "joined vectors": (lambda t: t.distributions.CatTransform(
        [t.distributions.IndependentTransform(t.distributions.ExpTransform(), 1),
         t.distributions.TanhTransform()], -1, [1, 2], cache_size=1), X),
    "stacked": (lambda t: t.distributions.StackTransform(
        [t.distributions.ExpTransform(), t.distributions.identity_transform,
         t.distributions.TanhTransform()], -1), X),
    "stacked rows": (lambda t: t.distributions.StackTransform(
        [t.distributions.ExpTransform(), t.distributions.SigmoidTransform()]), X),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_images_inverses_and_volumes_equal_pytorchs(name: str) -> None:
    """And shapes, dims and gradients."""
    make, value = TRANSFORMS[name]
    found = []
    for t in (torch, dj):
        transform = make(t)
        x = t.tensor(value).requires_grad_()
        y = transform(x)
        known = name not in ("softmax", "absolute", "factor", "definite")
        volume = transform.log_abs_det_jacobian(x, y) if known else y.sum()
        (gradient,) = t.autograd.grad(y.pow(2).sum() + volume.sum(), x)
        back = transform.inv(y)
        found.append([
            y.detach().numpy(), volume.detach().numpy(), gradient.numpy(), back.detach().numpy(),
            np.array([transform.domain.event_dim, transform.codomain.event_dim]),
            np.array(transform.forward_shape(tuple(x.shape))), np.array(transform.bijective),
        ])  # fmt: skip
    for theirs, mine in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


def test_signs_say_whether_a_transform_rises() -> None:
    """Of numbers and tensors."""
    for t in (torch, dj):
        d = t.distributions
        assert [1, -1] == [d.AffineTransform(0, 2.0).sign, d.AffineTransform(0, -2.0).sign]
        assert -1 == d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0, -1)]).sign
        assert 1 == d.ExpTransform().inv.sign


def test_remembered_inverses_are_exact() -> None:
    """tanh of large values rounds to 1, whose inverse is infinite."""
    x = dj.tensor([20.0])
    remembering = dj.distributions.TanhTransform(cache_size=1)
    assert remembering.inv(remembering(x)) is x
    plain = dj.distributions.TanhTransform()
    assert not dj.isfinite(plain.inv(plain(x))).any()


def test_equal_transforms_compare_equal() -> None:
    """Those with the same parameters."""
    d = dj.distributions
    assert d.ExpTransform() == d.ExpTransform()
    assert d.AffineTransform(1.0, 2.0) == d.AffineTransform(1.0, 2.0)
    assert d.AffineTransform(1.0, 2.0) != d.AffineTransform(1.0, 3.0)
    assert d.ExpTransform() != d.TanhTransform()
    assert d.ExpTransform().inv == d.ExpTransform().inv


SETS: dict[str, Callable[[Any], Any]] = {
    "boolean": lambda c: c.boolean,
    "real": lambda c: c.real,
    "positive": lambda c: c.positive,
    "nonnegative": lambda c: c.nonnegative,
    "unit_interval": lambda c: c.unit_interval,
    "interval": lambda c: c.interval(-1.0, 2.0),
    "half_open_interval": lambda c: c.half_open_interval(0.0, 1.0),
    "greater_than": lambda c: c.greater_than(0.5),
    "less_than": lambda c: c.less_than(0.5),
    "integer_interval": lambda c: c.integer_interval(0, 1),
    "nonnegative_integer": lambda c: c.nonnegative_integer,
    "positive_integer": lambda c: c.positive_integer,
    "simplex": lambda c: c.simplex,
    "one_hot": lambda c: c.one_hot,
    "real_vector": lambda c: c.real_vector,
    "lower_cholesky": lambda c: c.lower_cholesky,
    "lower_triangular": lambda c: c.lower_triangular,
    "positive_definite": lambda c: c.positive_definite,
    "positive_semidefinite": lambda c: c.positive_semidefinite,
    "symmetric": lambda c: c.symmetric,
    "square": lambda c: c.square,
    "corr_cholesky": lambda c: c.corr_cholesky,
    "cat": lambda c: c.cat([c.positive, c.unit_interval], -1),
    "cat of lengths": lambda c: c.cat([c.positive], 0, [2]),
    "stack": lambda c: c.stack([c.positive, c.unit_interval], -1),
    "stack of vectors": lambda c: c.stack([c.simplex, c.real_vector], 0),
    "mixture": lambda c: c.MixtureSameFamilyConstraint(c.greater_than(0.3)),
}


@pytest.mark.parametrize("name", SETS)
def test_membership_equals_pytorchs(name: str) -> None:
    """Of numbers, NaN and infinities, vectors and matrices; and the text."""
    vectors = [[[0.0, 1.0], [0.25, 0.75]], [[1.0, 0.0], [0.3, float("nan")]],
               [[2.0, 0.0], [-0.5, 1.0]], [[2.0, 0.5], [0.5, 1.0]],
               [[1.0, 2.0], [2.0, 1.0]], [[0.0, float("inf")], [-1.0, 3.0]],
               [[1.0, 0.0], [0.6, 0.8]], [[1.0, 1.0], [1.0, 1.0]]]  # fmt: skip
    ours, theirs = (SETS[name](t.distributions.constraints) for t in (dj, torch))

    for one in vectors:
        expected = theirs.check(torch.tensor(one)).numpy()
        np.testing.assert_array_equal(ours.check(dj.tensor(one)).numpy(), expected)
    assert (theirs.event_dim, theirs.is_discrete) == (ours.event_dim, ours.is_discrete)
    assert repr(theirs) == repr(ours)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", ["real", "positive", "unit_interval", "simplex", "interval",
                                  "greater_than", "less_than", "real_vector", "corr_cholesky",
                                  "cat", "stack"])  # fmt: skip
def test_registered_transforms_equal_pytorchs(registry: str, name: str) -> None:
    """Onto each constraint."""
    images = []
    for t in (torch, dj):
        wanted = SETS[name](t.distributions.constraints)
        given = t.tensor(X)[:, :2] if name in ("cat", "stack") else t.tensor(X)
        image = getattr(t.distributions, registry)(wanted)(given)
        assert bool(wanted.check(image).all())
        images.append(image.numpy())
    np.testing.assert_allclose(images[1], images[0], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["positive_definite", "positive_semidefinite"])
def test_matrices_are_transformed_to_definite_ones(name: str) -> None:
    """By `transform_to`."""
    images = []
    for t in (torch, dj):
        wanted = SETS[name](t.distributions.constraints)
        image = t.distributions.transform_to(wanted)(t.tensor([[0.2, 9.0], [-1.0, 0.4]]))
        assert bool(wanted.check(image).all())
        images.append(image.numpy())
    np.testing.assert_allclose(images[1], images[0], rtol=1e-6)


def test_parts_that_do_not_fit_are_refused() -> None:
    """Other things than transforms, other sizes, dims that are not there."""
    for t in (torch, dj):
        d = t.distributions
        one = d.ExpTransform()
        for make in (
            lambda d=d: d.CatTransform([3]),
            lambda d=d: d.StackTransform([3]),
            lambda d=d, one=one: d.CatTransform([one], 0, [1, 2]),
            lambda d=d, one=one, t=t: d.CatTransform([one], 0, [2])(t.ones(3)),
            lambda d=d, one=one, t=t: d.CatTransform([one], 1)(t.ones(1)),
            lambda d=d, one=one, t=t: d.StackTransform([one])(t.ones(3)),
            lambda d=d, one=one: d.constraints.cat([d.constraints.real], 0, [1, 2]),
            lambda d=d: d.constraints.stack([3]),
        ):
            with pytest.raises(AssertionError):
                make()
        for shape in ((4,), ()):
            with pytest.raises(ValueError):
                d.CorrCholeskyTransform().forward_shape(shape)
        for shape in ((3,), (3, 2)):
            with pytest.raises(ValueError):
                d.CorrCholeskyTransform().inverse_shape(shape)


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_lower_triangles_as_vectors_equal_pytorchs(diag: int) -> None:
    """There and back, in batches; what does not fit is refused."""
    pairs = []
    for t in (torch, dj):
        u = t.distributions.utils
        matrices = t.arange(32.0).reshape(2, 4, 4)
        vectors = u.tril_matrix_to_vec(matrices, diag)
        pairs.append((vectors.numpy(), matrices.tril(diag).numpy()))
        if diag <= 0:
            np.testing.assert_array_equal(u.vec_to_tril_matrix(vectors, diag).numpy(), pairs[-1][1])
        with pytest.raises(ValueError):
            u.tril_matrix_to_vec(matrices, 4)
        with pytest.raises(ValueError):
            u.vec_to_tril_matrix(t.ones(5))
    np.testing.assert_array_equal(pairs[1][0], pairs[0][0])


def test_constraints_without_a_transform_are_refused() -> None:
    """By name; a program can register its own."""
    with pytest.raises(NotImplementedError, match="_Boolean"):
        dj.distributions.biject_to(dj.distributions.constraints.boolean)
    for t in (torch, dj):
        with pytest.raises(TypeError, match="Expected constraint"):
            t.distributions.biject_to.register(int, lambda c: None)


def test_transforms_and_distributions_may_be_modules_too() -> None:
    """Their constructors go on to that of the next class, as PyTorch's do."""

    class Scaled(dj.distributions.transforms.Transform, dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = dj.nn.Parameter(dj.ones(1))

    class Shifted(dj.distributions.Distribution, dj.nn.Module):
        arg_constraints: ClassVar[dict[str, object]] = {}

        def __init__(self) -> None:
            super().__init__()
            self.shift = dj.nn.Parameter(dj.ones(1))

    assert ["scale"] == [name for name, _ in Scaled().named_parameters()]
    assert ["shift"] == [name for name, _ in Shifted().named_parameters()]
