"""States of generators of random numbers as arrays, which loop nests draw from.

Contract: `words_of` gives all that decides what a generator of NumPy's or of Python's draws next,
as `codegen/headers/random.h` reads it, and `set_words` puts a generator into such a state. Both go
through what NumPy and Python document, but for the words of a Mersenne twister of NumPy's: those
take 40 microseconds each way, and are read and written in place where they lie as they always have
(`_lies_in_place`). A bit generator that the header does not know has no words.
"""

import contextlib
import ctypes
import functools
import random
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

#: Bit generators, in the order of their numbers in `random.h`.
_NAMES: Final = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")

_LOWER: Final = (1 << 64) - 1

#: The classes whose states are known.
CLASSES: Final = (np.random.Generator, np.random.RandomState, random.Random)

#: The layout of what `random.Random.getstate` gives.
_VERSION: Final = 3


def words_of(generator: Any, has_normals: bool = True) -> Words | None:
    """The state of a generator of one of `CLASSES`; None: it has a bit generator of another kind.

    Args:
        has_normals: normal numbers are drawn as well, of which a `RandomState` may have the second
            of two.
    """
    words = np.zeros(LENGTH, np.int64)
    if type(generator) is random.Random:
        version, numbers, second = generator.getstate()
        if version != _VERSION:
            return None
        words[FIRST:] = numbers[:TWISTED]
        words[AT] = numbers[TWISTED]
        _set_normal(words, second)
        return words
    bits = bits_of(generator)
    name = type(bits).__name__
    if name not in _NAMES or type(bits) is not getattr(np.random, name):
        return None
    words[GENERATOR] = _NAMES.index(name)
    if type(generator) is np.random.RandomState and has_normals:
        state: Any = generator.get_state(legacy=False)
        _set_normal(words, state["gauss"] if state["has_gauss"] else None)
        _read(words, state)
    elif name == "MT19937" and _lies_in_place():
        words[FIRST:], words[AT] = (place := _place_of(bits))[:TWISTED], place[TWISTED]
    else:
        _read(words, bits.state)
    return words


def _set_normal(words: Words, second: float | None) -> None:
    """Keep the second of two normal numbers that were drawn together."""
    if second is not None:
        words[HAS_NORMAL] = 1
        words.view(np.float64)[NORMAL] = second


def _read(words: Words, state: Any) -> None:
    """The state of a bit generator of NumPy's."""
    inner = state["state"]
    match state["bit_generator"]:
        case "MT19937":
            words[FIRST:] = inner["key"]
            words[AT] = inner["pos"]
            return
        case "PCG64" | "PCG64DXSM":
            numbers = inner["state"], inner["inc"]
            halves = [half for number in numbers for half in (number >> 64, number & _LOWER)]
            words.view(np.uint64)[FIRST : FIRST + 4] = halves
        case "Philox":
            parts = (inner["counter"], inner["key"], state["buffer"])
            words[FIRST : FIRST + 10] = np.concatenate(parts).view(np.int64)
            words[AT] = state["buffer_pos"]
        case "SFC64":
            words[FIRST : FIRST + 4] = inner["state"].view(np.int64)
    words[HAS_SPARE] = state["has_uint32"]
    words[SPARE] = state["uinteger"]


def set_words(generator: Any, words: Words, has_normals: bool = True) -> None:
    """Put a generator into a state.

    Args:
        has_normals: as of `words_of`, which gave the state before.
    """
    second = float(words.view(np.float64)[NORMAL])
    if type(generator) is random.Random:
        numbers = (*words[FIRST:].tolist(), int(words[AT]))
        generator.setstate((_VERSION, numbers, second if words[HAS_NORMAL] else None))
        return
    bits = bits_of(generator)
    if type(generator) is np.random.RandomState and has_normals:
        state = _state_in(words)
        state["has_gauss"], state["gauss"] = int(words[HAS_NORMAL]), second
        generator.set_state(state)
    elif type(bits) is np.random.MT19937 and _lies_in_place():
        place = _place_of(bits)
        place[:TWISTED] = words[FIRST:]
        place[TWISTED] = words[AT]
    else:
        bits.state = _state_in(words)


def _state_in(words: Words) -> dict[str, Any]:
    """The state of a bit generator of NumPy's, as that takes it."""
    name = _NAMES[int(words[GENERATOR])]
    found = words.view(np.uint64)[FIRST:]
    inner: dict[str, Any] = {}
    state: dict[str, Any] = {"bit_generator": name, "state": inner}
    match name:
        case "MT19937":
            inner["key"], inner["pos"] = found.astype(np.uint32), int(words[AT])
            return state
        case "PCG64" | "PCG64DXSM":
            halves = found[:4].tolist()
            inner["state"] = halves[0] << 64 | halves[1]
            inner["inc"] = halves[2] << 64 | halves[3]
        case "Philox":
            inner["counter"], inner["key"], state["buffer"] = found[:4], found[4:6], found[6:10]
            state["buffer_pos"] = int(words[AT])
        case "SFC64":
            inner["state"] = found[:4]
    state["has_uint32"], state["uinteger"] = int(words[HAS_SPARE]), int(words[SPARE])
    return state


def _place_of(bits: Any) -> npt.NDArray[np.uint32]:
    """The memory of a Mersenne twister of NumPy's: its words, and how many of them were given."""
    return np.ctypeslib.as_array(_PLACE.from_address(bits.ctypes.state_address))


_PLACE: Final = ctypes.c_uint32 * (TWISTED + 1)


@functools.cache
def _lies_in_place() -> bool:
    """Whether that memory is what it is taken for."""
    bits = np.random.MT19937(TWISTED)
    np.random.Generator(bits).random(3)
    state: Any = bits.state["state"]
    place = _place_of(bits)
    return np.array_equal(place[:TWISTED], state["key"]) and place[TWISTED] == state["pos"] > 0


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
