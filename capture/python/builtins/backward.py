"""Backward within a capture: what the Python forms of `capture.library.backward` call in between.

`capture.tensors.backward` walks the graph; here its gradients meet tensors of the program: those
that a run starts from, the leaves whose `.grad` grows, and what hooks see. A run is a Python object
that captured code hands around; what it leaves behind is in the heap.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.library import backward as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import at_once, is_none
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.contents import dict_entries, items_of, new_dict
from dynajit.capture.python.tensors.autograd import (
    found_attribute,
    grad_of,
    is_leaf,
    kept_by_leaf,
    store,
)
from dynajit.capture.python.tensors.facts import needs_gradient, tensor_type
from dynajit.capture.python.tensors.mutation import tensor_in_place
from dynajit.capture.tensors import layouts
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.tensors.backward import Arrival, Travel, ends_of, fits
from dynajit.capture.values.containers import DictValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.eager import Tensor
from dynajit.eager.backward.arrivals import WATCHERS
from dynajit.eager.backward.engine import CYCLES
from dynajit.eager.backward.reach import has_other_leaves
from dynajit.eager.modes import forward_levels
from dynajit.eager.modes.grad_mode import is_inference_mode_enabled
from dynajit.eager.samples.sample_tensor import open_level
from dynajit.eager.tape import anomaly
from dynajit.ir import graph
from dynajit.ir.node import Node
from dynajit.ops import TABLE
from dynajit.ops.calls.autocast import word_set
from dynajit.ops.calls.autocast_words import CUDA_ENABLED

#: Where a leaf keeps the hooks on its gradient, and those that are called after that has grown.
HOOKS: Final = "hooks"
AFTER: Final = "_post_accumulate_hooks"


class Run:
    """A backward run. Mutable.

    Args:
        travel: its walk along the graph.
        chosen: the tensors whose gradients are asked for; None: all leaves.
        accumulates: gradients are added to `.grad`; else they are results.
    """

    def __init__(
        self, travel: Travel, chosen: tuple[TensorValue, ...] | None, accumulates: bool
    ) -> None:
        self.travel = travel
        self.chosen = chosen
        self.accumulates = accumulates
        self.has_ended = False
        #: The node whose hooks were called last.
        self.seen: Node | None = None
        #: Where gradients have arrived: (leaf, gradient, whether hooks have seen that), last
        #: first.
        self.leaves: list[tuple[TensorValue, graph.Value, bool]] = []
        self.of_leaves: dict[int, graph.Value] = {}


def _refusal(what: str) -> GraphBreak:
    return GraphBreak(breaks.AUTOGRAD_CALL, what)


@special(forms.refuses)
@at_once
def _refuses(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    raise _refusal(str(args[0].value))  # type: ignore[attr-defined]


# -- begin ---------------------------------------------------------------------------------------


@special(forms.begins)
@at_once
def _begins(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    outputs, gradients, inputs, keep, is_recorded, accumulates = args
    assert isinstance(outputs, TupleValue) and isinstance(gradients, TupleValue)
    if len(outputs.items) != len(gradients.items):
        raise _refusal("backward: one gradient per tensor")
    if is_inference_mode_enabled() or machine.recorder.inference_enabled:
        raise _refusal("backward in inference mode")
    if anomaly.is_detecting() is not None:
        raise _refusal("backward while anomalies are detected")
    machine.uses_autocast()
    starts = [
        _start(machine, output, gradient)
        for output, gradient in zip(outputs.items, gradients.items, strict=True)
    ]
    chosen, targets = None, None
    if isinstance(inputs, TupleValue):
        chosen = tuple(_target(machine, value) for value in inputs.items)
        targets = frozenset(_nodes_of(machine, chosen))
        if not chosen:
            raise _refusal("backward(inputs=()) of nothing")
    _guard_leaves(machine, chosen)
    keeps, records, adds = (bool(flag.value) for flag in (keep, is_recorded, accumulates))  # type: ignore[attr-defined]
    if records and adds:
        CYCLES.show()  # once in a process: now is when that run happens for the first time

    def is_awaited(identity: int) -> bool:
        leaf = _leaf(machine, identity)
        hooks = _filled(machine, found_attribute(machine, leaf, AFTER))
        return adds and (hooks is not None or _is_watched(machine, leaf))

    travel = Travel(machine.recorder, starts, keeps, records, targets, is_awaited)
    return Known(Run(travel, chosen, adds))


def _start(machine: Machine, output: Value, gradient: Value) -> tuple[Node, graph.Value]:
    """The node of a tensor, and the gradient that a run starts with there."""
    if not isinstance(output, TensorValue) or not needs_gradient(machine, output):
        raise _refusal("backward of what does not require a gradient")
    held = machine.recorder.graph_value(output)
    if is_none(machine, gradient):
        kind = tensor_type(machine, output)
        if any(size != 1 for size in kind.shape) or not kind.dtype.is_floating_point:
            raise _refusal("backward of what is no real number without a gradient")
        one = TABLE.full(1, shape=kind.shape, dtype=kind.dtype, device=kind.device)
        return held.node, one
    if not isinstance(gradient, TensorValue):
        raise _refusal("a gradient that is no tensor")
    given = machine.recorder.graph_value(gradient)
    if not fits(given, held):
        raise _refusal("a gradient of another shape or dtype")
    return held.node, given


def _target(machine: Machine, value: Value) -> TensorValue:
    if not isinstance(value, TensorValue) or not needs_gradient(machine, value):
        raise _refusal("the gradient of what does not require one")
    return value


def _nodes_of(machine: Machine, chosen: Sequence[TensorValue]) -> set[Node]:
    """The nodes at which gradients of tensors arrive: of a leaf, wherever it was read."""
    recorder = machine.recorder
    found = {recorder.graph_value(value).node for value in chosen}
    identities = {value.identity for value in chosen}
    found |= {node for node, leaf in recorder.builder.leaves.items() if leaf in identities}
    for node, value in recorder.input_nodes.items():
        if isinstance(value, TensorValue) and value.identity in identities:
            found.add(node)
    return found


def _guard_leaves(machine: Machine, chosen: Sequence[TensorValue] | None) -> None:
    """Rely on it that the graph's inputs are leaves, or that they are not."""
    for value in machine.recorder.lifted_tensors:
        if needs_gradient(machine, value):
            is_leaf(machine, value)


# -- on the way ----------------------------------------------------------------------------------


@special(forms.goes_on)
@at_once
def _goes_on(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    run: Run = args[0].object  # type: ignore[attr-defined]
    try:
        with word_set(machine.recorder.autocast_word & ~CUDA_ENABLED):
            return _next_stop(machine, run)
    except GraphBreak as stop:
        if run.travel.is_recorded and tensor_memory.written(machine.recorder):
            # Behind the break formulas would be recorded from inputs that are no longer as before.
            raise SkipFrame(f"{stop}, and that is recorded") from None
        raise


def _next_stop(machine: Machine, run: Run) -> Value:
    recorder = machine.recorder
    while True:
        at_leaf = _next_leaf(machine, run)
        if at_leaf is not None:
            return at_leaf
        if run.has_ended:
            return _end(machine, run)
        stop = run.travel.go_on()
        if stop is None:
            run.has_ended = True
            run.leaves = [
                (_leaf(machine, identity), gradient, False)
                for identity, gradient in run.travel.at_leaves.items()
            ]
            continue
        if isinstance(stop, Arrival):
            run.leaves = [(_leaf(machine, stop.leaf), stop.gradient, False)]
            continue
        hooks = _filled(machine, recorder.tape.hooks.get(stop.node))
        if hooks is not None and run.seen is not stop.node:
            run.seen = stop.node
            run.travel.stopped_at = None  # what is kept is what the hooks leave
            return _stop(machine, hooks, recorder.new_tensor(stop.gradient), True)
        kept = recorder.tape.retained.get(stop.node)
        if kept is not None:
            assert isinstance(kept, TensorValue)
            _accumulate(machine, kept, stop.gradient, run.travel.is_recorded)


def _stop(machine: Machine, hooks: Value, argument: Value, is_gradient: bool) -> Value:
    return TupleValue((hooks, argument, constant(is_gradient)))


def _leaf(machine: Machine, identity: int) -> TensorValue:
    value: TensorValue = machine.recorder.tensor_of(identity)
    return value


def _next_leaf(machine: Machine, run: Run) -> Value | None:
    """Accumulate at leaves until hooks have to be called; None where there are no more."""
    while run.leaves:
        leaf, gradient, was_seen = run.leaves.pop()
        hooks = None if was_seen else _filled(machine, kept_by_leaf(machine, leaf, HOOKS))
        if hooks is not None:
            run.leaves.append((leaf, gradient, True))
            return _stop(machine, hooks, machine.recorder.new_tensor(gradient), True)
        if not run.accumulates:
            run.of_leaves[leaf.identity] = gradient
            continue
        if needs_gradient(machine, leaf):  # else it was frozen in between: its hooks alone run
            _accumulate(machine, leaf, gradient, run.travel.is_recorded)
        after = _filled(machine, found_attribute(machine, leaf, AFTER))
        if after is not None or _is_watched(machine, leaf):
            return _stop(machine, after or new_dict(machine, []), leaf, False)
    return None


def _is_watched(machine: Machine, leaf: TensorValue) -> bool:
    """Whether somebody is told when the gradient of a leaf is complete; the form guards on it."""
    return id(machine.recorder.existing_of(leaf)) in WATCHERS


def _end(machine: Machine, run: Run) -> Value:
    if run.accumulates and run.chosen is not None:
        for tensor in run.chosen:
            node = machine.recorder.graph_value(tensor).node
            if node in run.travel.at_targets and not is_leaf(machine, tensor).value:
                raise _refusal("backward(inputs=...) of a result")
    return NONE


def _filled(machine: Machine, hooks: Value | None) -> DictValue | None:
    """Hooks, if there are any."""
    if hooks is None or is_none(machine, hooks):
        return None
    if not isinstance(hooks, DictValue):
        raise _refusal("hooks that are no dict")
    return hooks if dict_entries(machine, hooks) else None


@special(forms.lets_go)
@at_once
def _lets_go(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    run: Run = args[0].object  # type: ignore[attr-defined]
    run.travel.let_go()
    return NONE


@special(forms.answers)
@at_once
def _answers(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    run: Run = args[0].object  # type: ignore[attr-defined]
    assert isinstance(args[1], TensorValue)
    gradient = machine.recorder.graph_value(args[1])
    if not run.leaves:
        assert run.seen is not None
        run.travel.answer(run.seen, gradient)
        return NONE
    leaf, _, was_seen = run.leaves.pop()
    run.leaves.append((leaf, gradient, was_seen))
    return NONE


# -- at leaves -----------------------------------------------------------------------------------


def _accumulate(
    machine: Machine, leaf: TensorValue, gradient: graph.Value, is_recorded: bool
) -> None:
    """`leaf.grad += gradient`, as `eager.backward.accumulation.accumulate_into`."""
    before = grad_of(machine, leaf)
    if is_none(machine, before):
        made = gradient if is_recorded else _own(machine, leaf, gradient)
        _set_gradient(machine, leaf, machine.recorder.new_tensor(made))
        return
    if not isinstance(before, TensorValue):
        raise _refusal("a gradient that is no dense tensor")
    if is_recorded:
        total = TABLE.add(machine.recorder.graph_value(before), gradient)
        _set_gradient(machine, leaf, machine.recorder.new_tensor(total))
        return
    if needs_gradient(machine, before):
        raise _refusal("accumulation into a gradient that requires one")
    added = machine.recorder.new_tensor(gradient)
    tensor_in_place(machine, before, _add, [added], {})


def _add(tensor: Any, other: Any) -> Any:
    return TABLE.add(tensor, other)


def _own(machine: Machine, leaf: TensorValue, gradient: graph.Value) -> graph.Value:
    """A gradient in memory that nobody else knows, laid out as the leaf is."""
    builder = machine.recorder.builder
    strides = tensor_memory.strides_of(machine.recorder, leaf)
    order = layouts.storage_order(tuple(gradient.shape), strides)
    if order is not None:
        result: graph.Value = TABLE.laid_out(gradient, order=order)
        return result
    node, shape = gradient.node, tuple(gradient.shape)
    is_shared = node in machine.recorder.owners or node.op is None or node.is_view
    lies = builder.strides_of(gradient)
    if is_shared or lies is None or layouts.storage_order(shape, lies) is not None:
        return graph.Value(builder, builder.copy_of(gradient))
    return gradient


def _set_gradient(machine: Machine, leaf: TensorValue, gradient: Value) -> None:
    store(machine, leaf, "grad", gradient)


# -- what the program sets up --------------------------------------------------------------------


@special(forms.hooks_on)
@at_once
def _hooks_on(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    tensor = _watchable(machine, args[0])
    if is_leaf(machine, tensor).value:
        return _kept(machine, tensor, HOOKS, kept_by_leaf(machine, tensor, HOOKS))
    node, tape = machine.recorder.graph_value(tensor).node, machine.recorder.tape
    if node not in tape.hooks:
        _refuse_earlier(machine, tensor)
        hooks = {**tape.hooks, node: new_dict(machine, [])}
        machine.recorder.write_tape(replace(tape, hooks=hooks))
    return machine.recorder.tape.hooks[node]


@special(forms.hooks_after)
@at_once
def _hooks_after(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    tensor = _watchable(machine, args[0])
    if not is_leaf(machine, tensor).value:
        raise _refusal("a hook for leaves on a result")
    return _kept(machine, tensor, AFTER, found_attribute(machine, tensor, AFTER))


@special(forms.keeps_gradient)
@at_once
def _keeps_gradient(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    tensor = _watchable(machine, args[0])
    if is_leaf(machine, tensor).value:
        return NONE
    _refuse_earlier(machine, tensor)
    node, tape = machine.recorder.graph_value(tensor).node, machine.recorder.tape
    if node not in tape.retained:
        machine.recorder.write_tape(replace(tape, retained={**tape.retained, node: tensor}))
        store(machine, tensor, "retains_grad", constant(True))
        store(machine, tensor, "grad", NONE)
    return NONE


def _watchable(machine: Machine, value: Value) -> TensorValue:
    """A tensor whose gradient the program may watch."""
    if not isinstance(value, TensorValue) or not needs_gradient(machine, value):
        raise _refusal("a hook on what requires no gradient")
    if machine.refusals.histories:
        raise _refusal("a hook on what backward passes later")
    return value


def _refuse_earlier(machine: Machine, tensor: TensorValue) -> None:
    """Refuse a result of an earlier call: its node is on the eager tape."""
    if machine.recorder.existing(tensor) is not None:
        raise _refusal("a hook on what an earlier call computed")


def _kept(machine: Machine, leaf: TensorValue, name: str, known: Value | None) -> Value:
    """The dict that a leaf keeps under a name, made if there is none."""
    if known is not None and not is_none(machine, known):
        return known
    made = new_dict(machine, [])
    store(machine, leaf, name, made)
    return made


# -- results -------------------------------------------------------------------------------------


@special(forms.results)
@at_once
def _results(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    run: Run = args[0].object  # type: ignore[attr-defined]
    allow_unused, materialize = (bool(value.value) for value in args[2:])  # type: ignore[attr-defined]
    assert run.chosen is not None
    found = [_result(machine, run, tensor, allow_unused, materialize) for tensor in run.chosen]
    return TupleValue(tuple(found))


def _result(
    machine: Machine, run: Run, tensor: TensorValue, allow_unused: bool, materialize: bool
) -> Value:
    gradient = run.of_leaves.get(tensor.identity)  # of all values that the leaf has held
    if gradient is None:
        node = machine.recorder.graph_value(tensor).node
        gradient = run.travel.at_targets.get(node)
    if gradient is not None:
        found: Value = machine.recorder.new_tensor(gradient)
        return found
    if materialize:
        if run.travel.is_recorded:
            raise _refusal("zeros that require a gradient")
        kind = tensor_type(machine, tensor)
        zeros = TABLE.full(0, shape=kind.shape, dtype=kind.dtype, device=kind.device)
        made: Value = machine.recorder.new_tensor(zeros, Tensor)
        return made
    if not allow_unused:
        raise _refusal("the gradient of a tensor that was not used")
    return NONE


@special(has_other_leaves)
@at_once
def _has_other_leaves(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    outputs, known = (items_of(machine, value) for value in args)
    recorder = machine.recorder
    roots = [
        recorder.graph_value(value).node
        for value in outputs
        if isinstance(value, TensorValue) and needs_gradient(machine, value)
    ]
    own = {value.identity for value in known if isinstance(value, TensorValue)}
    found = any(recorder.leaf_at(node) not in own for node in ends_of(recorder, roots))
    return constant(found)


@special(open_level, forward_levels.opened)
@at_once
def _levels(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    """No level is open: compiled functions run as plain Python while one is."""
    if open_level() is not None or forward_levels.opened():
        raise _refusal("a transform of functions around the compiled one")
    return TupleValue(())
