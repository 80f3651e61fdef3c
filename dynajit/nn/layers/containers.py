"""Modules that hold modules or parameters, by number or by name."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from dynajit.core.errors import ArgumentError, BoundsError, InvalidValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter


def _position(index: Any, length: int, what: str) -> int:
    """A checked non-negative position from an index that may be negative."""
    number = operator.index(index)
    if not -length <= number < length:
        raise BoundsError(
            f"index {number} is out of range: the {what} has {length} entries.  "
            f"Expected {-length} <= index < {length}."
        )
    return number % length if length else 0


class _Numbered(Module):
    """What containers of modules called "0", "1", ... share."""

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Any: ...

    def append(self, module: Any) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> Any:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Any) -> Any:
        """Put a module before position `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: int) -> Any:
        """Take out and return the module at a position."""
        module = self[key]
        del self[key]
        return module

    def _renumber(self, modules: Iterable[Any]) -> None:
        self._modules.clear()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __delitem__(self, index: Any) -> None:
        modules = list(self._modules.values())
        if not isinstance(index, slice):
            index = _position(index, len(self), type(self).__name__)
        del modules[index]
        self._renumber(modules)


def _times(number: Any) -> int:
    """How often modules are repeated.

    Raises:
        ArgumentError: not an integer.
        InvalidValueError: not positive.
    """
    if not isinstance(number, int):
        raise ArgumentError(
            f"unsupported operand type(s) for *: 'Sequential' and '{type(number).__name__}'.  "
            "Expected how often its modules are repeated."
        )
    if number <= 0:
        raise InvalidValueError(f"Sequential * {number}: expected a positive number.")
    return number


class Sequential(_Numbered):
    """Modules called one after the other.

    Args:
        args: modules in order, or one ordered dict from name to module.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def insert(self, index: int, module: Any) -> Any:
        """Put a module before position `index`, or at the end.

        Raises:
            BoundsError: there is no such position.
        """
        if not -len(self) <= index <= len(self):
            raise BoundsError(
                f"insert({index}): the Sequential has {len(self)} entries.  Expected "
                f"{-len(self)} <= index <= {len(self)}."
            )
        return super().insert(index, module)

    def forward(self, input: Any) -> Any:
        """The last module's output."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _name(self, index: Any) -> str:
        return list(self._modules)[_position(index, len(self), "Sequential")]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._name(index), module)

    def extend(self, sequential: Iterable[Any]) -> "Sequential":
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def __add__(self, other: "Sequential") -> "Sequential":
        if not isinstance(other, Sequential):
            raise InvalidValueError(
                f"Sequential + {type(other).__name__}: expected another Sequential."
            )
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> "Sequential":
        """The same modules, one after the other, so many times."""
        return Sequential(*list(self) * _times(times))

    def __rmul__(self, times: int) -> "Sequential":
        return self * times

    def __imul__(self, times: int) -> "Sequential":
        return self.extend(list(self) * (_times(times) - 1))


class ModuleList(_Numbered):
    """A list of modules, registered in order.

    Args:
        modules: the first entries.
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_position(index, len(self), "ModuleList"))]

    def __setitem__(self, index: Any, module: Any) -> None:
        setattr(self, str(_position(index, len(self), "ModuleList")), module)

    def __iadd__(self, modules: Iterable[Any]) -> "ModuleList":
        return self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> "ModuleList":
        return ModuleList(chain(self, other))

    def __contains__(self, module: object) -> bool:
        return any(module is entry for entry in self)

    def _children_in_repr(self) -> list[str]:
        """One text for equal ones in a row."""
        found, first = [], 0
        for text, group in groupby(map(repr, self)):
            count = len(list(group))
            last = first + count - 1
            found.append(
                f"({first}-{last}): {count} x {text}" if last > first else f"({first}): {text}"
            )
            first = last + 1
        return found


class ModuleDict(Module):
    """A dict of modules, in insertion order.

    Args:
        modules: a mapping or pairs of name and module.
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules: Any) -> None:
        """Add or replace entries from a mapping or pairs."""
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for name, module in pairs:
            self[name] = module

    def pop(self, key: str) -> Any:
        """Take out and return an entry."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Take out every entry."""
        self._modules.clear()

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """(name, module) pairs."""
        return self._modules.items()

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules


class ParameterList(Module):
    """A list of parameters (tensors are wrapped) and of any other values, lists like it among them.

    Args:
        values: the first entries.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def append(self, value: Any) -> "ParameterList":
        """Add a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> "ParameterList":
        """Add values at the end.

        Raises:
            TypeError: `values` is a tensor, or not iterable.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            kind = type(values).__name__
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {kind}"
            )
        for value in values:
            self.append(value)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: there is nothing to compute."""
        raise RuntimeError("ParameterList should not be called.")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, str(_position(index, len(self), "ParameterList")))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, str(_position(index, len(self), "ParameterList")), _entry(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> "ParameterList":
        return self.extend(values)

    def extra_repr(self) -> str:
        """One line per entry, for repr."""
        entries = enumerate(self)
        return "\n".join(f"  ({key}): {_described(value, 'dtype')}" for key, value in entries)


class ParameterDict(Module):
    """A dict of parameters (tensors are wrapped) and of any other values.

    Order: a plain mapping's entries are entered by name, those of an ordered dict, a ParameterDict
    or pairs as they come.

    Args:
        parameters: a mapping or pairs of name and value.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def update(self, parameters: Any) -> None:
        """Add or replace entries from a mapping or pairs.

        Raises:
            TypeError: `parameters` or one of its entries is not iterable.
            ValueError: an entry of an iterable is not a pair.
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParameterDict.update: expected a mapping or pairs, "
                f"got {type(parameters).__name__}"
            )
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs: Iterable[Any] = list(parameters.items())
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = (_pair(place, entry) for place, entry in enumerate(parameters))
        for key, value in pairs:
            self[key] = value

    def copy(self) -> "ParameterDict":
        """A ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """A ParameterDict in which every one of `keys` has the value `default`."""
        return ParameterDict((key, default) for key in keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` where there is none."""
        return self[key] if key in self else default  # noqa: SIM401

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, which is `default` from now on where there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take out and return the value of `key`."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out and return the entry that was entered last.

        Raises:
            KeyError: there is none.
        """
        if not self._keys:
            raise KeyError("popitem: the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Take out every entry."""
        for key in list(self._keys):
            del self[key]

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def values(self) -> Any:
        """The values."""
        return (self[key] for key in self._keys)

    def items(self) -> Any:
        """(name, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: there is nothing to compute."""
        raise RuntimeError("ParameterDict should not be called.")

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _checked_key(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _checked_key(key), _entry(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: "ParameterDict") -> "ParameterDict":
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other: Any) -> Any:
        both = other.copy()
        both.update(self)
        return both

    def __ior__(self, other: "ParameterDict") -> "ParameterDict":
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """One line per entry, for repr."""
        return "\n".join(f"  ({key}): {_described(value)}" for key, value in self.items())


def _checked_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a ParameterDict is a string, got {type(key).__name__}")
    return key


def _pair(place: int, entry: Any) -> Any:
    if not isinstance(entry, Iterable):
        raise TypeError(
            f"ParameterDict.update: entry {place} should be a pair, is {type(entry).__name__}"
        )
    if len(entry) != 2:  # type: ignore[arg-type]
        raise ValueError(
            f"ParameterDict.update: entry {place} has length {len(entry)}; 2 is required"  # type: ignore[arg-type]
        )
    return entry


def _described(value: Any, kind: str = "type") -> str:
    """Args: kind: how elements are called: by "dtype", or by the "type" of tensor that has them."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    sizes = "x".join(str(size) for size in value.shape)
    place = f" ({value.device})" if value.device.type == "cuda" else ""
    elements = value.type() if kind == "type" else value.dtype
    return f"Parameter containing: [{elements} of size {sizes}{place}]"


def _entry(value: Any) -> Any:
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value
