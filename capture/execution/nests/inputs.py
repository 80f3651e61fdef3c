"""What a loop nest is given: values of the capture in front of the loop as values of nests.

Contract: `Inputs.convert` makes each value once; arrays and run-time numbers that it meets are
operands of the node, in the order of `operands`.
"""

import random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.capture.execution.nests.operators import GIVEN
from dynajit.capture.execution.nests.values import (
    COMPLEX_DTYPES,
    DTYPES,
    PYTHON_DTYPES,
    WHOLE,
    Complex,
    Generator,
    Group,
    ListOf,
    Literal,
    NotNest,
    Number,
    Outer,
    whole_array,
)
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.library import arrays as forms
from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.immutables import is_numpy_number
from dynajit.capture.python.tensors.arrays import flipped_dims, is_array, memory_in
from dynajit.capture.python.tensors.counts import counted_in
from dynajit.capture.python.tensors.facts import needs_gradient, tensor_type
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.generator_states import CLASSES
from dynajit.capture.values.symbolic import Constant, Known, Opaque, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import numel
from dynajit.ir import graph
from dynajit.ir.nests import Register, Size
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor


#: What draws of generators of Python's call, which one generator alone may have another one of.
_DRAWN_BY: Final = (
    "random", "uniform", "randint", "randrange", "gauss", "normalvariate", "expovariate",
    "choice", "seed", "getrandbits", "_randbelow",
)  # fmt: skip


class Inputs:
    """See the module's text. Mutable; used once.

    Knows nothing of the nest that it is for: a cycle would keep the user's objects alive.

    Args:
        executor, frame: in front of the loop.

    Attributes:
        operands: of the node.
        arrays: by identity of their memory's tensor: the operand's slot, the array, that tensor.
        numbers: slots of operands without dims, and the registers that hold them.
        generators: of random numbers, by their slots.
        recorder: of the capture.
    """

    def __init__(self, executor: "Executor", frame: Frame) -> None:
        self._executor, self._frame = executor, frame
        self._recorder = self.recorder = executor.recorder
        self._converted: dict[int, tuple[Value, Any]] = {}
        self.operands: list[graph.Value] = []
        self.arrays: dict[int, tuple[int, Value, TensorValue]] = {}
        self.numbers: list[tuple[int, Register]] = []
        self.generators: dict[int, Opaque] = {}
        self._doubtful: set[int] = set()
        #: Arrays hold the numbers of lists; see `executor.Refusals.lists`.
        self.is_of_lists = executor.refusals.lists

    @property
    def has_numpy(self) -> bool:
        """Whether there is an array, a number of NumPy's, or something that draws numbers."""
        found = [value for _, value in self._converted.values()]
        numbers = [value for value in found if isinstance(value, (Number, Complex))]
        has_memory = bool(self.arrays or self.generators)
        return has_memory or not all(number.is_python for number in numbers)

    @property
    def largest(self) -> int:
        """Elements of the largest array, in the present call."""
        shapes = [
            tensor_type(self._executor, tensor).shape for _, _, tensor in self.arrays.values()
        ]
        return max((self._recorder.sizes.hint(numel(shape)) for shape in shapes), default=0)

    def share(self, slot: int, other: int) -> bool:
        """Whether two operands may share memory."""
        heap = self._recorder.heap
        memories = {
            found: heap[tensor.identity].memory for found, _, tensor in self.arrays.values()
        }
        return slot == other or (bool(memories[slot]) and memories[slot] == memories[other])

    def given(self, slot: int) -> Value | None:
        """The array that is an operand; None: several share one."""
        found = [value for own, value, _ in self.arrays.values() if own == slot]
        return None if slot in self._doubtful or not found else found[0]

    def local(self, name: str) -> Any:
        """What a local of the frame holds, as a value of nests.

        Raises:
            NotNest: nothing, or what nests do not compute with.
        """
        value = self._frame.locals.get(name)
        if value is None:
            raise NotNest
        return self.convert(value)

    def convert(self, value: Value) -> Any:
        """A value of the capture as one of nests.

        Raises:
            NotNest: there is none.
        """
        known = self._converted.get(id(value))
        if known is None:
            known = self._converted[id(value)] = value, self._made_of(value)
        return known[1]

    def _made_of(self, value: Value) -> Any:
        recorder = self._recorder
        if isinstance(value, Constant):
            recorder.use(value)
            return self._literal(value.value, value)
        if isinstance(value, Scalar):
            is_int = value.python_type is int
            if is_int and not is_of_a_turn(value) and not recorder.sizes.varies(value):
                return Literal(recorder.specialise(value))
            return self._number(value)
        if isinstance(value, TupleValue) and value.cls is tuple:
            recorder.use(value)
            return Group(tuple(map(self.convert, value.items)))
        if isinstance(value, Known) and is_numpy_number(value.object):
            recorder.use(value)
            return self._known_number(value.object)
        if isinstance(value, Opaque) and value.python_type in CLASSES:
            return self._generator(value)
        left = counted_in(self._executor, value)
        if left is not None and value.python_type in (int, float):
            return self._left_number(value.python_type, left)
        return self._array(value) if is_array(value) else Outer(value)

    def _generator(self, value: Opaque) -> Generator:
        """A generator of random numbers, by whatever name it is known."""
        state = self._recorder.state_of(value)
        kind = value.python_type
        for slot, known in self.generators.items():
            if known.object is value.object:
                return Generator(slot, kind)
        if kind is random.Random:
            for method in _DRAWN_BY:
                if method in vars(value.object):
                    raise NotNest
                self._recorder.guard(value.source, Kind.INSTANCE_LACKS, method, "method")
        self.operands.append(state)
        slot = len(self.operands) - 1
        self.generators[slot] = value
        return Generator(slot, kind)

    def _literal(self, literal: Any, value: Value) -> Any:
        if type(literal) in (bool, int, float, complex, str, type(None)):
            return Literal(literal)
        if type(literal) is tuple:
            return Group(tuple(self._literal(item, constant(item)) for item in literal))
        return Outer(value)

    def _known_number(self, number: Any) -> Number | Complex:
        """A number of NumPy's that is the same in other calls."""
        dtype = dtypes.from_numpy(number.dtype)
        if dtype.name in COMPLEX_DTYPES:
            real = dtypes.real_of(dtype)
            parts = (number.real.item(), number.imag.item())
            return Complex(*(Number(part, real, False) for part in parts))
        if dtype.name not in DTYPES:
            raise NotNest
        return Number(number.item(), dtype, False)

    def _left_number(self, kind: Any, tensor: TensorValue) -> Number:
        """A number of Python's that another loop has left."""
        dtype = PYTHON_DTYPES[kind]
        held = self._recorder.graph_value(tensor)
        return Number(self._loaded(held, dtype), dtype, True, WHOLE)

    def _number(self, scalar: Scalar) -> Number:
        """A run-time number of Python's."""
        if scalar.python_type not in (int, float):
            raise NotNest
        dtype = dtypes.int64 if scalar.python_type is int else dtypes.float64
        lifted = self._recorder.lift_scalar(scalar)
        held = TABLE.full(lifted, shape=(), dtype=dtype, device=CPU)
        return Number(self._loaded(held, dtype), dtype, True, WHOLE)

    def _loaded(self, held: graph.Value, dtype: DType) -> Register:
        """The register of an operand without dims."""
        self.operands.append(held)
        slot = len(self.operands) - 1
        register = Register(f"{GIVEN}{slot}", dtype)
        self.numbers.append((slot, register))
        return register

    def _loaded_complex(self, held: graph.Value) -> Complex:
        parts = (TABLE.real(held), TABLE.imag(held))
        return Complex(*(Number(self._loaded(x, x.dtype), x.dtype, False) for x in parts))

    def _array(self, value: Any) -> Any:
        """An array, or a number of NumPy's."""
        machine = self._executor
        tensor = memory_in(machine, value)
        kind = tensor_type(machine, tensor)
        is_complex = kind.dtype.name in COMPLEX_DTYPES
        is_known = is_complex or kind.dtype.name in DTYPES
        if not is_known or kind.device != CPU or needs_gradient(machine, tensor):
            raise NotNest
        is_one = value.cls in (forms.FORMS[np.ndarray], forms.ODD_FORM)
        if not kind.rank:
            if is_one:
                raise NotNest
            held = self._recorder.graph_value(tensor)
            if is_complex:
                return self._loaded_complex(held)
            return Number(self._loaded(held, kind.dtype), kind.dtype, False)
        found = self.arrays.get(tensor.identity)
        if found is None:
            self.operands.append(as_floats(self._recorder.graph_value(tensor)))
            found = len(self.operands) - 1, value, tensor
            self.arrays[tensor.identity] = found
        slot = found[0]
        if found[1] is not value:
            self._doubtful.add(slot)
        sizes = tuple(
            Literal(size)
            if isinstance(size, int)
            else Number(Size(slot, dim), dtypes.int64, True, WHOLE)
            for dim, size in enumerate(kind.shape)
        )
        found_array = whole_array(slot, kind.dtype, sizes, flipped_dims(machine, value))
        return ListOf(found_array) if self.is_of_lists else found_array


def as_floats(held: graph.Value) -> graph.Value:
    """The memory of an operand as nests see it: complex numbers as pairs of floats."""
    return TABLE.view_as_real(held) if held.dtype.is_complex else held


__all__ = ["Inputs", "as_floats"]
