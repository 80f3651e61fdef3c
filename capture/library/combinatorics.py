"""`itertools` in Python: combinations, permutations and products.

They draw index tuples of a fixed pool from a generator, and remember how many were taken.
"""

# Annotations would be evaluated by the executor: the bodies below are traced programs.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,var-annotated,has-type"

import itertools
import operator

from dynajit.capture.library.iteration import Iterator, behind
from dynajit.capture.library.table import rebuilds, replaces


class _OfSteps(Iterator):
    """An iterator over index tuples of a fixed pool: no foreign code runs."""

    def __next__(self):
        item = next(self.steps)
        self.taken += 1
        return item


def _combinations(pool, r):
    count = len(pool)
    if r > count:
        return
    indices = list(range(r))
    yield tuple([pool[i] for i in indices])
    while True:
        position = r - 1
        while position >= 0 and indices[position] == position + count - r:
            position -= 1
        if position < 0:
            return
        indices[position] += 1
        for later in range(position + 1, r):
            indices[later] = indices[later - 1] + 1
        yield tuple([pool[i] for i in indices])


@replaces(itertools.combinations)
class combinations(_OfSteps):
    """Subsets of `r` items, in order."""

    def __init__(self, iterable, r):
        pool = tuple(iterable)
        if operator.index(r) < 0:
            raise ValueError("r must be non-negative")
        self.pool, self.r, self.taken = pool, r, 0
        self.steps = _combinations(pool, self.r)


def _combinations_with_replacement(pool, r):
    count = len(pool)
    if not count and r:
        return
    indices = [0] * r
    yield tuple([pool[i] for i in indices])
    while True:
        position = r - 1
        while position >= 0 and indices[position] == count - 1:
            position -= 1
        if position < 0:
            return
        indices[position:] = [indices[position] + 1] * (r - position)
        yield tuple([pool[i] for i in indices])


@replaces(itertools.combinations_with_replacement)
class combinations_with_replacement(_OfSteps):
    """Subsets of `r` items, repeats allowed, in order."""

    def __init__(self, iterable, r):
        pool = tuple(iterable)
        if operator.index(r) < 0:
            raise ValueError("r must be non-negative")
        self.pool, self.r, self.taken = pool, r, 0
        self.steps = _combinations_with_replacement(pool, self.r)


def _permutations(pool, r):
    count = len(pool)
    if r > count:
        return
    indices = list(range(count))
    cycles = list(range(count, count - r, -1))
    yield tuple([pool[i] for i in indices[:r]])
    while True:
        position = r - 1
        while position >= 0:
            cycles[position] -= 1
            if cycles[position]:
                other = count - cycles[position]
                indices[position], indices[other] = indices[other], indices[position]
                yield tuple([pool[i] for i in indices[:r]])
                break
            indices[position:] = indices[position + 1 :] + indices[position : position + 1]
            cycles[position] = count - position
            position -= 1
        if position < 0:
            return


@replaces(itertools.permutations)
class permutations(_OfSteps):
    """Orderings of `r` items."""

    def __init__(self, iterable, r=None):
        pool = tuple(iterable)
        if r is not None and not isinstance(r, int):
            raise TypeError("Expected int as r")
        if r is not None and r < 0:
            raise ValueError("r must be non-negative")
        self.pool, self.r, self.taken = pool, len(pool) if r is None else r, 0
        self.steps = _permutations(pool, self.r)


def _product(pools):
    if not all(pools):
        return
    indices = [0] * len(pools)
    while True:
        yield tuple([pool[i] for pool, i in zip(pools, indices, strict=True)])
        position = len(pools) - 1
        while position >= 0 and indices[position] == len(pools[position]) - 1:
            indices[position] = 0
            position -= 1
        if position < 0:
            return
        indices[position] += 1


@replaces(itertools.product)
class product(_OfSteps):
    """Tuples with one item of each pool."""

    def __init__(self, *iterables, repeat=1):
        times = operator.index(repeat)
        if times < 0:
            raise ValueError("repeat argument cannot be negative")
        self.pools, self.taken = [tuple(pool) for pool in iterables] * times, 0
        self.steps = _product(self.pools)


# -- originals from the state ----------------------------------------------------------------------


@rebuilds(combinations)
def _made_combinations(pool, r, taken):
    return behind(itertools.combinations(pool, r), taken)


@rebuilds(combinations_with_replacement)
def _made_combinations_with_replacement(pool, r, taken):
    return behind(itertools.combinations_with_replacement(pool, r), taken)


@rebuilds(permutations)
def _made_permutations(pool, r, taken):
    return behind(itertools.permutations(pool, r), taken)


@rebuilds(product)
def _made_product(pools, taken):
    return behind(itertools.product(*pools), taken)
