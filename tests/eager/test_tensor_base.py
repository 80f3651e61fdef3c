"""The C type: life, references, weak references, leaks, long chains."""

import gc
import resource
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

from dynajit.core.errors import ArgumentError, AutogradError
from dynajit.core.types import dtypes
from dynajit.eager import _tensor
from dynajit.eager.tensor.tensor import Tensor


def zeros(*shape: int) -> Tensor:
    return _tensor.wrap(np.zeros(shape, np.float32))


def test_wrap_shares_the_array() -> None:
    array = np.zeros(3, np.float32)

    assert _tensor.wrap(array).array is array


def test_wrap_turns_a_numpy_scalar_into_a_zero_dim_tensor() -> None:
    assert () == _tensor.wrap(np.float32(3)).shape


def test_wrap_refuses_what_is_no_array() -> None:
    with pytest.raises(ArgumentError, match="expected a NumPy or CuPy array, got list"):
        _tensor.wrap([1, 2])


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_dtype_is_the_singleton(dtype: dtypes.DType) -> None:
    assert dtype is _tensor.wrap(np.zeros(2, dtype.numpy)).dtype


def test_longlong_is_int64() -> None:
    assert dtypes.int64 is _tensor.wrap(np.zeros(2, np.longlong)).dtype


def test_shape_is_a_size_with_numel() -> None:
    shape = zeros(2, 3).shape

    assert ((2, 3), 6, "Size") == (shape, shape.numel(), type(shape).__name__)


def test_a_tensor_owns_one_reference_to_its_array() -> None:
    array = np.zeros(3)
    before = sys.getrefcount(array)
    tensor = _tensor.wrap(array)
    assert before + 1 == sys.getrefcount(array)
    del tensor

    assert before == sys.getrefcount(array)


def test_getters_do_not_leak_references() -> None:
    tensor = zeros(2, 3)
    tensor.requires_grad = True
    tensor.grad = zeros(2, 3)
    names = ("array", "_storage", "grad", "grad_fn", "dtype", "device", "hooks", "_base")
    for _ in range(3):
        counts = [sys.getrefcount(getattr(tensor, name)) for name in names]
    for _ in range(1000):
        for name in names:
            getattr(tensor, name)

    after = [sys.getrefcount(getattr(tensor, name)) for name in names]
    assert all(abs(a - b) < 10 for a, b in zip(counts, after, strict=True))


def test_weak_references_are_cleared() -> None:
    tensor = zeros(1)
    reference = weakref.ref(tensor)
    storage = weakref.ref(tensor._storage)
    del tensor

    assert (None, None) == (reference(), storage())


def test_a_cycle_through_an_attribute_is_collected() -> None:
    tensor = zeros(1)
    tensor.itself = tensor
    reference = weakref.ref(tensor)
    del tensor
    gc.collect()

    assert reference() is None


def test_a_cycle_through_grad_fn_is_collected() -> None:
    class Holder:
        pass

    holder = Holder()
    tensor = _tensor.wrap_output(np.zeros(1), holder, 0)
    holder.tensor = tensor
    reference = weakref.ref(tensor)
    del tensor, holder
    gc.collect()

    assert reference() is None


def test_a_chain_of_100000_nodes_is_freed_without_recursion() -> None:
    class Link:
        __slots__ = ("__weakref__", "before")

    tensor, first = None, None
    for _ in range(100_000):
        link = Link()
        link.before = tensor
        first = first or weakref.ref(link)
        tensor = _tensor.wrap_output(np.zeros(1), link, 0)
    del link, tensor

    assert first() is None


def test_exact_base_instances_are_freed_in_a_chain() -> None:
    last = None
    for _ in range(100_000):
        made = _tensor.TensorBase(np.zeros(1))
        made.hooks = {0: last}
        last = made
    reference = weakref.ref(last)
    del last, made

    assert reference() is None


def test_100000_tensors_leave_no_memory_behind() -> None:
    def work(count: int) -> None:
        for _ in range(count):
            tensor = _tensor.wrap(np.zeros(100))
            tensor.requires_grad = True
            tensor.grad = _tensor.wrap(np.zeros(100))
            view = _tensor.wrap_view(tensor.array, tensor, ())
            _tensor.rebase(view, None, 0)
            str(tensor.shape)

    work(1000)
    gc.disable()
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work(100_000)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finally:
        gc.enable()

    assert after - before < 8 * 1024  # KiB; a leak of the arrays alone would be 80 MB


def test_requires_grad_needs_a_floating_dtype() -> None:
    with pytest.raises(AutogradError, match="only Tensors of floating point"):
        _tensor.wrap(np.zeros(2, np.int64)).requires_grad = True


def test_bfloat16_may_require_grad() -> None:
    tensor = _tensor.wrap(np.zeros(2, ml_dtypes.bfloat16))
    tensor.requires_grad = True

    assert tensor.requires_grad


def test_requires_grad_of_a_result_cannot_be_switched_off() -> None:
    tensor = _tensor.wrap_output(np.zeros(1), object(), 0)
    with pytest.raises(AutogradError, match="leaf variables"):
        tensor.requires_grad = False


def test_replacing_metadata_moves_the_epoch() -> None:
    tensor = zeros(1)
    start = _tensor.metadata_epoch()
    tensor.array = np.ones(1, np.float32)
    middle = _tensor.metadata_epoch()
    tensor.requires_grad = True

    assert start < middle < _tensor.metadata_epoch()


def test_setting_requires_grad_to_what_it_is_keeps_the_epoch() -> None:
    tensor = zeros(1)
    start = _tensor.metadata_epoch()
    tensor.requires_grad = False

    assert start == _tensor.metadata_epoch()


@pytest.mark.parametrize("name", ["array", "_storage", "requires_grad"])
def test_fields_cannot_be_deleted(name: str) -> None:
    with pytest.raises(AttributeError, match="cannot be deleted"):
        delattr(zeros(1), name)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(2, np.float32), "expected to be a Tensor or None"),
        (_tensor.wrap(np.zeros(3, np.float32)), "different size"),
        (_tensor.wrap(np.zeros(2, np.float64)), "different type"),
    ],
    ids=["array", "size", "dtype"],
)
def test_grad_is_checked(value: object, message: str) -> None:
    with pytest.raises((ArgumentError, AutogradError), match=message):
        zeros(2).grad = value


def test_writes_are_counted_for_the_storage() -> None:
    base = zeros(2)
    view = _tensor.wrap_view(base.array[:1], base, ())

    assert _tensor.count_writes(view, 3) is view
    assert 3 == base._version == view._version
    with pytest.raises(TypeError):
        _tensor.count_writes(view, "x")
    with pytest.raises(TypeError):
        _tensor.count_writes(np.zeros(2), 1)


def test_what_holds_the_written_array_is_not_written_again() -> None:
    """Another array is left to the function that is given."""
    target, calls = zeros(2), []
    result = _tensor.wrap(target.array)

    def otherwise(*given: object) -> None:
        calls.append(given)

    _tensor.write_held(target, result, 2, otherwise)
    assert (2, []) == (target._version, calls)

    other = zeros(2)
    _tensor.write_held(target, other, 1, otherwise)
    assert (2, [(target, other, 1)]) == (target._version, calls)

    def failing(*given: object) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        _tensor.write_held(target, other, 1, failing)


def test_a_view_shares_storage_and_base() -> None:
    base = zeros(2)
    view = _tensor.wrap_view(base.array[:1], base, ())
    inner = _tensor.wrap_view(view.array, view, ())

    assert view._storage is base._storage
    assert base is view._base is inner._base


def test_a_subclass_has_its_own_constructor_arguments() -> None:
    class Named(Tensor):
        def __new__(cls, name: str) -> "Named":
            return Tensor._from_array(np.zeros(1), cls)

        def __init__(self, name: str) -> None:
            self.name = name

    assert "x" == Named("x").name
