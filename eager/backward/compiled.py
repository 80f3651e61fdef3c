"""Compiled programs as eager calls: arrays in and out of programs, one node on the tape.

Contract: a compiled call takes tensors and Python numbers in the order of its graph's inputs and
returns a tuple with one Tensor per graph output (a literal output stays a number). A training call
is one node; its backward is the compiled backward program, except under `create_graph=True`, where
the forward graph is replayed op by op on tensors and differentiated by the tape. Outputs that are
views of inputs are the caller's business.
"""

import functools
import weakref
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import AutogradError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, arrays, is_grad_enabled, meta_of, wrap_arrays
from dynajit.eager.backward import engine as tape
from dynajit.eager.backward.saved_arrays import PackedArray, SavedArray, kept_elsewhere, packed
from dynajit.eager.backward.training import Program, Training
from dynajit.eager.operations.writes.history import CopyBackward
from dynajit.eager.tape import saved_hooks
from dynajit.eager.tape.handles import BEGUN
from dynajit.eager.tape.node import (
    MSG_INFERENCE,
    MSG_SECOND_BACKWARD,
    Node,
    OpNode,
    SavedTensor,
    edges_of,
    formulas_of,
    made_by,
    modified_message,
)

MSG_NOT_REPLAYED: Final = (
    "backward through a compiled function that computes it again from its inputs (create_graph): "
    "one of them ({what}) was written in place since.  Write to a clone(), or run the function "
    'under set_stance("force_eager").'
)

MSG_HOOKS_OF_NODE: Final = (
    "backward through a compiled function asks for the gradient of a result from which another "
    "result is computed, and the function's node on the tape (`grad_fn`) has hooks of its own.  "
    "Register them on tensors instead."
)

MOST_ENDINGS: Final = 64
"""Of how many courses of runs a compiled function remembers whether they end a call's history."""


class CompiledCall:
    """Makes callables over tensors from programs over arrays."""

    @staticmethod
    def inference(program: Program) -> Callable[..., tuple[Any, ...]]:
        """A call without gradients: unwrap, run, wrap."""

        def call(*inputs: Any) -> tuple[Any, ...]:
            return wrap_arrays(program(*arrays(inputs)))

        return call

    @staticmethod
    def training(facts: Training) -> Callable[..., tuple[Any, ...]]:
        """A call that is one node of the tape where an input requires a gradient."""
        trained = tuple(i for i, flag in enumerate(facts.requires_grad) if flag)
        lean = facts.forward if facts.inference is None else facts.inference
        output_count = facts.output_count

        def call(*inputs: Any) -> tuple[Any, ...]:
            if is_grad_enabled():
                for position in trained:
                    if _requires_grad(inputs[position]):
                        return _record(facts, inputs)
            return wrap_arrays(lean(*arrays(inputs))[:output_count])

        return call


#: Asks no class that overrides what its tensors show.
_requires_grad: Final = vars(_tensor.TensorBase)["requires_grad"].__get__


def _record(facts: Training, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run the forward program and put its node on the tape."""
    results = facts.forward(*arrays(inputs))
    node = CompiledNode(facts, inputs)
    outputs = list(wrap_arrays(results[: facts.output_count]))
    for index, position in enumerate(facts.differentiable_outputs):
        outputs[position] = _tensor.wrap_output(results[position], node, index)
    node.save(results[facts.output_count :], outputs)
    return tuple(outputs)


class CompiledNode(Node):
    """One training call on the tape. Mutable: see Node."""

    __slots__ = (
        "checked",
        "chosen",
        "coming",
        "done",
        "facts",
        "inputs",
        "is_bare",
        "out_metas",
        "output_count",
        "partly",
        "reached",
        "saved",
        "sizes",
        "spent",
        "unfolded",
        "views",
    )

    def __init__(self, facts: Training, inputs: tuple[Any, ...]) -> None:
        edges, indices = edges_of(inputs)
        super().__init__(
            [edge if flag else None for edge, flag in zip(edges, facts.requires_grad, strict=True)],
            indices,
        )
        self.facts = facts
        self.reached = facts.reached
        self.output_count = len(facts.differentiable_outputs)
        self.inputs: list[Any] | None = [
            SavedTensor(x, False) if isinstance(x, TensorBase) else x for x in inputs
        ]
        self.sizes = () if facts.sizes is None else facts.sizes(inputs)
        self.saved: list[Any] = []
        self.checked: list[Any] = []  # per check: (storage, version when saved)
        self.out_metas: list[Any] = []
        self.coming: set[int] = set()  # outputs that the present backward comes from
        self.chosen = -1  # bit set: inputs whose gradients it is to give
        self.done = 0  # bit set: outputs that backward came from without keeping, to all inputs
        self.partly: list[tuple[int, int]] = []  # (outputs, inputs) of runs to chosen inputs
        self.spent = facts.spent  # rows that have let go, beside those that follow from the runs
        self.is_bare = False  # what it saved is gone, its inputs are not: see `make_bare`
        self.unfolded: Sequence[tuple[Node, int]] | None = None
        self.views: list[tuple[weakref.ref[Node], int, int]] = []  # see `note_within`

    def save(self, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Keep the saved values, and what is known of the outputs."""
        facts = self.facts
        inputs: Any = self.inputs
        for check in facts.checks or ():
            if check.place is None:
                self.checked.append(None)
                continue
            is_output, position = check.place
            storage = outputs[position]._storage if is_output else inputs[position].storage
            self.checked.append((storage, storage.version + check.total))
        for value, source, shared in zip(
            values, facts.saved_inputs, facts.saved_outputs, strict=True
        ):
            if source is not None and inputs is not None:
                kept = inputs[source]
                if isinstance(kept, SavedTensor) and kept.storage.is_inference:
                    raise AutogradError(MSG_INFERENCE)
                self.saved.append(kept)
            elif shared is not None and isinstance(outputs[shared], TensorBase):
                writes = facts.writes[shared] if facts.writes else 0
                self.saved.append(SavedArray(value, outputs[shared], writes))
            else:
                self.saved.append(value)
        hooks = saved_hooks.current() if saved_hooks.OPEN else None
        if hooks is not None:
            self.saved = [packed(value, hooks) for value in self.saved]
            if isinstance(hooks, saved_hooks.HooksOfOwner):
                self.inputs = [kept_elsewhere(x, hooks.place_of) for x in inputs or ()]
        self.out_metas = [meta_of(outputs[i]) for i in facts.differentiable_outputs]

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        gradients = [
            gradient if gradient is not None and self.leads(i, wanted) else None
            for i, gradient in enumerate(gradients)
        ]
        if all(gradient is None for gradient in gradients):
            self.coming = set()
            return [None] * len(self.edges)
        came = self.receive(gradients, wanted)
        if is_grad_enabled() or _tensor.has_levels():
            return self.replayed(gradients, wanted)
        arguments = self.arguments(gradients, came)
        found: Sequence[Any] = self.facts.backward(*arguments)
        if len(came) < self.output_count:
            found = self.partial(found, arguments)
        rest = iter(found)
        results = [next(rest) if flag else None for flag in self.facts.requires_grad]
        return [None if array is None else _tensor.wrap(array) for array in results]

    def apply_in_parts(
        self, gradients: list[Any], sizes: tuple[int, int]
    ) -> Iterator[Sequence[tuple[int, Any]]] | None:
        if self.facts.in_parts is None or is_grad_enabled() or _tensor.has_levels():
            return None
        if any(gradient is None for gradient in gradients):
            return None
        trained = [i for i, flag in enumerate(self.facts.requires_grad) if flag]
        counted = tuple(isinstance(self.edges[i], TensorBase) for i in trained)
        program = self.facts.in_parts(sizes, counted)
        if program is None:
            return None
        came = self.receive(gradients, [edge is not None for edge in self.edges])
        # `map` holds nothing of a part that it has given: its arrays are the leaves' own.
        return map(functools.partial(_part, trained), program(*self.arguments(gradients, came)))

    def receive(self, gradients: list[Any], wanted: Sequence[bool]) -> set[int]:
        """The outputs whose gradients came; what they need is as it was.

        Raises:
            AutogradError: it was released, or written to.
        """
        came = {i for i, gradient in enumerate(gradients) if gradient is not None}
        self.chosen = self.choice(wanted)
        self.refuse_released(came, self.chosen)
        self.coming = came
        self.check(came, wanted)
        return came

    def arguments(self, gradients: list[Any], came: set[int]) -> tuple[Any, ...]:
        """Those of the backward program."""
        received = [
            _zeros(meta) if gradient is None else _contiguous(gradient.array)
            for gradient, meta in zip(gradients, self.out_metas, strict=True)
        ]
        saved = [self.unpacked(value, came) for value in self.saved]
        return (*saved, *received, *self.sizes)

    def leads(self, output: int, wanted: Sequence[bool]) -> bool:
        """Whether the gradient of an output reaches an input whose gradient is wanted."""
        return not self.reached or any(wanted[position] for position in self.reached[output])

    def choice(self, wanted: Sequence[bool]) -> int:
        """The inputs whose gradients are wanted as a bit set; -1 for all."""
        if all(flag or edge is None for flag, edge in zip(wanted, self.edges, strict=True)):
            return -1
        return sum(1 << position for position, flag in enumerate(wanted) if flag)

    def refuse_released(self, came: Iterable[int], chosen: int = -1) -> None:
        """A second backward needs what the first has let go of.

        Raises:
            AutogradError: it has.
        """
        if self.inputs is None or (self.has_run and any(self.is_released(o, chosen) for o in came)):
            raise AutogradError(MSG_SECOND_BACKWARD)

    @property
    def has_run(self) -> bool:
        """Whether any row may have let go of what it saved."""
        return bool(self.done or self.partly or self.spent)

    def give_up(self, gradients: list[Any], wanted: Sequence[bool]) -> None:
        outputs = sum(1 << i for i, gradient in enumerate(gradients) if gradient is not None)
        chosen = self.choice(wanted)
        met = [row for row in self.facts.rows if row[0] & outputs and row[1] & chosen]
        places = (place for place, row in enumerate(met) if self.is_passed(*row))
        self.spent |= frozenset(met[: next(places, 0)])

    @property
    def may_hide(self) -> bool:  # type: ignore[override]
        """Whether outputs, or views taken after the call, are computed with inside."""
        return self.is_bare or bool(self.views) or any(self.facts.within)

    def hides(self, index: int, came: Sequence[int]) -> bool:
        within = self.facts.within
        return bool(within) and any(index in within[output] for output in came)

    def hidden_views(self, came: Sequence[int] | None = None) -> Iterator[tuple[Node, int]]:
        for reference, index, output in self.views:
            node = reference()
            if node is not None and (came is None or output in came):
                yield node, index

    def unfold(self, came: Collection[int], wanted: Sequence[bool]) -> None:
        """The call again, operation by operation, on the tape in the place of this node.

        Hooks and retained gradients of the outputs move along. What runs so far have let go of
        is let go of again.

        Args:
            came, wanted: outputs whose gradients came, and inputs whose gradients are used.

        Raises:
            AutogradError: the graph was released, or something was written to since.
        """
        if self.inputs is None:
            raise AutogradError(MSG_SECOND_BACKWARD)
        if self.is_bare:
            self.refuse_released(came, self.choice(wanted))
        self.check(came, wanted)
        if self.extras is not None and (self.extras.hooks or self.extras.prehooks):
            raise AutogradError(MSG_HOOKS_OF_NODE)
        needed, run = self.facts.replay(self.facts.differentiable_outputs)
        inputs = [
            self.given(position, saved, edge is not None, position in needed)
            for position, (saved, edge) in enumerate(
                zip(self.inputs or (), self.edges, strict=True)
            )
        ]
        before = _tensor._set_grad_enabled(True)
        try:
            made = [made_by(output) for output in run(*inputs)]
        finally:
            _tensor._set_grad_enabled(before)
        self.unfolded = _one_place_each(made)
        self.release_passed(inputs)
        BEGUN.unfolding = True
        self.number()
        self.move_hooks()
        self.done = -1
        self.is_bare = False
        self.forget()

    def release_passed(self, inputs: Sequence[Any]) -> None:
        """Let the nodes that stand for this one go of what runs so far have.

        Args:
            inputs: what they were computed from.
        """
        if not self.has_run:
            return
        targets: dict[Any, int] = {}
        outputs: dict[Any, int] = {}
        for position, tensor in enumerate(inputs):
            if isinstance(tensor, TensorBase) and tensor.grad_fn is not None:
                targets[tensor.grad_fn] = 1 << position
        ends = set(targets)
        for output, (node, _) in enumerate(self.unfolded or ()):
            outputs[node] = outputs.get(node, 0) | 1 << output
        nodes = sorted(_above(list(outputs), ends), key=lambda node: node.sequence)
        own = {node: mask << len(inputs) for node, mask in outputs.items()}
        for node in nodes:
            for edge in _passed_edges(node):
                behind = targets.get(edge, 0) | own.get(edge, 0)
                targets[node] = targets.get(node, 0) | behind
        for node in reversed(nodes):
            for edge in _passed_edges(node):
                if isinstance(edge, Node) and edge not in ends:
                    outputs[edge] = outputs.get(edge, 0) | outputs[node]
            if self.is_passed(outputs[node], targets.get(node, 0)):
                node.release()

    def number(self) -> None:
        """Let the nodes behind this one run where it would: before everything older."""
        found: set[Node] = set()
        stack: list[Any] = [node for node, _ in self.unfolded or ()]
        while stack:
            node = stack.pop()
            if isinstance(node, Node) and node.sequence > self.sequence and node not in found:
                found.add(node)
                stack.extend(node.edges)
        step = 1 / (len(found) + 1)
        for place, node in enumerate(sorted(found, key=lambda node: node.sequence), 1):
            node.sequence = self.sequence - 1 + place * step

    def move_hooks(self) -> None:
        """Hand hooks and retained gradients of the outputs to the nodes that make them now."""
        for index, (node, place) in enumerate(self.unfolded or ()):
            if self.extras is not None and index in self.extras.tensor_hooks:
                node.more().tensor_hooks[place] = self.extras.tensor_hooks[index]
            if self.extras is not None and index in self.extras.retained:
                node.more().retained[place] = self.extras.retained[index]

    def partial(self, found: Sequence[Any], arguments: Sequence[Any]) -> Sequence[Any]:
        """What backward gives where gradients did not come for every output.

        In eager execution nothing is computed for the others; here zeros were sent back, of which
        infinite derivatives make NaN.

        Args:
            found: what the backward program gave.
            arguments: of that program.
        """
        if not all(array is None or any_arrays.is_finite(array) for array in found):
            absent = frozenset(range(self.output_count)) - self.coming
            return self.facts.without(absent)(*arguments)
        if not self.facts.reached:
            return found
        reached = frozenset().union(*(self.facts.reached[i] for i in self.coming))
        trained = (i for i, flag in enumerate(self.facts.requires_grad) if flag)
        return [array if i in reached else None for i, array in zip(trained, found, strict=True)]

    def check(self, came: Collection[int], wanted: Sequence[bool]) -> None:
        """Nothing that eager execution would have saved was written to.

        Raises:
            AutogradError: something was.
        """
        for check, checked in zip(self.facts.checks or (), self.checked, strict=True):
            if checked is not None and checked[0].version == checked[1]:
                continue
            outputs = sum(1 << output for output in came)
            inputs = sum(1 << position for position, flag in enumerate(wanted) if flag)
            if not (check.outputs & outputs and check.inputs & inputs):
                continue
            if checked is None:
                raise check.error(self.arrays(), check.total, check.counted)
            storage, version = checked
            raise check.error(self.arrays(), storage.version, version)

    def arrays(self) -> list[Any]:
        """The arrays and numbers of the call."""
        return [x.array if isinstance(x, SavedTensor) else x for x in self.inputs or ()]

    def unpacked(self, saved: Any, came: set[int]) -> Any:
        """The array of a saved value, if nobody wrote to it since, or it is multiplied by zeros.

        `check` has seen all that eager execution would look at. Memory of which only outputs
        without a gradient have need is not among it.

        Raises:
            AutogradError: it was written in place.
        """
        if isinstance(saved, (SavedTensor, SavedArray)):
            if saved.storage.version != saved.version and self.is_used(saved.storage, came):
                raise AutogradError(modified_message(saved, self))  # type: ignore[arg-type]
            return saved.array
        return saved.array() if isinstance(saved, PackedArray) else saved

    def is_used(self, storage: Any, came: set[int]) -> bool:
        """True if the gradients of these outputs may be computed from this memory."""
        if self.facts.checks is None:
            return True
        outputs = sum(1 << output for output in came)
        return any(
            check.outputs & outputs
            for check, checked in zip(self.facts.checks, self.checked, strict=True)
            if checked is not None and checked[0] is storage
        )

    def replayed(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        """The gradients, computed by operations, so that they can have a history, or tangents."""
        positions = [self.facts.differentiable_outputs[i] for i in sorted(self.coming)]
        needed, run = self.facts.replay(positions)
        inputs = [
            self.given(position, saved, flag, position in needed)
            for position, (saved, flag) in enumerate(zip(self.inputs or (), wanted, strict=True))
        ]
        arrived = [gradient for gradient in gradients if gradient is not None]
        is_recorded = _tensor._set_grad_enabled(True)
        try:
            outputs = run(*inputs)
        finally:
            _tensor._set_grad_enabled(is_recorded)
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, arrived, strict=True)
            if output.requires_grad
        ]
        targets = [x for x, flag in zip(inputs, wanted, strict=True) if flag]
        found = iter(
            tape.grad(
                [output for output, _ in pairs],
                targets,
                [gradient for _, gradient in pairs],
                create_graph=is_recorded,
                allow_unused=True,
            )
        )
        return [next(found) if flag else None for flag in wanted]

    def given(self, position: int, saved: Any, flag: bool, is_needed: bool) -> Any:
        """An input as it was, under a node of its own if its gradient is wanted.

        The node is needed because inputs may depend on each other, and because an input that the
        call wrote to has another history by now.

        Raises:
            AutogradError: it was written to, and nothing kept what it held.
        """
        if not isinstance(saved, SavedTensor):
            return saved
        array = saved.array
        if saved.storage.version != saved.version or position in self.facts.written:
            copies = dict(zip(self.facts.saved_copies, self.saved, strict=False))
            if position not in copies and is_needed:
                dtype = saved.tensor.dtype.name
                raise AutogradError(
                    MSG_NOT_REPLAYED.format(what=f"{dtype} {list(saved.array.shape)}")
                )
            array = copies.get(position, array)
            array = array.array() if isinstance(array, PackedArray) else array
        if flag:
            node = CopyBackward([self.edges[position]], [self.indices[position]])
            return _tensor.wrap_output(array, node, 0)
        return saved.tensor if array is saved.tensor.array else _tensor.wrap(array)

    def release(self) -> None:
        outputs = sum(1 << output for output in self.coming)
        if self.chosen == -1:
            self.done |= outputs
        elif outputs and (outputs, self.chosen) not in self.partly:
            self.partly.append((outputs, self.chosen))
        if self.is_used_up():
            self.forget()
        elif self.chosen == -1 and all(map(self.is_released, range(self.output_count))):
            self.make_bare()

    def is_used_up(self) -> bool:
        """Whether no run will succeed again: rows between each output and whatever it reaches have
        let go of what they saved."""
        key = (self.done, self.spent, *self.partly)
        known = self.facts.endings.get(key)
        if known is None:
            known = all(
                ends & ~self.closed(output) == 0
                for output, ends in enumerate(self.facts.ends or (-1,) * self.output_count)
            )
            if len(self.facts.endings) < MOST_ENDINGS:
                self.facts.endings[key] = known
        return known

    def closed(self, output: int) -> int:
        """The bit set of what an output reaches through a row that has let go."""
        found = 0
        for outputs, targets in self.facts.rows:
            if outputs >> output & 1 and self.is_passed(outputs, targets):
                found |= targets
        return found

    def forget(self) -> None:
        """Drop all that was kept for backward: no run will succeed again."""
        self.inputs = None
        self.saved = []
        self.checked = []

    def make_bare(self) -> None:
        """Drop all that was kept for backward but the inputs: only runs to some of them, or to
        some outputs, will succeed, if any, and compute the call again."""
        copies = self.facts.saved_copies
        self.saved = [
            value if position is not None else None
            for value, position in zip(self.saved, copies, strict=False)
        ]
        self.is_bare = True

    def is_released(self, output: int, chosen: int = -1) -> bool:
        """True if eager execution has let go of what an output's gradient needs to give those of
        the chosen inputs."""
        bit, done = 1 << output, self.done
        if chosen == -1 and not (self.partly or self.spent):
            return any(need & bit and need & done for need in self.facts.needs)
        return any(
            outputs & bit and inputs & chosen and self.is_passed(outputs, inputs)
            for outputs, inputs in self.facts.rows
        )

    def is_passed(self, outputs: int, inputs: int) -> bool:
        """Whether a run has passed a row, and let go of what it saved."""
        if outputs & self.done or (outputs, inputs) in self.spent:
            return True
        return any(outputs & came and inputs & chosen for came, chosen in self.partly)

    def name(self) -> str:
        return "CompiledBackward"


def _part(positions: Sequence[int], arrays: Sequence[tuple[int, Any]]) -> Sequence[tuple[int, Any]]:
    """(position of an input, its gradient), from numbers among those that have one."""
    return [(positions[i], None if a is None else _tensor.wrap(a)) for i, a in arrays]


def note_within(view: Any, *results: Any) -> Any:
    """Let a call's node know of a view, taken after the call, that it computed with inside.

    Args:
        view: of an input or of a result of the call; it is returned.
        results: of the call, computed from what the view shows.
    """
    if view.grad_fn is None:
        return view
    for result in results:
        node, index = result.grad_fn, result.output_index
        while isinstance(node, Node) and not isinstance(node, CompiledNode):
            node, index = node.edges[0], node.indices[0]  # the result is a view, too
        if isinstance(node, CompiledNode):
            node.views.append((weakref.ref(view.grad_fn), view.output_index, index))
    return view


def note_written(tensor: Any, result: Any) -> None:
    """Let a call's node know of a tensor that holds a result of it since: gradients of other
    results pass within the call where they would pass the tensor.

    Args:
        tensor: written with the history of the result.
        result: of the call.
    """
    node, index = result.grad_fn, result.output_index
    while isinstance(node, Node) and not isinstance(node, CompiledNode):
        node, index = node.edges[0], node.indices[0]  # it is laid out otherwise
    if not isinstance(node, CompiledNode):
        return
    hiding = {output for output, places in enumerate(node.facts.within) if index in places}
    hiding.update(o for view, _, o in node.views if view() is result.grad_fn)
    for written in (tensor, tensor._base):
        if written is not None and written.grad_fn is not None:
            made = weakref.ref(written.grad_fn), written.output_index
            node.views.extend((*made, output) for output in sorted(hiding))


def _above(roots: Sequence[Node], ends: Container[Node]) -> set[Node]:
    """The nodes that are reached from `roots`, and these, down to `ends`, which are not among
    them."""
    found: set[Node] = set()
    stack: list[Any] = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and node not in found and node not in ends:
            found.add(node)
            stack.extend(_passed_edges(node))
    return found


def _passed_edges(node: Node) -> Iterator[Any]:
    """Where gradients that pass a node go."""
    if not isinstance(node, OpNode):
        yield from node.edges
        return
    formulas = formulas_of(node.op)
    for position, edge in enumerate(node.edges):
        if formulas[0 if node.op.variadic else position] is not None:
            yield edge


def _one_place_each(made: Sequence[tuple[Any, int]]) -> list[tuple[Node, int]]:
    """(node, output) for each result, no two the same, also for those without a history."""
    places: list[tuple[Node, int]] = []
    for node, index in made:
        if node is None or (node, index) in places:
            node, index = CopyBackward([node], [index]), 0
        places.append((node, index))
    return places


def _zeros(meta: Any) -> Any:
    shape, dtype, place = meta
    return any_arrays.zeros(shape, dtype.numpy, place)


def _contiguous(array: Any) -> Any:
    return array if array.flags.c_contiguous else any_arrays.row_major(array)
