from collections.abc import Callable
from typing import Any

class RowCall:
    def __call__(self, *inputs: Any, **attributes: Any) -> Any: ...

def install(attempt: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any], /) -> None: ...
