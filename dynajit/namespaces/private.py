"""Functions and names of `torch` that it calls private, and that programs call all the same.

Contract: as PyTorch's. Derivatives of softmax are functions of its result, as its backward calls
them; they have derivatives in turn. `_check` and its kin are captured: a condition on sizes is a
guard. Published under these names by `dynajit`.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from dynajit.core.errors import ShapeError
from dynajit.core.refusals import refused_function
from dynajit.core.types.dtypes import bfloat16, float16, int32, int64
from dynajit.core.types.memory_format import contiguous_format
from dynajit.distributions.dirichlet import Dirichlet
from dynajit.distributions.gamma import Gamma
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.jit import ScriptModule  # noqa: F401  (published)
from dynajit.namespaces.late_names import PRIVATE
from dynajit.nn import functional as F
from dynajit.ops import functions as f

legacy_contiguous_format: Final = contiguous_format

# -- assertions ----------------------------------------------------------------------------------

MSG_FALSE: Final = "Expected cond to be True, but got False."


def _require(kind: type[Exception], condition: Any, message: Callable[[], Any] | None) -> None:
    if isinstance(condition, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use "
            "torch._check_tensor_all() to assert that all elements are true."
        )
    if not isinstance(condition, bool):
        raise TypeError(f"cond must be a bool, but got {type(condition)}")
    if condition:
        return
    if message is None:
        raise kind(MSG_FALSE)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise kind(str(message()))


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Refuse what is False.

    Args:
        cond: a bool.
        message: gives the error's text.

    Raises:
        RuntimeError: it is False.
        TypeError: it is no bool, or `message` cannot be called.
    """
    _require(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """`_check` with an IndexError."""
    _require(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """`_check` with a ValueError."""
    _require(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """`_check` with a TypeError."""
    _require(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """`_check` with a NotImplementedError."""
    _require(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Any = None, *, max: int | None = None) -> None:
    """Refuse negative numbers, and such as are larger than `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Refuse a bool tensor with an element that is False."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype.name != "bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _require(RuntimeError, bool(cond.all().item()), message)


# -- derivatives of softmax ----------------------------------------------------------------------


def _softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """The gradient of softmax's input: y (g - sum of g y over `dim`), for its result y.

    Args:
        input_dtype: dtype of the gradient.
    """
    result = _wide(output)
    product = _wide(grad_output) * result
    return (product - result * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """The gradient of log_softmax's input: g - exp(y) (sum of g over `dim`), for its result y."""
    start = _wide(grad_output)
    total = start.sum(dim, keepdim=True)
    return (start - f.exp(_wide(output)) * total).to(input_dtype)


def _wide(tensor: Tensor) -> Tensor:
    """16-bit floats in float32, in which sums of them are computed."""
    return tensor.float() if tensor.dtype in (float16, bfloat16) else tensor


# -- sizes, indices, draws -----------------------------------------------------------------------


def _shape_as_tensor(self: Any) -> Any:
    """The sizes, an int64 tensor of shape (ndim,)."""
    return tensor(list(self.shape), dtype=int64)


def _convert_indices_from_coo_to_csr(self: Any, size: int, *, out_int32: bool = False) -> Any:
    """How many of sorted row numbers, (n,), lie before each row and at the end: (size + 1,)."""
    counts = f.bincount(self, minlength=size)
    before = f.cat([f.zeros(1, dtype=counts.dtype), counts.cumsum(0)])
    return before.to(int32 if out_int32 else int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False
) -> Any:
    """Rows and columns, shape (2, n), of bounds of rows (rows + 1,) and columns (n,).

    Args:
        transpose: columns first.
    """
    kind = int32 if out_int32 else int64
    numbers = f.arange(crow_indices.shape[0] - 1)
    rows = f.repeat_interleave(numbers, crow_indices.diff().to(int64)).to(kind)
    columns = col_indices.to(kind)
    return f.stack([columns, rows] if transpose else [rows, columns])


def _standard_gamma(self: Any, generator: Any = None) -> Any:
    """One draw of a gamma distribution of rate 1 for each shape; gradients reach the shapes."""
    return Gamma(self, f.ones_like(self)).rsample()


def _sample_dirichlet(self: Any, generator: Any = None) -> Any:
    """One draw of a Dirichlet distribution for each row; gradients reach the concentrations."""
    return Dirichlet(self).rsample()


def conv_tbc(self: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """A convolution of sequences, time first.

    Args:
        self: (time, batch, in channels).
        weight: (kernel, in channels, out channels).
        bias: (out channels,).
        pad: zeros before and behind.

    Returns:
        (time + 2 pad - kernel + 1, batch, out channels).

    Raises:
        ShapeError: other numbers of dims, or channels that differ.
    """
    if self.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise ShapeError("conv_tbc: expected input and weight with 3 dims, and a bias with 1 dim.")
    moved = F.conv1d(self.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return moved.permute(2, 0, 1)


# -- classes of C++ ------------------------------------------------------------------------------


class _Classes(ModuleType):
    """`torch.classes`: classes that libraries in C++ define; there are none."""

    loaded_libraries: Final[frozenset[str]] = frozenset()
    load_library = staticmethod(
        refused_function(
            "classes.load_library",
            "libraries are compiled against PyTorch's C++ classes, which are not here.",
        )
    )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"torch.classes has no attribute {name!r}")
        return _Namespace(name)


class _Namespace:
    """The classes of one library: there are none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        raise RuntimeError(
            f"Class {self._name}.{attribute} is not defined: libraries in C++ are not loaded here."
        )


classes: Final = _Classes("torch.classes")

__all__ = [*PRIVATE]
