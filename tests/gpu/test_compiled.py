"""Compiled functions on a GPU: kernels launched from C, on a GPU or its stand-ins."""

import dataclasses
import gc
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.units.steps import Options
from dynajit.core.arrays.gpu import runtime as gpu

pytestmark = pytest.mark.usefixtures("driver", "strict_programs")
rng = np.random.default_rng(0)


def tensor(*shape: int, dtype: Any = np.float32) -> Any:
    return dj.tensor(rng.standard_normal(shape).astype(dtype), device="cuda")


def check(function: Any, *arguments: Any, tolerance: float = 1e-5) -> Any:
    """Compiled results are those of eager execution on the CPU, and are on the GPU."""
    compiled = dj.compile(function, fullgraph=True)
    got = compiled(*arguments)
    want = function(*(a.cpu() if isinstance(a, dj.Tensor) else a for a in arguments))
    assert got.is_cuda
    np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=tolerance, atol=tolerance)
    return compiled


def test_a_pointwise_chain_is_one_kernel() -> None:
    check(lambda x, y: (x * y + 1).exp() - y, tensor(33, 7), tensor(7))


def test_rows_are_reduced() -> None:
    check(lambda x: F.softmax(x, dim=-1), tensor(9, 300))


def test_training_runs_forward_and_backward_on_the_gpu() -> None:
    weight = tensor(8, 5).requires_grad_()
    x, target = tensor(16, 8), tensor(16, 5)

    def loss(x: Any, target: Any, weight: Any) -> Any:
        return F.mse_loss(F.relu(x @ weight), target)

    compiled = dj.compile(loss, fullgraph=True)
    value = compiled(x, target, weight)
    value.backward()
    own = weight.detach().cpu().requires_grad_()
    want = loss(x.cpu(), target.cpu(), own)
    want.backward()

    assert weight.grad.is_cuda
    np.testing.assert_allclose(value.item(), want.item(), rtol=1e-5)
    np.testing.assert_allclose(weight.grad.cpu().numpy(), own.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_written_inputs_are_written() -> None:
    def step(x: Any, y: Any) -> Any:
        x.add_(y)
        return x * 2

    x, y = tensor(7, 3), tensor(7, 3)
    before = x.cpu()
    result = dj.compile(step, fullgraph=True)(x, y)
    np.testing.assert_allclose(x.cpu().numpy(), (before + y.cpu()).numpy(), rtol=1e-6)
    np.testing.assert_allclose(result.cpu().numpy(), (2 * x).cpu().numpy(), rtol=1e-6)


def test_random_numbers_are_those_of_the_cpu() -> None:
    def draw(x: Any) -> Any:
        return F.dropout(x, 0.5, training=True) + dj.rand_like(x)

    compiled = dj.compile(draw, fullgraph=True)
    x = tensor(40, 3)
    dj.manual_seed(3)
    got = compiled(x)
    dj.manual_seed(3)
    want = draw(x.cpu())

    np.testing.assert_array_equal(want.numpy(), got.cpu().numpy())


def test_numbers_of_the_cpu_go_along() -> None:
    check(lambda x, s: x * s + 1.5, tensor(7, 3), dj.tensor(2.5))


def test_sizes_that_vary() -> None:
    compiled = dj.compile(lambda x: F.softmax(x * 2, dim=-1).sum(0), fullgraph=True)
    for rows in (3, 5, 9, 17):
        x = tensor(rows, 12)
        want = F.softmax(x.cpu() * 2, dim=-1).sum(0)
        np.testing.assert_allclose(compiled(x).cpu().numpy(), want.numpy(), rtol=1e-5)


def test_creation_on_the_gpu() -> None:
    def made(x: Any) -> Any:
        return x + dj.arange(3, device="cuda") + dj.ones(7, 3, device=x.device)

    compiled = dj.compile(made, fullgraph=True)
    x = tensor(7, 3)
    np.testing.assert_allclose(compiled(x).cpu().numpy(), made(x).cpu().numpy(), rtol=1e-6)


def test_transfers_within_a_function_are_pieces_of_one_graph() -> None:
    def there_and_back(x: Any) -> Any:
        y = (x * 2).cpu()
        z = (y + 1).to("cuda")
        return y, z * x

    compiled = dj.compile(there_and_back, fullgraph=True)
    x = tensor(7, 3)
    y, z = compiled(x)
    want_y, want_z = there_and_back(x)

    assert (y.device, z.device) == (want_y.device, want_z.device)
    np.testing.assert_allclose(y.numpy(), want_y.numpy(), rtol=1e-6)
    np.testing.assert_allclose(z.cpu().numpy(), want_z.cpu().numpy(), rtol=1e-6)


def test_modes_launch_the_same_kernels() -> None:
    x = tensor(16, 40)
    want = F.softmax(x.cpu() @ x.cpu().T, dim=-1)
    for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        compiled = dj.compile(lambda x: F.softmax(x @ x.T, dim=-1), mode=mode, fullgraph=True)
        for _ in range(6):
            np.testing.assert_allclose(compiled(x).cpu().numpy(), want.numpy(), rtol=1e-4)


def test_verified_kernels_are_compared_with_numpy() -> None:
    compiled = dj.compile(
        lambda x, y: F.layer_norm(x @ y, (40,)) * 2, options={"verify": True}, fullgraph=True
    )
    x, y = tensor(16, 40), tensor(40, 40)

    np.testing.assert_allclose(
        compiled(x, y).cpu().numpy(), (F.layer_norm(x.cpu() @ y.cpu(), (40,)) * 2).numpy(),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_the_backend_cuda_is_for_gpus() -> None:
    function = dj.compile(lambda x: x.exp() * 2, backend="cuda", fullgraph=True)
    x = tensor(9)

    np.testing.assert_allclose(function(x).cpu().numpy(), (x.cpu().exp() * 2).numpy(), rtol=1e-6)
    assert "cuda" in dj.list_backends()
    with pytest.raises(dj.errors.DeviceError, match=r"Move its tensors to a GPU"):
        function(x.cpu())


def test_explanations_show_the_cuda_text() -> None:
    found = dj.explain(lambda x: F.softmax(x * 2, dim=-1))(tensor(5, 300))

    assert "__global__" in found.kernels[0].source
    assert "1 steps on cuda:0" in str(found)
    assert "<<<(" in str(found)


def test_dumps_hold_the_cuda_text_and_the_steps(tmp_path: Any) -> None:
    with dj.config.override(dump=tmp_path):
        dj.compile(lambda x: x.exp() * 2)(tensor(5))
    (folder,) = tmp_path.iterdir()

    assert "__global__" in (folder / "5_forward.cu").read_text()
    assert "steps on cuda:0" in (folder / "5_forward_steps.txt").read_text()


def test_two_devices_are_refused_as_in_eager_execution() -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y

    x, y = tensor(3), tensor(3).cpu()
    with pytest.raises(dj.errors.DeviceError) as eager:
        add(x, y)
    with pytest.raises(dj.errors.DeviceError) as compiled:
        dj.compile(add)(x, y)

    assert str(eager.value) == str(compiled.value)


def test_a_function_is_compiled_for_each_device_it_meets(second_device: str) -> None:
    compiled = dj.compile(lambda x: F.softmax(x * 2, dim=-1), fullgraph=True)
    x = tensor(5, 8)
    for device in ("cuda:0", "cpu", second_device, "cuda:0", "cpu", second_device):
        here = x.to(device)
        got = compiled(here)
        assert got.device == here.device
        want = F.softmax(x.cpu() * 2, dim=-1)
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-5)

    assert 3 == compiled.report().entries


def test_values_go_from_gpu_to_gpu(second_device: str) -> None:
    def across(x: Any) -> Any:
        y = (x * 2).to(second_device)
        return y.exp(), (y + 1).to(x.device) * x

    x = tensor(5, 8)
    first, second = dj.compile(across, fullgraph=True)(x)
    want = across(x)

    assert (str(first.device), str(second.device)) == (second_device, "cuda:0")
    np.testing.assert_allclose(first.cpu().numpy(), want[0].cpu().numpy(), rtol=1e-5)
    np.testing.assert_allclose(second.cpu().numpy(), want[1].cpu().numpy(), rtol=1e-5)


def test_a_gpu_without_a_number_is_the_current_one(second_device: str) -> None:
    compiled = dj.compile(lambda n: dj.arange(n, device="cuda") * 2, fullgraph=True)
    compiled(4)
    with gpu.on(1):
        moved = compiled(4)
    again = compiled(4)

    assert ("cuda:1", "cuda:0") == (str(moved.device), str(again.device))


def test_gradients_come_back_to_the_device_of_their_tensor() -> None:
    def loss(x: Any, weight: Any) -> Any:
        return ((x * weight.cuda()).cpu() * weight).sum()

    weight = tensor(3).cpu().requires_grad_()
    x = tensor(4, 3)
    dj.compile(loss, fullgraph=True)(x, weight).backward()
    own = weight.detach().requires_grad_()
    loss(x, own).backward()

    assert not weight.grad.is_cuda
    np.testing.assert_allclose(weight.grad.numpy(), own.grad.numpy(), rtol=1e-5)


def test_constants_of_a_function_go_to_the_gpu() -> None:
    compiled = dj.compile(
        lambda x: x * dj.tensor([1.0, 2.0, 3.0]).to(x.device) + dj.tensor([1, 2, 3], device="cuda"),
        fullgraph=True,
    )
    x = tensor(4, 3)
    want = x.cpu() * dj.tensor([1.0, 2.0, 3.0]) + dj.tensor([1, 2, 3])

    np.testing.assert_allclose(compiled(x).cpu().numpy(), want.numpy(), rtol=1e-6)


def test_items_and_branches_on_values_break_the_graph_and_go_on() -> None:
    def branch(x: Any) -> Any:
        y = x * 2
        if y.sum() > 0:
            y = y + y.max().item()
        return y - 1

    compiled = dj.compile(branch)
    for sign in (1.0, -1.0):
        x = tensor(6).abs() * sign
        np.testing.assert_allclose(compiled(x).cpu().numpy(), branch(x).cpu().numpy(), rtol=1e-6)


def test_second_derivatives_are_those_of_the_cpu() -> None:
    def value(x: Any) -> Any:
        return (x.sin() * x).sum()

    x = tensor(5).requires_grad_()
    (first,) = dj.autograd.grad(dj.compile(value)(x), x, create_graph=True)
    (second,) = dj.autograd.grad(first.sum(), x)
    own = x.detach().cpu().requires_grad_()
    (want,) = dj.autograd.grad(value(own), own, create_graph=True)
    (want,) = dj.autograd.grad(want.sum(), own)

    np.testing.assert_allclose(second.cpu().numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_autocast_computes_in_sixteen_bits() -> None:
    def block(x: Any, w: Any) -> Any:
        with dj.autocast("cuda", dtype=dj.bfloat16):
            return F.relu(x @ w)

    x, w = tensor(8, 16), tensor(16, 8)
    got, want = dj.compile(block, fullgraph=True)(x, w), block(x, w)

    assert got.dtype is want.dtype is dj.bfloat16
    np.testing.assert_allclose(got.float().cpu().numpy(), want.float().cpu().numpy(), rtol=2e-2,
                               atol=2e-2)  # fmt: skip


def test_deterministic_results_take_a_program_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generate, asked = cuda_text.generate, []

    def marked(*arguments: Any, options: Options = Options(), **others: Any) -> Any:  # noqa: B008
        unit = generate(*arguments, options=options, **others)
        if not options.deterministic:
            return unit
        asked.append(unit.name)
        return dataclasses.replace(unit, source=unit.source + "/* in order */\n")

    monkeypatch.setattr(cuda_text, "generate", marked)
    compiled = dj.compile(lambda x, i, y: x.index_add(0, i, y), fullgraph=True)
    x, y, index = tensor(5, 3), tensor(7, 3), dj.tensor([0, 4, 2, 2, 1, 0, 4], device="cuda")
    want = x.cpu().index_add(0, index.cpu(), y.cpu()).numpy()
    for exact in (False, True, False):
        dj.use_deterministic_algorithms(exact)
        try:
            np.testing.assert_allclose(compiled(x, index, y).cpu().numpy(), want, rtol=1e-5)
        finally:
            dj.use_deterministic_algorithms(False)

    assert asked


@pytest.mark.parametrize("dtype", [dj.float32, dj.bfloat16])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_kernels_of_its_own(dtype: Any, is_causal: bool) -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    given = [tensor(2, 2, 40, 16).to(dtype).requires_grad_() for _ in range(3)]
    weight = tensor(2, 2, 40, 16).to(dtype)
    compiled = dj.compile(attend, fullgraph=True)
    got = compiled(*given)
    (got * weight).sum().backward()

    own = [x.detach().cpu().float().requires_grad_() for x in given]
    want = attend(*own)
    (want * weight.cpu().float()).sum().backward()
    tolerance = 1e-5 if dtype is dj.float32 else 2e-2
    for mine, other in [(got, want), *((x.grad, y.grad) for x, y in zip(given, own, strict=True))]:
        assert mine.is_cuda and mine.dtype is dtype
        np.testing.assert_allclose(
            mine.detach().cpu().float().numpy(), other.detach().numpy(), rtol=tolerance,
            atol=tolerance,
        )  # fmt: skip
    kernels = dj.explain(attend)(*(x.detach() for x in given)).kernels
    assert all("attention" in kernel.name for kernel in kernels)


def test_where_memory_ends_a_compiled_call_leaves_what_eager_execution_leaves() -> None:
    """The error has the sizes; tensors, versions and gradients are those of the plain function."""

    def step(x: Any, weight: Any) -> Any:
        x.mul_(2)
        product = x.repeat(64, 1) * weight
        return product.sum(), product

    found = []
    pool = gpu.module().get_default_memory_pool()
    for run in (step, dj.compile(step, fullgraph=True)):
        # A part of a kept block would keep all of it, and room for the result.
        gc.collect()
        dj.cuda.empty_cache()
        x, weight = tensor(16, 256).detach(), tensor(1024, 256).requires_grad_()
        run(dj.ones_like(x), weight)
        gc.collect()
        dj.cuda.empty_cache()
        pool.set_limit(size=pool.total_bytes() + 4096)
        try:
            with pytest.raises(dj.OutOfMemoryError, match=r"\d+ bytes|Tried to allocate"):
                run(x, weight)
        finally:
            pool.set_limit(size=0)
        found.append((x._version, weight.grad))
        assert run(x, weight)[0].item() == pytest.approx(step(x / 2, weight)[0].item(), rel=1e-4)

    assert found[0] == found[1]


def test_graphs_outlive_the_tensors_that_they_were_captured_with() -> None:
    """A replay reads and writes the memory of its own call, and results stay what they were."""
    compiled = dj.compile(lambda x: (x * 2).exp(), mode="reduce-overhead", fullgraph=True)
    kept = []
    for number in range(12):
        x = dj.full((64, 32), number / 8, device="cuda")
        for _ in range(3):
            kept.append((number / 8, compiled(x)))
        del x
        dj.cuda.empty_cache()
    for number, result in kept:
        np.testing.assert_allclose(result.cpu().numpy(), np.exp(2 * number), rtol=1e-5)
