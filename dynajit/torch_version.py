"""Versions that compare as numbers, by PyTorch's path: `TorchVersion("1.10") > "1.9"`.

Contract: texts like `1.10.0rc1+cpu`; what is compared with them may be a text or a sequence of
parts. Called by users.
"""

import re
from typing import Any, Final

from dynajit.core.errors import InvalidValueError
from dynajit.version import __version__ as _text

_FORM: Final = re.compile(r"v?(\d+(?:\.\d+)*)(?:[._-]?(dev|a|b|rc)[._-]?(\d*))?(?:\+[\w.]+)?")
#: Before the release, in this order.
_STAGES: Final = {"dev": 0, "a": 1, "b": 2, "rc": 3}
_RELEASED: Final = 4

_Key = tuple[tuple[int, ...], int, int]


def _key_of(version: Any) -> _Key:
    """What a version is compared by; zeros at the end and what follows a plus do not count.

    Raises:
        InvalidValueError: it is no version.
    """
    text = version if isinstance(version, str) else ".".join(str(part) for part in version)
    found = _FORM.fullmatch(str.strip(text))
    if found is None:
        raise InvalidValueError(
            f"Invalid version: {str(text)!r}.  Give numbers and points, as '2.1.0' or '2.1.0rc1'."
        )
    numbers, stage, count = found.groups()
    release = [int(number) for number in numbers.split(".")]
    while release and release[-1] == 0:
        release.pop()
    return tuple(release), _STAGES.get(stage, _RELEASED), int(count or 0)


class TorchVersion(str):
    """A version as a text that compares with texts and sequences of numbers as a version does."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __lt__(self, other: Any) -> bool:
        return _key_of(self) < _key_of(other)

    def __le__(self, other: Any) -> bool:
        return _key_of(self) <= _key_of(other)

    def __gt__(self, other: Any) -> bool:
        return _key_of(self) > _key_of(other)

    def __ge__(self, other: Any) -> bool:
        return _key_of(self) >= _key_of(other)

    def __eq__(self, other: object) -> bool:
        return _key_of(self) == _key_of(other)

    def __ne__(self, other: object) -> bool:
        return _key_of(self) != _key_of(other)


__version__ = TorchVersion(_text)

__all__ = ["TorchVersion"]
