"""`SampleTensor`: a batch of samples that looks like one of them.

Contract: such a tensor has the shape, dtype and device of a sample, and no elements that anybody
could look at: the part in C holds an array whose memory is one zero. `_batch` is the tensor behind,
with the samples in dim 0; where `_flag` is False it is one value, the same for all samples. Rows
come to `handle`, by the dispatch rule, and run by `ops.table.sample_rules`. Of several levels (a
mapped function that maps another) the innermost runs a row, on tensors of the next. Made by
`dynajit.namespaces.mapped`; programs never keep one, unless a mapped function hands it out by the
back door.
"""

import functools
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NoReturn

import numpy as np

from dynajit.core.errors import UnsupportedError
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category, DType
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, is_grad_enabled, needs_grad
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.eager.operations.strided_views import MSG_OF_SAMPLES
from dynajit.eager.samples.draws import SampleSeed
from dynajit.eager.tape.node import OpNode, SavedTensor, is_differentiable
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.calls.autocast_words import with_modes
from dynajit.ops.functions.creation.random_fills import FILLS
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.table import sample_rules
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.overriding import disabled_torch_function
from dynajit.ops.table.sample_rules import Call

_serial = itertools.count(1)

#: Sample tensors run rows before graph values and sparse tensors, inner levels before outer ones.
_PRIORITY: Final = 600.0
_STEP: Final = 2.0**-40


class SingleSampleNeeded(BaseException):
    """Raised where a batch of samples does not do; the function is to be called for each.

    No program is to catch it in the place of its own errors, so it is no Exception.

    Args:
        level: of the tensor that was asked.
    """

    def __init__(self, level: "Level") -> None:
        super().__init__("a single sample is needed")
        self.level = level


class Level:
    """One call of a mapped function. Mutable: it ends, and notes what would have to be undone.

    Args:
        count: how many samples there are.
        arguments: the tensors whose samples the function gets.
    """

    __slots__ = ("arguments", "count", "drawn", "is_open", "overwritten", "priority")

    def __init__(self, count: int, arguments: Sequence[Any]) -> None:
        self.count = count
        self.arguments = [bottom(x) for x in arguments]
        self.is_open = False
        self.priority = _PRIORITY + next(_serial) * _STEP
        #: States of generators before they were drawn from, and contents of arguments before they
        #: were written to.
        self.drawn: list[tuple[Any, Any]] = []
        self.overwritten: list[tuple[Any, Any]] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        """A block in which the mapped function runs."""
        word = _autocast_word()
        _set_autocast_word(with_modes(word, True))  # what is compiled runs as it was written
        _open.levels.append(self)
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False
            _open.levels.pop()
            _set_autocast_word(word)

    def note_draw(self, generator: Any) -> None:
        """Remember the state of a generator that will be drawn from, here and around."""
        for level in _open.levels:
            if not any(generator is known for known, _ in level.drawn):
                level.drawn.append((generator, generator.get_state()))

    def undo(self) -> None:
        """Take back writes and draws: the function is called again.

        Raises:
            UnsupportedError: gradients were recorded of a write.
        """
        for generator, state in self.drawn:
            generator.set_state(state)
        for x, before in self.overwritten:
            if x.requires_grad:
                raise UnsupportedError(
                    "vmap: the function writes to its samples while gradients are recorded, and "
                    "then asks for the elements of one.  Write to a clone()."
                )
            x.copy_(before)

    @property
    def handler(self) -> Any:
        """Who runs rows on its samples."""
        return handle

    def refuse(self, what: str) -> NoReturn:
        """A batch has not got it.

        Raises:
            SingleSampleNeeded: always, while the mapped function runs.
            UnsupportedError: it has ended.
        """
        if self.is_open:
            raise SingleSampleNeeded(self)
        raise UnsupportedError(
            f"{what}: the tensor holds the samples of a call of a mapped function that has ended.  "
            "Return from the function what is needed outside."
        )


class _Open(threading.local):
    """The calls that run in this thread. Mutable."""

    def __init__(self) -> None:
        self.levels: list[Level] = []


_open: Final = _Open()


def open_level() -> Level | None:
    """The innermost call of a mapped function that runs in this thread."""
    return _open.levels[-1] if _open.levels else None


def bottom(x: Tensor) -> Tensor:
    """The tensor behind all levels."""
    while isinstance(x, SampleTensor):
        x = x._batch
    return x


def note_write(x: Tensor) -> None:
    """Remember what an argument of mapped functions holds, before it is written to."""
    written = bottom(x)
    for level in _open.levels:
        known = [argument._storage for argument, _ in level.overwritten]
        for argument in level.arguments:
            if argument._storage is written._storage and argument._storage not in known:
                level.overwritten.append((argument, TABLE.clone(argument.detach())))


class _NoElements(np.ndarray):
    """An array that only says a shape and a dtype; code in C takes none but plain ones."""


_ZERO: Final = bytes(16)


def _placeholder(batch: Any, flag: bool) -> Any:
    shape = tuple(batch.shape)[flag:]
    if batch.device is not CPU:
        memory = batch
        while isinstance(memory, SampleTensor):
            memory = memory._batch
        array = memory.array
        return array[(0,) * (array.ndim - len(shape))]
    return without_elements(shape, batch.dtype)


@functools.lru_cache(maxsize=1024)
def without_elements(shape: tuple[int, ...], dtype: DType) -> Any:
    """An array of which only shape and dtype mean something."""
    return _NoElements(shape, dtype.numpy, _ZERO, 0, (0,) * len(shape))


class SampleTensor(Tensor):
    """See the module. Made by `made`."""

    __torch_function__: ClassVar[Any] = disabled_torch_function
    _has_array = False

    _level: Level
    _batch: Any
    _flag: bool
    #: Some view of it was taken, or it is one.
    _is_seen: bool

    @property
    def __dynajit_priority__(self) -> float:  # type: ignore[override]
        return self._level.priority

    @property
    def device(self) -> Any:
        """Where the samples are."""
        return self._batch.device

    @property
    def _is_mirrored(self) -> bool:
        return False

    def _mirrors(self) -> tuple[bool, bool]:
        found: tuple[bool, bool] = self._batch._mirrors()
        return found

    def stride(self, dim: int | None = None) -> Any:
        """Steps of one sample."""
        steps = tuple(self._batch.stride())[self._flag :]
        return steps if dim is None else steps[dim]

    def storage_offset(self) -> int:
        """Where the first sample begins."""
        offset: int = self._batch.storage_offset()
        return offset

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
        """The samples' memory at the given strides; an offset is one of the first sample.

        Raises:
            UnsupportedError: an offset is given, and a gradient goes through the view.
        """
        if self.requires_grad:
            if storage_offset is not None:
                raise UnsupportedError(MSG_OF_SAMPLES)
            self._level.refuse("as_strided")
        size, stride = tuple(size), tuple(stride)
        if self._flag:
            size, stride = (self._level.count, *size), (self._batch.stride(0), *stride)
        found = self._batch.as_strided(size, stride, storage_offset)
        return made(found, self._level, self._flag, self)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether one sample lies row by row."""
        if memory_format is not None and "contiguous_format" not in str(memory_format):
            self._level.refuse("is_contiguous")
        expected, lies = 1, True
        for size, step in zip(reversed(self.shape), reversed(self.stride()), strict=True):
            lies = lies and (size == 1 or step == expected)
            expected *= size
        return lies or 0 in self.shape

    def contiguous(self, memory_format: Any = None) -> Any:
        """The tensor, or a copy of which samples lie row by row."""
        if self.is_contiguous(memory_format):
            return self
        return TABLE.laid_out(self, order=tuple(range(self.ndim)))

    @property  # type: ignore[misc]
    def data(self) -> Any:
        """The samples without history."""
        return TABLE.detach(self)

    def cpu(self, memory_format: Any = None) -> Any:
        """The samples in this machine's memory."""
        return self.to("cpu")

    def cuda(
        self, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Any:
        """The samples on a GPU."""
        return self.to("cuda" if device is None else device)

    def __repr__(self, **options: Any) -> str:
        return f"samples({self._level.count} of {list(self.shape)}, {self.dtype!r})"

    __str__ = __repr__


def made(batch: Any, level: Level, flag: bool = True, source: Any = None) -> SampleTensor:
    """A tensor of samples.

    Args:
        batch: with the samples in dim 0; one value for all where `flag` is False.
        source: a tensor whose memory it shares.
    """
    storage = None if source is None else source._storage
    x = _tensor.new_of(SampleTensor, _placeholder(batch, flag), storage)
    x._level, x._batch, x._flag, x._is_seen = level, batch, flag, source is not None
    if source is not None:
        source._is_seen = True
    return x


def leaf(x: Tensor, level: Level) -> Any:
    """A leaf of the tape of samples that stands for a tensor: its history outside goes on."""
    if isinstance(x, SampleTensor) and x._level is level:
        found = made(x._batch, level, x._flag)
    else:
        found = made(x, level, False)
    found.requires_grad = True
    return found


def handle(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run `op`, of which an operand holds samples, once for all of them."""
    level = _innermost(op, inputs)
    is_recorded = needs_grad(inputs)
    if is_recorded and op.kind is Kind.COMPOSITE and not (op.vjp and op.rule.on_tape):
        return op.rule.function(TABLE, *inputs, **attributes)
    behind, flags, draws = _behind(inputs, level)
    if True in flags or draws:
        call = Call(op, behind, flags, attributes, level.count, draws)
        batch, flag = sample_rules.batched(call, lambda call: _by_rows(call, inputs, level)), True
    else:
        batch, flag = op(*behind, **attributes), False
    if not isinstance(batch, TensorBase):
        return batch
    source = None
    if op.kind is Kind.MOVEMENT and op.rule.view:
        source = _seen_through(inputs[0], batch)
    result = made(batch, level, flag, source)
    if is_recorded and is_differentiable(op) and result.dtype.category >= Category.FLOATING:
        node = SampleNode(op, inputs, attributes)
        _tensor.attach(result, node, 0)
        node.finish(result)
    return result


SampleTensor.__dynajit_handler__ = staticmethod(handle)


def _innermost(op: Op, inputs: tuple[Any, ...]) -> Level:
    found: Level | None = None
    for x in inputs:
        kind = type(x)
        if kind is SampleTensor or kind is SampleSeed:
            level = x._level
            if found is None or level.priority > found.priority:
                found = level
        elif not isinstance(x, TensorBase) and is_tensor(x):
            raise UnsupportedError(f"{op.name}: graphs have no tensors that hold samples.")
    assert found is not None
    return found


def _behind(
    inputs: tuple[Any, ...], level: Level
) -> tuple[tuple[Any, ...], tuple[bool, ...], bool]:
    """What lies behind the operands, which of it holds samples, and whether numbers are drawn for
    each sample."""
    operands, flags, draws = [], [], False
    for x in inputs:
        kind, flag = type(x), False
        if kind is SampleTensor and x._level is level:
            x, flag = x._batch, x._flag
        elif kind is SampleSeed and x._level is level:
            x, draws = x._batch, True
        operands.append(x)
        flags.append(flag)
    return tuple(operands), tuple(flags), draws


def _by_rows(call: Call, inputs: tuple[Any, ...], level: Level) -> Any:
    """What a composite gives by the rows that it stands for."""
    operands = [
        made(x, level, flag) if isinstance(x, TensorBase) and given is not x else given
        for x, flag, given in zip(call.operands, call.flags, inputs, strict=True)
    ]
    result = call.op.rule.function(TABLE, *operands, **call.attributes)
    return of_all(result, level)


def in_front(x: SampleTensor) -> Any:
    """The tensor behind, with the samples in dim 0 in any case."""
    return Call(TABLE.clone, (x._batch,), (x._flag,), {}, x._level.count).front(0)


def of_all(x: Tensor, level: Level) -> Any:
    """A tensor that a mapped function made, with all samples in dim 0."""
    if isinstance(x, SampleTensor) and x._level is level:
        return in_front(x)
    return Call(TABLE.clone, (x,), (False,), {}, level.count).front(0)


def _seen_through(source: Any, batch: Any) -> Any:
    """The operand of a view row, where its result shares its memory."""
    if type(source) is not SampleTensor:
        return None
    return source if bottom(batch)._storage is bottom(source)._storage else None


class SavedSamples:
    """A tensor of samples that a formula needs, or the result of its node. Immutable.

    Args:
        x: the tensor.
        is_result: of the node itself: only what lies behind is kept, so that no cycle arises.
    """

    __slots__ = ("behind", "storage", "tensor", "version")

    def __init__(self, x: SampleTensor, is_result: bool) -> None:
        self.tensor = None if is_result else x
        self.behind = (x._batch, x._level, x._flag)
        self.storage = x._storage
        self.version = self.storage.version

    def unpack(self, node: Any) -> Any:
        """The tensor, if nobody wrote to it since.

        Raises:
            SingleSampleNeeded, UnsupportedError: it was written in place.
        """
        if self.storage.version != self.version:
            self.behind[1].refuse("a gradient through a tensor that was written in place")
        if self.tensor is not None:
            return self.tensor
        again = made(*self.behind)
        if is_grad_enabled():
            _tensor.attach(again, node, 0)
        return again


class SampleNode(OpNode):
    """A node of the tape of samples. Mutable: see Node."""

    __slots__ = ()

    def __init__(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        self.begin(op, inputs, attributes)
        self.saved = {}
        for position in self.savings.inputs:
            x = inputs[position]
            if isinstance(x, SampleTensor):
                self.saved[position] = SavedSamples(x, False)
            else:
                self.saved[position] = SavedTensor(x) if isinstance(x, TensorBase) else x

    def finish(self, tensor: Any) -> None:
        """Note the result, or its type, if a formula needs it."""
        if self.savings.result:
            self.result = SavedSamples(tensor, True)  # type: ignore[assignment]
        if self.savings.result_type:
            self.out_meta = _tensor.meta_of(tensor)

    def saved_input(self, position: int) -> Any:
        """A saved input, as of other nodes."""
        kept = None if self.saved is None else self.saved[position]
        return (
            kept.unpack(self) if isinstance(kept, SavedSamples) else super().saved_input(position)
        )


def _refusing(name: str) -> Any:
    def refuse(self: SampleTensor, *args: Any, **kwargs: Any) -> NoReturn:
        self._level.refuse(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: the tensor holds more than one sample."
    return refuse


#: What of `Tensor` itself means the same in classes that hold other arrays.
OF_ALL_TENSORS: Final = frozenset((
    "__annotations__", "__array_priority__", "__class_getitem__", "__dict__", "__doc__",
    "__getitem__", "__hash__", "__init__", "__init_subclass__", "__module__", "__new__",
    "__slots__", "__weakref__", "_base", "_filled", "_from_array", "_grad", "_is_part", "_replay",
    "_storage", "_version", "backward", "dtype", "grad", "grad_fn", "hooks", "imag", "is_leaf",
    "ndim", "output_index", "real", "register_hook", "register_post_accumulate_grad_hook",
    "requires_grad", "requires_grad_", "retain_grad", "retains_grad", "shape", "type",
    *(f"{name}_" for name in FILLS),
))  # fmt: skip

_ALLOWED: Final = OF_ALL_TENSORS | {"new", "new_tensor"}


def _restrict() -> None:
    """Let the class have methods that are written over rows, and refuse all others."""
    inherited = {c for c in Tensor.__mro__ if c not in TensorMethods.__mro__}
    for name in (
        {name for c in inherited for name in vars(c)} - _ALLOWED - vars(SampleTensor).keys()
    ):
        over_rows = getattr(TensorMethods, name, None)
        if (over_rows is not None and not name.startswith("__")) or name == "__getitem__":
            setattr(SampleTensor, name, _member(name))
        elif isinstance(getattr(Tensor, name), property) or name in ("array", "_held", "_memory"):
            setattr(SampleTensor, name, property(_refusing(name)))
        elif callable(getattr(Tensor, name)):
            setattr(SampleTensor, name, _refusing(name))


def _member(name: str) -> Any:
    for c in TensorMethods.__mro__:
        if name in vars(c):
            return vars(c)[name]
    raise AttributeError(name)


_restrict()
