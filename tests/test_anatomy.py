"""Every chapter, and every lab as far as it applies, has the anatomy that CONTRIBUTING.md shows."""

import re
from collections import Counter, defaultdict
from itertools import groupby, pairwise

import pytest

from book.anatomy import ASKS, FIGURES, chapters, has_figure, source, tags
from book.definitions import definition
from kernels.narrow import WIDTH

pytestmark = pytest.mark.always

CHAPTERS = {page: chapter for page, chapter in chapters().items() if page.startswith("book/")}
LABS = {page: lab for page, lab in chapters().items() if page.startswith("labs/")}
DRILLS = {"labs/start", "labs/first_steps"}  # one thing after another to write, and nothing to predict
ASKING = CHAPTERS | {page: lab for page, lab in LABS.items() if page not in DRILLS}


def each_of(pages):
    """A test of one point, for every one of these pages."""

    def over(test):
        @pytest.mark.parametrize("page", pages)
        def one_page(page):
            test(pages[page])

        one_page.__doc__ = test.__doc__
        return one_page

    return over


each = each_of(CHAPTERS)


@each_of(ASKING)
def test_every_question_is_a_control_of_choices(chapter):
    """Two to four choices named from A on, one of them right, and each explained."""
    assert chapter.questions
    for question in chapter.questions:
        assert 2 <= len(question.choices) <= 4, question
        assert [choice.text[:3] for choice in question.choices] == ["A. ", "B. ", "C. ", "D. "][: len(question.choices)]
        assert len(question.right) == 1, question
        assert all(len(choice.explanation) > 10 for choice in question.choices), question
    old = r"<summary>(The (two|three|four) answers|Answer)<|^\s*(- A\. |\(a\) )"
    assert not [text for text in chapter.markdown if re.search(old, text, re.MULTILINE)]


@each_of(ASKING)
def test_the_right_letter_is_never_the_same_three_times_in_a_row(chapter):
    runs = [(letter, len(list(run))) for letter, run in groupby(question.right for question in chapter.questions)]
    assert [run for run in runs if run[1] > 2] == []


def asked(pages):
    return [question for page in pages.values() for question in page.questions if len(question.right) == 1]


each_kind = pytest.mark.parametrize("pages", [CHAPTERS, LABS, ASKING], ids=["chapters", "labs", "all"])


@each_kind
def test_each_letter_is_right_about_as_often(pages):
    three_ways = Counter(question.right for question in asked(pages) if len(question.choices) >= 3)
    parts = {letter: three_ways[letter] / three_ways.total() for letter in "ABC"}
    assert all(0.2 <= part <= 0.4 for part in parts.values()), parts


@each_kind
def test_the_longest_choice_is_right_no_more_often_than_others(pages):
    def longest(question):
        return max(question.choices, key=lambda choice: choice.length).letter

    assert sum(longest(question) == question.right for question in asked(pages)) / len(asked(pages)) <= 0.4


@each
def test_it_has_at_most_1800_visible_words(chapter):
    assert chapter.words <= 1_800


@each
def test_it_has_at_most_14_visible_code_cells(chapter):
    assert len(chapter.code) <= 14


@each
def test_no_four_code_cells_stand_in_a_row(chapter):
    shown = [cell for cell in chapter.cells if cell in chapter.code or cell["cell_type"] == "markdown"]
    runs = [len(list(run)) for kind, run in groupby(cell["cell_type"] for cell in shown) if kind == "code"]
    assert max(runs, default=0) < 4


@each_of(ASKING)
def test_only_the_answer_of_a_prediction_is_hidden(chapter):
    asked = False
    for cell in chapter.cells:
        if cell["cell_type"] == "markdown":
            asked = ASKS.search(source(cell))
        if chapter is not LABS.get("labs/detective"):  # where what the lens finds opens once it was asked for
            assert ("hide-output" in tags(cell)) == ("answer" in tags(cell)), cell["id"]
        assert asked or "answer" not in tags(cell), cell["id"]


@each_of(CHAPTERS | LABS)
def test_what_the_book_hides_jupyterlab_hides_too(chapter):
    for cell in chapter.cells:
        hidden = {tag for tag in ("hide-input", "hide-output") if tag in tags(cell)}
        keys = {"hide-input": "source_hidden", "hide-output": "outputs_hidden"}
        assert all(cell["metadata"].get("jupyter", {}).get(keys[tag]) for tag in hidden), cell["id"]


@each_of(ASKING)
def test_no_visible_output_is_a_bare_truth_or_nothing(chapter):
    for cell in chapter.cells:
        for output in cell.get("outputs", ()):
            said = "".join(output.get("text") or output["data"].get("text/plain", "")).strip()
            assert said.split("\n")[-1] not in ("True", "False", "[]", "None"), cell["id"]


@each_of(CHAPTERS | LABS)
def test_no_visible_output_is_python_for_an_object(chapter):
    """Such as `Bar({…})`, of a cell whose last line only wanted to change a figure."""
    for cell in chapter.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            said = "".join(data.get("text/plain", "")) if set(data) == {"text/plain"} else ""
            assert not re.match(r"[A-Za-z_.]+\(\{|<.* at 0x", said), cell["id"]


@each_of(CHAPTERS | LABS)
def test_outputs_fit_the_page(chapter):
    """A line beyond the page's columns would have to be scrolled to."""
    for cell in chapter.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if {"text/html", *FIGURES} & set(data):
                continue
            said = "".join(output.get("text") or data.get("text/markdown") or data.get("text/plain", ""))
            lines = re.sub("\x1b\\[[0-9;]*m", "", said).splitlines()
            assert [line for line in lines if len(line) > WIDTH] == [], cell["id"]


PLOTTING = re.compile(
    r"\bgo\.[A-Z]|\bplotly\b|\bfigures\.(show|Picture)\(|\.(add_(trace|shape|scatter|annotation)|update_\w*axes)\("
)


@each_of(CHAPTERS | LABS)
def test_no_plotting_code_is_in_sight(chapter):
    assert [cell["id"] for cell in chapter.code if PLOTTING.search(source(cell))] == []


@each_of(ASKING)
def test_figures_are_numbered_and_captioned_in_order(chapter):
    captions = [
        re.match(r"\*Figure (\d+)\.\* \S", source(following)) if following else None
        for cell, following in pairwise([*chapter.cells, None])
        if has_figure(cell)
    ]
    assert all(captions), [caption and caption[0] for caption in captions]
    assert [int(caption[1]) for caption in captions] == list(range(1, len(captions) + 1))


@each
def test_a_figure_is_seen_on_load(chapter):
    shown = ["hide-output" not in tags(cell) for cell in chapter.cells if has_figure(cell)]
    assert shown
    assert shown[0]


@each
def test_the_reader_edits_every_600_words(chapter):
    """Each edit is asked for, and stands in a cell of its own."""
    assert chapter.edits >= max(1, chapter.words // 600)
    for before, cell in pairwise(chapter.cells):
        asks = cell["cell_type"] == "code" and re.search(r"^\*\*Edit\.\*\*", source(before), re.MULTILINE)
        assert bool(asks) == ("edit" in tags(cell)), cell["id"]


@each
def test_what_it_teaches_is_bold_where_it_is_defined(chapter):
    assert [term for term in chapter.about["teaches"] if not definition(chapter, term)] == []


@each
def test_its_minutes_are_computed(chapter):
    assert "minutes" not in chapter.about


TITLE = re.compile(r"^\s+(\w+ (?:forward|backward), \S+ \w+.*, .*\S)\s*$", re.MULTILINE)
TIME = re.compile(r"^\s+(\S+(?: \S+)?)\s{2,}([\d.]+)\s+[\d.]+–[\d.]+", re.MULTILINE)


def stored_times():
    """What the visible tables of contestants say: milliseconds by table's title and contestant, then by chapter."""
    found = defaultdict(dict)
    for page, chapter in CHAPTERS.items():
        for cell in chapter.cells:
            for output in cell.get("outputs", ()):
                text = "".join(output.get("data", {}).get("text/plain", ""))
                text = re.sub("\x1b\\[[0-9;]*m", "", text)
                for title in TITLE.findall(text)[:1]:
                    for contestant, time in TIME.findall(text):
                        found[title, contestant][page] = float(time)
    return found


def test_stored_tables_do_not_contradict_each_other():
    times = stored_times()
    assert times
    differing = {one: said for one, said in times.items() if max(said.values()) > 1.1 * min(said.values())}
    assert differing == {}
