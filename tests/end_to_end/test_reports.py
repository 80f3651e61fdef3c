"""explain, report, guards, logs and dumps say what happened, with the user's lines."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn

HERE = __file__


def line_of(function: Callable[..., Any], text: str) -> int:
    """Number of the line of `function` that contains `text`."""
    lines, start = inspect.getsourcelines(function)
    (found,) = (start + i for i, line in enumerate(lines) if text in line)
    return found


def helper(x: Any) -> Any:
    y = x.exp()  # in the helper
    return y.sum()


def broken(x: Any, n: Any) -> Any:
    z = helper(x * n)
    dj.graph_break()  # the break
    return z + n


class Network(nn.Module):
    """Two layers and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Any, target: Any) -> Any:
        hidden = F.gelu(self.first(x))  # first line
        return F.cross_entropy(self.second(hidden), target)  # second line


@pytest.fixture
def explained(tmp_path: Path) -> Any:
    """What explain says of `broken`, which no earlier run has compiled."""
    with dj.config.override(cache_dir=tmp_path):
        return dj.explain(broken)(dj.ones(3), 2.0)


def test_explain_has_what_it_promises(explained: Any) -> None:
    """Counts, breaks with place and hint, guards, graphs, kernels, stages."""
    assert 2 == explained.graph_count == len(explained.graphs)
    assert 1 == explained.break_count == len(explained.breaks) == explained.graph_break_count
    assert list(explained.breaks) == explained.break_reasons
    assert sum(len(graph.calls) for graph in explained.graphs) == explained.op_count > 0
    (found,) = explained.breaks
    assert HERE == found.file
    assert line_of(broken, "# the break") == found.line
    assert "the program asks" in found.reason
    assert found.hint.startswith("Remove the call")
    assert any("float32[3]" in guard for guard in explained.guards)
    assert 2 == len(explained.kernels)
    for kernel in explained.kernels:
        assert kernel.name in kernel.source
    assert {"capture", "emit", "passes", "fusion", "lowering", "compiler"} <= set(explained.stages)
    assert all(milliseconds >= 0 for milliseconds in explained.stages.values())


def test_explain_reads_well(explained: Any) -> None:
    """The text has every section; the dict survives JSON."""
    text = explained.full()

    assert text.startswith("broken: 2 graphs, 1 break, ")
    for part in ("graphs:", "breaks:", "guards:", "kernels:", "compile stages:", "Hint:"):
        assert part in text
    assert "dj.graph_break()  # the break" in text
    assert f"{Path(HERE).name}:{line_of(helper, '# in the helper')}" in text
    assert explained.to_dict() == json.loads(json.dumps(explained.to_dict()))


def test_explain_tells_the_peak_memory_of_each_program() -> None:
    """Results and temporaries of a call; nothing where sizes vary."""

    def function(x: Any) -> Any:
        return (x @ x).exp() @ x, x.sum()

    text = str(dj.explain(function)(dj.ones(16, 16)))
    x = dj.ones(16, 16)
    dj.mark_dynamic(x, 0)
    varying = str(dj.explain(lambda x: x.exp())(x))

    size = 16 * 16 * 4
    assert f"at its peak {size + 4} bytes of results and {2 * size} of temporaries" in text
    assert "at its peak" not in varying


def test_nodes_carry_the_innermost_user_line(explained: Any) -> None:
    """Not the line of the compiled function, nor one inside the library."""
    places = {node.op.name: node.location.line for node in explained.graphs[0].calls}

    assert line_of(broken, "helper(x * n)") == places["mul"]
    assert line_of(helper, "# in the helper") == places["exp"]
    assert line_of(helper, "y.sum()") == places["sum"]
    assert {HERE} == {node.location.file for node in explained.graphs[0].calls}


def test_nodes_of_modules_carry_lines_of_forward() -> None:
    """Layers are library code: the user's line is the one that calls them."""
    found = dj.explain(Network(), backend="numpy")(dj.ones(2, 4), dj.tensor([0, 2]))

    assert 1 == found.graph_count
    assert 0 == found.break_count
    lines = [node.location.line for node in found.graphs[0].calls]
    first, second = (line_of(Network.forward, f"# {which} line") for which in ("first", "second"))
    assert {first, second} == set(lines)
    assert first == lines[0]
    assert second == lines[-1]
    (record,) = found.records
    assert record.backward is not None
    assert {HERE} == {node.location.file for node in record.forward.calls}


def test_breaks_below_a_call_name_both_lines() -> None:
    """The innermost line, and the call that led to it."""

    def inner(x: Any) -> Any:
        return x * x.sum().item()  # the item

    def outer(x: Any) -> Any:
        y = x + 1
        return inner(y)  # the call

    found = dj.explain(outer, backend="numpy")(dj.ones(3))
    lines = [entry.line for entry in found.breaks]

    assert line_of(inner, "# the item") in lines
    assert any(str(line_of(outer, "# the call")) in entry.text for entry in found.breaks)


def test_explain_of_something_compiled() -> None:
    """The original is compiled afresh; the compiled function's own versions stay."""
    compiled = dj.compile(helper, backend="numpy")
    compiled(dj.ones(2))
    found = dj.explain(compiled, backend="numpy")(dj.ones(3))

    assert 1 == found.graph_count
    assert 1 == compiled.report().calls


def test_report_counts_and_explains_recompiles() -> None:
    """Calls, hits, versions; per recompile the guard, old and new value, and the line."""

    def scaled(x: Any, mode: str, table: Any) -> Any:
        y = x * 2  # the shape
        if mode == "add":  # the mode
            return y + table["bias"]
        return y

    compiled = dj.compile(scaled, backend="numpy", name="scaled")
    table = {"bias": 1}
    compiled(dj.ones(2), "add", table)
    compiled(dj.ones(2), "add", table)
    assert (2, 1, 1, ()) == _numbers(compiled.report())
    compiled(dj.ones(5), "add", table)
    compiled(dj.ones(5), "skip", table)
    compiled(dj.ones(5, dtype=dj.float64), "skip", table)
    compiled(dj.ones(5, requires_grad=True), "skip", table)
    report = compiled.report()
    shape, mode, dtype, gradient = report.recompiles

    assert (6, 1, 5) == (report.calls, report.hits, report.entries)
    assert "[2]" in shape.old
    assert "[5]" in shape.new
    assert "x" in shape.guard
    assert shape.location.endswith(f":{line_of(scaled, '# the shape')}")
    assert ("'add'", "'skip'") == (mode.old, mode.new)
    assert mode.location.endswith(f":{line_of(scaled, '# the mode')}")
    assert "float32" in dtype.old
    assert "float64" in dtype.new
    assert "requires_grad=False" in gradient.old
    assert "requires_grad=True" in gradient.new
    assert str(report).startswith("scaled: 6 calls, 1 hits, 5 versions, 4 recompiles")


def _numbers(report: Any) -> Any:
    return report.calls, report.hits, report.entries, report.recompiles


def test_report_has_breaks() -> None:
    """Each once, with the line."""
    compiled = dj.compile(broken, backend="numpy")
    compiled(dj.ones(2), 1.0)
    compiled(dj.ones(3), 1.0)
    (text,) = compiled.report().breaks

    assert f":{line_of(broken, '# the break')}" in text
    assert "Hint:" in text


def test_guards_are_python_texts() -> None:
    """One list per version; most of them can be read aloud."""
    compiled = dj.compile(helper, backend="numpy", dynamic=False)
    compiled(dj.ones(2))
    compiled(dj.ones(3))
    newest, oldest = compiled.guards()

    assert any("float32[3]" in text for text in newest)
    assert any("float32[2]" in text for text in oldest)


def test_methods_and_modules_have_reports() -> None:
    """Wherever `compile` puts the compiled function."""

    class Thing:
        @dj.compile(backend="numpy")
        def method(self, x: Any) -> Any:
            return x * 2

    thing = Thing()
    thing.method(dj.ones(2))
    assert 1 == thing.method.report().calls == Thing.method.report().calls
    bound = dj.compile(nn.Linear(2, 2).forward, backend="numpy")
    bound(dj.ones(1, 2))
    assert 1 == bound.report().calls


def test_statistics_of_the_process() -> None:
    """Graphs and breaks since the last reset."""
    dj.reset()
    dj.compile(broken, backend="numpy")(dj.ones(2), 1.0)
    found = dj.compile_stats()

    assert (2, 1) == (found["graphs"], found["breaks"])
    assert 1 == len(found["reasons"])
    dj.reset()
    assert {"graphs": 0, "breaks": 0, "reasons": []} == dj.compile_stats()


def test_log_channels(capsys: pytest.CaptureFixture[str]) -> None:
    """Every channel prints to stderr under its name; the rest is silent."""
    channels = {"breaks", "guards", "graph", "kernels", "recompiles", "perf"}
    for wanted in (channels, {"breaks"}, {"recompiles"}, set()):
        with dj.config.override(log=frozenset(wanted)):
            compiled = dj.compile(broken)
            compiled(dj.ones(2), 1.0)
            compiled(dj.ones(3), 1.0)
        printed = capsys.readouterr().err.splitlines()
        assert wanted == {line.split()[1].rstrip(":") for line in printed if line.strip()}
        assert all(line.startswith("dynajit ") for line in printed)


def test_a_wrong_log_channel_is_named() -> None:
    """The error lists the channels."""
    with pytest.raises(dj.errors.ArgumentError, match="Expected some of breaks"):
        dj.set_logs("everything")
    with pytest.raises(dj.errors.ArgumentError, match="expected some of breaks"):
        dj.config.log = "everything"


def test_dump_writes_a_folder_per_function(tmp_path: Path) -> None:
    """Bytecode, graphs, passes, C, breaks, guards."""
    network = Network()
    with dj.config.override(dump=tmp_path):
        dj.compile(broken)(dj.ones(2), 1.0)
        dj.compile(network)(dj.ones(2, 4), dj.tensor([0, 2])).backward()
    folders = sorted(path.name for path in tmp_path.iterdir())

    assert 3 == len(folders)
    first = tmp_path / "broken"
    assert "the break" in (first / "8_breaks.txt").read_text()
    assert "ops.exp" in (first / "1_graph.py").read_text()
    assert "LOAD" in (first / "0_bytecode.txt").read_text()
    assert "LOAD" in (first / "7_bytecode_new.txt").read_text()
    assert "float32[2]" in (first / "9_guards.py").read_text()
    assert "for (" in (first / "5_forward.c").read_text()
    (trained,) = (path for path in tmp_path.iterdir() if (path / "4_backward.py").exists())
    assert "for (" in (trained / "6_backward.c").read_text()
    assert (trained / "2_passes.txt").read_text()


def test_disable_runs_everything_eagerly() -> None:
    """`DYNAJIT_DISABLE`, `compile(disable=True)`, and the decorator `disable`."""
    with dj.config.override(disable=True):
        compiled = dj.compile(helper, backend="numpy")
        compiled(dj.ones(2))
        assert 0 == compiled.report().entries
    compiled(dj.ones(2))
    assert 1 == compiled.report().entries
    assert dj.compile(helper, disable=True) is helper

    @dj.disable
    def outside(x: Any) -> Any:
        return x * (2 if dj.is_compiling() else 3)

    assert [3.0] == dj.compile(lambda x: outside(x * 1) + 0, backend="numpy")(dj.ones(1)).tolist()
    inside = dj.compile(lambda x: x * (2 if dj.is_compiling() else 3), backend="numpy")
    assert [2.0] == inside(dj.ones(1)).tolist()


def test_a_requested_break() -> None:
    """`graph_break()` splits the graph where it stands."""

    def function(x: Any) -> Any:
        y = x * 2
        dj.graph_break()
        return y + 1

    found = dj.explain(function, backend="numpy")(dj.ones(2))

    assert (2, 1) == (found.graph_count, found.break_count)
    assert "the program asks" in found.breaks[0].reason


def _read_in_a_loop(x: Any, items: Any) -> Any:
    for item in items:
        x = x + item
        x.sum().item()
    return x


def test_a_loop_that_goes_on_after_its_break_is_not_one_more_break() -> None:
    """The rest of a broken loop stops at its real iterator: told apart, not counted."""
    dj.reset()
    compiled = dj.compile(_read_in_a_loop)
    for _ in range(2):
        assert [7.0] == compiled(dj.ones(1), [1.0, 2.0, 3.0]).tolist()
    assert 1 == len(compiled.report().breaks)
    assert "item()" in compiled.report().breaks[0]
    dj.reset()
    found = dj.explain(dj.compile(_read_in_a_loop))(dj.ones(1), [1.0, 2.0, 3.0])
    assert {"data_dependent_value"} == {entry.name for entry in found.breaks}
    assert ["loop_goes_on"] == [entry.name for entry in found.continued]
    assert found.continued[0].fundamental
    assert "remove the other break" in str(found)


def test_an_iterator_that_is_passed_is_a_break() -> None:
    dj.reset()
    found = dj.explain(lambda iterator: next(iterator))(map(str, [1]))
    assert ["unsupported_operation"] == [entry.name for entry in found.breaks]
    assert () == found.continued
