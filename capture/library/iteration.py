"""`itertools` in Python: lazy, and as tolerant of exceptions as the originals.

Combinations, permutations and products are in `combinatorics`.

Every class keeps its state in attributes and goes on after an exception of what it calls.
"""

# Annotations would be evaluated by the executor: the bodies below are traced programs.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,var-annotated,has-type"

import itertools
import operator
import sys

from dynajit.capture.library.table import keeps_items, rebuilds, replaces, stands_for
from dynajit.capture.values.objects import DISGUISED


class Unset:
    """Marks an argument that was not given, or an item that was not read."""


class Iterator:
    """An iterator is its own iterable."""

    def __iter__(self):
        return self


def equal(a, b):
    """`a == b`, one object being equal to itself."""
    return a in (b,)


@replaces(itertools.accumulate)
class accumulate(Iterator):
    """Totals so far."""

    def __init__(self, iterable, func=None, *, initial=None):
        self.iterator = iter(iterable)
        self.function = operator.add if func is None else func
        self.initial = initial
        self.total = Unset

    def __next__(self):
        if self.initial is not None:
            self.total = self.initial
            self.initial = None
            return self.total
        item = next(self.iterator)
        if self.total is not Unset:
            item = self.function(self.total, item)
        self.total = item
        return item


@replaces(itertools.chain)
class chain(Iterator):
    """One iterable after another."""

    def __init__(self, *iterables):
        self.sources = iter(iterables)
        self.active = None

    @classmethod
    def from_iterable(cls, iterable):
        made = cls()
        made.sources = iter(iterable)
        return made

    def __next__(self):
        while True:
            if self.sources is None:
                raise StopIteration
            if self.active is None:
                try:
                    source = next(self.sources)
                except StopIteration:
                    self.sources = None
                    raise StopIteration from None
                self.active = iter(source)
            try:
                return next(self.active)
            except StopIteration:
                self.active = None


@replaces(itertools.compress)
class compress(Iterator):
    """Items whose selector is true."""

    def __init__(self, data, selectors):
        self.data = iter(data)
        self.selectors = iter(selectors)

    def __next__(self):
        while True:
            item = next(self.data)
            if next(self.selectors):
                return item


def _is_number(value):
    kinds = ("__index__", "__int__", "__float__")
    return isinstance(value, complex) or any(hasattr(value, kind) for kind in kinds)


@replaces(itertools.count)
class count(Iterator):
    """Numbers from `start` on."""

    def __init__(self, start=0, step=1):
        if not _is_number(start) or not _is_number(step):
            raise TypeError("a number is required")
        self.value = start
        self.step = step

    def __next__(self):
        found = self.value
        self.value = found + self.step
        return found

    def __repr__(self):
        if self.step == 1 and isinstance(self.step, int):
            return f"count({self.value!r})"
        return f"count({self.value!r}, {self.step!r})"


@replaces(itertools.cycle)
class cycle(Iterator):
    """Items over and over."""

    def __init__(self, iterable):
        self.iterator = iter(iterable)
        self.saved = []
        self.position = 0

    def __next__(self):
        if self.iterator is not None:
            try:
                item = next(self.iterator)
            except StopIteration:
                self.iterator = None
            else:
                self.saved.append(item)
                return item
        if not self.saved:
            raise StopIteration
        item = self.saved[self.position]
        self.position = (self.position + 1) % len(self.saved)
        return item


@replaces(itertools.dropwhile)
class dropwhile(Iterator):
    """What follows the first items that satisfy the predicate."""

    def __init__(self, predicate, iterable, /):
        self.predicate = predicate
        self.iterator = iter(iterable)
        self.has_started = False

    def __next__(self):
        while True:
            item = next(self.iterator)
            if self.has_started:
                return item
            if not self.predicate(item):
                self.has_started = True
                return item


@replaces(itertools.filterfalse)
class filterfalse(Iterator):
    """Items that do not satisfy the predicate."""

    def __init__(self, function, iterable, /):
        self.predicate = function
        self.iterator = iter(iterable)

    def __next__(self):
        while True:
            item = next(self.iterator)
            verdict = item if self.predicate is None else self.predicate(item)
            if not verdict:
                return item


@replaces(itertools.groupby)
class groupby(Iterator):
    """Runs of items with equal keys."""

    def __init__(self, iterable, key=None):
        self.iterator = iter(iterable)
        self.function = key
        self.target = Unset
        self.key = Unset
        self.item = Unset
        self.group = None

    def step(self):
        item = next(self.iterator)
        self.key = item if self.function is None else self.function(item)
        self.item = item

    def __next__(self):
        self.group = None
        while True:
            if self.key is not Unset and (self.target is Unset or not equal(self.target, self.key)):
                break
            self.step()
        self.target = self.key
        self.group = _Group(self, self.target)
        return self.key, self.group


class _Group(Iterator):
    """The items of one run; ends when the next run is asked for."""

    def __init__(self, parent, key):
        self.parent = parent
        self.key = key

    def __next__(self):
        parent = self.parent
        if parent.group is not self:
            raise StopIteration
        if parent.item is Unset:
            parent.step()
        if not equal(self.key, parent.key):
            raise StopIteration
        item = parent.item
        parent.item = Unset
        return item


class CallableIterator(Iterator):
    """What `iter(function, sentinel)` gives."""

    def __init__(self, function, sentinel):
        self.function = function
        self.sentinel = sentinel

    def __next__(self):
        if self.function is None:
            raise StopIteration
        try:
            item = self.function()
        except StopIteration:
            self.function = None
            raise StopIteration from None
        if self.function is None:  # the call came back here, and ended it
            raise StopIteration
        if equal(self.sentinel, item):
            self.function = None
            raise StopIteration
        return item


DISGUISED[CallableIterator] = type(iter(int, 1))


class ReversedIterator(Iterator):
    """Over an object with `__getitem__` and `__len__`, from its end."""

    def __init__(self, sequence):
        self.sequence = sequence
        self.position = len(sequence) - 1

    def __next__(self):
        if self.position < 0:
            raise StopIteration
        try:
            item = self.sequence[self.position]
        except (IndexError, StopIteration):
            self.position = -1
            raise StopIteration from None
        self.position -= 1
        return item


DISGUISED[ReversedIterator] = reversed

_STOP = "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize."
_INDICES = "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize."
_STEP = "Step for islice() must be a positive integer or None."


def _bound(value, default, lowest, message):
    if value is None:
        return default
    if not hasattr(value, "__index__"):
        raise ValueError(message)
    found = operator.index(value)
    if not lowest <= found <= sys.maxsize:
        raise ValueError(message)
    return found


@replaces(itertools.islice)
class islice(Iterator):
    """A slice of an iterable."""

    def __init__(self, iterable, first, last=Unset, step=None, /):
        if last is Unset:
            self.next, self.stop = 0, _bound(first, None, 0, _STOP)
        else:
            self.stop = _bound(last, None, 0, _STOP)
            self.next = _bound(first, 0, 0, _INDICES)
        self.step = _bound(step, 1, 1, _STEP)
        self.iterator = iter(iterable)
        self.position = 0

    def __next__(self):
        if self.iterator is None:
            raise StopIteration
        while self.position < self.next:
            self._take()
        if self.stop is not None and self.position >= self.stop:
            self.iterator = None
            raise StopIteration
        item = self._take()
        self.next += self.step
        if self.stop is not None and self.next > self.stop:
            self.next = self.stop
        return item

    def _take(self):
        try:
            item = next(self.iterator)
        except StopIteration:
            self.iterator = None
            raise StopIteration from None
        self.position += 1
        return item


@keeps_items
@replaces(itertools.pairwise)
class pairwise(Iterator):
    """Neighbours."""

    def __init__(self, iterable, /):
        self.iterator = iter(iterable)
        self.before = Unset

    def __next__(self):
        iterator, before = self.iterator, self.before
        if iterator is None:
            raise StopIteration
        if before is Unset:
            before = self.before = self._take(iterator)
            iterator = self.iterator
            if iterator is None:  # it came back here, and ended
                self.before = Unset
                raise StopIteration
        after = self.before = self._take(iterator)
        return before, after

    def _take(self, iterator):
        try:
            return next(iterator)
        except BaseException:
            self.iterator, self.before = None, Unset
            raise


@replaces(itertools.repeat)
class repeat(Iterator):
    """One object, over and over or so many times."""

    def __init__(self, object, times=Unset):
        self.object = object
        self.times = None if times is Unset else max(operator.index(times), 0)

    def __next__(self):
        if self.times is not None:
            if not self.times:
                raise StopIteration
            self.times -= 1
        return self.object

    def __length_hint__(self):
        if self.times is None:
            raise TypeError("len() of unsized object")
        return self.times


@replaces(itertools.starmap)
class starmap(Iterator):
    """A function of tuples of arguments."""

    def __init__(self, function, iterable, /):
        self.function = function
        self.iterator = iter(iterable)

    def __next__(self):
        return self.function(*next(self.iterator))


@replaces(itertools.takewhile)
class takewhile(Iterator):
    """Items up to the first that does not satisfy the predicate."""

    def __init__(self, predicate, iterable, /):
        self.predicate = predicate
        self.iterator = iter(iterable)
        self.has_ended = False

    def __next__(self):
        if self.has_ended:
            raise StopIteration
        item = next(self.iterator)
        if self.predicate(item):
            return item
        self.has_ended = True
        raise StopIteration


class _Tee(Iterator):
    """One of several readers of what an iterator gives."""

    def __init__(self, iterator, items, position):
        self.iterator = iterator
        self.items = items
        self.position = position

    def __next__(self):
        if self.position == len(self.items):
            self.items.append(next(self.iterator))
        item = self.items[self.position]
        self.position += 1
        return item

    def __copy__(self):
        return _Tee(self.iterator, self.items, self.position)


stands_for(type(itertools.tee(())[0]), _Tee)
stands_for(type(next(itertools.groupby("a"))[1]), _Group)


@replaces(itertools.tee)
def tee(iterable, n=2, /):
    """Several readers of one iterable."""
    if n < 0:
        raise ValueError("n must be >= 0")
    if isinstance(iterable, _Tee):
        return tuple([iterable.__copy__() for _ in range(n)])
    iterator = iter(iterable)
    items = []
    return tuple([_Tee(iterator, items, 0) for _ in range(n)])


@keeps_items
@replaces(itertools.zip_longest)
class zip_longest(Iterator):
    """Tuples, as long as one iterable gives."""

    def __init__(self, *iterables, fillvalue=None):
        self.iterators = [iter(iterable) for iterable in iterables]
        self.active = len(self.iterators)
        self.filler = fillvalue

    def __next__(self):
        if not self.active:
            raise StopIteration
        items = []
        for position, iterator in enumerate(self.iterators):
            item = self.filler
            if iterator is not None:
                try:
                    item = next(iterator)
                except StopIteration:
                    self.active -= 1
                    if not self.active:
                        raise StopIteration from None
                    self.iterators[position] = None
            items.append(item)
        return tuple(items)


if sys.version_info >= (3, 12):

    @replaces(itertools.batched)
    class batched(Iterator):
        """Tuples of `n` items."""

        def __init__(self, iterable, n, *, strict=False):
            if n < 1:
                raise ValueError("n must be at least one")
            self.iterator = iter(iterable)
            self.size = n
            self.is_strict = strict

        def __next__(self):
            batch = []
            while self.iterator is not None and len(batch) < self.size:
                try:
                    batch.append(next(self.iterator))
                except StopIteration:
                    self.iterator = None
            if not batch:
                raise StopIteration
            if self.is_strict and len(batch) != self.size:
                raise ValueError("batched(): incomplete batch")
            return tuple(batch)


# -- originals from the state ----------------------------------------------------------------------


def behind(iterator, taken):
    """`iterator` after so many items."""
    for _ in range(taken):
        next(iterator)
    return iterator


def _after(item, iterator):
    """An item and what follows; a chain would hold a list of it to its end."""
    return itertools.chain(iter([item]), iterator)


@rebuilds(accumulate)
def _accumulate(iterator, function, initial, total):
    if total is Unset:
        return itertools.accumulate(iterator, function, initial=initial)
    if total is None:  # as `initial` it would mean that there is none
        return behind(itertools.accumulate(_after(total, iterator), function), 1)
    return behind(itertools.accumulate(iterator, function, initial=total), 1)


@rebuilds(chain)
def _chain(sources, active):
    rest = itertools.chain.from_iterable(() if sources is None else sources)
    return rest if active is None else itertools.chain(active, rest)


@rebuilds(compress)
def _compress(data, selectors):
    return itertools.compress(data, selectors)


@rebuilds(count)
def _count(value, step):
    return itertools.count(value, step)


@rebuilds(cycle)
def _cycle(iterator, saved, position):
    if iterator is None:
        return itertools.cycle(saved[position:] + saved[:position])
    return behind(itertools.cycle(itertools.chain(saved, iterator)), len(saved))


@rebuilds(dropwhile)
def _dropwhile(predicate, iterator, has_started):
    return itertools.dropwhile((lambda item: False) if has_started else predicate, iterator)


@rebuilds(filterfalse)
def _filterfalse(predicate, iterator):
    return itertools.filterfalse(predicate, iterator)


@rebuilds(CallableIterator)
def _callable_iterator(function, sentinel):
    if function is None:
        return iter(lambda: sentinel, sentinel)
    return iter(function, sentinel)


@rebuilds(islice)
def _islice(iterator, position, next, stop, step):
    if iterator is None:
        return itertools.islice((), 0)
    end = None if stop is None else stop - position
    return itertools.islice(iterator, next - position, end, step)


@rebuilds(pairwise)
def _pairwise(iterator, before):
    if iterator is None:
        return itertools.pairwise(())
    return itertools.pairwise(iterator if before is Unset else _after(before, iterator))


@rebuilds(repeat)
def _repeat(object, times):
    return itertools.repeat(object) if times is None else itertools.repeat(object, times)


@rebuilds(starmap)
def _starmap(function, iterator):
    return itertools.starmap(function, iterator)


@rebuilds(takewhile)
def _takewhile(predicate, iterator, has_ended):
    return itertools.takewhile(predicate, () if has_ended else iterator)


@rebuilds(zip_longest)
def _zip_longest(iterators, filler):
    rest = [() if iterator is None else iterator for iterator in iterators]
    return itertools.zip_longest(*rest, fillvalue=filler)
