"""What a row of the table is: a program, its inputs, the work that it must do, and what is asked.

A case builds one callable per library from the same arrays. `measuring` checks that the callables
agree and times them. The modules `latency`, `pointwise`, `reductions` and `training` list the
cases of their group; `fresh_processes` has those that need a process of their own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.libraries import Library
from dynajit.measuring.machine import Work

Arrays = tuple[np.ndarray[Any, Any], ...]
Run = Callable[[], Any]
Build = Callable[[Library, Arrays], Run]


@dataclass(frozen=True, slots=True)
class Case:
    """One row.

    Args:
        name: of the row.
        group: the module that lists it.
        inputs: makes the arrays, the same in every process.
        builds: a family of programs (see `libraries`) and what makes a library's callable.
        work: for the roofline.
        ratio: asked of dynajit: time of torch.compile over its time.
        limit_s: asked of dynajit: seconds.
        asked: in words, what `ratio` and `limit_s` do not say.
        tolerance: largest difference of two results, relative to their largest magnitude.
        calls: results of so many calls are compared (steps of training).
        environment: variables that the process must start with.
    """

    name: str
    group: str
    inputs: Callable[[], Arrays]
    builds: Mapping[str, Build]
    work: Work = field(default_factory=Work)
    ratio: float | None = None
    limit_s: float | None = None
    asked: str = ""
    tolerance: float = 1e-4
    calls: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)

    def why_not(self, library: Library) -> str | None:
        """Why `library` has no part in this case, or None."""
        if library.family not in self.builds:
            return f"no {library.family} form of this case"
        return library.why_not_available()


def over_namespace(function: Callable[..., Any]) -> Build:
    """A program `function(m, *tensors)` for libraries whose functions have the same names."""

    def build(library: Library, arrays: Arrays) -> Run:
        m = library.namespace
        tensors = [library.tensor(array) for array in arrays]
        # Positional parameters, not *tensors: that is how users write it.
        by_count = {1: lambda x: function(m, x), 2: lambda x, y: function(m, x, y)}
        compiled = library.compile(by_count[len(tensors)])
        return lambda: library.finish(compiled(*tensors))

    return build


def over_tensors(function: Callable[..., Any]) -> Build:
    """A program `function(*tensors)` that needs no namespace."""

    def build(library: Library, arrays: Arrays) -> Run:
        tensors = [library.tensor(array) for array in arrays]
        compiled = library.compile(function)
        return lambda: library.finish(compiled(*tensors))

    return build
