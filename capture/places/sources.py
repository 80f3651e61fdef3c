"""Sources: the place a captured value came from.

A source is a chain from a root (an argument slot, the called function, a constant) through steps
(attribute, item, key, closure cell, ...). It is frozen, hashable data with three readers: the C
guard evaluator follows `path`, reports print `expression()`, and `capture.emit.emit` reloads the
value by matching on the class. Equal sources name the same place.

Steps never run user code: no `__getattr__`, no property, no `__getitem__`. Where the real program
would run user code, capture inlines that code and uses the sources it touches.

Made by the executor, read by `capture.guards.guards`, `capture.emit.emit` and the reports.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import field
from types import ModuleType
from typing import Any, ClassVar, Final, TypeAlias

from dynajit.core.records import record
from dynajit.core.types.device import CPU, Device


class Step(enum.IntEnum):
    """How C gets from a base object to the next one; same numbers in `native/guards.h`."""

    SLOT = 0  # root: flat argument slot; argument: its index
    FUNCTION = 1  # root: the function that was called
    CONSTANT = 2  # root: argument: the object
    STATE = 3  # root: interpreter and library state; GRAD_MODE and AUTOCAST guards
    GLOBAL = 4  # function -> value of a name in its globals
    BUILTIN = 5  # function -> value of a name in its builtins, absent from its globals
    CLOSURE = 6  # function -> contents of a closure cell; argument: index
    DEFAULT = 7  # function -> positional default; argument: index
    KEYWORD_DEFAULT = 8  # function -> keyword-only default; argument: name
    ATTRIBUTE = 9  # object -> instance attribute, slot, or plain class attribute
    CLASS_ATTRIBUTE = 10  # object -> attribute of its class as stored there (no binding)
    ITEM = 11  # list or tuple -> item; argument: index
    KEY = 12  # dict -> value; argument: the key
    TYPE = 13  # object -> its class
    METHOD_FUNCTION = 14  # bound method -> its function
    METHOD_SELF = 15  # bound method -> the object it is bound to
    CELL = 16  # cell object -> its contents
    PART = 17  # function, class or descriptor -> a field of it; argument: name
    DICT = 18  # object -> its instance dict
    CLOSURE_CELL = 19  # function -> a closure cell itself; argument: index
    ITERATED = 20  # iterator over a list or tuple -> the list or tuple
    NTH_KEY = 21  # dict -> a key; argument: its place in the order of the dict
    MEMBER = 22  # class -> what it or a base stores, unbound; argument: name
    DEQUE_ITEM = 23  # deque -> item; argument: index
    CONTENTS = 24  # tensor of one dimension or none -> number; argument: index
    TENSOR_OVER = 25  # array or number of NumPy's -> a tensor over its memory, made anew


Path: TypeAlias = tuple[tuple[int, Any], ...]


@record
class Source:
    """Base class of all sources; use the subclasses."""

    step: ClassVar[Step | None] = None
    #: The field that is the step's operand for the C evaluator; None: it has none.
    operand: ClassVar[str | None] = None
    #: The expression, with the fields of `self` in braces.
    text: ClassVar[str]

    @property
    def parent(self) -> "Source | None":
        """The source this one is reached from, or None for a root."""
        return getattr(self, "base", None)

    @property
    def argument(self) -> Any:
        """The step's operand for the C evaluator."""
        return None if self.operand is None else getattr(self, self.operand)

    @property
    def path(self) -> Path:
        """Steps from the root: ((step, argument), ...). Only for sources that can be guarded."""
        steps = [(source.step, source.argument) for source in self.chain()]
        return tuple((int(step), argument) for step, argument in steps if step is not None)

    @property
    def root(self) -> "Source":
        """The first source of the chain."""
        return next(self.chain())

    @property
    def is_guardable(self) -> bool:
        """True if the C evaluator can reach the value before the compiled code runs."""
        source: Source | None = self
        while source is not None:
            if source.step is None:
                return False
            source = source.parent
        return True

    def chain(self) -> "Iterator[Source]":
        """The sources from the root to this one."""
        sources = [self]
        while (parent := sources[-1].parent) is not None:
            sources.append(parent)
        return reversed(sources)

    def expression(self) -> str:
        """Python text for reports, such as `self.layers['0'].weight`."""
        return self.text.format(self=self)

    def __str__(self) -> str:
        return self.expression()


# ---------------------------------------------------------------------------------------- roots


@record
class Local(Source):
    """An argument of the entry frame.

    Args:
        name: the parameter.
        index: its slot: position in `code.co_varnames` (positional, keyword-only, `*args`, `**kw`).
        passed_on: of `*args` and `**kw` that are passed on, what the function that gets them calls
            the first ones; reports use its names. None: nobody says so.
    """

    name: str
    index: int
    passed_on: tuple[str, ...] | None = field(default=None, compare=False)
    step: ClassVar[Step | None] = Step.SLOT
    operand: ClassVar[str | None] = "index"
    text: ClassVar[str] = "{self.name}"


@record
class Function(Source):
    """The called function itself (root of its globals, closure and defaults)."""

    name: str = "<function>"
    step: ClassVar[Step | None] = Step.FUNCTION
    text: ClassVar[str] = "{self.name}"


@record
class Constant(Source):
    """A known object: a module, class or function whose identity needs no further guard.

    Compared by identity of the object.
    """

    value: Any = field(compare=False)
    name: str | None = field(default=None, compare=False)
    identity: int = field(init=False, repr=False)
    step: ClassVar[Step | None] = Step.CONSTANT
    operand: ClassVar[str | None] = "value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", id(self.value))

    def expression(self) -> str:
        """The name it was given, its own name, or its repr."""
        if self.name is not None:
            return self.name
        if isinstance(self.value, ModuleType):
            return self.value.__name__
        if isinstance(self.value, type) or callable(self.value):
            return getattr(self.value, "__qualname__", None) or repr(self.value)
        return repr(self.value)


@record
class State(Source):
    """Library state outside any object: the grad mode."""

    step: ClassVar[Step | None] = Step.STATE
    text: ClassVar[str] = "dynajit"


@record
class RandomSeed(Source):
    """The seed of a device's generator, reserved when the compiled code is launched. Never
    guarded."""

    device: Device = CPU
    text: ClassVar[str] = "<random seed>"


@record
class RandomOffset(Source):
    """The first block number of a device's generator, reserved at launch. Never guarded.

    Args:
        blocks: how many blocks the region reserves in total (filled in at the end), or a
            function of the values of `sizes` that says it.
        sizes: see `blocks`.
        device: whose generator.
    """

    blocks: int | Callable[..., int] = 0
    sizes: tuple[Source, ...] = ()
    device: Device = CPU
    text: ClassVar[str] = "<random offset>"


@record
class Drawn(Source):
    """A random number of Python's, drawn from the generator `base` in front of the launch. Never
    guarded.

    Args:
        base: the generator.
        index: place among the draws of the region.
        method: that draws it.
    """

    base: Source
    index: int
    method: str = field(compare=False)

    def expression(self) -> str:
        """`generator.random()`."""
        if isinstance(self.base, MethodSelf):
            return f"{self.base.base.expression()}()"
        return f"{self.base.expression()}.{self.method}()"


@record
class Turn(Source):
    """A number that is another one in each turn of a loop which is captured as a loop. Never
    guarded: what it is in a turn, the loop's numbers say (`capture.tensors.turns`).

    Args:
        loop: tells the loops of a capture apart.
        name: the variable, or empty for the counter.
    """

    loop: int
    name: str

    def expression(self) -> str:
        """What it is, for messages."""
        return f"{self.name or 'the counter'} of a loop"


# --------------------------------------------------------------------------- steps on functions


@record
class Global(Source):
    """A global variable; `base` is the function whose `__globals__` holds it."""

    name: str
    base: Source = Function()
    step: ClassVar[Step | None] = Step.GLOBAL
    operand: ClassVar[str | None] = "name"

    def expression(self) -> str:
        """The bare name for the entry function, else `f.__globals__['name']`."""
        if isinstance(self.base, Function):
            return self.name
        return f"{self.base.expression()}.__globals__[{self.name!r}]"


@record
class Builtin(Source):
    """A builtin reached by name: absent from the function's globals, present in its builtins."""

    name: str
    base: Source = Function()
    step: ClassVar[Step | None] = Step.BUILTIN
    operand: ClassVar[str | None] = "name"
    text: ClassVar[str] = "builtins.{self.name}"


@record
class Closure(Source):
    """Contents of a closure cell of `base`: `base.__closure__[index].cell_contents`.

    Args:
        base: source of the function.
        index: position in `code.co_freevars`.
        name: the variable.
    """

    base: Source
    index: int
    name: str = field(default="", compare=False)
    step: ClassVar[Step | None] = Step.CLOSURE
    operand: ClassVar[str | None] = "index"

    def expression(self) -> str:
        """The variable's name for the entry function, else the full path."""
        if isinstance(self.base, Function) and self.name:
            return self.name
        return f"{self.base.expression()}.__closure__[{self.index}].cell_contents"


def free(name: str, index: int) -> Closure:
    """The contents of free variable `name` of the entry function."""
    return Closure(Function(), index, name)


@record
class ClosureCell(Source):
    """A closure cell of `base` as an object (not its contents).

    Args:
        base: source of the function.
        index: position in `code.co_freevars`.
    """

    base: Source
    index: int
    step: ClassVar[Step | None] = Step.CLOSURE_CELL
    operand: ClassVar[str | None] = "index"
    text: ClassVar[str] = "{self.base}.__closure__[{self.index}]"


@record
class CellContents(Source):
    """Contents of a cell object that `base` evaluates to."""

    base: Source
    step: ClassVar[Step | None] = Step.CELL
    text: ClassVar[str] = "{self.base}.cell_contents"


@record
class DefaultOf(Source):
    """A default value of `base`: `__defaults__[key]` (int) or `__kwdefaults__[key]` (str)."""

    base: Source
    key: int | str
    operand: ClassVar[str | None] = "key"

    @property
    def step(self) -> Step:  # type: ignore[override]
        """DEFAULT for a position, KEYWORD_DEFAULT for a name."""
        return Step.DEFAULT if isinstance(self.key, int) else Step.KEYWORD_DEFAULT

    def expression(self) -> str:
        """`f.__defaults__[0]` or `f.__kwdefaults__['name']`."""
        store = "__defaults__" if isinstance(self.key, int) else "__kwdefaults__"
        return f"{self.base.expression()}.{store}[{self.key!r}]"


@record
class PartOf(Source):
    """A field that Python shows as an attribute, kept neither in a dict nor in a slot.

    Of functions `__code__`, `__defaults__`, `__kwdefaults__`, `__name__`, `__qualname__`,
    `__doc__`, `__module__`, `__globals__`, `__builtins__`; of classes `__name__` and
    `__qualname__`; of properties `fget`, `fset`, `fdel`; of static and class methods `__func__`;
    of mapping proxies the mapping, and of classes made in Python the dict, which Python shows
    through proxies only.
    """

    base: Source
    name: str
    step: ClassVar[Step | None] = Step.PART
    operand: ClassVar[str | None] = "name"
    text: ClassVar[str] = "{self.base}.{self.name}"


# ----------------------------------------------------------------------------- steps on objects


@record
class Attribute(Source):
    """An attribute read without user code: instance dict, `__slots__`, or plain class attribute.

    `base` may also be a module (its dict) or a class (its MRO). Where the class has a property or
    another data descriptor of that name, or a `__get__` would bind, the place does not exist for
    the evaluator and guards on it fail.
    """

    base: Source
    name: str
    step: ClassVar[Step | None] = Step.ATTRIBUTE
    operand: ClassVar[str | None] = "name"
    text: ClassVar[str] = "{self.base}.{self.name}"


@record
class ClassAttribute(Source):
    """What the class of `base` stores under `name`, unbound: a function, property, constant."""

    base: Source
    name: str
    step: ClassVar[Step | None] = Step.CLASS_ATTRIBUTE
    operand: ClassVar[str | None] = "name"
    text: ClassVar[str] = "type({self.base}).{self.name}"


@record
class Member(Source):
    """What the class `base`, or a base of it, stores under `name`, unbound."""

    base: Source
    name: str
    step: ClassVar[Step | None] = Step.MEMBER
    operand: ClassVar[str | None] = "name"
    text: ClassVar[str] = "{self.base}.{self.name}"


@record
class Iterated(Source):
    """The list or tuple that the iterator `base` goes through."""

    base: Source
    step: ClassVar[Step | None] = Step.ITERATED
    text: ClassVar[str] = "{self.base}.__reduce__()[1][0]"


@record
class Storage(Source):
    """What the built-in base class of the instance `base` keeps in it. Guarded through `base`."""

    base: Source
    text: ClassVar[str] = "{self.base}"


@record
class InstanceDict(Source):
    """The `__dict__` of `base` as a dict object (reading it materialises the dict)."""

    base: Source
    step: ClassVar[Step | None] = Step.DICT
    text: ClassVar[str] = "{self.base}.__dict__"


@record
class Item(Source):
    """An item of a list or tuple (or a subclass): the storage is read, not `__getitem__`. Its index
    is not negative."""

    base: Source
    index: int
    step: ClassVar[Step | None] = Step.ITEM
    operand: ClassVar[str | None] = "index"

    def expression(self) -> str:
        """`base[index]`, or the name of an argument that is passed on."""
        names = self.base.passed_on if isinstance(self.base, Local) else None
        if names is not None and self.index < len(names):
            return names[self.index]
        return f"{self.base.expression()}[{self.index}]"


@record
class DequeItem(Item):
    """An item of a deque."""

    step: ClassVar[Step | None] = Step.DEQUE_ITEM


@record
class SizeOf(Source):
    """The size of dimension `dim` of the tensor `base`. Guarded by relations only."""

    base: Source
    dim: int
    text: ClassVar[str] = "{self.base}.shape[{self.dim}]"


@record
class Contents(Source):
    """A number that the tensor `base` holds, of one dimension at most, on the CPU.

    It is read in front of the launch: what it is then must be what the program reads.
    """

    base: Source
    index: int
    step: ClassVar[Step | None] = Step.CONTENTS
    operand: ClassVar[str | None] = "index"

    def expression(self) -> str:
        """`x.tolist()[index]`, or `x.item()` for the first."""
        base = self.base.expression()
        return f"{base}.tolist()[{self.index}]" if self.index else f"{base}.item()"


@record
class TensorOver(Source):
    """A tensor over the memory of an array of NumPy's, or over a copy of one of its numbers;
    reports speak of the array."""

    base: Source
    step: ClassVar[Step | None] = Step.TENSOR_OVER
    text: ClassVar[str] = "{self.base}"


@record
class LeafOf(Source):
    """A leaf that is made of the tensor `base` in front of the launch, and requires a gradient.
    Never guarded: what it is follows from the tensor.

    Args:
        base: whose memory it looks at.
        cls: of the leaf.
        number: tells the leaves of one tensor apart.
    """

    base: Source
    cls: type = field(compare=False)
    number: int
    text: ClassVar[str] = "{self.cls.__name__}({self.base})"


_PLAIN_KEYS: Final = (str, int, float, bool, type(None))


@record(eq=False)
class Key(Source):
    """A value of a dict (or a subclass): the storage is read, not `__getitem__`.

    Keys are compared with their type, so that 1, 1.0 and True are different places for reports
    (a dict holds only one of them); objects that are not numbers or strings compare by identity.

    Args:
        base: the dict.
        key: the key.
        found: where the key itself can be found, so that nothing need keep it alive; None: it is
            a constant.
    """

    base: Source
    key: Any
    found: Source | None = None
    step: ClassVar[Step | None] = Step.KEY
    operand: ClassVar[str | None] = "key"

    def _identity(self) -> tuple[Any, ...]:
        kind = type(self.key)  # a derived class may have a __hash__ of the user's
        return (self.base, kind, self.key if kind in _PLAIN_KEYS else id(self.key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def expression(self) -> str:
        """`base['key']`; entries of a module's registries read like the attribute they provide, and
        keywords that are passed on like the argument."""
        if isinstance(self.base, Local) and self.base.passed_on is not None:
            return str(self.key)
        if isinstance(self.base, Attribute) and isinstance(self.key, str):
            owner = self.base.base.expression()
            if self.base.name in ("_parameters", "_buffers", "_modules"):
                readable = self.key.isidentifier()
                return f"{owner}.{self.key}" if readable else f"{owner}[{self.key!r}]"
        is_object = self.found is not None and type(self.key) not in _PLAIN_KEYS
        key = self.found.expression() if is_object and self.found else repr(self.key)
        return f"{self.base.expression()}[{key}]"


@record
class NthKey(Source):
    """A key of a dict by its place in the dict's own order: an object that others keep alive."""

    base: Source
    index: int
    step: ClassVar[Step | None] = Step.NTH_KEY
    operand: ClassVar[str | None] = "index"
    text: ClassVar[str] = "list({self.base})[{self.index}]"


@record
class TypeOf(Source):
    """The class of `base`."""

    base: Source
    step: ClassVar[Step | None] = Step.TYPE
    text: ClassVar[str] = "type({self.base})"


@record
class MethodFunction(Source):
    """`__func__` of a bound method; of one of a built-in class the descriptor."""

    base: Source
    step: ClassVar[Step | None] = Step.METHOD_FUNCTION
    text: ClassVar[str] = "{self.base}.__func__"


@record
class MethodSelf(Source):
    """`__self__` of a bound method."""

    base: Source
    step: ClassVar[Step | None] = Step.METHOD_SELF
    text: ClassVar[str] = "{self.base}.__self__"
