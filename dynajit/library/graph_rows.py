"""Calls of custom operators in graphs: each is a row of its own, made when it is recorded.

Contract: `call` records a call of an operator in the graph of its operands, as a row of the kind
EXTERN: programs run its kernel between generated ones. (An operator with an expression of C that
fits its operands is of the kind POINTWISE: generated kernels compute it.) What its results are like
the fake says, on operands without contents (`library.traced`); where an operand requires a
gradient, the registered derivative is read in the same way, and is part of the graph of backward.
What cannot be found out so is an error, which capture makes a graph break. Kernels get row-major
arrays, and what they give is compared with what the fake said.

A call that writes to arguments is a row, too: its kernel gets copies of them, and what they hold
then is among the row's results. Capture writes that back.

A node has one value: several results travel as the bytes of one array, and those with a gradient
then as one array of numbers, so that backward gets the gradients of all of them at once.

Rows of this file are in no table: graphs with them are not kept on disk.
"""

import functools
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any, Final, Protocol, TypeAlias

from dynajit.core.errors import AutogradError, OperatorError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import Shape, TensorType, numel
from dynajit.eager import _tensor
from dynajit.eager.tensor.creation import from_numpy
from dynajit.ir import interpret
from dynajit.ir.graph import Value
from dynajit.library import autograd, traced
from dynajit.library.forms import Form
from dynajit.library.schema import Schema, is_tensor, tensors_in
from dynajit.library.sources import DTYPES
from dynajit.ops.table.families import broadcast_shapes
from dynajit.ops.table.op_table import REQUIRED, Extern, Kind, Op, Pointwise

MSG_SHAPES: Final = (
    "{name}: its kernel gave {got}, but by its fake (register_fake) it gives {expected}.  Compiled "
    "code relies on the fake: correct it."
)


def call(overload: Any, values: Sequence[Any]) -> Any:
    """The results of a call within a graph, as values of it.

    Args:
        overload: the operator.
        values: its arguments, in the order of its schema.

    Returns:
        what `GraphCallable.recorded` returns.

    Raises:
        RuntimeError: it cannot be part of a graph.
        Exception: the fake or the derivative raises.
    """
    operands = list(tensors_in(values))
    builder = next((x.builder for x in operands if isinstance(x, Value)), None)
    if builder is None:
        raise OperatorError(f"{overload}: no operand is a tensor of the graph")
    if overload.whole is not None:
        return overload.call_python(overload.whole, values)
    schema = overload._schema
    if any(returned.alias for returned in schema.returns):
        raise OperatorError(f"{overload}: it returns an argument")
    if overload.fake is None and schema.returns:
        raise OperatorError(f"{overload}: there was no fake impl registered (register_fake)")
    lifted = [builder.lift(operand) for operand in operands]
    wanted = tuple(_is_continuous(x) and builder.may_need_gradient(x) for x in lifted)
    if any(wanted) and overload.derivative is None and builder.knows_gradients:
        raise OperatorError(
            f"{overload}: an operand requires a gradient, and no derivative is registered"
        )
    form = Form(overload, values)
    types = [x.type for x in lifted]
    fakes = traced.results(overload, form.filled, types)
    is_written = _are_written(schema, values)
    contents = tuple(type for type, flag in zip(types, is_written, strict=True) if flag)
    derivative = None
    if any(wanted) and overload.derivative is not None:
        derivative = traced.derivative(overload, form.filled, types, fakes, wanted)
    row = _Rows(form, _Results.of(fakes, contents), wanted, is_written, derivative)
    numbers = _numbers_of_expression(row, values, types)
    if numbers is not None:
        kind = row.results.types[0]
        fused = _fused(row, kind, overload.expression.scalar(numbers))
        return fused(*lifted, shapes=row.results.shapes, sizes=())
    return _record(row, lifted)


def _are_written(schema: Schema, values: Sequence[Any]) -> tuple[bool, ...]:
    """For each operand of a call whether the call writes to it."""
    arguments = zip(schema.arguments, values, strict=True)
    return tuple(argument.is_written for argument, value in arguments for _ in tensors_in([value]))


def _is_continuous(value: Value) -> bool:
    return bool(value.dtype.is_floating_point or value.dtype.is_complex)


@record
class _Results:
    """What the results of a call are like.

    Args:
        types: of all tensors, lists opened; then of what written operands hold.
        lengths, is_tuple: how they are nested: see `autograd.shapes_of`.
        contents: how many written operands there are.
    """

    types: tuple[TensorType, ...]
    lengths: tuple[int | None, ...]
    is_tuple: bool
    contents: int

    @staticmethod
    def of(fakes: Any, contents: Sequence[TensorType]) -> "_Results":
        """Those of what a fake gave; and the types of the written operands.

        Raises:
            RuntimeError: there are neither.
        """
        items = autograd.results_of(fakes)
        types = [traced.type_of(leaf) for leaf in autograd.flat(items)]
        types += [TensorType(tuple(type.shape), type.dtype, type.device) for type in contents]
        if not types:
            raise OperatorError("an operator without results")
        is_tuple = isinstance(fakes, tuple)
        return _Results(tuple(types), autograd.shapes_of(items), is_tuple, len(contents))

    @property
    def shapes(self) -> tuple[Any, ...]:
        """The shapes of all of them."""
        return tuple(type.shape for type in self.types)

    def nest(self, leaves: Sequence[Any]) -> Any:
        """What `call` returns."""
        count = len(self.types) - self.contents
        items = autograd.nested(leaves[:count], self.lengths)
        made = tuple(items) if self.is_tuple else next(iter(items), None)
        return (made, tuple(leaves[count:])) if self.contents else made


Kernel: TypeAlias = Callable[..., list[Any]]


def _record(call: "_Rows", operands: Sequence[Value]) -> Any:
    """Append the rows of a call; its results."""
    results, derivative = call.results, call.derivative
    if len({type.device for type in results.types}) > 1:
        raise OperatorError(f"{call.form.overload}: its results are on several devices")
    attributes = {"shapes": results.shapes, "sizes": call.form.sizes}
    places = () if derivative is None else derivative.differentiable
    if len(results.types) == 1 and (derivative is None or places):
        return results.nest([call.single()(*operands, **attributes)])
    contents = call.packed()(*operands, **attributes)
    leaves = _unpacked(contents, results.types, results.shapes)
    if places:
        joined = _Joined(results.types, places)
        values = call.joined(joined)(contents, *operands, **attributes)
        for place, value in zip(places, joined.split(values, results.shapes), strict=True):
            leaves[place] = value
    return results.nest(leaves)


@record
class _Rows:
    """Makes the rows of one call.

    Args:
        form, results: of the call.
        wanted: for each operand, whether its gradient is.
        is_written: for each operand, whether the kernel writes to it.
        derivative: None: calls on the tape are refused where a gradient comes.
    """

    form: Form
    results: _Results
    wanted: tuple[bool, ...]
    is_written: tuple[bool, ...]
    derivative: traced.Derivative | None

    @property
    def name(self) -> str:
        """Of the operator, in graphs and reports."""
        return f"{self.form.overload._namespace}.{self.form.overload._opname}"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the operands."""
        return tuple(f"x{i}" for i in range(len(self.wanted)))

    def single(self) -> Op:
        """The row of an operator with one result."""

        def array(xp: Any, *arrays: Any, shapes: Any, sizes: Any) -> Any:
            return self.run(xp, arrays, shapes, sizes)[0]

        (kind,) = self.results.types
        whole = _Whole(kind)
        vjp = self.vjp(whole)
        return _row(self.name, self.names, lambda shapes: shapes[0], kind, array, vjp)

    def packed(self) -> Op:
        """The row that gives all results as bytes, without a derivative."""
        types = self.results.types

        def array(xp: Any, *arrays: Any, shapes: Any, sizes: Any) -> Any:
            found = self.run(xp, arrays, shapes, sizes)
            return xp.concatenate([_row_major(xp, a).reshape(-1).view(_BYTES) for a in found])

        def shape(shapes: Any) -> Shape:
            return (_offsets(types, shapes)[-1],)

        kind = types[0].with_dtype(dtypes.uint8)
        return _row(self.name, self.names, shape, kind, array, {})

    def joined(self, joined: "_Joined") -> Op:
        """The row that makes numbers of the bytes; it has the derivative of the call."""

        def array(xp: Any, contents: Any, *arrays: Any, shapes: Any, sizes: Any) -> Any:
            return joined.read(xp, contents, shapes)

        kind = self.results.types[0].with_dtype(joined.dtype)
        names = ("contents", *self.names)
        name = f"{self.name}.joined"
        return _row(name, names, lambda s: (joined.length(s),), kind, array, self.vjp(joined))

    def run(self, xp: Any, arrays: Sequence[Any], shapes: Any, sizes: Any) -> list[Any]:
        """Call the kernel with copies of what it writes to: its results, and the copies afterwards.

        They are arrays of the shapes and dtypes that the fake said.

        Raises:
            RuntimeError: they are of others.
        """
        overload = self.form.overload
        tensors = [
            _tensor.wrap(xp.array(array, order="C") if flag else _row_major(xp, array))
            for array, flag in zip(arrays, self.is_written, strict=True)
        ]
        made = overload.run_untaped(self.form.filled(tensors, sizes))
        leaves = autograd.flat(autograd.results_of(made))
        leaves += [x for x, flag in zip(tensors, self.is_written, strict=True) if flag]
        found = [leaf.array for leaf in leaves]
        got = [(dtypes.from_numpy(array.dtype), tuple(array.shape)) for array in found]
        expected = [(t.dtype, tuple(s)) for t, s in zip(self.results.types, shapes, strict=True)]
        if got != expected:
            raise OperatorError(
                MSG_SHAPES.format(name=overload, got=_listed(got), expected=_listed(expected))
            )
        return found

    def vjp(self, layout: "_Layout") -> dict[str, Callable[..., Any] | None]:
        """The formulas of the gradients of the operands."""
        if self.derivative is None:
            refuse = _refusing(self.form.overload)
            flags = zip(self.names, self.wanted, strict=True)
            return {name: refuse if flag else None for name, flag in flags}
        return {
            name: None if graph is None else _Formula(self, layout, graph).made()
            for name, graph in zip(self.names, self.derivative.gradients, strict=True)
        }


def _refusing(overload: Any) -> Callable[..., Any]:
    def formula(g: Any) -> Any:
        raise AutogradError(autograd.MSG_NONE.format(name=overload))

    return formula


def _listed(types: Sequence[tuple[DType, Shape]]) -> str:
    return ", ".join(f"{dtype.name}{list(shape)}" for dtype, shape in types)


def _row(
    name: str,
    names: tuple[str, ...],
    shape: Callable[[Any], Shape],
    kind: TensorType,
    array: Callable[..., Any],
    vjp: Any,
) -> Op:
    """A row whose result has the shape that `shape` makes of the attribute `shapes`."""

    def infer(*types: Any, shapes: Any, sizes: Any) -> TensorType:
        return kind.with_shape(shape(shapes))

    rule = Extern(array, widens=True)
    attributes = {"shapes": REQUIRED, "sizes": REQUIRED}
    return Op(name, Kind.EXTERN, names, attributes, infer, rule, vjp, analytic=False, opaque=True)


# -- expressions ---------------------------------------------------------------------------------


def _numbers_of_expression(
    call: _Rows, values: Sequence[Any], types: Sequence[TensorType]
) -> dict[str, Any] | None:
    """The numbers among the arguments of an operator whose expression is to be fused.

    None: it has none, or the operands are of a dtype that is not computed with as it is, or the
    result is not what they broadcast and promote to.
    """
    overload = call.form.overload
    if overload.expression is None or call.form.sizes or len(call.results.types) != 1:
        return None
    if call.derivative is not None and not call.derivative.differentiable:
        return None
    arguments = list(zip(overload._schema.arguments, values, strict=True))
    if any(value is None or type.dtype not in DTYPES for type in types for _, value in arguments):
        return None
    (kind,) = call.results.types
    shape = broadcast_shapes([type.shape for type in types], overload._name)
    dtype = functools.reduce(dtypes.promote, [type.dtype for type in types])
    devices = {type.device for type in types}
    if devices != {kind.device} or (tuple(shape), dtype) != (tuple(kind.shape), kind.dtype):
        return None
    return {argument.name: value for argument, value in arguments if not is_tensor(value)}


def _fused(call: _Rows, kind: TensorType, function: str) -> Op:
    """The row of an expression: generated code has its text, arrays go to the kernel."""

    def body(m: Any, *operands: Any, shapes: Any, sizes: Any) -> Any:
        return getattr(m, function)(*operands)

    def array(xp: Any, *arrays: Any, shapes: Any, sizes: Any) -> Any:
        return call.run(xp, arrays, shapes, sizes)[0]

    row = call.single()
    rule = Pointwise(body, lambda dtype: dtype, array)
    return Op(call.name, Kind.POINTWISE, row.inputs, row.attributes, row.infer, rule, row.vjp,
              analytic=False, opaque=True)  # fmt: skip


def _row_major(xp: Any, array: Any) -> Any:
    return array if array.flags.c_contiguous else xp.ascontiguousarray(array)


# -- bytes ---------------------------------------------------------------------------------------

_BYTES: Final = dtypes.uint8.numpy


def _offsets(types: Sequence[TensorType], shapes: Sequence[Shape]) -> list[Number]:
    """Where the bytes of each result begin, and where the last end."""
    offsets: list[Number] = [0]
    for type, shape in zip(types, shapes, strict=True):
        offsets.append(offsets[-1] + numel(shape) * type.dtype.itemsize)
    return offsets


def _unpacked(contents: Any, types: Sequence[TensorType], shapes: Sequence[Shape]) -> list[Any]:
    """All results, of their bytes."""
    return [
        _UNPACK(contents, offset=offset, shape=tuple(shape), dtype=type.dtype)
        for type, shape, offset in zip(types, shapes, _offsets(types, shapes), strict=False)
    ]


def _unpack(xp: Any, contents: Any, *, offset: int, shape: Any, dtype: DType) -> Any:
    """Some of the bytes as an array of its own."""
    part = contents[offset : offset + numel(shape) * dtype.itemsize]
    return xp.array(part).view(dtype.numpy).reshape(shape)


def _infer_unpacked(contents: Any, *, offset: Any, shape: Shape, dtype: DType) -> TensorType:
    return TensorType(shape, dtype, contents.device)


_UNPACK: Final = Op(
    "unpacked",
    Kind.EXTERN,
    ("contents",),
    {"offset": REQUIRED, "shape": REQUIRED, "dtype": REQUIRED},
    _infer_unpacked,
    Extern(_unpack, widens=True),
    opaque=True,
)


# -- derivatives ---------------------------------------------------------------------------------


class _Layout(Protocol):
    """How the results of a call, and their gradients, lie in the value of a row."""

    def reads(self, place: int) -> str:
        """The parameter of a formula that holds a result."""

    def result(self, place: int, given: dict[str, Any]) -> Any:
        """A result, of a formula's parameters."""

    def split(self, value: Any, shapes: Sequence[Shape]) -> list[Any]:
        """The results that have gradients, or their gradients, of the row's or its gradient."""


@record
class _Whole:
    """The one result of a row."""

    type: TensorType

    def reads(self, place: int) -> str:
        """See _Layout."""
        return "out"

    def result(self, place: int, given: dict[str, Any]) -> Any:
        """See _Layout."""
        return given["out"]

    def split(self, value: Any, shapes: Sequence[Shape]) -> list[Any]:
        """See _Layout."""
        return [value]


@record
class _Joined:
    """Results of floating or complex dtypes, one after the other in a dtype that holds all.

    Args:
        types: of all results.
        places: those that are here.
    """

    types: tuple[TensorType, ...]
    places: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """The dtype of all of them."""
        return functools.reduce(dtypes.promote, [self.types[place].dtype for place in self.places])

    def length(self, shapes: Sequence[Shape]) -> Number:
        """Elements of all of them."""
        total: Number = 0
        for place in self.places:
            total = total + numel(shapes[place])
        return total

    def read(self, xp: Any, contents: Any, shapes: Sequence[Shape]) -> Any:
        """An array with all of them, of the bytes of all results."""
        offsets = _offsets(self.types, shapes)
        parts = [
            _unpack(xp, contents, offset=offsets[p], shape=shapes[p], dtype=self.types[p].dtype)  # type: ignore[arg-type]
            for p in self.places
        ]
        return xp.concatenate([part.astype(self.dtype.numpy).reshape(-1) for part in parts])

    def reads(self, place: int) -> str:
        """See _Layout."""
        return "out" if place in self.places else "contents"

    def result(self, place: int, given: dict[str, Any]) -> Any:
        """See _Layout."""
        shapes = given["shapes"]
        if place in self.places:
            return self.split(given["out"], shapes)[self.places.index(place)]
        return _unpacked(given["contents"], self.types, shapes)[place]

    def split(self, value: Any, shapes: Sequence[Shape]) -> list[Any]:
        """See _Layout."""
        parts = []
        start: Number = 0
        for place in self.places:
            length = numel(shapes[place])
            part = value.narrow(0, start, length).reshape(tuple(shapes[place]))
            parts.append(part.to(self.types[place].dtype))
            start = start + length
        return parts


class _Formula:
    """The gradient of one operand, as a formula of a row.

    Args:
        call: the rows of the call.
        layout: of the row.
        graph: computes the gradient.
    """

    def __init__(self, call: _Rows, layout: _Layout, graph: Any) -> None:
        assert call.derivative is not None
        self.call = call
        self.layout = layout
        self.graph = graph
        self.inputs = call.derivative.inputs
        read = {argument for node in graph.calls for argument in node.args} | set(graph.outputs)
        self.read = [node in read for node in self.inputs]

    def made(self) -> Callable[..., Any]:
        """A function whose parameters say what is to be saved: see `Op.vjp`."""

        def formula(**given: Any) -> Any:
            return self.gradient(given)

        names = [name if is_read else f"{name}_type" for name, is_read in self.operands()]
        results = range(len(self.call.results.types))
        names += [self.layout.reads(i) for i in results if self.read[len(self.call.names) + i]]
        parameters = dict.fromkeys(("g", "shapes", *names))
        formula.__signature__ = Signature(  # type: ignore[attr-defined]
            [Parameter(name, Parameter.KEYWORD_ONLY) for name in parameters]
        )
        return formula

    def operands(self) -> list[tuple[str, bool]]:
        """(name, whether its contents are read) of the operands."""
        return list(zip(self.call.names, self.read, strict=False))

    def gradient(self, given: dict[str, Any]) -> Any:
        """The gradient, of what the parameters hold. What is not read is there as a type."""
        g, shapes = given["g"], given["shapes"]
        values = [given[n if is_read else f"{n}_type"] for n, is_read in self.operands()]
        for place, type in enumerate(self.call.results.types):
            is_read = self.read[len(self.call.names) + place]
            shape = tuple(shapes[place])
            values.append(self.layout.result(place, given) if is_read else type.with_shape(shape))
        values += self.layout.split(g, shapes)
        is_graph = isinstance(g, Value)
        constant = (lambda array: array) if is_graph else from_numpy
        return interpret.replay(self.graph, values, constant)[0]
