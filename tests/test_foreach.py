"""Functions on lists of tensors against PyTorch."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ShapeError
from dynajit.namespaces.foreach import FUNCTIONS

VALUES = [np.linspace(0.1, 0.9, 4), np.linspace(0.2, 0.7, 6).reshape(2, 3), np.array(0.5)]
OTHERS = [np.array(value[::-1] if value.ndim else value * 2) for value in VALUES]
ARGUMENTS: dict[str, list[Any]] = {
    **{name: [(2.0,), ("list",), ([1.0, 2.0, 3.0],)] for name in ("add", "sub", "mul", "div")},
    **{name: [(0.4,), ("list",)] for name in ("clamp_max", "clamp_min", "maximum", "minimum")},
    "pow": [(2.0,), ("list",), ([1.0, 2.0, 3.0],)],
    "lerp": [("list", 0.25), ("list", "list")],
    "addcmul": [("list", "list"), ("list", "list", [1.0, 2.0, 3.0])],
    "addcdiv": [("list", "list"), ("list", "list", [1.0, 2.0, 3.0])],
    "copy_": [("list",)],
}


def cases() -> list[tuple[str, tuple[Any, ...]]]:
    """(name, arguments) of every function; "list" stands for a list of tensors."""
    found = []
    for name in sorted(FUNCTIONS):
        short = name.removeprefix("_foreach_")
        given = ARGUMENTS.get(short, ARGUMENTS.get(short.removesuffix("_"), [()]))
        found += [(name, arguments) for arguments in given]
    return found


@pytest.mark.parametrize(("name", "arguments"), cases())
def test_lists_are_computed_as_in_pytorch(name: str, arguments: tuple[Any, ...]) -> None:
    """Results, and the lists that are written."""
    torch = pytest.importorskip("torch")

    def run(library: Any) -> Any:
        first = [library.from_numpy(value.copy()) for value in VALUES]
        others = [library.from_numpy(value.copy()) for value in OTHERS]
        given = [others if a == "list" else a for a in arguments]
        result = getattr(library, name)(first, *given)
        assert isinstance(result, list if name.endswith("_") else tuple)
        return [x.tolist() for x in result], [x.tolist() for x in first]

    for expected, actual in zip(run(torch), run(dj), strict=True):
        for wanted, found in zip(expected, actual, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_lists_are_checked() -> None:
    """Empty ones, and those of different lengths."""
    with pytest.raises(ShapeError, match="at least one"):
        dj._foreach_add([], 1.0)
    with pytest.raises(ShapeError, match="same number"):
        dj._foreach_add([dj.ones(1)], [1.0, 2.0])
    assert [4.0] == dj._foreach_add([dj.ones(1)], [dj.ones(1)], alpha=3)[0].tolist()
    assert [8.0] == dj._foreach_pow(2.0, [dj.full((1,), 3.0)])[0].tolist()
    assert dj._VariableFunctionsClass._foreach_add is dj._foreach_add
