"""Values that are computed again: the same results, less alive at once, random numbers replayed."""

import pytest

from dynajit.ir.interpret import run
from dynajit.ir.pipeline import optimize
from dynajit.ir.recomputation import recompute
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

INPUTS = {"x": (8, 8), "w": (8, 8), "s": int, "o": int}


def there_and_back(x, w, s, o):
    """Reads what the first half has computed in the reverse order, as backward does."""
    kept = []
    for _ in range(4):
        product = ops.matmul(x, w)
        x = ops.dropout(ops.exp(ops.mul(product, 0.1)), s, o, p=0.5)
        kept.append((product, ops.add(x, 1.0)))
    for product, value in reversed(kept):
        x = ops.mul(ops.mul(ops.matmul(x, w), value), product)
    return x


@pytest.fixture
def graph(record):
    return optimize(record(there_and_back, **INPUTS))


def named(graph, op):
    return [node for node in graph.calls if node.op is op]


@pytest.mark.parametrize("budget", [0, 0.5, 1])
def test_results_have_the_same_bits_whatever_is_computed_again(graph, samples, same_bits, budget):
    found = recompute(graph, budget)

    verify(found)
    arrays = samples(graph)
    assert same_bits(run(graph, arrays)[0], run(found, arrays)[0])


def test_cheap_values_are_copied_and_products_are_not(graph):
    found = recompute(graph, 0)

    assert len(named(graph, ops.matmul)) == len(named(found, ops.matmul))
    assert len(named(graph, ops.exp)) < len(named(found, ops.exp))


def test_copies_stand_in_front_of_their_first_readers(graph):
    """So that those of one product are alive at a time: the last ones are read first."""
    found = recompute(graph, 0)
    products = named(graph, ops.matmul)[:4]
    read = [node.args[0] for node in named(found, ops.read_again)]

    assert [node for node in reversed(products) if node in read] == [
        node for node in read if node in products
    ]
    assert 3 <= len([node for node in read if node in products])
