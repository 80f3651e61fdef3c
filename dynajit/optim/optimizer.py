"""`Optimizer`: parameter groups, per-parameter state, and their saving; the base of all optimisers.

Contract: as `torch.optim.Optimizer`. A subclass gives its defaults to `__init__` and defines
`update(parameter, gradient, state, group)`, which writes the parameter in place under `no_grad`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from dynajit.core.errors import ArgumentError
from dynajit.eager.grad_mode import enable_grad, no_grad
from dynajit.eager.tensor import Tensor


class Optimizer:
    """Updates parameters from their gradients.

    Args:
        params: tensors, (name, tensor) pairs, or dicts of a group's options with key "params".
        defaults: options of groups that do not give their own.

    Raises:
        ValueError: no parameters, or a parameter in two groups.
    """

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise ArgumentError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}.  Pass [tensor] instead."
            )
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with "params" and any options.

        Raises:
            ArgumentError: not a dict of tensors.
            ValueError: a parameter is a non-leaf, or already in a group.
        """
        if not isinstance(param_group, dict):
            raise ArgumentError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        group["params"] = _parameters(group["params"])
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        taken = {id(p) for other in self.param_groups for p in other["params"]}
        for parameter in group["params"]:
            if id(parameter) in taken:
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or zero) the gradient of every parameter."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad = parameter.grad.detach()
                    parameter.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: evaluates the model again and returns the loss, which is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self.update(parameter, parameter.grad, self.state[parameter], group)
        return loss

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Update one parameter in place; defined by each optimiser."""
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def state_dict(self) -> dict[str, Any]:
        """`{"state": {number: ...}, "param_groups": [...]}` with parameters as numbers."""
        numbers = {
            id(parameter): number
            for number, parameter in enumerate(chain.from_iterable(self._ordered()))
        }
        groups = [
            {**group, "params": [numbers[id(parameter)] for parameter in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(p)]: dict(entry) for p, entry in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ValueError: the groups differ in number or size.
        """
        saved = deepcopy(state_dict)
        groups = saved["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        sizes = [len(group["params"]) for group in self.param_groups]
        if sizes != [len(group["params"]) for group in groups]:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbered = dict(
            zip(
                chain.from_iterable(group["params"] for group in groups),
                chain.from_iterable(self._ordered()),
                strict=True,
            )
        )
        self.state = defaultdict(dict)
        for number, entry in saved["state"].items():
            self.state[numbered[int(number)]] = entry
        for mine, theirs in zip(self.param_groups, groups, strict=True):
            mine.update({name: value for name, value in theirs.items() if name != "params"})

    def _ordered(self) -> Iterable[list[Tensor]]:
        return (group["params"] for group in self.param_groups)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _parameters(params: Any) -> list[Tensor]:
    """A group's parameters as a list of leaves."""
    listed = [params] if isinstance(params, Tensor) else list(params)
    listed = [entry[1] if isinstance(entry, tuple) else entry for entry in listed]
    for parameter in listed:
        if not isinstance(parameter, Tensor):
            raise ArgumentError(
                f"optimizer can only optimize Tensors, but one of the params is "
                f"{type(parameter).__name__}"
            )
        if not parameter.is_leaf:
            raise ValueError("can't optimize a non-leaf Tensor")
    if len({id(parameter) for parameter in listed}) != len(listed):
        raise ValueError("optimizer contains a parameter group with duplicate parameters")
    return listed


def check_positive(**values: float) -> None:
    """Refuse negative options.

    Raises:
        ValueError: an option is negative.
    """
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name} value: {value}.  Expected {name} >= 0.")
