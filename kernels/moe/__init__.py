"""Mixture of experts: a router sends each token to a few of many small networks."""

from kernels.moe.experts import MixtureOfExperts
from kernels.moe.router import Router

__all__ = ["MixtureOfExperts", "Router"]
