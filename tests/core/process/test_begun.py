"""What a launch begins before it refuses its values is handed over, in order; nothing else is."""

import pytest

from dynajit.core.process.begun import Begun


def test_what_a_refusing_call_begins_is_handed_over() -> None:
    begun = Begun()

    def call(name: str) -> None:
        begun.note(name)
        begun.note(f"{name}, then")
        raise KeyError(name)

    with pytest.raises(KeyError):
        begun.following(call, (KeyError,))("a sum")

    assert ["a sum", "a sum, then"] == begun.handed_over


def test_what_a_call_begins_that_ends_well_or_fails_is_forgotten() -> None:
    begun = Begun()
    begun.note("outside")

    def call(fails: bool) -> str:
        begun.note("within")
        if fails:
            raise OSError
        return "done"

    followed = begun.following(call, (KeyError,))
    assert "done" == followed(False)
    with pytest.raises(OSError):
        followed(True)
    begun.note("outside")

    assert [] == begun.handed_over


def test_a_call_within_a_call_hands_over_in_front_of_what_is_left() -> None:
    """It began again what the outer one had begun."""
    begun = Begun()
    begun.handed_over.append("later")

    def call() -> None:
        begun.note("sooner")
        raise KeyError

    with pytest.raises(KeyError):
        begun.following(call, (KeyError,))()

    assert ["sooner", "later"] == begun.handed_over
