"""`SparseTensor`: a tensor of positions and values (the COO layout), made of two ordinary tensors.

Contract: the indices are int64 of shape (sparse dims, n), the values of shape (n, *dense sizes),
both on one device; what one position is given more than once adds up. Such a tensor has no array:
everything is done with the two tensors by ordinary rows, so gradients, devices and dtypes are
theirs, and what has no meaning here refuses by name (`array` does, too, so nothing can take a
sparse tensor for a dense one). Rows come to `handle`, by the dispatch rule; `eager.sparse.rows`
says what each does. Loaded when the first sparse tensor is made: what runs without them asks for
`layout`.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NoReturn, TypeVar

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import ArgumentError, ShapeError, UnsupportedError
from dynajit.core.operators import BINARY
from dynajit.core.types.tensor_layouts import WHY_COMPRESSED, sparse_coo
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase
from dynajit.eager.operations import execute
from dynajit.eager.sparse.positions import keys, positions, summed, values_at, zeros
from dynajit.eager.sparse.rows import ROWS
from dynajit.eager.tape.node import MSG_SPARSE
from dynajit.eager.tensor.printing import format_sparse
from dynajit.eager.tensor.tensor import Size, Tensor
from dynajit.eager.tensor.typed_names import name_of
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.functions import published
from dynajit.ops.functions.arrangement.search import unique
from dynajit.ops.functions.elements.elementwise import nonzero
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Op
from dynajit.ops.table.overriding import disabled_torch_function

_S = TypeVar("_S", bound="SparseTensor")

MSG_DENSE: Final = (
    "{name}: not available for a sparse tensor.  Call .to_dense() first, or work on .indices() and "
    ".values() of .coalesce()."
)


def handle(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run `op`, one of whose operands is sparse.

    Raises:
        UnsupportedError: the row does not take such operands, or a graph is recorded.
    """
    is_foreign = any(is_tensor(x) and not isinstance(x, TensorBase) for x in inputs)
    if is_foreign or dispatch.default_handler() is not execute.handle:
        raise UnsupportedError(
            f"{op.name}: graphs have no sparse tensors.  Call .to_dense() before, or leave the "
            "function out of what is compiled, mapped or transformed."
        )
    run = ROWS.get(op)
    result = NotImplemented if run is None else run(*inputs, **attributes)
    if result is NotImplemented:
        raise UnsupportedError(MSG_DENSE.format(name=op.name))
    return result


class SparseTensor(Tensor):
    """See the module. Made by `made`, or for users by `sparse_coo_tensor` and `to_sparse`."""

    # Above those of graph values: a graph that meets one refuses it.
    __dynajit_priority__ = 500
    __dynajit_handler__ = staticmethod(handle)
    __torch_function__: ClassVar[Any] = disabled_torch_function
    _has_array = False

    _positions: Tensor
    _elements: Tensor
    _sizes: tuple[int, ...]
    _is_sorted: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> "SparseTensor":
        raise ArgumentError(
            f"{cls.__name__}(): expected sparse_coo_tensor(indices, values, size), or to_sparse() "
            "of a dense tensor."
        )

    # -- what it is --------------------------------------------------------------------------

    @property
    def array(self) -> NoReturn:
        """Refused: there is none."""
        raise UnsupportedError(MSG_DENSE.format(name="the elements of a tensor"))

    @array.setter
    def array(self, value: Any) -> NoReturn:
        raise UnsupportedError(MSG_DENSE.format(name="the elements of a tensor"))

    @property
    def shape(self) -> Size:
        """The size of each dimension: sparse ones first."""
        return Size(self._sizes)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._sizes)

    layout = sparse_coo

    @property
    def is_sparse(self) -> bool:
        """True."""
        return True

    def sparse_dim(self) -> int:
        """How many dimensions the indices give."""
        return int(self._positions.shape[0])

    def dense_dim(self) -> int:
        """How many dimensions each value has."""
        return len(self._elements.shape) - 1

    def _nnz(self) -> int:
        return int(self._positions.shape[1])

    def element_size(self) -> int:
        """Bytes of one value."""
        return self.dtype.itemsize

    def is_coalesced(self) -> bool:
        """Whether every position is there once, in order."""
        return self._is_sorted

    def indices(self) -> Tensor:
        """The positions, int64 (sparse dims, n), of a coalesced tensor.

        Raises:
            UnsupportedError: it is not coalesced.
        """
        self._require_coalesced("indices")
        return self._positions

    def values(self) -> Tensor:
        """The values, (n, *dense sizes), of a coalesced tensor; gradients flow through them.

        Raises:
            UnsupportedError: it is not coalesced.
        """
        self._require_coalesced("values")
        return self._elements

    def _require_coalesced(self, name: str) -> None:
        if not self._is_sorted:
            raise UnsupportedError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def _indices(self) -> Tensor:
        return self._positions

    def _values(self) -> Tensor:
        elements: Tensor = TABLE.detach(self._elements)
        return elements

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class by element type, such as "torch.sparse.FloatTensor"; or the tensor
        with another dtype."""
        if dtype is not None:
            return super().type(dtype, non_blocking)
        path, _, name = name_of(self.dtype, self.is_cuda).rpartition(".")
        return f"{path}.sparse.{name}"

    # -- gradients ---------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return bool(self._elements.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._elements.requires_grad = value

    @property
    def grad_fn(self) -> Any:
        """The tape node that made the values, or None."""
        return self._elements.grad_fn

    @property
    def is_leaf(self) -> bool:
        """Whether no tape node made the values."""
        return bool(self._elements.is_leaf)

    @property
    def _version(self) -> int:
        return int(self._elements._version)

    @property
    def grad(self) -> None:
        """None as long as no backward gave the values a gradient.

        Raises:
            UnsupportedError: one did.
        """
        if self._elements.grad is not None:
            raise UnsupportedError(MSG_SPARSE.format(name="grad"))

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            raise UnsupportedError(MSG_SPARSE.format(name="grad"))
        self._elements.grad = None

    @property
    def data(self) -> Tensor:
        """The same elements without history."""
        return self.like(self._elements.data)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, SparseTensor):
            raise ArgumentError(f"data: expected a sparse tensor, got {type(value).__name__}")
        elements = value._elements.data
        elements.requires_grad_(self.requires_grad)
        _fill(self, value._positions, elements, value._sizes, value._is_sorted)

    # -- tensors like this one ---------------------------------------------------------------

    def remade(
        self, where: Any, elements: Any, sizes: Sequence[int], is_coalesced: bool
    ) -> "SparseTensor":
        """A sparse tensor of other indices, values and sizes."""
        result: SparseTensor = made(SparseTensor, where, elements, sizes, is_coalesced)
        return result

    def like(self, elements: Any) -> "SparseTensor":
        """Other values at the same positions."""
        return self.remade(self._positions, elements, self._sizes, self._is_sorted)

    def zero_(self) -> "SparseTensor":
        """Forget all positions, in place, as `zero_grad(set_to_none=False)` does."""
        sparse, dense = self.sparse_dim(), self._elements.shape[1:]
        elements = zeros((0, *dense), self.dtype, self.device).requires_grad_(self.requires_grad)
        where = zeros((sparse, 0), self._positions.dtype, self.device)
        _fill(self, where, elements, self._sizes, True)
        return self

    # -- other forms -------------------------------------------------------------------------

    def coalesce(self) -> "SparseTensor":
        """Every position once, in order: values of one position are added; itself if it is so."""
        if self._is_sorted:
            return self
        found, inverse = unique(keys(self._positions, self.shape), return_inverse=True)
        elements = summed(self._elements, inverse, int(found.shape[0]))
        where = positions(found, self._sizes[: self.sparse_dim()])
        return self.remade(where, elements, self._sizes, True)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """The dense tensor (in another dtype); `masked_grad` changes no gradient of values."""
        sparse = self.sparse_dim()
        places = math.prod(self._sizes[:sparse])
        flat = summed(self._elements, keys(self._positions, self.shape), places)
        dense: Tensor = TABLE.reshape(flat, shape=self._sizes)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None) -> "SparseTensor":
        """The tensor itself.

        Raises:
            UnsupportedError: another number of sparse dims, or another layout, is asked for.
        """
        _require_coo(layout)
        if sparse_dim not in (None, self.sparse_dim()):
            raise UnsupportedError(
                f"to_sparse({sparse_dim}): the tensor has {self.sparse_dim()} sparse dims.  Call "
                f".to_dense().to_sparse({sparse_dim})."
            )
        return self

    to_sparse_coo = to_sparse

    # -- Python protocols --------------------------------------------------------------------

    def __repr__(self) -> str:
        return format_sparse(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SparseTensor":
        if id(self) in memo:
            known: SparseTensor = memo[id(self)]
            return known
        elements = copy.deepcopy(self._elements, memo)
        where = TABLE.clone(self._positions)
        copied = made(type(self), where, elements, self._sizes, self._is_sorted)
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(_own_fields(self), memo))
        return copied

    def __copy__(self) -> "SparseTensor":
        elements = self._elements
        shared = elements.detach().requires_grad_(elements.requires_grad) if self.is_leaf else (
            elements
        )  # fmt: skip
        return made(type(self), self._positions, shared, self._sizes, self._is_sorted)

    def __reduce_ex__(self, protocol: Any) -> Any:
        elements = self._elements if self.is_leaf else _cut_off(self._elements)
        state = (type(self), self._positions, elements, self._sizes, self._is_sorted)
        return made, state, _own_fields(self) or None


def _cut_off(elements: Any) -> Any:
    """Elements without their history."""
    return elements.detach().requires_grad_(elements.requires_grad)


_FIELDS: Final = frozenset({"_positions", "_elements", "_sizes", "_is_sorted"})


def _own_fields(x: SparseTensor) -> dict[str, Any]:
    """What users stored in the tensor by name."""
    return {name: value for name, value in vars(x).items() if name not in _FIELDS}


def made(cls: type[_S], where: Any, elements: Any, sizes: Sequence[int], is_coalesced: bool) -> _S:
    """A sparse tensor of class `cls` around its two tensors, which are as the module says.

    The part in C holds an array without elements, of the dtype and on the device of the values.
    """
    empty = any_arrays.zeros((0,), elements.dtype.numpy, elements.device)
    x = _tensor.new_of(cls, empty, None)
    _fill(x, where, elements, sizes, is_coalesced)
    return x


def _fill(
    x: "SparseTensor", where: Any, elements: Any, sizes: Sequence[int], is_coalesced: bool
) -> None:
    if (x.dtype, x.device) != (elements.dtype, elements.device):
        empty = any_arrays.zeros((0,), elements.dtype.numpy, elements.device)
        TensorBase.array.__set__(x, empty)
    x._positions, x._elements = where, elements
    x._sizes, x._is_sorted = tuple(sizes), is_coalesced or where.shape[1] < 2


# -- dense tensors as sparse ones -----------------------------------------------------------------


def _require_coo(layout: Any) -> None:
    if layout not in (None, sparse_coo):
        raise UnsupportedError(f"to_sparse(layout={layout!r}): {WHY_COMPRESSED}")


def to_sparse(self: Any, sparse_dim: int | None = None, *, layout: Any = None) -> SparseTensor:
    """What of a dense tensor is not 0, coalesced; gradients flow to those elements.

    Args:
        sparse_dim: how many dims, from the front, the indices give; None: all. A value is then the
            rest of the tensor at one position, kept unless all of it is 0.
        layout: None or `sparse_coo`.

    Raises:
        ShapeError: there are not so many dims.
        UnsupportedError: another layout is asked for.
    """
    _require_coo(layout)
    rank = len(self.shape)
    sparse = rank if sparse_dim is None else sparse_dim
    if not min(rank, 1) <= sparse <= rank:
        raise ShapeError(
            f"to_sparse({sparse}): expected a number of sparse dims from {min(rank, 1)} to {rank}, "
            f"the number of dims of the tensor."
        )
    is_kept = TABLE.ne(self.detach(), 0)
    if sparse < rank:
        is_kept = TABLE.any(is_kept, dim=tuple(range(sparse, rank)), keepdim=False)
    where = TABLE.permute(nonzero(is_kept), dims=(1, 0)).contiguous()
    return made(SparseTensor, where, values_at(self, where), tuple(self.shape), True)


def sparse_mask(self: Any, mask: Any) -> SparseTensor:
    """The elements of a dense tensor at the positions of the sparse tensor `mask`.

    Raises:
        ArgumentError: `mask` is not sparse.
        ShapeError: its size is another one.
    """
    if not isinstance(mask, SparseTensor):
        raise ArgumentError(
            f"sparse_mask(mask: {type(mask).__name__}): expected a sparse tensor as mask.  Make "
            "one with to_sparse()."
        )
    if tuple(self.shape) != mask._sizes:
        raise ShapeError(
            f"sparse_mask: expected a mask of size {tuple(self.shape)}, that of the tensor, got "
            f"{mask._sizes}."
        )
    return mask.like(values_at(self, mask._positions))


# -- what a sparse tensor refuses -----------------------------------------------------------------

#: Methods of `Tensor` that mean the same here, or that come down to rows of `eager.sparse.rows`:
#: those of functions that say so, and these.
_ALLOWED: Final = frozenset(
    (
        *(name for name, facts in published().items() if facts.sparse),
        "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "cpu", "cuda", "dim", "double",
        "float", "get_device", "half", "int", "long", "ndimension", "nelement", "requires_grad_",
        "short", "size", "to", "type_as",
    )
)  # fmt: skip
_PROTOCOLS: Final = (
    "__bool__", "__float__", "__int__", "__index__", "__complex__", "__iter__", "__getitem__",
    "__setitem__", "__contains__", "__array__", "__dlpack__", "__dlpack_device__", "__format__",
    *(f"__i{name}__" for name in BINARY),
)  # fmt: skip


def _refusing(name: str) -> Callable[..., NoReturn]:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(MSG_DENSE.format(name=name))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Refused: the tensor is sparse."
    return method


def _restrict() -> None:
    """Give the class methods that refuse in the place of those of `Tensor`."""
    public = (name for name in dir(Tensor) if name[0] != "_" and callable(getattr(Tensor, name)))
    for name in (*_PROTOCOLS, *public):
        if hasattr(Tensor, name) and name not in _ALLOWED and name not in vars(SparseTensor):
            setattr(SparseTensor, name, _refusing(name))
    for name in ("nbytes", "storage", "imag", "real", "H", "mH"):
        setattr(SparseTensor, name, property(_refusing(name)))


_restrict()
