"""`func.jvp` in Python that can be captured.

The function is inlined on stand-ins for the primals; then the nodes that it recorded get tangents
(`capture.python.builtins.forward_mode`, where the functions below that only captured code calls
have their meaning). What has no form here breaks the graph at the call, which runs as plain Python.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from dynajit.capture.library.table import only_captured
from dynajit.core.pytree import flatten, unflatten
from dynajit.eager import Tensor


def tangents_begin(primals, tangents):
    """What stands for the primals, and what `tangents_end` needs."""
    only_captured(primals, tangents)


def tangents_end(begun, outputs):
    """The tangents of tensors that were computed since."""
    only_captured(begun, outputs)


def without_history(tensor):
    """A tensor cut off from gradients, not from tangents."""
    only_captured(tensor)


def leave_to_eager(function):
    """Break the graph: the call has no form here."""
    only_captured(function)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """See `dynajit.func`."""
    if strict or type(primals) is not tuple or type(tangents) is not tuple:
        leave_to_eager(func)
    leaves, structure = flatten(primals)
    vectors, given = flatten(tangents)
    if not leaves or given != structure:
        leave_to_eager(func)
    for value in (*leaves, *vectors):
        if not isinstance(value, Tensor):
            leave_to_eager(func)
    moved, begun = tangents_begin(tuple(leaves), tuple(vectors))
    output = func(*unflatten(list(moved), structure))
    aux = None
    if has_aux:
        if type(output) is not tuple or len(output) != 2:
            leave_to_eager(func)
        output, aux = output
    outputs, nest = flatten(output)
    if not outputs:
        leave_to_eager(func)
    for value in outputs:
        if not isinstance(value, Tensor):
            leave_to_eager(func)
    tangent = unflatten(list(tangents_end(begun, tuple(outputs))), nest)
    return (output, tangent, aux) if has_aux else (output, tangent)
