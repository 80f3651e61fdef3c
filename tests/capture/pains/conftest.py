"""What the programs in this folder share: strict mode, an own kernel cache.

Each file is one pain of users of other compilers, and shows that it is none here.
"""

import pytest


@pytest.fixture(autouse=True)
def strict(strict_programs: None) -> None:
    """Every test here runs strictly: see `strict_programs`."""
