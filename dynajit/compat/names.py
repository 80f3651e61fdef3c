"""PyTorch's import paths that no file of their name answers: what each holds, in one table.

Contract: a row says where a path's names are defined, which constants and small answers it has, and
which names are refused, why. `compat.finder` makes the module when it is asked for. Code of the
library imports from where things are defined, never by these paths. Older names of modules, which
pickles may have, are here, too.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from dynajit.core.types.tensor_layouts import WHY_COMPRESSED

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Place(NamedTuple):
    """A module that holds what is defined elsewhere.

    Args:
        about: its docstring.
        exports: module -> names that are taken from there, in one text; `ours=theirs` where they
            differ, `(name)` where `import *` does not bring it; `*` for all classes that the module
            lists, `**` for all that it lists.
        constants: name -> value; a mapping is a namespace of settings.
        answers: function of `compat.answers` -> names under which the module has it.
        refused: why -> names that raise when they are used. A capital begins a class.
        called: what stands before refused names in errors, where it is not the module's path.
        others: why any other name is refused; empty: there are no other names.
    """

    about: str
    exports: Mapping[str, str] = _NOTHING
    constants: Mapping[str, Any] = _NOTHING
    answers: Mapping[str, str] = _NOTHING
    refused: Mapping[str, str] = _NOTHING
    called: str | None = None
    others: str = ""


_NO_EXTENSIONS: Final = (
    "extensions for PyTorch's C++ library cannot be built or loaded here.  Use the program's "
    "version in Python, which dynajit.compile turns into C."
)
_NO_FAKES: Final = "tensors without contents are not modes here.  Make tensors on the device meta."
_NOT_QUANTIZED: Final = (
    "there are no quantized tensors here.  Use the model as it is; bfloat16 halves its memory."
)
_NO_EXPORT: Final = "dynajit exports no programs.  Compile the module, and save its state_dict."
_NOT_NESTED: Final = (
    "there are no nested tensors here.  Pad the parts by nn.utils.rnn.pad_sequence, and mask "
    "what was added."
)
_NOT_APPLE: Final = "dynajit's tensors live on the CPU.  Ask backends.mps.is_available() first."
_NOT_INTEL: Final = "dynajit does not run on Intel's GPUs.  Ask xpu.is_available() first."
_OWN_FILES: Final = "files are read by load() and written by save()."
_NO_GRAPHS: Final = "there is no TorchScript, and so no graph of it."
_NO_ONNX: Final = (
    "dynajit writes no ONNX files.  Save weights with dynajit.save and export in PyTorch."
)
_NOT_SEVERAL: Final = (
    "not available.  A DTensor takes what operations say of themselves; what they do not know runs "
    "on wholes.  Use to_local() and DTensor.from_local for a form of your own."
)
_NOT_SHARDED: Final = (
    "checkpoints are folders of files of their own.  Use distributed.checkpoint.save and load, or "
    "get_optimizer_state_dict."
)
_NOBODY: Final = "processes do not call each other's functions.  Send values by collectives."
_NO_MESH: Final = (
    "private parts of PyTorch's DTensor.  Use DTensor.placements, device_mesh and to_local()."
)
_NO_PIPELINE: Final = (
    "modules are not cut into stages of several processes.  Call the module itself."
)

_DISTRIBUTED_TENSORS: Final = (
    "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor empty full ones "
    "rand randn zeros"
)

_PLACES: Final[dict[str, Place]] = {
    "_C": Place(
        "The few names that programs import from there.",
        {
            "compat.dispatch_keys": "DispatchKey DispatchKeySet _ExcludeDispatchKeyGuard",
            "compat.overrides": "DisableTorchFunction DisableTorchFunctionSubclass",
            "compat.futures": "Future",
            "core.errors": "_LinAlgError=LinAlgError",
            "eager.modes.forward_levels": (
                "_is_fwd_grad_enabled=is_enabled _set_fwd_grad_enabled=set_enabled"
            ),
            "eager.modes.defaults": "_get_default_device=get_default_device",
            "eager.modes.random": "Generator",
            "ops.table.overriding": (
                "_disabled_torch_function_impl=disabled_torch_function "
                "_is_torch_function_mode_enabled=is_mode_active"
            ),
            "compat.answers": "_TensorMeta=ClassOfTensors",
        },
        constants={"_GLIBCXX_USE_CXX11_ABI": True},
        answers={
            "no": "_jit_can_fuse_on_cpu _jit_can_fuse_on_gpu",
            "not_profiled": "_jit_set_profiling_mode _jit_set_profiling_executor",
            "not_enabled": "_jit_set_autocast_mode",
            "not_guarded": "_jit_set_nvfuser_guard_mode",
            "no_depth": "_jit_set_bailout_depth",
            "accepted_switch": (
                "_jit_set_texpr_fuser_enabled _jit_set_nvfuser_enabled "
                "_jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu"
            ),
            "nothing": "_get_tracing_state",
            "accepted_event": "_log_api_usage_once",
        },
        refused={
            _OWN_FILES: "PyTorchFileReader PyTorchFileWriter",
            _NO_GRAPHS: "Graph ListType Node TensorType Value",
        },
    ),
    "_C._nn": Place(
        "Where pickles look for functions of networks such as `gelu`.",
        {
            "nn.functional": (
                "avg_pool2d avg_pool3d gelu linear log_sigmoid=logsigmoid logsigmoid one_hot "
                "scaled_dot_product_attention softplus softshrink"
            ),
            "compat.private": "_parse_to",
        },
    ),
    "_dynamo": Place(
        "Control of capture: what `dynajit` itself publishes.",
        {
            "driver.compile": (
                "allow_in_graph compile disable explain graph_break is_compiling list_backends "
                "mark_dynamic mark_static register_backend reset"
            ),
            "compat.capturing": (
                "OptimizedModule assume_constant_result is_dynamo_supported mark_static_address "
                "maybe_mark_dynamic nested_compile_region "
                "optimize"
            ),
        },
    ),
    "_custom_ops": Place("Older functions that register operators; see `library`."),
    "_dynamo._trace_wrapped_higher_order_op": Place(
        "Blocks of PyTorch's capture.", {"compat.capturing": "TransformGetItemToIndex"}
    ),
    "_dynamo.eval_frame": Place(
        "What compiled modules are asked by.",
        {"compat.capturing": "OptimizedModule is_dynamo_supported"},
    ),
    "_dynamo.utils": Place("What can be captured.", {"compat.capturing": "is_compile_supported"}),
    "_higher_order_ops": Place("Functions that call functions of tensors."),
    "_higher_order_ops.associative_scan": Place(
        "Scans by a function.", {"namespaces.scans": "associative_scan"}
    ),
    "_higher_order_ops.cond": Place("Branches.", {"": "cond"}),
    "_higher_order_ops.map": Place("A function of slices.", {"namespaces.loop_forms": "map"}),
    "_higher_order_ops.scan": Place(
        "A function of slices and what is carried.", {"namespaces.loop_forms": "scan"}
    ),
    "_higher_order_ops.while_loop": Place(
        "Turns while a condition holds.", {"namespaces.loop_forms": "while_loop"}
    ),
    "_prims_common": Place(
        "Questions about where elements lie.", {"compat.private": "is_contiguous_or_false"}
    ),
    "fx.experimental": Place("Questions about sizes."),
    "_inductor": Place(
        "The code generator: its `config` holds settings.",
        {"compiler": "cudagraph_mark_step_begin"},
    ),
    "_ops": Place(
        "Operators: `torch._ops.ops` is `torch.ops`.",
        {
            "": "ops",
            "library.operators": "OpOverload OpOverloadPacket",
        },
    ),
    "_subclasses": Place(
        "Tensors without contents.",
        {"_subclasses.fake_tensor": "FakeTensor FakeTensorMode"},
    ),
    "_subclasses.fake_tensor": Place(
        "Tensors without contents.",
        refused={_NO_FAKES: ("FakeTensor FakeTensorConverter FakeTensorMode")},
    ),
    "_utils": Place(
        "What programs that unpickle checkpoints import, and `_assert`.",
        {
            "compat.private": (
                "_assert _assert_async _element_size _flatten_dense_tensors "
                "_unflatten_dense_tensors"
            ),
            "eager.files.names": "_rebuild_tensor_v2=rebuilt_tensor",
            "nn.parameter": "_rebuild_parameter=rebuilt_parameter",
        },
    ),
    "_tensor": Place(
        "`Tensor`.",
        {"eager.tensor.tensor": "Tensor"},
    ),
    "ao": Place("What is done to finished models: quantization, which is refused."),
    "ao.quantization": Place("Quantized models, as `quantization`.", {"quantization": "**"}),
    "quantization": Place(
        "Quantized models. The stubs pass values on, as in models that were not converted.",
        {"compat.quantization": "DeQuantStub QuantStub"},
        refused={
            _NOT_QUANTIZED: (
                "FakeQuantize FakeQuantizeBase HistogramObserver MinMaxObserver "
                "MovingAverageMinMaxObserver ObserverBase PerChannelMinMaxObserver "
                "PlaceholderObserver QConfig QConfigMapping QuantWrapper convert convert_fx "
                "default_eval_fn disable_observer enable_observer fuse_modules fuse_modules_qat "
                "get_default_qat_qconfig get_default_qconfig prepare prepare_fx prepare_qat "
                "propagate_qconfig_ quantize quantize_dynamic"
            )
        },
    ),
    "backends": Place(
        "Switches of backends: honest answers, and settings that are accepted. Those of TF32 count "
        "(`backends.cuda.matmul`, `precision`); nothing reads the others, since kernels are this "
        "library's own."
    ),
    "backends.cpu": Place("The processor.", answers={"cpu_capability": "get_cpu_capability"}),
    "backends.mkl": Place("MKL: kernels do not use it.", answers={"no": "is_available"}),
    "backends.mkldnn": Place(
        "oneDNN's switches: the library is not used, settings change nothing.",
        {"compat.backends.cudnn": "flags=mkldnn_flags"},
        constants={"allow_tf32": False, "deterministic": False, "enabled": True},
        answers={"no": "is_available"},
    ),
    "backends.mps": Place("Apple's GPUs: not here.", answers={"no": "is_available is_built"}),
    "backends.openmp": Place("OpenMP: kernels do not use it.", answers={"no": "is_available"}),
    "backends.opt_einsum": Place(
        "Orders of products in einsum: operands are taken from left to right.",
        constants={"enabled": False, "strategy": None},
        answers={"no": "is_available"},
    ),
    "compiler": Place(
        "Control of compiled functions: `compiler.disable` and its kin.",
        {
            "driver.compile": (
                "allow_in_graph compile disable is_compiling is_dynamo_compiling=is_compiling "
                "list_backends reset set_stance"
            ),
            "compat.capturing": "assume_constant_result nested_compile_region",
            "eager.tensor.numpy_functions": "wrap_numpy",
        },
        answers={"no": "is_exporting", "nothing": "cudagraph_mark_step_begin"},
    ),
    "cpu": Place(
        "The CPU: there is one, it is at work, and calls return when their work is done.",
        answers={
            "yes": "is_available",
            "one": "device_count",
            "cpu": "current_device",
            "accepted_device": "synchronize",
        },
    ),
    "mps": Place(
        "Apple's GPUs: tensors do not live there.",
        answers={"no": "is_available", "zero": "device_count", "accepted_seed": "manual_seed"},
        refused={
            _NOT_APPLE: (
                "current_allocated_memory driver_allocated_memory empty_cache get_rng_state "
                "set_rng_state synchronize"
            )
        },
    ),
    "xpu": Place(
        "Intel's GPUs: tensors do not live there.",
        answers={
            "no": "is_available is_initialized",
            "no_emulation": "is_bf16_supported",
            "zero": "device_count",
            "nothing": "empty_cache",
            "accepted_seed": "manual_seed manual_seed_all",
        },
        refused={
            _NOT_INTEL: (
                "Event Stream current_device current_stream get_device_capability get_device_name "
                "get_device_properties get_rng_state max_memory_allocated memory_allocated "
                "set_device set_rng_state synchronize"
            )
        },
    ),
    "export": Place(
        "Exported programs.",
        refused={
            _NO_EXPORT: (
                "Dim ExportGraphSignature ExportedProgram draft_export export export_for_training "
                "load register_dataclass save unflatten"
            )
        },
    ),
    "export._trace": Place("Exported programs.", refused={_NO_EXPORT: "_export"}),
    "export.decomp_utils": Place("Exported programs.", refused={_NO_EXPORT: "CustomDecompTable"}),
    "functional": Place(
        (
            "The functions that PyTorch writes in Python, by its path: `from torch.functional "
            "import norm`."
        ),
        {
            "": (
                "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
                "cartesian_prod cdist chain_matmul einsum istft lu meshgrid norm pca_lowrank "
                "split stft svd_lowrank tensordot unique unique_consecutive unravel_index"
            ),
        },
    ),
    "nested": Place(
        "Tensors of several lengths.",
        refused={
            _NOT_NESTED: (
                "as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged "
                "to_padded_tensor"
            )
        },
    ),
    "onnx": Place(
        "ONNX files. What programs register for an export is accepted; it is never asked for.",
        {
            "compat.onnx": (
                "OperatorExportTypes TensorProtoDataType TrainingMode register_custom_op_symbolic "
                "unregister_custom_op_symbolic"
            ),
        },
        answers={"no": "is_in_onnx_export"},
        refused={_NO_ONNX: "ONNXProgram dynamo_export export"},
    ),
    "onnx.operators": Place(
        "Shapes as tensors: functions that programs call whether they export or not.",
        {"compat.onnx": "reshape_from_tensor_shape shape_as_tensor"},
    ),
    "onnx.symbolic_helper": Place(
        "What an export shall write: accepted, and never called.",
        {"compat.onnx": "parse_args quantized_args"},
    ),
    **{
        f"onnx.symbolic_opset{number}": Place(
            f"What an export would write for operators (opset {number}).", others=_NO_ONNX
        )
        for number in (9, 10, 11, 12, 13)
    },
    "return_types": Place(
        "Classes of the named tuples that functions return. Functions that return values and "
        "indices share one class, so `isinstance` cannot tell them apart.",
        {
            "ops.functions.arrangement.search": "histogram=Histogram",
            "ops.functions.elements.number": "frexp=MantissaExponent",
            "ops.functions.matrices.linalg": (
                "linalg_eigh=Eigen linalg_lstsq=LeastSquares linalg_qr=QR "
                "linalg_slogdet=SignLogDet linalg_svd=SVD qr=QR slogdet=SignLogDet"
            ),
            "ops.functions.matrices.older_linalg": "svd=SVD triangular_solve=TriangularSolution",
            "ops.functions.reductions.reduction": (
                "aminmax=LowestHighest cummax=ValuesIndices cummin=ValuesIndices "
                "kthvalue=ValuesIndices max=ValuesIndices median=ValuesIndices min=ValuesIndices "
                "mode=ValuesIndices nanmedian=ValuesIndices sort=ValuesIndices topk=ValuesIndices"
            ),
        },
    ),
    "signal": Place("Signal processing: its windows."),
    "sparse": Place(
        "Sparse tensors of positions and values (COO); compressed layouts are refused by name.",
        {
            "eager.sparse.functions": (
                "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor "
                "IntTensor LongTensor ShortTensor addmm log_softmax mm softmax sparse_coo_tensor "
                "sum"
            ),
        },
        refused={
            WHY_COMPRESSED: (
                "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_csc_tensor "
                "sparse_csr_tensor"
            )
        },
        called="",
    ),
    "autograd.anomaly_mode": Place(
        "The search for NaN in gradients.",
        {"eager.tape.anomaly": "detect_anomaly set_detect_anomaly"},
    ),
    "autograd.function": Place(
        "Custom operations.",
        {"eager.backward.function": "Function once_differentiable FunctionCtx=FunctionContext"},
    ),
    "autograd.grad_mode": Place(
        "Whether operations are recorded.",
        {"eager.modes.grad_mode": "enable_grad inference_mode no_grad set_grad_enabled"},
    ),
    "autograd.gradcheck": Place(
        "Derivatives against finite differences.",
        {
            "core.errors": "GradcheckError=AutogradError",
            "eager.backward.gradcheck": "gradcheck gradgradcheck",
        },
    ),
    "autograd.profiler": Place(
        "The profiler's older path: `dynajit.profiler` says what the names mean.",
        {
            "profiler": (
                "EventList FunctionEvent FunctionEventAvg ProfilerAction ProfilerActivity "
                "emit_nvtx kineto_available profile record_function schedule "
                "tensorboard_trace_handler"
            )
        },
    ),
    "autograd.variable": Place(
        "`Variable`.",
        {"eager.tensor.legacy": "Variable"},
    ),
    "nn.modules": Place("Layers, such as `nn.modules.batchnorm._BatchNorm`.", {"nn": "*"}),
    "nn.modules.activation": Place(
        "Activation layers.",
        {
            "nn.layers.activation": (
                "CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU "
                "LogSigmoid LogSoftmax Mish PReLU ReLU ReLU6 RReLU Sigmoid SiLU Softmax Softmax2d "
                "Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
            ),
            "nn.layers.multihead": "*",
        },
    ),
    "nn.modules.adaptive": Place(
        "The adaptive softmax.",
        {"nn.layers.adaptive": "*"},
    ),
    "nn.modules.batchnorm": Place(
        "Batch normalization.",
        {
            "nn.layers.batch_normalization": (
                "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm _BatchNorm _NormBase=_Norm"
            ),
            "nn.layers.lazy": (
                "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d _LazyNormBase=_LazyNorm"
            ),
        },
    ),
    "nn.modules.channelshuffle": Place(
        "Channel shuffling.",
        {"nn.layers.resampling": "ChannelShuffle"},
    ),
    "nn.modules.container": Place(
        "Containers.",
        {"nn.layers.containers": "*"},
    ),
    "nn.modules.conv": Place(
        "Convolutions.",
        {
            "nn.layers.convolution": (
                "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
                "_ConvNd=_Convolution _ConvTransposeNd=_Transposed"
            ),
            "nn.layers.lazy": (
                "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
                "LazyConvTranspose3d"
            ),
        },
    ),
    "nn.modules.distance": Place(
        "Distances.",
        {"nn.layers.distance": "CosineSimilarity PairwiseDistance"},
    ),
    "nn.modules.dropout": Place(
        "Dropout.",
        {
            "nn.layers.activation": "AlphaDropout Dropout FeatureAlphaDropout",
            "nn.layers.resampling": "Dropout1d Dropout2d Dropout3d",
        },
    ),
    "nn.modules.flatten": Place(
        "Flattening.",
        {"nn.layers.linear": "Flatten Unflatten"},
    ),
    "nn.modules.fold": Place(
        "Folding.",
        {"nn.layers.convolution": "Fold Unfold"},
    ),
    "nn.modules.instancenorm": Place(
        "Instance normalization.",
        {
            "nn.layers.batch_normalization": (
                "InstanceNorm1d InstanceNorm2d InstanceNorm3d _InstanceNorm"
            ),
            "nn.layers.lazy": "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d",
        },
    ),
    "nn.modules.lazy": Place(
        "Layers without sizes.",
        {"nn.layers.lazy": "LazyModuleMixin"},
    ),
    "nn.modules.linear": Place(
        "Linear layers.",
        {
            "nn.layers.distance": "Bilinear",
            "nn.layers.lazy": "LazyLinear",
            "nn.layers.linear": "Identity Linear (NonDynamicallyQuantizableLinear)",
        },
    ),
    "nn.modules.loss": Place(
        "Losses.",
        {
            "nn.layers.loss": (
                "BCELoss BCEWithLogitsLoss CrossEntropyLoss HingeEmbeddingLoss HuberLoss "
                "KLDivLoss L1Loss MarginRankingLoss MSELoss MultiLabelSoftMarginLoss NLLLoss "
                "PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss _Loss _WeightedLoss"
            ),
            "nn.layers.margin_loss": "*",
        },
    ),
    "nn.modules.module": Place(
        "The base class, and hooks of all modules.",
        {
            "nn.hooks": (
                "register_module_backward_hook register_module_forward_hook "
                "register_module_forward_pre_hook register_module_full_backward_hook "
                "register_module_full_backward_pre_hook"
            ),
            "nn.module": "*",
            "nn.state": "(_IncompatibleKeys=IncompatibleKeys)",
        },
    ),
    "nn.modules.normalization": Place(
        "Layer, group and local normalization.",
        {
            "nn.layers.batch_normalization": "CrossMapLRN2d GroupNorm LocalResponseNorm",
            "nn.layers.normalization": "*",
        },
    ),
    "nn.modules.padding": Place(
        "Padding.",
        {
            "nn.layers.resampling": (
                "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d "
                "ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d "
                "ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d "
                "_ConstantPadNd=_ConstantPad"
            ),
        },
    ),
    "nn.modules.pixelshuffle": Place(
        "Pixel shuffling.",
        {"nn.layers.resampling": "PixelShuffle PixelUnshuffle"},
    ),
    "nn.modules.pooling": Place(
        "Pooling.",
        {
            "nn.layers.pooling": (
                "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
                "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d "
                "FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d "
                "MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d _MaxPoolNd=_MaxPool"
            ),
        },
    ),
    "nn.modules.rnn": Place(
        "Recurrent layers.",
        {
            "nn.layers.recurrent": "*",
            "nn.layers.recurrent_cells": "*",
        },
    ),
    "nn.modules.sparse": Place(
        "Embeddings.",
        {"nn.layers.embedding": "*"},
    ),
    "nn.modules.transformer": Place(
        "Transformers. `_get_activation_fn` has users, too.",
        {
            "nn.layers.transformer": (
                "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
                "TransformerEncoderLayer (_get_activation_fn=_activation_of)"
            ),
        },
    ),
    "nn.modules.upsampling": Place(
        "Upsampling.",
        {"nn.layers.resampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d"},
    ),
    "nn.parallel.parallel_apply": Place(
        "Modules on several devices.",
        {"nn.parallel": "parallel_apply"},
    ),
    "nn.parallel.replicate": Place(
        "Modules on several devices.",
        {"nn.parallel": "replicate"},
    ),
    "nn.parallel.scatter_gather": Place(
        "Tensors spread over GPUs and collected.",
        {"nn.parallel.spreading": "gather scatter scatter_kwargs"},
    ),
    "nn.utils.clip_grad": Place(
        "Clipping.",
        {
            "nn.utils.gradients_and_vectors": (
                "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ "
                "get_total_norm"
            ),
        },
    ),
    "nn.utils.convert_parameters": Place(
        "Parameters as one vector.",
        {"nn.utils.gradients_and_vectors": "parameters_to_vector vector_to_parameters"},
    ),
    "distributed._composable": Place("Sharded modules by PyTorch's inner path: refused."),
    "distributed._composable.fsdp": Place(
        "Sharded modules; see `distributed.fsdp`.",
        {
            "distributed.sharding": (
                "CPUOffloadPolicy FSDP=FSDPModule FSDPModule MixedPrecisionPolicy OffloadPolicy "
                "fully_shard"
            ),
        },
    ),
    "distributed._tensor": Place(
        "Tensors of several processes; see `distributed.tensor`.",
        {
            "distributed.device_mesh": "DeviceMesh init_device_mesh",
            "distributed.tensor": _DISTRIBUTED_TENSORS,
        },
    ),
    "distributed._tensor.experimental": Place(
        "Experiments with tensors of several processes.",
        {"distributed.tensor.running": "implicit_replication"},
    ),
    "distributed._tensor.device_mesh": Place(
        "Meshes of devices.", {"distributed.device_mesh": "DeviceMesh init_device_mesh"}
    ),
    "distributed._tensor.placement_types": Place(
        "Where parts of tensors lie.",
        {"distributed.tensor": "DTensor Partial Placement Replicate Shard"},
    ),
    "distributed.algorithms": Place(
        "What several processes do together: in one, there is nobody to wait for.",
        {"distributed.join": "Join Joinable JoinHook"},
    ),
    "distributed.algorithms._checkpoint": Place(
        "Modules whose activations are computed again.",
    ),
    "distributed.algorithms.ddp_comm_hooks": Place(
        "How gradients of several processes are averaged.",
        {"distributed.data_parallel.hooks": "DDPCommHookType register_ddp_comm_hook"},
    ),
    "distributed.algorithms.ddp_comm_hooks.debugging_hooks": Place(
        "Hooks of distributed modules for measurements.",
        {"distributed.data_parallel.hooks": "noop_hook"},
    ),
    "distributed.algorithms.ddp_comm_hooks.default_hooks": Place(
        "Hooks of distributed modules.",
        {
            "distributed.data_parallel.hooks": (
                "allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook "
                "fp16_compress_wrapper"
            )
        },
    ),
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": Place(
        "Local SGD.",
        {"distributed.data_parallel.averaging": "PostLocalSGDState post_localSGD_hook"},
    ),
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": Place(
        "PowerSGD.",
        {
            "distributed.data_parallel.power_sgd": (
                "PowerSGDState batched_powerSGD_hook powerSGD_hook"
            )
        },
    ),
    "distributed.algorithms.model_averaging": Place(
        "Averages of several processes' models.",
    ),
    "distributed.algorithms.model_averaging.averagers": Place(
        "Averages of several processes' models.",
        {"distributed.data_parallel.averaging": "ModelAverager PeriodicModelAverager"},
    ),
    "distributed.algorithms.model_averaging.hierarchical_model_averager": Place(
        "Averages of several processes' models, of more of them less often.",
        {"distributed.data_parallel.averaging": "HierarchicalModelAverager"},
    ),
    "distributed.algorithms.model_averaging.utils": Place(
        "Averages of several processes' models.",
        {
            "distributed.data_parallel.averaging": (
                "average_parameters average_parameters_or_parameter_groups get_params_to_average"
            )
        },
    ),
    "distributed.checkpoint.default_planner": Place(
        "Plans of sharded checkpoints.",
        {"distributed.checkpoint": "DefaultLoadPlanner DefaultSavePlanner"},
    ),
    "distributed.checkpoint._consolidate_hf_safetensors": Place(
        "Files of sharded checkpoints.",
        refused={_NOT_SHARDED: "consolidate_safetensors_files"},
    ),
    "distributed.checkpoint.hf_storage": Place(
        "Files of sharded checkpoints.",
        refused={_NOT_SHARDED: "HuggingFaceStorageReader HuggingFaceStorageWriter"},
    ),
    "distributed.checkpoint.state_dict_loader": Place(
        "Sharded checkpoints.", {"distributed.checkpoint.saving": "load load_state_dict"}
    ),
    "distributed.checkpoint.state_dict_saver": Place(
        "Sharded checkpoints.",
        {"distributed.checkpoint.saving": "async_save save save_state_dict"},
    ),
    "distributed.checkpoint.optimizer": Place(
        "Optimisers of sharded modules.",
        refused={_NOT_SHARDED: ("load_sharded_optimizer_state_dict")},
    ),
    "distributed.constants": Place(
        "Constants of process groups.", {"distributed.groups": "default_pg_timeout"}
    ),
    "distributed.distributed_c10d": Place(
        "The functions of `dynajit.distributed`.",
        {
            "core.process.process_groups": (
                "_get_default_group=default_group default_group get_rank get_world_size "
                "is_initialized"
            ),
            "distributed.groups": "ProcessGroup init_process_group new_group",
            "distributed.reductions": "ReduceOp",
        },
    ),
    "distributed.elastic": Place("What starts programs on several processes."),
    "distributed.elastic.multiprocessing": Place(
        "What starts programs on several processes: see `distributed.run`.",
        {"distributed.launching.errors": "record"},
    ),
    "distributed.elastic.multiprocessing.errors": Place(
        "Errors of programs on several processes.",
        {"distributed.launching.errors": "record"},
    ),
    "distributed.fsdp": Place(
        "Modules whose parameters lie in several processes.",
        {
            "distributed.sharding": (
                "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig "
                "FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig "
                "LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OffloadPolicy "
                "OptimStateDictConfig OptimStateKeyType ShardedOptimStateDictConfig "
                "ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings "
                "StateDictType fully_shard register_fsdp_forward_method"
            ),
        },
    ),
    "distributed.fsdp.api": Place(
        "Settings of sharded modules; see `fully_sharded_data_parallel`.",
        {
            "distributed.sharding": (
                "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig "
                "LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision "
                "OptimStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig "
                "ShardingStrategy StateDictConfig StateDictSettings StateDictType"
            ),
        },
    ),
    "distributed.nn": Place(
        "Collectives that keep gradients.",
        {
            "distributed.with_gradients": (
                "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce "
                "reduce_scatter scatter"
            ),
        },
    ),
    "distributed.optim": Place(
        "Optimizers of several processes.",
        {
            "distributed.data_parallel.averaging": "PostLocalSGDOptimizer",
            "distributed.sharding.zero_redundancy": "ZeroRedundancyOptimizer",
        },
    ),
    "distributed.rpc": Place(
        "Calls of other processes.",
        answers={"no": "is_available"},
        refused={
            _NOBODY: (
                "RRef TensorPipeRpcBackendOptions get_worker_info init_rpc remote rpc_async "
                "rpc_sync shutdown WorkerInfo"
            )
        },
    ),
    "distributed.pipelining": Place(
        "Modules whose parts run in several processes.",
        refused={
            _NO_PIPELINE: (
                "PipelineStage Schedule1F1B ScheduleGPipe SplitPoint build_stage pipe_split "
                "pipeline"
            )
        },
    ),
    "distributed.tensor._dtensor_spec": Place(
        "What is known of distributed tensors.", refused={_NO_MESH: "DTensorSpec TensorMeta"}
    ),
    "distributed.tensor._utils": Place(
        "Parts of distributed tensors.",
        refused={_NO_MESH: "compute_global_tensor_info compute_local_shape_and_global_offset"},
    ),
    "distributed.tensor.device_mesh": Place(
        "Meshes of devices.", {"distributed.device_mesh": "DeviceMesh init_device_mesh"}
    ),
    "distributed.tensor.experimental": Place(
        "Experiments with tensors of several processes.",
        {"distributed.tensor.running": "implicit_replication"},
        refused={_NOT_SEVERAL: "context_parallel local_map register_sharding"},
    ),
    "distributed.tensor.experimental._attention": Place(
        "Attention over several processes.",
        refused={_NOT_SEVERAL: "context_parallel context_parallel_unshard set_rotate_method"},
    ),
    "distributed.tensor.placement_types": Place(
        "Where parts of tensors lie.",
        {"distributed.tensor.placements": "Partial Placement Replicate Shard (_StridedShard)"},
    ),
    "distributed.utils": Place(
        "What distributed modules do when they are made.",
        {
            "distributed.data_parallel.agreement": (
                "_sync_module_states=sync_module_states "
                "_verify_param_shape_across_processes=verify_param_shape_across_processes"
            )
        },
    ),
    "distributions.chi2": Place(
        "The chi-squared distribution.",
        {"distributions.gamma": "Chi2"},
    ),
    "utils.cpp_extension": Place(
        "Extensions in C++ against PyTorch's headers, which are not here.",
        constants={"CUDA_HOME": None, "ROCM_HOME": None},
        refused={_NO_EXTENSIONS: "BuildExtension CUDAExtension CppExtension load load_inline"},
        called="cpp_extension",
    ),
    "utils.data._utils": Place(
        "What programs import to collate batches themselves.",
    ),
    "utils.data._utils.collate": Place(
        "Batches out of samples.",
        {
            "utils.data.collate": (
                "collate collate_float_fn collate_int_fn collate_numpy_array_fn "
                "collate_numpy_scalar_fn collate_str_fn collate_tensor_fn default_collate "
                "default_collate_err_msg_format default_collate_fn_map default_convert "
                "np_str_obj_array_pattern"
            ),
        },
    ),
    "utils.data._utils.pin_memory": Place(
        "Batches in pinned memory.",
        {"utils.data.pinning": "pin_memory"},
    ),
    "utils.data._utils.worker": Place(
        "What workers of a loader know.",
        {"utils.data.worker": "WorkerInfo get_worker_info"},
    ),
    "utils.hooks": Place(
        "Handles of hooks.",
        {"nn.hooks": "RemovableHandle"},
    ),
    "utils.model_zoo": Place(
        "Weights that were fetched before; see `dynajit.hub`.",
        {"hub": "load_url=load_state_dict_from_url tqdm"},
    ),
}

PLACES: Final[Mapping[str, Place]] = MappingProxyType(_PLACES)
"""Path below the library -> what its module holds."""

_LAYERS: Final = (
    "activation adaptive batch_normalization containers convolution distance embedding lazy linear "
    "loss margin_loss multihead normalization pooling recurrent recurrent_cells resampling "
    "transformer"
)
"""Modules that were the package's own: `nn.linear` is `nn.layers.linear`."""

_ELSEWHERE: Final[dict[str, str]] = {
    "__config__": "compat.build",
    "_dynamo.config": "compat.settings.dynamo",
    "_inductor.config": "compat.settings.inductor",
    "_jit_internal": "compat.script_types",
    "_tensor_str": "compat.printing",
    "accelerator": "cuda.accelerator",
    "backends.cuda": "compat.backends.cuda",
    "backends.cudnn": "compat.backends.cudnn",
    "backends.precision": "compat.backends.precision",
    "cpu.amp": "compat.amp_on_cpu",
    "distributed.algorithms._checkpoint.checkpoint_wrapper": "distributed.checkpoint_wrapper",
    "distributed.algorithms.join": "distributed.join",
    "distributed.fsdp.fully_sharded_data_parallel": "distributed.sharding",
    "distributed.fsdp.sharded_grad_scaler": "distributed.sharding.grad_scaler",
    "distributed.fsdp.wrap": "distributed.wrapping",
    "distributed.optim.zero_redundancy_optimizer": "distributed.sharding.zero_redundancy",
    "distributed.nn.functional": "distributed.with_gradients",
    "futures": "compat.futures",
    "fx.experimental.symbolic_shapes": "compat.symbolic_shapes",
    "hub": "compat.hub",
    "masked": "namespaces.masked",
    "multiprocessing": "compat.multiprocessing",
    "nn.modules.utils": "compat.layer_arguments",
    "nn.parallel.distributed": "distributed.data_parallel.module",
    "nn.utils.rnn": "nn.sequences",
    "overrides": "compat.overrides",
    "quasirandom": "namespaces.quasirandom",
    "random": "compat.random",
    "serialization": "compat.serialization",
    "signal.windows": "namespaces.windows",
    "storage": "compat.storage",
    "torch_version": "compat.torch_version",
    "types": "compat.types",
    "version": "compat.version",
    **{f"nn.{name}": f"nn.layers.{name}" for name in _LAYERS.split()},
}
ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(_ELSEWHERE)
"""Path -> where the module lies that has it: the path is its other name, which programs use."""

_KEPT_NAME: Final = {
    "core.process": "determinism process_groups threads",
    "core.types": "device dtypes memory_format tensor_layouts type_info",
    "eager.backward": "compiled function gamma_numbers gradcheck recomputation",
    "eager.files": "serialization",
    "eager.modes": "defaults grad_mode random write_limits",
    "eager.operations": "execute layout reshaping storages subclasses",
    "eager.sparse": "to_sparse",
    "eager.tape": "anomaly node",
    "eager.tensor": "convert count_draws creation legacy printing typed_names",
    "ops.calls": "arguments autocast contents library_calls namespaces placing",
    "ops.functions.creation": "signal_windows",
    "ops.functions.matrices": "householder",
    "ops.functions.networks": "fractional_pooling margin_losses multihead_attention",
    "ops.methods": "analysis_methods kind_methods",
    "ops.rows.networks": "batch_normalization",
    "ops.table": "dispatch flops overriding scalar type_rules",
}
"""Room -> modules that lay in its package."""

_WITHOUT_SUFFIX: Final = {
    "ops.functions.arrangement": "arrangement scatter search segment statistics",
    "ops.functions.creation": "creation",
    "ops.functions.elements": "complex elementwise number special",
    "ops.functions.matrices": "linalg lowrank matrix norm older_linalg",
    "ops.functions.networks": (
        "convolution embedding grid loss nn noise pooling recurrent resampling"
    ),
    "ops.functions.reductions": "pair reduction",
    "ops.functions.shapes": "index shape",
    "ops.functions.signals": "spectrogram",
}
"""Room -> modules that lay in its package as `name_functions`."""

_RENAMED: Final = {
    "_foreach": "namespaces.foreach",
    "_further_functions": "namespaces.further",
    "_inplace": "namespaces.inplace",
    "_native_functions": "namespaces.native",
    "_private_functions": "namespaces.private",
    "artefacts": "driver.artefacts",
    "backend": "driver.backend",
    "compile": "driver.compile",
    "core.gpu": "core.arrays.gpu.runtime",
    "core.gpu_faults": "core.arrays.gpu.faults",
    "core.gpu_memory": "core.arrays.gpu.memory",
    "demo": "commands.demo",
    "doctor": "commands.doctor",
    "eager.checkpoint_names": "eager.files.names",
    "eager.inplace": "eager.operations.writes.methods",
    "eager.operations.inplace": "eager.operations.writes.methods",
    "eager.sparse_functions": "eager.sparse.functions",
    "early_compiler": "driver.early_compiler",
    "launches": "driver.launches",
    "mapped": "namespaces.mapped",
}


def _older() -> dict[str, str]:
    pairs = dict(_RENAMED)
    for rooms, suffix in ((_KEPT_NAME, ""), (_WITHOUT_SUFFIX, "_functions")):
        for room, names in rooms.items():
            package = room.partition(".")[0]
            pairs |= {f"{package}.{name}{suffix}": f"{room}.{name}" for name in names.split()}
    return pairs


MOVED: Final[Mapping[str, str]] = MappingProxyType({**_older(), **ELSEWHERE})
"""Path -> where the module lies: `ELSEWHERE`, and the names under which older pickles know modules.

A room that has the name of one of its modules (`eager.tensor`) answers for that module itself."""


def _below(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        package, _, name = path.rpartition(".")
        found.setdefault(package, []).append(name)
    return {package: tuple(names) for package, names in found.items()}


HIDDEN: Final = (
    "autograd.gradcheck",
    "compile",
    "nn.parallel.parallel_apply",
    "nn.parallel.replicate",
)
"""Paths of modules whose packages have a function of the same name, which is what programs call."""

BELOW: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    _below(path for path in (*PLACES, *ELSEWHERE) if path not in HIDDEN)
)
"""Package ("" is the library) -> modules that programs find below it, though no file says so."""
