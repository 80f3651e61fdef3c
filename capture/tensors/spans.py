"""Existing tensors by the memory that they cover: which of them may overlap with another one.

Contract: `near(tensor)` gives what was added for every tensor whose memory, from its first byte to
its last, meets that of `tensor` (as `numpy.may_share_memory`); `of_storage(tensor)` for every one
of its storage. Nothing is ever removed: what was undone since may still be found, so who asks
checks that it counts. Comparing every pair would take a step over n parameters n * n comparisons.
"""

import bisect
from collections.abc import Iterable
from typing import Any

from dynajit.core.arrays.any_arrays import byte_bounds


class Spans:
    """See the module. Mutable: `add` notes a tensor once."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []
        #: Of each span, the largest end among it and all before it.
        self._reach: list[int] = []
        self._values: list[Any] = []
        self._of_storage: dict[int, list[Any]] = {}
        self._known: dict[Any, None] = {}

    @property
    def values(self) -> Iterable[Any]:
        """All that was added, in order."""
        return self._known

    def add(self, tensor: Any, value: Any) -> None:
        """Note a tensor; `value`, hashable, is what is found for it."""
        if value in self._known:
            return
        self._known[value] = None
        self._of_storage.setdefault(id(tensor._storage), []).append(value)
        if not tensor.array.size:
            return
        low, high = byte_bounds(tensor.array)
        at = bisect.bisect_left(self._lows, low)
        self._lows.insert(at, low)
        self._highs.insert(at, high)
        self._values.insert(at, value)
        self._reach.insert(at, 0)
        reach = self._reach[at - 1] if at else 0
        for place in range(at, len(self._lows)):
            reach = max(reach, self._highs[place])
            if place > at and self._reach[place] == reach:
                break
            self._reach[place] = reach

    def near(self, tensor: Any) -> list[Any]:
        """What was added for tensors that may overlap with this one, itself among them."""
        if not tensor.array.size:
            return []
        low, high = byte_bounds(tensor.array)
        found = []
        for place in range(bisect.bisect_left(self._lows, high) - 1, -1, -1):
            if self._reach[place] <= low:
                break
            if self._highs[place] > low:
                found.append(self._values[place])
        return found

    def of_storage(self, tensor: Any) -> list[Any]:
        """What was added for tensors of this one's storage."""
        return self._of_storage.get(id(tensor._storage), [])
