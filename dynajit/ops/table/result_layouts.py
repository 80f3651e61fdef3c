"""Where the elements of a row's result lie in memory: PyTorch's rules; a row names its own.

Contract: `strides_of_result` says for operands of known sizes and strides which strides the result
of a row has that is no view: always without gaps, the dims in an order that follows from the
operands. Eager execution lays its results out so, and capture reads from graphs what eager
execution would do: both ask here, since whether a reshape copies depends on it. Sizes and strides
may be symbolic; `Undecided` is raised where the order depends on them.

Where all operands lie row by row, so do results, but of rows in `ALWAYS`; eager execution does not
ask then.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, overload

from dynajit.core.types.symint import decided_comparison
from dynajit.core.types.value_types import Shape, Size, contiguous_strides
from dynajit.ops.table.op_table import Kind, Op

#: Sizes and strides, in elements, of an operand; None for what is no tensor.
Laid: TypeAlias = "tuple[Shape, Shape] | None"
#: Dims from the outermost in memory to the innermost; None: row by row.
Order: TypeAlias = "tuple[int, ...] | None"
Rule: TypeAlias = Callable[[Shape, Sequence[Laid], Mapping[str, Any]], Order]


class Undecided(Exception):
    """The order of dims depends on symbolic sizes."""


@overload
def strides_of_result(
    op: Op, operands: Sequence[Laid], attributes: Mapping[str, Any], shape: tuple[int, ...]
) -> tuple[int, ...]: ...


@overload
def strides_of_result(
    op: Op, operands: Sequence[Laid], attributes: Mapping[str, Any], shape: Shape
) -> Shape: ...


def strides_of_result(
    op: Op, operands: Sequence[Laid], attributes: Mapping[str, Any], shape: Shape
) -> Shape:
    """Strides, in elements, of the result of a row that is no view.

    Args:
        op: a row.
        operands: of all inputs of the row.
        attributes: all attributes of the row.
        shape: sizes of the result.

    Raises:
        Undecided: they depend on symbolic sizes.
    """
    if len(shape) < 2 or (
        op.name not in ALWAYS and all(laid is None or is_row_major(*laid) for laid in operands)
    ):
        return contiguous_strides(shape)
    return dense_strides(shape, _rule_of(op)(shape, operands, attributes))


def layout_of(tensor: Any) -> tuple[Shape, Shape]:
    """Sizes and strides of a tensor or a graph value; row by row of what only has a shape."""
    shape = tuple(tensor.shape)
    if hasattr(tensor, "stride"):
        return shape, tensor.stride()
    if hasattr(tensor, "builder"):
        return shape, tensor.builder.layout_of(tensor)
    return shape, contiguous_strides(shape)


def strides_if_known(tensor: Any) -> Shape | None:
    """Strides of a tensor or a graph value; None of a graph value whose strides are not known."""
    if hasattr(tensor, "builder"):
        found: Shape | None = tensor.builder.strides_of(tensor)
        return found
    return layout_of(tensor)[1]


def lies_by_rows(tensor: Any) -> bool:
    """True for an eager tensor that is contiguous; graph values do not know."""
    is_contiguous = getattr(tensor, "is_contiguous", None)
    return is_contiguous is not None and bool(is_contiguous())


def preserved_order(tensor: Any) -> Order:
    """The order of dims that a copy of a tensor has, by its own; None: row by row."""
    if lies_by_rows(tensor):
        return None
    shape, strides = layout_of(tensor)
    return None if is_row_major(shape, strides) else order_of(shape, [(shape, strides)])


def lies_row_by_row(op: Op) -> bool:
    """True for rows whose results lie row by row whatever the layout of the operands."""
    return _rule_of(op) is row_major


def lies_as_operands(op: Op) -> bool:
    """True for rows whose results have the order of dims of the first operand that tells it."""
    return _rule_of(op) in (iterated, as_first)


def _rule_of(op: Op) -> Rule:
    return op.layout or (iterated if op.kind is Kind.POINTWISE else row_major)


@overload
def dense_strides(shape: tuple[int, ...], order: Order) -> tuple[int, ...]: ...


@overload
def dense_strides(shape: Shape, order: Order) -> Shape: ...


def dense_strides(shape: Shape, order: Order) -> Shape:
    """Strides without gaps of dims in an order."""
    if order is None:
        return contiguous_strides(shape)
    found: dict[int, Size] = {}
    step: Size = 1
    for d in reversed(order):
        found[d] = step
        size = shape[d]
        step = step * (max(size, 1) if isinstance(size, int) else size)
    return tuple(found[d] for d in range(len(shape)))


def is_row_major(shape: Shape, strides: Shape) -> bool:
    """Whether elements with these strides lie row by row; of symbolic sizes, in this call."""
    step: Size = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if isinstance(size, int):
            if size == 0:
                return True
            if size == 1:
                continue
        if stride is not step and not decided_comparison("==", stride, step):
            return 0 in shape
        step = step * size
    return True


def is_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether strides of a tensor of rank 4 or 5 look as if its channels (dim 1) were innermost.

    Gaps do not matter; where sizes of 1 leave it open, they do not.
    """
    if len(shape) not in (4, 5) or 0 in shape or _is(strides[1], "==", 0):
        return False
    least: Size = 0
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if _is(strides[d], "<", least) or (d == 0 and _is(strides[1], "==", least)):
            return False
        least = strides[d] * shape[d]
    return True


def _is(a: Size, symbol: str, b: Size) -> bool:
    known = decided_comparison(symbol, a, b)
    if known is None:
        raise Undecided
    return known


# ---------------------------------------------------------------------------------------------
# rules


def row_major(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    return None


def iterated(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """The dims as the first operand to tell two of them apart has them."""
    return order_of(shape, [laid for laid in operands if laid is not None])


def order_of(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> tuple[int, ...]:
    """Dims from the outermost to the innermost, of operands that broadcast to `shape`.

    A stable insertion sort by strides, in which a dim that an operand repeats (stride 0) can be
    compared with none.
    """
    rank = len(shape)
    steps = [_broadcast(shape, *laid) for laid in operands]
    inner = list(range(rank - 1, -1, -1))
    for place in range(1, rank):
        at = place
        for before in range(place - 1, -1, -1):
            swap = _swaps(shape, steps, inner[before], inner[at])
            if swap > 0:
                inner[before], inner[at] = inner[at], inner[before]
                at = before
            elif swap < 0:
                break
    return tuple(reversed(inner))


def _broadcast(shape: Shape, sizes: Shape, strides: Shape) -> list[Size]:
    """Strides per dim of the result; 0 where the operand is repeated."""
    extra = len(shape) - len(sizes)
    kept = [
        0 if _is_one(size) and not _is_one(shape[d + extra]) else stride
        for d, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    ]
    return [0] * extra + kept


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def _swaps(shape: Shape, steps: Sequence[Sequence[Size]], inner: int, outer: int) -> int:
    """1 if dim `outer` lies further inside than dim `inner`, -1 if not, 0 if nobody knows."""
    for strides in steps:
        a, b = strides[inner], strides[outer]
        if _is(a, "==", 0) or _is(b, "==", 0):
            continue
        if _is(a, "<", b):
            return -1
        if _is(b, "<", a):
            return 1
        if _is(shape[outer], "<", shape[inner]):
            return 1
    return 0


def as_first(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """The dims in the order of the first operand, which has as many."""
    return iterated(shape, operands[:1], attributes)


def named(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    order: tuple[int, ...] = attributes["order"]
    return order


def channels_last_order(rank: int) -> Order:
    return (0, *range(2, rank), 1)


def suggested(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """Channels last where the first operand looks so."""
    first = operands[0]
    assert first is not None
    return channels_last_order(len(shape)) if is_channels_last(*first) else None


def averaged(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """Channels last where the input looks so, with one or two dims beside."""
    first = operands[0]
    assert first is not None
    if len(shape) > 4 or not is_channels_last(*with_rows(*first)):
        return None
    return channels_last_order(len(shape))


def suggested_by_any(
    shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]
) -> Order:
    """Channels last where the input or the weight looks so; of one dim the weight alone."""
    laid = [with_rows(*each) for each in operands[len(shape) == 3 : 2] if each is not None]
    if not any(is_channels_last(*each) for each in laid):
        return None
    return channels_last_order(len(shape))


def with_rows(shape: Shape, strides: Shape) -> tuple[Shape, Shape]:
    """A tensor of rank 3 as one of rank 4, with rows of a single element."""
    if len(shape) != 3:
        return shape, strides
    return (*shape[:2], 1, shape[2]), (*strides[:2], strides[2] * shape[2], strides[2])


def transposed(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """As a convolution, but row by row in three dims."""
    return None if len(shape) > 4 else suggested_by_any(shape, operands, attributes)


def suggested_by_all(
    shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]
) -> Order:
    """Channels last where all operands look so."""
    laid = [each for each in operands if each is not None and len(each[0]) == len(shape)]
    if not laid or not all(is_channels_last(*each) for each in laid):
        return None
    return channels_last_order(len(shape))


def chosen(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """Of `index`: dims that are kept as they lie in x, new ones as they lie in the indices."""
    x, indices = operands
    assert x is not None and indices is not None
    dims = attributes["dims"]
    batch = indices[0][1:]
    return order_of_chosen(shape, x, [(batch, contiguous_strides(batch))], dims)


def order_of_chosen(
    shape: Shape,
    x: tuple[Shape, Shape],
    indices: Sequence[tuple[Shape, Shape]],
    dims: tuple[int, ...],
) -> tuple[int, ...]:
    """The order of dims of what index tensors choose along `dims` of a tensor.

    Dims that are kept are told apart by how x lies, new ones by how the index tensors lie, one
    after the other. Source: the operands of PyTorch's `index`, views with dims of size 1.
    """
    rank = len(shape) - (len(x[0]) - len(dims))
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    sizes, strides = [[value for d, value in enumerate(values) if d not in dims] for values in x]
    batch, zeros = list(shape[at : at + rank]), [0] * rank
    kept = (*sizes[:at], *batch, *sizes[at:]), (*strides[:at], *zeros, *strides[at:])
    rest = len(sizes) - at
    places = [_between_ones(*_repeated(tuple(batch), *laid), at, rest) for laid in indices]
    return order_of(shape, [kept, *places])


def _repeated(wanted: Shape, sizes: Shape, strides: Shape) -> tuple[Shape, Shape]:
    """Sizes and strides as `expand` gives them."""
    extra = len(wanted) - len(sizes)
    found: list[Size] = []
    for d in range(len(wanted) - 1, -1, -1):
        inner = wanted[d + 1] * found[0] if found else 1
        size, stride = (sizes[d - extra], strides[d - extra]) if d >= extra else (1, inner)
        found.insert(0, 0 if _is_one(size) and not _is_one(wanted[d]) else stride)
    return wanted, tuple(found)


def _between_ones(sizes: Shape, strides: Shape, before: int, behind: int) -> tuple[Shape, Shape]:
    """Sizes and strides of a view with so many dims of size 1 in front and at the end.

    Dims that lie in memory as one, and those of size 1, have strides of one run.
    """
    step: Size = strides[-1] if strides else 1
    last = step
    run: Size = 1
    found: list[Size] = []
    for d in range(len(sizes) - 1, -1, -1):
        found.insert(0, run * step)
        run = run * sizes[d]
        if d and not _is_one(sizes[d - 1]) and not _same(strides[d - 1], run * step):
            step, run = strides[d - 1], 1
    outer = [run * step] * before
    return (*[1] * before, *sizes, *[1] * behind), (*outer, *found, *[last] * behind)


def attended(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """As the query, where PyTorch computes all in one kernel; else row by row."""
    query, key, value, mask = operands[:4]
    assert query is not None and key is not None and value is not None
    laid = (query, key, value)
    if attributes["dropout_p"] or any(len(sizes) != 4 for sizes, _ in laid):
        return None
    if mask is not None and len(mask[0]) not in (2, 4):
        return None
    if any(not _same(sizes[d], query[0][d]) for sizes, _ in laid for d in (0, 1, 3)):
        return None
    if not all(_is(strides[3], "==", 1) for _, strides in laid):
        return None
    return order_of(shape, [query])


def _same(a: Size, b: Size) -> bool:
    return a is b or _is(a, "==", b)


def stacked(shape: Shape, operands: Sequence[Laid], attributes: Mapping[str, Any]) -> Order:
    """As `cat` along the dim that the new one then divides."""
    new, rank = attributes["dim"], len(shape) - 1
    joined = suggested_by_all(shape[:new] + shape[new + 1 :], operands, attributes)
    if new == rank or joined is None:
        return None
    order = [d if d < new else d + 1 for d in joined]
    order.insert(order.index(new + 1), new)
    return tuple(order)


#: Rows whose results lie as they say, also where all operands lie row by row.
ALWAYS: Final = frozenset({"laid_out"})
