"""Where the elements of a captured tensor would lie in memory had the code run eagerly.

Graph values have no layout of their own: kernels write results row by row. Questions that plain
Python can ask about layouts (`stride()`, `is_contiguous()`, whether `view` is possible) are
answered here from the graph, or not at all. Called by `capture.operations_tensors`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dynajit.core.types import Shape, Size, TensorType, contiguous_strides
from dynajit.eager import from_numpy, no_grad
from dynajit.eager.execute import eager_dispatch
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.sizes import expressions
from dynajit.ops.evaluate import evaluate
from dynajit.ops.indexing import chosen_order
from dynajit.ops.table import TABLE, Composite, Kind, Movement, Op

Known: TypeAlias = Mapping[Node, Shape | None]

#: Rows whose eager results lie row by row whatever the layout of their operands.
_FRESH: Final = frozenset(
    {
        "clone", "matmul", "linear", "full", "arange", "embedding", "cumsum", "cumprod",
        "convolution", "convolution_input", "convolution_weight", "windows", "spread_windows",
        "fold_windows", "sum_pool", "max_pool", "max_pool_choice", "place_windows", "pick_windows",
        "scaled_dot_product_attention", "scatter",
    }
)  # fmt: skip


_NOTHING: Final[Known] = MappingProxyType({})


def strides_of(node: Node, known: Known = _NOTHING) -> Shape | None:
    """Strides in elements of the tensor that eager execution would make; None if not known.

    Args:
        known: the strides of nodes that were asked for before.
    """
    assert isinstance(node.type, TensorType)
    if node in known:
        return known[node]
    if node.kind is NodeKind.PLACEHOLDER:
        return node.type.strides or contiguous_strides(node.type.shape)
    if node.op is None or node.op.name in _FRESH or node.op.kind is Kind.RANDOM:
        return contiguous_strides(node.type.shape)
    if isinstance(node.op.rule, Composite) and node.op.rule.row_major:
        return contiguous_strides(node.type.shape)
    if isinstance(node.op.rule, Movement) and node.op.rule.view:
        return _strides_of_view(node, known)
    if node.op is TABLE.index:
        return _strides_of_chosen(node, known)
    operands = [a for a in node.args if isinstance(a, Node) and isinstance(a.type, TensorType)]
    strides = [strides_of(operand, known) for operand in operands]
    if all(
        given is not None and is_row_major(operand.type.shape, given)
        for operand, given in zip(operands, strides, strict=True)
    ):
        return contiguous_strides(node.type.shape)
    return _strides_by_trial(node, dict(zip(operands, strides, strict=True)))


def _strides_of_chosen(node: Node, known: Known) -> Shape | None:
    source, indices = node.args
    assert isinstance(source, Node) and isinstance(source.type, TensorType)
    assert isinstance(indices, Node) and isinstance(node.type, TensorType)
    strides, dims = strides_of(source, known), node.attributes["dims"]
    if is_by_numbers(node):
        return None if strides is None else _without(strides, dims)
    if strides is not None and is_row_major(source.type.shape, strides):
        return contiguous_strides(node.type.shape)
    if strides is None or not _are_large(source.type.shape):
        return None
    order = chosen_order(strides, dims, len(indices.type.shape) - 1)
    if order is None:
        return contiguous_strides(node.type.shape)
    dense = contiguous_strides(tuple(node.type.shape[d] for d in order))
    return tuple(dense[order.index(d)] for d in range(len(order)))


def _without(strides: Shape, dims: tuple[int, ...]) -> Shape:
    return tuple(step for d, step in enumerate(strides) if d not in dims)


def _strides_by_trial(node: Node, operands: Mapping[Node, Shape | None]) -> Shape | None:
    """Run the row on small arrays whose strides have the same order as those of the operands.

    NumPy lays results out by that order. Sizes above 1 become 2; a row whose attributes do not
    allow that is not known.
    """
    assert node.op is not None and isinstance(node.type, TensorType)
    if node.op.kind not in _BY_ORDER or 0 in node.type.shape:
        return None
    if not _are_large(node.type.shape) or any(expressions(tuple(node.attributes.values()))):
        return None
    arguments: list[Any] = list(node.args)
    for position, argument in enumerate(node.args):
        if isinstance(argument, Node) and isinstance(argument.type, TensorType):
            strides = operands[argument]
            if strides is None or not _are_large(argument.type.shape):
                return None
            if any(stride < 0 for stride in strides):
                return None
            arguments[position] = from_numpy(_small(argument.type, strides))
        elif isinstance(argument, Node):
            arguments[position] = 1
    try:
        with eager_dispatch(), no_grad():
            result = node.op(*arguments, **node.attributes)
    except Exception:
        return None
    small = tuple(result.shape)
    if any((n == 1) != (m == 1) for n, m in zip(node.type.shape, small, strict=True)):
        return None
    return _in_order(node.type.shape, small, tuple(result.stride()))


#: Kinds of rows whose results are laid out by the order of their operands' strides alone.
_BY_ORDER: Final = (Kind.POINTWISE, Kind.REDUCTION, Kind.COMPOSITE, Kind.MOVEMENT)


def _in_order(shape: Shape, small: Shape, strides: Shape) -> Shape | None:
    """Strides without gaps in the order of those of a small array; None if those have gaps."""
    order = sorted(range(len(shape)), key=lambda d: (strides[d], -d))
    found: dict[int, Size] = {}
    step: Size = 1
    expected: Size = 1
    for d in order:
        if small[d] != 1 and strides[d] != expected:
            return None
        found[d] = step
        step, expected = step * shape[d], expected * small[d]
    return tuple(found[d] for d in range(len(shape)))


def _small(type: TensorType, strides: Shape) -> Any:
    """An array of ones with sizes of at most 2 and strides in the order of the given ones.

    It has gaps where the original has some.
    """
    sizes: Any = tuple(min(size, 2) if isinstance(size, int) else 2 for size in type.shape)
    dense = _in_order(type.shape, type.shape, strides) == tuple(strides)
    ranks: dict[Size, int] = {0: 0}
    for step in sorted({step for step, size in zip(strides, sizes, strict=True) if size > 1}):
        ranks.setdefault(step, (2 if dense else 3) ** (len(ranks) - 1))
    steps = tuple(ranks.get(step, 1) * type.dtype.itemsize for step in strides)
    memory = np.ones(sum(ranks.get(step, 1) for step in strides) + 1, type.dtype.numpy)
    return as_strided(memory, sizes, steps)


def is_row_major(shape: Shape, strides: Shape) -> bool:
    """Whether elements with these strides lie row by row."""
    expected = contiguous_strides(shape)
    return 0 in shape or all(
        size == 1 or stride == wanted
        for size, stride, wanted in zip(shape, strides, expected, strict=True)
    )


def storage_order(shape: Shape, strides: Shape | None) -> tuple[int, ...] | None:
    """The dims from the outermost in memory to the innermost, if a kernel has to know.

    None for row-major layouts, for those with gaps, which only views have, and where strides
    are not known.
    """
    if strides is None or not _are_large(shape) or is_row_major(shape, strides):
        return None
    if _in_order(shape, shape, strides) is None:
        return None
    return tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], d)))


def is_contiguous(node: Node) -> bool | None:
    """Whether the elements would lie row by row; None if not known."""
    assert isinstance(node.type, TensorType)
    strides = strides_of(node)
    return None if strides is None else is_row_major(node.type.shape, strides)


def can_view(node: Node, shape: Shape) -> bool | None:
    """Whether `view(shape)`, of the same number of elements, needs no copy; None if not known."""
    assert isinstance(node.type, TensorType)
    strides = strides_of(node)
    if strides is None:
        return None
    return reshaped_strides(node.type.shape, strides, shape) is not None


def aliases(op: Op, shape: Shape, strides: Shape | None, wanted: Shape) -> bool | None:
    """Whether a view row gives a view of a tensor of these strides; None if not known."""
    if op.name != "reshape" or shape == wanted:
        return True
    if strides is None or not (_are_large(shape) and _are_large(wanted)):
        return None
    return reshaped_strides(shape, strides, wanted) is not None


def is_by_numbers(node: Node) -> bool:
    """True for `index` by numbers, one per dim: eager execution gives a view, as for `select`."""
    if node.op is not TABLE.index:
        return False
    numbers = node.args[1]
    return isinstance(numbers, Node) and len(numbers.type.shape) == 1


def strides_after(
    op: Op, attributes: Mapping[str, Any], shape: Shape, strides: Shape, wanted: Shape
) -> Shape | None:
    """Strides of the result, of shape `wanted`, of a view row on a tensor of these strides."""
    if not (_are_large(shape) and _are_large(wanted)):
        return None
    if op.name == "reshape":
        found = reshaped_strides(shape, strides, wanted)
        return contiguous_strides(wanted) if found is None else found
    if op is TABLE.index:
        return _without(strides, attributes["dims"])
    if op.name in _OF_PARTS:
        return _OF_PARTS[op.name](strides)
    is_known = next(expressions(tuple(attributes.values())), None) is None
    if not is_known or not _are_known((*shape, *strides, *wanted)):
        rule = _SYMBOLIC.get(op.name)
        return None if rule is None else rule(shape, strides, wanted, attributes)
    # An array of one byte per element that is never read.
    sizes: Any = shape
    steps: Any = strides
    image = as_strided(np.empty(1, np.int8), sizes, steps, writeable=False)
    return tuple(evaluate(op, [image], dict(attributes)).strides)


def _expanded(shape: Shape, strides: Shape, wanted: Shape, attributes: Any) -> Shape:
    extra = len(wanted) - len(shape)
    kept = (
        0 if size == 1 and new != 1 else stride
        for size, stride, new in zip(shape, strides, wanted[extra:], strict=True)
    )
    return (*(0 for _ in range(extra)), *kept)


def _sliced(shape: Shape, strides: Shape, wanted: Shape, attributes: Any) -> Shape:
    return tuple(stride * by for stride, by in zip(strides, attributes["step"], strict=True))


#: Strides, in their own elements, of views of the parts of complex numbers, and of pairs as them.
_OF_PARTS: Final[Mapping[str, Callable[[Shape], Shape]]] = {
    "real": lambda strides: tuple(2 * stride for stride in strides),
    "imag": lambda strides: tuple(2 * stride for stride in strides),
    "view_as_real": lambda strides: (*(2 * stride for stride in strides), 1),
    "view_as_complex": lambda strides: tuple(stride // 2 for stride in strides[:-1]),
}

#: Strides of views of symbolic sizes: `rule(shape, strides, wanted, attributes)`, by row.
_SYMBOLIC: Final[Mapping[str, Callable[[Shape, Shape, Shape, Any], Shape]]] = {
    "detach": lambda shape, strides, wanted, attributes: strides,
    "permute": lambda shape, strides, wanted, attributes: tuple(
        strides[d] for d in attributes["dims"]
    ),
    "expand": _expanded,
    "slice": _sliced,
    "select": lambda shape, strides, wanted, attributes: (
        *strides[: attributes["dim"]],
        *strides[attributes["dim"] + 1 :],
    ),
}


def _are_large(sizes: Shape) -> bool:
    """True if no symbolic size can be 0 or 1: such sizes have any stride."""
    return all(isinstance(size, int) or size >= 2 for size in sizes)


def _are_known(sizes: Shape) -> bool:
    return all(isinstance(size, int) for size in sizes)


def reshaped_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides under which the elements appear in another shape; None where a copy is needed."""
    if 0 in shape:
        return contiguous_strides(wanted)
    blocks: list[tuple[Size, Size]] = []  # (elements, stride) of dimensions that are one run
    for size, stride in zip(shape, strides, strict=True):
        if blocks and size != 1 and blocks[-1][1] == size * stride:
            blocks[-1] = (blocks[-1][0] * size, stride)
        elif size != 1:
            blocks.append((size, stride))
    found: list[Size] = []
    count: Size
    step: Size
    count, step = blocks.pop() if blocks else (1, 1)
    for size in reversed(wanted):
        if count == 1 and size != 1:
            if not blocks:  # sizes of which it is not known that they make up as many elements
                return None
            count, step = blocks.pop()
        if count % size:
            return None
        found.append(step)
        count, step = count // size, step * size
    return tuple(reversed(found))


def _strides_of_view(node: Node, known: Known) -> Shape | None:
    assert node.op is not None
    (base,) = (arg for arg in node.args if isinstance(arg, Node))
    assert isinstance(base.type, TensorType) and isinstance(node.type, TensorType)
    strides = strides_of(base, known)
    if strides is None:
        return None
    return strides_after(node.op, node.attributes, base.type.shape, strides, node.type.shape)
