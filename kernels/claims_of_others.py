"""Claims that no system of the course answers: they are of hardware that is not here, or of numbers without an experiment."""

from kernels.claims import Claim

CLAIMS: tuple[Claim, ...] = ()
