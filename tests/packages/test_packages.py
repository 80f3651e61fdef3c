"""Packages written for PyTorch, run unchanged with dynajit in its place, eagerly and compiled.

Each program (`programs`) runs in PyTorch and in dynajit, in a process each (`child`), from the same
state and inputs. Results, gradients and the state after some training steps have to agree.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch says what is right")
if importlib.util.find_spec("vit_pytorch") is None:
    pytest.skip("the packages are not installed: make packages", allow_module_level=True)

HERE = Path(__file__).resolve().parent
NAMES = (
    "vit_pytorch.vit", "vit_pytorch.simple_vit", "g_mlp_pytorch", "mlp_mixer_pytorch",
    "perceiver_pytorch", "nystrom_attention", "axial_attention", "linformer",
    "rotary_embedding_torch", "local_attention", "lambda_networks", "conformer", "pytorch_tcn",
    "efficientnet_pytorch", "x_transformers", "pytorch_msssim", "entmax", "torchdiffeq",
    "lion_pytorch", "torch_ema",
)  # fmt: skip
LARGER = (
    "transformers.llama", "transformers.generate", "transformers.bert", "diffusers.unet",
    "accelerate", "peft", "safetensors.torch", "timm", "torchvision", "torchmetrics",
    "lightning", "pytorch_lightning", "ignite",
)  # fmt: skip
INSTALLED = [
    name
    for name in (*NAMES, *LARGER)
    if importlib.util.find_spec(name.partition(".")[0]) is not None
]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: Any) -> Path:
    """The folder with what both libraries gave."""
    folder: Path = tmp_path_factory.mktemp("packages")
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    for library in ("torch", "dynajit"):
        command = [sys.executable, str(HERE / "child.py"), library, str(folder)]
        environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
        subprocess.run(command, check=True, env=environment)
    return folder


def found(folder: Path, library: str, name: str, mode: str = "") -> dict[str, np.ndarray]:
    """The arrays of a program."""
    error = json.loads((folder / f"{library}.json").read_text())[name]
    assert error is None, error
    with np.load(folder / library / mode / f"{name}.npz") as saved:
        return {key: saved[key] for key in saved.files}


def scale(key: str, expected: dict[str, np.ndarray]) -> float:
    """The size of a value; of gradients that of the largest, since zeros are sums of others."""
    kind = key.split(" ")[0]
    alike = [v for k, v in expected.items() if k == key or (kind == "gradient" == k.split(" ")[0])]
    return max((float(np.abs(v).max()) for v in alike if v.size), default=0.0)


@pytest.mark.parametrize("mode", ["", "compiled"])
@pytest.mark.parametrize("name", INSTALLED)
def test_a_package_gives_pytorchs_numbers(runs: Path, name: str, mode: str) -> None:
    expected, result = found(runs, "torch", name), found(runs, "dynajit", name, mode)
    assert expected.keys() == result.keys()
    for key, value in expected.items():
        assert (value.shape, value.dtype) == (result[key].shape, result[key].dtype), key
        limit = 1e-4 * scale(key, expected) + 1e-7
        np.testing.assert_allclose(result[key], value, rtol=1e-3, atol=limit, err_msg=key)


def test_every_program_is_compared(runs: Path) -> None:
    assert set(json.loads((runs / "dynajit.json").read_text())) == set(INSTALLED)
    assert set(NAMES) <= set(INSTALLED)
