"""The facts of a compiled call that is trained: its programs, and what its one node has to know of
the operations that it stands for.

Contract: data alone; `eager.backward.compiled` says what is done with it, and makes it from what
the driver knows of a graph.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from dynajit.core.errors import AutogradError
from dynajit.core.records import record
from dynajit.core.types.dtypes import DType
from dynajit.eager.tape.node import MSG_MODIFIED

Replay: TypeAlias = Callable[[Sequence[int]], tuple[frozenset[int], Callable[..., Sequence[Any]]]]
Program: TypeAlias = Callable[..., tuple[Any, ...]]
Parts: TypeAlias = Iterator[Sequence[tuple[int, Any]]]
InParts: TypeAlias = Callable[[tuple[int, int], tuple[bool, ...]], Callable[..., Parts] | None]


@record
class VersionCheck:
    """A tensor that backward must find as it was: eager execution would have saved it.

    Args:
        place: (is an output, position) of the tensor; None: it was written to before the call
            returned.
        counted: writes that the call counts until the tensor is saved.
        total: writes that the call counts in all; the user sees them after it.
        outputs: bit set: the gradients of which differentiable outputs need it.
        inputs: bit set: the gradients of which inputs need it.
        node: name of the eager node that saves it.
        dtype: its dtype.
        shape: from the arrays and numbers that the graph was called with, its shape.
    """

    place: tuple[bool, int] | None
    counted: int
    total: int
    outputs: int
    inputs: int
    node: str
    dtype: DType
    shape: Callable[[Sequence[Any]], tuple[int, ...]]

    def error(self, inputs: Sequence[Any], now: int, expected: int) -> AutogradError:
        """What eager execution says."""
        what = f"{self.dtype.name} {list(self.shape(inputs))}"
        return AutogradError(
            MSG_MODIFIED.format(what=what, node=self.node, now=now, expected=expected)
        )


@record
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
        replay: `replay(positions)` -> the positions of the inputs that these outputs are computed
            from, and `function(*tensors_and_numbers)` -> these outputs: the graph op by op.
        inference: like `forward` without saved values, for calls that record nothing; None uses
            `forward`.
        sizes: from the graph's inputs, the sizes that no argument of `backward` shows.
        rows: per row that saves anything in eager execution two bit sets: the gradients of which
            differentiable outputs, and those for what, pass through it: for inputs, by their
            positions, and behind those for differentiable outputs that others are computed from.
            Backward may come from an output until a backward, from it or from another, has
            released such a row. In the order in which backward meets them.
        spent: those of `rows` that the call itself has released.
        ends: per differentiable output what its gradient reaches, as in `rows`; empty: each
            input.
        reached: per differentiable output the positions of the inputs that get a gradient from it;
            empty: of all.
        checks: tensors to check in backward, in order; None: nobody knows which, and every saved
            value has to be as it was.
        saved_copies: per saved value the position of the input that it is a copy of, or None.
        writes: per user output, by how much its version grows after the call; empty: by nothing.
        within: per differentiable output those others (by number) that it is computed from.
        without: `without(numbers)` -> a program like `backward` that computes nothing for these
            differentiable outputs.
        in_parts: `in_parts(sizes, counted)` -> a program like `backward` that gives its results in
            several goes, as (number, array) in each: the first goes when `sizes[0]` bytes of those
            that are counted are there, each further one after `sizes[1]`; None where there would
            be one.
        written: positions of the inputs that hold other elements after the call.
        endings: whether no run will succeed after these, as far as somebody has asked.

    Attributes:
        needs: the first of each of `rows`, without repetitions.
    """

    forward: Program
    backward: Program
    output_count: int
    differentiable_outputs: tuple[int, ...]
    saved_inputs: tuple[int | None, ...]
    saved_outputs: tuple[int | None, ...]
    requires_grad: tuple[bool, ...]
    replay: Replay
    without: Callable[[frozenset[int]], Program]
    inference: Program | None = None
    sizes: Callable[[Sequence[Any]], tuple[int, ...]] | None = None
    rows: tuple[tuple[int, int], ...] = ((-1, -1),)
    spent: frozenset[tuple[int, int]] = frozenset()
    ends: tuple[int, ...] = ()
    reached: tuple[frozenset[int], ...] = ()
    checks: tuple[VersionCheck, ...] | None = None
    saved_copies: tuple[int | None, ...] = ()
    writes: tuple[int, ...] = ()
    within: tuple[frozenset[int], ...] = ()
    in_parts: InParts | None = None
    written: frozenset[int] = frozenset()
    endings: dict[tuple[Any, ...], bool] = field(default_factory=dict)
    needs: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        needs = tuple(dict.fromkeys(outputs for outputs, _ in self.rows))
        object.__setattr__(self, "needs", needs)
