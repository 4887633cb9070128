"""On a CPU kernels must be imported before triton, which a test may name first."""

import kernels  # noqa: F401
