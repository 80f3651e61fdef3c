"""`dynajit.special`: orthogonal polynomials, Airy's function, the spherical Bessel function.

Contract: polynomials of x, elementwise, of a degree that is a number, or of degrees in a tensor,
which need the contents (they break graphs). They are computed by their recurrences in float64 and
rounded once, so they have derivatives and fuse. A negative degree gives 0, a fraction of a degree
is cut off. Bool and integers give float32; 16-bit floats are refused, as by PyTorch.

Source: M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 22.7 and 10.1.11.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import UnsupportedError
from dynajit.core.process.optional import load
from dynajit.core.types import dtypes
from dynajit.ops.calls.arguments import (
    cast,
    common_dtype,
    constant,
    is_followed,
    is_tensor,
    require_tensor,
)
from dynajit.ops.calls.placing import as_computed
from dynajit.ops.calls.public import public
from dynajit.ops.functions.elements.number import floating
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

Start = Callable[[Any], Any]
Step = Callable[[Any, int, Any, Any], Any]


def _mul(a: Any, b: Any) -> Any:
    return TABLE.mul(a, b)


def _chebyshev_step(x: "TensorMethods", k: int, now: Any, before: Any) -> Any:
    return TABLE.sub(_mul(_mul(x, 2.0), now), before)


def _hermite_step(x: "TensorMethods", k: int, now: Any, before: Any) -> Any:
    return TABLE.sub(_mul(_mul(x, 2.0), now), _mul(before, 2.0 * k))


def _probabilists_step(x: "TensorMethods", k: int, now: Any, before: Any) -> Any:
    return TABLE.sub(_mul(x, now), _mul(before, float(k)))


def _laguerre_step(x: "TensorMethods", k: int, now: Any, before: Any) -> Any:
    risen = _mul(TABLE.sub(2.0 * k + 1.0, x), now)
    return TABLE.div(TABLE.sub(risen, _mul(before, float(k))), k + 1.0)


def _legendre_step(x: "TensorMethods", k: int, now: Any, before: Any) -> Any:
    risen = _mul(_mul(x, 2.0 * k + 1.0), now)
    return TABLE.div(TABLE.sub(risen, _mul(before, float(k))), k + 1.0)


_RECURRENCES: Final[dict[str, tuple[Start, Step]]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev_step),
    "chebyshev_polynomial_u": (lambda x: _mul(x, 2.0), _chebyshev_step),
    "chebyshev_polynomial_v": (lambda x: TABLE.sub(_mul(x, 2.0), 1.0), _chebyshev_step),
    "chebyshev_polynomial_w": (lambda x: TABLE.add(_mul(x, 2.0), 1.0), _chebyshev_step),
    "hermite_polynomial_h": (lambda x: _mul(x, 2.0), _hermite_step),
    "hermite_polynomial_he": (lambda x: x, _probabilists_step),
    "laguerre_polynomial_l": (lambda x: TABLE.sub(1.0, x), _laguerre_step),
    "legendre_polynomial_p": (lambda x: x, _legendre_step),
}
"""The polynomial of degree 1, and how that of degree k + 1 follows from those of k and k - 1."""


def _polynomials(name: str, x: Any) -> Iterator[Any]:
    """Those of degree 0, 1, 2, ... at float64 x."""
    start, step = _RECURRENCES[name]
    before = TABLE.add(_mul(x, 0.0), 1.0)  # NaN stays NaN
    now = start(x)
    yield before
    k = 1
    while True:
        yield now
        before, now, k = now, step(x, k, now, before), k + 1


def _evaluated(name: str, x: Any, n: Any, call: str, is_shifted: bool) -> Any:
    if not is_tensor(x):
        place = require_tensor(n, call).device
        x = TABLE.full(x, shape=(), dtype=dtypes.default_floating(), device=place)
    meeting = common_dtype((x, n))
    dtype = meeting if meeting.is_floating_point else floating(x).dtype
    if dtype.itemsize < 4 or dtype.is_complex:
        raise UnsupportedError(f'"{call}_cpu" not implemented for {dtype.name}.  Convert it first.')
    place = cast(x, dtypes.float64)
    if is_shifted:
        place = TABLE.sub(_mul(place, 2.0), 1.0)
    if not is_tensor(n):
        return cast(_of_degree(name, place, int(n)), dtype)
    degrees = np.trunc(any_arrays.as_numpy(n.detach().array).astype(np.float64))
    chosen = constant(degrees, n.device)
    result = TABLE.mul(TABLE.add(place, chosen), 0.0)
    for degree in sorted({int(one) for one in np.unique(degrees) if one >= 0}):
        value = _of_degree(name, place, degree)
        result = TABLE.where(TABLE.eq(chosen, float(degree)), value, result)
    return as_computed(cast(result, dtype), x, n)


def _of_degree(name: str, x: Any, degree: int) -> Any:
    if degree < 0:
        return _mul(x, 0.0)
    polynomials = _polynomials(name, x)
    for _ in range(degree):
        next(polynomials)
    return next(polynomials)


def _function(name: str, is_shifted: bool = False) -> Callable[[Any, Any], Any]:
    call = f"shifted_{name}" if is_shifted else name

    def function(input: Any, n: Any) -> Any:
        return _evaluated(name, input, n, call, is_shifted)

    function.__name__ = function.__qualname__ = call
    family = call.replace("_polynomial_", " polynomials ").replace("shifted_", "shifted ")
    function.__doc__ = f"The {family} of degree n; see the top of the module."
    return function


chebyshev_polynomial_t = public("special")(_function("chebyshev_polynomial_t"))
chebyshev_polynomial_u = public("special")(_function("chebyshev_polynomial_u"))
chebyshev_polynomial_v = public("special")(_function("chebyshev_polynomial_v"))
chebyshev_polynomial_w = public("special")(_function("chebyshev_polynomial_w"))
hermite_polynomial_h = public("special")(_function("hermite_polynomial_h"))
hermite_polynomial_he = public("special")(_function("hermite_polynomial_he"))
laguerre_polynomial_l = public("special")(_function("laguerre_polynomial_l"))
legendre_polynomial_p = public("special")(_function("legendre_polynomial_p"))
shifted_chebyshev_polynomial_t = public("special")(
    _function("chebyshev_polynomial_t", is_shifted=True)
)
shifted_chebyshev_polynomial_u = public("special")(
    _function("chebyshev_polynomial_u", is_shifted=True)
)
shifted_chebyshev_polynomial_v = public("special")(
    _function("chebyshev_polynomial_v", is_shifted=True)
)
shifted_chebyshev_polynomial_w = public("special")(
    _function("chebyshev_polynomial_w", is_shifted=True)
)


@public("special")
def airy_ai(x: "TensorMethods") -> Any:
    """Airy's function Ai, by SciPy; needs the contents, and has no derivative here.

    Raises:
        UnsupportedError: SciPy is not installed, x has 16-bit floats, or requires a gradient.
    """
    dtype = floating(x).dtype
    if dtype.itemsize < 4 or dtype.is_complex:
        raise UnsupportedError(
            f'"airy_ai_cpu" not implemented for {dtype.name}.  Convert it first.'
        )
    if is_followed(x):
        raise UnsupportedError(
            "the derivative for special_airy_ai is not implemented.  detach() x."
        )
    module = load("scipy.special", needed_for="special.airy_ai", install="scipy")
    array = any_arrays.as_numpy(x.array).astype(np.float64)
    found = np.where(np.isfinite(array), module.airy(array)[0], np.nan)
    return constant(found.astype(dtype.numpy), x.device)


@public("special")
def spherical_bessel_j0(x: "TensorMethods") -> Any:
    """sin(x) / x; 1 at 0, and 0 at infinity.

    Raises:
        UnsupportedError: x has 16-bit floats.
    """
    given = floating(x)
    if given.dtype.itemsize < 4 or given.dtype.is_complex:
        raise UnsupportedError(
            f'"spherical_bessel_j0_cpu" not implemented for {given.dtype.name}.  Convert it first.'
        )
    is_plain = TABLE.logical_and(TABLE.ne(given, 0), TABLE.logical_not(TABLE.isinf(given)))
    inside = TABLE.where(is_plain, given, 1.0)
    at_ends = TABLE.where(TABLE.eq(given, 0), 1.0, 0.0)
    return TABLE.where(is_plain, TABLE.div(TABLE.sin(inside), inside), cast(at_ends, given.dtype))


__all__ = [
    "airy_ai",
    *_RECURRENCES,
    *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    "spherical_bessel_j0",
]
