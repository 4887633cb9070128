"""What Nsight Compute says of kernels on a GPU: layer norm's, its peers', and some of `kernels.measure.accesses`.

    python -m kernels.measure.profile FOLDER     profile them on a GPU, write FOLDER/<gpu>.json

The file holds `machine` and `profiles`. A profile says what was called, by the fields of a row of the results (operation,
direction, contestant, shape) or by group and case of `accesses`, and has `kernels`: for each kernel of the call, in order,
its name, grid, block and the numbers that `metrics.COLUMNS` lists. Caches are cold, as they are for the times.
"""

import json

from kernels.measure.profile.metrics import COLUMNS, STALLS
from kernels.measure.results import FOLDER, file_name

__all__ = ["COLUMNS", "STALLS", "find", "longest", "stored", "table"]


def stored(gpu: str) -> dict:
    """The committed profiles of a GPU by its name, such as "NVIDIA H200"."""
    return json.loads((FOLDER / "profiles" / file_name(gpu)).read_text())


def find(gpu: str, **fields: object) -> list[dict]:
    """The kernels of the one call with these fields, such as contestant="cuda/reread", direction="forward",
    shape=(8192, 32768); or group="copies", case=("float4", 64). LookupError: no call has them, or several."""
    wanted = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    found = [one for one in stored(gpu)["profiles"] if wanted.items() <= one.items()]
    if len(found) != 1:
        raise LookupError(f"{fields} fits {len(found)} profiles of {gpu}, expected one")
    return found[0]["kernels"]


def longest(kernels: list[dict]) -> dict:
    """The kernel that takes most of a call's time."""
    return max(kernels, key=lambda kernel: kernel["us"])


def table(kernels: dict[str, dict], *columns: str) -> str:
    """Lines of text: the columns' names, and a line for each kernel, by the name that it has here. KeyError: a column is
    none of COLUMNS."""
    widths = {column: max(len(column), 8) for column in columns if COLUMNS[column]}
    names = max(map(len, kernels))
    lines = [" ".join([" " * names, *(f"{column:>{width}}" for column, width in widths.items())])]
    for name, kernel in kernels.items():
        values = (_text(kernel.get(column)).rjust(width) for column, width in widths.items())
        lines.append(" ".join([name.ljust(names), *values]))
    return "\n".join(lines)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
