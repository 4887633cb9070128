"""Maths as MathML, which browsers set themselves: no script, text that can be selected and read aloud, the page's colours.

`maths.woff2` is the part of STIX Two Math (SIL Open Font License 1.1, github.com/stipub/stixfonts) that its formulas take.
"""

from docutils import nodes
from latex2mathml.converter import convert


def inline(writer, node):
    writer.body.append(f'<span class="math">{mathml(node.astext())}</span>')
    raise nodes.SkipNode


def block(writer, node):
    writer.body.append(f'<div class="math">{mathml(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def mathml(latex, **options):
    made = convert(latex, **options)
    if "<mi>&</mi>" in made:  # as of an `aligned`, which it does not know: `array` and `cases` it does
        raise ValueError(f"formula: got {latex!r}, whose & would be shown; expected an environment that it aligns")
    return made


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
