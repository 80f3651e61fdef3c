"""The command line as a whole: help, version, wrong arguments, errors that are one sentence."""

import contextlib
import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dynajit.commands import command_line, doctor
from dynajit.compat import version
from dynajit.core.errors import UnsupportedError

WRONG = [
    ([], "required: COMMAND"),
    (["nonsense"], "invalid choice: 'nonsense'"),
    (["doctor", "now"], "unrecognized arguments: now"),
    (["cache"], "required: ACTION"),
    (["cache", "shrink"], "invalid choice: 'shrink'"),
    (["explain"], "required: script"),
    (["explain", "no_such_script.py"], "no_such_script.py: there is no such file"),
    (["bench", "no_such_script.py"], "no_such_script.py: there is no such file"),
    (["bench", "--rounds", "0", __file__], "'0': expected a number from 1 to 1000"),
    (["explain", __file__, "--html", "/no/such/folder/x.html"], "a folder that exists"),
    (["doctor", "--", "x"], "nothing is expected behind `--`"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG, ids=[" ".join(a)[:40] for a, _ in WRONG])
def test_wrong_arguments_are_status_2_and_a_sentence(arguments, text, capsys) -> None:
    assert 2 == command_line.main(arguments)

    out, err = capsys.readouterr()
    assert "" == out
    assert text in err
    assert 1 == err.count("\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("command", command_line.COMMANDS)
def test_every_command_has_help(command, capsys) -> None:
    assert 0 == command_line.main([command, "--help"])
    assert command_line.COMMANDS[command].ABOUT in " ".join(capsys.readouterr().out.split())


def test_the_version_is_that_of_the_package(capsys) -> None:
    assert 0 == command_line.main(["--version"])
    assert f"dynajit {version.dynajit}\n" == capsys.readouterr().out


def test_what_the_library_refuses_is_one_sentence_and_status_1(monkeypatch, capsys) -> None:
    def refuse(asked):
        raise UnsupportedError("there is no such library.  Install it.")

    monkeypatch.setattr(doctor, "run", refuse)

    assert 1 == command_line.main(["doctor"])
    assert "dynajit doctor: there is no such library.  Install it.\n" == capsys.readouterr().err


def test_ctrl_c_ends_quietly(monkeypatch, capsys) -> None:
    def interrupt(asked):
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "run", interrupt)

    assert 130 == command_line.main(["doctor"])
    assert "" == capsys.readouterr().err


def test_the_module_runs_and_a_reader_that_leaves_early_is_no_error() -> None:
    run = subprocess.run(
        f"{sys.executable} -m dynajit --help | head -1",
        shell=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert run.stdout.startswith("usage: python -m dynajit")
    assert "" == run.stderr


def test_on_a_narrow_terminal_no_line_is_wider() -> None:
    """A real one: the command writes to a pseudo-terminal of 32 columns."""
    pty = pytest.importorskip("pty")
    main, other = pty.openpty()
    env = {**os.environ, "COLUMNS": "32", "LINES": "24"}
    with subprocess.Popen(
        [sys.executable, "-m", "dynajit", "doctor"], stdout=other, stderr=other, env=env
    ):
        os.close(other)
        text = b""
        with contextlib.suppress(OSError):  # the end, as Linux says it
            while part := os.read(main, 4096):
                text += part
    os.close(main)

    lines = text.decode().splitlines()
    assert any(line.startswith("ok  numpy") for line in lines)
    assert max(map(len, lines)) <= 32


def test_the_installed_script_is_this_function() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["dynajit"].partition(":")

    assert command_line.main is getattr(importlib.import_module(module), function)


def test_the_page_of_the_command_line_names_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()

    rows = {line.split()[1].strip("`") for line in page.splitlines() if line.startswith("| `")}
    assert {*command_line.COMMANDS, "--version"} == rows
