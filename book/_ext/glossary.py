"""Pages that are collected: every term that a chapter teaches, with the sentence that defines it, and the public names.

```{taught}
```

```{public-names}
```
"""

import inspect
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the package beside this book, not one that is installed

import kernels
from book.anatomy import chapters, prose


def words(term):
    return {word.removesuffix("s") for word in re.findall(r"[\w'’+-]+", term.lower())}


def definition(term, chapter):
    """The first sentence of the chapter in which the term is bold; empty where there is none."""
    for text in chapter.markdown:
        for sentence in re.split(r"(?<=[.:?])\s+(?=[A-Z`*])|\n\s*\n", prose(text)):
            for bold in re.findall(r"\*\*([^*]{1,60}?)\*\*", sentence):
                if words(bold) and (words(bold) <= words(term) or words(term) <= words(bold)):
                    return " ".join(sentence.split())
    return ""


class Taught(SphinxDirective):
    def run(self):
        lines = []
        for page, chapter in chapters().items():
            self.env.note_dependency(str(chapter.path))
            for term in chapter.about.get("teaches", ()):
                said = f" {definition(term, chapter)}".rstrip()
                lines.append((term.lower(), f"{term}\n: [{chapter.short}](/{page}).{said}\n"))
        return self.parse_text_to_nodes("\n".join(line for _, line in sorted(lines)))


class PublicNames(SphinxDirective):
    """`kernels.__all__`: a function's signature, and the first paragraph of its docstring."""

    def run(self):
        found = nodes.definition_list()
        for name in sorted(kernels.__all__):
            one = getattr(kernels, name)
            signature = str(inspect.signature(one)) if inspect.isfunction(one) else ""
            said = (inspect.getdoc(one) or "").split("\n\n")[0]
            term = nodes.term("", "", nodes.literal(text=f"kernels.{name}{signature}"))
            found += nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph(text=said)))
        return [found]


def setup(app):
    app.add_directive("taught", Taught)
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
