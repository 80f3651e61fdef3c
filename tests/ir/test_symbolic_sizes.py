"""Graphs with symbolic sizes, through everything in `dynajit.ir`."""

import numpy as np

from dynajit.core import dtypes
from dynajit.core.device import CPU
from dynajit.core.dtypes import Category
from dynajit.core.symint import symbol
from dynajit.core.types import ScalarType, TensorType
from dynajit.ir import sizes
from dynajit.ir.graph import Builder, symbol_places
from dynajit.ops import TABLE as ops

S0 = symbol("s0", 2)
S1 = symbol("s1", 2)


def test_a_symbol_is_found_where_it_is_the_size_of_a_dimension() -> None:
    builder = Builder()
    x = builder.placeholder("x", TensorType((S0 * 2, S1), dtypes.float32))
    y = builder.placeholder("y", TensorType((S0, 4), dtypes.float32))

    graph = builder.finish([x, y])

    assert symbol_places(graph) == {"s1": (0, 1), "s0": (1, 0)}


def test_a_symbol_that_no_tensor_shows_is_the_placeholder_of_its_name() -> None:
    builder = Builder()
    builder.placeholder("lr", ScalarType(Category.INTEGER))
    builder.placeholder("s0", ScalarType(Category.INTEGER))
    attributes = ops.full.bind({"shape": (S0,), "dtype": dtypes.float32, "device": CPU})
    value = builder.call(ops.full, [1.0], attributes)

    graph = builder.finish([value])

    assert symbol_places(graph) == {"s0": (1, None)}
    assert sizes.bind(symbol_places(graph), [3, 5]) == {"s0": 5}


def test_binding_reads_the_shapes_of_arrays() -> None:
    places = {"s0": (1, 0), "s1": (0, 1)}

    assert sizes.bind(places, [np.zeros((2, 3)), np.zeros((7,))]) == {"s0": 7, "s1": 3}


def test_known_sizes_replace_symbols_in_shapes_and_attributes() -> None:
    assert sizes.known((S0 * 2, (S1 + 1, "x"), None, 4), {"s0": 3, "s1": 5}) == (
        6,
        (6, "x"),
        None,
        4,
    )
