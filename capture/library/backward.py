"""`Tensor.backward`, `autograd.backward` and `autograd.grad` in Python that can be captured.

The walk along the tape is done by `capture.tensors.backward`; these forms run what the program has
to say in between: hooks on tensors. The functions that only captured code calls have their meaning
in `capture.python.builtins.backward`. What eager execution refuses is left to it.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Callable

from dynajit.capture.library.table import only_captured, replaces
from dynajit.eager import Tensor
from dynajit.eager._tensor import _set_grad_enabled
from dynajit.eager.backward import engine, present
from dynajit.eager.backward.arrivals import WATCHERS
from dynajit.eager.tape.handles import BEGUN, Handle


def begins(outputs, gradients, inputs, keep, is_recorded, accumulates):
    """A run from these outputs; inputs: None means all leaves."""
    only_captured(outputs, gradients, inputs, keep, is_recorded, accumulates)


def goes_on(run):
    """(hooks, what they are called with, whether that is a gradient) at the next place where the
    program has a say; None at the end.
    """
    only_captured(run)


def answers(run, gradient):
    """What the hooks made of the gradient."""
    only_captured(run, gradient)


def lets_go(run):
    """What the run has passed cannot be passed again, unless the graph is kept."""
    only_captured(run)


def refuses(what):
    """Leave the call to eager execution, which raises an error."""
    only_captured(what)


def results(run, inputs, allow_unused, materialize):
    """The gradients of the inputs, in order."""
    only_captured(run, inputs, allow_unused, materialize)


def hooks_on(tensor):
    """The dict of the hooks on the gradient of a tensor, made when first asked for."""
    only_captured(tensor)


def hooks_after(leaf):
    """The dict of the hooks that are called after the gradient of a leaf has grown, made when first
    asked for.
    """
    only_captured(leaf)


def keeps_gradient(tensor):
    """Let backward keep the gradient of a tensor."""
    only_captured(tensor)


def _seen_by(hooks, gradient):
    for hook in list(hooks.values()):
        replaced = hook(gradient)
        if replaced is None:
            continue
        if not isinstance(replaced, Tensor) or replaced.shape != gradient.shape:
            refuses("a hook gave no gradient of the same shape")
        gradient = replaced
    return gradient


def _travel(run, is_recorded):
    before = _set_grad_enabled(is_recorded)
    try:
        while True:
            stop = goes_on(run)
            if stop is None:
                return
            hooks, argument, is_gradient = stop
            if is_gradient:
                answers(run, _seen_by(hooks, argument))
                continue
            for hook in list(hooks.values()):
                if hook(argument) is not None:
                    refuses("a hook behind accumulation that returns something")
            for watcher in WATCHERS.get(id(argument), ()):
                watcher.arrived(argument)
    finally:
        lets_go(run)
        _set_grad_enabled(before)


_CALLBACKS: "list[Callable[[], object]]" = []
"""What hooks have asked for at the end of the backward that runs: captured runs do not nest."""


@replaces(present.queue_callback)
def queue_callback(callback):
    """See `eager.backward.present.queue_callback`."""
    _CALLBACKS.append(callback)


def _several(tensors):
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


@replaces(engine.backward)
def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """See `eager.backward.engine.backward`."""
    if grad_variables is not None:
        refuses("backward(grad_variables=...)")
    if BEGUN.accumulators:
        refuses("hooks of nodes at leaves")
    keep = create_graph if retain_graph is None else retain_graph
    outputs = _several(tensors)
    gradients = (None,) * len(outputs) if grad_tensors is None else _several(grad_tensors)
    chosen = None if inputs is None else _several(inputs)
    run = begins(outputs, gradients, chosen, bool(keep), bool(create_graph), True)
    _travel(run, bool(create_graph))
    while _CALLBACKS:
        _CALLBACKS.pop(0)()


@replaces(Tensor.backward)
def backward_of(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """See `Tensor.backward`."""
    backward(self, gradient, retain_graph, create_graph, None, inputs)


@replaces(engine.grad)
def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """See `eager.backward.engine.grad`."""
    if not only_inputs or is_grads_batched:
        refuses("grad(only_inputs=..., is_grads_batched=...)")
    if materialize_grads and allow_unused is False:
        refuses("grad(materialize_grads=True, allow_unused=False)")
    keep = create_graph if retain_graph is None else retain_graph
    given = _several(outputs)
    gradients = (None,) * len(given) if grad_outputs is None else _several(grad_outputs)
    targets = _several(inputs)
    run = begins(given, gradients, targets, bool(keep), bool(create_graph), False)
    _travel(run, bool(create_graph))
    return results(run, targets, bool(allow_unused), bool(materialize_grads))


@replaces(Tensor.register_hook)
def register_hook(self, hook):
    """See `Tensor.register_hook`."""
    return Handle(hooks_on(self), hook)


@replaces(Tensor.register_post_accumulate_grad_hook)
def register_post_accumulate_grad_hook(self, hook):
    """See `Tensor.register_post_accumulate_grad_hook`."""
    BEGUN.accumulation = True
    return Handle(hooks_after(self), hook)


@replaces(Tensor.retain_grad)
def retain_grad(self):
    """See `Tensor.retain_grad`."""
    keeps_gradient(self)
