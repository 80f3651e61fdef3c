"""Modules that only say where programs look for names: the paths lead to the same objects."""

import importlib
import typing
import warnings
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.autograd.function import Function, once_differentiable
from dynajit.torch_version import TorchVersion


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("_C._nn", "gelu", dj.nn.functional.gelu),
        ("_C._nn", "log_sigmoid", dj.nn.functional.logsigmoid),
        ("_jit_internal", "Optional", typing.Optional),
        ("_jit_internal", "ignore", dj.jit.ignore),
        ("_tensor", "Tensor", dj.Tensor),
        ("functional", "einsum", dj.einsum),
        ("functional", "svd_lowrank", dj.svd_lowrank),
        ("autograd.anomaly_mode", "detect_anomaly", dj.autograd.detect_anomaly),
        ("autograd.anomaly_mode", "set_detect_anomaly", dj.autograd.set_detect_anomaly),
        ("autograd.function", "Function", dj.autograd.Function),
        ("autograd.grad_mode", "enable_grad", dj.enable_grad),
        ("autograd.grad_mode", "inference_mode", dj.inference_mode),
        ("autograd.grad_mode", "no_grad", dj.no_grad),
        ("autograd.grad_mode", "set_grad_enabled", dj.set_grad_enabled),
        ("autograd.gradcheck", "gradcheck", dj.autograd.gradcheck),
        ("autograd.gradcheck", "gradgradcheck", dj.autograd.gradgradcheck),
        ("autograd.variable", "Variable", dj.autograd.Variable),
        ("cuda.amp.autocast_mode", "autocast", dj.cuda.amp.autocast),
        ("cuda.amp.autocast_mode", "custom_bwd", dj.cuda.amp.custom_bwd),
        ("cuda.amp.autocast_mode", "custom_fwd", dj.cuda.amp.custom_fwd),
        ("cuda.amp.grad_scaler", "GradScaler", dj.cuda.amp.GradScaler),
        (
            "nn.modules.linear",
            "NonDynamicallyQuantizableLinear",
            type(dj.nn.MultiheadAttention(2, 1).out_proj),
        ),
        ("nn.utils.clip_grad", "clip_grad_norm_", dj.nn.utils.clip_grad_norm_),
        ("nn.utils.clip_grad", "clip_grad_value_", dj.nn.utils.clip_grad_value_),
        ("nn.utils.convert_parameters", "parameters_to_vector", dj.nn.utils.parameters_to_vector),
        ("nn.utils.convert_parameters", "vector_to_parameters", dj.nn.utils.vector_to_parameters),
        ("types", "Size", dj.Size),
        ("types", "Storage", dj.UntypedStorage),
        ("types", "Tensor", dj.Tensor),
        ("types", "_device", dj.device),
        ("types", "_dtype", dj.dtype),
        ("utils.data._utils.collate", "default_collate", dj.utils.data.default_collate),
        ("utils.data._utils.collate", "default_convert", dj.utils.data.default_convert),
    ],
)
def test_paths_lead_to_the_same_objects(path: str, name: str, expected: Any) -> None:
    """As PyTorch's do, at its paths."""
    torch = pytest.importorskip("torch")
    assert expected is getattr(importlib.import_module(f"dynajit.{path}"), name)
    theirs = importlib.import_module(f"{torch.__name__}.{path}")
    assert hasattr(theirs, "UntypedStorage" if name == "UntypedStorage" else name)


def test_every_function_of_pytorchs_functional_is_here() -> None:
    torch = pytest.importorskip("torch")
    functional = importlib.import_module("dynajit.functional")

    assert sorted(torch.functional.__all__) == functional.__all__
    assert all(getattr(functional, name) is getattr(dj, name) for name in functional.__all__)


def test_a_function_made_by_boolean_dispatch_looks_at_its_flag() -> None:
    made = dj._jit_internal.boolean_dispatch(
        arg_name="both",
        arg_index=1,
        default=False,
        if_true=lambda x, both=True: (x, x),
        if_false=lambda x, both=False: x,
        module_name=__name__,
        func_name="made",
    )

    assert [3, (3, 3), (3, 3), 3] == [made(3), made(3, True), made(3, both=True), made(3, False)]
    assert ("made", __name__) == (made.__name__, made.__module__)


@pytest.mark.parametrize("name", ["_jit_set_profiling_mode", "_jit_set_profiling_executor"])
def test_switches_of_torchscript_change_nothing(name: str) -> None:
    switch = getattr(dj._C, name)

    assert switch(True) is False is switch(False)
    assert dj._C._get_tracing_state() is None
    assert not dj._C._jit_can_fuse_on_cpu()
    assert 3 == dj.jit._unwrap_optional(3)
    with pytest.raises(AssertionError, match="null optional"):
        dj.jit._unwrap_optional(None)


def test_enumerations_and_questions_about_exports() -> None:
    torch = pytest.importorskip("torch")

    assert not dj.compiler.is_exporting()
    assert not dj.compiler.is_dynamo_compiling()
    assert dj.compiler.cudagraph_mark_step_begin() is None
    for kind in ("TrainingMode", "OperatorExportTypes"):
        members = getattr(torch.onnx, kind).__members__
        assert list(members) == list(getattr(dj.onnx, kind).__members__)
    assert dj.GradScaler is dj.amp.GradScaler


def test_a_module_does_not_hide_the_function_of_its_name() -> None:
    """`autograd.gradcheck` is called, also after the module was imported."""
    importlib.import_module("dynajit.autograd.gradcheck")
    x = dj.ones(2, dtype=dj.float64, requires_grad=True)

    assert dj.autograd.gradcheck(lambda x: x * x, (x,))


def test_gradcheck_raises_the_error_of_its_path() -> None:
    """Which is a RuntimeError, as in PyTorch."""
    from dynajit.autograd.gradcheck import GradcheckError

    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    assert issubclass(GradcheckError, RuntimeError)
    with pytest.raises(GradcheckError):
        dj.autograd.gradcheck(Wrong.apply, (dj.ones(2, dtype=dj.float64, requires_grad=True),))


def _cube(library: Any, decorate: Any) -> Any:
    class Cube(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @decorate
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            ctx.recorded = library.is_grad_enabled()
            assert not ctx.recorded
            return grad * 3 * x**2

    return Cube.apply


def test_once_differentiable_gives_the_gradient_and_refuses_the_second() -> None:
    """Backward runs without recording; PyTorch's numbers and kind of error."""
    torch = pytest.importorskip("torch")
    results = []
    for library in (dj, torch):
        module = importlib.import_module(f"{library.__name__}.autograd.function")
        cube = _cube(library, module.once_differentiable)
        x = library.tensor([1.0, -2.0], requires_grad=True)
        (plain,) = library.autograd.grad(cube(x).sum(), x)
        (recorded,) = library.autograd.grad((cube(x) ** 2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            recorded.sum().backward()
        with pytest.raises(RuntimeError, match="does not require grad"):  # as no input did
            library.autograd.grad(cube(x).sum(), x, create_graph=True)[0].sum().backward()
        results.append((plain.tolist(), recorded.tolist(), plain.requires_grad))

    assert results[0] == results[1]
    assert ([3.0, 12.0], [6.0, -192.0], False) == results[0]


def test_once_differentiable_runs_under_compile() -> None:
    """The same gradient."""
    cube = _cube(dj, once_differentiable)
    x = dj.tensor([1.0, -2.0], requires_grad=True)
    dj.compile(lambda x: cube(x) + x)(x).sum().backward()

    assert [4.0, 13.0] == x.grad.tolist()


def test_older_amp_paths_warn_at_the_callers_line() -> None:
    """And name the path to write instead."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        dj.cuda.amp.grad_scaler.GradScaler(enabled=False)

    assert ["`cuda.amp.GradScaler"] == [str(n.message).split("(")[0] for n in noted]
    assert __file__ == noted[0].filename


def test_types_can_be_asked_for() -> None:
    """By isinstance, and in annotations."""
    assert isinstance(2.5, dj.types.Number) and not isinstance("2", dj.types.Number)
    assert isinstance("cpu", dj.types.Device) and isinstance(dj.device("cpu"), dj.types.Device)
    assert isinstance(dj.ones(2).shape, dj.Size)
    assert int in typing.get_args(dj.nn.common_types._size_2_t)
    assert tuple[int, int] in typing.get_args(dj.nn.common_types._size_2_t)
    assert tuple[float, ...] in typing.get_args(dj.nn.common_types._ratio_any_t)


def test_common_types_are_pytorchs() -> None:
    """Every name that PyTorch's module has, with as many numbers."""
    pytest.importorskip("torch")
    theirs = importlib.import_module("torch.nn.common_types")
    for name in dj.nn.common_types.__all__:
        if name.startswith(("_size", "_ratio")):
            ours = set(typing.get_args(getattr(dj.nn.common_types, name)))
            assert set(typing.get_args(getattr(theirs, name))) == ours, name


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("max", lambda t, x: t.max(x, 0)),
        ("min", lambda t, x: t.min(x, 0)),
        ("median", lambda t, x: t.median(x, 0)),
        ("nanmedian", lambda t, x: t.nanmedian(x, 0)),
        ("mode", lambda t, x: t.mode(x, 0)),
        ("sort", lambda t, x: t.sort(x)),
        ("topk", lambda t, x: t.topk(x, 1)),
        ("kthvalue", lambda t, x: t.kthvalue(x, 1)),
        ("cummax", lambda t, x: t.cummax(x, 0)),
        ("cummin", lambda t, x: t.cummin(x, 0)),
        ("frexp", lambda t, x: t.frexp(x)),
        ("histogram", lambda t, x: t.histogram(x, 3)),
        ("linalg_eigh", lambda t, x: t.linalg.eigh(x)),
        ("linalg_lstsq", lambda t, x: t.linalg.lstsq(x, x)),
        ("linalg_qr", lambda t, x: t.linalg.qr(x)),
        ("linalg_slogdet", lambda t, x: t.linalg.slogdet(x)),
        ("linalg_svd", lambda t, x: t.linalg.svd(x)),
        ("qr", lambda t, x: t.qr(x)),
        ("slogdet", lambda t, x: t.slogdet(x)),
        ("svd", lambda t, x: t.svd(x)),
        ("triangular_solve", lambda t, x: t.triangular_solve(x, x)),
    ],
)
def test_results_are_of_their_return_types(name: str, call: Any) -> None:
    """For every name listed, and PyTorch's module has it."""
    torch = pytest.importorskip("torch")
    data = [[2.0, 1.0], [1.0, 3.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(torch, torch.tensor(data))
        ours = call(dj, dj.tensor(data))

    assert type(ours) is getattr(dj.return_types, name)
    assert type(theirs) is getattr(torch.return_types, name)
    assert name in dj.return_types.__all__


def test_capsules_share_memory_with_other_libraries() -> None:
    """To and from PyTorch, and NumPy's arrays."""
    torch = pytest.importorskip("torch")
    from dynajit.utils import dlpack

    ours = dj.zeros(2, 3)
    theirs = torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(ours))
    theirs[0, 1] = 5.0
    assert 5.0 == ours[0, 1].item()
    back = dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(theirs.t()))
    back[1, 0] = 7.0
    assert 7.0 == ours[0, 1].item() and (3, 2) == back.shape
    array = np.arange(3.0)
    dlpack.from_dlpack(array)[0] = 9.0
    assert 9.0 == array[0]


def test_capsules_leave_out_history_and_refuse_a_second_use() -> None:
    """As PyTorch's."""
    from dynajit.utils import dlpack

    leaf = dj.ones(2, requires_grad=True)
    over = dlpack.from_dlpack(dlpack.to_dlpack(leaf))
    assert not over.requires_grad and over.data_ptr() == leaf.data_ptr()
    capsule = dlpack.to_dlpack(dj.ones(2))
    dlpack.from_dlpack(capsule)
    with pytest.raises(ValueError):
        dlpack.from_dlpack(capsule)


@pytest.mark.parametrize("operator", ["__lt__", "__le__", "__gt__", "__ge__", "__eq__"])
def test_versions_compare_as_pytorchs(operator: str) -> None:
    """With texts, tuples and lists: by number, and what comes before a release is older."""
    torch = pytest.importorskip("torch")
    own = [
        "1.10.0",
        "1.9",
        "2",
        "2.0.0",
        "2.1.0rc1",
        "2.1.0a0",
        "2.1.0.dev20240101",
        "0.1.0",
        "one",
    ]
    others = [
        "1.9",
        "1.10",
        "2.1",
        "2.1.0b2",
        "2.1.0rc2",
        (1, 10),
        (2,),
        [2, 0, 0],
        (2, 1, "rc", 1),
        "parrots",
    ]
    for text in own:
        for other in others:
            theirs = getattr(torch.torch_version.TorchVersion(text), operator)(other)
            assert theirs == getattr(TorchVersion(text), operator)(other), (text, other)
            assert (TorchVersion(text) == other) is not (TorchVersion(text) != other)


def test_the_version_of_the_path_is_the_packages() -> None:
    """As a text, which is hashed as one."""
    assert str(dj.torch_version.__version__) == dj.__version__
    assert hash(dj.torch_version.__version__) == hash(dj.__version__)
    assert dj.__version__ != "parrots"
    assert dj.__version__ >= "2.0" and dj.__version__ < "3"


def test_flattened_tensors_become_tensors_again() -> None:
    """`_utils._flatten_dense_tensors` and what undoes it, which gives views; as PyTorch's."""
    torch = pytest.importorskip("torch")
    for library in (dj, torch):
        utils = importlib.import_module(f"{library.__name__}._utils")
        tensors = [library.ones(2, 3), library.zeros(0), library.arange(2.0).reshape(1, 2)]
        flat = utils._flatten_dense_tensors(tensors)
        assert [1.0] * 6 + [0.0, 1.0] == flat.tolist()
        parts = utils._unflatten_dense_tensors(flat, tensors)
        assert [(2, 3), (0,), (1, 2)] == [tuple(part.shape) for part in parts]
        parts[2].fill_(7)
        assert [7.0, 7.0] == flat[-2:].tolist()


def test_the_prefix_of_wrapped_models_is_taken_off() -> None:
    """In place, of keys and versions, as by PyTorch's function."""
    torch = pytest.importorskip("torch")
    found = []
    for library in (dj, torch):
        path = f"{library.__name__}.nn.modules.utils"
        strip = importlib.import_module(path).consume_prefix_in_state_dict_if_present
        wrapped = library.nn.Module()
        wrapped.module = library.nn.Sequential(library.nn.BatchNorm1d(2))
        state = wrapped.state_dict()
        state["other"] = library.ones(1)
        strip(state, "module.")
        found.append((sorted(state), state._metadata))
    assert found[0] == found[1]


def test_names_of_pytorchs_that_few_programs_use() -> None:
    """`torch.torch`, `fill`, hints for TorchScript, normal numbers, an older name of clipping."""
    assert dj is dj.torch
    x = dj.ones(2, requires_grad=True)
    filled = dj.fill(x, 3.0)
    assert [3.0, 3.0] == filled.tolist()
    (filled.sum() + x.sum()).backward()
    assert [1.0, 1.0] == x.grad.tolist()
    assert 3 == dj.jit.annotate(int, 3)
    assert ("unknown", False, None) == (dj.version.git_version, dj.version.debug, dj.version.xpu)
    assert issubclass(dj.jit.TracerWarning, Warning)
    drawn = dj.distributions.utils._standard_normal((2, 3), dtype=dj.float64, device=None)
    assert ((2, 3), dj.float64) == (tuple(drawn.shape), drawn.dtype)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        assert abs(float(dj.nn.utils.clip_grad_norm(x, 0.1)) - 2**0.5) < 1e-6
    path = importlib.import_module("dynajit.nn.parallel.distributed")
    assert dj.nn.parallel.DistributedDataParallel is path.DistributedDataParallel


def test_the_class_of_tensors_as_a_type_means_the_default() -> None:
    """`mask.type(torch.Tensor)` makes floats of it."""
    assert dj.float32 is (dj.ones(2) > 0).type(dj.Tensor).dtype


def test_locations_of_storages() -> None:
    """Names of `serialization` that programs import."""
    assert 2 == dj.serialization.DEFAULT_PROTOCOL
    storage = dj.ones(2).untyped_storage()
    assert storage is dj.serialization.default_restore_location(storage, "cpu")
    with pytest.raises(NotImplementedError, match="map_location"):
        dj.serialization.default_restore_location(storage, "cuda:0")


def test_operators_by_their_names_in_aten() -> None:
    x = dj.arange(6.0).reshape(2, 3)
    aten = dj.ops.aten

    assert x.dtype is dj.float32
    assert aten._to_copy.default(x, dtype=dj.float64).dtype is dj.float64
    assert [[0.0, 2.0], [3.0, 5.0]] == aten.slice.Tensor(x, 1, 0, None, 2).tolist()
    assert [2.0, 5.0] == aten.index.Tensor(x, [None, dj.tensor(2)]).tolist()
    assert aten.alias.default(x).data_ptr() == x.data_ptr()
    y = x.clone()
    assert aten.add_.Tensor(y, 1) is y
    assert y.tolist() == (x + 1).tolist()
    compiled = dj.compile(lambda z: aten.add_.Tensor(z.clone(), 1))
    assert y.tolist() == compiled(x).tolist()
    with pytest.raises(NotImplementedError):
        aten._sparse_addmm(x)


def test_types_of_writing_and_reading() -> None:
    import dynajit._tensor_str as text

    x = dj.arange(3.0)
    assert "[0., 1., 2.]" == text._tensor_str(x, 0)
    assert "T([0.], size=(1,))" == text._add_suffixes("T([0.]", ["size=(1,)"], 2, False)
    before = text.PRINT_OPTS.edgeitems
    text.PRINT_OPTS.edgeitems = before
    assert before == text.PRINT_OPTS.edgeitems
    assert 2 == len(dj.onnx.operators.shape_as_tensor(dj.ones(2, 3)))
    assert (3, 2) == dj.onnx.operators.reshape_from_tensor_shape(
        dj.ones(2, 3), dj.tensor([3, 2])
    ).shape
    model = dj.nn.Linear(1, 1)
    compiled = dj.compile(model)
    assert isinstance(compiled, dj._dynamo.OptimizedModule)
    assert not isinstance(model, dj._dynamo.OptimizedModule)
    assert (dj.device("cpu"), dj.float16) == dj._C._nn._parse_to("cpu", dj.half)[:2]
    with dj.nn.utils.stateless._reparametrize_module(model, {"bias": dj.zeros(1)}):
        assert [0.0] == model.bias.tolist()
    assert isinstance(model.bias, dj.nn.Parameter)


def test_stubs_of_quantization_pass_values_on() -> None:
    x = dj.ones(2)

    assert dj.quantization.QuantStub()(x) is x
    assert dj.ao.quantization.DeQuantStub()(x) is x
    lrn = dj.nn.CrossMapLRN2d(3)
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).standard_normal((2, 5, 3, 3)).astype(np.float32)
    expected = torch.nn.CrossMapLRN2d(3)(torch.from_numpy(values)).numpy()
    np.testing.assert_allclose(lrn(dj.tensor(values)).numpy(), expected, rtol=1e-5)
    lrn = dj.nn.CrossMapLRN2d(4, 0.1, 0.5, 2)
    expected = torch.nn.CrossMapLRN2d(4, 0.1, 0.5, 2)(torch.from_numpy(values)).numpy()
    np.testing.assert_allclose(lrn(dj.tensor(values)).numpy(), expected, rtol=1e-5)
