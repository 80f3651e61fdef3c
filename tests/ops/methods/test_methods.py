"""The mixin's contract: operators, names, the same text for eager tensors and graph values."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.eager import Tensor, tensor
from dynajit.ir.graph import Builder, Value
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.table import dispatch
from tests.support.rows.compare import agree

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
torch = pytest.importorskip("torch")

UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "logical_not", "neg", "reciprocal", "relu", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "round", "frac", "t", "detach",
    "clone",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "fmod",
    "remainder", "atan2", "logical_and", "logical_or", "logical_xor", "pow",
)  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_methods_agree_with_pytorch(name):
    agree(lambda t, x: getattr(x, name)(), np.abs(X) / 4 + (1.1 if name == "acosh" else 0.1))


@pytest.mark.parametrize("name", BINARY)
def test_binary_methods_agree_with_pytorch(name):
    agree(lambda t, x, y: getattr(x, name)(y), np.abs(X) + 0.1, np.abs(X[:1]) + 0.2)


OPERATORS = {
    "add": lambda x: x + 2,
    "radd": lambda x: 2 + x,
    "sub": lambda x: x - 2.5,
    "rsub": lambda x: 2 - x,
    "mul": lambda x: x * x,
    "rmul": lambda x: 3 * x,
    "truediv": lambda x: x / 3,
    "rtruediv": lambda x: 3 / (x * x + 1),
    "floordiv": lambda x: x.detach() // 0.5,
    "rfloordiv": lambda x: 5 // (x.detach() * x.detach() + 1),
    "mod": lambda x: x % 0.7,
    "rmod": lambda x: 5 % (x.detach() * x.detach() + 1),
    "pow": lambda x: x**2,
    "rpow": lambda x: 2**x,
    "neg": lambda x: -x,
    "pos": lambda x: +x,
    "abs": lambda x: abs(x),
    "lt": lambda x: x < 0,
    "le": lambda x: x <= x,
    "gt": lambda x: x > 0.5,
    "ge": lambda x: 0 >= x,
    "eq": lambda x: x == x,
    "ne": lambda x: x != 1,
    "invert": lambda x: ~(x > 0),
    "and": lambda x: (x > 0) & (x < 1),
    "or": lambda x: (x > 1) | True,
    "xor": lambda x: (x > 1) ^ (x < 0),
    "rand": lambda x: 6 & x.long(),
    "lshift": lambda x: x.long() << 2,
    "rshift": lambda x: 64 >> x.long().abs(),
    "matmul": lambda x: x @ x.T,
    "bool_plus": lambda x: (x > 0) + 1,
    "integer_times_float": lambda x: (x > 0) * 1.5,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_agree_with_pytorch(name):
    agree(lambda t, x: OPERATORS[name](x), X)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_record_the_type_that_eager_gives(name):
    expected = OPERATORS[name](tensor(X))
    builder = Builder()
    with dispatch.recording(builder.handle):
        actual = OPERATORS[name](builder.placeholder("x", TensorType((2, 3), dtypes.float32)))
    assert isinstance(actual, Value)
    assert (tuple(expected.shape), expected.dtype) == (actual.shape, actual.dtype)


def test_hash_is_identity_and_equality_is_elementwise():
    x, y = tensor(X), tensor(X)
    assert hash(x) != hash(y) or x is y
    assert {x: 1}[x] == 1
    assert bool((x == y).all())
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True


def test_unknown_operands_are_left_to_python():
    x = tensor(X)
    with pytest.raises(TypeError):
        x + "a"
    with pytest.raises(TypeError):
        None * x
    with pytest.raises(TypeError):
        x @ object()


def test_numpy_numbers_are_operands_on_both_sides():
    x = tensor(X)
    for result in (np.float32(2) * x, x * np.float64(2), np.int64(2) * x):
        assert isinstance(result, Tensor)
        assert np.array_equal(X * 2, result.array)
        assert result.dtype is dtypes.float32


def test_bool_subtraction_is_refused():
    flags = tensor(X) > 0
    with pytest.raises(DTypeError):
        flags - flags
    with pytest.raises(DTypeError):
        -flags


def test_sizes_are_those_of_pytorch():
    x, theirs = tensor(X), torch.tensor(X)
    assert tuple(x.size()) == tuple(theirs.size())
    assert x.size(-1) == theirs.size(-1)
    for name in ("dim", "numel", "nelement", "ndimension", "element_size"):
        assert getattr(x, name)() == getattr(theirs, name)()
    for name in ("ndim", "itemsize", "nbytes"):
        assert getattr(x, name) == getattr(theirs, name)
    assert len(x) == 2
    assert [row.array.tolist() for row in x] == X.tolist()
    with pytest.raises(TypeError, match="0-d"):
        len(x.sum())
    with pytest.raises(TypeError, match="0-d"):
        iter(x.sum())
    with pytest.raises(IndexError):
        x.size(2)


def test_conversions_return_the_same_tensor_where_nothing_changes():
    x = tensor(X)
    assert x.float() is x
    assert x.to(dtypes.float32) is x
    assert x.to("cpu") is x
    assert x.to(dtypes.float32, copy=True) is not x
    names = {
        "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
        "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
    }  # fmt: skip
    for method, dtype in names.items():
        assert getattr(x.abs(), method)().dtype.name == dtype


def test_the_mixin_has_no_state_and_pytorch_has_its_methods():
    for base in TensorMethods.__mro__[:-1]:
        assert base.__slots__ == ()
        for name in vars(base):
            if not name.startswith("_"):
                assert hasattr(torch.Tensor, name), name


def test_methods_run_on_graph_values():
    builder = Builder()
    x = builder.placeholder("x", TensorType((4, 6), dtypes.float32))
    with dispatch.recording(builder.handle):
        y = x.view(4, 2, 3).transpose(1, 2).softmax(-1)[:, None, ..., 0].sum(-1, keepdim=True)
        values, indices = x.max(dim=1)
        rows = [row.shape for row in x]
    assert y.shape == (4, 1, 1)
    assert (values.dtype, indices.dtype) == (dtypes.float32, dtypes.int64)
    assert rows == [(6,)] * 4
    assert x.ndim == 2 and x.numel() == 24


@pytest.mark.parametrize("number", [1, 20.0, 3, 0.1, -7, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
def test_numbers_are_divided_with_the_bits_of_pytorch(number, dtype):
    values = (np.random.default_rng(1).standard_normal(1001) * 30).astype(dtype)
    expected = (number / torch.from_numpy(values)).numpy()

    np.testing.assert_array_equal((number / tensor(values)).numpy(), expected)
    compiled = dj.compile(lambda x: number / x, fullgraph=True)
    np.testing.assert_array_equal(compiled(tensor(values)).numpy(), expected)
