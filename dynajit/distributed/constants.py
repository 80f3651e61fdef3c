"""Constants of process groups, by PyTorch's path."""

import datetime
from typing import Final

default_pg_timeout: Final = datetime.timedelta(minutes=30)
"""Accepted where a timeout is; nothing waits."""

__all__ = ["default_pg_timeout"]
