"""Where ours have not reached their goal on a GPU, and why, from `book/results/misses`; at the listed shapes:

```{missed} h200
```
"""

from docutils import nodes
from kernels.measure import ratios
from kernels.measure import results as files
from kernels.measure.recorded import misses

from measured import OPERATIONS, OneGpu, at_points, grid, size

MEANING = (
    "Why is what Nsight Compute says of its longest kernel, and in brackets of the fastest peer's: the share of the rate of "
    "memory or of the tensor cores, whichever is larger, and what a warp waits for longest, in cycles for each instruction "
    "that it issues. The caches are cold, as they are for the times; a dash stands where nothing is recorded."
)
"""Of the last column."""


class WithReasons(OneGpu):
    def reasons(self):
        """What Nsight Compute says on this GPU, by row."""
        (gpu,) = self.arguments
        path = misses.path_of(gpu)
        if path.exists():
            self.env.note_dependency(str(path))
        return misses.load(path)


class MissedDirective(WithReasons):
    def run(self):
        return [missed(self.files_below(OPERATIONS), self.reasons())]


def missed(data, reasons):
    """A line for the best of each level that has not reached its goal at a point, furthest from it first.

    Args:
        data: results by operation.
        reasons: as `misses.load` gives them; where there are none of all these lines, they have no column.
    """
    body = []
    for name, results in data.items():
        for group in at_points(results.rows):
            for row, fastest in misses.misses(group):
                peer, copy = (ratios.ratio(row, group, kind) or 0.0 for kind in ratios.YARDSTICKS)
                shape = ", ".join([size(row["shape"]), row["dtype"], *files.unusual(row)])
                cells = [name, row["direction"], shape, row["contestant"], f"{1e3 * row['median_ms']:.1f}"]
                why = misses.why(row, fastest, reasons)
                body.append((max(peer, copy), [*cells, f"{peer:.2f}", f"{copy:.2f}", why or "–"]))
    rows = [cells for _, cells in sorted(body, key=lambda one: one[0])]
    columns = ["Operation", "Direction", "Point", "Contestant", "Median, µs", "Of best peer", "Of copy", "Why"]
    prose = int(any(cells[-1] != "–" for cells in rows))
    if not prose:
        columns, rows = columns[:-1], [cells[:-1] for cells in rows]
    title = nodes.paragraph(text=f"The {len(rows)} that have not reached 0.95 of either, furthest from it first:")
    table = grid(columns, rows, "measured explained", 3, prose)
    return nodes.container("", *[nodes.paragraph(text=MEANING)] * prose, title, table)


def setup(app):
    app.add_directive("missed", MissedDirective)
