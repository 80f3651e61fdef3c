"""The cheapest set of edges that separates a source from a sink.

Dinic's algorithm over Python integers, so capacities are exact however large. Written here and not
taken from SciPy: its `maximum_flow` counts in 32 bits, and importing it takes 0.15 s, more than the
cuts of all but the largest graphs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# Capacity of an edge that is never cut.
UNLIMITED: Final = -1

_SOURCE: Final = 0
_SINK: Final = 1


@dataclass(slots=True, eq=False)
class _Network:
    """What every edge can still carry; mutable while the flow grows.

    Edge 2i is the i-th one given, edge 2i + 1 the same against its direction.

    Args:
        ends: the vertex that each edge leads to.
        left: what it can still carry.
        leaving: the edges that leave each vertex.
    """

    ends: list[int]
    left: list[int]
    leaving: list[list[int]]


def minimum_cut(edges: Mapping[tuple[int, int], int], vertices: int) -> set[int]:
    """The vertices on the sink's side of a minimum cut: of several, the one nearest the sink.

    Source: Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
    estimation" (1970); what still reaches the sink under a maximum flow is the cut's side (Ford
    and Fulkerson, 1956).

    Args:
        edges: (from, to) -> capacity, a non-negative integer or UNLIMITED. Vertex 0 is the
            source, 1 the sink; every path between them has a limited edge.
        vertices: their number.
    """
    network = _network(edges, vertices)
    while (distances := _distances(network))[_SOURCE] >= 0:
        _fill_shortest_paths(network, distances)
    return {vertex for vertex, distance in enumerate(distances) if distance >= 0}


def _network(edges: Mapping[tuple[int, int], int], vertices: int) -> _Network:
    # No flow is larger than all limited edges together.
    unlimited = 1 + sum(capacity for capacity in edges.values() if capacity != UNLIMITED)
    network = _Network([], [], [[] for _ in range(vertices)])
    for (start, end), capacity in edges.items():
        network.leaving[start].append(len(network.ends))
        network.leaving[end].append(len(network.ends) + 1)
        network.ends += (end, start)
        network.left += (unlimited if capacity == UNLIMITED else capacity, 0)
    return network


def _distances(network: _Network) -> list[int]:
    """Edges from each vertex to the sink along edges that can carry more; -1: there is no way."""
    ends, left, leaving = network.ends, network.left, network.leaving
    distances = [-1] * len(leaving)
    distances[_SINK] = 0
    pending = [_SINK]
    for vertex in pending:  # grows while it is walked
        following = distances[vertex] + 1
        for edge in leaving[vertex]:
            other = ends[edge]
            if distances[other] < 0 and left[edge ^ 1] > 0:
                distances[other] = following
                pending.append(other)
    return distances


def _fill_shortest_paths(network: _Network, distances: list[int]) -> None:
    """Send what fits along every path that comes nearer to the sink with each edge."""
    ends, left, leaving = network.ends, network.left, network.leaving
    tried = [0] * len(leaving)
    path: list[int] = []
    vertex = _SOURCE
    while True:
        if vertex == _SINK:
            amount = min(left[edge] for edge in path)
            for edge in path:
                left[edge] -= amount
                left[edge ^ 1] += amount
            full = next(place for place, edge in enumerate(path) if left[edge] == 0)
            vertex = ends[path[full] ^ 1]
            del path[full:]
        following = _next_edge(network, distances, tried, vertex)
        if following is not None:
            path.append(following)
            vertex = ends[following]
        elif path:
            vertex = ends[path.pop() ^ 1]
            tried[vertex] += 1
        else:
            return


def _next_edge(
    network: _Network, distances: list[int], tried: list[int], vertex: int
) -> int | None:
    """The next edge that leaves `vertex` towards the sink and can carry more."""
    leaving, nearer = network.leaving[vertex], distances[vertex] - 1
    while tried[vertex] < len(leaving):
        edge = leaving[tried[vertex]]
        if network.left[edge] > 0 and distances[network.ends[edge]] == nearer:
            return edge
        tried[vertex] += 1
    return None
