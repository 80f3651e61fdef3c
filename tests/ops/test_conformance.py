"""The op table's conformance test: every row, over its samples.

For each row: the inferred type is the real one; formulas equal finite differences, first and
second order; index maps and scalar combinations equal the array functions; PyTorch agrees. A new
row is covered as soon as it is in the table; one that needs particular operands gets an entry in
`samples.py`, and, if its PyTorch function is called differently, in `oracle.py`.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops import Kind, Op
from dynajit.ops.rows.pointwise import RefusedDerivative
from dynajit.ops.table.scalar import NumpyScalars
from tests.support.rows import oracle
from tests.support.rows.row_graphs import ROWS, accepted
from tests.support.rows.samples import Sample, all_rows, has_samples, samples
from tests.support.rows.tape import Tracked, gradients, refuses, run, tracked, type_of

pytestmark = pytest.mark.one_python

REAL = tuple(d for d in dtypes.ALL if not d.is_complex)


def rows(*kinds: Kind) -> Any:
    """Parametrise over the rows of these kinds (all kinds if none is named)."""
    chosen = [op for op in ROWS if not kinds or op.kind in kinds]
    return pytest.mark.parametrize("op", chosen, ids=lambda op: op.name)


def test_every_row_has_samples() -> None:
    assert [op.name for op in all_rows() if not has_samples(op)] == []


def test_every_row_has_a_docstring() -> None:
    assert [op.name for op in all_rows() if len(op.document) < 10] == []


def test_every_formula_names_an_input() -> None:
    assert [op.name for op in all_rows() if not set(op.vjp) <= set(op.inputs)] == []


# ---------------------------------------------------------------------------------------------
# rule == real result


@rows()
@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_inferred_type_is_the_type_of_the_result(op: Op, dtype: DType) -> None:
    for sample in accepted(op, dtype):
        inferred = op.infer(*map(type_of, sample.inputs), **sample.attributes)
        result = run(op, sample.inputs, sample.attributes)
        assert isinstance(result, np.ndarray), sample.name
        assert (inferred.shape, inferred.dtype.numpy) == (result.shape, result.dtype), sample.name


@rows()
def test_results_do_not_share_memory_with_inputs_except_for_views(op: Op) -> None:
    if op.kind is Kind.COMPOSITE or (op.kind is Kind.MOVEMENT and op.rule.view):
        return
    for dtype in (dtypes.float32, dtypes.int64, dtypes.bool_):
        for sample in accepted(op, dtype):
            result = run(op, sample.inputs, sample.attributes)
            for operand in sample.inputs:
                if isinstance(operand, np.ndarray):
                    assert not np.shares_memory(operand, result), (dtype, sample.name)


@rows()
def test_inputs_are_not_written(op: Op) -> None:
    for sample in accepted(op, dtypes.float32):
        before = [np.array(operand) for operand in sample.inputs if operand is not None]
        run(op, sample.inputs, sample.attributes)
        after = [operand for operand in sample.inputs if operand is not None]
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old, new, err_msg=sample.name)


@rows(Kind.MOVEMENT)
def test_what_a_row_says_of_its_elements_is_so(op: Op) -> None:
    for sample in accepted(op, dtypes.float64):
        result = set(run(op, sample.inputs, sample.attributes).ravel().tolist())
        if not result:
            continue
        for place, operand in enumerate(sample.inputs):
            elements = set(operand.ravel().tolist()) if isinstance(operand, np.ndarray) else set()
            if op.inputs[0 if op.variadic else place] in op.rule.shown:
                assert elements <= result, sample.name
            if op.rule.rearranges:
                assert len(op.inputs) == 1, op.name
                assert result <= elements, sample.name


@rows(Kind.MOVEMENT, Kind.SCATTER)
def test_a_row_whose_second_input_holds_indices_says_so(op: Op) -> None:
    for sample in accepted(op, dtypes.float64):
        second = sample.inputs[1] if len(sample.inputs) > 1 and not op.variadic else None
        holds_indices = isinstance(second, np.ndarray) and second.dtype.kind == "i"
        assert holds_indices == (op.indices is not None), sample.name


@rows()
def test_positions_that_a_row_says_it_gives_lie_within_the_dim(op: Op) -> None:
    for sample in accepted(op, dtypes.float64) if op.gives_positions else []:
        result = run(op, sample.inputs, sample.attributes)
        dims = sample.attributes["dim"]
        dims = dims if isinstance(dims, tuple) else (dims,)
        size = math.prod(sample.inputs[0].shape[d] for d in dims) if sample.inputs[0].ndim else 1
        assert ((result >= 0) & (result < size)).all(), sample.name


# ---------------------------------------------------------------------------------------------
# derivatives == finite differences


def differentiable(op: Op) -> list[Sample]:
    """float64 samples with a derivative to check."""
    formulas = (
        formula for formula in op.vjp.values() if not isinstance(formula, RefusedDerivative)
    )
    if op.kind is not Kind.COMPOSITE and not any(formulas):
        return []
    result = []
    for sample in accepted(op, dtypes.float64):
        inferred = op.infer(*map(type_of, sample.inputs), **sample.attributes)
        if sample.differentiable and inferred.dtype is dtypes.float64:
            result.append(sample)
    return result


def smooth_inputs(op: Op, sample: Sample) -> list[int]:
    """Positions of the inputs with a formula (all floating ones where the row decomposes)."""
    return [
        i
        for i, operand in enumerate(sample.inputs)
        if isinstance(operand, np.ndarray)
        and operand.dtype == np.float64
        and (op.variadic or op.inputs[i] not in sample.constants)
        and (not op.vjp or op.vjp.get(op.inputs[0 if op.variadic else i]) is not None)
        and not refuses(op, i)
    ]


def weights(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


def numerical_gradient(function: Any, x: np.ndarray, step: float) -> np.ndarray:
    """Central differences of a scalar function, element by element."""
    result = np.zeros(x.shape)
    for position in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = np.array(x)
            moved[position] += sign * step
            ends.append(function(moved))
        result[position] = (ends[0] - ends[1]) / (2 * step)
    return result


@rows()
def test_formulas_equal_finite_differences(op: Op) -> None:
    for sample in differentiable(op):
        leaves = tracked(op, sample.inputs)
        if not any(isinstance(leaf, Tracked) for leaf in leaves):
            continue
        out = op(*leaves, **sample.attributes)
        g = weights(out.shape)
        chosen = smooth_inputs(op, sample)
        found = gradients(out, Tracked(g), [leaves[i] for i in chosen])
        for i, gradient in zip(chosen, found, strict=True):

            def loss(x: np.ndarray, i: int = i, sample: Sample = sample, g: Any = g) -> float:
                inputs = [*sample.inputs[:i], x, *sample.inputs[i + 1 :]]
                return float(np.sum(run(op, inputs, sample.attributes) * g))

            x = sample.inputs[i]
            assert gradient is not None or not x.size or not g.size, (sample.name, op.inputs)
            actual = np.zeros(x.shape) if gradient is None else gradient.array
            assert (x.shape, x.dtype) == (actual.shape, actual.dtype), sample.name
            expected = numerical_gradient(loss, x, 1e-6)
            np.testing.assert_allclose(
                actual, expected, rtol=1e-5, atol=1e-6, err_msg=f"{sample.name}, input {i}"
            )


# Rows whose derivative is meant to be constant zero or discontinuous have nothing to check twice.
@rows()
def test_formulas_can_be_differentiated_again(op: Op) -> None:
    """Along one direction: d/dt of (gradient at x + t v, dotted with w), by both ways."""
    for sample in differentiable(op)[:12]:
        chosen = smooth_inputs(op, sample)
        if not chosen:
            continue
        direction = {i: weights(sample.inputs[i].shape, 10 + i) - 1.0 for i in chosen}
        probe = {i: weights(sample.inputs[i].shape, 20 + i) for i in chosen}

        def first_order(
            step: float, sample: Sample = sample, chosen: Any = chosen, direction: Any = direction
        ) -> tuple[list[Any], Any, list[Any]]:
            moved = [
                np.array(x + step * direction[i]) if i in direction else x
                for i, x in enumerate(sample.inputs)
            ]
            leaves = tracked(op, moved)
            out = op(*leaves, **sample.attributes)
            g = Tracked(weights(out.shape))
            return leaves, g, gradients(out, g, [leaves[i] for i in chosen])

        def dotted(step: float, probe: Any = probe, chosen: Any = chosen) -> float:
            _, _, found = first_order(step)
            return math.fsum(
                float(np.sum(part.array * probe[i]))
                for i, part in zip(chosen, found, strict=True)
                if part is not None
            )

        leaves, _, found = first_order(0.0)
        slope = 0.0
        for i, part in zip(chosen, found, strict=True):
            if part is None:
                continue
            second = gradients(part, Tracked(probe[i]), [leaves[j] for j in chosen])
            for j, term in zip(chosen, second, strict=True):
                if term is not None:
                    slope += float(np.sum(term.array * direction[j]))
        expected = (dotted(1e-6) - dotted(-1e-6)) / 2e-6
        assert expected == pytest.approx(slope, rel=2e-4, abs=2e-5), sample.name


# ---------------------------------------------------------------------------------------------
# scalar rules == array functions


def index_namespace() -> Any:
    """`m` of index maps on grids of indices: what a condition excludes may be out of range."""
    return NumpyScalars()


@rows(Kind.MOVEMENT)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int64, dtypes.bool_], ids=str)
def test_index_maps_equal_the_array_functions(op: Op, dtype: DType) -> None:
    for sample in accepted(op, dtype):
        types = tuple(map(type_of, sample.inputs))
        inferred = op.infer(*types, **sample.attributes)
        if not math.prod(inferred.shape):
            continue
        arrays = sample.inputs

        def load(k: int, index: tuple[Any, ...], arrays: Any = arrays) -> Any:
            array = arrays[k]
            assert len(index) == array.ndim
            if not array.size:
                return np.zeros((), array.dtype)
            clipped = tuple(
                np.clip(i, 0, size - 1) for i, size in zip(index, array.shape, strict=True)
            )
            return array[clipped]

        grid = tuple(np.indices(inferred.shape))
        read = op.rule.read(index_namespace(), load, grid, types, **sample.attributes)
        expected = run(op, sample.inputs, sample.attributes)
        actual = np.broadcast_to(np.asarray(read), inferred.shape).astype(inferred.dtype.numpy)
        np.testing.assert_array_equal(actual, expected, err_msg=sample.name)


#: Mode of a scatter -> what a write leaves of what was there and what is written.
COMBINED = {
    "set": lambda old, new: new,
    "add": np.add,
    "prod": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


@rows(Kind.SCATTER)
def test_scatter_writes_equal_the_array_functions(op: Op) -> None:
    for sample in accepted(op, dtypes.float64):
        types = tuple(map(type_of, sample.inputs))
        domain = op.rule.domain(types, **sample.attributes)
        expected = run(op, sample.inputs, sample.attributes)
        actual = np.array(sample.inputs[0])
        m = NumpyScalars()

        def load(k: int, index: tuple[Any, ...], sample: Sample = sample) -> Any:
            return sample.inputs[k][index]

        for position in np.ndindex(*domain):
            target, value = op.rule.write(m, load, position, types, **sample.attributes)
            where = tuple(int(t) for t in target)
            combine = COMBINED[op.rule.mode_of(sample.attributes)]
            actual[where] = combine(actual[where], value)
        np.testing.assert_allclose(actual, expected, rtol=1e-12, err_msg=sample.name)


@rows(Kind.REDUCTION)
@pytest.mark.parametrize(
    "dtype", [dtypes.float64, dtypes.int64, dtypes.uint8, dtypes.bool_], ids=str
)
def test_folded_combinations_equal_the_array_functions(op: Op, dtype: DType) -> None:
    for sample in accepted(op, dtype):
        if sample.name.startswith("long"):
            continue
        (x,) = sample.inputs
        inferred = op.infer(type_of(x), **sample.attributes)
        expected = run(op, sample.inputs, sample.attributes)
        compute = op.rule.compute(dtype)
        folded = fold(op, x.astype(compute.numpy), sample.attributes["dim"], compute)
        actual = folded.astype(inferred.dtype.numpy).reshape(inferred.shape)
        np.testing.assert_allclose(actual, expected, rtol=1e-12, err_msg=sample.name)


def fold(op: Op, x: np.ndarray, dim: tuple[int, ...], compute: DType) -> np.ndarray:
    """The reduction by its scalar rule, pairwise from the left and in two halves."""
    rule, m = op.rule, NumpyScalars()
    kept = [d for d in range(x.ndim) if d not in dim]
    count = math.prod(x.shape[d] for d in dim)
    rows_ = x.transpose([*kept, *dim]).reshape(math.prod(x.shape[d] for d in kept), count)
    results = []
    for row in rows_:
        elements = [rule.init(m, value, np.int64(i)) for i, value in enumerate(row)]
        identity = rule.identity(compute)
        if identity is not None:
            elements.insert(0, tuple(compute.numpy.type(part) for part in identity))
        half = len(elements) // 2
        parts = [part for part in (elements[:half], elements[half:]) if part]
        folded = [left_fold(rule, m, part) for part in parts]
        results.append(rule.finish(m, left_fold(rule, m, folded)))
    return np.asarray(results)


def left_fold(rule: Any, m: Any, accumulators: list[Any]) -> Any:
    total = accumulators[0]
    for accumulator in accumulators[1:]:
        total = rule.combine(m, total, accumulator)
    return total


@rows(Kind.POINTWISE)
def test_bodies_equal_their_array_functions(op: Op) -> None:
    if op.rule.array is None:
        return
    for dtype in (dtypes.float64, dtypes.int64):
        for sample in accepted(op, dtype):
            arrays = [np.asarray(x, dtype.numpy) for x in sample.inputs]
            expected = op.rule.body(NumpyScalars(), *arrays, **sample.attributes)
            actual = op.rule.array(np, *arrays, **sample.attributes)
            np.testing.assert_allclose(actual, expected, rtol=1e-15, err_msg=sample.name)


# ---------------------------------------------------------------------------------------------
# PyTorch


@rows()
@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_results_equal_pytorch(op: Op, dtype: DType) -> None:
    call = oracle.function(op)
    if call is None:
        return
    for sample in accepted(op, dtype):
        if oracle.differs(op, dtype, sample):
            continue
        expected = call(*oracle.to_torch(sample.inputs), **oracle.attributes(sample.attributes))
        actual = run(op, sample.inputs, sample.attributes)
        oracle.assert_equal(actual, expected, op, dtype, sample)


@rows(Kind.POINTWISE, Kind.REDUCTION)
@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_dtypes_are_refused_where_pytorch_refuses_them(op: Op, dtype: DType) -> None:
    call = oracle.function(op)
    if call is None or oracle.refuses_differently(op, dtype):
        return
    sample = samples(op, dtype)[0]
    assert bool(accepted(op, dtype)) == oracle.accepts(call, sample)


EDGES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e30, -1e30, 1e-42, math.inf, -math.inf, math.nan
)  # fmt: skip


@rows(Kind.POINTWISE)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_edge_values_equal_pytorch(op: Op, dtype: DType) -> None:
    call = oracle.function(op)
    if (
        call is None
        or op.name in ("full", "arange", "integer", "cast", "where")
        or not accepted(op, dtype)
    ):
        return
    edges = tuple(e for e in EDGES if e not in oracle.OTHER_EDGES.get(op.name, ()))
    tuples = np.array(list(itertools.product(edges, repeat=len(op.inputs))), dtype.numpy)
    inputs = tuple(np.ascontiguousarray(column) for column in tuples.T)
    sample = Sample("edges", inputs, op.bind({}))
    expected = call(*oracle.to_torch(inputs))
    actual = run(op, inputs, sample.attributes)
    oracle.assert_equal(actual, expected, op, dtype, sample)


@rows(Kind.POINTWISE, Kind.REDUCTION)
def test_gradients_at_edges_equal_pytorch(op: Op) -> None:
    """Kinks, ties and zeros: where the derivative is a choice, it is PyTorch's."""
    call = oracle.function(op)
    torch = oracle.torch
    if call is None or not differentiable(op) or op.name in oracle.OTHER_EDGE_GRADIENTS:
        return
    if op.name in ("full", "arange", "integer", "cast", "where"):
        return
    points = (-1.0, 0.0, 1.0, 2.0) if op.kind is Kind.POINTWISE else (0.0, 2.0, 2.0, 0.0, 1.0, 2.0)
    if op.kind is Kind.POINTWISE:
        points = tuple(p for p in points if p not in oracle.OTHER_EDGES.get(op.name, ()))
        grid = np.array(list(itertools.product(points, repeat=len(op.inputs))))
        inputs = [np.ascontiguousarray(column) for column in grid.T]
        attributes = op.bind({})
    else:
        inputs = [np.array(points).reshape(3, 2)]
        attributes = op.bind({"dim": (1,)})
    leaves = [Tracked(x) for x in inputs]
    out = op(*leaves, **attributes)
    g = weights(out.shape)
    found = gradients(out, Tracked(g), leaves)
    operands = [torch.tensor(x, requires_grad=True) for x in inputs]
    result = call(*operands, **oracle.attributes(attributes))
    expected = torch.autograd.grad(result, operands, torch.tensor(g), allow_unused=True)
    for mine, theirs in zip(found, expected, strict=True):
        theirs = np.zeros(inputs[0].shape) if theirs is None else theirs.numpy()
        mine = np.zeros(inputs[0].shape) if mine is None else mine.array
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
