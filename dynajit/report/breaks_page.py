"""The documentation page of graph breaks, made from the table.

`python -m dynajit.report.breaks_page` prints it; `docs/conf.py` writes it when the documentation
is built, so the page always has every row.
"""

from collections.abc import Iterable

from dynajit.capture import breaks
from dynajit.capture.breaks import Reason

_HEAD = """\
# Graph breaks

A graph ends where Python cannot be captured: everything before runs compiled, the line itself runs
as plain Python, and what follows is compiled again. `dj.explain(fn)(*args)`, `fn.report()` and
`DYNAJIT_LOG=breaks` name the line, the cause and what to change; under `fullgraph=True` a break is
an error that says the same. These are all the causes there are.
"""


def breaks_page(rows: Iterable[Reason] = breaks.TABLE) -> str:
    """The page as Markdown: one section per row, avoidable ones first, by name."""
    ordered = sorted(rows, key=lambda row: (row.fundamental, row.name))
    return "\n".join([_HEAD, *(_section(row) for row in ordered)])


def _section(row: Reason) -> str:
    kind = (
        "The program asks for this: no compiler could go on."
        if row.fundamental
        else "A limit of dynajit."
    )
    cause = row.explanation[0].upper() + row.explanation[1:]
    return f"## {row.name}\n\n{cause}. {kind}\n\n{row.hint}\n"


if __name__ == "__main__":
    print(breaks_page())
