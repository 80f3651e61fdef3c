from collections.abc import Callable
from typing import Any

class LibraryFunction:
    def __init__(
        self,
        function: Callable[..., Any],
        foreign: tuple[str, ...],
        adapt: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any],
        name: str,
        home: str | type,
        most: int,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]: ...
    @property
    def __name__(self) -> str: ...
    @property
    def __qualname__(self) -> str: ...
    @property
    def foreign(self) -> tuple[str, ...]: ...
    @property
    def most(self) -> int: ...

class LibraryMethod(LibraryFunction): ...

def register(
    explain: Callable[[LibraryFunction, tuple[Any, ...], dict[str, Any], AttributeError], None],
) -> None: ...
