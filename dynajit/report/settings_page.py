"""The documentation page of settings and environment variables, made from their table.

`python -m dynajit.report.settings_page` prints it; it is kept as `docs/configuration.md`, which a
test compares with the table.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dynajit.core.process import settings
from dynajit.core.process.config import SETTINGS
from dynajit.core.process.settings import Setting, Variable

_HEAD: Final = """\
# Settings

```python
import dynajit as dj

dj.config.recompile_limit = 16              # for the whole process, from now on
with dj.config.override(strict=True):       # for a block, in this thread or task
    dj.compile(lambda x: x + 1)(dj.ones(3))
assert dj.config.recompile_limit == 16
```

What is no setting is refused with the name that is near, and so is a value that a setting does not
take. Environment variables are read once, when dynajit is imported; switches are on for `1`,
`true`, `yes` and `on`. A value that is not understood counts as not set, with a warning, and there
is one for a variable whose name is nearly one of these. Where several variables are named, the
first one that is set counts. `python -m dynajit doctor` says what the environment sets.

Settings by PyTorch's names (`torch._dynamo.config`, `torch._inductor.config`, where dynajit stands
for `torch`) are these very settings where there is one; all others warn once that they have no
effect.
"""
_TABLE: Final = "| name | variable | by default | |\n|---|---|---|---|"
_FURTHER: Final = """\
## Other environment variables

These are read where they are needed, and are no settings.

| variable | |
|---|---|"""
_TOLD: Final = """\
## What is told to programs

| variable | |
|---|---|"""


def settings_page(
    table: Iterable[Setting] = tuple(SETTINGS.values()),
    further: Iterable[Variable] = settings.FURTHER,
) -> str:
    """The page as Markdown."""
    others = tuple(further)
    parts = [
        "\n".join([_HEAD, _TABLE, *map(_row, table)]),
        "\n".join([_FURTHER, *(_line(v) for v in others if not v.is_told)]),
        "\n".join([_TOLD, *(_line(v) for v in others if v.is_told)]),
    ]
    return "\n\n".join(parts) + "\n"


def _row(known: Setting) -> str:
    variables = " ".join(f"`{name}`" for name in known.variables)
    default = known.by_default or _shown(known.default)
    about = f"{known.about}. Takes {known.kind.accepts}.".replace("|", "\\|")
    return f"| `{known.name}` | {variables} | {default} | {about} |"


def _shown(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"`{', '.join(sorted(value))}`" if value else "none"
    return f"`{str(value) if isinstance(value, (str, Path)) else repr(value)}`"


def _line(variable: Variable) -> str:
    return f"| `{variable.name}` | {variable.about} |"


if __name__ == "__main__":
    print(settings_page(), end="")
