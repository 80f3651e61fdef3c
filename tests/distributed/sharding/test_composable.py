"""`fully_shard`: what PyTorch's computes over Gloo."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.distributed.sharding.both import SIZE, by_dynajit
from tests.support.ranks import Raised, on_ranks

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_training_is_pytorchs(tmp_path: Path) -> None:
    """Losses, norms of gradients and parameters, with accumulation and clipping, in float64."""
    pytest.importorskip("torch")
    module = "tests.distributed.sharding.both"
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(rank), str(tmp_path)],
            cwd=ROOT,
            env=variables,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(SIZE)
    ]
    (ours,) = on_ranks([by_dynajit], SIZE)
    said = [process.communicate(timeout=100)[1] for process in started]
    assert [0] * SIZE == [process.returncode for process in started], said

    for rank, found in enumerate(ours):
        assert not isinstance(found, Raised), found
        expected = pickle.loads((tmp_path / f"results{rank}").read_bytes())
        np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-9)
        np.testing.assert_allclose(found["norms"], expected["norms"], rtol=1e-9)
        assert list(expected["parameters"]) == list(found["parameters"])
        for name, value in expected["parameters"].items():
            np.testing.assert_allclose(found["parameters"][name], value, rtol=1e-8, atol=1e-11)
