"""Every Python example of the documentation runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
EXAMPLES = [
    (page.name, number, text)
    for page in sorted(DOCS.glob("*.md"))
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize(
    ("page", "number", "text"), EXAMPLES, ids=[f"{page}-{number}" for page, number, _ in EXAMPLES]
)
def test_the_example_runs(page: str, number: int, text: str, tmp_path: Path) -> None:
    """The block is a program of its own that ends without an error or a warning."""
    script = tmp_path / "example.py"
    script.write_text(text)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert "" == done.stderr
    assert 0 == done.returncode
