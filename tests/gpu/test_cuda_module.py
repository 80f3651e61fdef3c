"""`dynajit.cuda` on a GPU: devices, streams, events, seeds, typed tensors."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, DeviceError, InvalidValueError


def test_there_is_a_gpu() -> None:
    """And all that asks says so."""
    dj.cuda.init()

    assert dj.cuda.is_available()
    assert dj.cuda.is_initialized()
    assert dj.cuda._initialized
    assert dj.cuda.device_count() > 0
    assert 0 == dj.cuda.current_device()
    assert "cuda" == dj.accelerator.current_accelerator().type
    assert dj.accelerator.is_available()
    assert dj.cuda.device_count() == dj.accelerator.device_count()
    dj.cuda.synchronize()
    dj.accelerator.synchronize()


@pytest.mark.parametrize("device", [None, 0, "cuda", "cuda:0", dj.device("cuda", 0)], ids=str)
def test_a_device_is_named_in_many_ways(device: Any) -> None:
    """By number, name, device, or as the current one."""
    facts = dj.cuda.get_device_properties(device)

    assert dj.cuda.get_device_name(device) == facts.name
    assert dj.cuda.get_device_capability(device) == (facts.major, facts.minor)
    assert facts.total_memory > facts.shared_memory_per_block > 0
    assert 32 == facts.warp_size
    assert f"sm_{facts.major}{facts.minor}" in dj.cuda.get_arch_list()
    dj.cuda.synchronize(device)


@pytest.mark.parametrize("device", ["cpu", "cuda:99", -3, "cuda:x", "nothing"], ids=str)
def test_other_devices_are_refused(device: Any) -> None:
    """With a device error."""
    with pytest.raises(DeviceError):
        dj.cuda.get_device_name(device)


def test_what_a_gpu_can_do() -> None:
    """By its capability."""
    major, _ = dj.cuda.get_device_capability()

    assert dj.cuda.is_bf16_supported()
    assert (major >= 8) is dj.cuda.is_bf16_supported(including_emulation=False)
    assert (major >= 8) is dj.cuda.is_tf32_supported()
    assert 0 != dj.cuda.current_blas_handle()
    assert not dj.cuda.is_current_stream_capturing()


def test_devices_are_chosen_for_blocks(second_device: str) -> None:
    """And go back; tensors are made on the one that is current."""
    with dj.cuda.device(second_device):
        assert 1 == dj.cuda.current_device()
        x = dj.ones(2, device="cuda")
        with dj.cuda.device(None), dj.cuda.device(-1):
            assert 1 == dj.cuda.current_device()
    assert 0 == dj.cuda.current_device()
    with dj.cuda.device_of(x):
        assert 1 == dj.cuda.current_device()
    with dj.cuda.device_of(dj.ones(2)):
        assert 0 == dj.cuda.current_device()
    dj.cuda.set_device(second_device)
    try:
        assert second_device == str(dj.zeros(1, device="cuda").device)
        dj.cuda.set_device(-1)
        assert 1 == dj.cuda.current_device()
    finally:
        dj.cuda.set_device(0)
    assert (x + 1).device == x.device  # computed on its own device, whichever is current
    assert isinstance(dj.cuda.can_device_access_peer(0, 1), bool)


def test_work_runs_on_the_chosen_stream() -> None:
    """CuPy's current one, too; what another stream made is waited for."""
    side = dj.cuda.Stream()
    default = dj.cuda.default_stream()

    assert default == dj.cuda.current_stream()
    assert side not in (default, dj.cuda.Stream())
    assert (0, side.cuda_stream) == side.__cuda_stream__()
    x = dj.ones(1000, device="cuda")
    side.wait_stream(dj.cuda.current_stream())
    with dj.cuda.stream(side):
        assert side == dj.cuda.current_stream()
        with dj.cuda.stream(None):
            assert side == dj.cuda.current_stream()
        y = x * 2
    assert default == dj.cuda.current_stream()
    dj.cuda.current_stream().wait_stream(side)
    assert 2000 == (y * 1).sum().item()
    with side:
        assert side == dj.cuda.current_stream()
    dj.cuda.set_stream(side)
    assert side == dj.cuda.current_stream()
    dj.cuda.set_stream(default)
    side.synchronize()
    assert side.query()
    assert hash(side) == hash(dj.cuda.ExternalStream(side.cuda_stream))
    assert side == dj.cuda.ExternalStream(side.cuda_stream)


def test_streams_of_another_device_make_it_current(second_device: str) -> None:
    """For the block."""
    side = dj.cuda.Stream(second_device)
    with dj.cuda.stream(side):
        assert (1, side) == (dj.cuda.current_device(), dj.cuda.current_stream())
    assert 0 == dj.cuda.current_device()
    assert second_device == str(side.device)


def test_events_measure_time() -> None:
    """Between two moments of a stream."""
    start, end = (dj.cuda.Event(enable_timing=True) for _ in range(2))
    assert (True, 0, None) == (start.query(), start.cuda_event, start.device)
    start.record()
    dj.ones(100, 100, device="cuda") @ dj.ones(100, 100, device="cuda")
    end.record()
    end.synchronize()

    assert end.query()
    assert start.elapsed_time(end) >= 0
    assert 0 != start.cuda_event
    assert "cuda:0" == str(start.device)
    end.wait(dj.cuda.Stream())


def test_events_that_know_no_time_are_refused() -> None:
    """By PyTorch's words."""
    plain, timed = dj.cuda.Event(), dj.cuda.Event(enable_timing=True)
    plain.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        plain.elapsed_time(timed)
    with pytest.raises(ValueError, match="must be recorded"):
        timed.elapsed_time(dj.cuda.Event(enable_timing=True))
    with pytest.raises(NotImplementedError, match="interprocess"):
        dj.cuda.Event(interprocess=True)


def test_events_belong_to_a_device(second_device: str) -> None:
    """From their first record on."""
    event = dj.cuda.Stream().record_event()
    with pytest.raises(InvalidValueError, match="cuda:0"):
        event.record(dj.cuda.Stream(second_device))


def test_equal_seeds_give_equal_numbers_everywhere() -> None:
    """The CPU's numbers, on every GPU, whichever call sets the seed."""
    dj.manual_seed(7)
    here, there = dj.rand(5), dj.rand(5, device="cuda")
    dj.cuda.manual_seed(7)
    again = dj.randn(3, device="cuda")
    dj.manual_seed(7)

    np.testing.assert_array_equal(here, there.cpu())
    np.testing.assert_array_equal(dj.randn(3), again.cpu())
    assert 7 == dj.cuda.initial_seed()
    dj.cuda.manual_seed_all(11)
    dj.manual_seed(11)
    np.testing.assert_array_equal(
        dj.nn.functional.dropout(dj.ones(64)),
        dj.nn.functional.dropout(dj.ones(64, device="cuda")).cpu(),
    )


def test_a_gpu_has_a_generator_of_its_own() -> None:
    """Seeding and drawing there leaves the CPU's where it is."""
    dj.manual_seed(1)
    dj.cuda.manual_seed(2)
    dj.rand(9, device="cuda")
    after = dj.rand(4)
    dj.manual_seed(1)

    np.testing.assert_array_equal(dj.rand(4), after)
    state = dj.cuda.get_rng_state()
    first = dj.rand(4, device="cuda").tolist()
    dj.cuda.set_rng_state(state)
    assert first == dj.rand(4, device="cuda").tolist()
    dj.cuda.set_rng_state_all(dj.cuda.get_rng_state_all())
    dj.cuda.seed()
    assert 2 != dj.cuda.initial_seed()
    with pytest.raises(ArgumentError, match="on the CPU"):
        dj.cuda.set_rng_state(state.cuda())


def test_generators_are_of_one_device() -> None:
    """Those of the other are refused, with PyTorch's words."""
    generator = dj.Generator("cuda").manual_seed(3)
    drawn = dj.rand(3, generator=generator, device="cuda")

    assert "cuda:0" == str(generator.device)
    np.testing.assert_array_equal(drawn.cpu(), dj.rand(3, generator=dj.Generator().manual_seed(3)))
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator"):
        dj.rand(3, generator=generator)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        dj.rand(3, generator=dj.Generator(), device="cuda")


def test_forks_go_back_on_every_device() -> None:
    """Or on those that are named."""
    dj.manual_seed(5)
    with dj.random.fork_rng():
        inside = dj.rand(3, device="cuda").tolist(), dj.rand(3).tolist()
    assert inside == (dj.rand(3, device="cuda").tolist(), dj.rand(3).tolist())

    dj.manual_seed(5)
    with dj.random.fork_rng(devices=[]):
        on_gpu, on_cpu = dj.rand(3, device="cuda").tolist(), dj.rand(3).tolist()
    assert on_cpu == dj.rand(3).tolist()
    assert on_gpu != dj.rand(3, device="cuda").tolist()

    with dj.random.fork_rng(devices=["cuda:0"]):
        inside_again = dj.rand(3, device="cuda").tolist()
    assert inside_again == dj.rand(3, device="cuda").tolist()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(reentrant: bool) -> None:
    """Of the GPU's generator; afterwards it stands where it stood."""
    x = dj.ones(50, device="cuda", requires_grad=True)

    def noisy(v: Any) -> Any:
        return dj.nn.functional.dropout(v * 3) * v

    def run(call: Any) -> Any:
        dj.manual_seed(4)
        x.grad = None
        call().sum().backward()
        return x.grad.tolist(), dj.rand(2, device="cuda").tolist()

    plain = run(lambda: noisy(x))
    assert plain == run(lambda: dj.utils.checkpoint.checkpoint(noisy, x, use_reentrant=reentrant))
    numbers, states = dj.utils.checkpoint.get_device_states(x, dj.ones(1))
    assert [0] == numbers
    dj.utils.checkpoint.set_device_states(numbers, states)


def test_classes_by_element_type_make_tensors_on_the_gpu() -> None:
    """And know them again."""
    x = dj.cuda.FloatTensor([1, 2])
    y = dj.cuda.LongTensor(2, 3)

    assert ("cuda", dj.float32) == (x.device.type, x.dtype)
    assert ("cuda", dj.int64, (2, 3)) == (y.device.type, y.dtype, tuple(y.shape))
    assert isinstance(x, dj.cuda.FloatTensor)
    assert not isinstance(x, dj.FloatTensor)
    assert not isinstance(x.cpu(), dj.cuda.FloatTensor)
    assert ("torch.cuda.FloatTensor", "torch.FloatTensor") == (x.type(), x.cpu().type())
    assert "torch.cuda.HalfTensor" == x.cpu().type("torch.cuda.HalfTensor").type()
    assert "torch.FloatTensor" == x.type(dj.FloatTensor).type()
    assert "torch.cuda.LongTensor" == x.type(dj.int64).type()
    assert "torch.cuda.DoubleTensor" == x.cpu().type(dj.cuda.DoubleTensor).type()


def test_ranges_for_profilers_are_accepted() -> None:
    """Nothing is seen of them here."""
    dj.cuda.nvtx.range_push("outer")
    dj.cuda.nvtx.mark("now")
    with dj.cuda.nvtx.range("step {}", 3):
        pass
    dj.cuda.nvtx.range_pop()
    with pytest.raises(NotImplementedError, match="reduce-overhead"):
        dj.cuda.CUDAGraph()
