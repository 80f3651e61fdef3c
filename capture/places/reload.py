"""Instructions that load a source: where a captured value is found when the new code starts.

One function per class of source, registered by class. Every load gives the value at entry and
runs no user code, as the source promises.
"""

import gc
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from bytecode.instr import CellVar, FreeVar

from dynajit.capture.bytecode.assemble import Writer
from dynajit.capture.places import sources
from dynajit.capture.values.storage import plain
from dynajit.core.errors import InternalError
from dynajit.eager import Tensor
from dynajit.eager.tensor.creation import tensor_over

PushBase = Callable[[sources.Source], None]
Load = Callable[[Any, Writer, PushBase, Any], None]


def read_item(sequence: Any, index: int) -> Any:
    """An item of a list or tuple as stored, whatever a subclass says."""
    kind = list if isinstance(sequence, list) else tuple
    return kind.__getitem__(sequence, index)


def read_member(cls: Any, name: str) -> Any:
    """What a class stores, itself or in a base, without binding.

    Raises:
        AttributeError: no class in the MRO stores it.
    """
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    raise AttributeError(name)


def read_class_attribute(instance: Any, name: str) -> Any:
    """An attribute of an object's class as stored, without binding.

    Raises:
        AttributeError: no class in the MRO stores it.
    """
    return read_member(type(instance), name)


def _call(writer: Writer, function: Callable[..., Any], *pushers: Callable[[], None]) -> None:
    writer.callable(lambda: writer.load_constant(function))
    for push in pushers:
        push()
    writer.call(len(pushers))


def _local(source: sources.Local, writer: Writer, push: PushBase, function: Any) -> None:
    if source.name in function.__code__.co_cellvars:
        writer.append("LOAD_DEREF", CellVar(source.name), 0, 1)
    else:
        writer.load_local(source.name)


def _function(source: sources.Function, writer: Writer, push: PushBase, function: Any) -> None:
    writer.load_constant(function)


def _constant(source: sources.Constant, writer: Writer, push: PushBase, function: Any) -> None:
    writer.load_constant(source.value)


def _global(source: sources.Global, writer: Writer, push: PushBase, function: Any) -> None:
    if isinstance(source.base, sources.Function):
        writer.load_global(source.name)
        return
    push(source.base)
    writer.load_attribute("__globals__")
    _subscript(writer, source.name)


def _builtin(source: sources.Builtin, writer: Writer, push: PushBase, function: Any) -> None:
    if isinstance(source.base, sources.Function):
        writer.load_global(source.name)
        return
    push(source.base)
    writer.load_attribute("__builtins__")
    _subscript(writer, source.name)


def _closure(source: sources.Closure, writer: Writer, push: PushBase, function: Any) -> None:
    if isinstance(source.base, sources.Function):
        name = function.__code__.co_freevars[source.index]
        writer.append("LOAD_DEREF", FreeVar(name), 0, 1)
        return
    push(source.base)
    writer.load_attribute("__closure__")
    _subscript(writer, source.index)
    writer.load_attribute("cell_contents")


def _cell(source: sources.ClosureCell, writer: Writer, push: PushBase, function: Any) -> None:
    if isinstance(source.base, sources.Function):
        writer.load_cell(FreeVar(function.__code__.co_freevars[source.index]))
        return
    push(source.base)
    writer.load_attribute("__closure__")
    _subscript(writer, source.index)


def _default(source: sources.DefaultOf, writer: Writer, push: PushBase, function: Any) -> None:
    push(source.base)
    positional = isinstance(source.key, int)
    writer.load_attribute("__defaults__" if positional else "__kwdefaults__")
    _subscript(writer, source.key)


def _item(source: sources.Item, writer: Writer, push: PushBase, function: Any) -> None:
    base = source.base
    if isinstance(base, sources.Local) and base.index >= _positional(function):
        push(base)  # `*args` is exactly a tuple
        _subscript(writer, source.index)
        return
    _call(writer, read_item, lambda: push(base), lambda: writer.load_constant(source.index))


def _deque_item(source: sources.DequeItem, writer: Writer, push: PushBase, function: Any) -> None:
    index = source.index
    _call(writer, deque.__getitem__, lambda: push(source.base), lambda: writer.load_constant(index))


def _size(source: sources.SizeOf, writer: Writer, push: PushBase, function: Any) -> None:
    push(source.base)
    writer.load_attribute("shape")
    _subscript(writer, source.dim)


def read_contents(tensor: Any, index: int) -> Any:
    """A number in a tensor."""
    return tensor.array.item(index)


def _contents(source: sources.Contents, writer: Writer, push: PushBase, function: Any) -> None:
    index = source.index
    _call(writer, read_contents, lambda: push(source.base), lambda: writer.load_constant(index))


def leaf_of(tensor: Any, cls: Any) -> Any:
    """A leaf of a class that looks at the memory of a tensor, and requires a gradient."""
    return Tensor._leaf_of(tensor, cls, True)


def _over(source: sources.TensorOver, writer: Writer, push: PushBase, function: Any) -> None:
    _call(writer, tensor_over, lambda: push(source.base))


def _leaf(source: sources.LeafOf, writer: Writer, push: PushBase, function: Any) -> None:
    _call(writer, leaf_of, lambda: push(source.base), lambda: push(sources.Constant(source.cls)))


def _key(source: sources.Key, writer: Writer, push: PushBase, function: Any) -> None:
    base, found = source.base, source.found

    def key() -> None:
        writer.load_constant(source.key) if found is None else push(found)

    _call(writer, dict.__getitem__, lambda: push(base), key)


def read_nth_key(dictionary: dict[Any, Any], index: int) -> Any:
    """A key by its place in the dict's own order, whatever a subclass says."""
    return next(itertools.islice(dict.__iter__(dictionary), index, None))


def _nth_key(source: sources.NthKey, writer: Writer, push: PushBase, function: Any) -> None:
    _call(
        writer, read_nth_key,
        lambda: push(source.base), lambda: writer.load_constant(source.index),
    )  # fmt: skip


def read_iterated(iterator: Any) -> Any:
    """The list or tuple that an iterator goes through; it has not ended."""
    return iterator.__reduce__()[1][0]


def _iterated(source: sources.Iterated, writer: Writer, push: PushBase, function: Any) -> None:
    _call(writer, read_iterated, lambda: push(source.base))


def _storage(source: sources.Storage, writer: Writer, push: PushBase, function: Any) -> None:
    _call(writer, plain, lambda: push(source.base))


def _type(source: sources.TypeOf, writer: Writer, push: PushBase, function: Any) -> None:
    _call(writer, type, lambda: push(source.base))


def _class_attribute(
    source: sources.ClassAttribute, writer: Writer, push: PushBase, function: Any
) -> None:
    name = source.name
    _call(
        writer, read_class_attribute,
        lambda: push(source.base), lambda: writer.load_constant(name),
    )  # fmt: skip


def _member(source: sources.Member, writer: Writer, push: PushBase, function: Any) -> None:
    name = source.name
    _call(writer, read_member, lambda: push(source.base), lambda: writer.load_constant(name))


def _attribute(source: sources.Attribute, writer: Writer, push: PushBase, function: Any) -> None:
    push(source.base)
    writer.load_attribute(source.name)


def read_fields(instance: Any) -> Any:
    """The dict of an instance, whatever `__getattribute__` its class has."""
    return object.__getattribute__(instance, "__dict__")


def _fields(source: sources.InstanceDict, writer: Writer, push: PushBase, function: Any) -> None:
    _call(writer, read_fields, lambda: push(source.base))


def proxied(proxy: Any) -> Any:
    """The mapping that a mapping proxy shows."""
    return gc.get_referents(proxy)[0]


def class_dict(cls: type) -> Any:
    """The dict of a class, which Python shows through a proxy."""
    return proxied(vars(type)["__dict__"].__get__(cls))


def _part(source: sources.PartOf, writer: Writer, push: PushBase, function: Any) -> None:
    if source.name == "__dict__":
        _call(writer, class_dict, lambda: push(source.base))
        return
    if source.name == "mapping":
        _call(writer, proxied, lambda: push(source.base))
        return
    push(source.base)
    writer.load_attribute(source.name)


def _fixed_attribute(name: str) -> Load:
    def load(source: Any, writer: Writer, push: PushBase, function: Any) -> None:
        push(source.base)
        writer.load_attribute(name)

    return load


def _subscript(writer: Writer, key: Any) -> None:
    """Index the tuple or plain dict on top."""
    writer.load_constant(key)
    writer.subscript()


def _positional(function: Any) -> int:
    return int(function.__code__.co_argcount + function.__code__.co_kwonlyargcount)


_LOADS: Final[dict[type, Load]] = {
    sources.Local: _local,
    sources.Function: _function,
    sources.Constant: _constant,
    sources.Global: _global,
    sources.Builtin: _builtin,
    sources.Closure: _closure,
    sources.ClosureCell: _cell,
    sources.CellContents: _fixed_attribute("cell_contents"),
    sources.DefaultOf: _default,
    sources.PartOf: _part,
    sources.Attribute: _attribute,
    sources.ClassAttribute: _class_attribute,
    sources.Member: _member,
    sources.InstanceDict: _fields,
    sources.Item: _item,
    sources.DequeItem: _deque_item,
    sources.Iterated: _iterated,
    sources.Storage: _storage,
    sources.Key: _key,
    sources.NthKey: _nth_key,
    sources.SizeOf: _size,
    sources.LeafOf: _leaf,
    sources.TensorOver: _over,
    sources.Contents: _contents,
    sources.TypeOf: _type,
    sources.MethodFunction: _fixed_attribute("__func__"),
    sources.MethodSelf: _fixed_attribute("__self__"),
}


def load(source: sources.Source, writer: Writer, push: PushBase, function: Any) -> None:
    """Append what pushes the value of `source`.

    Args:
        source: the place.
        writer: where to append.
        push: pushes the value of a base source.
        function: the function whose new code is written.

    Raises:
        InternalError: the source has no value to load.
    """
    handler = _LOADS.get(type(source))
    if handler is None:
        raise InternalError(f"emit({function.__qualname__}): cannot load {type(source).__name__}.")
    handler(source, writer, push, function)
