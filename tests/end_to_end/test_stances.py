"""Stances, channels, the first-call summary, reproductions, reports of modules and of rests."""

import copy
import linecache
import pickle
import runpy
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.capture.execution import executor
from dynajit.report.breaks_page import breaks_page


def marked(x: Any) -> Any:
    """3 where it is compiled, 2 where it is plain Python."""
    return x * (3 if dj.is_compiling() else 2)


def test_a_function_without_tensors_knows_that_it_is_compiled() -> None:
    def within() -> bool:
        return dj.is_compiling()

    def breaking(x: Any) -> Any:
        dj.graph_break()
        return x, within()

    assert dj.compile(lambda x: dj.compiler.is_compiling(), backend="numpy")(3)
    assert dj.compile(lambda x: dj.is_compiling(), backend="numpy")(dj.ones(2))
    assert (3, True) == dj.compile(breaking, backend="numpy")(3)
    assert not dj.is_compiling()


@pytest.fixture
def compiled() -> Any:
    """`marked`, compiled for two elements."""
    function = dj.compile(marked, backend="numpy")
    function(dj.ones(2))
    return function


@pytest.fixture(autouse=True)
def default_again() -> Iterator[None]:
    """No stance or channel outlives its test."""
    before = dj.config.configure()
    yield
    dj.config.configure(stance=before.stance, log=before.log)


def value(result: Any) -> float:
    """The first element."""
    return float(result[0].item())


def test_force_eager_runs_plain_python_although_a_version_fits(compiled: Any) -> None:
    with dj.set_stance("force_eager"):
        assert 2.0 == value(compiled(dj.ones(2)))
    assert 3.0 == value(compiled(dj.ones(2)))


def test_an_override_of_disable_holds_for_compiled_versions(compiled: Any) -> None:
    with dj.config.override(disable=True):
        assert 2.0 == value(compiled(dj.ones(2)))
    assert 3.0 == value(compiled(dj.ones(2)))


def test_a_plain_call_of_set_stance_lasts_and_reaches_other_threads(compiled: Any) -> None:
    dj.compiler.set_stance("force_eager")
    seen: list[float] = []
    thread = threading.Thread(target=lambda: seen.append(value(compiled(dj.ones(2)))))
    thread.start()
    thread.join()
    assert [2.0] == seen


def test_eager_on_recompile_uses_what_there_is(compiled: Any) -> None:
    with dj.config.override(stance="eager_on_recompile"):
        assert 3.0 == value(compiled(dj.ones(2)))
        assert 2.0 == value(compiled(dj.ones(5)))
    assert 1 == compiled.report().entries


def test_fail_on_recompile_names_the_guard(compiled: Any) -> None:
    with dj.config.override(stance="fail_on_recompile"):
        assert 3.0 == value(compiled(dj.ones(2)))
        with pytest.raises(dj.errors.RecompileError, match=r"was \[2\], now \[5\]"):
            compiled(dj.ones(5))
        with pytest.raises(dj.errors.RecompileError, match="nothing has been compiled"):
            dj.compile(marked, backend="numpy")(dj.ones(2))


def test_set_stance_is_a_decorator_that_leaves_no_trace(compiled: Any) -> None:
    @dj.set_stance("force_eager")
    def function(x: Any) -> Any:
        return compiled(x)

    assert "default" == dj.config.current().stance
    assert 3.0 == value(compiled(dj.ones(2)))
    assert 2.0 == value(function(dj.ones(2)))
    assert 3.0 == value(compiled(dj.ones(2)))


def test_an_unknown_stance_is_refused() -> None:
    with pytest.raises(dj.errors.ArgumentError, match="Expected one of default, force_eager"):
        dj.set_stance("fast")
    assert "default" == dj.config.current().stance


def broken(x: Any) -> Any:
    y = x + 1
    z = y * y.sum().item()  # the break
    return z - 1


def test_the_summary_is_one_line_after_the_first_call(capsys: pytest.CaptureFixture[str]) -> None:
    with dj.config.override(log=frozenset({"summary"})):
        function = dj.compile(broken, backend="numpy")
        function(dj.ones(3))
        first = capsys.readouterr().err
        function(dj.ones(3))
        assert not capsys.readouterr().err
    assert 1 == len(first.splitlines())
    assert "broken: 2 graphs, 1 break, 67 % of 3 lines compiled" in first
    assert f"{Path(__file__).name}:{broken.__code__.co_firstlineno + 2}" in first


def test_the_report_counts_lines_and_graphs_of_the_rest() -> None:
    function = dj.compile(broken, backend="numpy")
    function(dj.ones(3))
    report = function.report()
    assert (2, 3, 2) == (report.graphs, report.lines, report.compiled_lines)
    assert "2 graphs; 2 of 3 user lines compiled (67 %)" in str(report)


def test_recompiles_of_the_rest_are_reported() -> None:
    scale = {"mode": "a"}

    def function(x: Any) -> Any:
        y = x * x.sum().item()
        return y + (1 if scale["mode"] == "a" else 2)

    compiled = dj.compile(function, backend="numpy")
    compiled(dj.ones(3))
    scale["mode"] = "b"
    compiled(dj.ones(3))
    (recompile,) = compiled.report().recompiles
    assert ("'a'", "'b'") == (recompile.old, recompile.new)


def test_set_logs_prints_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    dj.set_logs("recompiles", graph_breaks=True, guards=False)
    assert frozenset({"recompiles", "breaks"}) == dj.config.configure().log
    dj.set_logs()
    assert frozenset() == dj.config.configure().log
    with pytest.raises(dj.errors.ArgumentError, match="unknown channels"):
        dj.set_logs(noise=False)
    assert not capsys.readouterr().err


class Reporting(nn.Module):
    """A module with a `report` of its own."""

    def forward(self, x: Any) -> Any:
        return x * 2

    def report(self) -> str:
        return "mine"


def test_compiled_modules_report() -> None:
    layer = dj.compile(nn.Linear(2, 3), backend="numpy")
    layer(dj.ones(1, 2))
    assert (1, 1) == (layer.report().calls, layer.report().graphs)
    assert layer.guards()
    in_place = nn.Linear(2, 3)
    in_place.compile(backend="numpy")
    in_place(dj.ones(1, 2))
    assert 1 == in_place.report().calls
    assert "mine" == dj.compile(Reporting(), backend="numpy").report()


def test_copies_and_pickles_of_compiled_modules_have_no_reports() -> None:
    layer = dj.compile(nn.Linear(2, 3), backend="numpy")
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert [3, 2] == list(other.weight.shape)
        assert not hasattr(other, "report")


def test_an_internal_error_leaves_a_reproduction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(executor.Executor, "run", fail)
    function = dj.compile(scaled, backend="numpy")
    with dj.config.override(strict=False, dump=tmp_path):
        with pytest.warns(RuntimeWarning, match="defect of its own"):
            assert [6.0, 6.0] == function(dj.ones(2, requires_grad=True), 3, "sum").tolist()
        assert [6.0, 6.0] == function(dj.ones(2), 3, "sum").tolist()
    monkeypatch.undo()
    (program,) = tmp_path.glob("scaled_error/reproduction.py")
    text = program.read_text()
    assert "# KeyError: 'a defect'" in text
    assert "x = dj.ones(2, dtype=dj.float32, requires_grad=True)" in text
    assert "mode = 'sum'" in text
    runpy.run_path(str(program))  # the defect is gone: it runs


def scaled(x: Any, n: int, mode: str) -> Any:
    return x * n * 2 if mode == "sum" else x


def test_the_eager_backend_runs_lines_that_a_tracer_sees() -> None:
    function = dj.compile(lambda x: x.exp() + 1, backend="eager")
    function(dj.zeros(1))
    lines: list[str] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename.startswith("<dynajit graph"):
            lines.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert [2.0] == function(dj.zeros(1)).tolist()
    finally:
        sys.settrace(before)
    assert any(line.startswith("exp = ops.exp(") for line in lines)


def double_of(x: Any) -> Any:
    scratch = [x * 1]
    scratch.append(scratch[0] + x)
    return scratch[-1]


def test_an_allowed_function_that_asks_for_tensors_is_read() -> None:
    """What stands for a tensor in a graph is none: the call was a break."""

    @dj.allow_in_graph
    def checked(x: Any) -> Any:
        if not isinstance(x, dj.Tensor):
            raise TypeError("no tensor")
        return x * 3

    compiled = dj.compile(lambda x: checked(x + 1) - 1, fullgraph=True)
    for value in (1.0, 2.0):
        assert [value * 3 + 2.0] * 2 == compiled(dj.full((2,), value)).tolist()


def test_allowed_functions_are_called_with_graph_values() -> None:
    calls: list[str] = []

    @dj.allow_in_graph
    def allowed(x: Any) -> Any:
        calls.append(type(x).__name__)
        return double_of(x)

    function = dj.compile(lambda x: allowed(x) + 1, backend="numpy", fullgraph=True)
    assert [3.0] == function(dj.ones(1)).tolist()
    assert [3.0] == function(dj.ones(1)).tolist()
    assert ["Value"] == calls
    with pytest.raises(dj.errors.ArgumentError, match="expected a Python function"):
        dj.allow_in_graph(len)


def test_the_page_of_breaks_has_every_row() -> None:
    page = breaks_page()
    from_table = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert len(from_table) == len(set(from_table)) > 10
    assert "data_dependent_branch" in from_table
    assert "dj.where" in page
