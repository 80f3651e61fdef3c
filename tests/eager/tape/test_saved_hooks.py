"""Functions for saved tensors of somebody who frees the memory that they lie in."""

import weakref
from typing import Any

import numpy as np

import dynajit as dj
from dynajit.eager import _tensor
from dynajit.eager.tape import saved_hooks


class Place:
    """Where an array is that is made again when it is asked for."""

    def found(self) -> Any:
        """The tensor."""
        return _tensor.wrap(np.full((3, 3), 2.0, np.float32))


def test_a_compiled_call_keeps_places_of_inputs_and_not_their_memory() -> None:
    """Gradients, and gradients of gradients, are computed from what the place gives."""
    compiled = dj.compile(lambda x, w: (x @ w).sin())
    x = dj.ones(2, 3, requires_grad=True)
    array = np.full((3, 3), 2.0, np.float32)
    weight = _tensor.wrap(array)
    alive = weakref.ref(array)

    def place_of(tensor: Any) -> Place | None:
        return Place() if tensor._held is alive() else None

    def pack(tensor: Any) -> Any:
        return place_of(tensor) or tensor

    def unpack(packed: Any) -> Any:
        return packed.found() if isinstance(packed, Place) else packed

    hooks = saved_hooks.HooksOfOwner((pack, unpack))
    hooks.place_of = place_of
    saved_hooks.enter(hooks)
    try:
        result = compiled(x, weight)
    finally:
        saved_hooks.leave()
    del array, weight

    assert alive() is None
    (first,) = dj.autograd.grad(result.sum(), x, create_graph=True)
    (second,) = dj.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(first.detach().numpy(), np.full((2, 3), 6 * np.cos(6)), rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), np.full((2, 3), -36 * np.sin(6)), rtol=1e-5)


def test_blocks_are_suspended_where_tensors_are_saved_as_they_are() -> None:
    """In the innermost block alone."""
    assert not saved_hooks.is_suspended()
    saved_hooks.enter(None)
    assert saved_hooks.is_suspended()
    saved_hooks.enter((lambda x: x, lambda x: x))
    assert not saved_hooks.is_suspended()
    saved_hooks.leave()
    saved_hooks.leave()
    assert not saved_hooks.is_suspended()


def test_a_block_that_is_left_twice_does_no_harm() -> None:
    block = dj.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    with block:
        pass
    block.__exit__()
    x = dj.ones(2, requires_grad=True)
    (x * x).sum().backward()

    assert [2.0, 2.0] == x.grad.tolist()
