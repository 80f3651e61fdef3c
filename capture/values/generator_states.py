"""States of generators of random numbers as arrays, which loop nests draw from.

Contract: `words_of` gives all that decides what a generator of NumPy's or of Python's draws next, as
`codegen/headers/random.h` reads it, and `set_words` puts a generator into such a state; both go
through what NumPy and Python document. A bit generator that the header does not know has no words.
"""

import contextlib
import random
import struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.int64]

#: Places in an array; the same are named in `random.h`.
GENERATOR, HAS_SPARE, SPARE, HAS_NORMAL, NORMAL, AT, FIRST = range(7)

#: Words of a Mersenne twister, which has the most.
TWISTED: Final = 624

#: Length of all arrays.
LENGTH: Final = FIRST + TWISTED

#: Bit generators, by their numbers in `random.h`.
_NUMBERS: Final = {
    name: number for number, name in enumerate(("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"))
}

_HALF_OF_128: Final = (1 << 64) - 1

#: The classes whose states are known.
CLASSES: Final = (np.random.Generator, np.random.RandomState, random.Random)

#: The layout of what `random.Random.getstate` gives.
_VERSION: Final = 3


def words_of(generator: Any) -> Words | None:
    """The state of a generator of one of `CLASSES`; None: it has a bit generator of another kind."""
    words = np.zeros(LENGTH, np.int64)
    if type(generator) is random.Random:
        version, numbers, second = generator.getstate()
        if version != _VERSION:
            return None
        words[FIRST:] = numbers[:TWISTED]
        words[AT] = numbers[TWISTED]
        _set_normal(words, second)
        return words
    if type(generator) is np.random.RandomState:
        state: Any = generator.get_state(legacy=False)
        _set_normal(words, state["gauss"] if state["has_gauss"] else None)
    else:
        state = generator.bit_generator.state
    known = _NUMBERS.get(state["bit_generator"])
    if known is None:
        return None
    words[GENERATOR] = known
    _read(words, state)
    return words


def _set_normal(words: Words, second: float | None) -> None:
    """Keep the second of two normal numbers that were drawn together."""
    if second is not None:
        words[HAS_NORMAL] = 1
        words[NORMAL : NORMAL + 1].view(np.float64)[0] = second


def _normal_in(words: Words) -> float:
    found: float = struct.unpack("d", struct.pack("q", int(words[NORMAL])))[0]
    return found


def _read(words: Words, state: Any) -> None:
    """The state of a bit generator of NumPy's."""
    inner = state["state"]
    match state["bit_generator"]:
        case "MT19937":
            words[FIRST:] = inner["key"]
            words[AT] = inner["pos"]
            return
        case "PCG64" | "PCG64DXSM":
            for place, number in ((0, inner["state"]), (2, inner["inc"])):
                halves = np.array([number >> 64, number & _HALF_OF_128], np.uint64)
                words[FIRST + place : FIRST + place + 2] = halves.view(np.int64)
        case "Philox":
            parts = (inner["counter"], inner["key"], state["buffer"])
            words[FIRST : FIRST + 10] = np.concatenate(parts).view(np.int64)
            words[AT] = state["buffer_pos"]
        case "SFC64":
            words[FIRST : FIRST + 4] = inner["state"].view(np.int64)
    words[HAS_SPARE] = state["has_uint32"]
    words[SPARE] = state["uinteger"]


def set_words(generator: Any, words: Words) -> None:
    """Put a generator into a state."""
    second = _normal_in(words) if words[HAS_NORMAL] else None
    if type(generator) is random.Random:
        numbers = (*words[FIRST:].tolist(), int(words[AT]))
        generator.setstate((_VERSION, numbers, second))
        return
    if type(generator) is np.random.RandomState:
        state: Any = generator.get_state(legacy=False)
        state["has_gauss"] = int(words[HAS_NORMAL])
        state["gauss"] = _normal_in(words)
    else:
        state = generator.bit_generator.state
    _write(words, state)
    if type(generator) is np.random.RandomState:
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def _write(words: Words, state: Any) -> None:
    """Change the state of a bit generator of NumPy's."""
    inner = state["state"]
    match state["bit_generator"]:
        case "MT19937":
            inner["key"] = words[FIRST:].astype(np.uint32)
            inner["pos"] = int(words[AT])
            return
        case "PCG64" | "PCG64DXSM":
            halves = words[FIRST : FIRST + 4].view(np.uint64).tolist()
            inner["state"] = halves[0] << 64 | halves[1]
            inner["inc"] = halves[2] << 64 | halves[3]
        case "Philox":
            found = words[FIRST : FIRST + 10].view(np.uint64)
            inner["counter"], inner["key"], state["buffer"] = found[:4], found[4:6], found[6:]
            state["buffer_pos"] = int(words[AT])
        case "SFC64":
            inner["state"] = words[FIRST : FIRST + 4].view(np.uint64)
    state["has_uint32"] = int(words[HAS_SPARE])
    state["uinteger"] = int(words[SPARE])


def bits_of(generator: Any) -> Any:
    """What two generators have in common that draw from one state."""
    if type(generator) is np.random.RandomState:
        return generator._bit_generator
    return generator.bit_generator if type(generator) is np.random.Generator else generator


def lock_of(generator: Any) -> contextlib.AbstractContextManager[Any]:
    """What is held while a generator draws; Python's own have nothing but the GIL."""
    if type(generator) is random.Random:
        return contextlib.nullcontext()
    lock: contextlib.AbstractContextManager[Any] = bits_of(generator).lock
    return lock


__all__ = ["CLASSES", "LENGTH", "Words", "bits_of", "lock_of", "set_words", "words_of"]
