"""Numbers and tables from `book/results/operations`, so that no page has a measured number typed into it.

In the text of an `.md` page, one number, picked by any of its row's fields:

    {{ measured("gbps", operation="layer_norm", contestant="torch", shape=[32768, 4096], dtype="bfloat16") }}

and the table of everything that was measured on a GPU, which is named by its file:

    ```{results} h200
    ```
"""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the package beside this book, not one that is installed

from kernels.measure import ratios  # noqa: E402
from kernels.measure import results as files  # noqa: E402

OPERATIONS = files.FOLDER / "operations"
RARE = ("With", "TFLOP/s", "Of matrix rate")  # columns that stand only where a row has something in them
NOTHING_YET = "not measured yet"
UNITS = {
    "median_ms": "{:.4g} ms",
    "p20_ms": "{:.4g} ms",
    "p80_ms": "{:.4g} ms",
    "gbps": "{:,.0f} GB/s",
    "tflops": "{:,.0f} TFLOP/s",
    "ceiling_fraction": "{:.0%}",
    "matrix_fraction": "{:.0%}",
    "max_error_ratio": "{:.2g}",
}


def load(folder=OPERATIONS):
    """The results files: by GPU, then by operation."""
    found = {}
    for path in sorted(folder.glob("*/*.json")):
        found.setdefault(path.stem, {})[path.parent.name] = files.load(path)
    return found


class Measured:
    """What pages call: `measured(field, **which)` gives that field of the one row that fits, with its unit.

    `gpu` names a GPU by its file, should there be several. Comparable, so that Sphinx sees when the results changed.
    """

    def __init__(self, results):
        self.rows = [
            row | {"gpu": gpu}
            for gpu, operations in results.items()
            for data in operations.values()
            for row in data.rows
        ]

    def __eq__(self, other):
        return isinstance(other, Measured) and self.rows == other.rows

    def __call__(self, field, **which):
        if not self.rows:
            return NOTHING_YET
        fits = [row for row in self.rows if all(row.get(key) == value for key, value in which.items())]
        if len(fits) != 1:
            raise LookupError(f"{which} fits {len(fits)} rows of book/results, expected one")
        return UNITS.get(field, "{}").format(fits[0][field])


class OneGpu(SphinxDirective):
    """A directive whose argument names a GPU by its results files; pages that have it are built anew when these change."""

    required_arguments = 1

    def files_below(self, folder):
        for path in folder.glob("*/*.json"):
            self.env.note_dependency(str(path))
        (gpu,) = self.arguments
        found = load(folder)
        if gpu not in found:
            raise self.error(f"nothing was measured on {gpu!r}: {folder} has files of {', '.join(found) or 'no GPU'}")
        return found[gpu]


class ResultsDirective(OneGpu):
    def run(self):
        return [section(self.files_below(OPERATIONS))]


def section(data):
    """A section on one GPU: one table of all that was measured on it, then what the machine was and when, by operation."""
    gpu = next(iter(data.values())).machine["gpu"]
    found = nodes.section("", nodes.title(text=gpu), ids=[nodes.make_id(gpu)])
    found += whole_table([row for results in data.values() for row in results.rows])
    found += measured_on(data)
    return found


def measured_on(data):
    """What each operation was measured with: a line each."""
    body = []
    for name, results in data.items():
        machine = results.machine
        when = str(machine.get("date")), str(machine.get("commit"))[:7]
        body.append([name, *when, machine_words(machine), ceiling_words(results.ceilings)])
    return grid(["Operation", "Date", "Commit", "Measured with", "Ceilings"], body, "measured-on")


def at_points(rows):
    """The rows grouped by their point, each group the fastest first."""
    groups = {}
    for row in rows:
        groups.setdefault(files.point(row), []).append(row)
    return [sorted(group, key=lambda row: row["median_ms"]) for group in groups.values()]


def whole_table(rows):
    """Every row, with every column that any row fills; `sortable.js` sorts and filters it."""
    body = []
    for group in at_points(rows):
        torch_us = next((row.get("host_us") for row in group if row["contestant"] == "torch"), None)
        for row in group:
            ours = row["kind"] == "variant"
            peer = ratios.ratio(row, group, "peer") if row["kind"] != "copy" else None
            host = row["host_us"] / torch_us if torch_us and row.get("host_us") else None
            body.append(
                {
                    "Contestant": row["contestant"],
                    "Level": kind(row),
                    "Operation": row["operation"],
                    "Direction": row["direction"],
                    "Shape": size(row["shape"]),
                    "Type": row["dtype"],
                    "With": ", ".join(files.unusual(row)) or "–",
                    "Reached": ("yes" if ratios.reached(row, group) else "no") if ours else "–",
                    "Median, ms": show(row, "median_ms", "{:.4f}"),
                    "GB/s": show(row, "gbps", "{:,.0f}"),
                    "Of copy": show(row, "ceiling_fraction", "{:.2f}"),
                    "TFLOP/s": show(row, "tflops", "{:,.0f}"),
                    "Of matrix rate": show(row, "matrix_fraction", "{:.2f}"),
                    "Of best peer": "" if peer is None else f"{peer:.2f}",
                    "Host, µs": show(row, "host_us", "{:.1f}"),
                    "Host, of torch’s": "" if host is None else f"{host:.2f}",
                    "Error": show(row, "max_error_ratio", "{:.2f}"),
                    "20 %, ms": show(row, "p20_ms", "{:.4f}"),
                    "80 %, ms": show(row, "p80_ms", "{:.4f}"),
                }
            )
    columns = [name for name in body[0] if name not in RARE or any(cells[name] not in ("", "–") for cells in body)]
    numbers = len(columns) - columns.index("Median, ms")
    return grid(columns, [[cells[name] for name in columns] for cells in body], "measured sortable", numbers)


def kind(row):
    return row["kind"] if row.get("level") is None else f"level {row['level']}"


def size(shape):
    return " × ".join(f"{length:,}" for length in shape)


def show(row, field, form):
    return "" if row.get(field) is None else form.format(row[field])


def machine_words(machine):
    """Such as "132 multiprocessors, driver 580.1, torch 2.11"."""
    known = [f"{machine['multiprocessors']} multiprocessors"] if "multiprocessors" in machine else []
    known += [f"driver {machine['driver']}"] if "driver" in machine else []
    return ", ".join(known + [f"{name} {version}" for name, version in machine.get("versions", {}).items()])


def ceiling_words(ceilings):
    """Such as "a copy of 8.6 GB: 4,266 GB/s"."""
    copied = f" of {ceilings['copy_bytes'] / 1e9:.1f} GB" if "copy_bytes" in ceilings else ""
    words = [f"a copy{copied}: {ceilings['copy_gbps']:,.0f} GB/s"] if "copy_gbps" in ceilings else []
    if "matmul_tflops" in ceilings:
        sizes = f"{size(ceilings['matmul_shape'])} {ceilings['matmul_dtype']}" if "matmul_shape" in ceilings else ""
        words.append(f"a product of matrices {sizes}: {ceilings['matmul_tflops']:,.0f} TFLOP/s")
    return "; ".join(words)


def grid(columns, rows, classes, numbers=0, prose=0):
    """A docutils table. A cell is text, an inline node or a list of blocks; the last `prose` columns are of class prose, and
    the `numbers` before them align right.

    Text stands in its cell without a paragraph around it, so that a page with a large table is lighter.
    """

    def line(cells):
        row = nodes.row()
        for column, cell in enumerate(cells, start=-len(columns)):
            entry = nodes.entry(
                classes=["prose"] if column >= -prose else ["number"] if column >= -prose - numbers else []
            )
            entry += nodes.Text(cell) if isinstance(cell, str) else cell
            row += entry
        return row

    group = nodes.tgroup(cols=len(columns))
    group += [nodes.colspec(colwidth=1) for _ in columns]
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
