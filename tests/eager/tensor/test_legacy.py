"""Classes by element type, `type`, `new` and `Variable`, against PyTorch."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

NAMES = [
    "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "LongTensor", "IntTensor",
    "ShortTensor", "CharTensor", "ByteTensor", "BoolTensor",
]  # fmt: skip


def of(library: Any, name: str) -> list[Any]:
    """What a class and the methods around it give."""
    made = getattr(library, name)([[1.7, 0.0], [-1.2, 3.0]] if name != "ByteTensor" else [[1, 2]])
    sized = getattr(library, name)(2, 3)
    ours = [isinstance(made, getattr(library, other)) for other in NAMES]
    return [
        made.float().tolist(), made.type(), tuple(sized.shape), str(sized.dtype).split(".")[1],
        ours, made.type("torch.LongTensor").tolist(), made.type(library.float64).type(),
        tuple(made.new(3, 1).shape), made.new([1, 0]).type(), made.is_cuda,
        made.type(getattr(library, name)).type(),
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_typed_classes_equal_pytorchs(name: str) -> None:
    """Data, sizes, `isinstance`, names."""
    assert of(torch, name) == of(dj, name)


def test_unknown_types_are_refused() -> None:
    """PyTorch's error."""
    with pytest.raises(ValueError, match="invalid type"):
        dj.ones(2).type("Foo")


def test_variables_are_tensors_without_history() -> None:
    """That share memory; every tensor is an instance."""
    for library in (torch, dj):
        x = library.ones(3, requires_grad=True)
        plain = library.autograd.Variable(x * 2)
        leaf = library.autograd.Variable(plain, requires_grad=True)
        leaf.sum().backward()

        assert [False, True] == [plain.requires_grad, leaf.is_leaf]
        assert isinstance(x, library.autograd.Variable)
        assert not isinstance(3, library.autograd.Variable)
        assert [1.0] * 3 == leaf.grad.tolist()
        plain[0] = 5
        assert 5 == leaf[0].item()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_limits_of_floating_types_equal_pytorchs(name: str) -> None:
    """And their text."""
    ours, theirs = dj.finfo(getattr(dj, name)), torch.finfo(getattr(torch, name))

    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert repr(ours) == repr(theirs)
    assert dj.finfo() == dj.finfo(dj.float32)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_limits_of_integer_types_equal_pytorchs(name: str) -> None:
    """And their text."""
    ours, theirs = dj.iinfo(getattr(dj, name)), torch.iinfo(getattr(torch, name))

    fields = ("bits", "max", "min", "dtype")
    assert [getattr(theirs, f) for f in fields] == [getattr(ours, f) for f in fields]
    assert repr(ours) == repr(theirs)


def test_limits_of_the_other_kind_are_refused() -> None:
    """With PyTorch's class of error."""
    for refused in (lambda t: t.finfo(t.int32), lambda t: t.iinfo(t.float32)):
        for library in (torch, dj):
            with pytest.raises(TypeError, match="requires"):
                refused(library)


def test_names_of_older_programs_are_captured() -> None:
    """`is_tensor`, `finfo`, `is_cuda`, `type_as` of a program with masks, in one graph."""

    def masked(x: Any, keep: Any) -> Any:
        if not dj.is_tensor(x) or x.is_cuda or dj.cuda.is_available():
            return x
        return x.masked_fill(~keep, dj.finfo(x.dtype).min) * dj.pi

    x, keep = dj.randn(3, 4), dj.tensor([True, False, True, True])
    compiled = dj.compile(masked, fullgraph=True)(x, keep)
    np.testing.assert_allclose(compiled.numpy(), masked(x, keep).numpy(), rtol=1e-6)


def test_is_tensor_is_true_for_tensors_only() -> None:
    """Not for their class."""
    values = [dj.ones(1), dj.nn.Parameter(dj.ones(1)), dj.Tensor, 3, np.ones(1), None]

    assert [True, True, False, False, False, False] == [dj.is_tensor(v) for v in values]


@pytest.mark.usefixtures("no_gpu")
def test_there_is_no_gpu() -> None:
    """What asks gets an honest answer, what needs one an error."""
    assert [False, 0, False] == [
        dj.cuda.is_available(), dj.cuda.device_count(), dj.cuda.is_initialized(),
    ]  # fmt: skip
    dj.cuda.manual_seed_all(3)
    dj.cuda.empty_cache()
    for name in ("synchronize", "current_device", "get_device_name"):
        with pytest.raises(RuntimeError, match="no GPU"):
            getattr(dj.cuda, name)()


def test_decorators_of_torchscript_pass_through() -> None:
    """`script` and `trace` with a warning."""

    def double(x: Any) -> Any:
        return x * 2

    with pytest.warns(UserWarning, match="no TorchScript"):
        assert dj.jit.script(double) is double
    with pytest.warns(UserWarning, match="no TorchScript"):
        assert dj.jit.trace(double, (dj.ones(1),)) is double
    assert dj.jit.ignore(double) is double
    assert dj.jit.ignore(drop=True)(double) is double
    assert not dj.jit.is_scripting()
