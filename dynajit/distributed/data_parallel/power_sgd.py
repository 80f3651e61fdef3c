"""PowerSGD: matrices of gradients travel as two thin factors.

Contract: a hook as of `hooks`. Every process makes the same first guesses. What the factors leave
out is added to the next gradients (error feedback).

Source: T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression
for Distributed Optimization", arXiv:1905.13727, algorithms 1 and 2.
"""

from typing import Any

from dynajit.compat.futures import Future
from dynajit.core.errors import InvalidValueError
from dynajit.distributed.data_parallel.buckets import GradBucket
from dynajit.distributed.data_parallel.hooks import allreduce_hook, group_or_default, sum_of
from dynajit.eager.modes.random import Generator
from dynajit.eager.tensor.tensor import Tensor
from dynajit.linalg import qr
from dynajit.ops.functions.creation.creation import empty, randn
from dynajit.ops.functions.shapes.index import cat


class PowerSGDState:
    """What the hook remembers. Mutable: errors and factors by bucket.

    Args:
        process_group: None for that of all processes.
        matrix_approximation_rank: columns of the factors.
        start_powerSGD_iter: so many iterations send everything; at least 2 if errors or factors are
            remembered, because buckets change after the first.
        min_compression_rate: matrices travel whole where factors are not that much smaller.
        use_error_feedback: add what was left out to the next gradients.
        warm_start: begin with the factors of the last iteration.
        orthogonalization_epsilon: added to lengths that columns are divided by.
        random_seed: of the first factors; the same in all processes.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: accepted.

    Raises:
        InvalidValueError: the start is too early.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise InvalidValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = Generator()
        self.generator.manual_seed(random_seed)
        self.iter = 0
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration when its last bucket comes."""
        if bucket.is_last():
            self.iter += 1

    def is_worth_it(self, matrix: Tensor) -> bool:
        """Whether factors are enough smaller than the matrix."""
        n, m = matrix.shape
        rank = min(n, m, self.matrix_approximation_rank)
        return bool((n + m) * rank * self.min_compression_rate < n * m)


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Gradients with two dims or more are averaged as products of factors, others as they are."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    return _compressed(state, bucket, bucket.gradients())


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """The whole bucket is one square matrix: quicker, and less like the average."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    buffer = bucket.buffer()
    side = int(buffer.numel() ** 0.5)
    side += side * side < buffer.numel()
    square = buffer.new_zeros(side * side)
    square[: buffer.numel()] = buffer
    found = _factored(state, bucket, square, [square.view(side, side)], [])
    return found.then(lambda future: buffer.copy_(future.value()[: buffer.numel()]))


def _compressed(state: PowerSGDState, bucket: GradBucket, gradients: list[Tensor]) -> Future:
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for gradient in gradients:
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else gradient
        is_matrix = gradient.dim() > 1 and state.is_worth_it(matrix)
        (matrices if is_matrix else others).append(matrix)
    return _factored(state, bucket, bucket.buffer(), matrices, others)


def _factored(
    state: PowerSGDState,
    bucket: GradBucket,
    buffer: Tensor,
    matrices: list[Tensor],
    others: list[Tensor],
) -> Future:
    """A future of the buffer, of which matrices and others are views."""
    group = group_or_default(state.process_group)
    index = bucket.index()
    before = None
    if state.use_error_feedback:
        if index in state.error_dict:
            buffer.add_(state.error_dict[index])
        before = buffer.clone()
    plain = _joined(others, buffer).div_(group.size())
    right = _right_factors(state, index, matrices)
    left = [matrix @ q for matrix, q in zip(matrices, right, strict=True)]
    sent = sum_of(_joined(left, buffer), group)
    plain_sent = sum_of(plain, group)

    def second(future: Any) -> Future:
        plain_sent.wait()
        _split(plain, others)
        _split(future.value(), left)
        for factor in left:
            orthogonalize(factor, state.orthogonalization_epsilon)
        for matrix, p, q in zip(matrices, left, right, strict=True):
            q.copy_(matrix.t() @ p)
        return sum_of(_joined(right, buffer).div_(group.size()), group)

    def third(future: Any) -> Tensor:
        _split(future.value(), right)
        for matrix, p, q in zip(matrices, left, right, strict=True):
            matrix.copy_(p @ q.t())
        if before is not None:
            for matrix in others:
                _zero_error(before, buffer, matrix)
            state.error_dict[index] = before.sub_(buffer)
        if state.warm_start:
            state.q_memory_dict[index] = right
        state.maybe_increase_iter(bucket)
        return buffer

    return sent.then(second).then(third)


def _zero_error(before: Tensor, buffer: Tensor, part: Tensor) -> None:
    """What travelled whole left nothing out."""
    start = part.storage_offset() - buffer.storage_offset()
    before[start : start + part.numel()] = part.reshape(-1)


def _right_factors(state: PowerSGDState, index: int, matrices: list[Tensor]) -> list[Tensor]:
    if state.warm_start and index in state.q_memory_dict:
        found = state.q_memory_dict[index]
    else:
        found = []
        for matrix in matrices:
            n, m = matrix.shape
            rank = min(n, m, state.matrix_approximation_rank)
            found.append(randn(m, rank, generator=state.generator, dtype=matrix.dtype))
    for factor in found:
        orthogonalize(factor, state.orthogonalization_epsilon)
    return found


def orthogonalize(matrix: Tensor, epsilon: float = 0) -> None:
    """Make the columns orthogonal, of length 1, in place: by Householder reflections, which also
    give columns for those that depend on others; with an epsilon one after the other
    (Gram-Schmidt).

    Args:
        matrix: (n, m) with m <= n.
        epsilon: added to lengths that columns are divided by.
    """
    if epsilon == 0 and matrix.element_size() >= 4:
        matrix.copy_(qr(matrix)[0])
        return
    for place in range(matrix.shape[1]):
        column = matrix[:, place : place + 1]
        length = column.norm() + epsilon
        if length == 0:
            column.zero_()
            continue
        column.div_(length)
        rest = matrix[:, place + 1 :]
        rest.sub_((column * rest).sum(dim=0) * column)


def _joined(tensors: list[Tensor], like: Tensor) -> Tensor:
    none: Tensor = empty(0, dtype=like.dtype, device=like.device)
    joined: Tensor = cat([none, *(tensor.reshape(-1) for tensor in tensors)])
    return joined


def _split(flat: Tensor, tensors: list[Tensor]) -> None:
    start = 0
    for tensor in tensors:
        tensor.copy_(flat[start : start + tensor.numel()].view(tuple(tensor.shape)))
        start += tensor.numel()


__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
