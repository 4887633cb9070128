"""The judge's process: answers the questions of `kernels.grading.judging.process` on standard input."""

import json
import os
import sys
from dataclasses import asdict

import torch

from kernels import machine, worker
from kernels.grading.judging import judge, success
from kernels.grading.labs import exercise
from kernels.lens.cuda import instrumented


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else writes to standard output is no answer

    def answer(line: dict) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    def say(doing: str) -> None:
        answer({"doing": doing})

    if machine.interpreting() and not torch.cuda.is_available():
        worker.fork()
    worker.run(instrumented.lens_library, seconds=300, device="cpu")  # so that the first question need not wait for it
    for question in sys.stdin:
        what, name, text = json.loads(question)
        asked = exercise(name)
        report = judge.accepted(asked, text) if what == "compile" else success.graded(asked, text, say)
        answer({"report": asdict(report)})


if __name__ == "__main__":
    main()
