"""`explain SCRIPT`: every compiled function of a script, whatever the script does."""

import pytest

from dynajit.commands import command_line
from dynajit.driver.watching import watching

PROGRAM = """
import sys
import dynajit as dj

@dj.compile
def double(x):
    return (x * 2).sin()

@dj.compile
def broken(x):
    y = x + 1
    dj.graph_break()
    return y.exp()

network = dj.compile(dj.nn.Linear(3, 2))

@dj.compile
def never(x):
    return x

double(dj.ones(3)), broken(dj.ones(3)), network(dj.ones(1, 3))
print("arguments", sys.argv[1:])
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_every_function_that_was_called_is_explained(program, capsys) -> None:
    assert 0 == command_line.main(["explain", program, "7", "--", "--fast"])

    out = capsys.readouterr().out
    assert "arguments ['7', '--fast']\n" in out
    headings = [line for line in out.splitlines() if line.startswith("===")]
    assert ["=== double ===", "=== broken ===", "=== Linear ==="] == headings
    assert "double: 1 graph, 0 breaks" in out
    assert "broken: 2 graphs, 1 break" in out
    assert out.endswith("\nnever called: never\n")


def test_a_script_that_fails_is_explained_and_its_status_kept(tmp_path, capsys) -> None:
    path = tmp_path / "fails.py"
    path.write_text(
        "import dynajit as dj\ndj.compile(lambda x: x + 1)(dj.ones(2))\nraise SystemExit(5)\n"
    )

    assert 5 == command_line.main(["explain", str(path)])
    assert "<lambda>: 1 graph" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print(1)\n", "the script compiled nothing"),
        (
            "import dynajit as dj\n@dj.compile\ndef later(x):\n    return x\n",
            "what the script compiles was never called: later",
        ),
    ],
)
def test_a_script_without_compiled_calls_is_told_so(tmp_path, capsys, text, said) -> None:
    path = tmp_path / "nothing.py"
    path.write_text(text)

    assert 0 == command_line.main(["explain", str(path)])
    assert said in capsys.readouterr().err


def test_pages_are_written_one_for_each_function(program, tmp_path, capsys) -> None:
    assert 0 == command_line.main(["explain", program, "--html", str(tmp_path / "out.html")])

    names = {"out_1_double.html", "out_2_broken.html", "out_3_Linear.html"}
    assert names == {path.name for path in tmp_path.glob("*.html")}
    assert "double" in (tmp_path / "out_1_double.html").read_text()


def test_nobody_watches_afterwards(program, capsys) -> None:
    command_line.main(["explain", program])
    with watching() as found:
        pass

    assert [] == found
