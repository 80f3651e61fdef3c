"""Functions that PyTorch calls private: the same values, gradients and errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
LIBRARIES = (torch, dj)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda t, x: t._softmax_backward_data(x, x.softmax(-1), -1, t.float32),
    "log_softmax": lambda t, x: t._log_softmax_backward_data(x, x.log_softmax(0), 0, t.float32),
    "conv_tbc": lambda t, x: t.conv_tbc(
        x.reshape(3, 2, 2), x.reshape(-1)[:8].reshape(2, 2, 2), x[0, :2], 1
    ),
}
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda t: t._shape_as_tensor(t.ones(2, 3)),
    "to csr": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 0, 2, 3]), 5),
    "to csr, empty": lambda t: t._convert_indices_from_coo_to_csr(
        t.tensor([], dtype=t.int64), 2, out_int32=True
    ),
    "to coo": lambda t: t._convert_indices_from_csr_to_coo(
        t.tensor([0, 2, 2, 3]), t.tensor([1, 0, 2])
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    results = []
    for t in LIBRARIES:
        x = t.tensor(X, requires_grad=True)
        out = CALLS[name](t, x)
        (out * out).sum().backward()
        results.append((out.detach().numpy(), x.grad.numpy()))

    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=1e-5)
    compiled = dj.compile(lambda x: CALLS[name](dj, x), fullgraph=True)
    np.testing.assert_allclose(compiled(dj.tensor(X)).numpy(), results[1][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", INTEGERS)
def test_sizes_and_indices_are_pytorchs(name: str) -> None:
    expected, actual = (INTEGERS[name](t) for t in LIBRARIES)

    assert expected.tolist() == actual.tolist()
    assert str(expected.dtype).rpartition(".")[2] == actual.dtype.name


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("_check", RuntimeError), ("_check_index", IndexError), ("_check_value", ValueError),
        ("_check_type", TypeError), ("_check_not_implemented", NotImplementedError),
    ],
)  # fmt: skip
def test_conditions_are_checked(name: str, error: type[Exception]) -> None:
    for t in LIBRARIES:
        check = getattr(t, name)
        check(True)
        with pytest.raises(error, match="why"):
            check(False, lambda: "why")
        with pytest.raises(TypeError):
            check(t.ones(1) > 0)
    dj._check_tensor_all(dj.ones(2) > 0)
    with pytest.raises(RuntimeError):
        dj._check_tensor_all(dj.ones(2) > 1)
    with pytest.raises(RuntimeError):
        dj._check_is_size(-1)


def test_checks_are_captured() -> None:
    def function(x: Any) -> Any:
        dj._check(x.shape[0] > 1, lambda: "too short")
        return x + 1

    assert [2.0, 2.0] == dj.compile(function, fullgraph=True)(dj.ones(2)).tolist()


def test_draws_are_of_their_distributions() -> None:
    dj.manual_seed(0)
    draws = dj._standard_gamma(dj.full((20000,), 3.0))
    shares = dj._sample_dirichlet(dj.tensor([[1.0, 3.0]]).expand(20000, 2))

    assert abs(draws.mean().item() - 3) < 0.05
    assert abs(shares[:, 1].mean().item() - 0.75) < 0.01


def test_there_are_no_classes_of_libraries_in_c() -> None:
    with pytest.raises(RuntimeError, match=r"pyg\.CPUHashMap"):
        dj.classes.pyg.CPUHashMap
    with pytest.raises(NotImplementedError):
        dj.classes.load_library("x.so")
    with pytest.raises(OSError, match="custom_op"):
        dj.ops.load_library("x.so")


def test_every_name_is_published() -> None:
    from dynajit.namespaces import late_names

    assert all(hasattr(dj, name) for name in late_names.PRIVATE)
    assert dj.ScriptModule is dj.jit.ScriptModule
    with pytest.raises(NotImplementedError):
        dj.PyTorchFileReader("x")
    assert hasattr(dj.distributions.transforms, "_InverseTransform")
