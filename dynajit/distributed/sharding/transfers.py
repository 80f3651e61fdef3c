"""How parts travel: gathered from all processes, and gradients summed into parts.

Contract: sums are taken in the order in which MPICH's `all_reduce` takes them, so that a sharded
run has the bits of a plain data parallel one: engines' own `reduce_scatter` sums in other orders.
Everything is started at once and waited for later.

Source of the order: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
Operations in MPICH" (2005), recursive doubling: neighbours first.
"""

from typing import Final

from dynajit.core.errors import DistBackendError
from dynajit.core.types.dtypes import DType, bfloat16, float16, float32, int64
from dynajit.distributed.collectives import all_gather_into_tensor, all_reduce, all_to_all_single
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.sharding.splits import Members
from dynajit.distributed.work import Work
from dynajit.eager.tensor.creation import empty, tensor
from dynajit.eager.tensor.tensor import Tensor

MSG_ORDER: Final = (
    "sharded modules were called in another order in another process, and got each other's "
    "parameters.  Call the same modules in the same order in all processes, where need be with "
    "inputs that do not matter."
)
_WIDENED: Final = (float16, bfloat16)


class Order:
    """Which units travelled in which order, as one number by group. Mutable: it grows.

    What one process sends for a unit would be taken for another one of its size where processes
    call modules in different orders; comparing the numbers finds that before a step is made.
    """

    def __init__(self) -> None:
        self._numbers: dict[ProcessGroup, int] = {}

    def note(self, group: ProcessGroup, unit: int) -> None:
        """A unit begins to travel: gathered, or reduced if the number is negative."""
        before = self._numbers.get(group, 0)
        self._numbers[group] = (before * 1_000_003 + unit) % (1 << 61)

    def check(self, group: ProcessGroup) -> None:
        """Nothing, if it was the same in all processes; all call this.

        Raises:
            DistBackendError: it was not.
        """
        if group.size() == 1:
            return
        number = self._numbers.get(group, 0)
        largest = tensor([number, -number], dtype=int64)
        all_reduce(largest, ReduceOp.MAX, group=group)
        first, last = largest.tolist()
        if first != -last:
            raise DistBackendError(MSG_ORDER)


def joined_in_order(rows: list[Tensor]) -> Tensor:
    """The sum of one tensor of each process, by rank; overwrites them.

    Where the number is no power of two, the first processes are paired until it is one.
    """
    power = 1 << (len(rows).bit_length() - 1)
    paired = 2 * (len(rows) - power)
    rows = [rows[i].add_(rows[i + 1]) for i in range(0, paired, 2)] + rows[paired:]
    while len(rows) > 1:
        rows = [rows[i].add_(rows[i + 1]) for i in range(0, len(rows), 2)]
    return rows[0]


class Gathering:
    """The parts of all processes on their way. Mutable: it ends.

    Args:
        part: of one length in all processes.
        group: who has one.
    """

    def __init__(self, part: Tensor, group: ProcessGroup) -> None:
        self._whole: Tensor = empty(part.numel() * group.size(), dtype=part.dtype)
        self._work: Work | None = all_gather_into_tensor(
            self._whole, part, group=group, async_op=True
        )

    def wait(self) -> Tensor:
        """All parts, one after the other."""
        if self._work is not None:
            self._work.wait()
            self._work.forget_results()
            self._work = None
        return self._whole


class Reduction:
    """Gradients on their way to the processes that have the parts. Mutable: it ends.

    Args:
        flat: the gradients of this process, as long as all parts.
        used: uint8, whether a gradient of each parameter arrived here.
        members: whose mean is taken.
        parts: into how many parts; 1: every process gets the whole.
    """

    def __init__(self, flat: Tensor, used: Tensor, members: Members, parts: int) -> None:
        group = members.group
        self._members = members
        self._parts = parts
        self._dtype: DType = flat.dtype
        wide = flat.to(float32) if flat.dtype in _WIDENED else flat
        self._used = used
        self._result: tuple[Tensor, list[bool]] | None = None
        self._works: list[Work | None] = [
            all_reduce(used, ReduceOp.MAX, group=group, async_op=True)
        ]
        if parts == 1:
            self._received = wide
            self._works.append(all_reduce(wide, group=group, async_op=True))
        else:
            self._received = empty(wide.numel(), dtype=wide.dtype)
            self._works.append(all_to_all_single(self._received, wide, group=group, async_op=True))

    def wait(self) -> tuple[Tensor, list[bool]]:
        """This process's part of the mean, and which parameters had a gradient in any process."""
        if self._result is None:
            self._result = self._finished()
            self._works, self._received = [], self._used
        return self._result

    def _finished(self) -> tuple[Tensor, list[bool]]:
        for work in self._works:
            if work is not None:
                work.wait()
                work.forget_results()
        if self._parts == 1:
            total = self._received
        else:
            total = joined_in_order(list(self._received.view(self._parts, -1).unbind()))
            total = total.clone()  # without the other processes' rows behind it
        if self._members.across is not None:
            all_reduce(total, group=self._members.across)
            all_reduce(self._used, ReduceOp.MAX, group=self._members.across)
        total.div_(self._members.count)
        return total.to(self._dtype), [bool(count) for count in self._used.tolist()]


ORDER: Final = Order()
