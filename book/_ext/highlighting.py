"""Colours CUDA C where it stands: in cells that begin with `%%cuda`, in strings of Python cells, and in outputs.

Outputs are those of `kernels.listing`, which says C++ for CUDA C so that JupyterLab colours them too.
"""

import re

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexers import CudaLexer
from pygments.token import Name

STRING = re.compile(r'(?<=""")(?:(?!""").)*?__(?:global|device)__.*?(?=""")', re.DOTALL)


class CellLexer(IPython3Lexer):
    """IPython with CUDA C in it."""

    def get_tokens_unprocessed(self, text, stack=("root",)):
        if text.startswith("%%cuda"):
            magic, _, code = text.partition("\n")
            yield 0, Name.Function.Magic, magic + "\n"
            yield from cuda(code, len(magic) + 1)
            return
        tokens = list(super().get_tokens_unprocessed(text, stack))
        for begin, end in (found.span() for found in STRING.finditer(text)):
            tokens = [*parts(tokens, 0, begin), *cuda(text[begin:end], begin), *parts(tokens, end, len(text))]
        yield from tokens


def parts(tokens, begin, end):
    """What of the tokens lies between two places: a string that begins a line is one token, with its quotes."""
    for start, kind, value in tokens:
        inside = value[max(begin - start, 0) : max(end - start, 0)]
        if inside:
            yield max(start, begin), kind, inside


def cuda(code, offset):
    return [(offset + start, kind, value) for start, kind, value in CudaLexer().get_tokens_unprocessed(code)]


def setup(app):
    app.add_lexer("python", CellLexer)
    app.add_lexer("cpp", CudaLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
