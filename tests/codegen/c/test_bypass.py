"""Large results bypass the caches, with the values that they have otherwise."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.c import bypass as c_bypass
from dynajit.codegen.compilers import toolchain
from dynajit.codegen.pipeline import compile_graph
from dynajit.core.process import config
from dynajit.core.types.dtypes import bfloat16
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

ROWS, COLUMNS = 61, 352


def normal(*shape: int, dtype=np.float32) -> np.ndarray:
    return (4 * np.random.default_rng(5).standard_normal(shape)).astype(dtype)


def source_of(codegen, function, *arguments) -> str:
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    return "\n".join(kernel.source for kernel in compile_graph(graph).kernels)


@pytest.fixture
def small(monkeypatch):
    """Every result is large, on this CPU too."""
    monkeypatch.setattr(c_bypass, "LEAST_MOVED", 1)
    monkeypatch.setattr(c_bypass, "LEAST_RESULT", 1)
    monkeypatch.setattr(toolchain, "bypass_bytes", lambda: 1)


def softmax(x):
    return ops.softmax(x, dim=1)


def rms_norm(x):
    return x * ops.rsqrt(ops.mean(x * x, dim=(1,), keepdim=True) + 1e-5)


FUNCTIONS = {
    "pointwise": lambda x: x * 3 + 1,
    "softmax": softmax,
    "rms norm": rms_norm,
    "broadcast": lambda x: x + ops.amax(x, dim=(0,), keepdim=True),
    "sines of large angles": lambda x: ops.sin(x * 1e6) + ops.cos(x),
    "two results": lambda x: (ops.exp(x), x * 2),
    "results of two widths": lambda x: (x * 2, ops.cast(x, dtype=bfloat16)),
    "a value for each row": lambda x: (
        x - ops.amax(x, dim=(1,), keepdim=True),
        ops.amax(x, dim=(1,)),
    ),
    "kept": lambda x: ops.relu(x) - ops.mean(ops.relu(x), dim=(1,), keepdim=True),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(
    "shape", [(ROWS, COLUMNS), (ROWS, COLUMNS + 7), (ROWS, 4097), (2 * 4096,), (4096 + 33,)],
    ids=["even", "ragged", "long", "blocks", "blocks and a rest"],
)  # fmt: skip
def test_values_are_those_of_other_stores(codegen, small, monkeypatch, function, shape):
    x = normal(*shape)
    if x.ndim == 1:
        x = x.reshape(1, -1)
    graph = codegen.graph_of(function, codegen.type_of(x))
    bypassing = compile_graph(graph)
    monkeypatch.setattr(c_bypass, "LEAST_MOVED", 1 << 40)
    plain = compile_graph(graph)

    assert "dj_bypass(" in "".join(kernel.source for kernel in bypassing.kernels)
    assert "dj_bypass(" not in "".join(kernel.source for kernel in plain.kernels)
    for want, got in zip(plain(x), bypassing(x), strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS + 5], ids=["even", "ragged"])
def test_every_width_is_stored_in_lines(codegen, small, dtype, columns):
    program = codegen.check(lambda x: x * 2 + 1, normal(ROWS, columns, dtype=dtype))
    assert "dj_bypass(" in "".join(kernel.source for kernel in program.kernels)


@pytest.mark.parametrize("shift", [0, 1, 5, 16])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS + 1], ids=["even", "ragged"])
def test_results_may_begin_anywhere(small, tmp_path, shift, columns):
    """The caller's array is written: rows begin within lines, and others stand beside them."""
    x = normal(ROWS, columns)
    memory = np.full(x.size + 64, 7, np.float32)
    start = -memory.ctypes.data % 64 // 4 + shift
    out = memory[start : start + x.size].reshape(x.shape)

    def step(x, out):
        out.copy_(x * 2 + x.amax(1, keepdim=True))

    with config.override(dump=tmp_path):
        dj.compile(step)(dj.from_numpy(x), dj.from_numpy(out))

    (source,) = tmp_path.glob("*/*_forward.c")
    assert "dj_bypass(&" in source.read_text()
    np.testing.assert_array_equal(x * 2 + x.max(1, keepdims=True), out)
    assert (memory[:start] == 7).all() and (memory[start + x.size :] == 7).all()


@pytest.mark.parametrize("function", [softmax, FUNCTIONS["pointwise"]], ids=["rows", "blocks"])
def test_bits_do_not_depend_on_threads(codegen, small, function):
    x = normal(4096, 129)
    results = []
    for threads in (1, 2):
        with config.override(num_threads=threads):
            graph = codegen.graph_of(function, codegen.type_of(x))
            results.append(compile_graph(graph)(x)[0])

    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: x + 1, normal(1024, 1024)),
        (lambda x: ops.sum(x, dim=(1,)), normal(1 << 13, 512)),
        (lambda x: ops.lt(x, 0), normal(1 << 13, 1 << 11)),
        (lambda x: x + 1, normal(1 << 15, 100)[:, :96]),
    ],
    ids=["small", "no large result", "bytes", "short rows"],
)
def test_other_results_are_left_to_the_caches(codegen, function, x):
    assert "dj_bypass(" not in source_of(codegen, function, x)


def test_large_results_are_stored_in_lines(codegen):
    x = normal(1 << 11, 1 << 10)
    assert 1 == source_of(codegen, lambda x: x + 1, x).count("dj_bypass(&")
    source = source_of(codegen, softmax, x)
    assert 1 == source.count("dj_bypass(&")
    assert "DJ_ASK_STORED(16777216, &" in source  # asked for where it does not bypass the caches


def test_kernels_that_move_more_than_the_cache_holds_bypass_it(tmp_path, monkeypatch):
    def found(cache: str | None, cpu: str = "model name\t: AMD EPYC") -> int:
        path = tmp_path / "size"
        path.unlink(missing_ok=True)
        if cache is not None:
            path.write_text(cache)
        monkeypatch.setattr(toolchain, "_CACHE", path)
        monkeypatch.setattr(toolchain, "cpu_identity", lambda: cpu)
        return toolchain.bypass_bytes.__wrapped__() >> 20

    assert [found("16384K\n"), found("266240K\n"), found("unknown"), found(None)] == [
        16,
        32,
        32,
        32,
    ]
    assert found("307200K\n", "model name\t: Intel(R) Xeon(R) Processor") == 16
