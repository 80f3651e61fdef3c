"""The tape's nodes: how a tensor was made, and how its gradient reaches what it was made from.

Contract: `edges[i]` is where the gradient of input i goes: a Node, a leaf tensor (it accumulates),
or None; `indices[i]` says which output of that node the input was. `sequence` grows with time, so
every edge leads to a smaller sequence and descending order is a topological order. Nothing here
recurses along edges; long chains are freed by CPython's trashcan.
"""

import functools
import inspect
import itertools
import math
import operator
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, TypeAlias

from dynajit.core.errors import AutogradError, UnsupportedError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.tensor_layouts import strided
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType
from dynajit.eager import _rows, _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled, meta_of
from dynajit.eager.modes.forward_levels import Level, opened
from dynajit.eager.tape import anomaly, saved_hooks
from dynajit.eager.tape.handles import BEGUN, Handle, Key
from dynajit.ops.table.derivatives import (
    Need,
    Parameter,
    conjugated,
    conjugates,
    formula_parameters,
)
from dynajit.ops.table.families import sum_to_type
from dynajit.ops.table.op_table import TABLE, Kind, Op

MSG_SECOND_BACKWARD: Final = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you "
    "call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
    "through the graph a second time or if you need to access saved tensors after calling "
    "backward."
)
MSG_MODIFIED: Final = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: [{what}] saved by {node} is at version {now}; expected version {expected} "
    "instead.  Use the value before it is overwritten, write to a clone(), or use the "
    "out-of-place form of the operation."
)

MSG_DETACHED: Final = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().  Use "
    "detach() instead, which leaves the tensor's history as it is."
)
DETACHED: Final = "_detached_at"
"""Where a tensor keeps the number of nodes that there were when it lost its history."""

MSG_INFERENCE: Final = (
    "Inference tensors cannot be saved for backward.  Make a clone() outside of inference mode and "
    "compute with that."
)

MSG_SPARSE: Final = (
    "{name}: the gradient of a sparse tensor itself is not available.  Make the sparse tensor of "
    "values that require a gradient, sparse_coo_tensor(indices, values, size), and ask for theirs; "
    "start backward from .to_dense(), or from a sum."
)

_sequence = itertools.count(1)


class Extras:
    """What few nodes have: hooks and retained gradients. Mutable, made on first use.

    `accumulators` are those that somebody asked the node for: they live as long as it does.
    `kinds` are (shape, dtype, device) of those of its outputs that somebody starts backward from.
    """

    __slots__ = (
        "accumulators", "hooks", "kinds", "metadata", "prehooks", "retained", "tensor_hooks",
    )  # fmt: skip

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, dict[Key, Callable[[Any], Any]]] = {}
        self.retained: dict[int, weakref.ref[Any]] = {}
        self.prehooks: dict[Key, Callable[..., Any]] = {}
        self.hooks: dict[Key, Callable[..., Any]] = {}
        self.metadata: dict[Any, Any] = {}
        self.accumulators: list[AccumulateGrad] = []
        self.kinds: dict[int, Any] = {}


class Node:
    """Base of all nodes. Mutable: saved values are released after backward.

    Args:
        edges, indices: see the module.
    """

    __slots__ = ("__weakref__", "edges", "extras", "indices", "sequence")

    output_count = 1
    #: True for a node that stands for many operations, and whose gradients may pass through values
    #: of them that others have: see `hides`, `hidden_views` and `unfold`.
    may_hide = False
    #: True for such a node that cannot give gradients before it is unfolded.
    is_bare = False
    #: Per output the positions of the inputs that get a gradient from it; empty: each gets one from
    #: every output.
    reached: "Sequence[Collection[int]]" = ()
    #: True for a node whose derivative the program wrote.
    runs_user_code = False
    #: Where gradients of the outputs go instead, (node, index) each; None: they come here.
    unfolded: "Sequence[tuple[Node, int]] | None" = None

    def __init__(self, edges: Sequence[Any], indices: Sequence[int]) -> None:
        self.edges = edges
        self.indices = indices
        self.sequence: float = next(_sequence)
        self.extras: Extras | None = None

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        """Gradients of the inputs (Tensor or None) from those of the outputs (Tensor or None).

        Args:
            gradients: one per output; at least one is a Tensor.
            wanted: per input, whether its gradient is used.
        """
        raise NotImplementedError

    def apply_in_parts(
        self, gradients: list[Any], sizes: tuple[int, int]
    ) -> "Iterator[Sequence[tuple[int, Any]]] | None":
        """What `apply` gives, as (position of the input, gradient), in several goes.

        Args:
            sizes: bytes from which the first part, and each further one, is worth a go.

        Returns:
            the goes, each computed when it is asked for; None: there is only `apply`.
        """
        return None

    def release(self) -> None:
        """Drop saved tensors: the graph has been used up."""

    def give_up(self, gradients: list[Any], wanted: Sequence[bool]) -> None:
        """`apply` has failed: drop what the operations that this node stands for have saved, as
        far as they come before the one that fails."""

    def kept_results(self, index: int) -> "Sequence[SavedResult | SavedPacked]":
        """Where an output of the node is kept for backward."""
        return ()

    def kind_of(self, index: int) -> Any:
        """(shape, dtype, device) of an output, where that was noted; else None."""
        return None if self.extras is None else self.extras.kinds.get(index)

    def hides(self, index: int, came: Sequence[int]) -> bool:
        """True if the gradients of the outputs `came` pass through output `index` unseen."""
        return False

    def hidden_views(self, came: Sequence[int] | None = None) -> "Iterator[tuple[Node, int]]":
        """The views that those gradients (None: any) pass through unseen, as (node, output)."""
        return iter(())

    def unfold(self, came: Collection[int], wanted: Sequence[bool]) -> None:
        """Put a node per operation in the place of this one, and set `unfolded`."""
        raise NotImplementedError

    def name(self) -> str:
        """As PyTorch prints it, such as `MulBackward0`."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node or None, output index) per input; leaves appear as AccumulateGrad."""
        found = [accumulator_of(e) if isinstance(e, TensorBase) else e for e in self.edges]
        accumulators = [node for node in found if isinstance(node, AccumulateGrad)]
        if accumulators:
            self.more().accumulators = accumulators
        return tuple(zip(found, self.indices, strict=True))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's notes about this node."""
        return self.more().metadata

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after the node; a result replaces grad_inputs."""
        return Handle(self.more().hooks, hook)

    def register_prehook(self, hook: Callable[[Any], Any]) -> Handle:
        """Call `hook(grad_outputs)` before the node runs; a result replaces grad_outputs."""
        return Handle(self.more().prehooks, hook)

    def more(self) -> Extras:
        """The extras, made when first asked for."""
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def resolved(target: Any, index: int) -> tuple[Any, int]:
    """Where a gradient for output `index` of a node (or for a leaf) goes."""
    while isinstance(target, Node) and target.unfolded is not None:
        target, index = target.unfolded[index]
    return target, index


def made_by(tensor: Any) -> tuple[Any, int]:
    """(node or None, index of the output) of the tape that a tensor is the result of."""
    return resolved(tensor.grad_fn, tensor.output_index)


class AccumulateGrad(Node):
    """The end of the tape at a leaf, where gradients are added to `.grad`.

    Edges lead to leaves themselves. Such a node is made for who asks for it, and there is one for a
    leaf at a time: its hooks live as long as a node that was asked for it, or the program, holds
    it.
    """

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        super().__init__((), ())
        self.sequence = math.inf
        self.variable = variable

    def name(self) -> str:
        """As PyTorch names it."""
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> Handle:
        """Call `hook((), grad_outputs)` after `.grad` has grown, behind the leaf's own hooks."""
        _note_hooks(self)
        return super().register_hook(hook)

    def register_prehook(self, hook: Callable[[Any], Any]) -> Handle:
        """Call `hook(grad_outputs)` before `.grad` grows, behind the hooks on the gradient."""
        _note_hooks(self)
        return super().register_prehook(hook)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


_accumulators: "weakref.WeakValueDictionary[int, AccumulateGrad]" = weakref.WeakValueDictionary()
"""Identity of a leaf -> its node, which keeps the leaf alive."""


def accumulator_of(leaf: Any) -> AccumulateGrad:
    """The node at a leaf, made if there is none."""
    found = _accumulators.get(id(leaf))
    if found is None:
        found = _accumulators[id(leaf)] = AccumulateGrad(leaf)
    return found


_with_hooks: "set[weakref.ref[AccumulateGrad]]" = set()
"""The nodes at leaves that have, or had, a hook."""


def _note_hooks(node: AccumulateGrad) -> None:
    _with_hooks.add(weakref.ref(node, _forget_hooks))
    BEGUN.accumulators = BEGUN.accumulation = True


def _forget_hooks(gone: "weakref.ref[AccumulateGrad]") -> None:
    _with_hooks.discard(gone)
    BEGUN.accumulators = bool(_with_hooks)


def hooks_at(leaf: Any) -> Extras | None:
    """The hooks of the node at a leaf, if it has any."""
    found = _accumulators.get(id(leaf)) if BEGUN.accumulators else None
    extras = None if found is None else found.extras
    return extras if extras is not None and (extras.hooks or extras.prehooks) else None


def edges_of(inputs: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Where gradients of these inputs go; None for numbers and tensors that require none."""
    edges, indices, _ = _tensor.edges(inputs)
    return edges, indices


Tangents: TypeAlias = tuple[tuple[Level, Any], ...]
"""Of a tensor the tangents at levels of forward mode."""


def tangents_of(tensor: Any) -> Tangents:
    """Those that a tensor has now; operations have asked for them, so that the levels know."""
    known = ((level, level.known(tensor)[1]) for level in opened())
    return tuple((level, tangent) for level, tangent in known if tangent is not None)


def moving_by(tensor: Any, tangents: Tangents) -> Any:
    """A tensor that has the tangents again, as far as their levels are open."""
    for level, tangent in tangents:
        if level.is_open:
            level.note(tensor, tangent)
    return tensor


class SavedTensor:
    """A tensor needed by a formula, with the version that it had. Immutable.

    Raises:
        AutogradError: it was made in inference mode, and is needed for certain.
    """

    __slots__ = ("array", "storage", "tensor", "version")

    def __init__(self, tensor: Any, is_needed: bool = True) -> None:
        self.tensor = tensor
        self.array = tensor._held
        self.storage = tensor._storage
        self.version = self.storage.version
        if is_needed and self.storage.is_inference:
            raise AutogradError(MSG_INFERENCE)

    def unpack(self, node: Node) -> Any:
        """The tensor, if nobody wrote to it since.

        Raises:
            AutogradError: it was written in place; or, while gradients are recorded, it has lost
                its history since.
        """
        if self.storage.version != self.version:
            raise AutogradError(modified_message(self, node))
        if self.tensor._held is self.array:
            if is_grad_enabled() and self.tensor.__dict__.get(DETACHED, 0) > node.sequence:
                raise AutogradError(MSG_DETACHED)
            return self.tensor
        if is_grad_enabled() and self.tensor.requires_grad:
            raise AutogradError(
                f"double backward through {node.name()}: the data of a saved tensor was replaced "
                "(`.data = ...`) after the forward run.  Run the forward again."
            )
        return _tensor.wrap(self.array)


class SavedResult:
    """An output of the node itself; refers to the array only, so that no cycle arises."""

    __slots__ = ("array", "duals", "index", "storage", "version")

    def __init__(self, tensor: Any, index: int = 0) -> None:
        self.array = tensor._held
        self.storage = tensor._storage
        self.version = self.storage.version
        self.index = index
        self.duals: Tangents = ()  # told by `eager.operations.duals`, which knows them later

    def unpack(self, node: Node) -> Any:
        """The output, with this node as its history, if nobody wrote to it since.

        Raises:
            AutogradError: it was written in place.
        """
        if self.storage.version != self.version:
            raise AutogradError(modified_message(self, node))
        if is_grad_enabled():
            found = _tensor.wrap_output(self.array, node, self.index)
        else:
            found = _tensor.wrap(self.array)
        return moving_by(found, self.duals)


class SavedSparse:
    """A sparse tensor that is kept for backward, as `SavedTensor` a dense one. Immutable."""

    __slots__ = ("elements", "sparse", "where")

    def __init__(self, sparse: Any) -> None:
        self.sparse = sparse
        self.where = SavedTensor(sparse._positions)
        self.elements = SavedTensor(sparse._elements)

    def unpack(self, node: Node) -> Any:
        """The tensor, if nobody wrote to it since.

        Raises:
            AutogradError: it was written in place.
        """
        self.where.unpack(node)
        self.elements.unpack(node)
        return self.sparse


class SavedPacked(SavedTensor):
    """A tensor that went through the program's own functions, with its history. Immutable.

    Args:
        tensor: to be packed.
        hooks: pack and unpack.
        output: None, or which output of the node itself it is.
    """

    __slots__ = ("duals", "history", "output", "packed")

    def __init__(self, tensor: Any, hooks: saved_hooks.Hooks, output: int | None = None) -> None:
        # An output would refer to this node, which refers to what is packed.
        given = tensor if output is None else saved_hooks.without_history(tensor)
        self.packed = saved_hooks.Packed(given, hooks)
        self.output = output
        self.duals = tangents_of(tensor)
        self.history: tuple[Any, int] | None = None
        if output is None and tensor.requires_grad:
            maker = tensor.grad_fn
            self.history = (tensor, 0) if maker is None else (maker, tensor.output_index)

    def unpack(self, node: Node) -> Any:
        """What the program gives back, with the history that the tensor had."""
        found = self.packed.opened()
        if is_grad_enabled() and self.output is not None:
            found = _tensor.wrap_output(found._held, node, self.output)
        elif is_grad_enabled() and self.history is not None:
            maker, index = self.history
            if not isinstance(maker, Node):
                maker, index = _PassedOn([maker], [index]), 0
            found = _tensor.wrap_output(found._held, maker, index)
        elif self.duals:
            found = saved_hooks.without_history(found)
        return moving_by(found, self.duals)


class _PassedOn(Node):
    """Stands between a leaf and another array with its values: the gradient passes unchanged."""

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        return [gradients[0]]


def saved(tensor: Any) -> SavedTensor:
    """A dense tensor as a node keeps it."""
    hooks = saved_hooks.current() if saved_hooks.OPEN else None
    return SavedTensor(tensor) if hooks is None else SavedPacked(tensor, hooks)


def saved_output(tensor: Any, index: int = 0) -> "SavedResult | SavedPacked":
    """An output of the node itself as the node keeps it."""
    hooks = saved_hooks.current() if saved_hooks.OPEN else None
    return SavedResult(tensor, index) if hooks is None else SavedPacked(tensor, hooks, index)


def kept_for_backward(tensor: Any) -> SavedTensor | SavedSparse:
    """A tensor of any kind, with the version that it has."""
    if not tensor._has_array and hasattr(tensor, "_kept_for_backward"):
        return tensor._kept_for_backward()  # type: ignore[no-any-return]
    return saved(tensor) if tensor.layout is strided else SavedSparse(tensor)


def refuse_gradient(tensors: Sequence[Any], name: str) -> None:
    """Nothing, unless a gradient is to flow into, or out of, a sparse tensor as a whole.

    Raises:
        UnsupportedError: one of the tensors is sparse.
    """
    for x in tensors:
        if isinstance(x, TensorBase) and x.layout is not strided:
            raise UnsupportedError(MSG_SPARSE.format(name=name))


def require_arrays(values: Sequence[Any]) -> None:
    """Nothing, unless a value is a tensor that holds samples: those refuse to be one array."""
    for x in values:
        if not getattr(x, "_has_array", True) and x.layout is strided:
            _ = x.array


def modified_message(saved: "SavedTensor | SavedResult", node: Node) -> str:
    """PyTorch's words for a saved tensor that was overwritten."""
    dtype = dtypes.from_numpy(saved.array.dtype).name
    what = f"{dtype} {list(saved.array.shape)}"
    return MSG_MODIFIED.format(
        what=what, node=node.name(), now=saved.storage.version, expected=saved.version
    )


Getter: TypeAlias = Callable[["OpNode"], Any]


@record
class Formula:
    """One derivative formula of a row, ready to be called.

    Args:
        function: the formula, of the table, the gradient, and what it needs besides.
        takes_table: else it is a function of the gradient and the rest.
        getters: what gives the values of these further parameters, from the node.
        inputs: positions of the inputs that it needs; None means all (variadic).
        result, result_type: whether it needs the result, or its type.
        slope: its form in C, or None (`Composite.slopes`), which takes no table.
    """

    function: Callable[..., Any]
    takes_table: bool
    getters: tuple[Getter, ...]
    inputs: frozenset[int] | None
    result: bool
    result_type: bool
    slope: Callable[..., Any] | None

    def __call__(self, node: "OpNode", g: Any) -> Any:
        values = [get(node) for get in self.getters]
        if self.slope is not None and not is_grad_enabled():
            found = _rows.slope(self.slope, g, *values)
            if found is not NotImplemented:
                return found
        return self.function(TABLE, g, *values) if self.takes_table else self.function(g, *values)


@functools.cache
def formulas_of(op: Op) -> tuple[Formula | None, ...]:
    """The formula per input of a row (one for a variadic row)."""
    return tuple(_formula(op, name) for name in op.inputs)


@functools.cache
def is_differentiable(op: Op) -> bool:
    """Whether the row has a formula."""
    return any(formula is not None for formula in formulas_of(op))


def _formula(op: Op, name: str) -> Formula | None:
    parameters = formula_parameters(op, name)
    function = op.vjp.get(name)
    if parameters is None or function is None:
        return None
    needs = {parameter.need for parameter in parameters}
    rest = tuple(p for p in parameters if p.need not in (Need.TABLE, Need.GRADIENT))
    return Formula(
        _by_places(function, parameters, rest),
        Need.TABLE in needs,
        tuple(_getter(parameter) for parameter in rest),
        None
        if Need.INPUTS in needs
        else frozenset(p.key for p in parameters if p.need is Need.INPUT),
        Need.RESULT in needs,
        Need.RESULT_TYPE in needs,
        op.rule.slopes.get(name) if op.kind is Kind.COMPOSITE else None,
    )


def _by_places(
    function: Callable[..., Any], parameters: tuple[Parameter, ...], rest: tuple[Parameter, ...]
) -> Callable[..., Any]:
    """The function as `Formula.function`: of its parameters in that order."""
    named = {parameter.need: parameter for parameter in parameters}
    first = [named[need] for need in (Need.TABLE, Need.GRADIENT) if need in named]
    ordered = (*first, *rest)
    declared = inspect.signature(function).parameters.values()
    has_places = all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in declared)
    is_ordered = has_places and len(declared) == len(parameters) and parameters == ordered
    if is_ordered and Need.GRADIENT in named:
        return function
    names = [parameter.name for parameter in ordered]
    if Need.GRADIENT in named:
        return lambda *values: function(**dict(zip(names, values, strict=True)))
    place = len(first)  # of the gradient, which the function does without
    return lambda *values: function(
        **dict(zip(names, values[:place] + values[place + 1 :], strict=True))
    )


def _getter(parameter: Parameter) -> Getter:
    key = parameter.key
    getters: dict[Need, Getter] = {
        Need.INPUT: operator.methodcaller("saved_input", key),
        Need.RESULT: operator.methodcaller("saved_result"),
        Need.ATTRIBUTE: lambda node: node.attributes[key],
        Need.INPUT_TYPE: lambda node: type_of_meta(node.metas[key]),
        Need.RESULT_TYPE: lambda node: type_of_meta(node.out_meta),
        Need.INPUTS: lambda node: [node.saved_input(i) for i in range(len(node.metas))],
        Need.INPUT_TYPES: lambda node: [type_of_meta(meta) for meta in node.metas],
    }
    return getters[parameter.need]


@record
class Savings:
    """What a node keeps: positions of inputs, the result, the type of the result."""

    inputs: tuple[int, ...]
    result: bool
    result_type: bool


@functools.cache
def savings_of(op: Op, mask: int, count: int) -> Savings:
    """What the formulas of the inputs with an edge (bits of `mask`) need, of `count` inputs."""
    if op.variadic:
        used = [formulas_of(op)[0]]
    else:
        used = [f for position, f in enumerate(formulas_of(op)) if mask >> position & 1]
    chosen = [formula for formula in used if formula is not None]
    needed: set[int] = set()
    for formula in chosen:
        needed |= set(range(count)) if formula.inputs is None else formula.inputs
    return Savings(
        tuple(sorted(needed)),
        any(formula.result for formula in chosen),
        any(formula.result_type for formula in chosen),
    )


def type_of_meta(meta: Any) -> ValueType | None:
    """The type of an input from what `OpNode.metas` keeps of it."""
    if type(meta) is tuple:
        shape, dtype, device = meta
        return TensorType(shape, dtype, device)
    return None if meta is None else ScalarType(dtypes.category_of(meta))


class OpNode(Node):
    """A row that was run on tensors of which one requires a gradient. Mutable: see Node.

    Args:
        op: the row.
        inputs: its inputs: tensors, numbers or None.
        attributes: its attributes, completed.
    """

    __slots__ = ("attributes", "metas", "op", "out_meta", "result", "saved", "savings")

    def __init__(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        self.edges, self.indices, mask = _tensor.edges(inputs)
        self.sequence = next(_sequence)
        self.extras = None
        self.op = op
        self.attributes = attributes
        self.metas: list[Any] = _tensor.metas(inputs)
        self.out_meta: Any = None
        self.result: SavedResult | SavedPacked | None = None
        self.savings = savings = savings_of(op, mask, len(inputs))
        self.saved: dict[int, Any] | None = {}
        hooks = saved_hooks.current() if saved_hooks.OPEN else None
        for position in savings.inputs:
            operand = inputs[position]
            if isinstance(operand, TensorBase):
                operand = SavedTensor(operand) if hooks is None else SavedPacked(operand, hooks)
            self.saved[position] = operand
        if anomaly.is_detecting() is not None:
            anomaly.remember(self)

    def begin(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        """All of `__init__` but for what is saved, for classes that save something else. It stands
        there once more: a call would cost every operation."""
        edges, indices, mask = _tensor.edges(inputs)
        Node.__init__(self, edges, indices)
        self.op = op
        self.attributes = attributes
        self.metas = _tensor.metas(inputs)
        self.out_meta = None
        self.result = None
        self.savings = savings_of(op, mask, len(inputs))

    def finish(self, tensor: Any) -> None:
        """Note the result, or its type, if a formula needs it."""
        if self.savings.result:
            self.result = saved_output(tensor)
        if self.savings.result_type:
            self.out_meta = meta_of(tensor)

    def kept_results(self, index: int) -> Sequence[SavedResult | SavedPacked]:
        return () if self.result is None else (self.result,)

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        g = gradients[0]
        if self.saved is None and (self.savings.inputs or self.savings.result):
            raise AutogradError(MSG_SECOND_BACKWARD)
        formulas = formulas_of(self.op)
        between = conjugates(self.op, g)
        if between:
            g = conjugated(g)
        if self.op.variadic:
            formula = formulas[0]
            found = formula(self, g) if formula is not None and any(wanted) else None
            if found is None:
                return [None] * len(self.edges)
            results = list(found)
        else:
            results = [
                formula(self, g) if flag and formula is not None else None
                for formula, flag in zip(formulas, wanted, strict=True)
            ]
        if between:
            results = conjugated(results)
        if self.op.bends and is_grad_enabled():
            results = [None if result is None else self.tied(result) for result in results]
        for position, result in enumerate(results):
            if result is None or not wanted[position]:
                results[position] = None
            elif meta_of(result) != self.metas[position]:
                results[position] = self.fit(result, self.metas[position])
        return results

    def tied(self, gradient: Any) -> Any:
        """The gradient, which depends on what its formula needs, with derivative 0."""
        known = self.saved_result() if self.savings.result else self.saved_input(0)
        return TABLE.where(TABLE.lt(known, -math.inf), known, gradient)

    def fit(self, gradient: Any, meta: Any) -> Any:
        """A gradient of another type in the input's shape and dtype."""
        return sum_to_type(TABLE, gradient, type_of_meta(meta))  # type: ignore[arg-type]

    def saved_input(self, position: int) -> Any:
        """A saved input, if the graph is not used up and nobody wrote to it."""
        if self.saved is None:
            raise AutogradError(MSG_SECOND_BACKWARD)
        kept = self.saved[position]
        return kept.unpack(self) if isinstance(kept, SavedTensor) else kept

    def saved_result(self) -> Any:
        """The saved result, under the same conditions."""
        if self.result is None:
            raise AutogradError(MSG_SECOND_BACKWARD)
        return self.result.unpack(self)

    def release(self) -> None:
        self.saved = None
        self.result = None

    def name(self) -> str:
        return backward_name(self.op.name)


RESULT: Final = -1
"""The place of the result among what a node saves; others are positions of inputs."""
_PLACES: Final = {"self": 0, "other": 1, "exponent": 1, "result": RESULT}
"""PyTorch's names of what most operations save."""


def _place_of(node: OpNode, name: str) -> int:
    place = _PLACES[name]
    kept = node.savings.inputs if node.saved is None else node.saved
    if node.savings.result if place == RESULT else not node.op.variadic and place in kept:
        return place
    raise AttributeError(f"'{node.name()}' keeps nothing of this name: '{name}'")


def _saved_as(name: str, node: OpNode) -> Any:
    place = _place_of(node, name)
    return node.saved_result() if place == RESULT else node.saved_input(place)


def _raw_saved_as(name: str, node: OpNode) -> "RawSaved":
    return RawSaved(node, _place_of(node, name))


for _name in _PLACES:  # `__getattr__` would slow all other attributes down
    setattr(OpNode, f"_saved_{_name}", property(functools.partial(_saved_as, _name)))
    setattr(OpNode, f"_raw_saved_{_name}", property(functools.partial(_raw_saved_as, _name)))


class RawSaved:
    """What a node keeps in one place, without a look at it: `y.grad_fn._raw_saved_self`.

    Args:
        node: of an operation.
        place: the position of an input, or RESULT.
    """

    __slots__ = ("node", "place")

    def __init__(self, node: OpNode, place: int) -> None:
        self.node = node
        self.place = place

    def register_hooks(
        self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
    ) -> None:
        """Let the node keep what `pack_hook` makes of the tensor, and compute with what
        `unpack_hook` makes of that, as in a block of `saved_tensors_hooks`.

        Raises:
            AutogradError: no tensor is kept there, or it went through such functions, or it was
                let go of, or written to.
        """
        node = self.node
        if node.saved is None:
            raise AutogradError(MSG_SECOND_BACKWARD)
        kept = node.result if self.place == RESULT else node.saved[self.place]
        if isinstance(kept, SavedPacked):
            raise AutogradError(
                "Calling register_hooks on a saved tensor whose hooks have already been set is not "
                "allowed."
            )
        if not isinstance(kept, (SavedTensor, SavedResult)):
            raise AutogradError("Calling register_hooks on a saved tensor with value None is "
                                "forbidden")  # fmt: skip
        output = kept.index if isinstance(kept, SavedResult) else None
        packed = SavedPacked(kept.unpack(node), (pack_hook, unpack_hook), output)
        if output is None:
            node.saved[self.place] = packed
        else:
            node.result = packed


@functools.cache
def backward_name(op_name: str) -> str:
    """`log_softmax` -> `LogSoftmaxBackward0`."""
    return "".join(part.capitalize() for part in op_name.split("_")) + "Backward0"


class OverwriteBackward(Node):
    """A tensor whose old contents were replaced by a constant: no gradient flows back, but the
    tensor still requires one."""

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        g = gradients[0]
        return [zeros_of(g.shape, g.dtype, g.device) if flag else None for flag in wanted]


class SpentBackward(Node):
    """A result of a compiled function which has run backward from it, as the eager tape is then."""

    __slots__ = ()

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        """See the class.

        Raises:
            AutogradError: always.
        """
        raise AutogradError(MSG_SECOND_BACKWARD)


def spent(tensor: Any, *inputs: Any) -> Any:
    """The tensor, which was computed from `inputs`, and whose gradient nobody can ask for again."""
    _tensor.rebase(tensor, SpentBackward(*edges_of(inputs)), 0)
    return tensor


def zeros_of(shape: tuple[int, ...], dtype: DType, device: Device = CPU) -> Any:
    """A tensor of zeros: the gradient of an output that was not used."""
    return TABLE.full(0, shape=tuple(shape), dtype=dtype, device=device)
