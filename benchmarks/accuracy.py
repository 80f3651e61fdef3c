"""Largest errors of the scalar functions of generated C, in ULP: `python -m benchmarks.accuracy`.

Every unary scalar function of `dynajit.ops.table.scalar` is compiled as kernels are and compared
with the
C library in a wider format: float32 with double over every N-th of all bit patterns, float64 with
long double over random samples; both also over all neighbours of edges. `--write docs/accuracy.md`
writes the table of the documentation. `tests/test_accuracy.py` measures coarsely.
"""

import argparse
import ctypes
import functools
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from dynajit.codegen._runtime import Library
from dynajit.codegen.c import prelude as c_prelude
from dynajit.codegen.compilers import toolchain
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops.table.scalar import OF_LIBRARY, SCALARS, SUFFIX, Result, Scalar, spell

STRIDE = 61
"""Every 61st bit pattern: 70 million floats, all exponents, both signs."""

SAMPLES = 500_000
"""Random doubles of each kind."""

LIMIT_ULP = 4.0

EDGE = 2048
"""Neighbours on each side of every power of two and of every edge."""

CHUNK = 1 << 20

REFERENCES = {
    "abs": "fabs{l}(x)",
    "neg": "-x",
    "sign": "(x > 0) - (x < 0)",
    "rsqrt": "1 / sqrt{l}(x)",
    "reciprocal": "1 / x",
    "round": "rint{l}(x)",
    "isnan": "x != x",
    "isinf": "fabs{l}(x) == INFINITY",
    "isfinite": "fabs{l}(x) < INFINITY",
    "logical_not": "x == 0",
}
"""What the wider format computes where it is not the C function of the same name."""

NEAR = ("sin", "cos", "tan")
"""Functions for which kernels take a polynomial while all operands of a block are small."""

POSITIVE = ("lgamma", dtypes.float64)
"""For which they take one while all are positive."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What was measured of one function.

    Args:
        name: as in `ops/table/scalar.py`.
        dtype: of operand and result.
        made: "polynomial", "C library" or "instructions".
        points: operands compared.
        ulp: the largest error, in units of the last place of the exact value.
        where: the operand of the largest error.
        wrong: results that are NaN, infinite or -0 where the exact one is not, or vice versa.
    """

    name: str
    dtype: DType
    made: str
    points: int
    ulp: float
    where: float
    wrong: int


def functions() -> tuple[str, ...]:
    """Names of the unary scalar functions of floating operands that the C library has."""
    return tuple(
        name
        for name, row in SCALARS.items()
        if name in OF_LIBRARY and _is_unary(row) and row.result is not Result.GIVEN
    )


def _is_unary(row: Scalar) -> bool:
    return row.arity == 1 and row.floating is not None and row.kernels is None


def _how(name: str, dtype: DType) -> str:
    helper = f"dj_{name}_{SUFFIX[dtype.name]}"
    if name == "sign" or not spell(name, dtype, "c", "x").startswith(helper):
        return "instructions"
    if helper in c_prelude.defined_in(c_prelude.VECTOR_HEADERS):
        return "polynomial"
    if (name, dtype) == POSITIVE:
        return "polynomial above 0, else C library"
    return "polynomial to 65536, then C library" if name in NEAR else "C library"


def _value(name: str, dtype: DType) -> str:
    """The C expression that kernels use for a function of x."""
    text = spell(name, dtype, "c", "x")
    suffix = SUFFIX[dtype.name]
    if (name, dtype) == POSITIVE:
        return f"(dj_lgamma_is_far_f64(x) ? {text} : dj_lgamma_near_f64(x))"
    if name not in NEAR:
        return text
    return f"(fabs(x) <= DJ_NEAR ? dj_{name}_near_{suffix}(x) : {text})"


_MEASURE = """
void measure_{name}_{s}(const {t} *given, long n, double *worst, {t} *where, int64_t *wrong) {{
    static {t} value[{chunk}];
    #pragma omp simd
    for (long i = 0; i < n; i++) {{
        const {t} x = given[i];
        value[i] = ({t})({value});
    }}
    for (long i = 0; i < n; i++) {{
        const {wide} x = given[i], exact = {reference};
        const {t} y = value[i];
        if (exact != exact || y != y) {{
            *wrong += (exact != exact) != (y != y);
            continue;
        }}
        if (isinf(exact)) {{
            *wrong += y != ({t})exact;
            continue;
        }}
        *wrong += exact == 0 && (y != 0 || !signbit(y) != !signbit(exact));
        int exponent = exact == 0 ? {least} : ilogb{l}(exact) - {digits};
        {wide} ulp = ldexp{l}(1, exponent < {least} ? {least} : exponent);
        {wide} got = isinf(y) ? copysign{l}(ldexp{l}(1, {limit}), y) : y;
        {wide} far = fabs{l}(exact) >= ldexp{l}(1, {limit}) && isinf(y) && (y > 0) == (exact > 0);
        double error = far ? 0 : (double)(fabs{l}(got - exact) / ulp);
        if (error > *worst) *worst = error, *where = given[i];
    }}
}}
"""


def _source(dtype: DType) -> str:
    narrow = dtype is dtypes.float32
    parts = []
    for name in functions():
        letter = "" if narrow else "l"
        parts.append(
            _MEASURE.format(
                name=name,
                s=SUFFIX[dtype.name],
                t=dtype.c,
                wide="double" if narrow else "long double",
                l=letter,
                chunk=CHUNK,
                value=_value(name, dtype),
                reference=REFERENCES.get(name, name + "{l}(x)").format(l=letter),
                least=-149 if narrow else -1074,
                digits=23 if narrow else 52,
                limit=128 if narrow else 1024,
            )
        )
    text = "\n".join(parts)
    return "\n".join((c_prelude.prelude(text), text))


@functools.cache
def _library(dtype: DType) -> Library:
    return toolchain.build(_source(dtype)).library


_FUNCTION: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_long, ctypes.POINTER(ctypes.c_double), ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_int64),
)  # fmt: skip


def _edges(dtype: DType, edge: int) -> np.ndarray:
    """Neighbours of powers of two, of 0, of the infinities, of the ends of domains."""
    narrow = dtype is dtypes.float32
    bits: Any = np.uint32 if narrow else np.uint64
    powers = np.arange(256 if narrow else 2048, dtype=bits) << bits(23 if narrow else 52)
    turns = (np.arange(1, 41722, 97) * (np.pi / 2)).astype(dtype.numpy).view(bits)
    ends = np.array(
        [88.72284, 103.97208, 89.41599, 709.782712893384, 745.1332, 710.4758600739439, 127.5,
         149.5, 1023.5, 1074.5, 0.5, 1.5, 3.9, 9.1, 10.05, 26.5, 2.5, 35.04, 171.6],
        dtype.numpy,
    ).view(bits)  # fmt: skip
    near = np.arange(-edge, edge, dtype=np.int64).astype(bits)
    few = near[edge - 16 : edge + 16]
    found = [(powers[:, None] + near).ravel(), (ends[:, None] + near).ravel()]
    both = np.concatenate([*found, (turns[:, None] + few).ravel()])
    sign = bits(1) << bits(31 if narrow else 63)
    return np.concatenate([both, both ^ sign]).view(dtype.numpy)


def operands(dtype: DType, stride: int, samples: int, edge: int) -> Iterator[np.ndarray]:
    """All numbers to compare, in chunks.

    Args:
        dtype: float32 or float64.
        stride: every how many-th bit pattern of float32.
        samples: random doubles of each kind.
        edge: neighbours on each side of an edge, at least 16.
    """
    edges = _edges(dtype, edge)
    yield from (edges[start : start + CHUNK] for start in range(0, edges.size, CHUNK))
    if dtype is dtypes.float32:
        for start in range(0, 2**32, CHUNK * stride):
            stop = min(start + CHUNK * stride, 2**32)
            found = np.arange(start, stop, stride, dtype=np.uint64)
            yield found.astype(np.uint32).view(np.float32)
        return
    random = np.random.default_rng(0)
    for start in range(0, samples, CHUNK):
        count = min(CHUNK, samples - start)
        yield random.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
        yield random.standard_normal(count) * 2.0 ** random.uniform(-12, 12, count)
        yield random.uniform(-1, 1, count)
        yield 1 + random.standard_normal(count) * 2.0 ** random.uniform(-50, 0, count)


def measure(
    name: str, dtype: DType, stride: int = STRIDE, samples: int = SAMPLES, edge: int = EDGE
) -> Accuracy:
    """The largest error of one function.

    Args:
        name: one of `functions()`.
        dtype: float32 or float64.
        stride, samples, edge: see `operands`.

    Raises:
        ToolchainError: there is no C compiler.
    """
    library = _library(dtype)  # held while its function runs
    run = _FUNCTION(library.address(f"measure_{name}_{SUFFIX[dtype.name]}"))
    worst, wrong = ctypes.c_double(0), ctypes.c_int64(0)
    where = np.zeros(1, dtype.numpy)
    points = 0
    for chunk in operands(dtype, stride, samples, edge):
        x = np.ascontiguousarray(chunk)
        run(
            x.ctypes.data, x.size, ctypes.byref(worst), where.ctypes.data, ctypes.byref(wrong)
        )  # fmt: skip
        points += x.size
    return Accuracy(name, dtype, _how(name, dtype), points, worst.value, where[0], wrong.value)


HEAD = """\
# Accuracy of generated code

The largest error that was seen of each unary scalar function, in units in the last place (ULP) of
the exact value; at most {limit:g} is promised. A correctly rounded function has 0.5. NaN,
infinities and signs of zeros are as in C99 everywhere that was looked at. Generated by
`python -m benchmarks.accuracy --write docs/accuracy.md` ({compiler}; {libc}).

float32: one of every {stride} of all bit patterns and the neighbours of all powers of two and of
the ends of domains, subnormals among them, {narrow:.0f} million operands, compared with the C
library in double. float64: {wide:.0f} million random operands of every size and the same edges,
compared with the C library in long double.

"Polynomial" is code of this project that compilers vectorise, "C library" a call per element;
"instructions" are those of the CPU.

Functions that the C library lacks (`erfinv`, `ndtri`, `log_ndtr`, `i0` and its kin, `bessel_j0`,
`bessel_j1`, `zeta`) are compared with SciPy in double by `tests/codegen/test_vecmath.py`, to the
same limit.

"""


def table(found: list[Accuracy], stride: int) -> str:
    """The page of the documentation."""
    by_name: dict[str, dict[DType, Accuracy]] = {}
    for accuracy in found:
        by_name.setdefault(accuracy.name, {})[accuracy.dtype] = accuracy
    first = next(iter(by_name.values()))
    compiler = toolchain.find_compiler()
    lines = [
        HEAD.format(
            limit=LIMIT_ULP,
            compiler=re.sub(r" \(.*\)", "", compiler.version) if compiler else "",
            libc=" ".join(platform.libc_ver()),
            stride=stride,
            narrow=first[dtypes.float32].points / 1e6,
            wide=first[dtypes.float64].points / 1e6,
        )
        + "| function | float32: ULP | at | made of | float64: ULP | at | made of |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in by_name.items():
        cells = [f"`{name}`"]
        for dtype in (dtypes.float32, dtypes.float64):
            accuracy = row[dtype]
            at = f"{accuracy.where:.8g}" if accuracy.ulp > 0 else ""
            cells += [f"{accuracy.ulp:.2f}", at, accuracy.made]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Parse the command line, measure, print or write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--stride", type=int, default=STRIDE)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--only", default="", help="names with commas between them")
    parser.add_argument("--write", type=Path, help="write the page instead of printing it")
    options = parser.parse_args()
    found = []
    for name in options.only.split(",") if options.only else functions():
        for dtype in (dtypes.float32, dtypes.float64):
            accuracy = measure(name, dtype, options.stride, options.samples)
            print(f"{name:12} {dtype.name} {accuracy.ulp:6.2f} ULP at {accuracy.where!r}, "
                  f"{accuracy.wrong} wrong", flush=True)  # fmt: skip
            found.append(accuracy)
    if options.write is not None:
        options.write.write_text(table(found, options.stride))


if __name__ == "__main__":
    main()
