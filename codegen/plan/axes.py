"""The loops of a region: neighbours are merged, and an axis that is divided everywhere is split.

Contract: the region that comes back computes the same values in the same memory; one that cannot be
described by other axes comes back as it is.
"""

from collections.abc import Iterable, Iterator

from dynajit.codegen.loops.elements import linear
from dynajit.codegen.loops.loop_ir import Expression
from dynajit.codegen.plan.regions import NotFusable, Region, expand
from dynajit.core.types import symint
from dynajit.core.types.symint import Atom, Number
from dynajit.core.types.value_types import Shape, numel

MOST_SPLITS = 6
"""Axes that are added to a region at most."""

LARGEST_SPLIT = 8
"""Known numbers up to which an axis that is divided by them is split: the inner axis is written
out then, and nothing is divided. Larger ones would leave loops of odd lengths."""


def with_split_axes(region: Region) -> Region:
    """The same region with two loops for an axis that is divided by a symbolic or small size.

    A division for each element by a number that the compiler does not know costs more than the
    rest of most kernels, and one by a small number keeps neighbours out of vector registers.
    """
    for _ in range(MOST_SPLITS):
        found = next(_divisors(region), None)
        if found is None:
            return region
        d, divisor = found
        outer = symint.floordiv(region.shape[d], divisor)
        shape = (*region.shape[:d], outer, divisor, *region.shape[d + 1 :])
        reduced = frozenset(k + (k > d) for k in region.reduced)
        split = _over(region, shape, reduced | ({d + 1} if d in region.reduced else set()))
        if split is None:
            return region
        region = split
    return region


def _divisors(region: Region) -> Iterator[tuple[int, Number]]:
    """(axis, size) where an index divides an axis by a size that divides its own."""
    axes = {axis.name: d for d, axis in enumerate(region.axes)}
    for atom in _atoms(_numbers(region)):
        if atom.kind not in ("floordiv", "mod"):
            continue
        numerator, divisor = atom.operands
        if isinstance(divisor, int) and divisor > LARGEST_SPLIT:
            continue
        d = axes.get(symint.name_of(numerator) or "")
        if d is None or region.shape[d] == divisor:
            continue
        if isinstance(divisor, int) and d in region.reduced:
            continue  # sums want long loops
        if region.scanned and d in region.reduced:
            continue  # a running value takes one loop
        if symint.mod(region.shape[d], divisor) == 0:
            yield d, divisor


def division_count(region: Region) -> int:
    """Different divisions in the index expressions of a region."""
    return len({a for a in _atoms(_numbers(region)) if a.kind in ("floordiv", "mod")})


def _atoms(numbers: Iterable[Number]) -> Iterator[Atom]:
    """Every factor of index expressions, operands included, in an order that does not vary."""
    for number in sorted(numbers, key=str):
        yield from symint.atoms(number)


def _over(region: Region, shape: Shape, reduced: frozenset[int]) -> Region | None:
    """The same values over other axes; None if equal positions are no longer seen to be equal."""
    other = Region(
        region.storage, shape, reduced, region.columns, region.scanned, needs=region.needs
    )
    try:
        for node, anchor in region.anchors.items():
            other.add(node, forced=True)
            other.anchors[node].store = anchor.store
    except NotFusable:
        return None
    return other


def with_merged_axes(region: Region) -> Region:
    """The same region over fewer axes."""
    numbers = _numbers(region)
    groups: list[list[int]] = []
    for d, axis in enumerate(region.axes):
        if axis.size == 1:
            continue
        last = groups[-1] if groups else None
        same = last is not None and (last[-1] in region.reduced) == (d in region.reduced)
        if last is not None and same and _can_merge(region, numbers, last, d):
            last.append(d)
        else:
            groups.append([d])
    shape = tuple(numel(tuple(region.shape[d] for d in group)) for group in groups)
    if shape == region.shape:
        return region
    reduced = frozenset(g for g, group in enumerate(groups) if group[0] in region.reduced)
    return _over(region, shape, reduced) or region


def _numbers(region: Region) -> set[Number]:
    found: set[Number] = set()
    roots: list[Expression] = []
    for anchor in region.anchors.values():
        found.add(anchor.offset)
        roots.append(anchor.value)
        if anchor.accumulate is not None:
            roots.extend((*anchor.accumulate.element, *(anchor.accumulate.first or ())))
    for expression in expand(tuple(roots), region.elements):
        found.update(expression.numbers)
    return {number for number in found if not isinstance(number, int)}


def _can_merge(region: Region, numbers: set[Number], group: list[int], d: int) -> bool:
    """True if every number depends on the axes of `group` and axis d through one position."""
    axes = [region.axes[g] for g in (*group, d)]
    sizes = tuple(axis.size for axis in axes)
    size = numel(sizes)
    below = None if isinstance(size, int) else size
    whole = symint.symbol("merged", 0, symint.bounds(size - 1)[1], below)
    together = {axis.name: 0 for axis in axes[:-1]} | {axes[-1].name: whole}
    position = linear([axis.symbol for axis in axes], sizes)
    return all(
        symint.substitute(symint.substitute(number, together), {"merged": position}) == number
        for number in numbers
    )
