"""`func.jvp` in Python that can be captured.

The function is inlined on stand-ins for the primals; then the nodes that it recorded get tangents
(`capture.python.builtins.forward_mode`, where the functions below that only captured code calls
have their meaning). What has no form here, nests of tensors among it, breaks the graph at the call,
which runs as plain Python.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from dynajit.capture.library.table import only_captured
from dynajit.eager import Tensor


def tangents_begin(primals, tangents):
    """What stands for the primals, and what `tangents_end` needs."""
    only_captured(primals, tangents)


def tangents_end(begun, outputs):
    """The tangents of tensors that were computed since."""
    only_captured(begun, outputs)


def leave_to_eager(function):
    """Break the graph: the call has no form here."""
    only_captured(function)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """See `dynajit.func`."""
    if strict or type(primals) is not tuple or type(tangents) is not tuple:
        leave_to_eager(func)
    if not primals or len(primals) != len(tangents):
        leave_to_eager(func)
    for given in (*primals, *tangents):
        if not isinstance(given, Tensor):
            leave_to_eager(func)
    moved, begun = tangents_begin(primals, tangents)
    output = func(*moved)
    aux = None
    if has_aux:
        if type(output) is not tuple or len(output) != 2:
            leave_to_eager(func)
        output, aux = output
    outputs = output if type(output) is tuple else (output,)
    for given in outputs:
        if not isinstance(given, Tensor):
            leave_to_eager(func)
    if not outputs:
        leave_to_eager(func)
    found = tangents_end(begun, outputs)
    tangent = found if type(output) is tuple else found[0]
    return (output, tangent, aux) if has_aux else (output, tangent)
