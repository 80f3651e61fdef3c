"""Tensors: facts from their types, library calls recorded as nodes, in-place updates.

Functions of the machine (`capture.machine.machine`). Library
functions,
tensor methods and op rows are simply called with graph values: no operation is known by name
here, except those that have no graph form.
"""

import functools
import operator
import random
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from dynajit.capture import breaks, control
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, is_none, type_of
from dynajit.capture.python.containers import fold
from dynajit.capture.python.contents import list_items, new_list
from dynajit.capture.python.conversion import SPECIALISED, from_python, to_native
from dynajit.capture.python.tensors.arrays import array_of, is_array, strides_of_tensor, tensor_in
from dynajit.capture.python.tensors.autograd import (
    data_of,
    grad_fn_of,
    grad_of,
    is_leaf,
    requires_grad_method,
    stored_attribute,
)
from dynajit.capture.python.tensors.counts import asked_in_turns, counted_in, is_count
from dynajit.capture.python.tensors.facts import needs_gradient, numbers_in, tensor_type
from dynajit.capture.python.tensors.mutation import in_place_method, tensor_store
from dynajit.capture.python.tensors.native_calls import native_call, native_method
from dynajit.capture.python.tensors.overriding import as_subclass
from dynajit.capture.python.tensors.strided import as_strided
from dynajit.capture.python.tensors.unread_lists import joined
from dynajit.capture.tensors import layouts
from dynajit.capture.tensors.known_contents import known_tensor
from dynajit.capture.values.class_layouts import is_modelled_tensor
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.functions import BoundMethod, NativeMethod
from dynajit.capture.values.symbolic import NONE, Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, lookup
from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import DynajitError, InvalidValueError
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.memory_format import RANKS, MemoryFormat, outer_to_inner
from dynajit.core.types.symint import SymInt, equals
from dynajit.core.types.tensor_layouts import strided
from dynajit.core.types.value_types import TensorType
from dynajit.eager import Size, Tensor
from dynajit.eager.tensor import creation, typed_names
from dynajit.ir import graph
from dynajit.ops import TABLE
from dynajit.ops.calls.arguments import cast
from dynajit.ops.calls.autocast import word_set
from dynajit.ops.calls.autocast_words import default_device
from dynajit.ops.functions import full, stack, zeros
from dynajit.ops.functions.arrays.types import array
from dynajit.ops.functions.elements import complex as complex_functions
from dynajit.ops.table.result_layouts import is_row_major, preserved_order

#: Reading these needs the contents of the tensor.
_CONTENTS: Final = frozenset(
    {"item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__",
     "__complex__", "nonzero", "unique", "masked_select", "__repr__", "__format__", "array"}
)  # fmt: skip
_AUTOGRAD: Final = frozenset(
    {"backward", "grad", "grad_fn", "register_hook", "requires_grad_", "retain_grad", "data",
     "is_leaf", "output_nr", "_version", "storage", "register_post_accumulate_grad_hook"}
)  # fmt: skip


def tensor_attribute(machine: Machine, value: TensorValue, name: str) -> Value:
    """`value.name`."""
    added = _method_of_program(machine, value, name)
    if added is not None:
        return added
    if name in _READS:
        return _READS[name](machine, value)
    if name in _FACTS:
        fact: Value = _FACTS[name](machine, value)
        return fact
    if name in _OWN_METHODS:
        return NativeMethod(value, name)
    if name in _AUTOGRAD and not callable(getattr(Tensor, name, None)):
        raise GraphBreak(breaks.AUTOGRAD_CALL, f"Tensor.{name}")
    if name in _CONTENTS and not callable(getattr(Tensor, name, None)):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, f"Tensor.{name}")
    member = getattr(graph.Value, name, None)
    if isinstance(member, property):

        def read(tensor: Any) -> Any:
            return getattr(tensor, name)

        read.__qualname__ = f"Tensor.{name}"
        return native_call(machine, read, [value], {})
    if callable(member) or callable(getattr(Tensor, name, None)):
        return NativeMethod(value, name)
    if lookup(type_of(machine, value), name) is not MISSING:
        raise GraphBreak(breaks.TENSOR_METHOD, f"Tensor.{name}")
    found: Value = stored_attribute(machine, value, name)
    return found


def _method_of_program(machine: Machine, value: TensorValue, name: str) -> Value | None:
    """A method that the program has put into the class of tensors, or None."""
    cls = type_of(machine, value)
    found = lookup(cls, name)
    if not isinstance(found, types.FunctionType):
        return None
    if (found.__module__ or "").partition(".")[0] == "dynajit":
        return None
    return BoundMethod(Known(found, sources.Attribute(sources.Constant(cls), name)), value)


#: Attributes of autograd.
_READS: Final[dict[str, Callable[[Any, TensorValue], Value]]] = {
    "grad": grad_of, "data": data_of, "is_leaf": is_leaf, "grad_fn": grad_fn_of,
}  # fmt: skip


def _shape(machine: Machine, value: TensorValue) -> Value:
    sizes = machine.recorder.sizes
    return TupleValue(tuple(sizes.value_of(n) for n in tensor_type(machine, value).shape), Size)


def _element_count(machine: Machine, value: TensorValue) -> Value:
    count: Value = machine.recorder.sizes.value_of(tensor_type(machine, value).numel)
    return count


_FACTS: Final[dict[str, Callable[[Any, TensorValue], Value]]] = {
    "shape": _shape,
    "dtype": lambda machine, value: Known(tensor_type(machine, value).dtype),
    "device": lambda machine, value: Known(tensor_type(machine, value).device),
    "layout": lambda machine, value: Known(strided),  # a sparse tensor is no TensorValue
    "ndim": lambda machine, value: constant(tensor_type(machine, value).rank),
    "requires_grad": lambda machine, value: constant(needs_gradient(machine, value)),
    "is_cuda": lambda machine, value: constant(tensor_type(machine, value).device.type == "cuda"),
    "is_cpu": lambda machine, value: constant(tensor_type(machine, value).device.type == "cpu"),
    "itemsize": lambda machine, value: constant(tensor_type(machine, value).dtype.itemsize),
    "__class__": lambda machine, value: Known(type_of(machine, value)),
}

_FACT_METHODS: Final[dict[str, Callable[[Any, TensorValue], Value]]] = {
    "dim": lambda machine, value: constant(tensor_type(machine, value).rank),
    "ndimension": lambda machine, value: constant(tensor_type(machine, value).rank),
    "numel": _element_count,
    "nelement": _element_count,
    "element_size": lambda machine, value: constant(tensor_type(machine, value).dtype.itemsize),
    "is_floating_point": lambda machine, value: constant(
        tensor_type(machine, value).dtype.is_floating_point
    ),
    "is_complex": lambda machine, value: constant(tensor_type(machine, value).dtype.is_complex),
    "__len__": lambda machine, value: machine.size_value(tensor_type(machine, value).shape[0]),
    "size": _shape,
}


def tensor_method(
    machine: Machine,
    receiver: TensorValue,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """`receiver.name(*args, **keywords)`."""
    if name in _FACT_METHODS and not args and not keywords:
        return _FACT_METHODS[name](machine, receiver)
    if name == "contiguous" and not args and not keywords:
        if _is_contiguous(machine, receiver, name, []).value:
            return receiver
        order = Known(tuple(range(len(tensor_type(machine, receiver).shape))))
        return native_call(machine, TABLE.laid_out, [receiver], {"order": order})
    if name in _OWN_METHODS:
        return _OWN_METHODS[name](machine, receiver, args, keywords)
    if name == "view" and not args and list(keywords) == ["size"]:
        args, keywords = [keywords["size"]], {}
    if name in _LAYOUT_METHODS:
        args, keywords = [*args, *keywords.values()], {}  # one parameter at most
        return _LAYOUT_METHODS[name](machine, receiver, name, args)
    if name == "__setitem__" and len(args) == 2 and not keywords:
        tensor_store(machine, receiver, *args)
        return NONE
    if name in _CONTENTS:
        return _contents(machine, receiver, name, args, keywords)
    if name == "requires_grad_":
        unchanged: Value = requires_grad_method(machine, receiver, args, keywords)
        return unchanged
    if name in _AUTOGRAD:
        raise GraphBreak(breaks.AUTOGRAD_CALL, f"Tensor.{name}()")
    if name.endswith("_") and not name.endswith("__"):
        written: Value = in_place_method(machine, receiver, name, args, keywords)
        return written
    if hasattr(graph.Value, name):
        return native_method(machine, receiver, name, args, keywords)
    raise GraphBreak(breaks.TENSOR_METHOD, f"Tensor.{name}()")


def _contents(
    machine: Machine,
    receiver: TensorValue,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """What Python asks of elements that are known.

    Raises:
        GraphBreak: they are not.
    """
    if name == "numpy" and not args and not keywords:
        return array_of(machine, receiver)
    if name in ("item", "tolist") and not args and not keywords:
        known = known_tensor(machine.recorder, receiver)
        if known is not None and (name == "tolist" or known.numel() == 1):
            result: Value = from_python(machine, getattr(known, name)())
            return result
        found = numbers_in(machine, receiver)
        rank = tensor_type(machine, receiver).rank
        if found is not None and (len(found) == 1 if name == "item" else True):
            return found[0] if name == "item" or not rank else new_list(machine, found)
        number = asked_in_turns(machine, receiver) if name == "item" or not rank else None
        if number is not None:
            return number
    raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, f"Tensor.{name}()")


def _is_contiguous(machine: Machine, value: TensorValue, name: str, args: list[Value]) -> Constant:
    shape, strides = (
        tensor_type(machine, value).shape,
        _known_layout(strides_of_tensor(machine, value)),
    )
    try:
        wanted = as_python(machine, args[0]) if args else None
        if isinstance(wanted, MemoryFormat) and RANKS.get(wanted, len(shape)) != len(shape):
            return constant(False)
        order = outer_to_inner(wanted, len(shape)) or range(len(shape))
    except (NotKnown, DynajitError) as error:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"Tensor.is_contiguous: {error}") from None
    return constant(is_row_major(tuple(shape[d] for d in order), tuple(strides[d] for d in order)))


def _stride(machine: Machine, value: TensorValue, name: str, args: list[Value]) -> Value:
    sizes, strides = machine.recorder.sizes, _known_layout(strides_of_tensor(machine, value))
    found = TupleValue(tuple(sizes.value_of(stride) for stride in strides))
    return fold(machine, operator.getitem, found, *args) if args else found


def _view_method(machine: Machine, value: TensorValue, name: str, args: list[Value]) -> Value:
    """`view`: as reshape, where eager execution would not have to copy."""
    result = native_method(machine, value, name, args, {})
    assert isinstance(result, TensorValue)
    shape, wanted = tensor_type(machine, value).shape, tensor_type(machine, result).shape
    strides = _known_layout(strides_of_tensor(machine, value))
    if layouts.reshaped_strides(shape, strides, wanted) is None:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"view{wanted} of other strides")
    return result


def _known_layout(fact: Any) -> Any:
    if fact is None:
        raise GraphBreak(breaks.TENSOR_METHOD, "the layout of an intermediate tensor")
    return fact


def _is_inference(machine: Machine, value: TensorValue, name: str, args: list[Value]) -> Constant:
    """Whether a tensor was made in inference mode: where the captured code made it, only if the
    mode was off all the time."""
    existing = machine.recorder.existing(value)
    if existing is not None:
        found = bool(existing._storage.is_inference)
        place = machine.recorder.first_source(value)
        machine.recorder.guard(place, Kind.INFERENCE_TENSOR, found, "is_inference")
        return constant(found)
    machine.uses_inference_mode()
    modes = machine.heap.entry(machine.recorder.inference_id), machine.recorder.inference_enabled
    if any(modes) or machine.heap[value.identity].memory:
        raise GraphBreak(breaks.TENSOR_METHOD, "Tensor.is_inference() of a result")
    return constant(False)


_LAYOUT_METHODS: Final[dict[str, Callable[[Any, TensorValue, str, list[Value]], Value]]] = {
    "is_contiguous": _is_contiguous,
    "is_inference": _is_inference,
    "stride": _stride,
    "view": _view_method,
    "view_as": _view_method,
}


def _type_method(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`type()`, the name of a class, or `type(dtype)`, a conversion."""
    wanted = args[0] if args else keywords.get("dtype", NONE)
    kind = tensor_type(machine, value)
    on_gpu = kind.device is not CPU
    if is_none(machine, wanted):
        return constant(typed_names.name_of(kind.dtype, on_gpu))
    try:
        dtype, is_cuda = typed_names.type_named(as_python(machine, wanted))
    except (NotKnown, InvalidValueError) as error:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"Tensor.type: {error}") from None
    place = [] if is_cuda in (None, on_gpu) else [Known(Device("cuda") if is_cuda else CPU)]
    return native_method(machine, value, "to", [*place, Known(dtype)], {})


def _cpu(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`cpu()`: the tensor itself where it is there."""
    if tensor_type(machine, value).device is CPU:
        return value
    return native_method(machine, value, "to", [Known(CPU)], {})


def _cuda(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`cuda(device, non_blocking)`: the current GPU by default."""
    given = dict(zip(("device", "non_blocking"), args, strict=False)) | keywords
    device = given.pop("device", NONE)
    given.pop("memory_format", None)
    place = Known(Device("cuda")) if is_none(machine, device) else device
    return native_method(machine, value, "to", [place], given)


def _pin_memory(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`pin_memory()`: the tensor itself where there is no GPU that copies from it."""
    if gpu.is_available():
        raise GraphBreak(breaks.TENSOR_METHOD, "memory of the host that a GPU copies from")
    return value


def _new_tensor(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`new_tensor(data)`: as `tensor`, with the dtype and on the device of the receiver."""
    kind = tensor_type(machine, value)
    given = {name: item for name, item in keywords.items() if not is_none(machine, item)}
    data = [*args, *([given.pop("data")] if "data" in given else [])]
    own = {"dtype": Known(kind.dtype), "device": Known(kind.device)}
    return creates_tensor(machine, creation.tensor, data, own | given)


def _new(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`new(*sizes)` or `new(data)`: as `Tensor`, of the receiver's dtype and device."""
    kind = tensor_type(machine, value)
    device = keywords.get("device", NONE)
    place = kind.device if is_none(machine, device) else as_python(machine, device)
    if kind.device is not CPU or devices.parse(place) is not CPU:
        raise GraphBreak(breaks.UNKNOWN_CALL, "Tensor.new() on a GPU")
    return constructs_tensor(machine, args, {"dtype": Known(kind.dtype)})


def _as_subclass(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`as_subclass(cls)`."""
    cls = as_python(machine, [*args, *keywords.values()][0])
    if cls is not Tensor and not (isinstance(cls, type) and is_modelled_tensor(cls)):
        raise GraphBreak(breaks.UNKNOWN_CALL, "Tensor.as_subclass()")
    return as_subclass(machine, value, cls)


_Method = Callable[[Machine, TensorValue, list[Value], dict[str, Value]], Value]

#: Methods that graph values do not have, or have as something else.
_OWN_METHODS: Final[dict[str, _Method]] = {
    "type": _type_method, "cpu": _cpu, "cuda": _cuda, "pin_memory": _pin_memory,
    "new": _new, "as_strided": as_strided, "as_subclass": _as_subclass, "new_tensor": _new_tensor,
}  # fmt: skip


# -- library calls -------------------------------------------------------------------------------


# -- the library's functions ----------------------------------------------------------------------

LIBRARY_PACKAGES: Final = ("dynajit.ops.", "dynajit.nn.functional")


def creates_tensor(
    machine: Machine, function: Callable[..., Any], args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`tensor(data)` of known data: a constant of the graph, copied at every call.

    Numbers of the program stay arguments of the graph, where there are few.

    Raises:
        GraphBreak: the data is not known, or the tensor is a leaf that requires a gradient.
    """
    name = function.__qualname__
    if args and is_array(args[0]):
        return native_call(machine, function_of_array, [tensor_in(machine, args[0])], keywords)
    machine.uses_autocast()
    place = default_device(machine.recorder.autocast_word)
    if place is not None and is_none(machine, keywords.get("device", NONE)):
        keywords = {**keywords, "device": Known(place)}
    filled = _tensor_of_computed(machine, args, keywords)
    if filled is None:
        filled = _tensor_of_numbers(machine, args, keywords)
    if filled is not None:
        return filled
    try:
        positional = [_as_number(machine, to_native(machine, value, SPECIALISED)) for value in args]
        named = {
            key: _as_number(machine, to_native(machine, value, SPECIALISED))
            for key, value in keywords.items()
        }
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name} of {error}") from None
    if named.get("requires_grad"):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name}(..., requires_grad=True)")
    if _has_graph_value([positional, list(named.values())]):
        return _tensor_of_tensors(machine, name, args, keywords)
    try:
        with word_set(machine.recorder.autocast_word):
            made = function(*positional, **named)
    except Exception as error:
        detail = f"{name}: {type(error).__name__}: {error}"
        raise GraphBreak(breaks.TENSOR_FAILURE, detail) from error
    if made.dtype in dtypes.STORED:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"{name} of {made.dtype}")
    builder = machine.recorder.builder
    constant = builder.constant(any_arrays.as_numpy(made.array))
    if made.device is CPU:
        order = preserved_order(made)
        fresh = TABLE.clone(constant) if order is None else TABLE.laid_out(constant, order=order)
    else:
        place = builder.resolve_device(devices.parse(named.get("device")), name)
        fresh = TABLE.to_device(constant, device=place)
    value: Value = machine.recorder.new_tensor(fresh)
    return value


def function_of_array(
    data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """`tensor(array)`: a copy.

    Raises:
        InvalidValueError: it is to be elsewhere, or to be a leaf that requires a gradient.
    """
    if requires_grad or device not in (None, "cpu", CPU):
        raise InvalidValueError("tensor(array) on a device, or with a gradient")
    made = TABLE.cast(data, dtype=dtypes.parse(dtype)) if dtype is not None else data
    return TABLE.clone(made)


def _as_number(machine: Machine, data: Any) -> Any:
    """Nested data whose sizes that vary are the numbers they are in this call, relied on."""
    if isinstance(data, (list, tuple)):
        return [_as_number(machine, item) for item in data]
    return machine.recorder.sizes.number(data) if isinstance(data, SymInt) else data


#: Numbers that one tensor takes as arguments of the graph; of more, their values are relied on.
MAX_NUMBERS: Final = 32


def _tensor_of_numbers(
    machine: Machine, args: list[Value], keywords: dict[str, Value]
) -> TensorValue | None:
    """`tensor(data)` of numbers that may differ in the next call; None: of other data."""
    if len(args) != 1 or not keywords.keys() <= {"dtype", "device"}:
        return None
    leaves = list(_leaves(machine, args[0]))
    kinds = {leaf.python_type for leaf in leaves}
    if not any(isinstance(leaf, Scalar) for leaf in leaves) or len(leaves) > MAX_NUMBERS:
        return None
    if len(kinds) > 1 or devices.parse(as_python(machine, keywords.get("device", NONE))) is not CPU:
        return None
    default = dtypes.default_floating() if kinds == {float} else dtypes.int64
    wanted = keywords.get("dtype", NONE)
    dtype = default if is_none(machine, wanted) else dtypes.parse(as_python(machine, wanted))
    if dtype is not default and dtype not in dtypes.FLOATING:
        return None
    made = native_call(machine, _filled, [args[0]], {"dtype": Known(dtype)}, lift_numbers=True)
    assert isinstance(made, TensorValue)
    return made


def _tensor_of_computed(
    machine: Machine, args: list[Value], keywords: dict[str, Value]
) -> TensorValue | None:
    """`tensor(numbers)` of a list of numbers that turns of a loop have left and that nobody has
    read; None: it is something else."""
    if not keywords.keys() <= {"dtype"}:
        return None
    found = joined(machine, array, args, {}, is_count, functools.partial(counted_in, machine))
    if found is None:
        return None
    own = tensor_type(machine, found).dtype
    default = dtypes.default_floating() if own is dtypes.float64 else own
    wanted = keywords.get("dtype", NONE)
    dtype = default if is_none(machine, wanted) else dtypes.parse(as_python(machine, wanted))
    if dtype is not own and (own, dtype) != (dtypes.float64, dtypes.float32):
        return None
    made = native_call(machine, cast, [found, Known(dtype)], {})
    assert isinstance(made, TensorValue)
    return made


def _tensor_of_tensors(
    machine: Machine, name: str, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`tensor(data)` of a tensor, or of nested lists with 0-d tensors in them: a copy.

    Raises:
        GraphBreak: of other tensors, or on a GPU.
    """
    if len(args) != 1 or not keywords.keys() <= {"dtype", "device"}:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name} of tensors")
    wanted = {key: as_python(machine, value) for key, value in keywords.items()}
    leaves = list(_leaves(machine, args[0]))
    kinds = [tensor_type(machine, leaf) for leaf in leaves if isinstance(leaf, TensorValue)]
    is_nested = not isinstance(args[0], TensorValue)
    places = {kind.device for kind in kinds} | {devices.parse(wanted.get("device")) or CPU}
    if (is_nested and any(kind.shape for kind in kinds)) or places != {CPU}:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name} of tensors")
    dtype = wanted.get("dtype")
    if dtype is None:
        samples = [_sample(machine, leaf) for leaf in leaves]
        dtype = creation.tensor(samples).dtype if is_nested else kinds[0].dtype
    return native_call(
        machine, _copied, [args[0]], {"dtype": Known(dtypes.parse(dtype))}, lift_numbers=is_nested
    )


def _sample(machine: Machine, leaf: Value) -> Any:
    """What has the dtype of a tensor or number."""
    if isinstance(leaf, TensorValue):
        return creation.tensor(0).to(tensor_type(machine, leaf).dtype)
    return leaf.value if isinstance(leaf, Scalar) else as_python(machine, leaf)


def _copied(data: Any, dtype: Any) -> Any:
    """A new tensor of tensors and numbers, without their history."""
    if isinstance(data, (list, tuple)):
        return stack([_copied(item, dtype) for item in data])
    if isinstance(data, graph.Value) and isinstance(data.node.type, TensorType):
        return TABLE.clone(TABLE.cast(TABLE.detach(data), dtype=dtype))
    return full((), data, dtype=dtype, device=CPU)


def _leaves(machine: Machine, data: Value) -> Iterator[Value]:
    """What nested lists and tuples hold."""
    if isinstance(data, (ListValue, TupleValue)):
        items = data.items if isinstance(data, TupleValue) else list_items(machine, data)
        for item in items:
            yield from _leaves(machine, item)
    else:
        yield data


def _filled(data: Any, dtype: Any) -> Any:
    """A tensor of numbers, which graph inputs may be."""
    if isinstance(data, (list, tuple)):
        return stack([_filled(item, dtype) for item in data])
    return full((), data, dtype=dtype, device=CPU)


def as_tensor(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    """`as_tensor(data, dtype, device)`: a tensor itself, or cast; other data as `tensor` makes it.

    Raises:
        GraphBreak: the data is an array, whose memory the tensor shares, or is not known.
    """
    given = dict(zip(("data", "dtype", "device"), args, strict=False)) | keywords
    data = given.pop("data")
    if is_array(data) and data.python_type is np.ndarray:
        data = machine.recorder.alias_of(tensor_in(machine, data))
    if not isinstance(data, TensorValue):
        return creates_tensor(machine, creation.tensor, [data], given)
    machine.uses_autocast()
    place = default_device(machine.recorder.autocast_word)
    device = given.get("device", NONE)
    if place is not None and is_none(machine, device):
        device = Known(place)
    wanted = [value for value in (device, given.get("dtype", NONE)) if not is_none(machine, value)]
    return native_method(machine, data, "to", wanted, {}) if wanted else data


def constructs_tensor(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    """`Tensor(*sizes)`, whose elements are undefined, or `Tensor(data)` of a list or a tuple.

    Raises:
        GraphBreak: of other data, on a GPU, or as a leaf that requires a gradient.
    """
    given = {name: value for name, value in keywords.items() if not is_none(machine, value)}
    dtype = given.pop("dtype", Known(dtypes.default_floating()))
    on_cpu = {"dtype": dtype, "device": Known(CPU)}
    if given:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"Tensor(..., {', '.join(given)}=...)")
    are_sizes = all(isinstance(a, (Constant, Scalar)) and a.python_type is int for a in args)
    if are_sizes or (len(args) == 1 and args[0].python_type is Size):
        return native_call(machine, zeros, args or [constant(0)], on_cpu)
    if len(args) == 1 and args[0].python_type in (list, tuple):
        return creates_tensor(machine, creation.tensor, args, on_cpu)
    raise GraphBreak(breaks.UNKNOWN_CALL, "making a Tensor of other data")


def view_as_complex(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    """`view_as_complex(input)`, where eager execution would find pairs side by side.

    Raises:
        GraphBreak: it refuses, or the layout is not known.
    """
    result = native_call(machine, complex_functions.view_as_complex, args, keywords)
    (value,) = (*args, *keywords.values())
    if isinstance(value, TensorValue):
        *outer, last = _known_layout(strides_of_tensor(machine, value))
        if not equals(last, 1) or any(not equals(step % 2, 0) for step in outer):
            raise GraphBreak(breaks.TENSOR_FAILURE, "view_as_complex of other strides")
    return result


def _has_graph_value(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has_graph_value(item) for item in data)
    return isinstance(data, graph.Value)


_ORDINARY: Final = (
    "dynajit.eager.backward.function",
    "dynajit.eager.modes.grad_mode",
    "dynajit.eager.samples.dims",
    "dynajit.eager.tape.handles",
    "dynajit.eager.tensor.legacy",
)


def why_not_inlined(machine: Machine, function: types.FunctionType) -> str | None:
    """Why a function must run for real, or None.

    The library's eager functions work on arrays, on the tape or on the random generator: what they
    do cannot be reordered with the launch. The grad mode managers, old constructors, what a
    Function is told and the product of sizes are ordinary Python. Python's random functions end in
    C code that draws: read through, one of them would be several breaks.
    """
    if function is Size.numel:
        return None
    if function.__globals__ is vars(random):
        return f"{function.__qualname__} draws random numbers"
    module = function.__module__ or ""
    is_eager = module.startswith("dynajit.eager.") and module not in _ORDINARY
    if is_eager or control.works_on_arrays(function):
        return f"{module}.{function.__qualname__} works eagerly"
    return None


def is_library_function(machine: Machine, function: types.FunctionType) -> bool:
    """True for functions that are called with graph values instead of being inlined."""
    module = str(function.__globals__.get("__name__"))  # where it was written, whatever its home is
    return module.startswith(LIBRARY_PACKAGES) or control.is_allowed(function)
