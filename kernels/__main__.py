"""python -m kernels: doctor, list, show, check, bench, demo, serve, lens, grade."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
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
from kernels import machine
from kernels.case_selection import selection, smallest_first
from kernels.doctor import findings
from kernels.grading.command import grade
from kernels.lens.command import lens
from kernels.measure import bench as benching
from kernels.measure import regressions
from kernels.measure.bench import Bench
from kernels.measure.drawn import drawn
from kernels.measure.results import FOLDER, commit, point, stored
from kernels.systems import demo as run_demo
from kernels.systems import system, systems

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
app.command()(lens)
app.command()(grade)
out = Console()
TIME_IS_OVER = 3
"""The exit status of a bench that ended with its minutes."""
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
        out.print(Syntax(path.read_text(), "cuda" if path.suffix in (".cu", ".cuh") else "python", line_numbers=True))


@app.command()
def check(
    ops: Names = None,
    device: Device = None,
    wrong: Annotated[
        bool, typer.Option("--wrong", help="the deliberately wrong variants; exit 1 if one passes")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="every variant on every case, which takes minutes")] = False,
) -> None:
    """Check the variants against float64; exit 1 if any is wrong.

    Without --all each level meets each special case once, level 3 only a few of them, on one of its variants and in one dtype,
    the same at every run; a wrong variant is checked until it is rejected, the smallest cases first.
    """
    where = _device(device)
    failed = False
    for op in _operations(ops):
        variants = op.wrong if wrong else op.variants
        found, most = _checks(op, where, wrong, every)
        results = list(_progress(found, most, op.name))
        table = Table("variant", "right", "wrong", "skipped", "worst ratio", title=f"{op.name} on {where}")
        for variant in variants:
            mine = [result for result in results if result.variant == variant.key]
            counts = Counter("skipped" if r.skipped else "wrong" if r.failure else "right" for r in mine)
            worst = max((r.ratio for r in mine), default=0.0)
            table.add_row(variant.key, *(str(counts[kind]) for kind in ("right", "wrong", "skipped")), f"{worst:.2f}")
            failed |= not any(map(_rejected, mine)) and counts["skipped"] < len(mine) if wrong else counts["wrong"] > 0
        out.print(table)
        whole = len(variants) * sum(len(op.cases[kind]) for kind in ("edge", "model"))
        if not wrong and most < whole:
            left_out = "each rung in some dtypes, level 3 on few cases, levels 4 and 5 on a CPU on no long rows"
            out.print(f"checked {most} of {whole} pairs of variant and case: {left_out}; --all checks the others, too")
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
    json_folder: Annotated[
        Path | None,
        typer.Option(
            "--json", file_okay=False, help="store each comparison below this folder; an interrupted run goes on"
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="time again what is stored there already")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="exit 1 if a ratio fell below the one in book/results")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="one case an operation")] = False,
    count: Annotated[
        int, typer.Option("--drawn", min=0, help="in place of the bench cases, so many of each drawn from --seed")
    ] = 0,
    seed: Annotated[int, typer.Option(help="of the points that are drawn")] = 0,
    minutes: Annotated[float, typer.Option(help="exit 3 when they are over, and say what is left")] = 8,
) -> None:
    """Time every variant and peer, forward and backward: at the bench cases on a GPU, at the model cases on a CPU."""
    where, asked = _device(device), _operations(ops)
    if json_folder is not None:
        _can_store(json_folder, where, compare, quick)
    points = _drawn(asked, count, seed, where, compare or quick) if count else benching.points(asked, where, quick)
    before = _stored(asked, where) if compare else []
    run = Bench(points, where, minutes, json_folder, fresh, seed if count else None)
    for comparison in _progress(run, len(points), "bench"):
        out.print(comparison)
    if json_folder is not None:
        for name, results in run.results.items():
            out.print(f"{len(results.rows)} rows in {run.path(name)}: {json.dumps(results.machine)}", highlight=False)
    fallen = []
    if compare:
        done = {at.key for at in points} - {at.key for at in run.left}
        not_asked = {at.key for at in benching.points(asked, where)} - done
        rows = [row for results in run.results.values() for row in results.rows]
        fallen = regressions.falls([row for row in before if point(row) not in not_asked], rows)
        out.print(regressions.table(fallen) if fallen else "no ratio fell below the stored one, within its slack")
    if run.left:
        goes_on = "; the same command without --fresh goes on" if json_folder else ""
        out.print(f"{minutes:g} minutes are over; left: {', '.join(map(str, run.left))}{goes_on}", highlight=False)
    raise typer.Exit(1 if fallen else TIME_IS_OVER if run.left else 0)


@app.command()
def demo(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="systems; all if none is named")] = None,
    device: Device = None,
    quick: Annotated[bool, typer.Option("--quick", help="smaller sizes, a minute for all")] = False,
    only_list: Annotated[bool, typer.Option("--list", help="list the systems and what they do")] = False,
) -> None:
    """Check systems of the course and show them at work: what was shown, proved and measured; exit 1 if one fails."""
    if unknown := [name for name in names or () if name not in systems()]:
        raise typer.BadParameter(f"there is no system {unknown[0]!r}; there are {', '.join(systems())}")
    where, failed = _device(device), False
    for name in names or systems():
        if only_list:
            out.print(f"[bold]{name}[/]  {escape(system(name).summary)}", highlight=False)
            continue
        out.rule(name)
        try:
            out.print(escape(repr(run_demo(name, quick, where))), highlight=False)
        except Exception as error:  # the others are to be shown all the same
            out.print(f"[red]failed[/]    {escape(f'{type(error).__name__}: {error}')}", highlight=False)
            failed = True
    raise typer.Exit(int(failed))


@app.command()
def serve(
    model: Annotated[Path, typer.Argument(help="a .pt2 file that kernels.serving.export wrote; load only your own")],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="of 127.0.0.1; 0 for any that is free")] = 8000,
) -> None:
    """Serve a model on 127.0.0.1 behind a door that checks each request, until it is interrupted."""
    from kernels.serving import serve as make_server  # torch.export takes a while to import

    try:
        server = make_server(model, port)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    out.print(f"{model} is served at http://127.0.0.1:{server.server_port}/, which says what it takes", highlight=False)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


def _can_store(folder: Path, device: str, compare: bool, quick: bool) -> None:
    """A usage error where the results of such a run must not be stored."""
    if device != "cuda":
        # The time of a laptop is of no use to others, and the file names a GPU.
        raise typer.BadParameter("--json records a GPU's results, and this run would be on a CPU")
    if commit() is None:
        raise typer.BadParameter(
            "--json records the commit that was measured: commit what has changed in kernels/, or say KERNELS_COMMIT=<hash>"
        )
    if folder.resolve() == FOLDER and (compare or quick):
        option = "--compare holds what is stored there against this run" if compare else "--quick times a part of that"
        raise typer.BadParameter(f"--json {folder}: {option}; name another folder")


def _drawn(ops: list[kernels.Operation], count: int, seed: int, device: str, bench_cases: bool) -> list[benching.Point]:
    """The points of --drawn; a usage error where they cannot be timed, or where nothing is held against them."""
    if device != "cuda":
        raise typer.BadParameter(
            "--drawn times levels 4 and 5, and this run would be on a CPU, whose times of them say nothing"
        )
    if bench_cases:
        raise typer.BadParameter("--compare and --quick are of bench cases, and --drawn times none of them")
    try:
        return [at for op in ops for at in drawn(op, count, seed)]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _stored(ops: list[kernels.Operation], device: str) -> list[dict]:
    """The rows to compare with; a usage error where there are none."""
    found = [results for op in ops if device == "cuda" and (results := stored(op.name))]
    if not found:
        raise typer.BadParameter(
            f"--compare: book/results has nothing stored to compare {machine.here(device).gpu or 'a CPU'} with"
        )
    return [row for results in found for row in results.rows]


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


def _checks(op: kernels.Operation, device: str, wrong: bool, every: bool) -> tuple[Iterator[checking.Result], int]:
    """The results of a check, as they are known, and how many they are at most."""
    cases = (*op.cases["edge"], *op.cases["model"])
    variants = op.wrong if wrong else op.variants
    if every:
        return checking.check(op, variants, cases, device), len(cases) * len(variants)
    if wrong:
        found = (checking.check(op, (variant,), smallest_first(cases), device) for variant in variants)
        return (result for results in found for result in _until_rejected(results)), len(cases) * len(variants)
    chosen = selection(cases, variants, machine.here(device))
    found = (checking.check(op, rungs, (case,), device) for case, rungs in chosen)
    return chain.from_iterable(found), sum(len(rungs) for _, rungs in chosen)


def _rejected(result: checking.Result) -> bool:
    """By what it gave: one that raised gave nothing, and its mistake was not seen."""
    return bool(result.failure) and not result.failure.startswith("raised ")


def _until_rejected(results: Iterable[checking.Result]) -> Iterator[checking.Result]:
    for result in results:
        yield result
        if _rejected(result):
            return


def _progress(items, total: int, name: str):
    """The items, under a progress bar on standard error while they come."""
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, total=total)


if __name__ == "__main__":
    app()
