"""The README's example runs as printed and shows what it says it shows."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def example() -> str:
    """The Python block that follows the example mark."""
    found = re.search(r"<!-- example.*?-->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_has_twelve_lines() -> None:
    """The README promises a 12-line script."""
    assert 12 == len(example().splitlines())


def test_the_example_shows_graph_guards_break_and_recompile(tmp_path: Path) -> None:
    """Run as a script: graph, guards, the break with its line and hint, a recompile."""
    script = tmp_path / "example.py"
    script.write_text(example())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert "" == done.stderr
    assert 0 == done.returncode
    assert "2 graphs, 1 break" in done.stdout
    assert "tanh" in done.stdout
    assert "top = y.max().item()" in done.stdout
    assert "example.py:6" in done.stdout
    assert "Hint:" in done.stdout
    assert "guards:" in done.stdout
    assert "recompiled:" in done.stdout
