"""What a call asks of the machine, counted exactly: the same on every machine."""

from kernels.lens.count import count
from kernels.lens.cuda.trace import trace
from kernels.lens.finding import Finding
from kernels.lens.occupancy import Occupancy, occupancy
from kernels.lens.pictures import figure
from kernels.lens.pytorch.operators import Operator, Operators, operators
from kernels.lens.request import Request
from kernels.lens.result import Access, Launches, Trace
from kernels.lens.triton.trace import trace_triton

__all__ = [
    "Access",
    "Finding",
    "Launches",
    "Occupancy",
    "Operator",
    "Operators",
    "Request",
    "Trace",
    "count",
    "figure",
    "occupancy",
    "operators",
    "trace",
    "trace_triton",
]
