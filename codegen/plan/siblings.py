"""Regions that read the same memory: which may be joined, and which were refused.

Contract: a region has a place, by which pairs are ordered. The region that takes the place of two
has the first one's place, and nobody has the second's any more.
"""

from collections import defaultdict
from collections.abc import Iterable

from dynajit.codegen.loops.loop_ir import Buffer
from dynajit.codegen.plan.regions import Region


class Siblings:
    """Regions by place, with what each reads. Mutable.

    Args:
        regions: in order.
    """

    def __init__(self, regions: Iterable[Region]) -> None:
        self.regions: dict[int, Region] = {}
        self._loads: dict[int, frozenset[Buffer]] = {}
        self._readers: defaultdict[Buffer, set[int]] = defaultdict(set)
        self._apart: set[tuple[Region, Region]] = set()
        for place, region in enumerate(regions):
            self._put(place, region)
        self.end = len(self.regions)

    def before(self, place: int) -> list[int]:
        """Places in front of one, of regions that read memory that the region there reads."""
        return sorted(other for other in self._sharing(place) if other < place)

    def after(self, place: int) -> list[int]:
        """Places behind one, of regions that read memory that the region there reads."""
        return sorted(other for other in self._sharing(place) if other > place)

    def _sharing(self, place: int) -> set[int]:
        loads = self._loads.get(place, ())
        return {other for buffer in loads for other in self._readers[buffer]}

    def are_apart(self, first: Region, second: Region) -> bool:
        """Whether `keep_apart` was told of the two."""
        return (first, second) in self._apart

    def keep_apart(self, first: Region, second: Region) -> None:
        """The two cannot be joined, whatever else is."""
        self._apart.add((first, second))

    def join(self, first: int, second: int, whole: Region) -> None:
        """A region takes the places of two."""
        for place in (first, second):
            for buffer in self._loads.pop(place):
                self._readers[buffer].remove(place)
        del self.regions[second]
        self._put(first, whole)

    def _put(self, place: int, region: Region) -> None:
        self.regions[place] = region
        self._loads[place] = frozenset(region.loads())
        for buffer in self._loads[place]:
            self._readers[buffer].add(place)
