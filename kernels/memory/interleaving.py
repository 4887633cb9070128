"""Which share of the subgroups should visit the GPU: how long a step of an offloaded optimizer takes, by a model of its parts.

The CPU, and the link in each direction, work at the same time; the slowest decides. The update on the GPU itself costs nothing.
"""

from typing import NamedTuple


class Rates(NamedTuple):
    """Of a machine: nanoseconds that the CPU takes to update a parameter, and the link to copy a byte down and up."""

    update: float
    down: float
    up: float


def predicted(share: float, rates: Rates, mirror: bool = False, parameter: int = 4, states: int = 8) -> float:
    """Nanoseconds for each parameter of a step, if nothing waits but for the slowest part.

    Args:
        share: of the parameters, updated on the GPU.
        mirror: whether the CPU's parameters need not be copied down, as in `offload_optimizer`.
        parameter, states: bytes of a parameter, and of its states.
    """
    here, there = 1 - share, share
    down = here * parameter * (1 if mirror else 2) + there * states
    up = here * parameter + there * states
    return max(here * rates.update, down * rates.down, up * rates.up)


def best_share(rates: Rates, groups: int, mirror: bool = False) -> float:
    """The share, in whole subgroups, with the shortest step; of several the smallest."""
    return min((number / groups for number in range(groups + 1)), key=lambda share: predicted(share, rates, mirror))
