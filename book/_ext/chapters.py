"""What a chapter's metadata says, shown: the header under its title, and the folded parts of the sidebar.

A header has minutes, what the chapter needs with links to where that is taught, what it teaches, and its lab.
"""

import html
import json
import os
import re
import sys
from pathlib import Path

from bs4 import BeautifulSoup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `book` as a package

from book.anatomy import chapters, spine


def link(page, docname, text):
    return f'<a href="{os.path.relpath(page, os.path.dirname(docname))}.html">{html.escape(text)}</a>'


def header(docname, found):
    """The HTML of one page's header."""
    chapter = found[docname]
    taught = {term: page for page, one in found.items() for term in one.about.get("teaches", ())}
    needed = dict.fromkeys(taught[term] for term in chapter.about["needs"] if term in taught)
    rows = {"Time": f"{chapter.minutes} minutes" + (", on the spine ★" if docname in spine() else "")}
    rows["Needs"] = ", ".join(link(page, docname, found[page].short) for page in needed if page != docname)
    rows["Teaches"] = html.escape(", ".join(chapter.about["teaches"]))
    if lab := chapter.about.get("lab"):
        rows["Lab"] = link(lab, docname, found[lab].short)
    body = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows.items() if value)
    return f'<dl class="chapter-header">{body}</dl>'


def add_header(app, docname, source):
    found = chapters()
    if docname not in found:
        return
    notebook = json.loads(source[0])
    first = notebook["cells"][0]
    text = "".join(first["source"])
    first["source"] = re.sub(
        r"^# .*$", lambda title: f"{title[0]}\n\n{header(docname, found)}\n", text, count=1, flags=re.M
    )
    source[0] = json.dumps(notebook)


def with_new_headers(app, env, added, changed, removed):
    """A header says what other chapters teach, so that it may change while its own file does not."""
    found = chapters()
    now = {page: header(page, found) for page in found}
    before, env.chapter_headers = getattr(env, "chapter_headers", {}), now
    return [page for page in now if page in before and now[page] != before[page]]


def folded(sidebar, starred):
    """Each part as a fold, the one of the current page open, and a star beside the pages of the spine."""
    soup = BeautifulSoup(str(sidebar), "html.parser")
    for caption in soup.select("p.caption"):
        pages = caption.find_next_sibling("ul")
        fold = soup.new_tag("details", attrs={"class": "part"})
        if pages.select_one(".current") or "current" in pages.get("class", ()):
            fold["open"] = ""
        summary = soup.new_tag("summary")
        summary.string = caption.get_text()
        caption.replace_with(fold)
        fold.extend([summary, pages.extract()])
    for summary in soup.select("li > details > summary"):
        title = summary.find_parent("li").select_one("a").get_text().strip()
        summary["aria-label"] = f"Labs of {title}"
    for anchor in soup.select("a.reference.internal"):
        if anchor.get("href", "").split("#")[0] in starred:
            star = soup.new_tag("span", attrs={"class": "spine", "title": "on the spine"})
            star.string = "★"
            anchor.extend([" ", star])
    return soup


def fold_sidebar(app, pagename, templatename, context, doctree):
    if "generate_toctree_html" not in context:
        return
    generate = context["generate_toctree_html"]
    starred = {context["pathto"](page) for page in spine() if page != pagename} | (
        {"", "#"} if pagename in spine() else set()
    )

    def render_part(kind, *args, **options):
        made = generate(kind, *args, **options)
        return folded(made, starred) if kind == "sidebar" else made

    context["generate_toctree_html"] = render_part


def setup(app):
    app.connect("source-read", add_header, priority=400)  # before what rewrites its cells
    app.connect("env-get-outdated", with_new_headers)
    app.connect("html-page-context", fold_sidebar, priority=900)  # after the theme's own
    app.add_css_file("chapters.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
