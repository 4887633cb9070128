"""Pages that are collected: every term that a chapter defines, with the sentence that does, and the public names.

```{taught}
```

```{public-names}
```
"""

import inspect
import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the package beside this book, not one that is installed

import kernels
from book.anatomy import chapters
from book.definitions import definition


class Taught(SphinxDirective):
    def run(self):
        lines = []
        for page, chapter in chapters().items():
            self.env.note_dependency(str(chapter.path))
            for term in chapter.about.get("teaches", ()):
                if said := definition(chapter, term):  # a lab teaches skills as well, which have none
                    lines.append((term.lower(), f"{term}\n: {said} [{chapter.short}](/{page})\n"))
        return self.parse_text_to_nodes("\n".join(line for _, line in sorted(lines)))


class PublicNames(SphinxDirective):
    """`kernels.__all__`: a function's signature, and the first paragraph of its docstring; of a constant its value."""

    def run(self):
        found = nodes.definition_list()
        for name in sorted(kernels.__all__):
            one = getattr(kernels, name)
            signature = str(inspect.signature(one)) if inspect.isfunction(one) else ""
            said = (inspect.getdoc(one) or "").split("\n\n")[0] if callable(one) else repr(one)
            term = nodes.term("", "", nodes.literal(text=f"kernels.{name}{signature}"))
            found += nodes.definition_list_item("", term, nodes.definition("", with_code(said)))
        return [found]


def with_code(text):
    """A paragraph in which what stands between `backticks` is code."""
    parts = text.split("`")
    return nodes.paragraph(
        "", "", *(nodes.literal(text=one) if at % 2 else nodes.Text(one) for at, one in enumerate(parts))
    )


def setup(app):
    app.add_directive("taught", Taught)
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
