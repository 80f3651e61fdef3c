"""`python -m dynajit COMMAND`: `demo` and `doctor`."""

import sys

from dynajit.commands import demo, doctor

COMMANDS = {
    "demo": (demo.main, "train two models on handwritten digits, eagerly and compiled"),
    "doctor": (doctor.main, "what is installed, and what to do about what is missing"),
}


def main(arguments: list[str]) -> int:
    """Run one command; returns the process's exit status."""
    if not arguments or arguments[0] not in COMMANDS:
        print("usage: python -m dynajit COMMAND\n")
        for name, (_, description) in COMMANDS.items():
            print(f"  {name:8s} {description}")
        return 2
    return COMMANDS[arguments[0]][0](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
