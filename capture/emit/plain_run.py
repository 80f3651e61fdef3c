"""What runs instead of a region whose launch refuses its values: the original, as plain Python.

An index out of range is found by a kernel, when nothing of what the region does has become visible
yet. The code of the region then goes on in a copy of the original, from its beginning: writes,
prints and calls that come before the error happen, and the operation raises it at its line.
"""

import dis
import functools
import random
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Final

from bytecode import Instr, Label
from bytecode.instr import InstrLocation, TryBegin, TryEnd

from dynajit.capture.bytecode.assemble import Copy, Item, Writer, with_own_labels
from dynajit.core.errors import LaunchFailed
from dynajit.core.types.device import Device
from dynajit.eager.modes.random import generator_of


def kept(generator: random.Random) -> Callable[[], None]:
    """Gives a generator of Python's the state back that it has now."""
    return functools.partial(generator.setstate, generator.getstate())


#: Slots that the handler needs at most.
DEPTH: Final = 6


class PlainRun:
    """Protects the launch of one region. Mutable: `enter`, `leave`, then `items`.

    Args:
        code: the original.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.handler = Label()
        self.begin = TryBegin(self.handler, False, 0)
        self.location = InstrLocation(code.co_firstlineno, None, None, None)

    def enter(self, location: InstrLocation) -> list[Item]:
        """What comes before the launch, with an empty stack."""
        self.location = location
        return [self.begin, Instr("NOP", location=location)]

    def leave(self) -> list[Item]:
        """What comes after it."""
        return [TryEnd(self.begin)]

    def items(
        self, blocks: Mapping[Device, tuple[str, str]], states: Sequence[str] = ()
    ) -> list[Item]:
        """The handler and the copy, at the end of the code.

        Args:
            blocks: per device the locals that hold the seed and the offset of random numbers, which
                the original will draw itself.
            states: locals that hold what gives a generator of Python's its state back.
        """
        writer = Writer(self.location)
        other = Label()
        writer.label(self.handler, 1)
        writer.append("PUSH_EXC_INFO", None, 1, 2)
        writer.load_constant(LaunchFailed)
        writer.append("CHECK_EXC_MATCH", None, 2, 2)
        writer.append(_JUMP_IF_FALSE, other, 1, 0)
        writer.pop()
        writer.append("POP_EXCEPT", None, 1, 0)
        for device, names in blocks.items():
            give_back = generator_of(device).give_back
            writer.callable(functools.partial(writer.load_constant, give_back))
            for name in names:
                writer.load_local(name)
            writer.call(2)
            writer.pop()
        for name in states:
            writer.callable(functools.partial(writer.load_local, name))
            writer.call(0)
            writer.pop()
        copy = Copy(self.code)
        writer.jump(copy.label(_start(self.code)))
        writer.label(other, 2)
        writer.append("SWAP", 2)
        writer.append("POP_EXCEPT", None, 1, 0)
        writer.append("RERAISE", 0, 1, 0)
        return with_own_labels([*writer.items, *copy.items()], self.handler)


def _start(code: CodeType) -> int:
    """Offset of the first instruction behind the setup of the frame."""
    setup = next(i.offset for i in dis.get_instructions(code) if i.opname == "RESUME")
    return next(offset for offset in Copy.offsets(code) if offset > setup)


_JUMP_IF_FALSE: Final = (
    "POP_JUMP_FORWARD_IF_FALSE" if "POP_JUMP_FORWARD_IF_FALSE" in dis.opmap else "POP_JUMP_IF_FALSE"
)
