"""Batches out of samples: the same kinds, dtypes and values as PyTorch's."""

from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils.data import default_collate, default_convert

torch = pytest.importorskip("torch")
torch_data = pytest.importorskip("torch.utils.data")

Point = namedtuple("Point", "x y")


def facts(value: Any) -> Any:
    """Class, dtype and values of everything in a nest."""
    if isinstance(value, (dj.Tensor, torch.Tensor)):
        return "tensor", str(value.dtype).split(".")[1], value.tolist()
    if isinstance(value, (dict, UserDict)):
        return type(value).__name__, [(key, facts(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, UserList)):
        return type(value).__name__, [facts(item) for item in value]
    return type(value).__name__, str(value)


BATCHES = {
    "ints": [1, 2],
    "bools": [True, False],
    "floats": [1.5, 2.0],
    "texts": ["a", "b"],
    "bytes": [b"a", b"b"],
    "arrays": [np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)],
    "integer arrays": [np.arange(2), np.arange(2)],
    "half arrays": [np.ones(1, np.float16)] * 3,
    "numbers": [np.float32(1), np.float32(2)],
    "zero-dim arrays": [np.array(1.0), np.array(2.0)],
    "tuples": [(1, "a"), (2, "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "named": [Point(1, 2.0), Point(3, 4.0)],
    "dicts": [{"a": 1, "b": [2]}, {"a": 3, "b": [4]}],
    "ordered": [OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)],
    "defaults": [defaultdict(int, a=1), defaultdict(int, a=2)],
    "user dicts": [UserDict(a=1), UserDict(a=2)],
    "user lists": [UserList([1, 2]), UserList([3, 4])],
    "nests": [{"a": (1, [np.ones(2)])}, {"a": (2, [np.zeros(2)])}],
    "empty tuples": [(), ()],
}


@pytest.mark.parametrize("name", BATCHES)
def test_samples_are_collated_as_by_pytorch(name: str) -> None:
    assert facts(torch_data.default_collate(BATCHES[name])) == facts(default_collate(BATCHES[name]))


@pytest.mark.parametrize("name", BATCHES)
def test_samples_are_converted_as_by_pytorch(name: str) -> None:
    for sample in BATCHES[name]:
        assert facts(torch_data.default_convert(sample)) == facts(default_convert(sample))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
def test_tensors_are_stacked(dtype: str) -> None:
    batch = [dj.zeros(2, 3, dtype=getattr(dj, dtype if dtype != "bool" else "bool_"))] * 4
    made = default_collate(batch)

    assert ((4, 2, 3), dtype) == (tuple(made.shape), made.dtype.name)
    assert batch[0] is default_convert(batch[0])


@pytest.mark.parametrize(
    "batch",
    [[object()], [None], [[1], [1, 2]], [np.array(["a"])], [np.array([object()])], [{1}]],
    ids=str,
)
def test_what_pytorch_refuses_is_refused(batch: list[Any]) -> None:
    with pytest.raises((TypeError, RuntimeError)) as there:
        torch_data.default_collate(batch)
    with pytest.raises(there.type, match=str(there.value).split(";")[0].split(" (")[0]):
        default_collate(batch)


def test_tensors_of_different_shapes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="stack"):
        default_collate([dj.zeros(2), dj.zeros(3)])


def test_classes_of_programs_are_collated_by_functions_of_theirs() -> None:
    class Odd:
        def __init__(self, value: int) -> None:
            self.value = value

    def joined(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return sum(item.value for item in batch)

    for collating in (torch_data._utils.collate, dj.utils.data._utils.collate):
        functions = {**collating.default_collate_fn_map, Odd: joined}
        made = collating.collate([{"a": Odd(1)}, {"a": Odd(2)}], collate_fn_map=functions)
        assert {"a": 3} == made
        with pytest.raises(TypeError):
            collating.default_collate([Odd(1)])
        collating.default_collate_fn_map[Odd] = joined
        try:
            assert [3, [1]] == [collating.default_collate([Odd(1), Odd(2)]), [1]]
        finally:
            del collating.default_collate_fn_map[Odd]
        assert collating.np_str_obj_array_pattern.search("<U3")
