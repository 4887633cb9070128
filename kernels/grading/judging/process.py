"""The judge in a process of its own, so that nothing a notebook has changed is what it is judged with.

A question is one line of JSON, and so is its answer (see `__main__.py`), after lines that say what the judge is doing. The
process starts with the first question, or before (`start`), and ends with the one that asks.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from kernels.grading.judging.report import Report
from kernels.worker.client import TO_BE_FORKED

_ROOT = Path(__file__).parents[3]
_process: subprocess.Popen | None = None
_errors: IO[str] | None = None


def start() -> None:
    """Start the judge, unless it runs. It takes seconds to be ready; this does not wait for it."""
    global _process, _errors
    if _process is None or _process.poll() is not None:
        _errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": _errors, "text": True}
        # A session of its own: an interrupt of the notebook is not one of the judge.
        environment = os.environ | TO_BE_FORKED
        _process = subprocess.Popen(
            [sys.executable, "-m", "kernels.grading"], cwd=_ROOT, env=environment, start_new_session=True, **pipes
        )


def ask(what: str, exercise: str, text: str, say: Callable[[str], object] = lambda doing: None) -> Report:
    """`what`: "compile", whose report has no verdicts, or "grade". say: is called with what the judge does.

    RuntimeError: the judge has died.
    """
    start()
    assert _process and _process.stdin and _process.stdout and _errors
    try:
        _process.stdin.write(json.dumps([what, exercise, text]) + "\n")
        _process.stdin.flush()
        say("waiting for the judge")  # which takes seconds to start
        while "doing" in (answer := json.loads(_process.stdout.readline() or "{}")):
            say(answer["doing"])
    except BaseException:  # such as an interrupt: the answer that comes would be taken for the next one's
        stop()
        raise
    if not answer:
        stop()
        _errors.seek(0)
        raise RuntimeError(f"the process that judges has died; the next check starts a new one:\n{_errors.read()}")
    return Report.from_dict(answer["report"])


@atexit.register
def stop() -> None:
    """End the judge."""
    global _process
    if _process is not None:
        _process.kill()
        _process.wait()
        _process = None
