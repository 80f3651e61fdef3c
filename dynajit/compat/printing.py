"""How tensors are written, by PyTorch's private path; defined in `eager.tensor.printing`.

Contract: the functions write a tensor as `repr` does.
"""

from collections.abc import Sequence
from typing import Any, Final

from dynajit.eager.tensor import printing


class _PrintOptions:
    """The choice of `set_printoptions`: its attributes are read and set."""

    def __getattr__(self, name: str) -> Any:
        try:
            return printing.get_printoptions()[name]
        except KeyError:
            raise AttributeError(f"there is no option {name!r} of printing") from None

    def __setattr__(self, name: str, value: Any) -> None:
        printing.set_printoptions(**{name: value})


PRINT_OPTS: Final = _PrintOptions()


def _tensor_str(self: Any, indent: int) -> str:
    """The elements alone, lines after the first indented."""
    return printing.format_elements(self, indent)


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """The whole text, with other elements where `tensor_contents` says."""
    return repr(self) if tensor_contents is None else f"tensor({tensor_contents})"


_str_intern = _str


def _add_suffixes(
    tensor_str: str, suffixes: Sequence[str], indent: int, force_newline: bool
) -> str:
    """Text and suffixes, which begin a line where the last one would be too long."""
    parts = [tensor_str]
    width = len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        needed = len(suffix) + len(", ")
        is_new_line = force_newline or width + needed > printing.get_printoptions()["linewidth"]
        parts.append(",\n" + " " * indent + suffix if is_new_line else f", {suffix}")
        width = indent + len(suffix) if is_new_line else width + needed
        force_newline = False
    return "".join([*parts, ")"])


__all__ = ["PRINT_OPTS"]
