"""The control of predictions and questions: a question's choices, each a fold that holds its own explanation.

A chapter has them as plain HTML, which JupyterLab shows as it is:

    <details class="choice right"><summary>B. 5 sectors.</summary>

    Right. The 128 bytes begin in the middle of a sector.

    </details>

Here the choices of a question become one group, each with a mark that is seen once it is open, and `predict.js` lets one
click open the output of the cell tagged `answer` as well. Without JavaScript they are folds, and so is the output.
"""

import json
import re

CHOICE = r'<details class="choice(?: right)?">.*?</details>'
GROUP = re.compile(rf"^{CHOICE}(?:\s*{CHOICE})*", re.MULTILINE | re.DOTALL)
OPENING = re.compile(r'<details class="(choice(?: right)?)"><summary>(.*?)</summary>', re.DOTALL)
SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)
FORMULA = re.compile(r"(?<!\\)\$([^$]+)\$|\\\((.+?)\\\)")
MARKS = {"choice right": "✓ right", "choice": "✗ wrong"}


def with_formulas(summary):
    """A summary is HTML, in which MyST sees no formula."""
    return FORMULA.sub(r'<span class="math notranslate nohighlight">\\(\1\2\\)</span>', summary[0])


def with_marks(group):
    """The choices in one element, each with its mark."""
    choices = OPENING.sub(
        lambda found: (
            f'<details class="{found[1]}"><summary><span>{found[2]}</span>'
            f'<span class="verdict">{MARKS[found[1]]}</span></summary>'
        ),
        group[0],
    )
    return f'<div class="choices" role="group" aria-label="Choices">\n\n{choices}\n\n</div>'


def as_control(text):
    return GROUP.sub(with_marks, SUMMARY.sub(with_formulas, text))


def rewrite(app, docname, source):
    if not str(app.env.doc2path(docname)).endswith(".ipynb"):
        source[0] = as_control(source[0])
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = as_control("".join(cell["source"]))
    source[0] = json.dumps(notebook)


def load_where_needed(app, pagename, templatename, context, doctree):
    if 'class="choices"' in context.get("body", ""):
        app.add_js_file("predict.js", loading_method="defer")


def setup(app):
    app.connect("source-read", rewrite)
    app.connect("html-page-context", load_where_needed)
    app.add_css_file("predict.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
