"""`AdaptiveLogSoftmaxWithLoss`: a softmax over many classes that computes rare ones when needed.

Contract: as in PyTorch. Frequent classes (the smallest numbers) stand in the head, beside one entry
per cluster of rare classes; a cluster's own layer has the classes within it.

Source: E. Grave et al., "Efficient softmax approximation for GPUs", arXiv:1609.04309.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.layers.containers import ModuleList, Sequential
from dynajit.nn.layers.linear import Linear
from dynajit.nn.module import Module
from dynajit.ops.functions import cat, where


class _ASMoutput(NamedTuple):
    """Log probabilities of the targets, and the loss: minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of `n_classes` classes, numbered from frequent to rare, and their loss.

    Args:
        in_features: size of the last dim of the input.
        n_classes: how many classes there are.
        cutoffs: where clusters of rare classes begin, rising, within 1 to n_classes - 1.
        div_value: by how much the inner size shrinks from cluster to cluster.
        head_bias: whether the head has a bias.

    Raises:
        ValueError: no cutoffs, or not as described.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*_checked(list(cutoffs), n_classes), n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options: Any = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for cluster, (low, high) in enumerate(pairwise(self.cutoffs)):
            inner = int(in_features // div_value ** (cluster + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, **options),
                    Linear(inner, high - low, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Start values of every layer."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Log probabilities of the targets, and minus their mean.

        Args:
            input_: (batch, in_features), or (in_features) for a single one.
            target_: class numbers, (batch), or without dims for a single one.

        Raises:
            RuntimeError: sizes do not fit, or a target is no class.
        """
        _check_sizes(input_, target_)
        is_single = target_.dim() == 0
        input = input_.unsqueeze(0) if is_single else input_
        target = target_.unsqueeze(0) if is_single else target_
        if ((target < 0) | (target >= self.n_classes)).any():
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found."
            )
        head = F.log_softmax(self.head(input), dim=1)
        entry = target
        for cluster, (low, high) in enumerate(pairwise(self.cutoffs)):
            is_within = (target >= low) & (target < high)
            entry = where(is_within, self.shortlist_size + cluster, entry)
        output = head.gather(1, entry.unsqueeze(1)).squeeze(1)
        for cluster, (low, high) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero()[:, 0]
            if rows.numel() == 0:
                continue
            inner = self._within(cluster, input.index_select(0, rows))
            place = target.index_select(0, rows) - low
            output = output.index_add(0, rows, inner.gather(1, place.unsqueeze(1)).squeeze(1))
        return _ASMoutput(output.squeeze(0) if is_single else output, (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """(batch, in_features) -> log probabilities of all classes, (batch, n_classes)."""
        return self._of_all(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """(batch, in_features) -> the most likely class of each row, (batch)."""
        head = self.head(input)
        best = head.argmax(dim=1)
        rows = (best >= self.shortlist_size).nonzero()[:, 0]
        if rows.numel() == 0:
            return best
        rare = self._of_all(input.index_select(0, rows), head.index_select(0, rows))
        return best.index_copy(0, rows, rare.argmax(dim=1))

    def _within(self, cluster: int, input: Tensor) -> Tensor:
        """Log probabilities of a cluster's classes among themselves."""
        return F.log_softmax(self.tail[cluster](input), dim=1)

    def _of_all(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for cluster in range(self.n_clusters):
            share = head[:, self.shortlist_size + cluster].unsqueeze(1)
            parts.append(self._within(cluster, input) + share)
        return cat(parts, dim=1)


def _checked(cutoffs: list[int], n_classes: int) -> list[int]:
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    is_rising = all(low < high for low, high in pairwise(cutoffs))
    is_whole = all(int(cutoff) == cutoff for cutoff in cutoffs)
    if not (is_rising and is_whole and cutoffs[0] > 0 and cutoffs[-1] <= n_classes - 1):
        raise ValueError(
            f"cutoffs={cutoffs}: expected unique rising integers between 1 and n_classes - 1 = "
            f"{n_classes - 1}"
        )
    return cutoffs


def _check_sizes(input: Tensor, target: Tensor) -> None:
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() == 1 and input.shape[0] != target.shape[0]:
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with size {tuple(input.shape)}"
        )
