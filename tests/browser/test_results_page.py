"""The page of results, as a reader uses it: sorted, filtered, by keyboard, and without JavaScript."""

import json
import math
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
PATHS = sorted((ROOT / "book" / "results" / "operations").glob("*/h200.json"))
FILES = [json.loads(path.read_text("utf-8")) for path in PATHS]
ROWS = [row for file in FILES for row in file["rows"]]
SECTION = "#nvidia-h200"  # each GPU has its own, with a table and choices


@pytest.fixture
def page(visit, book):
    visited = visit(f"{book}/book/results.html")
    yield visited.page.locator(SECTION)
    assert visited.problems() == []  # among them: a request to outside, a script error


def column(page, heading):
    """The texts of a column of the table, from top to bottom."""
    headings = [text.strip() for text in page.locator("table.sortable thead th").all_inner_texts()]
    position = next(i for i, text in enumerate(headings) if text.startswith(heading))
    return page.locator(f"table.sortable tbody tr td:nth-child({position + 1})").all_inner_texts()


def button(page, heading):
    return page.locator("table.sortable thead th", has_text=heading).first.get_by_role("button")


def numbers(texts):
    return [float(text.replace(",", "")) for text in texts if text]


def test_the_table_holds_every_row(page):
    assert len(column(page, "Contestant")) == len(ROWS)


@pytest.mark.parametrize("press", ["click", "keyboard"])
def test_a_heading_sorts_numbers_as_numbers_and_reverses(page, press):
    before = numbers(column(page, "GB/s"))
    assert before not in (sorted(before), sorted(before, reverse=True))

    def act():
        if press == "click":
            button(page, "GB/s").click()
        else:
            button(page, "GB/s").focus()
            page.page.keyboard.press("Enter")

    for order, expected in (("ascending", sorted(before)), ("descending", sorted(before, reverse=True))):
        act()
        page.locator(f"th[aria-sort={order}]", has_text="GB/s").wait_for()
        assert numbers(column(page, "GB/s")) == expected


def test_shapes_sort_by_their_size(page):
    def elements(shape):
        return math.prod(numbers(shape.split(" × ")))

    button(page, "Shape").click()
    page.locator("th[aria-sort=ascending]", has_text="Shape").wait_for()
    sizes = [elements(shape) for shape in column(page, "Shape")]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_every_choice_shows_its_rows_alone(page):
    for heading in ("Contestant", "Level", "Operation", "Direction", "Shape", "Type", "Reached"):
        everything = column(page, heading)
        choice = page.get_by_label(heading, exact=True)
        values = choice.locator("option").all_inner_texts()[1:]
        assert sorted(values) == sorted(set(everything))
        for value in values:
            choice.select_option(value)
            assert column(page, heading) == [text for text in everything if text == value]
        choice.select_option("all")
        assert column(page, heading) == everything


def test_choices_and_text_narrow_together(page):
    page.get_by_label("Level", exact=True).select_option("peer")
    page.get_by_label("Contestant", exact=True).select_option("torch")  # and not torch.compile, which contains it
    assert set(column(page, "Contestant")) == {"torch"}
    shapes = len(column(page, "Shape"))
    page.get_by_label("Any text").fill('"8,192 × 32,768"')
    assert 0 < len(column(page, "Shape")) < shapes
    assert set(column(page, "Shape")) == {"8,192 × 32,768"}


def test_a_phone_shows_times_of_one_operation_at_first(visit, book):
    page = visit(f"{book}/book/results.html", width=390).page.locator(SECTION)
    median = page.locator("table.sortable thead th", has_text="Median").first.bounding_box()
    assert median["x"] + median["width"] <= 390
    chosen = page.get_by_label("Operation", exact=True).input_value()
    expected = [row for row in ROWS if row["operation"] == chosen and row["direction"] == "forward"]
    assert 0 < len(expected) == len(column(page, "Contestant"))
    page.get_by_label("Operation", exact=True).select_option("all")
    assert len(set(column(page, "Operation"))) > 1


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_its_controls_can_be_read_in_light_and_dark(visit, book, theme, width):
    visited = visit(f"{book}/book/results.html", theme, width)
    visited.page.locator(SECTION).get_by_label("Any text").fill("peer")
    colours = visited.page.evaluate(
        """() => [...document.querySelectorAll(".dt-container :is(select, input, td:first-child)")]
            .map((element) => getComputedStyle(element))
            .map((style) => [style.color, style.backgroundColor])
            .map((pair) => pair.map((text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number)))"""
    )
    assert len(colours) > 7
    for text, ground in colours:
        assert abs(sum(text) - sum(ground)) > 3 * 110
        assert (sum(ground) > 3 * 128) == (theme == "light")
    assert visited.problems() == []


def test_without_javascript_it_is_a_plain_table(browser, book):
    context = browser.new_context(java_script_enabled=False)
    whole = context.new_page()
    whole.goto(f"{book}/book/results.html")
    page = whole.locator(SECTION)
    assert len(column(page, "Contestant")) == len(ROWS)
    assert page.locator(".dt-container").count() == 0
    machine = FILES[0]["machine"]
    said = page.inner_text()
    assert all(fact in said for fact in (machine["gpu"], machine["date"], machine["commit"][:7]))
    assert machine["versions"]["torch"] in said
    context.close()
