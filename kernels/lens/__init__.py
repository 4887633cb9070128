"""What a call asks of the machine, counted exactly: the same on every machine."""

from kernels.lens.count import count
from kernels.lens.finding import Finding
from kernels.lens.operators import Operator, Operators, operators
from kernels.lens.result import Access, Launches, Trace
from kernels.lens.trace import trace

__all__ = ["Access", "Finding", "Launches", "Operator", "Operators", "Trace", "count", "operators", "trace"]
