"""Parts of PyTorch that are not here: programs import them, get honest answers, errors on use."""

import importlib
from typing import Any

import numpy as np
import pytest

import dynajit as dj

REFUSED = [
    "distributed.checkpoint.DefaultSavePlanner", "hub.load",
    "utils.cpp_extension.CUDAExtension", "utils.cpp_extension.BuildExtension", "onnx.export",
    "quantization.quantize_dynamic", "distributed.pipelining.pipeline",
    "utils._python_dispatch.TorchDispatchMode",
    "mps.synchronize", "xpu.synchronize", "xpu.Stream", "export.export", "export.ExportedProgram",
    "nested.nested_tensor", "ao.quantization.quantize_dynamic",
    "utils.tensorboard.SummaryWriter.add_graph", "_C.Graph", "_C.Node", "_C.Value",
]  # fmt: skip
NEED_A_GPU = [
    "accelerator.synchronize", "cuda.FloatTensor", "cuda.HalfTensor", "cuda.LongTensor",
    "cuda.Stream", "cuda.Event", "cuda.current_stream",
]  # fmt: skip


def found(path: str) -> Any:
    """An object by its dotted path below dynajit, imported as programs do."""
    module, _, name = path.rpartition(".")
    if module.endswith("SummaryWriter"):
        return getattr(found(module), name)
    return getattr(importlib.import_module(f"dynajit.{module}"), name)


@pytest.mark.parametrize("path", REFUSED)
def test_the_name_exists_and_its_use_is_refused(path: str) -> None:
    """With the name in the text; the error is what programs catch for missing features."""
    with pytest.raises(NotImplementedError, match=path.rpartition(".")[2]):
        found(path)("a", ["b"]) if "cpp_extension" in path else found(path)(1)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("path", NEED_A_GPU)
def test_what_needs_a_gpu_is_refused_without(path: str) -> None:
    """In the same way."""
    with pytest.raises(NotImplementedError, match=path.rpartition(".")[2]):
        found(path)(1)


@pytest.mark.parametrize("path", ["cuda.FloatTensor", "distributed.fsdp.StateDictType"])
def test_instances_can_be_asked_for(path: str) -> None:
    """Of classes that have none."""
    assert not isinstance(dj.ones(1), found(path))


def test_downloads_and_extensions_are_refused() -> None:
    """By name."""
    with pytest.raises(NotImplementedError, match="downloads nothing"):
        dj.utils.model_zoo.load_url("https://example.org/weights.pt")
    with pytest.raises(NotImplementedError, match="C\\+\\+ library"):
        dj.utils.cpp_extension.load("name", ["file.cpp"])


@pytest.mark.usefixtures("no_gpu")
def test_questions_get_honest_answers() -> None:
    """There are no other processes, no accelerators, no other libraries."""
    answers = [
        dj.distributed.is_nccl_available(), dj.distributed.is_initialized(),
        dj.accelerator.is_available(), dj.mps.is_available(), dj.xpu.is_available(),
        dj.xpu.is_initialized(), dj.xpu.is_bf16_supported(), dj.xpu.device_count(),
        dj.backends.mps.is_available(),
        dj.backends.mps.is_built(), dj.backends.cudnn.is_available(),
        dj.backends.cuda.is_built(), dj.backends.mkldnn.is_available(),
        dj.backends.openmp.is_available(), dj.cuda._initialized,
        dj.overrides.has_torch_function((dj.ones(1),)),
        dj.utils._python_dispatch.is_traceable_wrapper_subclass(dj.ones(1)),
        dj.onnx.is_in_onnx_export(),
    ]  # fmt: skip
    assert not any(answers)
    assert dj.accelerator.current_accelerator() is None
    assert [] == dj.cuda.get_rng_state_all()


def test_settings_are_accepted() -> None:
    """By attributes, functions and blocks; they are kept, and blocks give them back."""
    import dynajit.backends.cudnn as cudnn

    cudnn.benchmark, cudnn.deterministic = True, True
    with cudnn.flags(enabled=False):
        assert not cudnn.enabled
    assert cudnn.enabled
    cudnn.benchmark, cudnn.deterministic = False, False
    dj.backends.cuda.matmul.allow_tf32 = True
    dj._dynamo.config.cache_size_limit = 64
    dj._inductor.config.triton.unique_kernel_names = True
    with dj._dynamo.config.patch(verbose=False):
        assert not dj._dynamo.config.verbose
    dj._dynamo.config.cache_size_limit = 32
    with dj.backends.cuda.sdp_kernel(enable_flash=False):
        assert not dj.backends.cuda.flash_sdp_enabled()
    assert dj.backends.cuda.flash_sdp_enabled()
    dj.set_float32_matmul_precision("high")
    assert "high" == dj.get_float32_matmul_precision()
    with pytest.warns(UserWarning, match="no effect"):
        dj.set_float32_matmul_precision("low")
    dj.set_float32_matmul_precision("highest")


def test_data_parallel_calls_the_module() -> None:
    """Its parameters are below `module`, as in PyTorch; compiled in one graph."""
    inner = dj.nn.Linear(3, 2)
    outer = dj.nn.DataParallel(inner)
    x = dj.ones(4, 3)

    assert ["module.weight", "module.bias"] == list(outer.state_dict())
    expected = inner(x).detach().numpy()
    for call in (outer, dj.compile(outer, fullgraph=True)):
        np.testing.assert_allclose(call(x).detach().numpy(), expected, rtol=1e-6)
    by_function = dj.nn.parallel.data_parallel(inner, (x,))
    np.testing.assert_allclose(by_function.detach().numpy(), expected, rtol=1e-6)


def test_names_of_capture_are_dynajits() -> None:
    """`_dynamo.disable`, `optimize`."""

    @dj._dynamo.optimize("inductor", nopython=True)
    def double(x: Any) -> Any:
        return x * 2

    assert [2.0] == double(dj.ones(1)).tolist()
    assert dj._dynamo.disable is dj.disable


def test_compressed_and_quantized_tensors_are_refused_by_name() -> None:
    """Functions, methods and layouts; questions are answered."""
    x = dj.ones(2)
    calls = [
        lambda: dj.sparse_csr_tensor([0, 1], [0], [1.0]), lambda: dj.sparse_compressed_tensor(x),
        lambda: dj.sparse_bsr_tensor(x), x.to_sparse_csr, x.to_sparse_bsc, x.crow_indices,
        lambda: x.to_sparse(layout=dj.sparse_csr), lambda: dj.zeros(2, layout=dj.sparse_coo),
        lambda: dj.empty(2, layout=dj.sparse_csr), lambda: dj.ones_like(x, layout=dj.sparse_coo),
        lambda: dj.randn(2, layout=dj.sparse_coo), lambda: dj.zeros_like(x.to_sparse()),
        lambda: dj.rand_like(x.to_sparse()), x.coalesce, x.indices, x._nnz, x.q_scale,
        lambda: dj._C.PyTorchFileReader("file"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(NotImplementedError):
            call()
    assert not any((x.is_sparse, x.is_xpu, x.is_mps, x.is_quantized, x.is_meta, x.is_nested))
    assert x.to_dense() is x
    assert (dj.strided, 0, 1) == (x.layout, x.sparse_dim(), x.dense_dim())
    assert (dj.zeros_like(x.to_sparse(), layout=dj.strided) == 0).all()
    assert not dj.compile(lambda x: x.is_sparse, fullgraph=True)(x)
    assert dj.compile(lambda x: x.layout is dj.strided, fullgraph=True)(x)


def test_devices_storages_and_assertions() -> None:
    """The CPU is the default; storages are told from tensors."""
    assert dj.device("cpu") == dj.get_default_device()
    dj.set_default_device("cpu")
    dj.set_default_device(None)
    with pytest.raises(RuntimeError, match="no cuda device"):
        dj.set_default_device("cuda")
    storage = dj.ones(2).untyped_storage()
    assert dj.is_storage(storage)
    assert not dj.is_storage(dj.ones(2))
    assert 16 == dj.UntypedStorage(16).nbytes()
    assert "cpu" == dj.serialization.location_tag(storage)
    assert dj.UntypedStorage is dj.serialization.normalize_storage_type(dj.UntypedStorage)
    assert 4 == dj._utils._element_size(dj.float32)
    parts = [dj.ones(2, 2), dj.zeros(3)]
    flat = dj._utils._flatten_dense_tensors(parts)
    again = dj._utils._unflatten_dense_tensors(flat, parts)
    assert [part.tolist() for part in parts] == [part.tolist() for part in again]
    dj._assert(True, "fine")
    with pytest.raises(AssertionError, match="wrong"):
        dj._assert(False, "wrong")
    with pytest.raises(dj._C._LinAlgError):
        dj.linalg.inv(dj.zeros(2, 2))


def test_script_modules_are_modules() -> None:
    """TorchScript's classes and decorators pass through."""

    class Doubled(dj.jit.ScriptModule):
        @dj.jit.script_method
        def forward(self, x: Any) -> Any:
            return x * 2

        @dj.jit._overload_method
        def other(self, x: Any) -> Any:
            return x

    assert [2.0] == Doubled()(dj.ones(1)).tolist()
    with dj.autograd.profiler.profile() as prof, dj.autograd.profiler.record_function("part"):
        dj.ones(1)
    assert prof.elapsed_s > 0
