"""Formulas of what training on several processes costs, in bytes and seconds.

Contract: `size` is the number of processes, `n` the bytes of one process's message. Bytes are what
one process sends, on average. Sources, by short name:

- Thakur: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations
  in MPICH" (2005), sections 3 and 4: algorithms and their times in alpha, beta and gamma.
- ZeRO: S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, "ZeRO: Memory Optimizations Toward Training
  Trillion Parameter Models" (2020), sections 5 and 7: memory and volumes of the stages.
- Megatron: M. Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using
  Model Parallelism" (2019), section 3: collectives of a block whose matrices are cut.
- Li: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"
  (2020), section 3.2.3: buckets that travel while backward goes on.
"""

import math
from collections.abc import Callable, Sequence

from dynajit.core.records import record

SHORT_BYTES = 2048
"""MPICH joins messages up to this by recursive doubling: MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE."""

ELEMENT_BYTES = 4
STATES_BYTES = 8
"""Of a parameter in float32, and of the two moments of AdamW."""


@record
class Machine:
    """What a message costs on one machine.

    Args:
        alpha_s: seconds from a send to its receipt, of nothing.
        beta_s: seconds for each byte more.
        gamma_s: seconds to add a byte to another.
        cores: that processes share.
    """

    alpha_s: float
    beta_s: float
    gamma_s: float
    cores: int

    def turns(self, size: int) -> float:
        """How many processes share a core: everything that computes, copies included, takes as
        many times as long."""
        return max(1.0, size / self.cores)


def _share(size: int) -> float:
    """The part of a whole that one process must get from, or give to, the others."""
    return (size - 1) / size


def all_reduce_bytes(n: float, size: int) -> float:
    """Recursive doubling for short messages, else a reduce-scatter and an all-gather (Thakur)."""
    if n <= SHORT_BYTES:
        return math.log2(size) * n
    return 2 * _share(size) * n


def part_bytes(n: float, size: int) -> float:
    """All-gather, reduce-scatter or all-to-all, where `n` is the whole (Thakur)."""
    return _share(size) * n


def all_reduce_seconds(n: float, size: int, machine: Machine) -> float:
    """As `all_reduce_bytes`, with its latencies and additions; on shared cores all of it waits."""
    if size == 1:
        return 0.0
    rounds = math.log2(size)
    if n <= SHORT_BYTES:
        one = rounds * (machine.alpha_s + n * (machine.beta_s + machine.gamma_s))
    else:
        bytes_s = n * _share(size) * (2 * machine.beta_s + machine.gamma_s)
        one = 2 * rounds * machine.alpha_s + bytes_s
    return machine.turns(size) * one


def overlapped_seconds(forward_s: float, backward_s: float, buckets_s: Sequence[float]) -> float:
    """Of forward and backward whose gradients travel in buckets, one after the other, each when
    backward has filled it (Li).

    Args:
        forward_s, backward_s: of the computation alone; buckets are filled at even intervals.
        buckets_s: of the bucket's all-reduces, in the order in which they are filled.
    """
    free_s = 0.0
    for place, bucket_s in enumerate(buckets_s, 1):
        filled_s = forward_s + backward_s * place / len(buckets_s)
        free_s = max(free_s, filled_s) + bucket_s
    return free_s


STEP_BYTES: dict[int, Callable[[float, int], float]] = {
    0: all_reduce_bytes,
    1: lambda n, size: all_reduce_bytes(n, size) + part_bytes(n, size),
    2: lambda n, size: 2 * part_bytes(n, size),
    3: lambda n, size: 3 * part_bytes(n, size),
}
"""By stage, what a process sends in a step for parameters of `n` bytes: gradients joined (0), and
new parameters sent by their owners (1); parameters gathered, gradients sent to their owners (2);
parameters gathered again for backward (3). ZeRO's section 7, where stage 1 needs less."""


def tensor_parallel_bytes(n: float, size: int) -> float:
    """A cut block of two linear layers, forward and backward, for activations of `n` bytes: one
    all-reduce each (Megatron). Attention is another such block."""
    return 2 * all_reduce_bytes(n, size)


@record
class Memory:
    """Bytes of one process: of parameters between forward and backward, gradients, and states."""

    parameters: float
    gradients: float
    states: float

    @property
    def total(self) -> float:
        """All together."""
        return self.parameters + self.gradients + self.states


def memory(count: int, size: int, stage: int) -> Memory:
    """Of `count` parameters in float32 with AdamW, as dynajit keeps them (ZeRO's section 5; stage 2
    keeps its part beside the whole while a step goes on)."""
    whole = count * ELEMENT_BYTES
    part = whole / size
    kept = {0: whole, 1: whole, 2: whole + part, 3: part}[stage]
    states = count * STATES_BYTES / (size if stage else 1)
    return Memory(kept, whole if stage < 2 else part, states)
