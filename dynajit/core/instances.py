"""How instances keep their attributes.

Contract: `give_own_dict` changes nothing that a program sees but the identity of `__dict__`. Called
by `nn.Module` when an instance is made; capture knows it, and makes instances without.
"""

import sys
from typing import Any, Final

_HAS_INLINE_VALUES: Final = sys.version_info >= (3, 13)


def give_own_dict(instance: Any) -> None:
    """Keep the instance's attributes in a dict of its own from now on.

    From CPython 3.13 on they lie in the instance itself, where guards cannot see all at once.
    """
    if _HAS_INLINE_VALUES:
        object.__setattr__(instance, "__dict__", dict(instance.__dict__))
