"""The generator agrees with its published vectors; the rows have the right distributions."""

import numpy as np
import pytest

from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType
from dynajit.ops import TABLE
from dynajit.ops.rows.random import blocks_of, evaluate, philox, stream

ALL_ONES = 0xFFFFFFFF


def draw(name, shape, dtype, seed=0, offset=0, shift=0):
    op = TABLE[name]
    return evaluate(op, seed, offset, op.bind({"shape": shape, "dtype": dtype, "shift": shift}))


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (ALL_ONES,) * 4,
            (ALL_ONES,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_known_answers(counter, key, expected):
    words = philox(np.array(counter, dtype=np.uint64).reshape(4, 1), key)
    assert expected == tuple(int(word) for word in words[:, 0])


def test_the_stream_is_the_blocks_in_order_across_chunks():
    first = 2**32 - 5  # the low counter word overflows into the second
    words = stream(7, first, 4 * 20000 + 3)
    assert words.shape == (4 * 20000 + 3,)
    for block in (0, 4, 5, 8191, 8192, 20000 - 1):
        number = first + block
        counter = np.array([number & ALL_ONES, number >> 32, 0, 0], dtype=np.uint64).reshape(4, 1)
        expected = philox(counter, (7, 0))[:, 0].astype(np.int64)
        assert np.array_equal(expected, words[4 * block : 4 * block + 4])


@pytest.mark.parametrize("count", [0, 1, 3, 64, 65, 200])
@pytest.mark.parametrize("first", [0, 2**32 - 3, 2**64 - 5])
@pytest.mark.parametrize("seed", [0, 7, 2**63 + 5, 2**64 - 1])
def test_words_in_c_are_those_of_philox(seed, first, count):
    blocks = [(first + i) % 2**64 for i in range(-(-count // 4))]
    counter = np.zeros((4, len(blocks)), dtype=np.uint64)
    counter[0] = [block & ALL_ONES for block in blocks]
    counter[1] = [block >> 32 for block in blocks]
    expected = philox(counter, (seed & ALL_ONES, seed >> 32)).T.reshape(-1)[:count]
    result = stream(seed, first, count)
    assert result.dtype == np.int64
    assert np.array_equal(expected.astype(np.int64), result)


def test_a_large_seed_uses_both_key_words():
    assert not np.array_equal(stream(5, 0, 8), stream(5 + 2**32, 0, 8))
    assert np.array_equal(stream(-1, 0, 8), stream(2**64 - 1, 0, 8))


def test_uniform_float32_is_the_high_24_bits():
    words = stream(3, 2, 5)
    expected = ((words >> 8).astype(np.float64) * 2.0**-24).astype(np.float32)
    assert np.array_equal(expected, draw("rand", (5,), dtypes.float32, seed=3, offset=2))


def test_uniform_float64_uses_53_bits_of_two_words():
    w = stream(3, 0, 4)
    expected = [((w[i] >> 5) * 2**26 + (w[i + 1] >> 6)) * 2.0**-53 for i in (0, 2)]
    assert expected == draw("rand", (2,), dtypes.float64, seed=3).tolist()


@pytest.mark.parametrize("dtype", dtypes.FLOATING, ids=lambda d: d.name)
def test_uniform_values_never_reach_one(dtype):
    values = draw("rand", (20000,), dtype).astype(np.float64)
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.var() - 1 / 12) < 0.01


@pytest.mark.parametrize("dtype", dtypes.FLOATING, ids=lambda d: d.name)
def test_normal_values_have_the_right_moments(dtype):
    values = draw("randn", (40000,), dtype, seed=11).astype(np.float64)
    assert np.isfinite(values).all()
    assert abs(values.mean()) < 0.02
    assert abs(values.std() - 1) < 0.02
    assert abs((values**4).mean() - 3) < 0.2


def test_shift_and_offset_add_up():
    assert np.array_equal(
        draw("rand", (9,), dtypes.float32, offset=3, shift=4),
        draw("rand", (9,), dtypes.float32, offset=7),
    )


def test_reserved_blocks_cover_the_words_used():
    assert blocks_of(TABLE.rand, (0,), dtypes.float32) == 0
    assert blocks_of(TABLE.rand, (4,), dtypes.float32) == 1
    assert blocks_of(TABLE.rand, (5,), dtypes.float32) == 2
    assert blocks_of(TABLE.randn, (5,), dtypes.float32) == 3
    assert blocks_of(TABLE.rand, (), dtypes.float64) == 1


def test_empty_and_zero_dim_results_have_their_shape():
    assert draw("rand", (0, 3), dtypes.float32).shape == (0, 3)
    assert draw("randn", (), dtypes.float32).shape == ()


def test_integer_dtypes_are_refused():
    number = ScalarType(dtypes.Category.INTEGER)
    with pytest.raises(DTypeError, match="use randint"):
        TABLE.rand.infer(number, number, shape=(2,), dtype=dtypes.int64)
