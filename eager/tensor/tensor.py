"""`Tensor`: what users hold. The C base has the fields; here are construction and conversion.

Contract: arrays carry shape, strides and elements; views are array views that share `storage`.
Operations come from `ops.methods.methods` and run through `execute.handle`; in-place forms come
from `inplace`, layout questions from `layout`, gradients from `tape`. The class is an ordinary
Python class that users and `nn.Parameter` subclass.
"""

import copy
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.meta_arrays import MetaArray, is_meta
from dynajit.core.arrays.mirrored_arrays import MirroredArray, parts_of
from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    AutogradError,
    DeviceError,
    InvalidValueRuntimeError,
    ShapeError,
    ShapeValueError,
)
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.short_floats import is_own
from dynajit.eager import _tensor
from dynajit.eager._rows import get_item
from dynajit.eager.backward import engine as tape
from dynajit.eager.modes.defaults import get_default_dtype
from dynajit.eager.operations import duals, subclasses
from dynajit.eager.operations.execute import handle, refresh_view
from dynajit.eager.operations.layout import LayoutMethods
from dynajit.eager.operations.reshaping import ReshapingMethods
from dynajit.eager.operations.writes.methods import InPlaceMethods
from dynajit.eager.tape.handles import BEGUN, Handle
from dynajit.eager.tape.node import DETACHED, _sequence, made_by
from dynajit.eager.tensor.convert import array_of, dtype_named, filled, pinned_copy, plain_number
from dynajit.eager.tensor.printing import format_tensor
from dynajit.eager.tensor.typed_names import name_of, type_named
from dynajit.ops.calls.arguments import is_operand
from dynajit.ops.calls.placing import formatted
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.native._library_call import ask_no_class
from dynajit.ops.table.op_table import TABLE

_T = TypeVar("_T", bound="Tensor")


MSG_LEGACY_DEVICE: Final = (
    "Tensor(tensor, device=...): this older form takes no tensor with a device.  Use tensor(...), "
    "or as_tensor(...)."
)


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that also knows the number of elements."""

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        total = 1
        for size in self:
            total *= size
        return total

    def __repr__(self) -> str:
        return f"dynajit.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> "Size":
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> "Size":
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> "Size":
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)


class Tensor(_tensor.TensorBase, InPlaceMethods, ReshapingMethods, LayoutMethods, TensorMethods):
    """A multi-dimensional array with gradients.

    Args:
        data: nothing (an empty tensor), sizes (`Tensor(2, 3)`, elements undefined), a nested
            sequence or array (converted to the default dtype), or a tensor (shares its memory).
        dtype, device, requires_grad: as in `tensor`.

    Use `tensor(data)` to keep the dtype of the data.
    """

    if TYPE_CHECKING:  # set by `ops.methods.kind_methods` from a table

        @property
        def is_sparse(self) -> bool: ...

    __dynajit_priority__ = 0
    __dynajit_handler__ = staticmethod(handle)
    #: False for classes whose tensors have other parts than one array.
    _has_array = True
    # NumPy leaves `array * tensor` to the tensor; what `numpy.sqrt(tensor)` gives is a tensor.
    __array_priority__ = 1000

    def __new__(
        cls,
        *data: Any,
        dtype: DType | None = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> "Tensor":
        if device is not None and data and isinstance(data[0], _tensor.TensorBase):
            raise ArgumentRuntimeError(MSG_LEGACY_DEVICE)
        made: Tensor = _tensor.new_of(cls, _constructed(data, dtype, device), None)
        if requires_grad:
            made.requires_grad = True
        return subclasses.met(made)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        subclasses.note_class(cls)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """What takes the place of `func(*args, **kwargs)` where an argument is of this class: the
        call itself, whose tensors become tensors of the class.  See `ops.table.overriding`.

        Returns:
            NotImplemented where another class among `types` is not a base of this one.
        """
        return subclasses.wrapped_call(cls, func, types, args, kwargs)

    if TYPE_CHECKING:

        @overload
        @staticmethod
        def _from_array(array: Any, cls: None = None) -> "Tensor": ...

        @overload
        @staticmethod
        def _from_array(array: Any, cls: type[_T]) -> _T: ...

    @staticmethod
    def _from_array(array: Any, cls: "type[Tensor] | None" = None) -> "Tensor":
        """A tensor (of class `cls`) around an array, without copying."""
        if cls is None:
            return _tensor.wrap(array)
        return subclasses.met(_tensor.new_of(cls, array, None))

    @staticmethod
    def _leaf_of(source: "Tensor", cls: "type[_T]", requires_grad: bool) -> "_T":
        """A leaf of a derived class that shares the memory of a tensor."""
        made = Tensor._from_array(source._held, cls)
        if requires_grad:
            made.requires_grad = True
        return made

    @staticmethod
    def _make_subclass(cls: "type[Tensor]", data: "Tensor", requires_grad: bool = False) -> Any:
        """A tensor of a subclass that shares the memory and the version counter of `data`."""
        made = _tensor.new_of(cls, data._held, data._storage)
        if requires_grad:
            made.requires_grad = True
        return subclasses.met(made)

    def as_subclass(self, cls: "type[Tensor]") -> Any:
        """The same elements as a tensor of class `cls`, with the same history."""
        made = _tensor.new_of(cls, self._held, self._storage)
        ask_no_class(1)
        try:
            if self.requires_grad:
                source = TABLE.reshape(self, shape=tuple(self.shape))
                _tensor.rebase(made, source.grad_fn, 0)
        finally:
            ask_no_class(-1)
        return subclasses.met(duals.share(self, made))

    # -- data and gradients ------------------------------------------------------------------

    @property
    def data(self) -> "Tensor":
        """The same elements without history; writes to it are not counted or recorded."""
        return _tensor.wrap(self._held)

    @data.setter
    def data(self, value: "Tensor") -> None:
        if not isinstance(value, _tensor.TensorBase):
            raise ArgumentError(f"data: expected a Tensor, got {type(value).__name__}")
        if self.requires_grad and not (value.dtype.is_floating_point or value.dtype.is_complex):
            raise AutogradError(
                f"data: {value.dtype.name} cannot require a gradient.  Expected a floating dtype."
            )
        if value.layout is not self.layout:
            raise AutogradError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                f"incompatible tensor type: {self.layout!r} and {value.layout!r}."
            )
        # The version counter stays: views of the old memory, and what backward saved, share it.
        self._held = value._held
        _tensor.forget_base(self)

    @property
    def _has_tangent(self) -> bool:
        """Whether the tensor moves, in forward mode."""
        return duals.is_dual((self,))

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Set `requires_grad`; returns the tensor."""
        self.requires_grad = bool(requires_grad)
        return self

    def _mirrors(self) -> tuple[bool, bool]:
        """Whether the elements are conjugates of what is in memory; whether negatives."""
        _, conjugate, negative = parts_of(self._held)
        return conjugate, negative

    def detach_(self) -> "Tensor":
        """Cut the tensor off from its history; it becomes a leaf.

        Raises:
            AutogradError: it is a view (its base keeps the history).
        """
        if self._base is not None:
            raise AutogradError("detach_: Can't detach views in-place. Use detach() instead.")
        if self.grad_fn is not None:
            self.__dict__[DETACHED] = next(_sequence)
        _tensor.rebase(self, None, 0)
        duals.drop(self)
        return self

    def backward(
        self,
        gradient: "Tensor | None" = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to `.grad` of every leaf; see `tape.backward`."""
        tape.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook: Any) -> Handle:
        """Call `hook(gradient)` when the gradient of this tensor is known; a result replaces it.

        Raises:
            AutogradError: the tensor does not require a gradient.
        """
        if not self.requires_grad:
            raise AutogradError(
                "register_hook: cannot register a hook on a tensor that doesn't require gradient"
            )
        node, index = made_by(self)
        if node is not None:
            return Handle(node.more().tensor_hooks.setdefault(index, {}), hook)
        if self.hooks is None:
            self.hooks = {}
        return Handle(self.hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Any) -> Handle:
        """Call `hook(tensor)` after backward has added to `.grad` of this leaf."""
        if not (self.requires_grad and self.is_leaf):
            raise AutogradError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors, or on "
                "tensors that do not require grad"
            )
        BEGUN.accumulation = True
        return Handle(self.__dict__.setdefault("_post_accumulate_hooks", {}), hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad`, too."""
        tape.retain_grad(self)

    # -- conversion --------------------------------------------------------------------------

    def item(self) -> Any:
        """The Python number in a tensor with one element.

        Raises:
            ShapeError: there are more elements, or none.
        """
        if self.array.size != 1:
            raise ShapeError(
                f"item: a Tensor with {self.array.size} elements cannot be converted to Scalar.  "
                "Expected one element; use tolist() or select one."
            )
        return plain_number(self.array)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        array = any_arrays.as_numpy(self.array)
        return (array.astype(np.float32) if is_own(array.dtype) else array).tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """An array on the same memory (writes are seen on both sides); `force` detaches first, and
        copies what is on a GPU.

        Its shape and strides are its own: changing them leaves the tensor as it is.

        Raises:
            ArgumentError: the tensor is on a GPU.
            AutogradError: the tensor requires a gradient, and gradients are recorded; or it has a
                tangent in `dj.func.jvp` or its kin, which NumPy would lose.
        """
        if not isinstance(self.array, np.ndarray):
            if not force:
                raise ArgumentError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                    "copy the tensor to host memory first."
                )
            return any_arrays.as_numpy(self.array)
        if self.requires_grad and not force and _tensor.is_grad_enabled():
            raise AutogradError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if not force and duals.is_transformed(self):
            raise AutogradError(
                "Can't call numpy() on Tensor that has a tangent in forward mode (func.jvp, "
                "jacfwd, hessian): what NumPy computes has none. Use tensor.detach().numpy() for "
                "what does not move."
            )
        if self._is_mirrored:
            if force:
                return any_arrays.copied(self.array)
            bit, name = ("conjugate", "conj") if self.is_conj() else ("negative", "neg")
            raise ArgumentRuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use "
                f"tensor.resolve_{name}().numpy() instead."
            )
        return self.array.view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        if copy:
            return np.array(array, dtype=dtype)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: bool = False
    ) -> "Tensor":
        """The result of a function of NumPy of this tensor; truths are uint8, as in PyTorch."""
        array = np.asarray(array)
        return _leaf(array.astype(np.uint8) if array.dtype == np.bool_ else array, False)

    def __dlpack__(self, **arguments: Any) -> Any:
        if self.requires_grad or duals.is_transformed(self):
            raise AutogradError("Can't export tensors that require gradient, use tensor.detach()")
        if self._is_mirrored:
            raise BufferError(
                "Can't export tensors with the conjugate or the negative bit set.  Use "
                "resolve_conj() and resolve_neg()."
            )
        with any_arrays.on_device_of(self.array):
            return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self._memory.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        """What other libraries read of a tensor on a GPU.

        Raises:
            AttributeError: the tensor is on the CPU.
            AutogradError: it requires a gradient.
        """
        if isinstance(self.array, np.ndarray):
            raise AttributeError(
                "Can't get __cuda_array_interface__ on non-CUDA tensor type.  Use tensor.cuda()."
            )
        if self.requires_grad:
            raise AutogradError(
                "Can't get __cuda_array_interface__ on Variable that requires grad.  Use "
                "var.detach().__cuda_array_interface__."
            )
        if self._is_mirrored:
            raise AutogradError(
                "Can't get __cuda_array_interface__ on a conjugate view.  Clone it."
            )
        return self.array.__cuda_array_interface__

    def to(self, *args: Any, **kwargs: Any) -> "Tensor":
        """This tensor with another dtype or device: `to(dtype)`, `to(device)`, `to(other)`.

        Returns itself where nothing changes and `copy` is not set.

        Raises:
            DeviceError: the device does not exist here.
        """
        dtype, device, copied, non_blocking = _parse_to(args, kwargs)
        changed: Tensor = (
            self if dtype is None or dtype is self.dtype else TABLE.cast(self, dtype=dtype)
        )
        place = self.device if device is None else gpu.resolve(devices.parse(device), "to")
        if place is not self.device:
            changed = TABLE.to_device(changed, device=place, non_blocking=non_blocking)
        if "memory_format" in kwargs:
            changed = formatted(self, changed, kwargs["memory_format"], copied)
        elif copied and changed is self:
            changed = TABLE.clone(self)
        return changed

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the tensor's class by element type and kind of device, such as
        "torch.FloatTensor" and "torch.cuda.FloatTensor"; or the tensor with another dtype, given as
        such, as that name, or as a class such as `LongTensor`, both of which mean a device, too;
        `Tensor` means the default dtype, on the CPU.

        Raises:
            InvalidValueError: no dtype has that name.
        """
        if dtype is None:
            name = name_of(self.dtype, self.is_cuda)
            return name.replace("torch.", "torch.meta.") if self.is_meta else name
        kind, is_cuda = (get_default_dtype(), False) if dtype is Tensor else type_named(dtype)
        if is_cuda in (None, self.is_cuda):
            return self.to(kind)
        return self.to("cuda" if is_cuda else "cpu", kind, non_blocking)

    def cpu(self, memory_format: Any = None) -> "Tensor":
        """This tensor on the CPU: itself, or a copy of what is on a GPU."""
        return self if self.device is CPU else self.to(CPU)

    def cuda(
        self, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> "Tensor":
        """This tensor on a GPU, the current one by default: itself, or a copy.

        Raises:
            DeviceError: there is none.
        """
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def record_stream(self, s: Any) -> None:
        """Let the memory live, when this tensor ends, until the stream `s`, another one than the
        tensor was made on, has done what it was given until then.

        Raises:
            DeviceError: the tensor is on the CPU.
        """
        if self.device is CPU:
            raise DeviceError("record_stream: the tensor is on the CPU.  Expected one on a GPU.")
        end = weakref.finalize(self, gpu.keep_until_done, self._memory, s.of_cupy)
        end.atexit = False

    def pin_memory(self, device: Any = None) -> "Tensor":
        """This tensor in host memory that a GPU copies from by itself; itself where it lies in such
        memory, or where there is no GPU to copy to.

        Raises:
            DeviceError: the tensor is on a GPU.
        """
        if self.device is not CPU:
            raise DeviceError(
                f"cannot pin '{self.device}': only dense CPU tensors can be pinned.  Call .cpu() "
                "first."
            )
        if not gpu.is_available() or gpu.is_pinned(self._memory):
            return self
        return _leaf(pinned_copy(self.array), False)

    # -- Python protocols --------------------------------------------------------------------

    def __bool__(self) -> bool:
        if self.array.size != 1:
            count = "no values" if self.array.size == 0 else "more than one value"
            raise ShapeError(
                f"Boolean value of Tensor with {count} is ambiguous.  Use .any() or .all()."
            )
        return bool(self.array)

    def _only(self) -> Any:
        """The only element, as a Python number."""
        if self.array.size != 1:
            raise ShapeValueError(
                f"a Tensor with {self.array.size} elements cannot be converted to a number.  "
                "Expected one element; use tolist() or select one."
            )
        return self.item()

    def _real(self) -> Any:
        """The only element, without an imaginary part of 0.

        Raises:
            InvalidValueRuntimeError: the imaginary part is another.
        """
        found = self._only()
        if not isinstance(found, complex):
            return found
        if found.imag:
            raise InvalidValueRuntimeError(
                f"value {found} cannot be converted to a real number without overflow.  Take .real."
            )
        return found.real

    def __int__(self) -> int:
        return int(self._real())

    def __float__(self) -> float:
        return float(self._real())

    def __complex__(self) -> complex:
        return complex(self._only())

    def __index__(self) -> int:
        if self.array.size != 1 or self.array.dtype.kind not in "biu":
            raise ArgumentError(
                "only integer tensors of a single element can be converted to an index"
            )
        return int(self.array.item())

    def __getitem__(self, key: Any) -> Any:
        found = get_item(self, key)
        return subscript.get_item(self, key) if found is NotImplemented else found

    def __delitem__(self, key: Any) -> None:
        raise ArgumentError("del tensor[...]: tensors keep their elements.  Select the others.")

    def __contains__(self, element: Any) -> bool:
        if not is_operand(element) or isinstance(element, np.ndarray):
            raise ArgumentRuntimeError(
                f"element in tensor: got {type(element).__name__}.  Expected a tensor or a number."
            )
        return bool((self == element).array.any())

    def __format__(self, spec: str) -> str:
        is_number = type(self) is Tensor and not self.is_meta
        if self.ndim == 0 and (spec or is_number):
            return format(self.item(), spec)
        if spec:
            raise ArgumentError(
                f"format(tensor, {spec!r}): only a tensor without dims takes a format.  Format its "
                "elements, or str(tensor)."
            )
        return str(self)

    def __repr__(self) -> str:
        return format_tensor(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tensor":
        if not self.is_leaf:
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment.  Use .detach().clone()."
            )
        if id(self) in memo:
            known: Tensor = memo[id(self)]
            return known
        copied = _tensor.new_of(type(self), any_arrays.copied(self.array), None)
        memo[id(self)] = copied
        if self.requires_grad:
            copied.requires_grad = True
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def __copy__(self) -> "Tensor":
        """A leaf that shares the memory, and requires a gradient if this one does."""
        copied = _tensor.new_of(type(self), self._held, self._storage)
        if self.requires_grad:
            copied.requires_grad = True
        copied.__dict__.update(self._kept_attributes())
        return copied

    def _kept_attributes(self) -> dict[str, Any]:
        own = ("_post_accumulate_hooks", DETACHED)
        return {k: v for k, v in self.__dict__.items() if k not in own}

    def __reduce_ex__(self, protocol: Any) -> Any:
        dtype = dtypes.from_numpy(self.array.dtype).name
        if is_meta(self.array):
            meta = (type(self), self.array.shape, dtype, self.array.strides, self.requires_grad)
            return _rebuilt_meta, meta, self.__dict__ or None
        array = np.ascontiguousarray(any_arrays.as_numpy(self.array))
        state: tuple[Any, ...]
        state = (type(self), array.tobytes(), dtype, self.array.shape, self.requires_grad)
        if self.device is not CPU:
            state = (*state, self.device)
        return _rebuilt, state, self._kept_attributes() or None

    # -- new tensors like this one -----------------------------------------------------------

    def new(self, *data: Any, device: Any = None) -> "Tensor":
        """`Tensor(*data)` with this tensor's dtype: of sizes, or of data."""
        place = self.device if device is None else device
        return Tensor(*data, dtype=self.dtype, device=place)

    def new_tensor(self, data: Any, *, dtype: DType | None = None, requires_grad: bool = False,
                   device: Any = None) -> "Tensor":  # fmt: skip
        """A new tensor of `data`, with this tensor's dtype by default."""
        array = array_of(data, dtype or self.dtype, self.device if device is None else device)
        return _leaf(array, requires_grad)


def _leaf(array: Any, requires_grad: bool) -> Tensor:
    made: Tensor = _tensor.wrap(array)
    if requires_grad:
        made.requires_grad = True
    return made


def _constructed(data: tuple[Any, ...], dtype: DType | None, device: Any) -> Any:
    """The array of `Tensor(*data)`."""
    wanted, device = dtype or dtypes.default_floating(), device or CPU
    if not data or isinstance(data[0], (int, Size)):
        return filled(data or (0,), None, wanted, device)
    if len(data) != 1:
        raise ArgumentError(
            f"Tensor(): expected sizes, or one sequence, array or tensor; got {len(data)} "
            "arguments.  Use tensor(data) for data."
        )
    if isinstance(data[0], Tensor) and dtype is None:
        return data[0]._held
    return array_of(data[0], wanted, device)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, bool]:
    """(dtype or None, device or None, copy, non_blocking) of `to`."""
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    flags = [argument for argument in args if isinstance(argument, bool)]  # non_blocking, copy
    for argument in args:
        if isinstance(argument, (DType, type)):
            dtype = argument
        elif isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, (str, Device)) or (
            isinstance(argument, int) and not isinstance(argument, bool)
        ):
            device = argument
        elif argument is not None and not isinstance(argument, bool):
            raise ArgumentError(f"to({argument!r}): expected a dtype, a device or a tensor.")
    if dtype is not None:
        dtype = dtype_named(dtype, "to")
    unknown = set(kwargs) - {"dtype", "device", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise ArgumentError(f"to: unknown arguments {sorted(unknown)}.")
    non_blocking = bool(kwargs.get("non_blocking", flags[0] if flags else False))
    return dtype, device, bool(kwargs.get("copy", flags[1:] == [True])), non_blocking


def _rebuilt_meta(
    cls: type[Tensor], shape: tuple[int, ...], dtype: str, strides: Any, requires_grad: bool
) -> Tensor:
    made: Tensor = _tensor.new_of(cls, MetaArray(shape, dtypes.by_name(dtype).numpy, strides), None)
    if requires_grad:
        made.requires_grad = True
    return subclasses.met(made)


def _rebuilt(
    cls: type[Tensor], data: bytes, dtype: str, shape: tuple[int, ...], requires_grad: bool,
    device: Device = CPU,
) -> Tensor:  # fmt: skip
    array = np.frombuffer(bytearray(data), dtypes.by_name(dtype).numpy).reshape(shape)
    made: Tensor = _tensor.new_of(
        cls, any_arrays.placed(array, gpu.resolve(device, "pickle")), None
    )
    if requires_grad:
        made.requires_grad = True
    return subclasses.met(made)


_tensor.register(Tensor, Size, {d.numpy: d for d in dtypes.KNOWN}, CPU, any_arrays.device_of,
                 refresh_view, MirroredArray)  # fmt: skip
subclasses.install_methods(Tensor)
