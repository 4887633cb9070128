"""Points of no list, from `book/results/drawn`: how many of them each level has reached on a GPU, and all that were missed.

```{drawn} h200
```
"""

import statistics

from docutils import nodes
from kernels.measure import ratios
from kernels.measure import results as files

from measured import OneGpu, at_points, grid, size

DRAWN = files.FOLDER / "drawn"
SHORT_MS = 0.02
"""Below it the time of a call is mostly that of a launch and of a row's own chain of steps."""


class DrawnDirective(OneGpu):
    def run(self):
        data = self.files_below(DRAWN)
        return [summary(data), missed(data)]


def ours(results):
    """Every row of ours, with the rows of its point."""
    return [(row, group) for group in at_points(results.rows) for row in group if row["kind"] == "variant"]


def summary(data):
    """A line for each operation and level."""
    body = []
    for name, results in data.items():
        for level in (4, 5):
            found = [(row, group) for row, group in ours(results) if row["level"] == level]
            reached = [ratios.reached(row, group) for row, group in found]
            long = [one for one, (row, _) in zip(reached, found, strict=True) if row["median_ms"] >= SHORT_MS]
            peer_ratios = [one for row, group in found if (one := ratios.ratio(row, group, "peer")) is not None]
            body.append(
                [
                    name,
                    f"level {level}",
                    str(results.machine["seed"]),
                    f"{sum(reached)} of {len(reached)}",
                    f"{sum(long)} of {len(long)}",
                    f"{statistics.median(peer_ratios):.2f}" if peer_ratios else "–",
                ]
            )
    columns = ["Operation", "Level", "Seed", "Reached", "Of 20 µs and more", "Median of best peer"]
    return grid(columns, body, "measured", numbers=4)


def missed(data):
    """A line for each of ours that has not reached its goal, furthest from it first."""
    body = []
    for name, results in data.items():
        for row, group in ours(results):
            if ratios.reached(row, group):
                continue
            peer, copy = (ratios.ratio(row, group, kind) or 0.0 for kind in ratios.YARDSTICKS)
            shape = ", ".join([size(row["shape"]), row["dtype"], *files.unusual(row)])
            cells = [name, row["direction"], shape, row["contestant"], f"{1e3 * row['median_ms']:.1f}"]
            body.append((max(peer, copy), [*cells, f"{peer:.2f}", f"{copy:.2f}"]))
    rows = [cells for _, cells in sorted(body, key=lambda one: one[0])]
    columns = ["Operation", "Direction", "Point", "Contestant", "Median, µs", "Of best peer", "Of copy"]
    table = grid(columns, rows, "measured", numbers=3)
    title = nodes.paragraph(text=f"The {len(rows)} that have not reached 0.95 of either, furthest from it first:")
    return nodes.container("", title, table)


def setup(app):
    app.add_directive("drawn", DrawnDirective)
