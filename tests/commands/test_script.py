"""Scripts run as `python script.py` would run them: arguments, folder, status, traceback."""

import sys

import pytest

from dynajit.commands import script


@pytest.fixture
def write(tmp_path):
    def write(text, name="program.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_a_script_has_its_own_arguments_name_and_folder(write, capsys) -> None:
    write("VALUE = 7\n", "beside_it.py")
    path = write(
        "import sys\nfrom beside_it import VALUE\n"
        "print(__name__, sys.argv[1:], VALUE, sys.modules['__main__'].__name__)\n"
    )
    before = sys.argv, sys.path, sys.modules["__main__"]

    assert 0 == script.run(path, ["--epochs", "3"])

    assert "__main__ ['--epochs', '3'] 7 __main__\n" == capsys.readouterr().out
    assert before == (sys.argv, sys.path, sys.modules["__main__"])


@pytest.mark.parametrize(
    ("ending", "status", "text"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no data')", 1, "no data\n"),
    ],
)
def test_the_status_is_the_scripts(write, capsys, ending, status, text) -> None:
    assert status == script.run(write(f"import sys\n{ending}\n"), [])
    assert text == capsys.readouterr().err


def test_a_traceback_begins_in_the_script(write, capsys) -> None:
    path = write("def fail():\n    raise KeyError('lost')\n\nfail()\n")

    assert 1 == script.run(path, [])

    err = capsys.readouterr().err
    assert "KeyError: 'lost'" in err
    assert "runpy" not in err and f'File "{path}", line 4' in err


def test_a_script_that_is_no_python_says_where(write, capsys) -> None:
    assert 1 == script.run(write("def (:\n"), [])
    assert "SyntaxError" in capsys.readouterr().err
