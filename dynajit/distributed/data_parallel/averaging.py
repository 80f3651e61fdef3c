"""Models that are averaged now and then, in the place of gradients that are averaged always.

Contract: every process of a group calls these functions with equal modules, equally often.

Source: T. Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", arXiv:1808.07217, for local
steps after a time of averaged gradients.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from dynajit.compat.futures import Future
from dynajit.core.errors import InvalidValueError
from dynajit.distributed.collectives import all_reduce
from dynajit.distributed.data_parallel.buckets import GradBucket
from dynajit.distributed.data_parallel.hooks import allreduce_hook, group_or_default, known
from dynajit.distributed.groups import new_group
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.shapes.index import cat
from dynajit.optim.optimizer import Optimizer


def average_parameters(params: Iterable[Tensor], process_group: Any = None) -> None:
    """The mean over the processes in each of them; one message per dtype."""
    group = group_or_default(process_group)
    kinds: dict[Any, list[Tensor]] = {}
    for parameter in params:
        kinds.setdefault(parameter.dtype, []).append(parameter)
    with no_grad():
        for same in kinds.values():
            flat = cat([parameter.detach().reshape(-1) for parameter in same]).div_(group.size())
            all_reduce(flat, group=group)
            start = 0
            for parameter in same:
                part = flat[start : start + parameter.numel()]
                parameter.copy_(part.view(tuple(parameter.shape)))
                start += parameter.numel()


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Those that have a gradient, among parameters or groups of an optimizer."""
    return [parameter for parameter in _flat(params) if parameter.grad is not None]


def _flat(params: Iterable[Any]) -> Iterator[Tensor]:
    for item in params:
        if isinstance(item, Tensor):
            yield item
        else:
            yield from item["params"]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """`average_parameters` of those that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)


class ModelAverager(ABC):
    """Averages parameters at some of its steps. Mutable: it counts them.

    Args:
        process_group: None for that of all processes.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = group_or_default(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average if it is one of them."""


class PeriodicModelAverager(ModelAverager):
    """Averages at every `period`-th step after the first `warmup_steps`.

    Args:
        period: at least 1; with 1, averaged gradients would be the same and cheaper.
        warmup_steps: at which gradients are averaged by other means.
        process_group: None for that of all processes.

    Raises:
        InvalidValueError: the period is less than 1, or there are negative steps.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise InvalidValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise InvalidValueError("Arg ``period`` must be a positive value.")
        self.warmup_steps = warmup_steps
        self.period = period

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average parameters (or an optimizer's groups) if it is one of them."""
        is_late = self.step >= self.warmup_steps
        if is_late and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


class HierarchicalModelAverager(ModelAverager):
    """Averages within small groups often, within larger ones less often.

    Of the periods that divide a step after the first `warmup_steps` the largest counts: its group
    holds the smaller ones. Every process makes the groups.

    Args:
        period_group_size_dict: period -> size of its groups: both rise, each size divides the next
            one, and the last is that of the whole group. Groups are of neighbouring ranks.
        warmup_steps: at which nothing is averaged.
        process_group: None for that of all processes; others have no groups within them here.

    Raises:
        InvalidValueError: the dict is empty, does not rise, or does not fit the group.

    Source: J. Wang et al., "Hierarchical SGD", arXiv:2010.12998.
    """

    def __init__(
        self,
        period_group_size_dict: Mapping[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: Any = None,
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise InvalidValueError("Arg ``period_group_size_dict`` must not be empty.")
        if warmup_steps < 0:
            raise InvalidValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        periods, sizes = list(period_group_size_dict), list(period_group_size_dict.values())
        whole = self.process_group.size()
        rises = periods == sorted(set(periods)) and periods[0] > 0
        divides = all(big % small == 0 for small, big in pairwise(sizes))
        if not rises or not divides or sizes[-1] != whole or min(sizes) < 1:
            raise InvalidValueError(
                f"HierarchicalModelAverager({dict(period_group_size_dict)}): expected rising "
                "periods, and sizes of groups of which each divides the next one; the last is "
                f"the size of the whole group, {whole}."
            )
        self.period_process_group_dict = {
            period: self._group_of_size(size) for period, size in zip(periods, sizes, strict=True)
        }

    def _group_of_size(self, size: int) -> Any:
        if size == self.process_group.size():
            return self.process_group
        own = None
        for start in range(0, self.process_group.size(), size):
            members = [self.process_group.ranks[i] for i in range(start, start + size)]
            made = new_group(members)
            if start <= self.process_group.rank() < start + size:
                own = made
        return own

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average within the largest group whose turn it is."""
        number = self.step - self.warmup_steps
        due = [period for period in self.period_process_group_dict if number % period == 0]
        if number >= 0 and due:
            group = self.period_process_group_dict[max(due)]
            average_parameters_or_parameter_groups(params, group)
        self.step += 1


class PostLocalSGDState:
    """What `post_localSGD_hook` remembers. Mutable: it counts iterations.

    Args:
        process_group: whose gradients are averaged in the first iterations; None for all.
        subgroup: whose are afterwards; None: each process keeps its own.
        start_localSGD_iter: so many first iterations.
        post_local_gradient_allreduce: False: gradients stay in each process afterwards.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future:
    """Averages over all processes at first, later within a subgroup; to be used with a
    `PostLocalSGDOptimizer`, which averages models."""
    is_early = state.iter < state.start_localSGD_iter
    if bucket.is_last():
        state.iter += 1
    if is_early:
        return allreduce_hook(state.process_group, bucket)
    if state.subgroup is None or not state.post_local_gradient_allreduce:
        return known(bucket.buffer())
    return allreduce_hook(state.subgroup, bucket)


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer after whose steps parameters are averaged now and then.

    Args:
        optim: whose steps are made.
        averager: says when, and how.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim = optim
        self.averager = averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """Of the optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Of the optimizer, and the averager's count as `step`."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What `state_dict` gave; the count begins at 0 if it has none."""
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        self.param_groups = self.optim.param_groups
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """A step of the optimizer, then one of the averager."""
        loss = self.optim.step(closure) if closure is not None else self.optim.step()
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As of the optimizer."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As of the optimizer."""
        self.optim.add_param_group(param_group)


__all__ = [
    "HierarchicalModelAverager",
    "ModelAverager",
    "PeriodicModelAverager",
    "PostLocalSGDOptimizer",
    "PostLocalSGDState",
    "average_parameters",
    "average_parameters_or_parameter_groups",
    "get_params_to_average",
    "post_localSGD_hook",
]
