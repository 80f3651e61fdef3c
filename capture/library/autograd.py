"""`autograd.Function.apply` in Python that can be captured.

Forward is inlined. So is backward, at once, on gradients that stand for the real ones: what it
records becomes the derivative of what forward gave (`capture.python.builtins.written_derivatives`,
where the functions below that only captured code calls have their meaning). Frames of this package
never run for real, so whatever cannot be captured breaks the graph at the call of `apply`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from dynajit.capture.library.table import only_captured, replaces
from dynajit.eager import Tensor
from dynajit.eager._tensor import _set_grad_enabled, is_grad_enabled
from dynajit.eager.backward.function import Function, FunctionContext


def forward_begins(function):
    """Where the objects that forward may write to begin."""
    only_captured(function)


def forward_hands_on(function):
    """Leave the call to eager execution, which detaches a tensor that forward hands on."""
    only_captured(function)


def backward_begins(start, function, arguments, context, output):
    """What stands for the gradients that backward gets, and what `backward_ends` needs; None
    where nothing that forward gave can have a gradient.
    """
    only_captured(start, function, arguments, context, output)


def backward_ends(begun, gradients):
    """What forward gave, with the gradients as its derivative."""
    only_captured(begun, gradients)


def backward_fails(begun):
    """Leave the call to eager execution, where backward raises when it runs."""
    only_captured(begun)


def _without_history(cls, output, args):
    """An output without history: an alias of an input, or what forward computed."""
    if not isinstance(output, Tensor):
        return output
    for arg in args:
        if output is arg:
            return output.detach()
    if output.requires_grad:
        forward_hands_on(cls)
    return output


def _with_defaults(known, args):
    """See `eager.backward.function.with_defaults`."""
    if known is None:
        return args
    missing = known[0] - len(args)
    return (*args, *known[1][-missing:]) if 0 < missing <= len(known[1]) else args


@replaces(Function.apply.__func__)
def apply(cls, *args):
    """Run `forward`, and learn from `backward` what the derivative is."""
    if cls.setup_context is not Function.setup_context:
        args = _with_defaults(cls._defaults_of_forward, args)
    needs = tuple([isinstance(arg, Tensor) and arg.requires_grad for arg in args])
    is_recorded = is_grad_enabled() and True in needs
    start = forward_begins(cls)
    context = FunctionContext(needs)
    before = _set_grad_enabled(False)
    try:
        if cls.setup_context is Function.setup_context:
            output = cls.forward(context, *args)
        else:
            output = cls.forward(*args)
            cls.setup_context(context, args, output)
    finally:
        _set_grad_enabled(before)
    begun = backward_begins(start, cls, args, context, output) if is_recorded else None
    if begun is None:
        if isinstance(output, tuple):
            return tuple([_without_history(cls, x, args) for x in output])
        return _without_history(cls, output, args)
    stand_ins, rest = begun
    try:
        gradients = cls.backward(context, *stand_ins)
    except BaseException:
        backward_fails(rest)
    return backward_ends(rest, gradients)
