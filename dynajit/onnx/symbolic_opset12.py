"""What an export would write for PyTorch's operators (opset 12), by its path: refused."""

from dynajit.core.refusals import refused_function

_WHY = "dynajit writes no ONNX files.  Save weights with dynajit.save and export in PyTorch."


def __getattr__(name: str) -> object:
    """A function of that name, which raises when it is called."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return refused_function(f"onnx.symbolic_opset12.{name}", _WHY)
