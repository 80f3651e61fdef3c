"""The Tensor class: construction, conversion, protocols, copying."""

import copy
import pickle

import numpy as np
import pytest

from dynajit.core.errors import ArgumentError, AutogradError, DeviceError, ShapeError
from dynajit.core.types import dtypes
from dynajit.eager.tensor.creation import empty, from_numpy, tensor
from dynajit.eager.tensor.tensor import Size, Tensor
from dynajit.ops.table.op_table import TABLE


def test_the_constructor_converts_to_float32() -> None:
    assert (dtypes.float32, [1.0, 2.0]) == (Tensor([1, 2]).dtype, Tensor([1, 2]).tolist())


def test_the_constructor_takes_sizes() -> None:
    assert ((2, 3), (0,)) == (Tensor(2, 3).shape, Tensor().shape)


def test_the_constructor_shares_memory_with_a_tensor() -> None:
    x = tensor([1.0])

    assert Tensor(x).data_ptr() == x.data_ptr()


def test_subclasses_survive_copying_and_operations() -> None:
    class Special(Tensor):
        pass

    x = Special([1.0, 2.0])
    x.note = ["kept"]
    copied = copy.deepcopy(x)

    assert (Special, ["kept"]) == (type(copied), copied.note)
    assert Special is type(x + 1.0)
    assert not hasattr(x + 1.0, "note")


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_pickle_keeps_everything(dtype: dtypes.DType) -> None:
    x = tensor([[1, 0], [1, 1]], dtype=dtype)
    x.note = "kept"
    if dtype.is_floating_point:
        x.requires_grad = True
    again = pickle.loads(pickle.dumps(x))

    assert (x.tolist(), x.dtype, x.shape, x.requires_grad, "kept") == (
        again.tolist(),
        again.dtype,
        again.shape,
        again.requires_grad,
        again.note,
    )
    again.detach().zero_()


def test_deepcopy_is_independent_and_keeps_the_gradient() -> None:
    x = tensor([1.0], requires_grad=True)
    (x * 2.0).sum().backward()
    copied, again = copy.deepcopy([x, x])
    copied.detach().zero_()

    assert ([1.0], [2.0], True) == (x.tolist(), copied.grad.tolist(), copied is again)


def test_results_cannot_be_deep_copied() -> None:
    y = tensor([1.0], requires_grad=True) * 2.0
    with pytest.raises(AutogradError, match="graph leaves"):
        copy.deepcopy(y)


def test_item_and_python_numbers() -> None:
    x = tensor([3])
    values = (x.item(), int(x), float(x), complex(x), [10, 20, 30, 40][x])

    assert (3, 3, 3.0, 3 + 0j, 40) == values
    assert [int, float, bool] == [type(tensor(v).item()) for v in (1, 1.0, True)]


def test_item_of_bfloat16_is_a_float() -> None:
    x = tensor(1.5, dtype=dtypes.bfloat16)

    assert (1.5, float, [1.5]) == (x.item(), type(x.item()), x.reshape(1).tolist())


def test_item_of_several_elements_is_refused() -> None:
    with pytest.raises(ShapeError, match="2 elements cannot be converted to Scalar"):
        tensor([1, 2]).item()


@pytest.mark.parametrize("value", [[], [1, 2]])
def test_truth_of_several_elements_is_refused(value: list[int]) -> None:
    with pytest.raises(ShapeError, match="is ambiguous"):
        bool(tensor(value))


def test_a_floating_tensor_is_no_index() -> None:
    with pytest.raises(ArgumentError, match="only integer tensors"):
        [1, 2][tensor(1.0)]


def test_sequence_protocol() -> None:
    x = tensor([[1, 2], [3, 4]])

    assert (2, [[1, 2], [3, 4]], True, True, False) == (
        len(x),
        [row.tolist() for row in x],
        3 in x,
        np.float32(3) in x,
        7 in x,
    )
    for element in (None, "3", [3], np.array([3, 4])):
        with pytest.raises(RuntimeError, match="Expected a tensor or a number"):
            element in x  # noqa: B015
    for function in (len, iter):
        with pytest.raises(TypeError, match="0-d tensor"):
            function(tensor(1))


def test_iterating_keeps_gradients() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    first, second = x
    (first * 3.0 + second).backward()

    assert [3.0, 1.0] == x.grad.tolist()


def test_equality_is_elementwise_and_hash_is_identity() -> None:
    x = tensor([1, 2])

    assert ([True, False], 1) == ((x == tensor([1, 3])).tolist(), len({x, x}))


def test_numpy_shares_memory_both_ways() -> None:
    x = tensor([1.0, 2.0])
    x.numpy()[0] = 5.0

    assert ([5.0, 2.0], True) == (x.tolist(), np.shares_memory(np.asarray(x), x.array))


def test_numpy_of_a_tensor_that_requires_grad_is_refused() -> None:
    x = tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match=r"tensor.detach\(\).numpy\(\)"):
        x.numpy()
    with pytest.raises(AutogradError):
        np.asarray(x)

    assert [1.0] == x.numpy(force=True).tolist()


def test_numpy_arrays_leave_operators_to_tensors() -> None:
    result = np.array([1.0, 2.0], np.float32) * tensor([3.0, 4.0])

    assert (Tensor, [3.0, 8.0]) == (type(result), result.tolist())


def test_dlpack_goes_both_ways() -> None:
    x = tensor([1.0, 2.0])

    assert [1.0, 2.0] == np.from_dlpack(x).tolist()


def test_to_a_dtype_and_to_itself() -> None:
    x = tensor([1.5])

    assert (dtypes.int64, True, True, False) == (
        x.to(dtypes.int64).dtype,
        x.to("cpu") is x,
        x.to(dtypes.float32) is x,
        x.to(dtypes.float32, copy=True) is x,
    )
    assert dtypes.float64 is x.to(tensor([1.0], dtype=dtypes.float64)).dtype


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to("cuda"),
        lambda x: x.to("cuda:1"),
        lambda x: x.cuda(),
        lambda x: tensor([1.0], device="cuda"),
        lambda x: empty(2, device="cuda"),
        lambda x: TABLE.full(0.0, shape=(1,), dtype=dtypes.float32, device=devices_cuda()),
    ],
)
@pytest.mark.usefixtures("no_gpu")
def test_a_gpu_that_is_absent_is_a_clear_error(move) -> None:
    with pytest.raises(DeviceError, match="no cuda device here"):
        move(tensor([1.0]))


def devices_cuda():
    from dynajit.core.types.device import parse

    return parse("cuda")


def test_data_has_no_history_and_can_be_replaced() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    x.data.mul_(3.0)
    seen = x.tolist(), x._version
    x.data = tensor([7.0])

    assert (([3.0, 6.0], 0), [7.0], True, True) == (seen, x.tolist(), x.requires_grad, x.is_leaf)


def test_size_is_a_tuple() -> None:
    size = Size((2, 3))

    assert ((2, 3), 6, Size, "dynajit.Size([2, 3])", Size) == (
        size,
        size.numel(),
        type(size[:1]),
        repr(size),
        type(pickle.loads(pickle.dumps(size))),
    )


def test_new_tensors_take_the_dtype() -> None:
    x = tensor([1.0], dtype=dtypes.float64)

    assert dtypes.float64 is x.new_tensor([1, 2]).dtype
    assert dtypes.float64 is x.new_zeros(2, 3).dtype
    assert [[0.0, 0.0]] == x.new_zeros((1, 2)).tolist()


def test_format_of_a_number() -> None:
    assert ("1.50", "tensor([1.])") == (f"{tensor(1.5):.2f}", f"{tensor([1.0])}")


def test_in_place_forms_exist_for_the_common_methods() -> None:
    expected = "add_ sub_ mul_ div_ pow_ clamp_ relu_ sigmoid_ tanh_ exp_ neg_ masked_fill_ zero_"

    assert all(hasattr(Tensor, name) for name in expected.split())


def test_masked_fill_in_place_changes_only_the_mask() -> None:
    x = from_numpy(np.zeros(3, np.float32))
    x.masked_fill_(tensor([True, False, True]), 2.0)

    assert [2.0, 0.0, 2.0] == x.tolist()


@pytest.mark.filterwarnings("ignore:.*shape.*:DeprecationWarning")
def test_the_shape_of_the_array_is_not_the_tensors() -> None:
    """Reshaping what numpy() returned in place leaves the tensor as guards saw it."""
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    array = x.numpy()
    array.shape = (4,)
    array[0] = 9.0

    assert (2, 2) == tuple(x.shape)
    assert [[9.0, 2.0], [3.0, 4.0]] == x.tolist()
