"""What the packages publish is exactly what their `__all__` lists."""

import ast
import importlib
import importlib.metadata
from pathlib import Path

import pytest

import dynajit
from dynajit.ops import functions

PUBLIC = [
    "dynajit",
    "dynajit._dynamo",
    "dynajit.accelerator",
    "dynajit._tensor",
    "dynajit.autograd",
    "dynajit.autograd.anomaly_mode",
    "dynajit.autograd.function",
    "dynajit.autograd.grad_mode",
    "dynajit.autograd.gradcheck",
    "dynajit.autograd.graph",
    "dynajit.autograd.variable",
    "dynajit.autograd.functional",
    "dynajit.autograd.profiler",
    "dynajit.backends.cuda",
    "dynajit.backends.cudnn",
    "dynajit.compiler",
    "dynajit.cuda",
    "dynajit.cuda.amp",
    "dynajit.cuda.amp.autocast_mode",
    "dynajit.cuda.amp.grad_scaler",
    "dynajit.distributed",
    "dynajit.distributed.distributed_c10d",
    "dynajit.distributed.fsdp",
    "dynajit.distributions",
    "dynajit.fft",
    "dynajit.func",
    "dynajit.hub",
    "dynajit.ao",
    "dynajit.ao.quantization",
    "dynajit.export",
    "dynajit.nested",
    "dynajit.nn.attention.flex_attention",
    "dynajit.utils.tensorboard",
    "dynajit.xpu",
    "dynajit._native_functions",
    "dynajit.masked",
    "dynajit.signal",
    "dynajit.signal.windows",
    "dynajit.mps",
    "dynajit.multiprocessing",
    "dynajit.overrides",
    "dynajit.profiler",
    "dynajit.quantization",
    "dynajit.distributions.constraints",
    "dynajit.distributions.transforms",
    "dynajit.distributions.utils",
    "dynajit.jit",
    "dynajit.jit.annotations",
    "dynajit.linalg",
    "dynajit.nn",
    "dynajit.nn.common_types",
    "dynajit.nn.functional",
    "dynajit.nn.modules",
    "dynajit.nn.modules.batchnorm",
    "dynajit.nn.modules.conv",
    "dynajit.nn.utils",
    "dynajit.nn.utils.clip_grad",
    "dynajit.nn.utils.convert_parameters",
    "dynajit.nn.utils.fusion",
    "dynajit.nn.utils.parametrizations",
    "dynajit.nn.utils.parametrize",
    "dynajit.nn.utils.prune",
    "dynajit.nn.utils.stateless",
    "dynajit.optim",
    "dynajit.optim.lr_scheduler",
    "dynajit.optim.swa_utils",
    "dynajit.random",
    "dynajit.return_types",
    "dynajit.serialization",
    "dynajit.testing",
    "dynajit.sparse",
    "dynajit.special",
    "dynajit.storage",
    "dynajit.torch_version",
    "dynajit.types",
    "dynajit.utils",
    "dynajit.utils._python_dispatch",
    "dynajit.utils._pytree",
    "dynajit.utils.checkpoint",
    "dynajit.utils.cpp_extension",
    "dynajit.utils.data",
    "dynajit.utils.data._utils",
    "dynajit.utils.data._utils.collate",
    "dynajit.utils.dlpack",
    "dynajit.utils.flop_counter",
    "dynajit.utils.summary",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_all_names_exist_once(name: str) -> None:
    """No name is listed twice or missing."""
    module = importlib.import_module(name)

    assert len(set(module.__all__)) == len(module.__all__)
    assert [] == [entry for entry in module.__all__ if not hasattr(module, entry)]


def test_every_library_function_is_published() -> None:
    """`dynajit.<name>` for each free function."""
    package = importlib.import_module("dynajit")

    assert [] == sorted(set(functions.__all__) - set(package.__all__))


def test_nothing_private_is_published() -> None:
    """Names with a leading underscore stay out."""
    package = importlib.import_module("dynajit")

    assert [] == [name for name in package.__all__ if name.startswith("_")]


def test_the_version_is_the_packages() -> None:
    """By both of PyTorch's paths."""
    package = importlib.import_module("dynajit")

    assert importlib.metadata.version("dynajit") == package.version.dynajit
    assert package.__version__ == package.version.__version__


def test_every_folder_of_modules_is_a_package() -> None:
    """setup.py installs what has an `__init__.py`, and no other folder."""
    from pathlib import Path

    root = Path(__file__).resolve().parent.parent
    modules = [
        path
        for folder in ("dynajit", "eager", "capture", "codegen")
        for path in (root / folder).rglob("*.py")
    ]
    assert [] == [str(path) for path in modules if not (path.parent / "__init__.py").is_file()]


def test_import_loads_nothing_heavy() -> None:
    """SciPy, networkx, scikit-learn and matplotlib are loaded when first needed."""
    import subprocess
    import sys

    heavy = ["scipy", "networkx", "sklearn", "matplotlib", "torch", "cupy"]
    code = f"import sys, dynajit; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_import_loads_no_compiler() -> None:
    """Capture, graphs and code generation come with the first `compile`."""
    import subprocess
    import sys

    parts = [
        "capture.entry.session",
        "capture.entry.cache",
        "ir.graph",
        "codegen.pipeline",
        "driver.backend",
    ]
    found = f"[p for p in {parts} if 'dynajit.' + p in sys.modules]"
    code = f"""import sys, dynajit as dj
print({found})
dj.nn.Linear(2, 3)(dj.ones(4, 2)).sum().backward()
print({found})
dj.compile(lambda x: x)
print({found} == {parts})"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ["[]", "[]", "True"] == done.stdout.split()


def test_a_compiled_function_may_be_the_first_to_ask_for_a_late_name() -> None:
    """Without a break: the name is imported while the call is captured."""
    import subprocess
    import sys

    code = """import sys, dynajit as dj
@dj.compile(fullgraph=True)
def f(x):
    return dj.special.expit(x) + dj.distributions.utils.logits_to_probs(x, True)
assert "dynajit.distributions" not in sys.modules
x = dj.linspace(-1, 1, 5)
assert dj.allclose(f(x), 2 * x.sigmoid())
assert dj.allclose(f(x), 2 * x.sigmoid())
print(dj.compile_stats()["graphs"])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "1" == done.stdout.strip()


@pytest.mark.parametrize("path", ["linalg.py", "nn/functional.py", "ops/functions/__init__.py"])
def test_type_checkers_are_told_the_modules_that_fill_a_namespace(path: str) -> None:
    """Once by an import that runs, and once by a star that only they read."""
    tree = ast.parse((Path(dynajit.__file__).parent / path).read_text())
    run = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    stars = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    }

    assert {name for name in run if name.startswith("dynajit.")} == stars
