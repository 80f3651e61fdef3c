"""Which Python runs: the flags by which the bytecode reader and writer differ.

Read by `capture.bytecode.instructions` and `capture.bytecode.translation` (reading), by
`capture.bytecode.assemble` (writing), and where the stack layout of calls or the wording of a
message depends on the version.
"""

import sys
from typing import Final

VERSION: Final = sys.version_info[:2]
IS_311: Final = VERSION == (3, 11)
IS_313: Final = VERSION >= (3, 13)
IS_314: Final = VERSION >= (3, 14)

#: The position that a handler finds below its exception is no object from 3.14 on, so it cannot be
#: handed on. NULL stands for it: it then says "at the start", which nothing but a debugger sees.
POSITION_IS_NULL: Final = IS_314
