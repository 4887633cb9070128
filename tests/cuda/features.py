"""The table of features: each test of CUDA C, and how many of its cases pass on a CPU and on a GPU.

pytest tests/cuda --junitxml=cpu.xml               on a machine without a GPU
pytest tests/cuda -k "not cpu" --junitxml=gpu.xml  on a GPU
python tests/cuda/features.py cpu.xml gpu.xml      write features.md
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree


def outcomes(path: str, device: str) -> dict[tuple[str, str], Counter]:
    """(file, test) → how many cases passed, failed or were skipped on the device."""
    found: dict[tuple[str, str], Counter] = defaultdict(Counter)
    for case in ElementTree.parse(path).iter("testcase"):
        name, _, parameters = case.get("name").partition("[")
        if device not in re.split(r"[-\]]", parameters):
            continue
        kinds = {child.tag for child in case}
        outcome = "skipped" if "skipped" in kinds else "failed" if kinds & {"failure", "error"} else "passed"
        found[case.get("classname").split(".")[-1].removeprefix("test_"), name.removeprefix("test_")][outcome] += 1
    return found


def words(counts: Counter) -> str:
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped") if counts[kind]) or "–"


def table(cpu: str, gpu: str) -> str:
    here, there = outcomes(cpu, "cpu"), outcomes(gpu, "cuda")
    lines = [
        "# Features of CUDA C, by test",
        "",
        "On a CPU each test also runs in two random orders of its threads.",
        "",
    ]
    lines += ["| Feature | Test | CPU | H200 |", "|---|---|---|---|"]
    for file, test in sorted(here.keys() | there.keys()):
        row = (file.replace("_", " "), test.replace("_", " "), words(here[file, test]), words(there[file, test]))
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("features.md").write_text(table(*sys.argv[1:]))
