"""Dynamic shapes: a compiled model meets a few padded lengths instead of every one."""

from kernels.shapes.bucketed import Bucketed
from kernels.shapes.buckets import Buckets

__all__ = ["Bucketed", "Buckets"]
