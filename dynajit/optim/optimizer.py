"""`Optimizer`: parameter groups, per-parameter state, and their saving; the base of all optimisers.

Contract: as `torch.optim.Optimizer`. A class of this package gives its defaults to `__init__` and
defines `_update(parameter, gradient, state, group)`, which writes the parameter in place under
`no_grad`, and, if that needs state from the first step on, `_begin(parameter, state, group)`;
classes of programs define `step`. State dicts are PyTorch's: parameters are numbers in
the order of the groups, the state has PyTorch's names.
"""

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, Final, TypeAlias

from dynajit.core.errors import ArgumentError, InvalidValueError, UnsupportedError
from dynajit.core.preparation import prepared_by
from dynajit.eager.modes.grad_mode import enable_grad, no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.hooks import RemovableHandle, add_hook
from dynajit.ops.functions import where
from dynajit.optim.options import (
    RequiredParameter as _RequiredParameter,
)
from dynajit.optim.options import (
    _capturable_doc,
    _default_to_fused_or_foreach,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _dispatch_sqrt,
    _foreach_doc,
    _fused_doc,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
    check_implementation,
    required,
)
from dynajit.optim.step_hooks import (
    has_hooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_step_hooks,
)

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]

__all__ = [
    "Optimizer",
    "ParamsT",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

# What optimisers of other libraries import from here, as from PyTorch's module.
_FOR_OTHERS = (
    _RequiredParameter, _capturable_doc, _default_to_fused_or_foreach, _differentiable_doc,
    _disable_dynamo_if_unsupported, _dispatch_sqrt, _foreach_doc, _fused_doc, _get_scalar_dtype,
    _get_value, _maximize_doc, _params_doc, _stack_if_compiling, _to_scalar,
    _use_grad_for_differentiable, _view_as_real,
)  # fmt: skip

_MSG_SPARSE: Final = (
    "{name} does not support sparse gradients, please consider SparseAdam, SGD or Adagrad instead, "
    "or leave sparse=False in the embedding."
)

_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def _has_gradient(parameter: Tensor) -> bool:
    return parameter.grad is not None


class Optimizer:
    """Updates parameters from their gradients. Mutable: it holds groups, state and hooks.

    Args:
        params: tensors, (name, tensor) pairs, or dicts of a group's options with key "params".
        defaults: options of groups that do not give their own.

    Raises:
        ArgumentError: `params` is one tensor, a set, or holds what is no tensor.
        InvalidValueError: no parameters, one that is no leaf, or one in two groups.
    """

    # Entries of the state that old programs saved as numbers, and steps compute with as tensors.
    _counted: tuple[str, ...] = ()
    # Whether `_update` takes a sparse gradient, as that of an embedding may be.
    _takes_sparse = False
    # Whether `_update` computes each element from those in its place: parts may be stepped alone.
    _is_elementwise = False

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        self._hook_the_step()
        if isinstance(params, Tensor):
            raise ArgumentError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}.  Pass [tensor] instead."
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise InvalidValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": params if isinstance(params, set) else groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())

    def _hook_the_step(self) -> None:
        """Let hooks see the step of a class that defines its own."""
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = with_step_hooks(cls.step)  # type: ignore[method-assign]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with "params" and any options; it becomes the group.

        Raises:
            ArgumentError: not a dict of tensors.
            InvalidValueError: a parameter is a non-leaf or already in a group, a required option
                is missing, or only some parameters have names.
        """
        if not isinstance(param_group, dict):
            raise ArgumentError(f"param_group must be a dict, but got {type(param_group)}")
        parameters, names = _parameters(param_group["params"])
        param_group["params"] = parameters
        if names:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise InvalidValueError(
                    f"parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        self._check_new_group(param_group)
        self.param_groups.append(param_group)

    def _check_new_group(self, new: dict[str, Any]) -> None:
        if len({id(parameter) for parameter in new["params"]}) != len(new["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: each is updated "
                "as often as it occurs, and in future this will cause an error",
                stacklevel=4,
            )
        if self.param_groups and ("param_names" in new) != ("param_names" in self.param_groups[0]):
            which = "with names" if "param_names" in new else "without names"
            raise InvalidValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{which} to the optimizer"
            )
        taken = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(parameter) in taken for parameter in new["params"]):
            raise InvalidValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or zero) the gradient of every parameter."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:  # without a look: a compiled step need not know what was there
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad = parameter.grad.detach()
                    parameter.grad.zero_()

    @with_step_hooks
    @prepared_by("_begin_all", reads=("param_groups",), fills=("state",), unless="closure")
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
                        if not self._takes_sparse and parameter.grad.is_sparse:
                            raise UnsupportedError(_MSG_SPARSE.format(name=type(self).__name__))
                        state = self.state[parameter]
                        if not state:
                            self._begin(parameter, state, group)
                        in_parts = hasattr(type(parameter), "_stepped_in_parts")  # a DTensor
                        if in_parts and self._is_elementwise:
                            parameter._stepped_in_parts(self._update, state, group)
                        else:
                            self._update(parameter, parameter.grad, state, group)
        return loss

    def _begin_all(self, has_gradient: Callable[[Tensor], bool] = _has_gradient) -> None:
        """The state that the next step would begin: a compiled step finds it, and is made once."""
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if has_gradient(parameter) and not self.state[parameter]:
                        self._begin(parameter, self.state[parameter], group)

    def _can_step_unless(self) -> bool:
        """Whether `_step_unless` is what `step` is, with a choice: a step that writes nothing but
        tensors in place, and that nobody watches."""
        has_dampening = any(group.get("dampening") for group in self.param_groups)
        return type(self).step is Optimizer.step and not has_dampening and not has_hooks(self)

    @prepared_by("_begin_all", reads=("param_groups",), fills=("state",))
    def _step_unless(self, skipped: Tensor) -> None:
        """`step()`, undone where `skipped` holds; the state is begun even there.

        What a step puts into the state of a parameter that had nothing under that name is 0 then,
        as a first momentum.
        """
        self._begin_all()
        with no_grad():
            known = [(x, x.clone()) for x in self._parameters_with_gradients()]
            names = []
            for parameter, _ in tuple(known):
                names.append(set(self.state[parameter]))
                known += [(x, x.clone()) for x in self.state[parameter].values()]
            self.step()
            for written, before in known:
                written.copy_(where(skipped, before, written))
            for parameter, had in zip(self._parameters_with_gradients(), names, strict=True):
                for name, made in self.state[parameter].items():
                    if name not in had:
                        made.masked_fill_(skipped, 0)

    def _parameters_with_gradients(self) -> list[Tensor]:
        parameters = chain.from_iterable(group["params"] for group in self.param_groups)
        return [parameter for parameter in parameters if parameter.grad is not None]

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Put what the first step needs into the empty state of a parameter: nothing, here."""

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Update one parameter in place; defined by each optimiser of this package."""
        raise NotImplementedError(f"{type(self).__name__} does not define step")

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; a pair replaces the arguments."""
        return add_hook(self._optimizer_step_pre_hooks, hook)  # type: ignore[attr-defined]

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)  # type: ignore[attr-defined]

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; what it returns replaces it."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; what it returns is loaded instead."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def state_dict(self) -> dict[str, Any]:
        """`{"state": {number: ...}, "param_groups": [...]}` with parameters as numbers."""
        for hook in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            hook(self)
        numbers: dict[int, int] = {}
        for parameter in chain.from_iterable(self._ordered()):
            numbers.setdefault(id(parameter), len(numbers))
        groups = []
        for group in self.param_groups:
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append(packed)
        # A step looks entries up, which makes them; PyTorch saves none that nothing was put into.
        state = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): (
                dict(entry) if isinstance(entry, dict) else entry
            )
            for key, entry in self.state.items()
            if not isinstance(entry, dict) or entry
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; tensors are copied, in the parameters' dtypes.

        Raises:
            InvalidValueError: the groups differ in number or size.
        """
        for hook in self._optimizer_load_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        saved = deepcopy(state_dict)
        groups = saved["param_groups"]
        self._check_saved_groups(groups)
        numbered = dict(
            zip(
                chain.from_iterable(group["params"] for group in groups),
                chain.from_iterable(self._ordered()),
                strict=True,
            )
        )
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, entry in saved["state"].items():
            parameter = numbered.get(number)
            if parameter is None:
                state[number] = entry
            else:
                state[parameter] = self._taken_over(parameter, entry)
        for mine, theirs in zip(self.param_groups, groups, strict=True):
            theirs["params"] = mine["params"]
            if "param_names" in mine:
                theirs.setdefault("param_names", mine["param_names"])
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            hook(self)

    def _check_saved_groups(self, groups: list[dict[str, Any]]) -> None:
        if len(groups) != len(self.param_groups):
            raise InvalidValueError("loaded state dict has a different number of parameter groups")
        sizes = [len(group["params"]) for group in self.param_groups]
        if sizes != [len(group["params"]) for group in groups]:
            raise InvalidValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )

    def _taken_over(self, parameter: Tensor, value: Any, name: Any = None) -> Any:
        """Saved state of a parameter as the parameter's own: numbers as tensors, its dtype and
        device. Counts stay as they are."""
        if isinstance(value, Tensor):
            if name in ("step", *self._counted):
                return value
            kind = parameter.dtype if parameter.is_floating_point() else value.dtype
            return value.to(parameter.device, kind)
        if name in self._counted:
            return tensor(float(value), dtype=_get_scalar_dtype())
        if type(value) is dict:
            return {key: self._taken_over(parameter, item, key) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self._taken_over(parameter, item) for item in value)
        return value

    def _ordered(self) -> Iterable[list[Tensor]]:
        return (group["params"] for group in self.param_groups)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold: neither hooks nor other attributes."""
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take state over; options that it does not have yet get their defaults."""
        self.__dict__.update(state)
        self._make_hook_tables()
        self._hook_the_step()
        for group in self.param_groups:
            for name, default in self.defaults.items():
                if default is not required:
                    group.setdefault(name, default)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


class BuiltInOptimizer(Optimizer):
    """The base of this package's own optimisers: they check the options that all of them have.

    Raises:
        UnsupportedError: `differentiable=True`.
    """

    _is_elementwise = True

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        check_implementation(defaults)
        super().__init__(params, defaults)


def start_counting(parameter: Tensor) -> Tensor:
    """A new counter of steps: a zero-dimensional zero.

    Raises:
        UnsupportedError: the parameter is complex, which would be squared wrongly.
    """
    if parameter.is_complex():
        raise UnsupportedError("optimisers take real parameters: a complex one was given")
    return tensor(0.0, dtype=_get_scalar_dtype())


def descend(parameter: Tensor, direction: Tensor, rate: Any) -> None:
    """`parameter -= rate * direction`, in place; `rate` is a number or a tensor of one. Of a sparse
    direction only the rows that it has are touched."""
    if direction.is_sparse:
        rows, values = parts_of(direction)
        parameter[rows] -= rate * values
    elif isinstance(rate, Tensor):
        parameter.sub_(direction * rate)
    else:
        parameter.add_(direction, alpha=-rate)


def parts_of(gradient: Any) -> tuple[tuple[Tensor, ...], Tensor]:
    """The positions of a sparse gradient as an index, each once, and the values there."""
    once = gradient.coalesce()
    return tuple(once.indices()), once.values()


def penalised(parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
    """The gradient to descend along: turned around by `maximize`, with the L2 penalty."""
    if group["maximize"]:
        gradient = -gradient
    if group["weight_decay"]:
        gradient = gradient + group["weight_decay"] * parameter
    return gradient


def _parameters(params: Any) -> tuple[list[Tensor], list[str]]:
    """A group's parameters as a list of leaves, and their names if they have any."""
    if isinstance(params, set):
        raise ArgumentError(
            "optimizer parameters need to be organized in ordered collections, but the order of "
            "tensors in sets changes between runs. Please use a list instead."
        )
    listed: list[Any] = [params] if isinstance(params, Tensor) else list(params)
    names = [entry[0] for entry in listed if isinstance(entry, tuple)]
    if names and len(names) != len(listed):
        raise InvalidValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    if names:
        listed = [parameter for _, parameter in listed]
    for parameter in listed:
        if not isinstance(parameter, Tensor):
            raise ArgumentError(
                "optimizer can only optimize Tensors, but one of the params is "
                f"{type(parameter).__name__}"
            )
        if not (parameter.is_leaf or parameter.retains_grad):
            raise InvalidValueError("can't optimize a non-leaf Tensor")
    return listed, names
