"""Methods that are library functions, which say so where they are defined (`ops.calls.public`)."""

from typing import TYPE_CHECKING, Any

from dynajit.ops.functions import published


class FunctionMethods:
    """The library's functions whose first parameter is the tensor."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


for _facts in published().values():
    if _facts.method:
        setattr(FunctionMethods, _facts.name, _facts.function)
setattr(FunctionMethods, "nelement", published()["numel"].function)  # noqa: B010
