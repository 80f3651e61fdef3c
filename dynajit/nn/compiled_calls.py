"""What a module's call is compiled to, kept apart from the state that modules share.

`dynajit.compile(module)` makes a second object of the module's class with the very same `__dict__`:
whatever is set on one is there on the other. What only one of them has stands in the slot
`Module._own_call`: the compiled call, bound to the original module; None in the original. The
dict's entry `_compiled_call` is None until either kind of compiled call exists, so that calls and
guards of all other modules never look at the slot.
"""

from typing import Any, Final

#: Methods of the compiled call that the compiled module has, too, unless its class has such.
REPORTS: Final = ("report", "guards")

#: They are not in the instance dict, so two objects with one dict do not share them.
_OUTSIDE: Final = ("__class__", "__dict__")


def _no_calls() -> None:
    """What the compiled calls of a copied module are."""


class CompiledCalls:
    """Says that a dict belongs to a module with compiled calls; copied or pickled, it is None.

    Mutable: `in_place` is the function that `Module.compile` made, for every object with this
    dict that has no call of its own.
    """

    def __init__(self) -> None:
        self.in_place: Any = None

    def __reduce__(self) -> Any:
        return _no_calls, ()


def made_compiled_calls(module: Any) -> CompiledCalls:
    """The entry `_compiled_call` of the module's dict, made if need be."""
    fields = module.__dict__
    found: CompiledCalls | None = fields.get("_compiled_call")
    if found is None:
        object.__setattr__(module, "_own_call", None)
        found = fields["_compiled_call"] = CompiledCalls()
    return found


def shared(module: Any, call: Any) -> Any:
    """A second object with the class and dict of `module`, which `call` runs."""
    made_compiled_calls(module)
    made = module.__class__.__new__(module.__class__)
    object.__setattr__(made, "__dict__", module.__dict__)
    object.__setattr__(made, "_own_call", call)
    return made


def original_of(module: Any) -> Any:
    """The module that a compiled one shares its dict with; any other module itself."""
    if module.__dict__.get("_compiled_call") is None or module._own_call is None:
        return module
    return module._own_call.__self__


def attribute_outside(module: Any, name: str) -> tuple[Any, ...]:
    """(value,) for what a module with compiled calls shows under `name`, else ().

    These are the reports of its call, and what the original has in slots of its class.
    """
    own = module._own_call
    call = module._compiled_call.in_place if own is None else own
    if name in REPORTS and call is not None:
        return (getattr(call, name),)
    if own is not None and hasattr(own.__self__, name):
        return (getattr(own.__self__, name),)
    return ()


def set_in_both(module: Any, name: str, value: Any) -> None:
    """`object.__setattr__` for a module with compiled calls: slots are the original's."""
    original = original_of(module)
    object.__setattr__(original, name, value)
    if original is not module and name in _OUTSIDE:
        object.__setattr__(module, name, value)
