"""The table of PyTorch's names says what is here."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import pytorch_names


def refused(x: Any) -> None:
    """Not here."""
    raise ValueError(f"refused({x})")


def abstract() -> None:
    """Defined by derived classes."""
    raise NotImplementedError("abstract")


def conditional(x: Any) -> Any:
    """Raises for some."""
    if x:
        raise ValueError("conditional")
    return x


class Refused:
    """A class that cannot be made."""

    def __init__(self) -> None:
        raise ValueError("Refused")


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("torch.nn.Linear", "present"),
        ("torch.Tensor.shape", "present"),
        ("torch.Tensor.__getitem__", "present"),
        ("torch.nn.Module.training", "present"),
        ("torch.utils.data.sampler.RandomSampler", "present"),
        ("torch.nn.functional", "present"),
        ("torch.nn._BatchNorm", "present"),
        ("torch.optim.ParamsT", "present"),
        ("torch.hub.load", "refused"),
        ("torch.no_such_name", "missing"),
        ("torch.nn.NoSuchLayer.forward", "missing"),
        ("torch.Tensor.no_such_method", "missing"),
        ("torch.float32.no_such_field", "missing"),
    ],
)
def test_a_name_is_looked_up_through_modules_and_classes(name: str, state: str) -> None:
    """The first part stands for the package, which inner modules are part of."""
    assert state == pytorch_names.state_of(name)


def test_only_what_always_raises_is_refused() -> None:
    """Abstract methods and C functions are not."""
    values = [refused, Refused, abstract, conditional, len, 3, lambda: 1]

    assert [True, True, False, False, False, False, False] == [
        pytorch_names.refuses(value) for value in values
    ]


def test_the_page_counts_the_states(tmp_path: Path) -> None:
    """Of the most used names, and of all."""
    (tmp_path / "names.tsv").write_text(
        "rank\tname\tprograms\tother\n1\ttorch.cat\t9\t\n2\ttorch.nope\t3\t1\n"
        "401\ttorch.hub.load\t1\t\n"
    )
    page = pytorch_names.table(pytorch_names.read(tmp_path / "names.tsv"))

    assert "| the 400 most used | 2 | 1 | 0 | 1 | 50.0% |" in page
    assert "| all | 3 | 1 | 1 | 1 | 33.3% |" in page
    assert "| 2 | `torch.nope` | 3 | missing |" in page
