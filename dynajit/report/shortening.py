"""Words and short forms that all reports share: counts, and what a notebook shows.

Contract: what comes from the program is escaped here for the language it goes to.
"""

from dynajit.core.quoting import in_html

LONGEST_HTML = 20_000
"""Letters of a text in a notebook: more is a page's business."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 graph`, `2 graphs`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def in_time(milliseconds: float) -> str:
    """`0.4 ms`, `340 ms`, `12.5 s`."""
    if milliseconds >= 2_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"


def in_short_html(headline: str, text: str) -> str:
    """A line that unfolds into a text."""
    shown = text if len(text) <= LONGEST_HTML else f"{text[:LONGEST_HTML]}\n..."
    lines = "\n".join(map(in_html, shown.split("\n")))
    return (
        f"<details><summary><code>{in_html(headline)}</code></summary>"
        f'<pre style="overflow-x:auto;line-height:1.35">{lines}</pre></details>'
    )
