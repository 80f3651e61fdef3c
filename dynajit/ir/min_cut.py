"""The cheapest set of edges that separates a source from a sink.

SciPy's maximum flow, loaded at the first call; capacities are scaled to its 32-bit integers.
Called by `ir.partition`.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np

from dynajit.core.optional import load

# Capacity of an edge that is never cut.
UNLIMITED: Final = -1

# Scaled capacities add up to less than half the range of int32; an unlimited edge gets all of it.
_LARGEST_SUM: Final = 1 << 29
_SCALED_UNLIMITED: Final = 1 << 30


def minimum_cut(edges: Mapping[tuple[int, int], int], vertices: int) -> set[int]:
    """The vertices on the sink's side of a minimum cut: of several, the one nearest the sink.

    Args:
        edges: (from, to) -> capacity, a non-negative integer or UNLIMITED. Vertex 0 is the
            source, 1 the sink; every path between them has a limited edge.
        vertices: their number.
    """
    scaled = _scaled(edges)
    if not scaled:
        return {1}
    flow = _maximum_flow(scaled, vertices)
    backward: dict[int, list[int]] = defaultdict(list)
    for (start, end), capacity in scaled.items():
        used = flow.get((start, end), 0)
        if capacity - used > 0:
            backward[end].append(start)
        if used > 0:
            backward[start].append(end)
    reaching = {1}
    pending = [1]
    while pending:
        for vertex in backward[pending.pop()]:
            if vertex not in reaching:
                reaching.add(vertex)
                pending.append(vertex)
    return reaching


def _scaled(edges: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Capacities that fit into int32; a positive one stays positive, and 0 is left out."""
    total = sum(capacity for capacity in edges.values() if capacity != UNLIMITED) + len(edges)
    divisor = -(-total // _LARGEST_SUM)
    return {
        edge: _SCALED_UNLIMITED if capacity == UNLIMITED else -(-capacity // divisor)
        for edge, capacity in edges.items()
        if capacity != 0
    }


def _maximum_flow(
    edges: Mapping[tuple[int, int], int], vertices: int
) -> dict[tuple[int, int], int]:
    """The flow along each edge that has any; negative against the direction."""
    reason = "choosing what to save for backward"
    sparse = load("scipy.sparse", needed_for=reason, install="scipy")
    graphs = load("scipy.sparse.csgraph", needed_for=reason, install="scipy")
    starts, ends = zip(*edges, strict=True)
    capacities = np.fromiter(edges.values(), np.int32, len(edges))
    matrix = sparse.csr_matrix((capacities, (starts, ends)), shape=(vertices, vertices))
    flow = graphs.maximum_flow(matrix, 0, 1).flow.tocoo()
    places = zip(flow.row.tolist(), flow.col.tolist(), strict=True)
    return dict(zip(places, flow.data.tolist(), strict=True))
