"""itertools, functools.reduce, heapq and bisect: lazy, in order, as the originals do it."""

import bisect
import functools
import heapq
import itertools
import operator
import sys
import time

import pytest


def caught(function, *arguments):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


def noting(log, items):
    for item in items:
        log.append(item)
        yield item


def accumulate(x):
    return (
        x + 1,
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([2, 3], operator.mul)),
        list(itertools.accumulate([2, 3], lambda a, b: a - b, initial=10)),
        list(itertools.accumulate([])),
        caught(itertools.accumulate, 5),
    )


def accumulate_tensors(x):
    return list(itertools.accumulate([x, x + 1, 2 * x]))


def chain(x):
    return (
        x + 1,
        list(itertools.chain("ab", [1], (), range(2))),
        list(itertools.chain.from_iterable([[1], [2, 3]])),
        list(itertools.chain()),
        caught(lambda: list(itertools.chain([1], 5))),
    )


def chain_is_lazy(x):
    log = []
    it = itertools.chain(noting(log, [1, 2]), noting(log, [3]))
    first = next(it)
    log.append("between")
    return x + 1, first, list(it), log


def combinations(x):
    return (
        x + 1,
        list(itertools.combinations("abcd", 2)),
        list(itertools.combinations([1, 2], 3)),
        list(itertools.combinations([1, 2], 0)),
        list(itertools.combinations_with_replacement("abc", 2)),
        list(itertools.permutations([1, 2, 3])),
        list(itertools.permutations("abc", 2)),
        list(itertools.permutations("ab", 0)),
        caught(itertools.combinations, "ab", -1),
        caught(itertools.permutations, "ab", "a"),
    )


def product(x):
    return (
        x + 1,
        list(itertools.product("ab", [1, 2])),
        list(itertools.product([0, 1], repeat=2)),
        list(itertools.product()),
        list(itertools.product([], [1])),
    )


def infinite(x):
    total = []
    for i in itertools.count(3):
        if i > 6:
            break
        total.append(i)
    names = []
    for name, i in zip(itertools.cycle("ab"), range(5)):
        names.append((name, i))
    c = itertools.count(10, -2)
    return x + 1, total, names, next(c), next(c), list(itertools.repeat("z", 3)), repr(c)


def slices(x):
    return (
        x + 1,
        list(itertools.islice("abcdef", 3)),
        list(itertools.islice("abcdef", 1, None, 2)),
        list(itertools.islice(range(10), 2, 8, 3)),
        list(itertools.islice([1], 5)),
        caught(itertools.islice, [1], -1),
        caught(itertools.islice, [1], 0, 3, 0),
        caught(itertools.islice, [1], "a"),
        caught(itertools.islice, [1]),
    )


def slice_takes_no_more_than_it_needs(x):
    log = []
    it = noting(log, range(10))
    first = list(itertools.islice(it, 2))
    second = list(itertools.islice(it, 1, 3))
    return x + 1, first, second, log, next(it)


def filters(x):
    return (
        x + 1,
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.filterfalse(None, [0, 1, "", "a"])),
        list(itertools.filterfalse(lambda v: v % 2, range(5))),
        list(itertools.compress("abcd", [1, 0, True])),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.starmap(lambda *a, b=1: (a, b), [(1,), (2, 3)])),
    )


def group(x):
    rows = [("a", 1), ("a", 2), ("b", 3), ("a", 4)]
    groups = [(k, [v for _, v in g]) for k, g in itertools.groupby(rows, key=lambda r: r[0])]
    only_keys = [k for k, g in itertools.groupby("aabbb")]
    it = itertools.groupby([1, 1, 2])
    k, g = next(it)
    next(it)
    return (
        x + 1,
        groups,
        only_keys,
        list(g),
        [(k, len(list(g))) for k, g in itertools.groupby("aab")],
    )


def pairs_and_tee(x):
    a, b = itertools.tee([1, 2, 3])
    next(b, None)
    both = list(zip(a, b))
    return x + 1, both, list(itertools.pairwise("abc")), list(itertools.pairwise([1]))


def longest(x):
    return (
        x + 1,
        list(itertools.zip_longest([1, 2, 3], "a")),
        list(itertools.zip_longest([1], "ab", fillvalue="-")),
        list(itertools.zip_longest()),
    )


def types_are_the_originals(x):
    c = itertools.count()
    return x + 1, type(c) is itertools.count, isinstance(c, itertools.count), iter(c) is c


def returned_iterators(x):
    c = itertools.count(5)
    next(c)
    cy = itertools.cycle([1, 2])
    next(cy)
    return x + 1, [c, cy, itertools.islice([1, 2, 3], 2), itertools.chain([1], [2])].__len__()


def reduced(x):
    return (
        functools.reduce(operator.add, [x, x, x]),
        functools.reduce(lambda a, b: a * 10 + b, [1, 2, 3]),
        functools.reduce(max, [1, 3, 2], 9),
        functools.reduce(max, [], 9),
        caught(lambda: functools.reduce(max, [])),
        caught(lambda: functools.reduce(max, 5)),
    )


def heaps(x):
    heap = [5, 2, 8, 1]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    first = heapq.heappop(heap)
    second = heapq.heappushpop(heap, 7)
    third = heapq.heapreplace(heap, 9)
    return (
        x + 1,
        heap,
        first,
        second,
        third,
        heapq.nsmallest(2, [3, 1, 2]),
        heapq.nlargest(2, ["a", "ccc", "bb"], key=len),
        list(heapq.merge([1, 4], [2, 3])),
        caught(lambda: heapq.heappop([])),
    )


def heap_of_pairs(x):
    queue = []
    for rank, name in [(2, "b"), (1, "a"), (3, "c")]:
        heapq.heappush(queue, (rank, name))
    order = []
    while queue:
        order.append(heapq.heappop(queue)[1])
    return x + 1, order


def bisection(x):
    items = [1, 3, 3, 5]
    bisect.insort(items, 4)
    return (
        x + 1,
        bisect.bisect(items, 3),
        bisect.bisect_left(items, 3),
        bisect.bisect_right(items, 3, 0, 2),
        bisect.bisect([(1, "a"), (2, "b")], 2, key=lambda r: r[0]),
        items,
    )


def sort_by_comparison(x):
    def compare(a, b):
        return (a > b) - (a < b) if a % 2 == b % 2 else a % 2 - b % 2

    return x + 1, sorted([5, 2, 3, 4, 1], key=functools.cmp_to_key(compare))


def batches(x):
    return x + 1, list(itertools.batched("abcde", 2)), caught(itertools.batched, [1], 0)


if sys.version_info < (3, 12):
    del batches


def iterator_over_an_argument(x, items):
    total = x
    for a, b in itertools.pairwise(items):
        total = total * a + b
    return total


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__code__", None) is not None
    and value.__module__ == __name__
    and name not in ("caught", "noting")
    and value.__code__.co_argcount == 1
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function_is_captured_without_a_break(assert_captured, x, function):
    """Same result as plain Python, without a break."""
    assert_captured(function, x)


def test_iterators_over_arguments(assert_captured, x):
    """A list argument is iterated over."""
    assert_captured(iterator_over_an_argument, x, [1, 2, 3])


class ComesBack:
    """An iterator that asks the pair of its neighbours for an item, once."""

    def __init__(self, count):
        self.count, self.pairs, self.given = count, None, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.given >= self.count:
            raise StopIteration
        self.given += 1
        return next(self.pairs, None) if self.given == 1 else self.given


class Fails:
    """An iterator whose third item is an error."""

    def __init__(self):
        self.given = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.given += 1
        if self.given == 3:
            raise KeyError(self.given)
        return self.given


def pairs_that_are_asked_within(count):
    found = ComesBack(count)
    found.pairs = itertools.pairwise(found)
    return list(found.pairs), list(found.pairs), found.given


def pairs_after_an_error(x):
    pairs = itertools.pairwise(Fails())
    return x + 1, next(pairs), caught(next, pairs), caught(next, pairs), caught(next, pairs)


@pytest.mark.parametrize("count", range(6))
def test_pairs_that_are_asked_while_they_ask(assert_captured, count):
    assert_captured(pairs_that_are_asked_within, count, graphs=0)


def test_pairs_end_with_an_error(assert_captured):
    assert_captured(pairs_after_an_error, 1, graphs=0)


def totals_of_nothing(x):
    totals = itertools.accumulate([None, None, None], operator.is_)
    first = next(totals)
    return x, first, list(totals)


def totals_with_a_break(x):
    totals = itertools.accumulate([None, x, None], operator.is_)
    first = next(totals)
    time.sleep(0)  # a break: the iterator is made again in the middle of its work
    return first, list(totals), type(totals)


def test_a_total_that_is_none_is_kept_across_breaks(assert_captured):
    assert_captured(totals_of_nothing, 1, graphs=0)
    assert_captured(totals_with_a_break, None, graphs=0, breaks=None)


def classes_of_readers(x):
    first, second = itertools.tee([1, 2, 3])
    third = next(itertools.groupby("aab"))[1]
    again = type(first)("de")
    shared, _ = itertools.tee(first)
    names = [type(reader).__name__ for reader in (first, third, again, shared)]
    return x + 1, names, list(second), list(again), list(shared)


def test_the_classes_of_readers_and_groups(assert_captured, x):
    assert_captured(classes_of_readers, x, graphs=None, breaks=None)
