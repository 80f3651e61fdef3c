"""Guards on tensors of a GPU: read without calling CuPy, as strict as those of the CPU."""

from typing import Any

import pytest

import dynajit as dj
from dynajit.capture.guards.facts import MemoryUse, TensorFacts
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import Local
from dynajit.eager import _tensor

X = Local("x", 0)


def plain(x: Any, y: Any = None) -> Any:
    """Whose arguments are guarded."""
    return x


def evaluator(expected: Any, kind: Kind = Kind.TENSOR) -> Any:
    return compile_guards([Guard(X, kind, expected)]).evaluator


def holds(expected: Any, *arguments: Any, kind: Kind = Kind.TENSOR) -> bool:
    check = evaluator(expected, kind).check
    answers = {check(arguments, plain) for _ in range(4)}  # later ones go by the snapshot

    assert 1 == len(answers)
    return answers.pop()


def on_gpu(*sizes: int, **options: Any) -> Any:
    return dj.zeros(*sizes, device="cuda", **options)


def test_a_tensor_guard_holds_for_tensors_of_the_same_kind() -> None:
    facts = TensorFacts.of(on_gpu(2, 3))

    assert "cuda:0" == facts.device
    assert holds(facts, on_gpu(2, 3))
    assert holds(facts, dj.ones(2, 3).cuda())


@pytest.mark.parametrize(
    "other",
    [
        lambda: dj.zeros(2, 3),
        lambda: on_gpu(3, 2),
        lambda: on_gpu(6),
        lambda: on_gpu(3, 2).t(),
        lambda: on_gpu(2, 6)[:, ::2],
        lambda: on_gpu(2, 3, dtype=dj.float16),
        lambda: on_gpu(2, 3, dtype=dj.int32),
        lambda: on_gpu(2, 3, requires_grad=True),
    ],
    ids=["device", "sizes", "rank", "strides", "gaps", "dtype", "dtype of that size", "gradient"],
)
def test_a_tensor_guard_fails_for_every_other_kind(other: Any) -> None:
    x = other()

    assert not holds(TensorFacts.of(on_gpu(2, 3)), x)
    assert holds(TensorFacts.of(x), x)
    assert not holds(TensorFacts.of(x), on_gpu(2, 3))


def test_a_tensor_guard_tells_one_gpu_from_another(second_device: str) -> None:
    facts = TensorFacts.of(on_gpu(2))

    assert not holds(facts, dj.zeros(2, device=second_device))
    assert "device was cuda:0, now cuda:1" == facts.difference(dj.zeros(2, device="cuda:1"))


def test_strides_of_size_one_and_of_empty_tensors_are_free() -> None:
    assert holds(TensorFacts.of(on_gpu(1, 4)), on_gpu(4, 1).t())
    assert holds(TensorFacts.of(on_gpu(0, 3)), on_gpu(3, 0).t())


def test_a_guard_sees_a_replaced_array() -> None:
    x, guards = on_gpu(2), evaluator(TensorFacts.of(on_gpu(2)))

    assert [True] * 3 == [guards.check((x,), plain) for _ in range(3)]
    x.data = on_gpu(3)
    assert not guards.check((x,), plain)
    x.data = on_gpu(2)
    assert guards.check((x,), plain)


def test_written_memory_is_kept_apart_on_a_gpu() -> None:
    whole = on_gpu(8)

    def apart(one: Any, two: Any, use: MemoryUse) -> bool:
        members = ((X, use), (Local("y", 1), MemoryUse.READ))
        return holds(members, one, two, kind=Kind.SEPARATE_MEMORY)

    assert apart(whole[:4], whole[4:], MemoryUse.WRITTEN)
    assert not apart(whole[:4], whole[3:], MemoryUse.WRITTEN)
    assert apart(whole[:4], whole[3:], MemoryUse.READ)
    assert apart(whole[:4], dj.zeros(4), MemoryUse.WRITTEN)


def test_metadata_is_read_without_the_array() -> None:
    """The C struct has what the array says: for dense, strided, zero-dim and empty arrays."""
    base = on_gpu(4, 6, dtype=dj.bfloat16)
    for x in (base, base.t(), base[1:, ::2], base[0, 0], base[:0], base.bool()):
        array = x.array

        assert tuple(array.shape) == tuple(x.shape)
        assert array.dtype == x.dtype.numpy
        assert array.ndim == x.ndim
        assert array.data.device_id == x.device.index
        assert x.is_contiguous() == array.flags.c_contiguous


def test_an_array_is_refused_that_is_neither_numpys_nor_cupys() -> None:
    with pytest.raises(TypeError, match="expected a NumPy or CuPy array, got list"):
        _tensor.wrap([1.0])


def test_a_gradient_of_another_device_dtype_or_size_is_refused() -> None:
    x = on_gpu(2, requires_grad=True)
    for wrong, words in (
        (dj.zeros(2), "different device"),
        (on_gpu(2, dtype=dj.float64), "different type"),
        (on_gpu(3), "different size"),
    ):
        with pytest.raises(RuntimeError, match=words):
            x.grad = wrong
    x.grad = on_gpu(2)

    assert [0.0, 0.0] == x.grad.tolist()


def test_integers_on_a_gpu_cannot_require_gradients() -> None:
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        on_gpu(2, dtype=dj.int64).requires_grad_()
