"""Imports go down the layers, never up, never in a cycle, never inside a function.

The layers are those of ARCHITECTURE.md. The walk reads every source file with `ast`; it does not
import anything, so a violation is found even in code that no test runs.
"""

import ast
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).resolve().parent.parent
ENGINES = {"eager": "dynajit.eager", "capture": "dynajit.capture", "codegen": "dynajit.codegen"}

# package prefix -> (layer, packages of the same layer that it may import)
LAYERS = {
    "dynajit.core": 0,
    "dynajit.ops": 1,
    "dynajit.ir": 2,
    "dynajit.eager": 3,
    "dynajit.codegen": 3,
    "dynajit.capture": 4,
    "dynajit.nn": 5,
    "dynajit.optim": 5,
    "dynajit.utils": 5,
    "dynajit.amp": 5,
    "dynajit.autograd": 5,
    "dynajit.distributions": 5,
    "dynajit.profiler": 5,
    "dynajit.fft": 5,
    "dynajit.linalg": 5,
    "dynajit.special": 5,
    "dynajit.testing": 5,
    "dynajit": 6,
}
# What a layer does not see although it lies below: see the table in ARCHITECTURE.md.
FORBIDDEN = {
    "dynajit.eager": {"dynajit.ir", "dynajit.codegen"},
    "dynajit.codegen": {"dynajit.eager"},
    "dynajit.capture": {"dynajit.codegen"},
    "dynajit.nn": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.optim": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.utils": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.testing": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.amp": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.special": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.fft": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.linalg": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.distributions": {"dynajit.ir", "dynajit.codegen", "dynajit.capture"},
    "dynajit.profiler": {"dynajit.ir", "dynajit.codegen"},
}

# Rooms of a package from the bottom up; "" are the modules beside them. A room sees those before it
# and itself, with the rooms inside it that are not named.
ROOMS = {
    "dynajit.core": ("", "types", "process", "arrays.gpu", "arrays"),
    "dynajit.ops": (
        "table", "calls", "rows", "rows.networks", "", "functions.shapes", "functions.elements",
        "functions.reductions", "functions.creation", "functions.matrices", "functions.arrangement",
        "functions.networks", "functions.signals", "functions", "methods",
    ),
    "dynajit.ir": ("", "transforms"),
    "dynajit.eager": (
        "modes", "tape", "operations", "backward", "tensor", "samples", "sparse", "files", ""
    ),
    "dynajit.codegen": (
        "loops", "plan", "c", "compilers", "cuda.units", "cuda", "run", "device", ""
    ),
    "dynajit.capture": (
        "", "bytecode", "values", "places", "guards", "tensors", "machine", "library", "python",
        "opcodes", "execution", "region", "emit", "entry",
    ),
}  # fmt: skip

# Rooms that use modules beside them, and are used by them.
WOVEN = {"dynajit.ir": ("passes",)}


def source_files() -> Iterator[tuple[str, Path]]:
    """(module name, file) of every source file of the package."""
    for folder in ("dynajit", *ENGINES):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            dotted = ".".join(parts)
            if folder in ENGINES:
                dotted = "dynajit." + dotted
            yield dotted.removesuffix(".__init__"), path


def package_of(module: str) -> str:
    """The longest prefix of `module` that is a layer."""
    while module and module not in LAYERS:
        module = module.rpartition(".")[0]
    return module


def late_module(node: ast.AST) -> str | None:
    """The module that `Late("dynajit.package.module")` stands for; None for any other node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Late":
        (name,) = node.args
        assert isinstance(name, ast.Constant), f"line {node.lineno}: Late takes a literal"
        return str(name.value)
    return None


def imports_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(imported module, line) for every import below `tree`, now or late."""
    for node in ast.walk(tree):
        late = late_module(node)
        if late is not None:
            yield late, node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import at line {node.lineno}"
            assert node.module is not None
            yield node.module, node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


@functools.cache
def modules_imported(path: Path) -> frozenset[str]:
    """Our modules that a file needs to load; `from package import module` is the module alone.

    Imports under `if TYPE_CHECKING:` name types and load nothing, so they make no cycle.
    """
    found = set[str]()
    tree = ast.parse(path.read_text())
    typing_only = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        late = late_module(node)
        if late is not None:
            found.add(late)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else str(node.module))
    return frozenset(found & MODULES)


FILES = list(source_files())
EXTENSIONS = {f"{name}.{path.stem}" for folder, name in ENGINES.items()
              for path in (ROOT / folder).glob("*.c")}  # fmt: skip
EXTENSIONS |= {
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "dynajit").rglob("_*.c")
}
MODULES = {name for name, _ in FILES} | EXTENSIONS


def why_not_importable(importer: str, imported: str) -> str | None:
    """Why a module may not import another one, or None where it may."""
    if imported.split(".")[0] in ENGINES:
        return f"the bare name {imported} loads a second copy"
    if not imported.startswith("dynajit"):
        return None
    here, there = package_of(importer), package_of(imported)
    if here == there:
        return None
    if there in FORBIDDEN.get(here, set()):
        return f"{here} does not import {there}"
    if LAYERS[there] > LAYERS[here]:
        return f"layer {LAYERS[here]} ({here}) imports layer {LAYERS[there]} ({there})"
    return None


@pytest.mark.parametrize(("module", "path"), FILES, ids=[name for name, _ in FILES])
def test_imports_go_down(module: str, path: Path) -> None:
    """No source file imports a higher layer or a sibling that it must not see."""
    tree = ast.parse(path.read_text())
    wrong = []
    for imported, line in imports_of(tree):
        known = imported if imported in MODULES or imported == "dynajit" else None
        reason = why_not_importable(module, known or imported.rpartition(".")[0] or imported)
        if reason and (known or imported.split(".")[0] in (*ENGINES, "dynajit")):
            wrong.append(f"{path.name}:{line}: {reason}")

    assert [] == wrong


def place_of(module: str, package: str) -> int:
    """Which room of a package a module lies in: the longest name counts."""
    inside = module.removeprefix(f"{package}.")
    rooms = ROOMS[package]
    fitting = [room for room in rooms if not room or f"{inside}.".startswith(f"{room}.")]
    room = max(fitting, key=len)
    is_woven = inside.startswith(tuple(f"{name}." for name in WOVEN.get(package, ())))
    is_found = room or is_woven or "." not in inside
    assert is_found, f"{module} is in no room of tests/test_layering.py"
    return rooms.index(room)


@pytest.mark.parametrize("package", ROOMS)
def test_imports_go_down_from_room_to_room(package: str) -> None:
    """C modules lie below all rooms; a package itself gathers what is in it."""
    wrong = []
    for module, path in FILES:
        if not module.startswith(f"{package}."):
            continue
        wrong += [
            f"{module} imports {imported}"
            for imported in sorted(modules_imported(path) - EXTENSIONS)
            if imported.startswith(f"{package}.")
            and place_of(imported, package) > place_of(module, package)
        ]

    assert [] == wrong


@pytest.mark.parametrize(("module", "path"), FILES, ids=[name for name, _ in FILES])
def test_no_import_inside_a_function(module: str, path: Path) -> None:
    """Heavy and optional libraries go through core.process.optional; everything else is at the
    top."""
    tree = ast.parse(path.read_text())
    inside = [
        f"{path.name}:{line}"
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for _, line in imports_of(function)
    ]

    assert [] == inside


def test_modules_that_load_late_exist() -> None:
    """And the test reads them: `compile` alone names several."""
    names = [
        name
        for _, path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if (name := late_module(node)) is not None
    ]

    assert "dynajit.capture.entry.session" in names
    assert [] == sorted(set(names) - MODULES)


def test_no_import_cycle() -> None:
    """The modules can be ordered so that each imports only earlier ones."""
    graph = {name: modules_imported(path) - {name} for name, path in FILES}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")

    assert len(order) >= len(FILES)


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("dynajit.core.types.value_types", "dynajit.ops"),
        ("dynajit.ir.graph", "dynajit.eager"),
        ("dynajit.codegen.pipeline", "dynajit.eager.tensor.tensor"),
        ("dynajit.capture.entry.session", "dynajit.codegen"),
        ("dynajit.nn.module", "dynajit"),
        ("dynajit.driver.compile", "codegen.pipeline"),
    ],
)
def test_an_upward_import_is_refused(importer: str, imported: str) -> None:
    """The rule itself can fail: these imports are not allowed."""
    assert why_not_importable(importer, imported) is not None


def foreign_modules(path: Path) -> set[str]:
    """Modules of other libraries that a file imports, now or by `optional.load`."""
    tree = ast.parse(path.read_text())
    found = {name for name, _ in imports_of(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("load", "optional.load"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant):
                found.add(str(name.value))
    return {name for name in found if not name.startswith("dynajit")}


def test_cupy_is_imported_in_one_file() -> None:
    """All others ask `core.arrays.gpu.runtime` for it."""
    importers = {
        module
        for module, path in FILES
        for name in foreign_modules(path)
        if name.partition(".")[0] in ("cupy", "cupyx")
    }

    assert {"dynajit.core.arrays.gpu.runtime"} == importers
