"""Passes over rows whose positions are divided go in runs; the values stay."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.c import bypass as c_bypass
from dynajit.codegen.c import runs as c_runs
from dynajit.codegen.compilers import toolchain
from dynajit.codegen.pipeline import compile_graph
from dynajit.core.process import config
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

ROWS, CHANNELS = 5, 6


def normal(*shape: int, dtype=np.float32, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def source_of(codegen, function, *arguments) -> str:
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    return "\n".join(kernel.source for kernel in compile_graph(graph).kernels)


def normalised(x, weight):
    """Rows of channels: each row is centred, each channel scaled."""
    rows, channels, length = x.shape
    flat = ops.reshape(x, shape=(rows, channels * length))
    centred = flat - ops.mean(flat, dim=(1,), keepdim=True)
    return ops.reshape(centred, shape=x.shape) * weight


def with_expensive(x, weight):
    """What an earlier pass kept is read in runs."""
    return normalised(ops.tanh(x), weight)


def with_sines(x, weight):
    return ops.sin(1e6 * normalised(x, weight))


FUNCTIONS = {
    "scaled": normalised,
    "expensive": with_expensive,
    "sines of large angles": with_sines,
    "two results": lambda x, weight: (normalised(x, weight), normalised(x, weight) * 2),
}


@pytest.mark.parametrize("bypasses", [False, True], ids=["cached", "bypassing"])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("length", [16, 17, 49, 96, 3136])
def test_values_are_those_of_one_loop(codegen, monkeypatch, function, length, bypasses):
    if bypasses:
        monkeypatch.setattr(c_bypass, "LEAST_MOVED", 1)
        monkeypatch.setattr(c_bypass, "LEAST_RESULT", 1)
        monkeypatch.setattr(c_bypass, "LEAST_RUN", 1)
        monkeypatch.setattr(toolchain, "bypass_bytes", lambda: 1)
    arguments = normal(ROWS, CHANNELS, length), normal(CHANNELS, 1)
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    in_runs = compile_graph(graph)
    monkeypatch.setattr(c_runs, "LEAST_RUN", 1 << 20)
    whole = compile_graph(graph)

    assert "_run++" in "".join(kernel.source for kernel in in_runs.kernels)
    assert "_run++" not in "".join(kernel.source for kernel in whole.kernels)
    for want, got in zip(whole(*arguments), in_runs(*arguments), strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_dtypes_go_in_runs(codegen, dtype):
    arguments = normal(ROWS, CHANNELS, 40, dtype=dtype), normal(CHANNELS, 1, dtype=dtype)
    program = codegen.check(normalised, *arguments)
    assert "_run++" in "".join(kernel.source for kernel in program.kernels)


def test_short_runs_and_undivided_positions_stay_in_one_loop(codegen):
    short = normal(ROWS, 40, 8), normal(40, 1)
    assert "_run++" not in source_of(codegen, normalised, *short)
    assert "_run++" not in source_of(codegen, lambda x: ops.softmax(x, dim=1), normal(ROWS, 480))


def test_group_norm_and_its_gradients_are_those_of_float64(tmp_path):
    x, weight, bias = normal(4, 8, 7, 7), normal(8, seed=4), normal(8, seed=5)

    def gradients(dtype):
        given = [dj.from_numpy(a.astype(dtype)).requires_grad_() for a in (x, weight, bias)]
        out = dj.compile(lambda x, w, b: dj.nn.functional.group_norm(x, 2, w, b))(*given)
        out.backward(dj.from_numpy(normal(4, 8, 7, 7, seed=6).astype(dtype)))
        return [out.detach().numpy(), *(tensor.grad.numpy() for tensor in given)]

    with config.override(dump=tmp_path):
        narrow = gradients(np.float32)
    wide = gradients(np.float64)

    assert any("_run++" in path.read_text() for path in tmp_path.glob("*/*.c"))
    for want, got in zip(wide, narrow, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
