"""Regions whose saved tensors are computed again in backward: what `utils.checkpoint` is made of.

Contract: `recomputed` runs a function as usual, then empties the nodes that it left on the tape:
what their formulas need is computed again when the first of them is asked for it, by a second run
of the function on the same arguments, under the same autocast and, if wanted, with the same random
numbers. The nodes of both runs correspond in the order in which they were made. `reentrant` records
nothing, and runs the function again as one node's backward. Nodes of compiled functions keep what
they saved.

Source: T. Chen et al., "Training deep nets with sublinear memory cost", arXiv:1604.06174.
"""

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from dynajit.core.errors import AutogradError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.eager.backward import engine as tape
from dynajit.eager.backward import present
from dynajit.eager.backward.function import Function, FunctionNode
from dynajit.eager.modes.autocast_mode import _autocast_word
from dynajit.eager.modes.grad_mode import enable_grad
from dynajit.eager.modes.random import States, set_states, states
from dynajit.eager.tape import node, saved_hooks
from dynajit.eager.tape.node import (
    Node,
    OpNode,
    SavedPacked,
    SavedResult,
    SavedSparse,
    SavedTensor,
    Tangents,
    kept_for_backward,
    modified_message,
    moving_by,
    tangents_of,
)
from dynajit.ops.calls.autocast import word_set

MSG_COUNT: Final = (
    "checkpoint: A different number of tensors was saved during the original forward and "
    "recomputation: {before} operations were recorded, then {after}.  The function must do the "
    "same in both runs."
)
MSG_METADATA: Final = (
    "checkpoint: Recomputed values for the following tensors have different metadata than during "
    "the forward pass: saved {before}, recomputed {after}.  The function must do the same in both "
    "runs; determinism_check='none' skips this check."
)


class CheckpointError(AutogradError):
    """The second run of a checkpointed function was not like the first."""


@contextlib.contextmanager
def same_random_numbers(start: States | None) -> Iterator[None]:
    """Draw what was drawn after `random.states` returned `start`; None: whatever comes next."""
    if start is None:
        yield
        return
    before = states()
    set_states(start)
    try:
        yield
    finally:
        set_states(before)


@contextlib.contextmanager
def _saved_as_they_are() -> Iterator[None]:
    """Saved tensors are dropped, or computed again: the program's own functions see none."""
    saved_hooks.enter(None)
    try:
        yield
    finally:
        saved_hooks.leave()


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested tuples, lists and dicts, also of derived classes."""
    if isinstance(value, TensorBase):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def _nodes_since(start: int, result: Any) -> list[Node]:
    """The nodes below `result` that are younger than number `start`, oldest first."""
    stack = [tensor.grad_fn for tensor in tensors_in(result)]
    found: set[Node] = set()
    while stack:
        one = stack.pop()
        if isinstance(one, Node) and one.sequence > start and one not in found:
            found.add(one)
            stack.extend(one.edges)
    return sorted(found, key=lambda one: one.sequence)


def _entries(one: Node) -> dict[Any, Any]:
    """What a node has saved, by where it stands: a key of `saved`, or "result"."""
    if isinstance(one, OpNode):
        return {**(one.saved or {}), "result": one.result}
    if isinstance(one, FunctionNode):
        return dict(enumerate(one.saved or ()))
    return {}


class _Recomputed(SavedTensor):
    """Stands for a saved tensor until it is asked for. Mutable: then it has the array.

    Args:
        frame: knows how to compute it again.
        saved: what it replaces.
    """

    __slots__ = ("__weakref__", "duals", "frame", "history", "is_result", "metadata")

    def __init__(self, frame: "_Frame", saved: SavedTensor | SavedResult) -> None:
        self.frame: _Frame | None = frame
        self.duals: Tangents = ()
        self.metadata = (saved.array.shape, saved.array.dtype)
        self.is_result = isinstance(saved, SavedResult)
        self.history: tuple[Any, int] | None = None
        if isinstance(saved, SavedResult):
            self.history = (None, saved.index)
        elif saved.tensor.grad_fn is not None:
            self.history = (saved.tensor.grad_fn, saved.tensor.output_index)

    def fill(self, found: Any) -> None:
        """Take over what the second run saved in this place."""
        self.array, self.storage, self.version = found.array, found.storage, found.version
        self.duals = found.duals if isinstance(found, SavedResult) else tangents_of(found.tensor)
        self.frame = None

    def unpack(self, node: Node) -> Any:
        """The tensor, with the history of the first run.

        Raises:
            CheckpointError: the second run was not like the first.
            AutogradError: it was written in place since.
        """
        if self.frame is not None:
            self.frame.run_again()
        if self.storage.version != self.version:
            raise AutogradError(modified_message(self, node))
        if not is_grad_enabled() or self.history is None:
            return moving_by(_tensor.wrap(self.array), self.duals)
        maker, index = self.history
        made = _tensor.wrap_output(self.array, node if self.is_result else maker, index)
        return moving_by(made, self.duals)


def _is_kept(saved: Any) -> bool:
    """Numbers are; so are leaves that require a gradient, which live as long as the node, and what
    functions of the program's own have taken over within the region."""
    if isinstance(saved, SavedPacked):
        return True
    if not isinstance(saved, (SavedTensor, SavedResult)) or isinstance(saved, _Recomputed):
        return True
    tensor = getattr(saved, "tensor", None)
    return tensor is not None and tensor.requires_grad and tensor.grad_fn is None


class _Frame:
    """One call of a checkpointed function. Mutable: it knows which entries wait for it."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        state: Any,
        context: AbstractContextManager[Any],
        checks_metadata: bool,
    ) -> None:
        self.function = function
        self.args = [_held(argument) for argument in args]
        self.kwargs = {name: _held(argument) for name, argument in kwargs.items()}
        self.state = state
        self.word = _autocast_word()
        self.context = context
        self.checks_metadata = checks_metadata
        self.node_count = 0
        self.waiting: list[tuple[int, Any, weakref.ref[_Recomputed]]] = []

    def empty(self, nodes: Sequence[Node]) -> None:
        """Let go of what the nodes saved."""
        self.node_count = len(nodes)
        for position, one in enumerate(nodes):
            for key, saved in _entries(one).items():
                if _is_kept(saved):
                    continue
                stand_in = _Recomputed(self, saved)
                if key == "result":
                    one.result = stand_in  # type: ignore[attr-defined]
                else:
                    one.saved[key] = stand_in  # type: ignore[attr-defined]
                self.waiting.append((position, key, weakref.ref(stand_in)))

    def run_again(self) -> None:
        """Run the function a second time, and fill every entry that still waits.

        Raises:
            CheckpointError: the runs differ.
            AutogradError: an argument was written in place since the first run.
        """
        marker = Node((), ())
        with enable_grad():  # what the program packed gets its history back
            args = [_given(argument, marker) for argument in self.args]
            kwargs = {name: _given(argument, marker) for name, argument in self.kwargs.items()}
        start = next(node._sequence)
        casts = word_set(self.word)
        randoms, as_they_are = same_random_numbers(self.state), _saved_as_they_are()
        with randoms, as_they_are, enable_grad(), casts, self.context:
            result = self.function(*args, **kwargs)
        nodes = _nodes_since(start, result)
        if len(nodes) != self.node_count:
            raise CheckpointError(MSG_COUNT.format(before=self.node_count, after=len(nodes)))
        for position, key, reference in self.waiting:
            stand_in = reference()
            if stand_in is not None:
                stand_in.fill(self.twin(stand_in, _entries(nodes[position]).get(key)))
        self.waiting.clear()

    def twin(self, stand_in: _Recomputed, found: Any) -> Any:
        """What the second run saved, if it is like what the first run saved."""
        if not isinstance(found, (SavedTensor, SavedResult)):
            raise CheckpointError(MSG_METADATA.format(before=stand_in.metadata, after=found))
        metadata = (found.array.shape, found.array.dtype)
        if self.checks_metadata and metadata != stand_in.metadata:
            raise CheckpointError(MSG_METADATA.format(before=stand_in.metadata, after=metadata))
        return found


def _held(argument: Any) -> Any:
    return kept_for_backward(argument) if isinstance(argument, TensorBase) else argument


def _given(argument: Any, marker: Node) -> Any:
    is_held = isinstance(argument, (SavedTensor, SavedSparse))
    return argument.unpack(marker) if is_held else argument


def recomputed(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    preserve_random: bool,
    contexts: tuple[AbstractContextManager[Any], AbstractContextManager[Any]],
    checks_metadata: bool,
) -> Any:
    """`function(*args, **kwargs)`, whose saved tensors are computed again in backward.

    Args:
        preserve_random: the second run draws the numbers of the first.
        contexts: entered around the first and the second run.
        checks_metadata: shapes and dtypes of both runs are compared.
    """
    first, second = contexts
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    state = states() if preserve_random else None
    frame = _Frame(function, args, kwargs, state, second, checks_metadata)
    start = next(node._sequence)
    with first, _saved_as_they_are():
        result = function(*args, **kwargs)
    frame.empty(_nodes_since(start, result))
    return result


class Reentrant(Function):
    """A function that is run unrecorded, and again in backward, as a backward of its own."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve_random: bool, *args: Any) -> Any:
        """`function(*args)`; with a warning where nothing requires a gradient."""
        if not any(ctx.needs_input_grad):
            warnings.warn(
                "checkpoint: None of the inputs have requires_grad=True. Gradients will be None",
                stacklevel=4,
            )
        ctx.function = function
        ctx.state = states() if preserve_random else None
        ctx.word = _autocast_word()
        ctx.others = [None if isinstance(x, TensorBase) else x for x in args]
        ctx.save_for_backward(*(x if isinstance(x, TensorBase) else None for x in args))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Run again on leaves of its own, and go backward from there.

        Raises:
            AutogradError: the backward stops at given inputs, or no output requires a gradient.
        """
        if present.is_partial():
            raise AutogradError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward().  Pass use_reentrant=False."
            )
        inputs = [
            other if saved is None else saved.detach().requires_grad_(saved.requires_grad)
            for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)
        ]
        with same_random_numbers(ctx.state), enable_grad(), word_set(ctx.word):
            result = ctx.function(*inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, gradients, strict=True)
            if isinstance(output, TensorBase) and output.requires_grad
        ]
        if not pairs:
            raise AutogradError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        tape.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])
        found = [x.grad if isinstance(x, TensorBase) else None for x in inputs]
        return (None, None, *found)
