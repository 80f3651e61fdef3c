"""`hub`: what was fetched before is found where PyTorch keeps it; nothing is fetched."""

import os
from pathlib import Path

import pytest

import dynajit as dj


def test_the_folder_is_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same variables of the environment, and by `set_dir`."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("dynajit.hub._chosen", None)
    for name, text in [("XDG_CACHE_HOME", "/a"), ("TORCH_HOME", "~/b")]:
        monkeypatch.setenv(name, text)
        assert torch.hub.get_dir() == dj.hub.get_dir()
        assert torch.hub._get_torch_home() == dj.hub._get_torch_home()
    dj.hub.set_dir("~/c")
    assert dj.hub.get_dir() == os.path.expanduser("~/c")


def test_a_file_that_was_fetched_is_loaded(tmp_path: Path) -> None:
    """Named by the address, or by the caller."""
    dj.save({"weight": dj.ones(2)}, tmp_path / "net-1a2b.pth")
    address = "https://example.org/weights/net-1a2b.pth?download=true"
    for options in ({}, {"file_name": "net-1a2b.pth"}):
        state = dj.hub.load_state_dict_from_url(address, str(tmp_path), **options)
        assert [1.0, 1.0] == state["weight"].tolist()
    assert dj.utils.model_zoo.load_url(address, str(tmp_path))["weight"].shape == (2,)


def test_a_file_that_is_not_there_is_not_fetched(tmp_path: Path) -> None:
    """The error says where it was looked for."""
    with pytest.raises(NotImplementedError, match=r"other.pth.*downloads nothing"):
        dj.hub.load_state_dict_from_url("https://example.org/other.pth", str(tmp_path))


def test_hashes_in_names_are_read_as_pytorchs() -> None:
    """By the expression that programs import."""
    found = dj.hub.HASH_REGEX.search("resnet18-bfd8deac.pth")
    assert found is not None and found.group(1) == "bfd8deac"
