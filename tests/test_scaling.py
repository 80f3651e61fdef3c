"""Formulas of costs, in their limits, and channels that count or delay."""

import time
from typing import Any

import numpy as np
import pytest

from benchmarks.scaling import costs, links, tables
from dynajit.distributed.channels.one_process import OneProcess
from dynajit.distributed.reductions import ReduceOp

SLOW, FAST = [0.3] * 4, [0.01] * 4
"""Seconds of buckets."""


def test_a_slow_link_is_busy_from_the_first_bucket_on() -> None:
    """Forward, a quarter of backward, and all buckets."""
    assert 1.0 + 0.4 / 4 + 4 * 0.3 == pytest.approx(costs.overlapped_seconds(1.0, 0.4, SLOW))


def test_a_fast_link_adds_the_last_bucket() -> None:
    assert 1.0 + 0.4 + 0.01 == pytest.approx(costs.overlapped_seconds(1.0, 0.4, FAST))


def test_one_process_sends_nothing() -> None:
    sent = [of_step(1e6, 1) for of_step in costs.STEP_BYTES.values()]
    assert [0, 0, 0, 0] == sent
    assert 0 == costs.tensor_parallel_bytes(1e6, 1)
    assert 0 == costs.all_reduce_seconds(1e6, 1, costs.Machine(1e-6, 1e-9, 1e-10, 2))


def test_stages_hold_sixteen_bytes_of_a_parameter_together() -> None:
    """As the processes' parts of stage 3 are all there is; stage 2 has a whole in each beside."""
    assert 16e6 == costs.memory(10**6, 1, 0).total
    assert 16e6 == 8 * costs.memory(10**6, 8, 3).total
    assert 4e6 == costs.memory(10**6, 8, 2).total - costs.memory(10**6, 8, 3).total


def test_processes_that_share_cores_take_turns() -> None:
    machine = costs.Machine(1e-6, 1e-9, 1e-10, 2)
    assert [1, 1, 2, 4] == [machine.turns(size) for size in (1, 2, 4, 8)]


def test_every_stage_and_collective_has_a_prediction() -> None:
    """Which grows with the number of processes."""
    rows = tables._sent_rows()
    assert 13 == len(rows)
    for title, _, predicted in rows:
        assert 0 < predicted(2) < predicted(4) < predicted(8), title


def test_what_stands_before_a_channel_hands_everything_on() -> None:
    counting: Any = links.Counting(OneProcess())
    array, output = np.arange(4.0), np.zeros(4)
    assert counting.all_gather(output, array).test()
    assert counting.all_reduce(array, ReduceOp.SUM).test()
    assert output.tolist() == [0, 1, 2, 3]
    assert (2, 1) == (counting.count, counting.size)


def test_messages_over_a_slow_link_arrive_one_after_the_other() -> None:
    link = links.SlowLink(OneProcess(), 0.02 / 32)  # an array takes 20 ms
    start = time.monotonic()
    first, second = (link.all_reduce(np.zeros(4), ReduceOp.SUM) for _ in range(2))
    assert not second.test() or time.monotonic() - start >= 0.04
    while not second.test():
        time.sleep(0.001)
    assert time.monotonic() - start >= 0.04
    assert first.test()
