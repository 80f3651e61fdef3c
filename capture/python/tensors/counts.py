"""Numbers and truths of Python's that the launch computes, as values.

They are instances of forms that hold a tensor (`capture.library.counts`). Python's ints have no
end, those of the graph do: what may be too large is not computed.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import counts as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.arrays import elements_of, made_like
from dynajit.capture.tensors.turns import is_of_a_turn, is_of_several_loops
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.numbers import FUNCTIONS
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Constant, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import STORED, Category, DType, bool_, float32, float64, int64
from dynajit.ir import graph
from dynajit.ops import TABLE
from dynajit.ops.calls.arguments import cast
from dynajit.ops.calls.contents import require

_FORMS: Final[dict[Any, Any]] = {int: forms.COUNT, float: forms.FLOAT, bool: forms.TRUTH}

#: Class of a number -> the dtype of its tensor.
DTYPES: Final[dict[Any, Any]] = {int: int64, float: float64, bool: bool_}

#: No int of a caller's that turns of a loop hand on is beyond: counters are far below.
LARGEST_OF_CALLS: Final = 1 << 40


#: Numbers that are known when the code runs, in a list or a tuple that a loop goes through, or
#: reads: each is an input of the graph.
MOST_OF_CALLS: Final = 256


def is_count(value: Value) -> TypeGuard[ObjectValue]:
    """True for a number or a truth that the launch computes."""
    return isinstance(value, ObjectValue) and any(value.cls is form for form in _FORMS.values())


def is_number(value: Value) -> bool:
    """True for an int, a float or a truth of Python's, computed or not."""
    return any(value.python_type is kind for kind in _FORMS)


def is_literal(value: Value) -> TypeGuard[Constant]:
    """True for an int, a float or a truth of Python's that is the same in all calls."""
    return isinstance(value, Constant) and any(type(value.value) is kind for kind in DTYPES)


def is_of_calls(value: Value | None) -> TypeGuard[Scalar]:
    """True for an int or a float of Python's that is known when the code runs."""
    return isinstance(value, Scalar) and value.python_type in (int, float)


def counted_in(machine: Machine, value: Value) -> TensorValue | None:
    """The tensor of a number that the launch computes; None for all other values."""
    if not is_count(value):
        return None
    machine.recorder.use(value)
    found = machine.heap[value.identity].written["tensor"]
    assert isinstance(found, TensorValue)
    return found


def new_count(machine: Machine, tensor: TensorValue, kind: Any) -> ObjectValue:
    """The int, float or truth that a tensor of one element holds."""
    contents = ObjectContents(None, {"tensor": tensor})
    return ObjectValue(machine.heap.allocate(contents), _FORMS[kind])


def asked_in_turns(
    machine: Machine, tensor: TensorValue, kind: Any = None, is_of_array: bool = False
) -> ObjectValue | None:
    """The number that a tensor of one element holds, where a turn of a loop that has many more asks
    for it: as one that the launch computes. None: Python must ask.

    Args:
        kind: the class that is asked for; None: that of the dtype.
        is_of_array: it is asked of an array of NumPy's, over that tensor.
    """
    if not machine.may_compute_numbers(is_of_array):
        return None
    held = machine.recorder.graph_value(tensor, is_detached=True)
    own = _classes_of(held.dtype)
    is_one = all(isinstance(size, int) and size == 1 for size in held.shape)
    if held.device is not CPU or not is_one or not own or kind not in (None, *own):
        return None
    asked = own[0] if kind is None else kind
    number = TABLE.clone(TABLE.reshape(TABLE.detach(held), shape=()))  # the tensor may be written
    return new_count(machine, machine.recorder.new_tensor(cast(number, DTYPES[asked])), asked)


def _classes_of(dtype: DType) -> tuple[Any, ...]:
    """Classes as which Python is given a number of a dtype, its own first; (): none is computed."""
    if dtype is bool_:
        return bool, int, float
    if dtype in STORED or dtype.category is Category.COMPLEX:
        return ()
    return (int, float) if dtype.category is Category.INTEGER else (float,)


def new_returned(machine: Machine, tensor: TensorValue) -> ObjectValue:
    """The complex number that a tensor of one element holds: only to be returned, since nothing is
    computed of it."""
    contents = ObjectContents(None, {"tensor": tensor})
    return ObjectValue(machine.heap.allocate(contents), forms.COMPLEX)


def held_number(machine: Machine, value: Value) -> graph.Value | None:
    """A number of Python's as one of the graph, of one element; None: it cannot be.

    Literals are relied on; of numbers that are known when the code runs only those of a turn are
    taken, which are found for all turns ahead, and floats.
    """
    recorder, kind = machine.recorder, value.python_type
    tensor = counted_in(machine, value)
    if tensor is not None:
        found: graph.Value = recorder.graph_value(tensor)
        return found
    given: Any
    if is_literal(value):
        if type(value.value) is int and abs(value.value) >= 1 << 61:
            return None
        recorder.use(value)
        given = value.value
    elif isinstance(value, Scalar) and kind is not bool:
        if kind is not float and not is_of_a_turn(value):
            return None
        given = recorder.lift_scalar(value)
    else:
        return None
    attributes = {"shape": (), "dtype": DTYPES[kind], "device": CPU}
    made: graph.Value = recorder.builder.handle(TABLE.full, (given,), attributes)
    return made


def held_number_of_calls(machine: Machine, value: Value) -> graph.Value | None:
    """The same, also of an int that is known when the code runs; None: it cannot be.

    One beyond `LARGEST_OF_CALLS` has the launch refuse its values.
    """
    if not is_of_calls(value) or value.python_type is float or is_of_a_turn(value):
        return held_number(machine, value)
    recorder = machine.recorder
    given = recorder.lift_scalar(value)
    made: graph.Value = TABLE.full(given, shape=(), dtype=int64, device=CPU)
    is_small = TABLE.le(made, LARGEST_OF_CALLS)
    require(TABLE.logical_and(is_small, TABLE.ge(made, -LARGEST_OF_CALLS)))
    recorder.intervals.note(made.node, (-LARGEST_OF_CALLS, LARGEST_OF_CALLS))
    return made


def are_of_calls(items: Sequence[Value]) -> bool:
    """Whether items are numbers of one class that are known when the code runs, not too many."""
    if not 1 < len(items) <= MOST_OF_CALLS or len({item.python_type for item in items}) > 1:
        return False
    return all(is_of_calls(item) and not is_of_a_turn(item) for item in items)


def table_of(machine: Machine, items: Sequence[Value]) -> graph.Value:
    """A tensor that holds such numbers."""
    held = [held_number_of_calls(machine, item) for item in items]
    rows = [TABLE.reshape(number, shape=(1,)) for number in held if number is not None]
    assert len(rows) == len(items)
    table: graph.Value = TABLE.cat(*rows, dim=0)
    return table


def number_of_table(machine: Machine, table: graph.Value, kind: Any, index: Scalar) -> ObjectValue:
    """One of the numbers that a table holds, by an index that differs between turns of a loop.

    The launch refuses its values where there is no such number.
    """
    recorder = machine.recorder
    given = recorder.lift_scalar(index)
    place = TABLE.full(given, shape=(1,), dtype=int64, device=CPU)
    found = TABLE.reshape(TABLE.index(table, place, dims=(0,)), shape=())
    if kind is int:
        recorder.intervals.note(found.node, (-LARGEST_OF_CALLS, LARGEST_OF_CALLS))
    return new_count(machine, recorder.new_tensor(found), kind)


def beside_other_loops(machine: Machine, a: Value, b: Value) -> Value:
    """The first of two operands; computed by the launch, where they are numbers of the turns of
    different loops: the body of neither has an input that is made of both."""
    held = held_number(machine, a) if is_of_several_loops(a, b) else None
    if held is None:
        return a
    return new_count(machine, machine.recorder.new_tensor(held), a.python_type)


def compared_in_turn(machine: Machine, symbol: str, a: Value, b: Value) -> ObjectValue | None:
    """A comparison of numbers of which one differs between the turns of a loop, as a truth that the
    launch computes; None for all others.

    Raises:
        GraphBreak: they are made of numbers of several loops, or of others that vary.
    """
    if not is_of_a_turn(a) and not is_of_a_turn(b):
        return None
    if not isinstance(a, (Constant, Scalar)) or not isinstance(b, (Constant, Scalar)):
        return None
    if not all(type(number.value) in (int, float) for number in (a, b)):
        return None
    for number in (a, b):
        machine.recorder.use_number(number)
    answer = FUNCTIONS[symbol](a.value, b.value)
    decided = Scalar(answer, None, (symbol, (a, b)))
    held = held_number(machine, Scalar(int(answer), None, ("int", (decided,))))
    assert held is not None
    truth = TABLE.ne(held, 0)
    if machine.recorder.turns:
        found = machine.recorder.of_turns_only(decided)
        machine.recorder.turns[-1].truths[truth.node] = found
    return new_count(machine, machine.recorder.new_tensor(truth), bool)


def computed_truth(machine: Machine, value: Value) -> ObjectValue | None:
    """`bool(value)` of a number that the launch computes, or that differs between the turns of a
    loop, as a truth that it computes; None for all others."""
    if not is_count(value):
        return compared_in_turn(machine, "!=", value, Constant(0))
    held = held_number(machine, value)
    assert held is not None
    if held.dtype is bool_:
        return value
    return new_count(machine, machine.recorder.new_tensor(TABLE.ne(held, 0)), bool)


def negated(machine: Machine, value: Value) -> ObjectValue | None:
    """`not value` of the same, likewise."""
    truth = computed_truth(machine, value)
    held = None if truth is None else held_number(machine, truth)
    if held is None:
        return None
    return new_count(machine, machine.recorder.new_tensor(TABLE.logical_not(held)), bool)


def converted_count(machine: Machine, value: ObjectValue, kind: Any) -> ObjectValue | None:
    """`int(number)` or `float(number)` of one that the launch computes; None: an int of a float, or
    one that may not fit an int64."""
    if value.python_type is kind:
        return value
    held = held_number(machine, value)
    if held is None or value.python_type is float or not fits(machine, held):
        return None
    return new_count(machine, machine.recorder.new_tensor(cast(held, DTYPES[kind])), kind)


def selected_count(
    machine: Machine, condition: graph.Value, a: Value, b: Value
) -> ObjectValue | None:
    """The one of two numbers of a class that a truth of the graph selects, as one that it computes.

    None: one is not known to the graph, or may not fit an int64.
    """
    if a.python_type is not b.python_type or condition.device is not CPU:
        return None
    first, second = held_number_of_calls(machine, a), held_number_of_calls(machine, b)
    if first is None or second is None:
        return None
    found = TABLE.where(condition, first, second)
    if not fits(machine, found):
        return None
    return new_count(machine, machine.recorder.new_tensor(found), a.python_type)


def fits(machine: Machine, value: graph.Value) -> bool:
    """Whether an int of the graph is the one that Python has, however large that is.

    In a turn that is tried it may not be known yet: it is asked of the loop that becomes of it.
    """
    if value.dtype is not int64:
        return True
    recorder = machine.recorder
    return bool(recorder.intervals.fits(value.node, bool(recorder.turns)))


def as_float_of(machine: Machine, value: Value, dtype: Any) -> TensorValue | None:
    """A number beside elements of a dtype of floats, as one of them; None: it is not known."""
    held = held_number(machine, value)
    if held is None or dtype not in (float32, float64) or held.dtype is bool_:
        return None
    if not fits(machine, held):
        return None
    made: TensorValue = machine.recorder.new_tensor(cast(cast(held, float64), dtype))
    return made


def as_stored(machine: Machine, value: Value, dtype: Any) -> Value:
    """A number that the launch computes, as a tensor to be written to elements of a dtype; other
    values, and numbers that Python may refuse to store there, as they are."""
    if not is_count(value):
        return value
    if dtype is int64 and value.python_type is int:
        return as_index(machine, value)
    found = as_float_of(machine, value, dtype)
    return value if found is None else found


def as_index(machine: Machine, value: Value) -> TensorValue:
    """An int that the launch computes, as what chooses a place.

    Raises:
        GraphBreak: it may not fit an int64.
    """
    found = counted_in(machine, value)
    assert found is not None
    if not fits(machine, machine.recorder.graph_value(found)):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "an index that a loop has counted")
    return found


def place_in_turn(machine: Machine, indexed: Value, index: Value) -> Value:
    """An index with tensors, on the device of what they index, for the ints that differ between the
    turns of a loop or that the launch computes.

    Raises:
        GraphBreak: such an int may not fit an int64.
    """
    if isinstance(index, TupleValue) and index.cls is tuple:
        items = tuple(place_in_turn(machine, indexed, item) for item in index.items)
        return index if items == index.items else TupleValue(items)
    if is_count(index) and index.python_type is int:
        return as_index(machine, index)
    if not isinstance(index, Scalar) or index.python_type is not int or not is_of_a_turn(index):
        return index
    recorder = machine.recorder
    device = recorder.graph_value(indexed).device if isinstance(indexed, TensorValue) else CPU
    number = recorder.lift_scalar(index)
    return recorder.new_tensor(TABLE.full(number, shape=(), dtype=int64, device=device))


def handed_on(machine: Machine, value: Value) -> TensorValue | None:
    """The tensor that a value is, or that it is over: an array of NumPy's, or a number that the
    launch computes; None for all other values."""
    found = counted_in(machine, value)
    return elements_of(machine, value) if found is None else found


def like(machine: Machine, value: Value, tensor: TensorValue) -> Value:
    """A tensor as it is, or what is over it, of the class that a value has."""
    if is_number(value):
        return new_count(machine, tensor, value.python_type)
    return made_like(machine, value, tensor)
