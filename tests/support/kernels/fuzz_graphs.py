"""Random graphs with values: what the fuzz tests of code generation run.

`Maker(seed, ...)` appends rows to a graph and evaluates each with NumPy, in the graph's dtypes and
in float64. A call that raises, overflows or loses its precision is dropped, so that what remains
has a meaning in float32. A value computed without any rounding carries a `quantum`: it is a
multiple of that power of two and small enough that no order of summation rounds. Such values are
compared bit by bit, and only they reach discontinuous rows (comparisons, rounding, sorting), where
a difference of one rounding would not be an error of the compiler.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynajit.core.errors import DynajitError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ops import TABLE as ops
from dynajit.ops import Kind, Op
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.scalar import SCALARS

SMALL = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
LARGE = (63, 64, 65, 100, 257, 1000, 4099, 20000)
LIMIT = 50_000
"""Elements of a value at most: above the parallel threshold, quick for NumPy."""

BIG = 1e4
MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
EXACT = {
    "abs", "add", "cast", "clamp", "clamp_max", "clamp_min", "hardtanh", "leaky_relu", "maximum",
    "minimum", "mul", "neg", "relu", "square", "sub", "where", "sum", "amax", "amin", "matmul",
    "sign", "ceil", "floor", "round", "trunc", "cumsum", "index_add", "index_accumulate",
    "scatter_add", "full", "arange", "embedding",
}  # fmt: skip
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -0.25, 2.0, -3.0, 0.5, 1.75, -1.5)
MULTIPLIES = {"mul", "square", "matmul", "leaky_relu"}
SUMS = {"sum", "matmul", "cumsum", "index_add", "index_accumulate", "scatter_add"}
DISCONTINUOUS = {
    "argmax", "argmin", "argsort", "ceil", "eq", "floor", "floor_divide", "floored_quotient",
    "fmod", "ge", "gt", "le", "lt", "ne", "remainder", "round", "sign", "trunc",
    "truncated_quotient", "logical_and", "logical_or", "logical_xor", "logical_not", "any", "all",
    "isnan", "isinf", "isfinite",
}  # fmt: skip
CREATION = {"full", "arange", "cast", "integer"}
OF_SOME_DTYPES = frozenset(name for name, row in SCALARS.items() if row.kernels is not None)
"""Functions that kernels have for some dtypes only, and not on GPUs: of a graph with one of them
there may be no code."""
POINTWISE = [
    op
    for op in ops
    if op.kind is Kind.POINTWISE and op.name not in CREATION and op.name not in OF_SOME_DTYPES
]
REDUCTIONS = [op for op in ops if op.kind is Kind.REDUCTION]
FLOATING = (dtypes.float32,) * 6 + (dtypes.float64,)
NARROW = (dtypes.float16, dtypes.bfloat16)
WHOLE = (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.bool_)


def is_floating(array: Any) -> bool:
    """Of an array; bfloat16 is not a NumPy kind."""
    return dtypes.from_numpy(array.dtype).is_floating_point


def widened(array: Any) -> Any:
    """The operand in float64 where it is a floating array."""
    if isinstance(array, np.ndarray) and is_floating(array):
        return array.astype(np.float64)
    return array


def evaluate_wide(op: Op, operands: Any, attributes: Any) -> Any:
    """`evaluate` with every floating dtype replaced by float64; random rows draw the same."""
    if op.kind is not Kind.RANDOM:
        operands = [widened(operand) for operand in operands]
        given = attributes.get("dtype")
        if given is not None and given.is_floating_point:
            attributes = {**attributes, "dtype": dtypes.float64}
    return widened(evaluate(op, operands, attributes))


@dataclass(frozen=True)
class Entry:
    """A value of the graph being made.

    Args:
        value: its graph value, or a Python number.
        narrow, wide: what it is in the graph's dtypes, and in float64.
        quantum: of an exactly computed value; 0 where roundings took place.
    """

    value: Any
    narrow: Any
    wide: Any
    quantum: float

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.narrow))

    @property
    def dtype(self) -> DType:
        return dtypes.from_numpy(self.narrow.dtype)


@dataclass
class Made:
    """A graph with its inputs and what is expected of it. Mutable: only while it is made."""

    graph: Graph
    inputs: list[Any]
    exact: list[bool] = field(default_factory=list)

    def narrow(self) -> tuple[Any, ...]:
        """Outputs by the interpreter, in the graph's dtypes."""
        return interpret.run(self.graph, self.inputs)

    def wide(self) -> tuple[Any, ...]:
        """Outputs in float64."""
        return interpret.run(self.graph, [*map(widened, self.inputs)], evaluate_wide)


class Maker:
    """Makes one graph; every choice follows from the seed.

    Args:
        seed: of the choices.
        narrow: 16-bit floats take part.
        smooth: only rows with derivatives, on floats (for gradients).
        special: NaN, infinities and zeros of both signs in the inputs, and only rows that are
            exact, so that every bit is known.
    """

    def __init__(
        self, seed: int, *, narrow: bool = False, smooth: bool = False, special: bool = False
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.floating = FLOATING + NARROW * 2 if narrow else FLOATING
        self.smooth = smooth
        self.special = special
        self.builder = Builder(f"fuzz_{seed}")
        self.inputs: list[Any] = []
        self.pool: list[Entry] = []
        self.base = self._base_shape()
        for _ in range(int(self.random.integers(2, 5))):
            self._tensor_input(self.floating)
        if not smooth and self.chance(0.6):
            self._tensor_input(WHOLE)
        if self.chance(0.5):
            self._number_input()

    # choices ----------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def pick(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def up_to(self, limit: int) -> int:
        """In [0, limit)."""
        return int(self.random.integers(limit))

    def entry(self, condition: Callable[[Entry], bool] = lambda entry: True) -> Entry:
        """An entry, later ones more often.

        Raises:
            DynajitError: none fulfils the condition.
        """
        fitting = [e for e in self.pool if isinstance(e.narrow, np.ndarray) and condition(e)]
        if not fitting:
            raise DynajitError("nothing fits")
        if self.chance(0.5):
            fitting = fitting[-4:]
        return self.pick(fitting)

    # inputs -----------------------------------------------------------------------------

    def _base_shape(self) -> tuple[int, ...]:
        rank = self.pick((1, 2, 2, 3, 3, 4))
        shape = [self.pick(SMALL) for _ in range(rank)]
        if self.chance(0.6):
            shape[self.up_to(rank)] = self.pick(LARGE)
        while math.prod(shape) > LIMIT:
            shape[int(np.argmax(shape))] //= 3
        if self.chance(0.04):
            shape[self.up_to(rank)] = 0
        return tuple(shape)

    def _related_shape(self) -> tuple[int, ...]:
        """A shape that broadcasts with the base shape."""
        shape = [1 if self.chance(0.15) else size for size in self.base]
        return tuple(shape[self.up_to(len(shape) + 1) :] if self.chance(0.25) else shape)

    def _tensor_input(self, choices: Any) -> None:
        dtype, shape = self.pick(choices), self._related_shape()
        array, quantum = self.values(dtype, shape)
        self._append_input(self._laid_out(array), quantum)

    def _append_input(self, array: Any, quantum: float) -> None:
        strides = tuple(step // array.itemsize for step in array.strides)
        type = TensorType(array.shape, dtypes.from_numpy(array.dtype), strides=strides)
        value = self.builder.placeholder("x", type)
        self.inputs.append(array)
        self.pool.append(Entry(value, array, widened(array), quantum))

    def _number_input(self) -> None:
        number = self.pick((0.5, 2, 1.25, -3, True, 0.1, 7))
        value = self.builder.placeholder("n", ScalarType(dtypes.of_number(number).category))
        self.inputs.append(number)
        quantum = 0.0 if number == 0.1 else 0.25
        self.pool.append(Entry(value, number, number, quantum))

    def values(self, dtype: DType, shape: tuple[int, ...]) -> tuple[Any, float]:
        """An array and its quantum."""
        if dtype is dtypes.bool_:
            return self.random.random(shape) < 0.5, 1.0
        if dtype.category is Category.INTEGER:
            low = -9 if dtype.is_signed else 0
            return np.asarray(self.random.integers(low, 10, shape)).astype(dtype.numpy), 1.0
        if self.special:
            drawn = self.random.choice(SPECIAL, shape)
            return np.asarray(drawn).astype(dtype.numpy), 0.25
        if self.chance(0.5) and not self.smooth:
            quarters = self.random.integers(-8, 9, shape) / 4
            return np.asarray(quarters).astype(dtype.numpy), 0.25
        return np.asarray(self.random.uniform(-2, 2, shape)).astype(dtype.numpy), 0.0

    def _laid_out(self, array: Any) -> Any:
        """The array in some memory layout."""
        kind = self.pick(("plain",) * 3 + ("permuted", "strided", "reversed", "expanded", "offset"))
        rank = array.ndim
        if not rank or kind == "plain":
            return array
        if kind == "permuted":
            order = self.random.permutation(rank)
            return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
        if kind == "reversed":
            turned = tuple(slice(None, None, self.pick((1, -1))) for _ in range(rank))
            return np.ascontiguousarray(array[turned])[turned]
        if kind == "expanded":
            d = self.up_to(rank)
            return np.broadcast_to(array[(slice(None),) * d + (slice(0, 1),)], array.shape)
        steps = tuple(self.pick((1, 2)) if kind == "strided" else 1 for _ in range(rank))
        larger = np.empty(
            [size * step + 3 for size, step in zip(array.shape, steps, strict=True)], array.dtype
        )
        larger.view(np.uint8)[...] = 0xAA
        window = tuple(
            slice(1, 1 + size * step, step) for size, step in zip(array.shape, steps, strict=True)
        )
        larger[window] = array
        return larger[window]

    # steps ------------------------------------------------------------------------------

    def make(self, steps: int) -> Made:
        """The graph after `steps` attempts."""
        kinds: list[tuple[Callable[[], None], float]] = [
            (self.pointwise, 0.45), (self.reduction, 0.12), (self.movement, 0.2),
            (self.product, 0.05), (self.composite, 0.08), (self.indexing, 0.07),
            (self.creation, 0.03),
        ]  # fmt: skip
        chances = np.cumsum([weight for _, weight in kinds])
        for _ in range(steps):
            mark = self.builder.snapshot()
            count, given = len(self.pool), len(self.inputs)
            chosen = int(np.searchsorted(chances, self.random.random() * chances[-1]))
            try:
                kinds[chosen][0]()
            except (DynajitError, ValueError, ZeroDivisionError, IndexError):
                # Refused by a row: the calls made so far go, too.
                self.builder.restore(mark)
                del self.pool[count:], self.inputs[given:]
        return self._finish()

    def _finish(self) -> Made:
        tensors = [e for e in self.pool if isinstance(e.narrow, np.ndarray)]
        used = {id(a) for e in self.pool if isinstance(e.value, Value) for a in e.value.node.args}
        chosen = [e for e in tensors if id(e.value.node) not in used and self.chance(0.7)][-8:]
        chosen += [self.pick(tensors) for _ in range(self.up_to(3))] or tensors[-1:]
        if self.smooth:
            chosen = [e for e in chosen if e.dtype.is_floating_point] or tensors[:1]
        self.random.shuffle(chosen)  # type: ignore[arg-type]
        graph = self.builder.finish([e.value for e in chosen])
        return Made(graph, self.inputs, [e.quantum > 0 for e in chosen])

    def call(self, op: Op, operands: list[Any], **attributes: Any) -> Entry:
        """Append and evaluate `op`; operands are entries, numbers or None.

        Raises:
            DynajitError: the row refuses them, or the result is not fit for comparisons.
        """
        given = [o if isinstance(o, Entry) else Entry(o, o, o, _quantum_of(o)) for o in operands]
        if op.name in DISCONTINUOUS and not all(e.quantum for e in given):
            raise DynajitError("a rounding would change the result")
        bound = op.bind(attributes)
        value = self.builder.call(op, [e.value for e in given], bound)
        if math.prod(value.shape) > LIMIT:
            raise DynajitError("too large")
        narrow = self._run(op, [e.narrow for e in given], bound, evaluate)
        wide = self._run(op, [e.wide for e in given], bound, evaluate_wide)
        quantum = self._quantum(op, given, bound, narrow, wide)
        if self.special and not quantum:
            raise DynajitError("roundings of special values")
        self._require_fit(narrow, wide)
        made = Entry(value, narrow, wide, quantum)
        self.pool.append(made)
        return made

    def _run(self, op: Op, operands: list[Any], attributes: Any, how: Any) -> Any:
        if op.kind is not Kind.COMPOSITE:
            return how(op, operands, attributes)
        builder = Builder("one")
        arguments = []
        arrays = []
        for operand in operands:
            if isinstance(operand, np.ndarray):
                type = TensorType(operand.shape, dtypes.from_numpy(operand.dtype))
                arguments.append(builder.placeholder("x", type))
                arrays.append(operand)
            else:
                arguments.append(operand)
        graph = builder.finish([builder.call(op, arguments, attributes)])
        return interpret.run(graph, arrays, how)[0]

    def _require_fit(self, narrow: Any, wide: Any) -> None:
        if self.special or not is_floating(narrow) or not narrow.size:
            return
        loose = 0.1 if narrow.dtype.itemsize == 2 else 1e-4
        with np.errstate(invalid="ignore"):
            largest = np.abs(wide).max()
            error = np.abs(narrow.astype(np.float64) - wide).max()
        if not largest < BIG or not error <= loose * (1 + largest):
            raise DynajitError("overflow or cancellation")

    def _quantum(self, op: Op, given: list[Entry], bound: Any, narrow: Any, wide: Any) -> float:
        """0.0 unless the result is exact in any order of computation."""
        if not is_floating(narrow):
            if not all(e.quantum for e in given):
                if op.kind is Kind.MOVEMENT:
                    return 1.0
                raise DynajitError("a rounding would change the result")
            if not np.array_equal(narrow, wide):
                raise DynajitError("integers that differ in float64")
            return 1.0
        if self.special:
            given = [replace(e, wide=_finite(e.wide)) for e in given]
        if op.kind is not Kind.MOVEMENT and op.name not in EXACT:
            return 0.0
        if not all(e.quantum for e in given) or not np.isfinite(self._seen(wide)).all():
            return 0.0
        floating = [e.quantum for e in given]
        if op.name in MULTIPLIES:
            quantum = math.prod(floating) if op.name != "square" else floating[0] ** 2
        else:
            quantum = min(floating, default=1.0)
        quantum = min(quantum, 1.0)
        if op.name in SUMS:
            terms = [np.abs(e.wide).astype(np.float64) for e in given]
            reach = sum(float(t.max(initial=0.0)) * max(t.size, 1) for t in terms)
            if op.name == "matmul":
                reach = float(np.matmul(*terms).max(initial=0.0))
        else:
            reach = float(np.abs(self._seen(wide)).max(initial=0.0))
        smallest = min(MANTISSA[dtypes.from_numpy(narrow.dtype).name], 24)
        if op.name == "leaky_relu" or reach / quantum >= 2**smallest or quantum < 2.0**-14:
            return 0.0
        if not np.array_equal(narrow.astype(np.float64), wide, equal_nan=self.special):
            return 0.0
        return quantum

    def _seen(self, wide: Any) -> Any:
        """The values that count for an exact result."""
        return _finite(wide) if self.special else wide

    def pointwise(self) -> None:
        op = self.pick(POINTWISE)
        if self.smooth and not op.vjp:
            return
        first = self.entry(lambda e: not self.smooth or e.dtype.is_floating_point)
        if op.name == "where":
            condition = self.entry(lambda e: e.dtype is dtypes.bool_)
            operands = [condition, first, self.operand(first)]
        else:
            operands = [first, *(self.operand(first) for _ in op.inputs[1:])]
            if self.chance(0.2):
                self.random.shuffle(operands)  # type: ignore[arg-type]
        operands = [self.inside(o, op.domain) for o in operands]
        attributes: dict[str, Any] = {}
        self.call(op, operands, **attributes)

    def inside(self, operand: Any, domain: tuple[float, float]) -> Any:
        """The operand, clamped or shifted into the values that a row accepts."""
        if not isinstance(operand, Entry) or not isinstance(operand.narrow, np.ndarray):
            return operand
        if not is_floating(operand.narrow) or not operand.narrow.size:
            return operand
        low, high = domain
        if operand.wide.min() >= low and operand.wide.max() <= high:
            return operand
        if self.chance(0.5):
            middle, width = (low + high) / 2, (high - low) / 2.5
            return self.call(
                ops.add, [self.call(ops.mul, [self.call(ops.tanh, [operand]), width]), middle]
            )
        return self.call(ops.clamp, [operand, low, high])

    def operand(self, first: Entry) -> Any:
        """Something that broadcasts with `first`, most times of its category."""
        if self.chance(0.2):
            numbers = [e for e in self.pool if not isinstance(e.narrow, np.ndarray)]
            if numbers and self.chance(0.5):
                return self.pick(numbers)
            return self.pick((2, 0.5, -1, 3.0, 0.25, 1, 0.3))

        def fits(e: Entry) -> bool:
            try:
                shape = np.broadcast_shapes(e.shape, first.shape)
            except ValueError:
                return False
            return math.prod(shape) <= LIMIT and (
                self.chance(0.1) or e.dtype.category == first.dtype.category
            )

        return self.entry(fits)

    def reduction(self) -> None:
        op = self.pick([*REDUCTIONS, ops.sum, ops.sum, ops.amax])
        if self.smooth and not op.vjp:
            return
        x = self.entry(lambda e: not self.smooth or e.dtype.is_floating_point)
        dims = tuple(d for d in range(len(x.shape)) if self.chance(0.5))
        if op.name in ("argmax", "argmin") and self.chance(0.6) and x.shape:
            dims = (self.up_to(len(x.shape)),)
        if op.name == "prod":
            x = self.inside(x, (0.9, 1.1))
        self.call(op, [x], dim=dims, keepdim=self.chance(0.5))

    def movement(self) -> None:
        moves = [
            self._reshape, self._permute, self._expand, self._slice, self._pad, self._flip,
            self._cat, self._select, self._triangle, self._slice_scatter, self._diagonal,
            self._unfold, self._copy,
        ]  # fmt: skip
        self.pick(moves)()

    def floats(self) -> Entry:
        return self.entry(lambda e: not self.smooth or e.dtype.is_floating_point)

    def _reshape(self) -> None:
        x = self.floats()
        factors = list(_factors(math.prod(x.shape)))
        self.random.shuffle(factors)
        shape: list[int] = [1] * self.pick((1, 2, 3))
        for factor in factors:
            shape[self.up_to(len(shape))] *= factor
        if self.chance(0.3) and len(x.shape) > 1:  # merge or split one dim only
            d = self.up_to(len(x.shape) - 1)
            shape = [*x.shape[:d], x.shape[d] * x.shape[d + 1], *x.shape[d + 2 :]]
        self.call(ops.reshape, [x], shape=tuple(shape))

    def _permute(self) -> None:
        x = self.floats()
        self.call(ops.permute, [x], dims=tuple(self.random.permutation(len(x.shape)).tolist()))

    def _expand(self) -> None:
        x = self.floats()
        shape = [self.pick((2, 3, 8)) if size == 1 else size for size in x.shape]
        if self.chance(0.4) and len(shape) < 4:
            shape = [self.pick((1, 2, 5)), *shape]
        self.call(ops.expand, [x], shape=tuple(shape))

    def _bounds(self, shape: tuple[int, ...]) -> dict[str, Any]:
        start, stop, step = [], [], []
        for size in shape:
            low, high = sorted((self.up_to(size + 1), self.up_to(size + 1)))
            if self.chance(0.5):
                low, high = 0, size
            start.append(low)
            stop.append(high)
            step.append(self.pick((1, 1, 1, 2, 3)))
        return {"start": tuple(start), "stop": tuple(stop), "step": tuple(step)}

    def _slice(self) -> None:
        x = self.floats()
        self.call(ops.slice, [x], **self._bounds(x.shape))

    def _slice_scatter(self) -> None:
        x = self.floats()
        bounds = self._bounds(x.shape)
        piece = self.call(ops.slice, [x], **bounds)
        source = self.call(self.pick((ops.neg, ops.relu, ops.square)), [piece])
        self.call(ops.slice_scatter, [x, source], **bounds)

    def _pad(self) -> None:
        x = self.floats()
        before = tuple(self.pick((0, 0, 1, 3)) for _ in x.shape)
        after = tuple(self.pick((0, 0, 2, 5)) for _ in x.shape)
        self.call(ops.pad, [x], before=before, after=after, value=self.pick((0, 0, 1)))

    def _flip(self) -> None:
        x = self.floats()
        self.call(ops.flip, [x], dims=tuple(d for d in range(len(x.shape)) if self.chance(0.5)))

    def _cat(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0 and (not self.smooth or is_floating(e.narrow)))
        dim = self.up_to(len(x.shape))

        def fits(e: Entry) -> bool:
            return e.dtype is x.dtype and len(e.shape) == len(x.shape) and all(
                d == dim or a == b for d, (a, b) in enumerate(zip(e.shape, x.shape, strict=True))
            )  # fmt: skip

        parts = [x, *(self.entry(fits) for _ in range(self.up_to(3)))]
        self.random.shuffle(parts)  # type: ignore[arg-type]
        self.call(self.pick((ops.cat, ops.cat)), parts, dim=dim)

    def _select(self) -> None:
        x = self.entry(lambda e: 0 not in e.shape and len(e.shape) > 0)
        dim = self.up_to(len(x.shape))
        self.call(ops.select, [x], dim=dim, index=self.up_to(x.shape[dim]))

    def _triangle(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 1)
        self.call(self.pick((ops.tril, ops.triu)), [x], diagonal=self.pick((-2, -1, 0, 1, 3)))

    def _diagonal(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 1)
        one, two = self.random.permutation(len(x.shape))[:2].tolist()
        self.call(ops.diagonal, [x], offset=self.pick((-1, 0, 2)), dim1=one, dim2=two)

    def _unfold(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0 and len(e.shape) < 4 and max(e.shape) > 2)
        dim = int(np.argmax(x.shape))
        size = self.pick((1, 2, 3))
        self.call(ops.unfold, [x], dim=dim, size=size, step=self.pick((1, 2, 3)))

    def _copy(self) -> None:
        self.call(self.pick((ops.clone, ops.detach)), [self.floats()])

    def product(self) -> None:
        a = self.entry(lambda e: 2 <= len(e.shape) and (not self.smooth or is_floating(e.narrow)))
        rank = len(a.shape)
        turn = (*range(rank - 2), rank - 1, rank - 2)

        def fits(e: Entry) -> bool:
            return e.dtype is a.dtype and len(e.shape) >= 2 and (
                e.shape[-2] == a.shape[-1] or e.shape[-1] == a.shape[-1]
            )  # fmt: skip

        b = self.entry(fits)
        if b.shape[-2] != a.shape[-1] or (b.shape[-1] == a.shape[-1] and self.chance(0.5)):
            turned = len(b.shape)
            b = self.call(ops.permute, [b], dims=(*range(turned - 2), turned - 1, turned - 2))
        if a.shape[-2] * math.prod(b.shape) * math.prod(a.shape[:-2]) > 3_000_000:
            raise DynajitError("too much work")
        if self.chance(0.2) and a.shape[-1] == b.shape[-2] == a.shape[-2]:
            a = self.call(ops.permute, [a], dims=turn)
        self.call(ops.matmul, [a, b])

    def indexing(self) -> None:
        self.pick((self._gather, self._index_select, self._index, self._scatter, self._scans))()

    def _constant(self, array: Any) -> Entry:
        """An index or another array, as an input or a constant."""
        if self.chance(0.5):
            made = Entry(self.builder.constant(array), array, widened(array), 1.0)
            self.pool.append(made)
            return made
        self._append_input(array, 1.0)
        return self.pool[-1]

    def _positions(self, size: int, shape: Any, low: int = 0) -> Any:
        if not size:
            raise DynajitError("nothing to index")
        drawn = np.asarray(self.random.integers(low, size, shape))
        return drawn.astype(self.pick((np.int64, np.int64, np.int32)))

    def _gather(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0)
        dim = self.up_to(len(x.shape))
        shape = [self.up_to(size) + 1 if size else 0 for size in x.shape]
        shape[dim] = self.pick((1, 3, 9))
        self.call(ops.gather, [x, self._constant(self._positions(x.shape[dim], shape))], dim=dim)

    def _index_select(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0)
        dim = self.up_to(len(x.shape))
        where = self._constant(self._positions(x.shape[dim], self.pick((1, 4, 40))))
        taken = self.call(ops.index_select, [x, where], dim=dim)
        if self.chance(0.5):
            self.call(ops.index_add, [x, where, taken], dim=dim)

    def _index(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0)
        dims = tuple(d for d in range(len(x.shape)) if self.chance(0.5)) or (0,)
        batch = self.pick(((3,), (2, 4), (50,)))
        rows = [self._positions(x.shape[d], batch, -x.shape[d]) for d in dims]
        where = self._constant(np.stack(rows).astype(np.int64))
        taken = self.call(ops.index, [x, where], dims=dims)
        if self.chance(0.6):
            source = self.call(self.pick((ops.neg, ops.square, ops.relu)), [taken])
            self.call(self.pick((ops.index_put, ops.index_accumulate)), [x, where, source],
                      dims=dims)  # fmt: skip

    def _scatter(self) -> None:
        x = self.entry(lambda e: len(e.shape) > 0)
        dim = self.up_to(len(x.shape))
        shape = list(x.shape)
        shape[dim] = self.pick((1, 3, x.shape[dim]))
        where = self._constant(self._positions(x.shape[dim], shape))
        taken = self.call(ops.gather, [x, where], dim=dim)
        source = self.call(self.pick((ops.neg, ops.square, ops.relu)), [taken])
        self.call(self.pick((ops.scatter, ops.scatter_add)), [x, where, source], dim=dim)

    def _scans(self) -> None:
        if self.chance(0.7):
            return
        x = self.entry(lambda e: len(e.shape) > 0)
        dim = self.up_to(len(x.shape))
        if self.chance(0.5):
            self.call(ops.cumsum, [x], dim=dim)
        else:
            first, last = sorted((self.up_to(x.shape[dim] + 1), self.up_to(x.shape[dim] + 1)))
            self.call(ops.argsort, [x], dim=dim, descending=self.chance(0.5), start=first,
                      stop=last)  # fmt: skip

    def creation(self) -> None:
        shape = self._related_shape()
        dtype = self.pick(self.floating if self.smooth else (*self.floating, *WHOLE))
        kind = self.up_to(5)
        if kind == 0:
            number = self.pick([0, 1, 2.5, *(e for e in self.pool if np.isscalar(e.narrow))])
            self.call(ops.full, [number], shape=shape, dtype=dtype)
        elif kind == 1:
            self.call(ops.arange, [self.pick((0, 1, -2)), self.pick((1, 2))],
                      size=self.base[-1] % 100, dtype=dtype)  # fmt: skip
        elif kind == 2:
            array, quantum = self.values(dtype, shape)
            value = self.builder.constant(array)
            self.pool.append(Entry(value, array, widened(array), quantum))
        elif kind == 3:
            x = self.floats()
            self.call(ops.cast, [x], dtype=dtype)
        else:
            self.call(self.pick((ops.rand, ops.randn)), [17, self.up_to(1000)], shape=shape,
                      dtype=dtype)  # fmt: skip

    def composite(self) -> None:
        self.pick((
            self._statistics, self._statistics, self._softmax, self._softmax, self._norm,
            self._norm, self._loss, self._linear, self._attention, self._dropout,
        ))()  # fmt: skip

    def _real(self, rank: int = 0) -> Entry:
        x = self.entry(lambda e: e.dtype.is_floating_point and len(e.shape) >= rank)
        return self.inside(x, (-20.0, 20.0))

    def _statistics(self) -> None:
        x = self._real()
        dims = tuple(d for d in range(len(x.shape)) if self.chance(0.5)) or tuple(
            range(len(x.shape))
        )
        op = self.pick((ops.mean, ops.var, ops.std, ops.logsumexp, ops.euclidean_norm))
        self.call(op, [x], dim=dims, keepdim=self.chance(0.5))

    def _softmax(self) -> None:
        x = self._real(1)
        self.call(self.pick((ops.softmax, ops.log_softmax)), [x], dim=self.up_to(len(x.shape)))

    def _fresh(self, dtype: DType, shape: tuple[int, ...]) -> Entry:
        self._append_input(*self.values(dtype, shape))
        return self.pool[-1]

    def _norm(self) -> None:
        x = self._real(1)
        shape = x.shape[self.up_to(len(x.shape)) :]
        weight = self._fresh(x.dtype, shape) if self.chance(0.6) else None
        if self.chance(0.5):
            self.call(ops.rms_norm, [x, weight], normalized_shape=shape, eps=1e-3)
            return
        bias = self._fresh(x.dtype, shape) if weight and self.chance(0.6) else None
        self.call(ops.layer_norm, [x, weight, bias], normalized_shape=shape, eps=1e-3)

    def _loss(self) -> None:
        x = self._real(2)
        reduction = self.pick(("mean", "sum", "none"))
        if self.chance(0.4):
            y = self.entry(lambda e: e.dtype is x.dtype and e.shape == x.shape)
            self.call(self.pick((ops.mse_loss, ops.l1_loss)), [x, y], reduction=reduction)
            return
        if len(x.shape) != 2:
            x = self.call(ops.reshape, [x], shape=(math.prod(x.shape[:-1]), x.shape[-1]))
        target = self._positions(x.shape[1], x.shape[0]).astype(np.int64)
        weight = None
        if self.chance(0.3):
            weight = self._fresh(x.dtype, x.shape[1:])
            weight = self.call(ops.add, [self.call(ops.abs, [weight]), 0.5])
        attributes: dict[str, Any] = {"reduction": reduction}
        if self.chance(0.3):
            attributes["ignore_index"] = 0
        if self.chance(0.3):
            attributes["label_smoothing"] = 0.1
        self.call(ops.cross_entropy, [x, self._constant(target), weight], **attributes)

    def _linear(self) -> None:
        x = self._real(1)
        out = self.pick((1, 3, 8, 33))
        if math.prod(x.shape) * out > 2_000_000 or x.shape[-1] > 2000:
            raise DynajitError("too much work")
        weight = self._fresh(x.dtype, (out, x.shape[-1]))
        bias = self._fresh(x.dtype, (out,)) if self.chance(0.6) else None
        self.call(ops.linear, [x, weight, bias])

    def _attention(self) -> None:
        x = self._real(2)
        length, width = x.shape[-2:]
        if length > 300 or width > 300:
            raise DynajitError("too much work")
        keys = self.pick((1, length, 5))
        k = self._fresh(x.dtype, (*x.shape[:-2], keys, width))
        v = self._fresh(x.dtype, (*x.shape[:-2], keys, self.pick((1, 4, 9))))
        causal = self.chance(0.3)
        self.call(ops.scaled_dot_product_attention, [x, k, v, None, 0, 0], is_causal=causal)

    def _dropout(self) -> None:
        self.call(ops.dropout, [self._real(), 99, self.up_to(50)], p=self.pick((0.25, 0.5)))


def _factors(number: int) -> Iterator[int]:
    """Prime factors; 0 of 0."""
    if number == 0:
        yield 0
        return
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1


def _finite(values: Any) -> Any:
    """The values with zeros in place of NaN and infinities."""
    if isinstance(values, np.ndarray) and is_floating(values):
        return np.where(np.isfinite(values), values, 0.0)
    return values


def _quantum_of(number: Any) -> float:
    if number is None:
        return 1.0
    if isinstance(number, Entry):
        return number.quantum
    return 0.25 if float(number) * 4 == int(float(number) * 4) else 0.0


# ---------------------------------------------------------------------------------------------
# comparisons

SPACING = {2: 2.0**-8, 4: 2.0**-24, 8: 2.0**-53}


def why_wrong(
    expected: Any, wide: Any, actual: Any, *, exact: bool, narrow: bool, factor: float = 2.0
) -> str | None:
    """None if `actual` is as good as the interpreter's result.

    Args:
        expected, wide: by the interpreter in the graph's dtypes, and in float64.
        exact: no rounding takes place.
        narrow: 16-bit floats take part in the graph.
        factor: of the interpreter's own error that is allowed.
    """
    if not isinstance(actual, np.ndarray):
        return None if actual == expected else f"{actual!r} instead of {expected!r}"
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if exact or not is_floating(actual):
        wrong = widened(actual) != widened(expected)
        return f"{wrong.sum()} of {wrong.size} exact values differ" if wrong.any() else None
    if not actual.size:
        return None
    error = np.abs(widened(actual) - wide).max()
    own = np.abs(widened(expected) - wide).max()
    size = 2 if narrow else min(4, actual.dtype.itemsize)
    floor = 64 * SPACING[size] * (1 + np.abs(wide).max())
    if not error <= factor * own + floor:
        return f"error {error:.3g}; the interpreter's is {own:.3g}, floor {floor:.3g}"
    return None


def same_bits(a: Any, b: Any) -> bool:
    """Equal to the last bit, NaN and signs of zeros included."""
    if not isinstance(a, np.ndarray):
        return bool(a == b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
