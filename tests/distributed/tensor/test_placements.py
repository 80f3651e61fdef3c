"""Placements are values, as PyTorch's."""

import pytest

from dynajit.core.errors import InvalidValueError
from dynajit.distributed import tensor
from dynajit.distributed.tensor.placement_types import _StridedShard

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.distributed.tensor")


def placed(module) -> list:
    return [module.Shard(0), module.Shard(-1), module.Replicate(), module.Partial(),
            module.Partial("avg")]  # fmt: skip


def test_placements_answer_as_pytorchs() -> None:
    for expected, result in zip(placed(theirs), placed(tensor), strict=True):
        assert expected.is_shard() == result.is_shard()
        assert expected.is_shard(0) == result.is_shard(0)
        assert expected.is_replicate() == result.is_replicate()
        assert expected.is_partial() == result.is_partial()
        assert isinstance(result, tensor.Placement)
    assert (-1, "avg") == (tensor.Shard(-1).dim, tensor.Partial("avg").reduce_op)


def test_placements_of_the_same_contents_are_equal() -> None:
    first, second = placed(tensor), placed(tensor)
    assert first == second
    assert len(first) == len({*first, *second})
    strided = _StridedShard(0, split_factor=2)
    assert strided.is_shard(0)
    assert strided != tensor.Shard(0)
    assert 2 == strided.split_factor


def test_placements_are_shown_as_pytorchs() -> None:
    for expected, result in zip(placed(theirs), placed(tensor), strict=True):
        assert (repr(expected), str(expected)) == (repr(result), str(result))


def test_a_reduction_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="Expected one of sum, avg"):
        tensor.Partial("median")
