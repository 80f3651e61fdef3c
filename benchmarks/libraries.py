"""The contestants: how each library makes tensors, compiles a function, and gives results back.

A library is loaded when it is first used, so that a fresh process pays for the measured one only.
`families` of programs (the text that a library runs): `torch` for dynajit and PyTorch, `jax`,
`numpy`, `numba`, `c`. The cases of this folder and `benchmarks.fresh_child` use these objects.
"""

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Library:
    """One contestant.

    Args:
        name: how the command line calls it.
        family: which text of a program it runs.
        module: what it imports.
        compiles: `compile` makes something faster.
        optimizer_options: keyword arguments of `optim.Adam`.
        compile_options: `options` of `compile`.
    """

    name: str
    family: str
    module: str
    compiles: bool = False
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    compile_options: Mapping[str, Any] | None = None

    @property
    def namespace(self) -> ModuleType:
        """The module whose functions a program calls."""
        return importlib.import_module(self.module)

    def why_not_available(self) -> str | None:
        """Why this library cannot be measured here, or None."""
        if importlib.util.find_spec(self.module.partition(".")[0]) is None:
            return f"{self.module.partition('.')[0]} is not installed"
        return None

    def tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """The array as this library's tensor."""
        return array

    def compile(self, function: Function) -> Function:
        """The function as this library would run it in production."""
        return function

    def finish(self, result: Any) -> Any:
        """Wait until a result is there."""
        return result

    def array(self, value: Any) -> np.ndarray[Any, Any]:
        """A result as an array."""
        return np.asarray(value)

    def reset(self) -> None:
        """Forget what was compiled: the next case starts afresh."""

    def graphs(self) -> int | None:
        """How many graphs were compiled since `reset`, or None where the library does not say."""
        return None


class TensorLibrary(Library):
    """dynajit and PyTorch: one text, `compile` by name."""

    def tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """Shares the array's memory."""
        return self.namespace.from_numpy(array)

    def compile(self, function: Function) -> Function:
        """`compile(function)`, or the function itself in eager mode."""
        if not self.compiles:
            return function
        compiled: Function = self.namespace.compile(function, options=self.compile_options)
        return compiled

    def array(self, value: Any) -> np.ndarray[Any, Any]:
        """A tensor's values; numbers stay."""
        return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)

    def reset(self) -> None:
        """Compiled versions are dropped; PyTorch's caches of code objects, too."""
        if not self.compiles:
            return
        if self.module == "torch":
            self.namespace._dynamo.reset()
            importlib.import_module("torch._dynamo.utils").counters.clear()
        else:
            self.namespace.reset()

    def graphs(self) -> int | None:
        """Compiled graphs as the library counts them."""
        if not self.compiles:
            return None
        if self.module == "torch":
            counters = importlib.import_module("torch._dynamo.utils").counters
            return int(counters["stats"]["unique_graphs"])
        return int(self.namespace.compile_stats()["graphs"])


class JaxLibrary(Library):
    """JAX: `jit`, and results that are waited for."""

    @property
    def namespace(self) -> ModuleType:
        """`jax.numpy`."""
        return importlib.import_module("jax.numpy")

    def tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """A copy on JAX's device."""
        return self.namespace.asarray(array)

    def compile(self, function: Function) -> Function:
        """`jax.jit(function)`."""
        compiled: Function = importlib.import_module("jax").jit(function)
        return compiled

    def finish(self, result: Any) -> Any:
        """JAX answers before the work is done."""
        return importlib.import_module("jax").block_until_ready(result)

    def reset(self) -> None:
        """Compiled functions are dropped."""
        importlib.import_module("jax").clear_caches()


class NumbaLibrary(Library):
    """Numba: `njit` over the NumPy text."""

    def compile(self, function: Function) -> Function:
        """`numba.njit(function)`."""
        compiled: Function = importlib.import_module("numba").njit(function)
        return compiled


LIBRARIES: Final[Mapping[str, Library]] = {
    library.name: library
    for library in (
        TensorLibrary("dynajit", "torch", "dynajit", compiles=True),
        TensorLibrary(
            "dynajit-async", "torch", "dynajit", compiles=True, compile_options={"async": True}
        ),
        TensorLibrary("dynajit-eager", "torch", "dynajit"),
        TensorLibrary("torch-compile", "torch", "torch", compiles=True),
        TensorLibrary("torch-eager", "torch", "torch"),
        TensorLibrary(
            "torch-eager-fused", "torch", "torch", optimizer_options={"fused": True}
        ),
        JaxLibrary("jax", "jax", "jax", compiles=True),
        NumbaLibrary("numba", "numba", "numba", compiles=True),
        Library("numpy", "numpy", "numpy"),
        Library("libmvec", "c", "ctypes", compiles=True),
    )
}  # fmt: skip


def named(names: Sequence[str]) -> list[Library]:
    """Libraries by name.

    Raises:
        SystemExit: a name that is none of `LIBRARIES`.
    """
    unknown = [name for name in names if name not in LIBRARIES]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; choose from {', '.join(LIBRARIES)}")
    return [LIBRARIES[name] for name in names]


@contextlib.contextmanager
def fresh(library: Library) -> Iterator[None]:
    """Nothing compiled before is there inside, and nothing stays."""
    library.reset()
    try:
        yield
    finally:
        library.reset()
