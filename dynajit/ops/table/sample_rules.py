"""How a row takes a batch of samples: the rules by which `vmap` runs a function once for all.

Contract: a rule gets a `Call`, in which some operands have the samples along a dim in front of
those that the row knows, and others are the same for all samples. It gives what the row gives for
every sample, stacked in front: by calling rows, so that it serves eager tensors and graph values
alike; or NotImplemented where it has no form for these operands. A row says its rule by the fact
`samples`; rows without one have that of their kind. What has none is taken apart: a composite into
the rows that it stands for, anything else sample by sample (`each`), which is never wrong.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, Size, TensorType, ValueType
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.type_rules import promoted_dtype

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


@record
class Call:
    """A row on operands of which some hold samples.

    Args:
        op: the row.
        operands: tensors, numbers or None, as the row expects.
        flags: per operand, whether its dim 0 are the samples.
        attributes: complete; they mean a single sample.
        count: of samples.
        draws: random numbers are other ones for each sample.
        most: how often the row may be called, sample by sample; None: any number of times.
    """

    op: Op
    operands: tuple[Any, ...]
    flags: tuple[bool, ...]
    attributes: Mapping[str, Any]
    count: Size
    draws: bool = False
    most: int | None = None

    def fronted(self) -> tuple[Any, ...]:
        """All operands with samples in front; numbers as they are."""
        return tuple(map(self.front, range(len(self.operands))))

    def front(self, place: int) -> Any:
        """An operand with samples in front: those that it holds, or itself for each."""
        x = self.operands[place]
        if self.flags[place] or not is_tensor(x):
            return x
        shape = tuple(x.shape)
        one = TABLE.reshape(x, shape=(1, *shape))
        return TABLE.expand(one, shape=(self.count, *shape))

    def shape(self, place: int) -> tuple[Size, ...]:
        """The shape of an operand of one sample."""
        return tuple(self.operands[place].shape)[self.flags[place] :]

    def rank(self) -> int:
        """The highest rank that an operand of one sample has."""
        return max(len(self.shape(place)) for place, x in enumerate(self.operands) if is_tensor(x))

    def aligned(self, rank: int) -> tuple[Any, ...]:
        """The operands, so that they broadcast as those of one sample with `rank` dims do."""
        return tuple(
            _aligned(x, rank) if flag else x
            for x, flag in zip(self.operands, self.flags, strict=True)
        )

    def only(self, *places: int) -> bool:
        """True if no other operands hold samples than these."""
        return not any(flag for place, flag in enumerate(self.flags) if place not in places)


Rule: TypeAlias = Callable[[Call], Any]


def batched(call: Call, take_apart: Rule) -> Any:
    """What a row gives for all samples, stacked in front.

    Args:
        take_apart: the same for a composite by the rows that it stands for.
    """
    rule = call.op.samples or _OF_KIND.get(call.op.kind)
    result = NotImplemented if rule is None else rule(call)
    if result is not NotImplemented:
        return result
    return take_apart(call) if call.op.kind is Kind.COMPOSITE else each(call)


class NoRule(Exception):
    """A row without a rule would be called too often."""


def each(call: Call) -> Any:
    """One call of the row per sample, and a stack of the results.

    Raises:
        NoRule: these are too many.
    """
    if call.most is not None and (not isinstance(call.count, int) or call.count > call.most):
        raise NoRule(call.op.name)
    results = []
    for number in range(int(call.count)):
        operands = (
            TABLE.select(x, dim=0, index=number) if flag else x
            for x, flag in zip(call.operands, call.flags, strict=True)
        )
        results.append(call.op(*operands, **call.attributes))
    return TABLE.stack(*results, dim=0)


def is_tensor(x: object) -> "TypeGuard[TensorMethods]":
    """True for a tensor or a graph value that is no run-time number."""
    return hasattr(x, "shape") and not isinstance(_type_if_value(x), ScalarType)


def _type_if_value(x: object) -> ValueType | None:
    node = getattr(x, "node", None) if hasattr(x, "builder") else None
    found: ValueType | None = None if node is None else node.type
    return found


def _aligned(x: "TensorMethods", rank: int) -> Any:
    """Samples of any rank, as samples with `rank` dims."""
    shape = tuple(x.shape)
    missing = rank + 1 - len(shape)
    if missing <= 0:
        return x
    return TABLE.reshape(x, shape=(shape[0], *(1,) * missing, *shape[1:]))


def _moved(x: "TensorMethods", source: int, target: int) -> Any:
    """x with one dim in another place."""
    order = [d for d in range(len(x.shape)) if d != source]
    order.insert(target, source)
    return x if source == target else TABLE.permute(x, dims=tuple(order))


# ---------------------------------------------------------------------------------------------
# rules of kinds


def pointwise(call: Call) -> Any:
    """Elements by elements: operands of fewer dims get them behind the samples."""
    operands = call.operands
    if len(operands) == 1:
        return call.op(*operands, **call.attributes)
    operands = call.aligned(call.rank())
    wanted = _promoted(call, operands)
    if wanted is not None:
        operands = tuple(
            TABLE.cast(x, dtype=wanted) if is_tensor(x) and _promotes(call.op, place) else x
            for place, x in enumerate(operands)
        )
    return call.op(*operands, **call.attributes)


def _promotes(op: Op, place: int) -> bool:
    return op.kind is not Kind.POINTWISE or op.inputs[place] not in op.rule.uncast


def _promoted(call: Call, operands: tuple[Any, ...]) -> Any:
    """The dtype in which one sample's operands meet, if those of all would meet in another: a
    tensor without dims yields to others, and here it has some."""
    if len({x.dtype for x in operands if hasattr(x, "dtype")}) < 2:
        return None
    places = [p for p, x in enumerate(operands) if x is not None and _promotes(call.op, p)]
    types = [_type_of(operands[p], tuple(getattr(operands[p], "shape", ()))) for p in places]
    single = [
        _type_of(operands[p], call.shape(p)) if is_tensor(operands[p]) else type
        for p, type in zip(places, types, strict=True)
    ]
    wanted = promoted_dtype(single)
    return None if promoted_dtype(types) is wanted else wanted


def _type_of(x: object, shape: tuple[Size, ...]) -> ValueType:
    found = _type_if_value(x)
    if isinstance(found, ScalarType):
        return found
    if is_tensor(x):
        return TensorType(shape, x.dtype, x.device)
    return ScalarType(dtypes.category_of(x))


def filled(call: Call) -> Any:
    """Of `full`: other numbers for each sample."""
    shape = (call.count, *call.attributes["shape"])
    (value,) = call.aligned(len(shape) - 1)
    cast = TABLE.cast(value, dtype=call.attributes["dtype"])
    return TABLE.clone(TABLE.expand(cast, shape=shape))


def leading(call: Call) -> Any:
    """The row takes any number of dims in front, alike in all operands."""
    return call.op(*call.fronted(), **call.attributes)


def drawn(call: Call) -> Any:
    """Random numbers for all samples."""
    attributes = {**call.attributes, "shape": (call.count, *call.attributes["shape"])}
    return call.op(*call.operands, **attributes)


# ---------------------------------------------------------------------------------------------
# rules by attributes


class Along:
    """The attributes of these names are dims of each operand; all operands have them.

    An operand without dims counts as one of one element, as in PyTorch.

    Args:
        names: of the attributes.
    """

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, call: Call) -> Any:
        attributes = {**call.attributes, **{n: _behind(call.attributes[n]) for n in self.names}}
        dims = [attributes[name] for name in self.names]
        has_none = call.rank() == 0 and any(isinstance(dim, int) or dim for dim in dims)
        operands = call.fronted()
        if has_none:
            operands = tuple(_aligned(x, 1) if is_tensor(x) else x for x in operands)
        result = call.op(*operands, **attributes)
        return TABLE.reshape(result, shape=(call.count,)) if has_none else result


along = Along


def _behind(dims: Any) -> Any:
    """Dims of one sample as dims of all."""
    return tuple(d + 1 for d in dims) if isinstance(dims, (tuple, list)) else dims + 1


def inserted(call: Call) -> Any:
    """`dim` is a new dim of the result."""
    attributes = {**call.attributes, "dim": call.attributes["dim"] + 1}
    return call.op(*call.fronted(), **attributes)


def reduced(call: Call) -> Any:
    """`dim` holds dims of the only operand."""
    return call.op(*call.operands, **{**call.attributes, "dim": _behind(call.attributes["dim"])})


def ordered(name: str) -> Rule:
    """The attribute is an order of all dims."""

    def rule(call: Call) -> Any:
        order = (0, *_behind(call.attributes[name]))
        return call.op(*call.operands, **{**call.attributes, name: order})

    return rule


def between(**values: Any) -> Rule:
    """Attributes with an entry per dim: that of samples is the one given; "all" stands for their
    count."""

    def rule(call: Call) -> Any:
        first = {name: call.count if value == "all" else value for name, value in values.items()}
        attributes = {name: (first[name], *call.attributes[name]) for name in values}
        return call.op(*call.fronted(), **{**call.attributes, **attributes})

    return rule


def reshaped(call: Call) -> Any:
    """The attribute `shape` is that of the result."""
    shape = (call.count, *call.attributes["shape"])
    operands = call.operands
    if call.op.name == "expand":
        operands = call.aligned(len(call.attributes["shape"]))
    return call.op(*operands, **{**call.attributes, "shape": shape})


# ---------------------------------------------------------------------------------------------
# indices


def chosen_along(call: Call) -> Any:
    """Of `index_select`."""
    (x, index), dim = call.operands, call.attributes["dim"]
    if not call.flags[1]:
        return call.op(x, index, dim=dim + 1)
    if call.flags[0]:
        shape = call.shape(0)
        wanted = (call.count, *shape[:dim], index.shape[1], *shape[dim + 1 :])
        return TABLE.gather(x, _along_dim(index, dim, wanted), dim=dim + 1)
    length = index.shape[1]
    found = TABLE.index_select(x, TABLE.reshape(index, shape=(call.count * length,)), dim=dim)
    shape = tuple(found.shape)
    parted = (*shape[:dim], call.count, length, *shape[dim + 1 :])
    return _moved(TABLE.reshape(found, shape=parted), dim, 0)


def _along_dim(index: Any, dim: int, shape: tuple[Size, ...]) -> Any:
    """Samples of positions along a dim, for every element of a shape with samples in front."""
    ones = (1,) * (len(shape) - dim - 2)
    placed = TABLE.reshape(index, shape=(shape[0], *(1,) * dim, index.shape[1], *ones))
    return TABLE.expand(placed, shape=shape)


def added_along(call: Call) -> Any:
    """Of `index_add`."""
    dim = call.attributes["dim"]
    x, source = call.front(0), call.front(2)
    if not call.flags[1]:
        return call.op(x, call.operands[1], source, dim=dim + 1)
    index = _along_dim(call.operands[1], dim, tuple(source.shape))
    return TABLE.scatter_add(x, index, source, dim=dim + 1)


def _position(dims: tuple[int, ...]) -> int:
    """Where the dims of indices go: see `ops.rows.indexing.batch_position`."""
    return dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0


def _with_samples(call: Call, is_whole: bool) -> Any:
    """Indices (k, count, ...); with `is_whole` the number of the sample is one more of them."""
    indices = _moved(call.front(1), 0, 1)
    if is_whole:
        return indices
    shape = tuple(indices.shape)[1:]
    numbers = TABLE.arange(0, 1, size=call.count, dtype=indices.dtype, device=indices.device)
    spread = TABLE.reshape(numbers, shape=(1, call.count, *(1,) * (len(shape) - 1)))
    return TABLE.cat(TABLE.expand(spread, shape=(1, *shape)), indices, dim=0)


def chosen(call: Call) -> Any:
    """Of `index`."""
    dims, (x, indices) = call.attributes["dims"], call.operands
    at, extent = _position(dims), len(call.shape(1)) - 1
    if not call.flags[1]:
        found = call.op(x, indices, dims=_behind(dims))
        is_in_front = _position(_behind(dims)) == 0
        return _moved(found, extent, 0) if is_in_front else found
    if not call.flags[0]:
        return _moved(call.op(x, _with_samples(call, True), dims=dims), at, 0)
    found = call.op(x, _with_samples(call, False), dims=(0, *_behind(dims)))
    rank = len(found.shape)
    order = (0, *range(1 + extent, 1 + extent + at), *range(1, 1 + extent),
             *range(1 + extent + at, rank))  # fmt: skip
    return found if not at else TABLE.permute(found, dims=order)


def put(call: Call) -> Any:
    """Of `index_put` and `index_accumulate`."""
    dims = call.attributes["dims"]
    at, extent = _position(dims), len(call.shape(1)) - 1
    x, source = call.front(0), call.front(2)
    if not call.flags[1]:
        if _position(_behind(dims)) == 0:
            source = _moved(source, 0, extent)
        return call.op(x, call.operands[1], source, dims=_behind(dims))
    rank = len(source.shape)
    order = (0, *range(1 + at, 1 + at + extent), *range(1, 1 + at),
             *range(1 + at + extent, rank))  # fmt: skip
    source = TABLE.permute(source, dims=order) if at else source
    return call.op(x, _with_samples(call, False), source, dims=(0, *_behind(dims)))


# ---------------------------------------------------------------------------------------------
# products


def product(call: Call) -> Any:
    """Of `matmul`: one product of large matrices where one operand is the same for all."""
    a, b = call.operands
    left, right = call.shape(0), call.shape(1)
    if call.only(0) and len(right) == 2:
        rows = TABLE.reshape(a, shape=(_numel(a.shape[:-1]), left[-1]))
        found = TABLE.matmul(rows, b)
        return TABLE.reshape(found, shape=(*a.shape[:-1], right[-1]))
    if call.only(1) and len(left) == 2 and len(right) == 2:
        return _product_of_columns(a, b, call.count)
    rank = max(len(left), len(right))
    a, b = call.aligned(rank)
    if isinstance(left[-1], int) and left[-1] == 1 and a.dtype is not dtypes.bool_:
        return TABLE.mul(a, b)
    return TABLE.matmul(a, b)


def _product_of_columns(a: Any, b: Any, count: Size) -> Any:
    """a (n, k) times every b (k, m) of (count, k, m)."""
    inner, columns = b.shape[1], b.shape[2]
    turned = TABLE.permute(a, dims=(1, 0))
    rows = TABLE.reshape(TABLE.permute(b, dims=(0, 2, 1)), shape=(count * columns, inner))
    found = TABLE.reshape(TABLE.matmul(rows, turned), shape=(count, columns, a.shape[0]))
    return TABLE.permute(found, dims=(0, 2, 1))


def _numel(shape: Any) -> Size:
    product: Size = 1
    for size in shape:
        product = product * size
    return product


def first_only(*places: int) -> Rule:
    """The row takes any number of dims in front of operands at these places; it has no form where
    others hold samples."""

    def rule(call: Call) -> Any:
        if not call.only(*places):
            return NotImplemented
        operands = list(call.operands)
        for place in places:
            operands[place] = call.front(place)
        return call.op(*operands, **call.attributes)

    return rule


def looked_up(call: Call) -> Any:
    """Of `embedding`: by its rows, unless a row of the table gets no gradient."""
    if call.only(1):
        return call.op(call.operands[0], call.front(1), **call.attributes)
    return NotImplemented if call.attributes["padding_idx"] is None else each(call)


def solved(call: Call) -> Any:
    """Two operands whose dims in front of the last two broadcast."""
    return call.op(*call.aligned(call.rank()), **call.attributes)


def attended(call: Call) -> Any:
    """Of attention and its gradients: dims in front broadcast. Not with dropout."""
    if call.attributes["dropout_p"]:
        return NotImplemented
    rank = max(
        len(call.shape(place))
        for place, name in enumerate(call.op.inputs)
        if name in ("query", "key", "value")
    )
    operands = []
    for place, name in enumerate(call.op.inputs):
        x = call.operands[place]
        dims = rank - 1 if name == "level" else rank
        if is_tensor(x) and name != "attn_mask" and len(call.shape(place)) == dims:
            x = call.front(place)
        elif call.flags[place]:
            x = _aligned(x, dims)
        operands.append(x)
    return call.op(*operands, **call.attributes)


def dropped(call: Call) -> Any:
    """Of `dropout`: other elements of each sample are dropped; else the same, by its rows."""
    return leading(call) if call.draws else NotImplemented


# ---------------------------------------------------------------------------------------------
# images (N, C, *)


def _in_batch(x: "TensorMethods") -> Any:
    """(count, N, *) -> (count * N, *)."""
    shape = tuple(x.shape)
    return TABLE.reshape(x, shape=(shape[0] * shape[1], *shape[2:]))


def _in_channels(x: "TensorMethods") -> Any:
    """(count, N, C, *) -> (N, count * C, *)."""
    return _one_dim(_moved(x, 0, 1))


def _one_dim(x: "TensorMethods") -> Any:
    shape = tuple(x.shape)
    return TABLE.reshape(x, shape=(shape[0], shape[1] * shape[2], *shape[3:]))


def _from_channels(x: "TensorMethods", count: Size) -> Any:
    """(N, count * C, *) -> (count, N, C, *)."""
    shape = tuple(x.shape)
    parted = TABLE.reshape(x, shape=(shape[0], count, shape[1] // count, *shape[2:]))
    return _moved(parted, 1, 0)


def convolved(call: Call) -> Any:
    """Of `convolution` and `convolution_input`: images of all samples in one batch, or, where
    weights are the samples', groups of channels."""
    count = call.count
    if call.only(0):
        found = call.op(_in_batch(call.operands[0]), *call.operands[1:], **call.attributes)
        shape = tuple(found.shape)
        return TABLE.reshape(found, shape=(count, shape[0] // count, *shape[1:]))
    x, weight, *bias = call.fronted()
    operands = [
        _in_channels(x),
        _in_batch(weight),
        *(b if b is None else _in_batch(b) for b in bias),
    ]
    attributes = {**call.attributes, "groups": call.attributes["groups"] * count}
    return _from_channels(call.op(*operands, **attributes), count)


def convolved_weight(call: Call) -> Any:
    """Of `convolution_weight`: every sample is a group of channels."""
    y, x = map(_in_channels, call.fronted())
    attributes = {**call.attributes, "groups": call.attributes["groups"] * call.count}
    found = call.op(y, x, **attributes)
    shape = tuple(found.shape)
    return TABLE.reshape(found, shape=(call.count, shape[0] // call.count, *shape[1:]))


def by_channel(call: Call) -> Any:
    """Of rows that compute per channel: (N, C, *), then operands (C) or None."""
    count = call.count
    x, *others = call.fronted()
    operands = [_in_channels(x), *(b if b is None else _in_batch(b) for b in others)]
    found = call.op(*operands, **call.attributes)
    if len(found.shape) == 1:
        return TABLE.reshape(found, shape=(count, found.shape[0] // count))
    return _from_channels(found, count)


# ---------------------------------------------------------------------------------------------
# sequences


def recurrent(names: tuple[str, ...], shared: tuple[str, ...], left_out: str = "") -> Rule:
    """Of rows on sequences (T, B, *) and states (B, *), by the names of operands: the samples'
    sequences are computed side by side. Not where weights are the samples', nor packed sequences.

    Args:
        names: of all operands.
        shared: those that are the same for all sequences.
        left_out: the one that there is not with the attribute `keeps`.
    """

    def rule(call: Call) -> Any:
        attributes = call.attributes
        weights = [*shared, "cell or bias"] if attributes["mode"] == "GRU" else [*shared]
        given = [name for name in names if not (name == left_out and attributes["keeps"])]
        places = [p for p, name in enumerate(given[: len(call.flags)]) if name not in weights]
        if attributes["batch_sizes"] is not None or not call.only(*places):
            return NotImplemented
        operands = [
            _side_by_side(call.front(place)) if place in places else x
            for place, x in enumerate(call.operands)
        ]
        found = call.op(*operands, **attributes)
        shape = tuple(found.shape)
        parted = (shape[0], call.count, shape[1] // call.count, *shape[2:])
        return _moved(TABLE.reshape(found, shape=parted), 1, 0)

    return rule


def _side_by_side(x: "TensorMethods") -> Any:
    """(count, T, B, W) -> (T, count * B, W), or (count, B, W) -> (count * B, W)."""
    return _in_batch(x) if len(x.shape) == 3 else _in_channels(x)


_OF_KIND: Final[dict[Kind, Rule]] = {
    Kind.POINTWISE: pointwise,
    Kind.REDUCTION: reduced,
    Kind.RANDOM: drawn,
}
