"""Numbers and tables from `book/results/*.json`, so that no page has a measured number typed into it.

In the text of an `.md` page, one number, picked by any of its row's fields:

    {{ measured("gbps", operation="layer_norm", contestant="torch", shape=[32768, 4096], dtype="bfloat16") }}

and the table of one operation and direction, or with no argument one of everything for each GPU:

    ```{results} layer_norm forward
    ```
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).resolve().parents[1] / "results"
NOTHING_YET = "not measured yet"
UNITS = {
    "median_ms": "{:.4g} ms",
    "p20_ms": "{:.4g} ms",
    "p80_ms": "{:.4g} ms",
    "gbps": "{:,.0f} GB/s",
    "tflops": "{:,.0f} TFLOP/s",
    "ceiling_fraction": "{:.0%}",
    "max_error_ratio": "{:.2g}",
}


def load(folder=RESULTS):
    """The results files of a folder, by name; each is one GPU's."""
    files = {file.stem: json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))}
    return {name: data for name, data in files.items() if "rows" in data}


class Measured:
    """What pages call: `measured(field, **which)` gives that field of the one row that fits, with its unit.

    `gpu` names a results file, should there be several. Comparable, so that Sphinx sees when the results changed.
    """

    def __init__(self, results):
        self.rows = [{**row, "gpu": name} for name, data in results.items() for row in data["rows"]]

    def __eq__(self, other):
        return isinstance(other, Measured) and self.rows == other.rows

    def __call__(self, field, **which):
        if not self.rows:
            return NOTHING_YET
        fits = [row for row in self.rows if all(row.get(key) == value for key, value in which.items())]
        if len(fits) != 1:
            raise LookupError(f"{which} fits {len(fits)} rows of book/results, expected one")
        return UNITS.get(field, "{}").format(fits[0][field])


class ResultsDirective(SphinxDirective):
    optional_arguments = 2

    def run(self):
        results = load()
        for name in results:
            self.env.note_dependency(str(RESULTS / f"{name}.json"))
        if not results:
            return [nodes.paragraph(text="Nothing is measured yet: run “make measure” on a machine with a GPU.")]
        if self.arguments:
            operation, direction = self.arguments
            found = [table(data, operation, direction) for data in results.values()]
            if not any(found):
                raise self.error(f"no rows for {operation} {direction} in book/results")
            return [node for node in found if node]
        return [section(data) for data in results.values()]


def section(data):
    """A section on one GPU: one table of all that was measured on it, then what the machine was and when."""
    machine = nodes.section(
        "",
        nodes.title(text=data["machine"]["gpu"]),
        ids=[nodes.make_id(data["machine"]["gpu"])],
    )
    facts = [*flat(data["machine"]), *flat(data.get("ceilings", {}))]
    machine += whole_table(data)
    machine += grid(["", ""], [[key, value] for key, value in facts], "measured-on")
    return machine


def whole_table(data):
    """Every row, with every column; `sortable.js` sorts and filters it."""
    groups = {}
    for row in data["rows"]:
        key = (row["operation"], row["direction"], tuple(row["shape"]), row["dtype"])
        groups.setdefault(key, []).append(row)
    body = []
    for (operation, direction, shape, dtype), group in groups.items():
        best_peer = min((row["median_ms"] for row in group if row["kind"] == "peer"), default=None)
        torch_us = next((row.get("host_us") for row in group if row["contestant"] == "torch"), None)
        for row in sorted(group, key=lambda row: row["median_ms"]):
            ratio = best_peer / row["median_ms"] if best_peer and row["kind"] != "copy" else None
            host = row["host_us"] / torch_us if torch_us and row.get("host_us") else None
            body.append(
                [
                    row["contestant"],
                    kind(row),
                    operation,
                    direction,
                    size(shape),
                    dtype,
                    show(row, "median_ms", "{:.4f}", ""),
                    show(row, "gbps", "{:,.0f}", ""),
                    show(row, "ceiling_fraction", "{:.2f}", ""),
                    "" if ratio is None else f"{ratio:.2f}",
                    show(row, "host_us", "{:.1f}", ""),
                    "" if host is None else f"{host:.2f}",
                    show(row, "max_error_ratio", "{:.2f}", ""),
                    show(row, "p20_ms", "{:.4f}", ""),
                    show(row, "p80_ms", "{:.4f}", ""),
                ]
            )
    columns = ["Contestant", "Level", "Operation", "Direction", "Shape", "Type", "Median, ms", "GB/s", "Of copy"]
    columns += ["Of best peer", "Host, µs", "Host, of torch’s", "Error", "20 %, ms", "80 %, ms"]
    return grid(columns, body, "measured sortable", numbers=9)


def table(data, operation, direction):
    """Every row of one operation and direction, grouped by shape and dtype; None when there is none."""
    rows = [row for row in data["rows"] if (row["operation"], row["direction"]) == (operation, direction)]
    if not rows:
        return None
    rate, unit = ("tflops", "TFLOP/s") if any(row.get("tflops") for row in rows) else ("gbps", "GB/s")
    groups = {}
    for row in rows:
        groups.setdefault((tuple(row["shape"]), row["dtype"]), []).append(row)
    body = []
    for (shape, dtype), group in groups.items():
        body.append([f"{size(shape)}, {dtype}"])
        group.sort(key=lambda row: row["median_ms"])
        fastest = min((row["median_ms"] for row in group if row["kind"] != "copy"), default=None)
        for row in group:
            cells = [
                row["contestant"],
                kind(row),
                show(row, "median_ms", "{:.4f}"),
                f"{show(row, 'p20_ms', '{:.4f}')} – {show(row, 'p80_ms', '{:.4f}')}",
                show(row, rate, "{:,.0f}"),
                show(row, "ceiling_fraction", "{:.2f}"),
                show(row, "max_error_ratio", "{:.2f}"),
            ]
            if row["kind"] != "copy" and row["median_ms"] == fastest:
                cells = [nodes.strong(text=cell) for cell in cells]
            body.append(cells)
    columns = [
        "Contestant",
        "Kind",
        "Median, ms",
        "20–80 %, ms",
        unit,
        "Of ceiling",
        "Error",
    ]
    return grid(columns, body, "measured", numbers=5)


def kind(row):
    return row["kind"] if row.get("level") is None else f"level {row['level']}"


def size(shape):
    return " × ".join(f"{length:,}" for length in shape)


def show(row, field, form, missing="–"):
    return missing if row.get(field) is None else form.format(row[field])


def flat(facts, prefix=""):
    """The leaves of nested facts as (name, text) pairs."""
    for key, value in facts.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from flat(value, "" if key == "versions" else f"{name} ")
        else:
            yield (
                name,
                f"{value:,.0f}" if isinstance(value, float) and value >= 100 else str(value),
            )


def grid(columns, rows, classes, numbers=0):
    """A docutils table. A cell is text or an inline node, a row of one cell a heading; the last `numbers` columns align
    right."""

    def line(cells):
        row = nodes.row(classes=["group"] if len(cells) == 1 else [])
        for column, cell in enumerate(cells):
            entry = nodes.entry(classes=["number"] if column >= len(columns) - numbers else [])
            entry += nodes.paragraph("", "", cell if isinstance(cell, nodes.Node) else nodes.Text(cell))
            row += entry
        if len(cells) == 1:
            entry["morecols"] = len(columns) - 1
        return row

    group = nodes.tgroup(cols=len(columns))
    group += [nodes.colspec(colwidth=1) for _ in columns]
    if any(columns):
        group += nodes.thead("", line(columns))
    group += nodes.tbody("", *map(line, rows))
    return nodes.table("", group, classes=classes.split())


def provide_measured(app, config):
    config.myst_substitutions = {
        **config.myst_substitutions,
        "measured": Measured(load()),
    }


def setup(app):
    app.connect("config-inited", provide_measured)
    app.add_directive("results", ResultsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
