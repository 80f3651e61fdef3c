"""Public functions and what PyTorch says of them, said where each function is defined.

Contract: `@public(...)` above a library function names the namespaces that publish it and holds its
facts. Nothing else lists functions: `dynajit`, `dynajit.linalg` and their kin are filled from
`published`, `ops.calls.library_calls` reads what `out=` means, `ops.methods` takes over methods,
eager makes in-place forms and `namespaces.foreach` functions of lists. A namespace is complete once
the modules that define its functions are imported: `dynajit`'s is where `ops.functions` is.
"""

import enum
from collections.abc import Callable
from typing import Any, Final, TypedDict, TypeVar, Unpack

from dynajit.core.records import record

Defined = TypeVar("Defined", bound=Callable[..., Any])


class Out(enum.Enum):
    """What `out=` means to a function."""

    CAST = "the result is cast to the dtype of `out`"
    SAME_DTYPE = "`out` has to have the dtype of the result"
    AS_DTYPE = "the function computes in the dtype of `out`, as if it were given as `dtype=`"
    FACTORY = "the function makes a tensor: of the dtype and on the device of `out`"
    RANGE = "as FACTORY, and `out` keeps its shape if it has as many elements"
    ABSENT = "PyTorch has no form with `out=`"


class InPlace(enum.Enum):
    """The forms of a function that write its first operand."""

    ABSENT = "none"
    METHOD = "the method `name_`"
    FUNCTION = "the function `name_`"
    BOTH = "the method and the function `name_`"


class Facts(TypedDict, total=False):
    """What `public` takes by name.

    Args:
        out: what `out=` means.
        numpy_names: False: PyTorch's function is written in Python and knows the names of its
            parameters only, not NumPy's (`axis`, `keepdims`, `x`, ...).
        in_place: of the names in `dynajit` itself and in `nn.functional`.
        inplace_argument: the function of `nn.functional` has a last argument `inplace`.
        saves_input: of such a function: its derivative reads the input.
        method: tensors have methods of the names in `dynajit` itself.
        sparse: the method takes sparse tensors.
        foreach: there are `_foreach_name` and `_foreach_name_` for lists of tensors, by its own
            name only.
    """

    out: Out
    numpy_names: bool
    in_place: InPlace
    inplace_argument: bool
    saves_input: bool
    method: bool
    sparse: bool
    foreach: bool


@record
class Public:
    """A function under one of its names; see `Facts`."""

    name: str
    function: Callable[..., Any]
    out: Out = Out.CAST
    numpy_names: bool = True
    in_place: InPlace = InPlace.ABSENT
    inplace_argument: bool = False
    saves_input: bool = False
    method: bool = False
    sparse: bool = False
    foreach: bool = False


_USUAL: Final[dict[str, Facts]] = {"nn.functional": {"out": Out.ABSENT, "numpy_names": False}}
"""Facts of a namespace's functions that say nothing else: PyTorch has these in Python."""

_NAMESPACES: Final[dict[str, dict[str, Public]]] = {}


def public(
    namespace: str = "", *, name: str = "", also: tuple[str, ...] = (), **facts: Unpack[Facts]
) -> Callable[[Defined], Defined]:
    """Publish the function below.

    Args:
        namespace: below `dynajit`, such as "linalg"; "" is `dynajit` itself.
        name: if it is not the function's own.
        also: further names, as paths below `dynajit`: "absolute", "special.erf".
    """

    facts = {**_USUAL.get(namespace, {}), **facts}

    def enter(function: Defined) -> Defined:
        own = name or function.__name__
        for path in (f"{namespace}.{own}", *also):
            home, _, last = path.rpartition(".")
            said = facts if last == own else {**facts, "foreach": False}
            _NAMESPACES.setdefault(home, {})[last] = Public(last, function, **said)
        return function

    return enter


def published(namespace: str = "") -> dict[str, Public]:
    """The functions of a namespace by name, as far as their modules are imported."""
    return _NAMESPACES[namespace]
