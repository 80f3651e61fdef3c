"""Exported programs by PyTorch's path: refused."""

from dynajit.core.process import late
from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit exports no programs.  Compile the module, and save its state_dict."

Dim = refused_class("export.Dim", _WHY)
ExportGraphSignature = refused_class("export.ExportGraphSignature", _WHY)
ExportedProgram = refused_class("export.ExportedProgram", _WHY)
draft_export = refused_function("export.draft_export", _WHY)
export = refused_function("export.export", _WHY)
export_for_training = refused_function("export.export_for_training", _WHY)
load = refused_function("export.load", _WHY)
register_dataclass = refused_function("export.register_dataclass", _WHY)
save = refused_function("export.save", _WHY)
unflatten = refused_function("export.unflatten", _WHY)

__all__ = [
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "draft_export",
    "export",
    "export_for_training",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]

late.show(__name__)
