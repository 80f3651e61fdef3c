"""PyTorch's paths that no file of their name answers: the table, and what is made of it."""

import ast
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import dynajit as dj
from dynajit.compat.names import BELOW, ELSEWHERE, HIDDEN, MOVED, PLACES
from dynajit.core.errors import UnsupportedError

ROOT = Path(dj.__file__).resolve().parent
ENGINES = [ROOT.parent / name for name in ("eager", "capture", "codegen")]


def test_no_file_lies_at_a_path_of_the_table() -> None:
    """The finder would hide it."""
    files = [ROOT.joinpath(*path.split(".")) for path in (*PLACES, *ELSEWHERE)]

    assert [] == [str(f) for f in files if f.with_suffix(".py").exists() or f.is_dir()]


def test_the_library_imports_from_where_things_are_defined() -> None:
    """Never by a path of the table, so that no import depends on the finder."""
    paths = {f"dynajit.{path}" for path in (*PLACES, *MOVED)}
    wrong = []
    for file in (path for folder in (ROOT, *ENGINES) for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            found: set[str] = set()
            if isinstance(node, ast.Import):
                found = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found = {f"{node.module}.{alias.name}" for alias in node.names}
                found.add(str(node.module))
            wrong += [f"{file.name}: {name}" for name in found & paths if not _is_file(name)]

    assert [] == wrong


def _is_file(name: str) -> bool:
    """A room that has the name of one of its modules, older than the room."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and spec.name == name and spec.has_location


@pytest.mark.parametrize("path", PLACES)
def test_a_module_holds_what_its_row_says(path: str) -> None:
    """And every listed name is there, with a docstring where it is a function."""
    module = importlib.import_module(f"dynajit.{path}")

    assert (f"dynajit.{path}", PLACES[path].about) == (module.__name__, module.__doc__)
    assert [] == [name for name in module.__all__ if name not in dir(module)]
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, FunctionType):
            assert inspect.signature(value) is not None and value.__doc__, name
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("path", ELSEWHERE)
def test_a_path_of_pytorchs_is_the_module_that_lies_elsewhere(path: str) -> None:
    module = importlib.import_module(f"dynajit.{path}")

    assert importlib.import_module(f"dynajit.{ELSEWHERE[path]}") is module
    assert module.__spec__.name == f"dynajit.{ELSEWHERE[path]}"


@pytest.mark.parametrize("older", [path for path in MOVED if path not in ELSEWHERE])
def test_an_older_name_is_the_module_itself(older: str) -> None:
    module = importlib.import_module(f"dynajit.{MOVED[older]}")

    assert importlib.import_module(f"dynajit.{older}") is module
    assert module.__name__ == f"dynajit.{MOVED[older]}" == module.__spec__.name


def test_kinds_of_attention_lie_beside_their_switches_too() -> None:
    assert dj.backends.cuda.SDPBackend is dj.nn.attention.SDPBackend


def test_what_lies_below_a_package_is_its_attribute_without_an_import() -> None:
    """In a process that imported the package alone; `dir` names it, too."""
    program = """
import importlib, sys, dynajit
from types import ModuleType
from dynajit.compat.names import BELOW, HIDDEN
for package, names in BELOW.items():
    module = dynajit
    for step in package.split(".") if package else ():
        module = getattr(module, step)
    for name in names:
        assert name in dir(module), (package, name)
        found = getattr(module, name)
        is_hidden = f"{package}.{name}" in HIDDEN
        assert is_hidden != isinstance(found, ModuleType), (package, name)
        path = f"dynajit.{package}.{name}".replace("..", ".")
        assert is_hidden or importlib.import_module(path) is found
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_module_never_takes_the_place_of_a_function() -> None:
    """Of the name that it has in its package: `HIDDEN` has them all."""
    for path in (*PLACES, *MOVED):
        importlib.import_module(f"dynajit.{path}")
    hiding = []
    for path in (*PLACES, *MOVED):
        package, _, name = f"dynajit.{path}".rpartition(".")
        if not isinstance(getattr(importlib.import_module(package), name), ModuleType):
            hiding.append(path)

    assert sorted(HIDDEN) == sorted(hiding)


def test_refused_names_raise_with_their_path() -> None:
    cases = [(path, why, name) for path, place in PLACES.items()
             for why, words in place.refused.items() for name in words.split()]  # fmt: skip
    assert len(cases) > 100
    for path, why, name in cases:
        refused = getattr(importlib.import_module(f"dynajit.{path}"), name)
        with pytest.raises(UnsupportedError) as caught:
            refused()
        assert why in str(caught.value) and f"{name}: " in str(caught.value)
        assert (f"dynajit.{path}", name) == (refused.__module__, refused.__qualname__)
        assert isinstance(refused, type) == name[0].isupper()
        assert pickle.loads(pickle.dumps(refused)) is refused


def test_every_other_name_of_an_opset_is_refused() -> None:
    opset = importlib.import_module("dynajit.onnx.symbolic_opset9")

    with pytest.raises(UnsupportedError, match=r"onnx\.symbolic_opset9\.relu: "):
        opset.relu()
    with pytest.raises(AttributeError):
        _ = opset.__wrapped__


def test_answers_are_functions_of_their_place() -> None:
    """With a signature of their own, and what they answer."""
    assert (False, 0, None) == (dj.xpu.is_available(), dj.mps.device_count(), dj.mps.manual_seed(3))
    assert ["seed"] == list(inspect.signature(dj.xpu.manual_seed).parameters)
    seed = dj.xpu.manual_seed
    assert ("manual_seed", "dynajit.xpu") == (seed.__name__, seed.__module__)
    assert not dj.xpu.is_bf16_supported() and dj.cpu.is_available()
    more = dj.compile(lambda x: x + dj.cpu.device_count(), fullgraph=True)
    assert [2, 2] == more(dj.ones(2)).tolist()


def test_tools_that_look_at_modules_can_look_at_these() -> None:
    """`inspect`, `pkgutil` and `importlib.reload`."""
    for path in ("mps", "nn.modules", "onnx.symbolic_opset9"):
        module = importlib.import_module(f"dynajit.{path}")
        assert importlib.reload(module) is module
        assert [] == list(pkgutil.iter_modules(getattr(module, "__path__", [])))
        assert "compat.names" in repr(module)
        with pytest.raises(TypeError, match="built-in"):
            inspect.getfile(module)
    assert sys.modules["dynajit.compat.futures"] is inspect.getmodule(dj.futures.Future)
    assert BELOW[""]


@pytest.mark.parametrize(
    ("module", "name", "found"),
    [
        ("dynajit.core.dtypes", "DType", type(dj.float32)),
        ("dynajit.core.device", "Device", dj.device),
        ("dynajit.eager.tensor", "Size", dj.Size),
        ("dynajit.eager.tape", "backward", dj.autograd.backward),
        ("dynajit.eager.sparse", "SparseTensor", type(dj.eye(2).to_sparse())),
        ("dynajit.eager.storages", "UntypedStorage", dj.UntypedStorage),
        ("dynajit.ops.reduction_functions", "ValuesIndices", dj.return_types.max),
        ("dynajit.ops.methods", "ElementwiseMethods", dj.Tensor.add),
        ("dynajit.nn.linear", "Linear", dj.nn.Linear),
        ("dynajit.nn.containers", "Sequential", dj.nn.Sequential),
        ("dynajit.futures", "Future", dj.futures.Future),
        ("dynajit.torch_version", "TorchVersion", type(dj.__version__)),
        ("dynajit.quantization", "QuantStub", dj.ao.quantization.QuantStub),
        ("dynajit.onnx", "TrainingMode", dj.onnx.TrainingMode),
        ("dynajit.export", "Dim", dj.export.Dim),
    ],
)
def test_a_pickle_with_older_names_loads(module: str, name: str, found: object) -> None:
    loaded = pickle.loads(f"c{module}\n{name}\n.".encode())
    if name == "ElementwiseMethods":
        loaded = loaded.add

    assert loaded is found
