"""Machines whose GPU cannot be used: one clear sentence each, from every door, and in the doctor.

The stand-in plays the machine, so these tests are skipped where a GPU computes.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit.codegen.device import driver as device_driver
from dynajit.commands import doctor
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import DeviceError, NoGpuError
from dynajit.eager.modes import random


@pytest.fixture(autouse=True)
def _only_with_the_stand_in(is_stand_in: bool) -> None:
    if not is_stand_in:
        pytest.skip("plays another machine")


@pytest.fixture
def machine(is_stand_in: bool) -> Iterator[Callable[..., None]]:
    """A function that makes the machine another one; afterwards it is as before."""
    describe = gpu.module().stand_in.describe

    def change(**facts: Any) -> None:
        describe(**facts)
        gpu.look_again()

    yield change
    change()


def missing_cupy(monkeypatch: Any, tmp_path: Path) -> None:
    """As if no CuPy were installed."""
    monkeypatch.setitem(sys.modules, "cupy", None)


def broken_cupy(monkeypatch: Any, tmp_path: Path) -> None:
    """A CuPy that cannot load its libraries."""
    (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so.12: cannot open')\n")
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.syspath_prepend(tmp_path)


def old_cupy(monkeypatch: Any, tmp_path: Path) -> None:
    """A CuPy of before NumPy 2."""
    monkeypatch.setattr(sys.modules["cupy"], "__version__", "12.3.0")


CASES: list[tuple[Any, str, str]] = [
    ({"driver_version": 0}, "no NVIDIA driver is loaded", "nvidia-smi"),
    (
        {"driver_version": 11040},
        "the NVIDIA driver is too old: it offers CUDA 11.4, and the installed CuPy 14.2.0 was "
        "built for CUDA 13.0",
        "dynajit[cuda12]",
    ),
    ({"devices": 0}, "the NVIDIA driver finds no GPU", "nvidia-smi"),
    (missing_cupy, "CuPy is not installed", "pip install 'dynajit[cuda13]'"),
    (broken_cupy, "cannot be imported (", "Install it again"),
    (old_cupy, "CuPy 12.3.0 is too old; 13 is the oldest", "Install a newer one"),
]


@pytest.fixture(params=CASES, ids=lambda case: case[1][:24])
def broken(
    request: Any, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[str, str]]:
    """(reason, hint) of a machine without a usable GPU."""
    change, reason, hint = request.param
    if callable(change):
        change(monkeypatch, tmp_path)
        gpu.look_again()
    else:
        machine(**change)
    yield reason, hint
    monkeypatch.undo()
    gpu.look_again()


def test_questions_are_answered_without_an_error(broken: tuple[str, str]) -> None:
    """There are no devices; the reason is kept."""
    assert not dj.cuda.is_available()
    assert 0 == dj.cuda.device_count()
    assert not dj.cuda.is_initialized()
    assert [] == dj.cuda.get_arch_list()
    assert not dj.cuda.is_bf16_supported()
    assert not dj.backends.cuda.is_built()
    assert dj.accelerator.current_accelerator() is None
    assert [0, 0, 0, 0] == [
        dj.cuda.memory_allocated(), dj.cuda.max_memory_allocated(), dj.cuda.memory_reserved(),
        dj.cuda.max_memory_reserved(),
    ]  # fmt: skip
    assert {} == dj.cuda.memory_stats()
    assert [] == dj.cuda.get_rng_state_all()
    dj.cuda.empty_cache()
    dj.cuda.reset_peak_memory_stats()
    dj.cuda.reset_accumulated_memory_stats()
    dj.cuda.ipc_collect()
    dj.cuda.manual_seed(1)
    dj.cuda.manual_seed_all(1)
    dj.cuda.seed_all()
    with dj.cuda.device(None), dj.cuda.device(-1), dj.cuda.device_of(dj.ones(1)):
        pass
    assert broken[0] in (gpu.why_not() or "")


def test_what_needs_a_gpu_says_why_there_is_none(broken: tuple[str, str]) -> None:
    """And how to mend it."""
    reason, hint = broken
    x = dj.ones(2)
    doors: list[Callable[[], Any]] = [
        dj.cuda.init, dj.cuda.current_device, dj.cuda.synchronize, dj.cuda.get_device_name,
        dj.cuda.Stream, dj.cuda.Event, dj.cuda.current_stream, dj.cuda.mem_get_info,
        dj.cuda.memory_summary, dj.cuda.get_rng_state, dj.cuda.memory._record_memory_history,
        dj.cuda.nvtx.range_pop, dj.accelerator.synchronize,
        lambda: dj.cuda.set_device(0), lambda: dj.cuda.device(0), lambda: dj.cuda.stream(None),
        lambda: dj.tensor([1.0], device="cuda"), lambda: dj.zeros(3, device="cuda:0"),
        lambda: dj.rand(3, device="cuda"), lambda: x.cuda(), lambda: x.to("cuda"),
        lambda: dj.nn.Linear(2, 2, device="cuda"), lambda: dj.nn.Linear(2, 2).cuda(),
        lambda: dj.Generator("cuda"), lambda: dj.cuda.FloatTensor(3), lambda: x.to(0),
        lambda: x.type("torch.cuda.FloatTensor"), lambda: x.untyped_storage().cuda(),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(NoGpuError) as caught:
            door()
        assert reason in str(caught.value)
        assert hint in str(caught.value)
        assert isinstance(caught.value, (DeviceError, NotImplementedError))


def test_tensors_of_the_cpu_work_as_ever(broken: tuple[str, str]) -> None:
    """Pinned memory, too, is asked for in vain."""
    x = dj.arange(4.0)

    assert x.pin_memory() is x
    assert not x.is_pinned()
    assert 6 == x.sum().item()
    assert x.cpu() is x


def test_the_doctor_tells(broken: tuple[str, str], capsys: Any) -> None:
    """In one line that does not count as a failure."""
    doctor.run(Namespace())
    lines = [line for line in capsys.readouterr().out.splitlines() if " gpu " in line]

    assert 1 == len(lines)
    assert lines[0].startswith("-- ")
    assert broken[0] in lines[0]
    assert broken[1] in lines[0]


def test_hidden_devices_are_named(
    machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that hides them."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    machine(devices=0)

    assert "CUDA_VISIBLE_DEVICES is '': unset it" in (gpu.why_not() or "")


def test_random_states_come_back_where_the_gpu_is_gone(machine: Callable[..., None]) -> None:
    """As in a forked child of a process that used one: checkpoints restore all states."""
    dj.rand(1, device="cuda")
    before = random.states()
    machine(driver_version=0)
    dj.rand(3)

    random.set_states(before)
    for device, state in random.states().of.items():
        assert before.of[device].tolist() == state.tolist()


def test_the_doctor_tells_of_old_gpus(machine: Callable[..., None], capsys: Any) -> None:
    """For which CUDA 13 makes no code."""
    machine(capability=(7, 0))
    doctor.run(Namespace())

    assert "capability 7.0: too old for CUDA 13: pip install 'dynajit[cuda12]'" in (
        capsys.readouterr().out
    )


def test_the_doctor_tells_of_libraries_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """By trying each."""

    def failing(x: Any) -> Any:
        raise RuntimeError("CuPy failed to load libcufft.so.12: OSError\nmore")

    monkeypatch.setattr(gpu.module().fft, "fft", failing)
    doctor.run(Namespace())

    assert "cuFFT does not work (CuPy failed to load libcufft.so.12: OSError)" in (
        capsys.readouterr().out
    )


def test_the_doctor_tells_of_several_cupys(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """They overwrite one another's files."""

    class Installed:
        def __init__(self, name: str) -> None:
            self.metadata = {"Name": name}

    names = ["numpy", "cupy-cuda12x", "cupy-cuda13x"]
    monkeypatch.setattr("importlib.metadata.distributions", lambda: map(Installed, names))
    doctor.run(Namespace())

    assert "pip uninstall cupy-cuda12x cupy-cuda13x" in capsys.readouterr().out


def test_the_doctor_tells_what_compiled_functions_lack(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A driver that cannot be loaded; cuBLASLt, where only that is missing."""
    with dj.config.override(cuda_driver="libno-such-driver.so"):
        doctor.run(Namespace())
    assert "--  launches   compiled functions on a GPU need the CUDA driver" in (
        capsys.readouterr().out
    )
    monkeypatch.setattr(device_driver, "driver", lambda: None)
    monkeypatch.setattr(device_driver, "products_library", lambda: None)
    doctor.run(Namespace())
    assert "--  launches   matrix products on a GPU need cuBLASLt" in capsys.readouterr().out


def test_old_cupys_have_no_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by name; everything else works."""
    monkeypatch.setattr(sys.modules["cupy"], "__version__", "13.6.0")
    gpu.look_again()
    try:
        assert 3 == dj.ones(3, device="cuda").sum().item()
        with pytest.raises(RuntimeError, match="bfloat16 on a GPU needs CuPy 14"):
            dj.ones(3, dtype=dj.bfloat16).cuda()
        with pytest.raises(RuntimeError, match="bfloat16 on a GPU needs CuPy 14"):
            dj.ones(3, device="cuda").bfloat16()
    finally:
        monkeypatch.undo()
        gpu.look_again()
