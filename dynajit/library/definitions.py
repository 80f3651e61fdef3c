"""`custom_op`: a Python function as an operator.

Contract: as `torch.library.custom_op`. The function is the kernel of every device, or of those that
`device_types` names; its results are new tensors; it writes to the arguments that `mutates_args`
names, and to nothing else.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from dynajit.core.errors import AutogradError, InvalidValueError, UnsupportedError
from dynajit.core.refusals import refused_function
from dynajit.library.inference import UNKNOWN, infer_schema
from dynajit.library.operators import Derivative, OpOverload, define
from dynajit.library.schema import Schema, parse
from dynajit.library.sources import c_kernel, expression
from dynajit.library.tags import Tag
from dynajit.ops.calls.namespaces import GraphCallable

REASON_VMAP: Final = (
    "dynajit.vmap calls the mapped function once per sample, operators in it included; there is "
    "nothing to register."
)
REASON_TORCH_DISPATCH: Final = (
    "there are no __torch_dispatch__ classes here.  Override __torch_function__, or wrap the "
    "operator in a function."
)
REASON_AUTOCAST: Final = (
    "operators have no autocast rules of their own here.  Cast in the operator's function, or call "
    "it under autocast(enabled=False)."
)
REASON_EFFECT: Final = (
    "effects are not ordered in graphs here.  Leave the operator without a fake: then compiled "
    "functions call it between two graphs, in the order of the program."
)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operator of a function; usable as a decorator.

    Args:
        name: `namespace::name`; an operator of that name is replaced.
        fn: the function, with annotations from which the schema is inferred.
        mutates_args: the names of the arguments that it writes to, or "unknown": all tensors.
        device_types: of which devices it is the kernel, such as "cpu"; None: of all.
        schema: instead of annotations, such as `(Tensor x, int n) -> Tensor`.
        tags: one or several `Tag`; they change nothing.

    Returns:
        a CustomOpDef, or without `fn` a decorator that makes one.

    Raises:
        ValueError: the name has no namespace, or annotations or schema do not fit.
        NotImplementedError: a tensor can only be passed by name, or a tag is `inplace` or `out`.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        _refuse_tags(name, tags)
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        made = CustomOpDef(*split_name(name), parse(text), function)
        if schema is not None:
            _check_written(made._opoverload._schema, mutates_args)
        made.register_kernel(device_types)(function)
        return made

    return make if fn is None else make(fn)


def split_name(name: str) -> tuple[str, str]:
    """Namespace and name.

    Raises:
        ValueError: there are no two parts.
    """
    space, separator, rest = name.partition("::")
    if not space or not rest or "::" in rest or not separator:
        raise InvalidValueError(
            f'Expected the name of an operator to be of the form "namespace::name", but got '
            f"{name!r}.  For example 'mylib::sin'."
        )
    return space, rest


def _refuse_tags(name: str, tags: Any) -> None:
    given = () if tags is None else (tags,) if isinstance(tags, Tag) else tuple(tags)
    for tag in (Tag.inplace, Tag.out):
        if tag in given:
            raise UnsupportedError(
                f"custom_op({name!r}, tags={tag}): operators that return what they write to are "
                "not available.  Let it return None, and return the argument from a function "
                "around it."
            )


def _check_written(schema: Schema, mutates_args: str | Iterable[str]) -> None:
    written = {argument.name for argument in schema.arguments if argument.is_written}
    if mutates_args == UNKNOWN:
        tensors = {argument.name for argument in schema.arguments if argument.type.is_tensor}
        expected = tensors
    else:
        expected = set(mutates_args)
    if written != expected:
        raise InvalidValueError(
            f"custom_op: mutates_args={mutates_args!r} and schema={str(schema)!r} do not agree: by "
            f"the schema {sorted(written)} are written.  Please make these consistent."
        )


class CustomOpDef(GraphCallable):
    """A function that is an operator. Mutable: what is registered for it. Made by `custom_op`.

    Args:
        namespace, name: of the operator.
        schema: without a name.
        fn: the function.
    """

    def __init__(self, namespace: str, name: str, schema: Schema, fn: Callable[..., Any]) -> None:
        for argument in schema.arguments:
            if argument.keyword_only and argument.type.is_tensor:
                raise UnsupportedError(
                    f"custom_op({namespace}::{name}) with kwarg-only Tensor args.  Please make "
                    f"your tensors not kwarg-only.  Got: {argument}"
                )
        self._namespace = namespace
        self._name = name
        self._schema = str(schema)
        self._init_fn = fn
        self._disabled: set[str | None] = set()
        named = Schema(name, schema.arguments, schema.returns)
        self._opoverload = define(namespace, named, is_custom=True, overwrites=True)
        self._opoverload.definition = self

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return self._opoverload(*args, **keywords)

    def recorded(self, /, *args: Any, **keywords: Any) -> Any:
        """See `GraphCallable`."""
        return self._opoverload.recorded(*args, **keywords)

    def written(self) -> tuple[tuple[int, str], ...]:
        """See `GraphCallable`."""
        return self._opoverload.written()

    def facts(self) -> Iterator[tuple[Any, str]]:
        """See `GraphCallable`."""
        return self._opoverload.facts()

    def register_kernel(
        self,
        device_types: str | Sequence[str] | None,
        fn: Callable[..., Any] | None = None,
        /,
    ) -> Callable[..., Any]:
        """Make a function the kernel of some devices; usable as a decorator.

        Args:
            device_types: such as "cpu" or "cuda", one or several; None: of all that have none.
            fn: takes what the operator takes.

        Raises:
            ValueError: the operator has no tensor argument, and no device argument that would say
                where it runs.
        """
        kinds = (device_types,) if device_types is None or isinstance(device_types, str) else (
            tuple(device_types))  # fmt: skip
        arguments = self._opoverload._schema.arguments
        if device_types is not None and not any(
            argument.type.is_tensor or argument.type.base == "Device" for argument in arguments
        ):
            raise InvalidValueError(
                f"{self!r}.register_kernel({device_types!r}): Functions without tensor inputs are "
                "required to have a `device: torch.device` argument."
            )

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in kinds:
                self._opoverload.kernels[kind] = self._kernel(kind, function)
            return function

        return register if fn is None else register(fn)

    def _kernel(self, kind: str | None, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, or the operator's first one while this kernel is disabled."""

        def kernel(*args: Any, **keywords: Any) -> Any:
            chosen = self._init_fn if kind in self._disabled else function
            return chosen(*args, **keywords)

        return kernel

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """While the block runs, use the kernel of a device or, instead of it, the function that the
        operator was made of.

        Args:
            device_type: such as "cpu"; without a kernel of its own there is a warning.
            enabled: whether the kernel is used.
        """
        if device_type not in self._opoverload.kernels:
            warnings.warn(
                f"{self!r}.set_kernel_enabled({device_type!r}): no kernel was registered for this "
                "device type.",
                stacklevel=3,
            )
        was_disabled = device_type in self._disabled
        self._set_disabled(device_type, not enabled)
        try:
            yield
        finally:
            self._set_disabled(device_type, was_disabled)

    def _set_disabled(self, device_type: str, disabled: bool) -> None:
        if disabled:
            self._disabled.add(device_type)
        else:
            self._disabled.discard(device_type)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Say what the results' shapes and dtypes are, so that calls can be part of graphs.

        Args:
            fn: takes what the operator takes, tensors without contents, and returns tensors of
                the shape, dtype and device of the results (`torch.empty_like(x)`).
        """
        self._opoverload.fake = fn
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Say what the derivative is.

        Args:
            backward: `backward(ctx, *gradients)` -> a gradient, or None, for every argument.
            setup_context: `setup_context(ctx, inputs, output)` saves what backward needs; with
                arguments that are passed by name only, `setup_context(ctx, inputs,
                keyword_only_inputs, output)`. It is called by keyword.

        Raises:
            RuntimeError: the operator writes to an argument.
        """
        if not self._opoverload._schema.is_functional:
            raise AutogradError(
                f"Cannot register autograd formula for non-functional operator {self!r} with "
                f"schema {self._opoverload._schema}.  Please create a functional operator and "
                "register an autograd formula for that."
            )
        self._opoverload.derivative = Derivative(backward, setup_context)

    def register_expression(self, c: str, cuda: str | None = None) -> None:
        """Say what the operator computes per element, so that generated kernels compute it.

        For operators whose one result has the shape that their tensors broadcast to, and the dtype
        that they promote to: float32 or float64. Eager execution calls the kernel as before, and
        graphs do where the operands are others.

        Args:
            c: an expression of C over the names of the arguments, `x * exp(-y) + 1.5`. Functions of
                math.h are meant in the dtype of the operands, and numbers with a point, too.
            cuda: the same in CUDA C++; None: the text of `c`.

        Raises:
            ValueError: the operator takes or gives something else, or the text has names or signs
                that are not known.
            RuntimeError: the compiler refuses the text.
        """
        self._opoverload.expression = expression(self._opoverload._schema, c, cuda)

    def register_c_kernel(self, source: str, function: str) -> None:
        """Make a function of C the kernel of "cpu"; it is compiled now, and kept on disk.

        Args:
            source: a whole unit of C.
            function: `void function(...)`: takes the operator's arguments in order, numbers as
                numbers, tensors as pointers to row-major elements; then a pointer for each result,
                which is as the fake says; then an int64_t, the number of elements of the first
                result (without results, of the first tensor). Tensors of other dtypes than the
                pointers' are refused when the operator is called.

        Raises:
            ValueError: the operator takes or gives something else than tensors and numbers, or the
                function has other parameters.
            RuntimeError: there is no compiler, it refuses the source, or the source has no such
                function.
        """
        self.register_kernel("cpu", c_kernel(self._opoverload, source, function))

    register_vmap = refused_function("CustomOpDef.register_vmap", REASON_VMAP)
    register_torch_dispatch = refused_function(
        "CustomOpDef.register_torch_dispatch", REASON_TORCH_DISPATCH
    )
    register_autocast = refused_function("CustomOpDef.register_autocast", REASON_AUTOCAST)
    register_effect = refused_function("CustomOpDef.register_effect", REASON_EFFECT)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


__all__ = ["CustomOpDef", "OpOverload", "custom_op"]
