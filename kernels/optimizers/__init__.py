"""Optimizers, at every level: each folder holds a `kernels.records.OptimizerRecord`, called RECORD."""
