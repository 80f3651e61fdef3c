"""Operands for every row of the op table: what the conformance tests walk over.

`samples(op, dtype)` gives a tuple of `Sample`s: derived from the row's family and `domain` where
that is enough, from `SPECIAL` where a row needs particular inputs or attributes. Layouts cover
vectors, matrices, zero-dim, empty, broadcast, non-contiguous (transposed, strided, negative
strides, expanded) and Python numbers. Values are the same in every run. Other test files (compiled
code, CUDA) call it, too.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE, Kind, Op


@dataclass(frozen=True)
class Sample:
    """One call of a row.

    Args:
        name: what is particular about it.
        inputs: arrays, Python numbers or None, in the order of the row's inputs.
        attributes: complete (`Op.bind`).
        differentiable: False where the derivative does not exist (ties, kinks) or is undefined.
        constants: names of floating inputs that get no gradient, as in PyTorch.
    """

    name: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    differentiable: bool = True
    constants: tuple[str, ...] = ()


class Values:
    """Deterministic arrays of one dtype, drawn from a row's domain."""

    def __init__(self, op: Op, dtype: DType) -> None:
        self.dtype = dtype
        self.low, self.high = op.domain
        self._random = np.random.default_rng(zlib.crc32(f"{op.name} {dtype.name}".encode()))

    def __call__(self, *shape: int) -> np.ndarray:
        """Contiguous array of `shape`."""
        if self.dtype is dtypes.bool_:
            return np.asarray(self._random.random(shape) < 0.5)
        if self.dtype.category is Category.INTEGER:
            low = int(np.ceil(self.low))
            low = max(low, 0) if not self.dtype.is_signed else low
            high = max(min(int(np.floor(self.high)), 100), low)
            return self._random.integers(low, high + 1, shape).astype(self.dtype.numpy)
        drawn = self._random.uniform(self.low, self.high, shape)
        if self.dtype.is_complex:
            drawn = drawn + 1j * self._random.uniform(self.low, self.high, shape)
        return np.asarray(drawn).astype(self.dtype.numpy)

    def integers(self, high: int, *shape: int) -> np.ndarray:
        """int64 values in [0, high)."""
        return self._random.integers(0, high, shape)

    def mask(self, *shape: int) -> np.ndarray:
        """Booleans."""
        return np.asarray(self._random.random(shape) < 0.5)

    def number(self) -> Any:
        """A Python number of the dtype's category."""
        return self(1)[0].item() if self.dtype is not dtypes.bfloat16 else float(self(1)[0])


def layouts(values: Callable[..., np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays of many layouts, shapes (4, 3) and (3,)."""
    yield "contiguous", values(4, 3)
    yield "transposed", values(3, 4).T
    yield "strided", values(8, 9)[::2, ::3]
    yield "reversed", values(4, 3)[::-1, ::-1]
    yield "expanded", np.broadcast_to(values(3), (4, 3))
    yield "offset", values(6, 5)[1:5, 2:]


Maker = Callable[[Op, Values], Iterator[Sample]]
SPECIAL: dict[str, Maker] = {}


def special(*names: str) -> Callable[[Maker], Maker]:
    """The decorated generator gives the samples of these rows."""

    def decorate(maker: Maker) -> Maker:
        for name in names:
            SPECIAL[name] = maker
        return maker

    return decorate


@functools.cache
def samples(op: Op, dtype: DType = dtypes.float32) -> tuple[Sample, ...]:
    """Samples of a row, its main operands in `dtype`. Attributes are complete.

    Raises:
        KeyError: the row needs an entry in `SPECIAL`.
    """
    values = Values(op, dtype)
    if op.name in SPECIAL:
        drawn = SPECIAL[op.name](op, values)
    elif op.kind is Kind.POINTWISE:
        drawn = _pointwise(op, values)
    elif op.kind is Kind.REDUCTION:
        drawn = _reduction(op, values)
    elif op.kind is Kind.RANDOM:
        drawn = _random(op, values)
    else:
        raise KeyError(
            f"the row {op.name!r} needs samples: add an entry to tests/support/rows/samples.py"
        )
    return tuple(dataclasses.replace(s, attributes=op.bind(s.attributes)) for s in drawn)


def has_samples(op: Op) -> bool:
    """True if `samples` knows the row."""
    return op.name in SPECIAL or op.kind in (Kind.POINTWISE, Kind.REDUCTION, Kind.RANDOM)


# ---------------------------------------------------------------------------------------------
# families


def _pointwise(op: Op, values: Values) -> Iterator[Sample]:
    count = len(op.inputs)
    yield Sample("vector", tuple(values(7) for _ in range(count)))
    yield Sample("zero-dim", tuple(values() for _ in range(count)))
    yield Sample("empty", tuple(values(0, 3) for _ in range(count)))
    yield Sample("one element", tuple(values(1, 1) for _ in range(count)))
    for layout, array in layouts(values):
        yield Sample(layout, (array, *(values(4, 3) for _ in range(count - 1))))
    if count > 1:
        rest = tuple(values(5) for _ in range(count - 2))
        yield Sample("broadcast", (values(4, 1), values(5), *rest))
        yield Sample("broadcast rank", (values(3), *(values(2, 4, 3) for _ in range(count - 1))))
        yield Sample("with zero-dim", (values(2, 3), *(values() for _ in range(count - 1))))
        numbers = tuple(values.number() for _ in range(count - 1))
        yield Sample("with number", (values(2, 3), *numbers))


def _reduction(op: Op, values: Values) -> Iterator[Sample]:
    for keepdim in (False, True):
        name = "keepdim " if keepdim else ""
        for dim in ((0,), (1,), (0, 2), (0, 1, 2), ()):
            attributes = {"dim": dim, "keepdim": keepdim}
            yield Sample(f"{name}dim={dim}", (values(2, 3, 4),), attributes)
        yield Sample(f"{name}zero-dim", (values(),), {"dim": (), "keepdim": keepdim})
        yield Sample(f"{name}one", (values(1),), {"dim": (0,), "keepdim": keepdim})
        for layout, array in layouts(values):
            tied = layout == "expanded"
            yield Sample(f"{name}{layout}", (array,), {"dim": (1,), "keepdim": keepdim}, not tied)
            yield Sample(
                f"{name}{layout} all", (array,), {"dim": (0, 1), "keepdim": keepdim}, not tied
            )
    yield Sample("empty result", (values(0, 3),), {"dim": (1,)})
    yield Sample("long row", (values(2, 700),), {"dim": (1,)}, differentiable=False)
    yield Sample("long column", (values(700, 3),), {"dim": (0,)}, differentiable=False)
    if op.kind is not Kind.REDUCTION or op.rule.identity(values.dtype) is not None:
        yield Sample("nothing to reduce", (values(2, 0, 3),), {"dim": (1,)})


def _random(op: Op, values: Values) -> Iterator[Sample]:
    for shape in ((5,), (), (0,), (3, 7)):
        attributes = {"shape": shape, "dtype": values.dtype, "device": CPU, "shift": 3}
        yield Sample(f"shape={shape}", (1234, 17), attributes)


# ---------------------------------------------------------------------------------------------
# pointwise rows that need particular operands


@special("where")
def _where(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("vector", (values.mask(7), values(7), values(7)))
    yield Sample("broadcast", (values.mask(4, 1), values(3), values(2, 1, 1)))
    yield Sample("zero-dim", (values.mask(), values(), values()))
    yield Sample("empty", (values.mask(0), values(0), values(0)))
    yield Sample("number", (values.mask(5), values(5), values.number()))
    yield Sample("zero-dim condition", (values.mask(), values(5), values(5)))
    for layout, array in layouts(values):
        yield Sample(layout, (values.mask(4, 3), array, values(3)))


@special("clamp")
def _clamp(op: Op, values: Values) -> Iterator[Sample]:
    whole = values.dtype.category <= Category.INTEGER
    low, high = (1, 2) if whole else (-1.0, 1.5)
    yield Sample("numbers", (values(7), low, high))
    yield Sample("zero-dim", (values(), low, high))
    yield Sample("empty", (values(0), low, high))
    yield Sample("crossed", (values(7), high, low))
    yield Sample("tensors", (values(4, 3), values(3), values(4, 1)))
    for layout, array in layouts(values):
        yield Sample(layout, (array, low, high))


@special("cast")
def _cast(op: Op, values: Values) -> Iterator[Sample]:
    for target in dtypes.ALL:
        if target.is_complex:
            continue
        smooth = target in (dtypes.float32, dtypes.float64) and values.dtype.is_floating_point
        # A derivative in float64 cannot be seen through a rounding to float32.
        smooth = smooth and target is dtypes.float64
        yield Sample(f"to {target.name}", (values(7),), {"dtype": target}, smooth)
    yield Sample("zero-dim", (values(),), {"dtype": dtypes.float64})
    yield Sample("empty", (values(0, 2),), {"dtype": dtypes.float64})
    for layout, array in layouts(values):
        yield Sample(layout, (array,), {"dtype": dtypes.float64})


@special("full")
def _full(op: Op, values: Values) -> Iterator[Sample]:
    for shape in ((), (3,), (2, 3), (0, 2)):
        attributes = {"shape": shape, "dtype": values.dtype}
        yield Sample(f"shape={shape}", (values.number(),), attributes)
    yield Sample("zero-dim tensor", (values(),), {"shape": (2, 2), "dtype": values.dtype})


@special("arange")
def _arange(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("count", (0, 1), {"size": 6, "dtype": values.dtype})
    yield Sample("empty", (0, 1), {"size": 0, "dtype": values.dtype})
    yield Sample("even", (2, 2), {"size": 5, "dtype": values.dtype})
    if values.dtype.is_signed:
        yield Sample("down", (3, -2), {"size": 5, "dtype": values.dtype})
    if values.dtype.is_floating_point:
        yield Sample("fraction", (0.1, 0.3), {"size": 50, "dtype": values.dtype})


@special("integer")
def _integer(op: Op, values: Values) -> Iterator[Sample]:
    for value in (0, 5, 1 << 40):
        yield Sample(f"value={value}", (), {"value": value})


# ---------------------------------------------------------------------------------------------
# movement rows


def _each_layout(values: Values, *cases: dict[str, Any]) -> Iterator[Sample]:
    """Every layout of a (4, 3) array under every set of attributes."""
    for attributes in cases:
        for layout, array in layouts(values):
            yield Sample(f"{layout} {attributes}", (array,), attributes)


@special("reshape")
def _reshape(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(
        values, {"shape": (12,)}, {"shape": (3, 4)}, {"shape": (2, 1, 6)}, {"shape": (4, 3, 1)}
    )
    yield Sample("to zero-dim", (values(1, 1),), {"shape": ()})
    yield Sample("from zero-dim", (values(),), {"shape": (1, 1)})
    yield Sample("empty", (values(0, 3),), {"shape": (2, 0)})
    yield Sample("groups", (values(2, 6, 5),), {"shape": (2, 2, 3, 5)})
    yield Sample("merge", (values(2, 3, 4),), {"shape": (6, 4)})


@special("permute")
def _permute(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"dims": (1, 0)}, {"dims": (0, 1)})
    yield Sample("rank 3", (values(2, 3, 4),), {"dims": (2, 0, 1)})
    yield Sample("zero-dim", (values(),), {"dims": ()})
    yield Sample("empty", (values(0, 3),), {"dims": (1, 0)})


@special("laid_out")
def _laid_out(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"order": (1, 0)}, {"order": (0, 1)})
    yield Sample("rank 3", (values(2, 3, 4),), {"order": (2, 0, 1)})
    yield Sample("zero-dim", (values(),), {"order": ()})
    yield Sample("empty", (values(0, 3),), {"order": (1, 0)})


@special("shared_by_equals")
def _shared_by_equals(op: Op, values: Values) -> Iterator[Sample]:
    """The value is no function of x here, so that its derivative is none of differences."""
    x = values(2, 3)
    yield Sample("an element", (np.array(x[0, 1]), x), differentiable=False)
    yield Sample("the only one", (np.array(x[1, 1]), x[1:, 1:2]), differentiable=False)


@special("expand")
def _expand(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("leading", (values(3),), {"shape": (2, 3)})
    yield Sample("ones", (values(2, 1),), {"shape": (2, 5)})
    yield Sample("both", (values(1, 3, 1),), {"shape": (2, 4, 3, 2)})
    yield Sample("zero-dim", (values(),), {"shape": (2, 3)})
    yield Sample("same", (values(2, 3),), {"shape": (2, 3)})
    yield Sample("to empty", (values(1, 3),), {"shape": (0, 3)})


SLICES: tuple[dict[str, Any], ...] = (
    {"start": (1, 0), "stop": (3, 3), "step": (1, 1)},
    {"start": (0, 0), "stop": (4, 3), "step": (2, 2)},
    {"start": (1, 1), "stop": (4, 2), "step": (2, 1)},
    {"start": (2, 0), "stop": (2, 3), "step": (1, 1)},
)


@special("slice")
def _slice(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, *SLICES)


@special("slice_scatter")
def _slice_scatter(op: Op, values: Values) -> Iterator[Sample]:
    for attributes in SLICES:
        starts, stops, steps = attributes["start"], attributes["stop"], attributes["step"]
        shape = [len(range(*piece)) for piece in zip(starts, stops, steps, strict=True)]
        for layout, array in layouts(values):
            yield Sample(f"{layout} {attributes}", (array, values(*shape)), attributes)


@special("select")
def _select(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"dim": 0, "index": 2}, {"dim": 1, "index": 0})
    yield Sample("to zero-dim", (values(3),), {"dim": 0, "index": 1})


@special("pad")
def _pad(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(
        values,
        {"before": (1, 0), "after": (0, 2), "value": 0},
        {"before": (0, 2), "after": (1, 1), "value": 1},
    )
    yield Sample("empty", (values(0, 2),), {"before": (1, 0), "after": (1, 0), "value": 0})


@special("flip")
def _flip(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"dims": (0,)}, {"dims": (1,)}, {"dims": (0, 1)}, {"dims": ()})


@special("cat", "stack")
def _cat(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("one", (values(3),), {"dim": 0})
    yield Sample("rows", (values(4, 3), values(4, 3), values(4, 3)), {"dim": 0})
    yield Sample("columns", (values(4, 3), values(3, 4).T), {"dim": 1})
    if op.name == "stack":
        yield Sample("new last", (values(4, 3), values(4, 3)), {"dim": 2})
        yield Sample("zero-dim", (values(), values()), {"dim": 0})
    else:
        yield Sample("uneven", (values(2, 3), values(1, 3), values(4, 3)), {"dim": 0})
        yield Sample("with empty", (values(2, 3), values(0, 3)), {"dim": 0})


@special("detach", "clone", "read_again", "to_device")
def _copies(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {})
    yield Sample("zero-dim", (values(),))
    yield Sample("empty", (values(0, 2),))


@special("overwrite", "overwrite_unrecorded")
def _overwrites(op: Op, values: Values) -> Iterator[Sample]:
    # The history of x is not how the elements depend on it.
    follows = op.name == "overwrite"
    for layout, array in layouts(values):
        sample = (array, values(*array.shape))
        yield Sample(layout, sample, {}, differentiable=follows)
    yield Sample("zero-dim", (values(), values()), {}, differentiable=follows)


@special("gradient_sink")
def _sinks(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        yield Sample(layout, (array,), {}, differentiable=False)
    yield Sample("zero-dim", (values(),), {}, differentiable=False)


@special("with_derivative", "with_derivative_of_result")
def _with_derivatives(op: Op, values: Values) -> Iterator[Sample]:
    # The derivative is not that of the value: tests/capture/test_written_derivatives.py has it.
    attributes = {"derivative": _no_derivative}
    for layout, array in layouts(values):
        sample = (array, values(2), values(2, 3))
        yield Sample(layout, sample, attributes, differentiable=False)
    yield Sample("alone", (values(3),), attributes, differentiable=False)


def _no_derivative(g: Any, out: Any, operands: Any) -> list[None]:
    return [None for _ in operands]


@special("tril", "triu")
def _triangles(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"diagonal": 0}, {"diagonal": 1}, {"diagonal": -2})
    yield Sample("batch", (values(2, 3, 3),))


@special("diagonal")
def _diagonal(op: Op, values: Values) -> Iterator[Sample]:
    base = {"dim1": 0, "dim2": 1}
    yield from _each_layout(values, {**base, "offset": 0}, {**base, "offset": 1})
    yield from _each_layout(values, {**base, "offset": -2})
    yield Sample("batch", (values(2, 3, 4),), {"offset": 1, "dim1": 2, "dim2": 0})
    for offset in (-9, -3, 9):
        yield Sample(f"empty, {offset}", (values(2, 3),), {**base, "offset": offset})


@special("unfold")
def _unfold(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"dim": 0, "size": 2, "step": 1})
    yield from _each_layout(values, {"dim": 1, "size": 2, "step": 2})


# ---------------------------------------------------------------------------------------------
# rows with integer index tensors


@special("index_select")
def _index_select(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        yield Sample(layout, (array, values.integers(4, 6)), {"dim": 0})
        yield Sample(f"{layout} dim 1", (array, values.integers(3, 2)), {"dim": 1})
    yield Sample("no index", (values(4, 3), values.integers(4, 0)), {"dim": 0})


@special("index_add")
def _index_add(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        yield Sample(layout, (array, values.integers(4, 6), values(6, 3)), {"dim": 0})
        yield Sample(f"{layout} dim 1", (array, values.integers(3, 2), values(4, 2)), {"dim": 1})


@special("sparse_product")
def _sparse_product(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        places = (values.integers(5, 6), values.integers(4, 6))
        yield Sample(layout, (*places, values(6), array), {"count": 5})
    nothing = (values.integers(5, 0), values.integers(4, 0), values(0))
    yield Sample("no positions", (*nothing, values(4, 3)), {"count": 5})


@special("gather")
def _gather(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        yield Sample(layout, (array, values.integers(4, 2, 3)), {"dim": 0})
        yield Sample(f"{layout} dim 1", (array, values.integers(3, 4, 5)), {"dim": 1})


@special("scatter_add")
def _scatter_add(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        yield Sample(layout, (array, values.integers(4, 2, 3), values(2, 3)), {"dim": 0})
        yield Sample(f"{layout} dim 1", (array, values.integers(3, 4, 2), values(4, 2)), {"dim": 1})


@special("scatter")
def _scatter(op: Op, values: Values) -> Iterator[Sample]:
    order = np.array([[2, 0, 1], [0, 1, 2]])
    for layout, array in layouts(values):
        yield Sample(layout, (array, order, values(2, 3)), {"dim": 1})


@special("index")
def _index(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        one, two = values.integers(4, 1, 5), values.integers(3, 2, 2, 2)
        yield Sample(f"{layout} rows", (array, one), {"dims": (0,)})
        yield Sample(f"{layout} both", (array, two - 3), {"dims": (0, 1)})
        yield Sample(f"{layout} columns", (array, two[:1]), {"dims": (1,)})


@special("index_put", "index_accumulate")
def _index_put(op: Op, values: Values) -> Iterator[Sample]:
    for layout, array in layouts(values):
        rows = np.array([[3, 0]])
        pairs = np.array([[3, 0, 1], [-1, 0, 2]])
        yield Sample(f"{layout} rows", (array, rows, values(2, 3)), {"dims": (0,)})
        yield Sample(f"{layout} both", (array, pairs, values(3)), {"dims": (0, 1)})
    if op.name == "index_accumulate":
        twice = np.array([[1, 1, 1, 2]])
        yield Sample("repeated", (values(4, 3), twice, values(4, 3)), {"dims": (0,)})


# ---------------------------------------------------------------------------------------------
# products and scans


@special("conj", "conj_view", "neg_view", "sgn", "angle", "real", "imag", "view_as_real")
def _complex_numbers(op: Op, values: Values) -> Iterator[Sample]:
    for name, x in layouts(values):
        yield Sample(name, (x,), op.bind({}))
    yield Sample("zero-dim", (values(),), op.bind({}))


@special("complex")
def _complex_parts(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("equal shapes", (values(2, 3), values(2, 3)), op.bind({}))
    yield Sample("broadcast", (values(2, 1), values(3)), op.bind({}))
    yield Sample("empty", (values(0, 3), values(3)), op.bind({}))


@special("view_as_complex")
def _complex_pairs(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("pairs", (values(3, 2),), op.bind({}))
    yield Sample("apart", (values(2, 3).T,), op.bind({}))
    yield Sample("one", (values(2),), op.bind({}))
    yield Sample("empty", (values(0, 2),), op.bind({}))


@special("fourier")
def _fourier(op: Op, values: Values) -> Iterator[Sample]:
    for norm in ("none", "ortho", "full"):
        yield Sample(norm, (values(3, 4),), op.bind({"dims": (1,), "inverse": False, "norm": norm}))
    yield Sample(
        "both", (values(3, 4).T,), op.bind({"dims": (0, 1), "inverse": True, "norm": "none"})
    )
    yield Sample("no dim", (values(3),), op.bind({"dims": (), "inverse": True, "norm": "none"}))
    yield Sample("empty", (values(0, 4),), op.bind({"dims": (1,), "inverse": True, "norm": "full"}))


@special("half_fourier")
def _half_fourier(op: Op, values: Values) -> Iterator[Sample]:
    for norm in ("none", "ortho", "full"):
        yield Sample(norm, (values(3, 4),), op.bind({"dim": 1, "norm": norm}))
    yield Sample("odd", (values(5, 3),), op.bind({"dim": 0, "norm": "none"}))
    yield Sample("transposed", (values(2, 3).T,), op.bind({"dim": 0, "norm": "none"}))
    yield Sample("one", (values(2, 1),), op.bind({"dim": 1, "norm": "none"}))
    yield Sample("empty", (values(0, 4),), op.bind({"dim": 1, "norm": "full"}))


@special("real_fourier")
def _real_fourier(op: Op, values: Values) -> Iterator[Sample]:
    for size in (4, 5):
        for norm in ("none", "ortho", "full"):
            attributes = op.bind({"dim": 1, "size": size, "norm": norm})
            yield Sample(f"{norm} {size}", (values(2, 3),), attributes)


@special("matmul")
def _matmul(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("matrices", (values(4, 3), values(3, 5)))
    yield Sample("batches", (values(2, 4, 3), values(2, 3, 5)))
    yield Sample("no rows", (values(0, 3), values(3, 5)))
    yield Sample("no sum", (values(2, 0), values(0, 3)))
    for layout, array in layouts(values):
        yield Sample(layout, (array, values(3, 2)))


@special("cumsum", "cumprod")
def _scan(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"dim": 0}, {"dim": 1})
    yield Sample("empty", (values(0, 2),), {"dim": 0})


@special("argsort")
def _sort(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"dim": 0}, {"dim": 1}, {"dim": 1, "descending": True})
    for descending in (False, True):
        way = {"dim": 1, "descending": descending}
        yield Sample("first", (values(3, 90, 2),), {**way, "stop": 4})
        yield Sample("one", (values(3, 90, 2),), {**way, "start": 50, "stop": 51})
        yield Sample("part", (values(2, 60),), {**way, "start": 20, "stop": 50})
        yield Sample("nothing", (values(2, 5),), {**way, "start": 3, "stop": 3})
    yield Sample("empty", (values(0, 3),), {"dim": 1, "stop": 2})


def _well_conditioned(values: Values, *shape: int) -> np.ndarray:
    """Square matrices whose eigenvalues are positive and apart."""
    x = values(*shape) * 0.1
    return (x + np.swapaxes(x, -1, -2) + np.diag(np.arange(1, shape[-1] + 1))).astype(x.dtype)


_OF_COMPLEX = ("inverse", "determinant", "cofactors", "matrix_exponential", "general_eigen")


@special(
    "cholesky", "inverse", "determinant", "cofactors", "determinant_sign", "log_determinant",
    "matrix_exponential", "symmetric_eigen", "general_eigen",
)  # fmt: skip
def _square_matrices(op: Op, values: Values) -> Iterator[Sample]:
    if values.dtype.is_floating_point or (values.dtype.is_complex and op.name in _OF_COMPLEX):
        # Two read one triangle, and vectors of another length or phase are eigenvectors, too.
        smooth = op.name not in ("cholesky", "symmetric_eigen", "general_eigen")
        yield Sample("matrix", (_well_conditioned(values, 3, 3),), {}, smooth)
        yield Sample("batch", (_well_conditioned(values, 2, 3, 3),), {}, smooth)
        yield Sample("turned", (_well_conditioned(values, 2, 2).T,), {}, smooth)
        yield Sample("nothing", (values(0, 2, 2),), {}, smooth)


@special("linear_solve", "triangular_solve")
def _systems(op: Op, values: Values) -> Iterator[Sample]:
    if not (values.dtype.is_floating_point or values.dtype.is_complex):
        return
    ways: list[dict[str, Any]] = [{}]
    if op.name == "triangular_solve":
        ways = [{"upper": u, "unit": n} for u in (False, True) for n in (False, True)]
    for way in ways:
        yield Sample("matrix", (_well_conditioned(values, 3, 3), values(3, 2)), way)
        yield Sample("broadcast", (_well_conditioned(values, 2, 3, 3), values(3, 1)), way)


@special("pseudo_inverse", "singular_values", "orthogonal_triangular", "pivoted_lu")
def _any_matrices(op: Op, values: Values) -> Iterator[Sample]:
    if not values.dtype.is_floating_point:
        return
    way = {"rtol": 0.0, "atol": 0.0} if op.name == "pseudo_inverse" else {}
    for shape in ((3, 3), (4, 3), (3, 4), (2, 3, 2)):
        square = np.eye(*shape[-2:], dtype=values.dtype.numpy) * np.arange(1, shape[-1] + 1)
        x = (values(*shape) * 0.2 + square).astype(values.dtype.numpy)
        yield Sample(f"{shape}", (x,), way)


@special("logcumsumexp")
def _log_scan(op: Op, values: Values) -> Iterator[Sample]:
    if values.dtype.is_floating_point:
        yield from _each_layout(values, {"dim": 0}, {"dim": 1}, {"dim": 1, "reverse": True})
        yield Sample("empty", (values(0, 2),), {"dim": 0})


@special("running_position")
def _running_position(op: Op, values: Values) -> Iterator[Sample]:
    for largest in (False, True):
        yield from _each_layout(values, {"dim": 0, "largest": largest})
        yield Sample("long", (values(2, 37),), {"dim": 1, "largest": largest})
        yield Sample("empty", (values(0, 2),), {"dim": 0, "largest": largest})


@special("pivot_order")
def _pivot_order(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("one matrix", (np.array([2, 3, 3], np.int32),), {"rows": 4})
    yield Sample("batch", (np.array([[1, 2], [3, 3], [2, 4]], np.int32),), {"rows": 4})
    yield Sample("no matrices", (np.zeros((0, 2), np.int32),), {"rows": 3})


@special("searchsorted")
def _searchsorted(op: Op, values: Values) -> Iterator[Sample]:
    for right in (False, True):
        way = {"right": right}
        order = np.sort(values(7).astype(np.float64)).astype(values.dtype.numpy)
        rows = np.sort(values(2, 5).astype(np.float64), 1).astype(values.dtype.numpy)
        yield Sample("vector", (order, values(3, 4)), way)
        yield Sample("equal ones", (order, order[::-1]), way)
        yield Sample("rows", (rows, values(2, 4)), way)
        yield Sample("number", (order, values()), way)
        yield Sample("no numbers", (order[:0], values(3)), way)


@special("scatter_reduce")
def _scatter_reduce(op: Op, values: Values) -> Iterator[Sample]:
    for mode in ("prod", "amax", "amin"):
        way = {"dim": 0, "mode": mode}
        index = np.array([[0, 3, 1], [0, 2, 2], [1, 0, 0]])
        for layout, array in layouts(values):
            if array.ndim == 2:
                yield Sample(f"{layout} {mode}", (array, index, values(3, 3)), way)
        yield Sample("empty", (values(4, 3), np.zeros((0, 3), np.int64), values(0, 3)), way)


@special(
    "erfinv", "ndtri", "log_ndtr", "erfcx", "i0", "i0e", "i1", "i1e", "bessel_j0", "bessel_j1",
    "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "igamma", "igammac", "zeta", "gcd",
    "lcm", "nextafter",
)  # fmt: skip
def _elementwise_calls(op: Op, values: Values) -> Iterator[Sample]:
    yield from _pointwise(op, values)


# ---------------------------------------------------------------------------------------------
# windows, pools, convolutions


def _geometry(
    stride: Any = (1, 1), before: Any = (0, 0), after: Any = None, dilation: Any = (1, 1)
) -> dict[str, Any]:
    after = before if after is None else after
    return {"stride": stride, "before": before, "after": after, "dilation": dilation}


@special("windows", "sum_pool", "max_pool", "max_pool_choice")
def _windows(op: Op, values: Values) -> Iterator[Sample]:
    x = values(2, 5, 6)
    yield Sample("plain", (x,), {"size": (2, 3), **_geometry()})
    yield Sample("steps", (x,), {"size": (3, 2), **_geometry((2, 3), (1, 0), (1, 1), (1, 2))})
    yield Sample("cut off", (x,), {"size": (2, 2), **_geometry((2, 2), (0, 1), (-1, -2))})
    yield Sample("strided", (values(9, 12)[::2, ::-2],), {"size": (2, 2), **_geometry((2, 1))})
    one = _geometry((2,), (1,), (0,), (1,))
    yield Sample("one dim", (values(2, 3, 7),), {"size": (3,), **one})
    yield Sample("no batch", (values(0, 4, 4),), {"size": (2, 2), **_geometry()})


@special("spread_windows", "fold_windows")
def _folds(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("plain", (values(2, 4, 4, 2, 3),), {"shape": (5, 6), **_geometry()})
    steps = _geometry((2, 3), (1, 0), (1, 1), (1, 2))
    yield Sample("steps", (values(2, 3, 2, 3, 2),), {"shape": (5, 6), **steps})
    cut_off = _geometry((2, 2), (0, 1), (-1, -2))
    yield Sample("cut off", (values(2, 2, 2, 2),), {"shape": (5, 6), **cut_off})
    turned = values(3, 2, 4, 4).transpose(3, 2, 0, 1)[:, ::2]
    yield Sample("strided", (turned,), {"shape": (6, 3), **_geometry((1, 1), (0, 0))})


@special("place_windows")
def _place(op: Op, values: Values) -> Iterator[Sample]:
    for geometry, counts in (
        (_geometry(), (4, 4)),
        (_geometry((2, 3), (1, 0), (1, 1), (2, 1)), (3, 2)),
    ):
        choice = values.integers(6, 2, *counts)
        attributes = {"shape": (5, 6), "size": (2, 3), **geometry}
        yield Sample("places", (values(2, *counts), choice), attributes)


@special("pick_windows")
def _pick(op: Op, values: Values) -> Iterator[Sample]:
    choice = values.integers(6, 2, 4, 4)
    yield Sample("plain", (values(2, 5, 6), choice), {"size": (2, 3), **_geometry()})
    steps = _geometry((2, 3), (1, 0), (1, 1), (2, 1))
    yield Sample("steps", (values(2, 5, 6), choice[:, :3, :2]), {"size": (2, 3), **steps})


_CONVOLUTIONS: tuple[tuple[str, Any, Any, dict[str, Any]], ...] = (
    ("plain", (2, 3, 4, 5), (2, 3, 2, 3), {**_geometry(), "groups": 1}),
    ("steps", (1, 2, 5, 6), (2, 2, 2, 2), {**_geometry((2, 1), (1, 1), (1, 0), (2, 1)),
                                           "groups": 1}),
    ("groups", (2, 4, 4, 4), (2, 2, 3, 3), {**_geometry((1, 2), (1, 1)), "groups": 2}),
    ("lanes", (2, 2, 4, 4), (4, 1, 3, 2), {**_geometry((1, 1), (1, 0)), "groups": 2}),
    ("pointwise", (2, 3, 2, 2), (4, 3, 1, 1), {**_geometry(), "groups": 1}),
    ("cut off", (1, 2, 5), (2, 2, 2), {**_geometry((2,), (0,), (-1,), (1,)), "groups": 1}),
    ("three dims", (1, 1, 3, 3, 2), (2, 1, 2, 2, 2),
     {**_geometry((1, 2, 1), (0, 1, 0), (0, 1, 0), (1, 1, 1)), "groups": 1}),
)  # fmt: skip


@special("convolution")
def _convolution(op: Op, values: Values) -> Iterator[Sample]:
    for name, x, weight, attributes in _CONVOLUTIONS:
        bias = values(weight[0]) if name in ("plain", "lanes") else None
        yield Sample(name, (values(*x), values(*weight), bias), attributes)
    turned = values(5, 4, 3, 2).T
    yield Sample("strided", (turned, values(2, 3, 4, 3)[:, :, ::2], None), _CONVOLUTIONS[0][3])
    yield Sample("no batch", (values(0, 3, 4, 5), values(2, 3, 2, 3), None), _CONVOLUTIONS[0][3])


@special("convolution_input", "convolution_weight")
def _transposes(op: Op, values: Values) -> Iterator[Sample]:
    for name, x, weight, attributes in _CONVOLUTIONS:
        types = [TensorType(shape, dtypes.float32) for shape in (x, weight)]
        y = values(*TABLE.convolution.infer(*types, None, **attributes).shape)
        if op.name == "convolution_input":
            yield Sample(name, (y, values(*weight)), {"shape": x[2:], **attributes})
        else:
            yield Sample(name, (y, values(*x)), {"size": weight[2:], **attributes})


# ---------------------------------------------------------------------------------------------
# composites


@special("mean", "logsumexp")
def _floating_reduction(op: Op, values: Values) -> Iterator[Sample]:
    yield from (s for s in _reduction(op, values) if s.name != "nothing to reduce")


@special("euclidean_norm")
def _norm(op: Op, values: Values) -> Iterator[Sample]:
    yield from (s for s in _reduction(op, values) if s.name != "nothing to reduce")


@special("var", "std")
def _var(op: Op, values: Values) -> Iterator[Sample]:
    for correction in (0, 1):
        for dim in ((0,), (1,), (0, 2), (0, 1, 2)):
            attributes = {"dim": dim, "keepdim": correction == 0, "correction": correction}
            yield Sample(f"dim={dim} correction={correction}", (values(2, 3, 4),), attributes)


@special("softmax", "log_softmax")
def _softmax(op: Op, values: Values) -> Iterator[Sample]:
    yield from _each_layout(values, {"dim": 0}, {"dim": 1})
    yield Sample("empty", (values(0, 2),), {"dim": 1})


@special("layer_norm")
def _layer_norm(op: Op, values: Values) -> Iterator[Sample]:
    last = {"normalized_shape": (4,)}
    yield Sample("all", (values(3, 4), values(4), values(4)), last)
    yield Sample("no bias", (values(3, 4), values(4), None), last)
    yield Sample("bare", (values(2, 3, 4), None, None), {"normalized_shape": (3, 4)})
    yield Sample("transposed", (values(4, 3).T, values(4), values(4)), last)


@special("batch_norm")
def _batch_norm(op: Op, values: Values) -> Iterator[Sample]:
    eps = {"eps": 1e-3}
    yield Sample("all", (values(4, 3, 2, 2), values(3), values(3)), eps)
    yield Sample("no bias", (values(5, 3), values(3), None), eps)
    yield Sample("bare", (values(2, 3, 4), None, None), eps)
    yield Sample("transposed", (values(4, 3, 5).T, values(3), values(3)), eps)


@special("channel_sum")
def _channel_sum(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("images", (values(4, 3, 2, 2),))
    yield Sample("vectors", (values(5, 3),))
    yield Sample("long lines", (values(2, 3, 300),))
    yield Sample("transposed", (values(4, 3, 5).T,))


@special("channel_squares")
def _channel_squares(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("images", (values(4, 3, 2, 2), values(3)))
    yield Sample("vectors", (values(5, 3), values(3)))
    yield Sample("long lines", (values(2, 3, 300), values(3)))
    yield Sample("transposed", (values(4, 3, 5).T, values(3)))


@special("rms_norm")
def _rms_norm(op: Op, values: Values) -> Iterator[Sample]:
    last = {"normalized_shape": (4,), "eps": 1e-5}
    yield Sample("weight", (values(3, 4), values(4)), last)
    yield Sample("bare", (values(2, 3, 4), None), last)


@special("linear")
def _linear(op: Op, values: Values) -> Iterator[Sample]:
    yield Sample("bias", (values(4, 3), values(5, 3), values(5)))
    yield Sample("no bias", (values(4, 3), values(5, 3), None))
    yield Sample("batch", (values(2, 4, 3), values(5, 3), values(5)))
    yield Sample("vector", (values(3), values(5, 3), values(5)))


@special("embedding", "embedding_by_frequency")
def _embedding(op: Op, values: Values) -> Iterator[Sample]:
    # What a frequency divides is no derivative, which finite differences would find.
    true = op.name == "embedding"
    yield Sample("matrix", (values(7, 3), values.integers(7, 2, 4)), differentiable=true)
    yield Sample("zero-dim", (values(7, 3), values.integers(7)))
    # PyTorch gives the padding row no gradient, which finite differences do not know.
    padding = {"padding_idx": 1}
    yield Sample("padding", (values(7, 3), values.integers(7, 5)), padding, False)


@special("dropout")
def _dropout(op: Op, values: Values) -> Iterator[Sample]:
    for p in (0.0, 0.25, 0.9):
        yield Sample(f"p={p}", (values(4, 3), 99, 5), {"p": p, "shift": 2})


@special("scaled_dot_product_attention")
def _attention(op: Op, values: Values) -> Iterator[Sample]:
    q, k, v = values(2, 2, 4, 3), values(2, 2, 5, 3), values(2, 2, 5, 6)
    yield Sample("plain", (q, k, v, None, 0, 0))
    yield Sample("scale", (q, k, v, None, 0, 0), {"scale": 0.7})
    yield Sample("causal", (q, k, v, None, 0, 0), {"is_causal": True})
    mask = values.mask(4, 5) | np.eye(4, 5, dtype=bool)
    yield Sample("bool mask", (q, k, v, mask, 0, 0))
    yield Sample("additive mask", (q, k, v, values(4, 5), 0, 0))
    yield Sample("dropout", (q, k, v, None, 3, 4), {"dropout_p": 0.3})


def _attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, *,
    is_causal: bool = False, scale: float | None = None, dropout_p: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The result of attention without dropout, and its level."""
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(-1, -2)
    scores *= q.shape[-1] ** -0.5 if scale is None else scale
    if is_causal:
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None and mask.dtype == bool:
        scores = np.where(mask, scores, -np.inf)
    elif mask is not None:
        scores = scores + mask.astype(np.float64)
    level = np.logaddexp.reduce(scores, axis=-1)
    out = np.exp(scores - level[..., None]) @ wide[2]
    return out.astype(v.dtype), level.astype(q.dtype)


@special("attention_level")
def _attention_level(op: Op, values: Values) -> Iterator[Sample]:
    for sample in _attention(op, values):
        yield dataclasses.replace(sample, constants=("value",))  # it is read for its shape only


@special(
    "attention_query_gradient", "attention_key_gradient", "attention_value_gradient",
    "attention_mask_gradient",
)  # fmt: skip
def _attention_gradients(op: Op, values: Values) -> Iterator[Sample]:
    for sample in _attention(op, values):
        q, k, v, mask, seed, offset = sample.inputs
        # What the rows expand to does not read `out` and `level`; kernels do.
        g, (out, level) = values(2, 2, 4, 6), _attended(q, k, v, mask, **sample.attributes)
        operands = (g, q, k, v, mask, out, level, seed, offset)
        unread = ("out", "level", *(["value"] if op.name == "attention_value_gradient" else []))
        yield Sample(sample.name, operands, sample.attributes, constants=unread)


@special("recurrent_states")
def _recurrent(op: Op, values: Values) -> Iterator[Sample]:
    def draw(*shape: int) -> np.ndarray:
        return values(*shape) * np.asarray(0.4, values.dtype.numpy)

    sizes = {"LSTM": 8, "GRU": 6, "RNN_TANH": 2, "RNN_RELU": 2}
    for mode, width in sizes.items():
        for packed in (None, (3, 2, 2)):
            for is_reversed in (False, True):
                rows = (3, 3) if packed is None else (7,)
                extra = {"LSTM": [draw(3, 2)], "GRU": [draw(2)]}.get(mode, [])
                operands = (draw(*rows, width), draw(width, 2), draw(3, 2), *extra)
                attributes = {"mode": mode, "batch_sizes": packed, "is_reversed": is_reversed}
                yield Sample(f"{mode} {packed} {is_reversed}", operands, attributes)
    projected = (draw(2, 3, 8), draw(8, 1), draw(3, 1), draw(3, 2), draw(1, 2))
    yield Sample("projection", projected, {"mode": "LSTM"})
    one_step = (draw(1, 3, 6), draw(6, 2), draw(3, 2), draw(2))
    yield Sample("one step", one_step, {"mode": "GRU"})
    if op.name == "recurrent_states":  # what is kept has no derivative
        keeping = (draw(3, 3, 8), draw(8, 2), draw(3, 2), draw(3, 2))
        yield Sample("keeping LSTM", keeping, {"mode": "LSTM", "keeps": True}, False)
        yield Sample("keeping GRU", one_step, {"mode": "GRU", "keeps": True}, False)


@special("recurrent_slopes")
def _recurrent_slopes(op: Op, values: Values) -> Iterator[Sample]:
    for sample in _recurrent(op, values):
        gates, _, hidden, *others = sample.inputs
        width = hidden.shape[-1]
        if sample.attributes["mode"] == "LSTM":
            width += others[0].shape[-1]
        states = (values(*gates.shape[:-1], width), values(*gates.shape[:-1], width))
        # Those of a plain RNN need the gates for their shape only, those of one step no states.
        reads_all = gates.shape[0] > 1 and not sample.attributes["mode"].startswith("RNN")
        yield Sample(sample.name, (*states, *sample.inputs), sample.attributes, reads_all)
    g, kept, weight, hidden = values(3, 3, 4), values(3, 3, 12), values(8, 2), values(3, 2)
    yield Sample("kept LSTM", (g, kept, weight, hidden, hidden), {"mode": "LSTM", "keeps": True})


@special("nll_loss", "cross_entropy")
def _class_loss(op: Op, values: Values) -> Iterator[Sample]:
    x, target = values(5, 4), values.integers(4, 5)
    weight = np.abs(values(4))
    for reduction in ("mean", "sum", "none"):
        yield Sample(reduction, (x, target, None), {"reduction": reduction})
        yield Sample(
            f"{reduction} weight",
            (x, target, weight),
            {"reduction": reduction},
            constants=("weight",),
        )
    ignored = np.where(np.arange(5) == 2, 1, target)
    yield Sample("ignore", (x, ignored, None), {"ignore_index": 1})
    if op.name == "cross_entropy":
        yield Sample("smoothing", (x, target, None), {"label_smoothing": 0.1})


@special("soft_cross_entropy")
def _soft_loss(op: Op, values: Values) -> Iterator[Sample]:
    x, target = values(5, 4), np.abs(values(5, 4))
    for reduction in ("mean", "sum", "none"):
        yield Sample(reduction, (x, target, None), {"reduction": reduction})
    yield Sample("smoothing", (x, target, None), {"label_smoothing": 0.1})


@special("mse_loss", "l1_loss")
def _elementwise_loss(op: Op, values: Values) -> Iterator[Sample]:
    for reduction in ("mean", "sum", "none"):
        yield Sample(reduction, (values(4, 3), values(4, 3)), {"reduction": reduction})


def all_rows() -> list[Op]:
    """Every row of the table, by name."""
    return sorted(TABLE, key=lambda op: op.name)
