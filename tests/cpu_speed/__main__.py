"""PYTHONPATH=.:tests python -m cpu_speed: times CUDA C on this CPU, against Triton's interpreter and plain C++ loops."""

from rich.console import Console

from cpu_speed import ROWS, Loops, measure, table

loops = Loops()
Console().print(table([measure(row, loops) for row in ROWS]))
