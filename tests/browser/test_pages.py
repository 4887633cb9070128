"""Every page of the table of contents, as a reader meets it."""

import json
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]


def files(entry):
    """The pages below an entry of `_toc.yml`, in reading order."""
    if isinstance(entry, dict):
        yield from (entry[key] for key in ("root", "file") if key in entry)
        entry = [value for value in entry.values() if isinstance(value, list)]
    for child in entry if isinstance(entry, list) else ():
        yield from files(child)


PAGES = list(files(yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))))
CHAPTERS = [page for page in PAGES if (ROOT / f"{page}.ipynb").exists()]


def prose(page):
    """The Markdown of a chapter."""
    cells = json.loads((ROOT / f"{page}.ipynb").read_text("utf-8"))["cells"]
    return "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def test_the_book_has_chapters():
    assert CHAPTERS


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_broken(visit, book, page, theme, width):
    visited = visit(f"{book}/{page}.html", theme, width)
    visited.open_folds()
    assert visited.page.evaluate("document.documentElement.dataset.theme") == theme
    assert visited.problems() == []


@pytest.mark.parametrize("page", [page for page in CHAPTERS if page.startswith("book/")])
def test_a_chapter_has_figures_and_maths(visit, book, page):
    article = visit(f"{book}/{page}.html").page.locator("article")
    assert article.locator("figure.plotly-figure svg.main-svg, figure.diagram svg").count() > 0
    # The one on TorchScript has no formula.
    assert (article.locator("math").count() > 0) == ("$" in prose(page))


@pytest.mark.parametrize("page", CHAPTERS)
def test_figures_follow_the_theme_and_the_width(visit, book, page):
    visited = visit(f"{book}/{page}.html")
    visited.open_folds()
    visited.page.evaluate("() => (document.documentElement.dataset.theme = 'dark')")
    visited.page.evaluate("() => (document.querySelector('article').style.width = '320px')")
    visited.settle()
    assert visited.problems() == []


@pytest.mark.parametrize("page", CHAPTERS)
def test_hidden_outputs_open_on_a_click(visit, book, page):
    folds = visit(f"{book}/{page}.html").page.locator("article .cell:not(.tag_answer) details.hide.below-input")
    for fold in folds.all():
        output = fold.locator(".cell_output").first
        assert not output.is_visible()
        fold.locator("summary").click()
        assert output.is_visible()


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_choice_opens_its_explanation_and_the_answer(visit, book, page):
    """By the keyboard; the other choices stay to be opened."""
    page = visit(f"{book}/{page}.html").page
    answers_of = []
    for element in page.locator("article .choices, article .cell.tag_answer").all():
        if "choices" in element.get_attribute("class").split():
            answers_of.append((element, []))
        else:
            answers_of[-1][1].append(element.locator(".cell_output").first)
    for choices, outputs in answers_of:
        assert not any(output.is_visible() for output in outputs)
        first, *others = choices.locator("details.choice").all()
        first.locator("summary").focus()
        page.keyboard.press("Enter")
        for output in outputs:
            output.wait_for(timeout=2000)  # the folds report that they open a moment later
        assert first.locator(".verdict").is_visible()
        assert first.locator("p").first.is_visible()
        assert not any(other.locator("p").first.is_visible() for other in others)
        others[0].locator("summary").click()
        assert others[0].locator("p").first.is_visible()
        assert all(output.is_visible() for output in outputs)


@pytest.mark.parametrize("page", CHAPTERS)
def test_frame_controls_move_the_figure(visit, book, page):
    visited = visit(f"{book}/{page}.html")
    visited.open_folds()
    for figure in visited.page.locator("figure.plotly-figure", has=visited.page.locator(".frames")).all():
        traces = figure.locator(".cartesianlayer").first

        def drawn(traces=traces):
            # A moved axis leaves a scale of one behind, which shows nothing.
            return traces.inner_html().replace("scale(1,1)", "")

        def shows(act, drawn=drawn):
            act()
            visited.settle()
            return drawn()

        first = drawn()
        slider = figure.get_by_label("Step", exact=True)
        second = shows(figure.get_by_label("Next step").click)
        assert second != first
        assert slider.input_value() == "1"
        assert shows(figure.get_by_label("Previous step").click) == first
        slider.focus()
        assert shows(lambda: visited.page.keyboard.press("ArrowRight")) == second
        assert slider.get_attribute("aria-valuetext") == figure.locator("output").inner_text()
