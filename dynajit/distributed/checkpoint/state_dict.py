"""State dicts of models and optimizers, sharded or not, by plain names: what checkpoints hold.

Contract: names are those of the model before it was wrapped or compiled. Sharded parameters are
`ShardedTensor`s, or whole tensors with `full_state_dict`; every process calls each function.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dynajit.core.errors import InvalidValueError
from dynajit.core.process.process_groups import STATE
from dynajit.core.records import record
from dynajit.distributed.objects import broadcast_object_list
from dynajit.distributed.sharding.optimizer_states import (
    loadable_optimizer_state,
    names_of,
    optimizer_state,
)
from dynajit.distributed.sharding.settings import StateDictType
from dynajit.distributed.sharding.states import ShardedTensor, state_dicts_of
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.nn.state import IncompatibleKeys
from dynajit.ops.functions.creation.creation import zeros_like
from dynajit.utils._pytree import tree_map

_WRAPPERS: Final = (
    "_fsdp_wrapped_module.",
    "_checkpoint_wrapped_module.",
    "_orig_mod.",
)
_PARALLEL: Final = "module."


@record
class StateDictOptions:
    """What state dicts hold.

    Args:
        full_state_dict: whole tensors.
        cpu_offload: on the CPU; whole ones in the first process alone.
        ignore_frozen_params: parameters that require no gradient are left out.
        keep_submodule_prefixes: accepted if True.
        strict: missing and unexpected names are errors.
        broadcast_from_rank0: what is loaded is sent from the first process, others give nothing.
        flatten_optimizer_state_dict: accepted if False.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    found = options or StateDictOptions()
    if not found.keep_submodule_prefixes or found.flatten_optimizer_state_dict:
        raise InvalidValueError(
            "StateDictOptions: keep_submodule_prefixes=False and flatten_optimizer_state_dict=True "
            "are not here.  Leave them out."
        )
    return found


def _is_first() -> bool:
    return STATE.default is None or STATE.default.rank() == 0


def _plain_names(model: Module) -> dict[str, str]:
    """Name in the model's own state dict -> name without wrappers."""
    found = {}
    for name in model.state_dict(keep_vars=True):
        found[name] = _plain(name, model)
    return found


def _plain(name: str, model: Module) -> str:
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    is_parallel = type(model).__name__ in ("DistributedDataParallel", "DataParallel")
    return name.removeprefix(_PARALLEL) if is_parallel else name


def _frozen(model: Module) -> set[str]:
    names = names_of(model)
    return {_plain(names[id(p)], model) for p in model.parameters() if not p.requires_grad}


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state dict of a model.

    Args:
        submodules: accepted if None.
    """
    chosen = _checked(options)
    kind = (
        StateDictType.FULL_STATE_DICT
        if chosen.full_state_dict
        else StateDictType.SHARDED_STATE_DICT
    )
    with state_dicts_of(model, kind):
        saved = model.state_dict()
    frozen = _frozen(model) if chosen.ignore_frozen_params else set()
    found = {_plain(name, model): value for name, value in saved.items()}
    if chosen.full_state_dict:  # modules of tensor parallelism have DTensors in any case
        found = {n: x.full_tensor() if isinstance(x, DTensor) else x for n, x in found.items()}
    found = {name: value for name, value in found.items() if name not in frozen}
    if chosen.full_state_dict and chosen.cpu_offload and not _is_first():
        return {}
    return _on_host(found) if chosen.cpu_offload else found


def _on_host(tree: Any) -> Any:
    return tree_map(
        lambda x: x.cpu() if isinstance(x, Tensor) and not isinstance(x, ShardedTensor) else x, tree
    )


def get_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of an optimizer, or of several, by names of parameters; begun if there is none."""
    chosen = _checked(options)
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        _init_optim_state(optimizer)
        one = optimizer_state(model, optimizer, chosen.full_state_dict)
        found["state"].update(one["state"])
        found["param_groups"] += one["param_groups"]
    if chosen.full_state_dict and chosen.cpu_offload and not _is_first():
        return {}
    return _on_host(found) if chosen.cpu_offload else found


def _listed(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, (tuple, list)) else [optimizers]


def _init_optim_state(optimizer: Any) -> None:
    """Give an optimizer that has not stepped the state that a step would begin.

    Where that is done within the step, as momenta are, a step is made that changes nothing.
    """
    if optimizer.state:
        return
    optimizer._begin_all(lambda parameter: parameter.requires_grad)
    if any(optimizer.state.values()):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    before = [p.grad for p in parameters]
    with no_grad():
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = zeros_like(parameter)
        for group in optimizer.param_groups:
            group["lr"] = 0.0
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad = gradient


def get_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dicts of a model and of its optimizers."""
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def _sent(state: Any, options: StateDictOptions) -> Any:
    """What the first process has, if that is asked for."""
    if not options.broadcast_from_rank0 or STATE.default is None or STATE.default.size() == 1:
        return state
    held = [state if _is_first() else None]
    broadcast_object_list(held, src=0)
    return held[0]


def set_model_state_dict(
    model: Module,
    model_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Load a state dict that has parts or whole tensors.

    Raises:
        RuntimeError: names or shapes differ.
    """
    chosen = _checked(options)
    given = _sent(dict(model_state_dict), chosen)
    own = {plain: name for name, plain in _plain_names(model).items()}
    renamed = {own.get(name, name): value for name, value in given.items()}
    return model.load_state_dict(renamed, strict=chosen.strict)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load states by names of parameters.

    Raises:
        InvalidValueError: an optimizer has other parameters.
    """
    chosen = _checked(options)
    given = _sent(dict(optim_state_dict), chosen)
    names = names_of(model)
    for optimizer in _listed(optimizers):
        own = {names[id(p)] for group in optimizer.param_groups for p in group["params"]}
        state = {name: entry for name, entry in given["state"].items() if name in own}
        groups = [g for g in given["param_groups"] if not own.isdisjoint(g["params"])]
        part = {"state": state, "param_groups": groups}
        optimizer.load_state_dict(loadable_optimizer_state(model, optimizer, part))


def set_state_dict(
    model: Module,
    optimizers: Iterable[Any] | Any,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Load the state dicts of a model and of its optimizers."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]
