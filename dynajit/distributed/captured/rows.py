"""Rows of graphs that start collectives and messages, and that wait for them.

Contract: a row that starts something gives its number, one int64, and takes the number of what was
started before it, `after`: data that no pass reorders, as no process may. `wait` gives what
arrived. What a row means follows from its attributes, which are numbers and names; a group is
looked up by its name when the row runs. No gradient passes but through `wait_for_rows`.
"""

import functools
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from dynajit.core.errors import DistBackendError
from dynajit.core.process.begun import BEGUN
from dynajit.core.process.process_groups import STATE
from dynajit.core.records import record
from dynajit.core.types.dtypes import int64
from dynajit.core.types.value_types import TensorType
from dynajit.distributed import transfers
from dynajit.distributed.captured.takeover import Asked, Begun
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.work import Work
from dynajit.eager import _tensor
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.namespaces import GraphCallable
from dynajit.ops.table.op_table import FURTHER, REQUIRED, Extern, Kind, Op


class Collective(GraphCallable):
    """A row as compiled code calls it.

    Args:
        row: what a call becomes.
    """

    def __init__(self, row: Op) -> None:
        self.row = row
        self.__name__ = self.__qualname__ = row.name

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        return self.row(*operands, **attributes)

    def recorded(self, *operands: Any, **attributes: Any) -> Any:
        """See `GraphCallable`."""
        return self.row(*operands, **attributes)

    def written(self) -> tuple[tuple[int, str], ...]:
        """See `GraphCallable`: none."""
        return ()

    def __reduce__(self) -> tuple[Callable[[str], "Collective"], tuple[str]]:
        return collective, (self.row.name,)


_COLLECTIVES: Final[dict[str, Collective]] = {}


def collective(name: str) -> Collective:
    """The one whose row has a name (used to unpickle them).

    Raises:
        KeyError: there is none.
    """
    return _COLLECTIVES[name]


@record(eq=False)
class _Transfer:
    """What was started and not waited for.

    Args:
        work: ends when it has arrived; weak where nobody may wait.
        result: the tensor that it writes.
    """

    work: Callable[[], Work | None]
    result: Tensor


_STARTED: Final[dict[int, _Transfer]] = {}
"""What was started and not waited for, by number."""

_NUMBERS: Final = itertools.count(1)


def _row(
    name: str,
    inputs: tuple[str, ...],
    attributes: tuple[str, ...],
    infer: Callable[..., TensorType],
    run: Callable[..., Tensor],
    starts: bool = False,
    vjp: Mapping[str, Callable[..., Any] | None] = MappingProxyType({}),
) -> Collective:
    """A row that runs a function of tensors which lie row by row; it starts something or waits."""

    def array(xp: Any, *arrays: Any, **named: Any) -> Any:
        operands = [_tensor.wrap(_row_major(xp, operand)) for operand in arrays]
        return run(*operands, **named).array

    rule = Extern(array, widens=True, starts=starts, joins="parts" in attributes, awaits=not starts)
    bound = dict.fromkeys(attributes, REQUIRED)
    row = FURTHER.enter(Op(name, Kind.EXTERN, inputs, bound, infer, rule, vjp, opaque=True))
    made = _COLLECTIVES[name] = Collective(row)
    return made


def _row_major(xp: Any, array: Any) -> Any:
    """The array, or a copy that lies row by row; a zero-dim one stays one."""
    return array if array.flags.c_contiguous else xp.ascontiguousarray(array)


def _starting(
    inputs: tuple[str, ...], attributes: tuple[str, ...]
) -> Callable[[Callable[..., Tensor]], Collective]:
    """A row that starts what the function starts: it gives a number."""

    def infer(*types: Any, **named: Any) -> TensorType:
        return TensorType((1,), int64)

    def made(run: Callable[..., Tensor]) -> Collective:
        return _row(run.__name__, (*inputs, "after"), (*attributes, "group"), infer, run, True)

    return made


def _dense(like: TensorType) -> TensorType:
    return TensorType(tuple(like.shape), like.dtype, like.device)


@_starting(("source",), ("op", "parts"))
def start_all_reduce(
    source: Tensor, after: Tensor, *, op: str, parts: Sequence[int] | None, group: str
) -> Tensor:
    """Parts: elements of each of several that travel together, None for one."""
    found, result = _group(group), source.clone()
    work = transfers.all_reduce(found, [result], ReduceOp[op], True)
    return _started(found, ("all_reduce", ReduceOp[op]), work, result, parts)


@_starting(("source",), ("op", "root"))
def start_reduce(source: Tensor, after: Tensor, *, op: str, root: int, group: str) -> Tensor:
    found, result = _group(group), source.clone()
    work = transfers.reduce(found, result, root, ReduceOp[op], True)
    asked = ("reduce", ReduceOp[op], root)
    return _started(found, asked, work, result, has_result=found.rank() == root)


@_starting(("source",), ("root", "parts"))
def start_broadcast(
    source: Tensor, after: Tensor, *, root: int, parts: Sequence[int] | None, group: str
) -> Tensor:
    found, result = _group(group), source.clone()
    work = transfers.broadcast(found, [result], root, True)
    return _started(found, ("broadcast", root), work, result, parts)


@_starting(("source",), ("called",))
def start_all_gather(source: Tensor, after: Tensor, *, called: str, group: str) -> Tensor:
    found = _group(group)
    result = source.new_empty((found.size(), *source.shape))
    work = transfers.all_gather(found, [result], source.clone(), True, called)
    return _started(found, ("all_gather",), work, result)


@_starting(("source",), ("root",))
def start_gather(source: Tensor, after: Tensor, *, root: int, group: str) -> Tensor:
    found = _group(group)
    is_root = found.rank() == root
    result = source.new_empty((found.size() if is_root else 0, *source.shape))
    work = transfers.gather(found, [result] if is_root else None, source.clone(), root, True)
    return _started(found, ("gather", root), work, result, has_result=is_root)


@_starting(("source", "like"), ("root",))
def start_scatter(source: Tensor, like: Tensor, after: Tensor, *, root: int, group: str) -> Tensor:
    """The source counts at the root, where it holds the parts of all, one after the other."""
    found, result = _group(group), like.new_empty(like.shape)
    sources = [source.clone()] if found.rank() == root else None
    work = transfers.scatter(found, result, sources, root, True)
    return _started(found, ("scatter", root), work, result)


@_starting(("source", "like"), ("op", "called"))
def start_reduce_scatter(
    source: Tensor, like: Tensor, after: Tensor, *, op: str, called: str, group: str
) -> Tensor:
    found, result = _group(group), like.new_empty(like.shape)
    copied, kind = source.clone(), ReduceOp[op]
    work = transfers.reduce_scatter(found, result, [copied], kind, True, called)
    return _started(found, ("reduce_scatter", kind), work, result)


@_starting(("source", "like"), ("received", "sent"))
def start_exchange(
    source: Tensor,
    like: Tensor,
    after: Tensor,
    *,
    received: Sequence[int],
    sent: Sequence[int],
    group: str,
) -> Tensor:
    found, result = _group(group), like.new_empty(like.shape)
    work = transfers.exchange(found, [result], [source.clone()], received, sent, True)
    return _started(found, ("all_to_all",), work, result)


@_starting((), ())
def start_barrier(after: Tensor, *, group: str) -> Tensor:
    found = _group(group)
    work = transfers.barrier(found, True)
    return _started(found, ("barrier",), work, after, has_result=False)


@_starting(("source",), ("peer", "tag"))
def start_send(source: Tensor, after: Tensor, *, peer: int, tag: int, group: str) -> Tensor:
    found = _group(group)
    work = transfers.send(found, source.clone(), peer, tag)
    asked = ("send", peer, tag)
    return _started(found, asked, work, after, has_result=False, may_be_left=True)


@_starting(("like",), ("peer", "tag"))
def start_receive(like: Tensor, after: Tensor, *, peer: int, tag: int, group: str) -> Tensor:
    found, result = _group(group), like.new_empty(like.shape)
    work = transfers.receive(found, result, peer, tag)
    return _started(found, ("recv", peer, tag), work, result)


def _group(name: str) -> ProcessGroup:
    for group in STATE.groups:
        if group.group_name == name and isinstance(group, ProcessGroup):
            return group
    raise DistBackendError(
        f"a compiled function was captured with the group {name!r}, which was destroyed since."
    )


def _started(
    group: ProcessGroup,
    asked: Asked,
    work: Work | None,
    result: Tensor,
    parts: Sequence[int] | None = None,
    has_result: bool = True,
    may_be_left: bool = False,
) -> Tensor:
    """The number of what was started.

    Args:
        result: what arrives, which `wait` gives.
        parts: elements of each collective of the program that it stands for.
        has_result: something arrives here.
        may_be_left: nobody may wait for it.
    """
    assert work is not None
    number = next(_NUMBERS)
    let_go = functools.partial(_STARTED.pop, number, None)
    _STARTED[number] = _Transfer(weakref.ref(work) if may_be_left else lambda: work, result)
    if may_be_left:
        weakref.finalize(work, let_go).atexit = False
    flat, start = result.reshape(-1), 0
    for size in parts or (result.numel(),):
        arrives = flat[start : start + size] if has_result else None
        BEGUN.note(Begun(group, asked, work, arrives, let_go))
        start += size
    return tensor([number])


def _ended(number: Tensor) -> Tensor:
    found = _STARTED.pop(int(number.item()), None)
    if found is None:  # a message that was sent, and let go of
        return number
    work = found.work()
    if work is not None:
        work.wait()
    return found.result


def _passed(number: Tensor, after: Tensor) -> Tensor:
    _ended(number)
    passed: Tensor = after.clone()
    return passed


def _infer_all(number: Any, like: TensorType, *, count: int) -> TensorType:
    return TensorType((count, *like.shape), like.dtype, like.device)


wait: Final = _row(
    "wait_for_transfer",
    ("number", "like"),
    (),
    lambda number, like: _dense(like),
    lambda number, like: _ended(number),
)
"""What arrived, of the type of `like`."""

wait_for_end: Final = _row(
    "wait_for_end",
    ("number", "after"),
    (),
    lambda number, after: _dense(after),
    lambda number, after: _passed(number, after),
)
"""`after`, once what has no result has ended."""

wait_for_all: Final = _row(
    "wait_for_transfers",
    ("number", "like"),
    ("count",),
    _infer_all,
    lambda number, like, count: _ended(number),
)
"""What arrived of `count` processes, each of the type of `like`."""


def _own_of_all(ops: Any, g: Any, number: Any, count: int, place: int, group: str) -> Any:
    """What all processes ask of this one's row: they sum what each asks of all rows."""
    started = start_all_reduce.row(g, number, op="SUM", parts=None, group=group)
    return wait_for_own.row(started, g, count=count, place=place, group=group)


def _all_of_own(ops: Any, g: Any, number: Any, count: int, place: int, group: str) -> Any:
    """What each process asks of its own sum, in all of them."""
    started = start_all_gather.row(g, number, called=ALL_ROWS, group=group)
    return wait_for_rows.row(started, g, count=count, place=place, group=group)


ALL_ROWS: Final = "all_gather_into_tensor"
"""What gathers rows, for messages."""

_OF_ROWS: Final = ("count", "place", "group")

wait_for_rows: Final = _row(
    "wait_for_rows",
    ("number", "row"),
    _OF_ROWS,
    lambda number, row, count, place, group: _infer_all(number, row, count=count),
    lambda number, row, count, place, group: _ended(number),
    vjp={"number": None, "row": _own_of_all},
)
"""`wait_for_all` of a row of each process, through which gradients pass; `place` is this one's."""

wait_for_own: Final = _row(
    "wait_for_own_row",
    ("number", "rows"),
    _OF_ROWS,
    lambda number, rows, count, place, group: TensorType(rows.shape[1:], rows.dtype, rows.device),
    lambda number, rows, count, place, group: _ended(number)[place],
    vjp={"number": None, "rows": _all_of_own},
)
"""This process's row of the sum of all processes' `rows`, through which gradients pass."""
