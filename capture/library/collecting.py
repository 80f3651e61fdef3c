"""`deque`, `defaultdict` and the counting of `Counter` in Python, on lists and dicts."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,var-annotated,has-type"

import collections
import operator
import sys
import types

from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.library.iteration import Iterator, equal
from dynajit.capture.library.table import reads_existing, rebuilds, replaces
from dynajit.capture.values.objects import DISGUISED

_MISSING = "deque.{1}(x): x not in deque" if IS_314 else "{0!r} is not in deque"


@reads_existing
@replaces(collections.deque)
class deque:
    """A list whose ends are open; with `maxlen`, the other end gives way.

    `state` counts changes: who goes through the deque notices them. Nothing but `__init__`
    replaces `items`.
    """

    __hash__ = None

    def __init__(self, iterable=(), maxlen=None):
        if maxlen is not None:
            if not isinstance(maxlen, int):
                raise TypeError("an integer is required")
            if maxlen < 0:
                raise ValueError("maxlen must be non-negative")
        self.items = []
        self.maxlen = maxlen
        self.state = 0
        self.extend(iterable)

    def append(self, item, /):
        self.state += 1
        self.items.append(item)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[0]

    def appendleft(self, item, /):
        self.state += 1
        self.items.insert(0, item)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[-1]

    def extend(self, iterable, /):
        for item in list(iterable) if iterable is self else iterable:
            self.append(item)

    def extendleft(self, iterable, /):
        for item in list(iterable) if iterable is self else iterable:
            self.appendleft(item)

    def pop(self):
        if not self.items:
            raise IndexError("pop from an empty deque")
        self.state += 1
        return self.items.pop()

    def popleft(self):
        if not self.items:
            raise IndexError("pop from an empty deque")
        self.state += 1
        return self.items.pop(0)

    def rotate(self, n=1, /):
        count = len(self.items)
        steps = operator.index(n)
        if count > 1:
            self.state += 1
            split = -steps % count
            self.items[:] = self.items[split:] + self.items[:split]

    def reverse(self):
        self.items.reverse()

    def clear(self):
        if self.items:
            self.state += 1
            self.items.clear()

    def copy(self):
        return type(self)(self.items, self.maxlen)

    __copy__ = copy

    def _found(self, value, first, end):
        """Positions of what equals `value`, while nothing changes the deque."""
        state = self.state
        for position in range(first, end):
            is_equal = equal(value, self.items[position])
            if self.state != state:
                raise RuntimeError("deque mutated during iteration")
            if is_equal:
                yield position

    def count(self, value, /):
        total = 0
        for _ in self._found(value, 0, len(self.items)):
            total += 1
        return total

    def __contains__(self, value):
        for _ in self._found(value, 0, len(self.items)):
            return True
        return False

    def index(self, value, start=0, stop=sys.maxsize, /):
        first, end, _ = slice(start, stop).indices(len(self.items))
        for position in self._found(value, first, end):
            return position
        raise ValueError(_MISSING.format(value, "index"))

    def insert(self, index, value, /):
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            raise IndexError("deque already at its maximum size")
        self.state += 1
        self.items.insert(index, value)

    def remove(self, value, /):
        try:
            for position in self._found(value, 0, len(self.items)):
                self.state += 1
                del self.items[position]
                return
        except RuntimeError as error:
            if error.args == ("deque mutated during iteration",):
                raise IndexError(*error.args) from None
            raise
        raise ValueError(_MISSING.format(value, "remove"))

    def _position(self, index):
        if not hasattr(index, "__index__"):
            kind = type(index).__name__
            raise TypeError(f"sequence index must be integer, not '{kind}'")
        position = operator.index(index)
        if not -len(self.items) <= position < len(self.items):
            raise IndexError("deque index out of range")
        return position

    def __getitem__(self, index):
        return self.items[self._position(index)]

    def __setitem__(self, index, value):
        self.items[self._position(index)] = value

    def __delitem__(self, index):
        position = self._position(index)
        self.state += 1
        del self.items[position]

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return DequeIterator(self, 1)

    def __reversed__(self):
        return ReverseDequeIterator(self, -1)

    def __eq__(self, other):
        return _compared(self, other, operator.eq)

    def __ne__(self, other):
        return _compared(self, other, operator.ne)

    def __lt__(self, other):
        return _compared(self, other, operator.lt)

    def __le__(self, other):
        return _compared(self, other, operator.le)

    def __gt__(self, other):
        return _compared(self, other, operator.gt)

    def __ge__(self, other):
        return _compared(self, other, operator.ge)

    def __add__(self, other):
        if not isinstance(other, collections.deque):
            kind = type(other).__name__
            raise TypeError(f'can only concatenate deque (not "{kind}") to deque')
        made = self.copy()
        made.extend(other)
        return made

    def __iadd__(self, other):
        self.extend(other)
        return self

    def __mul__(self, times):
        return type(self)(self.items * times, self.maxlen)

    __rmul__ = __mul__

    def __imul__(self, times):
        repeated = self.items * times
        self.clear()
        self.extend(repeated)
        return self

    def __repr__(self):
        if self.maxlen is None:
            return f"deque({self.items!r})"
        return f"deque({self.items!r}, maxlen={self.maxlen})"


def _compared(left, right, operation):
    if not isinstance(right, collections.deque):
        return NotImplemented
    return operation(list(left), list(right))


class DequeIterator(Iterator):
    """Goes through a deque that nobody changes.

    Args:
        step: 1, or -1 for the reverse order.
    """

    def __init__(self, owner, step):
        self.owner = owner
        self.step = step
        self.state = owner.state
        self.left = len(owner.items)
        self.position = 0 if step == 1 else self.left - 1

    def __next__(self):
        if self.owner.state != self.state:
            self.left = 0
            raise RuntimeError("deque mutated during iteration")
        if not self.left:
            raise StopIteration
        item = self.owner.items[self.position]
        self.position += self.step
        self.left -= 1
        return item

    def __length_hint__(self):
        return self.left


class ReverseDequeIterator(DequeIterator):
    """The same, from the end."""


DISGUISED[DequeIterator] = type(iter(collections.deque()))
DISGUISED[ReverseDequeIterator] = type(reversed(collections.deque()))


@rebuilds(deque)
def _deque(items, maxlen):
    return collections.deque(items, maxlen)


@reads_existing
@replaces(types.MappingProxyType)
class mappingproxy:
    """Shows a mapping, and changes nothing in it."""

    def __init__(self, mapping, /):
        if isinstance(mapping, (list, tuple)) or not hasattr(mapping, "__getitem__"):
            kind = type(mapping).__name__
            raise TypeError(f"mappingproxy() argument must be a mapping, not {kind}")
        self.mapping = mapping

    def __getitem__(self, key):
        return self.mapping[key]

    def __contains__(self, key):
        return key in self.mapping

    def __len__(self):
        return len(self.mapping)

    def __iter__(self):
        return iter(self.mapping)

    def __reversed__(self):
        return reversed(self.mapping)

    def __eq__(self, other):
        return self.mapping == other

    def __ne__(self, other):
        return self.mapping != other

    def __or__(self, other):
        other = other.mapping if isinstance(other, types.MappingProxyType) else other
        return self.mapping | other

    def __ror__(self, other):
        return other | self.mapping

    def get(self, key, default=None, /):
        return self.mapping.get(key, default)

    def keys(self):
        return self.mapping.keys()

    def values(self):
        return self.mapping.values()

    def items(self):
        return self.mapping.items()

    def copy(self):
        return self.mapping.copy()

    def __repr__(self):
        return f"mappingproxy({self.mapping!r})"

    def __str__(self):
        return str(self.mapping)


@rebuilds(mappingproxy)
def _mappingproxy(mapping):
    return types.MappingProxyType(mapping)


@replaces(collections.defaultdict)
class defaultdict:
    """A dict that makes what it lacks."""

    __hash__ = None

    def __init__(self, default_factory=None, /, *args, **kwargs):
        if default_factory is not None and not callable(default_factory):
            raise TypeError("first argument must be callable or None")
        self.default_factory = default_factory
        self.table = dict(*args, **kwargs)

    def __missing__(self, key, /):
        if self.default_factory is None:
            raise KeyError(key)
        self.table[key] = value = self.default_factory()
        return value

    def __getitem__(self, key):
        if key in self.table:
            return self.table[key]
        return self.__missing__(key)

    def __setitem__(self, key, value):
        self.table[key] = value

    def __delitem__(self, key):
        del self.table[key]

    def __contains__(self, key):
        return key in self.table

    def __len__(self):
        return len(self.table)

    def __iter__(self):
        return iter(self.table)

    def __reversed__(self):
        return reversed(self.table)

    def __eq__(self, other):
        if not isinstance(other, dict):
            return NotImplemented
        return self.table == dict(other)

    def __ior__(self, other):
        self.table |= other
        return self

    def __or__(self, other):
        if not isinstance(other, dict):
            return NotImplemented
        return type(self)(self.default_factory, self.table | dict(other))

    def keys(self):
        return self.table.keys()

    def values(self):
        return self.table.values()

    def items(self):
        return self.table.items()

    def get(self, key, default=None, /):
        return self.table.get(key, default)

    def setdefault(self, key, default=None, /):
        return self.table.setdefault(key, default)

    def pop(self, key, /, *default):
        return self.table.pop(key, *default)

    def popitem(self):
        return self.table.popitem()

    def update(self, *args, **kwargs):
        self.table.update(*args, **kwargs)

    def clear(self):
        self.table.clear()

    def copy(self):
        return type(self)(self.default_factory, self.table)

    __copy__ = copy

    def __repr__(self):
        return f"defaultdict({self.default_factory!r}, {self.table!r})"


@rebuilds(defaultdict)
def _defaultdict(default_factory, table):
    return collections.defaultdict(default_factory, table)


@replaces(collections._count_elements)
def count_elements(mapping, iterable, /):
    """What `Counter` counts with."""
    get = mapping.get
    for item in iterable:
        mapping[item] = get(item, 0) + 1
