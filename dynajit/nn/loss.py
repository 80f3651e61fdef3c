"""Losses as modules: each is one function of `nn.functional`."""

from typing import Any

from dynajit.eager.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.module import Module


class _Loss(Module):
    """A loss with a `reduction`: "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight per class, kept as a buffer."""

    weight: Any

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """Mean of squared differences."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Tensors of one shape -> scalar (or that shape)."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Mean of absolute differences."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Tensors of one shape -> scalar (or that shape)."""
        return F.l1_loss(input, target, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Negative log-likelihood of softmax(input).

    Args:
        weight: factor per class, shape (C,).
        ignore_index: target value that counts nothing.
        label_smoothing: share of the target that is spread over all classes.

    Shape: input (N, C, *) or (C,), target (N, *) or () of class indices, or probabilities of the
    input's shape.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits and classes -> scalar (or one loss per target)."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood, from log-probabilities.

    Shape: input (N, C, *) or (C,), target (N, *) or () of class indices.
    """

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Log-probabilities and classes -> scalar (or one loss per target)."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross-entropy of sigmoid(input)."""

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits and targets of one shape -> scalar (or that shape)."""
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
