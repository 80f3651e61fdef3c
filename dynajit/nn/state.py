"""State dicts of modules: what is saved, how it is loaded, and what did not fit.

A state dict is an ordered dict from dotted name to tensor with an attribute `_metadata` of version
numbers, as in PyTorch.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from dynajit.core.errors import ArgumentError, InternalError
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.parameter import Parameter, is_lazy

EXTRA = "_extra_state"
_compilers: list[Callable[..., Any]] = []


class IncompatibleKeys(NamedTuple):
    """Names that `load_state_dict(strict=False)` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


def install_compiler(compiler: Callable[..., Any]) -> None:
    """Name what `Module.compile` calls. Called once, by the top layer."""
    _compilers[:] = [compiler]


def compile_module_call(module: Any, **options: Any) -> Any:
    """Compile the call of `module` in place."""
    if not _compilers:
        raise InternalError("Module.compile: import dynajit before compiling a module")
    return _compilers[0](module, **options)


class StateDict(OrderedDict):  # type: ignore[type-arg]
    """An ordered dict that can carry `_metadata`."""

    _metadata: Any

    def __reduce__(self) -> Any:
        """Copies and files hold an ordinary OrderedDict, which PyTorch reads, too."""
        return OrderedDict, (), dict(self.__dict__) or None, None, iter(self.items())


def state_dict(module: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """See `Module.state_dict`."""
    if destination is None:
        destination = StateDict()
        destination._metadata = OrderedDict()
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = {"version": module._version}
    local = getattr(destination, "_metadata", {}).get(prefix[:-1], {})
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )
    for hook in module._state_dict_hooks.values():
        hook(module, destination, prefix, local)
    return destination


def save_own(module: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Enter the module's own parameters and persistent buffers."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            destination[prefix + name] = _saved(parameter, keep_vars)
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            destination[prefix + name] = _saved(buffer, keep_vars)
    if has_extra_state(module):
        destination[prefix + EXTRA] = module.get_extra_state()


def _saved(tensor: Any, keep_vars: bool) -> Any:
    return tensor if keep_vars or is_lazy(tensor) else tensor.detach()


def has_extra_state(module: Any) -> bool:
    """True if the module's class overrides `get_extra_state`."""
    return not getattr(type(module).get_extra_state, "__module__", "").startswith("dynajit.nn.")


def load_state_dict(module: Any, given: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """See `Module.load_state_dict`."""
    if not hasattr(given, "items"):
        raise ArgumentError(
            f"Expected state_dict to be dict-like, got {type(given).__name__}.  "
            "Pass the result of module.state_dict() or dynajit.load(path)."
        )
    entries = OrderedDict(given)
    metadata = getattr(given, "_metadata", None)
    missing: list[str] = []
    unexpected: list[str] = []
    problems: list[str] = []
    _load(module, entries, "", metadata, assign, missing, unexpected, problems)
    keys = IncompatibleKeys(missing, unexpected)
    if strict and unexpected:
        names = ", ".join(f'"{key}"' for key in unexpected)
        problems.insert(0, f"Unexpected key(s) in state_dict: {names}. ")
    if strict and missing:
        names = ", ".join(f'"{key}"' for key in missing)
        problems.insert(0, f"Missing key(s) in state_dict: {names}. ")
    if problems:
        listed = "\n\t".join(problems)
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}"
        )
    return keys


def _load(
    module: Any,
    entries: Any,
    prefix: str,
    metadata: Any,
    assign: bool,
    missing: list[str],
    unexpected: list[str],
    problems: list[str],
) -> None:
    local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(entries, prefix, local, True, missing, unexpected, problems)
    for name, child in module._modules.items():
        if child is None:
            continue
        below = f"{prefix}{name}."
        own = OrderedDict((k, v) for k, v in entries.items() if k.startswith(below))
        _load(child, own, below, metadata, assign, missing, unexpected, problems)
    keys = IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        hook(module, keys)


def load_own(
    module: Any,
    entries: Any,
    prefix: str,
    local_metadata: Any,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    problems: list[str],
) -> None:
    """Load the module's own entries; collect what does not fit."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(module, entries, prefix, local_metadata, strict, missing, unexpected, problems)
    buffers = {
        name: buffer
        for name, buffer in module._buffers.items()
        if name not in module._non_persistent_buffers_set
    }
    assign = local_metadata.get("assign_to_params_buffers", False)
    own = {k: v for k, v in (*module._parameters.items(), *buffers.items()) if v is not None}
    for name, target in own.items():
        key = prefix + name
        if key in entries:
            _load_entry(module, name, key, target, entries[key], assign, problems)
        elif strict:
            missing.append(key)
    if has_extra_state(module) and prefix + EXTRA in entries:
        module.set_extra_state(entries[prefix + EXTRA])
    elif has_extra_state(module) and strict:
        missing.append(prefix + EXTRA)
    if strict:
        unexpected += [key for key in entries if _is_unexpected(module, key, prefix, own)]


def _is_unexpected(module: Any, key: str, prefix: str, own: dict[str, Any]) -> bool:
    if not key.startswith(prefix):
        return False
    if key == prefix + EXTRA:
        return not has_extra_state(module)
    first, _, rest = key[len(prefix) :].partition(".")
    if rest:
        return first not in module._modules
    return first not in own


def _copy(key: str, target: Any, value: Any, problems: list[str]) -> None:
    """Write an entry into what the module has."""
    if value.is_meta and not target.is_meta:
        problems.append(
            f"While copying the parameter named \"{key}\", the entry is on the device 'meta': "
            "Cannot copy out of meta tensor; no data!"
        )
        return
    if target.is_meta and not value.is_meta:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
            "items in the state dictionary to their corresponding key in the module instead of "
            "copying them in place?)",
            UserWarning,
            stacklevel=6,
        )
        return
    with no_grad():
        target.copy_(value)


def _load_entry(
    module: Any, name: str, key: str, target: Any, value: Any, assign: bool, problems: list[str]
) -> None:
    if not isinstance(value, Tensor):
        problems.append(
            f'While copying the parameter named "{key}", expected a tensor but received '
            f"{type(value).__name__}"
        )
        return
    if is_lazy(value) and is_lazy(target):
        return
    if tuple(value.shape) != tuple(target.shape):
        problems.append(
            f"size mismatch for {key}: copying a param with shape {tuple(value.shape)} from "
            f"checkpoint, the shape in current model is {tuple(target.shape)}."
        )
        return
    if not assign:
        _copy(key, target, value, problems)
        return
    if name in module._parameters:
        # A DTensor says by itself what it becomes as a parameter.
        kind = type(target) if target._has_array and value._has_array else Parameter
        taken = kind(value.detach(), target.requires_grad)
        module._parameters[name] = taken
    else:
        module._buffers[name] = value
