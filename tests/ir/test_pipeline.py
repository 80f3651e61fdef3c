"""All passes together change no bit of any result; each can be switched off and watched."""

import numpy as np
import pytest

from dynajit.core.errors import DynajitError, InternalError
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import pipeline
from dynajit.ir.autodiff import differentiate
from dynajit.ir.graph import Builder, Graph, Node
from dynajit.ir.interpret import run
from dynajit.ir.partition import partition
from dynajit.ir.pipeline import NEEDED, PASSES, optimize
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops
from dynajit.ops.table.op_table import Kind

DTYPES = (
    dtypes.float32,
    dtypes.float32,
    dtypes.float64,
    dtypes.float16,
    dtypes.int32,
    dtypes.uint8,
    dtypes.bool_,
)
SHAPES = ((3, 4), (4,), (3, 1), (), (1, 4))
LITERALS = (0, 1, -1, 2, 0.0, -0.0, 1.0, 0.5, 4, True, -2.0)
# Rows whose definition allows different bits on different paths, or that raise on some values.
LEFT_OUT = {
    "floor_divide", "floored_quotient", "remainder", "fmod", "left_shift", "right_shift",
}  # fmt: skip
POINTWISE = [
    op for op in ops if op.kind is Kind.POINTWISE and not op.attributes and op.name not in LEFT_OUT
]
REDUCTIONS = [op for op in ops if op.kind is Kind.REDUCTION and op.name != "prod"]
SMOOTH = [ops.tanh, ops.sin, ops.mul, ops.add, ops.sub, ops.sigmoid, ops.maximum, ops.div]


class Fuzzer:
    """Builds a random graph; every choice follows from the seed.

    Args:
        seed: of the choices.
        rows: pointwise rows to choose from.
        types: of the inputs.
    """

    def __init__(self, seed, rows, types) -> None:
        self.random = np.random.default_rng(seed)
        self.rows = rows
        self.builder = Builder("fuzzed")
        self.pool = [self.builder.placeholder(f"x{i}", t) for i, t in enumerate(types)]

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def operand(self):
        return self.pick(LITERALS) if self.random.random() < 0.25 else self.pick(self.pool)

    def step(self) -> None:
        """Append one call that its row accepts."""
        kind = self.random.random()
        try:
            if kind < 0.6:
                op = self.pick(self.rows)
                operands = [self.operand() for _ in op.inputs]
                if any(not isinstance(o, (bool, int, float)) for o in operands):
                    self.pool.append(op(*operands))
            elif kind < 0.75:
                self.pool.append(self.movement(self.pick(self.pool)))
            elif kind < 0.85:
                x = self.pick(self.pool)
                dims = [d for d in range(len(x.shape)) if self.random.random() < 0.5]
                keepdim = bool(self.random.random() < 0.5)
                self.pool.append(self.pick(REDUCTIONS)(x, dim=tuple(dims), keepdim=keepdim))
            elif kind < 0.9:
                values = self.random.choice([-0.0, 0.0, 1.0, 2.5, 200.0], self.pick(SHAPES))
                array = np.asarray(values, self.pick(DTYPES).numpy)
                self.pool.append(self.builder.constant(array))
            elif kind < 0.95:
                self.pool.append(ops.cast(self.pick(self.pool), dtype=self.pick(DTYPES)))
            else:
                shape = self.pick(SHAPES)
                value = self.pick(LITERALS)
                self.pool.append(
                    self.builder.handle(
                        ops.full,
                        (value,),
                        ops.full.bind({"shape": shape, "dtype": self.pick(DTYPES)}),
                    )
                )
        except DynajitError:
            return

    def movement(self, x):
        """A view or a copy of x."""
        shape = tuple(x.shape)
        turned = tuple(self.random.permutation(len(shape)).tolist())
        return self.pick(
            [
                lambda: ops.reshape(x, shape=(*shape, 1)),
                lambda: ops.reshape(x, shape=tuple(size for size in shape if size != 1)),
                lambda: ops.permute(x, dims=turned),
                lambda: ops.expand(x, shape=(2, *shape) if len(shape) < 3 else shape),
                lambda: ops.detach(x),
                lambda: ops.clone(x),
                lambda: ops.flip(x, dims=tuple(range(len(shape)))),
            ]
        )()

    def graph(self, steps: int) -> Graph:
        """A graph with up to `steps` calls and a few outputs."""
        for _ in range(steps):
            self.step()
        outputs = [self.pick(self.pool) for _ in range(2)] + self.pool[-2:]
        return self.builder.finish(outputs)


def arrays_for(graph: Graph, seed: int, special: bool):
    """Values in every input; special ones (NaN, infinities, zeros, limits) where asked for."""
    random = np.random.default_rng(seed)
    arrays = []
    for node in graph.inputs:
        if isinstance(node.type, ScalarType):
            arrays.append((True, 3, 0.1)[node.type.category])
            continue
        dtype = node.type.dtype
        if dtype.category is dtypes.Category.FLOATING:
            values = random.uniform(-2, 2, node.type.shape)
            if special:
                chosen = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], values.shape)
                values = np.where(random.random(values.shape) < 0.5, chosen, values)
        else:
            low = -3 if dtype.is_signed and dtype is not dtypes.bool_ else 0
            values = random.integers(low, 2 if dtype is dtypes.bool_ else 200, node.type.shape)
        arrays.append(np.asarray(values).astype(dtype.numpy))
    return arrays


@pytest.mark.parametrize("seed", range(150))
def test_optimized_random_graphs_give_the_same_bits(seed: int, same_bits) -> None:
    """Any rows, dtypes, shapes, literals and special values."""
    random = np.random.default_rng(seed)
    types = [
        TensorType(SHAPES[random.integers(len(SHAPES))], DTYPES[random.integers(len(DTYPES))])
        for _ in range(4)
    ] + [ScalarType(category) for category in (dtypes.Category.INTEGER, dtypes.Category.FLOATING)]
    graph = Fuzzer(seed, POINTWISE, types).graph(25)
    verify(graph)
    optimized = optimize(graph)
    arrays = arrays_for(graph, seed, special=True)

    for before, after in zip(run(graph, arrays), run(optimized, arrays), strict=True):
        assert same_bits(before, after), f"{graph}\n{optimized}"


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_the_memory_of_their_outputs(seed: int) -> None:
    """Outputs that were different memory stay different, and inputs are not given away."""
    types = [TensorType((3, 4), dtypes.float32), TensorType((3, 4), dtypes.int32)]
    graph = Fuzzer(seed, [ops.add, ops.mul, ops.neg], types).graph(12)

    assert sharing(graph) == sharing(optimize(graph))


def sharing(graph: Graph) -> list[list[bool]]:
    """Which outputs and inputs are views of one node."""
    roots = []
    for node in (*graph.outputs, *graph.inputs):
        while isinstance(node, Node) and node.is_view:
            node = node.args[0]
        roots.append(node)
    return [[a is b for b in roots] for a in roots[: len(graph.outputs)]]


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_differentiate_and_divide(seed: int, same_bits) -> None:
    """The slope along a direction is the gradients'; forward then backward is the joint graph."""
    types = [TensorType(shape, dtypes.float64) for shape in SHAPES[:4]]
    fuzzer = Fuzzer(seed, SMOOTH, types)
    fuzzer.pool = [ops.sigmoid(x) for x in fuzzer.pool]
    smooth_only(fuzzer)
    graph = fuzzer.graph(15)
    total = graph.outputs[-1]
    graph = Graph(graph.name, graph.nodes, (total,))
    joint = differentiate(graph, [True] * 4)
    if not joint.differentiable_outputs:
        return
    arrays = arrays_for(joint.graph, seed, special=False)
    expected = run(joint.graph, arrays)
    parts = partition(joint)
    forward = run(parts.forward, arrays[:4])
    found = (forward[0], *run(parts.backward, [*forward[1:], arrays[4]]))

    for a, b in zip(expected, found, strict=True):
        assert a is b if a is None else same_bits(a, b)
    assert_slope(graph, arrays, expected[1:])


def smooth_only(fuzzer: Fuzzer) -> None:
    """Keep the choices that are differentiable everywhere: no casts, no detach, sums only."""
    step = fuzzer.step

    def chosen() -> None:
        before = len(fuzzer.pool)
        step()
        fuzzer.pool[before:] = [
            value
            for value in fuzzer.pool[before:]
            if value.dtype is dtypes.float64 and value.node.op not in NOT_SMOOTH
        ]

    fuzzer.step = chosen


NOT_SMOOTH = {ops.detach, ops.argmax, ops.argmin, ops.amax, ops.amin, ops.any, ops.all, ops.cast}


def assert_slope(graph, arrays, gradients) -> None:
    """Finite differences along a random direction, weighted by the seed of the gradient."""
    step = 1e-6
    directions = arrays_for(graph, 99, special=False)
    ahead, behind = (
        run(graph, [x + sign * step * d for x, d in zip(arrays, directions, strict=False)])[0]
        for sign in (1, -1)
    )
    given = [(g, d) for g, d in zip(gradients, directions, strict=True) if g is not None]
    with np.errstate(all="ignore"):
        measured = np.sum((ahead - behind) / (2 * step) * arrays[4])
        slope = sum(np.sum(g * d) for g, d in given)
        scale = 1 + sum(np.abs(g).max(initial=0) for g, _ in given)
    # A quotient may come out near a pole, where differences measure nothing.
    if np.isfinite(measured) and scale < 1e3:
        np.testing.assert_allclose(slope, measured, atol=1e-5 * scale, rtol=1e-4)


def test_every_pass_that_is_not_needed_can_be_switched_off(record) -> None:
    """By name; those that are off are not observed."""
    graph = record(lambda x: ops.mul(ops.softmax(x, dim=0), 1), x=(3,))
    names = {step.__name__ for step in PASSES}
    seen = []

    with config.override(disabled_passes=names - NEEDED):
        result = optimize(graph, observe=lambda name, *_: seen.append(name))

    assert NEEDED == set(seen)
    assert "ops.mul" in str(result) and "ops.softmax" not in str(result)
    assert "softmax" in str(optimize(graph, kept_composites={"softmax"}))


def test_the_configuration_names_the_passes_that_can_be_left_out() -> None:
    """Those of this pipeline, and those of code generation, which no graph pass is called like."""
    of_code_generation = {"fuse", "rewrite_products", "share_products"}
    of_the_driver = {"replace_patterns"}
    named = set(config.PASSES) - of_code_generation - of_the_driver

    assert {step.__name__ for step in PASSES} - NEEDED == named


def test_passes_are_observed_in_order(record) -> None:
    """Name, graph before and after, milliseconds."""
    graph = record(lambda x: ops.mul(ops.exp(x), 1), x=(3,))
    seen = []
    result = optimize(graph, observe=lambda *event: seen.append(event))

    assert [step.__name__ for step in PASSES] == [name for name, *_ in seen]
    assert graph is seen[0][1]
    assert result is seen[-1][2]
    assert all(milliseconds >= 0 for *_, milliseconds in seen)


def test_a_broken_pass_is_named(record, monkeypatch) -> None:
    """When graphs are verified."""

    def break_graph(graph: Graph) -> Graph:
        return Graph(graph.name, graph.nodes[1:], graph.outputs)

    monkeypatch.setattr(pipeline, "PASSES", (break_graph,))
    graph = record(lambda x: ops.exp(x), x=(3,))
    with pytest.raises(InternalError, match="break_graph made a broken graph: exp"):
        optimize(graph)
    with config.override(verify_graphs=False):
        optimize(graph)
