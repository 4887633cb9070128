"""What a call asks of the machine, counted exactly: the same on every machine."""

from kernels.lens.operators import Operator, Operators, operators

__all__ = ["Operator", "Operators", "operators"]
