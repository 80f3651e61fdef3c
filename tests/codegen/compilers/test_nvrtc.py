"""The CUDA compiler as a library."""

import pytest

from dynajit.codegen.compilers import nvrtc
from dynajit.core.errors import ToolchainError, UnsupportedError

needs_nvrtc = pytest.mark.skipif(
    nvrtc.find() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)

SOURCE = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'


@needs_nvrtc
def test_a_cubin_is_an_elf_file_and_ptx_is_text() -> None:
    cubin = nvrtc.compile_source(SOURCE, "sm_80")
    ptx = nvrtc.compile_source(SOURCE, "compute_90")

    assert b"\x7fELF" == cubin[:4]
    assert b".target sm_90" in ptx
    assert b"twice" in ptx


@needs_nvrtc
def test_an_error_shows_the_log_and_the_generated_line() -> None:
    with pytest.raises(ToolchainError) as raised:
        nvrtc.compile_source(SOURCE + "\n\nint wrong = missing;", "sm_80")
    message = str(raised.value)

    assert "line 3" in message
    assert "int wrong = missing;" in message
    assert 'identifier "missing" is undefined' in message


@needs_nvrtc
def test_warnings_are_left_out_of_errors() -> None:
    with pytest.raises(ToolchainError) as raised:
        nvrtc.compile_source(
            "static __device__ int unused() { return 1; }\nint wrong = missing;", "sm_80"
        )

    assert "missing" in str(raised.value)
    assert "unused" not in str(raised.value)


@needs_nvrtc
def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(ToolchainError, match="sm_1"):
        nvrtc.compile_source(SOURCE, "sm_1")


def test_without_nvrtc_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find", lambda: None)

    with pytest.raises(UnsupportedError, match="pip install nvidia-cuda-nvrtc-cu12"):
        nvrtc.compile_source(SOURCE, "sm_80")
