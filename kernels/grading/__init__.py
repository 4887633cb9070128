"""Labs: texts that a learner submits, and the properties that they are held to.

In a notebook, `%load_ext kernels.grading` gives the cell magics `%%cuda NAME`, `%%triton NAME` and `%%torch NAME`. A cell
that begins with one of them is a submission: text, which is compiled and run in other processes, never in the notebook's.
`check(NAME)` tries it and says what holds. `python -m kernels grade` does so for the notebooks on disk.
`trace(NAME)` shows what the lens sees of it; `speed(NAME)` times it on a GPU.

This keeps mistakes and shortcuts from passing for solutions. It is no sandbox: a submission runs with the rights of the user.
"""

from kernels.grading.judging.report import Report
from kernels.grading.submissions import check, load_ipython_extension, speed, trace

__all__ = ["Report", "check", "load_ipython_extension", "speed", "trace"]
