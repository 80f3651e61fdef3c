"""C functions of `functools` in Python."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import functools

from dynajit.capture.library.iteration import Unset
from dynajit.capture.library.table import replaces


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


@replaces(functools.cmp_to_key)
def cmp_to_key(mycmp):
    """A sort key from a comparison function."""

    def key(obj):
        return _Key(mycmp, obj)

    return key
