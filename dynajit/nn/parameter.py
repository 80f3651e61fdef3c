"""Parameters and buffers: tensors that a Module registers when they are assigned to it.

Contract: as in PyTorch; results of operations on them are plain tensors. Uninitialized ones have a
dtype and a device, but no sizes: until `materialize` gives them some, every operation on them is
refused.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Final, NoReturn

from dynajit.core.errors import ShapeValueError, UnsupportedError
from dynajit.core.process import late
from dynajit.core.process.late import Late
from dynajit.core.types.dtypes import DType
from dynajit.core.types.tensor_layouts import strided
from dynajit.eager.files.names import declare, with_state
from dynajit.eager.operations.subclasses import is_asked
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.table.overriding import disabled_torch_function

sparse = Late("dynajit.eager.sparse.sparse_tensor")


class Parameter(Tensor):
    """A tensor that is a module's parameter when assigned as an attribute.

    Args:
        data: the tensor whose array the parameter shares; empty if None. A sparse one gives a
            `SparseParameter`, a `DTensor` one that is a `DTensor`, too.
        requires_grad: whether gradients are accumulated in `.grad`.

    Raises:
        UnsupportedError: the class of `data` overrides functions.
    """

    __torch_function__: ClassVar[Any] = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> "Parameter":
        source = empty(0) if data is None else data
        if is_asked(source):
            raise UnsupportedError(
                f"Parameter({type(source).__name__}): parameters are of the class Parameter, and "
                "override nothing.  Give x.as_subclass(Tensor), or derive a class from Parameter."
            )
        if source.layout is not strided:
            return _sparse_parameter(source, requires_grad)
        if hasattr(source, "_as_parameter"):
            return source._as_parameter(requires_grad)
        return Tensor._leaf_of(source, cls, bool(requires_grad))

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> Any:
        data = self.detach()
        return _rebuild, (
            type(self),
            data if data.is_meta else data.resolve_conj().resolve_neg().numpy(),
            self.requires_grad,
        )


@functools.cache
def _sparse_class() -> Any:
    class SparseParameter(sparse.SparseTensor, Parameter):  # type: ignore[name-defined, misc]
        """A sparse tensor as a parameter: what `Parameter(x)` gives for one.

        Its gradient is refused by name when it is read: see `eager.sparse.sparse_tensor`.
        """

        def __repr__(self) -> str:
            return "Parameter containing:\n" + str(self.detach().requires_grad_(self.requires_grad))

        def __reduce_ex__(self, protocol: Any) -> Any:
            return Parameter, (self.detach(), self.requires_grad)

    return SparseParameter


def _sparse_parameter(source: Any, requires_grad: bool) -> Any:
    parts = (source._indices(), source._values(), source.shape, source.is_coalesced())
    return sparse.made(_sparse_class(), *parts).requires_grad_(requires_grad)


class Buffer(Tensor):
    """A tensor that is a module's buffer when assigned as an attribute.

    Args:
        data: the tensor whose array the buffer shares; empty if None.
        persistent: whether it is part of the module's state dict.
    """

    persistent: bool
    __torch_function__: ClassVar[Any] = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> "Buffer":
        source = empty(0) if data is None else data
        made = Tensor._from_array(source._held, cls)
        made.persistent = persistent
        if source.requires_grad:
            made.requires_grad = True
        return made


def _refuse(what: str) -> NoReturn:
    raise ValueError(
        f"{what}: an uninitialized parameter or buffer has no elements yet.  Call the module with "
        "an input that fixes the sizes, or call materialize(shape), first."
    )


def _refuse_op(op: Any, inputs: Any, attributes: Any) -> NoReturn:
    _refuse(op.name)


class UninitializedTensorMixin:
    """What parameters and buffers without sizes share. Mutable: `materialize` changes their class.

    Raises:
        ValueError: an operation on one, or a method other than a conversion.
        ShapeValueError: its shape is asked for.
    """

    cls_to_become: ClassVar[type[Tensor]]
    __torch_function__: ClassVar[Any] = disabled_torch_function

    # Above those of graph values: a compiled region refuses, too.
    __dynajit_priority__ = 1000
    __dynajit_handler__ = staticmethod(_refuse_op)

    def materialize(self, shape: Any, device: Any = None, dtype: DType | None = None) -> None:
        """Take sizes, and with them undefined elements; the class becomes the ordinary one.

        Args:
            shape: the sizes.
            device, dtype: the present ones if None.
        """
        here: Any = self
        kind = here.dtype if dtype is None else dtype
        here.data = empty(*shape, dtype=kind, device=here.device if device is None else device)
        here.__class__ = self.cls_to_become

    @property
    def shape(self) -> NoReturn:
        """Refused: by an error of both classes, as functions look at sizes on their own."""
        raise ShapeValueError(
            "Can't access the shape of an uninitialized parameter or buffer.  Call the module "
            "first; load_state_dict takes such a state into an uninitialized module only."
        )

    def share_memory_(self) -> NoReturn:
        """Refused."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer.  Call the module first."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), _made_like(self, self))  # type: ignore[arg-type]

    def __reduce_ex__(self, protocol: Any) -> Any:
        here: Any = self
        return _without_sizes, (type(self), here.requires_grad, here.device, here.dtype)


#: Methods that have the same meaning without sizes, and those that convert.
_ALLOWED: Final = frozenset({"is_complex", "is_floating_point", "get_device", "size"})
_CONVERSIONS: Final = (
    "to", "half", "float", "double", "char", "short", "int", "long", "cpu", "cuda",
)  # fmt: skip
#: Protocols of Python that need elements; arithmetic refuses by its operation.
_PROTOCOLS: Final = (
    "__bool__", "__float__", "__int__", "__index__", "__complex__", "__len__", "__iter__",
    "__getitem__", "__setitem__", "__contains__", "__eq__", "__ne__", "__array__", "__dlpack__",
    "__format__",
)  # fmt: skip


def _refusing(name: str) -> Callable[..., NoReturn]:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Refused: there are no elements before `materialize`."
    return method


def _converting(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        converted = getattr(self.data, name)(*args, **kwargs)
        is_same = (self.dtype, self.device) == (converted.dtype, converted.device)
        return self if is_same else _made_like(self, converted)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = getattr(Tensor, name).__doc__
    return method


def _made_like(source: Any, example: Tensor) -> Any:
    """One of the class of `source`, with the dtype and device of `example`."""
    differentiable = source.requires_grad and example.dtype.is_floating_point
    made = _without_sizes(type(source), differentiable, example.device, example.dtype)
    vars(made).update(vars(source))
    return made


def _without_sizes(cls: Any, requires_grad: bool, device: Any, dtype: DType) -> Any:
    return cls(requires_grad, device=device, dtype=dtype)


def _restrict(cls: Any) -> None:
    """Give `cls` methods that refuse or convert in the place of those of `Tensor`."""
    for name in _CONVERSIONS:
        setattr(cls, name, _converting(name))
    methods = (name for name in dir(Tensor) if callable(getattr(Tensor, name)) and name[0] != "_")
    for name in (*_PROTOCOLS, *methods):
        if name not in _ALLOWED and name not in vars(cls):
            setattr(cls, name, _refusing(name))


_restrict(UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without sizes; `materialize` makes it a `Parameter`.

    Args:
        requires_grad: whether gradients are accumulated in `.grad`.
        device, dtype: of the elements it will have; the defaults if None.
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> "UninitializedParameter":
        made: Any = Parameter.__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)
        return made

    def __init__(
        self, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        pass


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without sizes; `materialize` makes it a plain tensor.

    Args:
        requires_grad: as of any tensor.
        device, dtype: of the elements it will have; the defaults if None.
        persistent: whether it is part of the module's state dict.
    """

    cls_to_become = Tensor
    persistent: bool
    __torch_function__: ClassVar[Any] = disabled_torch_function

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> "UninitializedBuffer":
        made: Any = Tensor._from_array(empty(0, device=device, dtype=dtype).array, cls)
        made.persistent = persistent
        if requires_grad:
            made.requires_grad = True
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no sizes yet."""
    return isinstance(param, UninitializedTensorMixin)


def _rebuild(cls: type[Parameter], array: Any, requires_grad: bool) -> Parameter:
    data = array if isinstance(array, Tensor) else Tensor._from_array(array)  # `meta` has no array
    return cls(data, requires_grad)


def rebuilt_parameter(data: Tensor, requires_grad: bool = True, hooks: Any = None) -> Parameter:
    """A parameter of a checkpoint, from the tensor that it was."""
    return Parameter(data, bool(requires_grad))


def _of_checkpoint_with_state(
    data: Tensor, requires_grad: bool, hooks: Any, state: Any
) -> Parameter:
    made: Parameter = with_state(Parameter(data, bool(requires_grad)), state)
    return made


declare("torch.nn.parameter", "Parameter", Parameter)
declare("torch._utils", "_rebuild_parameter", rebuilt_parameter)
declare("torch._utils", "_rebuild_parameter_with_state", _of_checkpoint_with_state)
declare("torch.nn.parameter", "UninitializedParameter", UninitializedParameter)
declare("torch.nn.parameter", "UninitializedBuffer", UninitializedBuffer)

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]

late.show(__name__)
