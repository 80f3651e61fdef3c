"""`Function`: operations with a derivative that the user writes.

Contract: `forward` runs unrecorded; the outputs get one node whose gradient is `backward`. With
`create_graph=True` `backward` itself is recorded, so a Function can be differentiated twice where
its backward uses differentiable operations.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from dynajit.core.errors import ArgumentError, AutogradError, ShapeError
from dynajit.core.process.warning import warn
from dynajit.core.types.dtypes import Category
from dynajit.core.types.tensor_layouts import strided
from dynajit.eager import _tensor
from dynajit.eager._tensor import (
    TensorBase,
    _set_grad_enabled,
    has_levels,
    is_grad_enabled,
    meta_of,
)
from dynajit.eager.backward.function_tangents import follow_function
from dynajit.eager.operations.writes.commit import note_written_view
from dynajit.eager.operations.writes.refusals import MSG_LEAF
from dynajit.eager.tape import anomaly
from dynajit.eager.tape.node import (
    MSG_SECOND_BACKWARD,
    Node,
    SavedPacked,
    SavedResult,
    edges_of,
    kept_for_backward,
    refuse_gradient,
    require_arrays,
    saved_output,
    type_of_meta,
    zeros_of,
)
from dynajit.ops.table.families import sum_to_type
from dynajit.ops.table.op_table import TABLE

MSG_NO_BACKWARD: Final = (
    "You must implement either the backward or vjp method for your custom autograd.Function to use "
    "it with backward mode AD."
)
MSG_NO_INPUT: Final = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
    "mutated should be passed to ctx.mark_dirty()."
)
MSG_SHARED_STORAGE: Final = (
    "ctx.mark_shared_storage() does nothing: tensors that share memory are found without it.  "
    "Leave the call out."
)
MSG_TWO_BACKWARDS: Final = (
    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
    "implement one of them."
)


class FunctionContext:
    """What `forward` leaves for `backward`. Mutable; takes any attribute the user sets."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True
        self.dirty: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self._to_save: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] = ()
        self._is_forward = False
        #: Of each output whether it was marked dirty, and whether without a gradient.
        self._marks: tuple[tuple[bool, bool], ...] = ()
        self._node: FunctionNode | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`; writes to them are noticed.

        Raises:
            ArgumentError: something else than a tensor or None.
        """
        self._check(tensors, "save_for_backward")
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `jvp`.

        Raises:
            ArgumentError: something else than a tensor or None.
        """
        self._check(tensors, "save_for_forward")
        self._for_forward = tensors

    def _check(self, tensors: tuple[Any, ...], name: str) -> None:
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, TensorBase):
                raise ArgumentError(
                    f"{name} can only save variables, but got {type(tensor).__name__}."
                    "  Keep other objects as attributes of ctx."
                )

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept; in `jvp` what `save_for_forward` did.

        Raises:
            AutogradError: it was released, or a tensor was written in place since.
        """
        if self._is_forward:
            return self._for_forward
        return self._to_save if self._node is None else self._node.unpack()

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The older name of `saved_tensors`. Warns."""
        warn("ctx.saved_variables is an older name.  Use ctx.saved_tensors.", DeprecationWarning)
        return self.saved_tensors

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Does nothing, and warns: what shares memory is noticed without it."""
        warn(MSG_SHARED_STORAGE, FutureWarning)

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which inputs `forward` wrote in place; they must be outputs, too."""
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """If False, `backward` receives None for outputs that were not used, instead of zeros."""
        self.materialize_grads = value


class FunctionNode(Node):
    """One call of a Function on the tape. Mutable: see Node.

    It has what the program put into the context, too: `y.grad_fn.saved_tensors`. Each Function has
    a class of nodes of its own, as in PyTorch, made with the first node.
    """

    __slots__ = ("context", "function", "in_metas", "out_metas", "output_count", "saved")

    runs_user_code = True

    def __init__(self, function: type["Function"], context: FunctionContext,
                 inputs: tuple[Any, ...]) -> None:  # fmt: skip
        edges, indices = edges_of(inputs)
        super().__init__(edges, indices)
        self.function = function
        self.context = context
        self.in_metas = [meta_of(x) if isinstance(x, TensorBase) else None for x in inputs]
        self.out_metas: list[Any] = []
        self.output_count = 0
        self.saved: list[Any] | None = None
        if anomaly.is_detecting() is not None:
            anomaly.remember(self)

    def __getattr__(self, name: str) -> Any:
        known = name in vars(self.context) or name in ("saved_tensors", "saved_variables")
        if name.startswith("__") or not known:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.context, name)

    def kind_of(self, index: int) -> Any:
        return self.out_metas[index]

    def pack(self, outputs: Sequence[Any]) -> None:
        """Take over what the context saved, now that the outputs are final."""
        positions = {id(output): i for i, output in enumerate(outputs)}
        dirty = {id(tensor) for tensor in self.context.dirty}  # of a view its base has this node
        self.saved = [
            None
            if tensor is None
            else saved_output(tensor, positions[id(tensor)])
            if id(tensor) in positions and (tensor.grad_fn is self or id(tensor) in dirty)
            else kept_for_backward(tensor)
            for tensor in self.context._to_save
        ]
        self.context._to_save = ()
        self.context._node = self
        self.context.dirty = self.context.non_differentiable = ()

    def unpack(self) -> tuple[Any, ...]:
        """The saved tensors."""
        if self.saved is None:
            raise AutogradError(MSG_SECOND_BACKWARD)
        return tuple(saved and saved.unpack(self) for saved in self.saved)

    def kept_results(self, index: int) -> Sequence[SavedResult | SavedPacked]:
        return [
            x
            for x in self.saved or ()
            if (isinstance(x, SavedResult) and x.index == index)
            or (isinstance(x, SavedPacked) and x.output == index)
        ]

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        if self.context.materialize_grads:
            gradients = [
                zeros_of(*meta) if gradient is None and meta is not None else gradient
                for gradient, meta in zip(gradients, self.out_metas, strict=True)
            ]
        results = self.function.backward(self.context, *gradients)
        given = results if isinstance(results, (tuple, list)) else (results,)
        return self.fit(self.checked(list(given)))

    def checked(self, results: list[Any]) -> list[Any]:
        """As many results as inputs, None for what is no tensor."""
        expected = len(self.edges)
        while len(results) > expected and results[-1] is None:
            results.pop()
        if len(results) != expected:
            raise AutogradError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(results)})"
            )
        return results

    def fit(self, results: list[Any]) -> list[Any]:
        """Results in the shape and dtype of the inputs."""
        fitted: list[Any] = []
        for position, (result, meta) in enumerate(zip(results, self.in_metas, strict=True)):
            if result is None:
                fitted.append(None)
            elif meta is None or not isinstance(result, TensorBase):
                raise AutogradError(
                    f"function {self.name()} returned a gradient different than None at position "
                    f"{position + 1}, but the corresponding forward input was not a Variable"
                    if meta is None
                    else f"function {self.name()} returned {type(result).__name__} at position "
                    f"{position + 1}.  Expected a Tensor or None."
                )
            else:
                fitted.append(self.fit_one(result, meta, position))
        return fitted

    def fit_one(self, result: Any, meta: Any, position: int) -> Any:
        """One result, broadcasting undone and cast."""
        shape = result.array.shape if result.layout is strided else result.shape
        if shape == meta[0] and result.dtype is meta[1]:
            return result
        try:
            return sum_to_type(TABLE, result, type_of_meta(meta))  # type: ignore[arg-type]
        except ShapeError as error:
            raise AutogradError(
                f"Function {self.name()} returned an invalid gradient at index {position} - got "
                f"{list(result.shape)} but expected shape compatible with {list(meta[0])}"
            ) from error

    def release(self) -> None:
        self.saved = None

    def name(self) -> str:
        return f"{self.function.__name__}Backward"


class Function:
    """Base class of user-written operations.

    Subclass it with static methods `forward(ctx, *args)` and `backward(ctx, *grad_outputs)`, or
    `forward(*args)` with `setup_context(ctx, inputs, output)`, and call `YourFunction.apply(...)`.
    """

    #: Whether `backward` stands for the `vjp` that the class defines.
    _has_backward_of_vjp: ClassVar[bool] = False
    #: The class of nodes.
    _node_class: ClassVar[type[FunctionNode] | None] = None
    #: See `with_defaults`; captured code reads it, which reads no attributes of functions.
    _defaults_of_forward: ClassVar[tuple[int, tuple[Any, ...]] | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        function = inspect.unwrap(cls.forward)
        defaults = getattr(function, "__defaults__", None)
        own = inspect.ismethod(function)  # of a class method the first argument is the class
        found = (function.__code__.co_argcount - own, defaults) if defaults else None
        cls._defaults_of_forward = found
        if "vjp" in vars(cls):
            has_both = "backward" in vars(cls) or _has_written_backward(cls)
            cls._has_backward_of_vjp = True
            other = _refuse_both if has_both else cls.vjp
            cls.backward = staticmethod(other)  # type: ignore[method-assign]
        elif "backward" in vars(cls) and cls.vjp is not Function.vjp:
            cls.backward = staticmethod(_refuse_both)  # type: ignore[method-assign]

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Compute the outputs: a tensor or a tuple."""
        raise NotImplementedError("You must implement the forward function for custom Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what `backward` needs; used if the subclass overrides it."""
        raise NotImplementedError("setup_context is not implemented")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs, one per argument of `forward`; None where there is none."""
        raise NotImplementedError(MSG_NO_BACKWARD)

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """`backward` by its other name, for classes that define it instead."""
        raise NotImplementedError(MSG_NO_BACKWARD)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the inputs, one per argument of `forward`; None
        for an argument that is no tensor, and for an output that has none."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and put one node on the tape; where a tensor is dual, `jvp` then.

        Raises:
            AutogradError: an output that was marked dirty is no input, or is a leaf that requires
                grad; tangents that `jvp` gives do not fit.
            UnsupportedError: a gradient is to flow into or out of a sparse tensor.
        """
        if cls.setup_context is not Function.setup_context:
            args = with_defaults(cls._defaults_of_forward, args)
        if has_levels():
            return follow_function(cls, args, cls._applied)[1]
        return cls._applied(args)[1]

    @classmethod
    def _applied(cls, args: tuple[Any, ...]) -> tuple[FunctionContext, Any]:
        """The context of the call, and the outputs."""
        needs = tuple(isinstance(x, TensorBase) and x.requires_grad for x in args)
        context = FunctionContext(needs)
        if is_grad_enabled():
            require_arrays(args)
        recorded = is_grad_enabled() and any(needs)
        if recorded:
            watched = [x for x, needed in zip(args, needs, strict=True) if needed]
            refuse_gradient(watched, cls.__name__)
        before = _set_grad_enabled(False)
        try:
            if cls.setup_context is Function.setup_context:
                output = cls.forward(context, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(context, args, output)
        finally:
            _set_grad_enabled(before)
        context._marks = _marks(context, output)
        if not recorded:
            return context, _unrecorded(context, args, output)
        return context, _recorded(cls, context, args, output)


def _has_written_backward(cls: type[Function]) -> bool:
    """Whether a base of a class defines `backward`, not `vjp`."""
    for base in cls.__mro__[1:]:
        if "backward" in vars(base):
            return base is not Function and not vars(base).get("_has_backward_of_vjp")
    return False


def _refuse_both(ctx: Any, *grad_outputs: Any) -> Any:
    raise AutogradError(MSG_TWO_BACKWARDS)


def _node_class_of(cls: type[Function]) -> type[FunctionNode]:
    found: type[FunctionNode] | None = vars(cls).get("_node_class")
    if found is None:
        name = f"{cls.__name__}Backward"
        found = cls._node_class = type(name, (FunctionNode,), {"__slots__": ()})
    return found


def with_defaults(known: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of `forward`, with defaults behind those that are given: what `setup_context`
    sees, and `backward` answers for.

    Args:
        known: how many arguments forward has, and the defaults of the last ones; or None.
    """
    if known is None:
        return args
    missing = known[0] - len(args)
    return (*args, *known[1][-missing:]) if 0 < missing <= len(known[1]) else args


def _marks(context: FunctionContext, output: Any) -> tuple[tuple[bool, bool], ...]:
    """See `FunctionContext`."""
    outputs = output if isinstance(output, tuple) else (output,)
    dirty, without = context.dirty, context.non_differentiable
    return tuple((any(x is y for y in dirty), any(x is y for y in without)) for x in outputs)


def _unrecorded(context: FunctionContext, args: tuple[Any, ...], output: Any) -> Any:
    """The outputs without history, also where `forward` hands on a tensor that requires grad."""
    outputs = output if isinstance(output, tuple) else (output,)
    found = tuple(
        x if is_dirty and not x.requires_grad else _without_history(x, args)
        for x, (is_dirty, _) in zip(outputs, context._marks, strict=True)
    )
    return found if isinstance(output, tuple) else found[0]


def _without_history(tensor: Any, args: tuple[Any, ...]) -> Any:
    """As in PyTorch: an alias of an input; any other tensor is itself cut off from its history.

    Views keep theirs, since it is that of their base.
    """
    if not isinstance(tensor, TensorBase):
        return tensor
    if any(tensor is x for x in args):
        return TABLE.detach(tensor)
    return tensor.detach_() if tensor.requires_grad and tensor._base is None else tensor


def _recorded(
    cls: type[Function], context: FunctionContext, args: tuple[Any, ...], output: Any
) -> Any:
    """The outputs with their history."""
    outputs = output if isinstance(output, tuple) else (output,)
    refuse_gradient(outputs, cls.__name__)
    node = _node_class_of(cls)(cls, context, args)
    node.output_count = len(outputs)
    dirty = {id(tensor) for tensor in context.dirty}
    without = {id(tensor) for tensor in context.non_differentiable}
    _check_dirty(cls, context.dirty, args, outputs)
    finished = []
    for index, tensor in enumerate(outputs):
        differentiable = (
            isinstance(tensor, TensorBase)
            and tensor.dtype.category >= Category.FLOATING
            and id(tensor) not in without
        )
        node.out_metas.append(meta_of(tensor) if isinstance(tensor, TensorBase) else None)
        if differentiable:
            if id(tensor) not in dirty and any(tensor is x for x in args):
                tensor = _tensor.wrap_view(tensor._held, tensor, None)
            if id(tensor) in dirty and tensor._base is not None:
                note_written_view(tensor, node, index, f"{cls.__name__}.mark_dirty")
            else:
                _tensor.rebase(tensor, node, index)
        elif isinstance(tensor, TensorBase) and id(tensor) not in dirty and tensor.requires_grad:
            tensor = _without_history(tensor, args)
        finished.append(tensor)
    node.pack(finished)
    return tuple(finished) if isinstance(output, tuple) else finished[0]


def _check_dirty(
    cls: type[Function],
    dirty: tuple[Any, ...],
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
) -> None:
    for tensor in dirty:
        name = f"{cls.__name__}.mark_dirty"
        if not any(tensor is x for x in outputs):
            raise AutogradError(
                f"{name}: Some elements marked as dirty during the forward method were not "
                "returned as output.  The inputs that are modified inplace must all be outputs."
            )
        if not any(tensor is x for x in args):
            warn(MSG_NO_INPUT, UserWarning)
        if tensor.requires_grad and tensor.is_leaf:
            raise AutogradError(MSG_LEAF.format(name=name))
        if tensor._base is not None and len(outputs) > 1:
            raise AutogradError(
                f"{name}: your Function modifies inplace an input that is a view of another "
                "Tensor, and has several outputs.  Return that input alone, or pass a clone()."
            )


class _ErrorNode(Node):
    """Refuses a second differentiation."""

    __slots__ = ("message",)
    message: str

    def apply(self, gradients: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        raise AutogradError(self.message)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` that computes outside autograd: a second derivative is an error."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *gradients: Any) -> Any:
        before = _set_grad_enabled(False)
        try:
            results = function(ctx, *gradients)
        finally:
            _set_grad_enabled(before)
        tracked = [g for g in gradients if isinstance(g, TensorBase) and g.requires_grad]
        if not before or not tracked:
            return results
        edges, indices = edges_of(tracked)
        node = _ErrorNode(edges, indices)
        node.message = (
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
        given = results if isinstance(results, tuple) else (results,)
        marked = tuple(
            _tensor.wrap_output(r._held, node, 0) if isinstance(r, TensorBase) else r for r in given
        )
        return marked if isinstance(results, tuple) else marked[0]

    return wrapper
