"""Compiled functions where something else is under way: signals, forks, other threads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks")

SIGNALS = """
import faulthandler, signal
faulthandler.dump_traceback_later(100, exit=True)
import dynajit as dj

inputs = [dj.ones(size) for size in range(9)]
wrong, calls, functions = [], [0], []

@dj.compile
def other(x):
    return (x * 3).sum() + dj.ones(x.shape[0]).mean()

def handler(number, frame):
    signal.setitimer(signal.ITIMER_REAL, 0)
    calls[0] += 1
    size = calls[0] % 7 + 1
    found = [other(inputs[size]).item(), 3 * size + 1]
    if functions:
        function, number = functions[-1]
        found += [function(inputs[size]).item(), 2 * size + number]
    if found[0::2] != found[1::2]:
        wrong.append(found)
    signal.setitimer(signal.ITIMER_REAL, 0.003)

def made(number):
    space = {"dj": dj}
    exec(f"def f(x):\\n    return x.sum() + {number} + dj.ones(x.shape[0]).sum()", space)
    return dj.compile(space["f"])

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.003)
for number in range(3):
    functions.append((made(number), number))
    for size in (2, 3, 5):
        found = functions[-1][0](dj.ones(size)).item()
        if found != 2 * size + number:
            wrong.append(("interrupted", size, number, found))
signal.setitimer(signal.ITIMER_REAL, 0)
assert calls[0] > 10, calls
print(wrong)
"""


def run(code: str, cache: Path) -> str:
    environment = {**os.environ, "DYNAJIT_CACHE_DIR": str(cache), "DYNAJIT_STRICT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert "" == done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="alarms")
def test_a_handler_of_signals_may_call_compiled_functions_at_any_time(tmp_path: Path) -> None:
    """Also while they are being compiled: then they run as plain Python."""
    assert "[]\n" == run(SIGNALS, tmp_path)


FORKS = """
import faulthandler, os, threading, time
faulthandler.dump_traceback_later(100, exit=True)
import dynajit as dj

x = dj.ones(4)

def first(x):
    return (x * 2).sum()

def compile_first():
    for _ in range(3):
        assert dj.compile(lambda x: (x * 2).sum())(x).item() == 8

def child():
    assert dj.compile(first)(x).item() == 8
    assert dj.compile(lambda x: (x * 3).sum())(x).item() == 12
    assert dj.rand(3).shape == (3,)
    os._exit(0)

thread = threading.Thread(target=compile_first)
thread.start()
children = []
while thread.is_alive() and len(children) < 5:
    time.sleep(0.02)
    made = os.fork()
    if not made:
        child()
    children.append(made)
print([os.waitpid(made, 0)[1] for made in children if made] == [0] * len(children))
thread.join()
"""


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_during_the_first_compile_compiles(tmp_path: Path) -> None:
    code = f"import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n{FORKS}"
    assert "True\n" == run(code, tmp_path)
