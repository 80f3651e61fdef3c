"""Calls: argument binding, inlined frames, classes, generators.

Functions of the machine (`capture.machine.machine`). An inlined
call is a frame that the generator yields; the executor runs it and sends its result back.
"""

import enum
import functools
import inspect
import types
from collections import OrderedDict
from typing import Any, Final

from dynajit.capture import _capture, breaks, control
from dynajit.capture._capture import CompiledFunction, is_called_plainly
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.instructions import decode
from dynajit.capture.guards.parts import (
    is_wrapper,
    part,
    place_of,
    rely_on_code,
    rely_on_defaults,
    wrapped,
)
from dynajit.capture.library.table import stands_for_calls
from dynajit.capture.machine.awaiting import checked_none, entrance, then
from dynajit.capture.machine.exceptions import NotKnown, raise_python
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.machine.namespaces import Namespace
from dynajit.capture.places import sources
from dynajit.capture.python.basic import (
    as_python,
    defines,
    describe,
    is_known,
    is_none,
    is_same,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.builtins.arguments import check_arguments
from dynajit.capture.python.builtins.folded import call_folded, is_folded
from dynajit.capture.python.builtins.random_numbers import draw, receiver_of
from dynajit.capture.python.builtins.replaced import (
    call_replaced,
    check_form_arguments,
    replacement,
)
from dynajit.capture.python.builtins.table import is_pure, special_call
from dynajit.capture.python.containers import fold
from dynajit.capture.python.contents import dict_entries, new_dict
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.exceptions import construct_exception
from dynajit.capture.python.numbers import call_of_numbers
from dynajit.capture.python.objects.fields import allocate
from dynajit.capture.python.objects.instances import plain_attribute
from dynajit.capture.python.partials import is_existing_partial, make_partial, read_partial
from dynajit.capture.python.preparing import prepare
from dynajit.capture.python.remembered_calls import call_remembered, remembers
from dynajit.capture.python.storage import new_with_storage, storage_method
from dynajit.capture.python.tensors.arrays import written_in_python
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.python.tensors.operators import call_operator
from dynajit.capture.python.tensors.outputs import call_library
from dynajit.capture.python.tensors.overriding import (
    called_name,
    field_name,
    method_name,
    overridden,
)
from dynajit.capture.python.tensors.tensors import (
    constructs_tensor,
    is_library_function,
    why_not_inlined,
)
from dynajit.capture.python.writing import delete_plain_attribute
from dynajit.capture.values.class_layouts import (
    is_made_class,
    is_modelled_tensor,
    is_plain_tuple,
)
from dynajit.capture.values.containers import DictValue, TupleValue
from dynajit.capture.values.functions import (
    BoundMethod,
    CellValue,
    FunctionContents,
    FunctionValue,
    GeneratorState,
    GeneratorValue,
    NativeMethod,
    PartialValue,
)
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.storage import native_base, storage_of
from dynajit.capture.values.symbolic import UNBOUND, Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, inherits, is_quiet, is_users_code, lookup
from dynajit.core.errors import InternalError
from dynajit.eager import Size, Tensor
from dynajit.ops.calls.namespaces import GraphCallable
from dynajit.ops.native._library_call import LibraryFunction
from dynajit.ops.table import overriding
from dynajit.ops.table.op_table import Op

#: Inlined calls inside each other; fewer where the recursion limit leaves less room.
MAX_DEPTH: Final = 500
Arguments = list[Value]
Keywords = dict[str, Value]

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def call(machine: Machine, callee: Value, args: Arguments, keywords: Keywords) -> Steps[Value]:
    """`callee(*args, **keywords)`."""
    if isinstance(callee, BoundMethod):
        if callee.source is not None:
            machine.recorder.use(callee)
        return (yield from call(machine, callee.function, [callee.self, *args], keywords))
    if isinstance(callee, FunctionValue):
        return (yield from _call_made_function(machine, callee, args, keywords))
    if isinstance(callee, NativeMethod):
        return (yield from machine.call_method(callee.receiver, callee.name, args, keywords))
    if is_existing_partial(callee):
        callee = read_partial(machine, callee)
    if isinstance(callee, PartialValue):
        machine.recorder.use(callee)
        merged = {**callee.keywords, **keywords}
        return (yield from call(machine, callee.function, [*callee.args, *args], merged))
    if isinstance(callee, ObjectValue):
        return (yield from _call_instance(machine, callee, args, keywords))
    if remembers(callee):
        return (yield from call_remembered(machine, callee, args, keywords))
    if isinstance(callee, Known):
        return (yield from _call_known(machine, callee, args, keywords))
    if not defines(callee.python_type, "__call__"):
        raise_python(
            machine, TypeError, f"'{type_name(type_of(machine, callee))}' object is not callable"
        )
    raise GraphBreak(breaks.UNKNOWN_CALL, describe(callee))


def _call_instance(
    machine: Machine, callee: ObjectValue, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    method = yield from _method_called(machine, callee)
    return (yield from call(machine, method, args, keywords))


def _method_called(machine: Machine, callee: ObjectValue) -> Steps[Value]:
    """What `__call__` of an instance is, also where it is an instance with a `__call__`."""
    method: Value = callee
    for _ in range(machine.max_depth):
        if not isinstance(method, ObjectValue):
            return method
        machine.recorder.use(method)
        if not defines(method.cls, "__call__"):
            kind = type_name(method.python_type)
            raise_python(machine, TypeError, f"'{kind}' object is not callable")
        method = yield from machine.get_special(method, "__call__")
    raise GraphBreak(breaks.RECURSION, f"{describe(callee)}.__call__")


def _call_known(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    target = callee.object
    special = special_call(machine, target)
    is_function = isinstance(target, types.FunctionType)
    if is_function and not is_called_plainly(target):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{target.__qualname__}: calls of it run C code")
    is_fixed = is_function and (is_library_function(machine, target) or is_library(target))
    if is_function and special is None and not is_fixed:
        rely_on_code(machine, callee)
    else:
        machine.recorder.use(callee)
    generator = receiver_of(machine, target, args)
    if generator is not None:
        name, owner, is_first = generator
        return draw(machine, name, owner, args[1:] if is_first else args, keywords)
    found = yield from _overridden(machine, target, args, keywords)
    if found is not None:
        return found
    number = call_of_numbers(machine, target, args, keywords)
    if number is not None:
        return number
    if is_folded(machine, target, args, keywords):
        return call_folded(machine, target, args, keywords)
    if special is not None:
        check_arguments(machine, target, args, keywords)
        return (yield from special(machine, args, keywords))
    form = replacement(target)
    if form is not None:
        return (yield from call_replaced(machine, target, form, args, keywords))
    if isinstance(target, types.FunctionType):
        if control.is_allowed(target):
            allowed = _in_graph(machine, target, args, keywords)
            if allowed is not None:
                return allowed
            rely_on_code(machine, callee)
        elif is_library_function(machine, target):
            return native_call(machine, target, args, keywords)
        if control.is_disabled(target):
            raise GraphBreak(breaks.REQUESTED, control.why_disabled(target))
        reason = why_not_inlined(machine, target)
        if reason is not None:
            raise GraphBreak(breaks.GLOBAL_STATE, reason)
        prepare(machine, target, args, keywords)
        if overriding.is_collected(target):
            callee = Known(overriding.without_looking(target))
        return (yield from _call_existing_function(machine, callee, args, keywords))
    if isinstance(target, CompiledFunction):
        return (yield from call(machine, Known(target.__wrapped__), args, keywords))
    if isinstance(target, LibraryFunction):
        return (yield from call_library(machine, target, args, keywords))
    if isinstance(target, Op):
        return native_call(machine, target, args, keywords, lift_numbers=True)
    if isinstance(target, GraphCallable):
        return call_operator(machine, target, args, keywords)
    if isinstance(target, type):
        return (yield from _call_class(machine, callee, args, keywords))
    written = written_in_python(target, [*args, *keywords.values()])
    if written is not None:
        return (yield from _call_existing_function(machine, Known(written), args, keywords))
    if isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
        return (yield from _call_descriptor(machine, target, args, keywords))
    if isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        refuse(machine, target.__name__, target, args, keywords)
    if isinstance(target, types.BuiltinFunctionType):
        return _call_builtin(machine, target, args, keywords)
    raise GraphBreak(breaks.UNKNOWN_CALL, describe(callee))


def _in_graph(machine: Machine, target: Any, args: Arguments, keywords: Keywords) -> Value | None:
    """What a function gives that `allow_in_graph` marked; None: it refuses what stands for tensors
    in a graph, and is read as any other function."""
    mark = machine.recorder.mark()
    try:
        return native_call(machine, target, args, keywords)
    except GraphBreak:
        machine.recorder.restore(mark)
        return None


def _overridden(
    machine: Machine, target: Any, args: Arguments, keywords: Keywords
) -> Steps[Value | None]:
    """What a function of the library gives by classes of its arguments; None: none is asked.

    A method of tensors that is called as a function is one of its first argument.
    """
    name = method_name(target) if args and isinstance(args[0], TensorValue) else None
    if name is not None:
        return (yield from machine.call_method(args[0], name, args[1:], keywords))
    field = field_name(target) if len(args) in (1, 2) else None
    if field is not None:
        return (yield from machine.get_attribute(args[0], field))
    is_function = isinstance(target, types.FunctionType) and overriding.is_collected(target)
    if not is_function and not isinstance(target, LibraryFunction) and method_name(target) is None:
        return None
    func = called_name(target) if isinstance(target, LibraryFunction) else target
    if overriding.takes_any_data(func):
        return None
    return (yield from overridden(machine, func, args, keywords))


def _call_descriptor(
    machine: Machine, target: Any, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    """An unbound method of a built-in class, such as `str.join` or `object.__setattr__`."""
    receiver, rest = args[0], args[1:]
    if target.__objclass__ is object:
        return (yield from machine.call_object_method(target.__name__, receiver, rest, keywords))
    if not issubclass(type_of(machine, receiver), target.__objclass__):
        refuse(machine, target.__name__, target, args, keywords)
    if target is type.__call__ and isinstance(receiver, Known):
        return (yield from _construct(machine, receiver, rest, keywords))
    own = getattr(receiver.python_type, target.__name__, target)
    if own is not target and isinstance(receiver, DictValue):
        raise unsupported(target.__qualname__, receiver)  # goes behind the back of the class
    is_ordered = isinstance(receiver, ObjectValue) and issubclass(receiver.cls, OrderedDict)
    if is_ordered and target.__objclass__ is dict and target.__name__ in vars(OrderedDict):
        raise unsupported(f"dict.{target.__name__}", receiver)  # leaves the order behind
    return (yield from machine.call_method(receiver, target.__name__, rest, keywords))


def _call_builtin(machine: Machine, target: Any, args: Arguments, keywords: Keywords) -> Value:
    """A C function: folded if it is known to be pure and everything is known."""
    if is_pure(machine, target) and all(
        is_known(a) and is_quiet(a) for a in (*args, *keywords.values())
    ):
        names = tuple(keywords)
        count = len(args)

        def apply(*values: Any) -> Any:
            return target(*values[:count], **dict(zip(names, values[count:], strict=True)))

        result: Value = fold(machine, apply, *args, *keywords.values())
        return result
    raise GraphBreak(breaks.UNKNOWN_CALL, getattr(target, "__qualname__", describe(Known(target))))


# -- Python functions ----------------------------------------------------------------------------


def _call_existing_function(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    function = callee.object
    base = place_of(machine, callee)
    defaults = {}
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    stored = function.__defaults__ or ()
    surplus = max(len(stored) - len(positional), 0)  # where the code was replaced by shorter one
    for number, value in enumerate(stored[surplus:], surplus):
        name = positional[len(positional) - len(stored) + number]
        defaults[name] = (value, sources.DefaultOf(base, number))
    for name, value in (function.__kwdefaults__ or {}).items():
        defaults[name] = (value, sources.DefaultOf(base, name))
    lazily = {
        name: functools.partial(machine.recorder.wrap, value, source)
        for name, (value, source) in defaults.items()
    }
    if is_library(function):
        check_form_arguments(machine, function, args, keywords)
    else:
        rely_on_defaults(machine, callee, len(args), keywords)
    locals = bind(machine, code, lazily, args, keywords, function.__qualname__)
    if function.__globals__ is machine.root.namespace.globals:
        namespace = machine.root.namespace
    else:
        namespace = Namespace.of(function, base, is_library(function))
    cells = machine.recorder.cells_of(function, base)
    names = (part(machine, callee, "__name__"), part(machine, callee, "__qualname__"))
    return (yield from run(machine, code, namespace, locals, cells, names))


def is_library(function: types.FunctionType) -> bool:
    """True for the Python forms of C functions and for NumPy's, whose globals nobody changes."""
    return stands_for_calls(function.__globals__.get("__name__"))


def _call_made_function(
    machine: Machine, callee: FunctionValue, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    contents: FunctionContents = machine.heap[callee.identity]
    code = contents.code
    defaults: dict[str, Any] = {}
    if contents.defaults is not None:
        items = yield from machine.to_items(contents.defaults)
        parameters = code.co_varnames[: code.co_argcount][code.co_argcount - len(items) :]
        defaults.update(zip(parameters, [_returning(item) for item in items], strict=True))
    if contents.keyword_defaults is not None:
        named = contents.keyword_defaults
        assert isinstance(named, DictValue)
        for key, item in dict_entries(machine, named).values():
            defaults[as_python(machine, key)] = _returning(item)
    name, qualname = (
        contents.attributes.get(f"__{name}__", constant(getattr(code, f"co_{name}")))
        for name in ("name", "qualname")
    )
    locals = bind(machine, code, defaults, args, keywords, as_python(machine, qualname))
    names = (name, qualname)
    return (yield from run(machine, code, contents.namespace, locals, contents.closure, names))


def _returning(value: Value) -> Any:
    return lambda: value


@entrance
def run(
    machine: Machine,
    code: types.CodeType,
    namespace: Namespace,
    locals: dict[str, Value],
    closure: tuple[CellValue, ...],
    names: tuple[Value, Value],
) -> Steps[Value]:
    """Run an inlined frame to its end (or make a generator of it).

    Args:
        machine: the symbolic machine.
        code: of the function.
        namespace: its globals.
        locals: bound arguments.
        closure: its cells.
        names: its `__name__` and `__qualname__`.
    """
    if code.co_flags & _ASYNC:
        raise GraphBreak(breaks.UNSUPPORTED_CODE, f"coroutine {code.co_qualname}")
    body = decode(code)
    if body.unsupported is not None:
        raise GraphBreak(breaks.UNSUPPORTED_CODE, f"{code.co_qualname}: {body.unsupported}")
    frame = Frame(body, code, namespace, locals, closure)
    frame.bind_free_cells()
    if code.co_flags & inspect.CO_GENERATOR:
        slot = machine.heap.allocate(None)
        state = GeneratorState(frame.body, code, namespace, closure, frame.save(), slot)
        identity = machine.heap.allocate(state)
        return GeneratorValue(identity, types.GeneratorType, None, names)
    if len(machine.frames) >= machine.max_depth:
        raise GraphBreak(breaks.RECURSION, f"{code.co_qualname} at depth {len(machine.frames)}")
    result: Value = yield frame
    return result


def bind(
    machine: Machine,
    code: types.CodeType,
    defaults: dict[str, Any],
    args: Arguments,
    keywords: Keywords,
    qualname: str,
) -> dict[str, Value]:
    """Locals at entry, as a call binds them; TypeError in the captured program where it fails.

    Args:
        defaults: parameter name -> function that makes its default value.
        qualname: the function's name in errors.
    """
    count = code.co_argcount
    names = code.co_varnames
    positional = names[:count]
    keyword_only = names[count : count + code.co_kwonlyargcount]
    bound: dict[str, Value] = dict(zip(positional, args, strict=False))
    extra = tuple(args[count:])
    rest: dict[str, Value] = {}
    accepted = set(positional[code.co_posonlyargcount :]) | set(keyword_only)
    takes_keywords = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    fits = bool(code.co_flags & inspect.CO_VARARGS) or not extra
    for name, item in keywords.items():
        if name in accepted:
            fits = fits and name not in bound
            bound[name] = item
        else:
            fits = fits and takes_keywords
            rest[name] = item
    for name in (*positional, *keyword_only):
        if name not in bound:
            fits = fits and name in defaults
            bound[name] = defaults[name]() if name in defaults else UNBOUND
    if not fits:
        raise_python(
            machine, TypeError, _binding_error(code, defaults, len(args), keywords, qualname)
        )
    slot = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        bound[names[slot]] = TupleValue(extra)
        slot += 1
    if takes_keywords:
        bound[names[slot]] = new_dict(machine, [(constant(n), item) for n, item in rest.items()])
    return bound


def _binding_error(
    code: types.CodeType,
    defaults: dict[str, Any],
    count: int,
    keywords: Keywords,
    qualname: str,
) -> str:
    """The text of the running interpreter's error: a function of this signature is called."""
    kinds = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    total = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    total += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    empty = (lambda: None).__code__
    stub = types.FunctionType(
        empty.replace(
            co_argcount=code.co_argcount,
            co_posonlyargcount=code.co_posonlyargcount,
            co_kwonlyargcount=code.co_kwonlyargcount,
            co_nlocals=total,
            co_varnames=code.co_varnames[:total],
            co_flags=empty.co_flags | code.co_flags & kinds,
            co_name=code.co_name,
            co_qualname=qualname,
        ),
        {},
    )
    positional = code.co_varnames[: code.co_argcount]
    stub.__defaults__ = tuple(name for name in positional if name in defaults)
    stub.__kwdefaults__ = {name: None for name in defaults if name not in positional}
    try:
        stub(*[None] * count, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    raise InternalError(f"bind({code.co_qualname}): the arguments fit after all.")


# -- classes -------------------------------------------------------------------------------------


def _call_class(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    cls: type = callee.object
    machine.recorder.classes.add(cls)
    maker = lookup(type(cls), "__call__")
    if is_users_code(maker):
        return (yield from call(machine, Known(maker), [callee, *args], keywords))
    if is_wrapper(maker, staticmethod) or _is_unbound(maker):
        is_static = is_wrapper(maker, staticmethod)
        function = wrapped(maker, "__func__") if is_static else Known(maker)
        return (yield from call(machine, function, args, keywords))
    if not isinstance(maker, types.FunctionType) and maker is not _TYPE_CALL:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"class {cls.__qualname__}")
    return (yield from _construct(machine, callee, args, keywords))


_TYPE_CALL: Final = lookup(type, "__call__")


def _is_unbound(maker: Any) -> bool:
    """True for a class in a metaclass, as `TypedDict` has it: it is called without the class."""
    return isinstance(maker, type) and lookup(type(maker), "__get__") is MISSING


def _construct(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    """`type.__call__(cls, *args, **keywords)`."""
    cls: type = callee.object
    if issubclass(cls, BaseException):
        return (yield from construct_exception(machine, callee, args, keywords))
    if cls is functools.partial:
        return make_partial(machine, args, keywords)
    if isinstance(cls, enum.EnumMeta):
        return (yield from _enum_member(machine, callee, args, keywords))
    if is_plain_tuple(cls) and cls is not Size:
        return (yield from _make_named_tuple(machine, callee, args, keywords))
    if cls is Tensor:
        return constructs_tensor(machine, args, keywords)
    if issubclass(cls, Tensor):
        return (yield from _make_derived_tensor(machine, callee, args, keywords))
    has_maker = isinstance(lookup(type(cls), "__call__"), types.FunctionType)
    if (has_maker and not is_users_code(lookup(type(cls), "__call__"))) or not is_made_class(cls):
        if is_pure(machine, cls):
            return _fold_class(machine, cls, args, keywords)
        raise GraphBreak(breaks.UNKNOWN_CALL, f"class {cls.__qualname__}")
    made = yield from _new_instance(machine, callee, args, keywords)
    if not (isinstance(made, ObjectValue) and inherits(made.cls, cls)):
        return made
    initialise = made.cls.__init__  # type: ignore[misc]
    if isinstance(initialise, types.FunctionType):
        place = sources.Attribute(sources.Constant(made.cls), "__init__")
        steps = call(machine, Known(initialise, place), [made, *args], keywords)
        result = yield from then(steps, checked_none, made)
        if not is_none(machine, result):
            kind = type_name(result.python_type)
            raise_python(machine, TypeError, f"__init__() should return None, not '{kind}'")
    elif initialise is not object.__init__ and storage_of(machine, made) is not None:
        yield from storage_method(machine, made, "__init__", args, keywords)
    elif initialise is not object.__init__:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{cls.__qualname__}.__init__")
    else:
        refuse_arguments(machine, "__init__", made.cls, args, keywords)
    return made


def refuse_arguments(
    machine: Machine, method: str, cls: type, args: Arguments, keywords: Keywords
) -> None:
    """What `object.__new__` or `object.__init__` says to arguments; a class that looks alike is
    asked. They look at how the class is made, which its dict does not always tell.

    Raises:
        Raised: Python's own TypeError.
    """
    if not args and not keywords:
        return
    own = zip(("__new__", "__init__"), _capture.makes_plainly(cls), strict=True)
    members = {name: lambda *_, **__: None for name, is_plain in own if not is_plain}
    likeness = type(cls.__name__, (), members)
    first: Any = likeness if method == "__new__" else object.__new__(likeness)
    try:
        getattr(object, method)(first, *[None] * len(args), **dict.fromkeys(keywords))
    except TypeError as error:
        raise_python(machine, TypeError, *error.args)


def _new_instance(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    cls = callee.object
    new = cls.__new__
    if isinstance(new, types.FunctionType):
        return (yield from call(machine, Known(new), [callee, *args], keywords))
    base = native_base(cls)
    if base is not None and new is base.__new__:
        return (yield from new_with_storage(machine, cls, args, keywords))
    if new is not object.__new__:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{cls.__qualname__}.__new__")
    refuse_arguments(machine, "__new__", cls, args, keywords)
    return allocate(machine, cls)


def _make_derived_tensor(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    """An instance of a class derived from Tensor, by its `__new__` and `__init__`."""
    cls: type = callee.object
    if not is_modelled_tensor(cls):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"making a {cls.__name__}")
    made = yield from call(machine, Known(cls.__new__), [callee, *args], keywords)
    start = lookup(cls, "__init__")
    if isinstance(made, TensorValue) and issubclass(made.cls, cls):
        if isinstance(start, types.FunctionType):
            method = BoundMethod(Known(start), made)
            yield from call(machine, method, args, keywords)
        elif start is not lookup(Tensor, "__init__"):
            raise GraphBreak(breaks.UNKNOWN_CALL, f"{cls.__name__}.__init__")
    return made


def _make_named_tuple(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    cls: Any = callee.object
    if not isinstance(cls.__new__, types.FunctionType) or cls.__init__ is not object.__init__:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"class {cls.__qualname__}")
    return (yield from call(machine, Known(cls.__new__), [callee, *args], keywords))


def _enum_member(
    machine: Machine, callee: Known, args: Arguments, keywords: Keywords
) -> Steps[Value]:
    """`Color(1)`: looked up by value; what is not found goes through the class's own code."""
    cls: Any = callee.object
    if len(args) != 1 or keywords or not is_known(args[0]):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"enum {cls.__qualname__}")
    value = as_python(machine, args[0])
    for member in cls.__members__.values():
        if value is member or (type(value) is type(member.value) and value == member.value):
            return Known(member)
    if issubclass(cls, enum.Flag):
        found = cls._value2member_map_.get(value)
        if found is not None and type(value) is int:
            return Known(found)
        raise GraphBreak(breaks.UNKNOWN_CALL, f"enum {cls.__qualname__}")
    return (yield from call(machine, Known(type(cls).__call__), [callee, *args], {}))


def _fold_class(machine: Machine, cls: Any, args: Arguments, keywords: Keywords) -> Value:
    try:
        values = [as_python(machine, a) for a in args]
        named = {name: as_python(machine, item) for name, item in keywords.items()}
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{cls.__qualname__}({error})") from None
    try:
        return Known(cls(*values, **named))
    except Exception as error:
        raise_python(machine, type(error), *error.args)
        raise


# -- helpers for builtins ------------------------------------------------------------------------


def call_object_method(
    machine: Machine, name: str, receiver: Value, args: Arguments, keywords: Keywords | None = None
) -> Steps[Value]:
    """A method of `object` called on an instance: `object.__setattr__(obj, name, value)`."""
    if name == "__init__":
        refuse_arguments(machine, name, type_of(machine, receiver), args, keywords or {})
        return constant(None)
    expected = _COUNTS.get(name)
    if keywords or (expected is not None and len(args) != expected):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"object.{name} on {describe(receiver)}")
    if name == "__setattr__" and isinstance(receiver, ObjectValue):
        yield from machine.set_plain_attribute(receiver, as_python(machine, args[0]), args[1])
        return constant(None)
    if name == "__getattribute__" and isinstance(receiver, ObjectValue):
        return (yield from plain_attribute(machine, receiver, as_python(machine, args[0])))
    if name == "__delattr__" and isinstance(receiver, ObjectValue):
        yield from delete_plain_attribute(machine, receiver, as_python(machine, args[0]))
        return constant(None)
    if name in ("__eq__", "__ne__") and isinstance(receiver, ObjectValue):
        same = is_same(machine, receiver, args[0])
        outcome = same if name == "__eq__" else not same
        return constant(outcome if same else NotImplemented)
    if name == "__init_subclass__":
        return constant(None)
    raise GraphBreak(breaks.UNKNOWN_CALL, f"object.{name} on {describe(receiver)}")


#: Arguments of methods of `object` after the object itself.
_COUNTS: Final = {
    "__setattr__": 2, "__getattribute__": 1, "__delattr__": 1, "__eq__": 1, "__ne__": 1,
}  # fmt: skip
