"""The globals of a function, and where each name of them is found."""

from typing import Any, Final

from dynajit.capture.places.sources import Source

#: The package of the Python forms.
FORMS: Final = "dynajit.capture.library"


class Namespace:
    """The globals of one function: its real dict, and the source of each name.

    With `is_fixed` they never change, and need no guards. `is_form`: they are those of Python
    forms, which see each other's attributes; other code sees those of the originals.
    """

    __slots__ = ("base", "builtins", "globals", "is_fixed", "is_form")

    @classmethod
    def of(cls, function: Any, base: Source, is_fixed: bool = False) -> "Namespace":
        """That of an existing function, which is found at `base`."""
        return cls(base, function.__globals__, function.__builtins__, is_fixed)

    def __init__(
        self,
        base: Source,
        globals: dict[str, Any],
        builtins: dict[str, Any],
        is_fixed: bool = False,
    ) -> None:
        self.is_fixed = is_fixed
        self.is_form = is_fixed and str(globals.get("__name__")).startswith(FORMS)
        self.base = base
        self.globals = globals
        self.builtins = builtins
