"""What an operation is: one frozen row per op, in one closed table.

A row says everything about an op: its inputs and attributes, the type of its result, what it
computes (one *rule* per kind), and its derivative. Eager execution, autograd, capture, passes and
code generation only read rows; none of them knows an op by name.

Calling convention of every row: `row(*inputs, **attributes)`. Inputs are tensors (or graph
values), Python numbers, or None where a composite allows it. Attributes are hashable constants
(ints, tuples, strings, DType, Device, bool, None). PyTorch's friendlier signatures live in
`ops.functions` and `ops.methods.methods`, which normalise and then call rows.

The dispatch rule: the operand with the highest `__dynajit_priority__` runs the op
(`ops.table.dispatch`), so the same row call is executed by eager tensors or recorded by graph
values.

Adding an op: write one decorated function in one of the row files (`pointwise`, `reductions`,
`movement`, `indexing`, `random`, `linear_algebra`, `composites`); the decorators are in
`ops.table.families`.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypedDict

from dynajit.core.errors import ArgumentError, DTypeNotImplementedError, InternalError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.native._row_call import RowCall
from dynajit.ops.table import dispatch


class Kind(enum.Enum):
    """The closed set of op kinds; each has one rule class below."""

    # Members are compared by identity; Enum's own hash is a Python function, called per lookup.
    __hash__ = object.__hash__

    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    MOVEMENT = "movement"
    EXTERN = "extern"
    RANDOM = "random"
    SCATTER = "scatter"
    COMPOSITE = "composite"


class Autocast(enum.Enum):
    """The dtype in which a function or row computes where autocast is on."""

    LOWER = "autocast's dtype"
    FULL = "float32"
    WIDEST = "float32 if an operand has it, else autocast's dtype"
    BANNED = "refused"


class Indices(enum.Enum):
    """How the integers of a row's input 1 choose elements of input 0."""

    ALONG = "positions along `dim`, the same for all elements beside it"
    EACH = "for each element read or written its position along `dim`"
    SEVERAL = "positions along each of `dims`"


class RowFacts(TypedDict, total=False):
    """Facts that rows of all kinds may have, by name.

    Args:
        layout: where the elements of the result lie: a rule of `ops.table.result_layouts`. Without
            one the rule of the row's kind holds.
        autocast: on GPUs, whoever calls the row. Source: PyTorch 2.x, "CUDA Ops that can autocast
            to float16", "... to float32", "... that promote to the widest input type".
        keeps_zero: 0 gives 0, element by element: sparse operands stay sparse.
        indices: of a movement or scatter whose input 1 holds indices, which may be out of range.
        gives_positions: its elements are positions along `dim` of its input, all within it.
        pairs: `pairs(ops, *inputs)` -> what it gives, of real numbers, where kernels compute it: a
            complex input or result is the tuple of its real and imaginary parts. For rows that have
            no body, or whose body is not what pairs are to do.
        takes: dtypes for storage alone whose elements it takes; a movement takes all.
        linear: names of inputs in which it is linear, with real coefficients, all together: what
            they are replaced by goes through it. None: of a movement or a scatter those that have
            a formula, of others none.
        factors: names of inputs in each of which alone it is linear, where the `linear` ones, which
            are added, are 0.
        tangent: formula of the result's tangent, where it follows from none of these; it has the
            parameters of one in `Op.vjp` but `g`, and `<input>_tangent`, None where there is none.
            `ops.table.tangents` says how it is used.
        samples: how it takes a batch of samples: a rule of `ops.table.sample_rules`. Without one
            the rule of the row's kind holds.
        operator: the operator of Python's that it is between tensors, as in `core.operators`.
        numpy_name: NumPy's function that does the same by elements, but for what
            `ops.functions.arrays.ufuncs` says. By default that of the row's scalar function, if it
            is NumPy's own or one of its name.
        of_bools: the row that does the same with truth values.
        interval: between which ints its result lies, if operands lie between some: a rule of
            `ops.table.intervals`.
        same: `same(**attributes)` -> True where the call gives input 0, to the bit, if that has the
            type of the result: a rule of `ops.table.identities`.
        twice: `twice(first, then)` -> the attributes of the one call that does, to the bit, what a
            call with the attributes `first` and one with `then` on its result do; None: the second
            undoes the first, if it gives the type that went in. A rule of `ops.table.identities`.
        neutral: of a row of two inputs: name of the one -> `neutral(number, dtype)`, True where the
            number leaves the other as it is, to the bit; `dtype` is that of the result. Rules of
            `ops.table.identities`.
        flops: of a product: `flops(out, *operands)` -> how many floating-point operations one call
            is, from the shapes; see `ops.table.flops`.
    """

    layout: Callable[..., Any] | None
    autocast: Autocast | None
    keeps_zero: bool
    indices: Indices | None
    gives_positions: bool
    pairs: Callable[..., Any] | None
    takes: tuple[DType, ...]
    linear: tuple[str, ...] | None
    factors: tuple[str, ...]
    tangent: Callable[..., Any] | None
    samples: Callable[..., Any] | None
    operator: str | None
    numpy_name: str | None
    of_bools: str | None
    interval: Callable[..., tuple[int, int] | None] | None
    same: Callable[..., bool] | None
    twice: Callable[..., Mapping[str, Any] | None] | None
    neutral: Mapping[str, Callable[[Any, DType], bool]]
    flops: Callable[..., int] | None


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


@record
class Pointwise:
    """Value at an index from the inputs' values at that (broadcast) index.

    Args:
        body: `body(m, *scalars, **attributes)` -> scalar. `m` is a scalar namespace: NumPy arrays
            in eager mode, loop-IR expressions in code generation. Straight-line code with the
            operators and the functions of `ops.table.scalar`. A creation op (no inputs) may call
            `m.index(d)`, the int64 index along dimension d of the result.
        compute: `compute(dtype)` -> dtype to which inputs are cast before the body, given the
            promoted input dtype (the result dtype is in `Op.infer`).
        array: `array(xp, *arrays, **attributes)`: a faster array function with the same meaning,
            or None; inputs already have the compute dtype.
        uncast: names of the inputs that reach the body in their own dtype and take no part in
            promotion: the condition of `where`, the input of `cast`.
        divides: integers are divided by input 1; zeros in it raise a DivisionError.
        native: see `Composite`.
        rounds: a number beside floats of 16 bits is rounded to their dtype, as PyTorch does in all
            rows but products and quotients, which take it as it is.
    """

    body: Callable[..., Any]
    compute: Callable[..., Any]
    array: Callable[..., Any] | None = None
    uncast: frozenset[str] = frozenset()
    divides: bool = False
    native: Callable[..., Any] | None = None
    rounds: bool = False

    def rounds_to(self, type: Any, promoted: DType) -> bool:
        """Whether an operand of this type is rounded to the promoted dtype, before it is computed
        with in a wider one."""
        is_short = dtypes.compute_dtype(promoted) is not promoted
        return self.rounds and is_short and getattr(type, "dtype", None) is not promoted


@record
class Reduction:
    """Combination of the elements along the dims in attribute `dim` (sorted, non-negative).

    Every reduction row has exactly one input `x` and the attributes `dim: tuple[int, ...]` and
    `keepdim: bool` (others may follow).

    Args:
        init: `init(m, x, position)` -> accumulator tuple of scalars for one element; `position`
            is the element's row-major position among the reduced dims.
        combine: `combine(m, a, b)` -> accumulator; associative; `a` comes earlier.
        finish: `finish(m, accumulator)` -> scalar result.
        identity: `identity(dtype)` -> accumulator tuple of Python numbers to start from, or None
            where an empty reduction is an error.
        compute: `compute(dtype)` -> dtype of the accumulated values, given the input dtype.
        array: `array(xp, x, *, dim, keepdim, **attributes)`: the array function.
        ufunc: name of the array module's ufunc whose `reduce` does the same for small arrays (at
            most 128 elements), or None.
        reduce: what stands for it where arrays are NumPy's, called with five arguments by place.
        native: see `Composite`.
        single: of one element it gives this element, to the bit.
        scatters: its name is a mode of `scatter_reduce`: what is written at a place is combined by
            it with what is there.
    """

    init: Callable[..., tuple[Any, ...]]
    combine: Callable[..., tuple[Any, ...]]
    finish: Callable[..., Any]
    identity: Callable[..., tuple[Any, ...] | None]
    compute: Callable[..., Any]
    array: Callable[..., Any]
    ufunc: str | None = None
    reduce: Callable[..., Any] | None = None
    native: Callable[..., Any] | None = None
    single: bool = False
    scatters: bool = False


@record
class Movement:
    """Elements of the inputs rearranged: an index map, never a kernel of its own.

    Args:
        read: `read(m, load, index, types, **attributes)` -> scalar at `index` (a tuple of
            integer expressions, one per result dim). `load(k, idx)` is the value of input k at
            `idx`. `m.where(condition, a, b)` is lazy in the sense that an index that the
            condition excludes may be out of range. `m.as_index(scalar, size, wrap=True)` turns a
            loaded integer into an index checked against `size`. `m.less(i, j)` and
            `m.equal(i, j)` compare indices.
        array: `array(xp, *arrays, **attributes)`: the array function; a view where `view`.
        view: True if the result shares memory with input 0.
        native: see `Composite`.
        mirrors: a view whose elements are not those in memory, but their conjugates or negatives:
            `array` computes them, and eager execution notes what the memory is seen as.
        rearranges: it has one input, and every element of the result is one of that's.
        shown: names of the inputs of which every element is one of the result's, if it has any.
        strides: of a view: `strides(sizes, strides, wanted, **attributes)` -> its own, of shape
            `wanted`, in elements. It is asked where sizes are symbolic, or elements are parts of
            the input's.
        whole: `whole(ops, x, *others, part, **attributes)` -> input 0 with `part` in the place of
            the elements that the row shows of it, or None: some are shown more than once.
    """

    read: Callable[..., Any]
    array: Callable[..., Any]
    view: bool = False
    native: Callable[..., Any] | None = None
    mirrors: bool = False
    rearranges: bool = False
    shown: tuple[str, ...] = ()
    strides: Callable[..., Any] | None = None
    whole: Callable[..., Any] | None = None


@record
class Random:
    """Counter-based random values (Philox4x32-10).

    Every random row has the scalar inputs `seed` and `offset` and the attributes
    `shape, dtype, device, shift`. Element i (row-major) uses `words` consecutive 32-bit words,
    starting at word `i * words` of the stream whose counter block number 0 is `offset + shift`
    (four words per block). The op consumes `ceil(numel * words / 4)` blocks.

    Args:
        words: `words(dtype)` -> 1 or 2.
        body: `body(m, words, dtype, **attributes)` -> scalar, from a tuple of uint32 scalars.
        native: see `Composite`.
    """

    words: Callable[..., int]
    body: Callable[..., Any]
    native: Callable[..., Any] | None = None


@record
class Scatter:
    """Input 0, with elements of `source` written or combined at computed indices.

    Args:
        domain: `domain(types, **attributes)` -> shape of the loop.
        write: `write(m, load, index, types, **attributes)` -> (target index tuple, value).
        mode: how an element and what is written there are combined: "add", "set" (the last one
            stays), or the name of a reduction (`Reduction.scatters`); None: the attribute `mode`
            says it.
        array: `array(xp, *arrays, **attributes)`: the array function; returns a new array.
        native: see `Composite`.
    """

    domain: Callable[..., Any]
    write: Callable[..., Any]
    mode: str | None
    array: Callable[..., Any]
    native: Callable[..., Any] | None = None

    def mode_of(self, attributes: Mapping[str, Any]) -> str:
        """The mode of a call."""
        return str(attributes["mode"]) if self.mode is None else self.mode


@record
class Extern:
    """A library function: `array(xp, *arrays, **attributes)`; native lowerings are found by the
    op's name in code generation.

    Args:
        array: see above.
        widens: it takes 16-bit floats as they are, and chooses what to compute in. Others get
            them in float32.
        direct: `direct(xp, *inputs)` -> the function of arrays alone that does the same for
            inputs of these shapes and dtypes; None: the row has none.
        native: see `Composite`.
        refuses: it raises where elements do not fit: a matrix is singular, an index is out of
            range. Compiled code runs such a call whether its result is read or not.
        starts: it starts what goes on while other nodes run, and another row waits for that. What
            comes after it in a graph runs after it.
        joins: it can start at once what several of its calls start one after the other: its operand
            0 then holds theirs in this order, in one dim, and its attribute `parts` says how many
            elements each has. Its operand 1 is what was started before, if it follows.
        awaits: it waits for what another row has started. Compiled code runs it whether its result
            is read or not: it may have failed, and somebody holds it until it was waited for.
        takes_numbers: it gets Python's numbers as they are; others get arrays of them.
        is_numpys: what it gives is what NumPy gives: that NumPy runs it is no news to anybody.
    """

    array: Callable[..., Any]
    widens: bool = False
    direct: Callable[..., Any] | None = None
    native: Callable[..., Any] | None = None
    refuses: bool = False
    starts: bool = False
    joins: bool = False
    awaits: bool = False
    takes_numbers: bool = False
    is_numpys: bool = False


@record
class Composite:
    """A Python function over other rows: `function(ops, *inputs, **attributes)`.

    It stays one node in a graph until the pass `expand_composites` replaces it by what the
    function records. With an own derivative (`Op.vjp`) it is one node of the eager tape, too,
    unless `on_tape` says otherwise.

    Args:
        function: see above.
        array: `array(xp, *arrays, **attributes)`: a faster array function with the same meaning
            up to rounding, or None; it may decline operands by returning NotImplemented, and
            never returns (a view of) an operand. See `ops.rows.array_forms`.
        on_tape: with an own derivative it is one node of the eager tape. False for a derivative
            that computes again what the tape would have: only graphs use it.
        row_major: what eager execution gives lies row by row, whatever the layout of the operands.
        native: `native(*arrays, *attributes)`: the same in C, or None; it is asked first, for
            arrays of NumPy, and may give NotImplemented. See `_native_forms.c`.
        slopes: input name -> the formula of `Op.vjp` in C: `slope(*parameters)`, arrays in place of
            tensors and without `ops`. Eager asks it first where no gradients are recorded.
        stays: `stays(*types, **attributes)` -> True where a graph keeps the call whole, as one of a
            library function that runs when sizes are known: the function makes as many rows as a
            size says, which is symbolic or large. Its derivative, if it has one, must be `Op.vjp`.
        widens: 16-bit floats are cast to float32, and the row over these computes, by its kernels;
            what it gives is rounded once.
    """

    function: Callable[..., Any]
    array: Callable[..., Any] | None = None
    on_tape: bool = True
    row_major: bool = False
    native: Callable[..., Any] | None = None
    slopes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    stays: Callable[..., bool] | None = None
    widens: bool = False


@record(eq=False)
class Op(RowCall):
    """One row of the table.

    Args:
        name: unique; as in PyTorch where PyTorch has it.
        kind: which class `rule` has.
        inputs: names of the inputs. A variadic op (`cat`) has one name and any number of inputs.
        attributes: attribute name -> default, or REQUIRED.
        infer: `infer(*input_types, **attributes)` -> TensorType of the result. An input that is a
            Python number has a ScalarType. Raises ShapeError, DTypeError, ... on bad operands.
        rule: what the op computes.
        vjp: input name -> formula of that input's gradient, or None where not differentiable.
            A formula's parameter names say what it needs: `ops` (the table), `g` (gradient of the
            result), `out` (the result), an input's name, `<input>_type`, `out_type`, or an
            attribute's name. Only what is named is saved for backward. A formula may leave
            broadcasting and dtype as they come: the driver reduces to the input's type.
            A variadic op has one formula returning a list, with `inputs`, `inputs_types`.
        variadic: see `inputs`.
        domain: closed interval of input values on which samples for tests are drawn.
        document: the docstring.
        analytic: the row has a complex derivative, and its formulas are those of real calculus:
            where the gradient is complex, the drivers call them between two conjugations
            (`ops.table.derivatives.conjugates`). False: the formulas are right for complex operands
            as they stand, since they are linear with real coefficients or say so themselves.
        bends: the second derivative is 0 wherever there is one, and a gradient of the gradient is
            zeros, as in PyTorch, where the formulas alone would have none.
        opaque: a function of the program's own, which may give something else in every call: it is
            never computed ahead, and gets tensors as it was given them.
        layout, autocast, keeps_zero, indices, gives_positions, pairs: see `RowFacts`.
        takes, linear, factors, tangent, samples: see `RowFacts`.
        operator, numpy_name, of_bools, interval: see `RowFacts`.
        same, twice, neutral, flops: see `RowFacts`.
    """

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    infer: Callable[..., ValueType]
    rule: Any
    vjp: Mapping[str, Callable[..., Any] | None] = field(default_factory=dict)
    variadic: bool = False
    domain: tuple[float, float] = (-3.0, 3.0)
    document: str = ""
    analytic: bool = True
    bends: bool = False
    opaque: bool = False
    layout: Callable[..., Any] | None = None
    autocast: Autocast | None = None
    keeps_zero: bool = False
    indices: Indices | None = None
    gives_positions: bool = False
    pairs: Callable[..., Any] | None = None
    takes: tuple[DType, ...] = ()
    linear: tuple[str, ...] | None = None
    factors: tuple[str, ...] = ()
    tangent: Callable[..., Any] | None = None
    samples: Callable[..., Any] | None = None
    operator: str | None = None
    numpy_name: str | None = None
    of_bools: str | None = None
    interval: Callable[..., tuple[int, int] | None] | None = None
    same: Callable[..., bool] | None = None
    twice: Callable[..., Mapping[str, Any] | None] | None = None
    neutral: Mapping[str, Callable[[Any, DType], bool]] = field(default_factory=dict)
    flops: Callable[..., int] | None = None

    def run(self, *inputs: Any, **attributes: Any) -> Any:
        """Run or record the op: see the module's dispatch rule. `op(...)` comes here unless eager
        tensors can run it at once."""
        # No attributes, or complete ones in order (most are), are bound already: 0.15 us saved.
        if (attributes or self.attributes) and [*attributes] != [*self.attributes]:
            attributes = self.bind(attributes)
        return dispatch.handler_for(inputs)(self, inputs, attributes)

    def bind(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """`attributes` completed with defaults, in declaration order.

        Raises:
            ArgumentError: a required attribute is missing, or a name is unknown.
        """
        bound = {}
        for name, default in self.attributes.items():
            value = attributes.get(name, default)
            if value is REQUIRED:
                raise ArgumentError(f"{self.name}: the attribute {name!r} is required")
            bound[name] = value
        if not attributes.keys() <= bound.keys():
            unknown = sorted(set(attributes) - set(bound))
            raise ArgumentError(
                f"{self.name}: unknown attributes {unknown}.  Expected {list(self.attributes)}."
            )
        return bound

    def type_of_result(
        self, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
    ) -> ValueType:
        """What `infer` gives for operands of dtypes that the row takes.

        Raises:
            DTypeNotImplementedError: an operand's dtype is for storage alone.
            ShapeError, DTypeError, ...: whatever `infer` refuses.
        """
        for type in types:
            dtype = type.dtype if isinstance(type, TensorType) else None
            if dtype not in dtypes.STORED or dtype in self.takes or self.kind is Kind.MOVEMENT:
                continue
            raise DTypeNotImplementedError(
                f"{self.name} of {dtype}: elements of this dtype are kept, moved and cast, but not "
                "computed with.  Convert with to(...) first."
            )
        return self.infer(*types, **attributes)

    @property
    def __name__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ops.{self.name}"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (lookup, (self.name,))


class Table:
    """All rows by name; `ops.exp` is the row called "exp". Formulas receive it as `ops`."""

    def __init__(self) -> None:
        self._rows: dict[str, Op] = {}

    def enter(self, op: Op) -> Op:
        """Enter a row once (not called `add`: that is a row).

        Raises:
            InternalError: the name is taken.
        """
        if op.name in self._rows:
            raise InternalError(f"two op rows are called {op.name!r}")
        self._rows[op.name] = op
        setattr(self, op.name, op)  # found without calling __getattr__
        return op

    def __getattr__(self, name: str) -> Op:
        raise AttributeError(f"no op row is called {name!r}")

    def __getitem__(self, name: str) -> Op:
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[Op]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)


TABLE: Final = Table()

FURTHER: Final = Table()
"""Rows of packages above, which no formula calls: what graphs know by name, and nobody else."""


def lookup(name: str) -> Op:
    """The row called `name` (used to unpickle rows)."""
    return TABLE[name] if name in TABLE else FURTHER[name]


def starts(op: Op | None) -> bool:
    """True for a row that starts what goes on while other nodes run."""
    return op is not None and isinstance(op.rule, Extern) and op.rule.starts


def awaits(op: Op | None) -> bool:
    """True for a row that waits for what another one has started."""
    return op is not None and isinstance(op.rule, Extern) and op.rule.awaits


def is_left_to_numpy(op: Op) -> bool:
    """True for a row that NumPy runs because the program says so."""
    return op.opaque or (isinstance(op.rule, Extern) and op.rule.is_numpys)


def is_named(op: Op) -> bool:
    """True for a row that `lookup` finds by its name."""
    return any(op.name in table and table[op.name] is op for table in (TABLE, FURTHER))
