"""`dynajit.special`: gamma, error and Bessel functions, entropies and the normal distribution.

Contract: the first parameter is the tensor; bool and integers give float32. Gamma functions fuse in
compiled graphs; what SciPy computes (`ops.rows.special`) does not.
"""

import math
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.ops.calls.arguments import require_tensor, size, with_integers
from dynajit.ops.calls.placing import contiguous
from dynajit.ops.calls.public import InPlace, public
from dynajit.ops.functions.elements.elementwise import named, sigmoid
from dynajit.ops.functions.elements.number import floating, pair
from dynajit.ops.table.op_table import TABLE


def _unary(name: str) -> Callable[[Any], Any]:
    row = TABLE[name]

    def function(input: Any) -> Any:
        return row(require_tensor(input, name))

    return named(function, name, row)


def _binary(name: str) -> Callable[[Any, Any], Any]:
    row = TABLE[name]

    def function(input: Any, other: Any) -> Any:
        return row(*pair(input, other))

    return named(function, name, row)


bessel_j0 = public("special")(_unary("bessel_j0"))
bessel_j1 = public("special")(_unary("bessel_j1"))
bessel_y0 = public("special")(_unary("bessel_y0"))
bessel_y1 = public("special")(_unary("bessel_y1"))
erfcx = public("special")(_unary("erfcx"))
erfinv = public(also=("special.erfinv",), in_place=InPlace.METHOD, method=True)(_unary("erfinv"))
i0 = modified_bessel_i0 = public(
    also=(
        "special.i0",
        "special.modified_bessel_i0",
    ),
    in_place=InPlace.BOTH,
    method=True,
)(_unary("i0"))
i0e = public("special")(_unary("i0e"))
i1 = modified_bessel_i1 = public("special", also=("special.modified_bessel_i1",))(_unary("i1"))
i1e = public("special")(_unary("i1e"))
lgamma = gammaln = public(
    also=("special.gammaln",), in_place=InPlace.METHOD, foreach=True, method=True
)(_unary("lgamma"))
log_ndtr = public("special")(_unary("log_ndtr"))
modified_bessel_k0 = public("special")(_unary("modified_bessel_k0"))
modified_bessel_k1 = public("special")(_unary("modified_bessel_k1"))
ndtri = public("special")(_unary("ndtri"))
scaled_modified_bessel_k0 = public("special")(_unary("scaled_modified_bessel_k0"))
scaled_modified_bessel_k1 = public("special")(_unary("scaled_modified_bessel_k1"))
igamma = gammainc = public(also=("special.gammainc",), in_place=InPlace.METHOD, method=True)(
    _binary("igamma")
)
igammac = gammaincc = public(also=("special.gammaincc",), in_place=InPlace.METHOD, method=True)(
    _binary("igammac")
)
zeta = public("special")(_binary("zeta"))
expit = sigmoid


@public(
    also=(
        "special.digamma",
        "special.psi",
    ),
    in_place=InPlace.METHOD,
    method=True,
)
def digamma(input: Any) -> Any:
    """Derivative of the logarithm of the gamma function."""
    return TABLE.polygamma(require_tensor(input, "digamma"), n=0)


psi = digamma


@public(also=("special.polygamma",), in_place=InPlace.METHOD)
def polygamma(n: Any, input: Any) -> Any:
    """n-th derivative of digamma.

    Raises:
        ShapeError: n is negative.
    """
    n = size(n, "polygamma")
    if n < 0:
        raise ShapeError(f"polygamma(n, x) does not support negative n, got {n}.")
    return TABLE.polygamma(input, n=n)


def polygamma_method(input: Any, n: Any) -> Any:
    """`polygamma(n, input)`."""
    return polygamma(n, input)


@public("special", name="multigammaln", also=("mvlgamma",), in_place=InPlace.METHOD, method=True)
@with_integers
def multigammaln(input: Any, p: int) -> Any:
    """Logarithm of the multivariate gamma function of dimension p.

    Raises:
        ShapeError: p is less than 1.
    """
    if p < 1:
        raise ShapeError("p has to be greater than or equal to 1")
    if input.dtype.name == "bool":
        raise DTypeError("mvlgamma: bool is refused.  Expected a numeric dtype.")
    x = floating(input)
    total: Any = 0.25 * p * (p - 1) * math.log(math.pi)
    for i in range(p):
        total = TABLE.add(TABLE.lgamma(TABLE.sub(x, 0.5 * i)), total)
    return contiguous(total)


mvlgamma = multigammaln


@public("special")
def entr(input: Any) -> Any:
    """-x * log(x); 0 at 0 and -inf below."""
    return TABLE.entr(input)


@public("special")
def ndtr(input: Any) -> Any:
    """The normal distribution function: the part of it that lies below each element."""
    x = TABLE.mul(floating(input), -math.sqrt(0.5))
    return TABLE.mul(TABLE.erfc(x), 0.5)
