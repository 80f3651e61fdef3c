"""Attention as CUDA on the emulator: by tensor cores, wide heads and float64 by tiles."""

import itertools
import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.attention import why_not_attention
from dynajit.codegen.cuda.units.steps import Options
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from tests.codegen.test_attention import Call
from tests.support.kernels.emulated import EmulatedProgram

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

NARROW = {"float16": (dtypes.float16, 2e-3), "bfloat16": (dtypes.bfloat16, 1.6e-2)}

CASES = {
    "plain": ((2, 3), (2, 3), (2, 3), (), 70, 150, 32, 48, None, {}),
    "one": ((2,), (2,), (2,), (), 1, 1, 1, 1, None, {"scale": 0.25}),
    "odd": ((2,), (2,), (2,), (), 67, 65, 20, 7, None, {"scale": -0.3}),
    "causal": ((1, 2), (1, 2), (1, 2), (), 150, 150, 64, 64, None, {"is_causal": True}),
    "causal, more keys": ((2,), (2,), (2,), (), 70, 300, 16, 16, None, {"is_causal": True}),
    "causal, more queries": ((2,), (2,), (2,), (), 200, 70, 16, 32, None, {"is_causal": True}),
    "chosen": ((2, 2), (2, 1), (2,), (2, 1), 40, 90, 16, 16, bool, {}),
    "added": ((2,), (2,), (2,), (2,), 70, 80, 16, 24, float, {}),
    "added, causal": ((2,), (2,), (2,), (), 70, 70, 16, 16, float, {"is_causal": True}),
    "wide": ((2,), (2,), (2,), (), 40, 70, 128, 128, None, {"is_causal": True}),
    "wider": ((1,), (1,), (1,), (), 20, 40, 200, 130, None, {}),
}


def narrowed(call: Call, dtype: Any) -> list[np.ndarray]:
    """The call's operands in a 16-bit dtype; bool masks as they are."""
    arrays = call.operands("float32")
    return [a if a.dtype == bool else a.astype(dtype.numpy) for a in arrays]


FLOATS = {False: 2e-6, True: 2e-3}
"""How exact float32 is in three products, and in one where TF32 is allowed."""

FLOAT_CASES = {
    **CASES,
    "few features": ((2,), (2,), (2,), (), 33, 40, 3, 5, None, {}),
    "64": ((1,), (1,), (1,), (), 130, 140, 64, 64, None, {}),
    "64, chosen": ((1, 2), (1, 2), (1, 2), (1,), 65, 70, 64, 60, bool, {"is_causal": True}),
    "64, added": ((2,), (2,), (2,), (2,), 66, 130, 60, 64, float, {}),
    "uneven": ((1,), (1,), (1,), (), 30, 50, 40, 100, None, {}),
    "96, added": ((1,), (1,), (1,), (), 70, 66, 96, 90, float, {"is_causal": True}),
    "128, chosen": ((1,), (1,), (1,), (), 70, 66, 128, 120, bool, {}),
}


def program_of(
    codegen: Any, call: Call, arrays: list[np.ndarray], tf32: bool = False
) -> EmulatedProgram:
    graph = codegen.graph_of(
        lambda *values: call.rows(list(values)), *map(codegen.type_of, arrays), optimized=False
    )
    return EmulatedProgram(graph, options=Options(tf32=tf32))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", CASES)
def test_halves_are_as_exact_as_their_products(codegen: Any, name: str, dtype: str) -> None:
    """Against float64 loops over the operands as rounded; weights are rounded once more."""
    own, tolerance = NARROW[dtype]
    call = Call(CASES[name], np.random.default_rng(3))
    arrays = narrowed(call, own)
    program = program_of(codegen, call, arrays)
    given = [a if a.dtype == bool else a.astype(np.float64) for a in arrays]
    is_wide = max(CASES[name][6:8]) > 128

    assert program.explain.count(": native") == 2
    assert is_wide != ("_mma<" in "".join(k.source for k in program.unit.kernels))
    for want, got in zip(call.expected(given), program(*arrays), strict=True):
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance,
                                   atol=tolerance * scale)  # fmt: skip


def layouts(arrays: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The same operands with rows that begin at odd places, and transposed."""
    moved = []
    for array in arrays:
        memory = np.zeros(
            (*array.shape[:-2], array.shape[-2] + 1, array.shape[-1] + 3), array.dtype
        )
        memory[..., 1:, 3:] = array
        moved.append(memory[..., 1:, 3:])
    turned = [np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2) for a in arrays]
    return moved, turned


def test_operands_that_no_packs_fit_are_read_element_by_element(codegen: Any) -> None:
    """Rows that begin at odd places, transposed and repeated heads."""
    random = np.random.default_rng(3)
    call = Call(((2, 2), (2, 2), (2, 2), (), 70, 70, 24, 16, None, {}), random)
    arrays = narrowed(call, dtypes.float16)
    expected = program_of(codegen, call, arrays)(*arrays)
    for given in layouts(arrays):
        for want, got in zip(expected, program_of(codegen, call, given)(*given), strict=True):
            np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("tf32", FLOATS)
@pytest.mark.parametrize("name", FLOAT_CASES)
def test_float32_is_multiplied_in_three_parts_or_in_one(
    codegen: Any, name: str, tf32: bool
) -> None:
    """Rows without a key, too: those of masks."""
    case = FLOAT_CASES[name]
    call = Call(case, np.random.default_rng(3))
    arrays = call.operands("float32")
    program = program_of(codegen, call, arrays, tf32)
    texts = [kernel.source for kernel in program.unit.kernels]

    assert program.explain.count(": native") == 2
    assert (max(case[6:8]) > 128) != any("_mma<" in text for text in texts)
    assert tf32 == any("<dj_tf32" in text for text in texts)
    for want, got in zip(call.expected(arrays), program(*arrays), strict=True):
        assert got.dtype == np.float32
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=FLOATS[tf32], atol=FLOATS[tf32] * scale)


@pytest.mark.parametrize("tf32", FLOATS)
def test_float32_that_no_packs_fit_is_read_element_by_element(codegen: Any, tf32: bool) -> None:
    call = Call(((2, 2), (2, 2), (2, 2), (), 70, 70, 24, 18, None, {}), np.random.default_rng(3))
    arrays = call.operands("float32")
    expected = program_of(codegen, call, arrays, tf32)(*arrays)
    for given in layouts(arrays):
        found = program_of(codegen, call, given, tf32)(*given)
        for want, got in zip(expected, found, strict=True):
            np.testing.assert_array_equal(want, got)


NUMBERS = {"query": (1, np.inf), "key": (2, -np.inf), "value": (3, np.inf), "none": (3, np.nan)}
"""Which operand has an infinity or NaN among its numbers, and which."""


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", NUMBERS)
def test_infinities_give_what_float32_products_give(codegen: Any, name: str, sign: int) -> None:
    """The parts of an infinity are no numbers: they must not spoil what it is multiplied with."""
    call = Call(((1,), (1,), (1,), (), 20, 70, 16, 16, None, {}), np.random.default_rng(3))
    arrays = call.operands("float32")
    place, number = NUMBERS[name]
    arrays[place][0, 5, 3] = sign * number
    arrays[place][0, 5, 7] = 0.5
    with np.errstate(invalid="ignore"):
        out, level = by_numpy(call, arrays)
    found = program_of(codegen, call, arrays)(*arrays)

    np.testing.assert_allclose(found[0], out, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(found[1], level, rtol=2e-6, atol=2e-6)


def by_numpy(call: Call, arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Attention without a mask, and its level, with all infinities and NaNs."""
    _, query, key, value = (a.astype(np.float64) for a in arrays)
    scores = (query[..., :, None, :] * key[..., None, :, :]).sum(-1) / np.sqrt(query.shape[-1])
    top = np.where(np.isnan(scores), -np.inf, scores).max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    out = (weights[..., None] * value[..., None, :, :]).sum(-2) / total
    return out, (top + np.log(total))[..., 0]


def test_gradients_of_infinities_are_infinite_or_no_numbers(codegen: Any) -> None:
    """An infinite gradient of one result: nothing else of other queries is touched."""
    call = Call(((1,), (1,), (1,), (), 20, 30, 16, 16, None, {}), np.random.default_rng(3))
    arrays = call.operands("float32")
    want = call.expected(arrays)
    arrays[0][0, 5, 3] = np.inf
    _, _, to_query, to_key, to_value = program_of(codegen, call, arrays)(*arrays)
    others = np.arange(20) != 5

    assert not np.isfinite(to_query[0, 5]).any() and not np.isfinite(to_key).any()
    np.testing.assert_allclose(to_query[:, others], want[2][:, others], rtol=2e-6, atol=2e-6)
    assert (to_value[..., 3] == np.inf).all()
    columns = np.arange(16) != 3
    np.testing.assert_allclose(to_value[..., columns], want[4][..., columns], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("features", [64, 128, 256])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_heads_of_common_widths(codegen: Any, dtype: str, features: int) -> None:
    if dtype == "float64" and features == 256:
        pytest.skip("gradients have no room in shared memory")
    call = Call(
        ((1,), (1,), (1,), (), 40, 70, features, features, None, {}), np.random.default_rng(0)
    )
    arrays = call.operands(dtype)
    program = program_of(codegen, call, arrays)
    given = [a.astype(np.float64) for a in arrays]

    assert program.explain.count(": native") == 2
    for want, got in zip(call.expected(given), program(*arrays), strict=True):
        tolerance = 1e-12 if dtype == "float64" else 5e-5
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_calls_without_a_kernel_say_why() -> None:
    attributes = {"dropout_p": 0.0, "is_causal": False, "scale": None, "shift": 0}

    def reason(*shapes: Any, dtype: Any = dtypes.float32, mask: Any = None, **other: Any) -> str:
        types = [TensorType(shape, dtype) for shape in shapes]
        row = "scaled_dot_product_attention"
        return why_not_attention(row, [*types, mask, None, None], {**attributes, **other}) or ""

    same = ((2, 8, 16),) * 3
    assert reason(*same) == ""
    assert "dropout" in reason(*same, dropout_p=0.5)
    assert "features" in reason(*((2, 8, 300),) * 3)
    assert "leading dims" in reason(*((1, 1, 1, 1, 1, 8, 16),) * 3)
    assert "empty" in reason((2, 0, 16), (2, 8, 16), (2, 8, 16))
    assert "mask" in reason(*same, mask=TensorType((8, 8), dtypes.float64))


def test_every_size_takes_one_unit(codegen: Any) -> None:
    """Queries, keys and heads are symbols; features are known."""
    from dynajit.core.types.symint import symbol
    from dynajit.ops import TABLE as ops

    heads, queries, keys = (symbol(f"s{k}", 2) for k in range(3))
    shapes = ((heads, queries, 16), (heads, keys, 16), (heads, keys, 8))
    types = [TensorType(shape, dtypes.float16) for shape in shapes]
    graph = codegen.graph_of(
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, None, None, None), *types,
        optimized=False,
    )  # fmt: skip
    program = EmulatedProgram(graph)
    random = np.random.default_rng(0)
    for s0, s1, s2 in itertools.product((2, 3), (2, 65), (5, 130)):
        q, k, v = (
            random.standard_normal(shape) for shape in ((s0, s1, 16), (s0, s2, 16), (s0, s2, 8))
        )
        given = [a.astype(np.float16) for a in (q, k, v)]
        q, k, v = (a.astype(np.float64) for a in given)
        weights = np.exp(q @ k.swapaxes(1, 2) / 4)
        want = weights @ v / weights.sum(-1, keepdims=True)
        np.testing.assert_allclose(program(*given)[0], want, rtol=3e-3, atol=3e-3)


def test_tensor_cores_read_what_was_copied_while_they_worked(codegen: Any) -> None:
    """Copies are asynchronous where rows lie in whole packs."""
    call = Call(CASES["causal"], np.random.default_rng(3))
    arrays = narrowed(call, dtypes.bfloat16)
    source = program_of(codegen, call, arrays).source

    assert "dj_copy_async" in source
    assert cuda_text.prelude() in source
