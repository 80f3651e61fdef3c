"""States of optimizers that step parts: by names of parameters, of whole tensors or of parts.

Contract: what an optimizer keeps for a part and has the part's shape is a part, too; everything
else (counts of steps) is the same in all processes. Names are those of the module's state dict.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributed.sharding.states import ShardedTensor
from dynajit.distributed.sharding.units import PartOfParameter, Unit
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module

_WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


def names_of(model: Module) -> dict[int, str]:
    """By id of a parameter, its name in state dicts: the first that it has."""
    found: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        for wrapper in _WRAPPERS:
            name = name.replace(wrapper, "")
        found.setdefault(id(parameter), name)
    return found


def _numbered(optimizer: Any) -> Iterator[tuple[int, Any]]:
    number = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            yield number, parameter
            number += 1


def _name(names: Mapping[int, str], parameter: Any) -> str:
    if id(parameter) not in names:
        raise InvalidValueError(
            f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not in the "
            "module.  Make it from module.parameters(), after the module was sharded."
        )
    return names[id(parameter)]


def _is_part(value: Any, parameter: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and not isinstance(value, DTensor)
        and isinstance(parameter, PartOfParameter)
        and value.ndim > 0
        and tuple(value.shape) == tuple(parameter.shape)
    )


def optimizer_state(
    model: Module, optimizer: Any, is_whole: bool, given: Any = None
) -> dict[str, Any]:
    """The state by names; every process calls this where whole tensors are asked for.

    Args:
        is_whole: parts are joined; else they are `ShardedTensor`s.
        given: a state dict in place of the optimizer's.
    """
    names = names_of(model)
    saved = optimizer.state_dict() if given is None else given
    numbered = dict(_numbered(optimizer))
    state: dict[str, dict[str, Any]] = {}
    by_unit: dict[Unit, dict[str, dict[int, Tensor]]] = {}
    for number, parameter in numbered.items():
        entry = saved["state"].get(number)
        if entry is None:
            continue
        own = state[_name(names, parameter)] = {}
        for key, value in entry.items():
            if isinstance(value, DTensor) and is_whole:
                own[key] = value.full_tensor()
            elif not _is_part(value, parameter):
                own[key] = value
            elif is_whole:
                own[key] = None  # keeps the order
                parts = by_unit.setdefault(parameter.unit, {}).setdefault(key, {})
                parts[parameter.index] = value
            else:
                own[key] = ShardedTensor.of(value, parameter.unit, parameter.index)
    for unit, keys in by_unit.items():
        for key, parts in keys.items():
            wholes = unit.joined([parts.get(index) for index in range(len(unit.leaves))])
            for index in parts:
                state[names[id(unit.leaves[index])]][key] = wholes[index]
    groups = []
    for group, packed in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        groups.append({**packed, "params": [_name(names, p) for p in group["params"]]})
    return {"state": state, "param_groups": groups}


def loadable_optimizer_state(
    model: Module, optimizer: Any, given: dict[str, Any]
) -> dict[str, Any]:
    """What `optimizer.load_state_dict` takes, of a state by names: this process's parts.

    Raises:
        InvalidValueError: it knows other parameters than the optimizer.
    """
    names = names_of(model)
    numbers = {_name(names, p): (number, p) for number, p in _numbered(optimizer)}
    unknown = sorted(set(given["state"]) - set(numbers))
    if unknown:
        raise InvalidValueError(
            f"the optimizer's state is of parameters that it has not: {', '.join(unknown)}."
        )
    state = {}
    for name, entry in given["state"].items():
        number, parameter = numbers[name]
        state[number] = {key: _part(value, parameter) for key, value in entry.items()}
    saved_groups = {name: packed for packed in given["param_groups"] for name in packed["params"]}
    groups = []
    place = 0
    for group in optimizer.param_groups:
        count = len(group["params"])
        first = _name(names, group["params"][0]) if count else None
        options = saved_groups.get(first, {}) if first is not None else {}
        groups.append({**options, "params": list(range(place, place + count))})
        place += count
    return {"state": state, "param_groups": groups}


def _part(value: Any, parameter: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if isinstance(value, ShardedTensor):
        return value.to_local()
    if isinstance(value, DTensor):
        return value
    if isinstance(parameter, DTensor):
        is_alike = value.ndim > 0 and tuple(value.shape) == tuple(parameter.shape)
        return parameter._part_of_whole(value) if is_alike else value
    if not isinstance(parameter, PartOfParameter):
        return value
    shape = parameter.unit.entries[parameter.index].shape
    if value.ndim == 0 and shape != ():
        return value
    if tuple(value.shape) != shape:
        return value
    return parameter.unit.part_of(parameter.index, value)
