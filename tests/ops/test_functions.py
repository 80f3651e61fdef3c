"""Library functions agree with PyTorch: elementwise, reductions, creation, neural networks."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from dynajit.eager import Generator, tensor
from dynajit.ops import functions
from dynajit.ops.functions.networks import nn as nn_functions
from tests.support.rows.compare import DYNAJIT, TORCH, agree, numbers, outputs_of, torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype(np.float32)
Y = RNG.standard_normal((3, 4)).astype(np.float32)
P = RNG.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
INTEGERS = np.array([[3, -4, 7], [0, 5, -6]])

ELEMENTWISE = {
    "add_alpha": lambda t, x, y: t.add(x, y, alpha=2),
    "sub_alpha": lambda t, x, y: x.sub(y, alpha=0.5),
    "rsub": lambda t, x, y: t.rsub(x, y),
    "mul_number": lambda t, x, y: t.mul(x, 3),
    "div": lambda t, x, y: t.div(x, y),
    "div_trunc": lambda t, x, y: t.div(x, y, rounding_mode="trunc"),
    "div_floor": lambda t, x, y: x.div(y, rounding_mode="floor"),
    "true_divide": lambda t, x, y: t.true_divide(x, 2),
    "pow_2": lambda t, x, y: x**2,
    "pow_3": lambda t, x, y: x**3,
    "pow_half": lambda t, x, y: (x.abs() + 0.1) ** 0.5,
    "pow_minus_half": lambda t, x, y: (x.abs() + 0.1) ** -0.5,
    "pow_minus_one": lambda t, x, y: x**-1,
    "pow_1": lambda t, x, y: x**1,
    "pow_0": lambda t, x, y: x**0,
    "pow_tensor": lambda t, x, y: t.pow(x.abs() + 0.1, y),
    "pow_of_number": lambda t, x, y: 2**x,
    "float_power": lambda t, x, y: t.float_power(x.abs(), 2),
    "clamp": lambda t, x, y: x.clamp(-0.5, 0.5),
    "clamp_min": lambda t, x, y: t.clamp(x, min=0),
    "clamp_max": lambda t, x, y: x.clamp(max=0.3),
    "clamp_tensors": lambda t, x, y: t.clamp(x, -y.abs(), y.abs()),
    "clip": lambda t, x, y: t.clip(x, 0, 1),
    "lerp": lambda t, x, y: t.lerp(x, y, 0.3),
    "addcmul": lambda t, x, y: t.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda t, x, y: x.addcdiv(x, y, value=-2),
    "round_decimals": lambda t, x, y: t.round(x, decimals=2),
    "frac": lambda t, x, y: x.frac(),
    "logaddexp": lambda t, x, y: t.logaddexp(x, y),
    "logit": lambda t, x, y: t.logit(x.sigmoid()),
    "logit_eps": lambda t, x, y: t.logit(x.sigmoid(), 0.3),
    "where_numbers": lambda t, x, y: t.where(x > y, 1.0, 0.0),
    "isclose": lambda t, x, y: t.isclose(x, x + 1e-7),
    "floor_divide": lambda t, x, y: x.detach() // y.detach(),
    "remainder": lambda t, x, y: x % y,
    "type_as": lambda t, x, y: x.type_as(y.double()),
    "to_dtype": lambda t, x, y: x.to(t.float64),
    "to_other": lambda t, x, y: x.to(y.half()),
    "to_keyword": lambda t, x, y: x.to(dtype=t.bfloat16),
    "to_device": lambda t, x, y: x.to("cpu", t.float64),
    "long": lambda t, x, y: (x * 5).long(),
    "bool": lambda t, x, y: x.bool(),
    "erfc": lambda t, x, y: t.erfc(x),
    "operators": lambda t, x, y: -(x + 1) * (2 - y) / (x * x + 1) - abs(y),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_agree_with_pytorch(name):
    agree(ELEMENTWISE[name], X, Y)


def test_conversions_take_a_memory_format():
    def strides(t):
        x = t.ones(1, 2, 3, 4)
        formats = (t.preserve_format, t.contiguous_format, t.channels_last)
        return [tuple(x.half(memory_format=f).stride()) for f in formats]

    assert strides(dj) == strides(torch)
    x = dj.ones(2)
    assert x.float() is x
    assert x.float(memory_format=dj.preserve_format) is x
    assert x.long(memory_format=dj.contiguous_format).dtype is dj.int64


WHOLE = {
    "floor_divide": lambda t, x: x // 4,
    "reflected": lambda t, x: 7 - x,
    "remainder": lambda t, x: x % -3,
    "trunc": lambda t, x: t.div(x, 4, rounding_mode="trunc"),
    "floor": lambda t, x: t.div(x, -4, rounding_mode="floor"),
    "true": lambda t, x: x / 2,
    "pow": lambda t, x: x**3,
    "square": lambda t, x: x**2,
    "shift": lambda t, x: (x << 2) >> 1,
    "bits": lambda t, x: (x & 6) | (x ^ 3),
    "invert": lambda t, x: ~x,
    "sum": lambda t, x: x.sum(),
    "prod": lambda t, x: x.prod(1),
    "float_add": lambda t, x: x + 0.5,
    "compare": lambda t, x: (x > 1) & ~(x == 5),
    "cumsum": lambda t, x: x.int().cumsum(0),
    "nan_to_num": lambda t, x: t.nan_to_num(x),
    "bool_sum": lambda t, x: (x > 0).sum(dim=0),
    "topk": lambda t, x: x.topk(2, dim=1),
    "max": lambda t, x: x.max(),
    "clamp": lambda t, x: x.clamp(-2, 4),
    "mean_dtype": lambda t, x: x.mean(dtype=t.float64),
    "median": lambda t, x: x.median(dim=1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_integer_functions_agree_with_pytorch(name):
    agree(WHOLE[name], INTEGERS)


def test_special_values_become_numbers():
    bad = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    agree(lambda t, x: t.nan_to_num(x), bad, gradients=False)
    agree(lambda t, x: t.nan_to_num(x, 1.0, posinf=2.0, neginf=-3.0), bad, gradients=False)
    agree(lambda t, x: t.isclose(x, x, equal_nan=True), bad)
    agree(lambda t, x: t.isclose(x, x), bad)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 0.5, -1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_16_bit_floats_stay_in_their_range(p, dtype):
    x = np.array([[100, 200, 30], [3, 4, 5]], np.float32)
    agree(
        lambda t, x: (t.norm(x.to(getattr(t, dtype)), p), x.to(getattr(t, dtype)).norm(p, 1)),
        x,
        gradients=False,
    )


REDUCTIONS = {
    "sum": lambda t, x: x.sum(),
    "sum_dim": lambda t, x: t.sum(x, -1),
    "sum_dims": lambda t, x: x.sum((0, 2), keepdim=True),
    "sum_dtype": lambda t, x: x.sum(dim=1, dtype=t.float64),
    "sum_axis": lambda t, x: t.sum(x, axis=0),
    "mean": lambda t, x: x.mean(),
    "mean_dim": lambda t, x: x.mean(1, keepdim=True),
    "mean_dims": lambda t, x: t.mean(x, dim=(-1, 0)),
    "var": lambda t, x: x.var(),
    "var_dim": lambda t, x: x.var(dim=-1, keepdim=True),
    "var_biased": lambda t, x: x.var(-1, unbiased=False),
    "var_biased_position": lambda t, x: x.var(False),
    "var_correction": lambda t, x: t.var(x, 1, correction=2),
    "var_too_few": lambda t, x: x[:1].var(0),
    "std": lambda t, x: x.std(1),
    "std_biased": lambda t, x: t.std(x, dim=(0, 1), correction=0, keepdim=True),
    "var_mean": lambda t, x: t.var_mean(x, 1),
    "var_mean_biased": lambda t, x: (
        *t.var_mean(x, False),
        *t.var_mean(x, (0, 1), False, True),
        *t.var_mean(x, dim=0, unbiased=True),
    ),
    "sum_to_size": lambda t, x: (
        x.sum_to_size(1, x.shape[-1]),
        x.sum_to_size(()),
        x.sum_to_size(x.shape) * 2,
    ),
    "std_mean_biased": lambda t, x: (*t.std_mean(x, False), *t.std_mean(x, 1, unbiased=False)),
    "std_mean": lambda t, x: t.std_mean(x, 1),
    "prod": lambda t, x: x.prod(2),
    "max": lambda t, x: x.max(),
    "max_dim": lambda t, x: tuple(x.max(dim=1)),
    "max_dim_keep": lambda t, x: tuple(t.max(x, -1, keepdim=True)),
    "max_values": lambda t, x: x.max(1).values,
    "max_two": lambda t, x: t.max(x, -x),
    "min": lambda t, x: t.min(x),
    "min_dim": lambda t, x: tuple(x.min(0)),
    "amax": lambda t, x: x.amax((0, 1)),
    "amin": lambda t, x: x.amin(-1, True),
    "aminmax": lambda t, x: tuple(t.aminmax(x, dim=1)),
    "argmax": lambda t, x: x.argmax(),
    "argmax_dim": lambda t, x: x.argmax(-1, keepdim=True),
    "argmin": lambda t, x: t.argmin(x, dim=1),
    "any": lambda t, x: (x > 1).any(),
    "any_dim": lambda t, x: (x > 1).any(dim=1),
    "all": lambda t, x: t.all(x > -1, 2),
    "count_nonzero": lambda t, x: t.count_nonzero(x > 0, dim=1),
    "logsumexp": lambda t, x: x.logsumexp(1),
    "logsumexp_dims": lambda t, x: t.logsumexp(x, (0, 2), keepdim=True),
    "norm": lambda t, x: x.norm(),
    "norm_dim": lambda t, x: t.norm(x, dim=1, keepdim=True),
    "norm_1": lambda t, x: x.norm(1, -1),
    "norm_inf": lambda t, x: x.norm(p=float("inf"), dim=(0, 1)),
    "norm_3": lambda t, x: x.norm(3),
    "cumsum": lambda t, x: x.cumsum(1),
    "cumsum_last": lambda t, x: t.cumsum(x, dim=-1),
    "diff": lambda t, x: t.diff(x, dim=1),
    "sort": lambda t, x: tuple(x.sort()),
    "sort_descending": lambda t, x: tuple(t.sort(x, dim=1, descending=True)),
    "argsort": lambda t, x: x.argsort(0),
    "topk": lambda t, x: tuple(x.topk(2)),
    "topk_smallest": lambda t, x: tuple(t.topk(x, 2, dim=1, largest=False)),
    "kthvalue": lambda t, x: tuple(x.kthvalue(2)),
    "median": lambda t, x: tuple(x.median(dim=1)),
    "median_all": lambda t, x: t.median(x),
    "softmax": lambda t, x: x.softmax(-1),
    "softmax_function": lambda t, x: t.softmax(x, dim=0),
    "log_softmax": lambda t, x: t.log_softmax(x, 1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_agree_with_pytorch(name):
    data = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    with np.errstate(all="ignore"):
        if name == "var_too_few":
            with pytest.warns(UserWarning, match="degrees of freedom"):
                agree(REDUCTIONS[name], data)
        else:
            agree(REDUCTIONS[name], data, tolerance=None if "arg" in name else 4e-6)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "argmax", "softmax0", "norm", "cumsum0"])
def test_zero_dim_tensors_reduce(name):
    expressions = {
        "softmax0": lambda t, x: x.softmax(0),
        "cumsum0": lambda t, x: x.cumsum(0),
    }
    expression = expressions.get(name, lambda t, x: getattr(x, name)())
    agree(expression, np.float32(1.5))


def test_empty_tensors_reduce_to_the_identity():
    empty = np.zeros((0, 3), np.float32)
    agree(lambda t, x: x.sum(0), empty)
    agree(lambda t, x: x.mean(0), empty)
    agree(lambda t, x: x.softmax(0), empty)
    agree(lambda t, x: x.logsumexp(0), empty, gradients=False)
    agree(lambda t, x: x.prod(), empty)


def test_stable_functions_survive_extreme_rows():
    rows = np.array(
        [[1000, 1000, 999], [-np.inf, 0, 1], [-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1]],
        np.float32,
    )
    for expression in (
        lambda t, x: x.softmax(1),
        lambda t, x: x.log_softmax(1),
        lambda t, x: x.logsumexp(1),
    ):
        agree(expression, rows, gradients=False)
        agree(expression, rows[:2])


CREATION = {
    "zeros": lambda t: t.zeros(2, 3),
    "zeros_tuple": lambda t: t.zeros((2, 0)),
    "ones_dtype": lambda t: t.ones(3, dtype=t.int64),
    "full": lambda t: t.full((2, 2), 7),
    "full_float": lambda t: t.full((2,), 1.5),
    "full_bool": lambda t: t.full((2,), True),
    "arange": lambda t: t.arange(5),
    "arange_two": lambda t: t.arange(2, 9),
    "arange_step": lambda t: t.arange(1, 10, 3),
    "arange_back": lambda t: t.arange(5, 0, -2),
    "arange_float": lambda t: t.arange(0, 1, 0.1),
    "arange_dtype": lambda t: t.arange(4, dtype=t.float32),
    "arange_keywords": lambda t: t.arange(start=1, end=4),
    "arange_empty": lambda t: t.arange(3, 3),
    "arange_whole": lambda t: [
        t.arange(*bounds, dtype=dtype)
        for dtype in (t.int64, t.int32, t.uint8)
        for bounds in ((3.1,), (1.0, 5.001, 2.0), (-0.9, 2.1, 2.0), (2.1, -2.9, -1.0), (0, 3, 1.5))
    ],
    "linspace_whole_tensors": lambda t: [
        t.linspace(t.tensor(4.3), t.tensor(end), 50, dtype=t.int64) for end in (-3, 0.5)
    ],
    "linspace_whole": lambda t: [
        t.linspace(*bounds, dtype=dtype)
        for dtype in (t.int64, t.int32)
        for bounds in ((4.3, -3, 50), (4.3, 0, 50), (0, 7.9, 5), (0, 10, 7))
    ],
    "logspace_whole": lambda t: [
        t.logspace(*bounds, dtype=t.int64) for bounds in ((0.5, 3.2, 5), (4.3, -3, 7), (0, 3.9, 7))
    ],
    "triangles": lambda t: (
        t.tril_indices(2, 3, dtype=t.int32),
        t.triu_indices(3, 2, 1, dtype=t.int32),
        t.triu_indices(0, 0, dtype=t.int32),
    ),
    "linspace": lambda t: t.linspace(0, 1, 11),
    "linspace_one": lambda t: t.linspace(3, 5, 1),
    "linspace_two": lambda t: t.linspace(3, 5, 2),
    "linspace_none": lambda t: t.linspace(3, 5, 0),
    "logspace": lambda t: t.logspace(0, 2, 5),
    "eye": lambda t: t.eye(3),
    "eye_wide": lambda t: t.eye(2, 4, dtype=t.int64),
    "zeros_like": lambda t: t.zeros_like(t.ones(2, dtype=t.float64)),
    "ones_like_dtype": lambda t: t.ones_like(t.zeros(2, 3), dtype=t.int32),
    "full_like": lambda t: t.full_like(t.zeros(2), 4),
    "new_zeros": lambda t: t.ones(2, dtype=t.int64).new_zeros(3),
    "new_ones": lambda t: t.ones(2, dtype=t.float64).new_ones((2, 2)),
    "new_full": lambda t: t.ones(2).new_full((2,), 3),
    "meshgrid": lambda t: tuple(t.meshgrid(t.arange(2), t.arange(3), indexing="ij")),
    "meshgrid_xy": lambda t: tuple(t.meshgrid(t.arange(2), t.arange(3), indexing="xy")),
    "tril_indices": lambda t: t.tril_indices(3, 3),
    "triu_indices": lambda t: t.triu_indices(3, 4, offset=1),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation_functions_agree_with_pytorch(name):
    agree(CREATION[name])


def test_random_functions_have_the_right_type_and_range():
    from dynajit.core.types import dtypes

    assert functions.rand(2, 3).shape == (2, 3)
    assert functions.randn((4,), dtype=dtypes.float64).dtype is dtypes.float64
    drawn = functions.randint(3, 7, (1000,))
    assert drawn.dtype is dtypes.int64
    assert set(drawn.array.tolist()) == {3, 4, 5, 6}
    assert set(functions.randint(2, (100,)).array.tolist()) == {0, 1}
    assert sorted(functions.randperm(50).array.tolist()) == list(range(50))
    assert functions.randperm(50).array.tolist() != list(range(50))
    coins = functions.bernoulli(functions.full((2000,), 0.25))
    assert set(coins.array.tolist()) == {0.0, 1.0}
    assert abs(float(coins.array.mean()) - 0.25) < 0.05
    shifted = functions.normal(5.0, 0.1, (1000,))
    assert abs(float(shifted.array.mean()) - 5) < 0.05
    with pytest.raises(ArgumentError, match="less than"):
        functions.randint(5, 5, (2,))


def test_multinomial_draws_in_proportion():
    weights = tensor(np.array([0.0, 1.0, 3.0], np.float32))
    drawn = functions.multinomial(weights, 4000, replacement=True).array
    counts = np.bincount(drawn, minlength=3) / 4000
    assert counts[0] == 0 and abs(counts[2] - 0.75) < 0.05
    both = functions.multinomial(weights.expand(5, 3), 2).array
    assert all(sorted(row) == [1, 2] for row in both.tolist())


def test_a_generator_repeats_its_numbers():
    first = functions.rand(5, generator=Generator().manual_seed(3))
    again = functions.rand(5, generator=Generator().manual_seed(3))
    other = functions.rand(5, generator=Generator().manual_seed(4))
    assert np.array_equal(first.array, again.array)
    assert not np.array_equal(first.array, other.array)
    generator = Generator().manual_seed(3)
    assert not np.array_equal(
        functions.rand(5, generator=generator).array, functions.rand(5, generator=generator).array
    )


PRODUCTS = {
    "matmul": ("ij,jk", lambda t, a, b: a @ b, (3, 4), (4, 5)),
    "vectors": ("", lambda t, a, b: t.matmul(a, b), (4,), (4,)),
    "vector_matrix": ("", lambda t, a, b: a @ b, (4,), (4, 5)),
    "matrix_vector": ("", lambda t, a, b: a @ b, (3, 4), (4,)),
    "batch": ("", lambda t, a, b: t.matmul(a, b), (2, 3, 4), (2, 4, 5)),
    "batch_matrix": ("", lambda t, a, b: a.matmul(b), (2, 3, 4), (4, 5)),
    "batch_vector": ("", lambda t, a, b: a @ b, (2, 3, 4), (4,)),
    "matrix_batch": ("", lambda t, a, b: a @ b, (3, 4), (2, 4, 5)),
    "vector_batch": ("", lambda t, a, b: a @ b, (4,), (2, 4, 5)),
    "broadcast": ("", lambda t, a, b: a @ b, (2, 1, 3, 4), (5, 4, 2)),
    "empty": ("", lambda t, a, b: a @ b, (3, 0), (0, 5)),
    "mm": ("", lambda t, a, b: a.mm(b), (3, 4), (4, 5)),
    "bmm": ("", lambda t, a, b: t.bmm(a, b), (2, 3, 4), (2, 4, 5)),
    "mv": ("", lambda t, a, b: a.mv(b), (3, 4), (4,)),
    "dot": ("", lambda t, a, b: a.dot(b), (4,), (4,)),
    "outer": ("", lambda t, a, b: t.outer(a, b), (3,), (4,)),
    "addmm": ("", lambda t, a, b: t.addmm(b[0], a, b, beta=0.5, alpha=2), (3, 4), (4, 5)),
    "baddbmm": ("", lambda t, a, b: t.baddbmm(b[:, :1], a, b), (2, 3, 4), (2, 4, 5)),
    "tensordot": ("", lambda t, a, b: t.tensordot(a, b, dims=2), (2, 3, 4), (3, 4, 5)),
    "tensordot_dims": (
        "", lambda t, a, b: t.tensordot(a, b, dims=([0], [1])), (2, 3, 4), (3, 2)
    ),
    "tensordot_of_ones": (
        "", lambda t, a, b: t.tensordot(a, b, ([2, 0], [0, 1])), (2, 1, 2), (1, 1, 2)
    ),
    "tensordot_of_one": (
        "", lambda t, a, b: (t.tensordot(a, b, ([0, 1], [1, 0])), t.tensordot(b, a, ([0], [0]))),
        (1, 2, 3), (2, 4),
    ),
    "linear": ("", lambda t, a, b: t.F.linear(a, b), (3, 4), (5, 4)),
    "linear_bias": ("", lambda t, a, b: t.F.linear(a, b, b[:, 0]), (2, 3, 4), (5, 4)),
    "linear_vector": ("", lambda t, a, b: t.F.linear(a, b, b[:, 0]), (4,), (5, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_agree_with_pytorch(name):
    _, expression, a, b = PRODUCTS[name]
    rng = np.random.default_rng(7)
    agree(
        expression,
        rng.standard_normal(a).astype(np.float32),
        rng.standard_normal(b).astype(np.float32),
    )


@pytest.mark.parametrize(("sizes", "dims"), [(((2, 3), (3, 2)), 2), (((2, 2), (3, 2)), ([0], [0]))])
def test_sizes_that_meet_in_products_are_checked(sizes, dims):
    for t in (TORCH, DYNAJIT):
        with pytest.raises((RuntimeError, ShapeError)):
            t.tensordot(*map(t.ones, sizes), dims)
    with pytest.raises(ShapeError, match="dims that meet have the sizes 2 and 3"):
        dj.tensordot(*map(dj.ones, sizes), dims)


def test_integer_products_over_dims_of_one_keep_their_dtype():
    rows = np.arange(6, dtype=np.int32).reshape(2, 3)
    agree(lambda t, x: t.tensordot(x, x[:, :1], ([1], [1])), rows)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_einsum_sums_integers_in_int64(dtype):
    def run(t, x):
        x = x.to(getattr(t, dtype))
        equations = ("ij->", "ij->i", "ii->i", "ii", "ij->ji")
        pairs = ("ij,kl->", "ij,kj->j", "ij,jk->ik")[: 2 if dtype == "bool" else 3]
        return [t.einsum(e, x) for e in equations] + [t.einsum(e, x, x) for e in pairs]

    whole = np.array([[100, 200], [3, 0]])
    agree(run, whole)
    x = dj.tensor(whole)
    for left, right in zip(run(dj, x), dj.compile(lambda x: run(dj, x))(x), strict=True):
        assert left.dtype is right.dtype
        assert left.tolist() == right.tolist()


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("i,j->ij", (2,), (3,)),
    ("i,i->", (3,), (3,)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...i->...", (2, 3)),
    ("b...d,df->b...f", (2, 3, 4, 5), (5, 6)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ijk,kl,l->ij", (2, 3, 4), (4, 5), (5,)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)),
    ("bi,bj->bij", (2, 3), (2, 4)),
    ("ij,kj->ik", (2, 1), (3, 4)),
    ("abc->cab", (2, 3, 4)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum_agrees_with_pytorch(case):
    equation, *shapes = case
    rng = np.random.default_rng(8)
    arrays = [rng.standard_normal(shape).astype(np.float64) for shape in shapes]
    agree(lambda t, *operands: t.einsum(equation, *operands), *arrays)


def test_einsum_refuses_malformed_equations():
    x = tensor(np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="2 terms for 1 operands"):
        functions.einsum("ij,jk", x)
    with pytest.raises(ArgumentError, match="does not fit"):
        functions.einsum("ijk", x)
    with pytest.raises(ArgumentError, match="in no input"):
        functions.einsum("ij->ik", x)
    with pytest.raises(ShapeError, match="subscript 'j'"):
        functions.einsum("ij,jk", x, x)


def test_products_refuse_what_pytorch_refuses():
    a, b = tensor(np.ones((8, 3))), tensor(np.ones((4, 5)))
    with pytest.raises(ShapeError, match="inner sizes differ, 3 and 4"):
        a @ b
    with pytest.raises(DTypeError, match="same dtype"):
        a @ tensor(np.ones((3, 2), np.float32))
    with pytest.raises(ShapeError, match="at least 1D"):
        a @ tensor(2.0)
    with pytest.raises(ShapeError, match="must be 3-D"):
        functions.bmm(a, b)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.float64])
def test_products_keep_their_dtype(dtype):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    agree(lambda t, x, y: x @ y, a, a.T.copy())


def test_arguments_are_checked():
    x = tensor(X)
    with pytest.raises(DTypeError, match="mean is not defined for int64"):
        tensor(INTEGERS).mean()
    with pytest.raises(DTypeError, match="softmax is not defined"):
        tensor(INTEGERS).softmax(0)
    with pytest.raises(BoundsError, match=r"\[-2, 1\]"):
        x.sum(2)
    with pytest.raises(ShapeError, match="names a dimension twice"):
        x.sum((0, 0))
    with pytest.raises(DTypeError, match="negative integer powers"):
        tensor(INTEGERS) ** -1
    with pytest.raises(ArgumentError, match="at least one of"):
        x.clamp()
    with pytest.raises(ArgumentError, match="rounding_mode"):
        x.div(2, rounding_mode="up")
    with pytest.raises(ShapeError, match="out of range"):
        x.topk(5)
    with pytest.raises(ArgumentError, match="step must be nonzero"):
        functions.arange(0, 3, 0)
    with pytest.raises(ShapeError, match="negative dimension"):
        functions.zeros(2, -1)
    with pytest.raises(ShapeError, match="negative dimension -1"):
        x.repeat(1, -1)
    with pytest.raises(ShapeError, match="negative dimension -2"):
        tensor(X[:, :1]).expand(3, -2)
    with pytest.raises(ShapeError, match=r"\(-2\) isn't allowed"):
        x.expand(-2, 3, 4)
    with pytest.raises(ShapeError, match="repeats must be non-negative"):
        x.repeat_interleave(-1)
    with pytest.raises(ShapeError, match="negative dimension -1"):
        functions.randperm(-1)
    with pytest.raises(ShapeError, match="size is -1 but must be >= 0"):
        x.unfold(0, -1, 1)
    with pytest.raises(ArgumentError, match="must be a tensor"):
        functions.exp(2.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn_functions.dropout(x, 1.5)


def test_all_published_names_exist():
    assert sorted(set(functions.__all__)) == functions.__all__ or len(
        set(functions.__all__)
    ) == len(functions.__all__)
    for name in functions.__all__:
        assert callable(getattr(functions, name))
        assert getattr(functions, name).__doc__


def test_pytorch_has_the_published_names():
    for name in functions.__all__:
        assert hasattr(TORCH, name), name
    assert outputs_of([DYNAJIT.ones(1)])[0].shape == (1,)
    assert numbers(3) == 3


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 4)])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_orders_of_empty_tensors_are_empty(shape, is_compiled):
    def orders(x):
        dim = x.dim() - 1
        size = x.shape[dim]
        some = x.topk(min(2, size), dim=dim)
        return (*x.sort(dim=dim), x.argsort(dim=0, descending=True), *some)

    called = dj.compile(orders) if is_compiled else orders
    x = dj.zeros(*shape)
    values, positions, along_rows, top, top_positions = called(x)
    kept = (*shape[:-1], min(2, shape[-1]))
    assert [t.shape for t in (values, positions, along_rows)] == [shape] * 3
    assert (top.shape, top_positions.shape) == (kept, kept)
    assert positions.dtype is along_rows.dtype is top_positions.dtype is dj.int64


NO_DISTRIBUTIONS = {
    "zeros": ([0.0, 0.0], 1),
    "a row of zeros": ([[1.0, 2.0], [0.0, 0.0]], 1),
    "a negative number": ([2.0, -1.0], 1),
    "NaN": ([2.0, float("nan")], 1),
    "infinity": ([2.0, float("inf")], 1),
    "no samples": ([1.0, 2.0], 0),
    "too many samples": ([1.0, 2.0], 3),
}


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("name", NO_DISTRIBUTIONS)
def test_multinomial_refuses_what_is_no_distribution(name, replacement):
    torch = pytest.importorskip("torch")
    numbers, count = NO_DISTRIBUTIONS[name]
    if name == "too many samples" and replacement:
        count = 0
    for multinomial, make in ((torch.multinomial, torch.tensor), (functions.multinomial, tensor)):
        with pytest.raises(RuntimeError):
            multinomial(make(np.array(numbers, np.float32)), count, replacement)


def test_isclose_refuses_negative_tolerances():
    with pytest.raises(ValueError, match="rtol"):
        functions.isclose(tensor(1.0), tensor(1.0), rtol=-1.0)


def test_integers_like_a_tensor_take_one_bound_or_two():
    like = functions.zeros((1000,))
    for bounds, named in (((2,), {}), ((), {"high": 2}), ((0, 2), {}), ((), {"low": 0, "high": 2})):
        drawn = functions.randint_like(like, *bounds, **named)
        assert {0.0, 1.0} == set(drawn.array.tolist())
        assert "float32" == drawn.dtype.name
    with pytest.raises(ArgumentError, match="expected high"):
        functions.randint_like(like)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "floor_divide", "true_divide"])
@pytest.mark.parametrize("numbers", [(5, 3), (5.0, 3), (7, 2.5), (2**40, 3), (True, False)])
def test_arithmetic_of_two_numbers_gives_a_tensor(name, numbers):
    torch = pytest.importorskip("torch")
    try:
        expected = getattr(torch, name)(*numbers)
    except (RuntimeError, NotImplementedError):
        with pytest.raises((RuntimeError, NotImplementedError)):
            getattr(functions, name)(*numbers)
        return
    actual = getattr(functions, name)(*numbers)
    assert expected.tolist() == actual.tolist()
    assert str(expected.dtype).split(".")[1] == actual.dtype.name.rstrip("_")


def test_broadcast_to_takes_the_size_of_the_only_dim():
    assert (4,) == tuple(functions.broadcast_to(functions.zeros((1,)), 4).shape)
