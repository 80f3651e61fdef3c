"""Objects whose end can be noticed: which the captured code merely borrows.

Plain Python keeps what a local holds until the local is bound anew or deleted, or the frame ends.
Whether anybody can tell depends on the object: a weak reference, a finalizer, a suspended
generator. An object that the captured code made and that nothing else can see may go at once;
what existed before, and what real code will see, may not.

The end of some objects does something (`ends_in_place`): plain Python does it where the last
reference goes.
"""

import builtins
import gc
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dynajit.capture.bytecode.instructions import Body, decode
from dynajit.capture.places import sources
from dynajit.capture.values.by_class import remembered
from dynajit.capture.values.plain_classes import bases_in_order, is_heap_type, namespace
from dynajit.capture.values.symbolic import LITERAL_TYPES, Constant, Scalar, Value
from dynajit.eager import Tensor
from dynajit.ops.native._library_call import LibraryFunction

#: Places that hold their object themselves, whatever a frame does.
_HOLDING: Final = (
    sources.Attribute, sources.Global, sources.Builtin, sources.Constant, sources.Closure,
)  # fmt: skip

#: Classes whose instances end quietly, or are not met as plain objects.
_QUIET: Final = (
    type, types.FunctionType, types.ModuleType, types.CodeType, Tensor, LibraryFunction,
)  # fmt: skip

#: Objects that `held_objects` looks at, as for arguments: see `native/quiet_end.c`.
MOST_OBJECTS: Final = 1000


def is_lent(value: Value) -> bool:
    """True for an existing object that perhaps nothing but the captured frames hold."""
    source = getattr(value, "source", None)
    if source is None or isinstance(source, _HOLDING):
        return False
    if isinstance(value, (Scalar, Constant)):
        return isinstance(source, sources.Local)  # costs nothing, and debuggers see it
    return True


def is_held_by_its_place(source: sources.Source) -> bool:
    """True for a place that holds its object itself, whatever the captured frames do."""
    while isinstance(source, (sources.MethodFunction, sources.MethodSelf)):
        source = source.base  # a method holds both as long as it lives
    return isinstance(source, _HOLDING)


def ends_in_place(obj: Any) -> bool:
    """True for an existing object whose end does something; runs no user code."""
    kind = type(obj)
    if any(kind is literal for literal in LITERAL_TYPES):  # `in` may ask a metaclass
        return False
    if kind is types.GeneratorType:
        return waits_in_try(obj)
    return not issubclass(kind, _QUIET) and (has_finalizer(kind) or _has_callback(obj))


def is_referred_to(obj: Any) -> bool:
    """True for an existing object of whose end somebody may learn; runs no user code."""
    if issubclass(type(obj), _QUIET):
        return False
    return weakref.getweakrefcount(obj) > 0 or ends_in_place(obj)


def held_objects(objects: Iterable[Any], through_instances: bool = True) -> Iterator[Any]:
    """Existing objects and what they hold; of very many the beginning; runs no user code.

    Args:
        objects: where to begin.
        through_instances: False: only what lies in containers, iterators and generators.
    """
    work = list(objects)
    seen: set[int] = set()
    while work and len(seen) < MOST_OBJECTS:
        obj = work.pop(0)
        if id(obj) in seen or issubclass(type(obj), _QUIET):
            continue
        seen.add(id(obj))
        yield obj
        if through_instances or _only_contains(type(obj)):
            work += gc.get_referents(obj)


@remembered
def _only_contains(kind: type) -> bool:
    """True for the containers and iterators of C code, and generators."""
    if not is_heap_type(kind):
        return True
    module = namespace(kind).get("__module__")
    return type(module) is str and module in ("itertools", "collections")


@remembered
def has_finalizer(kind: type) -> bool:
    """True if a class has `__del__`."""
    return any("__del__" in namespace(cls) for cls in bases_in_order(kind))


def _has_callback(obj: Any) -> bool:
    """True if a weak reference to the object calls something when it ends."""
    for reference in weakref.getweakrefs(obj):
        if not issubclass(type(reference), weakref.ReferenceType):
            return True  # a proxy answers for the object
        if _CALLBACK.__get__(reference) is not None:
            return True
    return False


_CALLBACK: Final[Any] = vars(weakref.ReferenceType)["__callback__"]


def has_guards(body: Body) -> bool:
    """True if a generator's body has `try` or `with`: it is closed when it dies unfinished."""
    landings = {item.handler.target for item in body.instructions if item.handler is not None}
    return any(
        body.instructions[target].operation not in ("CALL_INTRINSIC_1", "CLEANUP_THROW")
        for target in landings
    )


def lets_exit_pass(body: Body, landing: int, names: Mapping[str, Any]) -> bool:
    """True for a handler that does nothing where a generator is closed: it asks for exceptions of
    other classes, and raises again what is none of them.

    Args:
        landing: the handler's first instruction.
        names: the function's globals; built-in exceptions that they hide are not looked at.
    """
    at = landing + 1
    if [item.operation for item in body.instructions[landing : landing + 3]] == _CLEANUP:
        return True
    if body.instructions[landing].operation != "PUSH_EXC_INFO":
        return False
    while body.instructions[at].operation == "LOAD_GLOBAL":
        test = body.instructions[at : at + 3]
        if [item.operation for item in test] != _TEST or not _is_other(test[0].argument, names):
            return False
        at = test[2].argument
    return body.instructions[at].operation == "RERAISE"


_CLEANUP: Final = ["COPY", "POP_EXCEPT", "RERAISE"]  # behind a handler that has raised again
_TEST: Final = ["LOAD_GLOBAL", "CHECK_EXC_MATCH", "POP_JUMP_IF_FALSE"]


def _is_other(name: str, names: Mapping[str, Any]) -> bool:
    """True for a built-in class of exceptions that GeneratorExit is none of."""
    kind = vars(builtins).get(name)
    return name not in names and type(kind) is type and issubclass(kind, Exception)


def waits_in_try(generator: Any) -> bool:
    """True for a real generator that was started and may have something to do when it dies."""
    if not generator.gi_suspended:
        return False
    return generator.gi_frame.f_lasti > 0 and has_guards(decode(generator.gi_code))
