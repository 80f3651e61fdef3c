"""Random graphs with symbolic sizes, and their values at several assignments of sizes.

`SymbolicMaker(seed)` appends rows to a graph over one to three symbols and evaluates each at every
assignment, with NumPy, in the graph's dtypes and in float64. What a row refuses, or what overflows
or loses its precision at one assignment, is dropped. `exact` values are multiples of a quarter
that no order of summation rounds: only they reach rows with jumps, and they are compared bit by
bit.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynajit.core.errors import DynajitError
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number, symbol
from dynajit.core.types.value_types import TensorType, numel
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.sizes import known
from dynajit.ops import TABLE as ops
from dynajit.ops import Kind, Op
from dynajit.ops.evaluate import evaluate, type_of_operand
from tests.support.kernels.fuzz_graphs import BIG, evaluate_wide, is_floating, widened

LIMIT = 60_000
"""Elements of a value at most: above the parallel threshold, quick for NumPy."""

SMALL = (2, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
LARGE = (63, 64, 65, 100, 257, 1000, 4099, 9000, 20000)
EXACT = {"add", "sub", "neg", "abs", "relu", "maximum", "minimum", "where", "sum", "amax", "amin",
         "clamp_min", "cast", "index_add", "scatter_add", "full", "arange"}  # fmt: skip
JUMPS = {"eq", "lt", "ge", "ceil", "sign", "argmax", "argmin", "any", "all"}
UNARY = ("exp", "sin", "tanh", "neg", "abs", "relu", "sigmoid", "square", "cos", "sign", "ceil")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "add", "mul", "atan2", "lt", "eq", "ge")
REDUCTIONS = ("sum", "sum", "sum", "amax", "amin", "argmax", "argmin", "mean", "var", "logsumexp")


@dataclass(frozen=True)
class Entry:
    """A value of the graph being made.

    Args:
        value: its graph value.
        narrow, wide: what it is at each assignment, in the graph's dtypes and in float64.
        exact: no rounding took place.
    """

    value: Any
    narrow: tuple[Any, ...]
    wide: tuple[Any, ...]
    exact: bool

    @property
    def shape(self) -> tuple[Number, ...]:
        return tuple(self.value.shape)

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass
class SymbolicMade:
    """A graph, its inputs and outputs at each assignment."""

    graph: Graph
    assignments: tuple[dict[str, int], ...]
    inputs: list[tuple[Any, ...]]
    outputs: list[Entry]


class SymbolicMaker:
    """Makes one graph; every choice follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.builder = Builder(f"symbolic_{seed}")
        self.symbols = [symbol(f"s{k}", 2) for k in range(1 + self.up_to(3))]
        self.base = self._base()
        self.assignments = tuple(self._assignment(k) for k in range(5))
        self.inputs: list[tuple[Any, ...]] = []
        self.pool: list[Entry] = []
        for size in self.symbols:  # every symbol is seen somewhere
            self._input((size,))
        for _ in range(2 + self.up_to(2)):
            self._input(self._related())

    # choices ----------------------------------------------------------------------------

    def up_to(self, limit: int) -> int:
        return int(self.random.integers(limit))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def pick(self, choices: Any) -> Any:
        return choices[self.up_to(len(choices))]

    def entry(self, fits: Callable[[Entry], bool] = lambda e: True) -> Entry:
        """An entry, later ones more often."""
        fitting = [e for e in self.pool if fits(e)]
        if not fitting:
            raise DynajitError("nothing fits")
        return self.pick(fitting[-4:] if self.chance(0.5) else fitting)

    def _assignment(self, number: int) -> dict[str, int]:
        names = [f"s{k}" for k in range(len(self.symbols))]
        if number == 0:
            return dict.fromkeys(names, 2)
        sizes = {name: self.pick(SMALL) for name in names}
        if number > 2:
            sizes[self.pick(names)] = self.pick(LARGE)
        while math.prod(known(self.base, sizes)) > LIMIT // 2:
            largest = max(names, key=sizes.__getitem__)
            sizes[largest] = max(2, sizes[largest] // 2)
        return sizes

    def _base(self) -> tuple[Number, ...]:
        shape: list[Number] = list(self.symbols)
        shape += [self.pick((1, 2, 3, 4, 8, 17, 32)) for _ in range(self.up_to(2))]
        self.random.shuffle(shape)  # type: ignore[arg-type]
        if not len(shape) - 1:
            shape.append(self.pick((3, 64, 5)))
        return tuple(shape)

    def _related(self) -> tuple[Number, ...]:
        """A shape that broadcasts with the base shape."""
        shape = [1 if self.chance(0.12) else size for size in self.base]
        return tuple(shape[self.up_to(len(shape)) :] if self.chance(0.25) else shape)

    def _plain(self, shape: Any) -> list[tuple[int, ...]]:
        return [known(tuple(shape), numbers) for numbers in self.assignments]

    def _input(self, shape: tuple[Number, ...], dtype: DType | None = None) -> Entry:
        if any(math.prod(plain) > LIMIT for plain in self._plain(shape)):
            raise DynajitError("too large")
        dtype = dtype or self.pick((dtypes.float32,) * 5 + (dtypes.float64, dtypes.int64))
        exact = self.chance(0.5) or not dtype.is_floating_point
        arrays = []
        for plain in self._plain(shape):
            drawn = self.random.uniform(-2, 2, plain)
            if not dtype.is_floating_point:
                drawn = self.random.integers(-5, 6, plain)
            elif exact:
                drawn = np.round(drawn * 4) / 4
            arrays.append(np.asarray(drawn).astype(dtype.numpy))
        return self._append_input(shape, dtype, tuple(arrays), exact)

    def _append_input(self, shape: Any, dtype: DType, arrays: Any, exact: bool) -> Entry:
        value = self.builder.placeholder("x", TensorType(tuple(shape), dtype))
        self.inputs.append(arrays)
        made = Entry(value, arrays, tuple(map(widened, arrays)), exact)
        self.pool.append(made)
        return made

    # steps ------------------------------------------------------------------------------

    def make(self, steps: int) -> SymbolicMade:
        """The graph after `steps` attempts."""
        kinds = [self.pointwise] * 8 + [self.reduction] * 4 + [self.movement] * 6
        kinds += [self.indexing, self.indexing, self.product, self.composite, self.composite]
        for _ in range(steps):
            mark = self.builder.snapshot()
            count, given = len(self.pool), len(self.inputs)
            try:
                self.pick(kinds)()
            except (DynajitError, ValueError, IndexError, ZeroDivisionError):
                self.builder.restore(mark)
                del self.pool[count:], self.inputs[given:]
        used = {id(a) for e in self.pool for a in e.value.node.args}
        last = [e for e in self.pool[len(self.symbols) :] if id(e.value.node) not in used]
        chosen = [*[e for e in last if self.chance(0.8)][-6:], self.pick(self.pool)]
        graph = self.builder.finish([e.value for e in chosen])
        return SymbolicMade(graph, self.assignments, self.inputs, chosen)

    def call(self, op: Op, operands: Sequence[Any], **attributes: Any) -> Entry:
        """Append `op` and evaluate it at every assignment; operands are entries or numbers.

        Raises:
            DynajitError: a row refuses them, or a result is not fit for comparisons.
        """
        entries = [o for o in operands if isinstance(o, Entry)]
        exact = all(e.exact for e in entries)
        if op.name in JUMPS and not exact:
            raise DynajitError("a rounding would change the result")
        bound = op.bind(attributes)
        value = self.builder.call(
            op, [o.value if isinstance(o, Entry) else o for o in operands], bound
        )
        if any(math.prod(plain) > LIMIT or min(plain, default=0) < 0
               for plain in self._plain(value.shape)):  # fmt: skip
            raise DynajitError("too large, or negative")
        narrow, wide = [], []
        for k, numbers in enumerate(self.assignments):
            plain = {name: known(v, numbers) for name, v in bound.items()}
            given = [(o.narrow[k], o.wide[k]) if isinstance(o, Entry) else (o, o)
                     for o in operands]  # fmt: skip
            narrow.append(_run(op, [n for n, _ in given], plain, evaluate))
            wide.append(_run(op, [w for _, w in given], plain, evaluate_wide))
            _require_fit(narrow[-1], wide[-1])
        keeps = op.kind is Kind.MOVEMENT or op.name in EXACT or op.name in JUMPS
        still = exact and keeps and all(map(_is_exact, narrow, wide))
        if not is_floating(narrow[0]) and not still:
            raise DynajitError("integers that are not exact")
        made = Entry(value, tuple(narrow), tuple(wide), still)
        self.pool.append(made)
        return made

    def pointwise(self) -> None:
        x = self.entry()
        if self.chance(0.4):
            if not x.dtype.is_floating_point:
                raise DynajitError("integers")
            self.call(getattr(ops, self.pick(UNARY)), [x])
            return
        y: Any = self.pick((2, 0.5, -1.0, 0.25, 3))
        if self.chance(0.8):
            y = self.entry(lambda e: e.dtype.category is x.dtype.category)
        self.call(getattr(ops, self.pick(BINARY)), [x, y])

    def reduction(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0)
        dim = tuple(d for d in range(len(x.shape)) if self.chance(0.5)) or (
            self.up_to(len(x.shape)),
        )
        op = getattr(ops, self.pick(REDUCTIONS))
        self.call(op, [x], dim=dim, keepdim=self.chance(0.5))

    def movement(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0)
        self.pick((self._permute, self._reshape, self._reshape, self._slice, self._pad, self._cat,
                   self._flip, self._expand, self._select, self._split))(x)  # fmt: skip

    def _permute(self, x: Entry) -> None:
        self.call(ops.permute, [x], dims=tuple(self.random.permutation(len(x.shape)).tolist()))

    def _reshape(self, x: Entry) -> None:
        """Merge neighbours, or give the whole a shape of two dims."""
        rank = len(x.shape)
        if rank < 2:
            raise DynajitError("nothing to merge")
        start = self.up_to(rank - 1)
        stop = start + 2 + self.up_to(rank - start - 1)
        shape = (*x.shape[:start], numel(x.shape[start:stop]), *x.shape[stop:])
        if self.chance(0.3):
            order = list(x.shape)
            self.random.shuffle(order)  # type: ignore[arg-type]
            shape = tuple(order)
        self.call(ops.reshape, [x], shape=shape)

    def _split(self, x: Entry) -> None:
        """A dim that is a product, as two."""
        d = self.up_to(len(x.shape))
        factor = self.pick((2, 4, *self.symbols))
        rest = symint.floordiv(x.shape[d], factor)
        if rest * factor != x.shape[d]:
            raise DynajitError("no factor")
        pair = (rest, factor) if self.chance(0.5) else (factor, rest)
        self.call(ops.reshape, [x], shape=(*x.shape[:d], *pair, *x.shape[d + 1 :]))

    def _slice(self, x: Entry) -> None:
        start: list[Number] = [0] * len(x.shape)
        stop, step = list(x.shape), [1] * len(x.shape)
        d = self.up_to(len(x.shape))
        least = symint.bounds(x.shape[d])[0] or 0
        start[d] = self.up_to(least + 1)
        if self.chance(0.5):
            stop[d] = x.shape[d] - self.up_to(least - int(start[d]) + 1)
        step[d] = self.pick((1, 1, 2, 3))
        self.call(ops.slice, [x], start=tuple(start), stop=tuple(stop), step=tuple(step))

    def _pad(self, x: Entry) -> None:
        amounts = (0, 0, 1, 3, self.pick(self.symbols))
        before, after = (tuple(self.pick(amounts) for _ in x.shape) for _ in range(2))
        self.call(ops.pad, [x], before=before, after=after, value=self.pick((0, 1)))

    def _cat(self, x: Entry) -> None:
        dim = self.up_to(len(x.shape))
        y = self.entry(
            lambda e: e.dtype is x.dtype and len(e.shape) == len(x.shape)
            and all(d == dim or a == b for d, (a, b) in enumerate(zip(e.shape, x.shape,
                                                                      strict=True)))
        )  # fmt: skip
        self.call(ops.cat, [x, y] if self.chance(0.5) else [y, x, y], dim=dim)

    def _flip(self, x: Entry) -> None:
        self.call(ops.flip, [x], dims=tuple(d for d in range(len(x.shape)) if self.chance(0.5)))

    def _expand(self, x: Entry) -> None:
        shape = [self.pick((3, *self.symbols)) if size == 1 else size for size in x.shape]
        self.call(ops.expand, [x], shape=(self.pick((1, 2, *self.symbols)), *shape))

    def _select(self, x: Entry) -> None:
        d = self.up_to(len(x.shape))
        least = symint.bounds(x.shape[d])[0] or 0
        index: Number = self.up_to(least)
        self.call(ops.select, [x], dim=d, index=index if self.chance(0.5) else x.shape[d] - 1)

    def product(self) -> None:
        x = self.entry(lambda e: len(e.shape) >= 2)
        fits = [e for e in self.pool if len(e.shape) >= 2 and e.dtype is x.dtype
                and x.shape[-1] in (e.shape[-1], e.shape[-2])]  # fmt: skip
        y = self.pick(fits)
        if y.shape[-2] != x.shape[-1]:
            rank = len(y.shape)
            y = self.call(ops.permute, [y], dims=(*range(rank - 2), rank - 1, rank - 2))
        for a, b in zip(self._plain(x.shape), self._plain(y.shape), strict=True):
            if math.prod(a) * b[-1] * math.prod(b[:-2]) > 3_000_000:
                raise DynajitError("too much work")
        self.call(ops.matmul, [x, y])

    def indexing(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0)
        d = self.up_to(len(x.shape))
        count = self.pick((1, 4, *self.symbols))
        limits = [plain[d] for plain in self._plain(x.shape)]
        if min(limits) < 1:
            raise DynajitError("nothing to index")
        wide = [*x.shape]
        wide[d] = count
        kind = self.pick(("select", "add", "gather", "scatter"))
        shape = (count,) if kind in ("select", "add") else tuple(wide)
        if any(math.prod(plain) > LIMIT for plain in self._plain(shape)):
            raise DynajitError("too large")
        arrays = tuple(
            self.random.integers(0, limit, plain)
            for limit, plain in zip(limits, self._plain(shape), strict=True)
        )
        index = self._append_input(shape, dtypes.int64, arrays, exact=True)
        gather = ops.index_select if kind in ("select", "add") else ops.gather
        taken = self.call(gather, [x, index], dim=d)
        if kind in ("add", "scatter"):
            into = ops.index_add if kind == "add" else self.pick((ops.scatter_add, ops.scatter))
            self.call(into, [x, index, self.call(ops.neg, [taken])], dim=d)

    def composite(self) -> None:
        x = self.entry(lambda e: e.dtype.is_floating_point and len(e.shape) > 0)
        kind = self.up_to(5)
        if kind == 0:
            self.call(ops.layer_norm, [x, None, None], normalized_shape=x.shape[-1:], eps=1.0)
        elif kind == 1:
            self.call(ops.rand, [5, self.up_to(9)], shape=x.shape, dtype=x.dtype)
        elif kind == 2:
            size = self.pick((*self.symbols, 7, numel(x.shape)))
            made = self.call(ops.arange, [1, 2], size=size, dtype=dtypes.float64)
            self.call(ops.sin, [made])
        else:
            op, dim = self.pick((ops.softmax, ops.log_softmax)), self.up_to(len(x.shape))
            if not symint.is_at_least(x.shape[dim], 1):
                raise DynajitError("may be empty: the maximum of nothing")
            self.call(op, [x], dim=dim)


def _run(op: Op, operands: list[Any], attributes: Any, how: Any) -> Any:
    op.infer(*map(type_of_operand, operands), **attributes)  # what is refused at some size only
    if op.kind is not Kind.COMPOSITE:
        return how(op, operands, attributes)
    builder = Builder("one")
    arguments = [
        builder.placeholder("x", TensorType(o.shape, dtypes.from_numpy(o.dtype)))
        if isinstance(o, np.ndarray) else o
        for o in operands
    ]  # fmt: skip
    graph = builder.finish([builder.call(op, arguments, attributes)])
    return interpret.run(graph, [o for o in operands if isinstance(o, np.ndarray)], how)[0]


def _require_fit(narrow: Any, wide: Any) -> None:
    if not is_floating(narrow) or not narrow.size:
        return
    with np.errstate(invalid="ignore"):
        largest = np.abs(wide).max()
        error = np.abs(narrow.astype(np.float64) - wide).max()
    if not largest < BIG or not error <= 1e-4 * (1 + largest):
        raise DynajitError("overflow or cancellation")


def _is_exact(narrow: Any, wide: Any) -> bool:
    """A multiple of a quarter, so small that float32 sums of such values are exact."""
    whole = widened(narrow)
    return bool(np.array_equal(whole, wide)) and not np.any(whole * 4 != np.round(whole * 4))
