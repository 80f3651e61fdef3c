"""Hooks on the gradients of several tensors.

Contract: within one backward such a hook is called once, with what arrives in that one. Compiled
functions leave it to eager execution: the graph breaks where it is registered, and where captured
backward would call it.

Source: semantics of `torch.autograd.graph.register_multi_grad_hook` in PyTorch 2.x.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dynajit.capture.control import disable
from dynajit.core.errors import ArgumentValueError, AutogradError
from dynajit.eager.backward.present import run_of_thread
from dynajit.eager.tape.handles import BEGUN, Handle, HookOfSeveral
from dynajit.eager.tape.node import made_by, resolved


class Handles:
    """Removes a hook from all of its tensors: `remove()`, or at the end of a `with` block.

    Args:
        handles: one for each tensor.
    """

    def __init__(self, handles: tuple[Handle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """The hook is not called any more; a second call does nothing."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> "Handles":
        return self

    def __exit__(self, *unused: object) -> None:
        self.remove()


class _Notes:
    """What one backward knows of a hook. Mutable.

    Args:
        count: of tensors.
        left: the positions of those whose gradients are to come.
    """

    def __init__(self, count: int, left: set[int]) -> None:
        self.gradients: list[Any] = [None] * count
        self.left = left
        self.was_called = False


class _All:
    """A hook that sees all gradients at once. Immutable: each backward has notes of its own.

    Args:
        function: called with a list of gradients, None for those that do not come.
        places: of each tensor the node that made it and the output, or a leaf and 0.
    """

    def __init__(
        self, function: Callable[[list[Any]], object], places: list[tuple[Any, int]]
    ) -> None:
        self.function = function
        self.places = places

    def arrived(self, position: int, gradient: Any) -> None:
        """Note a gradient; call the function if no other is to come."""
        run = run_of_thread()
        notes = run.notes.get(self)
        if notes is None:
            notes = run.notes[self] = _Notes(len(self.places), self.coming(run, position))
            run.at_end.append(lambda: self.call(notes))  # some of those may give no gradients
        notes.gradients[position] = gradient
        notes.left.discard(position)
        if not notes.left:
            self.call(notes)

    def coming(self, run: Any, position: int) -> set[int]:
        """The positions of the tensors whose gradients the run may still compute."""
        targets = [resolved(place, index)[0] for place, index in self.places]
        known = run.coming(targets[position])
        return {i for i, target in enumerate(targets) if id(target) in known}

    def call(self, notes: _Notes) -> None:
        """Call the function, once in a run."""
        if not notes.was_called:
            notes.was_called = True
            self.function(notes.gradients)


class _Any:
    """A hook that sees the gradient which comes first. Immutable: see `_All`.

    Args:
        function: called with that gradient.
    """

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function

    def arrived(self, position: int, gradient: Any) -> None:
        """Call the function if nothing has come in this run."""
        run = run_of_thread()
        if gradient is not None and self not in run.notes:
            run.notes[self] = True
            self.function(gradient)


class _Part(HookOfSeveral):
    """What hangs at one of the tensors. Immutable.

    Args:
        whole: the hook.
        position: of the tensor.
    """

    def __init__(self, whole: "_All | _Any", position: int) -> None:
        self.whole = whole
        self.position = position

    def __call__(self, gradient: Any) -> None:
        _tell(self.whole, self.position, gradient)


@disable
def _tell(whole: "_All | _Any", position: int, gradient: Any) -> None:
    whole.arrived(position, gradient)


@disable
def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Any], object], *, mode: str = "all"
) -> Handles:
    """Call a function once in every backward that computes gradients of some of the tensors.

    Args:
        tensors: those that require gradients; with "any" others are left out.
        fn: what it returns is not looked at.
        mode: "all": it is called when the last of those gradients has been computed, with a list of
            one per tensor, None where none is; "any": with the gradient that is computed first.

    Raises:
        ArgumentValueError: `mode` is something else; a ValueError, as in PyTorch.
        AutogradError: with "all", a tensor requires no gradient.
    """
    if mode not in ("all", "any"):
        raise ArgumentValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    whole: _All | _Any
    if mode == "any":
        tensors = [tensor for tensor in tensors if tensor.requires_grad]
        whole = _Any(fn)
    else:
        if not all(tensor.requires_grad for tensor in tensors):
            raise AutogradError("Expected gradient function to be set: register_multi_grad_hook "
                                "takes tensors that require gradients")  # fmt: skip
        whole = _All(fn, [_place_of(tensor) for tensor in tensors])
    BEGUN.accumulation = True
    return Handles(tuple(t.register_hook(_Part(whole, i)) for i, t in enumerate(tensors)))


def _place_of(tensor: Any) -> tuple[Any, int]:
    node, index = made_by(tensor)
    return (tensor, 0) if node is None else (node, index)
