"""Library functions as programs call them: `out=`, other names of arguments, older overloads.

Contract: the functions of `ops.*_functions` know their own parameters only. What PyTorch takes
besides, for all of its functions alike, is here, and costs calls without it a few nanoseconds in C
(`_library_call.c`):

- `out=` writes the result into a tensor (several: into a tuple of them); eager does that, through
  `dispatch`, and capture by itself.
- `axis`, `keepdims`, `x`, `a`, `x1` and `x2` are NumPy's names of `dim`, `keepdim`, `input` (the
  first argument, also where it is called `A`) and `other`.
- `add(input, alpha, other)` and its kin are overloads of PyTorch's first years.

`publish` puts such callables in the place of the functions of a namespace (`dynajit`,
`dynajit.linalg`, ...), `adapt_methods` in that of the methods of a class. Within the library the
functions themselves are called.
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, Final

from dynajit.core.errors import ArgumentError, DeviceError, DTypeError
from dynajit.ops.calls.arguments import device_of, dtype_of, is_tensor, require_tensor
from dynajit.ops.native._library_call import LibraryFunction, LibraryMethod, register
from dynajit.ops.table import dispatch

#: NumPy's name of an argument -> ours.
_ALIASES: Final = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}

#: Other names of the first argument, if it has one of `_FIRST`.
_ALIASES_OF_FIRST: Final = ("x", "a", "x1", "input")
_FIRST: Final = ("input", "A", "x")

#: Functions that PyTorch has written in Python: they know the names of their parameters only.
PLAINLY_NAMED: Final = frozenset((
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "cdist", "einsum",
    "is_tensor", "lu", "normalize", "split", "stft", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
))  # fmt: skip

WITHOUT_OUT: Final = frozenset((
    "adaptive_avg_pool1d", "adjoint", "allclose", "argsort", "argwhere", "as_strided", "atleast_1d",
    "atleast_2d", "atleast_3d", "avg_pool1d", "bartlett_window", "bincount", "blackman_window",
    "block_diag", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "can_cast",
    "cartesian_prod", "cdist", "celu", "channel_shuffle", "chunk", "clone", "combinations", "conj",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "corrcoef", "cosine_similarity", "count_nonzero", "cov", "cumulative_trapezoid", "detach",
    "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "dist", "dropout", "dsplit", "einsum",
    "empty_like", "equal", "fftshift", "flatten", "flip", "fliplr", "flipud", "full_like",
    "gradient", "group_norm", "hamming_window", "hann_window", "hsplit", "ifftshift", "imag",
    "index_fill", "index_put", "is_complex", "is_conj", "is_floating_point", "is_neg", "is_nonzero",
    "is_same_size", "is_signed", "is_tensor", "isclose", "isfinite", "isinf", "isnan", "isreal",
    "istft", "kaiser_window", "layer_norm", "logdet", "masked_fill", "masked_scatter", "matrix_exp",
    "max_pool1d", "max_pool2d", "max_pool3d", "meshgrid", "moveaxis", "movedim", "narrow", "numel",
    "ones_like", "pairwise_distance", "pdist", "permute", "pinverse", "pixel_shuffle",
    "pixel_unshuffle", "positive", "prelu", "promote_types", "put", "rand_like", "randint_like",
    "randn_like", "ravel", "real", "relu", "repeat_interleave", "reshape", "resolve_conj",
    "resolve_neg", "result_type", "rms_norm", "roll", "rot90", "rrelu", "rsub", "select",
    "select_scatter", "selu", "split", "split_with_sizes", "squeeze", "std_mean", "stft",
    "swapaxes", "swapdims", "t", "tensor_split", "tile", "trace", "transpose", "trapezoid", "trapz",
    "tril_indices", "triu_indices", "unbind", "unflatten", "unique", "unique_consecutive",
    "unravel_index", "unsqueeze", "vander", "var_mean", "view_as_complex", "view_as_real", "vsplit",
    "zeros_like",
))  # fmt: skip
"""Functions of which PyTorch has no form with `out=`."""

#: Functions that make tensors: of the dtype and on the device of `out`.
FACTORIES: Final = frozenset((
    "arange", "empty", "eye", "fftfreq", "full", "linspace", "logspace", "normal", "ones", "rand",
    "randint", "randn", "randperm", "rfftfreq", "zeros",
))  # fmt: skip

#: Functions that compute in the dtype of `out`, as if it were given as `dtype=`.
OF_DTYPE: Final = frozenset(("cumprod", "cumsum", "nansum", "prod", "sum"))

#: Functions whose result is not cast: `out` has to have its dtype.
OF_SAME_DTYPE: Final = frozenset((
    "abs", "absolute", "addbmm", "addmm", "addmv", "all", "amax", "amin", "any", "argmax", "argmin",
    "avg_pool2d", "avg_pool3d", "baddbmm", "bitwise_not", "bmm", "bucketize", "ceil", "complex",
    "conj_physical", "cross", "det", "diag", "dot", "eigvalsh", "fix", "float_power", "floor",
    "frac", "gather", "gelu", "hardshrink", "heaviside", "histc", "index_select", "inner", "inv",
    "inverse", "isin", "isneginf", "isposinf", "lerp", "linear", "log_softmax", "logcumsumexp",
    "logsigmoid", "masked_select", "matmul", "matrix_norm", "mm", "msort", "multinomial", "mv",
    "nan_to_num", "nanquantile", "neg", "negative", "nonzero", "norm", "polar", "quantile",
    "renorm", "round", "searchsorted", "sgn", "sign", "signbit", "slice_scatter", "softmax",
    "softplus", "softshrink", "solve", "spmm", "svdvals", "take", "take_along_dim", "tensordot",
    "tril", "triu", "trunc", "vdot", "vecdot", "vector_norm", "where",
))  # fmt: skip


def publish(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Let functions of a module's namespace take what PyTorch's take; see the top.

    Args:
        namespace: `globals()` of the module.
        names: of the functions; other things among them stay.
    """
    for name in names:
        function = namespace[name]
        if isinstance(function, FunctionType):
            foreign = _aliases_for(name, function)
            if name not in WITHOUT_OUT:
                foreign = (*foreign, "out")
            if foreign or name in _OLDER:
                namespace[name] = LibraryFunction(
                    function, foreign, _adapted, name, namespace["__name__"], _most(function)
                )


def adapt_methods(*owners: type) -> None:
    """Let methods that these classes define take NumPy's names and older overloads.

    Only those with dims, and with older overloads: calls of others stay those of Python functions.
    """
    for owner in owners:
        for name, function in tuple(vars(owner).items()):
            if not isinstance(function, FunctionType) or name.startswith("_"):
                continue
            foreign = tuple(n for n in _aliases_for(name, function) if n in ("axis", "keepdims"))
            if foreign or name in _OLDER:
                method = LibraryMethod(function, foreign, _adapted, name, owner, _most(function))
                setattr(owner, name, method)


def renamed(target: LibraryFunction, named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names that the function knows; `out` stays.

    Raises:
        ArgumentError: one argument is there twice.
    """
    found: dict[str, Any] = {}
    for name, value in named.items():
        own = name
        if name in target.foreign and name != "out":
            own = _ALIASES.get(name) or _names(target.__wrapped__)[0]
        if own in found or (own != name and own in named):
            raise ArgumentError(
                f"{target.__name__}() got multiple values for argument '{own}': '{name}' is "
                "another name of it.  Give one of them."
            )
        found[own] = value
    return found


def is_older_form(target: LibraryFunction, count: int) -> bool:
    """True for more arguments in places than the function has."""
    return count > target.most


def _aliases_for(name: str, function: FunctionType) -> tuple[str, ...]:
    """NumPy's names that a function takes for parameters of its own."""
    if name in PLAINLY_NAMED:
        return ()
    own = _names(function)
    found = [alias for alias, known in _ALIASES.items() if known in own and alias not in own]
    if own and own[0] in _FIRST:
        found += [alias for alias in _ALIASES_OF_FIRST if alias not in own]
    return tuple(map(sys.intern, found))


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    code = _code(function)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _code(function: Callable[..., Any]) -> CodeType:
    code: CodeType = inspect.unwrap(function).__code__
    return code


def _most(function: Callable[..., Any]) -> int:
    code = _code(function)
    return sys.maxsize if code.co_flags & inspect.CO_VARARGS else code.co_argcount


#: What functions ask of their operands first.
OF_TENSORS: Final = frozenset(("array", "device", "dtype", "ndim", "shape"))


def _explained(
    target: LibraryFunction, args: tuple[Any, ...], named: dict[str, Any], error: AttributeError
) -> None:
    """Say which argument is no tensor, if that is why an attribute is missing.

    Raises:
        ArgumentError: it is.
    """
    if error.name not in OF_TENSORS:
        return
    for name, value in (*zip(_names(target.__wrapped__), args, strict=False), *named.items()):
        if value is error.obj:
            require_tensor(value, target.__name__, name)


register(_explained)


def _adapted(target: LibraryFunction, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A call with something that the function does not know."""
    named = renamed(target, named)
    out = named.pop("out", None) if "out" in target.foreign else None
    if is_older_form(target, len(args)) and target.__name__ in _OLDER:
        args, named = _from_older(target.__name__, args, named)
    function = target.__wrapped__
    if out is None:
        return function(*args, **named)
    return _into(target.__name__, function, out, args, named)


def _into(
    name: str, function: Callable[..., Any], out: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    wants_gradient = False
    if name in FACTORIES and not any(map(is_tensor, args)):
        wants_gradient = bool(named.pop("requires_grad", False))
        named = {**named, **_place_of(name, out, named)}
    elif name in OF_DTYPE and named.get("dtype") is None and is_tensor(out):
        named = {**named, "dtype": out.dtype}
    written = dispatch.write_into(
        out, name, lambda: function(*args, **named), (args, tuple(named.values())),
        casts=name not in OF_SAME_DTYPE, warns=name not in FACTORIES,
    )  # fmt: skip
    return written.requires_grad_(True) if wants_gradient else written


def _place_of(name: str, out: Any, named: dict[str, Any]) -> dict[str, Any]:
    """dtype and device of `out`, for a function that makes a tensor.

    Raises:
        ArgumentError: `out` is no tensor.
        DTypeError, DeviceError: another dtype or device is asked for, too.
    """
    require_tensor(out, name, "out")
    dtype, device = named.get("dtype"), named.get("device")
    if dtype is not None and dtype_of(dtype) is not out.dtype:
        raise DTypeError(
            f"{name}: dtype {dtype_of(dtype).name} does not match dtype of out parameter "
            f"({out.dtype.name}).  Leave one of them out."
        )
    if device is not None and device_of(device) is not out.device:
        raise DeviceError(
            f"{name}: device {device} does not match device of out parameter ({out.device}).  "
            "Leave one of them out."
        )
    return {"dtype": out.dtype, "device": out.device}


def _scaled_last(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """`(input, alpha, other)`."""
    if len(args) != 3 or is_tensor(args[1]):
        return None
    return (args[0], args[2]), {"alpha": args[1]}


def _with_value(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """`(input, value, tensor1, tensor2)`."""
    if len(args) != 4 or is_tensor(args[1]):
        return None
    return (args[0], args[2], args[3]), {"value": args[1]}


def _with_factors(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """`(beta, input, alpha, left, right)`, of a method `(input, beta, alpha, left, right)`; alpha
    may be left out."""
    if len(args) not in (4, 5):
        return None
    first, *middle, left, right = args
    tensors = [x for x in (first, *middle) if is_tensor(x)]
    numbers = [x for x in (first, *middle) if not is_tensor(x)]
    if len(tensors) != 1 or (len(middle) == 2 and tensors[0] is middle[1]):
        return None
    return (tensors[0], left, right), dict(zip(("beta", "alpha"), numbers, strict=False))


_OLDER: Final[dict[str, tuple[Callable[[tuple[Any, ...]], Any], str]]] = {
    **dict.fromkeys(("add", "sub"), (_scaled_last, "(input, other, alpha=...)")),
    **dict.fromkeys(("addcmul", "addcdiv"), (_with_value, "(input, tensor1, tensor2, value=...)")),
    **dict.fromkeys(
        ("addbmm", "addmm", "addmv", "addr", "baddbmm"),
        (_with_factors, "(input, left, right, beta=..., alpha=...)"),
    ),
}
"""Functions with older overloads: how to read their arguments, and what is written today."""


def _from_older(
    name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of an older overload as those of today's, with a warning; others unchanged."""
    read, today = _OLDER[name]
    found = read(args)
    if found is None or found[1].keys() & named.keys():
        return args, named
    warnings.warn(
        f"{name}: numbers in front of tensors are a deprecated overload.  Write {name}{today}.",
        UserWarning,
        stacklevel=3,
    )
    return found[0], {**found[1], **named}
