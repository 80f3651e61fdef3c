"""Every code block of the documentation is tried: Python runs, commands exist. Links lead on."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MADE_BY_THE_BUILD = ("_build", "reference", "graph_breaks.md")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

PAGES = sorted(
    path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in MADE_BY_THE_BUILD
)
WRITTEN = [
    *PAGES,
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


EXAMPLES = [
    pytest.param(text, id=f"{page.relative_to(DOCS).with_suffix('').as_posix()}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "python"))
]


@pytest.mark.one_python
@pytest.mark.parametrize("text", EXAMPLES)
def test_the_example_runs(text: str, tmp_path: Path) -> None:
    """The block is a program of its own that ends without an error or a warning."""
    script = tmp_path / "example.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "" == done.stderr
    assert 0 == done.returncode


#: What blocks may be written in: Python and commands are tried, and the others hold no code.
LANGUAGES = {"python", "sh", "text", "{toctree}", "{eval-rst}", "{include}", ""}


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_there_is_no_code_that_no_test_knows(page: Path) -> None:
    starts = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)[::2]

    assert set() == {start.split(" ")[0].strip() for start in starts} - LANGUAGES


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_commands_are_those_that_there_are(page: Path) -> None:
    """A target of the Makefile, an extra of the package, a module, a file."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    commands = [line.partition("#")[0].strip() for line in lines]

    assert [] == [wrong for command in commands if (wrong := why_not_there(command))]


def why_not_there(command: str) -> str | None:
    words = command.replace("'", "").replace('"', "").split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # variables in front of a command
        words = words[1:]
    match words:
        case []:
            return None
        case ["make", *targets]:
            known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            unknown = [target for target in targets if "=" not in target and target not in known]
            return f"{command}: make knows no {unknown}" if unknown else None
        case ["pip", "install", *what]:
            return why_not_installed(command, what)
        case ["python", "-m", module, *_] if module.partition(".")[0] in ("dynajit", "benchmarks"):
            path = ROOT / module.replace(".", "/")
            is_there = path.with_suffix(".py").exists() or (path / "__main__.py").exists()
            return None if is_there else f"{command}: no such module"
        case ["python", script, *_] if script.startswith(("examples/", "tests/")):
            return None if (ROOT / script).exists() else f"{command}: no such file"
        case ["python" | "mpiexec", *_] if "/" not in command:  # a program of the reader's
            return None
        case [script, *_] if script.startswith("dynajit"):
            return None if script in PROJECT["scripts"] else f"{command}: no such script"
        case ["bash", script, *_]:
            return None if (ROOT / script).exists() else f"{command}: no such file"
    return f"{command}: a command of another kind"


def why_not_installed(command: str, what: list[str]) -> str | None:
    extras = PROJECT["optional-dependencies"]
    for requirement in what:
        found = re.fullmatch(r"(?:\.|dynajit)(?:\[([a-z0-9,]+)\])?", requirement)
        if found is None:
            return f"{command}: installs something else"
        unknown = set(filter(None, (found.group(1) or "").split(","))) - extras.keys()
        if unknown:
            return f"{command}: no extra {unknown}"
    return None


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)\)", text)

    assert [] == [link for link in links if not leads_somewhere(page, link)]


def leads_somewhere(page: Path, link: str) -> bool:
    if link.startswith(("https://", "http://", "mailto:")):
        return True
    file, _, heading = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if target == DOCS / "graph_breaks.md":  # made when the documentation is built
        return True
    if not target.exists():
        return False
    return not heading or heading in {slug(line) for line in headings(target)}


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)


def slug(heading: str) -> str:
    """As the pages' own tool and GitHub make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_page_is_reached_from_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    listed = {
        line for block in blocks(DOCS / "index.md", r"\{toctree\}") for line in block.splitlines()
    }

    assert "Eager tensors" in index
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES}
    assert set() == pages - listed - {"index"}


NOT_THERE = (
    "pip install numpy",
    "pip install '.[none]'",
    "make nothing",
    "python -m dynajit.nothing",
    "dynajit-none",
    "rm -rf /",
)


@pytest.mark.parametrize("command", NOT_THERE)
def test_a_command_that_is_not_there_is_noticed(command: str) -> None:
    assert why_not_there(command)
