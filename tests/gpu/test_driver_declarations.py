"""What `codegen/device/driver.h` declares of the CUDA driver is what NVIDIA's header declares.

The header comes with the wheel `nvidia-cuda-runtime-cu12` (a part of the `test` extra) or with a
CUDA toolkit. Pointers to functions must be assignable without a warning once handles, which are
`void *` here, are told to be; the values of enumerations must be equal.
"""

import importlib.util
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python

SOURCES = Path(__file__).resolve().parents[2] / "codegen" / "device"
FOLDERS = ("nvidia.cuda_runtime", "nvidia.cu13")
SYSTEM = Path("/usr/local/cuda/include")

CONSTANTS = {
    "CUDA_ERROR_OUT_OF_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY",
    "MAX_DYNAMIC_SHARED_SIZE_BYTES": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    "CAPTURE_MODE_RELAXED": "CU_STREAM_CAPTURE_MODE_RELAXED",
    "CAPTURE_STATUS_NONE": "CU_STREAM_CAPTURE_STATUS_NONE",
    "STREAM_NON_BLOCKING": "CU_STREAM_NON_BLOCKING",
    "EVENT_DISABLE_TIMING": "CU_EVENT_DISABLE_TIMING",
    "HOST_PORTABLE": "CU_MEMHOSTALLOC_PORTABLE",
    "DATA_F32": "CUDA_R_32F",
    "DATA_F64": "CUDA_R_64F",
    "DATA_F16": "CUDA_R_16F",
    "DATA_BF16": "CUDA_R_16BF",
}

# Handles are pointers to structures that nobody sees, and enumerations are integers.
HANDLES = re.compile(r"\bCU(context|module|function|stream|event|graph|graphNode|graphExec)\b")
ENUMERATIONS = re.compile(
    r"\bCU(result|device_attribute|function_attribute|streamCaptureMode|streamCaptureStatus)\b"
)


def header() -> Path | None:
    for module in FOLDERS:
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(folder) / "include" / "cuda.h").exists():
                return Path(folder) / "include" / "cuda.h"
    return SYSTEM / "cuda.h" if (SYSTEM / "cuda.h").exists() else None


HEADER = header()
needs_header = pytest.mark.skipif(
    HEADER is None or shutil.which("gcc") is None,
    reason="needs gcc and cuda.h: pip install nvidia-cuda-runtime-cu12",
)


def prototypes() -> dict[str, list[str]]:
    """Every function of the library by its symbol -> the parameters of its declarations.

    The preprocessor puts the symbols in place of the names that programs use; older versions are
    declared where the header is read as the driver itself reads it.
    """
    assert HEADER is not None
    found: dict[str, list[str]] = {}
    for option in ((), ("-D__CUDA_API_VERSION_INTERNAL",)):
        text = subprocess.run(
            ["gcc", "-E", "-P", *option, "-include", str(HEADER), "-x", "c", "/dev/null"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name, parameters in re.findall(r"CUresult\s+(cu\w+)\s*\(([^;]*)\)\s*;", text):
            found.setdefault(name, []).append(parameters)
    return found


def plain(parameters: str) -> list[str]:
    """Types of parameters, handles and enumerations written as here."""
    text = HANDLES.sub("void *", ENUMERATIONS.sub("int", parameters))
    for old, new in (
        ("CUdeviceptr", "unsigned long long"), ("CUdevice", "int"), ("cuuint64_t", "uint64_t"),
        ("const CUDA_KERNEL_NODE_PARAMS_v1", "const KernelNodeParameters"),
        ("const CUDA_KERNEL_NODE_PARAMS", "const KernelNodeParameters"),
        ("Address", "unsigned long long"), ("unsigned int", "unsigned"),
    ):  # fmt: skip
        text = text.replace(old, new)
    types = []
    for parameter in text.split(","):
        words = re.sub(r"\b(\w+)\s*$", "", parameter.strip())  # its name
        words = re.sub(r"void \*\s*const\s*\*", "void **", words.replace("const void *", "void *"))
        words = re.sub(r"\bconst (?=void \*)", "", words)
        types.append(re.sub(r"\s+", "", words.replace("const ", "")))
    return types


@needs_header
def test_functions_take_what_the_header_says() -> None:
    own = (SOURCES / "driver.h").read_text().replace("\\\n", " ")
    block = own[own.index("#define DRIVER_FUNCTIONS") : own.index("#define DECLARE_FUNCTION")]
    declared = re.findall(r'F\(\w+,\s*"(\w+)",\s*\(([^)]*)\)\)', block)
    known = prototypes()

    assert len(declared) > 30
    for symbol, parameters in declared:
        assert plain(parameters) in [plain(theirs) for theirs in known[symbol]], symbol


@needs_header
def test_constants_and_structures_have_the_headers_values(tmp_path: Path) -> None:
    assert HEADER is not None
    checks = [f"_Static_assert({own} == {their}, #own);".replace("#own", f'"{own}"')
              for own, their in CONSTANTS.items()]  # fmt: skip
    theirs = "CUDA_KERNEL_NODE_PARAMS_v1"
    checks += [
        f'_Static_assert(sizeof(KernelNodeParameters) == sizeof({theirs}), "size");',
        f"_Static_assert(offsetof(KernelNodeParameters, dynamic_bytes) == "
        f'offsetof({theirs}, sharedMemBytes), "dynamic_bytes");',
        f"_Static_assert(offsetof(KernelNodeParameters, parameters) == "
        f'offsetof({theirs}, kernelParams), "parameters");',
        '_Static_assert(sizeof(Address) == sizeof(CUdeviceptr), "address");',
    ]
    # The names that both have are only one enumerator: ours are read under other names.
    own = (SOURCES / "driver.h").read_text()
    for name in ("CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"):
        own = re.sub(rf"\b{name}\b", f"OWN_{name}", own)
        checks = [re.sub(rf"\({name} ==", f"(OWN_{name} ==", check) for check in checks]
    (tmp_path / "own.h").write_text(own)
    source = tmp_path / "check.c"
    lines = ["#include <cuda.h>", "#include <library_types.h>", "#include <stddef.h>"]
    source.write_text("\n".join([*lines, '#include "own.h"', *checks]))
    include = sysconfig.get_paths()["include"]
    command = [
        "gcc",
        "-std=c11",
        "-fsyntax-only",
        f"-I{HEADER.parent}",
        f"-I{include}",
        str(source),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)

    assert found.returncode == 0, found.stderr
