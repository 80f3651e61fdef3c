"""Iterators over lists and tuples that existed before: read where they are, left where they go."""

import pytest

import dynajit
from dynajit.capture.entry import cache
from tests.support.python.harness import case

KEPT = iter([1, 2, 3, 4, 5])


def total(iterator):
    found = 0
    for item in iterator:
        found += item
    return found


def first_two(iterator):
    return next(iterator), next(iterator), iterator


def until_three(iterator):
    for item in iterator:
        if item == 3:
            break
    else:
        return "end", iterator
    return item, iterator


def ended(iterator):
    return list(iterator), next(iterator, "end"), list(iterator), iterator


def pairs(iterator):
    return list(zip(iterator, iterator)), list(enumerate(iterator))


def with_list(iterator, items):
    return next(iterator), items[0], len(items), list(map(str, iterator))


def grows_what_it_reads(items):
    iterator = iter(items)
    dynajit.graph_break()
    next(iterator)
    items.append(9)
    return list(iterator), items


def across_a_break(items):
    iterator = iter(items)
    one = next(iterator)
    dynajit.graph_break()
    rest = [item * one for item in iterator]
    return rest, iterator


def kept_by_a_global():
    return next(KEPT), 3 in KEPT


def advanced(items, count=1):
    iterator = iter(items)
    for _ in range(count):
        next(iterator)
    return iterator


CASES = [
    case(total, iter([1, 2, 3])), case(total, iter((1, 2))), case(total, advanced([1, 2, 3])),
    case(first_two, iter([1, 2, 3])), case(until_three, iter([1, 3, 4, 5])),
    case(until_three, iter((1, 2))), case(ended, advanced([1, 2, 3])), case(pairs, iter([1, 2, 3, 4, 5])),
    case(with_list, *(lambda items: (iter(items), items))([1, 2, 3])),
    case(grows_what_it_reads, [1, 2], breaks=None), case(across_a_break, [2, 3, 4], breaks=1),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_an_iterator_of_tensors_is_captured(compiler, x):
    compiled = compiler.compile(total)
    for _ in range(3):
        assert (x * 3 + 1).tolist() == compiled(iter([x, x + 1, x])).tolist()
    assert 1 == len(compiler.graphs)
    assert [] == compiler.breaks


def test_an_iterator_that_moves_from_call_to_call_does_not_recompile_each_time():
    iterator = iter(list(range(40)))
    compiled = dynajit.compile(lambda: next(iterator) + 1, backend="eager")
    assert list(range(1, 41)) == [compiled() for _ in range(40)]
    assert 3 >= cache.cache_of(compiled).compile_count


def test_a_list_that_is_longer_is_noticed(compiler):
    compiled = compiler.compile(total)
    assert [6, 10, 6] == [compiled(iter(list(range(n)))) for n in (4, 5, 4)]


def test_other_iterators_are_left_to_python(compiler):
    compiled = compiler.compile(total)
    assert 6 == compiled(iter({1: 0, 2: 0, 3: 0}))
    assert 6 == compiled(iter(range(4)))
    assert 6 == compiled(number for number in range(4))


def goes_through(items):
    found = []
    for item in items:
        found.append(item)
    return found, items is iter(items)


def is_true(items):
    return 1 if items else 2


class Indexed:
    def __getitem__(self, index):
        return range(3)[index]


MAKERS = (Indexed, range, list, tuple, dict, lambda: enumerate("ab"), lambda: iter(range(2)))


@pytest.mark.parametrize("function", (goes_through, is_true))
@pytest.mark.parametrize("first", (lambda: iter(range(3)), lambda: iter([1]), lambda: zip("ab")))
def test_a_version_for_an_iterator_is_not_used_for_other_types(compiler, function, first):
    compiled = compiler.compile(function)
    assert compiled(first()) == function(first())
    for make in MAKERS:
        arguments = (3,) if make is range else ()
        assert compiled(make(*arguments)) == function(make(*arguments))
