"""Which Python runs: the flags by which the bytecode reader and writer differ.

Read by `capture.instructions` and `capture.translation` (reading) and `capture.assemble` (writing),
and nowhere else.
"""

import sys
from typing import Final

VERSION: Final = sys.version_info[:2]
IS_311: Final = VERSION == (3, 11)
IS_312: Final = VERSION == (3, 12)
IS_313: Final = VERSION >= (3, 13)
IS_314: Final = VERSION >= (3, 14)
