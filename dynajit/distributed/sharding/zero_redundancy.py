"""`ZeroRedundancyOptimizer`: every process keeps the state of some parameters, and steps those.

Contract: as an optimizer of all parameters whose gradients are equal in all processes (averaged
before, as DistributedDataParallel does): after `step` all processes have all new values. Source:
S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, "ZeRO: Memory Optimizations Toward Training Trillion
Parameter Models" (2020), stage 1.
"""

from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from typing import Any, Final

from dynajit.core.errors import ExpectationError, ShapeError, UnsupportedError
from dynajit.distributed.collectives import broadcast
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.distributed.join import Joinable, JoinHook
from dynajit.distributed.objects import gather_object
from dynajit.eager import _tensor
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.optim.optimizer import Optimizer
from dynajit.utils._pytree import tree_map

MSG_NOT_CONSOLIDATED: Final = (
    "Optimizer state has not been consolidated on this rank. Please call "
    "`consolidate_state_dict(to={rank})` on all ranks beforehand if you meant to save the global "
    "state."
)


class _StepHook(JoinHook):
    """Steps along with processes that go on."""

    def __init__(self, optimizer: "ZeroRedundancyOptimizer") -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """One step."""
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is spread over processes.

    Parameters are dealt out by size, the largest first, each to the process that has least.
    Mutable, as optimizers are.

    Args:
        params: as of any optimizer, in the same order in all processes.
        optimizer_class: of the optimizer that steps a process's own parameters.
        process_group: all processes if None.
        parameters_as_bucket_view: parameters of one process and dtype lie in one tensor, which
            travels without being copied.
        overlap_with_ddp: True is refused.
        defaults: options of the optimizer.

    Raises:
        InvalidValueError: there is no group, or as of `Optimizer`.
        UnsupportedError: `overlap_with_ddp`.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise UnsupportedError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True): steps within backward are not "
                "here.  Leave it out, and call step() after backward()."
            )
        group = group_of(process_group)
        if group is None:
            raise ExpectationError("ZeroRedundancyOptimizer: this process is not in the group.")
        self.process_group: ProcessGroup = group
        self.rank, self.world_size = group.rank(), group.size()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._optimizer_class = optimizer_class
        self._options = defaults
        self._saved: list[dict[str, Any]] | None = None
        self._is_dealt = False
        super().__init__(params, defaults)
        self._deal()

    def _deal(self) -> None:
        """Make the optimizer of this process's own parameters."""
        self._owners = self._partition()
        local = [
            {
                **{key: value for key, value in group.items() if key != "params"},
                "params": [p for p in group["params"] if self._owners[id(p)] == self.rank],
            }
            for group in self.param_groups
        ]
        self.optim = self._optimizer_class(local, **self._options)
        _copy_options(self.optim.param_groups, self.param_groups)
        self._buckets = self._made_buckets()
        self._is_dealt = True

    def _partition(self) -> dict[int, int]:
        """By id of a parameter, the process that steps it."""
        owners: dict[int, int] = {}
        sizes = [0] * self.world_size
        for group in self.param_groups:
            for parameter in sorted(group["params"], key=_count, reverse=True):
                owner = sizes.index(min(sizes))
                owners[id(parameter)] = owner
                sizes[owner] += parameter.numel()
        return owners

    def _made_buckets(self) -> list[tuple[int, Tensor, list[Tensor]]]:
        """Owner, the tensor that travels, and the parameters that lie in it."""
        if not self.parameters_as_bucket_view:
            return [(self._owners[id(p)], p, [p]) for p in self._all()]
        found: dict[tuple[int, Any], list[Tensor]] = {}
        for parameter in self._all():
            key = (self._owners[id(parameter)], parameter.dtype)
            found.setdefault(key, []).append(parameter)
        buckets = []
        for (owner, dtype), parameters in found.items():
            bucket: Tensor = empty(sum(p.numel() for p in parameters), dtype=dtype)
            start = 0
            for parameter in parameters:
                view = bucket[start : start + parameter.numel()].view(parameter.shape)
                start += parameter.numel()
                view.copy_(parameter.detach())
                parameter.data = view
            buckets.append((owner, bucket, parameters))
        return buckets

    def _all(self) -> list[Any]:
        return list(chain.from_iterable(group["params"] for group in self.param_groups))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, as of `Optimizer`: its parameters are dealt out behind all others."""
        super().add_param_group(param_group)
        if self._is_dealt:
            before = self.optim.state
            self._deal()
            for parameter, entry in before.items():
                self.optim.state[parameter] = entry

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this process's parameters, and receive the others'.

        Args:
            closure: evaluates the model again and returns the loss, which is returned.
            kwargs: given to the optimizer's `step`.
        """
        _copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        self._send_values()
        _copy_options(self.optim.param_groups, self.param_groups)
        return loss

    def _send_values(self) -> None:
        works = [
            broadcast(bucket.detach(), group=self.process_group, group_src=owner, async_op=True)
            for owner, bucket, _ in self._buckets
        ]
        for work in works:
            if work is not None:
                work.wait()
        for owner, _, parameters in self._buckets:
            if owner != self.rank:
                for parameter in parameters:
                    _tensor.bump_version(parameter)

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all processes to one, whose `state_dict` gives it.

        Args:
            to: its rank in the group.
        """
        with no_grad():
            own = tree_map(
                lambda x: x.detach().clone() if isinstance(x, Tensor) else x,
                self.optim.state_dict(),
            )
        found: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(own, found, group=self.process_group, group_dst=to)
        self._saved = found

    def state_dict(self) -> dict[str, Any]:
        """The state of all processes, as an optimizer of all parameters gives it.

        Raises:
            ShapeError: it was not brought here before; a RuntimeError, as in PyTorch.
        """
        if self._saved is None:
            raise ShapeError(MSG_NOT_CONSOLIDATED.format(rank=self.rank))
        result = super().state_dict()
        result["state"] = {}
        numbers = self._numbers()
        for rank, saved in enumerate(self._saved):
            own = [p for p in self._all() if self._owners[id(p)] == rank]
            for number, entry in saved["state"].items():
                result["state"][numbers[id(own[number])]] = entry
        result["state"] = dict(sorted(result["state"].items()))
        return result

    def _numbers(self) -> dict[int, int]:
        return {id(parameter): number for number, parameter in enumerate(self._all())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state of all parameters: each process its own.

        Raises:
            InvalidValueError: as of `Optimizer`.
        """
        numbers = self._numbers()
        own = [p for p in self._all() if self._owners[id(p)] == self.rank]
        saved = state_dict["state"]
        state = {
            place: saved[numbers[id(p)]] for place, p in enumerate(own) if numbers[id(p)] in saved
        }
        super().load_state_dict({**state_dict, "state": {}})
        groups = []
        for packed in self.optim.state_dict()["param_groups"]:
            groups.append(deepcopy(packed))
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        _copy_options(self.param_groups, self.optim.param_groups)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Steps along while other processes have batches left."""
        return _StepHook(self)

    @property
    def join_device(self) -> Any:
        """Where parameters lie."""
        return self._all()[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group."""
        return self.process_group


def _count(parameter: Any) -> int:
    """How many elements it has."""
    return parameter.numel()  # type: ignore[no-any-return]


def _copy_options(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
    """Options of groups, such as `lr`, as schedulers set them."""
    for given, taking in zip(source, target, strict=True):
        for key, value in given.items():
            if key not in ("params", "param_names"):
                taking[key] = value


__all__ = ["ZeroRedundancyOptimizer"]
