"""Planned units become loop kernels: axes merged, passes ordered, expensive values kept.

Contract: `lower(plan)` gives one frozen kernel per unit, in running order. Neighbouring axes are
merged where every index expression allows it, so most kernels have one or two loops. A row's passes
are ordered by what they need: a reduction's result is known after its pass. Expensive values that
two passes need are kept in a row buffer.
"""

from dataclasses import replace

from dynajit.codegen.loops.elements import AskedIndices, at_least_one, linear
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Axis,
    ColumnKernel,
    Expression,
    Keep,
    Kernel,
    Literal,
    Load,
    MatmulKernel,
    Matrix,
    Parameter,
    Phase,
    RowKernel,
    ScanKernel,
    ScatterKernel,
    Select,
    Store,
    cost,
)
from dynajit.codegen.loops.scans import BACKWARD
from dynajit.codegen.loops.symbolic import Scalar, SymbolicScalars, cast, lift
from dynajit.codegen.plan.axes import with_merged_axes, with_split_axes
from dynajit.codegen.plan.fusion import Plan, Product, Scattering
from dynajit.codegen.plan.natives import Native, lower_native
from dynajit.codegen.plan.regions import (
    ELEMENT,
    ELEMENT_TOTAL,
    FINAL,
    ROW,
    ROW_TOTAL,
    Region,
    expand,
)
from dynajit.core.errors import InternalError
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import Shape, TensorType, numel
from dynajit.ir.node import type_of

LONGEST_KEPT_ROW = 4096
"""Elements of a row up to which expensive values are kept on the stack (32 KB of doubles)."""

WORTH_KEEPING = 10
"""Cost from which a value is kept instead of computed in two passes."""


def lower(plan: Plan, prefix: str = "") -> list[Kernel]:
    """The kernels of a plan; units that compute nothing give none.

    Args:
        prefix: what their names begin with.
    """
    kernels: list[Kernel] = []
    for unit in plan.units:
        name = f"{prefix}k{len(kernels)}_{next(iter(unit.anchors)).name}"
        if isinstance(unit, Product):
            kernels.append(_product(name, unit))
        elif isinstance(unit, Scattering):
            kernels.append(_scatter(name, unit))
        elif isinstance(unit, Native):
            kernels.append(lower_native(name, unit))
        else:
            region = with_merged_axes(with_split_axes(unit))
            _require_own_values(name, region)
            kernels.append(_loops(name, region))
    return kernels


def _loops(name: str, region: Region) -> Kernel:
    if region.scanned:
        return _scan(name, region)
    return _columns(name, region) if region.columns else _rows(name, region)


def _require_own_values(name: str, region: Region) -> None:
    """A kernel that loads what it stores would read memory that is not written yet."""
    written = {anchor.store for anchor in region.anchors.values()} - {None}
    for buffer in written & region.loads():
        raise InternalError(f"{name} loads {buffer}, which it computes itself")


# ---------------------------------------------------------------------------------------------
# row kernels


def _stores(region: Region, level: tuple[str, ...]) -> tuple[Store, ...]:
    return tuple(
        Store(anchor.store, anchor.offset, anchor.value)
        for anchor in region.anchors.values()
        if anchor.store is not None and anchor.level in level
    )


def _accumulates(region: Region, level: str) -> list[Accumulate]:
    return [
        anchor.accumulate
        for anchor in region.anchors.values()
        if anchor.accumulate is not None and anchor.level == level
    ]


def _rows(name: str, region: Region) -> RowKernel:
    if region.reduced:
        rows = tuple(a for d, a in enumerate(region.axes) if d not in region.reduced)
        elements = tuple(a for d, a in enumerate(region.axes) if d in region.reduced)
    else:
        rows, elements = region.axes[:-1], region.axes[-1:]
    inner = frozenset(axis.name for axis in elements)
    phases = _phases(region)
    if _may_keep(numel(tuple(axis.size for axis in elements))):
        phases = _with_keeps(phases, inner)
    return RowKernel(
        name,
        rows,
        elements,
        tuple(phases),
        _stores(region, (ROW,)) if region.reduced else (),
        tuple(_accumulates(region, ROW_TOTAL)),
        tuple(_accumulates(region, ELEMENT_TOTAL)),
        _stores(region, (FINAL, ROW_TOTAL, ELEMENT_TOTAL)),
        region.elements.data_indices.all(),
    )


def _may_keep(row: Number) -> bool:
    """True if values of a row can be kept: on the stack, or where rows have any length apart."""
    return not isinstance(row, int) or row <= LONGEST_KEPT_ROW


def _phases(region: Region) -> list[Phase]:
    """Passes over the elements: each reduction after those it reads, each store likewise."""
    ready: dict[str, int] = {}
    accumulates: dict[int, list[Accumulate]] = {}
    for accumulate in _accumulates(region, ELEMENT if region.scanned else ROW):
        own = _first_pass((*accumulate.element, *(accumulate.first or ())), ready, region)
        ready[accumulate.name] = own
        accumulates.setdefault(own, []).append(accumulate)
    stores: dict[int, list[Store]] = {}
    for store in _stores(region, (ELEMENT,)):
        stores.setdefault(_first_pass((store.value,), ready, region), []).append(store)
    passes = 1 + max((*accumulates, *stores, 0))
    return [
        Phase(tuple(accumulates.get(p, ())), (), tuple(stores.get(p, ()))) for p in range(passes)
    ]


def _first_pass(roots: tuple[Expression, ...], ready: dict[str, int], region: Region) -> int:
    needed = [
        1 + ready[e.name]
        for e in expand(roots, region.elements)
        if isinstance(e, Accumulated) and e.name in ready
    ]
    return max(needed, default=0)


def _roots(phase: Phase) -> tuple[Expression, ...]:
    found: list[Expression] = [store.value for store in phase.stores]
    for accumulate in phase.accumulates:
        found.extend(accumulate.element)
    return tuple(found)


def unconditional(roots: tuple[Expression, ...]) -> list[Expression]:
    """Expressions that are evaluated whatever index conditions say; operands first."""
    seen: set[Expression] = set()
    order: list[Expression] = []

    def visit(expression: Expression) -> None:
        stack = [(expression, False)]
        while stack:
            current, done = stack.pop()
            if done:
                order.append(current)
            elif current not in seen:
                seen.add(current)
                stack.append((current, True))
                below = current.operands
                if isinstance(current, Select):
                    below = (current.condition,)
                stack.extend((operand, False) for operand in reversed(below))

    for root in roots:
        visit(root)
    return order


def _with_keeps(phases: list[Phase], inner: frozenset[str]) -> list[Phase]:
    """Keep what is expensive and needed in two passes."""
    if len(phases) < 2:
        return phases
    used = [unconditional(_roots(phase)) for phase in phases]
    weights, varying = _weights(used, inner)
    times: dict[Expression, int] = {}
    for expressions in used:
        for e in expressions:
            times[e] = times.get(e, 0) + 1
    shared = {
        e for e, n in times.items()
        if n > 1 and e in varying and weights[e] >= WORTH_KEEPING
        and not isinstance(e, (Load, Literal, Parameter))
    }  # fmt: skip
    covered = {operand for e in shared for operand in e.operands if operand in shared}
    kept = [e for e in dict.fromkeys(e for es in used for e in es) if e in shared - covered]
    result = list(phases)
    for number, e in enumerate(kept):
        first = next(p for p, expressions in enumerate(used) if e in expressions)
        keep = Keep(f"keep{number}", e)
        result[first] = replace(result[first], keeps=(*result[first].keeps, keep))
    return result


def _weights(
    used: list[list[Expression]], inner: frozenset[str]
) -> tuple[dict[Expression, int], set[Expression]]:
    """Cost of each expression's subtree per element (bounded), and which vary within a row."""
    weights: dict[Expression, int] = {}
    varying: set[Expression] = set()
    for expressions in used:
        for e in expressions:
            if e in weights:
                continue
            names = frozenset().union(*(symint.symbols(number) for number in e.numbers))
            # What a data index depends on is not looked up: it counts as varying.
            changes = any(operand in varying for operand in e.operands) or any(
                name in inner or name.startswith("j") for name in names
            )
            if changes:
                varying.add(e)
            below = sum(weights.get(o, 0) for o in e.operands if o in varying)
            weights[e] = min(cost(e) + below, 1000) if changes else 0
    return weights, varying


# ---------------------------------------------------------------------------------------------
# column kernels


def _columns(name: str, region: Region) -> ColumnKernel:
    last = max(region.reduced)
    axes = list(enumerate(region.axes))
    outer = tuple(a for d, a in axes if d not in region.reduced and d < last)
    columns = tuple(a for d, a in axes if d > last)
    return ColumnKernel(
        name,
        outer + columns[:-1],
        tuple(a for d, a in axes if d in region.reduced),
        columns[-1:],
        tuple(_accumulates(region, ROW)),
        _stores(region, (ROW,)),
        region.elements.data_indices.all(),
    )


# ---------------------------------------------------------------------------------------------
# scans


def _scan(name: str, region: Region) -> ScanKernel:
    """Phases as of a row: values that two of them need are kept for a block of elements."""
    (d,) = region.reduced
    outer, scanned, columns = region.axes[:d], region.axes[d], region.axes[d + 1 :]
    phases = _phases(region)
    if not columns:
        phases = _with_keeps(phases, frozenset((scanned.name,)))
    is_reverse = region.scanned == BACKWARD
    data = region.elements.data_indices.all()
    return ScanKernel(name, outer, scanned, columns, tuple(phases), is_reverse, data)


# ---------------------------------------------------------------------------------------------
# scatters and products


def _scatter(name: str, unit: Scattering) -> ScatterKernel:
    node = unit.node
    assert node.op is not None and isinstance(node.type, TensorType)
    rule = node.op.rule
    types = [type_of(argument) for argument in node.args]
    shape = node.type.shape
    fill = tuple(Axis(f"i{d}", size) for d, size in enumerate(shape))
    buffer = unit.elements.storage.add(node)
    here = tuple(axis.symbol for axis in fill)
    initial = Store(buffer, linear(here, shape), unit.elements.at(node.args[0], here))

    elements = unit.elements

    def load(k: int, position: tuple[Number, ...]) -> Scalar:
        return Scalar(elements.at(node.args[k], tuple(position)))

    domain = rule.domain(types, **node.attributes)
    if 0 in domain:
        # No index is looked at, not even by code that is moved out of the loop.
        nothing = Store(buffer, 0, Literal(0, node.type.dtype))
        data = elements.data_indices.all()
        return ScatterKernel(
            name, fill, initial, (Axis("none", 0),), nothing, "set", node.type.dtype, data
        )
    loops = tuple(Axis(f"i{d}", size) for d, size in enumerate(domain))
    index = tuple(axis.symbol for axis in loops)
    asked = AskedIndices(elements)
    namespace = SymbolicScalars(index, asked)
    target, value = rule.write(namespace, load, index, types, **node.attributes)
    mode, accumulator = rule.mode_of(node.attributes), node.type.dtype
    if mode != "set":
        accumulator = dtypes.compute_dtype(accumulator)
    place = linear(target, shape)
    written = asked.kept_in(cast(lift(value, accumulator), accumulator), place)
    write = Store(buffer, place, written)
    data = elements.data_indices.all()
    return ScatterKernel(name, fill, initial, loops, write, mode, accumulator, data)


def _product(name: str, unit: Product) -> MatmulKernel:
    node = unit.node
    shape = node.type.shape
    batch, rows, columns = shape[:-2], shape[-2], shape[-1]
    left_shape, right_shape = (a.type.shape for a in node.args)  # type: ignore[union-attr]
    inner = left_shape[-1]
    result = Matrix(unit.result, 0, _row_major(batch, rows * columns), at_least_one(columns), 1)
    left = _broadcast(unit.left, left_shape[:-2], batch)
    right = _broadcast(unit.right, right_shape[:-2], batch)
    return _flattened(MatmulKernel(name, batch, rows, inner, columns, left, right, result))


def _row_major(sizes: Shape, step: Number) -> Shape:
    strides = []
    for size in reversed(sizes):
        strides.append(step)
        step = step * at_least_one(size)
    return tuple(reversed(strides))


def _broadcast(matrix: Matrix, own: Shape, batch: Shape) -> Matrix:
    """Batch strides for the result's batch dims: 0 where the operand is repeated."""
    strides = tuple(
        0 if size == 1 else stride for size, stride in zip(own, matrix.batch_strides, strict=True)
    )
    return replace(matrix, batch_strides=(0,) * (len(batch) - len(own)) + strides)


def _flattened(kernel: MatmulKernel) -> MatmulKernel:
    """A batch that shares the right operand is one tall product where the rows line up."""
    while kernel.batch:
        size = kernel.batch[-1]
        fits = (
            kernel.right.batch_strides[-1] == 0
            and kernel.left.column_stride == 1
            and kernel.left.batch_strides[-1] == kernel.rows * kernel.left.row_stride
        )
        if size != 1 and not fits:
            return kernel
        kernel = replace(
            kernel,
            batch=kernel.batch[:-1],
            rows=kernel.rows * size,
            left=_without_last_batch(kernel.left),
            right=_without_last_batch(kernel.right),
            result=_without_last_batch(kernel.result),
        )
    return kernel


def _without_last_batch(matrix: Matrix) -> Matrix:
    return replace(matrix, batch_strides=matrix.batch_strides[:-1])
