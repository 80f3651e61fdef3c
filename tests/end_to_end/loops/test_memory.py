"""What a loop of a thousand turns keeps for backward, and what is there at once while backward
runs, is within the budget that was asked for: in bytes of the process, not only by the books.
"""

import functools
import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(
        not Path("/proc/self/clear_refs").exists() or platform.libc_ver()[0] != "glibc",
        reason="needs glibc, and Linux's books of a process",
    ),
]

PROGRAM = """
import ctypes
import gc
import sys
from pathlib import Path

import dynajit as dj
from dynajit.codegen import _runtime


def cell(x, h, w, u):
    for t in range(1000):
        h = dj.tanh(x[t] @ w + h @ u)
    return h.sum()


def recurrence(x, y):
    for _ in range(1000):
        y = dj.sin(y * x) + 0.1 * y
    return y.sum()


def leaf(*shape):
    return (0.05 * dj.randn(*shape)).requires_grad_(True)


def pages(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")


ARGUMENTS = {
    cell: lambda: (dj.randn(1000, 32, 256), leaf(32, 256), leaf(256, 256), leaf(256, 256)),
    recurrence: lambda: (leaf(25_000), leaf(25_000)),
}
function, budget = globals()[sys.argv[1]], float(sys.argv[2])
options = {} if budget == 1 else {"activation_memory_budget": budget}
arguments = ARGUMENTS[function]()
(record,) = dj.explain(function, options=options)(*arguments).records
compiled = dj.compile(function, fullgraph=True, options=options)
compiled(*arguments).backward()
for argument in arguments:
    argument.grad = None
gc.collect()
_runtime.trim()
ctypes.CDLL(None).malloc_trim(0)  # what is used from here on, the system gives anew
forget_peak()
before = pages("VmRSS")
result = compiled(*arguments)
kept = pages("VmRSS") - before
forget_peak()
result.backward()
print(record.saved_bytes, kept, pages("VmHWM") - before)
"""

OTHERS = 8 << 20
"""Bytes of gradients, of what turns hand on, of a BLAS, and what else a process needs."""


@functools.cache
def measured(function: str, budget: float) -> tuple[int, int, int]:
    """Bytes that are kept by the books; those of the process after forward; most in backward."""
    command = [sys.executable, "-c", PROGRAM, function, str(budget)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    by_the_books, kept, most = map(int, found.split())
    return by_the_books, kept, most


@pytest.mark.parametrize("budget", [0.5, 0.1])
@pytest.mark.parametrize("function", ["cell", "recurrence"])
def test_backward_of_a_thousand_turns_is_within_its_budget(function: str, budget: float) -> None:
    everything, kept_of_all, most_of_all = measured(function, 1.0)
    by_the_books, kept, most = measured(function, budget)

    assert everything > 50 << 20
    assert abs(kept_of_all - everything) < OTHERS
    assert most_of_all < everything + OTHERS
    assert by_the_books <= budget * everything
    assert abs(kept - by_the_books) < OTHERS
    assert most <= budget * everything + OTHERS
