"""The submissions in a notebook: cells that begin with `%%cuda NAME`, `%%triton NAME` or `%%torch NAME`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

from kernels.grading.exercise import Language

LANGUAGES = get_args(Language)
_HEAD = re.compile(rf"%%({'|'.join(LANGUAGES)})[ \t]+(\w+)[ \t]*\n")


def read_submissions(path: Path) -> dict[str, str]:
    """Their sources by name: where there are several of a name, the last."""
    found = {}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and (head := _HEAD.match(source)):
            found[head.group(2)] = source[head.end() :]
    return found
