"""The C extension `dynajit.ops._philox`."""

from typing import Any

def words(seed: int, first_block: int, count: int) -> Any: ...
