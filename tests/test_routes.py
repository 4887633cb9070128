"""The times that a reader is promised are computed from the chapters, or are those of the lab's own metadata."""

import importlib.util
import re

import pytest

pytest.importorskip("sphinx", reason="the book's packages are not installed: pip install -e .[book]")

from book.anatomy import ROOT, chapters, routes

pytestmark = pytest.mark.always

FOUND = chapters()
TYPED = re.compile(r"\b(\d+|an|two|three|four|five|six|seven|eight|ten) hours?\b")


def landing():
    spec = importlib.util.spec_from_file_location("landing", ROOT / "book" / "_ext" / "landing.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_of_every_route_exist():
    assert [page for route in routes() for page in route["pages"] if page not in FOUND] == []


@pytest.mark.parametrize("route", routes(), ids=lambda route: route["for"])
def test_a_route_takes_as_long_as_its_pages(route):
    minutes = sum(FOUND[page].minutes for page in route["pages"])
    line = next(line for line in landing().Routes.text(None, FOUND).splitlines() if f"**{route['for']}**" in line)
    said = re.search(r"\((\d+) (hours|minutes)\)", line)
    assert abs(int(said[1]) * (60 if said[2] == "hours" else 1) - minutes) <= 30


@pytest.mark.parametrize("page", ["book/intro.md", "book/routes.yml", "README.md"])
def test_no_hours_are_typed(page):
    assert TYPED.search((ROOT / page).read_text("utf-8")) is None


LABS = {page: lab for page, lab in FOUND.items() if page.startswith("labs/")}


@pytest.mark.parametrize("page", LABS)
def test_a_lab_says_the_minutes_of_its_metadata(page):
    text = "\n".join(LABS[page].markdown)
    said = re.findall(r"^About (\d+) minutes", text, re.MULTILINE)
    assert said == ([str(LABS[page].about["minutes"])] if "minutes" in LABS[page].about else [])


@pytest.mark.parametrize("page", ["labs/start", "book/machine/tour"])
@pytest.mark.parametrize("route", routes(), ids=lambda route: route["for"])
def test_who_starts_is_sent_to_the_next_page_of_their_route(page, route):
    who = " ".join(route["for"].split()[-2:])
    parts = [part for text in FOUND[page].markdown for part in re.split(r"\n\s*\n|\n- ", text)]
    (line,) = [part for part in parts if re.search(rf"\*\*[^*]*{who}[^*]*\*\*", part)]
    following = next(one for one in route["pages"] if one not in ("labs/start", page))
    assert f"{following.rpartition('/')[2]}.ipynb)" in line
