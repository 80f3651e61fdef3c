"""`bench SCRIPT`: a line for each function that the script compiled and called."""

import functools

import pytest

import dynajit as dj
from dynajit.commands import bench, command_line
from dynajit.driver.watching import watching
from dynajit.measuring.bench import uncompiled

PROGRAM = """
import dynajit as dj

@dj.compile
def scaled(x, *more, factor=2.0, **rest):
    return (x * factor + more[0]).sum() + rest["last"]

turns = iter([1])

@dj.compile
def once(x):
    return x + next(turns)

scaled(dj.ones(8), dj.ones(8), factor=3.0, last=1)
once(dj.ones(2))
"""


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(bench, "ROUND_S", 1e-4)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_each_function_has_a_line_and_what_fails_says_so(program, quick, capsys) -> None:
    assert 0 == command_line.main(["bench", program, "--rounds", "2"])

    rows = capsys.readouterr().out.strip().splitlines()
    assert ["function", "eager", "compiled"] == rows[0].split()
    assert rows[1].startswith("scaled") and rows[1].endswith("x")
    assert rows[2].startswith("once") and "cannot be called again: StopIteration" in rows[2]


def test_a_script_that_calls_nothing_is_told_so(tmp_path, capsys) -> None:
    path = tmp_path / "nothing.py"
    path.write_text("print(1)\n")

    assert 0 == command_line.main(["bench", str(path)])
    assert "called nothing that it compiled" in capsys.readouterr().err


def test_plain_calls_compile_nothing_of_what_they_call(quick) -> None:
    """A compiled function within one is plain in plain calls, too."""
    ran = []

    @dj.compile
    def within(x):
        ran.append(dj.compiler.is_compiling())
        return x * 2

    with watching() as found:

        @dj.compile
        def function(x):
            dj.graph_break()
            return within(x) + 1

        function(dj.ones(2))
    (watched,) = (one for one in found if one.call is not None)
    plain = functools.partial(watched.call.function, *watched.call.args)
    before = within.calls
    with uncompiled():
        assert [3, 3] == plain().tolist()

    assert before == within.calls and ran[-1] is False
    times = bench.measure(watched, watched.call, 2)
    assert {"eager", "compiled"} == set(times) and min(times.values()) > 0
