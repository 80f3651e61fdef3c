"""The closed table of graph breaks: a program for every row, and no row without one."""

from types import FunctionType

import numpy as np
import pytest

from dynajit import eager, func
from dynajit.autograd import Function
from dynajit.capture import breaks, control
from dynajit.capture.breaks import BreakRecord
from dynajit.capture.entry import session
from dynajit.capture.execution import executor
from dynajit.core.errors import GraphBreakError
from dynajit.core.location import Location
from dynajit.func import vmap
from dynajit.library import custom_op

MARKER = np.datetime64("2000-01-01")


def endless(n):
    return n if n < 0 else endless(n + 1) + 1


def holds_itself(x):
    items = [x]
    items.append(items)
    return items


@control.disable
def disabled(v):
    return v


async def coroutine():
    return 1


def class_inside(x):
    class Inside:
        pass

    return x + 1


def import_inside(x):
    import this_module_is_not_loaded

    return x + 1, this_module_is_not_loaded


def raises_what_cannot_be_rebuilt(x):
    table = {1: x}
    keys = iter(table)
    table[2] = x
    raise KeyError(keys)


#: The code of a module: its instructions are those of no function.
module = FunctionType(compile("name = 1", __file__, "exec"), {})


class Ending:
    def __del__(self):
        pass


class Undifferentiated(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


TRAINED = eager.tensor([1.0], requires_grad=True)

without_fake = custom_op(
    "tests_of_breaks::without_fake",
    lambda x: x.clone(),
    mutates_args=(),
    schema="(Tensor x) -> Tensor",
)


PROGRAMS = {
    "data_dependent_branch": lambda x: x + 1 if x.sum() > 0 else x,
    "data_dependent_value": lambda x: x.sum().item(),
    "output": lambda x: input(),
    "unknown_call": lambda x: memoryview(b"a"),
    "unsupported_operation": lambda x: id(x + 1),
    "unsupported_attribute": lambda x: (lambda: 1).__globals__,
    "unsupported_instruction": lambda x: module(),
    "unsupported_code": lambda x: coroutine(),
    "tensor_method": lambda x: x.data_ptr(),
    "tensor_mutation": lambda x: x.unfold(1, 2, 1).add_(1),
    "tensor_failure": lambda x: x @ x @ x,
    "custom_operator": lambda x: without_fake(x),
    "user_exception": raises_what_cannot_be_rebuilt,
    "global_state": lambda x: eager.default_generator.manual_seed(1),
    "autograd_call": lambda x: x.sum().backward(),
    "transform": lambda x: func.jvp(lambda a: a.mul_(2), (x * 1,), (x,)),
    "written_derivative": lambda x: Undifferentiated.apply(TRAINED),
    "mapped_call": lambda x: vmap(lambda row: row.mul_(2))(x),
    "unknown_hash": lambda x: {MARKER: x + 1},
    "object_ends": lambda x: Ending(),
    "limit": lambda x: list(x.reshape(6, 1).expand(6, 1001).t()),
    "recursion": lambda x: endless(0) + x,
    "class_definition": class_inside,
    "import": import_inside,
    "requested": lambda x: disabled(x + 1),
}


def capture(name):
    x = eager.tensor(np.ones((2, 3), np.float32))
    with pytest.raises(GraphBreakError) as error:
        session.capture(PROGRAMS[name], (x,), fullgraph=True)
    return str(error.value)


def test_every_row_has_a_program():
    """But those that take several calls (`tests/capture/test_churn.py`), and those that
    `fullgraph=True` does without (`tests/capture/execution/test_unrolled.py`)."""
    elsewhere = (breaks.LOOP_GOES_ON, breaks.CHANGES, breaks.LONG_LOOP, breaks.PLAIN_LOOP)
    rows = [row.name for row in breaks.TABLE if row not in elsewhere]
    assert rows == list(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_row_is_named_with_line_and_hint(name):
    text = capture(name)
    row = breaks.TABLE[name]
    assert row.explanation in text
    assert row.hint in text
    assert "test_breaks.py:" in text


def test_the_rest_of_a_broken_loop_says_so():
    """Its iterator is a parameter that no user can name."""

    def rest(iterator, x):
        for item in iterator:
            x = x + item
        return x

    arguments = (iter({1.0: None}), eager.tensor([1.0]))
    assert "unsupported_operation" == session.capture(rest, arguments).breaks[0].reason.name
    code = rest.__code__.replace(co_varnames=(".stack0", "x", "item"))
    (found,) = session.capture(FunctionType(code, {}), arguments).breaks
    assert found.reason is breaks.LOOP_GOES_ON
    assert found.follows


def test_graph_break_is_a_request():
    x = eager.tensor([1.0])

    def function(x):
        y = x + 1
        control.graph_break()
        return y * 2

    region = session.capture(function, (x,))
    assert "requested" == region.breaks[0].reason.name


def test_too_many_instructions_are_a_break(monkeypatch):
    monkeypatch.setattr(executor, "MAX_INSTRUCTIONS", 100)

    def function(x):
        for i in range(1000):
            x = (
                x + 1 if i % 37 else x @ x
            )  # turns with such arms, and no short period, are unrolled
        return x

    region = session.capture(function, (eager.tensor([[1.0]]),))
    assert "limit" == region.breaks[0].reason.name


def test_every_row_has_words():
    for row in breaks.TABLE:
        assert row.explanation[0].islower() or row.explanation.startswith("Python")
        assert row.hint.endswith(".")


def test_a_record_prints_line_caret_calls_and_hint():
    here = Location(__file__, 1, "f", 0, 3)
    record = BreakRecord(breaks.OUTPUT, "print()", here, (Location(__file__, 2, "g"),))
    text = str(record)
    assert f"at {__file__}:1" in text
    assert "^^^" in text
    assert f"called from {__file__}:2" in text
    assert text.endswith(breaks.OUTPUT.hint)
