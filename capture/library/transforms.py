"""Calls of what `vmap` returns, in Python that can be captured.

The mapped function is inlined once, on tensors that stand for one sample; what it records is then
replaced by the same of all samples (`capture.python.builtins.mapped_calls`, where the functions
below that only captured code calls have their meaning). Frames of this package never run for real,
so whatever cannot be captured breaks the graph at the call.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from dynajit.capture.library.table import only_captured, replaces
from dynajit.core.pytree import flatten, unflatten
from dynajit.eager.samples import mapping
from dynajit.eager.samples.dims import (
    inputs_of,
    number_of_samples,
    places_of_results,
    with_place,
)


def mapping_begins(leaves, dims, count):
    """The leaves, those with samples replaced by what stands for one; and what `mapping_ends`
    needs."""
    only_captured(leaves, dims, count)


def mapping_ends(begun, results, dims, randomness):
    """The results of all samples."""
    only_captured(begun, results, dims, randomness)


@replaces(mapping.called)
def called(func, in_dims, out_dims, randomness, args, kwargs):
    """Run the function on stand-ins, and replace what it computed."""
    leaves, structure, dims = inputs_of(in_dims, args, kwargs)
    count = number_of_samples(leaves, dims)
    samples, begun = mapping_begins(leaves, dims, count)
    positional, named = unflatten(samples, structure)
    result = func(*positional, **named)
    found, nest = flatten(result)
    places = places_of_results(out_dims, result, found)
    for value, dim in zip(found, places, strict=True):
        if dim is not None:
            with_place(value, dim)
    return unflatten(mapping_ends(begun, found, places, randomness), nest)
