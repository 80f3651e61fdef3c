"""Graphs that were compiled before come from disk: with equal results, and only where equal."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.codegen.compilers import store
from dynajit.driver import artefacts
from dynajit.ir import pipeline


@pytest.fixture
def cache(tmp_path: Path):
    """A cache of its own; the folder of its graphs."""
    with dj.config.override(cache_dir=tmp_path):
        yield tmp_path / store.FOLDER


@pytest.fixture
def optimized(monkeypatch):
    """Names of the graphs that passes ran over."""
    names = []
    optimize = pipeline.optimize

    def counted(graph, **options):
        names.append(graph.name)
        return optimize(graph, **options)

    monkeypatch.setattr(pipeline, "optimize", counted)
    return names


def afresh(function, *arguments):
    """The result of a version that is compiled now."""
    dj.reset()
    return function(*arguments)


def test_a_known_graph_runs_no_passes(cache, optimized) -> None:
    """The second compile of a graph reads what the first one wrote."""
    compiled = dj.compile(lambda x, s: (x * s).tanh().sum(1) + 1, fullgraph=True)
    x = dj.randn(5, 7)

    expected = afresh(compiled, x, 2.5).numpy()
    count = len(optimized)
    found = afresh(compiled, x, 2.5).numpy()

    np.testing.assert_array_equal(expected, found)
    assert (1, 1) == (count, len(optimized))
    assert 1 == len(list(cache.iterdir()))


def test_a_restored_training_step_is_the_same(cache, optimized) -> None:
    """Forward, backward, a view among the results, a write, and a second derivative."""

    def step(x, w, kept):
        hidden = (x @ w).tanh()
        kept.mul_(0.5)
        return (hidden * hidden).sum(), hidden.t(), x

    compiled = dj.compile(step, fullgraph=True)

    def outcome():
        dj.reset()
        dj.manual_seed(3)
        x, w = dj.randn(4, 3), dj.randn(3, 5)
        w.requires_grad_()
        kept = dj.ones(6)
        loss, turned, same = compiled(x, w, kept)
        (first,) = dj.autograd.grad(loss, w, create_graph=True)
        (second,) = dj.autograd.grad((first * first).sum() + turned.sum(), w)
        assert same is x
        return [t.detach().numpy().copy() for t in (loss, turned, first, second, kept)]

    expected = outcome()
    count = len(optimized)
    found = outcome()

    assert 0 < count == len(optimized)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_that_are_symbols_are_restored(cache, optimized) -> None:
    """Forward and backward of one version for many batch sizes."""
    w = dj.randn(3, 2).requires_grad_()
    compiled = dj.compile(lambda x: ((x @ w).relu() * x.shape[0]).sum(), dynamic=True)

    def gradients():
        dj.reset()
        found = []
        for batch in (3, 5, 8):
            dj.manual_seed(batch)
            w.grad = None
            compiled(dj.randn(batch, 3)).backward()
            found.append(w.grad.numpy().copy())
        return found

    expected, count = gradients(), len(optimized)
    found = gradients()

    assert count == len(optimized)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_graphs_that_differ_are_not_mixed_up(cache) -> None:
    """Programs that differ in one number, one attribute, or in what requires a gradient."""
    x = dj.ones(2, 3)
    functions = [
        lambda x: x * 1,
        lambda x: x * 1.5,
        lambda x: x * 2.5,
        lambda x: x.sum(0, keepdim=True),
        lambda x: x.sum(1, keepdim=True),
        lambda x: x.double() * 1.5,
    ]
    for function in functions * 2:
        compiled = dj.compile(function, name="same")
        for value in (x, x.clone().requires_grad_()):
            expected, found = function(value), afresh(compiled, value)
            assert expected.dtype is found.dtype
            assert expected.requires_grad == found.requires_grad
            np.testing.assert_array_equal(expected.detach().numpy(), found.detach().numpy())


def test_what_is_written_where_it_lies_is_part_of_the_key(cache) -> None:
    """The same graph, once with its result copied into the argument, once not."""

    def scale(x):
        x.mul_(2)

    def scaled(x):
        return x * 2

    for function in (scale, scaled) * 2:
        x = dj.ones(64)
        result = afresh(dj.compile(function), x)
        assert ([2.0] * 64 if result is None else [1.0] * 64) == x.tolist()


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_file_is_made_again(cache, optimized, damage) -> None:
    """Cut off, or with a right checksum over something else."""
    compiled = dj.compile(lambda x: x.exp() - 1)
    x = dj.randn(4)
    expected = afresh(compiled, x).numpy()
    (file,) = cache.iterdir()
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:100])
    else:
        store.write(file.stem, {"programs": {"forward": {"name": "f"}}, "gradients": 3})

    np.testing.assert_array_equal(expected, afresh(compiled, x).numpy())
    assert 2 == len(optimized)
    np.testing.assert_array_equal(expected, afresh(compiled, x).numpy())
    assert 2 == len(optimized)


def test_another_version_of_dynajit_makes_its_own(cache, optimized, monkeypatch) -> None:
    """The files that make the result are part of the name."""
    compiled = dj.compile(lambda x: x.exp() - 1)
    afresh(compiled, dj.ones(3))
    monkeypatch.setattr(artefacts, "version", lambda: "another")

    afresh(compiled, dj.ones(3))

    assert 2 == len(optimized) == len(list(cache.iterdir()))


def test_reports_show_the_graphs_of_a_restored_version(cache) -> None:
    """Passes run again when they are asked for; kernels are those of the program."""
    layer = nn.Linear(3, 4)
    first = dj.explain(layer)(dj.ones(2, 3)).records[0]
    second = dj.explain(layer)(dj.ones(2, 3)).records[0]

    assert first.remake is None
    assert second.remake is not None
    assert "restore" in second.stages
    assert "printing" not in second.stages
    assert str(first.forward) == str(second.forward)
    assert str(first.backward) == str(second.backward)
    assert [p.name for p in first.passes] == [p.name for p in second.passes]
    assert [k.source for k in first.kernels] == [k.source for k in second.kernels]
    assert first.saved_bytes == second.saved_bytes


def test_graphs_that_are_verified_are_made(cache, optimized) -> None:
    """Nothing is kept, nothing restored."""
    compiled = dj.compile(lambda x: x.exp() - 1)
    with dj.config.override(verify_graphs=True):
        afresh(compiled, dj.ones(3))
        afresh(compiled, dj.ones(3))

    assert 2 == len(optimized)
    assert not cache.exists()


PROGRAM = """
import json
import dynajit as dj
from dynajit import nn

dj.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = dj.optim.Adam(model.parameters(), lr=0.1)
forward = dj.compile(lambda x: model(x).square().mean())
update = dj.compile(optimizer.step)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = forward(dj.ones(3, 4))
    loss.backward()
    update()
    losses.append(float(loss))
print(json.dumps(losses))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the compiler is a shell script")
def test_a_second_process_calls_no_compiler(tmp_path) -> None:
    """A whole training step, its recompilation of the optimiser included."""
    compiler, log = tmp_path / "compiler", tmp_path / "log"
    compiler.write_text(f'#!/bin/sh\necho "$1" >> {log}\nexec cc "$@"\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    env = {**os.environ, "DYNAJIT_CACHE_DIR": str(tmp_path), "DYNAJIT_CC": str(compiler)}
    losses, calls = [], []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
        )
        losses.append(json.loads(done.stdout))
        calls.append([line for line in log.read_text().splitlines() if line != "--version"])
        log.write_text("")

    assert losses[0] == losses[1]
    assert calls[0]
    assert [] == calls[1]
