"""Type stubs of modules whose functions are objects of C, of `Tensor`, whose methods come from
tables, and of the configuration, whose attributes are settings: what a type checker cannot read in
the source.

Contract: everything is read off the objects themselves (`__all__`, `inspect.signature`), so nothing
is written twice; what their annotations leave open is in the tables below. Written into a tree of
packages when a wheel is built, and by `make check`:

    python -m dynajit.report.stubs FOLDER     # FOLDER/dynajit/__init__.pyi and its kin

Other modules are read by type checkers as they are: `py.typed` says so.
"""

import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from dynajit.core.operators import BINARY, COMPARISONS

#: Modules of functions; the root and `Tensor` are made beside them.
OF_FUNCTIONS: Final = ("nn.functional", "linalg", "fft", "special")
TENSOR: Final = "dynajit.eager.tensor.tensor"
CONFIG: Final = "dynajit.core.process.config"

#: Functions and methods annotated with `Any` whose result need not be a tensor: it depends on the
#: arguments, or is of another kind. `Any` means a tensor everywhere else.
NO_TENSOR: Final = frozenset((
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "apply_", "as_subclass",
    "atleast_1d", "atleast_2d", "atleast_3d", "disable", "embedding_bag", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "gradient", "int_repr", "is_coalesced", "item", "load",
    "lu", "max", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices",
    "max_pool3d", "max_pool3d_with_indices", "median", "min", "module_load",
    "multi_head_attention_forward", "nanmedian", "nelement", "new", "nonzero", "numel", "numpy",
    "q_per_channel_axis", "q_scale", "q_zero_point", "qr", "size", "slogdet", "std_mean",
    "storage_type", "stride", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not",
    "sym_sum", "to_dlpack", "tolist", "type", "unique", "unique_consecutive", "var_mean", "where",
))  # fmt: skip

_STARS: Final[dict[Any, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_NUMBER: Final = "Tensor | _builtins.complex"
_HEAD: Final = """import builtins as _builtins
import collections.abc as _abc
import types as _types
from typing import Any as _Any
"""
_COMPILE: Final = """_F = _TypeVar("_F", bound=_abc.Callable[..., _Any])

@_overload
def compile(model: _F, *, {options}) -> _F: ...
@_overload
def compile(model: None = ..., *, {options}) -> _abc.Callable[[_F], _F]: ...
"""

_PROPERTIES: Final = {
    "shape": "Size", "dtype": "_Any", "device": "_Any", "ndim": "_builtins.int",
    "grad": "Tensor | None", "data": "Tensor", "requires_grad": "_builtins.bool",
    "real": "Tensor", "imag": "Tensor", "T": "Tensor", "mT": "Tensor", "H": "Tensor",
    "mH": "Tensor", "itemsize": "_builtins.int", "nbytes": "_builtins.int",
    "is_leaf": "_builtins.bool", "is_cuda": "_builtins.bool", "is_cpu": "_builtins.bool",
}  # fmt: skip
_OTHER_OPERATORS: Final = (
    "def __neg__(self) -> Tensor: ...",
    "def __pos__(self) -> Tensor: ...",
    "def __abs__(self) -> Tensor: ...",
    "def __invert__(self) -> Tensor: ...",
    "def __getitem__(self, key: _Any) -> Tensor: ...",
    "def __setitem__(self, key: _Any, value: Tensor | _builtins.complex) -> None: ...",
    "def __iter__(self) -> _abc.Iterator[Tensor]: ...",
    "def __len__(self) -> _builtins.int: ...",
    "def __contains__(self, value: _Any) -> _builtins.bool: ...",
    "def __bool__(self) -> _builtins.bool: ...",
    "def __int__(self) -> _builtins.int: ...",
    "def __index__(self) -> _builtins.int: ...",
    "def __float__(self) -> _builtins.float: ...",
    "def __complex__(self) -> _builtins.complex: ...",
    "def __hash__(self) -> _builtins.int: ...",
    "def __array__(self, dtype: _Any = ..., copy: _Any = ...) -> _Any: ...",
    "def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...",
)


class Stub:
    """The text of one stub. Mutable: names that annotations need are imported as they are met.

    Args:
        tensor: how `Tensor` comes into the module: a line of text.
    """

    def __init__(self, tensor: str) -> None:
        self.head = [_HEAD + tensor]
        self.imports: dict[str, str] = {}
        self.lines: list[str] = []

    def __str__(self) -> str:
        imports = [f"from {where} import {name}" for name, where in sorted(self.imports.items())]
        return "\n".join([*self.head, *imports, "", *self.lines, ""])

    def annotation(self, given: Any) -> str:
        """A type as text that means the same in the stub, whatever names the stub defines."""
        if given is None or given is type(None):
            return "None"
        if given == "Tensor" or getattr(given, "__name__", "") == "Tensor":
            return "Tensor"
        origin, arguments = typing.get_origin(given), typing.get_args(given)
        if origin in (typing.Union, types.UnionType):
            return " | ".join(dict.fromkeys(map(self.annotation, arguments)))
        if isinstance(origin, type) and origin.__module__ in ("builtins", "collections.abc"):
            return f"{self.annotation(origin)}[{self._arguments(arguments)}]"
        if not isinstance(given, type):
            return "_Any"
        if given.__module__ == "builtins":
            return f"_builtins.{given.__qualname__}"
        if given.__module__ == "collections.abc":
            return f"_abc.{given.__qualname__}"
        if not given.__module__.startswith("dynajit.") or "." in given.__qualname__:
            return "_Any"
        name = f"_{given.__module__.replace('.', '_')}_{given.__name__}"
        self.imports[f"{given.__name__} as {name}"] = given.__module__
        return name

    def _arguments(self, arguments: Iterable[Any]) -> str:
        return ", ".join(
            "..." if one is ... else f"[{self._arguments(one)}]" if isinstance(one, list)
            else self.annotation(one)
            for one in arguments
        )  # fmt: skip

    def result(self, name: str, given: Any) -> str:
        """The type of a result: what is annotated as anything is a tensor; see `NO_TENSOR`."""
        if given == tuple[Any, ...]:
            return "_builtins.tuple[Tensor, ...]"
        if given is Any:
            return "_Any" if name in NO_TENSOR else "Tensor"
        return "_Any" if given is inspect.Signature.empty else self.annotation(given)

    def function(self, name: str, function: Any, indent: str = "") -> None:
        """The line of a function or method."""
        signature = inspect.signature(function)
        written = ", ".join(self._parameters(signature, is_method=bool(indent)))
        result = self.result(name, signature.return_annotation)
        self.lines.append(f"{indent}def {name}({written}) -> {result}: ...")

    def _parameters(self, signature: inspect.Signature, is_method: bool) -> Iterator[str]:
        placed, starred = False, False
        for place, parameter in enumerate(signature.parameters.values()):
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                starred = True
                yield "*"
            if placed and parameter.kind is not parameter.POSITIONAL_ONLY:
                placed = False
                yield "/"
            placed = parameter.kind is parameter.POSITIONAL_ONLY
            star = _STARS.get(parameter.kind, "")
            starred = starred or star == "*"
            if is_method and not place and not star:
                yield "self"
                continue
            default = "" if parameter.default is parameter.empty else " = ..."
            yield f"{star}{parameter.name}: {self._taken(parameter)}{default}"

    def _taken(self, parameter: inspect.Parameter) -> str:
        """The type of a parameter; numbers may be tensors, as nearly everywhere."""
        given = parameter.annotation
        if given is parameter.empty or isinstance(given, str):
            return "_Any"
        return self.annotation(given)


def of_functions(module: types.ModuleType) -> str:
    """The stub of a module that holds functions."""
    stub = Stub(f"from {TENSOR} import Tensor\n")
    for name in module.__all__:
        _add(stub, name, getattr(module, name), module)
    stub.lines.append(f"__all__ = {list(module.__all__)!r}")
    return str(stub)


def of_root(package: types.ModuleType) -> str:
    """The stub of `dynajit`: functions, classes, constants and modules."""
    stub = Stub(
        "from typing import TypeVar as _TypeVar, overload as _overload\n"
        f"from {TENSOR} import Size as Size, Tensor as Tensor\n"
    )
    for name in package.__all__:
        if name == "compile":
            options = list(Stub("")._parameters(inspect.signature(package.compile), False))[2:]
            stub.lines.append(_COMPILE.format(options=", ".join(options)))
        elif name not in ("Tensor", "Size"):
            _add(stub, name, getattr(package, name), package)
    stub.lines += ["__version__: _builtins.str", f"__all__ = {list(package.__all__)!r}"]
    return str(stub)


def _add(stub: Stub, name: str, value: Any, module: types.ModuleType) -> None:
    """The lines of one public name."""
    if isinstance(value, types.ModuleType) and not _has_file(value.__name__):
        stub.lines.append(f"{name}: _types.ModuleType")
    elif isinstance(value, types.ModuleType):
        parent, _, own = value.__name__.rpartition(".")
        stub.imports[f"{own} as {name}"] = parent
    elif isinstance(value, type) and _is_found(value) and value.__module__ != module.__name__:
        stub.imports[f"{value.__name__} as {name}"] = value.__module__
    elif isinstance(value, type):
        stub.lines.append(f"{name}: _Any")
    elif callable(value) and hasattr(value, "__name__"):
        stub.function(name, value)
    else:
        stub.lines.append(f"{name}: {stub.annotation(type(value))}")


def _has_file(module: str) -> bool:
    """False for a module that `compat.finder` made, which type checkers do not find."""
    return getattr(sys.modules.get(module), "__file__", None) is not None


def _is_found(cls: type) -> bool:
    """True for a class that its module, in a file, has under its own name."""
    home = sys.modules.get(cls.__module__)
    return _has_file(cls.__module__) and getattr(home, cls.__name__, None) is cls


def of_tensor(module: types.ModuleType) -> str:
    """The stub of the module that defines `Tensor` and `Size`."""
    stub = Stub("")
    cls = module.Tensor
    stub.lines += ["class Size(_builtins.tuple[_builtins.int, ...]):"]
    stub.lines += ["    def numel(self) -> _builtins.int: ...", "", "class Tensor:"]
    stub.lines += [f"    {line}" for line in _operators(cls)]
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_"):
            continue
        if callable(getattr(cls, name)):
            stub.function(name, getattr(cls, name), "    ")
        else:
            is_read = isinstance(value, property) or inspect.isdatadescriptor(value)
            stub.lines.append(f"    {name}: {_PROPERTIES.get(name, '_Any') if is_read else '_Any'}")
    return str(stub)


def of_config(module: types.ModuleType) -> str:
    """The stub of the configuration: its source, and a line for each setting."""
    fields = inspect.get_annotations(module.Config)
    shown = {name: inspect.formatannotation(fields[name]) for name in module.SETTINGS}
    lines = [f"{name}: {text.replace('pathlib.', '')}" for name, text in shown.items()]
    return "\n".join([inspect.getsource(module), *lines, ""])


def _operators(cls: type) -> Iterator[str]:
    for name in (*sorted(BINARY), *COMPARISONS):
        ignored = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        for form in (f"__{name}__", f"__r{name}__", f"__i{name}__"):
            if hasattr(cls, form):
                yield f"def {form}(self, other: {_NUMBER}) -> Tensor: ...{ignored}"
    yield from _OTHER_OPERATORS


def write(folder: Path) -> list[Path]:
    """Write the stubs into a tree of packages, beside the modules.

    Args:
        folder: the tree; it has, or gets, the folder `dynajit`.
    """
    makers: dict[str, Callable[[types.ModuleType], str]] = {
        "dynajit": of_root, TENSOR: of_tensor, CONFIG: of_config,
    }  # fmt: skip
    makers |= {f"dynajit.{name}": of_functions for name in OF_FUNCTIONS}
    written = []
    for name, make in makers.items():
        module = importlib.import_module(name)
        path = folder.joinpath(*name.split("."))
        path = path / "__init__.pyi" if hasattr(module, "__path__") else path.with_suffix(".pyi")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Written by dynajit.report.stubs.\n{make(module)}")
        written.append(path)
    return written


if __name__ == "__main__":
    write(Path(sys.argv[1]))
