"""Communication hooks: how the gradients of a bucket are averaged.

Contract: a hook gets its state and a bucket whose gradients are undivided, and gives a future of a
tensor like the bucket's buffer in which the averages are. What follows on a collective runs when
the future is waited for, which the reducer does in the order of the buckets.
"""

import enum
from collections.abc import Callable
from typing import Any, TypeAlias

from dynajit.capture.control import is_compiling
from dynajit.compat.futures import Future
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.distributed.captured import nodes
from dynajit.distributed.collectives import all_reduce
from dynajit.distributed.data_parallel.buckets import GradBucket
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.eager.tensor.tensor import Tensor

Hook: TypeAlias = Callable[[Any, GradBucket], Future]


def sum_of(tensor: Tensor, group: ProcessGroup) -> Future:
    """A future of the tensor, in which the sum over a group will be."""
    work = all_reduce(tensor, group=group, async_op=True)
    assert work is not None, "asked for"
    return work.get_future().then(lambda future: future.value()[0])


def known(value: Any) -> Future:
    """A future that has its value."""
    if is_compiling():
        return nodes.known(value)
    future = Future()
    future.set_result(value)
    return future


def group_or_default(group: Any) -> ProcessGroup:
    """The group that a state names, or that of all processes.

    Raises:
        InvalidValueError: there is none.
    """
    found = group_of(group)
    assert found is not None, "hooks run in the group's processes"
    return found


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """What is done without a hook: gradients are divided, then added up.

    Args:
        process_group: None for that of all processes.
    """
    group = group_or_default(process_group)
    return sum_of(bucket.buffer().div_(group.size()), group)


def _compressed(process_group: Any, bucket: GradBucket, dtype: DType) -> Future:
    group = group_or_default(process_group)
    buffer = bucket.buffer()
    small = buffer.to(dtype).div_(group.size())
    return sum_of(small, group).then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Gradients travel as float16."""
    return _compressed(process_group, bucket, dtypes.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Gradients travel as bfloat16."""
    return _compressed(process_group, bucket, dtypes.bfloat16)


def _wrapper(hook: Hook, dtype: DType) -> Hook:
    def wrapped(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda future: buffer.copy_(_tensor(future.value())))

    return wrapped


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook whose bucket holds float16; its result is converted back."""
    return _wrapper(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook whose bucket holds bfloat16; its result is converted back."""
    return _wrapper(hook, dtypes.bfloat16)


def _tensor(value: Any) -> Tensor:
    return value[0] if isinstance(value, (list, tuple)) else value  # type: ignore[no-any-return]


def noop_hook(_: Any, bucket: GradBucket) -> Future:
    """Gradients stay in each process: for measurements of what averages cost."""
    return known(bucket.buffer())


class DDPCommHookType(enum.Enum):
    """Hooks by name."""

    ALLREDUCE = enum.member(allreduce_hook)
    FP16_COMPRESS = enum.member(fp16_compress_hook)
    BF16_COMPRESS = enum.member(bf16_compress_hook)
    NOOP = enum.member(noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """`model.register_comm_hook` by a hook's name."""
    model.register_comm_hook(state, comm_hook_type.value)


__all__ = [
    "DDPCommHookType",
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
    "noop_hook",
    "register_ddp_comm_hook",
]
