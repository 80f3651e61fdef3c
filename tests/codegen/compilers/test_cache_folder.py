"""Folders and files of the cache: what others could have written is never read."""

import ctypes
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dynajit.codegen.compilers import cache_folder, store, toolchain
from dynajit.codegen.device import image as device_image
from dynajit.core.process import config

pytestmark = [
    pytest.mark.c_only,
    pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here"),
]
SOMEBODY = 12345
as_root = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root gives files away"
)
SOURCE = "int run(void) { return 7; }\n"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """A cache that does not exist yet."""
    with config.override(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was warned of a file yet."""
    monkeypatch.setattr(cache_folder._folders, "told_of_file", False)


def replaced(cache: Path) -> Path:
    """The folder that is used in place of a cache; there is one warning about it."""
    with pytest.warns(RuntimeWarning, match="DYNAJIT_CACHE_DIR") as met:
        folder = cache_folder.folder_of("kernels")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert folder.parent == cache_folder.folder_of("graphs").parent
        assert folder == cache_folder.folder_of("kernels")

    assert 1 == len(met)
    assert str(cache) in str(met[0].message)
    assert folder.stat().st_uid == os.geteuid()
    assert 0o700 == folder.stat().st_mode & 0o777
    assert 0o700 == folder.parent.stat().st_mode & 0o777
    return folder


def test_a_new_cache_is_ours_alone_whatever_the_umask(cache: Path) -> None:
    before = os.umask(0)
    try:
        folder = cache_folder.folder_of("kernels")
    finally:
        os.umask(before)

    assert cache / "kernels" == folder
    assert {0o700} == {path.stat().st_mode & 0o777 for path in (cache, folder)}


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777, 0o720, 0o702])
@pytest.mark.parametrize("which", ["cache", "cache/kernels"])
def test_a_folder_that_others_can_write_is_replaced(cache: Path, mode: int, which: str) -> None:
    folder = cache.parent / which
    folder.mkdir(parents=True)
    folder.chmod(mode)

    assert not replaced(cache).is_relative_to(cache)


@as_root
@pytest.mark.parametrize("which", ["cache", "cache/kernels"])
def test_a_folder_of_somebody_elses_is_replaced(cache: Path, which: str) -> None:
    folder = cache.parent / which
    folder.mkdir(parents=True)
    os.chown(folder, SOMEBODY, -1)

    assert not replaced(cache).is_relative_to(cache)


def test_a_folder_on_the_way_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    with config.override(cache_dir=tmp_path / "open" / "cache"):
        replaced(tmp_path / "open" / "cache")


def test_a_folder_below_one_like_tmp_is_used(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    with config.override(cache_dir=tmp_path / "open" / "cache"):
        assert tmp_path / "open" / "cache" / "kernels" == cache_folder.folder_of("kernels")


@as_root
def test_the_home_of_another_user_may_hold_a_cache_of_ours(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", SOMEBODY, -1)
    with config.override(cache_dir=tmp_path / "home" / "cache"):
        assert tmp_path / "home" / "cache" / "kernels" == cache_folder.folder_of("kernels")


def test_links_of_ours_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with config.override(cache_dir=tmp_path / "link" / "cache"):
        assert tmp_path / "link" / "cache" / "kernels" == cache_folder.folder_of("kernels")


@as_root
@pytest.mark.parametrize("which", ["link", "cache", "cache/kernels"])
def test_links_of_somebody_elses_are_not_followed(tmp_path: Path, which: str) -> None:
    real = tmp_path / "real" / "kernels"
    real.mkdir(parents=True)
    cache = tmp_path / "link" if which == "link" else tmp_path / "cache"
    link = tmp_path / which
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(real if which.endswith("kernels") else real.parent)
    os.chown(link, SOMEBODY, -1, follow_symlinks=False)
    with config.override(cache_dir=cache):
        replaced(cache)


def test_links_that_go_round_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with config.override(cache_dir=tmp_path / "a" / "cache"):
        replaced(tmp_path / "a" / "cache")


def test_a_folder_that_was_exchanged_is_looked_at_again(cache: Path) -> None:
    cache_folder.folder_of("kernels").rmdir()
    (cache / "kernels").mkdir()
    (cache / "kernels").chmod(0o777)

    assert not replaced(cache).is_relative_to(cache)


# ---------------------------------------------------------------------------------------------
# files


def _as_it_is(path: Path) -> None:
    pass


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


def _of_the_group(path: Path) -> None:
    path.chmod(0o660)


def _given_away(path: Path) -> None:
    os.chown(path, SOMEBODY, -1)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _bomb(path: Path) -> None:
    os.truncate(path, cache_folder.MOST_BYTES + 1)


UNSAFE = [
    _open_to_all, _of_the_group, pytest.param(_given_away, marks=as_root), _link, _pipe, _device,
    _socket, _bomb,
]  # fmt: skip
unsafe = pytest.mark.parametrize("change", UNSAFE)


@unsafe
def test_data_that_is_not_ours_alone_is_made_again(
    cache: Path, change: Callable[[Path], None]
) -> None:
    store.write("a", {"numbers": [1, 2]})
    change(cache / "graphs" / "a.json")

    with pytest.warns(RuntimeWarning, match="not this user's alone") as met:
        assert store.read("a") is None
    assert store.read("a") is None
    assert 1 == len(met)
    store.write("a", {"numbers": [3]})
    assert {"numbers": [3]} == store.read("a")


@unsafe
@pytest.mark.parametrize("which", ["record", "code"])
def test_code_that_is_not_ours_alone_is_compiled_again(
    cache: Path, change: Callable[[Path], None], which: str
) -> None:
    toolchain.build(SOURCE)
    toolchain._loaded.clear()
    code = next(path for path in (cache / "kernels").iterdir() if path.suffix in (".o", ".so"))
    change(code if which == "code" else code.with_suffix(".json"))

    with pytest.warns(RuntimeWarning, match="not this user's alone"):
        assert toolchain.find_built(SOURCE) is None
    built = toolchain.build(SOURCE)
    assert not built.from_cache
    assert 7 == ctypes.CFUNCTYPE(ctypes.c_int)(built.library.address("run"))()
    del built
    toolchain._loaded.clear()
    again = toolchain.find_built(SOURCE)
    assert again is not None
    assert again.from_cache


@unsafe
def test_images_that_are_not_ours_alone_are_not_loaded(
    cache: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cache_folder.folder_of(device_image.FOLDER) / "image.bin"
    monkeypatch.setattr(device_image, "_path", lambda source, architecture: path)
    content = b"an image"
    digest = hashlib.sha256(content).hexdigest().encode()
    cache_folder.write_atomically(path, digest + b"\n" + content)
    found = device_image.find(SOURCE, "sm_90")
    assert found is not None
    assert content == found.content

    change(path)
    with pytest.warns(RuntimeWarning, match="not this user's alone"):
        assert device_image.find(SOURCE, "sm_90") is None


@unsafe
def test_a_planted_object_never_runs(cache: Path, change: Callable[[Path], None]) -> None:
    """It has a record that says that it is the code."""
    toolchain.build(SOURCE)
    entry = next((cache / "kernels").glob("*.json"))
    planted = toolchain.build("int run(void) { return 13; }\n")
    assert 13 == ctypes.CFUNCTYPE(ctypes.c_int)(planted.library.address("run"))()
    other = next(path for path in (cache / "kernels").glob("*.json") if path != entry)
    record = json.loads(other.read_text())
    for path in (other, *other.parent.glob(f"{other.stem}.*o")):
        path.rename(entry.with_suffix(path.suffix))
    assert record == json.loads(entry.read_text())
    change(entry)
    toolchain._loaded.clear()

    with pytest.warns(RuntimeWarning, match="not this user's alone"):
        built = toolchain.build(SOURCE)
    assert 7 == ctypes.CFUNCTYPE(ctypes.c_int)(built.library.address("run"))()


def test_a_pipe_that_somebody_writes_to_is_not_read(cache: Path) -> None:
    store.write("a", 1)
    path = cache / "graphs" / "a.json"
    _pipe(path)

    def write() -> None:
        with suppress(BrokenPipeError):
            path.write_bytes(b"planted")

    writer = threading.Thread(target=write)
    writer.start()

    with pytest.warns(RuntimeWarning, match="no regular file"):
        assert store.read("a") is None
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that the writer ends
    writer.join(60)
    os.close(end)
    path.unlink()


def test_a_folder_in_place_of_a_file_is_no_data(cache: Path) -> None:
    store.write("a", 1)
    _folder(cache / "graphs" / "a.json")

    with pytest.warns(RuntimeWarning, match="no regular file"):
        assert store.read("a") is None
    store.write("a", 2)


@pytest.mark.parametrize("text", [b"x", b"[" * 100_000, b"\xff"])
def test_data_with_the_right_checksum_may_be_no_json(cache: Path, text: bytes) -> None:
    path = cache_folder.folder_of(store.FOLDER) / "a.json"
    cache_folder.write_atomically(path, store._digest(text) + b"\n" + text)

    assert store.read("a") is None


CHILD = """
import os, sys, warnings
warnings.simplefilter("error")
import dynajit as dj
warnings.simplefilter("default")
f = dj.compile(lambda x: (x * 2).sum())
print(f(dj.ones(3)).item())
"""


@as_root
def test_a_cache_planted_for_another_process_is_not_loaded(tmp_path: Path) -> None:
    """All of it is somebody else's; the program runs, with one warning."""
    environment = {**os.environ, "DYNAJIT_CACHE_DIR": str(tmp_path / "cache")}
    environment["TMPDIR"] = str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-c", CHILD]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    for path in (tmp_path / "cache", *before):
        os.chown(path, SOMEBODY, -1)
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)

    assert "6.0\n" == done.stdout
    assert 1 == done.stderr.count("ConfigurationWarning")
    assert "is not used, since others could put code there" in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    assert [] == list((tmp_path / "tmp").iterdir())
