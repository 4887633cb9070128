"""Measures the cases of kernels/measure/recorded/accesses on a GPU:

python -m book.recorders.accesses FOLDER     write FOLDER/<gpu>.json
"""

import json
import sys
from pathlib import Path

import torch

from kernels.measure.recorded.accesses import CASES, Case, Launch
from kernels.measure.results import facts, file_name
from kernels.measure.timing import spread, time_together


def measured(group: dict[object, Case], rounds: int, device: str = "cuda", n: int | None = None) -> list[dict]:
    """The cases of a group timed together, each right before and after; n as the cases say, if None."""

    def run(launch: Launch) -> Launch:
        launch.run()
        return launch

    def correct(key: object, launch: Launch) -> None:
        if not group[key].right(*launch.args):
            raise AssertionError(f"{launch.kernel.name}, case {key!r}: the result is wrong")

    for key, case in group.items():  # compiled here, outside the timing
        correct(key, run(case.launch(device, n, seed=rounds)))
    times, last, _ = time_together(
        {key: run for key in group},
        inputs=lambda turn: turn,
        device=device,
        rounds=rounds,
        prepare=lambda key, turn: group[key].launch(device, n, seed=turn),
    )
    rows = []
    for key, case in group.items():
        correct(key, last[key])
        taken = spread(times[key])
        rows.append(
            {
                "case": key,
                "n": n or case.measured,
                "median_us": round(1e3 * taken.median_ms, 2),
                "p20_us": round(1e3 * taken.p20_ms, 2),
                "p80_us": round(1e3 * taken.p80_ms, 2),
            }
        )
    return rows


if __name__ == "__main__":
    about, groups = facts(), {}
    for name, group in CASES.items():
        groups[name] = measured(group, rounds=6)
        torch.cuda.empty_cache()
        for row in groups[name]:
            print(f"{name:15} {row['case']!s:25} {row['median_us']:10.1f} µs", flush=True)
    target = Path(sys.argv[1]) / file_name(about["gpu"])
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"  {json.dumps(name)}: [\n" + ",\n".join("   " + json.dumps(row) for row in rows) + "\n  ]"
        for name, rows in groups.items()
    ]
    head = json.dumps({"machine": about}, indent=1).removesuffix("\n}")
    target.write_text(f'{head},\n "groups": {{\n' + ",\n".join(lines) + "\n }\n}\n")
