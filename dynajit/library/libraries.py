"""`Library`, and the functions that define operators by a schema and register their parts by name.

Contract: as in `torch.library`. Dispatch keys are those that mean something here: "CPU" and "CUDA"
(kernels), "CompositeExplicitAutograd" (the kernel of every device), "CompositeImplicitAutograd" and
"Autograd" (a function that the tape sees through), "Meta" (the fake).
"""

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from dynajit.core.errors import ArgumentError, InvalidValueError, OperatorError
from dynajit.core.refusals import refused_function
from dynajit.library import operators
from dynajit.library.definitions import CustomOpDef, split_name
from dynajit.library.operators import Derivative, OpOverload
from dynajit.library.schema import parse
from dynajit.ops.calls.namespaces import NOT_LOADED

KINDS: Final = ("DEF", "FRAGMENT", "IMPL")
IMPLICIT: Final = "CompositeImplicitAutograd"
_KERNELS: Final = {"CPU": "cpu", "CUDA": "cuda", "CompositeExplicitAutograd": None}
_WHOLE: Final = (IMPLICIT, "Autograd", "AutogradCPU", "AutogradCUDA")
_DEVICES: Final = {"cpu": "CPU", "cuda": "CUDA", "default": "CompositeExplicitAutograd"}

#: Libraries that the functions of this file made; their operators last.
_kept: Final[list["Library"]] = []

#: Names of namespaces that have their "DEF" library.
_defined: Final[set[str]] = set()


def fallthrough_kernel() -> None:
    """Stands for "no kernel" in `Library.impl`.

    Raises:
        NotImplementedError: it is called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Operators of one namespace; they are forgotten when it ends. Mutable.

    Args:
        ns: the namespace.
        kind: "DEF" (one per namespace), "FRAGMENT", or "IMPL": no definitions.
        dispatch_key: what `impl` registers for if it is not told.

    Raises:
        ValueError: another kind, or a reserved namespace.
        RuntimeError: a second "DEF".
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in KINDS:
            raise InvalidValueError(f"Unsupported kind: {kind}.  Expected one of {KINDS}.")
        if ns == "prim" and kind != "IMPL":
            raise InvalidValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        if kind == "DEF" and ns in _defined:
            raise OperatorError(
                f"Library({ns!r}, 'DEF'): there is one already, and only a single library can "
                "define a namespace.  Use 'FRAGMENT' for more definitions."
            )
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._operators: list[OpOverload] = []
        if kind == "DEF":
            _defined.add(ns)
        self._end = weakref.finalize(self, _forget, self._operators, ns if kind == "DEF" else None)
        self._end.atexit = False

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator; returns its name.

        Args:
            schema: with the name, `sum(Tensor self) -> Tensor`.
            alias_analysis: has no effect.
            tags: have no effect.

        Raises:
            RuntimeError: the schema cannot be read, or the name is taken, or the kind is "IMPL".
        """
        if self.kind == "IMPL":
            raise OperatorError(
                f"{self!r}.define: a library of the kind IMPL registers kernels only.  Use "
                "'DEF' or 'FRAGMENT'."
            )
        parsed = parse(schema)
        space, _, name = parsed.name.rpartition("::")
        if space not in ("", self.ns) or not name:
            raise OperatorError(
                f"{self!r}.define({schema!r}): expected the name of an operator in {self.ns!r}."
            )
        bare = type(parsed)(name, parsed.arguments, parsed.returns)
        self._operators.append(operators.define(self.ns, bare))
        return parsed.name.partition(".")[0]

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register a function for a dispatch key.

        Args:
            op_name: name (and overload) or operator.
            fn: takes what the operator takes; `fallthrough_kernel`: there is none.
            dispatch_key: see the module; the library's own by default, or else
                "CompositeImplicitAutograd".
            with_keyset: must be False: there are no sets of keys here.
            allow_override: a function registered before may be replaced.

        Raises:
            TypeError: the function cannot be called.
            RuntimeError: there is no such operator or key, or it is not to be replaced.
        """
        if not callable(fn):
            raise ArgumentError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        if with_keyset:
            raise OperatorError(
                f"{self!r}.impl({op_name!r}, with_keyset=True): there are no sets of dispatch keys."
                "  Call the other operator, or the function, by its name."
            )
        overload = found(_full_name(self.ns, op_name))
        key = dispatch_key or self.dispatch_key or IMPLICIT
        _register(overload, key, None if fn is fallthrough_kernel else fn, allow_override)

    def _register_fake(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        _stacklevel: int = 1,
        *,
        allow_override: bool = True,
    ) -> None:
        """Register what the shapes and dtypes of the results are."""
        _register(found(_full_name(self.ns, op_name)), "Meta", fn, allow_override)

    fallback = refused_function(
        "Library.fallback",
        "there is no dispatcher to which a kernel of all operators could be given.  Register "
        "kernels one by one with impl.",
    )

    def _destroy(self) -> None:
        """Forget the operators now."""
        self._end()

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"


def _forget(overloads: list[OpOverload], defined: str | None) -> None:
    for overload in overloads:
        operators.forget(overload)
    overloads.clear()
    if defined is not None:
        _defined.discard(defined)


def _full_name(space: str, name: Any) -> str:
    text = name.name() if isinstance(name, OpOverload) else str(name)
    full = text if "::" in text else f"{space}::{text}"
    if full.partition("::")[0] != space:
        raise OperatorError(f"{text!r} is no operator of the namespace {space!r}.")
    return full


def found(name: str) -> OpOverload:
    """The operator of a full name.

    Raises:
        RuntimeError: there is none.
    """
    overload = operators.find(name)
    if overload is None:
        raise OperatorError(
            f"operator {name} does not exist.  Define it first, with custom_op or define."
        )
    return overload


def _register(
    overload: OpOverload, key: str, function: Callable[..., Any] | None, allow_override: bool
) -> None:
    if key in _KERNELS:
        before = overload.kernels.get(_KERNELS[key])
    elif key in _WHOLE:
        before = overload.whole
    elif key == "Meta":
        before = overload.fake
    else:
        raise OperatorError(
            f"{overload.name()}: could not parse dispatch key: {key}.  Expected one of "
            f"{', '.join((*_KERNELS, *_WHOLE, 'Meta'))}."
        )
    if before is not None and not allow_override:
        raise OperatorError(
            f"{overload.name()}: there's already a function registered for {key}, and "
            "allow_override=False."
        )
    if key == "Meta":
        overload.fake = function
    elif key in _WHOLE:
        overload.whole = function
    elif function is None:
        overload.kernels.pop(_KERNELS[key], None)
    else:
        overload.kernels[_KERNELS[key]] = function


# -- functions -----------------------------------------------------------------------------------


def define(
    qualname: Any, schema: str, *options: Any, lib: Library | None = None, tags: Any = ()
) -> Any:
    """Define an operator by its schema; kernels are registered with `impl`.

    Args:
        qualname: `namespace::name`. The older form `define(library, schema)` gives a decorator
            that also registers the function.
        schema: `(Tensor x) -> Tensor`.
        lib: the operator lives as long as this library; None: for ever.
        tags: have no effect.

    Raises:
        ValueError: the name has no namespace.
        RuntimeError: the schema cannot be read, or the name is taken.
    """
    if isinstance(qualname, Library):
        return _definition(qualname, schema, *options)
    if not isinstance(qualname, str):
        raise InvalidValueError(f"define({qualname!r}): expected the name to be a str.")
    space, name = split_name(qualname)
    if not schema.lstrip().startswith("("):
        raise InvalidValueError(
            f'define(qualname, schema): expected schema to look like e.g. "(Tensor x) -> Tensor" '
            f'but got "{schema}"'
        )
    _library(space, lib).define(name + schema, tags=tags)
    return None


def _definition(library: Library, schema: str, alias_analysis: str = "") -> Any:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        library.impl(library.define(schema, alias_analysis), function)
        return function

    return register


def impl(
    qualname: Any,
    types: Any,
    func: Any = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Register a kernel; without `func` a decorator.

    Args:
        qualname: `namespace::name`. The older form is `impl(library, name, dispatch_key)`.
        types: "cpu", "cuda", "default" (all), a dispatch key, or several of them.
        func: takes what the operator takes.
        lib: has no effect.

    Raises:
        RuntimeError: there is no such operator, device or key.
    """
    if isinstance(qualname, Library):
        return _implementation(qualname, types, func or "")
    kinds = (types,) if isinstance(types, str) else tuple(types)
    space, _ = split_name(qualname)

    def register(function: Callable[..., Any]) -> None:
        for kind in kinds:
            _library(space, lib).impl(qualname, function, _DEVICES.get(kind, kind))

    if func is None:
        return register
    return register(func)


def _implementation(library: Library, name: Any, dispatch_key: str) -> Any:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        library.impl(name, function, dispatch_key)
        return function

    return register


def _library(space: str, lib: Library | None) -> Library:
    if lib is not None:
        return lib
    made = Library(space, "FRAGMENT")
    _kept.append(made)
    return made


def _overload_of(op: Any, function: str) -> OpOverload:
    """The operator that a registration names.

    Raises:
        ValueError: it is neither a name nor an operator.
        RuntimeError: there is no such operator.
    """
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverload):
        return op
    if not isinstance(op, str):
        raise InvalidValueError(f"{function}({op!r}): got unexpected type for op: {type(op)}")
    split_name(op)
    return found(op)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Register the kernel of some devices, or with None of all that have none; a decorator without
    `func`.

    Args:
        op: name or operator.
        device_types: "cpu", "cuda", several of them, or None.
        func: takes what the operator takes.
        lib: has no effect.
    """
    overload = _overload_of(op, "register_kernel")
    if overload.definition is not None:
        return overload.definition.register_kernel(device_types, func)
    kinds = "default" if device_types is None else device_types
    return impl(overload.name(), kinds, func, lib=lib)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Register what the shapes and dtypes of the results are; a decorator without `func`.

    Args:
        op: name or operator.
        func: see `CustomOpDef.register_fake`.
        lib: has no effect.
        allow_override: one registered before may be replaced.

    Raises:
        ValueError: `op` is neither a name nor an operator.
        RuntimeError: there is no such operator. After a library of operators could not be loaded,
            the function is kept for an operator that may be defined yet.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if NOT_LOADED and isinstance(op, str) and split_name(op) and operators.find(op) is None:
            operators.AWAITED[op] = function
            return function
        _register(_overload_of(op, "register_fake"), "Meta", function, allow_override)
        return function

    return register if func is None else register(func)


def impl_abstract(
    qualname: Any, func: Any = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The older name of `register_fake`; warns."""
    warnings.warn(
        "`torch.library.impl_abstract` was renamed to `torch.library.register_fake`. Please use "
        "that instead.",
        FutureWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Register a derivative; see `CustomOpDef.register_autograd`.

    Args:
        op: name or operator.
        lib: has no effect.

    Raises:
        RuntimeError: there is no such operator, or it writes to an argument.
    """
    overload = _overload_of(op, "register_autograd")
    if overload.definition is not None:
        overload.definition.register_autograd(backward, setup_context=setup_context)
        return
    if not overload._schema.is_functional:
        raise OperatorError(
            f"Cannot register autograd formula for non-functional operator {overload} with schema "
            f"{overload._schema}.  Please create a functional operator and register an autograd "
            "formula for that."
        )
    overload.derivative = Derivative(backward, setup_context)
