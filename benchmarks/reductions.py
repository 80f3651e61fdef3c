"""Cases of reductions and norms: rows of 1024, whole arrays, first and last axes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import forms, programs
from benchmarks.case import Case, Work, over_namespace, over_tensors

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of this group; the defaults are the table's."""

    rows: Shape = (4096, 1024)
    sums: Shape = (8192, 4096)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row in the spelling of each family."""

    name: str
    ratio: float | None
    asked: str
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    numpy: Callable[..., Any]


_WHOLE = (
    _Row("softmax", 1.5, "never behind eager", lambda m, x: m.softmax(x, dim=-1),
         forms.jax_softmax, forms.numpy_softmax),
    _Row("layer norm", 2, "never behind eager",
         lambda m, x: m.nn.functional.layer_norm(x, (x.shape[-1],)),
         forms.jax_layer_norm, forms.numpy_layer_norm),
    _Row("RMS norm", 1.2, "never behind eager",
         lambda m, x: m.nn.functional.rms_norm(x, (x.shape[-1],), eps=1e-5),
         forms.jax_rms_norm, forms.numpy_rms_norm),
)  # fmt: skip

_SUMS = (
    _Row("sum last", None, "memory speed", lambda m, x: x.sum(-1),
         lambda m, x: x.sum(-1), lambda x: x.sum(-1)),
    _Row("sum first", None, "memory speed", lambda m, x: x.sum(0),
         lambda m, x: x.sum(0), lambda x: x.sum(0)),
    _Row("sum all", None, "memory speed", lambda m, x: x.sum(),
         lambda m, x: x.sum(), lambda x: x.sum()),
)  # fmt: skip

_READS = (
    _Row("argmax", 1, "NumPy's speed", lambda m, x: m.argmax(x, -1),
         lambda m, x: x.argmax(-1), lambda x: x.argmax(-1)),
    _Row("variance", 1.2, "", lambda m, x: m.var(x, -1),
         lambda m, x: x.var(-1, ddof=1), lambda x: x.var(-1, ddof=1)),
)  # fmt: skip


def cases(sizes: Sizes | None = None) -> list[Case]:
    """The rows."""
    sizes = sizes or Sizes()
    whole = [_case(row, sizes.rows, writes_all=True) for row in _WHOLE]
    sums = [_case(row, sizes.sums, writes_all=False) for row in _SUMS]
    reads = [_case(row, sizes.rows, writes_all=False) for row in _READS]
    return [*whole, _cross_entropy(sizes.rows), *sums, *reads]


def _case(row: _Row, shape: Shape, *, writes_all: bool) -> Case:
    size = 4 * shape[0] * shape[1]
    return Case(
        name=f"{row.name} {shape[0]}x{shape[1]}",
        group="reductions",
        inputs=lambda: (programs.normal(*shape),),
        builds={
            "torch": over_namespace(row.torch),
            "jax": over_namespace(row.jax),
            "numpy": over_tensors(row.numpy),
        },
        work=Work(bytes=2 * size if writes_all else size),
        ratio=row.ratio,
        asked=row.asked,
    )


def _cross_entropy(shape: Shape) -> Case:
    return Case(
        name=f"log-softmax + NLL {shape[0]}x{shape[1]}",
        group="reductions",
        inputs=lambda: (programs.normal(*shape), programs.classes(*shape)),
        builds={
            "torch": over_namespace(lambda m, x, y: m.nn.functional.cross_entropy(x, y)),
            "jax": over_namespace(forms.jax_cross_entropy),
            "numpy": over_tensors(forms.numpy_cross_entropy),
        },
        work=Work(bytes=4 * shape[0] * shape[1]),
        ratio=1.5,
    )
