"""What guards expect of tensors, numbers and functions, and how objects are put into words.

Frozen data, compared by value. Nothing here runs user code.
Made by the executor; expected values of `capture.guards.guards.Guard`.
"""

import collections
import enum
import weakref
from collections.abc import Sequence
from dataclasses import field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from dynajit.capture.values.plain_classes import qualified_name
from dynajit.core.arrays.meta_arrays import MetaMemory
from dynajit.core.errors import CaptureError
from dynajit.core.records import record
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops.native._library_call import LibraryFunction
from dynajit.ops.table import overriding

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
CONTAINERS = (list, tuple, dict, set, frozenset, str, bytes, collections.deque)
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_PLAIN_IDS = frozenset(map(id, PLAIN))


def is_plain(value: Any) -> bool:
    """True for a literal; no metaclass is asked."""
    return id(type(value)) in _PLAIN_IDS


class MemoryUse(enum.IntFlag):
    """What a region does with a tensor; same numbers as in `native/guards.h`.

    A SEPARATE_MEMORY guard holds if the elements of every written tensor overlap with those of no
    other one in the tuple, and the write is allowed as it was captured.
    """

    READ = 0
    WRITTEN = 1  # its elements change
    RECORDED = 2  # they change while gradients are recorded: it is no leaf that requires one, and
    # keeps none
    ALONE = 4  # it gets a history, or backward may need the others: it shares no storage with them
    LEAF = 8  # no operation made it
    RESULT = 16  # an operation made it


@record
class SizeRange:
    """The sizes that a symbolic dimension accepts: from `low` to `high` (None: no limit)."""

    low: int
    high: int | None = None

    def accepts(self, size: int) -> bool:
        """True if `size` is in the range."""
        return self.low <= size and (self.high is None or size <= self.high)

    def __str__(self) -> str:
        return f"{self.low}.." if self.high is None else f"{self.low}..{self.high}"


@record
class TensorFacts:
    """What a compiled region relies on in a tensor.

    Args:
        python_class: the exact class.
        dtype: element type.
        device: where it lives, "cpu" or "cuda:N".
        shape: sizes; None where any size is accepted, SizeRange where some are.
        strides: in elements, None where any stride is accepted; None for the whole tuple too.
            The stride of a dimension of size 1, and all strides of an empty tensor, are free.
        requires_grad: None where it does not matter.
        row_major: the elements lie row by row, whatever the sizes are; `strides` is None.
        order: the elements lie side by side in this order of the dims, from the outermost in,
            whatever the sizes are; `strides` is None.
    """

    python_class: type
    dtype: DType
    device: str
    shape: tuple[int | SizeRange | None, ...]
    strides: tuple[int | None, ...] | None
    requires_grad: bool | None
    row_major: bool = False
    order: tuple[int, ...] | None = None

    @classmethod
    def of(cls, tensor: Any) -> "TensorFacts":
        """The facts that hold for an eager tensor now.

        Raises:
            CaptureError: the strides of its array are no multiples of the item size.
        """
        array = tensor.array
        size = array.dtype.itemsize
        if any(stride % size for stride in array.strides):
            raise CaptureError(
                f"a tensor with strides {array.strides} bytes and items of {size} bytes cannot "
                "be compiled.  Expected strides that are multiples of the item size; copy it with "
                ".clone() first."
            )
        with overriding.classes_unasked():
            device, requires_grad = str(tensor.device), bool(tensor.requires_grad)
        return cls(
            type(tensor),
            dtypes.from_numpy(array.dtype),
            device,
            tuple(array.shape),
            tuple(stride // size for stride in array.strides),
            requires_grad,
        )

    def __str__(self) -> str:
        sizes = ", ".join("*" if size is None else str(size) for size in self.shape)
        grad = "" if self.requires_grad is None else f", requires_grad={self.requires_grad}"
        strides = "" if self.strides is None else f", strides={tuple_text(self.strides)}"
        strides = ", row-major" if self.row_major else strides
        strides = strides if self.order is None else f", dims in the order {list(self.order)}"
        where = "" if self.device == "cpu" else f"@{self.device}"
        return f"{self.python_class.__name__} {self.dtype.name}[{sizes}]{where}{strides}{grad}"

    def difference(self, actual: Any) -> str:
        """What is different about `actual`, in words: `shape was [8, 4], now [9, 4]`."""
        kind = type(actual)
        if kind is not self.python_class:
            return f"was a {self.python_class.__name__}, now {describe(actual)}"
        now = TensorFacts.of(actual)
        parts = []
        for name in ("dtype", "device", "shape", "strides", "requires_grad"):
            old, new = getattr(self, name), getattr(now, name)
            if old is not None and not _matches(old, new):
                parts.append(f"{name} was {_value_text(old)}, now {_value_text(new)}")
        if self.row_major and not actual.array.flags.c_contiguous:
            parts.append("the elements lay row by row, now they do not")
        if self.order is not None and dense_order(now.shape, now.strides or ()) != self.order:
            parts.append(f"the dims lay in the order {list(self.order)}, now they do not")
        return "; ".join(parts) or f"was {self}, now {now}"

    @property
    def contiguous(self) -> bool:
        """True if every stride is known and row-major."""
        step = 1
        if self.strides is None:
            return self.row_major
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if not isinstance(size, int) or (size != 1 and stride != step):
                return False
            step *= max(size, 1)
        return True


def dense_order(shape: Sequence[Any], strides: Sequence[Any]) -> tuple[int, ...] | None:
    """The dims from the outermost in memory to the innermost, if elements lie side by side."""
    order = tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], d)))
    step = 1
    for d in reversed(order):
        if strides[d] != step:
            return None
        step *= shape[d]
    return order


def _matches(old: Any, new: Any) -> bool:
    if not isinstance(old, tuple):
        return bool(old == new)
    return len(old) == len(new) and all(map(_fits, old, new))


def _fits(old: Any, new: int) -> bool:
    return old is None or (old.accepts(new) if isinstance(old, SizeRange) else old == new)


@record
class Predicate:
    """A condition on a Python int, float or str: every comparison holds.

    Args:
        number_class: int, float, bool or str: the exact class of the value.
        comparisons: ((operator, constant), ...) with operators of `COMPARISONS`; constants are
            int or float, or str for a str. A NaN value satisfies only `!=`.
        negated: the whole condition is false instead (needed for NaN: `not x < 1`).
    """

    number_class: type
    comparisons: tuple[tuple[str, int | float | str], ...]
    negated: bool = False

    def text(self, name: str) -> str:
        """The condition as Python text."""
        text = " and ".join(f"{name} {op} {constant!r}" for op, constant in self.comparisons)
        return f"not ({text})" if self.negated else text


@record
class FunctionFacts:
    """A Python function known by its code; closure cells and defaults are guarded by sources."""

    code: Any
    name: str = field(default="", compare=False)


@record(eq=False)
class Remembered:
    """Stands for a user's object in published guards, so that they do not keep it alive.

    Args:
        text: how it is described.
        reference: to the object, while it lives.
    """

    text: str
    reference: "weakref.ref[Any]"

    def __repr__(self) -> str:
        return self.text


def tuple_text(values: Sequence[Any]) -> str:
    return "[" + ", ".join("*" if value is None else str(value) for value in values) + "]"


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return tuple_text(value)
    return value.name if isinstance(value, DType) else str(value)


#: Longer numbers are not shown; the interpreter may refuse to.
_MANY_BITS: Final = 200


def describe(value: Any) -> str:
    """A short text for any object; runs no user code."""
    if type(value) is Remembered:
        return value.text
    if type(value) is int and value.bit_length() > _MANY_BITS:
        return f"an int of {value.bit_length()} bits"
    if is_plain(value):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if issubclass(type(value), type):
        return f"class {qualified_name(value)}"
    if any(type(value) is kind for kind in CONTAINERS):
        return f"a {type(value).__name__} of {len(value)}"
    if any(type(value) is kind for kind in (FunctionType, BuiltinFunctionType, LibraryFunction)):
        return f"function {value.__qualname__}"
    if type(value) is ModuleType:
        return f"module {vars(value).get('__name__', 'without a name')}"
    return f"a {qualified_name(type(value))} at {id(value):#x}"


def _number_of(device: str) -> int:
    """Of a device, as tensors say it in C."""
    if device == "cpu":
        return -1
    if device == "meta":
        return MetaMemory.device_id
    return int(devices.parse(device).index or 0)


def lower_tensor(facts: TensorFacts) -> tuple[Any, ...]:
    """For C: (class, NumPy dtype, number of the GPU or -1, sizes, byte strides or None or True or
    an order as the only item, requires_grad)."""
    size = facts.dtype.itemsize
    strides: Any = facts.row_major or None
    if facts.strides is not None:
        strides = tuple(None if s is None else s * size for s in facts.strides)
    if facts.order is not None:
        strides = (facts.order,)
    return (
        facts.python_class,
        facts.dtype.numpy,
        _number_of(facts.device),
        tuple((s.low, s.high) if isinstance(s, SizeRange) else s for s in facts.shape),
        strides,
        facts.requires_grad,
    )
