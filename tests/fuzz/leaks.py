"""What programs leave behind: objects and code of programs that are over.

`live()` counts what holds a user's memory, `grown(before)` what came since. Programs are gone after
`dj.reset()`: no tensor, no code object and no class of theirs may be alive. Used by `run.py` after
each batch and by the tests.
"""

import collections
import gc
import types

#: Types whose objects hold tensors, saved values, graphs and generated programs.
HEAVY = ("Tensor", "CompiledNode", "OpNode", "Graph", "NumpyProgram", "Region")

#: `cls.__module__` would ask the metaclass, which may be anybody's.
module_of = vars(type)["__module__"].__get__


def live() -> "collections.Counter[str]":
    """How many heavy objects, and how many functions and classes of programs, are alive."""
    for _ in range(2):
        gc.collect()
    found: collections.Counter[str] = collections.Counter()
    for held in gc.get_objects():
        kind = type(held)  # isinstance would ask __class__ of objects of anybody
        if kind.__qualname__ in HEAVY:
            found[kind.__qualname__] += 1
        elif kind is types.FunctionType:
            if held.__code__.co_filename.startswith("<program"):
                found["function"] += 1
        elif issubclass(kind, type) and str(module_of(held)).startswith("program_"):
            found["class"] += 1
    return found


def grown(before: "collections.Counter[str]") -> dict[str, int]:
    """What there is more of than before."""
    return dict(live() - before)
