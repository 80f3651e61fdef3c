"""`python -m dynajit.distributed.launch`: the older name of `dynajit.distributed.run`.

Contract: the same flags, and `--use-env`, which is accepted: ranks are told by the environment, as
since PyTorch 2.0.
"""

import sys
from collections.abc import Sequence

from dynajit.distributed import run

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status."""
    given = list(sys.argv[1:] if args is None else args)
    while given and given[0] in ("--use-env", "--use_env"):
        del given[0]
    return run.main(given)


if __name__ == "__main__":
    sys.exit(main())
