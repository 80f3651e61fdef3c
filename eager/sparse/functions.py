"""Functions of sparse tensors: `sparse_coo_tensor` and what `dynajit.sparse` publishes.

Contract: as `eager.sparse.sparse_tensor` says of the tensors. The classes by element type have no
instances of their own, as in `eager.tensor.legacy`.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import ArgumentError, BoundsRuntimeError, DeviceError, ShapeError
from dynajit.core.types.dtypes import DType, default_floating, int64
from dynajit.eager.sparse.positions import keys, keys_without, summed, zeros
from dynajit.eager.sparse.sparse_tensor import SparseTensor, made
from dynajit.eager.tensor.creation import as_tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.eager.tensor.typed_names import TYPE_NAMES
from dynajit.ops.calls.arguments import dim_of, dtype_of, require_tensor
from dynajit.ops.functions.arrangement.scatter import scatter_reduce
from dynajit.ops.functions.arrangement.search import unique
from dynajit.ops.functions.matrices import matrix as matrix_functions
from dynajit.ops.functions.reductions import reduction as reduction_functions
from dynajit.ops.table.op_table import TABLE


def sparse_coo_tensor(
    *given: Any,
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor: `sparse_coo_tensor(indices, values, size)`, or of zeros alone,
    `sparse_coo_tensor(size)`.

    Args:
        indices: positions, (sparse dims, n); a tensor, or data of one.
        values: (n, *dense sizes). Gradients flow to a tensor that requires them.
        size: of all dims; None: the smallest that has every position.
        dtype, device: of the values, None: theirs.
        pin_memory: refused, unless False.
        requires_grad: make a leaf, which is cut off from the history of `values`.
        check_invariants: has no effect: positions are always checked.
        is_coalesced: True: the positions are in order, each once.

    Raises:
        ShapeError: the sizes of indices, values and size do not fit.
        BoundsError: a position is negative, or beyond the size.
        ArgumentError: there are no values, or positions are not in order though `is_coalesced` says
            so.
        DeviceError: `pin_memory`.
    """
    named = {"indices": indices, "values": values, "size": size}
    names = ("size",) if len(given) == 1 and indices is None and values is None else tuple(named)
    named |= dict(zip(names, given, strict=False))
    if pin_memory:
        raise DeviceError("sparse_coo_tensor: sparse tensors are not pinned.  Drop pin_memory.")
    if named["indices"] is None and named["values"] is None and named["size"] is not None:
        return _of_zeros(named["size"], dtype or default_floating(), device, requires_grad)
    if named["indices"] is None or named["values"] is None or len(given) > len(names):
        raise ArgumentError(
            "sparse_coo_tensor: expected sparse_coo_tensor(indices, values, size=None), or "
            "sparse_coo_tensor(size)."
        )
    elements = as_tensor(named["values"], dtype, device)
    where = as_tensor(named["indices"], int64, elements.device)
    elements = elements.detach().requires_grad_() if requires_grad else elements.view_as(elements)
    sizes = _sizes(where, elements, named["size"])
    _check_bounds(where, sizes)
    is_sorted = bool(is_coalesced)
    if is_sorted and not _is_in_order(where, sizes):
        raise ArgumentError(
            "sparse_coo_tensor(is_coalesced=True): the positions are not in row-major order, each "
            "once.  Leave is_coalesced out, and call .coalesce()."
        )
    result: SparseTensor = made(SparseTensor, where.detach(), elements, sizes, is_sorted)
    return result


def _of_zeros(size: Sequence[int], dtype: DType, device: Any, requires_grad: bool) -> SparseTensor:
    place = as_tensor(0, device=device).device
    elements = zeros((0,), dtype, place).requires_grad_(requires_grad)
    where = zeros((len(size), 0), int64, place)
    result: SparseTensor = made(SparseTensor, where, elements, _checked_size(size), True)
    return result


def _checked_size(size: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in size)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"sparse_coo_tensor: a size of {sizes} is negative.  Expected 0 or more.")
    return sizes


def _sizes(where: Any, elements: Any, size: Sequence[int] | None) -> tuple[int, ...]:
    """The sizes of all dims, given or found."""
    if len(where.shape) != 2:
        raise ShapeError(
            f"indices must be sparse_dim x nnz, but got: {tuple(where.shape)}.  Expected one row "
            "per sparse dim, one column per value."
        )
    dims, count = where.shape
    if not elements.shape or elements.shape[0] != count:
        raise ShapeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, values of "
            f"size {tuple(elements.shape)}."
        )
    dense = tuple(elements.shape[1:])
    if size is None:
        if dims and not count:
            return (*([0] * dims), *dense)
        return (*(int(n) + 1 for n in where.amax(1).tolist()), *dense) if dims else dense
    sizes = _checked_size(size)
    if len(sizes) != dims + len(dense):
        raise ShapeError(
            f"number of dimensions must be sparse_dim ({dims}) + dense_dim ({len(dense)}), but got "
            f"size {sizes}."
        )
    if sizes[dims:] != dense:
        raise ShapeError(
            f"values has incorrect size, expected (nnz, *{sizes[dims:]}), got "
            f"{tuple(elements.shape)}."
        )
    return sizes


def _check_bounds(where: Any, sizes: Sequence[int]) -> None:
    dims, count = where.shape
    if not dims or not count:
        return
    lowest, highest = where.amin(1).tolist(), where.amax(1).tolist()
    for dim in range(dims):
        wrong = lowest[dim] if lowest[dim] < 0 else highest[dim]
        if not 0 <= wrong < sizes[dim]:
            raise BoundsRuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {sizes[dim]} but found "
                f"index {wrong}.  Expected indices of at least 0 and below the size."
            )


def _is_in_order(where: Any, sizes: Sequence[int]) -> bool:
    numbers = keys(where, sizes)
    return bool((numbers[1:] > numbers[:-1]).all())


# -- operations of `dynajit.sparse` ----------------------------------------------------------------


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """Product of two matrices, one of them sparse, or both: then the result is sparse.

    Raises:
        ArgumentError: another `reduce` than "sum".
    """
    if reduce != "sum":
        raise ArgumentError(f"sparse.mm(reduce={reduce!r}): expected 'sum'.")
    for name, matrix in (("mat1", mat1), ("mat2", mat2)):
        require_tensor(matrix, "sparse.mm", name)
    return matrix_functions.mm(mat1, mat2)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * mat + alpha * (mat1 @ mat2), with a sparse mat1."""
    return matrix_functions.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Any, dim: Any = None, dtype: DType | None = None) -> Any:
    """Sum of a sparse tensor: dense of all elements or where no sparse dim is left, else sparse.

    Args:
        dim: one dim, or several; None: all.
        dtype: of the result, None: of the elements (int64 of bool and integers).
    """
    return reduction_functions.sum(_sparse(input, "sum"), dim, dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: DType | None = None) -> SparseTensor:
    """Softmax along `dim` over the positions there are: the others count as minus infinity."""
    return _softmax(input, dim, dtype, "softmax")


def log_softmax(input: Any, dim: int, *, dtype: DType | None = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return _softmax(input, dim, dtype, "log_softmax")


def _softmax(input: Any, dim: int, dtype: DType | None, name: str) -> SparseTensor:
    x = _sparse(input, name).coalesce()
    place, elements = dim_of(x, dim, name), x._elements
    if dtype is not None:
        elements = TABLE.cast(elements, dtype=dtype_of(dtype))
    if place >= x.sparse_dim():
        return x.like(TABLE[name](elements, dim=place - x.sparse_dim() + 1))
    groups, count = _groups(x, place)
    shifted = TABLE.sub(elements, _highest(elements, groups, count))
    powers = TABLE.exp(shifted)
    totals = TABLE.index_select(summed(powers, groups, count), groups, dim=0)
    if name == "softmax":
        return x.like(TABLE.div(powers, totals))
    return x.like(TABLE.sub(shifted, TABLE.log(totals)))


def _groups(x: SparseTensor, dim: int) -> tuple[Any, int]:
    """The number, int64 (n,), of the line along `dim` that each value is on; how many there are."""
    if x.sparse_dim() == 1:
        return zeros((x._nnz(),), int64, x.device), 1
    found, inverse = unique(keys_without(x._positions, x._sizes, dim), return_inverse=True)
    return inverse, int(found.shape[0])


def _highest(elements: Any, groups: Any, count: int) -> Any:
    """The largest value of the group of each value, without history."""
    values = elements.detach()
    start = TABLE.full(
        float("-inf"), shape=(count, *values.shape[1:]), dtype=values.dtype, device=values.device
    )
    wide = TABLE.reshape(groups, shape=(groups.shape[0], *[1] * (values.ndim - 1)))
    index = TABLE.expand(wide, shape=tuple(values.shape))
    highest = scatter_reduce(start, 0, index, values, "amax")
    return TABLE.index_select(highest, groups, dim=0)


def _sparse(x: object, name: str) -> SparseTensor:
    if not isinstance(x, SparseTensor):
        raise ArgumentError(
            f"sparse.{name}(): expected a sparse tensor, got {type(x).__name__}.  Use "
            f"dynajit.{name}, or call .to_sparse() first."
        )
    return x


# -- classes by element type -----------------------------------------------------------------------


class _SparseType(type):
    """Class of the classes: what `isinstance` asks."""

    dtype: DType
    is_cuda: bool

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, SparseTensor)
            and instance.dtype is cls.dtype
            and instance.is_cuda is cls.is_cuda
        )


def _typed(name: str) -> Any:
    dtype = TYPE_NAMES[name]

    def make(cls: Any, *data: Any, device: Any = None) -> SparseTensor:
        if not data or not isinstance(data[0], (Tensor, list)):
            size = data[0] if len(data) == 1 and isinstance(data[0], tuple) else data
            return sparse_coo_tensor(tuple(size), dtype=dtype, device=device)
        if len(data) < 2:
            raise ArgumentError(
                f"sparse.{name}: expected {name}(indices, values, size), or sizes, got "
                f"{type(data[0]).__name__} alone."
            )
        if isinstance(data[1], Tensor) and data[1].dtype is not dtype:
            raise ArgumentError(
                f"sparse.{name}: expected values of {dtype.name}, got {data[1].dtype.name}.  Use "
                "sparse_coo_tensor(indices, values, size)."
            )
        return sparse_coo_tensor(*data, dtype=dtype, device=device)

    doc = f"Sparse tensors of {dtype.name}: `{name}(indices, values, size)`, or `{name}(2, 3)`."
    members = {
        "dtype": dtype, "is_cuda": False, "__new__": make, "__doc__": doc, "__module__": __name__,
    }  # fmt: skip
    return _SparseType(name, (), members)


FloatTensor = _typed("FloatTensor")
DoubleTensor = _typed("DoubleTensor")
HalfTensor = _typed("HalfTensor")
BFloat16Tensor = _typed("BFloat16Tensor")
LongTensor = _typed("LongTensor")
IntTensor = _typed("IntTensor")
ShortTensor = _typed("ShortTensor")
CharTensor = _typed("CharTensor")
ByteTensor = _typed("ByteTensor")
