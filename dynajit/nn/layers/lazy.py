"""Layers whose sizes come from their first input, such as `LazyLinear`.

Contract: as in PyTorch. Until the first call the parameters are uninitialized; that call gives them
sizes and start values, and the layer's class becomes the ordinary one. `nn.parameter` has the
uninitialized parameters.
"""

from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.layers.batch_normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _BatchNorm,
    _InstanceNorm,
    _Norm,
)
from dynajit.nn.layers.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from dynajit.nn.layers.linear import Linear
from dynajit.nn.module import Module
from dynajit.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Mixed into a Module, in front of it: the first call runs `initialize_parameters` with its
    arguments, before all hooks. Mutable: the class becomes `cls_to_become` then, unless it is None.

    `load_state_dict` gives sizes, too; the class changes with the first call nevertheless.
    """

    if TYPE_CHECKING:  # of the layer behind it

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    cls_to_become: ClassVar[type[Module] | None] = None
    _is_inferred = False  # True in instances that keep their class

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Define it: materialize the parameters for these arguments of `forward`."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer of the module itself has no sizes yet."""
        return any(map(is_lazy, chain(self._parameters.values(), self._buffers.values())))

    def _call_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A compiled call holds this method, and keeps it after the class has changed.
        if isinstance(self, LazyModuleMixin) and not self._is_inferred:
            self._infer_parameters(self, args, kwargs)
        if isinstance(self, LazyModuleMixin):
            return super()._call_forward(*args, **kwargs)  # type: ignore[misc]
        return self._call_forward(*args, **kwargs)

    def _infer_parameters(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        if module.cls_to_become is None:
            module._is_inferred = True
            return
        module.__class__ = module.cls_to_become

    def _load_from_state_dict(
        self: Any, state_dict: Any, prefix: str, local_metadata: Any, *others: Any
    ) -> None:
        for name, own in chain(self._parameters.items(), self._buffers.items()):
            entry = state_dict.get(prefix + name)
            if is_lazy(own) and entry is not None and not is_lazy(entry):
                own.materialize(entry.shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)  # type: ignore[misc]


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` that takes `in_features` from the last dim of its first input.

    Args:
        out_features: size of the last dim of the output.
        bias: whether there is an additive bias.
    """

    cls_to_become = Linear
    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """As of `Linear`, once there are sizes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Sizes from `input`, start values.

        Raises:
            AssertionError: a loaded weight takes other inputs.
        """
        in_features = input.shape[-1]
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = in_features
                self.weight.materialize((self.out_features, in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if in_features != self.weight.shape[-1]:
                raise AssertionError(
                    f"LazyLinear: the input has {in_features} features, the loaded weight takes "
                    f"{self.weight.shape[-1]}"
                )
            self.in_features = in_features


class _LazyConvolution(LazyModuleMixin):
    """What convolutions share that take `in_channels` from their first input."""

    weight: Any  # open until there are sizes, then a Parameter
    bias: Any

    def reset_parameters(self: Any) -> None:
        """As of the ordinary layer, once there are sizes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def _leave_open(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Sizes from `input`, start values.

        Raises:
            ValueError: the channels are no multiple of `groups`.
            RuntimeError: another number of dims.
        """
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        with no_grad():
            self.weight.materialize((first, second // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()

    def _get_in_channels(self: Any, input: Tensor) -> int:
        single = self._n + 1
        if input.dim() not in (single, single + 1):
            raise RuntimeError(
                f"Expected {single}D (unbatched) or {single + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {tuple(input.shape)}"
            )
        return input.shape[input.dim() - single]


class _LazyForward(_LazyConvolution):
    """A convolution that takes `in_channels` from dim 1 of its first input (0 of a single one).

    Args: as of the ordinary layer, without `in_channels`.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._leave_open(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    __doc__ = _LazyForward.__doc__
    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    __doc__ = _LazyForward.__doc__
    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    __doc__ = _LazyForward.__doc__
    cls_to_become = Conv3d


class _LazyTransposed(_LazyConvolution):
    """A transposed convolution that takes `in_channels` from dim 1 of its first input (0 of a
    single one).

    Args: as of the ordinary layer, without `in_channels`.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode,
        )  # fmt: skip
        self._leave_open(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    __doc__ = _LazyTransposed.__doc__
    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    __doc__ = _LazyTransposed.__doc__
    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    __doc__ = _LazyTransposed.__doc__
    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin, _Norm):
    """Normalisation per channel that takes `num_features` from dim 1 of its first input.

    Args: as of the ordinary layer, without `num_features`; `affine` and `track_running_stats` are
    true if not given.
    """

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
        if affine and bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        """As of the ordinary layer, once there are sizes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Sizes from `input`, start values."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        with no_grad():
            for part in (self.weight, self.bias, self.running_mean, self.running_var):
                if is_lazy(part):
                    part.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, _BatchNorm):
    __doc__ = _LazyNorm.__doc__
    cls_to_become = BatchNorm1d
    _ranks = BatchNorm1d._ranks


class LazyBatchNorm2d(_LazyNorm, _BatchNorm):
    __doc__ = _LazyNorm.__doc__
    cls_to_become = BatchNorm2d
    _ranks = BatchNorm2d._ranks


class LazyBatchNorm3d(_LazyNorm, _BatchNorm):
    __doc__ = _LazyNorm.__doc__
    cls_to_become = BatchNorm3d
    _ranks = BatchNorm3d._ranks


class LazyInstanceNorm1d(_LazyNorm, _InstanceNorm):
    __doc__ = _LazyNorm.__doc__
    cls_to_become = InstanceNorm1d
    _ranks = InstanceNorm1d._ranks


class LazyInstanceNorm2d(_LazyNorm, _InstanceNorm):
    __doc__ = _LazyNorm.__doc__
    cls_to_become = InstanceNorm2d
    _ranks = InstanceNorm2d._ranks


class LazyInstanceNorm3d(_LazyNorm, _InstanceNorm):
    __doc__ = _LazyNorm.__doc__
    cls_to_become = InstanceNorm3d
    _ranks = InstanceNorm3d._ranks
