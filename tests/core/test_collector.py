"""The garbage collector is held, and left as it was."""

import gc
from collections.abc import Iterator

import pytest

from dynajit.core.collector import paused


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The test run keeps its collector."""
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before_also_after_an_error(enabled: bool) -> None:
    """Off within the block, whatever it was."""
    (gc.enable if enabled else gc.disable)()

    with pytest.raises(ZeroDivisionError), paused():
        assert not gc.isenabled()
        _ = 1 / 0

    assert enabled == gc.isenabled()
