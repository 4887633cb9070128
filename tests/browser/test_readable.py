"""Every page can be read: with weak eyes, from the keyboard, by a screen reader, on a telephone, over a slow line."""

import importlib.util
from pathlib import Path

import pytest
from test_pages import PAGES

pytestmark = pytest.mark.browser

AXE = (Path(importlib.util.find_spec("axe_playwright_python").origin).parent / "axe.min.js").read_text("utf-8")
# `preload` would fetch the style sheets anew, from where they are not.
RUN = "axe.run(document, {resultTypes: ['violations'], preload: false})"
MOST_BYTES = 2_000_000  # of one page with all that it loads, uncompressed
# What a reader cannot reach: it ends beyond the article, and nothing around it scrolls.
CUT_OFF = """() => {
  const edge = document.querySelector("article").getBoundingClientRect().right + 1;
  const scrolls = (element) => {
    for (let e = element; e && e.tagName !== "ARTICLE"; e = e.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return true;
    return false;
  };
  const places = "article :is(td, th, pre, code, p, summary, svg, img, .lens, .report)";
  return [...document.querySelectorAll(places)]
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > edge && !scrolls(e) && !e.closest("svg, .plot"))
    .map((e) => `cut off: ${e.tagName} ${e.textContent.trim().slice(0, 60)}`);
}"""
FIGURES_OF_A_VIEW = """() => [...document.querySelectorAll("article .lens")].flatMap((view) =>
  [...view.querySelectorAll("thead th")]
    .filter((e) => e.getBoundingClientRect().right > view.getBoundingClientRect().right + 1)
    .map((e) => `column out of sight: ${e.textContent}`))"""

# What scrolls sideways says so: by words, or by an edge that fades.
WITHOUT_SIGN = """() => [...document.querySelectorAll("article *")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX))
  .filter((e) => e.checkVisibility() && e.tagName !== "TEXTAREA")
  .filter((e) => getComputedStyle(e).maskImage === "none" && !getComputedStyle(e, "::before").content.includes("scroll"))
  .map((e) => `scrolls without a sign: ${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 60)}`)"""


def violations(page):
    """What axe-core calls serious or critical: the rule, and the first element."""
    page.evaluate(AXE)
    found = page.evaluate(RUN)["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:150]}" for one in found if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1280)])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read(visit, book, page, theme, width):
    visited = visit(f"{book}/{page}.html", theme, width)
    visited.open_folds()
    assert violations(visited.page) == []
    assert visited.page.evaluate(CUT_OFF) == []
    assert visited.page.evaluate(WITHOUT_SIGN) == []
    if width == 1280:
        assert visited.page.evaluate(FIGURES_OF_A_VIEW) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_light(browser, book, page):
    fresh = browser.new_page()  # with an empty cache
    sizes = {}
    fresh.on("response", lambda response: response.ok and sizes.update({response.url: response}))
    fresh.goto(f"{book}/{page}.html", wait_until="networkidle")
    weight = {url: len(response.body()) for url, response in list(sizes.items())}
    fresh.close()
    heaviest = sorted(weight, key=weight.get)[-3:]
    assert sum(weight.values()) <= MOST_BYTES, {url: weight[url] for url in heaviest}


BROKEN = {
    "faint text": ("<p style='color:#999'>so</p>", "color-contrast"),
    "a picture without words": (f"<img src='data:image/gif;base64,{'R0lGODlhAQABAAAAACw='}'>", "image-alt"),
    "text beyond the edge": ("<table style='width:2000px'><tr><td>so</td></tr></table>", "cut off: TD"),
    "code that only scrolls": (
        "<pre tabindex=0 style='overflow:auto;width:99px'>int i = blockIdx.x * blockDim.x + threadIdx.x;</pre>",
        "scrolls without a sign: PRE",
    ),
    "a column out of sight": (
        "<div class=lens tabindex=0 role=region aria-label=so style='overflow:auto;width:99px'>"
        "<table style='width:500px'><thead><tr><th>fewest</th></tr></thead></table></div>",
        "column out of sight: fewest",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_sees(visit, serve, tmp_path, broken):
    body, problem = BROKEN[broken]
    head = "<!doctype html><html lang=en><title>so</title><link rel=icon href=data:,>"
    (tmp_path / "page.html").write_text(f"{head}<main><article><h1>So</h1>{body}</article></main>", "utf-8")
    page = visit(f"{serve(tmp_path)}/page.html").page
    found = [*violations(page)]
    for check in (CUT_OFF, WITHOUT_SIGN, FIGURES_OF_A_VIEW):
        found += page.evaluate(check)
    assert any(problem in sentence for sentence in found), found
