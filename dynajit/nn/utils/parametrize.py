"""Parametrizations: a parameter or buffer that is computed from others each time it is read.

Contract: as `torch.nn.utils.parametrize`. The module's class becomes one derived from it, made for
this module alone, in which the name is a property; what is trained stands below
`module.parametrizations.<name>` as `original`, or `original0`, `original1`, ...
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dynajit.core.process import late
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.layers.containers import ModuleDict, ModuleList
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter


class _Cache:
    """The values that blocks of `cached` keep. Mutable."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Within this block each parametrized tensor is computed once, when it is first read."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values = {}


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _take_values(target: Tensor, value: Tensor) -> None:
    """Let `target`, which optimizers may hold, have the elements of `value`."""
    target.data = value.detach()


def _require_same(new: Any, old: Tensor, what: str) -> None:
    """
    Raises:
        ValueError: `new` is no tensor, or of another shape or dtype than `old`.
    """
    if not isinstance(new, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(new).__name__}.")
    if new.dtype is not old.dtype:
        raise ValueError(
            f"{what} may not change the dtype of the tensor, unless `unsafe=True`: it is "
            f"{new.dtype}, and was {old.dtype}."
        )
    if tuple(new.shape) != tuple(old.shape):
        raise ValueError(
            f"{what} may not change the shape of the tensor, unless `unsafe=True`: it is "
            f"{tuple(new.shape)}, and was {tuple(old.shape)}."
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and what they start from.

    Args:
        modules: the parametrizations; those with `right_inverse` decide what is kept.
        original: the parameter or buffer as it was.
        unsafe: values, shapes and dtypes are not checked.

    Raises:
        ValueError: none given; a parametrization changes shape or dtype and `unsafe` is not set.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Any], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new = self._inverted(original)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            if new.dtype is not original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype: it is "
                    f"{new.dtype}, and was {original.dtype}."
                )
            with no_grad():
                _take_values(original, new)
            _register(self, "original", original)
        else:
            self._register_several(new, original)
        if not unsafe:
            _require_same(self(), original, "A parametrization")

    def _inverted(self, original: Tensor) -> Any:
        new: Any = original
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    continue
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:
                    continue
        return new

    def _register_several(self, tensors: Sequence[Any], original: Tensor) -> None:
        for number, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {number} of the sequence with type "
                    f"{type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            _register(self, f"original{number}", tensor)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{number}") for number in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor is `value`, as far as it can be.

        Raises:
            RuntimeError: a parametrization has no `right_inverse`.
            ValueError: it returns something else than the originals are.
        """
        new: Any = value
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            if self.is_tensor:
                if not isinstance(new, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor, got {new!r}")
                new = (new,)
            elif not isinstance(new, Sequence) or len(new) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of {self.ntensors} tensors."
                )
            for number, (original, tensor) in enumerate(zip(self._originals(), new, strict=True)):
                if not isinstance(tensor, Tensor) or tensor.dtype is not original.dtype:
                    raise ValueError(
                        f"Tensor {number} returned by `right_inverse` must be of dtype "
                        f"{original.dtype}."
                    )
                _take_values(original, tensor)

    def forward(self) -> Any:
        """The parametrized tensor."""
        modules = list(self._modules.values())
        result = modules[0](*self._originals())
        for module in modules[1:]:
            result = module(result)
        return result


def _read(module: Module, name: str) -> Any:
    parametrization = module.parametrizations[name]
    if not _cache.depth:
        return parametrization()
    key = (id(module), name)
    found = _cache.values.get(key)
    if found is None:
        found = _cache.values[key] = parametrization()
    return found


def _inject_property(module: Module, name: str) -> None:
    def get(self: Module) -> Any:
        return _read(self, name)

    def replace(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, replace))


def _deep_copy(self: Module, memo: dict[int, Any]) -> Any:
    found = memo.get(id(self))
    if found is not None:
        return found
    cls = type(self)
    # A class of its own, or removing a parametrization would remove the copy's, too.
    members = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    own_class: Any = type(cls.__name__, cls.__bases__, members)
    replica = own_class.__new__(own_class)
    memo[id(self)] = replica
    object.__setattr__(replica, "__dict__", copy.deepcopy(self.__dict__, memo))
    return replica


def _refuse_state(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def _inject_class(module: Module) -> None:
    cls = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_state, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _deep_copy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _require_fitting(module: Module, name: str, parametrization: Any) -> None:
    """A further parametrization keeps shape and dtype, forth and back."""
    before = getattr(module, name)
    after = parametrization(before)
    _require_same(after, before, "A parametrization")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    _require_same(back, before, "parametrization.right_inverse")


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """Let `module.<tensor_name>` be `parametrization(original)` from now on; returns the module.

    Args:
        parametrization: a module; its `right_inverse`, if any, gives the originals of a value.
        unsafe: values, shapes and dtypes are not checked.

    Raises:
        ValueError: the module has no such parameter or buffer; or shape or dtype would change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _require_fitting(module, tensor_name, parametrization)
        listed = module.parametrizations[tensor_name]
        listed.append(parametrization)
        listed.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    listed = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_class(module)
        module.parametrizations = ModuleDict()
    _inject_property(module, tensor_name)
    module.parametrizations[tensor_name] = listed
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrizations (of this tensor)."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make the tensor a parameter or buffer again; returns the module.

    Args:
        leave_parametrized: with the parametrized value, else with the original one.

    Raises:
        ValueError: it is not parametrized; or there are several originals and
            `leave_parametrized` is not set.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    listed = module.parametrizations[tensor_name]
    if not leave_parametrized and not listed.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    original = listed.original if listed.is_tensor else None
    if leave_parametrized:
        original = _left_parametrized(getattr(module, tensor_name), original)
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    _register(module, tensor_name, original)  # type: ignore[arg-type]
    return module


def _left_parametrized(value: Tensor, original: Tensor | None) -> Tensor:
    if original is None:
        return Parameter(value.detach()) if value.requires_grad else value
    if value.dtype is not original.dtype:
        raise RuntimeError(
            "The parametrized tensor has another dtype than the original one.  Pass "
            "leave_parametrized=False."
        )
    with no_grad():
        _take_values(original, value)
    return original


def type_before_parametrizations(module: Any) -> type:
    """The class of the module before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Give `to_module` the parametrizations of `from_module` (of one tensor) and their originals.

    Raises:
        ValueError: `from_module` has no such parametrization.
    """
    if not is_parametrized(from_module, tensor_name):
        raise ValueError(f"{from_module} has no parametrization of {tensor_name or 'a tensor'}")
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations.keys())
    for name in names:
        source = from_module.parametrizations[name]
        if name not in to_module._parameters and not is_parametrized(to_module, name):
            _register(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target = to_module.parametrizations[name]
        with no_grad():
            for old, new in zip(target._originals(), source._originals(), strict=True):
                _take_values(old, new.clone())
    return to_module


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

late.show(__name__)
