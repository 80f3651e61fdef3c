"""Symbolic values: immutable handles on what the captured code computes with.

A handle of a mutable object carries an id into the heap (`capture.machine.heap`), where its
contents are. `source` says where a value that existed before can be loaded from (None: made by the
captured code). Facts about a value are guarded when an operation uses them, by `Recorder.use`.

One file per family: this one has the base and what is known by its Python object; see
`capture.values.containers`, `capture.values.tensors`, `capture.values.functions`,
`capture.values.objects`.
"""

from typing import Any, Final

from dynajit.core.records import record


class Value:
    """Base of all handles. Immutable; compared by identity unless `object_id` says otherwise."""

    __slots__ = ()

    @property
    def object_id(self) -> int | None:
        """Heap id, or None where the value has no contents of its own."""
        return None

    @property
    def python_type(self) -> type:
        """The class that `type(x)` would give."""
        raise NotImplementedError(type(self).__name__)


#: Types whose values are known by value: guarded by equality, reloaded as constants.
LITERAL_TYPES: Final = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis),
                        type(NotImplemented), range, frozenset)  # fmt: skip


@record(eq=False)
class Constant(Value):
    """A literal: its Python object says everything. Equality guard on use where it has a source."""

    value: Any
    source: Any = None

    @property
    def python_type(self) -> type:
        return type(self.value)

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


@record(eq=False)
class Known(Value):
    """An object known by identity: class, module, function, builtin, enum member, dtype, ...

    Identity guard on use where it has a source; reloaded from it, or as a constant.
    """

    object: Any
    source: Any = None

    @property
    def python_type(self) -> type:
        return type(self.object)

    @property
    def is_class(self) -> bool:
        """True for a class."""
        return isinstance(self.object, type)

    def __repr__(self) -> str:
        return f"Known({self.object!r})"


@record(eq=False)
class Opaque(Value):
    """An existing object of a class that is not modelled: may be passed on, not worked with."""

    object: Any
    source: Any

    @property
    def python_type(self) -> type:
        return type(self.object)

    def __repr__(self) -> str:
        return f"Opaque({type(self.object).__name__})"


@record(eq=False)
class Scalar(Value):
    """A run-time int or float: only its type is guarded, until a decision needs the value.

    Args:
        value: what it is in the call that is being captured.
        source: where it comes from; None for the result of arithmetic.
        expression: for a result: (symbol, operands); it is computed before the launch.
        symbolic: the integer expression (`core.types.symint`) of a size, or of an int used as one.
    """

    value: int | float
    source: Any = None
    expression: tuple[str, tuple["Scalar | Constant", ...]] | None = None
    symbolic: Any = None

    @property
    def size(self) -> int:
        """Number of operations needed to compute it again."""
        if self.expression is None:
            return 0
        return 1 + sum(part.size for part in self.expression[1] if isinstance(part, Scalar))

    @property
    def python_type(self) -> type:
        return type(self.value)


NONE: Final = Constant(None)
TRUE: Final = Constant(True)
FALSE: Final = Constant(False)
NOT_IMPLEMENTED: Final = Constant(NotImplemented)


def constant(value: Any) -> Constant:
    """The handle of a literal."""
    if value is None:
        return NONE
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    return Constant(value)


class _Unbound(Value):
    """A local or a cell that has no value (yet, or after `del`)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNBOUND"


UNBOUND: Final = _Unbound()
