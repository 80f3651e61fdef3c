"""What tensor programs are compared in: results, arguments, versions, aliasing, gradients.

A program is a function and a factory of its arguments. It runs plainly and compiled on equal
arguments, twice (the second call takes the cached code); everything that can be seen afterwards
must be equal. Aliasing is observed by writing: every tensor in turn is filled with a number of its
own, and all others are compared after each write.
"""

import numpy as np

from dynajit import eager


def tensors_in(value, found=None):
    """The tensors in nested lists, tuples and dicts, in order."""
    found = [] if found is None else found
    if isinstance(value, eager.Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            tensors_in(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            tensors_in(item, found)
    return found


def leaves_of(arguments):
    """The leaves that require a gradient among the arguments and what they were made from."""
    return [t for t in tensors_in(arguments) if t.requires_grad and t.is_leaf]


def facts(tensor, versions=True):
    """What can be seen of a tensor without writing to it."""
    return (
        tensor.dtype,
        tuple(tensor.shape),
        tensor.requires_grad,
        tensor.is_leaf,
        type(tensor),
        tensor._version if versions else 0,
    )


def compare(expected, actual, where, exact=True):
    """Two lists of tensors are equal in elements."""
    assert len(expected) == len(actual), where
    for i, (left, right) in enumerate(zip(expected, actual, strict=True)):
        tolerance = 0 if exact else 1e-5
        np.testing.assert_allclose(
            right.detach().numpy(),
            left.detach().numpy(),
            rtol=tolerance,
            atol=tolerance,
            err_msg=f"{where}: tensor {i}",
        )


def strides(tensor):
    """Strides of the dims that have more than one element."""
    return [s for s, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]


def same_strides(expected, actual):
    """Equal, but for views whose base nobody sees any more: they are computed alone."""
    for left, right in zip(expected, actual, strict=True):
        if left._base is None and right._base is None and 0 not in left.shape:
            assert strides(left) == strides(right)


def identities(tensors):
    """Which of the tensors are one object."""
    return [[a is b for b in tensors] for a in tensors]


def outcome(function, arguments):
    """(result, None) or (None, error class)."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, type(error)


def gradients(result, leaves):
    """Gradients of the sum of everything that has a history; the error class where it fails."""
    outputs = [t for t in tensors_in(result) if t.requires_grad and not t.is_leaf]
    if not outputs:
        return "none"
    total = sum((t * t).sum() for t in outputs)
    try:
        total.backward()
    except Exception as error:
        return type(error).__name__
    return [None if leaf.grad is None else np.array(leaf.grad.numpy()) for leaf in leaves]


def same_gradients(expected, actual):
    """Equal gradients; None only where None is expected.

    Where eager refuses because it saved what was overwritten, compiled code may know better.
    """
    if expected == "AutogradError":
        return
    if isinstance(expected, str) or isinstance(actual, str):
        assert expected == actual
        return
    assert [g is None for g in expected] == [g is None for g in actual]
    for left, right in zip(expected, actual, strict=True):
        if left is not None:
            np.testing.assert_allclose(right, left, rtol=1e-4, atol=1e-5)


def check_program(compiled, plain, make, backward=True, exact=True):
    """Compare one call; `make()` gives equal fresh arguments each time.

    `exact` is false where compiled arithmetic may round otherwise.
    Leaves are taken from an attribute `leaves` of the list that `make` returns, else from itself.
    """
    left, right = make(), make()
    expected, error = outcome(plain, left)
    actual, found = outcome(compiled, right)
    if error is not None and issubclass(error, IndexError):
        # Index tensors are checked at the launch, before anything is written.
        assert issubclass(found, IndexError)
        return
    assert error == found, (error, found)
    ours, theirs = tensors_in([left, expected]), tensors_in([right, actual])
    compare(ours, theirs, "after the call", exact)
    count = len(tensors_in(left))
    assert [facts(t) for t in ours[:count]] == [facts(t) for t in theirs[:count]]
    assert [facts(t, False) for t in ours] == [facts(t, False) for t in theirs]
    same_strides(ours, theirs)
    assert identities(ours) == identities(theirs)
    if backward and error is None:
        same_gradients(
            gradients([left, expected], leaves_of(getattr(left, "leaves", left))),
            gradients([right, actual], leaves_of(getattr(right, "leaves", right))),
        )
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for tensor in (a, b):
            if tensor.array.flags.writeable:
                tensor.detach().array[...] = number + 2
        compare(ours, theirs, f"after a write to tensor {number}", exact)


class Arguments(list):
    """Arguments, and the leaves that they were computed from."""

    def __init__(self, arguments, leaves):
        super().__init__(arguments)
        self.leaves = leaves
