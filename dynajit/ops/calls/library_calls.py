"""Library functions as programs call them: `out=`, other names of arguments, older overloads.

Contract: the functions of `ops.functions` know their own parameters only. What PyTorch takes
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
from dynajit.core.types.value_types import numel
from dynajit.ops.calls.arguments import device_of, dtype_of, is_tensor, require_tensor
from dynajit.ops.calls.public import Out, published
from dynajit.ops.native._library_call import LibraryFunction, LibraryMethod, register
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE

#: NumPy's name of an argument -> ours.
_ALIASES: Final = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}

#: Other names of the first argument, if it has one of `_FIRST`.
_ALIASES_OF_FIRST: Final = ("x", "a", "x1", "input")
_FIRST: Final = ("input", "A", "x")

_out: Final[dict[LibraryFunction, Out]] = {}
"""What `out=` means to each."""


def publish(namespace: dict[str, Any], home: str, names: Iterable[str] | None = None) -> list[str]:
    """Put public functions into a module's namespace, such that they take what PyTorch's take; see
    the top.

    Args:
        namespace: `globals()` of the module.
        home: whose functions: "" for `dynajit` itself, "linalg", ...
        names: of the functions; None: all.

    Returns:
        Their names in order, for `__all__`.
    """
    found = published(home)
    for name in found if names is None else names:
        function, facts = found[name].function, found[name]
        foreign = _aliases_for(function, facts.numpy_names)
        if facts.out is not Out.ABSENT:
            foreign = (*foreign, "out")
        if isinstance(function, FunctionType) and (foreign or name in _OLDER):
            function = LibraryFunction(
                function, foreign, _adapted, name, namespace["__name__"], _most(function)
            )
            _out[function] = facts.out
        namespace[name] = function
    return sorted(found)


def adapt_methods(*owners: type) -> None:
    """Let methods that these classes define take NumPy's names and older overloads.

    Only those with dims, and with older overloads: calls of others stay those of Python functions.
    """
    for owner in owners:
        for name, function in tuple(vars(owner).items()):
            if not isinstance(function, FunctionType) or name.startswith("_"):
                continue
            facts = published().get(name)
            known = _aliases_for(function, facts is None or facts.numpy_names)
            foreign = tuple(n for n in known if n in ("axis", "keepdims"))
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


def _aliases_for(function: Callable[..., Any], numpy_names: bool) -> tuple[str, ...]:
    """NumPy's names that a function takes for parameters of its own."""
    if not numpy_names:
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
    return _into(target, out, args, named)


def _into(target: LibraryFunction, out: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    name, function, meaning = target.__name__, target.__wrapped__, _out[target]
    wants_gradient, makes = False, meaning in (Out.FACTORY, Out.RANGE)
    if makes and not any(map(is_tensor, args)):
        wants_gradient = bool(named.pop("requires_grad", False))
        named = {**named, **_place_of(name, out, named)}
    elif meaning is Out.AS_DTYPE and is_tensor(out):
        given = named.get("dtype")
        if given is not None and dtype_of(given) is not out.dtype:
            raise DTypeError(
                f"{name}(): Expected out tensor to have dtype {dtype_of(given).name}, but got "
                f"{out.dtype.name} instead."
            )
        named = {**named, "dtype": out.dtype}

    def run() -> Any:
        made = function(*args, **named)
        keeps = meaning is Out.RANGE and is_tensor(out) and numel(out.shape) == numel(made.shape)
        return TABLE.reshape(made, shape=tuple(out.shape)) if keeps else made

    written = dispatch.write_into(
        out, name, run, (args, tuple(named.values())),
        casts=meaning is not Out.SAME_DTYPE, warns=not makes,
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
