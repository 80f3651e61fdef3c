"""Files of data beside the kernels: written whole, read unchanged, ignored when damaged."""

import hashlib
import threading
from pathlib import Path

import pytest

from dynajit.codegen.compilers import store
from dynajit.core.process import config

pytestmark = pytest.mark.c_only

DATA = {"text": 'int x;\n\t"ü"', "numbers": [1, -0.0, 1e300, True, None], "deep": [[{"a": []}]]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path):
    """A cache of its own."""
    with config.override(cache_dir=tmp_path):
        yield tmp_path / store.FOLDER


def test_what_was_written_is_read() -> None:
    """Numbers keep class and sign; other keys know nothing."""
    store.write("a", DATA)

    assert repr(DATA) == repr(store.read("a"))
    assert store.read("b") is None


@pytest.mark.parametrize("damage", [
    lambda content: b"",
    lambda content: b"garbage",
    lambda content: content[:-1],
    lambda content: content.replace(b"int x", b"int y"),
    lambda content: content.partition(b"\n")[2],
])  # fmt: skip
def test_a_damaged_file_is_not_read(folder, damage) -> None:
    """It is written again by whoever needed it."""
    store.write("a", DATA)
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))

    assert store.read("a") is None
    store.write("a", DATA)
    assert DATA == store.read("a")


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path) -> None:
    """A file lies where the folder should be: the process has a folder of its own."""
    (tmp_path / "file").write_text("")

    with config.override(cache_dir=tmp_path / "file"):
        with pytest.warns(RuntimeWarning, match="cannot be written.*DYNAJIT_CACHE_DIR"):
            store.write("a", DATA)
        assert DATA == store.read("a")


def test_threads_write_one_key() -> None:
    """Readers see one of the versions, whole."""
    versions = [{"version": number, "filling": "x" * 20_000} for number in range(4)]
    store.write("a", versions[0])
    found: list[object] = []

    def work(mine: dict[str, object]) -> None:
        for _ in range(20):
            store.write("a", mine)
            found.append(store.read("a"))

    threads = [threading.Thread(target=work, args=(version,)) for version in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 80 == len(found)
    assert all(entry in versions for entry in found)


def test_the_folder_does_not_grow_beyond_its_share(folder) -> None:
    """The oldest files go, a few writes late: keys are checksums, of which one in 16 does."""
    keys = [hashlib.sha256(bytes([number])).hexdigest() for number in range(128)]
    with config.override(cache_size_bytes=store.SHARE * 10_000):
        for key in keys:
            store.write(key, "x" * 1000)

    assert sum(key.startswith("0") for key in keys) > 4
    assert sum(file.stat().st_size for file in folder.iterdir()) < 60_000
    assert store.read(keys[-1]) is not None
    assert store.read(keys[0]) is None
