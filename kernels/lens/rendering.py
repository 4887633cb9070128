"""A trace as annotated source: beside each line what it asks of memory, and the least it could ask."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kernels.cuda.source import Line, in_order
from kernels.hardware import SECTOR_BYTES, WARP
from kernels.page_colors import STYLE

if TYPE_CHECKING:
    from kernels.lens.result import Access, Trace

_WHOLE = 60  # sources of at most so many lines are shown whole, longer ones around their accesses
_AROUND = 2
VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
_COLUMNS = ("", "source", "", "access", "requests", "each takes", "fewest")


class Mark(NamedTuple):
    """How much of what an access moves is waste, as a shape and as a colour: in a terminal, and the class of one on a page."""

    shape: str
    word: str
    rich: str
    css: str


_BEST = Mark("●", "as few as possible", "green", "good")
_MORE = Mark("△", "up to twice the fewest", "yellow", "fair")
_MOST = Mark("▲", "more than twice the fewest", "bold red", "bad")
_PLAIN = Mark("·", "not judged", "dim", "faint")


def mark_of(access: Access) -> Mark:
    """The mark of an access, by its waste."""
    if not access.fewest:
        return _PLAIN
    return _BEST if access.waste <= 1 else _MORE if access.waste <= 2 else _MOST


def _shown_lines(trace: Trace) -> Iterator[tuple[Line, str]]:
    """The lines to show with their texts; (0, "") where some are left out, (0, name) before those of a header."""
    marked = {one.line for one in trace.accesses if one.line}
    marked |= {line for finding in trace.findings for line in finding.lines}
    for name, source in (("", trace.source), *trace.headers.items()):
        text, last = source.splitlines(), 0
        numbers = {number for file, number in map(in_order, marked) if file == name}
        shown = set(range(1, len(text) + 1))
        if name or (len(text) > _WHOLE and marked):
            shown &= {near for number in numbers for near in range(number - _AROUND, number + _AROUND + 1)}
        if name and shown:
            yield 0, name
        for number in sorted(shown):
            if number > last + 1 and last:
                yield 0, ""
            yield f"{name}:{number}" if name else number, text[number - 1].expandtabs(4)
            last = number


def _words(access: Access) -> tuple[str, str, str, str]:
    """What, requests, what a request takes, and the fewest that it could take."""
    names = ", ".join(access.names)
    what = f"{access.kind} {names}" if names else f"{access.kind} {access.space}"
    unit = {"global": "sector", "shared": "wavefront"}.get(access.space)
    if access.masked is not None:
        lanes = f" of {(access.lanes + access.masked) / access.requests:,.4g} lanes"
        lanes += f", {access.masked:,} masked" * bool(access.masked)
    else:
        lanes = "" if access.lanes == WARP * access.requests else f" of {access.lanes_per_request:.3g} lanes"
    requests = f"{access.requests:,}{lanes}"
    if unit is None:
        return what, requests, "", ""
    each = f"{access.units / access.requests:.4g} {unit}" + "s" * (access.units != access.requests)
    return what, requests, each, f"{access.fewest / access.requests:.4g}"


def _heading(trace: Trace) -> str:
    grid, block = (", ".join(map(str, size)) for size in (trace.grid, trace.block))
    if trace.constants is not None:
        return ", ".join([f"{trace.kernel}: grid ({grid})", *(f"{key}={one}" for key, one in trace.constants.items())])
    shared = f", {trace.shared_mem:,} bytes of dynamic shared memory" if trace.shared_mem else ""
    return f"{trace.kernel}: grid ({grid}), block ({block}){shared}"


def _summary(trace: Trace) -> list[str]:
    totals = trace.totals
    asked, moved = totals["bytes_requested"], totals["bytes_moved"]
    ratio = f", {moved / asked:.2f} a byte asked for" if asked else ""
    least = "at least " * (trace.constants is not None)
    lines = [f"global memory: {asked:,} bytes asked for, {least}{moved:,} moved{ratio}"]
    if trace.constants is not None:
        masked = totals["lanes_masked"]
        lanes = masked + sum(one.lanes for one in trace.accesses)
        return [*lines, f"lanes: {masked:,} of {lanes:,} masked; requests are of whole programs, not of warps"]
    wavefronts = [one for one in trace.accesses if one.space == "shared"]
    if wavefronts:
        used, fewest = sum(one.wavefronts for one in wavefronts), sum(one.fewest_wavefronts for one in wavefronts)
        lines.append(f"shared memory: {used:,} wavefronts, at best {fewest:,}")
    lines.append(f"barriers: {trace.barriers:,}; active lanes: about {trace.simt_efficiency:.0%}")
    if trace.scaled:
        lines.append(f"scaled: {trace.blocks_run:,} of {trace.blocks:,} blocks were traced")
    return lines


def in_words(access: Access, array: str) -> str:
    """An access to global memory as a sentence: by which line, how often, and what a request asks for and moves."""
    asked, moved = access.bytes / access.requests, SECTOR_BYTES * access.sectors / access.requests
    alike = asked.is_integer() and moved.is_integer()
    which = "each of which asks for {} bytes and moves {}" if alike else "which on average ask for {} bytes and move {}"
    return f"line {access.line} {VERBS[access.kind]} {array}: {access.requests:,} requests, " + which.format(
        f"{asked:,.0f}", f"{moved:,.0f}"
    )


def wasteful(trace: Trace) -> list[str]:
    """Sentences on the accesses to global memory that move more than twice the fewest sectors, the worst first."""
    found = [one for one in trace.accesses if one.space == "global" and one.line and mark_of(one) is _MOST]
    found.sort(key=lambda one: one.sectors - one.fewest_sectors, reverse=True)
    return [f"{_MOST.shape} {in_words(one, ', '.join(one.names))}" for one in found]


def as_rich(trace: Trace) -> Group:
    """For a terminal."""
    table = Table(title=_heading(trace), title_justify="left", show_edge=False, pad_edge=False)
    for name in _COLUMNS:
        # Where room is short, the source gives way.
        table.add_column(name, justify="left" if name in ("source", "access") else "right", no_wrap=name != "source")
    for line, text in _shown_lines(trace):
        if not line:
            table.add_row("", Text(text or "⋮", style="bold" if text else "dim"))
            continue
        found, number = trace.line(line), in_order(line)[1]
        source = Text(text, style="" if found else "dim", no_wrap=True, overflow="ellipsis")
        if not found:
            table.add_row(Text(str(number), style="dim"), source)
        for index, access in enumerate(found):
            mark = mark_of(access)
            cells = (Text(cell, style=mark.rich if mark is not _PLAIN else "") for cell in _words(access))
            head = (Text(""), Text("")) if index else (Text(str(number), style="dim"), source)
            table.add_row(*head, Text(mark.shape, style=mark.rich), *cells)
    findings = [Text(f"✗ {finding}", style="bold red") for finding in trace.findings]
    stopped = [Text(f"stopped: {trace.error}", style="bold red")] if trace.error else []
    notes = [Text(f"note: {one}") for one in trace.notes]
    return Group(table, Text(""), *(Text(line) for line in _summary(trace)), *notes, *findings, *stopped)


# JupyterLab stripes the rows of tables, aligns them right and makes columns alike, by selectors of two classes: hence the class
# twice. The source gives way where room is short, and below its least width the whole view scrolls.
_STYLE = (
    "<style>.lens{overflow-x:auto}.lens.lens table{table-layout:auto;border-collapse:collapse;font-size:.8em;width:100%}"
    ".lens.lens tbody tr,.lens.lens tbody tr td,.lens.lens thead tr th{background:none;border:0;text-align:left}"
    ".lens.lens tr td,.lens.lens tr th{padding:1px 5px;white-space:nowrap;vertical-align:baseline;max-width:none}"
    ".lens.lens tbody tr td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".lens.lens tr td.source{white-space:pre-wrap;min-width:20em;width:100%;overflow-wrap:anywhere}"
    ".lens.lens .source code{white-space:inherit;background:none;border:0;padding:0;color:inherit}"
    ".lens td.mark{border-left:3px solid!important}"
    ".lens p{margin:.3em 5px}.lens .wrong{border-left:3px solid var(--bad);padding-left:6px}</style>"
)


def as_html(trace: Trace) -> str:
    """For a notebook, on a light or a dark page."""
    rows = []
    for line, text in _shown_lines(trace):
        if not line:
            words = f"<b>{escape(text)}</b>" if text else "⋮"
            rows.append(f'<tr><td></td><td class="faint">{words}</td></tr>')
            continue
        found, number = trace.line(line), in_order(line)[1]
        faint = "" if found else " faint"
        source = f'<td class="n faint">{number}</td><td class="source{faint}"><code>{escape(text)}</code></td>'
        if not found:
            rows.append(f"<tr>{source}</tr>")
        for index, access in enumerate(found):
            mark = mark_of(access)
            what, *numbers = map(escape, _words(access))
            cells = "".join(f'<td class="n">{cell}</td>' for cell in numbers)
            shape = f'<td class="mark {mark.css}"><span role="img" aria-label="{mark.word}">{mark.shape}</span></td>'
            rows.append(f"<tr>{'<td></td><td></td>' if index else source}{shape}<td>{what}</td>{cells}</tr>")
    head = "".join(f"<th>{name}</th>" if name else "<td></td>" for name in _COLUMNS)
    notes = [f"<p>{escape(line)}</p>" for line in (*_summary(trace), *(f"note: {one}" for one in trace.notes))]
    wrong = [str(finding) for finding in trace.findings] + ([f"stopped: {trace.error}"] if trace.error else [])
    notes += [f'<p class="wrong">✗ {escape(line)}</p>' for line in wrong]
    caption = f"<p><b>{escape(_heading(trace))}</b></p>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    name = f'tabindex="0" role="region" aria-label="{escape(trace.kernel)}, annotated"'
    return f'{STYLE}{_STYLE}<div class="lens on-page" {name}>{caption}{table}{"".join(notes)}</div>'
