"""The pages of reports in a browser: every claim is clicked. Skipped without `make browser`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynajit as dj
from tests.support import pages, transformer

HERE = Path(__file__)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with pages.browser() as found:
        yield found


@pytest.fixture(scope="module")
def explained(kernel_folder: Path) -> Any:
    """What `explain` says of six layers."""
    model, tokens = transformer.example()
    with dj.config.override(cache_dir=kernel_folder, strict=True), dj.no_grad():
        return dj.explain(transformer.training_loss)(model, tokens)


class Opened:
    """A page in a browser. Mutable: what the browser complains of is noted."""

    def __init__(self, chromium: Any, file: Path, **options: Any) -> None:
        self.view = chromium.new_page(viewport={"width": 1400, "height": 900}, **options)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.view.on("console", lambda message: self.complaints.append(message.text))
        self.view.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.view.on("request", lambda request: self.asked.append(request.url))
        self.view.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.view.goto(file.as_uri())

    def row(self, text: str) -> Any:
        """The line of source that contains a text."""
        return self.view.locator(".src", has_text=text).first

    def tab(self, name: str) -> Any:
        """What a tab shows."""
        self.view.click(f"#tab-{name}")
        assert "true" == self.view.get_attribute(f"#tab-{name}", "aria-selected")
        return self.view.locator("#panel")


@pytest.fixture
def page(chromium: Any, explained: Any, tmp_path: Path) -> Iterator[Opened]:
    """The page of the six layers."""
    explained.to_html(tmp_path / "page.html")
    opened = Opened(chromium, tmp_path / "page.html")
    yield opened
    assert [] == opened.complaints
    assert [(tmp_path / "page.html").as_uri()] == opened.asked  # the page loads nothing
    opened.view.close()


def line_of(text: str) -> int:
    """Number of the line of the model that contains a text."""
    lines = Path(transformer.__file__).read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if text in line)
    return found


def test_the_top_has_the_numbers_of_the_explanation(page: Opened, explained: Any) -> None:
    facts = page.view.inner_text("#facts")

    assert "training_loss" == page.view.inner_text("h1")
    for number, noun in (
        (explained.graph_count, "graphs"), (explained.break_count, "break"),
        (explained.op_count, "operations"), (len(explained.kernels), "kernels"),
        (len(explained.guards), "guards"),
    ):  # fmt: skip
        assert f"{number} {noun}" in facts


def test_the_source_is_that_of_the_functions_met(page: Opened) -> None:
    """Each function whose lines were captured, whole, with its numbers; nothing else."""
    written = Path(transformer.__file__).read_text().splitlines()
    shown = {}
    for row in page.view.locator(".src").all():
        number = int(row.locator(".number").inner_text())
        shown[number] = row.locator(".text").inner_text()

    assert {number: written[number - 1] for number in shown} == shown
    headers = page.view.locator(".block > header b").all_inner_texts()
    assert ["Attention.forward", "Layer.forward", "Transformer.forward", "training_loss"] == headers
    assert not page.view.locator(".note").count()


def test_lines_have_the_colours_of_their_graphs(page: Opened) -> None:
    """Lines in front of the break and behind it differ; what was not met has none."""

    def colour(text: str) -> str:
        bar = page.row(text).locator(".bar")
        return str(bar.evaluate("bar => getComputedStyle(bar).backgroundColor"))

    before, after = colour("x = self.words(tokens)"), colour("return loss * 1.0")
    assert colour("return self.logits") == before != after
    assert "rgba(0, 0, 0, 0)" == colour("raise ValueError")


def test_a_line_shows_its_operations_kernels_guards_and_timings(
    page: Opened, explained: Any
) -> None:
    text = "mixed = F.scaled_dot_product_attention"
    page.row(text).click()
    panel = page.view.locator("#panel")
    own = [node for node in explained.graphs[0].nodes
           if node.location and node.location.line == line_of(text)]  # fmt: skip

    assert f"transformer.py:{line_of(text)}" in panel.inner_text()
    assert 6 == len(own)
    assert [node.name for node in own] == panel.locator("tr.go td:nth-child(2)").all_inner_texts()
    assert panel.locator("details.kernel").count()
    assert panel.locator("details.timing").count()
    page.row("q = q.reshape").click()
    relied_on = [
        guard.text
        for guard in explained.versions[0].guards
        if guard.location == (transformer.__file__, line_of("q = q.reshape")) and not guard.is_own
    ]
    assert any("heads" in guard for guard in relied_on)
    assert relied_on == panel.locator("ul.plain:not(details ul) li > code").all_inner_texts()


def test_a_kernel_unfolds_to_its_text(page: Opened, explained: Any) -> None:
    """That of its first equal one; equal ones are together."""
    page.row("x = self.words(tokens)").click()
    card = page.view.locator("#panel details.kernel").first
    name = card.locator("summary code").first.inner_text()
    source = next(kernel.source for kernel in explained.kernels if kernel.name == name)

    assert "" == card.locator("pre").inner_text()
    card.locator("summary").first.click()
    assert source.split() == card.locator("pre:not(:empty)").inner_text().split()
    assert "6×" in page.tab("kernels").inner_text()


def test_the_users_guards_come_first_and_the_librarys_are_folded(
    page: Opened, explained: Any
) -> None:
    panel = page.tab("guards")
    own = panel.locator("details.own")
    users = panel.locator("ul.plain:not(details ul)").last.inner_text()

    assert "tokens is Tensor int64[2, 17]" in users
    assert "equal layers" in panel.inner_text()
    assert own.get_attribute("open") is None
    assert not own.locator("li").first.is_visible()
    own.locator("summary").click()
    assert own.locator("li").first.is_visible()
    count = sum(guard.is_own for guard in explained.versions[0].guards)
    assert f"{count} guards" in own.locator("summary").inner_text()


def test_a_break_is_marked_with_count_and_time_and_says_what_to_do(
    page: Opened, explained: Any
) -> None:
    row = page.row("if loss.item() > 100")
    (found,) = explained.breaks

    assert re.fullmatch(r"break 1× [\d.]+ m?s", row.locator(".mark.break").inner_text())
    row.click()
    card = page.view.locator("#panel .card.break").inner_text()
    assert found.reason in card
    assert found.hint in card


def test_the_picture_draws_equal_layers_once_or_all_of_them(page: Opened, explained: Any) -> None:
    panel = page.tab("graph")
    folded = panel.locator("g.node").count()
    assert "6 equal layers" in panel.locator("text.band").text_content()
    panel.locator("#fold").click()
    whole = panel.locator("g.node").count()
    computed = [node for node in explained.graphs[0].calls if node.op.name != "detach"]

    assert 5 * 21 == whole - folded  # a layer has so many operations
    assert len(computed) <= whole < len(computed) + 5  # weights are within the boxes


def test_a_box_of_the_picture_leads_to_its_line(page: Opened) -> None:
    panel = page.tab("graph")
    panel.locator("g.node", has_text="scaled_dot_product_attention").first.click()

    chosen = page.view.locator(".src.chosen .text").inner_text()
    assert "F.scaled_dot_product_attention" in chosen
    assert 1 == panel.locator("g.node.lit").count()
    page.view.click("#tab-line")
    assert 1 == page.view.locator("#panel tr.lit").count()


def test_an_operation_in_the_table_leads_to_its_box(page: Opened) -> None:
    page.row("x = self.words(tokens)").click()
    page.view.locator("#panel tr.go", has_text="embedding").first.click()

    lit = page.view.locator("#panel g.node.lit")
    assert "embedding" in lit.text_content()
    assert lit.is_visible()


def test_the_timeline_has_the_stages_of_what_was_compiled(page: Opened, explained: Any) -> None:
    lanes = page.view.locator(".lane")
    assert len(explained.versions) == lanes.count()
    for number, version in enumerate(explained.versions):
        stages = lanes.nth(number).locator("i")
        expected = list(version.made.all_stages())
        assert expected == stages.evaluate_all("bars => bars.map(bar => bar.dataset.stage)")
    lanes.nth(1).click()
    assert "mul" in page.view.locator("#panel g.node").all_text_contents()[-1]
    assert "capture" in page.tab("stages").inner_text()


def test_the_search_finds_lines_values_kernels_guards_and_breaks(page: Opened) -> None:
    search, found = page.view.locator("input"), page.view.locator("#found")
    for words, what, selected in (
        ("return self.logits", "line", "line"), ("embedding int64", None, None),
        ("embedding float32", "value", "graph"), ("tokens is tensor", "guard", "line"),
        ("asks for the contents", "break", "line"), ("k0_", "kernel", "kernels"),
    ):  # fmt: skip
        page.view.keyboard.press("/")
        search.fill(words)
        if what is None:
            assert "Nothing has these words." in found.inner_text()
            search.press("Escape")
            assert not found.is_visible()
            continue
        assert what.upper() == found.locator(".what").first.inner_text().upper()
        search.press("Enter")
        assert not found.is_visible()
        assert "true" == page.view.get_attribute(f"#tab-{selected}", "aria-selected")


def test_lines_are_chosen_with_keys_and_by_the_address(page: Opened, tmp_path: Path) -> None:
    row = page.row("x = self.words(tokens)")
    row.focus()
    page.view.keyboard.press("Enter")
    assert "chosen" in row.get_attribute("class")
    page.view.reload()
    page.asked.pop()
    assert "chosen" in page.row("x = self.words(tokens)").get_attribute("class")


def test_dark_and_light_follow_the_system_and_the_button(
    chromium: Any, explained: Any, tmp_path: Path
) -> None:
    explained.to_html(tmp_path / "page.html")

    def paper(opened: Opened) -> int:
        text = opened.view.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", text)))

    dark = Opened(chromium, tmp_path / "page.html", color_scheme="dark")
    light = Opened(chromium, tmp_path / "page.html", color_scheme="light")
    assert paper(dark) < 200 < 600 < paper(light)
    dark.view.click(".theme")
    light.view.click(".theme")
    assert paper(light) < 200 < 600 < paper(dark)


def test_a_narrow_window_shows_one_column(page: Opened) -> None:
    """What is wider scrolls within its own frame."""
    page.view.set_viewport_size({"width": 420, "height": 800})
    assert page.view.evaluate("document.documentElement.scrollWidth") <= 420
    page.row("x = self.words(tokens)").click()
    assert page.view.locator("#panel tr.go").first.count()


def scaled(x: Any, n: Any) -> Any:
    """A function that is compiled again for each number, and in two parts."""
    y = x * 2
    if n > 3:  # which number
        y = y + 1
    z = y.sum().item()  # the break
    return y * z


def test_a_report_marks_recompiles_with_count_time_and_advice(
    chromium: Any, tmp_path: Path
) -> None:
    compiled = dj.compile(scaled, backend="numpy", dynamic=False)
    for size in (2, 3, 4, 4):
        compiled(dj.ones(size), 1)
    report = compiled.report()
    report.to_html(tmp_path / "page.html")
    opened = Opened(chromium, tmp_path / "page.html")
    facts = opened.view.inner_text("#facts")
    row = opened.row("y = x * 2")

    assert f"{report.hits} hits" in facts
    assert f"{report.recompile_count} recompiles" in facts
    assert re.fullmatch(r"↻ 2× [\d.]+ m?s", row.locator(".mark.again").inner_text())
    row.click()
    card = opened.view.locator("#panel .card.again").inner_text()
    assert "mark_dynamic(x" in card
    mark = opened.row("# the break").locator(".mark.break").inner_text()
    assert mark.startswith("break 4×")
    assert "Parts" in opened.tab("stages").inner_text().title()
    versions = opened.tab("guards").locator("select")  # many: they are chosen from a list
    for number, version in enumerate(report.versions):
        versions.select_option(str(number))
        texts = opened.view.locator("#panel li > code").all_text_contents()
        assert {guard.text for guard in version.guards} <= set(texts)
    assert [] == opened.complaints


HOSTILE = """
def hostile(x, y="</script><script>alert(1)</script><!--"):
    z = x + 1  # </script><img src=x onerror=alert(2)> <!-- & ${alert(3)}
    return z * len(y)
"""


def test_nothing_in_a_source_or_a_name_becomes_part_of_the_page(
    chromium: Any, tmp_path: Path
) -> None:
    file = tmp_path / "<img src=x onerror=alert(4)>.py"
    file.write_text(HOSTILE)
    scope: dict[str, Any] = {"__name__": "hostile"}
    exec(compile(HOSTILE, str(file), "exec"), scope)
    function = scope["hostile"]
    function.__qualname__ = function.__name__ = "</title><script>alert(5)</script>"
    explained = dj.explain(function, backend="numpy")(dj.ones(2))
    explained.to_html(tmp_path / "page.html")
    opened = Opened(chromium, tmp_path / "page.html")

    assert 2 == opened.view.locator("script").count()  # the data, and the page's own
    assert not opened.view.locator("img").count()
    assert "</title><script>alert(5)</script>" == opened.view.inner_text("h1")
    row = opened.row("z = x + 1")
    assert HOSTILE.splitlines()[2] == row.locator(".text").inner_text()
    row.click()
    for name in ("graph", "kernels", "guards", "stages"):
        opened.tab(name)
    assert [] == opened.complaints
