"""The page docs/python_coverage.md, from the results of every version. Called by `run.py`."""

import json
from pathlib import Path
from typing import Final

TEXT: Final = """# CPython's own tests under capture

Written by `python tests/cpython/run.py --update`; not by hand.

"""


def write_table(results: Path, page: Path) -> None:
    """Write the page from `results/<version>.json`."""
    versions = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    page.write_text(TEXT + json.dumps(list(versions)))
