"""`DistributedDataParallel`: every process runs the module on its own inputs, gradients are means.

Contract: after each backward all processes have the same gradients, so that equal optimizers keep
equal parameters. In a group of one process the module is called as it is. Where compiled code calls
a module of several processes, its graph ends in front of the module and behind it; the module
itself is captured.
"""

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from dynajit.capture.control import disable, is_compiling
from dynajit.core.errors import (
    ArgumentError,
    InvalidValueError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.process.process_groups import NonMember, member_of
from dynajit.core.types.device import Device
from dynajit.distributed.collectives import all_reduce
from dynajit.distributed.data_parallel.agreement import broadcast_all, check_shapes
from dynajit.distributed.data_parallel.buckets import DEFAULT_MB, FIRST_BYTES
from dynajit.distributed.data_parallel.reducer import Reducer
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.distributed.join import Join, Joinable, JoinHook
from dynajit.distributed.reductions import ReduceOp
from dynajit.eager.modes.grad_mode import is_grad_enabled
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.layers.embedding import Embedding, EmbeddingBag
from dynajit.nn.module import Module


class DistributedDataParallel(Module, Joinable):
    """Runs `module`, whose gradients are averaged over processes while backward goes on.

    Its parameters have the prefix `module.`, as in PyTorch. Losses are means over equal batches.

    Args:
        module: with at least one parameter that requires gradients; the same in every process.
        device_ids, output_device: None, or the one GPU on which the module lies.
        dim: kept.
        broadcast_buffers: process 0's buffers are sent to all at the start of each forward pass
            that is followed by backward; None for True.
        init_sync: check that modules are the same, and send process 0's parameters and buffers to
            all now.
        process_group: None, or one that `distributed.new_group` gave.
        bucket_cap_mb: gradients travel in buckets of so many MiB; None for 25, of which the first
            has 1.
        find_unused_parameters: parameters may get no gradient in a backward.
        check_reduction: without effect, as in PyTorch.
        gradient_as_bucket_view: `.grad` shows the buckets' memory, which saves a copy.
        static_graph: each backward does what the first one does; parameters may then be unused, or
            get their gradients in several runs.
        delay_all_reduce_named_params, param_to_hook_all_reduce: refused.
        mixed_precision, device_mesh, bucket_cap_mb_list: refused.
        skip_all_reduce_unused_params, batched_grad_copy: without effect; they save time on GPUs.
        forward_sync_buffers: the newer name of `broadcast_buffers`.

    Raises:
        InvalidValueError: there is no group of processes, or devices are named that the module is
            not on; a ValueError, as in PyTorch.
        ShapeError: no parameter requires gradients, or modules differ over processes; a
            RuntimeError, as in PyTorch.
        UnsupportedError: an argument that is refused is given, or a layer has sparse gradients.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: Any = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        _refuse_given(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            mixed_precision=mixed_precision,
            device_mesh=device_mesh,
            bucket_cap_mb_list=bucket_cap_mb_list,
        )
        group = member_of(process_group)
        if isinstance(group, NonMember):
            raise InvalidValueError(
                "DistributedDataParallel(process_group=...): this process is not in the group."
            )
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise ShapeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        self.device = trained[0].device
        _check_devices(module, self.device, device_ids, output_device)
        self.process_group = group
        self.module = module
        self.device_ids = None if not device_ids else [self.device]
        self.output_device = None if not device_ids else self.device
        self.device_type = self.device.type
        self.dim = dim
        wanted = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = True if wanted is None else wanted
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._bucket_bytes = _bucket_bytes(bucket_cap_mb)
        self._divides_by_all = True
        self._reducer: Reducer | None = None
        several = isinstance(group, ProcessGroup) and group.size() > 1
        if several:
            _refuse_sparse(module)
            if init_sync:
                self._agree()
            self._make_reducer()

    # -- making it -------------------------------------------------------------------------------

    def _named(self) -> list[tuple[str, Tensor]]:
        """Parameters whose gradients are averaged."""
        return [
            (name, parameter)
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in self.parameters_to_ignore
        ]

    def _shared(self) -> list[Tensor]:
        """Parameters and buffers that processes have in common."""
        both: Iterable[tuple[str, Tensor]] = (
            *self.module.named_parameters(),
            *self.module.named_buffers(),
        )
        return [value for name, value in both if name not in self.parameters_to_ignore]

    def _buffers_to_send(self) -> list[Tensor]:
        return [
            buffer
            for name, buffer in self.module.named_buffers()
            if name not in self.parameters_to_ignore
        ]

    def _agree(self) -> None:
        group = self._group()
        check_shapes(group, self._named())
        broadcast_all(group, self._shared(), 0)

    def _make_reducer(self) -> Reducer:
        self._reducer = Reducer(
            self._group(),
            self._named(),
            self._bucket_bytes,
            self.find_unused_parameters and not self.static_graph,
            self.static_graph,
            self.gradient_as_bucket_view,
        )
        weakref.finalize(self, self._reducer.stop).atexit = False
        return self._reducer

    def _group(self) -> ProcessGroup:
        found = group_of(self.process_group)
        assert found is not None, "looked at in __init__"
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to this process: the group must be the default one.

        Raises:
            UnsupportedError: it is another one.
        """
        if self.process_group is not member_of(None):
            raise UnsupportedError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group. That is, when you have called init_process_group and have not "
                "passed process_group argument to DDP constructor"
            )
        state = dict(self.__dict__)
        del state["process_group"], state["_reducer"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        group = member_of(None)
        self.__dict__["process_group"] = group
        self.__dict__["_reducer"] = None
        if isinstance(group, ProcessGroup) and group.size() > 1:
            self._make_reducer()

    # -- running it ------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`, after buffers were received.

        Raises:
            ShapeError: the last backward left parameters without a gradient; a RuntimeError.
        """
        if self._reducer is None:
            return self.module(*inputs, **kwargs)
        if is_compiling():
            self._before()
            result = self.module(*inputs, **kwargs)
            self._after(result)
            return result
        _before(self)
        result = self.module(*inputs, **kwargs)
        _after(self, result)
        return result

    def _before(self) -> None:
        reducer = self._reducer
        assert reducer is not None
        is_trained = is_grad_enabled() and self.require_backward_grad_sync
        if is_trained:
            reducer.check_finished()
        counted = Join.notify_join_context(self)
        reducer.counted = None if self._divides_by_all else counted
        if self._join_config.enable:
            self._count_trained(is_trained)
        if self._sends_buffers():
            self._send_buffers(is_here=True)

    def _after(self, result: Any) -> None:
        reducer = self._reducer
        assert reducer is not None
        if not (is_grad_enabled() and self.require_backward_grad_sync):
            self.require_forward_param_sync = False
            return
        self.require_forward_param_sync = True
        looks = self.find_unused_parameters and not self.static_graph
        reducer.expect(list(_tensors_in(result)) if looks else None)

    def _sends_buffers(self) -> bool:
        return bool(
            self.require_forward_param_sync and self.broadcast_buffers and self._buffers_to_send()
        )

    def _send_buffers(self, is_here: bool) -> None:
        """Process 0's buffers to all; where processes may have ended, those of the last that has
        not."""
        root = self._last_place(is_here) if self._join_config.enable else 0
        broadcast_all(self._group(), self._buffers_to_send(), root)

    def _last_place(self, is_here: bool) -> int:
        """The last place of a process for which `is_here` is said."""
        group = self._group()
        place = tensor(group.rank() if is_here else -1)
        all_reduce(place, ReduceOp.MAX, group)
        return int(place)

    def _count_trained(self, is_trained: bool) -> int:
        """How many processes will average gradients in this iteration."""
        count = tensor(int(is_trained))
        all_reduce(count, group=self._group())
        return int(count)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose forward passes are followed by backward without averages: gradients add up
        in each process, and the next backward outside of it averages the sums."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Let a function average the buckets.

        Args:
            state: given to the hook.
            hook: `hook(state, bucket: GradBucket) -> Future` of a tensor like the bucket's buffer,
                in which the averages are; gradients come to it undivided.

        Raises:
            ArgumentError: the hook cannot be called; a TypeError, as in PyTorch.
            ShapeError: there is one already; a RuntimeError.
        """
        if not callable(hook):
            raise ArgumentError("Communication hook must be callable.")
        reducer = self._reducer or self._make_reducer()
        if reducer.hook is not None:
            raise ShapeError(
                "register_ddp_comm_hook can only be called once before calling backward."
            )
        reducer.hook = (state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        self.register_comm_hook(None, comm_hook_type)

    def _set_static_graph(self) -> None:
        """Each backward from now on does what the first one does."""
        self.static_graph = True
        if self._reducer is not None:
            self._reducer.stop()
            hook, self._reducer = self._reducer.hook, None
            self._make_reducer().hook = hook

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What is known of the buckets."""
        sizes = [] if self._reducer is None else self._reducer.bucket_sizes
        return {
            "world_size": self.process_group.size(),
            "bucket_sizes": ", ".join(str(len(places)) for places in sizes),
            "find_unused_parameters": self.find_unused_parameters,
            "static_graph": self.static_graph,
        }

    # -- processes with different numbers of inputs ----------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A block in which processes may have different numbers of inputs: see `Join`.

        Args:
            divide_by_initial_world_size: sums are divided by the number of processes; else by the
                number of those that have inputs left.
            enable, throw_on_early_termination: as of `Join`.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this module does in a process that has ended."""
        self._divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _Ended(self)

    @property
    def join_device(self) -> Device:
        """Where the module lies."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes that share the work."""
        return self.process_group


class _Ended(JoinHook):
    """A module whose process has no inputs left."""

    def __init__(self, module: DistributedDataParallel) -> None:
        self._module = module

    def main_hook(self) -> None:
        """Receive buffers, and add zeros to gradients."""
        module = self._module
        count = module._count_trained(False)
        if module._sends_buffers():
            module._send_buffers(is_here=False)
        module.require_forward_param_sync = count > 0
        if count and module._reducer is not None:
            module._reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """The parameters and buffers of a process that ended last."""
        module = self._module
        if module._reducer is not None:
            root = module._last_place(is_last_joiner)
            broadcast_all(module._group(), module._shared(), root)


@disable
def _before(module: DistributedDataParallel) -> None:
    module._before()


@disable
def _after(module: DistributedDataParallel, result: Any) -> None:
    module._after(result)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """Tensors of an output: in sequences, mappings and dataclasses, too."""
    if isinstance(value, Tensor):
        yield value
        return
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, (list, tuple, set)):
        parts = value
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
    for part in parts:
        yield from _tensors_in(part)


def _bucket_bytes(megabytes: Any) -> tuple[int, int]:
    """Of the first bucket, and of each further one."""
    if megabytes is None:
        return FIRST_BYTES, DEFAULT_MB << 20
    size = int(megabytes * (1 << 20))
    return size, size


def _refuse_given(**arguments: Any) -> None:
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise UnsupportedError(
            f"DistributedDataParallel({', '.join(f'{name}=...' for name in given)}): not here.  "
            "Leave them out; amp.autocast computes in other dtypes, and process_group says which "
            "processes belong together."
        )


def _refuse_sparse(module: Module) -> None:
    for name, layer in module.named_modules():
        if isinstance(layer, (Embedding, EmbeddingBag)) and layer.sparse:
            raise UnsupportedError(
                f"DistributedDataParallel: {name or 'the module'} has sparse gradients, which are "
                "not averaged.  Make it with sparse=False."
            )


def _check_devices(module: Module, device: Any, device_ids: Any, output_device: Any) -> None:
    if not device_ids and output_device is None:
        return
    if device.type == "cpu" or (device_ids and len(device_ids) > 1):
        raise InvalidValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            f"single-device GPU modules, but got device_ids {device_ids}, output_device "
            f"{output_device}, and module parameters on {device}."
        )


__all__ = ["DistributedDataParallel"]
