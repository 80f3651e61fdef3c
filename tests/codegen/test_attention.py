"""Attention and its gradients by their own kernels, against loops over queries in float64.

Many calls share one graph, so that the compiler runs once per dtype.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.codegen.plan import native_attention, natives
from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ir import autodiff, interpret
from dynajit.ops import TABLE as ops
from tests.support.kernels.teams import same_for_teams

pytestmark = pytest.mark.one_python

TYPES = {"float32": dtypes.float32, "float64": dtypes.float64}
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
GRADIENTS = ("attention_query_gradient", "attention_key_gradient", "attention_value_gradient")

#: leading dims of query, key, value and mask; queries, keys, features, values; mask; options.
CASES = (
    ((2, 3), (2, 3), (2, 3), (), 5, 7, 4, 3, None, {}),
    ((2,), (2,), (2,), (), 1, 1, 1, 1, None, {"scale": 0.25}),
    ((), (), (), (), 50, 33, 20, 40, None, {"scale": -0.3}),
    ((2, 2), (2, 2), (2, 2), (), 9, 9, 16, 16, None, {"is_causal": True}),
    ((2,), (2,), (2,), (), 70, 400, 8, 70, None, {"is_causal": True}),  # keys that nobody reads
    ((1,), (1,), (1,), (), 400, 250, 70, 5, None, {"is_causal": True}),  # heads are cut
    ((2, 3), (2, 1), (3,), (), 6, 5, 3, 4, None, {}),  # leading dims that broadcast
    ((2, 3), (2, 3), (2, 3), (2, 1), 11, 13, 5, 6, bool, {}),
    ((2,), (2,), (2,), (), 60, 205, 3, 17, bool, {}),
    ((2,), (2,), (2,), (2,), 7, 6, 5, 4, float, {}),
    ((1, 2), (1, 2), (1, 2), (1, 2), 100, 300, 12, 9, float, {"scale": 0.5}),
    ((2,), (2,), (2,), (2,), 8, 9, 4, 4, bool, {"is_causal": True}),
    ((2, 1, 2), (2, 1, 2), (2, 1, 2), (), 8, 9, 33, 65, float, {"is_causal": True}),
)  # fmt: skip


class Call:
    """Random operands of one call; its rows, and their values by plain loops."""

    def __init__(self, case: Any, random: np.random.Generator) -> None:
        *leads, queries, keys, features, values, mask, self.options = case
        self.query = random.standard_normal((*leads[0], queries, features))
        self.key = random.standard_normal((*leads[1], keys, features))
        self.value = random.standard_normal((*leads[2], keys, values))
        self.mask = None
        shape = (*leads[3], queries, keys)
        if mask is bool:
            self.mask = random.random(shape) > 0.4
            self.mask[..., queries // 2, :] = False  # no key is left
        elif mask is float:
            self.mask = random.standard_normal(shape)
            self.mask[..., ::3, 1::2] = -np.inf
            self.mask[..., queries // 2, :] = -np.inf
        self.batch = np.broadcast_shapes(*leads[:3])
        self.g = random.standard_normal((*self.batch, queries, values))

    def operands(self, dtype: str) -> list[np.ndarray]:
        given = [self.g, self.query, self.key, self.value]
        given += [] if self.mask is None else [self.mask]
        return [a if a.dtype == bool else a.astype(dtype) for a in given]

    def rows(self, values: list[Any]) -> list[Any]:
        """Attention, its level, and the three gradients."""
        g, query, key, value = values[:4]
        mask = values[4] if len(values) > 4 else None
        given = (query, key, value, mask)
        out = ops.scaled_dot_product_attention(*given, None, None, **self.options)
        level = ops.attention_level(*given, None, None, **self.options)
        back = [ops[r](g, *given, out, level, None, None, **self.options) for r in GRADIENTS]
        return [out, level, *back]

    def expected(self, operands: list[np.ndarray]) -> list[np.ndarray]:
        """The five results for operands as rounded, in float64."""
        g, query, key, value = (a.astype(np.float64) for a in operands[:4])
        full = [np.broadcast_to(a, (*self.batch, *a.shape[-2:])) for a in (query, key, value)]
        scale = self.options.get("scale") or 1 / math.sqrt(query.shape[-1])
        out, level = np.zeros(g.shape), np.zeros(g.shape[:-1])
        back = [np.zeros(a.shape) for a in full]
        for head in itertools.product(*map(range, self.batch)):
            q, k, v = (a[head] for a in full)
            mask = None
            if self.mask is not None:
                shape = (*self.batch, q.shape[0], k.shape[0])
                mask = np.broadcast_to(operands[4], shape)[head]
            for i in range(q.shape[0]):
                out[head][i], level[head][i], weights = self._row(q[i], k, v, mask, i, scale)
                gi = g[head][i]
                rises = v @ gi
                slopes = weights * (rises - weights @ rises)
                back[0][head][i] = scale * slopes @ k
                back[1][head][:] += scale * np.outer(slopes, q[i])
                back[2][head][:] += np.outer(weights, gi)
        return [out, level, *back]

    def _row(self, q: Any, k: Any, v: Any, mask: Any, i: int, scale: float) -> Any:
        scores = scale * (k @ q)
        if self.options.get("is_causal"):
            scores[i + 1 :] = -np.inf
        if mask is not None and mask.dtype == bool:
            scores[~mask[i]] = -np.inf
        elif mask is not None:
            scores = scores + mask[i]
        top = scores.max()
        if top == -np.inf:
            return np.zeros(v.shape[1]), np.inf, np.zeros(k.shape[0])
        total = np.exp(scores - top).sum()
        weights = np.exp(scores - top) / total
        return weights @ v, top + math.log(total), weights


@pytest.fixture
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small calls have kernels, too."""
    monkeypatch.setattr(native_attention, "LEAST_WORK", 0)
    monkeypatch.setattr(native_attention, "LEAST_MASKED_WORK", 0)


def program_of(codegen: Any, calls: list[Call], operands: list[list[np.ndarray]]) -> Any:
    """One program of all calls."""

    def function(*values: Any) -> list[Any]:
        given = iter(values)
        return [row for call, arrays in zip(calls, operands, strict=True)
                for row in call.rows([next(given) for _ in arrays])]  # fmt: skip

    types = [codegen.type_of(a) for arrays in operands for a in arrays]
    return compile_graph(codegen.graph_of(function, *types, optimized=False))


@pytest.mark.usefixtures("every_size")
@pytest.mark.parametrize("dtype", TYPES)
def test_attention_and_its_gradients_equal_plain_loops(codegen: Any, dtype: str) -> None:
    random = np.random.default_rng(3)
    calls = [Call(case, random) for case in CASES]
    operands = [call.operands(dtype) for call in calls]
    program = program_of(codegen, calls, operands)
    # Two rows share the kernel of forward, three that of backward.
    assert program.explain.count(": native") == 2 * len(calls)
    found = iter(same_for_teams(program, [a for arrays in operands for a in arrays]))
    for case, call, arrays in zip(CASES, calls, operands, strict=True):
        for number, want in enumerate(call.expected(arrays)):
            got = next(found)
            assert got.shape == want.shape
            assert np.array_equal(np.isposinf(got), np.isposinf(want)), (case, number)
            with np.errstate(invalid="ignore"):
                error = np.nanmax(np.abs(got - want)) / max(1.0, np.abs(got[got < np.inf]).max())
            assert error < TOLERANCE[dtype], (case, number, error)


@pytest.mark.usefixtures("every_size")
def test_operands_are_read_where_they_lie(codegen: Any) -> None:
    """Heads of one product, transposed; masks that repeat; a reversed key."""
    random = np.random.default_rng(4)
    case = ((2, 3), (2, 3), (2, 3), (), 10, 10, 8, 8, bool, {})
    call = Call(case, random)
    operands = call.operands("float32")
    fused = np.stack([operands[1], operands[2], operands[3]]).transpose(1, 3, 0, 2, 4).copy()
    kept = random.random((2, 1, 1, 10)) > 0.3
    flipped = np.ascontiguousarray(operands[0].transpose(0, 2, 1, 3))

    def function(fused: Any, g: Any, kept: Any) -> list[Any]:
        parts = ops.permute(fused, dims=(2, 0, 3, 1, 4))
        q, k, v = (
            ops.reshape(
                ops.slice(parts, start=(i, 0, 0, 0, 0), stop=(i + 1, 2, 3, 10, 8), step=(1,) * 5),
                shape=(2, 3, 10, 8),
            )
            for i in range(3)
        )
        turned = ops.permute(g, dims=(0, 2, 1, 3))
        return call.rows([turned, q, k, v, ops.expand(kept, shape=(2, 1, 10, 10))])

    arrays = [fused, flipped, kept]
    program = compile_graph(
        codegen.graph_of(function, *map(codegen.type_of, arrays), optimized=False)
    )
    assert program.explain.splitlines()[0] == "2 kernels"  # nothing is copied
    call.mask = np.broadcast_to(kept, (2, 1, 10, 10))
    for want, got in zip(
        call.expected([*operands[:4], call.mask]), same_for_teams(program, arrays), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_size")
@pytest.mark.parametrize("is_causal", (False, True))
def test_nan_and_inf_reach_what_they_reach_row_by_row(codegen: Any, is_causal: bool) -> None:
    """Also behind the diagonal, where blocks are left out otherwise (and always in CUDA)."""
    if codegen.is_cuda and is_causal:
        pytest.skip("CUDA kernels look at no block behind the diagonal, as PyTorch's")
    random = np.random.default_rng(5)
    lead = (1,)
    case = (lead, lead, lead, (), 100, 450, 6, 6, None, {"is_causal": is_causal})
    for operand, value in itertools.product(("query", "key", "value", "g"), (np.nan, np.inf)):
        call = Call(case, random)
        getattr(call, operand)[0, 60, 2] = value
        if operand in ("key", "value"):
            getattr(call, operand)[0, 440, 3] = value
        arrays = call.operands("float32")
        types = [TensorType(a.shape, dtypes.float32) for a in arrays]
        graph = codegen.graph_of(lambda *x, call=call: call.rows(list(x)), *types, optimized=False)
        with np.errstate(all="ignore"):
            wanted = interpret.run(graph, arrays)
        for number, (want, got) in enumerate(
            zip(wanted, same_for_teams(compile_graph(graph), arrays), strict=True)
        ):
            where = (operand, value, number)
            assert np.array_equal(np.isfinite(want), np.isfinite(got)), where
            finite = np.isfinite(want)
            np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("every_size")
def test_large_scores_neither_overflow_nor_vanish(codegen: Any) -> None:
    """Keys come in rising order, so every block scales what was added up before."""
    call = Call(
        ((1,), (1,), (1,), (), 3, 900, 2, 4, None, {"scale": 1.0}), np.random.default_rng(6)
    )
    call.query[:] = [[1, 0], [-1, 0], [300, 0]]
    call.key[0, :, 0] = np.linspace(-200, 200, 900)
    arrays = call.operands("float32")
    (out, level, *back) = same_for_teams(program_of(codegen, [call], [arrays]), arrays)
    for want, got in zip(call.expected(arrays), (out, level, *back), strict=True):
        assert np.isfinite(got).all()
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * np.abs(want).max())


def test_sizes_may_be_known_only_when_the_program_runs(codegen: Any) -> None:
    batch, length, other = symbol("s0", 2), symbol("s1", 2), symbol("s2", 2)
    call = Call(((2,), (2,), (2,), (), 4, 4, 5, 6, None, {"is_causal": True}),
                np.random.default_rng(7))  # fmt: skip
    shapes = ((batch, length, 6), (batch, length, 5), (batch, other, 5), (batch, other, 6))
    types = [TensorType(shape, dtypes.float32) for shape in shapes]
    program = compile_graph(
        codegen.graph_of(lambda *x: call.rows(list(x)), *types, optimized=False)
    )
    assert program.explain.count(": native") == 2
    for n, queries, keys in ((2, 2, 3), (3, 60, 50), (2, 50, 420)):
        known = Call(((n,), (n,), (n,), (), queries, keys, 5, 6, None, {"is_causal": True}),
                     np.random.default_rng(n))  # fmt: skip
        arrays = known.operands("float32")
        for want, got in zip(known.expected(arrays), same_for_teams(program, arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


FLOAT, HALF = dtypes.float32, dtypes.float16
LARGE = (4, 64, 32)


@pytest.mark.parametrize(
    ("shape", "dtype", "mask", "options", "reason"),
    (
        (LARGE, FLOAT, None, {"dropout_p": 0.1}, "dropout"),
        (LARGE, HALF, None, {}, "float32"),
        (LARGE, FLOAT, TensorType((64, 64), dtypes.float64), {}, "mask"),
        (LARGE, FLOAT, TensorType((2, 4, 64, 64), FLOAT), {}, "dims"),
        ((1, 1, 2, 2, 2, 64, 32), FLOAT, None, {}, "leading"),
        ((0, 64, 32), FLOAT, None, {}, "empty"),
        ((4, 64, 0), FLOAT, None, {}, "empty"),
        ((9, 4, 4), FLOAT, None, {}, "small"),
        ((16, 16, 16), FLOAT, None, {}, "small"),
        ((16, 16, 16), FLOAT, None, {"is_causal": True}, "None"),
        (LARGE, FLOAT, None, {}, "None"),
        (LARGE, FLOAT, TensorType((64, 64), dtypes.bool_), {}, "None"),
    ),
)
def test_what_has_no_kernel_is_expanded(
    shape: Any, dtype: Any, mask: Any, options: Any, reason: str
) -> None:
    types = [*[TensorType(shape, dtype)] * 3, mask, None, None]
    attributes = {"dropout_p": 0.0, "is_causal": False, "scale": None, "shift": 0, **options}
    found = natives.why_not_native("scaled_dot_product_attention", types, attributes)
    assert reason in str(found)


# ---------------------------------------------------------------------------------------------
# compiled functions


def attention(q: Any, k: Any, v: Any, mask: Any, **options: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, mask, **options)


def gradients(function: Any, leaves: list[Any], g: Any) -> list[np.ndarray]:
    for leaf in leaves:
        leaf.grad = None
    out = function(*leaves)
    (out * g).sum().backward()
    return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


@pytest.mark.parametrize("kind", ("plain", "causal", "bool", "added", "dead", "gqa"))
def test_compiled_training_equals_eager_and_pytorch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(8)
    length, heads = 40, 4
    shapes = [(2, heads, length, 16), *[(2, 2 if kind == "gqa" else heads, length, 16)] * 2]
    arrays = [random.standard_normal(shape, np.float32) for shape in shapes]
    mask, options = None, {}
    if kind == "causal":
        options = {"is_causal": True}
    elif kind == "gqa":
        options = {"enable_gqa": True}
    elif kind == "bool":
        mask = random.random((2, 1, length, length)) > 0.5
    elif kind != "plain":
        mask = random.standard_normal((length, length), np.float32)
        if kind == "dead":
            mask[3] = -np.inf
    g = random.standard_normal(shapes[0], np.float32)

    def run(library: Any, f: Any, decorate: Any, **change: Any) -> list[np.ndarray]:
        given = None if mask is None else library.tensor(mask)
        leaves = [library.tensor(a, requires_grad=True) for a in arrays]
        function = decorate(lambda q, k, v: f(q, k, v, given, **{**options, **change}))
        return gradients(function, leaves, library.tensor(g))

    compiled = run(dj, attention, lambda f: dj.compile(f, fullgraph=True))
    eager = run(dj, attention, lambda f: f)
    theirs = run(torch, torch.nn.functional.scaled_dot_product_attention, lambda f: f)
    for mine, other, oracle in zip(compiled, eager, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(mine, oracle, rtol=1e-4, atol=1e-5)


def test_only_backward_of_the_weights_is_not_saved() -> None:
    """What is kept is as long as the operands, not as the matrix of weights."""
    q = dj.randn(1, 2, 300, 8, requires_grad=True)
    explanation = dj.explain(lambda q: attention(q, q, q, None, is_causal=True))(q)
    (record,) = explanation.records
    assert record.saved_bytes <= 4 * 2 * 300 * (8 + 1)


def test_an_added_mask_that_is_trained_gets_its_gradient() -> None:
    random = np.random.default_rng(9)
    leaves = [dj.tensor(random.standard_normal(shape), requires_grad=True)
              for shape in (*[(2, 20, 16)] * 3, (20, 20))]  # fmt: skip
    g = dj.tensor(random.standard_normal((2, 20, 16)))
    for one, other in zip(
        gradients(dj.compile(attention), leaves, g), gradients(attention, leaves, g), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("every_size")
def test_second_derivatives_equal_those_of_eager_execution() -> None:
    function = dj.compile(lambda q, k, v: attention(q, k, v, None, is_causal=True))
    leaves = [dj.randn(1, 3, 2, dtype=dj.float64, requires_grad=True) for _ in range(3)]
    found = []
    for f in (function, lambda q, k, v: attention(q, k, v, None, is_causal=True)):
        first = dj.autograd.grad(f(*leaves).square().sum(), leaves, create_graph=True)
        second = dj.autograd.grad(sum(part.square().sum() for part in first), leaves)
        found.append([part.numpy() for part in second])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("every_size")
def test_the_gradient_rows_have_derivatives_by_what_they_expand_to(codegen: Any) -> None:
    """The derivative of the derivative, in one graph, against differences of the first."""
    random = np.random.default_rng(10)
    arrays = [random.standard_normal((1, 3, 2)) for _ in range(3)]
    types = [TensorType(a.shape, dtypes.float64) for a in arrays]

    def function(q: Any, k: Any, v: Any) -> Any:
        return ops.scaled_dot_product_attention(q, k, v, None, None, None)

    graph = codegen.graph_of(function, *types, optimized=False)
    once = autodiff.differentiate(graph, [True] * 3).graph
    twice = autodiff.differentiate(once, [True] * 4).graph
    g = random.standard_normal((1, 3, 2))
    seeds = [random.standard_normal(node.type.shape) for node in twice.inputs[4:]]
    back = compile_graph(twice)(*arrays, g, *seeds)[len(once.outputs) :]
    first = compile_graph(once)

    def total(moved: list[np.ndarray]) -> float:
        return float(sum((s * r).sum() for s, r in zip(seeds, first(*moved, g), strict=True)))

    for position, found in enumerate(back[:3]):
        for place in np.ndindex(arrays[position].shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [a.copy() for a in arrays]
                moved[position][place] += step
                ends.append(total(moved))
            slope = (ends[0] - ends[1]) / 2e-5
            assert abs(found[place] - slope) < 1e-6 * max(1.0, abs(slope)), (position, place)


@pytest.mark.parametrize("shape", ((0, 3, 2), (2, 0, 2), (2, 3, 0)))
def test_empty_operands_train(shape: tuple[int, ...]) -> None:
    leaf = dj.randn(*shape, requires_grad=True)
    out = dj.compile(lambda x: attention(x, x, x, None))(leaf)
    out.sum().backward()
    assert (shape, shape) == (tuple(out.shape), tuple(leaf.grad.shape))


@pytest.mark.parametrize(
    ("mask", "is_causal", "kinds"),
    [(None, False, 0), (dtypes.bool_, False, 1), (dtypes.float32, False, 2), (None, True, 4)],
)
def test_only_the_masks_that_calls_have_are_compiled(
    codegen: Any, mask: Any, is_causal: bool, kinds: int
) -> None:
    """The others' loops cost the compiler more than the rest of a kernel."""
    heads = TensorType((2, 64, 64), dtypes.float32)
    types = [heads] * 3 + ([] if mask is None else [TensorType((64, 64), mask)])

    def attend(query, key, value, mask=None):
        return ops.scaled_dot_product_attention(
            query, key, value, mask, None, None, is_causal=is_causal
        )

    source = generate(codegen.graph_of(attend, *types, optimized=False), "g").source

    assert f"#define DJ_MASKS {kinds}\n" in source
