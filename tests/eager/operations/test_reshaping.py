"""Shapes changed in place: values, history and versions against PyTorch; what is refused."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError, ShapeError, UnsupportedError

CHANGES: dict[str, Callable[[Any], Any]] = {
    "transpose_": lambda x: x.transpose_(0, -1),
    "swapaxes_": lambda x: x.swapaxes_(1, 2),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_ of a dim": lambda x: x.squeeze_(1),
    "squeeze_ of no dim": lambda x: x.squeeze_(0),
    "unsqueeze_": lambda x: x.unsqueeze_(-1),
    "t_": lambda x: x[:, 0].t_(),
    "several": lambda x: x.squeeze_(1).t_().unsqueeze_(0),
}

SAME_ELEMENTS: dict[str, Callable[[Any], Any]] = {
    "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "several": lambda x: x.unsqueeze_(1).transpose_(0, 2),
}

VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "diagonal": lambda x: x.diagonal(),
    "flat": lambda x: x.view(-1),
    "steps": lambda x: x[::2, 1:],
}

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda base, part: None,
    "the base": lambda base, part: base.mul_(2),
    "the base by itself": lambda base, part: base.add_(base.flip(0)),
    "the view": lambda base, part: part.mul_(3),
    "the view by a number": lambda base, part: part.zero_(),
    "another view": lambda base, part: base.select(0, 0).mul_(5),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("source", ["fresh", "computed", "view"])
def test_shapes_change_as_in_pytorch(name: str, source: str) -> None:
    """Shape, strides, values, version and gradient; for views, the base's gradient."""
    torch = pytest.importorskip("torch")
    values = np.arange(12.0).reshape(3, 1, 4)

    def run(library: Any) -> tuple[Any, ...]:
        leaf = library.tensor(np.stack([values, values]).tolist(), dtype=library.float64)
        x = leaf[0].clone()
        if source != "fresh":
            leaf.requires_grad_(True)
            base = leaf * 2
            x = base[1] if source == "view" else base[0] * 3
        changed = CHANGES[name](x)
        same = name == "t_" or changed is x
        facts = (same, list(changed.shape), changed.stride(), changed.tolist())
        gradient = None
        if source != "fresh":
            changed.mul_(changed.detach() + 1)
            (base.sum() + (changed * changed).sum()).backward()
            gradient = leaf.grad.tolist()
        return *facts, x._version, gradient

    assert run(torch) == run(dj)


def test_leaves_with_gradients_are_refused_while_they_are_recorded() -> None:
    """And may be changed under no_grad; gradients then have the new shape."""
    x = dj.ones(2, 3, requires_grad=True)
    with pytest.raises(AutogradError, match="leaf"):
        x.t_()
    with pytest.raises(AutogradError, match="view of a leaf"):
        x[0].unsqueeze_(0)
    with dj.no_grad():
        x.t_()
    (x * dj.arange(2.0)).sum().backward()
    assert x.grad.tolist() == [[0, 1]] * 3


def test_views_of_other_elements_are_not_followed() -> None:
    """Their values hold; a write that a gradient would have to follow is refused."""
    x = dj.ones(2, 3)
    view = x[0]
    x.as_strided_((3, 2), (1, 3))
    assert view.shape == (3,)
    view.zero_()
    assert x.tolist() == [[0, 1]] * 3
    with pytest.raises(AutogradError, match="reshaped in place"):
        view.add_(dj.ones(3, requires_grad=True))


@pytest.mark.parametrize("before", WRITES)
@pytest.mark.parametrize("reshape", SAME_ELEMENTS)
def test_earlier_views_keep_their_gradients(reshape: str, before: str) -> None:
    """Of views that were made before their base was reshaped, written before and afterwards."""
    torch = pytest.importorskip("torch")

    def run(library: Any, view: str, after: str) -> Any:
        leaf = library.arange(1.0, 10.0, dtype=library.float64).view(3, 3).requires_grad_()
        base = leaf * 1
        part = VIEWS[view](base)
        WRITES[before](base, part)
        SAME_ELEMENTS[reshape](base)
        WRITES[after](base, part)
        (part**2 * library.arange(1.0, part.shape[-1] + 1)).sum().backward(retain_graph=True)
        of_part, leaf.grad = leaf.grad.tolist(), None
        (base**3).sum().backward()
        return of_part, leaf.grad.tolist(), part.tolist(), base.tolist()

    for view, after in itertools.product(VIEWS, WRITES):
        expected = run(torch, view, after)
        assert expected == run(dj, view, after), (view, after)


def test_compiled_functions_reshape_in_place() -> None:
    """A break is allowed; the caller's tensor has the new shape."""

    def change(x: Any) -> Any:
        y = x * 2
        y.unsqueeze_(0)
        x.t_()
        return y, x + 1

    for call in (change, dj.compile(change)):
        x = dj.arange(6.0).reshape(2, 3).clone()
        y, z = call(x)
        assert (1, 2, 3) == y.shape
        assert (3, 2) == x.shape == z.shape
        assert z.tolist() == [[1, 4], [2, 5], [3, 6]]


def test_resize_takes_the_first_elements() -> None:
    """In memory order; smaller, equal, of another shape, and larger."""
    torch = pytest.importorskip("torch")

    def run(library: Any) -> list[Any]:
        x = library.arange(6.0).reshape(2, 3).t().contiguous().clone()
        found = [x.resize_(2, 2).tolist(), x.resize_((6,)).tolist(), x.resize_as_(x).tolist()]
        y = library.empty(0)
        y.resize_(2, 3).fill_(1)
        found += [y.tolist(), y.resize_(1, 8)[0, :6].tolist(), list(y.shape)]
        z = library.arange(6.0).reshape(2, 3).t()
        found += [list(library.ones(2).resize_(()).shape)]
        z = z.detach().clone()
        return [*found, z.data.resize_(4).tolist()]

    assert run(torch)[:-1] == run(dj)[:-1]


def test_resize_refuses_what_it_cannot_do() -> None:
    """Gradients, views without room, growth of memory that others hold, negative sizes."""
    with pytest.raises(AutogradError, match="cannot resize variables"):
        dj.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(UnsupportedError, match="view"):
        dj.ones(2, 2)[1].resize_(3)
    x = dj.ones(4)
    held = x[:2]
    with pytest.raises(UnsupportedError, match="share"):
        x.resize_(9)
    array = dj.ones(4).numpy()
    with pytest.raises(UnsupportedError, match="share"):
        dj.from_numpy(array).resize_(9)
    assert held.shape == (2,)
    with pytest.raises(ShapeError, match="negative"):
        x.resize_(-1)


def test_resize_out_of_place_keeps_the_elements() -> None:
    """With the deprecation's warning."""
    with pytest.warns(UserWarning, match="deprecated"):
        assert (3, 2) == dj.ones(2, 3).resize(3, 2).shape
    with pytest.warns(UserWarning), pytest.raises(ShapeError, match="number of elements"):
        dj.ones(2, 3).resize_as(dj.ones(2))
