"""Calls that arguments or modes override: the protocol `__torch_function__`.

Contract: a class with a method `__torch_function__(func, types, args, kwargs)` is asked in the
place of every function and method that gets an instance of it, be it a tensor of a derived class or
an object of any kind, also one in a list; a `TorchFunctionMode` that is active is asked in the
place of every call of its thread. `func` is what the program called.

Programs that override nothing pay nothing but a comparison of classes in C. What they call is of
two kinds: `_library_call.LibraryFunction`s look at their arguments themselves; plain Python
functions get another body (`_give_body`) when somebody overrides for the first time (`begin`),
which does. A row that gets such an object from other code asks, too (`ops.table.dispatch`); there
`func` is the row.

`publish_overridable` collects the functions, `eager.operations.subclasses` the methods.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, Final

from dynajit.core.operators import BINARY, COMPARISONS
from dynajit.core.records import record
from dynajit.ops.native._library_call import (
    LibraryFunction,
    ask_no_class,
    count_modes,
    overrides,
    register_override,
)

PROTOCOL: Final = "__torch_function__"

#: `__dynajit_priority__` of tensors whose class overrides functions: above that of plain tensors.
PRIORITY: Final = 1


def disabled_torch_function(
    func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """The `__torch_function__` of classes that override nothing: the call itself."""
    with classes_unasked():
        return func(*args, **(kwargs or {}))


class _State(threading.local):
    """What overrides calls in a thread; mutable.

    Args:
        modes: those that are active, the innermost last.
        is_off: modes are not asked.
    """

    def __init__(self) -> None:
        self.modes: list[Any] = []
        self.is_off = False


_state = _State()

#: What the body of a function calls, a LibraryFunction -> what the program called.
_public: dict[Any, Any] = {}

#: Functions and methods that get another body, as (function, what the program calls, home).
_waiting: list[tuple[FunctionType, Any, Any]] = []

_collected: set[FunctionType] = set()

#: Functions that take data of any kind: modes are asked, classes are not.
_of_any_data: set[Any] = set()
_has_begun: list[bool] = []
_installed: list[Any] = []


# -- who is asked ----------------------------------------------------------------------------------


def is_mode_active() -> bool:
    """Whether a mode sees the calls of this thread."""
    return bool(_state.modes) and not _state.is_off


def overriding_arguments(arguments: Iterable[Any]) -> list[Any]:
    """One argument of each class that overrides, in the order in which they are asked: as they
    come, but classes before those they derive from."""
    found: list[Any] = []
    for argument in arguments:
        inner = argument if type(argument) in (list, tuple) else (argument,)
        for item in inner:
            if overrides(item):
                _insert(found, item)
    return found


def _insert(found: list[Any], item: Any) -> None:
    kind = type(item)
    if any(kind is type(other) for other in found):
        return
    places = (i for i, x in enumerate(found) if issubclass(kind, type(x)))
    found.insert(next(places, len(found)), item)


def ask(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What the innermost mode, or else an argument, gives for a call.

    Raises:
        TypeError: all that were asked gave NotImplemented.
    """
    return _answer(func, overriding_arguments((*args, *named.values())), args, named)


def _answer(func: Any, asked: list[Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    types = tuple(map(type, asked))
    if is_mode_active():
        with _innermost_hidden() as mode:
            result = mode.__torch_function__(func, types, args, named)
        if result is not NotImplemented:
            return result
    for argument in asked:
        result = getattr(argument, PROTOCOL)(func, types, args, named)
        if result is not NotImplemented:
            return result
    names = ", ".join(f"{t.__module__}.{t.__qualname__}" for t in types) or "a mode"
    raise TypeError(
        f"no implementation found for '{name_of(func)}' on types that implement "
        f"__torch_function__: {names} gave NotImplemented.  Handle the function there, or call "
        "super().__torch_function__."
    )


def name_of(func: Any) -> str:
    """The name of what was called."""
    return str(getattr(func, "__name__", func))


def public(target: LibraryFunction) -> Any:
    """What programs call where a library function runs."""
    return _public.get(target, target)


def takes_any_data(func: Any) -> bool:
    """True for functions about which modes are asked and classes are not."""
    return func in _of_any_data


def _override(target: LibraryFunction, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What takes the place of a call, or `target`: nothing does."""
    if _waiting:
        begin()
    func = _public.get(target, target)
    asked = overriding_arguments((*args, *named.values()))
    if func in _of_any_data and not is_mode_active():
        with classes_unasked():
            return target.__wrapped__(*args, **named)
    if not asked and not is_mode_active():
        return target
    if func is not target and _is_left_to_other(target, args):
        return target
    return _answer(func, asked, args, named)


_BINARY_METHODS: Final = frozenset(
    {f"__{way}{name}__" for name in BINARY for way in ("", "r")}
    | {f"__{name}__" for name in COMPARISONS}
)


def _is_left_to_other(target: LibraryFunction, args: tuple[Any, ...]) -> bool:
    """Whether a binary operator got an operand that it knows nothing about."""
    if target.__name__ not in _BINARY_METHODS or len(args) != 2:
        return False
    other = args[1]
    return not (_installed[0].is_operand(other) or hasattr(type(other), PROTOCOL))


@contextmanager
def classes_unasked() -> Iterator[None]:
    """No class is asked within the block, in this thread; modes are."""
    ask_no_class(1)
    try:
        yield
    finally:
        ask_no_class(-1)


def change_unasked(classes: int, is_off: bool | None = None) -> bool:
    """See `eager.operations.subclasses`."""
    ask_no_class(classes)
    before = _state.is_off
    if is_off is not None:
        _state.is_off = is_off
    return before


def are_classes_asked() -> bool:
    """True outside of `classes_unasked`."""
    return ask_no_class(0) == 0


@contextmanager
def _innermost_hidden() -> Iterator[Any]:
    mode = leave_mode()
    try:
        yield mode
    finally:
        enter_mode(mode)


def enter_mode(mode: Any) -> None:
    """`mode` is the innermost of this thread's."""
    begin()
    _state.modes.append(mode)
    count_modes(1)
    _installed[0].note_modes(True)


def leave_mode() -> Any:
    """The innermost mode of this thread, which ends."""
    mode = _state.modes.pop()
    count_modes(-1)
    _installed[0].note_modes(bool(_state.modes))
    return mode


def active_modes() -> tuple[Any, ...]:
    """Those of this thread, the innermost last."""
    return tuple(_state.modes)


# -- bodies of functions that look at their arguments ----------------------------------------------


def publish_overridable(
    namespace: dict[str, Any], names: Iterable[str], *, take_any_data: bool = False
) -> None:
    """Collect the plain functions among names of a module.

    Args:
        namespace: `globals()` of the module.
        names: of the functions; other things among them are left out.
        take_any_data: modes are asked about them, classes are not.
    """
    for name in names:
        function = namespace[name]
        if isinstance(function, FunctionType):
            collect(function, function, namespace["__name__"])
            if take_any_data:
                _of_any_data.add(function)


def collect(function: FunctionType, called: Any, home: Any) -> None:
    """Let a function look at its arguments from `begin` on.

    Args:
        function: gets another body.
        called: what `func` is in `__torch_function__`.
        home: where the function is found: the name of a module, or a class.
    """
    _waiting.append((function, called, home))
    _collected.add(function)
    if _has_begun:
        begin()


def is_collected(function: FunctionType) -> bool:
    """Whether a function looks at its arguments, or will."""
    return function in _collected


def without_looking(function: FunctionType) -> FunctionType:
    """A function that was collected, with the body that it was written with."""
    if not has_new_body(function):
        return function
    was: FunctionType = function.__wrapped__  # type: ignore[attr-defined]
    return was


def as_written(function: FunctionType) -> FunctionType:
    """The same function with the body that it was written with, also once somebody overrides."""
    if function not in _collected:
        return function
    return without_looking(function) if has_new_body(function) else _copied(function)


def has_new_body(function: FunctionType) -> bool:
    """Whether `begin` has come to a function."""
    constants = function.__code__.co_consts
    return any(isinstance(constant, LibraryFunction) for constant in constants)


def has_begun() -> bool:
    """Whether somebody overrode something."""
    return bool(_has_begun)


def begin() -> None:
    """Somebody overrides: functions that were collected look at their arguments from now on."""
    if not _has_begun:
        _has_begun.append(True)
    while _waiting:
        function, called, home = _waiting.pop()
        if not has_new_body(function):
            _give_body(function, called, home)


def _give_body(function: FunctionType, called: Any, home: Any) -> None:
    """Let `function(...)` be a call of a `LibraryFunction` around what it was."""
    was = _copied(function)
    target = looking(was, function.__name__, home)
    _public[target] = called
    body = _template(len(function.__closure__ or ()))
    constants = tuple(target if c == _PLACE else c for c in body.co_consts)
    function.__wrapped__ = was  # type: ignore[attr-defined]
    function.__code__ = body.replace(
        co_consts=constants, co_name=was.__code__.co_name, co_filename=was.__code__.co_filename,
        co_firstlineno=was.__code__.co_firstlineno,
    )  # fmt: skip


def _copied(function: FunctionType) -> FunctionType:
    copied = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    copied.__doc__ = function.__doc__
    copied.__qualname__ = function.__qualname__
    copied.__module__ = function.__module__
    return copied


def looking(function: Callable[..., Any], name: str, home: Any) -> LibraryFunction:
    """A callable that looks at its arguments first; `func` is the function."""
    target = LibraryFunction(function, (), _never_adapted, name, home, sys.maxsize)
    _public[target] = function
    return target


def _never_adapted(target: Any, args: Any, named: Any) -> Any:
    return target.__wrapped__(*args, **named)


_PLACE: Final = 6.02214076e23  # a constant that stands for the LibraryFunction
_templates: dict[int, CodeType] = {}


def _template(cells: int) -> CodeType:
    """Code of a function with so many cells that calls the constant `_PLACE` with its arguments."""
    if cells not in _templates:
        names = [f"cell_{i}" for i in range(cells)]
        lines = ["def outer():"] + [f"    {name} = None" for name in names]
        lines += ["    def body(*args, **named):", f"        target = {_PLACE!r}"]
        lines += ["        return target(*args, **named)"]
        lines += [f"        {name}" for name in names] + ["    return body"]
        namespace: dict[str, Any] = {}
        exec(compile("\n".join(lines), __file__, "exec", dont_inherit=True), namespace)
        _templates[cells] = namespace["outer"]().__code__
    return _templates[cells]


def override_operator(method: Callable[[Any, Any], Any], self: Any, other: Any) -> Any:
    """What a binary operator gives for an operand that it does not know.

    Returns:
        NotImplemented where the operand's class does not override functions.
    """
    if not overrides(other):
        return NotImplemented
    begin()
    return method(self, other)


def override_row(row: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Runs a row that got an operand whose class overrides functions."""
    return ask(row, inputs, attributes)


@record
class Eager:
    """What eager tensors say of overriding.

    Args:
        tensor: class `Tensor`.
        is_operand: whether operators of tensors know what to do with an object.
        note_modes: told whether this thread has modes, where compiled functions see it.
    """

    tensor: type
    is_operand: Callable[[Any], bool]
    note_modes: Callable[[bool], None]


def install(eager: Eager) -> None:
    """Called once, by `eager.operations.subclasses`: overriding begins to be looked for."""
    _installed[:] = [eager]
    register_override(_override, eager.tensor, disabled_torch_function)


# -- questions -------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Sequence[Any]) -> bool:
    """Whether a mode is active, or the class of an argument overrides functions."""
    return is_mode_active() or any(map(overrides, relevant_args))


def has_torch_function_unary(tensor: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """`has_torch_function` of arguments in places."""
    return has_torch_function(tensors)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let modes and arguments answer a call of a function of the program's own.

    Args:
        public_api: the function, which asked `has_torch_function` first.
        relevant_args: the arguments that may override it.
        *args, **kwargs: all arguments.

    Raises:
        TypeError: all that were asked gave NotImplemented.
    """
    return _answer(public_api, overriding_arguments(relevant_args), args, kwargs)


__all__ = [
    "disabled_torch_function",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
]
