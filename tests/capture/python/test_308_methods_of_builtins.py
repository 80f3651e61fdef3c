"""Methods of built-in objects: wrong arguments are refused in Python's words; what class they are."""

import collections
import os
import select
import types

import pytest

from tests.support.python.harness import case

APPEND = types.MethodType(list.append, [])


def refusals(*methods):
    found = []
    for method in methods:
        try:
            found.append(method(1, 2, 3, 4))
        except TypeError as error:
            found.append(str(error))
        try:
            found.append(method(x=1))
        except TypeError as error:
            found.append(str(error))
    return found


def special_methods_of_containers():
    items, table, members = [1], {1: 2}, {3}
    return (
        refusals(items.__len__, items.__contains__, items.__getitem__, items.__add__)
        + refusals(table.__contains__, table.__len__, members.__and__, members.__len__)
        + refusals((1,).__len__, (1,).__add__, "a".__len__, table.keys().__len__)
    )


def methods_of_iterators():
    generator = (i for i in ())
    return refusals(iter([]).__next__, iter(()).__iter__, generator.__next__, generator.send)


def methods_of_a_deque():
    queue = collections.deque()
    return refusals(queue.append, queue.pop, queue.rotate, queue.extend, queue.index) + refusals(
        queue.count, queue.copy, queue.__len__, queue.__contains__
    )


def method_object_of_a_method_of_list():
    return type(APPEND).__name__, APPEND(1), APPEND.__self__


def classes_of_bound_methods():
    kinds = [].append, "".join, [].__len__, (1).__add__, {}.keys().__iter__, dict.fromkeys
    return [type(kind).__name__ for kind in kinds]


def method_whose_signature_cannot_be_evaluated():
    """Up to CPython 3.13.0 `inspect.signature` of it raises an AttributeError."""
    poll = select.poll()
    read, write = os.pipe()
    try:
        poll.register(read, select.POLLIN)
        os.write(write, b"1")
        return poll.poll(0) == [(read, select.POLLIN)]
    finally:
        os.close(read)
        os.close(write)


CASES = [
    case(method_whose_signature_cannot_be_evaluated, breaks=None),
    case(special_methods_of_containers),
    case(methods_of_iterators),
    case(methods_of_a_deque),
    case(method_object_of_a_method_of_list, breaks=None),
    case(classes_of_bound_methods, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_method_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
