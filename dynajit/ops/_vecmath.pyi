from typing import Any

erf: Any
