"""Programs that are hard on a compiler: plain Python's result or plain Python's error, always."""

import bdb
import sys
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result as lists and texts, or the error's class and text."""
    try:
        return shown(function(*arguments))
    except Exception as error:
        return type(error), str(error)


def shown(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Tensors as lists, containers item by item, cycles as their depth."""
    if isinstance(value, dj.Tensor):
        return value.tolist()
    if id(value) in above:
        return f"<cycle {len(above) - above.index(id(value))}>"
    if isinstance(value, (list, tuple)):
        return [shown(item, (*above, id(value))) for item in value]
    if isinstance(value, dict):
        return {key: shown(item, (*above, id(value))) for key, item in value.items()}
    return value


def check(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
    """Plain and compiled agree, three calls on fresh arguments each."""
    expected = [outcome(function, *make()) for _ in range(3)]
    compiled = dj.compile(function, backend="numpy")
    assert expected == [outcome(compiled, *make()) for _ in range(3)]


def test_functions_without_source() -> None:
    """Code that no file holds: captured, broken, and named in errors without a source line."""
    namespace: dict[str, Any] = {}
    exec(compile("def f(x):\n    y = x + 1\n    return y * y.sum().item()\n", "<nowhere>", "exec"),
         namespace)  # fmt: skip
    check(namespace["f"], lambda: (dj.ones(2),))
    with pytest.raises(dj.errors.GraphBreakError, match="<nowhere>:3"):
        dj.compile(namespace["f"], fullgraph=True, backend="numpy")(dj.ones(2))


def test_code_that_is_executed_inside() -> None:
    def function(x: Any) -> Any:
        scope = {"x": x * 2}
        exec("y = x + 1", scope)
        return scope["y"] + eval("3", {})

    check(function, lambda: (dj.ones(2),))


class NoInit(nn.Module):
    """Does not call the base class's __init__."""

    def __init__(self) -> None:
        self.ready = True

    def forward(self, x: Any) -> Any:
        return x * 2


class LateParts(nn.Module):
    """Makes its layer in the first call."""

    def forward(self, x: Any) -> Any:
        if not hasattr(self, "layer"):
            self.layer = nn.Linear(2, 2, bias=False)
            with dj.no_grad():
                self.layer.weight.fill_(2.0)
        return self.layer(x)


def test_modules_that_are_not_fully_made() -> None:
    blank = nn.Linear.__new__(nn.Linear)
    expected = outcome(lambda x: nn.Module.__call__(blank, x), dj.ones(2))
    assert expected[0] is AttributeError
    with pytest.raises(AttributeError):
        dj.compile(blank, backend="numpy")(dj.ones(1, 2))
    with pytest.raises(AttributeError):
        NoInit()(dj.ones(2))
    late = dj.compile(LateParts(), backend="numpy")
    for _ in range(3):
        assert [[4.0, 4.0]] == late(dj.ones(1, 2)).tolist()


def self_list() -> tuple[Any, ...]:
    items: list[Any] = [1]
    items.append(items)
    table: dict[str, Any] = {"items": items}
    table["self"] = table
    return dj.ones(2), items, table


def test_containers_that_contain_themselves() -> None:
    def function(x: Any, items: Any, table: Any) -> Any:
        items[1].append(x * 2)
        table["self"]["new"] = table
        made: list[Any] = [x + len(items)]
        made.append(made)
        return made, items, table

    check(function, self_list)


def test_a_hook_that_raises() -> None:
    def hook(module: Any, args: Any, output: Any) -> Any:
        raise KeyError("from the hook")

    model = nn.Linear(2, 2)
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(1, 2)
    expected = compiled(x).tolist()
    handle = model.register_forward_hook(hook)
    for _ in range(2):
        with pytest.raises(KeyError, match="from the hook"):
            compiled(x)
    handle.remove()
    assert expected == compiled(x).tolist()


class Loud:
    """Every access is counted, and some raise."""

    calls: list[str]

    def __init__(self) -> None:
        object.__setattr__(self, "calls", [])
        object.__setattr__(self, "value", 3)

    def __getattr__(self, name: str) -> Any:
        self.calls.append(f"getattr {name}")
        if name.startswith("missing"):
            raise AttributeError(name)
        return 5

    @property
    def loud(self) -> int:
        self.calls.append("property")
        return 7

    @property
    def broken(self) -> int:
        self.calls.append("broken")
        raise ValueError("broken property")

    def __eq__(self, other: object) -> bool:
        self.calls.append("eq")
        if other == "raise":
            raise TypeError("no comparison")
        return other is self

    def __hash__(self) -> int:
        self.calls.append("hash")
        return 11

    def __bool__(self) -> bool:
        self.calls.append("bool")
        return True


def reads(x: Any, loud: Loud) -> Any:
    return x * loud.value + loud.loud + loud.anything, loud.calls


def raises_in_property(x: Any, loud: Loud) -> Any:
    y = x * 2
    try:
        loud.calls.append(loud.broken)
    except ValueError as error:
        loud.calls.append(str(error))
    return y, loud.calls, hasattr(loud, "missing_name")


def compares(x: Any, loud: Loud) -> Any:
    found = [loud == loud, loud == 1, {loud: 1}.get(loud), bool(loud)]
    try:
        found.append(loud == "raise")
    except TypeError as error:
        found.append(str(error))
    return x + 1, found, loud.calls


@pytest.mark.parametrize("function", [reads, raises_in_property, compares])
def test_objects_whose_methods_have_effects(function: Any) -> None:
    """As many calls as in plain Python: neither guards nor the compiler make any."""
    check(function, lambda: (dj.ones(2), Loud()))


def with_break(x: Any, log: list[Any]) -> Any:
    y = x * 2
    log.append(y.sum().item())
    for i in range(2):
        y = y + i
        log.append(float(y[0]))
    return y


class Stepper(bdb.Bdb):
    """Steps through everything."""

    def user_line(self, frame: Any) -> None:
        self.set_step()


def traced(function: Callable[[], Any]) -> Any:
    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: None)
    try:
        return function()
    finally:
        sys.settrace(before)


def profiled(function: Callable[[], Any]) -> Any:
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: None)
    try:
        return function()
    finally:
        sys.setprofile(before)


def debugged(function: Callable[[], Any]) -> Any:
    before = sys.gettrace()
    try:
        return Stepper().runcall(function)
    finally:
        sys.settrace(before)


def monitored(function: Callable[[], Any]) -> Any:
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        pytest.skip("sys.monitoring is there from 3.12 on")
    tool, events = 3, monitoring.events
    monitoring.use_tool_id(tool, "test")
    try:
        for event in (events.LINE, events.PY_START, events.PY_RETURN):
            monitoring.register_callback(tool, event, lambda *_: None)
        monitoring.set_events(tool, events.LINE | events.PY_START | events.PY_RETURN)
        return function()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


@pytest.mark.parametrize("tool", [traced, profiled, debugged, monitored])
@pytest.mark.parametrize("is_warm", [False, True])
def test_under_a_tool_that_watches(tool: Any, is_warm: bool) -> None:
    """Compiled before or while the tool is active: the same result and effects."""
    expected_log: list[Any] = []
    expected = with_break(dj.ones(2), expected_log).tolist()
    compiled = dj.compile(with_break, backend="numpy")
    if is_warm:
        compiled(dj.ones(2), [])
    for _ in range(2):
        log: list[Any] = []
        assert expected == tool(lambda log=log: compiled(dj.ones(2), log)).tolist()
        assert expected_log == log
