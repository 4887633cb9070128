"""Maths as MathML, which browsers set themselves: no script, text that can be selected and read aloud, the page's colours.

`maths.woff2` is the part of STIX Two Math (SIL Open Font License 1.1, github.com/stipub/stixfonts) that its formulas take.
"""

from docutils import nodes
from latex2mathml.converter import convert


def inline(writer, node):
    writer.body.append(f'<span class="math">{convert(node.astext())}</span>')
    raise nodes.SkipNode


def block(writer, node):
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
