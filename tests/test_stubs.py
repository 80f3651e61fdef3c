"""Type checkers know tensors, functions, layers and compiled functions from the written stubs."""

import ast
import importlib
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dynajit as dj
from dynajit.report import stubs
from tests.support.typing.training_script import train

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "support" / "typing"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel holds it: engines within, stubs beside the modules."""
    folder = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("*.[ch]", "*.so", "*.o", "*.cpp", "__pycache__")
    shutil.copytree(ROOT / "dynajit", folder / "dynajit", ignore=ignored)
    for engine in ("eager", "capture", "codegen"):
        shutil.copytree(ROOT / engine, folder / "dynajit" / engine, ignore=ignored)
    stubs.write(folder)
    return folder


def wrong_lines() -> list[int]:
    """The lines of the file of mistakes that say so."""
    lines = (PROGRAMS / "mistakes.py").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# wrong")]


def test_the_training_script_runs() -> None:
    assert 0 < train(3) < 10


def test_stubs_stand_in_no_source_tree() -> None:
    """Where they would be read in the place of the modules."""
    assert [] == list((ROOT / "dynajit").glob("*.pyi"))
    assert not (ROOT / "eager" / "tensor" / "tensor.pyi").exists()
    assert (ROOT / "dynajit" / "py.typed").is_file()


@pytest.mark.parametrize("name", ["dynajit", *(f"dynajit.{n}" for n in stubs.OF_FUNCTIONS)])
def test_a_stub_defines_every_public_name_once(name: str) -> None:
    module = importlib.import_module(name)
    make = stubs.of_root if name == "dynajit" else stubs.of_functions
    defined: list[str] = []
    for node in ast.parse(make(module)).body:
        if isinstance(node, ast.ImportFrom):
            defined += [alias.asname for alias in node.names if alias.asname]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.append(node.target.id)
    public = [n for n in defined if not n.startswith("_") and n != "compile"]

    assert sorted(set(module.__all__) - {"compile"}) == sorted(public)


def test_the_stub_of_tensor_has_every_method_with_its_parameters() -> None:
    module = importlib.import_module(stubs.TENSOR)
    classes = [n for n in ast.parse(stubs.of_tensor(module)).body if isinstance(n, ast.ClassDef)]
    written = {n.name: n for n in classes[-1].body if isinstance(n, ast.FunctionDef)}
    for name in (n for n in dir(dj.Tensor) if n[0] != "_" and callable(getattr(dj.Tensor, n))):
        arguments = written[name].args
        found = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        parameters = list(inspect.signature(getattr(dj.Tensor, name)).parameters.values())
        expected = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        assert expected[1:] == found[1:], name


def schemas_of(name: str) -> list[list[str]]:
    """The types of the results of PyTorch's overloads of a function."""
    torch = pytest.importorskip("torch")
    found = []
    for prefix in ("", "linalg_", "special_", "fft_"):
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{name}")
        found += [s for s in schemas if not any(a.is_out for a in s.arguments)]
    is_scalar = {"float", "int", "complex", "Scalar", "number", "bool"}
    of_tensors = [s for s in found if str(s.arguments[0].type) not in is_scalar if s.arguments]
    return [[str(r.type) for r in s.returns] for s in of_tensors]


@pytest.mark.parametrize("path", ["", "Tensor", *stubs.OF_FUNCTIONS])
def test_what_the_stubs_call_a_tensor_is_one_in_pytorch(path: str) -> None:
    pytest.importorskip("torch")
    home = dj
    for part in filter(None, path.split(".")):
        home = getattr(home, part)
    stub, other = stubs.Stub(""), {}
    for name in dir(home):
        function = getattr(home, name)
        if name[0] == "_" or not callable(function) or inspect.isclass(function):
            continue
        given = inspect.signature(function).return_annotation
        if stub.result(name, given) != "Tensor":
            continue
        results = [r for r in schemas_of(name) if r != ["Tensor"]]
        if [r for r in results if len(r) != 1 or r[0] not in ("bool", "float", "int", "number")]:
            other[name] = results

    assert {n: other[n] for n in other if n not in OVERLOADS} == {}


#: Of PyTorch's overloads, some are for other arguments than tensors.
OVERLOADS = (
    "add", "add_", "all", "any", "dequantize", "mul", "mul_", "polar", "quantize_per_tensor",
    "select", "sum", "values",
)  # fmt: skip


def run_mypy(tree: Path, cache: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy")
    paths = [str(PROGRAMS / program) for program in programs]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *paths]
    command += [f"--cache-dir={cache}", "--no-error-summary", "--config-file="]
    environment = {**os.environ, "MYPYPATH": str(tree)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tree.parent)


@pytest.mark.slow
@pytest.mark.one_python
def test_mypy_accepts_the_training_script_and_finds_the_mistakes(
    tree: Path, tmp_path: Path
) -> None:
    """Strictly; in one run, most of which is reading dynajit."""
    done = run_mypy(tree, tmp_path, "training_script.py", "mistakes.py")
    found = re.findall(r"(\w+\.py):(\d+): error", done.stdout)

    assert "" == done.stderr
    assert {("mistakes.py", str(line)) for line in wrong_lines()} == set(found), done.stdout


@pytest.mark.slow
@pytest.mark.one_python
def test_pyright_accepts_the_training_script_and_finds_the_mistakes(
    tree: Path, tmp_path: Path
) -> None:
    program = shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed")
    for name in ("training_script.py", "mistakes.py"):
        shutil.copy(PROGRAMS / name, tmp_path)
    settings = {"extraPaths": [str(tree)], "reportUnusedExpression": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [program, "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    errors = [e for e in json.loads(done.stdout)["generalDiagnostics"] if e["severity"] == "error"]
    found = {(Path(e["file"]).name, e["range"]["start"]["line"] + 1) for e in errors}

    assert {("mistakes.py", line) for line in wrong_lines()} == found
