"""Schemas from the annotations of Python functions.

Contract: `infer_schema(function, mutates_args=...)` gives the text that PyTorch's function of this
name gives for the same annotations, or raises ValueError.
"""

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.tensor import Tensor
from dynajit.library.schema import SchemaType

UNKNOWN: Final = "unknown"

_BASES: Final[dict[Any, str]] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    DType: "ScalarType", Device: "Device",
}  # fmt: skip
_NUMBER: Final = frozenset((int, float, bool))
_IN_LISTS: Final = ("Tensor", "SymInt", "float", "bool", "Scalar")
_LISTS: Final = (list, collections.abc.Sequence)
_MSG_TYPES: Final = (
    "Expected Tensor, int, float, bool, str, a number, torch.dtype or torch.device, Optional or "
    "(but for the last four) a list of one of them."
)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema of a function with annotations.

    Args:
        prototype_function: every parameter and the result are annotated.
        mutates_args: names of the parameters that it writes to, or "unknown": all tensors.
        op_name: stands in front of the schema; None: nothing does.
        tags: have no influence here.

    Raises:
        ValueError: an annotation is missing or says nothing that a schema can say, or
            `mutates_args` names what is no tensor.
    """
    signature = inspect.signature(prototype_function)

    def refuse(what: str) -> NoReturn:
        raise InvalidValueError(f"infer_schema(func): {what}  Got func with signature {signature}.")

    if isinstance(mutates_args, str):
        if mutates_args != UNKNOWN:
            raise InvalidValueError(
                "mutates_args must either be a sequence of the names of the arguments that are "
                f"mutated or the string 'unknown'.  Got {mutates_args!r}."
            )
        written = None
    else:
        written = frozenset(mutates_args)
        missing = written - signature.parameters.keys()
        if missing:
            refuse(
                f"{sorted(missing)} in mutates_args were not found in the custom op's signature.  "
                "Name parameters, or write 'unknown'."
            )
    namespace = getattr(prototype_function, "__globals__", {})
    parts: list[str] = []
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(_parameter(parameter, position, written, namespace, refuse))
    returned = _returned(_resolved(signature.return_annotation, namespace, refuse), refuse)
    return f"{op_name or ''}({', '.join(parts)}) -> {returned}"


def _parameter(
    parameter: inspect.Parameter,
    position: int,
    written: frozenset[str] | None,
    namespace: dict[str, Any],
    refuse: Callable[[str], NoReturn],
) -> str:
    name = parameter.name
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        refuse("We do not support positional-only args, varargs, or varkwargs.")
    if parameter.annotation is parameter.empty:
        refuse(f"Parameter {name} must have a type annotation.")
    annotation = _resolved(parameter.annotation, namespace, refuse)
    kind = parameter_type(annotation)
    if kind is None:
        is_tuple = typing.get_origin(annotation) is tuple
        hint = "We do not support Tuple inputs in schema: use List instead.  " if is_tuple else ""
        refuse(f"Parameter {name} has unsupported type {annotation}.  {hint}{_MSG_TYPES}")
    is_written = kind.is_tensor if written is None else name in written
    if is_written and not kind.is_tensor:
        refuse(
            f"Parameter {name} is in mutates_args but only Tensors or collections of Tensors can "
            "be mutated."
        )
    text = f"{kind.text(f'(a{position}!)' if is_written else '')} {name}"
    if parameter.default is parameter.empty:
        return text
    return f"{text}={_default(name, parameter.default, refuse)}"


def _default(name: str, value: Any, refuse: Callable[[str], NoReturn]) -> str:
    if value is None or isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (str, Device)):
        return f'"{value}"'
    if isinstance(value, DType):
        return value.name
    refuse(f"Parameter {name} has an unsupported default value type {type(value)}.")


def _resolved(annotation: Any, namespace: dict[str, Any], refuse: Callable[[str], NoReturn]) -> Any:
    """The annotation with types for texts, as `from __future__ import annotations` leaves them."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        try:
            return eval(annotation, namespace)
        except Exception as error:
            refuse(
                f"Unsupported type annotation {annotation}. It is not a type "
                f"({type(error).__name__}: {error})."
            )
    origin, items = typing.get_origin(annotation), typing.get_args(annotation)
    if not any(isinstance(item, (str, typing.ForwardRef)) for item in items):
        return annotation
    found = tuple(_resolved(item, namespace, refuse) for item in items)
    return _union(found) if origin is typing.Union else types.GenericAlias(origin, found)


def parameter_type(annotation: Any) -> SchemaType | None:
    """The type of a parameter with this annotation; None where schemas have none for it."""
    inner = _without_none(annotation)
    base = _base(inner)
    if base is not None:
        return SchemaType(base, optional=inner is not annotation)
    if typing.get_origin(inner) not in _LISTS:
        return None
    (item,) = typing.get_args(inner)
    whole = _without_none(item)
    base = _base(whole)
    is_optional, items_optional = inner is not annotation, whole is not item
    if base not in _IN_LISTS or (items_optional and (base != "Tensor" or is_optional)):
        return None
    if is_optional and base in ("Tensor", "Scalar"):
        return None
    return SchemaType(base, True, None, items_optional, is_optional)


def _base(annotation: Any) -> str | None:
    if _is_union(annotation) and frozenset(typing.get_args(annotation)) == _NUMBER:
        return "Scalar"
    try:
        return _BASES.get(annotation)
    except TypeError:  # not hashable: no type
        return None


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _without_none(annotation: Any) -> Any:
    """X of `Optional[X]`; another annotation itself."""
    items = typing.get_args(annotation)
    if not _is_union(annotation) or type(None) not in items:
        return annotation
    return _union(tuple(item for item in items if item is not type(None)))


def _union(items: tuple[Any, ...]) -> Any:
    return functools.reduce(operator.or_, items)


def _returned(annotation: Any, refuse: Callable[[str], NoReturn]) -> str:
    if annotation is inspect.Signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is not tuple:
        return _one_returned(annotation, refuse)
    items = typing.get_args(annotation)
    if Ellipsis in items:
        refuse(f"Return has unsupported type {annotation}.  Expected one type per result.")
    found = [_one_returned(item, refuse) for item in items]
    return found[0] if len(found) == 1 else f"({', '.join(found)})"


def _one_returned(annotation: Any, refuse: Callable[[str], NoReturn]) -> str:
    kind = parameter_type(annotation)
    is_list = kind is not None and kind.is_list
    if (
        kind is None
        or kind.optional
        or kind.items_optional
        or kind.base not in _IN_LISTS
        or (is_list and (kind.base != "Tensor" or typing.get_origin(annotation) is not list))
    ):
        refuse(
            f"Return has unsupported type {annotation}.  Expected Tensor, List[Tensor], int, "
            "float, bool, a number, a tuple of such, or None."
        )
    return kind.text()
