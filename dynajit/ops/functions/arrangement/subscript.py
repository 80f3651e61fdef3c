"""`x[key]`, and `x[key] = value` as a new tensor: keys are read once, into a `Plan`.

Contract: the order of PyTorch: slices, integers and None first (views), then index tensors, which
broadcast together and are placed as NumPy places them. A zero-dim integer tensor or array is an
integer; in a graph, where its value is not known, it gives a copy. A bool mask stands for the
positions of its True entries, so reading through one needs its contents (eager only); setting one
number through a mask does not. True, False and zero-dim bool tensors are masks of a new dim of size
1. A short list of more than numbers stands for the tuple of its entries, with a warning.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from dynajit.core.arrays.meta_arrays import is_meta
from dynajit.core.errors import (
    ArgumentError,
    ArgumentIndexError,
    ArgumentValueError,
    BoundsError,
    DTypeError,
    ShapeError,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import Shape, Size, numel
from dynajit.ops.calls.arguments import cast, is_tensor, placed
from dynajit.ops.calls.arguments import whole_number as size_argument
from dynajit.ops.calls.placing import as_chosen, is_chosen_by_rows
from dynajit.ops.functions.shapes.index import (
    is_single,
    mask_positions,
    refuse_other_dtype,
    stack_indices,
)
from dynajit.ops.functions.shapes.shape import position
from dynajit.ops.rows.indexing import indexed_shape
from dynajit.ops.table import dispatch
from dynajit.ops.table.families import broadcast_shapes
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.result_layouts import strides_if_known

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


class Plan(NamedTuple):  # made in a third of the time of a frozen dataclass
    """What a key asks of a tensor.

    Args:
        start, stop, step: one clamped slice per dim; a selected dim has size 1.
        selected: dims that an integer (or a zero-dim tensor) removes.
        shape: shape after slices and integers, with a 1 for each None.
        dims: dims of `shape` that index tensors replace.
        indices: the index tensors or masks, in the order of `dims`; a mask of rank r stands for r
            entries of `dims`.
        sources: per dim of `shape` the dim of the tensor that it is, or the complement of the one
            before which it is new.
    """

    start: Shape
    stop: Shape
    step: tuple[int, ...]
    selected: tuple[int, ...]
    shape: Shape
    dims: tuple[int, ...]
    indices: tuple[Any, ...]
    sources: tuple[int, ...]


def get_item(x: "TensorMethods", key: Any) -> Any:
    """`x[key]`.

    Raises:
        BoundsError: an integer is out of range, or there are too many indices.
        ArgumentIndexError: an entry of the key has a kind that cannot index.
    """
    if type(key) is int and x.shape:  # the plan would say the same in twice the time
        return TABLE.select(x, dim=0, index=position(key, x.shape[0], 0))
    entries = as_entries(key)
    nested = _split_zero_dim(x, entries) or _split_new_dims(x, entries)
    if nested is not None:
        return get_item(get_item(x, nested[0]), nested[1])
    plan = read_entries(x, entries)
    region = _region(x, plan)
    if not plan.indices:
        return region
    indices = _index_tensors(plan.indices, x)
    result = TABLE.index(region, stack_indices(indices), dims=plan.dims)
    if is_chosen_by_rows(result, region, indices):
        return result
    return as_chosen(result, (plan.shape, _strides_of_region(x, plan)), indices, plan.dims)


def set_item(x: "TensorMethods", key: Any, value: Any) -> Any:
    """x with `x[key] = value`, as a new tensor of the same type.

    Raises:
        ShapeError: the value does not broadcast to the region.
        DTypeError: index tensors would place a tensor of another dtype.
    """
    entries = as_entries(key)
    nested = _split_zero_dim(x, entries)
    if nested is not None:
        return set_item(x, nested[0], set_item(get_item(x, nested[0]), nested[1], value))
    plan = read_entries(x, entries)
    if not plan.indices:
        return _write(x, plan, _fitted(value, plan.shape, x))
    refuse_other_dtype(x, plan.indices, value)
    region = _region(x, plan)
    only = plan.indices[0]
    if len(plan.indices) == 1 and only.dtype is dtypes.bool_:
        value = _without_leading_ones(value, len(plan.shape) - len(plan.dims) + 1)
        if not is_tensor(value) or is_single(value):
            return _write(x, plan, _masked(region, only, plan.dims, value))
        if _fits_masked(region, plan.dims, value):
            return _write(x, plan, _masked_by_many(region, only, plan.dims, value))
    return _write(x, plan, _put(region, plan, value))


def put_item(x: "TensorMethods", key: Sequence[Any], value: Any) -> Any:
    """`set_item` for a key, one of the two of `split_entries`, whose masks have known contents."""
    plan = read_entries(x, list(key))
    return _write(x, plan, _put(_region(x, plan), plan, value))


def _put(region: Any, plan: Plan, value: Any) -> Any:
    """The region with the value where the plan's index tensors say."""
    stacked = _stacked(plan.indices, region)
    shape = indexed_shape(tuple(region.shape), tuple(stacked.shape[1:]), plan.dims)
    return TABLE.index_put(region, stacked, _fitted(value, shape, region), dims=plan.dims)


# ---------------------------------------------------------------------------------------------
# reading keys


def read_entries(x: "TensorMethods", entries: list[Any]) -> Plan:
    """The plan of a key on tensor x, from its entries."""
    entries = _expanded(x, entries)
    shape = tuple(x.shape)
    start, stop, step = [0] * len(shape), list(shape), [1] * len(shape)
    selected: list[int] = []
    result: list[Size] = []
    dims: list[int] = []
    indices: list[Any] = []
    sources: list[int] = []
    d = 0
    for entry in entries:
        if entry is None:
            result.append(1)
            sources.append(~d)
        elif isinstance(entry, slice):
            start[d], stop[d], step[d] = clamp_slice(entry, shape[d])
            result.append((stop[d] - start[d] + step[d] - 1) // step[d])
            sources.append(d)
            d += 1
        elif _is_truth(entry):
            dims.append(len(result))
            result.append(1)
            sources.append(~d)
            indices.append(TABLE.reshape(entry, shape=(1,)))
        elif is_tensor(entry):
            rank = _mask_rank(entry, shape, d)
            dims.extend(range(len(result), len(result) + rank))
            result.extend(shape[d : d + rank])
            indices.append(entry)
            sources.extend(range(d, d + rank))
            d += rank
        else:
            at = position(entry, shape[d], d)
            start[d], stop[d] = at, at + 1
            selected.append(d)
            d += 1
    return Plan(
        tuple(start), tuple(stop), tuple(step), tuple(selected), tuple(result), tuple(dims),
        tuple(indices), tuple(sources),
    )  # fmt: skip


def as_entries(key: Any) -> list[Any]:
    """The entries of a key in the forms None, Ellipsis, slice, integer, tensor."""
    if stands_for_tuple(key):
        key = as_tuple(key)
    entries = key if isinstance(key, tuple) else (key,)
    return [_entry(entry) for entry in entries]


MOST_ENTRIES: Final = 32
"""Lists of so many entries are index tensors, whatever they hold (as in PyTorch)."""


def stands_for_tuple(key: Any) -> bool:
    """True for a short list of more than numbers, which is taken for the tuple of its entries."""
    return (
        isinstance(key, list)
        and len(key) < MOST_ENTRIES
        and any(_is_composed(entry) for entry in key)
    )


def as_tuple(key: list[Any]) -> tuple[Any, ...]:
    """The key that such a list stands for, with a warning."""
    warnings.warn(
        "indexing with a list of sequences, slices or tensors is deprecated: it is taken for a "
        "tuple, one index per dimension, and will be an index tensor one day.  Write "
        "x[tuple(key)], or x[dynajit.tensor(key)].",
        UserWarning,
        stacklevel=4,
    )
    return tuple(key)


def _is_composed(entry: Any) -> bool:
    """True for what is no plain number in a list of indices."""
    special = entry is None or entry is Ellipsis or is_tensor(entry)
    return special or isinstance(entry, (slice, list, tuple, range, np.ndarray))


def _entry(entry: Any) -> Any:
    """An entry of a key in one of the forms None, Ellipsis, slice, integer, tensor."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice) or type(entry) is int:
        return entry
    if isinstance(entry, bool):
        return TABLE.clone(np.asarray(entry))
    if is_mask_of_bytes(entry):
        return mask_of_bytes(entry)
    if is_tensor(entry):
        accepted = entry.dtype.category <= Category.INTEGER
        if not accepted:
            raise BoundsError(
                "tensors used as indices must be long, int, byte or bool tensors, not "
                f"{entry.dtype.name}."
            )
        return int(entry) if is_known_number(entry) else entry
    if isinstance(entry, np.ndarray) and not entry.ndim and entry.dtype.kind in "iu":
        return int(entry)
    if isinstance(entry, (list, tuple, range, np.ndarray)):
        return _index_tensor(entry)
    if isinstance(entry, np.bool_) or not hasattr(entry, "__index__"):
        raise ArgumentIndexError(
            f"indexing: an index is {type(entry).__name__} {entry!r}.  Expected integers, slices, "
            "'...', None, and tensors, arrays or lists of integers or bools."
        )
    return size_argument(entry, "indexing")


def is_known_number(entry: Any) -> bool:
    """True for a zero-dim integer tensor whose value may be asked for now: it is an integer."""
    if entry.shape or entry.dtype.category is not Category.INTEGER or dispatch.is_recording():
        return False
    return getattr(entry, "_has_array", True) and not is_meta(entry.array)


def is_mask_of_bytes(entry: Any) -> bool:
    """True for a tensor or an array of uint8, which is taken for a mask (as in PyTorch)."""
    if isinstance(entry, np.ndarray):
        return bool(entry.dtype == np.uint8)
    return is_tensor(entry) and entry.dtype is dtypes.uint8


def mask_of_bytes(entry: Any) -> Any:
    """The mask of bools that such a tensor or array is, with a warning."""
    warnings.warn(
        "indexing with dtype uint8 is deprecated: it is taken for a mask.  Use a mask of bools.",
        UserWarning,
        stacklevel=6,
    )
    return TABLE.ne(entry if is_tensor(entry) else TABLE.clone(entry), 0)


def _index_tensor(entry: Any) -> Any:
    """An index tensor from nested Python sequences of integers, bools or zero-dim tensors."""
    if isinstance(entry, (list, tuple)) and any(is_tensor(item) for item in entry):
        parts = [item if is_tensor(item) else _index_tensor(np.asarray(item)) for item in entry]
        return TABLE.stack(*(cast(part, dtypes.int64) for part in parts), dim=0)
    array = np.asarray(entry)
    if array.size == 0 and array.dtype.kind == "f":  # NumPy's dtype of an empty list
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise ArgumentIndexError(
            f"indexing with a sequence of {array.dtype} is not possible.  Expected integers or "
            "bools."
        )
    return TABLE.clone(array if array.dtype.kind == "b" else array.astype(np.int64))


def _expanded(x: "TensorMethods", entries: list[Any]) -> list[Any]:
    """`entries` with one slice per dim that they leave out, at the ellipsis or at the end."""
    consumed = sum(_consumes(entry) for entry in entries)
    rank = len(x.shape)
    if consumed > rank:
        raise BoundsError(f"too many indices for tensor of dimension {rank}: {consumed} given.")
    missing: list[Any] = [slice(None)] * (rank - consumed)
    ellipses = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if not ellipses:
        return entries + missing
    first, *others = ellipses
    behind = entries[others[0] :] if others and missing else []
    if not all(entry is Ellipsis or _is_whole(entry) for entry in behind):
        raise BoundsError(
            f"too many indices for tensor of dimension {rank}: each ellipsis ('...') stands for "
            f"{len(missing)} dimensions, so nothing can follow the second one."
        )
    rest = [entry for entry in entries[first:] if entry is not Ellipsis]
    return entries[:first] + missing + rest


def _split_zero_dim(
    x: "TensorMethods", entries: list[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Two keys to apply in turn where zero-dim index tensors meet others, else None.

    A zero-dim index tensor acts like an integer: it has no say in where the others' dims go.
    """
    tensors = [entry for entry in entries if is_tensor(entry)]
    ranks = [len(entry.shape) for entry in tensors if entry.dtype is not dtypes.bool_]
    if not ranks or min(ranks) or len(tensors) == ranks.count(0):
        return None
    return split_entries(x, entries)


def _split_new_dims(
    x: "TensorMethods", entries: list[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Two keys to apply in turn where numbers, some in zero-dim index tensors, choose one element
    and None makes dims of it, else None: so that these dims have the stride 1."""
    tensors = [entry for entry in entries if is_tensor(entry)]
    if not tensors or not any(entry is None for entry in entries):
        return None
    if any(entry.shape or _is_truth(entry) for entry in tensors):
        return None
    expanded = _expanded(x, entries)
    numbers = tuple(entry for entry in expanded if entry is not None)
    if any(isinstance(entry, slice) for entry in numbers):
        return None
    return numbers, (None,) * (len(expanded) - len(numbers))


def split_entries(
    x: "TensorMethods", entries: list[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Two keys to apply in turn: of integers, slices and None, and of whole slices and tensors."""
    shape, d = tuple(x.shape), 0
    first: list[Any] = []
    then: list[Any] = []
    for entry in _expanded(x, entries):
        if not is_tensor(entry) or (not entry.shape and not _is_truth(entry)):
            first.append(entry)
            if isinstance(entry, slice):
                clamp_slice(entry, shape[d])  # refuses what cannot be one
            d += entry is not None
            if entry is None or isinstance(entry, slice):
                then.append(slice(None))
        else:
            rank = 0 if _is_truth(entry) else _mask_rank(entry, shape, d)
            first.extend([slice(None)] * rank)
            then.append(entry)
            d += rank
    return tuple(first), tuple(then)


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, slice) and entry == slice(None)


def _is_truth(entry: Any) -> bool:
    """True for a zero-dim bool tensor: a mask of a new dim of size 1."""
    return is_tensor(entry) and entry.dtype is dtypes.bool_ and not entry.shape


def _consumes(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    if is_tensor(entry) and entry.dtype is dtypes.bool_:
        return len(entry.shape)
    return 1


def _mask_rank(entry: Any, shape: Shape, d: int) -> int:
    if entry.dtype is not dtypes.bool_:
        return 1
    covered = tuple(shape[d : d + len(entry.shape)])
    if tuple(entry.shape) != covered:
        raise BoundsError(
            f"the shape of the mask {list(entry.shape)} at index {d} does not match the shape of "
            f"the indexed tensor {list(shape)}."
        )
    return len(covered)


def clamp_slice(key: slice, n: Size) -> tuple[Any, Any, int]:
    """start, stop, step of a slice of a dimension of size n, with 0 <= start <= stop <= n.

    Raises:
        ArgumentValueError: the step is not positive.
    """
    if key.step is None and type(n) is int and _is_plain(key.start) and _is_plain(key.stop):
        start, end, _ = key.indices(n)  # Python's rule, which knows no symbolic sizes
        return start, max(start, end), 1
    step = 1 if key.step is None else _integer(key.step)
    if not isinstance(step, int) or step <= 0:
        raise ArgumentValueError(f"slice step must be positive, got {step}.  Use flip to reverse.")
    first = 0 if key.start is None else _bound(_integer(key.start), n)
    last = n if key.stop is None else _bound(_integer(key.stop), n)
    return first, symint.larger(first, last), step


def _integer(bound: Any) -> Size:
    """A bound or step as an integer; a graph's value is asked for contents, which it refuses."""
    if is_tensor(bound) and not hasattr(bound, "__index__"):
        bound = bound.array
    found: Size = size_argument(bound, "slice")
    return found


def _is_plain(bound: Any) -> bool:
    return bound is None or type(bound) is int


def _bound(value: Size, n: Size) -> Size:
    if value < 0:
        return symint.larger(value + n, 0)
    return symint.smaller(value, n)


# ---------------------------------------------------------------------------------------------
# carrying plans out


def _region(x: "TensorMethods", plan: Plan) -> Any:
    """x after slices, integers and Nones: a view."""
    shape = tuple(x.shape)
    selected = plan.selected
    sliced = []
    for d, bounds in enumerate(zip(plan.start, plan.stop, plan.step, strict=True)):
        if d not in selected and bounds != (0, shape[d], 1):
            sliced.append(d)
    if sliced and not selected:
        x = TABLE.slice(x, start=plan.start, stop=plan.stop, step=plan.step)
    elif sliced:
        start = tuple(plan.start[d] if d in sliced else 0 for d in range(len(shape)))
        stop = tuple(plan.stop[d] if d in sliced else n for d, n in enumerate(shape))
        x = TABLE.slice(x, start=start, stop=stop, step=plan.step)
    for d in reversed(selected):
        x = TABLE.select(x, dim=d, index=plan.start[d])
    if (sliced or selected) and tuple(x.shape) == plan.shape:
        return x
    return TABLE.reshape(x, shape=plan.shape)


def _strides_of_region(x: "TensorMethods", plan: Plan) -> Shape | None:
    """Those that slices, selected and inserted dims leave, one after the other; None if those of x
    are not known."""
    strides = strides_if_known(x)
    if strides is None:
        return None
    shape = tuple(x.shape)
    found = []
    for d in plan.sources:
        if d >= 0:
            found.append(strides[d] * plan.step[d])
        else:
            found.append(shape[~d] * strides[~d] if ~d < len(shape) else 1)
    return tuple(found)


def _stacked(indices: Sequence[Any], x: Any) -> Any:
    """All index tensors as one operand of the row `index` on x."""
    return stack_indices(_index_tensors(indices, x))


def _index_tensors(indices: Sequence[Any], x: Any) -> list[Any]:
    """One tensor of positions per dim, masks replaced by them, on the device of x."""
    flat: list[Any] = []
    for entry in indices:
        entry = placed(entry, x.device)
        if entry.dtype is dtypes.bool_:
            flat.extend(mask_positions(entry))
        else:
            flat.append(entry)
    return flat


def _masked(region: Any, mask: Any, dims: tuple[int, ...], value: Any) -> Any:
    """region with one value where the mask, which covers `dims`, is True."""
    shape = [1] * len(region.shape)
    for d, n in zip(dims, mask.shape, strict=True):
        shape[d] = n
    single = _fitted(value, (), region)
    mask = placed(mask, region.device)
    return TABLE.where(TABLE.reshape(mask, shape=tuple(shape)), single, region)


def _fits_masked(region: Any, dims: tuple[int, ...], value: Any) -> bool:
    """True for a tensor with an element, or one row of them, per True of a mask over `dims`."""
    lead, rank = dims[0], len(region.shape) - len(dims) + 1
    return (
        is_tensor(value)
        and len(value.shape) == rank
        and tuple(value.shape[:lead]) == tuple(region.shape[:lead])
        and tuple(value.shape[lead + 1 :]) == tuple(region.shape[dims[-1] + 1 :])
        and (not isinstance(value.shape[lead], int) or value.shape[lead] > 1)
    )


def _masked_by_many(region: Any, mask: Any, dims: tuple[int, ...], value: Any) -> Any:
    """region with the rows of `value` in turn where the mask is True.

    That it has as many of them is checked as a divisor: a graph in which it has not refuses its
    values, and plain Python raises the error (`capture.python.tensors.assertions` does the same).
    """
    lead, count = dims[0], value.shape[dims[0]]
    mask, value = placed(mask, region.device), placed(cast(value, region.dtype), region.device)
    ones = cast(TABLE.reshape(mask, shape=(numel(tuple(mask.shape)),)), dtypes.int64)
    fits = TABLE.eq(TABLE.sum(ones, dim=(0,), keepdim=False), count)
    one = TABLE.floor_divide(1, cast(fits, dtypes.int64))
    turn = TABLE.clamp(TABLE.sub(TABLE.cumsum(ones, dim=0), one), 0, count - 1)
    rows = TABLE.index_select(value, turn, dim=lead)
    rows = TABLE.reshape(rows, shape=tuple(region.shape))
    trailing = (1,) * (len(region.shape) - dims[-1] - 1)
    return TABLE.where(TABLE.reshape(mask, shape=(*mask.shape, *trailing)), rows, region)


def _fitted(value: Any, shape: Shape, x: Any) -> Any:
    """A number or tensor in the dtype of x, broadcast to `shape`."""
    if isinstance(value, np.ndarray) and value.ndim:
        value = TABLE.clone(value)
    if not is_tensor(value):
        _check_number(value, x)
        return TABLE.full(value, shape=shape, dtype=x.dtype, device=x.device)
    value = _without_leading_ones(placed(cast(value, x.dtype), x.device), len(shape))
    given = tuple(value.shape)
    if given == tuple(shape):
        return value
    call = f"assignment of shape {list(given)} to a region of shape {list(shape)}"
    if not symint.shapes_agree(broadcast_shapes([given, shape], call), shape):
        raise ShapeError(f"{call}: the value does not broadcast to the region.")
    return TABLE.expand(value, shape=tuple(shape))


def _without_leading_ones(value: Any, rank: int) -> Any:
    """A value with at most `rank` dims, where those before them have size 1."""
    extra = len(value.shape) - rank if is_tensor(value) else 0
    if extra > 0 and all(isinstance(n, int) and n == 1 for n in value.shape[:extra]):
        return TABLE.reshape(value, shape=tuple(value.shape[extra:]))
    return value


def _check_number(value: Any, x: Any) -> None:
    if not isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        raise ArgumentError(
            f"cannot assign {type(value).__name__} to a tensor.  Expected a number or a tensor."
        )
    if dtypes.of_number(value).is_complex and not x.dtype.is_complex:
        raise DTypeError(f"cannot assign a complex number to a {x.dtype.name} tensor.")


def _write(x: "TensorMethods", plan: Plan, region: Any) -> Any:
    """x with the region (of shape `plan.shape`) that the plan's slices cover replaced."""
    whole = (0,) * len(x.shape), tuple(x.shape), (1,) * len(x.shape)
    sizes = tuple(
        (last - first + by - 1) // by
        for first, last, by in zip(plan.start, plan.stop, plan.step, strict=True)
    )
    if tuple(region.shape) != sizes:
        region = TABLE.reshape(region, shape=sizes)
    if (plan.start, plan.stop, plan.step) == whole:
        return region
    return TABLE.slice_scatter(x, region, start=plan.start, stop=plan.stop, step=plan.step)
