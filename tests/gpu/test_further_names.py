"""Random fills, saved tensors, masks, segments and factorizations on a GPU, against the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributed as dist
from dynajit import masked
from dynajit.autograd import graph
from dynajit.nn.attention import flex_attention as flex
from dynajit.signal import windows

NUMBERS = np.random.default_rng(0).standard_normal((2, 4, 6))
SQUARE = np.array([[4.0, 1.0], [1.0, 3.0]])


def at(device: str, array: Any = NUMBERS) -> Any:
    return dj.tensor(array).to(device)


def attended(device: str) -> Any:
    query = at(device).unsqueeze(1).float()
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 4, 4, device=device)
    return flex.flex_attention(query, query, query, block_mask=mask)


def spread(device: str) -> Any:
    return dj.histogramdd(at(device).float(), bins=[2] * 6).hist


PROGRAMS: dict[str, Callable[[str], Any]] = {
    "exponential_": lambda d: dj.empty(50, device=d).exponential_(2.0),
    "geometric_": lambda d: dj.empty(50, device=d).geometric_(0.3),
    "cauchy_": lambda d: dj.empty(50, device=d).cauchy_(1, 2),
    "log_normal_": lambda d: dj.empty(50, device=d).log_normal_(0, 0.5),
    "random_": lambda d: dj.empty(50, device=d, dtype=dj.int64).random_(3, 9),
    "complex normal_": lambda d: dj.empty(9, device=d, dtype=dj.complex64).normal_(),
    "flex_attention": attended,
    "inv_ex": lambda d: dj.linalg.inv_ex(at(d, np.stack([SQUARE, SQUARE * 0]))).inverse,
    "cholesky_ex": lambda d: dj.linalg.cholesky_ex(at(d, np.stack([-SQUARE, SQUARE]))).L,
    "solve_ex": lambda d: dj.linalg.solve_ex(at(d, SQUARE), at(d, SQUARE)).result,
    "reflectors": lambda d: dj.linalg.householder_product(*dj.geqrf(at(d).mT)),
    "segment_reduce": lambda d: dj.segment_reduce(
        at(d)[0], "mean", lengths=dj.tensor([1, 3], device=d)
    ),
    "histogramdd": spread,
    "masked.var": lambda d: masked.var(at(d), 1, mask=at(d) > 0),
    "masked.softmax": lambda d: masked.softmax(at(d), 2, mask=at(d) < 2),
    "legendre_polynomial_p": lambda d: dj.special.legendre_polynomial_p(at(d), 4),
    "degrees": lambda d: dj.special.hermite_polynomial_h(at(d), dj.tensor([[1.0]], device=d)),
    "spherical_bessel_j0": lambda d: dj.special.spherical_bessel_j0(at(d)),
    "native_group_norm": lambda d: dj.native_group_norm(at(d), None, None, 2, 4, 6, 2, 1e-5)[1],
    "permute_copy": lambda d: dj.permute_copy(at(d), (2, 0, 1)),
    "window": lambda d: windows.kaiser(7, device=d),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_cpu(name: str) -> None:
    """Equal seeds draw equal numbers."""
    found = []
    for device in ("cpu", "cuda"):
        dj.manual_seed(3)
        result = PROGRAMS[name](device)
        assert device == result.device.type
        found.append(result.cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_saved_tensors_wait_on_the_cpu() -> None:
    """And come back to the GPU."""
    x = at("cuda").requires_grad_()
    devices = []

    def pack(tensor: Any) -> Any:
        devices.append(tensor.device.type)
        return tensor.cpu()

    with graph.saved_tensors_hooks(pack, lambda tensor: tensor.cuda()):
        y = (x * x.exp()).sum()
    with graph.save_on_cpu():
        z = (x * x.exp()).sum()
    y.backward()
    first = x.grad.cpu().numpy()
    assert {"cuda"} == set(devices)
    x.grad = None
    z.backward()
    np.testing.assert_allclose(first, x.grad.cpu().numpy())
    np.testing.assert_allclose(first, np.exp(NUMBERS) * (1 + NUMBERS), rtol=1e-6)


def test_a_module_on_a_gpu_is_wrapped_by_its_device() -> None:
    """In a group of one process."""
    dist.init_process_group("nccl", world_size=1, rank=0)
    try:
        inner = dj.nn.Linear(2, 2).cuda()
        outer = dj.nn.parallel.DistributedDataParallel(inner, device_ids=[0])
        x = dj.ones(3, 2, device="cuda")
        dist.all_reduce(x)
        assert outer(x).cpu().tolist() == inner(x).cpu().tolist()
        assert [inner.weight.device] == outer.device_ids
    finally:
        dist.destroy_process_group()
