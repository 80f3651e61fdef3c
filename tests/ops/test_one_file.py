"""An operation is added in one file: its row, function, method, forms and facts stand together.

The package is laid out anew as links, with one file that is longer by a sample operation; a program
then finds it everywhere where operations are.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = Path("dynajit/ops/functions/elements/number.py")

SAMPLE = '''

from dynajit.ops.calls.autocast import autocast
from dynajit.ops.table.families import REAL_NUMERIC, pointwise
from dynajit.ops.table.op_table import Autocast


@pointwise(
    name="bent",
    dtype=REAL_NUMERIC,
    vjp={"x": lambda ops, g, x, slope: ops.where(ops.gt(x, 0), g, g * slope)},
    keeps_zero=True,
)
def _bent(m: Any, x: Any, *, slope: float) -> Any:
    """x where it is positive, else slope times x. Shape, dtype: as x."""
    return m.where(x > 0, x, x * slope)


@public(also=("bowed", "special.bent"), out=Out.SAME_DTYPE, in_place=InPlace.BOTH, method=True,
        foreach=True)
@autocast(cpu=Autocast.FULL)
def bent(input: Any, slope: float = 0.5) -> Any:
    """input where it is positive, else slope times input."""
    return TABLE.bent(input, slope=slope)
'''

PROGRAM = """
import inspect, sys
import dynajit as dj
from dynajit.ops import TABLE

assert sys.argv[1] in dj.__file__, dj.__file__
x = dj.tensor([-2.0, 0.0, 3.0])
expected = [-1.0, 0.0, 3.0]

assert expected == dj.bent(x).tolist() == dj.bowed(x).tolist() == dj.special.bent(x).tolist()
assert expected == x.bent().tolist() == x.bent(slope=0.5).tolist()
assert [-0.5, 0.0, 3.0] == dj.bent(x, 0.25).tolist()

out = dj.empty(3)
assert dj.bent(x, out=out) is out and expected == out.tolist()
try:
    dj.bent(x, out=dj.empty(3, dtype=dj.float64))
except RuntimeError:
    pass
else:
    raise AssertionError("out= of another dtype")

y, z = x.clone(), x.clone()
assert y.bent_() is y and dj.bent_(z) is z and expected == y.tolist() == z.tolist()
assert [expected] == [t.tolist() for t in dj._foreach_bent([x])]
assert [expected] == [t.tolist() for t in dj._foreach_bent_([x.clone()])]

with dj.autocast("cpu"):
    assert dj.float32 is x.bfloat16().bent().dtype
sparse = dj.sparse_coo_tensor([[1]], [-4.0], (2,))
assert [0.0, -2.0] == TABLE.bent(sparse, slope=0.5).to_dense().tolist()

leaf = x.clone().requires_grad_()
leaf.bent().sum().backward()
assert [0.5, 0.5, 1.0] == leaf.grad.tolist()
assert expected == dj.compile(lambda x: x.bent(), fullgraph=True)(x).tolist()

assert "bent" in dj.__all__ and {"bent", "bowed", "bent_"} <= set(dir(dj))
assert "slope times input" in dj.bent.__doc__
assert ["input", "slope"] == list(inspect.signature(dj.bent).parameters)[:2]
"""


def laid_out(tree: Path) -> None:
    """The package as links in one tree, as pyproject.toml maps its folders."""
    places = {"dynajit": tree / "dynajit"} | {
        name: tree / "dynajit" / name for name in ("eager", "capture", "codegen")
    }
    for name, place in places.items():
        for folder, _, files in os.walk(ROOT / name):
            target = place / Path(folder).relative_to(ROOT / name)
            target.mkdir(parents=True, exist_ok=True)
            for file in files:
                if not file.endswith(".pyc"):
                    (target / file).symlink_to(Path(folder) / file)


def test_an_operation_is_added_in_one_file(tmp_path):
    laid_out(tmp_path)
    longer = tmp_path / FILE
    longer.unlink()
    longer.write_text((ROOT / FILE).read_text() + SAMPLE)

    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(tmp_path)],
        env=os.environ
        | {"PYTHONPATH": str(tmp_path), "DYNAJIT_CACHE_DIR": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
