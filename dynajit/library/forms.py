"""The arguments of a call without its tensors, to be filled again: with traced ones, or arrays."""

from collections.abc import Sequence
from typing import Any, Final

from dynajit.core.types.symint import SymInt
from dynajit.library.schema import is_tensor


class _Slot:
    """Stands for the next tensor, or the next size, among the arguments."""


_TENSOR: Final = _Slot()
_SIZE: Final = _Slot()


class Form:
    """The arguments of a call without its tensors and symbolic sizes.

    Args:
        overload: the operator.
        values: its arguments, in the order of its schema.
    """

    def __init__(self, overload: Any, values: Sequence[Any]) -> None:
        self.overload = overload
        self.sizes: tuple[Any, ...] = ()
        self._items = [self._emptied(value) for value in values]

    def _emptied(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._emptied(item) for item in value]
        if isinstance(value, SymInt):
            self.sizes = (*self.sizes, value)
            return _SIZE
        return _TENSOR if is_tensor(value) else value

    def filled(self, tensors: Sequence[Any], sizes: Sequence[Any] | None = None) -> list[Any]:
        """The arguments with these tensors and sizes; the call's own sizes by default."""
        slots = {_TENSOR: iter(tensors), _SIZE: iter(self.sizes if sizes is None else sizes)}

        def fill(item: Any) -> Any:
            if isinstance(item, list):
                return [fill(inner) for inner in item]
            return next(slots[item]) if isinstance(item, _Slot) else item

        return [fill(item) for item in self._items]
