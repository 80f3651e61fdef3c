"""Nothing leaks and nothing is shared by mistake: many calls, deaths, threads, forks."""

import gc
import multiprocessing
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn
from dynajit.core.process import config

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory is read from /proc"
)


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def model() -> nn.Module:
    """A small network."""
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def test_many_calls_keep_memory_flat() -> None:
    """1e5 calls of a compiled function: results are freed, arguments are not kept."""
    compiled = dj.compile(lambda x, scale: (x * scale).tanh().sum(dim=1))
    x = dj.randn(16, 64)
    for i in range(3000):
        compiled(x, float(i))
    references = sys.getrefcount(x)
    before = resident_bytes()
    for i in range(100_000):
        compiled(x, float(i))

    assert references == sys.getrefcount(x)
    assert resident_bytes() - before < 4 << 20
    assert 1 == compiled.report().entries


def test_many_calls_with_a_break_keep_memory_flat() -> None:
    """Resume functions and callees through the hook."""

    def callee(x: Any) -> Any:
        return x + 1

    def function(x: Any, log: list[Any]) -> Any:
        y = callee(x * 2)
        log.append(y.sum().item())
        return callee(y) * log[-1]

    compiled = dj.compile(function, backend="native")
    x = dj.ones(256)
    for _ in range(500):
        compiled(x, [])
    before = resident_bytes()
    for _ in range(5000):
        compiled(x, [])

    assert resident_bytes() - before < 4 << 20


def test_training_keeps_memory_flat() -> None:
    """Some thousands of steps."""
    network = model()
    optimizer = dj.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(network(x), y)

    compiled = dj.compile(loss_of)
    x, y = dj.randn(8, 16), dj.tensor([0, 1, 2, 3] * 2)

    def step() -> None:
        optimizer.zero_grad()
        compiled(x, y).backward()
        optimizer.step()

    for _ in range(300):
        step()
    before = resident_bytes()
    for _ in range(3000):
        step()

    assert resident_bytes() - before < 4 << 20
    assert 1 == compiled.report().entries


@pytest.mark.parametrize("backend", ["native", "numpy", "eager"])
def test_tensors_are_freed_without_the_collector(no_gc: None, backend: str) -> None:
    """Arguments, results, losses and gradients: by reference counts alone."""
    compiled = dj.compile(lambda x, w: ((x @ w).relu(), (x @ w).sum()), backend=backend)
    for _ in range(3):
        x, w = dj.ones(4, 3), dj.ones(3, 2, requires_grad=True)
        out, loss = compiled(x, w)
        loss.backward()
        watched = [weakref.ref(item) for item in (x, w, out, loss, w.grad)]
        del x, w, out, loss
        assert [None] * 5 == [reference() for reference in watched]


def test_tensors_of_the_compiling_call_are_freed(no_gc: None) -> None:
    """The first call keeps none of its arguments, whatever they are nested in."""
    compiled = dj.compile(lambda d: d["items"][0] * 2 + d["more"].value, backend="numpy")

    class Holder:
        pass

    holder = Holder()
    holder.value = dj.ones(3)  # type: ignore[attr-defined]
    argument = {"items": [dj.ones(3)], "more": holder}
    compiled(argument)
    watched = [weakref.ref(argument["items"][0]), weakref.ref(holder), weakref.ref(holder.value)]
    del argument, holder
    assert [None] * 3 == [reference() for reference in watched]
    with pytest.raises(RuntimeError):
        compiled({"items": [dj.ones(3)], "more": _with_value(dj.ones(5))})


def _with_value(value: Any) -> Any:
    class Other:
        pass

    other = Other()
    other.value = value  # type: ignore[attr-defined]
    return other


def test_saved_tensors_are_freed_by_backward(no_gc: None) -> None:
    """The graph lets go of what it saved, although the loss lives."""
    compiled = dj.compile(lambda x, w: (x.exp() @ w).sum(), backend="numpy")
    x, w = dj.ones(4, 3), dj.ones(3, 2, requires_grad=True)
    loss = compiled(x, w)
    watched = weakref.ref(x)
    loss.backward()
    del x
    assert watched() is None
    assert loss.item() > 0


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_compiled_functions_die(backend: str) -> None:
    """With the function: entries, guards, new code, programs; with a model: its parameters."""
    network = model()
    watched = [weakref.ref(network), weakref.ref(network[0].weight)]

    def loss_of(x: Any) -> Any:
        return network(x).sum()  # noqa: F821

    compiled = dj.compile(loss_of, backend=backend)
    compiled(dj.ones(2, 16)).backward()
    method = dj.compile(network, backend=backend)
    method(dj.ones(2, 16))
    network.compile(backend=backend)
    network(dj.ones(3, 16))
    watched += [weakref.ref(loss_of), weakref.ref(compiled), weakref.ref(method)]
    del network, loss_of, compiled, method
    gc.collect()

    assert [None] * 5 == [reference() for reference in watched]


def test_programs_die_with_their_function() -> None:
    """The objects that a backend made."""

    class Made:
        def __call__(self, x: Any) -> Any:
            return (x * 2,)

    watched: list[Any] = []

    def backend(graph: Any, types: Any) -> Any:
        made = Made()
        watched.append(weakref.ref(made))
        return made

    compiled = dj.compile(lambda x: x * 2, backend=backend)
    compiled(dj.ones(2))
    compiled(dj.ones(3))
    assert all(reference() is not None for reference in watched)
    del compiled
    gc.collect()

    assert [None, None] == [reference() for reference in watched]


def test_reset_frees_versions() -> None:
    """`reset()` drops entries; the function compiles again."""
    compiled = dj.compile(lambda x: x * 2, backend="numpy")
    compiled(dj.ones(2))
    assert 1 == compiled.report().entries
    dj.reset()
    assert 0 == compiled.report().entries
    assert [2.0] * 2 == compiled(dj.ones(2)).tolist()
    assert 1 == compiled.report().entries


def test_many_functions_keep_memory_flat() -> None:
    """Functions compiled, called and dropped, again and again."""

    def once(i: int) -> None:
        def function(x: Any) -> Any:
            return x * 2 + i

        dj.compile(function, backend="numpy")(dj.ones(4))

    for i in range(60):
        once(i)
    before = resident_bytes()
    for i in range(300):
        once(i)

    assert resident_bytes() - before < 4 << 20


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_threads_share_one_compiled_function(backend: str) -> None:
    """Eight threads, three shapes: right results, one compile per shape."""

    def function(x: Any) -> Any:
        y = (x * 3).tanh()
        return (y * x.shape[0]).sum(), y

    compiled = dj.compile(function, backend=backend, dynamic=False)
    inputs = [dj.linspace(0.1, 0.9, n * 5).reshape(n, 5) for n in (2, 3, 4)]
    expected = [function(x) for x in inputs]
    problems: list[Any] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            start.wait()
            for turn in range(60):
                index = (number + turn) % 3
                total, y = compiled(inputs[index])
                np.testing.assert_allclose(total.item(), expected[index][0].item(), rtol=1e-5)
                np.testing.assert_allclose(y.numpy(), expected[index][1].numpy(), rtol=1e-5)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [] == problems
    report = compiled.report()
    assert 3 == report.entries
    assert 480 == report.calls


def test_threads_train_their_own_models() -> None:
    """One compiled function, a model per thread: gradients do not mix."""

    def loss_of(network: Any, x: Any) -> Any:
        return (network(x) ** 2).sum()

    compiled = dj.compile(loss_of, backend="numpy")
    dj.manual_seed(0)
    networks = [nn.Linear(4, 2) for _ in range(4)]
    x = dj.randn(3, 4)
    expected = []
    for network in networks:
        loss_of(network, x).backward()
        expected.append(network.weight.grad.tolist())
        network.zero_grad()
    problems: list[Any] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                networks[number].zero_grad()
                compiled(networks[number], x).backward()
                np.testing.assert_allclose(
                    networks[number].weight.grad.tolist(), expected[number], rtol=1e-5
                )
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [] == problems


def _in_child(queue: Any, compiled: Any, x: Any) -> None:
    queue.put((compiled(x).tolist(), compiled(dj.ones(7)).tolist()))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = config.configure(num_threads=2)
    yield
    config.configure(num_threads=before.num_threads)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("size", [4, 1 << 20])
def test_a_forked_child_calls_and_compiles(size: int) -> None:
    """Entries made by the parent run in the child; the child makes its own.

    Large ones had a team of threads in the parent, which the child has not.
    """
    compiled = dj.compile(lambda x: (x * 2).exp().sum(), backend="native")
    x = dj.ones(size)
    expected = compiled(x).tolist()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue, compiled, x))
    child.start()
    child.join(60)
    child.kill()

    assert 0 == child.exitcode
    again, seven = queue.get()
    assert expected == again
    np.testing.assert_allclose(seven, 7 * np.exp(2.0), rtol=1e-5)
