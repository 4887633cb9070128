"""The landing page's own directives: the routes with their minutes, a kernel beside the lens's view of it, and what lab
follows which chapter.

    ```{routes}
    ```
"""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `book` as a package

from book.anatomy import chapters, routes

SHOWN = "book/machine/coalescing"


def hours(minutes):
    return f"{minutes / 60:.0f} hours" if minutes >= 90 else f"{minutes} minutes"


class Markdown(SphinxDirective):
    """A directive that is Markdown, parsed where it stands."""

    def run(self):
        return self.parse_text_to_nodes(self.text(chapters()), allow_section_headings=False)


class Routes(Markdown):
    def text(self, found):
        lines = []
        for route in routes():
            pages = [page for page in route["pages"] if page in found]
            time = hours(sum(found[page].minutes for page in pages))
            lines.append(
                f"- **{route['for']}** ({time}): {route['why']}. Begin with [{found[pages[0]].short}](/{pages[0]})."
            )
        return "\n".join(lines)


class Labs(Markdown):
    def text(self, found):
        after, lines = None, ["| Chapter | Its lab |", "|---|---|"]
        for page, chapter in found.items():
            if page.startswith("book/"):
                after = page
            elif after:
                lines.append(f"| [{found[after].short}](/{after}) | [{chapter.short}](/{page}) |")
        return "\n".join(lines)


class LensView(SphinxDirective):
    """The first view of the lens that the chapter on coalescing stores, as it stands there."""

    def run(self):
        self.env.note_dependency(str(chapters()[SHOWN].path))
        for cell in chapters()[SHOWN].cells:
            for output in cell.get("outputs", ()):
                view = "".join(output.get("data", {}).get("text/html", ""))
                if 'class="lens' in view:
                    return [nodes.raw("", f'<div class="lens-view">{view}</div>', format="html")]
        raise self.error(f"{SHOWN} stores no view of the lens")


def setup(app):
    for name, directive in {"routes": Routes, "labs": Labs, "lens-view": LensView}.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
