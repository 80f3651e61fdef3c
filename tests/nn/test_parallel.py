"""Modules on several devices: on a CPU a module runs as it is."""

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
