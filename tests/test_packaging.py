"""What is published beside the code: metadata, the source distribution, files for GitHub."""

import importlib.metadata
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: Written by setuptools into every source distribution.
OF_SETUPTOOLS = ("PKG-INFO", "setup.cfg", "dynajit.egg-info/")


def files_of_git(*options: str) -> set[str]:
    """That exist, by their paths from the root."""
    command = ["git", "ls-files", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


@pytest.mark.one_python
def test_the_source_distribution_is_the_repository(tmp_path: Path) -> None:
    """Tests, documentation and benchmarks run from it; nothing that was built is in it."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    tracked, new = files_of_git(), files_of_git("--others", "--exclude-standard")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(tmp_path)]
    command += ["sdist", "--dist-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {member.name.partition("/")[2] for member in files if member.isfile()}

    kept = {name for name in names if not name.startswith(OF_SETUPTOOLS)}
    assert set() == tracked - kept
    assert set() == kept - tracked - new


def test_the_version_is_written_alike_everywhere() -> None:
    citation = re.search(r'^version: "(.*)"$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)

    assert citation is not None
    assert importlib.metadata.version("dynajit") == PROJECT["version"] == citation.group(1)


def test_every_release_in_the_changelog_has_a_number_and_a_date() -> None:
    first, *releases = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert "Unreleased" == first
    wrong = [r for r in releases if not re.fullmatch(r"\d+\.\d+\.\d+ \(\d{1,2} \w+ \d{4}\)", r)]
    assert [] == wrong
    assert releases[0].startswith(PROJECT["version"])


def test_the_metadata_name_every_python_that_is_tested() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    tested = re.findall(r'"(3\.\d+)"', workflow)
    named = [
        found.group(1)
        for line in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]

    assert tested == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_what_the_tests_need_is_what_the_examples_need_and_more() -> None:
    extras = PROJECT["optional-dependencies"]

    assert set() == set(extras["examples"]) - set(extras["test"])


YAML = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    ROOT / "CITATION.cff",
    ROOT / ".pre-commit-config.yaml",
]


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_files_for_others_can_be_read(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    read: dict[str, Any] = yaml.safe_load(path.read_text())

    assert read
    if path.parent.name == "ISSUE_TEMPLATE" and path.name != "config.yml":
        assert {"name", "description", "body"} <= read.keys()
        assert all({"id", "type", "attributes"} <= part.keys() for part in read["body"])
