"""The exception tree: one root, and the built-in classes that PyTorch raises."""

import pickle

import pytest

from dynajit.core import errors
from dynajit.core.errors import DynajitError

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and not issubclass(c, Warning)]


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


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_is_pickled_with_its_text(kind):
    error = pickle.loads(pickle.dumps(kind("why")))
    assert type(error) is kind
    assert ("why",) == error.args
    assert "why" == str(error)


@pytest.mark.parametrize(
    ("name", "kind", "builtin"),
    [
        (f"{kind.__name__.removesuffix('Error')}{builtin.__name__}", kind, builtin)
        for kind, builtins in [
            (errors.ShapeError, (ValueError, IndexError, TypeError)),
            (errors.DTypeError, (NotImplementedError, TypeError, ValueError, IndexError)),
            (
                errors.ArgumentError,
                (RuntimeError, ValueError, IndexError, NotImplementedError),
            ),
            (errors.InvalidValueError, (RuntimeError, TypeError)),
            (errors.BoundsError, (RuntimeError,)),
        ]
        for builtin in builtins
    ],
)
def test_a_class_named_after_a_kind_and_a_built_in_class_derives_from_both(name, kind, builtin):
    assert (kind, builtin) == getattr(errors, name).__bases__
