"""Which Python form stands for which C function or class. Filled by the modules of this package."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from dynajit.capture.values.objects import DISGUISED, READ_AS
from dynajit.core.errors import InternalError

Form = TypeVar("Form", bound=Callable[..., Any])

#: Where code lies that stands for C functions: Python forms, and NumPy's own functions, which are
#: one call to the program. What breaks inside breaks at the call.
_MODULES: Final = ("dynajit.capture.library", "numpy.")


def stands_for_calls(module: object) -> bool:
    """True for the name of a module whose functions are captured as a whole, or not at all."""
    return isinstance(module, str) and module.startswith(_MODULES)


#: Original -> Python form.
REPLACED: Final[dict[Any, Callable[..., Any]]] = {}

#: Class of this package -> what makes an original from the attributes that its parameters name.
#: Instances of other classes of the package cannot be made again.
REBUILT: Final[dict[type, Callable[..., Any]]] = {}

#: Classes of this package whose originals keep a tuple that they gave: see
#: `capture.python.given_items`.
KEEPING: Final[list[type]] = []


def keeps_items(form: type) -> type:
    """Enter a class whose original keeps a tuple that it gave, to fill it anew."""
    KEEPING.append(form)
    return form


def only_captured(*arguments: Any) -> None:
    """What a function does that has a meaning in captured code only.

    Raises:
        InternalError: it is called for real.
    """
    raise InternalError("a marker of captured code was called")


def replaces(original: Any) -> Callable[[Form], Form]:
    """Enter the Python form of a C function or class."""

    def enter(form: Form) -> Form:
        REPLACED[original] = form
        if isinstance(form, type):
            DISGUISED[form] = original
        return form

    return enter


def reads_existing(form: type) -> type:
    """Enter a class as whose instances those of the original that existed before are read; what the
    recorder makes of one is in `capture.machine.recording`.
    """
    READ_AS[DISGUISED[form]] = form
    return form


def stands_for(original: type, *forms: type) -> None:
    """Enter classes whose instances stand for those of a C class that nobody calls by its name."""
    for form in forms:
        DISGUISED[form] = original


def rebuilds(form: type) -> Callable[[Form], Form]:
    """Enter the function that makes an original from an instance's attributes, by their names."""

    def enter(maker: Form) -> Form:
        REBUILT[form] = maker
        return maker

    return enter
