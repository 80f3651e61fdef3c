"""The programs and notebooks of `examples` run in small settings, without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.one_python


def run(program: str, *arguments: str) -> str:
    """What the program prints."""
    command = [sys.executable, "-W", "error", EXAMPLES / f"{program}.py", "--small", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "" == done.stderr
    assert 0 == done.returncode
    return done.stdout


def test_digits_are_learnt_alike_eager_and_compiled() -> None:
    eager, compiled = map(float, re.findall(r"accuracy (\S+)", run("digits")))

    assert 0.8 < eager
    assert eager == pytest.approx(compiled, abs=0.01)


@pytest.mark.parametrize("numbers", [(), ("--bf16",)], ids=["float32", "bfloat16"])
def test_gpt_goes_on_where_it_stopped(numbers: tuple[str, ...], tmp_path: Path) -> None:
    """To the last bit of the loss that is printed."""
    file = str(tmp_path / "gpt.pt")
    whole = run("gpt", *numbers)
    run("gpt", *numbers, "--checkpoint", file, "--until", "4")
    resumed = run("gpt", *numbers, "--checkpoint", file, "--resume")

    assert "goes on behind step 4" in resumed
    assert "1 graph, 0 breaks" in resumed
    assert whole.splitlines()[-1] == resumed.splitlines()[-1]


def test_workers_feed_the_convnet() -> None:
    printed = run("convnet")

    assert "on 360 images" in printed
    assert "0 breaks" in printed


def test_a_differential_equation_is_a_loss() -> None:
    """50 steps of thousands: the residual falls, and all is one graph."""
    printed = run("pinn")
    first, last = map(float, re.findall(r"residual ([\d.]+)", printed))

    assert last < first / 2
    assert "1 graph, 0 breaks" in printed


def test_an_operator_of_c_is_part_of_the_graph() -> None:
    printed = run("custom_operator")

    assert "1 graph, 0 breaks" in printed
    assert "gradients agree" in printed


def test_the_session_finds_three_faults() -> None:
    printed = run("debugging")

    assert "if scaled.abs().max() > 1" in (EXAMPLES / "debugging.py").read_text().splitlines()[25]
    assert "line 26:" in printed
    assert "recompiled 2 times for label" in printed
    assert "from 'train 1' to 'train 2'" in printed
    assert "nan" in printed
    assert 3 == printed.count("mended:")


def test_every_program_is_tried_and_told() -> None:
    """By a test of this file, and in the table of the folder's page."""
    tried = set(re.findall(r'run\("(\w+)"', Path(__file__).read_text()))
    page = (EXAMPLES / "README.md").read_text()

    assert set(PROGRAMS) == tried
    assert [] == [name for name in PROGRAMS if f"`{name}.py`" not in page]
    assert [] == [path.name for path in NOTEBOOKS if f"`notebooks/{path.name}`" not in page]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    """Every cell, in a kernel of its own, which stops at the first error."""
    pytest.importorskip("ipykernel")
    nbconvert = pytest.importorskip("nbconvert")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    runner = nbconvert.preprocessors.ExecutePreprocessor(timeout=300, kernel_name="python3")
    runner.preprocess(notebook, {"metadata": {"path": str(path.parent)}})

    printed = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    assert [] == [output for output in printed if output.get("name") == "stderr"]
    assert printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_results(path: Path) -> None:
    text = path.read_text()

    assert text.count('"outputs": []') == text.count('"cell_type": "code"') > 0
    assert text.count('"execution_count": null') == text.count('"cell_type": "code"')
