"""Connectionist temporal classification: `ctc_loss` of `nn.functional`.

Contract: it works on arrays of NumPy, frame by frame, for tensors on a GPU, too, and is one node of
the tape, so capture breaks the graph there. As in PyTorch the gradient is that of normalised
log-probabilities: what the softmax before them would add is in it. Labels lie between blanks in
paths of 2 S + 1 states.

Source: A. Graves et al., "Connectionist Temporal Classification", ICML 2006, equations 6 to 16.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.errors import AutogradError, DTypeError, DTypeNotImplementedError, ShapeError
from dynajit.core.types import dtypes
from dynajit.eager.backward.function import Function
from dynajit.eager.modes.grad_mode import is_grad_enabled
from dynajit.eager.tensor.creation import from_numpy
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.arguments import with_integers
from dynajit.ops.calls.autocast import widened
from dynajit.ops.calls.public import public
from dynajit.ops.functions.networks.loss import reduction_of


@public("nn.functional")
@with_integers
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-probability of all alignments of labels to frames.

    Args:
        log_probs: (T, N, C) or (T, C), float32 or float64, of `log_softmax`.
        targets: (N, S), or (sum of target_lengths) one after the other.
        input_lengths, target_lengths: (N), or one number without a batch.
        blank: the class of no label.
        reduction: "none", "sum" or "mean", which divides by the target's lengths, too.
        zero_infinity: whether losses without any alignment count as 0, with no gradient.

    Returns:
        A scalar, or (N) for "none".

    Raises:
        ShapeError: shapes or lengths do not go together, or `blank` is no class.
        DTypeError: targets or lengths are not integers.
        AutogradError: a second derivative is asked for.
    """
    reduction = reduction_of(reduction)
    log_probs = widened(log_probs)
    is_batched = log_probs.dim() == 3
    wide = log_probs if is_batched else log_probs.unsqueeze(1)
    _check(wide, targets, blank)
    frames, rows, _ = wide.shape
    counts = _lengths(input_lengths, rows, "input_lengths")
    sizes = _lengths(target_lengths, rows, "target_lengths")
    if (counts > frames).any():
        raise ShapeError(
            f"ctc_loss: Expected input_lengths to have value at most {frames}, but got value "
            f"{counts.max()}."
        )
    labels = _padded(targets.numpy(force=True), sizes)
    loss = _AlignmentLoss.apply(wide, labels, counts, sizes, blank, zero_infinity)
    if reduction == "none":
        return loss if is_batched else loss.squeeze(0)
    if reduction == "mean":
        return (loss / from_numpy(sizes.clip(1)).to(loss.device, loss.dtype)).mean()
    return loss.sum()


def _check(log_probs: Any, targets: Any, blank: int) -> None:
    if log_probs.dim() != 3:
        raise ShapeError(
            f"ctc_loss: expected log_probs (T, N, C) or (T, C), got {list(log_probs.shape)}."
        )
    if log_probs.dtype not in (dtypes.float32, dtypes.float64):
        raise DTypeNotImplementedError(f'"ctc_loss" not implemented for {log_probs.dtype.name}.')
    if targets.dtype.is_floating_point or targets.dtype is dtypes.bool_:
        raise DTypeError(f"ctc_loss: targets must be integral, got {targets.dtype.name}.")
    classes = log_probs.shape[2]
    if not 0 <= blank < classes:
        raise ShapeError(f"ctc_loss: blank must be in label range, got {blank} of {classes}.")
    numbers = targets.numpy(force=True)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < classes:
        raise ShapeError(f"ctc_loss: targets must be classes in [0, {classes}).")


def _lengths(given: Any, rows: int, name: str) -> np.ndarray:
    """(rows) of int64."""
    if isinstance(given, Tensor):
        if given.dtype.category is not dtypes.Category.INTEGER:
            raise DTypeError(f"ctc_loss: {name} must be integral, got {given.dtype.name}.")
        lengths = given.numpy(force=True).astype(np.int64).reshape(-1)
    else:
        lengths = np.array(given if isinstance(given, Sequence) else [given], np.int64)
    if lengths.size != rows:
        raise ShapeError(
            f"ctc_loss: {name} must be of size batch_size {rows}, but got {lengths.size}."
        )
    if (lengths < 0).any():
        raise ShapeError(f"ctc_loss: Expected {name} to have value at least 0.")
    return lengths


def _padded(targets: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Labels as (N, S)."""
    longest = int(sizes.max(initial=0))
    if targets.ndim == 2:
        if targets.shape[0] != sizes.size or targets.shape[1] < longest:
            raise ShapeError(
                f"ctc_loss: Expected targets to have size at least {longest} at dimension 1 and "
                f"{sizes.size} at dimension 0, but got size {list(targets.shape)}."
            )
        return targets[:, :longest].astype(np.int64)
    if targets.size != sizes.sum():
        raise ShapeError(
            f"ctc_loss: Expected targets of {sizes.sum()} labels, the sum of target_lengths, but "
            f"got {targets.size}."
        )
    padded = np.zeros((sizes.size, longest), np.int64)
    padded[np.arange(longest) < sizes[:, None]] = targets
    return padded


class _Paths:
    """Log-probabilities of paths through the states of each sequence.

    Args:
        log_probs: (T, N, C).
        labels: (N, S).
        counts, sizes: (N), how many frames and labels count.
        blank: the class between labels.
    """

    def __init__(
        self,
        log_probs: np.ndarray,
        labels: np.ndarray,
        counts: np.ndarray,
        sizes: np.ndarray,
        blank: int,
    ) -> None:
        rows, size = labels.shape
        self.states = np.full((rows, 2 * size + 1), blank)
        self.states[:, 1::2] = labels
        self.counts = counts[:, None]
        number = np.arange(2 * size + 1)
        last = 2 * sizes[:, None]
        self.ends = (number == last) | (number == last - 1)
        #: Whether a state may follow the one two before: another label.
        self.leaps = np.zeros(self.states.shape, bool)
        self.leaps[:, 2:] = self.states[:, 2:] != self.states[:, :-2]
        self.leaps &= self.states != blank
        frames = log_probs.shape[0]
        wanted = np.broadcast_to(self.states, (frames, *self.states.shape))
        self.chances = np.take_along_axis(log_probs, wanted, axis=2)

    def forward(self) -> np.ndarray:
        """(T, N, states): all beginnings of paths that are in a state."""
        levels = np.full_like(self.chances, -np.inf)
        for frame, chance in enumerate(self.chances):
            if frame == 0:
                levels[0, :, :2] = chance[:, :2]
                continue
            before = levels[frame - 1]
            total = before.copy()
            total[:, 1:] = np.logaddexp(total[:, 1:], before[:, :-1])
            leap = np.where(self.leaps[:, 2:], before[:, :-2], -np.inf)
            total[:, 2:] = np.logaddexp(total[:, 2:], leap)
            levels[frame] = np.where(frame < self.counts, total + chance, before)
        return levels

    def backward(self) -> np.ndarray:
        """(T, N, states): all ends of paths that begin in a state, its own frame included."""
        levels = np.full_like(self.chances, -np.inf)
        after = levels[0].copy()
        for frame in range(len(levels) - 1, -1, -1):
            total = after.copy()
            total[:, :-1] = np.logaddexp(total[:, :-1], after[:, 1:])
            leap = np.where(self.leaps[:, 2:], after[:, 2:], -np.inf)
            total[:, :-2] = np.logaddexp(total[:, :-2], leap)
            total = np.where(frame == self.counts - 1, np.where(self.ends, 0, -np.inf), total)
            total = total + self.chances[frame]
            after = levels[frame] = np.where(frame < self.counts, total, -np.inf)
        return levels

    def losses(self, forward: np.ndarray) -> np.ndarray:
        """(N): minus the log-probability of the labels."""
        if len(forward) == 0:
            ended = np.full(len(self.states), -np.inf, forward.dtype)
        else:
            ended = np.logaddexp.reduce(np.where(self.ends, forward[-1], -np.inf), axis=1)
        # No frames give no labels for sure.
        has_none = (self.counts[:, 0] == 0) & self.ends[:, 0]
        losses: np.ndarray = np.where(
            self.counts[:, 0] == 0, np.where(has_none, 0, np.inf), -ended
        ).astype(forward.dtype)
        return losses


class _AlignmentLoss(Function):
    """(N) losses of (T, N, C) log-probabilities."""

    @staticmethod
    def forward(
        ctx: Any, log_probs: Any, labels: Any, counts: Any, sizes: Any, blank: int, is_zeroed: bool
    ) -> Any:
        """Keeps what the gradient begins with."""
        array = log_probs.numpy(force=True)
        paths = _Paths(array, labels, counts, sizes, blank)
        levels = paths.forward()
        losses = paths.losses(levels)
        ctx.save_for_backward(log_probs)
        ctx.paths, ctx.levels, ctx.losses, ctx.is_zeroed = paths, levels, losses, is_zeroed
        shown = np.where(np.isinf(losses), 0, losses) if is_zeroed else losses
        return from_numpy(shown.astype(array.dtype)).to(log_probs.device)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Probabilities less the shares of the paths; NaN where there is no alignment."""
        if is_grad_enabled():
            raise AutogradError("ctc_loss: its derivative cannot be differentiated again.")
        (log_probs,) = ctx.saved_tensors
        array, slope = (x.numpy(force=True) for x in (log_probs, grad_outputs[0]))
        paths, losses = ctx.paths, ctx.losses
        with np.errstate(invalid="ignore"):
            shares = np.exp(ctx.levels + paths.backward() - paths.chances + losses[:, None])
        taken = np.zeros_like(array)
        frames, rows = np.ogrid[: array.shape[0], : array.shape[1]]
        np.add.at(taken, (frames[..., None], rows[..., None], paths.states), shares)
        gradient = np.where(
            (np.arange(len(array))[:, None] < paths.counts[:, 0])[..., None],
            (np.exp(array) - taken) * slope[:, None],
            0,
        )
        if ctx.is_zeroed:
            gradient = np.where(np.isinf(losses)[:, None], 0, gradient)
        found = from_numpy(gradient.astype(array.dtype)).to(log_probs.device)
        return found, None, None, None, None, None
