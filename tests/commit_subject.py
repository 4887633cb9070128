"""The hook for a commit's message: a subject that git log and a review show whole, and then an empty line.

python tests/commit_subject.py FILE
"""

import sys
from pathlib import Path

SHORTER_THAN = 72
MADE_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def problem(message: str) -> str | None:
    """What is wrong with a commit's message, or None. Lines that begin with # are git's own comments."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0].strip() if lines else ""
    if subject.startswith(MADE_BY_GIT):
        return None
    if not subject:
        return (
            "the commit's message: its first line is empty, expected a subject: what changes for who reads the history"
        )
    if len(subject) >= SHORTER_THAN:
        return (
            f"the commit's subject has {len(subject)} characters, expected fewer than {SHORTER_THAN}: "
            "say the rest below, after an empty line"
        )
    if len(lines) > 1 and lines[1].strip():
        return "the commit's message: its second line is not empty, so that git takes it for a part of the subject"
    return None


if __name__ == "__main__":
    sys.exit(problem(Path(sys.argv[1]).read_text("utf-8")))
