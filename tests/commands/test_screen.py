"""Text for people: wrapped on terminals only, in any encoding, with units."""

import io

import pytest

from dynajit.commands import screen


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


LONG = "ok  compiler   " + "word " * 40


@pytest.mark.parametrize("columns", [1, 20, 40, 80])
def test_no_line_is_wider_than_the_terminal(columns, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()

    screen.say(f"  {LONG}\n\n{'x' * 100}", stream)

    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= max(columns, screen.NARROWEST)
    assert f"{LONG}{'x' * 100}".replace(" ", "") == "".join(stream.getvalue().split())


def test_without_a_terminal_lines_stay_as_they_are() -> None:
    stream = io.StringIO()

    screen.say(LONG, stream)

    assert f"{LONG}\n" == stream.getvalue()
    assert screen.width(stream) is None


def test_what_a_stream_cannot_write_is_escaped() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")

    screen.say("größer", stream)

    stream.flush()
    assert b"gr\\xf6\\xdfer\n" == raw.getvalue()


def test_columns_of_a_table_are_aligned() -> None:
    assert "a    b\nccc  d" == screen.table([("a", "b"), ("ccc", "d")])
    assert "" == screen.table([])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1400, "1.4 kB"), (2_500_000, "2.5 MB"),
     (7 * 10**9, "7.0 GB")],
)  # fmt: skip
def test_sizes_have_a_unit_that_fits(value, text) -> None:
    assert text == screen.size(value)


@pytest.mark.parametrize(
    ("value", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (1.5e-6, "1.5 us"), (2e-8, "20 ns")]
)
def test_times_have_a_unit_that_fits(value, text) -> None:
    assert text == screen.seconds(value)


def test_nouns_agree_with_numbers() -> None:
    assert ("1 graph", "0 graphs", "2 boxes") == (
        screen.counted(1, "graph"), screen.counted(0, "graph"), screen.counted(2, "box", "boxes")
    )  # fmt: skip
