"""The closed table of graph breaks: one program per row."""

from types import FunctionType

import numpy as np
import pytest

from dynajit import eager
from dynajit.capture import breaks, control, executor, session
from dynajit.capture.breaks import BreakRecord
from dynajit.core.errors import GraphBreakError
from dynajit.core.location import Location
from dynajit.ops import functions as F

MARKER = object()


def endless(n):
    return n if n < 0 else endless(n + 1) + 1


def holds_itself(x):
    items = [x]
    items.append(items)
    return items


def raises(value):
    raise ValueError(value)


@control.disable
def disabled(v):
    return v


async def coroutine():
    return 1


PROGRAMS = {
    "data_dependent_branch": lambda x: x + 1 if x.sum() > 0 else x,
    "data_dependent_value": lambda x: x.sum().item(),
    "output": lambda x: input(),
    "unknown_call": lambda x: memoryview(b"a"),
    "unsupported_operation": lambda x: id(x + 1),
    "unsupported_attribute": lambda x: (lambda: 1).__globals__,
    "unsupported_code": lambda x: coroutine(),
    "tensor_mutation": lambda x: x.unfold(1, 2, 1).add_(1),
    "tensor_failure": lambda x: x @ x @ x,
    "user_exception": lambda x: raises(holds_itself(x)),
    "global_state": lambda x: eager.default_generator.manual_seed(1),
    "autograd_call": lambda x: x.sum().backward(),
    "hash_of_tensor": lambda x: {MARKER: x + 1},
    "recursion": lambda x: endless(0) + x,
    "requested": lambda x: disabled(x + 1),
}


def capture(name):
    x = eager.tensor(np.ones((2, 3), np.float32))
    with pytest.raises(GraphBreakError) as error:
        session.capture(PROGRAMS[name], (x,), fullgraph=True)
    return str(error.value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_row_is_named_with_line_and_hint(name):
    text = capture(name)
    row = breaks.TABLE[name]
    assert row.explanation in text
    assert row.hint in text
    assert "test_breaks.py:" in text


def test_graph_break_is_a_request():
    x = eager.tensor([1.0])

    def function(x):
        y = x + 1
        control.graph_break()
        return y * 2

    region = session.capture(function, (x,))
    assert "requested" == region.breaks[0].reason.name


def test_rows_of_statements():
    namespace = {"F": F}
    exec(  # statements that no lambda can hold
        "def class_inside(x):\n"
        "    class A: pass\n"
        "    return x + 1\n"
        "def import_inside(x):\n"
        "    import this_module_is_not_loaded\n"
        "    return x + 1\n",
        namespace,
    )
    x = eager.tensor([1.0])
    found = [
        session.capture(namespace[name], (x,)).breaks[0].reason.name
        for name in ("class_inside", "import_inside")
    ]
    assert ["class_definition", "import"] == found


def test_the_instructions_of_modules_are_not_supported():
    module = FunctionType(compile("name = 1", __file__, "exec"), {})
    region = session.capture(module, ())
    assert "unsupported_instruction" == region.breaks[0].reason.name


def test_too_many_instructions_are_a_break(monkeypatch):
    monkeypatch.setattr(executor, "MAX_INSTRUCTIONS", 100)

    def function(x):
        for _ in range(1000):
            x = x + 1
        return x

    region = session.capture(function, (eager.tensor([1.0]),))
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
