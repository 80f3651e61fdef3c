"""Losses of margins, distributions and alignments, distances and pairs, against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, DTypeError, InvalidValueError, ShapeError

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    """Standard normal float64."""
    return RANDOM.standard_normal(shape)


X, Y, Z = drawn(4, 5), drawn(4, 5), drawn(4, 5)
CLASSES = np.array([1, 0, 4, 2])
SIGNS = np.array([1, -1, -1, 1])
LABELS = np.array([[3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [2, -1, -1, -1, -1]])
SPREAD = np.abs(drawn(4, 5)) * np.array([1, 0, 1, 1, 1])

Case = tuple[Callable[[Any], Any], tuple[np.ndarray, ...]]
CASES: dict[str, Case] = {
    "gaussian": (lambda t: t.nn.GaussianNLLLoss(), (X, Y, SPREAD)),
    "gaussian, all of it": (lambda t: t.nn.GaussianNLLLoss(full=True, eps=0.5), (X, Y, SPREAD)),
    "gaussian per row": (lambda t: t.nn.GaussianNLLLoss(reduction="none"), (X, Y, SPREAD[:, 1])),
    "gaussian per row, kept": (
        lambda t: t.nn.GaussianNLLLoss(reduction="sum"), (X, Y, SPREAD[:, 1:2]),
    ),
    "cosine": (lambda t: t.nn.CosineEmbeddingLoss(0.1), (X, Y, SIGNS)),
    "cosine of one": (lambda t: t.nn.CosineEmbeddingLoss(-0.9), (X[1], Y[1], SIGNS[1])),
    "cosines": (lambda t: t.nn.CosineEmbeddingLoss(reduction="none"), (X, X * 2, SIGNS)),
    "margins": (lambda t: t.nn.MultiMarginLoss(), (X, CLASSES)),
    "margins that are just kept": (lambda t: t.nn.MultiMarginLoss(), (X.round(), CLASSES)),
    "labels that are just kept": (lambda t: t.nn.MultiLabelMarginLoss(), (X.round(), LABELS)),
    "margins squared": (
        lambda t: t.nn.MultiMarginLoss(2, 0.5, t.linspace(1, 2, 5).double(), reduction="none"),
        (X, CLASSES),
    ),
    "margins of one": (lambda t: t.nn.MultiMarginLoss(reduction="none"), (X[0], CLASSES[0])),
    "labels": (lambda t: t.nn.MultiLabelMarginLoss(), (X, LABELS)),
    "labels of each": (lambda t: t.nn.MultiLabelMarginLoss(reduction="none"), (X, LABELS)),
    "labels of one": (lambda t: t.nn.MultiLabelMarginLoss(reduction="sum"), (X[0], LABELS[0])),
    "triplet": (lambda t: t.nn.TripletMarginWithDistanceLoss(swap=True), (X, Y, Z)),
    "triplet by cosine": (
        lambda t: t.nn.TripletMarginWithDistanceLoss(
            distance_function=lambda a, b: 1 - t.nn.functional.cosine_similarity(a, b),
            margin=0.3, reduction="none",
        ),
        (X, Y, Z),
    ),
    "triplet function": (
        lambda t: lambda *x: t.nn.functional.triplet_margin_with_distance_loss(*x, swap=True),
        (X, Y, Z),
    ),
    "distance": (lambda t: t.nn.PairwiseDistance(3, keepdim=True), (X, Y)),
    "similarity": (lambda t: t.nn.CosineSimilarity(0), (X, Y)),
    "bilinear": (
        lambda t: t.nn.functional.bilinear,
        (drawn(2, 3, 4), drawn(2, 3, 5), drawn(6, 4, 5), drawn(6)),
    ),
    "bilinear of one": (lambda t: t.nn.functional.bilinear, (X[0], Y[0], drawn(3, 5, 5))),
    "pdist": (lambda t: t.nn.functional.pdist, (X,)),
    "pdist by sums": (lambda t: lambda x: t.nn.functional.pdist(x, 1.0), (X,)),
    "pdist of equal rows": (lambda t: t.nn.functional.pdist, (X[[0, 0, 1]],)),
    "pdist of nothing": (lambda t: t.nn.functional.pdist, (X[:1],)),
    "in place": (lambda t: lambda x: t.nn.functional.leaky_relu_(x * 1, 0.2), (X,)),
}  # fmt: skip


def found(library: Any, function: Any, arrays: tuple[np.ndarray, ...]) -> list[Any]:
    """Result and gradients of floating inputs, as arrays."""
    tensors = [library.from_numpy(np.asarray(array).copy()) for array in arrays]
    for tensor in tensors:
        tensor.requires_grad_(tensor.is_floating_point())
    result = function(*tensors)
    weights = library.from_numpy(np.cos(np.arange(result.numel(), dtype=np.float64)))
    (result * weights.reshape(result.shape)).sum().backward()
    gradients = [t.grad for t in tensors if t.is_floating_point()]
    return [x.detach().numpy() for x in (result, *gradients)]


def assert_equal(expected: list[Any], actual: list[Any]) -> None:
    """Shapes and numbers of float64."""
    for theirs, ours in zip(expected, actual, strict=True):
        assert theirs.shape == ours.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_it_equals_pytorchs(name: str) -> None:
    """Values and gradients, and text of layers."""
    make, arrays = CASES[name]
    assert_equal(found(torch, make(torch), arrays), found(dj, make(dj), arrays))
    if isinstance(make(dj), dj.nn.Module):
        assert repr(make(torch)) == repr(make(dj))


COMPILED = ("gaussian, all of it", "cosine", "margins squared", "labels of each", "bilinear",
            "pdist", "triplet by cosine")  # fmt: skip


def test_compiled_losses_give_the_same_numbers() -> None:
    """All in one graph."""
    made = [CASES[name] for name in COMPILED]
    functions = [make(dj) for make, _ in made]
    inputs = [[dj.from_numpy(np.asarray(array).copy()) for array in arrays] for _, arrays in made]

    def everything(inputs: Any) -> Any:
        return [function(*given) for function, given in zip(functions, inputs, strict=True)]

    expected = [x.numpy() for x in everything(inputs)]
    actual = [x.numpy() for x in dj.compile(everything, fullgraph=True)(inputs)]
    assert_equal(expected, actual)


def test_layers_of_pairs_look_like_pytorchs() -> None:
    """Text, state and first values of Bilinear."""
    theirs, ours = torch.nn.Bilinear(4, 5, 6), dj.nn.Bilinear(4, 5, 6)
    assert repr(theirs) == repr(ours)
    ours.load_state_dict({k: dj.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    arrays = (drawn(3, 4).astype(np.float32), drawn(3, 5).astype(np.float32))
    expected = theirs(*map(torch.from_numpy, arrays)).detach().numpy()
    actual = ours(*map(dj.from_numpy, arrays)).detach().numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert dj.nn.Bilinear(4, 5, 6).weight.abs().max().item() <= 0.5
    assert dj.nn.Bilinear(4, 5, 6, bias=False).bias is None
    assert issubclass(dj.nn.NLLLoss2d, dj.nn.NLLLoss)


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], type[Exception], str]] = {
    "negative variance": (
        lambda f, x: f.gaussian_nll_loss(x, x, -x.abs()), InvalidValueError, "negative entry",
    ),
    "variances": (
        lambda f, x: f.gaussian_nll_loss(x, x, x[:3].abs()), InvalidValueError, "incorrect size",
    ),
    "cosine": (lambda f, x: f.cosine_embedding_loss(x, x, x), ShapeError, "target tensor"),
    "power": (lambda f, x: f.multi_margin_loss(x, x[0].long(), p=3), InvalidValueError, "p == 2"),
    "classes": (lambda f, x: f.multi_margin_loss(x, x[0].long()), ShapeError, "inconsistent"),
    "labels": (lambda f, x: f.multilabel_margin_loss(x, x[0].long()), ShapeError, "inconsistent"),
    "margin": (
        lambda f, x: f.triplet_margin_with_distance_loss(x, x, x, margin=0), InvalidValueError, "0",
    ),
    "bilinear": (lambda f, x: f.bilinear(x, x[0], x[None]), ShapeError, "batch dimensions"),
    "pdist": (lambda f, x: f.pdist(x[0]), ShapeError, "2D"),
    "pdist's norm": (lambda f, x: f.pdist(x, -1.0), ShapeError, "non-negative"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_pytorchs_class(name: str) -> None:
    """ValueError or RuntimeError."""
    call, error, words = REFUSED[name]
    with pytest.raises((ValueError, RuntimeError)) as expected:
        call(torch.nn.functional, torch.from_numpy(X))
    with pytest.raises(error, match=words) as actual:
        call(dj.nn.functional, dj.from_numpy(X))
    assert isinstance(actual.value, type(expected.value))


# ---------------------------------------------------------------------------------------------
# alignments

LOG_PROBS = drawn(12, 3, 5)
TARGETS = np.array([[1, 1, 3, 2], [4, 2, 0, 0], [2, 3, 4, 4]])
Lengths = tuple[list[int], list[int], dict[str, Any]]
ALIGNMENTS: dict[str, Lengths] = {
    "mean": ([12, 10, 7], [4, 2, 3], {}),
    "sum": ([12, 10, 7], [4, 2, 3], {"reduction": "sum"}),
    "no labels": ([12, 10, 7], [4, 0, 3], {"reduction": "none"}),
    "impossible": ([12, 10, 2], [4, 2, 4], {"reduction": "none"}),
    "impossible, zero": ([12, 10, 2], [4, 2, 4], {"reduction": "none", "zero_infinity": True}),
    "no frames": ([12, 0, 5], [4, 0, 3], {"reduction": "sum"}),
    "repeated labels": ([12, 12, 12], [2, 1, 4], {"reduction": "none"}),
}


def aligned(
    library: Any, given: Lengths, flat: bool = False, lists: bool = False, run: Any = None
) -> list[Any]:
    """Losses and the gradient of what log_softmax takes."""
    frames, labels, options = given
    pieces = [row[:count] for row, count in zip(TARGETS, labels, strict=True)]
    targets = library.from_numpy(np.concatenate(pieces) if flat else TARGETS)
    lengths = (frames, labels) if lists else map(library.tensor, (frames, labels))
    scores = library.from_numpy(LOG_PROBS.copy()).requires_grad_()
    loss = (run or library.nn.functional.ctc_loss)(
        scores.log_softmax(-1), targets, *lengths, **options
    )
    loss.sum().backward()
    return [loss.detach().numpy(), scores.grad.numpy()]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("name", ALIGNMENTS)
def test_alignments_equal_pytorchs(name: str, flat: bool) -> None:
    """Padded labels and labels one after the other; infinity and NaN where PyTorch has them."""
    assert_equal(aligned(torch, ALIGNMENTS[name], flat), aligned(dj, ALIGNMENTS[name], flat))


def test_alignments_take_lists_other_blanks_and_no_batch() -> None:
    """Through the layer, in float32."""
    assert_equal(*(aligned(t, ALIGNMENTS["mean"], lists=True) for t in (torch, dj)))
    results = []
    for library in (torch, dj):
        scores = library.from_numpy(LOG_PROBS[:, 0].astype(np.float32)).requires_grad_()
        targets = library.from_numpy(TARGETS[0] - 1)
        loss = library.nn.CTCLoss(blank=4)(
            scores.log_softmax(-1), targets, library.tensor(12), library.tensor(4)
        )
        loss.backward()
        assert () == tuple(loss.shape)
        results.append([loss.detach().numpy(), scores.grad.numpy()])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_compiled_code_breaks_at_alignments() -> None:
    """With the same numbers around it."""

    def around(log_probs: Any, *others: Any, **options: Any) -> Any:
        return dj.nn.functional.ctc_loss(log_probs * 1, *others, **options) * 2

    expected = aligned(dj, ALIGNMENTS["mean"], run=around)
    assert_equal(expected, aligned(dj, ALIGNMENTS["mean"], run=dj.compile(around)))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"input_lengths": [13, 12, 12]}, ShapeError),
        ({"input_lengths": [12, 12]}, ShapeError),
        ({"target_lengths": [5, 1, 1]}, ShapeError),
        ({"target_lengths": [-1, 1, 1]}, ShapeError),
        ({"blank": 5}, ShapeError),
        ({"reduction": "max"}, InvalidValueError),
        ({"targets": TARGETS.astype(float)}, DTypeError),
        ({"log_probs": LOG_PROBS[..., None]}, ShapeError),
        ({"log_probs": LOG_PROBS.astype(np.float16)}, DTypeError),
    ],
)
def test_lengths_that_do_not_fit_are_refused(changes: Any, error: type[Exception]) -> None:
    """RuntimeErrors, and ValueError for the reduction."""
    given = {"log_probs": LOG_PROBS, "targets": TARGETS, "input_lengths": [12, 10, 7]}
    given |= {"target_lengths": [4, 2, 3], **changes}
    given = {k: dj.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    with pytest.raises(error):
        dj.nn.functional.ctc_loss(**given)


def test_second_derivatives_of_alignments_are_refused() -> None:
    """As PyTorch refuses them."""
    scores = dj.from_numpy(LOG_PROBS).requires_grad_()
    loss = dj.nn.functional.ctc_loss(scores, dj.from_numpy(TARGETS), [12, 10, 7], [4, 2, 3])
    with pytest.raises(AutogradError, match="cannot be differentiated again"):
        dj.autograd.grad(loss, scores, create_graph=True)


def test_alignments_are_one_graph_break() -> None:
    def loss(x: Any) -> Any:
        sizes = dj.tensor([6, 6]), dj.tensor([2, 2])
        return dj.nn.functional.ctc_loss(x.log_softmax(-1), dj.tensor([[1, 2], [3, 1]]), *sizes) * 2

    assert 1 == dj.explain(loss)(dj.ones(6, 2, 5)).graph_break_count
