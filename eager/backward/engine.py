"""The backward engine: gradients travel along the tape from results to leaves.

Contract: nodes run in descending order of their sequence number, each once, after every gradient
for it has arrived; nothing recurses. Formulas run with gradients off, or on where
`create_graph=True`, so that their result can be differentiated again. Saved tensors are released as
nodes run unless the graph is retained.
"""

import functools
import heapq
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    AutogradError,
    AutogradValueError,
    UnsupportedError,
)
from dynajit.core.process import _recorder
from dynajit.core.process.recording import Kind, recorded
from dynajit.core.process.warning import Once
from dynajit.core.records import record
from dynajit.core.types.tensor_layouts import strided
from dynajit.core.types.value_types import numel
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase
from dynajit.eager.backward.accumulation import (
    accumulate_between,
    accumulate_into,
    accumulate_retained,
    call_tensor_hooks,
    run_node_hooks,
    run_prehooks,
    run_tensor_hooks,
)
from dynajit.eager.backward.arrivals import WATCHERS
from dynajit.eager.backward.present import formulas_mode
from dynajit.eager.backward.reach import (
    MSG_HIDDEN_VIEW,
    edges_of,
    leading_to,
    nodes_below,
    refuse_hidden,
)
from dynajit.eager.tape import anomaly
from dynajit.eager.tape.handles import BEGUN, HookOfSeveral
from dynajit.eager.tape.node import (
    MSG_SPARSE,
    AccumulateGrad,
    Node,
    hooks_at,
    made_by,
    resolved,
)
from dynajit.ops.functions.shapes.index import stack
from dynajit.ops.table import overriding
from dynajit.ops.table.op_table import TABLE

MSG_NO_GRAPH: Final = (
    "element {index} of tensors does not require grad and does not have a grad_fn.  Expected a "
    "result that depends on a tensor with requires_grad=True, computed with gradients enabled."
)
MSG_NOT_SCALAR: Final = (
    "grad can be implicitly created only for scalar outputs; the output has shape {shape}.  Pass "
    "gradient= (a tensor of that shape), or reduce first, for example with .sum()."
)
MSG_START_AT_EDGE: Final = (
    "backward from a GradientEdge: the gradient to start from is not implied, since the shape is "
    "not known.  Give it, one per edge, or take the edge from get_gradient_edge()."
)
CYCLES: Final = Once(
    "Using backward() with create_graph=True will create a reference cycle between the parameter "
    "and its gradient which can cause a memory leak. We recommend using autograd.grad when "
    "creating the graph to avoid this. If you have to use this function, make sure to reset the "
    ".grad fields of your parameters to None after use to break the cycle and avoid the leak."
)
MSG_UNUSED: Final = (
    "One of the differentiated Tensors appears to not have been used in the graph (inputs[{index}]"
    "). Set allow_unused=True if this is the desired behavior."
)


@record
class GradientEdge:
    """A place on the tape where a gradient arrives: an output of a node, or a leaf.

    Args:
        node: of the tape, as `Tensor.grad_fn`.
        output_nr: which of its outputs.
        ownership_token: keeps nothing alive here; None.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


class _Place:
    """An edge in the place of a tensor among inputs and outputs. Immutable.

    Attributes:
        is_known: whether the node knows of what kind the tensor is that it made there.
    """

    __slots__ = ("device", "dtype", "grad_fn", "is_known", "output_index", "shape")

    requires_grad = True
    is_leaf = False
    layout = strided

    def __init__(self, edge: GradientEdge) -> None:
        self.grad_fn = edge.node
        self.output_index = edge.output_nr
        kind: Any = edge.node.kind_of(edge.output_nr)
        self.is_known = kind is not None
        self.shape: Any
        self.dtype: Any
        self.device: Any
        self.shape, self.dtype, self.device = kind or (None, None, None)


class _Run:
    """One backward pass. Mutable: `pending` shrinks as nodes run.

    Args:
        create_graph: formulas are recorded.
        keep: saved tensors are not released.
        wanted: nodes that lead to a requested input; None where all do.
        captures: node -> outputs whose gradients are asked for.
        leaves: identities of the leaves that gradients are sent to; None means every leaf.

    Attributes:
        accumulates: `.grad` grows; else gradients are results.
    """

    def __init__(
        self,
        create_graph: bool,
        keep: bool,
        wanted: set[Node] | None,
        captures: dict[Node, set[int]],
        leaves: set[int] | None,
    ) -> None:
        self.create_graph = create_graph
        self.keep = keep
        self.wanted = wanted
        self.captures = captures
        self.leaves = leaves
        self.accumulates = False
        self.heap: list[tuple[int, Node]] = []
        self.pending: dict[Node, list[Any]] = {}
        self.captured: dict[tuple[int, int], Any] = {}
        self.leaf_gradients: dict[int, list[Any]] = {}
        #: How many edges lead to leaves whose hooks wait for gradients, by id of the leaf.
        self.awaited: dict[int, int] = {}
        #: What hooks that see several gradients know of this run; see `dynajit.autograd.graph`.
        self.notes: dict[Any, Any] = {}
        #: What they have to do at its end.
        self.at_end: list[Callable[[], None]] = []
        #: See `coming`; forgotten where the tape changes.
        self.known_to_come: set[int] | None = None
        self.anomaly = anomaly.is_detecting()
        self.is_overriding = overriding.has_begun()
        #: Nothing is to be done around formulas.
        self.is_plain = self.anomaly is None and not self.is_overriding
        if _recorder.is_on():
            self.is_plain = False
            self.apply = functools.partial(_apply_recorded, self.apply)  # type: ignore[method-assign]

    def send(self, target: Any, index: int, gradient: Any) -> None:
        """Add `gradient` to what has arrived at output `index` of a node, or at a leaf."""
        if isinstance(target, Node):
            if target.unfolded is not None:
                target, index = resolved(target, index)
            gradients = self.pending.get(target)
            if gradients is None:
                gradients = self.pending[target] = [None] * target.output_count
                heapq.heappush(self.heap, (-target.sequence, target))
            before = gradients[index]
            gradients[index] = gradient if before is None else self.add(before, gradient)
            return
        found = self.leaf_gradients.get(id(target))
        if found is None:
            self.leaf_gradients[id(target)] = [target, gradient]
        else:
            found[1] = self.add(found[1], gradient)

    def add(self, a: Any, b: Any) -> Any:
        """The sum of two gradients of one value."""
        is_followed = self.create_graph or _tensor.has_levels()
        if is_followed or not (a._has_array and b._has_array):
            return TABLE.add(a, b)
        return _tensor.wrap(any_arrays.added(a.array, b.array))

    def run(self) -> None:
        """Run every node that a gradient reaches."""
        while self.heap:
            _, node = heapq.heappop(self.heap)
            self.run_node(node, self.pending.pop(node))

    def await_leaves(self) -> None:
        """Let gradients be accumulated as soon as they are complete, where somebody waits for that:
        they may travel to other processes while the run goes on.
        """
        for node in nodes_below(self.pending):
            if self.wanted is None or node in self.wanted:
                for edge in edges_of(node):
                    if self.is_awaited(edge):
                        self.awaited[id(edge)] = self.awaited.get(id(edge), 0) + 1

    def is_awaited(self, edge: Any) -> bool:
        """Whether somebody waits for what an edge leads to."""
        if edge is None or isinstance(edge, Node) or not self.is_used(edge):
            return False
        if id(edge) in WATCHERS or edge.__dict__.get("_post_accumulate_hooks"):
            return True
        is_of_several = any(isinstance(h, HookOfSeveral) for h in (edge.hooks or {}).values())
        return is_of_several or hooks_at(edge) is not None

    def run_node(self, node: Node, gradients: list[Any]) -> None:
        """Hooks, the formulas, hooks again; then send the results along the edges."""
        if node.may_hide and self.is_to_unfold(node, gradients):
            self.unfold(node, gradients)
            return
        extras = node.extras
        if extras is not None:
            run_tensor_hooks(extras, gradients)
            accumulate_retained(extras, gradients, self.create_graph)
        for index in self.captures.get(node, ()):
            self.captured[id(node), index] = gradients[index]
        if self.wanted is not None and node not in self.wanted:
            if self.accumulates and extras is not None:  # the gradient of its result is chosen
                gradients = run_prehooks(extras, gradients)
                run_node_hooks(extras, [None] * len(node.edges), gradients)
            return
        if extras is not None and extras.prehooks:
            gradients = run_prehooks(extras, gradients)
        parts = self.parts(node, gradients) if self.awaited else None
        if parts is not None:
            self.run_parts(node, parts)
            return
        if self.wanted is None and self.leaves is None:
            wanted = [edge is not None for edge in node.edges]
        else:
            wanted = [self.is_used(edge) for edge in edges_of(node)]
        try:
            if self.is_plain:
                results = node.apply(gradients, wanted)
            else:
                results = self.apply(node, gradients, wanted)
        except AutogradError:
            self.give_up(node, gradients, wanted)
            raise
        if extras is not None and extras.hooks:
            results = run_node_hooks(extras, results, gradients)
        if not self.keep:
            node.release()
        del gradients
        for position, edge in enumerate(node.edges):
            # Nodes of compiled calls and of Functions give gradients that were not asked for, too.
            if wanted[position] and results[position] is not None:
                self.send(edge, node.indices[position], results[position])
        if self.awaited:
            results = None  # type: ignore[assignment]  # leaves may own what was theirs
            self.settle(edges_of(node))

    def parts(self, node: Node, gradients: list[Any]) -> Any:
        """The gradients of a node's inputs in several goes, where it gives them so and somebody
        waits for a part of them; else None."""
        watcher = next((w for edge in node.edges for w in WATCHERS.get(id(edge), ())), None)
        if watcher is None or self.anomaly is not None:
            return None
        if node.extras is not None and node.extras.hooks:
            return None
        if any(_may_write(edge) for edge in node.edges):
            return None  # what later parts read
        with overriding.classes_unasked():
            return node.apply_in_parts(gradients, watcher.sizes)

    def run_parts(self, node: Node, parts: Any) -> None:
        """Send each part as it comes; what it completes is told before the next is computed."""
        for part in parts:
            for position, result in part:
                edge = node.edges[position]
                if result is not None and edge is not None:
                    self.send(edge, node.indices[position], result)
            edges = [edges_of(node)[position] for position, _ in part]
            result = part = None
            self.settle(edges)
        if not self.keep:
            node.release()

    def settle(self, edges: Iterable[Any]) -> None:
        """Note that gradients went along these edges; leaves to which none will come are done."""
        for edge in edges:
            key = id(edge)
            left = self.awaited.get(key)
            if left is None:
                continue
            if left > 1:
                self.awaited[key] = left - 1
                continue
            del self.awaited[key]
            if key in self.leaf_gradients:
                self.finish_leaf(key, True)

    def is_to_unfold(self, node: Node, gradients: list[Any]) -> bool:
        """Whether somebody wants to see a gradient that passes within this node."""
        came = [index for index, gradient in enumerate(gradients) if gradient is not None]
        for view, index in node.hidden_views(came):
            if index in self.watched(view):
                raise AutogradError(MSG_HIDDEN_VIEW)
        return node.is_bare or any(node.hides(index, came) for index in self.watched(node))

    def watched(self, node: Node) -> set[int]:
        """The outputs of a node whose gradients somebody asked for."""
        found = set(self.captures.get(node, ()))
        if node.extras is not None:
            found.update(index for index, hooks in node.extras.tensor_hooks.items() if hooks)
            found.update(i for i, kept in node.extras.retained.items() if kept() is not None)
        return found

    def unfold(self, node: Node, gradients: list[Any]) -> None:
        """Send what has arrived to the nodes of the operations behind this node."""
        self.awaited = {}  # there are other edges now: leaves wait for the end
        self.known_to_come = None
        came = [index for index, gradient in enumerate(gradients) if gradient is not None]
        wanted = [self.is_used(edge) for edge in edges_of(node)]
        try:
            node.unfold(came, wanted)
        except AutogradError:
            self.give_up(node, gradients, wanted)
            raise
        for index in self.captures.pop(node, ()):
            target, place = resolved(node, index)
            self.captures.setdefault(target, set()).add(place)
        if self.wanted is not None:
            roots = [resolved(node, index) for index in came]
            self.wanted |= leading_to(roots, self.captures, self.leaves or set())
        for index in came:
            self.send(node, index, gradients[index])

    def give_up(self, node: Node, gradients: list[Any], wanted: Sequence[bool]) -> None:
        """The run ends with an error in a node."""
        if not self.keep:
            node.give_up(gradients, wanted)

    def apply(self, node: Node, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        """Run the node's formulas; under anomaly detection errors say where it was made."""
        if self.anomaly is None:
            return self.apply_unasked(node, gradients, wanted)
        try:
            results = self.apply_unasked(node, gradients, wanted)
            if self.anomaly:
                anomaly.check(node, results)
        except Exception as error:
            anomaly.explain(node, error)
            raise
        return results

    def apply_unasked(
        self, node: Node, gradients: list[Any], wanted: Sequence[bool]
    ) -> Sequence[Any]:
        """Run the node's formulas; classes of what they saved override nothing in them."""
        if not self.is_overriding or node.runs_user_code:
            return node.apply(gradients, wanted)
        with overriding.classes_unasked():
            return node.apply(gradients, wanted)

    def is_used(self, edge: Any) -> bool:
        """Whether a gradient sent along this edge would reach something asked for."""
        if edge is None:
            return False
        if isinstance(edge, Node):
            return self.wanted is None or edge in self.wanted or edge in self.captures
        return self.leaves is None or id(edge) in self.leaves

    def finish(self, accumulate: bool) -> None:
        """Leaf hooks, then accumulation into `.grad` (or capture, for `grad`)."""
        while self.leaf_gradients:
            self.finish_leaf(next(reversed(self.leaf_gradients)), accumulate)
        while self.at_end:
            self.at_end.pop(0)()

    def coming(self, place: Any) -> set[int]:
        """The nodes and leaves, by identity, that gradients may still come to, and `place`.

        Args:
            place: the node or leaf whose hooks run now.
        """
        if self.known_to_come is None:
            self.known_to_come = {id(node) for node in self.pending} | set(self.leaf_gradients)
            stack = [*self.pending, place] if isinstance(place, Node) else [*self.pending]
            self._follow(stack, self.known_to_come)
        return self.known_to_come | {id(place)}

    def _follow(self, stack: list[Node], found: set[int]) -> None:
        """Add what gradients of these nodes go to, directly and on."""
        while stack:
            node = stack.pop()
            if self.wanted is not None and node not in self.wanted:
                continue
            for edge in edges_of(node):
                if self.is_used(edge) and id(edge) not in found:
                    found.add(id(edge))
                    if isinstance(edge, Node):
                        stack.append(edge)

    def finish_leaf(self, key: int, accumulate: bool) -> None:
        """The end of one leaf, to which no further gradient comes."""
        leaf, gradient = self.leaf_gradients.pop(key)
        if leaf.hooks:
            gradient = call_tensor_hooks(leaf.hooks.values(), gradient)
        if not accumulate:
            self.captured[id(leaf), -1] = gradient
            return
        extras = hooks_at(leaf) if BEGUN.accumulators else None
        if extras is not None:
            arrived = accumulate_between(leaf, gradient, extras, self.create_graph)
        elif leaf.requires_grad:  # else it was frozen after the forward pass: its hooks alone run
            accumulate_into(leaf, gradient, self.create_graph)
        del gradient
        for hook in list(leaf.__dict__.get("_post_accumulate_hooks", {}).values()):
            if hook(leaf) is not None:
                raise AutogradError("Tensor post accumulate grad hooks should return None.")
        if extras is not None:
            run_node_hooks(extras, (), arrived)
        for watcher in tuple(WATCHERS.get(key, ())):
            watcher.arrived(leaf)


def _may_write(edge: Any) -> bool:
    """Whether the program is called when the gradient of a leaf is complete."""
    if edge is None or isinstance(edge, Node):
        return False
    own = edge.hooks or edge.__dict__.get("_post_accumulate_hooks")
    return bool(own) or hooks_at(edge) is not None


def _apply_recorded(
    apply: Callable[..., Any], node: Node, gradients: list[Any], wanted: Sequence[bool]
) -> Sequence[Any]:
    """`_Run.apply` as an event of a profile."""
    with recorded(Kind.NODE, node.name()):
        results: Sequence[Any] = apply(node, gradients, wanted)
        return results


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to `.grad` of the leaves (or of `inputs` only).

    Args:
        tensors: one tensor or several.
        grad_tensors: per tensor the gradient to start from, same shape; None for a scalar.
        retain_graph: keep saved tensors for another run; defaults to `create_graph`.
        create_graph: record the computation of the gradients.
        grad_variables: the older name of `grad_tensors`.
        inputs: tensors and edges whose gradients are computed, those of tensors into `.grad`; None
            means all leaves. Results among them retain their gradients from now on.

    Raises:
        AutogradError: no graph, a second run without retain_graph, a saved tensor was overwritten.
    """
    if grad_variables is not None:
        grad_tensors = _renamed(grad_tensors, grad_variables)
    if create_graph:
        CYCLES.show()
    outputs = _tensors(tensors, "backward")
    chosen = None if inputs is None else _tensors(inputs, "backward(inputs=...)")
    if chosen is not None and not chosen:
        raise AutogradError("backward: inputs is empty.  Expected at least one tensor, or None.")
    _require_gradients(chosen or ())
    for tensor in chosen or ():
        if not isinstance(tensor, _Place):  # which has no `.grad`
            retain_grad(tensor)
    run = _prepare(outputs, grad_tensors, retain_graph, create_graph, chosen)
    run.accumulates = True
    if WATCHERS or BEGUN.accumulation:
        run.await_leaves()
    with formulas_mode(create_graph, chosen is not None, run) as mode:
        run.run()
        run.finish(accumulate=True)
        mode.end()


def _renamed(grad_tensors: Any, grad_variables: Any) -> Any:
    if grad_tensors is not None:
        raise AutogradError(
            "backward: grad_tensors and grad_variables (its older name) were both given.  Expected "
            "one of them: grad_tensors."
        )
    warnings.warn(
        "backward: grad_variables is the older name of grad_tensors.  Write grad_tensors=.",
        FutureWarning,
        stacklevel=3,
    )
    return grad_variables


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of the sum of `outputs` with respect to `inputs`; `.grad` stays as it is.

    Args:
        outputs, inputs: one tensor or several each.
        grad_outputs: per output the gradient to start from; None for a scalar.
        retain_graph, create_graph: as in `backward`.
        only_inputs: without effect, as in PyTorch: other leaves never get a gradient.
        allow_unused: return None for an input that the outputs do not depend on.
        is_grads_batched: `grad_outputs` have one more dim in front; results have it, too: one
            gradient for each row, found one after the other.
        materialize_grads: return zeros there.

    Returns:
        One tensor (or None) per input, with the input's shape and dtype.

    Raises:
        AutogradError: as `backward`; or an input was not used and `allow_unused` is not set.
    """
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs=False has no effect.  Leave it out; backward() fills .grad of all "
            "leaves.",
            FutureWarning,
            stacklevel=2,
        )
    if is_grads_batched:
        return _batched(
            outputs, inputs, grad_outputs, retain_graph, create_graph,
            allow_unused=allow_unused, materialize_grads=materialize_grads,
        )  # fmt: skip
    if materialize_grads and allow_unused is False:
        raise AutogradValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    targets = _tensors(inputs, "grad")
    if not targets:
        raise AutogradValueError("grad requires non-empty inputs.")
    sources = _tensors(outputs, "grad")
    _require_gradients(targets)
    run = _prepare(sources, grad_outputs, retain_graph, create_graph, targets)
    with formulas_mode(create_graph, True, run) as mode:
        run.run()
        run.finish(accumulate=False)
        mode.end()
    return tuple(
        _result(run, tensor, index, bool(allow_unused), materialize_grads, create_graph)
        for index, tensor in enumerate(targets)
    )


def _require_gradients(targets: Sequence[Any]) -> None:
    for index, tensor in enumerate(targets):
        if not tensor.requires_grad:
            raise AutogradError(
                f"One of the differentiated Tensors does not require grad (inputs[{index}])."
            )


def _batched(
    outputs: Any, inputs: Any, gradients: Any, retain_graph: bool | None, create_graph: bool,
    **options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """`grad` for each row of the gradients to start from."""
    given = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
    counts = {gradient.shape[0] for gradient in given if gradient is not None and gradient.ndim}
    if len(counts) != 1 or not min(counts):
        raise AutogradError(
            "grad(is_grads_batched=True): expected grad_outputs with one more dim in front, of one "
            f"size above 0; got {[None if g is None else list(g.shape) for g in given]}."
        )
    (count,) = counts
    found = []
    for number in range(count):
        row = [None if gradient is None else gradient[number] for gradient in given]
        keep = True if number < count - 1 else retain_graph
        found.append(grad(outputs, inputs, row, keep, create_graph, **options))
    return tuple(
        None if column[0] is None else stack(column) for column in zip(*found, strict=True)
    )


def _result(
    run: _Run, tensor: Any, index: int, allow_unused: bool, materialize: bool, is_recorded: bool
) -> Any:
    key = id(tensor), -1
    if tensor.grad_fn is not None:
        node, index_of_output = made_by(tensor)
        key = id(node), index_of_output
    found = run.captured.get(key)
    if found is not None:
        return found
    if materialize and isinstance(tensor, _Place):
        raise AutogradError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    if materialize:
        zeros = _filled_like(tensor, 0)
        zeros.requires_grad = is_recorded
        return zeros
    if not allow_unused:
        raise AutogradError(MSG_UNUSED.format(index=index))
    return None


def _prepare(
    outputs: Sequence[Any],
    gradients: Any,
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Sequence[Any] | None,
) -> _Run:
    """A run that has received the gradients of the outputs."""
    keep = create_graph if retain_graph is None else retain_graph
    starts = _starting_gradients(outputs, gradients)
    wanted: set[Node] | None = None
    captures: dict[Node, set[int]] = {}
    leaves: set[int] | None = None
    if inputs is not None:
        leaves = {id(tensor) for tensor in inputs if tensor.grad_fn is None}
        for tensor in inputs:
            if tensor.grad_fn is not None:
                made, place = made_by(tensor)
                captures.setdefault(made, set()).add(place)
        roots = [made_by(t) for t in outputs]
        wanted = leading_to(roots, captures, leaves)
        if BEGUN.unfolding:
            refuse_hidden(roots, captures)
    run = _Run(create_graph, keep, wanted, captures, leaves)
    for index, (tensor, start) in enumerate(zip(outputs, starts, strict=True)):
        if not tensor.requires_grad:
            raise AutogradError(MSG_NO_GRAPH.format(index=index))
        node = tensor.grad_fn
        target = tensor if node is None else node
        if node is not None or leaves is None or id(tensor) in leaves:
            run.send(target, tensor.output_index, start)
    return run


def _starting_gradients(outputs: Sequence[Any], gradients: Any) -> list[Any]:
    if gradients is None:
        given: list[Any] = [None] * len(outputs)
    elif isinstance(gradients, TensorBase):
        given = [gradients]
    else:
        given = list(gradients)
    if len(given) != len(outputs):
        raise AutogradError(
            f"got {len(outputs)} tensors and {len(given)} gradients.  Expected one per tensor."
        )
    pairs = zip(outputs, given, strict=True)
    return [_start(output, start, index) for index, (output, start) in enumerate(pairs)]


def _filled_like(tensor: Any, number: int) -> Any:
    if isinstance(tensor, _Place) or not tensor._has_array:
        kind = {"shape": tuple(tensor.shape), "dtype": tensor.dtype, "device": tensor.device}
        return TABLE.full(number, **kind)
    return _tensor.wrap(any_arrays.filled_like(tensor.array, number))


def _start(output: Any, gradient: Any, index: int) -> Any:
    if isinstance(output, _Place) and not output.is_known:
        if not isinstance(gradient, TensorBase):
            raise AutogradError(MSG_START_AT_EDGE)
        return gradient
    if gradient is None:
        if numel(tuple(output.shape)) != 1:
            raise AutogradError(MSG_NOT_SCALAR.format(shape=list(output.shape)))
        if not output.dtype.is_floating_point:
            raise AutogradError(
                f"grad can be computed only for real scalar outputs but got {output.dtype!r}"
            )
        return _filled_like(output, 1)
    if not isinstance(gradient, TensorBase):
        raise ArgumentError(
            f"gradients can be either Tensors or None, but got {type(gradient).__name__}"
        )
    if tuple(gradient.shape) != tuple(output.shape):
        raise AutogradError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {gradient.shape} and "
            f"output[{index}] has a shape of {output.shape}."
        )
    if gradient.dtype is output.dtype:
        return gradient
    if gradient.dtype.is_complex or output.dtype.is_complex:
        raise AutogradError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f" Mismatch in dtype: grad_output[{index}] has a dtype of {gradient.dtype.name} and "
            f"output[{index}] has a dtype of {output.dtype.name}."
        )
    return TABLE.cast(gradient, dtype=output.dtype)


def _tensors(value: Any, what: str) -> list[Any]:
    found = [value] if isinstance(value, (TensorBase, GradientEdge)) else list(value)
    for place, item in enumerate(found):
        if not isinstance(item, TensorBase):
            found[place] = item = _standing_for(item, what)
        if item.layout is not strided:
            raise UnsupportedError(MSG_SPARSE.format(name=what))
    return found


def _standing_for(item: Any, what: str) -> Any:
    """The leaf, or the place, that an edge means."""
    if not isinstance(item, GradientEdge):
        raise ArgumentRuntimeError(f"{what}: expected tensors, got {type(item).__name__}")
    return item.node.variable if isinstance(item.node, AccumulateGrad) else _Place(item)


def retain_grad(tensor: Any) -> None:
    """Keep the gradient of a non-leaf in `.grad` when backward passes it.

    Raises:
        AutogradError: the tensor does not require a gradient.
    """
    if not tensor.requires_grad:
        raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
    node, index = made_by(tensor)
    if node is None or tensor.retains_grad:
        return
    node.more().retained[index] = weakref.ref(tensor)
    tensor.retains_grad = True
