"""Compiled programs as eager calls: arrays in and out of programs, one node on the tape.

Contract: a compiled call takes tensors and Python numbers in the order of its graph's inputs and
returns a tuple with one Tensor per graph output (a literal output stays a number). A training call
is one node; its backward is the compiled backward program, except under `create_graph=True`, where
the forward graph is replayed op by op on tensors and differentiated by the tape. Outputs that are
views of inputs are the caller's business. Called by the backend that joins the layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dynajit.core.errors import AutogradError
from dynajit.eager import _tensor, tape
from dynajit.eager._tensor import TensorBase, arrays, is_grad_enabled, meta_of, wrap_arrays
from dynajit.eager.inplace import CopyBackward
from dynajit.eager.node import (
    MSG_SECOND_BACKWARD,
    Node,
    SavedTensor,
    edges_of,
    modified_message,
)

Program: TypeAlias = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Training:
    """The facts of a training call.

    Args:
        forward: `forward(*arrays_and_numbers)` -> user outputs, then saved values.
        backward: `backward(*saved, *gradients)` -> one gradient (or None) per input that requires
            one; `gradients` has one contiguous array per entry of `differentiable_outputs`; the
            numbers that `sizes` gives follow.
        output_count: number of user outputs.
        differentiable_outputs: positions of the outputs that have a gradient.
        saved_inputs: per saved value the position of the input that it is, or None.
        saved_outputs: per saved value the position of the output whose memory it shares, or None.
        requires_grad: per graph input, whether the backward program gives its gradient.
        replay: `replay(*tensors_and_numbers)` -> one tensor per output: the graph op by op.
        inference: like `forward` without saved values, for calls that record nothing; None uses
            `forward`.
        sizes: from the graph's inputs, the sizes that no argument of `backward` shows.
        is_separable: no two differentiable outputs depend on one operation: eager can go backward
            from one after the other, so what is saved stays until it was done from all.
        reached: per differentiable output the positions of the inputs that get a gradient from it;
            empty: of all.
    """

    forward: Program
    backward: Program
    output_count: int
    differentiable_outputs: tuple[int, ...]
    saved_inputs: tuple[int | None, ...]
    saved_outputs: tuple[int | None, ...]
    requires_grad: tuple[bool, ...]
    replay: Callable[..., Sequence[Any]]
    inference: Program | None = None
    sizes: Callable[[Sequence[Any]], tuple[int, ...]] | None = None
    is_separable: bool = False
    reached: tuple[frozenset[int], ...] = ()


class CompiledCall:
    """Makes callables over tensors from programs over arrays."""

    @staticmethod
    def inference(program: Program) -> Callable[..., tuple[Any, ...]]:
        """A call without gradients: unwrap, run, wrap."""

        def call(*inputs: Any) -> tuple[Any, ...]:
            return wrap_arrays(program(*arrays(inputs)))

        return call

    @staticmethod
    def training(
        *,
        forward: Program,
        backward: Program,
        output_count: int,
        differentiable_outputs: tuple[int, ...],
        saved_inputs: tuple[int | None, ...],
        saved_outputs: tuple[int | None, ...],
        requires_grad: tuple[bool, ...],
        replay: Callable[..., Sequence[Any]],
        inference: Program | None = None,
        sizes: Callable[[Sequence[Any]], tuple[int, ...]] | None = None,
        is_separable: bool = False,
        reached: Sequence[frozenset[int]] = (),
    ) -> Callable[..., tuple[Any, ...]]:
        """A call that is one node of the tape where an input requires a gradient.

        Args: as in `Training`.
        """
        facts = Training(
            forward,
            backward,
            output_count,
            tuple(differentiable_outputs),
            tuple(saved_inputs),
            tuple(saved_outputs),
            tuple(requires_grad),
            replay,
            inference,
            sizes,
            is_separable,
            tuple(reached),
        )
        trained = tuple(i for i, flag in enumerate(requires_grad) if flag)
        lean = forward if inference is None else inference

        def call(*inputs: Any) -> tuple[Any, ...]:
            if is_grad_enabled():
                for position in trained:
                    if inputs[position].requires_grad:
                        return _record(facts, inputs)
            return wrap_arrays(lean(*arrays(inputs))[:output_count])

        return call


def _record(facts: Training, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run the forward program and put its node on the tape."""
    results = facts.forward(*arrays(inputs))
    node = CompiledNode(facts, inputs)
    outputs = list(wrap_arrays(results[: facts.output_count]))
    for index, position in enumerate(facts.differentiable_outputs):
        outputs[position] = _tensor.wrap_output(results[position], node, index)
    node.save(results[facts.output_count :], outputs)
    return tuple(outputs)


class _SavedArray:
    """A saved value that shares memory with an output; writes to that output are noticed."""

    __slots__ = ("array", "storage", "version")

    def __init__(self, array: Any, output: Any) -> None:
        self.array = array
        self.storage = output.storage
        self.version = self.storage.version


class CompiledNode(Node):
    """One training call on the tape. Mutable: see Node."""

    __slots__ = ("coming", "done", "facts", "inputs", "out_metas", "output_count", "saved", "sizes")

    def __init__(self, facts: Training, inputs: tuple[Any, ...]) -> None:
        edges, indices = edges_of(inputs)
        super().__init__(
            [edge if flag else None for edge, flag in zip(edges, facts.requires_grad, strict=True)],
            indices,
        )
        self.facts = facts
        self.output_count = len(facts.differentiable_outputs)
        self.inputs: list[Any] | None = [
            SavedTensor(x) if isinstance(x, TensorBase) else x for x in inputs
        ]
        self.sizes = () if facts.sizes is None else facts.sizes(inputs)
        self.saved: list[Any] = []
        self.out_metas: list[Any] = []
        self.coming: set[int] = set()  # outputs that the present backward comes from
        self.done: set[int] = set()  # outputs that backward came from without keeping

    def save(self, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Keep the saved values, and what is known of the outputs."""
        facts, inputs = self.facts, self.inputs
        for value, source, shared in zip(
            values, facts.saved_inputs, facts.saved_outputs, strict=True
        ):
            if source is not None and inputs is not None:
                self.saved.append(inputs[source])
            elif shared is not None and isinstance(outputs[shared], TensorBase):
                self.saved.append(_SavedArray(value, outputs[shared]))
            else:
                self.saved.append(value)
        self.out_metas = [meta_of(outputs[i]) for i in facts.differentiable_outputs]

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        came = {i for i, gradient in enumerate(gradients) if gradient is not None}
        if self.inputs is None or came & self.done:
            raise AutogradError(MSG_SECOND_BACKWARD)
        self.coming = came
        if is_grad_enabled():
            return self.replayed(gradients, wanted)
        received = [
            _zeros(meta) if gradient is None else _contiguous(gradient.array)
            for gradient, meta in zip(gradients, self.out_metas, strict=True)
        ]
        saved = map(self.unpacked, self.saved)
        found = iter(self.facts.backward(*saved, *received, *self.sizes))
        results: list[Any] = []
        for flag in self.facts.requires_grad:
            gradient = next(found) if flag else None
            results.append(None if gradient is None else _tensor.wrap(gradient))
        if len(came) < self.output_count and self.facts.reached:  # None stays None, as in eager
            reached = frozenset().union(*(self.facts.reached[i] for i in came))
            return [found if i in reached else None for i, found in enumerate(results)]
        return results

    def unpacked(self, saved: Any) -> Any:
        """The array of a saved value, if nobody wrote to it since.

        Raises:
            AutogradError: it was written in place.
        """
        if isinstance(saved, (SavedTensor, _SavedArray)):
            if saved.storage.version != saved.version:
                raise AutogradError(modified_message(saved, self))  # type: ignore[arg-type]
            return saved.array
        return saved

    def replayed(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        """The gradients, computed by recorded operations, so that they have a history."""
        inputs: list[Any] = []
        for saved, flag in zip(self.inputs or (), wanted, strict=True):
            tensor = saved.unpack(self) if isinstance(saved, SavedTensor) else saved
            inputs.append(_alias(tensor) if flag else tensor)
        outputs = self.facts.replay(*inputs)
        pairs = [
            (outputs[position], gradient)
            for position, gradient in zip(self.facts.differentiable_outputs, gradients, strict=True)
            if gradient is not None and outputs[position].requires_grad
        ]
        targets = [x for x, flag in zip(inputs, wanted, strict=True) if flag]
        found = iter(
            tape.grad(
                [output for output, _ in pairs],
                targets,
                [gradient for _, gradient in pairs],
                create_graph=True,
                allow_unused=True,
            )
        )
        return [next(found) if flag else None for flag in wanted]

    def release(self) -> None:
        self.done |= self.coming
        if self.facts.is_separable and len(self.done) < self.output_count:
            return
        self.inputs = None
        self.saved = []

    def name(self) -> str:
        return "CompiledBackward"


def _alias(tensor: Any) -> Any:
    """The same values under a node of their own: inputs may depend on each other."""
    edges, indices = edges_of([tensor])
    return _tensor.wrap_output(tensor.array, CopyBackward(edges, indices), 0)


def _zeros(meta: Any) -> Any:
    shape, dtype, _ = meta
    return np.zeros(shape, dtype.numpy)


def _contiguous(array: Any) -> Any:
    return array if array.flags.c_contiguous else np.array(array, order="C")
