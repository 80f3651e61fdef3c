"""Random numbers from counters: the Philox4x32-10 generator and the rows of kind RANDOM.

Contract: element i of a result depends only on (seed, offset + shift, i, dtype): never on the
device, the number of threads, or on whether the program is compiled. Bodies receive the 32-bit
words of an element as non-negative int64 scalars. Eager evaluation (`ops.evaluate`) calls
`evaluate`, for which `_philox.c` makes the words; code generation spells the same rounds in C.
Library functions (`randint`, `bernoulli`, `dropout`, ...) are built on these rows.

Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape, Size, TensorType, ValueType, numel
from dynajit.ops.native import _philox
from dynajit.ops.table.families import random
from dynajit.ops.table.op_table import Op
from dynajit.ops.table.scalar import NumpyScalars

MULTIPLIER_0: Final = 0xD2511F53
MULTIPLIER_1: Final = 0xCD9E8D57
WEYL_0: Final = 0x9E3779B9
WEYL_1: Final = 0xBB67AE85
ROUNDS: Final = 10
WORDS_PER_BLOCK: Final = 4

_MASK_32: Final = 0xFFFFFFFF
_MASK_64: Final = 0xFFFFFFFFFFFFFFFF
# Blocks per pass of the vectorised rounds: about ten uint64 temporaries of this length stay in a
# second-level cache.
_CHUNK: Final = 1 << 13


def philox(counter: Any, key: tuple[int, int], xp: Any = np) -> Any:
    """Philox4x32-10 of many counters under one key.

    Args:
        counter: uint64 array, shape (4, n), of 32-bit words, the least significant first.
        key: two 32-bit words.

    Returns:
        uint64 array, shape (4, n), of 32-bit words.

    Source: Salmon et al. 2011, section 3.3; constants as in Random123.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    low, shift = xp.uint64(_MASK_32), xp.uint64(32)
    m0, m1 = xp.uint64(MULTIPLIER_0), xp.uint64(MULTIPLIER_1)
    for _ in range(ROUNDS):
        p0, p1 = m0 * c0, m1 * c2
        c0, c1, c2, c3 = (
            (p1 >> shift) ^ c1 ^ xp.uint64(k0),
            p1 & low,
            (p0 >> shift) ^ c3 ^ xp.uint64(k1),
            p0 & low,
        )
        k0, k1 = (k0 + WEYL_0) & _MASK_32, (k1 + WEYL_1) & _MASK_32
    return xp.stack([c0, c1, c2, c3])


def stream(seed: int, first_block: int, words: int, xp: Any = np) -> Any:
    """`words` consecutive words of the stream of `seed`, from block `first_block` on.

    Returns:
        int64 array, shape (words,), values in [0, 2**32).
    """
    seed, first_block = seed & _MASK_64, first_block & _MASK_64
    if xp is np:
        return _philox.words(seed, first_block, words)
    key = (seed & _MASK_32, seed >> 32)
    blocks = -(-words // WORDS_PER_BLOCK)
    result = xp.empty((blocks, WORDS_PER_BLOCK), dtype=np.int64)
    for start in range(0, blocks, _CHUNK):
        stop = min(start + _CHUNK, blocks)
        block = xp.arange(stop - start, dtype=np.uint64) + xp.uint64(
            (first_block + start) & _MASK_64
        )
        counter = xp.zeros((4, stop - start), dtype=np.uint64)
        counter[0] = block & xp.uint64(_MASK_32)
        counter[1] = block >> xp.uint64(32)
        result[start:stop] = philox(counter, key, xp).T
    return result.reshape(-1)[:words]


def blocks_of(op: Op, shape: Shape, dtype: DType) -> Size:
    """Counter blocks that the random row `op` uses up for a result of this shape and dtype."""
    words: Size = numel(shape) * op.rule.words(dtype)
    return (words + WORDS_PER_BLOCK - 1) // WORDS_PER_BLOCK


def evaluate(op: Op, seed: Any, offset: Any, attributes: Mapping[str, Any], xp: Any = np) -> Any:
    """The array that a random row gives.

    Args:
        op: a row of kind RANDOM.
        seed, offset: integers (Python or zero-dim arrays).
        attributes: all attributes of the row; the shape has plain sizes.
        xp: array module.
    """
    shape, dtype = tuple(attributes["shape"]), attributes["dtype"]
    per_element = op.rule.words(dtype)
    count = math.prod(shape)
    first = int(offset) + int(attributes["shift"])
    words = stream(int(seed), first, count * per_element, xp).reshape(*shape, per_element)
    drawn = op.rule.body(
        NumpyScalars(shape),
        tuple(words[..., i] for i in range(per_element)),
        dtype,
        **attributes_of(attributes),
    )
    return xp.asarray(drawn).astype(dtype.numpy, copy=False)


def attributes_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that a body receives: those that are not common to all random rows."""
    common = ("shape", "dtype", "device", "shift")
    return {name: value for name, value in attributes.items() if name not in common}


def _floating_infer(
    seed: ValueType,
    offset: ValueType,
    *,
    shape: Shape,
    dtype: DType,
    device: Device = CPU,
    **attributes: Any,
) -> TensorType:
    if not dtype.is_floating_point:
        raise DTypeError(
            f"rand or randn(dtype={dtype.name}): only floating dtypes can be drawn.  Expected "
            "float16, bfloat16, float32 or float64; use randint for integers."
        )
    return TensorType(tuple(shape), dtype, device)


# Significant bits of a uniform value: as many as its dtype holds, so that none rounds up to 1.
_UNIFORM_BITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24}


def _uniform_words(dtype: DType) -> int:
    return 2 if dtype is dtypes.float64 else 1


@random(words=_uniform_words, infer=_floating_infer, native=_philox.rand)
def rand(m: Any, words: Any, dtype: DType) -> Any:
    """Uniform in [0, 1): multiples of 2**-24 (float32), 2**-53 (float64, two words), 2**-11
    (float16) or 2**-8 (bfloat16)."""
    if dtype is dtypes.float64:
        whole = (words[0] >> 5) * (1 << 26) + (words[1] >> 6)
        return m.cast(whole, dtypes.float64) * 2.0**-53
    bits = _UNIFORM_BITS[dtype.name]
    return m.cast(words[0] >> (32 - bits), dtypes.float32) * 2.0**-bits


@random(words=lambda dtype: 2, infer=_floating_infer, native=_philox.randn)
def randn(m: Any, words: Any, dtype: DType) -> Any:
    """Standard normal, by the Box-Muller transform of two uniform values.

    float32 and narrower from 24 bits of each word, float64 from all 32.
    Source: G. E. P. Box and M. E. Muller, Annals of Mathematical Statistics 29 (1958).
    """
    wide = dtype is dtypes.float64
    compute, bits = (dtypes.float64, 32) if wide else (dtypes.float32, 24)
    unit = 2.0**-bits
    # 1 - u lies in (0, 1], so the logarithm is finite.
    radius_uniform = 1.0 - m.cast(words[0] >> (32 - bits), compute) * unit
    angle_uniform = m.cast(words[1] >> (32 - bits), compute) * unit
    return m.sqrt(-2.0 * m.log(radius_uniform)) * m.cos((2.0 * math.pi) * angle_uniform)
