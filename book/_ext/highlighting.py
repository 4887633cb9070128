"""Colours CUDA C where it stands: in cells that begin with `%%cuda`, in strings of Python cells, and in outputs.
Cells that begin with `%%triton` or `%%torch` are Python below that line.

Outputs are those of `kernels.listing`, which says C++ for CUDA C so that JupyterLab colours them too.
"""

import re

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Name

SUBMISSION = re.compile(r"%%(cuda|triton|torch)\b.*\n")  # of a lab
STRING = re.compile(r'(?<=""")(?:(?!""").)*?__(?:global|device)__.*?(?=""")', re.DOTALL)


class CellLexer(IPython3Lexer):
    """IPython with CUDA C in it."""

    def get_tokens_unprocessed(self, text, stack=("root",)):
        if found := SUBMISSION.match(text):
            yield 0, Name.Function.Magic, found[0]
            code = text[found.end() :]
            yield from cuda(code, found.end()) if found[1] == "cuda" else shifted(PythonLexer(), code, found.end())
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
    return shifted(CudaLexer(), code, offset)


def shifted(lexer, code, offset):
    return [(offset + start, kind, value) for start, kind, value in lexer.get_tokens_unprocessed(code)]


def setup(app):
    app.add_lexer("python", CellLexer)
    app.add_lexer("cpp", CudaLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
