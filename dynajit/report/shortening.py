"""Words that all reports share: counts and times."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 graph`, `2 graphs`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def in_time(milliseconds: float) -> str:
    """`0.4 ms`, `340 ms`, `12.5 s`."""
    if milliseconds >= 2_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"
