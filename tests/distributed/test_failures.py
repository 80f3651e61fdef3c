"""What processes are told when they do not come together, and how they end."""

import time
from functools import partial
from typing import Any

import pytest

import dynajit as dj
import dynajit.distributed as dist
from tests.support.ranks import Raised, on_ranks, run_program

pytestmark = pytest.mark.one_python

HEAD = """
import datetime, os, sys, time
import dynajit as dj
import dynajit.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=1))
rank = dist.get_rank()
x = dj.ones(3)
"""


def largest(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y, dist.ReduceOp.MAX)
    return y


def at_root(x: Any, root: int) -> Any:
    y = x * 2
    dist.reduce(y, root)
    return y


def summed(x: Any) -> Any:
    y = x * 2
    dist.all_reduce(y)
    return y


def sent(x: Any) -> Any:
    y = x * 2
    dist.broadcast(y, 0)
    return y


def differing(name: str) -> None:
    """Calls that do not fit; nothing is sent, so others may follow."""
    rank = dist.get_rank()
    x = dj.ones(3 + rank)
    calls = {
        "size": lambda: dist.all_reduce(x),
        "dtype": lambda: dist.broadcast(dj.ones(3, dtype=(dj.int8, dj.bool)[rank]), 0),
        "op": lambda: dist.all_reduce(dj.ones(7), list(dist.ReduceOp)[rank]),
        "root": lambda: dist.broadcast(dj.ones(7), rank),
        "function": lambda: (
            dist.all_gather_into_tensor(dj.ones(10), dj.ones(5))
            if rank
            else dist.all_reduce(dj.ones(5))
        ),
        "async": lambda: dist.all_reduce(x, async_op=True),
        "parts": lambda: dist.reduce_scatter_tensor(x, dj.ones(2 * (3 + rank))),
        "gather": lambda: dist.all_gather([dj.ones(3 + rank)] * 2, x),
        "captured": lambda: dj.compile(largest, fullgraph=True)(x),
        "captured root": lambda: dj.compile(at_root, fullgraph=True)(dj.ones(7), rank),
        "captured by one": lambda: (
            dist.broadcast(dj.ones(11), 0) if rank else dj.compile(summed)(dj.ones(11))
        ),
    }
    calls[name]()


def differing_in_detail() -> list[str]:
    """Shapes of as many elements, and known calls in another order, are told by DETAIL alone."""
    dist.all_reduce(dj.ones(2, 3))
    dist.broadcast(dj.ones(2, 3), 0)
    rank = dist.get_rank()
    dist.all_reduce(dj.ones((2, 3) if rank else (3, 2)))
    captured_sum = dj.compile(summed, fullgraph=True)
    captured_broadcast = dj.compile(sent, fullgraph=True)
    captured_sum(dj.ones(2, 3))
    captured_broadcast(dj.ones(2, 3))
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    found = []
    for call in (
        lambda: dist.all_reduce(dj.ones((2, 3) if rank else (3, 2))),
        lambda: dist.broadcast(dj.ones(2, 3), 0) if rank else dist.all_reduce(dj.ones(2, 3)),
        lambda: (captured_broadcast if rank else captured_sum)(dj.ones(2, 3)),
    ):
        with pytest.raises(dist.DistBackendError) as raised:
            call()
        found.append(str(raised.value))
    dist.all_reduce(dj.ones(2, 3))
    dist.set_debug_level(dist.DebugLevel.OFF)
    return found


def misused() -> dict[str, str]:
    """Errors of single processes, which leave nothing behind."""
    x = dj.ones(3)
    group = dist.new_group([0, 1])
    dist.destroy_process_group(group)
    calls = {
        "root": lambda: dist.broadcast(x, 7),
        "root of a group": lambda: dist.reduce(x, group_dst=2),
        "both": lambda: dist.broadcast(x, 0, group_src=0),
        "to itself": lambda: dist.send(x, dist.get_rank()),
        "destroyed": lambda: dist.all_reduce(x, group=group),
        "count": lambda: dist.all_gather([x], x),
        "list": lambda: dist.gather(x, [x, x] if dist.get_rank() else None, dst=0),
        "ranks": lambda: dist.new_group([0, 5]),
        "twice": lambda: dist.new_group([0, 0]),
        "again": lambda: dist.init_process_group("gloo"),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except (ValueError, RuntimeError) as error:
            found[name] = str(error)
    return found


DIFFERENCES = {
    "size": ("all_reduce(float32[3 elements], SUM)", "all_reduce(float32[4 elements], SUM)"),
    "dtype": ("broadcast(int8[3 elements], root=0)", "broadcast(bool[3 elements], root=0)"),
    "op": ("all_reduce(float32[7 elements], SUM)", "all_reduce(float32[7 elements], AVG)"),
    "root": ("broadcast(float32[7 elements], root=0)", "broadcast(float32[7 elements], root=1)"),
    "function": ("all_reduce(float32[5 elements], SUM)", "all_gather_into_tensor(float32[5 "),
    "async": ("all_reduce(float32[3 elements], SUM)", "all_reduce(float32[4 elements], SUM)"),
    "parts": ("reduce_scatter_tensor(float32[3 ", "reduce_scatter_tensor(float32[4 "),
    "gather": ("all_gather(float32[3 elements])", "all_gather(float32[4 elements])"),
    "captured": ("all_reduce(float32[3 elements], MAX)", "all_reduce(float32[4 elements], MAX)"),
    "captured root": ("reduce(float32[7 elements], SUM, root=0)", "SUM, root=1)"),
    "captured by one": ("all_reduce(float32[11 elements], SUM)", "broadcast(float32[11 elements]"),
}


def test_what_does_not_fit_raises_in_every_process() -> None:
    """With what each called, and where."""
    *found, detailed, wrong = on_ranks(
        [*(partial(differing, name) for name in DIFFERENCES), differing_in_detail, misused], 2
    )
    for (name, expected), by_rank in zip(DIFFERENCES.items(), found, strict=True):
        for raised in by_rank:
            assert isinstance(raised, Raised), name
            assert "DistBackendError" in raised.kind
            for rank, text in enumerate(expected):
                line = next(x for x in raised.text.splitlines() if f"  rank {rank}: " in x)
                assert text in line
                assert "test_failures.py:" in line
    for texts in detailed:
        assert not isinstance(texts, Raised), texts
        assert "rank 0: all_reduce(float32[3, 2], SUM) at " in texts[0]
        assert "rank 1: all_reduce(float32[2, 3], SUM) at " in texts[0]
        assert "rank 0: all_reduce(float32[2, 3], SUM) at " in texts[1]
        for text in texts[1:]:  # plain, and captured
            assert "rank 1: broadcast(float32[2, 3], root=0) at " in text
        assert "rank 0: all_reduce(float32[2, 3], SUM) at " in texts[2]
        assert 2 == texts[2].count("test_failures.py:")
    for texts in wrong:
        assert not isinstance(texts, Raised), texts
        parts = {
            "root": "invalid root rank: 7",
            "root of a group": "invalid root rank: 2",
            "both": "Can't specify both",
            "to itself": "should not be the same",
            "destroyed": "is not registered",
            "count": "expected length 2",
            "list": "Argument ``gather_list`` must",
            "ranks": "Rank 5 is out of range",
            "twice": "expected each process once",
            "again": "twice",
        }
        assert list(parts) == list(texts)
        for name, part in parts.items():
            assert part in texts[name]


@pytest.mark.parametrize(
    "waiting",
    [
        "dist.all_reduce(x)",
        "dist.all_reduce(x, async_op=True).wait()",
        "dist.barrier()",
        "dist.barrier(timeout=datetime.timedelta(seconds=1))",
        "dist.recv(x, 1)",
        "dist.irecv(x, 1).wait(datetime.timedelta(seconds=1))",
        "dist.all_gather_object([None, None], 1)",
        "dist.monitored_barrier()",
    ],
)
def test_a_process_that_waits_in_vain_is_told_in_time(waiting: str) -> None:
    """Its group refuses what follows, and it ends without waiting for the other."""
    program = f"""{HEAD}
dist.all_reduce(x)  # known by now: it is not compared again
dist.barrier()
started = time.monotonic()
if rank == 1:
    time.sleep(30)
try:
    {waiting}
except dist.DistBackendError as error:
    sys.stdout.write(f"late {{0.9 < time.monotonic() - started < 8}} {{error}}\\n")
try:
    dist.all_reduce(x)
except dist.DistBackendError as error:
    sys.stdout.write(f"refused {{error}}\\n")
"""
    started = time.monotonic()
    ended = run_program(program, 2)
    assert time.monotonic() - started < 20
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("late True"), ended
    assert any(line.startswith("refused") and "failed before" in line for line in lines), ended
    assert 0 != ended.returncode
    assert "ends after: " in ended.stderr


def test_a_process_that_fails_ends_the_others() -> None:
    """Its error is printed, and nobody waits."""
    program = (
        HEAD.replace("seconds=1", "seconds=60")
        + """
if rank == 1:
    raise LookupError("told by rank 1")
dist.all_reduce(x)
"""
    )
    started = time.monotonic()
    ended = run_program(program, 2)
    assert time.monotonic() - started < 20
    assert 0 != ended.returncode
    assert "LookupError: told by rank 1" in ended.stderr
    assert "rank 1 ended with LookupError: all processes end." in ended.stderr


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (2, "a message of 8 bytes for a tensor of 12"),
        (4, "the message is longer than the tensor, which has 12 bytes"),
    ],
)
def test_messages_of_another_size_are_refused(size: int, text: str) -> None:
    program = f"""{HEAD}
if rank == 0:
    dist.send(dj.ones({size}), 1)
else:
    try:
        dist.recv(x, 0)
    except dist.DistBackendError as error:
        sys.stdout.write(f"{{error}}\\n")
"""
    assert text in run_program(program, 2).stdout


def test_a_forked_child_has_no_group() -> None:
    """Its error does not end the job."""
    program = f"""{HEAD}
def summed(x):
    dist.all_reduce(x)
    return x * 2

captured = dj.compile(summed, fullgraph=True)
captured(dj.ones(3))
sys.stdout.flush()
child = os.fork()
if not child:
    for call in (dist.all_reduce, captured):
        for count in (3, 5):  # a call that the processes know, and a new one
            try:
                call(dj.ones(count))
            except dist.DistBackendError as error:
                sys.stdout.write(f"child {{error}}\\n")
                sys.stdout.flush()
    sys.excepthook(KeyError, KeyError("of a child"), None)
    os._exit(0)
os.waitpid(child, 0)
dist.all_reduce(x)
sys.stdout.write(f"sum {{x.tolist()}}\\n")
dist.destroy_process_group()
"""
    ended = run_program(program, 2)
    assert 0 == ended.returncode, ended
    assert 8 == ended.stdout.count("was forked after init_process_group")
    assert 2 == ended.stdout.count("sum [2.0, 2.0, 2.0]")


def test_debug_levels_have_pytorchs_names(monkeypatch: Any) -> None:
    assert ["OFF", "INFO", "DETAIL"] == [level.name for level in dist.DebugLevel]
    before = dist.get_debug_level()
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    dist.set_debug_level_from_env()
    assert dist.DebugLevel.DETAIL is dist.get_debug_level()
    dist.set_debug_level(before)
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
    with pytest.raises(ValueError, match="must be OFF, INFO, or DETAIL"):
        dist.set_debug_level_from_env()
