"""Which guards are the program's, and which the library's own."""

from typing import Any

import dynajit as dj
from dynajit import capture, nn
from dynajit.report.versions import is_library_file


class Scale(nn.Module):
    """A layer with settings."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.factor = 2.5

    def forward(self, x: Any, mode: str) -> Any:
        return self.linear(x) * (self.factor if mode == "scaled" else 1)


def test_values_of_the_program_are_its_guards_and_lookups_are_the_librarys() -> None:
    (version,) = dj.explain(Scale(), backend="numpy")(dj.ones(2, 3), "scaled").versions
    users = {guard.text for guard in version.guards if not guard.is_own}
    own = {guard.text for guard in version.guards if guard.is_own}

    for text in (
        "type(self.factor) is float",
        "'scaled'",
        "float32[2, 3]",
        "self.linear.weight is",
    ):
        assert any(text in guard for guard in users), text
    for text in ("_call_hooks", "the methods of", "not hasattr", "type(self._parameters)"):
        assert any(text in guard for guard in own), text
        assert not any(text in guard for guard in users), text


def test_files_of_the_library_are_known() -> None:
    assert is_library_file(nn.__file__)
    assert is_library_file(capture.__file__)
    assert not is_library_file(__file__)
