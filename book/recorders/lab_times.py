"""Times our solutions of the labs, beside PyTorch's own way of doing the same. Recorded on a GPU:

    python -m book.recorders.lab_times FOLDER     write FOLDER/<gpu>.json

The file holds `machine` and `rows`: {"exercise", "sizes", "solution_ms", "torch_ms"}, medians of one race each.
"""

import sys
from pathlib import Path

from kernels.grading.judging.speed import race
from kernels.grading.labs import labs
from kernels.grading.notebooks import read_submissions
from kernels.measure.results import FOLDER, facts, file_name, write

SOLUTIONS = FOLDER.parents[1] / "labs" / "solutions"


def rows() -> list[dict]:
    """A row for each exercise that is timed. RuntimeError: a solution got no time, and why."""
    found = []
    for lab, exercises in labs().items():
        texts = read_submissions(SOLUTIONS / f"{lab}.ipynb")
        for one in (one for one in exercises if one.bench):
            raced = race(one.name, texts[one.name])
            if isinstance(raced, str):
                raise RuntimeError(f"{one.name}: {raced}")
            solution, torchs = (float(f"{raced.times[who].median_ms:.5g}") for who in ("yours", "torch"))
            sizes = dict(one.bench)
            found.append({"exercise": one.name, "sizes": sizes, "solution_ms": solution, "torch_ms": torchs})
    return found


if __name__ == "__main__":
    machine = facts()
    write(Path(sys.argv[1]) / file_name(machine["gpu"]), {"machine": machine}, "rows", rows())
