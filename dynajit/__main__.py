"""`python -m dynajit COMMAND`; the script `dynajit` is the same."""

import sys

from dynajit.commands.command_line import main

if __name__ == "__main__":
    sys.exit(main())
