"""The checks themselves: each is shown a page with one thing broken, and must say so."""

import json

import pytest

pytestmark = pytest.mark.browser

BROKEN = {
    "an outside script": ("<script src='https://example.org/x.js'></script>", "request to outside"),
    "an outside picture in a style": (
        "<p style='background:url(https://example.org/x.png)'>x</p>",
        "request to outside",
    ),
    "a missing picture": ("<img src='no.png' alt=''>", "404"),
    "a script error": ("<script>null.x</script>", "script:"),
    "a console error": ("<script>console.error('oh')</script>", "console: oh"),
    "an undrawn figure": (
        "<figure class='plotly-figure'><div class='plot' aria-label='bars'>bars</div></figure>",
        "figure not drawn: bars",
    ),
    "a figure without words": (
        "<figure class='plotly-figure'><div class='plot'></div></figure>",
        "no text alternative",
    ),
    "a figure too wide": (
        "<figure class=plotly-figure><div class=plot aria-label=bars><svg class=main-svg width=900></svg></div></figure>",
        "figure does not fit its place: bars",
    ),
    "maths left as it was": ("<span class='math'>x^2</span>", "maths not typeset: x^2"),
    "maths not understood": (
        "<span class='math'><math><mi>\\alhpa</mi></math></span>",
        "maths not understood: \\alhpa",
    ),
    "raw dollars": ("<p>so $x^2$ is</p>", "raw TeX"),
    "raw parentheses": ("<p>so \\(x^2\\) is</p>", "raw TeX"),
    "a substitution left over": ("<p>{{ measured }}</p>", "substitution"),
    "a page too wide": ("<p style='width:3000px'>x</p>", "sideways"),
}


@pytest.fixture
def problems(visit, serve, tmp_path):
    """problems(body) are those of a page with that body."""

    def visit_page(body):
        text = f"<!doctype html><link rel=icon href=data:,><article>{body}</article>"
        (tmp_path / "page.html").write_text(text, "utf-8")
        return visit(f"{serve(tmp_path)}/page.html").problems()

    return visit_page


@pytest.mark.parametrize("broken", BROKEN)
def test_sees(problems, broken):
    body, problem = BROKEN[broken]
    found = problems(body)
    assert any(problem in sentence for sentence in found), found


def test_a_sound_page_has_no_problems(problems):
    assert problems("<p>It costs $5, or <code>$x$</code>.</p>") == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"data": []}, "figure not drawn"),
        ({}, None),
        ({"layout": {"font": {"color": "#eee"}}}, "text hard to read"),
    ],
)
def test_sees_what_is_wrong_in_a_drawn_figure(problems, html, tmp_path, change, problem):
    for name in ("plotly.min.js", "figures.js"):
        (tmp_path / name).symlink_to(html / "_static" / name)
    template = {"layout": {"font": {}, "xaxis": {}, "yaxis": {}, "height": 300}}
    figure = {"data": [{"type": "bar", "x": [1, 2], "y": [3, 4]}], "layout": {"template": template}, "config": {}}
    figure["layout"] |= change.get("layout", {})
    figure["data"] = change.get("data", figure["data"])
    found = problems(
        "<style>:root { --pst-color-text-base: #111; --pst-color-border: #ccc }</style>"
        "<figure class=plotly-figure><div class=plot aria-label=bars></div>"
        f"<script type='application/json'>{json.dumps(figure)}</script></figure>"
        "<script src=plotly.min.js></script><script defer src=figures.js></script>"
    )
    assert any(problem in sentence for sentence in found) if problem else found == []
