"""Modules under their older names, as pickles have them."""

import importlib
import pickle

import pytest

import dynajit as dj
from dynajit.core.process.moved import MOVED


@pytest.mark.parametrize("older", MOVED)
def test_an_older_name_is_the_module_itself(older: str) -> None:
    module = importlib.import_module(MOVED[older])

    assert importlib.import_module(older) is module
    assert module.__name__ == MOVED[older] == module.__spec__.name


@pytest.mark.parametrize(
    ("module", "name", "found"),
    [
        ("dynajit.core.dtypes", "DType", type(dj.float32)),
        ("dynajit.core.device", "Device", dj.device),
        ("dynajit.eager.tensor", "Size", dj.Size),
        ("dynajit.eager.tape", "backward", dj.autograd.backward),
        ("dynajit.eager.sparse", "SparseTensor", type(dj.eye(2).to_sparse())),
        ("dynajit.eager.storages", "UntypedStorage", dj.UntypedStorage),
        ("dynajit.ops.reduction_functions", "ValuesIndices", dj.return_types.max),
        ("dynajit.ops.methods", "ElementwiseMethods", dj.Tensor.add),
    ],
)
def test_a_pickle_with_older_names_loads(module: str, name: str, found: object) -> None:
    loaded = pickle.loads(f"c{module}\n{name}\n.".encode())
    if name == "ElementwiseMethods":
        loaded = loaded.add

    assert loaded is found
