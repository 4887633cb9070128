"""Points of no list, from `book/results/drawn`: how many of them each level has reached on a GPU, and all that were missed.

```{drawn} h200
```
"""

import statistics

from kernels.measure import ratios
from kernels.measure import results as files

from measured import at_points, grid
from missed import WithReasons, missed

DRAWN = files.FOLDER / "drawn"
SHORT_MS = 0.02
"""Below it the time of a call is mostly that of a launch and of a row's own chain of steps."""


class DrawnDirective(WithReasons):
    def run(self):
        data = self.files_below(DRAWN)
        return [summary(data), missed(data, self.reasons())]


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


def setup(app):
    app.add_directive("drawn", DrawnDirective)
