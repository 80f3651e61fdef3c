"""Compiling while calls run op by op: results before the compiler is done, after it, and errors.

The compiler is a script that waits for a file: what is said about "before" holds however slow or
fast the machine is.
"""

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.core.errors import ArgumentError, ToolchainError
from dynajit.driver import backend, launches

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="a shell and cc"
)

SCRIPT = """#!/bin/sh
if [ "$1" != --version ]; then
    while [ ! -e {file} ]; do sleep 0.01; done
    {then}
fi
exec cc "$@"
"""


class Compiler:
    """A compiler that does nothing until it is let go."""

    def __init__(self, folder: Path, then: str = "") -> None:
        self.file = folder / "go"
        self.command = folder / "compiler"
        self.command.write_text(SCRIPT.format(file=self.file, then=then))
        self.command.chmod(self.command.stat().st_mode | stat.S_IXUSR)

    def let_go(self) -> None:
        self.file.write_text("")


@pytest.fixture
def compiler(tmp_path):
    """A compiler that waits, with a cache of its own."""
    made = Compiler(tmp_path)
    with dj.config.override(compiler=str(made.command), cache_dir=tmp_path):
        yield made
        made.let_go()


@pytest.fixture
def refusing(tmp_path):
    """The same of one that refuses everything."""
    made = Compiler(tmp_path, "echo 'no omp' >&2; exit 1")
    with dj.config.override(compiler=str(made.command), cache_dir=tmp_path):
        yield made
        made.let_go()


def records_of(monkeypatch) -> list:
    """The records of every launch that is made from now on."""
    found: list = []
    request = backend._request

    def watched(record, captured):
        found.append(record)
        return request(record, captured)

    monkeypatch.setattr(backend, "_request", watched)
    return found


def call_until(condition, function, *arguments):
    """Call again and again until something holds."""
    while not condition():
        function(*arguments)
        time.sleep(0.01)


def test_results_arrive_before_the_compiler_is_done(compiler, monkeypatch) -> None:
    """The very version whose program is missing serves; later the program does."""
    records = records_of(monkeypatch)
    compiled = dj.compile(
        lambda x: ((x * 2).exp(), x.t(), x), fullgraph=True, options={"async": True}
    )
    x = dj.randn(3, 4)

    early = compiled(x)
    again = compiled(x)
    (record,) = records
    assert [] == record.programs
    compiler.let_go()
    call_until(lambda: record.programs, compiled, x)
    late = compiled(x)

    for product, turned, same in (early, again, late):
        np.testing.assert_allclose(product.numpy(), np.exp(2 * x.numpy()), rtol=1e-6)
        np.testing.assert_array_equal(turned.numpy(), x.numpy().T)
        assert turned.data_ptr() == x.data_ptr()
        assert same is x
    assert 1 == len(records)
    assert 1 == len(compiled.guards())


def wait_until(condition) -> None:
    """The test's own limit ends it."""
    while not condition():
        time.sleep(0.01)


def test_the_first_result_waits_for_no_code(compiler, monkeypatch) -> None:
    """Threads take turns in Python: another would delay whatever the program does next."""
    monkeypatch.setattr(launches, "IDLE_S", 1e6)
    records = records_of(monkeypatch)
    compiled = dj.compile(lambda x: x.exp() - 2, options={"async": True})

    compiled(dj.ones(3))
    time.sleep(0.2)
    assert not records[0].made
    compiled(dj.ones(3))
    wait_until(lambda: records[0].made)


def test_a_function_that_is_called_once_is_compiled_when_the_process_is_idle(
    compiler, monkeypatch
) -> None:
    monkeypatch.setattr(launches, "IDLE_S", 0.01)
    records = records_of(monkeypatch)
    dj.compile(lambda x: x.exp() - 3, options={"async": True})(dj.ones(3))

    wait_until(lambda: records[0].made)


@pytest.mark.parametrize("output", ["log", "dump"])
def test_what_tells_how_code_was_made_has_it_at_once(
    compiler, monkeypatch, tmp_path, output
) -> None:
    compiler.let_go()
    records = records_of(monkeypatch)
    asked = {"log": frozenset({"perf"}), "dump": tmp_path / "dumped"}
    with dj.config.override(**{output: asked[output]}):
        dj.compile(lambda x: x.exp() - 4, options={"async": True})(dj.ones(3))

    assert records[0].programs


def test_training_goes_on_across_the_change(compiler, monkeypatch) -> None:
    """Losses and parameters are those of plain Python; so is a backward that was begun before."""
    records = records_of(monkeypatch)

    def train(wrap, between):
        dj.manual_seed(4)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = dj.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        forward = wrap(lambda x: model(x).square().mean())
        x = dj.randn(5, 4)
        losses = []
        for step in range(4):
            optimizer.zero_grad()
            loss = forward(x)
            between(step, forward, x)
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        return losses, [p.detach().numpy() for p in model.parameters()]

    def change(step, forward, x):
        if step == 1:
            compiler.let_go()
            call_until(lambda: records[0].programs, forward, x)

    expected = train(lambda f: f, lambda *given: None)
    found = train(lambda f: dj.compile(f, options={"async": True}), change)

    assert ["forward", "backward"] == [role for role, _ in records[0].programs]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_writes_and_random_numbers_are_the_same(compiler, monkeypatch) -> None:
    """Effects follow the launch, whichever way it runs."""
    records = records_of(monkeypatch)

    def scale(x):
        x.mul_(2)
        return x + dj.rand(6)

    compiled = dj.compile(scale, fullgraph=True, options={"async": True})

    def outcome():
        dj.manual_seed(7)
        x = dj.ones(6)
        results = [compiled(x).numpy().copy() for _ in range(2)]
        return [*results, x.numpy().copy()]

    early = outcome()
    compiler.let_go()
    call_until(lambda: records[0].programs, compiled, dj.ones(6))

    for one, other in zip(early, outcome(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_failures_are_those_of_eager_execution(compiler, monkeypatch) -> None:
    """An index out of range raises at its line, before any write."""
    records = records_of(monkeypatch)

    def pick(x, i, kept):
        kept.add_(1)
        return x[i]

    compiled = dj.compile(pick, options={"async": True})
    x, good, bad = dj.ones(3), dj.tensor([0, 2]), dj.tensor([0, 5])
    for _ in range(2):
        kept = dj.zeros(2)
        compiled(x, good, kept)
        with pytest.raises(IndexError):
            compiled(x, bad, kept)
        assert [2.0, 2.0] == kept.tolist()
        compiler.let_go()
        call_until(lambda: records[0].programs, compiled, x, good, dj.zeros(2))


def test_a_compiler_that_refuses_is_reported_once(refusing) -> None:
    """As without the option; the results stay those of the ops."""
    compiled = dj.compile(lambda x: x.exp() * 3, options={"async": True})
    x = dj.randn(4)
    refusing.let_go()
    with dj.config.override(strict=False), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call_until(lambda: caught, compiled, x)
        found = compiled(x).numpy()

    assert 1 == len(caught)
    assert "could not compile" in str(caught[0].message)
    np.testing.assert_allclose(found, np.exp(x.numpy()) * 3, rtol=1e-6)


def test_a_compiler_that_refuses_raises_where_that_is_asked(refusing) -> None:
    """Config.strict."""
    compiled = dj.compile(lambda x: x.exp() * 4, options={"async": True})
    compiled(dj.ones(2))
    refusing.let_go()

    with pytest.raises(ToolchainError):
        call_until(lambda: False, compiled, dj.ones(2))


def test_threads_call_while_the_change_happens(compiler, monkeypatch) -> None:
    """Every call has the right result."""
    records = records_of(monkeypatch)
    compiled = dj.compile(lambda x, s: (x * s).sum(), options={"async": True})
    x = dj.arange(5).float()
    compiled(x, 1.0)
    begin = threading.Barrier(5)

    def work(number):
        begin.wait()
        found = []
        while not records[0].programs:
            found.append(float(compiled(x, float(number))))
        return {*found, float(compiled(x, float(number)))}

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(work, number) for number in range(4)]
        begin.wait()
        compiler.let_go()
        results = [task.result() for task in waiting]

    assert [{10.0 * number} for number in range(4)] == results


def test_what_is_known_runs_compiled_at_once(compiler, monkeypatch) -> None:
    """Nothing to wait for: the program is on disk."""
    compiler.let_go()
    x = dj.ones(3)
    dj.compile(lambda x: x.exp() - 5)(x)
    dj.reset()
    records = records_of(monkeypatch)

    dj.compile(lambda x: x.exp() - 5, options={"async": True})(x)

    assert ["forward"] == [role for role, _ in records[0].programs]


def test_modules_take_the_option(compiler, monkeypatch) -> None:
    """Both ways of compiling a module."""
    records = records_of(monkeypatch)
    layer = nn.Linear(3, 2)
    expected = layer(dj.ones(1, 3)).detach().numpy()
    layer.compile(options={"async": True})

    for each in (layer, dj.compile(layer, options={"async": True})):
        np.testing.assert_allclose(each(dj.ones(1, 3)).detach().numpy(), expected, rtol=1e-6)
    assert all(not record.programs for record in records)
    assert records


@pytest.mark.parametrize("options", [{"async": 1}, {"fast": True}, {"async": True, "fast": False}])
def test_other_options_are_refused(options) -> None:
    """The message names what is expected."""
    with pytest.raises(ArgumentError, match="'async'"):
        dj.compile(lambda x: x, options=options)
    with pytest.raises(ArgumentError, match="'async'"):
        nn.ReLU().compile(options=options)


PROGRAM = """
import dynajit as dj
f = dj.compile(lambda x: x.exp() * 7, options={"async": True})
print(float(f(dj.zeros(()))))
"""


def test_a_process_that_ends_early_leaves_the_kernel(tmp_path) -> None:
    """The next one finds it."""
    env = {**os.environ, "DYNAJIT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)

    assert ("7.0\n", "") == (done.stdout, done.stderr)
    kernels = [path.suffix for path in (tmp_path / "kernels").iterdir()]
    assert [".json"] == [suffix for suffix in kernels if suffix not in (".o", ".so")]
    assert 2 == len(kernels)
