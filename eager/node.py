"""The tape's nodes: how a tensor was made, and how its gradient reaches what it was made from.

Contract: `edges[i]` is where the gradient of input i goes: a Node, a leaf tensor (it accumulates),
or None; `indices[i]` says which output of that node the input was. `sequence` grows with time, so
every edge leads to a smaller sequence and descending order is a topological order. Nothing here
recurses along edges; long chains are freed by CPython's trashcan. Called by `execute` (records),
`tape` (runs), `function` and `compiled` (their own nodes).
"""

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dynajit.core import dtypes
from dynajit.core.device import CPU, Device
from dynajit.core.dtypes import DType
from dynajit.core.errors import AutogradError
from dynajit.core.types import ScalarType, TensorType, ValueType
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled
from dynajit.ops.derivatives import Need, Parameter, formula_parameters
from dynajit.ops.families import sum_to_type
from dynajit.ops.table import TABLE, Op

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

_sequence = itertools.count(1)


class Extras:
    """What few nodes have: hooks and retained gradients. Mutable, made on first use."""

    __slots__ = ("hooks", "metadata", "prehooks", "retained", "tensor_hooks")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, dict[int, Callable[[Any], Any]]] = {}
        self.retained: dict[int, weakref.ref[Any]] = {}
        self.prehooks: dict[int, Callable[..., Any]] = {}
        self.hooks: dict[int, Callable[..., Any]] = {}
        self.metadata: dict[Any, Any] = {}


class Handle:
    """Removes a hook: `handle.remove()`, or at the end of a `with` block."""

    _ids = itertools.count(1)

    def __init__(self, hooks: dict[int, Any], function: Callable[..., Any]) -> None:
        self.id = next(Handle._ids)
        self._hooks = hooks
        hooks[self.id] = function

    def remove(self) -> None:
        """The hook is not called any more; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *unused: object) -> None:
        self.remove()


class Node:
    """Base of all nodes. Mutable: saved values are released after backward.

    Args:
        edges, indices: see the module.
    """

    __slots__ = ("__weakref__", "edges", "extras", "indices", "sequence")

    output_count = 1

    def __init__(self, edges: Sequence[Any], indices: Sequence[int]) -> None:
        self.edges = edges
        self.indices = indices
        self.sequence = next(_sequence)
        self.extras: Extras | None = None

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        """Gradients of the inputs (Tensor or None) from those of the outputs (Tensor or None).

        Args:
            gradients: one per output; at least one is a Tensor.
            wanted: per input, whether its gradient is used.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Drop saved tensors: the graph has been used up."""

    def name(self) -> str:
        """As PyTorch prints it, such as `MulBackward0`."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node or None, output index) per input; leaves appear as AccumulateGrad."""
        return tuple(
            (AccumulateGrad(edge) if isinstance(edge, TensorBase) else edge, index)
            for edge, index in zip(self.edges, self.indices, strict=True)
        )

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's notes about this node."""
        return self.more().metadata

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after the node ran; a result replaces grad_inputs."""
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


class AccumulateGrad:
    """Stands for the end of the tape at a leaf, where gradients are added to `.grad`."""

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    next_functions: tuple[Any, ...] = ()

    def name(self) -> str:
        """`AccumulateGrad`."""
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"


def edges_of(inputs: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """Where gradients of these inputs go; None for numbers and tensors that require none."""
    edges: list[Any] = []
    indices: list[int] = []
    for operand in inputs:
        if isinstance(operand, TensorBase) and operand.requires_grad:
            node = operand.grad_fn
            edges.append(operand if node is None else node)
            indices.append(operand.output_index)
        else:
            edges.append(None)
            indices.append(0)
    return edges, indices


class SavedTensor:
    """A tensor needed by a formula, with the version that it had. Immutable."""

    __slots__ = ("array", "storage", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.array = tensor.array
        self.storage = tensor.storage
        self.version = self.storage.version

    def unpack(self, node: Node) -> Any:
        """The tensor, if nobody wrote to it since.

        Raises:
            AutogradError: it was written in place.
        """
        if self.storage.version != self.version:
            raise AutogradError(modified_message(self, node))
        if self.tensor.array is self.array:
            return self.tensor
        if is_grad_enabled() and self.tensor.requires_grad:
            raise AutogradError(
                f"double backward through {node.name()}: the data of a saved tensor was replaced "
                "(`.data = ...`) after the forward run.  Run the forward again."
            )
        return _tensor.wrap(self.array)


class SavedResult:
    """An output of the node itself; refers to the array only, so that no cycle arises."""

    __slots__ = ("array", "index", "storage", "version")

    def __init__(self, tensor: Any, index: int = 0) -> None:
        self.array = tensor.array
        self.storage = tensor.storage
        self.version = self.storage.version
        self.index = index

    def unpack(self, node: Node) -> Any:
        """The output, with this node as its history, if nobody wrote to it since.

        Raises:
            AutogradError: it was written in place.
        """
        if self.storage.version != self.version:
            raise AutogradError(modified_message(self, node))
        if is_grad_enabled():
            return _tensor.wrap_output(self.array, node, self.index)
        return _tensor.wrap(self.array)


def modified_message(saved: "SavedTensor | SavedResult", node: Node) -> str:
    """PyTorch's words for a saved tensor that was overwritten."""
    dtype = dtypes.from_numpy(saved.array.dtype).name
    what = f"{dtype} {list(saved.array.shape)}"
    return MSG_MODIFIED.format(
        what=what, node=node.name(), now=saved.storage.version, expected=saved.version
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """The formulas of a row, ready to be called.

    Args:
        formulas: per input (one for a variadic row): (function, parameters), or None.
        inputs: per formula, positions of the inputs that it needs; None means all (variadic).
        result: per formula, whether it needs the result.
        differentiable: whether any formula exists.
    """

    formulas: tuple[tuple[Callable[..., Any], tuple[Parameter, ...]] | None, ...]
    inputs: tuple[frozenset[int] | None, ...]
    result: tuple[bool, ...]
    differentiable: bool


@functools.cache
def recipe_of(op: Op) -> Recipe:
    """The recipe of a row, made once."""
    formulas: list[Any] = []
    inputs: list[frozenset[int] | None] = []
    result: list[bool] = []
    for name in op.inputs:
        parameters = formula_parameters(op, name)
        if parameters is None:
            formulas.append(None)
            inputs.append(frozenset())
            result.append(False)
            continue
        formulas.append((op.vjp[name], parameters))
        whole = any(p.need is Need.INPUTS for p in parameters)
        needed = frozenset(p.key for p in parameters if p.need is Need.INPUT)
        inputs.append(None if whole else needed)
        result.append(any(p.need is Need.RESULT for p in parameters))
    return Recipe(
        tuple(formulas), tuple(inputs), tuple(result), any(f is not None for f in formulas)
    )


def type_of_meta(meta: Any) -> ValueType | None:
    """The type of an input from what `OpNode.metas` keeps of it."""
    if type(meta) is tuple:
        shape, dtype, device = meta
        return TensorType(shape, dtype, device)
    return None if meta is None else ScalarType(dtypes.of_number(meta).category)


def meta_of(operand: Any) -> Any:
    """Shape, dtype and device of a tensor; a number or None itself."""
    if isinstance(operand, TensorBase):
        return operand.array.shape, operand.dtype, operand.device
    return operand


class OpNode(Node):
    """A row that was run on tensors of which one requires a gradient. Mutable: see Node.

    Args:
        op: the row.
        inputs: its inputs: tensors, numbers or None.
        attributes: its attributes, completed.
    """

    __slots__ = ("attributes", "metas", "op", "out_meta", "result", "saved")

    def __init__(
        self,
        op: Op,
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        edges: list[Any],
        indices: list[int],
    ) -> None:
        self.edges = edges
        self.indices = indices
        self.sequence = next(_sequence)
        self.extras = None
        self.op = op
        self.attributes = attributes
        self.metas = [meta_of(operand) for operand in inputs]
        self.result: SavedResult | None = None
        self.out_meta: Any = None
        self.saved: list[Any] | None = self._save(inputs)

    def _save(self, inputs: tuple[Any, ...]) -> list[Any]:
        """What the formulas of inputs with an edge need; other positions hold None."""
        recipe = recipe_of(self.op)
        needed: set[int] = set()
        if self.op.variadic:
            if recipe.inputs[0] is None:
                needed.update(range(len(inputs)))
        else:
            for edge, positions in zip(self.edges, recipe.inputs, strict=True):
                if edge is not None and positions:
                    needed |= positions
        return [
            (SavedTensor(operand) if isinstance(operand, TensorBase) else operand)
            if position in needed
            else None
            for position, operand in enumerate(inputs)
        ]

    def finish(self, tensor: Any) -> None:
        """Note the result: its type, and itself if a formula needs it."""
        self.out_meta = meta_of(tensor)
        recipe = recipe_of(self.op)
        if self.op.variadic:
            if recipe.result[0]:
                self.result = SavedResult(tensor)
            return
        for edge, needs in zip(self.edges, recipe.result, strict=True):
            if needs and edge is not None:
                self.result = SavedResult(tensor)
                return

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        recipe = recipe_of(self.op)
        g = gradients[0]
        if self.op.variadic:
            results = self._call(recipe.formulas[0], g) if any(wanted) else None
            if results is None:
                return [None] * len(self.edges)
            return [
                self._fit(gradient, position) if wanted[position] else None
                for position, gradient in enumerate(results)
            ]
        return [
            self._fit(self._call(formula, g), position) if wanted[position] else None
            for position, formula in enumerate(recipe.formulas)
        ]

    def _call(self, formula: Any, g: Any) -> Any:
        if formula is None:
            return None
        function, parameters = formula
        return function(**{p.name: self._value(p, g) for p in parameters})

    def _value(self, parameter: Parameter, g: Any) -> Any:
        match parameter.need:
            case Need.GRADIENT:
                return g
            case Need.TABLE:
                return TABLE
            case Need.INPUT:
                return self._unpack(self._saved()[parameter.key])
            case Need.RESULT:
                self._saved()  # released together
                return self._unpack(self.result)
            case Need.ATTRIBUTE:
                return self.attributes[parameter.key]
            case Need.INPUT_TYPE:
                return type_of_meta(self.metas[parameter.key])
            case Need.RESULT_TYPE:
                return type_of_meta(self.out_meta)
            case Need.INPUTS:
                return [self._unpack(saved) for saved in self._saved()]
            case Need.INPUT_TYPES:
                return [type_of_meta(meta) for meta in self.metas]

    def _saved(self) -> list[Any]:
        if self.saved is None:
            raise AutogradError(MSG_SECOND_BACKWARD)
        return self.saved

    def _unpack(self, saved: Any) -> Any:
        if isinstance(saved, (SavedTensor, SavedResult)):
            return saved.unpack(self)
        return saved

    def _fit(self, gradient: Any, position: int) -> Any:
        """The gradient in the input's shape and dtype."""
        if gradient is None:
            return None
        meta = self.metas[position]
        if gradient.array.shape == meta[0] and gradient.dtype is meta[1]:
            return gradient
        return sum_to_type(TABLE, gradient, type_of_meta(meta))  # type: ignore[arg-type]

    def release(self) -> None:
        self.saved = None
        self.result = None

    def name(self) -> str:
        return backward_name(self.op.name)


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


def zeros_of(shape: tuple[int, ...], dtype: DType, device: Device = CPU) -> Any:
    """A tensor of zeros: the gradient of an output that was not used."""
    return TABLE.full(0, shape=tuple(shape), dtype=dtype, device=device)
