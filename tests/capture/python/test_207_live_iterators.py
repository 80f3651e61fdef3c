"""Iterators see what happens to what they go over, and keep their class across breaks."""

import pytest

import dynajit as dj
from tests.support.python.harness import Compiler, case


def reversed_list_is_live():
    numbers = [1, 2, 3, 4]
    iterator = reversed(numbers)
    first = next(iterator)
    numbers[:] = [5, 6, 7, 8]
    return first, list(iterator)


def reversed_list_of_fewer_items():
    numbers = [1, 2, 3, 4]
    iterator = reversed(numbers)
    next(iterator)
    del numbers[1:]
    return list(iterator)


def reversed_list_of_more_items():
    numbers = [1, 2]
    iterator = reversed(numbers)
    numbers.append(3)
    return list(iterator), list(iterator)


def _classes(values):
    return [type(value) for value in values]


def classes_of_iterators():
    table = {1: 2}
    forward = [iter(v) for v in ([1], (1,), "ab", "\xe9\u1234", b"ab", {1}, table, table.values())]
    backward = [reversed(v) for v in ([1], (1,), "ab", range(3), table, table.items())]
    return _classes(forward), _classes(backward)


def classes_of_iterators_that_have_begun():
    table = {1: 2, 3: 4}
    iterators = [iter([1, 2]), iter((1, 2)), iter("ab"), iter(b"ab"), iter(table.items())]
    iterators += [reversed([1, 2]), reversed((1, 2)), reversed("ab"), reversed(table)]
    first = [next(iterator) for iterator in iterators]
    return first, _classes(iterators), [list(iterator) for iterator in iterators]


def classes_of_iterators_that_have_ended():
    iterators = [iter([1]), iter((1,)), iter("a"), iter({}), reversed([1]), zip([1]), iter({1})]
    for iterator in iterators:
        list(iterator)
    return _classes(iterators), [next(iterator, None) for iterator in iterators]


def reversed_dict_that_grows():
    table = {1: 2}
    iterator = reversed(table)
    table[3] = 4
    return list(iterator)


def members_change_during_iteration():
    members = {0}
    count = 0
    for number in members:
        members.remove(number)
        members.add(number + 1)
        count += 1
        if count > 8:
            break
    return count


def key_is_removed_before_the_loop_is_left():
    table = {1: 2, 3: 4}
    for key in table:
        if key == 3:
            del table[key]
            break
    return table


def key_comes_back_behind_a_break():
    table = {0: 1}
    try:
        for _ in table:
            dj.graph_break()
            del table[0]
            table[0] = 0
    except RuntimeError as error:
        return str(error)


def key_moves_to_the_end_behind_a_break():
    table = {1: 10, None: 20, 3: 30}
    iterator = iter(table.items())
    first = next(iterator)
    dj.graph_break()
    table[1] = table.pop(1)
    table[None] = table.pop(None)
    dj.graph_break()
    return first, next(iterator), list(table)


def dict_is_filled_anew_behind_a_break():
    table = {1: 10, 2: 20, 3: 30}
    iterator = iter(table)
    next(iterator)
    dj.graph_break()
    table.clear()
    table.update({1: 10, 2: 20, 3: 30})
    dj.graph_break()
    return list(iterator)


CASES = [
    case(reversed_list_is_live),
    case(reversed_list_of_fewer_items),
    case(reversed_list_of_more_items),
    case(classes_of_iterators),
    case(classes_of_iterators_that_have_begun),
    case(classes_of_iterators_that_have_ended),
    case(reversed_dict_that_grows),
    case(members_change_during_iteration, breaks=None),
    case(key_is_removed_before_the_loop_is_left),
    case(key_comes_back_behind_a_break, breaks=None, graphs=None),
    case(key_moves_to_the_end_behind_a_break, breaks=None),
    case(dict_is_filled_anew_behind_a_break, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_keys_that_change_during_iteration_are_noticed():
    def change(view):
        table = {0: 0}
        for _ in getattr(table, view)():
            del table[0]
            table[0] = 0

    for view in ("keys", "values", "items"):
        compiler = Compiler()
        with pytest.raises(RuntimeError, match="dictionary keys changed during iteration"):
            compiler.compile(change)(view)


def test_objects_nested_deeper_than_the_stack_are_as_in_plain_python():
    def show(make):
        value = make(None)
        for _ in range(3000):
            value = make(value)
        try:
            return repr(value)
        except RecursionError:
            return "too deep"

    for make in (lambda item: [item], lambda item: {1: item}, lambda item: (item,)):
        assert show(make) == Compiler().compile(show)(make)
