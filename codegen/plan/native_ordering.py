"""Sorting orders as kernels of their own: which calls, and their sizes.

Contract: the operand is read where it lies, by its strides; positions are row-major. Positions are
those of a stable order, so a kernel's results are exactly those of the row.
"""

from collections.abc import Mapping
from typing import Any, Final

from dynajit.codegen.loops.loop_ir import Buffer, NativeKernel
from dynajit.codegen.plan.matrices import Strided
from dynajit.core.records import record
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import TensorType, ValueType, numel
from dynajit.ir.node import Node, type_of

NAMES: Final = ("argsort",)

MOST_DIMS: Final = 16
"""Dims besides the ordered one: DJ_ORDER_DIMS of headers/ordering.h."""


@record
class Keys:
    """How elements of a dtype are compared, in the words of headers/ordering.h.

    Args:
        function: gives the key of an element.
        key: C type of keys.
        place: unsigned C type of twice its width.
    """

    function: str
    key: str
    place: str


_NARROW: Final = ("int32_t", "uint64_t")
_WIDE: Final = ("int64_t", "unsigned __int128")
_KEYS: Final = {
    "float16": Keys("dj_key_f16", *_NARROW),
    "bfloat16": Keys("dj_key_bf16", *_NARROW),
    "float32": Keys("dj_key_f32", *_NARROW),
    "float64": Keys("dj_key_f64", *_WIDE),
    "int64": Keys("dj_key_long", *_WIDE),
}
_WHOLE: Final = Keys("dj_key_whole", *_NARROW)


def keys_of(dtype: DType) -> Keys:
    """How elements of a real dtype are compared."""
    return _KEYS.get(dtype.name, _WHOLE)


def why_not_ordering(given: ValueType | None) -> str | None:
    """Why the order of a tensor has no kernel of its own, or None if it has."""
    assert isinstance(given, TensorType)
    return "there are more than 17 dims." if given.rank > MOST_DIMS + 1 else None


def lower_ordering(
    name: str, node: Node, place: Strided | None, results: Mapping[Node, Buffer]
) -> NativeKernel:
    """The kernel of a planned call."""
    given: Any = type_of(node.args[0])
    assert isinstance(given, TensorType) and place is not None
    dim, stop = node.attributes["dim"], node.attributes["stop"]
    sizes, strides = _around(given.shape, dim), _around(place.strides, dim)
    size: Number = given.shape[dim] if given.shape else 1
    numbers: dict[str, tuple[Any, ...]] = {
        "size": (size,),
        "start": (node.attributes["start"] if given.shape else 0,),
        "stop": (size if stop is None or not given.shape else stop,),
        "step": (place.strides[dim] if given.shape else 1,),
        "offset": (place.offset,),
        "inner": (numel(given.shape[dim + 1 :]),),
        "dims": (len(sizes),),
        "is_descending": (int(node.attributes["descending"]),),
    }
    if sizes:
        numbers.update(sizes=sizes, strides=strides)
    return NativeKernel(name, "argsort", (place.buffer,), (results[node],), tuple(numbers.items()))


def _around(numbers: tuple[Number, ...], dim: int) -> tuple[Number, ...]:
    """Those of the other dims."""
    return numbers[:dim] + numbers[dim + 1 :]
