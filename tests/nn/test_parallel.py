"""Modules on several devices: on a CPU a module runs as it is."""

import numpy as np
import pytest

import dynajit as dj


def test_a_parallel_module_is_the_module_on_a_cpu() -> None:
    """Results, gradients and PyTorch's names of parameters; compiled, too."""
    torch = pytest.importorskip("torch")
    inner = dj.nn.Linear(3, 2)
    module = dj.nn.DataParallel(inner)
    x = dj.arange(12.0).reshape(4, 3) / 12
    module(x).square().sum().backward()
    reference = torch.nn.DataParallel(torch.nn.Linear(3, 2))
    state = {name: torch.tensor(value.tolist()) for name, value in module.state_dict().items()}
    reference.load_state_dict(state)
    expected = reference(torch.tensor(x.tolist()))
    expected.square().sum().backward()
    compiled = dj.compile(module, fullgraph=True)(x)

    torch.testing.assert_close(torch.tensor(module(x).tolist()), expected.detach())
    torch.testing.assert_close(torch.tensor(compiled.tolist()), expected.detach())
    gradient = torch.tensor(inner.weight.grad.tolist())
    torch.testing.assert_close(gradient, reference.module.weight.grad)


def test_a_batch_is_spread_and_collected() -> None:
    """Over two devices, which may be one: values and gradients are the module's."""
    parallel = dj.nn.parallel
    inner = dj.nn.Sequential(dj.nn.Linear(3, 4), dj.nn.Tanh(), dj.nn.Linear(4, 2))
    x = (dj.arange(15.0).reshape(5, 3) / 15).requires_grad_()
    inner(x).square().sum().backward()
    expected = [p.grad.clone() for p in (x, *inner.parameters())]
    values = inner(x).detach()
    inner.zero_grad()
    x.grad = None

    given, named = parallel.scatter_gather.scatter_kwargs((x,), {"scale": 2}, ["cpu", "cpu"])
    assert [3, 2] == [part[0].shape[0] for part in given]
    assert ({"scale": 2}, {"scale": 2}) == named
    replicas = parallel.replicate(inner, ["cpu", "cpu"])
    result = parallel.gather(parallel.parallel_apply(replicas, given), "cpu")
    result.square().sum().backward()

    np.testing.assert_allclose(result.detach().numpy(), values.numpy(), rtol=1e-6)
    for parameter, gradient in zip((x, *inner.parameters()), expected, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), gradient.numpy(), rtol=1e-5)
    assert replicas[0][0] is not inner[0]
    assert [] == list(replicas[0].parameters())


def test_what_is_gathered_has_the_form_of_one_output() -> None:
    parallel = dj.nn.parallel
    parts = parallel.scatter({"a": (dj.arange(4), "b"), "c": [dj.ones(2, 1)]}, ["cpu", "cpu"])
    assert [[0, 1], [2, 3]] == [part["a"][0].tolist() for part in parts]
    assert ["b", "b"] == [part["a"][1] for part in parts]
    found = parallel.gather([{"x": dj.tensor(1.0)}, {"x": dj.tensor(2.0)}], "cpu")
    assert [1.0, 2.0] == found["x"].tolist()
    with pytest.raises(ValueError, match="same number of keys"):
        parallel.gather([{"x": dj.ones(1)}, {}], "cpu")


def test_devices_are_refused() -> None:
    """By name; processes belong to a group."""
    with pytest.raises(NotImplementedError, match="there is no GPU"):
        dj.nn.DataParallel(dj.nn.ReLU(), device_ids=[0])
    with pytest.raises(ValueError, match="process group"):
        dj.nn.parallel.DistributedDataParallel(dj.nn.ReLU())


def test_a_product_by_the_name_for_sparse_matrices() -> None:
    """Of matrices only."""
    a, b = dj.arange(6.0).reshape(2, 3), dj.arange(12.0).reshape(3, 4)

    assert (a @ b).tolist() == dj.spmm(a, b).tolist()
    with pytest.raises(RuntimeError, match="2-D"):
        dj.spmm(a, b[0])
