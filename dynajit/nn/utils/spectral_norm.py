"""Spectral normalization by a hook: `weight` is `weight_orig` over its largest singular value.

Contract: as `torch.nn.utils.spectral_norm`: the buffers `weight_u` and `weight_v` approach the
singular vectors by each call in training. `parametrizations.spectral_norm` is the newer form.
"""

from typing import Any

from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter
from dynajit.nn.utils.weight_forms import (
    TRANSPOSED,
    as_matrix,
    drawn_vectors,
    iterate_right_first,
    largest_singular_value,
)
from dynajit.nn.utils.weight_norm import hook_of

VERSION = 1
"""Of the entries in state dicts, as PyTorch numbers them."""


class SpectralNorm:
    """The hook before calls.

    Args:
        name: of the weight.
        n_power_iterations: steps of the power iteration in each call in training.
        dim: the dim of the output channels.
        eps: keeps norms from 0.

    Raises:
        ValueError: `n_power_iterations` is not positive.
    """

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its norm; the vectors are written where `do_power_iteration`."""
        weight = getattr(module, self.name + "_orig")
        u = getattr(module, self.name + "_u")
        v = getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            iterate_right_first(matrix, u, v, self.n_power_iterations, self.eps)
            # Backward needs what the next call overwrites.
            u, v = u.clone(), v.clone()
        normalized: Tensor = weight / largest_singular_value(matrix, u, v)
        return normalized

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for ending in ("_u", "_v", "_orig"):
            delattr(module, self.name + ending)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


class _Versions:
    """The hook of state dicts: notes in the metadata which form this is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        versions[self.name + ".version"] = VERSION


def _default_dim(module: Any) -> int:
    return 1 if isinstance(module, TRANSPOSED) else 0


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a parameter by its largest singular value before each call; returns the module.

    Args: as of `SpectralNorm`; `dim` defaults to 1 for transposed convolutions, else 0.

    Raises:
        RuntimeError: the parameter is normalized already.
        ValueError: the weight is none, has no elements, or `n_power_iterations` is not positive.
    """
    if hook_of(module, SpectralNorm, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, _default_dim(module) if dim is None else dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    u, v = drawn_vectors(as_matrix(weight.detach(), hook.dim), eps)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    # A plain attribute: it is no parameter, and hooks of the user may ask for it.
    setattr(module, name, weight.data)
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(_Versions(name))
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight an ordinary parameter again, as it was in the last call; returns the module.

    Raises:
        ValueError: the parameter is not normalized.
    """
    found = hook_of(module, SpectralNorm, name)
    if found is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    for key, entry in list(module._state_dict_hooks.items()):
        if isinstance(entry, _Versions) and entry.name == name:
            del module._state_dict_hooks[key]
    return module
