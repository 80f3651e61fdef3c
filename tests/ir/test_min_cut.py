"""The cut is minimal: networkx's maximum flow has its capacity."""

import numpy as np
import pytest

from dynajit.ir.min_cut import UNLIMITED, minimum_cut


def capacity(edges, side):
    """Sum of the edges that lead into the sink's side."""
    crossing = [c for (a, b), c in edges.items() if a not in side and b in side]
    return float("inf") if UNLIMITED in crossing else sum(crossing)


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_has_the_capacity_of_the_maximum_flow(seed: int) -> None:
    """On random layered networks with limited and unlimited edges."""
    networkx = pytest.importorskip("networkx")
    random = np.random.default_rng(seed)
    edges = {}
    for i in range(12):
        edges[2 + 2 * i, 3 + 2 * i] = int(random.integers(0, 50))
        edges[0, 2 + 2 * i] = UNLIMITED if random.random() < 0.3 else int(random.integers(0, 9))
        if random.random() < 0.4:
            edges[3 + 2 * i, 1] = UNLIMITED
        for j in range(i):
            if random.random() < 0.2:
                edges[3 + 2 * j, 2 + 2 * i] = UNLIMITED
    side = minimum_cut(edges, 26)
    network = networkx.DiGraph()
    network.add_nodes_from(range(26))
    for (start, end), limit in edges.items():
        attributes = {} if limit == UNLIMITED else {"capacity": limit}
        network.add_edge(start, end, **attributes)

    assert 1 in side
    assert 0 not in side
    assert networkx.maximum_flow_value(network, 0, 1) == capacity(edges, side)


def test_of_two_equal_cuts_the_one_near_the_sink() -> None:
    """A later value is saved: less is recomputed."""
    edges = {(0, 2): 5, (2, 3): 5, (3, 1): UNLIMITED}

    assert {1, 3} == minimum_cut(edges, 4)


def test_large_capacities_are_exact() -> None:
    """Terabytes that differ by one byte."""
    edges = {(0, 2): 1 << 62, (2, 3): (1 << 62) - 1, (3, 1): 1 << 62}

    assert {1, 3} == minimum_cut(edges, 4)


def test_large_capacities_and_unlimited_ones() -> None:
    """The smaller of two edges in a row."""
    edges = {(0, 2): UNLIMITED, (2, 3): 1 << 42, (3, 4): 1 << 41, (4, 1): UNLIMITED, (0, 3): 1}

    assert {1, 4} == minimum_cut(edges, 5)


@pytest.mark.parametrize("seed", range(10))
def test_dense_networks_are_cut_where_scipy_cuts(seed: int) -> None:
    """Paths that must be undone: every vertex leads to others in any direction."""
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    sparse = pytest.importorskip("scipy.sparse")
    random = np.random.default_rng(seed)
    capacities = random.integers(0, 20, (15, 15)) * (random.random((15, 15)) < 0.4)
    np.fill_diagonal(capacities, 0)
    edges = {(i, j): int(c) for (i, j), c in np.ndenumerate(capacities) if c}
    flow = csgraph.maximum_flow(sparse.csr_matrix(capacities.astype(np.int32)), 0, 1).flow_value

    assert flow == capacity(edges, minimum_cut(edges, 15))


def test_without_edges_the_sink_is_alone() -> None:
    """Nothing is needed."""
    assert {1} == minimum_cut({}, 2)
