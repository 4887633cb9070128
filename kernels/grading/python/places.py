"""Where in a submission something was raised."""

from __future__ import annotations

import traceback


def line_of(error: BaseException) -> str:
    """The line of the text that an error came from, to stand below what is said of it; empty if none did."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "/submission-" in one.filename]
    return f"\n    {frames[-1].lineno} | {frames[-1].line}" if frames else ""
