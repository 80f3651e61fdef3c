"""Numbers as tuples, one per dim, by PyTorch's path: what layers of programs call.

Contract: `_pair(3)` is `(3, 3)`, `_pair((1, 2))` is `(1, 2)`; and what strips the prefix that
wrapped models have in their checkpoints.
"""

from collections.abc import Callable, Iterable, MutableMapping
from itertools import repeat
from typing import Any

from dynajit.ops.calls.arguments import is_integer


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes tuples of length n of single values, and of iterables tuples."""

    def parse(x: object) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """The entries from the last to the first, each n times."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Sizes with None replaced by the last ones of `defaults`; a number stays."""
    if is_integer(out_size):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(
    state_dict: MutableMapping[str, Any], prefix: str
) -> None:
    """Take `prefix` off the keys of a state, in place; keys without it stay as they are.

    Args:
        prefix: such as "module.", which `DataParallel` and its kin put in front.
    """
    _strip(state_dict, prefix)
    versions = getattr(state_dict, "_metadata", None)
    if versions is not None:
        own = prefix.replace(".", "")  # of the wrapper's only module, which has no dot behind it
        if own and own in versions:
            versions[""] = versions.pop(own)
        _strip(versions, prefix)


def _strip(entries: MutableMapping[str, Any], prefix: str) -> None:
    for key in [key for key in entries if key.startswith(prefix)]:
        entries[key[len(prefix) :]] = entries.pop(key)


__all__: list[str] = []
