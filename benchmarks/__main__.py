"""`python -m benchmarks [NAME ...]`: run all benchmarks, or the named ones.

`python -m benchmarks kernels steps --compare torch` adds PyTorch eager and `torch.compile`
where PyTorch is installed. `python -m benchmarks cpu [--help]` is the table of what is asked of a
CPU, and `python -m benchmarks --gpu [--help]` that of a GPU, with options of their own.
"""

import argparse
import os
import sys
from functools import partial

from benchmarks import (
    collectives,
    convolutions,
    cpu,
    eager,
    gpu,
    guards,
    kernels,
    mapped,
    networks,
    overhead,
    sharding,
    steps,
)
from benchmarks.arrays import table as arrays
from benchmarks.scaling import tables

BENCHMARKS = {
    "eager": eager.main,
    "guards": guards.main,
    "overhead": overhead.main,
    "kernels": kernels.main,
    "mapped": mapped.main,
    "steps": steps.main,
}
LONG = {
    "arrays": arrays.main,
    "arrays_on_cores": partial(arrays.main, cores=os.cpu_count() or 1),
    "convolutions": convolutions.main,
    "networks": networks.main,
}
"""Those that take minutes, and are run where they are named."""
SEVERAL = {
    "collectives": collectives.main,
    "scaling": tables.main,
    "sharding": sharding.main,
}
"""Those that start several processes, and are run where they are named."""
KNOWN = {**BENCHMARKS, **LONG, **SEVERAL}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(KNOWN)}")
    parser.add_argument(
        "--compare",
        default="",
        help="torch: add PyTorch where it is installed; for arrays: numba, jax",
    )
    options = parser.parse_args()
    for name in options.names or BENCHMARKS:
        print(f"== {name}")
        KNOWN[name](compare=options.compare.split(",") if options.compare else [])


if sys.argv[1:2] == ["cpu"]:
    cpu.main(sys.argv[2:])
elif "--gpu" in sys.argv[1:]:
    gpu.main([argument for argument in sys.argv[1:] if argument != "--gpu"])
else:
    main()
