"""Finds the packages, builds the C extensions and writes type stubs; everything else is in
pyproject.toml."""

import os
import subprocess
import sys
from glob import glob

import numpy
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

# Folders beside `dynajit` that are packages below it: `eager` is `dynajit.eager`.
ENGINES = ("eager", "capture", "codegen")

# What the eager rows in C are made of: loops, once for each set of instructions.
LOOPS = "dynajit/ops/native/loops"

# Matrix products, and what their callers say to them.
PRODUCTS = "dynajit/core/arrays"

# What C modules say to who records profiles.
PROCESS = "dynajit/core/process"

# Loops over elements: each operation is rounded, and what is not chosen may be computed.
ROUNDED_AS_NUMPY = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
COMPILE_ARGS = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter"]


def extension(name: str, sources: list[str], depends: list[str], *args: str) -> Extension:
    """One C module, with NumPy's headers and our own on the include path, and more arguments."""
    return Extension(
        name,
        sources,
        include_dirs=[
            *(numpy.get_include(), "eager", "capture/native", "codegen/headers"),
            *(LOOPS, PRODUCTS, PROCESS),
        ],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        depends=depends,
        extra_compile_args=[*COMPILE_ARGS, *args],
    )


def packages() -> list[str]:
    """Every folder with an `__init__.py`, by the name under which it is imported."""
    found = ["dynajit", *(f"dynajit.{name}" for name in find_packages("dynajit"))]
    for engine in ENGINES:
        found += [
            f"dynajit.{engine}",
            *(f"dynajit.{engine}.{name}" for name in find_packages(engine)),
        ]
    return found


class BuildWithStubs(build_ext):
    """The extensions, and then the stubs, which are read off what was built. Not where modules are
    built in place: stubs would stand in the source tree, in front of the sources."""

    def run(self) -> None:
        """The command."""
        super().run()
        if not (self.inplace or self.editable_mode):
            folder = os.path.abspath(self.build_lib)
            command = [sys.executable, "-m", "dynajit.report.stubs", folder]
            # What is built is in front; behind it what this process finds, such as the packages of
            # an environment that was made for the build.
            found = os.pathsep.join([folder, *filter(None, sys.path)])
            environment = {**os.environ, "PYTHONPATH": found}
            subprocess.run(command, check=True, env=environment, cwd=folder)


setup(
    packages=packages(),
    cmdclass={"build_ext": BuildWithStubs},
    ext_modules=[
        extension(
            "dynajit.core.process._recorder",
            [f"{PROCESS}/_recorder.c"],
            [f"{PROCESS}/recorder.h"],
        ),
        extension("dynajit.ops.native._row_call", ["dynajit/ops/native/_row_call.c"], []),
        extension("dynajit.ops.native._library_call", ["dynajit/ops/native/_library_call.c"], []),
        extension(
            "dynajit.ops.native._vecmath",
            [
                "dynajit/ops/native/_vecmath.c",
                *(f"{LOOPS}/vecmath_{name}.c" for name in ("plain", "avx2", "avx512")),
            ],
            [
                *glob(f"{LOOPS}/vecmath_*.h"),
                f"{LOOPS}/ufunc_loops.h",
                *sorted(glob("codegen/headers/vecmath*.h")),
            ],
            *("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
            *("-fno-thread-jumps", "-Wno-unused-function"),  # see codegen.compilers.toolchain
        ),
        extension(
            "dynajit.ops.native._convolutions",
            [
                "dynajit/ops/native/_convolutions.c",
                *(f"{LOOPS}/convolutions_{name}.c" for name in ("plain", "avx2", "avx512")),
            ],
            [
                *(
                    f"{LOOPS}/convolution_loops.h",
                    f"{LOOPS}/eager_convolutions.h",
                ),
                *(f"codegen/headers/{name}.h" for name in ("host", "indices")),
                *sorted(glob("codegen/headers/convolution*.h")),
            ],
            *("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
            *("-Wno-unused-function", "-Wno-unknown-pragmas"),
        ),
        extension(
            "dynajit.ops.native._recurrent",
            [
                "dynajit/ops/native/_recurrent.c",
                *(f"{LOOPS}/recurrent_{name}.c" for name in ("avx2", "avx512")),
            ],
            [
                *(f"{LOOPS}/{name}.h" for name in ("recurrent_loops", "recurrent_cells")),
                f"{PRODUCTS}/multiply.h",
                *(f"codegen/headers/{name}.h" for name in ("vecmath", "vecmath_f64")),
            ],
            *("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
            *("-fno-thread-jumps", "-Wno-unused-function"),  # as _vecmath
        ),
        extension(
            "dynajit.ops.native._sums",
            ["dynajit/ops/native/_sums.c", f"{LOOPS}/sums_plain.c", f"{LOOPS}/sums_avx2.c"],
            [f"{LOOPS}/sum_functions.h", "codegen/headers/sums.h"],
            "-Wno-psabi",  # vectors stay within the functions
        ),
        extension(
            "dynajit.ops.native._scatter",
            ["dynajit/ops/native/_scatter.c"],
            [],
            *("-O3", "-ffp-contract=off"),
        ),
        extension(
            "dynajit.ops.native._native_forms",
            ["dynajit/ops/native/_native_forms.c"],
            [
                *(f"{LOOPS}/{name}.h" for name in ("native_rows", "ufunc_loops")),
                "codegen/headers/sums.h",
            ],
            *ROUNDED_AS_NUMPY,
        ),
        extension(
            "dynajit.ops.native._native_batch_norm",
            ["dynajit/ops/native/_native_batch_norm.c"],
            [f"{LOOPS}/{name}.h" for name in ("native_rows", "ufunc_loops")],
            *ROUNDED_AS_NUMPY,
        ),
        extension(
            "dynajit.ops.native._native_windows",
            ["dynajit/ops/native/_native_windows.c"],
            [f"{LOOPS}/native_rows.h"],
            *ROUNDED_AS_NUMPY,
        ),
        extension(
            "dynajit.ops.native._native_orders",
            ["dynajit/ops/native/_native_orders.c"],
            [f"{LOOPS}/native_rows.h"],
            *ROUNDED_AS_NUMPY,
        ),
        extension(
            "dynajit.ops.native._native_places",
            ["dynajit/ops/native/_native_places.c"],
            [f"{LOOPS}/native_rows.h"],
            "-O3",
        ),
        extension(
            "dynajit.ops.native._philox",
            ["dynajit/ops/native/_philox.c"],
            [f"{LOOPS}/ufunc_loops.h"],
            *ROUNDED_AS_NUMPY,
        ),
        extension("dynajit.eager._tensor", ["eager/_tensor.c"], ["eager/tensor.h"]),
        extension("dynajit.eager._rows", ["eager/_rows.c"], ["eager/tensor.h"]),
        extension(
            "dynajit.capture._capture",
            ["capture/_capture.c", *sorted(glob("capture/native/*.c"))],
            ["eager/tensor.h", *sorted(glob("capture/native/*.h"))],
        ),
        extension(
            "dynajit.codegen._runtime",
            [f"codegen/{name}.c" for name in ("_runtime", "library", "object_files")],
            [
                *sorted(glob("codegen/*.h")),
                *(f"codegen/headers/{name}.h" for name in ("host", "indices", "products")),
                *(f"{PRODUCTS}/{name}.h" for name in ("mirror", "team")),
                f"{PROCESS}/recorder.h",
            ],
            "-ffp-contract=off",  # each operation is rounded, as in generated code
        ),
        extension(
            "dynajit.codegen._device",
            ["codegen/_device.c", *sorted(glob("codegen/device/*.c"))],
            ["codegen/results.h", f"{PROCESS}/recorder.h", *sorted(glob("codegen/device/*.h"))],
        ),
        extension(
            "dynajit.core.arrays._products",
            ["dynajit/core/arrays/_products.c"],
            [
                f"dynajit/core/arrays/{name}.h"
                for name in (
                    *("product_loops", "few_products", "product_arrays", "helper_threads"),
                    *("multiply", "mirror", "team"),
                )
            ],
            "-ffp-contract=fast",  # products are sums of fused multiplications
        ),
    ],
)
