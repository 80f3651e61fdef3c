"""Cases of pointwise programs: chains, one function at a time, a broadcast."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks import c_loops, forms, programs
from benchmarks.case import Build, Case, Work, over_namespace, over_tensors

#: glibc keeps freed memory, so a fresh result costs no page faults. Source: mallopt(3).
TUNED_MALLOC: Final = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}

_EXPONENT: Final = 2.7


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of this group; the defaults are the table's."""

    chain: tuple[int, ...] = (1_000, 100_000, 10_000_000)
    arithmetic: int = 10_000_000
    function: int = 1_000_000
    broadcast: int = 3162


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A function of one number in the spelling of each family; None: it has none."""

    torch: Callable[[Any, Any], Any]
    jax: Callable[[Any, Any], Any] | None = None
    numpy: Callable[[Any], Any] | None = None


_FUNCTIONS: Final[Mapping[str, _Scalar]] = {
    "exp": _Scalar(lambda m, x: m.exp(x), numpy=np.exp),
    "tanh": _Scalar(lambda m, x: m.tanh(x), numpy=np.tanh),
    "log1p": _Scalar(lambda m, x: m.log1p(x), numpy=np.log1p),
    "erf": _Scalar(lambda m, x: m.erf(x), forms.jax_erf),
    "sin": _Scalar(lambda m, x: m.sin(x), numpy=np.sin),
    "pow": _Scalar(lambda m, x: m.pow(x, _EXPONENT), lambda m, x: m.power(x, _EXPONENT),
                   lambda x: np.power(x, np.float32(_EXPONENT))),
    "sigmoid": _Scalar(lambda m, x: m.sigmoid(x), forms.jax_sigmoid, forms.numpy_sigmoid),
    "gelu": _Scalar(lambda m, x: m.nn.functional.gelu(x, approximate="tanh"),
                    forms.jax_gelu_tanh, forms.numpy_gelu_tanh),
}  # fmt: skip


def cases(sizes: Sizes | None = None) -> list[Case]:
    """The rows."""
    sizes = sizes or Sizes()
    chains = [_chain(count, ratio) for count, ratio in zip(sizes.chain, (4, 3, 2.8), strict=True)]
    functions = [_function(name, scalar, sizes.function) for name, scalar in _FUNCTIONS.items()]
    arithmetic = _arithmetic(sizes.arithmetic, "", {})
    tuned = _arithmetic(sizes.arithmetic, ", tuned malloc", TUNED_MALLOC)
    return [*chains, arithmetic, tuned, *functions, _broadcast(sizes.broadcast)]


def _stream(count: int) -> Work:
    """Every element read once and written once, float32."""
    return Work(bytes=8 * count)


def _chain(count: int, ratio: float) -> Case:
    everywhere = over_namespace(programs.gelu_chain)
    plain = over_tensors(forms.numpy_gelu_chain)
    return Case(
        name=f"12-op GELU-like chain, {count:.0e}".replace("e+0", "e"),
        group="pointwise",
        inputs=lambda: (programs.normal(count),),
        builds={"torch": everywhere, "jax": everywhere, "numpy": plain, "numba": plain},
        work=_stream(count),
        ratio=ratio,
        asked="and JAX's speed",
    )


def _arithmetic(count: int, suffix: str, environment: Mapping[str, str]) -> Case:
    everywhere = over_namespace(programs.arithmetic)
    plain = over_tensors(forms.numpy_arithmetic)
    return Case(
        name=f"12 arithmetic ops, {count:.0e}{suffix}".replace("e+0", "e"),
        group="pointwise",
        inputs=lambda: (programs.normal(count),),
        builds={"torch": everywhere, "jax": everywhere, "numpy": plain, "numba": plain},
        work=_stream(count),
        ratio=None if environment else 4,
        asked="beside it: no page faults for anybody" if environment else "",
        environment=environment,
    )


def _function(name: str, scalar: _Scalar, count: int) -> Case:
    """Inputs from 0.05 to 4: every function is defined there, and none is saturated throughout."""
    builds: dict[str, Build] = {
        "torch": over_namespace(scalar.torch),
        "jax": over_namespace(scalar.jax or scalar.torch),
        "c": c_loops.loop_over(forms.LIBMVEC_BODIES[name]),
    }
    if scalar.numpy is not None:
        builds["numpy"] = over_tensors(scalar.numpy)
    return Case(
        name=f"{name}, {count:.0e}".replace("e+0", "e"),
        group="pointwise",
        inputs=lambda: (np.linspace(0.05, 4, count, dtype=np.float32),),
        builds=builds,
        work=_stream(count),
        ratio=1,
        asked="and the fastest of all, libmvec among them",
    )


def _broadcast(count: int) -> Case:
    everywhere = over_namespace(programs.broadcast)
    plain = over_tensors(forms.numpy_broadcast)
    return Case(
        name=f"broadcast ({count},1)x(1,{count})",
        group="pointwise",
        inputs=lambda: (programs.normal(count, 1), programs.normal(1, count, seed=1)),
        builds={"torch": everywhere, "jax": everywhere, "numpy": plain, "numba": plain},
        work=Work(bytes=4 * count * count),
        ratio=1.5,
    )
