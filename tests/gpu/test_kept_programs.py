"""What is kept on disk of programs on a GPU: kernels, and what is known of graphs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.codegen import pipeline
from dynajit.codegen.compilers import nvrtc
from dynajit.codegen.device import image as device_image
from dynajit.codegen.device import program as cuda_program
from dynajit.codegen.device.plan import PlanData
from dynajit.core.errors import BoundsError
from dynajit.core.process import config

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_cache(driver: Any, tmp_path: Path) -> Iterator[Path]:
    """A cache folder for each test."""
    with config.override(cache_dir=tmp_path / "cache", strict=True):
        yield tmp_path / "cache"
    dj.reset()


@pytest.fixture
def compiler_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Architectures for which the CUDA compiler ran."""
    runs: list[str] = []
    compile_source = nvrtc.compile_source

    def counted(source: str, architecture: str, *rest: Any) -> bytes:
        runs.append(architecture)
        return compile_source(source, architecture, *rest)

    monkeypatch.setattr(nvrtc, "compile_source", counted)
    return runs


def tensor(*shape: int) -> Any:
    return dj.tensor(rng.standard_normal(shape).astype(np.float32), device="cuda")


def loss(x: Any, weight: Any, target: Any) -> Any:
    return F.cross_entropy(F.relu(x @ weight) * 2, target)


def step(function: Any, weight: Any) -> tuple[float, np.ndarray]:
    weight.grad = None
    target = dj.tensor([0, 2, 1, 4], device="cuda")
    value = function(dj.ones(4, 6, device="cuda") * 0.3, weight, target)
    value.backward()
    return value.item(), weight.grad.cpu().numpy()


def decay(x: Any, weight: Any, target: Any) -> Any:
    for _ in range(300):
        x = x * 0.99 + (x.sum() - x) * 0.001
    return loss(x, weight, target)


def test_loops_are_kept(compiler_runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    weight = tensor(6, 5).requires_grad_()
    first = step(dj.compile(decay, fullgraph=True), weight)
    count = len(compiler_runs)
    dj.reset()
    monkeypatch.setattr(pipeline.device_pipeline, "start", None)
    again = step(dj.compile(decay, fullgraph=True), weight)

    assert len(compiler_runs) == count
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_a_known_graph_needs_no_compiler_and_no_code_generation(
    compiler_runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = tensor(6, 5).requires_grad_()
    first = step(dj.compile(loss, fullgraph=True), weight)
    count = len(compiler_runs)
    dj.reset()
    monkeypatch.setattr(pipeline.device_pipeline, "start", None)
    again = step(dj.compile(loss, fullgraph=True), weight)

    assert count == 2
    assert count == len(compiler_runs)
    assert first[0] == again[0]
    np.testing.assert_array_equal(first[1], again[1])


def test_restored_programs_report_errors(compiler_runs: list[str]) -> None:
    def pick(x: Any, index: Any) -> Any:
        return x[index]

    x, index = tensor(4, 3), dj.tensor([1, 2], device="cuda")
    dj.compile(pick, fullgraph=True)(x, index)
    dj.reset()
    with pytest.raises((BoundsError, IndexError)):
        dj.compile(pick, fullgraph=True)(x, dj.tensor([1, 9], device="cuda"))


def test_a_damaged_image_is_compiled_again(compiler_runs: list[str], own_cache: Path) -> None:
    x = tensor(5)
    dj.compile(lambda x: x.exp())(x)
    (file,) = (own_cache / device_image.FOLDER).glob("*.bin")
    file.write_bytes(file.read_bytes()[:-7])
    dj.reset()
    dj.compile(lambda x: x.exp())(x)

    assert 2 == len(compiler_runs)
    assert len(file.read_bytes()) > 100


def test_an_image_that_the_driver_refuses_is_compiled_again(
    compiler_runs: list[str], own_cache: Path
) -> None:
    x = tensor(5)
    dj.compile(lambda x: x.exp())(x)
    (file,) = (own_cache / device_image.FOLDER).glob("*.bin")
    content = b"not an image"
    file.write_bytes(device_image._digest(content) + b"\n" + content)
    dj.reset()
    dj.compile(lambda x: x.exp())(x)

    assert 2 == len(compiler_runs)


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with (
        config.override(cache_dir=blocked),
        pytest.warns(RuntimeWarning, match="cannot be written.*DYNAJIT_CACHE_DIR"),
    ):
        x = tensor(5)
        np.testing.assert_allclose(
            dj.compile(lambda x: x.exp())(x).cpu().numpy(), x.cpu().exp().numpy(), rtol=1e-6
        )


def test_blueprints_survive_json() -> None:
    found = dj.explain(lambda x, n: F.softmax(x @ x * n, dim=-1))(tensor(6, 6), 3.0)
    ((_, program),) = found.records[0].programs
    blueprint = program.blueprint
    again = cuda_program.from_data(cuda_program.to_data(blueprint))

    assert isinstance(blueprint.plan, PlanData)
    assert blueprint.plan == again.plan
    assert blueprint.kernels == again.kernels
    assert (blueprint.results, blueprint.peak) == (again.results, again.peak)


def test_calls_run_op_by_op_while_kernels_are_compiled() -> None:
    function = dj.compile(lambda x: F.softmax(x * 2, dim=-1), options={"async": True})
    x = tensor(6, 9)
    want = F.softmax(x.cpu() * 2, dim=-1).numpy()
    for _ in range(30):
        np.testing.assert_allclose(function(x).cpu().numpy(), want, rtol=1e-5)


def test_sequences_of_programs_are_kept(
    compiler_runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def there_and_back(x: Any) -> Any:
        y = (x * 2).cpu() + 1
        return y, y.to("cuda") * x

    x = tensor(7, 3)
    first = dj.compile(there_and_back, fullgraph=True)(x)
    count = len(compiler_runs)
    dj.reset()
    monkeypatch.setattr(pipeline.device_pipeline, "start", None)
    again = dj.compile(there_and_back, fullgraph=True)(x)

    assert count == len(compiler_runs)
    for one, other in zip(first, again, strict=True):
        assert one.device == other.device
        np.testing.assert_array_equal(one.cpu().numpy(), other.cpu().numpy())
