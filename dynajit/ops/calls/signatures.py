"""What forms of functions say of themselves: `inspect.signature` and the docstring.

Contract: `add_` has the parameters of `add`, and `out=` is a parameter of the functions that take
it, so both are read off the function that a form is of, and nothing is written twice.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final

from dynajit.ops.native._library_call import LibraryFunction, register_signature

_OUT: Final = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any)


def describe_in_place(form: Any, function: Callable[..., Any], first: str) -> None:
    """Give an in-place form the signature and the docstring that follow from its function.

    Args:
        form: a function that takes the same arguments, and writes the first of them.
        function: what is computed.
        first: name of the first parameter of the form.
    """
    describe_as(form, function, first)
    form.__doc__ = f"In place: {first_sentence(function)}. Returns the tensor."


def describe_as(form: Any, function: Callable[..., Any], first: str) -> None:
    """Give a form the signature of a function, but for the name of the first parameter, and its
    docstring."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    parameters[0] = parameters[0].replace(name=first)
    form.__signature__ = signature.replace(parameters=parameters)
    form.__doc__ = function.__doc__


def first_sentence(function: Callable[..., Any]) -> str:
    """Of a docstring, without its full stop."""
    paragraph = " ".join((function.__doc__ or "").strip().partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".")


def _signature(target: LibraryFunction) -> inspect.Signature:
    """That of the function, and `out`, where a call takes it."""
    found = inspect.signature(target.__wrapped__)
    if "out" not in target.foreign:
        return found
    named = list(found.parameters.values())
    place = len(named) - any(p.kind is p.VAR_KEYWORD for p in named)
    return found.replace(parameters=[*named[:place], _OUT, *named[place:]])


register_signature(_signature)
