"""Kernels that differ in names alone are one function.

Contract: layers of a model repeat; of equal kernels the first one's function is launched for all,
with the arguments of each, so that it is compiled once.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dynajit.codegen.cuda.units.steps import CudaKernel, Step

_TYPES: Final = (
    "float|double|u?int(?:8|16|32|64)_t|int|unsigned|bool|dj_half|dj_bfloat|dj_scalar|auto|char"
)
_DECLARED: Final = re.compile(
    rf"\b(?:{_TYPES}|dj_pack<[^>]*>) (?:\*?(?:const |__restrict__ )*)?(\w+)"
)
_WORD: Final = re.compile(r"\b[A-Za-z_]\w*")


def share_entries(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, in which equal kernels have the first one's entry and text."""
    first: dict[str, CudaKernel] = {}
    found: list[Step] = []
    for step in steps:
        if isinstance(step, CudaKernel):
            other = first.setdefault(without_names(step), step)
            step = replace(step, entry=other.entry, source=other.source)
        found.append(step)
    return tuple(found)


def without_names(kernel: CudaKernel) -> str:
    """The text of a kernel with the names that it declares numbered: equal texts compute the same.

    Other names (types, helpers, built-in variables) still tell texts apart.
    """
    own = {kernel.entry, *_DECLARED.findall(kernel.source)}
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        word = found[0]
        return numbers.setdefault(word, f"@{len(numbers)}") if word in own else word

    return _WORD.sub(number, kernel.source)
