"""Tangents of every row with a derivative: finite differences, reverse mode, forward over reverse.

Rows and operands are those of the conformance test (`tests/support/rows`), in float64 and in
complex128; `DYNAJIT_FORWARD_SAMPLES=100` takes all operands instead of six for each row.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.autograd import forward_ad
from dynajit.core.errors import DTypeNotImplementedError, LinAlgError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ops import Kind, Op
from dynajit.ops.rows.pointwise import RefusedDerivative
from dynajit.ops.table.tangents import has_tangents
from tests.support.rows.row_graphs import ROWS, accepted
from tests.support.rows.samples import Sample

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]

STEP = 1e-6
MOST = int(os.environ.get("DYNAJIT_FORWARD_SAMPLES", "6"))


def differentiable_rows() -> Any:
    chosen = [
        op
        for op in ROWS
        if (has_tangents(op) or op.kind is Kind.COMPOSITE) and accepted(op, dtypes.float64)
    ]
    return pytest.mark.parametrize("op", chosen, ids=lambda op: op.name)


def complex_rows() -> Any:
    chosen = [op for op in ROWS if has_tangents(op) and list(differentiable(op, dtypes.complex128))]
    return pytest.mark.parametrize("op", chosen, ids=lambda op: op.name)


def differentiable(op: Op, dtype: DType) -> Iterator[tuple[Sample, list[int]]]:
    """Samples with a derivative, and the positions of the inputs that move."""
    count = 0
    for sample in accepted(op, dtype):
        moving = [
            i
            for i, operand in enumerate(sample.inputs)
            if isinstance(operand, np.ndarray)
            and operand.dtype in (np.float64, np.complex128)
            and _has_derivative(op, i, sample)
        ]
        if sample.differentiable and moving and count < MOST:
            count += 1
            yield sample, moving


def _has_derivative(op: Op, position: int, sample: Sample) -> bool:
    name = op.inputs[0 if op.variadic else position]
    if name in sample.constants:
        return False
    formula = op.vjp.get(name)
    if isinstance(formula, RefusedDerivative):
        return False
    return formula is not None or (op.kind is Kind.COMPOSITE and not op.vjp)


def drawn(like: np.ndarray, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    found = generator.uniform(0.5, 1.5, like.shape)
    if like.dtype.kind == "c":
        found = found + 1j * generator.uniform(-1.0, 1.0, like.shape)
    return np.asarray(found)


def operands(sample: Sample) -> list[Any]:
    return [dj.from_numpy(np.array(x)) if isinstance(x, np.ndarray) else x for x in sample.inputs]


def values(tensor: Any) -> np.ndarray:
    return tensor.detach().resolve_conj().resolve_neg().numpy()


def called(op: Op, given: list[Any], sample: Sample) -> Any:
    return op(*given, **sample.attributes)


def moved(sample: Sample, directions: dict[int, np.ndarray], by: float) -> list[Any]:
    return [
        dj.from_numpy(np.array(x + by * directions[i])) if i in directions else given
        for i, (x, given) in enumerate(zip(sample.inputs, operands(sample), strict=True))
    ]


def forward(op: Op, sample: Sample, directions: dict[int, np.ndarray]) -> Any:
    """The tangent, as an array; zeros where there is none."""
    with forward_ad.dual_level():
        given = operands(sample)
        for i, direction in directions.items():
            given[i] = forward_ad.make_dual(given[i], dj.from_numpy(direction))
        result = called(op, given, sample)
        tangent = forward_ad.unpack_dual(result).tangent
        return np.zeros(tuple(result.shape)) if tangent is None else values(tangent)


def is_continuous(tensor: Any) -> bool:
    return bool(tensor.dtype.category >= Category.FLOATING)


def check_differences(op: Op, dtype: DType) -> None:
    for sample, moving in differentiable(op, dtype):
        if not is_continuous(called(op, operands(sample), sample)):
            continue
        directions = {i: drawn(sample.inputs[i], i) for i in moving}
        above = values(called(op, moved(sample, directions, STEP), sample))
        below = values(called(op, moved(sample, directions, -STEP), sample))
        np.testing.assert_allclose(
            forward(op, sample, directions), (above - below) / (2 * STEP),
            rtol=1e-5, atol=1e-6, err_msg=sample.name,
        )  # fmt: skip


def check_reverse(op: Op, dtype: DType) -> None:
    """Re <g, J t> is Re <J^H g, t>, one input at a time."""
    for sample, moving in differentiable(op, dtype):
        for i in moving:
            given = operands(sample)
            given[i].requires_grad_()
            result = called(op, given, sample)
            if not (is_continuous(result) and result.requires_grad):
                continue
            g, t = drawn(values(result), 7), drawn(sample.inputs[i], i)
            (gradient,) = dj.autograd.grad(result, given[i], dj.from_numpy(g), allow_unused=True)
            expected = 0.0 if gradient is None else np.sum(values(gradient).conj() * t).real
            actual = np.sum(np.conj(g) * forward(op, sample, {i: t})).real
            assert expected == pytest.approx(actual, rel=1e-9, abs=1e-9), (sample.name, i)


def check_forward_over_reverse(op: Op, dtype: DType) -> None:
    """The tangents of gradients are differences of gradients."""
    for sample, moving in differentiable(op, dtype):
        if not is_continuous(called(op, operands(sample), sample)):
            continue
        directions = {i: drawn(sample.inputs[i], i) for i in moving}

        def gradients(given: list[Any], sample: Sample = sample, moving: Any = moving) -> list[Any]:
            result = called(op, given, sample)
            if not result.requires_grad:
                return []
            g = dj.from_numpy(drawn(values(result), 7))
            return [
                x
                for x in dj.autograd.grad(result, [given[i] for i in moving], g, allow_unused=True)
                if x is not None
            ]

        def plain(by: float, sample: Sample = sample, directions: Any = directions) -> list[Any]:
            given = moved(sample, directions, by)
            for i in directions:
                given[i].requires_grad_()
            return [values(x) for x in gradients(given)]

        with forward_ad.dual_level():
            given = operands(sample)
            for i, direction in directions.items():
                given[i] = forward_ad.make_dual(given[i].requires_grad_(), dj.from_numpy(direction))
            tangents = []
            for x in gradients(given):
                tangent = forward_ad.unpack_dual(x).tangent
                tangents.append(np.zeros(x.shape) if tangent is None else values(tangent))
        above, below = plain(STEP), plain(-STEP)
        for actual, high, low in zip(tangents, above, below, strict=True):
            np.testing.assert_allclose(
                actual, (high - low) / (2 * STEP), rtol=2e-4, atol=2e-5, err_msg=sample.name
            )


@differentiable_rows()
def test_tangents_of_a_row_are_differences(op: Op) -> None:
    check_differences(op, dtypes.float64)


@differentiable_rows()
def test_tangents_of_a_row_are_transposed_gradients(op: Op) -> None:
    check_reverse(op, dtypes.float64)


@differentiable_rows()
def test_gradients_of_a_row_have_tangents(op: Op) -> None:
    check_forward_over_reverse(op, dtypes.float64)


@complex_rows()
def test_complex_tangents_of_a_row_are_differences(op: Op) -> None:
    check_differences(op, dtypes.complex128)


@complex_rows()
def test_complex_tangents_of_a_row_are_transposed_gradients(op: Op) -> None:
    check_reverse(op, dtypes.complex128)


@complex_rows()
def test_complex_gradients_of_a_row_have_tangents(op: Op) -> None:
    check_forward_over_reverse(op, dtypes.complex128)


# -- kinks, ties and zeros -------------------------------------------------------------------------


EDGES = (-1.0, 0.0, 1.0, 2.0)


def edge_samples(op: Op, dtype: DType) -> Iterator[Sample]:
    """Operands of zeros, of equal elements, and of all pairs of a few numbers."""
    for sample in [sample for sample in accepted(op, dtype) if sample.differentiable][: MOST // 2]:
        for fill in ("zeros", "ones", "several"):
            inputs = tuple(
                _filled(x, fill, place) if isinstance(x, np.ndarray) and x.dtype.kind in "fc" else x
                for place, x in enumerate(sample.inputs)
            )
            yield Sample(
                f"{sample.name}, {fill}", inputs, sample.attributes, True, sample.constants
            )


def _filled(like: np.ndarray, fill: str, place: int) -> np.ndarray:
    if fill == "several":
        step = len(EDGES) if place else 1
        flat = [EDGES[k // step % len(EDGES)] for k in range(like.size)]
        return np.array(flat, like.dtype).reshape(like.shape)
    return np.full(like.shape, 0 if fill == "zeros" else 1, like.dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@differentiable_rows()
def test_tangents_are_finite_where_gradients_are(op: Op) -> None:
    """And are those of the same choice among derivatives."""
    for dtype in (dtypes.float64, dtypes.complex128):
        for sample in edge_samples(op, dtype):
            try:
                result = called(op, operands(sample), sample)
                if is_continuous(result) and result.numel():
                    check_choice(op, sample)
            except (LinAlgError, DTypeNotImplementedError):  # singular, or not of complex numbers
                continue


def check_choice(op: Op, sample: Sample) -> None:
    for i, operand in enumerate(sample.inputs):
        if not (isinstance(operand, np.ndarray) and operand.dtype.kind in "fc"):
            continue
        if not operand.size or not _has_derivative(op, i, sample):
            continue
        given = operands(sample)
        given[i].requires_grad_()
        result = called(op, given, sample)
        if not result.requires_grad:
            continue
        g, t = drawn(values(result), 7), drawn(operand, i)
        (gradient,) = dj.autograd.grad(result, given[i], dj.from_numpy(g), allow_unused=True)
        found = np.zeros(operand.shape) if gradient is None else values(gradient)
        if (np.abs(found) < 1e10).all():
            actual = np.sum(np.conj(g) * forward(op, sample, {i: t})).real
            expected = np.sum(np.conj(found) * t).real
            assert expected == pytest.approx(actual, rel=1e-9, abs=1e-9), (sample.name, i)
