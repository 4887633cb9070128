"""What the broken kernels do on a GPU, and what compute-sanitizer says.

    PYTHONPATH=.:book/levels python -m broken.on_gpu RESULTS.json

Needs a GPU, CuPy, and NVIDIA's compute-sanitizer. Each kernel runs in a
process of its own, since an illegal access ends its use of the GPU.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import torch
from broken import cases

LAUNCHES = 100
# PyTorch takes large pieces of memory from the driver and divides them
# up. What lies past a tensor's end is then mostly inside such a piece, so
# memcheck sees nothing wrong, unless each tensor is allocated by itself.
APART = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
TOOLS = {
    "memcheck": ("memcheck", {}),
    "memcheck, apart": ("memcheck", APART),
    "racecheck": ("racecheck", {}),
    "initcheck": ("initcheck", APART),
    "synccheck": ("synccheck", {}),
}


def on_gpu(case: cases.Case) -> cases.Case:
    for name, arg in case.args.items():
        if isinstance(arg, torch.Tensor):
            # With its storage, so that a slice begins where it does here.
            whole = torch.empty(0, dtype=arg.dtype)
            whole = whole.set_(arg.untyped_storage()).cuda()
            place = arg.shape, arg.stride(), arg.storage_offset()
            case.args[name] = whole.as_strided(*place)
    return case


def run(case: cases.Case) -> bool:
    """Whether a launch gives what it should."""
    args = tuple(on_gpu(case).args.values())
    case.kernel(case.grid, case.block, args, case.shared_mem)
    return case.right()


def after_larger_values() -> bool:
    """Whether `largest` is right after a launch on more and larger values."""
    run(cases.largest(n=1024, factor=100))
    return run(cases.largest())


def in_a_process(what: str, count: int, under=(), env=None) -> str:
    words = [
        *under,
        sys.executable,
        "-m",
        "broken.on_gpu",
        what,
        str(count),
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, env=os.environ | (env or {})
    )
    return done.stdout + done.stderr


def values(what: str) -> dict:
    """Right launches of LAUNCHES, or the error that ended them."""
    said = in_a_process(what, LAUNCHES)
    if found := re.search(r"^right (\d+)$", said, re.MULTILINE):
        return {"right": int(found[1]), "of": LAUNCHES}
    found = re.search(r"misaligned address|illegal memory access", said)
    return {"error": found[0] if found else said[-300:]}


def sanitized(what: str, tool: str) -> int | str:
    """The errors or hazards that a tool counts in one launch."""
    option, env = TOOLS[tool]
    elsewhere = "/usr/local/cuda/bin/compute-sanitizer"
    program = shutil.which("compute-sanitizer") or elsewhere
    under = [program, "--tool", option]
    if option == "memcheck":  # the kernel's errors, not the host's calls
        under += ["--report-api-errors", "no"]
    said = in_a_process(what, 1, under, env)
    found = re.search(r"SUMMARY: (\d+) (?:error|hazard)", said)
    return int(found[1]) if found else said[-300:]


def measured(pool: ThreadPoolExecutor) -> list[dict]:
    names = [make.__name__ for make in cases.CASES]
    whats = [*names, *(f"fixed.{name}" for name in names)]
    seen = {
        what: {tool: pool.submit(sanitized, what, tool) for tool in TOOLS}
        for what in whats
    }
    whats.append("after_larger_values")
    found = {what: pool.submit(values, what) for what in whats}
    rows = [{"kernel": what, **found[what].result()} for what in whats]
    for row in rows:
        tools = seen.get(row["kernel"], {})
        row |= {tool: count.result() for tool, count in tools.items()}
    return rows


def main(what: str, count: int = 1) -> None:
    if what.endswith(".json"):
        machine = {"gpu": torch.cuda.get_device_name()}
        machine["versions"] = {"torch": torch.__version__.split("+")[0]}
        machine["versions"]["cuda"] = torch.version.cuda
        machine["date"] = date.today().isoformat()
        with ThreadPoolExecutor(8) as pool:
            found = {"machine": machine, "cases": measured(pool)}
        Path(what).write_text(json.dumps(found, indent=1) + "\n")
    elif what == "after_larger_values":
        print("right", sum(after_larger_values() for _ in range(count)))
    else:
        fixed, make = what.startswith("fixed."), what.split(".")[-1]
        fresh = (getattr(cases, make)(fixed) for _ in range(count))
        print("right", sum(map(run, fresh)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
