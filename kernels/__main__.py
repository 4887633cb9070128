"""python -m kernels: doctor, list, show, check, bench, lens, grade."""

import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

import kernels
from kernels import check as checking
from kernels import machine, measure
from kernels.doctor import findings
from kernels.grading.command import grade
from kernels.lens.command import lens
from kernels.measure import regressions
from kernels.measure.contestants import DIRECTIONS
from kernels.measure.results import Results, facts, file_name, stored

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
app.command()(lens)
app.command()(grade)
out = Console()
Names = Annotated[list[str] | None, typer.Argument(metavar="OP...", help="operations; all of them if none is named")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; the GPU where there is one")]


@app.command()
def doctor() -> None:
    """Show what is here, and what each missing piece costs."""
    table = Table("", "found", "without it", title="What is here")
    for finding in findings():
        found = f"[green]{escape(finding.found)}[/]" if finding.found else "[yellow]missing[/]"
        table.add_row(finding.name, found, "" if finding.found and not finding.warning else escape(finding.cost))
    out.print(table)


@app.command("list")
def list_operations() -> None:
    """List the operations and their variants."""
    table = Table("operation", "level", "variant", "idea")
    for name in kernels.operations():
        for variant in kernels.operation(name).variants:
            table.add_row(name, str(variant.level), variant.key, variant.idea)
    out.print(table)


@app.command()
def show(op: str, variant: str) -> None:
    """Show the real source of a variant, such as `show layer_norm triton/row`."""
    for path in _operation(op)[_known(op, variant)].source:
        out.rule(str(path.relative_to(Path(kernels.__file__).parents[1])))
        out.print(Syntax(path.read_text(), "cuda" if path.suffix == ".cu" else "python", line_numbers=True))


@app.command()
def check(ops: Names = None, device: Device = None, wrong: bool = False) -> None:
    """Check every variant on every case against float64; exit 1 if any is wrong.

    With --wrong, check the deliberately wrong variants instead, and exit 1 if one of them passes.
    """
    where = _device(device)
    failed = False
    for op in _operations(ops):
        variants = op.wrong if wrong else op.variants
        results = list(_progress(checking.check(op, variants, device=where), len(variants) * _cases(op), op.name))
        table = Table("variant", "right", "wrong", "skipped", "worst ratio", title=f"{op.name} on {where}")
        for variant in variants:
            mine = [result for result in results if result.variant == variant.key]
            counts = Counter("skipped" if r.skipped else "wrong" if r.failure else "right" for r in mine)
            worst = max((r.ratio for r in mine), default=0.0)
            table.add_row(variant.key, *(str(counts[kind]) for kind in ("right", "wrong", "skipped")), f"{worst:.2f}")
            failed |= counts["wrong"] == 0 < counts["right"] if wrong else counts["wrong"] > 0
        out.print(table)
        for key, reason in sorted({(r.variant, r.skipped) for r in results if r.skipped}):
            out.print(f"skipped {key}: {escape(reason)}", highlight=False)
        for result in results:
            if result.failure and not wrong:
                out.print(f"[red]wrong[/] {op.name} {result.variant} on {result.case}: {escape(result.failure)}")
    raise typer.Exit(int(failed))


@app.command()
def bench(
    ops: Names = None,
    device: Device = None,
    json_path: Annotated[
        Path | None,
        typer.Option("--json", help="write the rows; a folder gets a file named after the GPU"),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="exit 1 if a ratio fell below the one in book/results")
    ] = False,
) -> None:
    """Time every variant and peer, forward and backward: at the bench cases on a GPU, at the model cases on a CPU."""
    where = _device(device)
    if json_path is not None and where != "cuda":
        # The time of a laptop is of no use to others, and the file names a GPU.
        raise typer.BadParameter("--json records a GPU's results, and this run would be on a CPU")
    before = _stored(where) if compare else None
    timed = _operations(ops)
    rows: list[dict] = []
    for op in timed:
        cases = op.cases["bench" if where == "cuda" else "model"]
        directions = DIRECTIONS if op.backward_cost else DIRECTIONS[:1]
        for case, direction in _progress(list(product(cases, directions)), len(cases) * len(directions), op.name):
            comparison = measure.compare(op, case, device=where, direction=direction)
            out.print(comparison)
            rows += comparison.as_data()
    if json_path is not None:
        about = facts()
        path = json_path / file_name(about["gpu"]) if json_path.is_dir() else json_path
        Results(about, measure.ceilings(where), rows).save(path)
        out.print(f"{len(rows)} rows in {path}: {json.dumps(about)}", highlight=False)
    if before is not None:
        held = [row for row in before.rows if row["operation"] in {op.name for op in timed}]
        found = regressions.falls(held, rows)
        out.print(regressions.table(found) if found else "no ratio fell below the stored one, within the slack")
        raise typer.Exit(int(bool(found)))


def _stored(device: str) -> Results:
    """The results to compare with; a usage error where there are none."""
    results = stored() if device == "cuda" else None
    if results is None:
        raise typer.BadParameter(
            f"--compare: book/results has nothing stored to compare {machine.here(device).gpu or 'a CPU'} with"
        )
    return results


def _device(device: str | None) -> str:
    try:
        return machine.here(device).device
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _operation(name: str) -> kernels.Operation:
    if name not in kernels.operations():
        raise typer.BadParameter(f"there is no operation {name!r}; there are {', '.join(kernels.operations())}")
    return kernels.operation(name)


def _operations(names: list[str] | None) -> list[kernels.Operation]:
    return [_operation(name) for name in names or kernels.operations()]


def _known(op: str, variant: str) -> str:
    record = kernels.operation(op) if op in kernels.operations() else None
    known = [v.key for v in record.variants] if record else []
    if known and variant not in (*known, *kernels.LEVELS):
        raise typer.BadParameter(f"{op} has no variant {variant!r}; it has {', '.join(known)}")
    return variant


def _cases(op: kernels.Operation) -> int:
    return len(op.cases["edge"]) + len(op.cases["model"])


def _progress(items, total: int, name: str):
    """The items, under a progress bar on standard error while they come."""
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, total=total)


if __name__ == "__main__":
    app()
