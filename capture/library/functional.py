"""C functions of `functools` in Python."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import functools
import math
import operator
from types import BuiltinFunctionType

from dynajit.capture.library.iteration import Unset
from dynajit.capture.library.pure import load
from dynajit.capture.library.table import rebuilds, replaces, stands_for


@replaces(functools.reduce)
def reduce(function, iterable, initial=Unset, /):
    """Fold from the left."""
    try:
        iterator = iter(iterable)
    except TypeError:
        raise TypeError("reduce() arg 2 must support iteration") from None
    if initial is Unset:
        try:
            total = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        total = initial
    for item in iterator:
        total = function(total, item)
    return total


class _Key:
    """Compared by a function."""

    __hash__ = None

    def __init__(self, compare, obj):
        self._compare = compare
        self.obj = obj

    def __lt__(self, other):
        return self._compare(self.obj, other.obj) < 0

    def __gt__(self, other):
        return self._compare(self.obj, other.obj) > 0

    def __eq__(self, other):
        return self._compare(self.obj, other.obj) == 0

    def __le__(self, other):
        return self._compare(self.obj, other.obj) <= 0

    def __ge__(self, other):
        return self._compare(self.obj, other.obj) >= 0


@rebuilds(_Key)
def _key(_compare, obj):
    return functools.cmp_to_key(_compare)(obj)


class _KeyMaker:
    """Makes sort keys that are compared by a function."""

    def __init__(self, compare):
        self._compare = compare

    def __call__(self, obj):
        return _Key(self._compare, obj)


@rebuilds(_KeyMaker)
def _key_maker(_compare):
    return functools.cmp_to_key(_compare)


stands_for(type(functools.cmp_to_key(operator.sub)), _Key, _KeyMaker)


@replaces(functools.cmp_to_key)
def cmp_to_key(mycmp):
    """A sort key from a comparison function."""
    return _KeyMaker(mycmp)


# -- operator --------------------------------------------------------------------------------------


@replaces(operator.itemgetter)
class itemgetter:
    """`obj[item]`, or a tuple of such."""

    def __init__(self, item, /, *items):
        self.items = (item, *items)

    def __call__(self, obj, /):
        if len(self.items) == 1:
            return obj[self.items[0]]
        return tuple([obj[item] for item in self.items])


@rebuilds(itemgetter)
def _itemgetter(items):
    return operator.itemgetter(*items)


@replaces(operator.attrgetter)
class attrgetter:
    """`obj.name`, or a tuple of such; names may have dots."""

    def __init__(self, attr, /, *attrs):
        self.attrs = (attr, *attrs)
        for name in self.attrs:
            if not isinstance(name, str):
                raise TypeError("attribute name must be a string")

    def _resolve(self, obj, name):
        for part in name.split("."):
            obj = getattr(obj, part)
        return obj

    def __call__(self, obj, /):
        if len(self.attrs) == 1:
            return self._resolve(obj, self.attrs[0])
        return tuple([self._resolve(obj, name) for name in self.attrs])


@rebuilds(attrgetter)
def _attrgetter(attrs):
    return operator.attrgetter(*attrs)


@replaces(operator.methodcaller)
class methodcaller:
    """`obj.name(*args, **keywords)`."""

    def __init__(self, name, /, *args, **kwargs):
        if not isinstance(name, str):
            raise TypeError("method name must be a string")
        self.name, self.args, self.kwargs = name, args, kwargs

    def __call__(self, obj, /):
        return getattr(obj, self.name)(*self.args, **self.kwargs)


@rebuilds(methodcaller)
def _methodcaller(name, args, kwargs):
    return operator.methodcaller(name, *args, **kwargs)


_operators = load("operator", "_operator")
for _name, _function in vars(operator).items():
    if isinstance(_function, BuiltinFunctionType) and hasattr(_operators, _name):
        replaces(_function)(getattr(_operators, _name))


@replaces(math.prod)
def prod(iterable, /, *, start=1):
    """Product of the items."""
    for item in iterable:
        start = start * item
    return start


@replaces(operator.countOf)
def count_of(a, b, /):
    """How many items of `a` equal `b`."""
    total = 0
    for item in a:
        if item in (b,):
            total += 1
    return total


@replaces(operator.indexOf)
def index_of(a, b, /):
    """Position of the first item of `a` that equals `b`."""
    for position, item in enumerate(a):
        if item in (b,):
            return position
    raise ValueError("sequence.index(x): x not in sequence")
