"""Versions that compare as numbers, by PyTorch's path: `TorchVersion("1.10") > "1.9"`.

Contract: texts like `1.10.0rc1+cpu`; what is compared with them may be a text or a sequence of
parts. A text that is no version compares as a text.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from dynajit.compat.version import __version__ as _text

_FORM: Final = re.compile(r"v?(\d+(?:\.\d+)*)(?:[._-]?(dev|a|b|rc)[._-]?(\d*))?(?:\+[\w.]+)?")
#: Before the release, in this order.
_STAGES: Final = {"dev": 0, "a": 1, "b": 2, "rc": 3}
_RELEASED: Final = 4

_Key = tuple[tuple[int, ...], int, int]


def _key_of(version: Any) -> _Key | None:
    """What a version is compared by; zeros at the end and what follows a plus do not count.

    None: it is no version.
    """
    text = version if isinstance(version, str) else ".".join(str(part) for part in version)
    found = _FORM.fullmatch(str.strip(text))
    if found is None:
        return None
    numbers, stage, count = found.groups()
    release = [int(number) for number in numbers.split(".")]
    while release and release[-1] == 0:
        release.pop()
    return tuple(release), _STAGES.get(stage, _RELEASED), int(count or 0)


def _comparison(name: str) -> Callable[[Any, Any], Any]:
    """A comparison as versions; as texts where one of both is no version, as PyTorch's."""

    def compare(self: "TorchVersion", other: Any) -> Any:
        own = _key_of(self)
        key = None if own is None else _key_of(other)
        return getattr(str, name)(self, other) if key is None else getattr(own, name)(key)

    compare.__name__ = name
    return compare


class TorchVersion(str):
    """A version as a text that compares with texts and sequences of numbers as a version does."""

    __slots__ = ()
    __hash__ = str.__hash__

    __lt__ = _comparison("__lt__")
    __le__ = _comparison("__le__")
    __gt__ = _comparison("__gt__")
    __ge__ = _comparison("__ge__")
    __eq__ = _comparison("__eq__")
    __ne__ = _comparison("__ne__")


__version__ = TorchVersion(_text)

__all__ = ["TorchVersion"]
