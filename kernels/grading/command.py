"""python -m kernels grade: check the labs in notebooks on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kernels.grading import progress
from kernels.grading.judging import judge
from kernels.grading.judging.report import Report
from kernels.grading.labs import exercise, labs
from kernels.grading.notebooks import read_submissions


def grade(
    names: Annotated[list[str] | None, typer.Argument(metavar="LAB...", help="labs to check")] = None,
    every: Annotated[bool, typer.Option("--all", help="check all labs")] = False,
    folder: Annotated[Path, typer.Option(help="of the notebooks")] = progress.WORK / "labs",
) -> None:
    """Check labs from your notebooks, in a new process; exit 1 if one is not solved. Without a name: your best so far."""
    known = labs()
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(f"there is no lab {name!r}; there are {', '.join(known)}")
    if (names or every) and not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}; `make lab` makes working copies of the labs")
    out = Console()
    table = Table("lab", "exercise", "", title="Labs")
    asked = list(known) if every else list(names or ())
    best, reports = progress.best(), []
    for lab in asked or known:
        found = read_submissions(folder / f"{lab}.ipynb") if asked and (folder / f"{lab}.ipynb").exists() else {}
        for one in known[lab]:
            if not asked:
                table.add_row(lab, one.name, _scored(*best.get(one.name, (0, 0))))
                continue
            text = found.get(one.name)
            report = judge.grade(exercise(one.name), text) if text is not None else _missing(one.name, folder)
            progress.record(report, folder)
            reports.append(report)
            table.add_row(lab, one.name, "solved" if report.passed else report.summary.partition(": ")[2])
    out.print(table)
    for report in reports:
        if not report.passed and (names or report.broken):
            out.print(report)
    raise typer.Exit(int(not all(report.passed for report in reports)))


def _scored(held: int, of: int) -> str:
    return "" if not of else "solved" if held == of else f"{held} of {of} hold"


def _missing(name: str, folder: Path) -> Report:
    return Report(name, refused=f"{folder} has no notebook with a cell for it; `make lab` makes working copies")
