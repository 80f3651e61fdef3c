"""Operators: what a name in `torch.ops` stands for, its kernels, its derivative, its fake.

Contract: `OpOverload` is one schema with all that was registered for it. A call binds its arguments
to the schema, then goes to the first of: the graph that is being recorded, if an operand is a value
of one; a function that differentiates by itself; the registered derivative (`library.autograd`), if
an operand requires a gradient; the kernel of the operands' device. `OpOverloadPacket` holds the
overloads of one name. `define` and `find` keep the register of all. Users call the operators.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from dynajit.capture.control import disable
from dynajit.core.errors import AutogradError, NoKernelError, OperatorError, UnsupportedError
from dynajit.core.records import record
from dynajit.core.types.device import Device
from dynajit.eager._tensor import (
    TensorBase,
    _set_grad_enabled,
    are_writes_checked,
    bump_version,
    needs_grad,
)
from dynajit.eager.modes.write_limits import check_write
from dynajit.eager.operations.duals import is_dual
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ir.graph import Value
from dynajit.library import autograd, graph_rows
from dynajit.library.schema import Schema, converted_result, tensors_in
from dynajit.ops.calls.namespaces import GraphCallable, namespace

DEFAULT: Final = "default"
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@record
class Derivative:
    """What `register_autograd` was given: `backward(ctx, *gradients)`, `setup_context` or None."""

    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None


class OpOverload(GraphCallable):
    """One operator. Mutable: what is registered for it.

    Args:
        space, name, overload: `space::name.overload`.
        schema: what it takes and gives.
        is_custom: made by `custom_op` (`definition` is the CustomOpDef): its results must be new,
            and its kernels are no part of the tape. Kernels of other operators are ordinary Python
            where no derivative is registered.

    Attributes:
    """

    def __init__(
        self, space: str, name: str, overload: str, schema: Schema, is_custom: bool
    ) -> None:
        self._namespace, self._opname, self._overloadname = space, name, overload
        self._name = f"{space}::{name}" if overload == DEFAULT else f"{space}::{name}.{overload}"
        self.__name__ = self.__qualname__ = f"{name}.{overload}"
        self.__module__ = f"torch.ops.{space}"
        self._schema = schema
        self.is_custom = is_custom
        self.kernels: dict[str | None, Callable[..., Any]] = {}
        self.whole: Callable[..., Any] | None = None
        self.fake: Callable[..., Any] | None = None
        self.derivative: Derivative | None = None
        self.expression: Any = None
        self.definition: Any = None

    @property
    def has_autograd(self) -> bool:
        """True if calls are nodes of the tape: a derivative is registered, or has to be."""
        return self.is_custom or self.derivative is not None

    def name(self) -> str:
        """`space::name`, with the overload if it is not the default one."""
        return self._name

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        values = self._schema.bind(args, keywords)
        operands = list(tensors_in(values))
        if any(isinstance(operand, Value) for operand in operands):
            if self.written():  # only capture can follow the write
                raise OperatorError(f"{self}: it writes to an argument")
            return graph_rows.call(self, values)
        if self.whole is not None:
            return self.call_python(self.whole, values)
        if self.has_autograd and (needs_grad(tuple(operands)) or is_dual(operands)):
            self._refuse_written_history(values)
            return autograd.call(self, values)
        return self.run_untaped(values) if self.is_custom else self.run(values)

    def recorded(self, /, *args: Any, **keywords: Any) -> Any:
        """See `GraphCallable`."""
        return graph_rows.call(self, self._schema.bind(args, keywords))

    def written(self) -> tuple[tuple[int, str], ...]:
        """See `GraphCallable`."""
        if self.whole is not None:
            return ()
        arguments = enumerate(self._schema.arguments)
        return tuple((i, argument.name) for i, argument in arguments if argument.is_written)

    def facts(self) -> Iterator[tuple[Any, str]]:
        """See `GraphCallable`."""
        return iter([(self, name) for name in ("fake", "derivative", "whole", "expression")])

    def call_python(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """A function of the operator's parameters, called with values in the schema's order."""
        args, keywords = self._schema.split(values)
        return function(*args, **keywords)

    @disable
    def run(self, values: Sequence[Any]) -> Any:
        """The kernel's results, in the types of the schema. Writes to operands are counted.

        Raises:
            NotImplementedError: there is no kernel for the operands' device.
            RuntimeError: the kernel gave something else than the schema says, or an operand.
        """
        for argument, value in zip(self._schema.arguments, values, strict=True):
            if argument.is_written:
                for tensor in tensors_in([value]):
                    if are_writes_checked():
                        check_write(tensor, self._schema.name)
                    bump_version(tensor)
        result = self.checked(self.call_python(self.kernel_for(values), values))
        if self.is_custom:
            self._refuse_aliases(values, result)
        return result

    def run_untaped(self, values: Sequence[Any]) -> Any:
        """As `run`, with operands and results that know no history."""
        before = _set_grad_enabled(False)
        try:
            return self.run([_without_history(value) for value in values])
        finally:
            _set_grad_enabled(before)

    def kernel_for(self, values: Sequence[Any]) -> Callable[..., Any]:
        """The function registered for the device of the operands, or for every device."""
        kind = _device_type(values)
        found = self.kernels.get(kind, self.kernels.get(None))
        if found is None:
            known = ", ".join(sorted(map(str, self.kernels))) or "none"
            raise NoKernelError(
                f"Could not run '{self._name}' with arguments from the '{kind.upper()}' backend: "
                f"no kernel is registered for {kind} (there are: {known}).  Register one with "
                "register_kernel, or move the operands."
            )
        return found

    def checked(self, result: Any) -> Any:
        """What a kernel, or a fake, returned, in the types of the schema.

        Raises:
            RuntimeError: it is something else.
        """
        kinds = [returned.type for returned in self._schema.returns]
        if not kinds:
            if result is not None:
                raise OperatorError(
                    f"{self._name}: expected the kernel to return None, as the schema says, but it "
                    f"returned a {type(result).__name__}.  Declaration: {self._schema}"
                )
            return None
        if len(kinds) == 1:
            return converted_result(self._schema, kinds[0], result)
        if not isinstance(result, (tuple, list)) or len(result) != len(kinds):
            raise OperatorError(
                f"{self._name}: expected the kernel to return {len(kinds)} results.  Declaration: "
                f"{self._schema}"
            )
        return tuple(map(converted_result, [self._schema] * len(kinds), kinds, result))

    def _refuse_aliases(self, values: Sequence[Any], result: Any) -> None:
        seen = [tensor for tensor in tensors_in(values) if isinstance(tensor, TensorBase)]
        for tensor in tensors_in(list(result) if isinstance(result, tuple) else [result]):
            if any(_share_memory(tensor, other) for other in seen):
                raise OperatorError(
                    f"{self._name}: The output of this custom operator (1) must not also be an "
                    "input to this custom operator and (2) may not alias any inputs to this custom "
                    "operator or other returns.  Return a clone() of it, or leave it out of the "
                    "results."
                )
            seen.append(tensor)

    def _refuse_written_history(self, values: Sequence[Any]) -> None:
        """A kernel's writes have no derivative: gradients of what is written would be wrong."""
        for argument, value in zip(self._schema.arguments, values, strict=True):
            if argument.is_written and any(t.requires_grad for t in tensors_in([value])):
                raise AutogradError(
                    f"{self._name}: it writes to '{argument.name}', which requires a gradient, and "
                    "there is no derivative of that write.  Call it under no_grad(), or with a "
                    "detached tensor."
                )

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self._namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}.{self._overloadname}"


def _device_type(values: Sequence[Any]) -> str:
    """Where a call runs: on a GPU if an operand is there, or where a device argument says."""
    kinds = [tensor.device.type for tensor in tensors_in(values)]
    kinds = kinds or [value.type for value in values if isinstance(value, Device)] or ["cpu"]
    return next((kind for kind in kinds if kind != "cpu"), "cpu")


def _without_history(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_history(item) for item in value]
    return value.detach() if isinstance(value, Tensor) and value.requires_grad else value


def _share_memory(a: Any, b: Any) -> bool:
    """True if two tensors have one storage, or arrays on the same memory."""
    if a._storage is b._storage:
        return True
    if isinstance(a._memory, np.ndarray) and isinstance(b._memory, np.ndarray):
        return np.may_share_memory(a._memory, b._memory)
    return False


class OpOverloadPacket(GraphCallable):
    """The overloads of one name; a call takes the first whose schema fits. Mutable: see `define`.

    Args:
        space, name: `space::name`.
    """

    def __init__(self, space: str, name: str) -> None:
        self._qualified_op_name = f"{space}::{name}"
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"torch.ops.{space}"
        self._text = f"{space}.{name}"
        self._overloads: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._overloads)

    def add(self, overload: OpOverload) -> None:
        """One more overload, or another in the place of one."""
        self._overloads[overload._overloadname] = overload
        setattr(self, overload._overloadname, overload)

    def remove(self, overload: OpOverload) -> None:
        """One overload less, if it is one of this packet's."""
        if self._overloads.get(overload._overloadname) is overload:
            del self._overloads[overload._overloadname]
            delattr(self, overload._overloadname)

    def fitting(self, args: Sequence[Any], keywords: dict[str, Any]) -> OpOverload:
        """The first overload that takes these arguments.

        Raises:
            OperatorError: none does.
        """
        overloads = list(self._overloads.values())
        if len(overloads) == 1:
            return overloads[0]
        reasons = []
        for overload in overloads:
            try:
                overload._schema.bind(args, keywords)
            except OperatorError as error:
                reasons.append(str(error))
            else:
                return overload
        raise OperatorError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            + "\n".join(reasons)
        )

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return self.fitting(args, keywords)(*args, **keywords)

    def recorded(self, /, *args: Any, **keywords: Any) -> Any:
        """See `GraphCallable`."""
        return self.fitting(args, keywords).recorded(*args, **keywords)

    def written(self) -> tuple[tuple[int, str], ...]:
        """See `GraphCallable`."""
        found = {overload.written() for overload in self._overloads.values()}
        if len(found) > 1:
            raise OperatorError(f"{self._text}: its overloads write to different arguments")
        return found.pop()

    def facts(self) -> Iterator[tuple[Any, str]]:
        """See `GraphCallable`."""
        for overload in self._overloads.values():
            yield from overload.facts()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"The underlying op of '{self._text}' has no overload name '{name}'")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._text}')>"


# -- the register --------------------------------------------------------------------------------

_packets: Final[dict[str, OpOverloadPacket]] = {}


AWAITED: Final[dict[str, Callable[..., Any]]] = {}
"""Name -> the fake of an operator that is not defined yet. Mutable."""


def define(
    space: str, schema: Schema, *, is_custom: bool = False, overwrites: bool = False
) -> OpOverload:
    """A new operator `space::name`, where the schema has the name (and the overload).

    Args:
        overwrites: the name may be taken.

    Raises:
        RuntimeError: the name is taken, or is none.
        NotImplementedError: it is an operator of the library's own.
    """
    if space == "aten":
        raise UnsupportedError(
            f"aten::{schema.name}: the library's own operators cannot be added to or replaced.  "
            "Define the operator in a namespace of your own."
        )
    name, _, overload = schema.name.partition(".")
    if not all(map(_WORD.fullmatch, (space, name, overload or DEFAULT))):
        raise OperatorError(
            f"{space!r}, {schema.name!r}: not the name of an operator.  Expected "
            "'namespace::name' or 'namespace::name.overload' of letters, digits and underscores."
        )
    full = f"{space}::{name}"
    packet = _packets.get(full)
    if packet is None:
        packet = OpOverloadPacket(space, name)
    if not overwrites and (overload or DEFAULT) in packet.overloads():
        raise OperatorError(
            f"Tried to register an operator ({space}::{schema}) with the same name and overload "
            "name multiple times.  Define each once, or give it another name."
        )
    named = dataclasses.replace(schema, name=f"{space}::{schema.name}")
    made = OpOverload(space, name, overload or DEFAULT, named, is_custom)
    setattr(namespace(space), name, packet)
    packet.add(made)
    _packets[full] = packet
    made.fake = AWAITED.pop(made.name(), None)
    return made


def forget(overload: OpOverload) -> None:
    """Take an operator out of the register."""
    full = f"{overload._namespace}::{overload._opname}"
    packet = _packets.get(full)
    if packet is None:
        return
    packet.remove(overload)
    if not packet.overloads():
        del _packets[full]
        vars(namespace(overload._namespace)).pop(overload._opname, None)


def find(name: str) -> OpOverload | None:
    """The operator `space::name` or `space::name.overload`; None if there is none."""
    full, _, overload = name.partition(".")
    packet = _packets.get(full)
    return None if packet is None else packet._overloads.get(overload or DEFAULT)
