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


def test_large_capacities_are_scaled() -> None:
    """Terabytes fit into the 32 bits of the solver."""
    edges = {(0, 2): UNLIMITED, (2, 3): 1 << 42, (3, 4): 1 << 41, (4, 1): UNLIMITED, (0, 3): 1}

    assert {1, 4} == minimum_cut(edges, 5)


def test_without_edges_the_sink_is_alone() -> None:
    """Nothing is needed."""
    assert {1} == minimum_cut({}, 2)
