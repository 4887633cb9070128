"""No chapter uses a term before the one that `teaches` it, unless it says what the term means, or links to it."""

import re
from functools import cache

import pytest

from book.anatomy import chapters, prose, spine

pytestmark = pytest.mark.always

FOUND = chapters()
ORDER = list(FOUND)
TAUGHT = {term: page for page, chapter in FOUND.items() for term in chapter.about.get("teaches", ())}
# Words of everyday English, or of Python and PyTorch, wherever they stand before the chapter that gives them another meaning.
EVERYDAY = {"attention", "finding", "fragment", "launch", "mask", "program", "request", "stage", "when to stop"}
SPINE = spine()
EMPHASIS = re.compile(r"\*{1,2}([^*\n]{1,60}?)\*{1,2}")
LINK = re.compile(r"\[[^\]]*\]")


@cache
def forms(term):
    """The term as it stands in prose: any case, hyphens for spaces, singular or plural."""
    words = r"[\s-]+".join(re.escape(word) for word in term.removesuffix("s").split())
    return re.compile(rf"(?<![\w-]){words}s?(?![\w-])", re.IGNORECASE)


@cache
def text_of(page):
    return prose("\n\n".join(FOUND[page].markdown))


@cache
def emphasised(page):
    return "\n".join(EMPHASIS.findall(text_of(page)))


def unexplained(page, term):
    """The first use on a page that neither explains the term nor follows a page that did; empty where there is none."""
    before = [one for one in ORDER[: ORDER.index(page)] if one in SPINE]  # other pages may be left out
    if any(forms(term).search(emphasised(one)) for one in (*before, page)):
        return ""
    text = LINK.sub(" ", text_of(page))
    used = forms(term).search(text)
    return " ".join(text[max(0, used.start() - 50) : used.end() + 30].split()) if used else ""


@pytest.mark.parametrize("page", ORDER)
def test_a_term_is_explained_or_linked_before_it_is_taught(page):
    later = [term for term, taught in TAUGHT.items() if ORDER.index(taught) > ORDER.index(page)]
    said = {term: unexplained(page, term) for term in later if term.lower() not in EVERYDAY}
    assert {term: use for term, use in said.items() if use} == {}
