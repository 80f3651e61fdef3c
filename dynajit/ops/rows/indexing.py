"""Rows that read or write at indices held in integer tensors: gathers and scatters.

Contract: `gather`, `index_select`, `scatter`, `scatter_add` and `index_add` refuse negative
indices, `index`, `index_put` and `index_accumulate` count them from the end, as in PyTorch. Every
out-of-range index raises BoundsError with its value. Where several writes meet, `scatter` and
`index_put` keep the last in row-major order; adding is in row-major order, too.

`index` takes all index tensors of `x[i, j]` stacked in one input of shape (k, *batch), one layer
per entry of `dims`; `ops.functions.arrangement.subscript` builds it. Gathers and scatters are each
other's derivative.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.errors import (
    BoundsError,
    BoundsRuntimeError,
    DTypeError,
    DTypeIndexError,
    ShapeError,
    ShapeIndexError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import agree, fits_within, shapes_agree
from dynajit.core.types.value_types import Shape, TensorType, ValueType
from dynajit.ops.native import _native_places
from dynajit.ops.rows.scatter_forms import rows_added
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import common_device, describe, movement, require_tensor, scatter
from dynajit.ops.table.op_table import Autocast, Indices
from dynajit.ops.table.scalar import NumpyScalars


def _check(name: str, labels: Sequence[str], types: Sequence[ValueType]) -> TensorType:
    """The type of input 0, after checks that all inputs share: tensors, an integer index, one
    device, and a source of the dtype of x."""
    call = describe(name, labels, types)
    tensors = [require_tensor(t, call, label) for label, t in zip(labels, types, strict=True)]
    common_device(tensors, call)
    index = tensors[1].dtype
    if index.category is not Category.INTEGER:
        raise (DTypeIndexError if name.startswith("index") else DTypeError)(
            f"{call}: the index is {index.name}.  Expected an integer dtype; cast it with .long()."
        )
    if len(tensors) > 2 and tensors[2].dtype is not tensors[0].dtype:
        raise DTypeError(
            f"{call}: expected self.dtype to be equal to src.dtype; cast one of them with "
            ".to(dtype)."
        )
    return tensors[0]


def _zeros(ops: Any, type: TensorType, dtype: DType, device: Any) -> Any:
    return ops.full(0, shape=type.shape, dtype=dtype, device=device)


def _checked(index: Any, size: int, wrap: bool) -> Any:
    """NumPy indices in [0, size)."""
    return NumpyScalars.as_index(index, size, wrap)


def _checked_along(
    name: str, x: Any, index: Any, dim: int, error: type[BoundsError] = BoundsError
) -> Any:
    """NumPy indices in [0, size of `dim`), which are not negative.

    Args:
        name: of the row.
        error: what an entry that is out of range raises, with words for tensor and index.
    """
    try:
        return _checked(index, x.shape[dim], False)
    except BoundsError as found:
        words = str(found)  # the new error has no context: this one is not handled any more
    call = f"{name}(x: {_in_words(x)}, index: {_in_words(index)}, dim={dim})"
    raise error(f"{call}: {words}")


def _in_words(array: Any) -> str:
    return str(TensorType(tuple(array.shape), dtypes.from_numpy(array.dtype)))


def _set_at(xp: Any, target: Any, key: tuple[Any, ...], values: Any) -> None:
    if xp is np:
        target[key] = values
    else:
        xp.set_at(target, key, values)


# ---------------------------------------------------------------------------------------------
# index_select and index_add


def _index_select_infer(x: ValueType, index: ValueType, *, dim: int) -> TensorType:
    type = _check("index_select", ("x", "index"), (x, index))
    if len(index.shape) != 1:
        raise ShapeIndexError(f"index_select(x: {x}, index: {index}): expected a 1-d index.")
    return type.with_shape((*type.shape[:dim], index.shape[0], *type.shape[dim + 1 :]))


@movement(
    infer=_index_select_infer,
    array=lambda xp, x, index, *, dim: xp.take(
        x, _checked_along("index_select", x, index, dim), axis=dim
    ),
    vjp={
        "x": lambda ops, g, x_type, index, dim: ops.index_add(
            _zeros(ops, x_type, g.dtype, g.device), index, g, dim=dim
        )
    },
    indices=Indices.ALONG,
    samples=sample_rules.chosen_along,
)
def index_select(m: Any, load: Any, index: Any, types: Any, *, dim: int) -> Any:
    """Slices of x along `dim` at the positions in the 1-d integer tensor `index`."""
    chosen = m.as_index(load(1, (index[dim],)), types[0].shape[dim], wrap=False)
    return load(0, (*index[:dim], chosen, *index[dim + 1 :]))


def _index_add_infer(x: ValueType, index: ValueType, source: ValueType, *, dim: int) -> TensorType:
    type = _check("index_add", ("x", "index", "source"), (x, index, source))
    expected = (*type.shape[:dim], *index.shape, *type.shape[dim + 1 :])
    if len(index.shape) != 1 or not shapes_agree(source.shape, expected):
        call = describe("index_add", ("x", "index", "source"), (x, index, source))
        raise ShapeError(f"{call}: expected a 1-d index and a source {list(expected)}.")
    return type.with_shape(type.shape)


def _index_add_array(xp: Any, x: Any, index: Any, source: Any, *, dim: int) -> Any:
    if xp is np:
        rows = np.array(np.moveaxis(x, dim, 0), order="C")
        if rows_added(rows, index, np.moveaxis(source, dim, 0)):
            return np.ascontiguousarray(np.moveaxis(rows, 0, dim))
    result = xp.array(x)
    positions = _checked_along("index_add", x, index, dim, BoundsRuntimeError)
    xp.add.at(result, (slice(None),) * dim + (positions,), source)
    return result


@scatter(
    infer=_index_add_infer,
    array=_index_add_array,
    domain=lambda types, **attributes: types[2].shape,
    mode="add",
    vjp={
        "x": lambda g: g,
        "source": lambda ops, g, index, dim: ops.index_select(g, index, dim=dim),
    },
    indices=Indices.ALONG,
    samples=sample_rules.added_along,
)
def index_add(m: Any, load: Any, index: Any, types: Any, *, dim: int) -> Any:
    """x plus the slices of `source` added along `dim` at the positions in 1-d `index`."""
    target = m.as_index(load(1, (index[dim],)), types[0].shape[dim], wrap=False)
    return (*index[:dim], target, *index[dim + 1 :]), load(2, index)


# ---------------------------------------------------------------------------------------------
# gather, scatter, scatter_add


def _gather_shape(name: str, x: TensorType, index: ValueType, dim: int) -> Shape:
    fits = len(index.shape) == x.rank and all(
        d == dim or fits_within(size, x.shape[d])
        for d, size in enumerate(index.shape)
    )  # fmt: skip
    if not fits:
        raise ShapeError(
            f"{name}(x: {x}, index: {index}, dim={dim}): the index must have the rank of x and "
            f"be no larger than x apart from dimension {dim}."
        )
    return index.shape


def _gather_infer(x: ValueType, index: ValueType, *, dim: int) -> TensorType:
    type = _check("gather", ("x", "index"), (x, index))
    return type.with_shape(_gather_shape("gather", type, index, dim))


def places_along(name: str, xp: Any, x: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """NumPy index tuple that addresses, for each entry of `index`, its element of x.

    Args:
        name: of the row, for errors.

    Raises:
        BoundsRuntimeError: an entry is out of range.
    """
    behind = range(index.ndim - 1, -1, -1)
    return tuple(
        _checked_along(name, x, index, dim, BoundsRuntimeError)
        if d == dim
        else xp.arange(size).reshape(size, *(1,) * others)
        for d, (size, others) in enumerate(zip(index.shape, behind, strict=True))
    )


def _zero_dim(function: Any) -> Any:
    """Let an array function on (x, index, ...) treat zero-dim operands as one-element vectors."""

    def array(xp: Any, x: Any, *others: Any, dim: int) -> Any:
        if x.ndim:
            return function(xp, x, *others, dim=dim)
        return function(xp, x[None], *(o[None] for o in others), dim=0).reshape(())

    return array


def _gather_array(xp: Any, x: Any, index: Any, *, dim: int) -> Any:
    array = _zero_dim(lambda xp, x, index, *, dim: x[places_along("gather", xp, x, index, dim)])
    return array(xp, x, index, dim=dim)


@movement(
    infer=_gather_infer,
    array=_gather_array,
    vjp={
        "x": lambda ops, g, x_type, index, dim: ops.scatter_add(
            _zeros(ops, x_type, g.dtype, g.device), index, g, dim=dim
        )
    },
    native=_native_places.gather,
    indices=Indices.EACH,
    samples=sample_rules.along("dim"),
)
def gather(m: Any, load: Any, index: Any, types: Any, *, dim: int) -> Any:
    """`out[i][j] = x[index[i][j]][j]` for dim 0, and so on; the result has the index's shape."""
    if not index:
        m.as_index(load(1, ()), 1, wrap=False)
        return load(0, ())
    chosen = m.as_index(load(1, index), types[0].shape[dim], wrap=False)
    return load(0, (*index[:dim], chosen, *index[dim + 1 :]))


def _scatter_infer(x: ValueType, index: ValueType, source: ValueType, *, dim: int) -> TensorType:
    type = _check("scatter", ("x", "index", "source"), (x, index, source))
    _gather_shape("scatter", type, index, dim)
    if not shapes_agree(source.shape, index.shape):
        call = describe("scatter", ("x", "index", "source"), (x, index, source))
        raise ShapeError(f"{call}: expected a source of the index's shape.")
    return type.with_shape(type.shape)


def target_along(m: Any, load: Any, index: Any, types: Any, dim: int) -> tuple[Any, ...]:
    """Where an element of `source` goes in x: as `places_along`, for one entry of the index."""
    if not index:
        m.as_index(load(1, ()), 1, wrap=False)
        return ()
    chosen = m.as_index(load(1, index), types[0].shape[dim], wrap=False)
    return (*index[:dim], chosen, *index[dim + 1 :])


def _scatter_add_array(xp: Any, x: Any, index: Any, source: Any, *, dim: int) -> Any:
    def add(xp: Any, x: Any, index: Any, source: Any, *, dim: int) -> Any:
        result = xp.array(x)
        xp.add.at(result, places_along("scatter_add", xp, x, index, dim), source)
        return result

    return _zero_dim(add)(xp, x, index, source, dim=dim)


@scatter(
    infer=_scatter_infer,
    array=_scatter_add_array,
    domain=lambda types, **attributes: types[1].shape,
    mode="add",
    vjp={
        "x": lambda g: g,
        "source": lambda ops, g, index, dim: ops.gather(g, index, dim=dim),
    },
    native=_native_places.scatter_add,
    autocast=Autocast.WIDEST,
    indices=Indices.EACH,
    samples=sample_rules.along("dim"),
)
def scatter_add(m: Any, load: Any, index: Any, types: Any, *, dim: int) -> Any:
    """x with `x[index[i][j]][j] += source[i][j]` (dim 0), as a new value."""
    return target_along(m, load, index, types, dim), load(2, index)


def _scatter_array(xp: Any, x: Any, index: Any, source: Any, *, dim: int) -> Any:
    def put(xp: Any, x: Any, index: Any, source: Any, *, dim: int) -> Any:
        result = x.copy()
        _set_at(xp, result, places_along("scatter", xp, x, index, dim), source)
        return result

    return _zero_dim(put)(xp, x, index, source, dim=dim)


@scatter(
    infer=_scatter_infer,
    array=_scatter_array,
    domain=lambda types, **attributes: types[1].shape,
    mode="set",
    vjp={
        "x": lambda ops, g, index, source_type, dim: ops.scatter(
            g, index, _zeros(ops, source_type, g.dtype, g.device), dim=dim
        ),
        "source": lambda ops, g, index, dim: ops.gather(g, index, dim=dim),
    },
    name="scatter",
    native=_native_places.scatter,
    indices=Indices.EACH,
    takes=dtypes.STORED,
    samples=sample_rules.along("dim"),
)
def scatter_(m: Any, load: Any, index: Any, types: Any, *, dim: int) -> Any:
    """x with `x[index[i][j]][j] = source[i][j]` (dim 0), as a new value."""
    return target_along(m, load, index, types, dim), load(2, index)


# ---------------------------------------------------------------------------------------------
# index, index_put, index_accumulate: advanced indexing


def batch_position(dims: tuple[int, ...]) -> int:
    """Where the dims of the index tensors go: in place of the indexed dims if those are
    neighbours, else in front.

    Source: NumPy, "Combining advanced and basic indexing"; PyTorch does the same.
    """
    return dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0


def indexed_shape(shape: Shape, batch: Shape, dims: tuple[int, ...]) -> Shape:
    """Shape of `x[..., indices, ...]` for x of `shape` and index tensors of shape `batch`."""
    kept = tuple(size for d, size in enumerate(shape) if d not in dims)
    at = batch_position(dims)
    return (*kept[:at], *batch, *kept[at:])


def _index_infer(x: ValueType, indices: ValueType, *, dims: tuple[int, ...]) -> TensorType:
    type = _check("index", ("x", "indices"), (x, indices))
    if len(indices.shape) < 1 or not agree(indices.shape[0], len(dims)):
        call = describe("index", ("x", "indices"), (x, indices))
        raise ShapeError(f"{call}: expected indices of shape ({len(dims)}, ...) for dims {dims}.")
    return type.with_shape(indexed_shape(type.shape, indices.shape[1:], dims))


def _chosen(xp: Any, x: Any, indices: Any, *, dims: tuple[int, ...]) -> Any:
    """The array of `index`, row by row; NumPy has ways of its own."""
    found = x[_advanced(x, indices, dims)]
    if not found.flags.c_contiguous:
        return found.copy()
    return found.reshape(-1).reshape(found.shape) if 1 in found.shape else found


def _advanced(x: np.ndarray, indices: Any, dims: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * x.ndim
    for k, d in enumerate(dims):
        key[d] = _checked(indices[k], x.shape[d], True)
    return tuple(key)


@movement(
    infer=_index_infer,
    array=_chosen,
    vjp={
        "x": lambda ops, g, x_type, indices, dims: ops.index_accumulate(
            _zeros(ops, x_type, g.dtype, g.device), indices, g, dims=dims
        )
    },
    layout=result_layouts.chosen,
    indices=Indices.SEVERAL,
    samples=sample_rules.chosen,
    whole=lambda ops, x, indices, part, *, dims: ops.index_put(x, indices, part, dims=dims),
)
def index(m: Any, load: Any, index: Any, types: Any, *, dims: tuple[int, ...]) -> Any:
    """Advanced indexing: dimension `dims[k]` of x is read at `indices[k]`."""
    return load(0, _indexed_element(m, load, index, types, dims))


def _indexed_element(
    m: Any, load: Any, index: Any, types: Any, dims: tuple[int, ...]
) -> tuple[Any, ...]:
    """The element of x that belongs to `index` of `x[..., indices, ...]`."""
    at, batch = batch_position(dims), len(types[1].shape) - 1
    chosen = index[at : at + batch]
    rest = iter((*index[:at], *index[at + batch :]))
    shape = types[0].shape
    return tuple(
        m.as_index(load(1, (dims.index(d), *chosen)), size, wrap=True) if d in dims else next(rest)
        for d, size in enumerate(shape)
    )


def _index_put_infer(
    x: ValueType, indices: ValueType, source: ValueType, *, dims: tuple[int, ...]
) -> TensorType:
    type = _check("index_put", ("x", "indices", "source"), (x, indices, source))
    expected = indexed_shape(type.shape, indices.shape[1:], dims)
    if not shapes_agree(source.shape, expected):
        call = describe("index_put", ("x", "indices", "source"), (x, indices, source))
        raise ShapeError(f"{call}: expected a source {list(expected)}.")
    return type.with_shape(type.shape)


def _index_put_array(xp: Any, x: Any, indices: Any, source: Any, *, dims: tuple[int, ...]) -> Any:
    result = xp.array(x)
    _set_at(xp, result, _advanced(x, indices, dims), source)
    return result


@scatter(
    infer=_index_put_infer,
    array=_index_put_array,
    domain=lambda types, **attributes: types[2].shape,
    mode="set",
    vjp={
        "x": lambda ops, g, indices, source_type, dims: ops.index_put(
            g, indices, _zeros(ops, source_type, g.dtype, g.device), dims=dims
        ),
        "source": lambda ops, g, indices, dims: ops.index(g, indices, dims=dims),
    },
    layout=result_layouts.as_first,
    autocast=Autocast.WIDEST,
    indices=Indices.SEVERAL,
    takes=dtypes.STORED,
    samples=sample_rules.put,
)
def index_put(m: Any, load: Any, index: Any, types: Any, *, dims: tuple[int, ...]) -> Any:
    """x with `x[..., indices, ...] = source`, as a new value."""
    return _indexed_element(m, load, index, types, dims), load(2, index)


def _index_accumulate_array(
    xp: Any, x: Any, indices: Any, source: Any, *, dims: tuple[int, ...]
) -> Any:
    result = xp.array(x)
    xp.add.at(result, _advanced(x, indices, dims), source)
    return result


@scatter(
    infer=_index_put_infer,
    array=_index_accumulate_array,
    domain=lambda types, **attributes: types[2].shape,
    mode="add",
    vjp={
        "x": lambda g: g,
        "source": lambda ops, g, indices, dims: ops.index(g, indices, dims=dims),
    },
    layout=result_layouts.as_first,
    indices=Indices.SEVERAL,
    samples=sample_rules.put,
)
def index_accumulate(m: Any, load: Any, index: Any, types: Any, *, dims: tuple[int, ...]) -> Any:
    """x with `x[..., indices, ...] += source`, repeated indices included, as a new value."""
    return _indexed_element(m, load, index, types, dims), load(2, index)
