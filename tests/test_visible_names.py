"""`dir` of public modules shows what is public, and a misspelt name says what is near."""

import contextlib
import importlib
import pickle
import pkgutil
import subprocess
import sys
import types
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import UnknownNameError
from dynajit.core.process import late
from tests.support.public_modules import PUBLIC_MODULES

SHOWN = [n for n in PUBLIC_MODULES if importlib.import_module(n).__name__ in late._refusing]


def is_part(module: types.ModuleType, name: str) -> bool:
    value = getattr(module, name)
    return isinstance(value, types.ModuleType) and value is sys.modules.get(
        f"{module.__name__}.{name}"
    )


@pytest.mark.parametrize("name", SHOWN)
def test_dir_is_what_all_lists(name: str) -> None:
    """And public modules within, which `import *` does not take."""
    module = importlib.import_module(name)
    further = {n for n in dir(module) if n[0] != "_" and n not in module.__all__}

    assert set() == {n for n in further if not is_part(module, n)} - PYTORCHS.get(name, set())
    assert set() == set(module.__all__) - set(dir(module))


#: Names of PyTorch's in these places, though they belong elsewhere.
PYTORCHS = {
    "dynajit": {"torch"},
    "dynajit.distributed": {"reduce_op"},
    "dynajit.nn.functional": {
        "handle_torch_function",
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
    },
}


@pytest.mark.parametrize(
    "name",
    ["math", "sys", "late", "paused", "aliases", "core", "capture", "eager", "report", "Any"],
)
def test_the_insides_are_not_shown(name: str) -> None:
    assert name not in dir(dj)
    assert name not in dj.__all__


def is_pythons(value: Any) -> bool:
    """True for modules, types and functions that are not the library's own."""
    home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
    return not str(home).startswith("dynajit")


#: Modules that import what another module of PyTorch's publishes, and do not publish it.
BORROWING = (
    "distributions.kl", "distributions.transforms", "distributions.utils", "nn.init",
    "nn.utils.rnn", "nn.utils.parametrizations", "nn.utils.parametrize", "optim.swa_utils",
    "utils.checkpoint",
)  # fmt: skip


def import_parts(ours: types.ModuleType, theirs: types.ModuleType) -> None:
    """Import what is within a package of ours, here and there: an import makes it an attribute."""
    for part in pkgutil.iter_modules(getattr(ours, "__path__", ())):
        for package in (ours, theirs):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{package.__name__}.{part.name}")


@pytest.mark.parametrize("name", SHOWN)
def test_names_of_pytorch_are_shown(name: str) -> None:
    """In every module that has them: `__all__` is complete."""
    pytest.importorskip("torch")
    ours = importlib.import_module(name)
    try:
        theirs = importlib.import_module(name.replace("dynajit", "torch", 1))
    except ImportError:
        pytest.skip("PyTorch has no such module")
    import_parts(ours, theirs)
    names = {n for n in dir(theirs) if n[0] != "_" and n in vars(ours)}

    if name.removeprefix("dynajit.") not in BORROWING:
        assert [] == sorted(n for n in names - set(dir(ours)) if not is_pythons(getattr(ours, n)))
    listed = {n for n in getattr(theirs, "__all__", ()) if n[0] != "_" and hasattr(ours, n)}
    assert [] == sorted(listed - set(ours.__all__))


def test_star_imports_work() -> None:
    names: dict[str, Any] = {}
    exec("from dynajit import *", names)

    assert names["add"] is dj.add
    assert names["relu_"] is dj.relu_


MISSPELT = {
    "": ("summ", "sum"),
    "nn": ("Linar", "Linear"),
    "nn.functional": ("sofmax", "softmax"),
    "nn.init": ("xavier_unform_", "xavier_uniform_"),
    "optim": ("Adm", "Adam"),
    "optim.lr_scheduler": ("StepRL", "StepLR"),
    "linalg": ("nrom", "norm"),
    "utils": ("checkpiont", "checkpoint"),
    "distributions": ("Normall", "Normal"),
}


@pytest.mark.parametrize("path", MISSPELT)
def test_a_misspelt_name_says_what_is_near(path: str) -> None:
    module = importlib.import_module(f"dynajit.{path}".rstrip("."))
    asked, near = MISSPELT[path]
    with pytest.raises(AttributeError) as caught:
        getattr(module, asked)

    expected = f"module {module.__name__!r} has no attribute {asked!r}.  Did you mean {near!r}?"
    assert expected == str(caught.value)
    assert asked == caught.value.name


def test_a_name_that_is_near_nothing_has_no_hint() -> None:
    with pytest.raises(AttributeError) as caught:
        dj.qqqqqqqq  # type: ignore[attr-defined]

    assert "module 'dynajit' has no attribute 'qqqqqqqq'" == str(caught.value)


def test_the_error_is_pickled_with_its_text() -> None:
    error = pickle.loads(pickle.dumps(late.unknown_name("dynajit", "summ")))

    assert UnknownNameError is type(error)
    assert "module 'dynajit' has no attribute 'summ'.  Did you mean 'sum'?" == str(error)


def test_programs_that_probe_for_names_look_for_nothing() -> None:
    """What is near is looked for when the text is asked for."""
    code = """import sys, dynajit as dj
assert not hasattr(dj, "summ") and getattr(dj.nn, "Linar", None) is None
assert not hasattr(dj.zeros(2), "trnspose")
print("difflib" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()


@pytest.mark.parametrize(
    ("expression", "near"),
    [
        ("dj.zeros(2).trnspose", "transpose"),
        ("dj.nn.Linear(2, 2).wieght", "weight"),
        ("dj.zeros(2).reshap", "reshape"),
    ],
)
def test_python_says_what_is_near_on_tensors_and_modules(expression: str, near: str) -> None:
    """By itself, where it prints the error: objects of C have no hook of their own, which would
    cost every attribute."""
    code = f"import dynajit as dj\n{expression}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert f"Did you mean: '{near}'?" in done.stderr


def test_the_hint_stands_there_once() -> None:
    """Python adds none of its own."""
    code = "import dynajit as dj\ndj.nn.Linar"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert 1 == done.stderr.count("Did you mean")


def probe(x: Any) -> Any:
    found = [hasattr(dj, "summ"), hasattr(dj.nn, "Linar"), getattr(dj.linalg, "nrom", 3)]
    try:
        dj.nn.functional.sofmax  # type: ignore[attr-defined]
    except AttributeError as error:
        found += [type(error).__name__, str(error)]
    return found, x + 1


def test_compiled_code_probes_and_misspells_as_plain_code() -> None:
    expected, _ = probe(dj.zeros(2))
    found, _ = dj.compile(probe, fullgraph=True)(dj.zeros(2))

    assert expected == found


def test_compiled_code_sees_a_name_that_is_set_later() -> None:
    def has(x: Any) -> Any:
        return x + 1 if hasattr(dj.nn, "OfThisTest") else x - 1

    compiled = dj.compile(has, fullgraph=True)
    assert -1 == compiled(dj.zeros(1)).item()
    dj.nn.OfThisTest = 1  # type: ignore[attr-defined]
    try:
        assert 1 == compiled(dj.zeros(1)).item()
    finally:
        del dj.nn.OfThisTest  # type: ignore[attr-defined]
