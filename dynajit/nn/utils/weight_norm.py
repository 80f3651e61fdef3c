"""Weight normalization by a hook: `weight` is computed from `weight_g` and `weight_v` before each
call. Deprecated in PyTorch and here; `parametrizations.weight_norm` is the newer form.

Contract: as `torch.nn.utils.weight_norm`.
"""

import warnings
from typing import Any

from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.nn.utils.weight_forms import norm_except_dim, weight_of


class WeightNorm:
    """The hook before calls.

    Args:
        name: of the weight.
        dim: the dim whose slices have a norm each; -1: one norm.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight from its norm and its direction."""
        return weight_of(
            getattr(module, self.name + "_g"), getattr(module, self.name + "_v"), self.dim
        )

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def hook_of(module: Module, kind: type, name: str) -> Any:
    """(key, hook) of a kind of hook for a parameter, or None."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:  # type: ignore[attr-defined]
            return key, hook
    return None


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replace a parameter by its norm `<name>_g` and direction `<name>_v`; returns the module.

    Args:
        dim: the dim whose slices have a norm each; None: one norm for the whole weight.

    Raises:
        RuntimeError: the parameter is normalized already.
    """
    warnings.warn(
        "weight_norm is deprecated in favor of nn.utils.parametrizations.weight_norm.",
        FutureWarning,
        stacklevel=2,
    )
    if hook_of(module, WeightNorm, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, hook.dim).data))
    module.register_parameter(name + "_v", Parameter(weight.data))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the normalized weight an ordinary parameter again; returns the module.

    Raises:
        ValueError: the parameter is not normalized.
    """
    found = hook_of(module, WeightNorm, name)
    if found is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module
