"""The exception tree: one root, and the built-in classes that PyTorch raises."""

import pytest

from dynajit.core import errors
from dynajit.core.errors import DynajitError

CLASSES = [c for c in vars(errors).values() if isinstance(c, type)]


def test_every_error_is_a_dynajit_error():
    assert len(CLASSES) > 12
    assert all(issubclass(c, DynajitError) for c in CLASSES)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ShapeError", RuntimeError), ("DTypeError", RuntimeError), ("DeviceError", RuntimeError),
        ("ArgumentError", TypeError), ("BoundsError", IndexError),
        ("DivisionError", RuntimeError), ("DivisionError", ZeroDivisionError),
        ("AutogradError", RuntimeError), ("UnsupportedError", NotImplementedError),
        ("GraphBreakError", RuntimeError), ("InternalError", AssertionError),
    ],
)  # fmt: skip
def test_code_written_for_pytorch_catches_it(name, builtin):
    with pytest.raises(builtin, match="why"):
        raise getattr(errors, name)("why")


def test_every_class_stands_in_the_drawn_tree_and_has_a_docstring():
    for c in CLASSES:
        assert c.__name__ in errors.__doc__
        assert c.__doc__
