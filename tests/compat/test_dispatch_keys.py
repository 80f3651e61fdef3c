"""Sets of dispatch keys are PyTorch's as far as they go; those of autocast have their effect."""

import dynajit as dj
from dynajit import _C


def test_sets_of_keys_are_joined_and_asked() -> None:
    cpu = _C.DispatchKeySet(_C.DispatchKey.AutocastCPU)
    both = cpu | _C.DispatchKeySet(_C.DispatchKey.AutocastCUDA)
    assert both.has(_C.DispatchKey.AutocastCPU)
    assert not cpu.has(_C.DispatchKey.AutocastCUDA)
    assert cpu == both.remove(_C.DispatchKey.AutocastCUDA) == both & cpu
    assert [_C.DispatchKey.AutocastCPU, _C.DispatchKey.AutocastCUDA] == list(both)
    assert hash(both) == hash(cpu.add(_C.DispatchKey.AutocastCUDA))
    assert _C.DispatchKeySet(_C.DispatchKey.AutocastCUDA) == both - cpu


def test_autocast_is_off_in_a_block_without_its_keys() -> None:
    x = dj.ones(2, 2)
    guard = _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(_C.DispatchKey.AutocastCPU))
    other = _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(_C.DispatchKey.CPU))
    with dj.autocast("cpu"):
        assert dj.bfloat16 is (x @ x).dtype
        with other:
            assert dj.bfloat16 is (x @ x).dtype
        with guard:
            assert dj.float32 is (x @ x).dtype
        assert dj.bfloat16 is (x @ x).dtype
