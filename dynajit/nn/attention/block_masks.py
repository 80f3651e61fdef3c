"""Which blocks of a matrix of scores a mask leaves: `BlockMask`, by PyTorch's path in
`nn.attention.flex_attention`.

Contract: a mask is a function of (batch, head, query position, key position), integer tensors that
broadcast, and gives bools; it is called once with all positions. The counts of blocks are
PyTorch's; attention itself asks the function.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from dynajit.core.errors import (
    ArgumentError,
    AutogradError,
    BoundsError,
    InvalidValueError,
    UnsupportedError,
)
from dynajit.core.types.dtypes import bool_, int32, int64
from dynajit.nn.functional import pad
from dynajit.ops import functions as f

MaskFunction: TypeAlias = Callable[[Any, Any, Any, Any], Any]

DEFAULT_BLOCK_SIZE: Final = 128


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask that leaves everything."""
    return f.ones((), dtype=bool_, device=getattr(batch, "device", None))


def and_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """The mask that leaves what all of these leave.

    Raises:
        AutogradError: one is not callable; a RuntimeError, as in PyTorch.
    """
    _check_callable(mask_mods)

    def and_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = f.ones((), dtype=bool_, device=b.device)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """The mask that leaves what one of these leaves.

    Raises:
        AutogradError: one is not callable; a RuntimeError, as in PyTorch.
    """
    _check_callable(mask_mods)

    def or_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = f.zeros((), dtype=bool_, device=b.device)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _check_callable(mask_mods: tuple[Any, ...]) -> None:
    if not all(callable(mask) for mask in mask_mods):
        raise AutogradError(f"All inputs should be callable mask_mods: {mask_mods}")


def positions(shape: tuple[int, int, int, int], device: Any) -> tuple[Any, Any, Any, Any]:
    """Batch, head, query and key positions as int64 tensors of four dims that broadcast."""
    found = []
    for dim, size in enumerate(shape):
        along = [size if d == dim else 1 for d in range(4)]
        found.append(f.arange(size, dtype=int64, device=device).reshape(along))
    b, h, q, k = found
    return b, h, q, k


def over_all(value: Any, shape: tuple[int, int, int, int], name: str) -> Any:
    """What a function of positions gave, for every position.

    Raises:
        UnsupportedError: it has a shape that does not belong to the positions.
    """
    given = tuple(value.shape)
    if len(given) > 4 or any(
        size not in (1, whole) for size, whole in zip(given[::-1], shape[::-1], strict=False)
    ):
        raise UnsupportedError(
            f"{name} gave shape {given} for positions of shape {shape}.  It is called once with "
            "tensors of positions that broadcast, not once per position: index with all positions "
            "at once (table[h, q_idx], not table[h][q_idx]), and do not reduce."
        )
    return value.expand(shape)


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Any:
    """Where a mask leaves scores, bool, shape (B, H, Q_LEN, KV_LEN), with 1 for None.

    Args:
        mod_fn: a mask, or a function of scores, which leaves what it does not make -inf.

    Raises:
        UnsupportedError: the function's result does not broadcast.
    """
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    places = positions(shape, device)
    if _takes_scores(mod_fn):
        scores = mod_fn(f.zeros(shape, device=device), *places)
        return ~f.isneginf(over_all(scores, shape, "score_mod"))
    return over_all(mod_fn(*places), shape, "mask_mod").to(bool_)


def _takes_scores(function: Callable[..., Any]) -> bool:
    """Whether it has five arguments by place without defaults, of which scores are the first."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) == 5


def _blocks(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def create_block_mask(
    mask_mod: MaskFunction,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> "BlockMask":
    """A mask with the blocks of scores that it touches.

    Args:
        mask_mod: the mask.
        B, H: batches and heads, or None where the mask is the same for all.
        Q_LEN, KV_LEN: numbers of queries and keys.
        device: of the counts.
        BLOCK_SIZE: of queries and keys in a block.
        separate_full_blocks: count blocks that the mask leaves whole by themselves.
        _compile, compute_dq_write_order, dq_kv_order: accepted; they say how kernels work.

    Raises:
        ArgumentError: `mask_mod` is not callable.
        UnsupportedError: its result does not broadcast.
    """
    if not callable(mask_mod):
        raise ArgumentError(f"{mask_mod!r} is not a callable object")
    rows, columns = _blocks(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padded = pad(mask.to(int32), (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    batch, heads, high, wide = (int(n) for n in padded.shape)
    tiles = padded.reshape(batch, heads, high // rows, rows, wide // columns, columns)
    counts = tiles.sum((3, 5))
    full = counts == rows * columns if separate_full_blocks else counts < 0
    partial = (counts > 0) & ~full
    whole: tuple[Any, Any] = _ordered(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(
        *_ordered(partial), *whole, (rows, columns), mask_mod, (Q_LEN, KV_LEN)
    )


def _ordered(dense: Any) -> tuple[Any, Any]:
    """(counts, indices) of the marked blocks in each row, the marked ones first."""
    marks = dense.to(int32)
    order = f.argsort(marks, dim=-1, descending=True, stable=True)
    return marks.sum(-1).to(int32), order.to(int32)


def _dense(counts: Any, indices: Any) -> Any:
    """The marks, int32, shape (..., rows, columns), of `_ordered`."""
    width = int(indices.shape[-1])
    is_marked = f.arange(width, device=indices.device) < counts.unsqueeze(-1)
    marks = f.zeros(tuple(indices.shape), dtype=int32, device=indices.device)
    return marks.scatter(-1, indices.to(int64), is_marked.to(int32))


def _no_mask_of_a_part(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    raise AutogradError(
        "Cannot use mask_mod from a sliced BlockMask: it does not know which positions are left.  "
        "Set mask_mod."
    )


class BlockMask:
    """A mask, and the blocks of scores that it touches.

    Made by `create_block_mask` and `from_kv_blocks`.

    Args:
        seq_lengths: numbers of queries and keys.
        kv_num_blocks: of the blocks that are partly masked, how many each row of blocks has; int32,
            shape (B, H, rows of blocks).
        kv_indices: their columns, first; int32, shape (B, H, rows, columns).
        full_kv_num_blocks, full_kv_indices: of blocks that are not masked at all, or None.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same by columns.
        BLOCK_SIZE: of queries and keys in a block.
        mask_mod: the mask itself.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        q_num_blocks: Any,
        q_indices: Any,
        full_q_num_blocks: Any,
        full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
        mask_mod: MaskFunction = noop_mask,
    ) -> None:
        if kv_indices.ndim < 2:
            raise InvalidValueError("BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
        mask_mod: MaskFunction | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> "BlockMask":
        """From the blocks by rows; those by columns follow.

        Raises:
            AutogradError: the tensors do not go together; a RuntimeError, as in PyTorch.
        """
        if kv_indices.ndim < 2:
            raise AutogradError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AutogradError("full_kv_num_blocks and full_kv_indices must be both given or both "
                                "omitted")  # fmt: skip
        size = _blocks(BLOCK_SIZE)
        if seq_lengths is None:
            rows, columns = (int(n) for n in kv_indices.shape[-2:])
            seq_lengths = (rows * size[0], columns * size[1])
        partial: tuple[Any, Any] = (None, None)
        full: tuple[Any, Any] = (None, None)
        if compute_q_blocks:
            partial = _ordered(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None:
                full = _ordered(_dense(full_kv_num_blocks, full_kv_indices).transpose(-2, -1))
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
            *partial, *full, BLOCK_SIZE=size, mask_mod=noop_mask if mask_mod is None else mask_mod,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*(int(n) for n in self.kv_num_blocks.shape[:-1]), *self.seq_lengths)

    def numel(self) -> int:
        """How many scores there are."""
        found = 1
        for size in self.shape:
            found *= size
        return found

    def to_dense(self) -> Any:
        """1 for each block that is not masked altogether, int32, shape (B, H, rows, columns)."""
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None:
            return partial
        return partial | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def sparsity(self) -> float:
        """How much of the scores need not be computed, in percent; below 0 where the blocks reach
        beyond the scores."""
        rows, columns = self.BLOCK_SIZE
        computed = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            computed += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - computed * rows * columns / self.numel())

    def to(self, device: Any) -> "BlockMask":
        """The same on another device."""

        def moved(tensor: Any) -> Any:
            return None if tensor is None else tensor.to(device)

        return BlockMask(
            self.seq_lengths,
            moved(self.kv_num_blocks), moved(self.kv_indices),
            moved(self.full_kv_num_blocks), moved(self.full_kv_indices),
            moved(self.q_num_blocks), moved(self.q_indices),
            moved(self.full_q_num_blocks), moved(self.full_q_indices),
            self.BLOCK_SIZE, self.mask_mod,
        )  # fmt: skip

    def __getitem__(self, index: Any) -> "BlockMask":
        """The blocks of some batches, heads and rows of blocks.

        All dims stay. The part has no mask until the program gives it one that knows its
        positions, and the lengths of the whole: `part.mask_mod = ...`, `part.seq_lengths = ...`.

        Raises:
            BoundsError: there are more than three indices, or one is out of range.
        """
        given = index if isinstance(index, tuple) else (index,)
        if len(given) > 3:
            raise BoundsError(
                f"BlockMask[...]: {len(given)} indices.  Expected batch, head and row of blocks."
            )
        key = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in given)
        whole = self.full_kv_num_blocks is not None
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[key],
            self.kv_indices[key],
            self.full_kv_num_blocks[key] if whole else None,
            self.full_kv_indices[key] if whole else None,
            self.BLOCK_SIZE,
            _no_mask_of_a_part,
            self.seq_lengths,
            self.q_indices is not None,
        )

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"
