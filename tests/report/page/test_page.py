"""Pages as files: complete, escaped, and a clear error where they cannot be written."""

import base64
import hashlib
import html.parser
import json
import re
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentRuntimeError


class Elements(html.parser.HTMLParser):
    """The elements of a page with their texts, as a browser finds them. Mutable."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open = ""
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        self.open = tag

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open][-1] += data


def hostile(x: Any) -> Any:
    """</script><script>alert(1)</script>"""
    y = x + len("</script><!-- \u2028 & 'quoted' \"twice\" ]]>")
    return y.exp()


@pytest.fixture
def page(tmp_path: Path) -> Elements:
    """The page of a function that would like to be more."""
    found = dj.explain(hostile, backend="numpy")(dj.ones(2))
    found.to_html(tmp_path / "page.html")
    return Elements((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_the_page_loads_nothing_and_runs_its_own_script_alone(page: Elements) -> None:
    """No element names another file; the policy has the hash of the one script."""
    tags = [tag for tag, _ in page.found]
    named = {"src", "href", "srcset", "action"}
    policy = next(a["content"] or "" for t, a in page.found if t == "meta" and "http-equiv" in a)
    script = page.texts["script"][1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert ["application/json", None] == [a.get("type") for t, a in page.found if t == "script"]
    assert not any(named & set(attributes) for _, attributes in page.found)
    assert not {"link", "img", "iframe", "object"} & set(tags)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert "http" not in re.sub(r"http://www.w3.org/2000/svg", "", script)


def test_the_data_is_json_that_holds_sources_as_they_are(page: Elements) -> None:
    content = json.loads(page.texts["script"][0])
    (file,) = content["files"]
    lines = Path(__file__).read_text().splitlines()

    assert file["file"].endswith("test_page.py")
    (block,) = file["blocks"]
    assert lines[block["first"] - 1 :][: len(block["lines"])] == block["lines"]
    assert not set("<>&'\u2028") & set(page.texts["script"][0])


def test_guards_values_and_times_are_those_of_the_explanation(tmp_path: Path) -> None:
    found = dj.explain(hostile, backend="numpy")(dj.ones(2))
    found.to_html(tmp_path / "page.html")
    content = json.loads(Elements((tmp_path / "page.html").read_text()).texts["script"][0])
    (version,) = content["versions"]

    assert [node.name for node in found.graphs[0].nodes] == [
        n[0] for n in version["graph"]["nodes"]
    ]
    assert list(found.stages) == [name for name, _ in version["stages"]]
    assert [guard.text for guard in found.versions[0].guards] == [
        guard["text"] for guard in version["guards"]
    ]


@pytest.mark.parametrize("name", ["nowhere/page.html", "", "."])
def test_a_path_that_cannot_be_written_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = dj.explain(hostile, backend="numpy")(dj.ones(2))

    with pytest.raises(ArgumentRuntimeError, match=r"cannot be written.*Name a file"):
        found.to_html(name)


def test_a_function_without_a_source_has_a_page(tmp_path: Path) -> None:
    """Of `exec`, and of a file that is gone."""
    scope: dict[str, Any] = {}
    exec("def made(x):\n    return x * 2", scope)
    dj.explain(scope["made"], backend="numpy")(dj.ones(2)).to_html(tmp_path / "page.html")

    assert "is not available" in (tmp_path / "page.html").read_text()


def test_a_report_of_nothing_and_of_plain_python_has_a_page(tmp_path: Path) -> None:
    compiled = dj.compile(hostile, backend="numpy")
    compiled.report().to_html(tmp_path / "nothing.html")
    skipped = dj.explain(lambda: 3)()
    skipped.to_html(tmp_path / "plain.html")

    for name in ("nothing", "plain"):
        assert "<title>" in (tmp_path / f"{name}.html").read_text()


def test_pages_are_made_while_other_threads_compile(tmp_path: Path) -> None:
    compiled = dj.compile(hostile, backend="numpy", dynamic=False)
    errors: list[BaseException] = []

    def call(first: int) -> None:
        try:
            for size in range(first, first + 6):
                compiled(dj.ones(size))
                compiled.report().to_html(tmp_path / f"{first}.html")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(10 * n + 1,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == errors
    assert 23 == compiled.report().recompile_count


def test_an_installed_package_has_the_files_of_the_page() -> None:
    """Whatever is neither Python nor C is named in pyproject.toml."""
    root = Path(__file__).resolve().parents[3]
    named = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    folder = root / "dynajit" / "report" / "page"
    files = {path.name for path in folder.iterdir() if path.suffix not in (".py", "")}

    assert {"page.html", "page.css", "page.js"} <= files
    assert files == set(named["package-data"]["dynajit.report.page"])
