"""The systems of the course, a file or a folder each: `systems()`, `system("checkpointing")`, `demo("checkpointing")`.

Each file holds a record called SYSTEM, and is found by its name; nothing lists them.
"""

import importlib
import pkgutil

from kernels.claims import Claim
from kernels.machine import here, one_thread
from kernels.system import Shown, System


def systems() -> list[str]:
    """The names of all systems."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def system(name: str) -> System:
    """The record of one system.

    Raises:
        ValueError: there is no system of that name.
    """
    if name not in systems():
        raise ValueError(f"name: got {name!r}, expected one of {', '.join(systems())}")
    return importlib.import_module(f"{__name__}.{name}").SYSTEM


def demo(name: str, quick: bool = False, device: str | None = None) -> Shown:
    """Check a system and run its demo: what it shows, what it proves and what it measures here, with a picture in a notebook.

    Args:
        name: one of `systems()`.
        quick: smaller sizes, for a machine that is in a hurry.
        device: "cpu" or "cuda"; None for a GPU where there is one.

    Raises:
        ValueError: there is no such system, or no such device here.
        AssertionError: the system's check rejects it, so that there is nothing to show.
    """
    record, where = system(name), here(device).device
    with (
        one_thread()
    ):  # tensors are small, and several threads wait for each other whenever another program takes a core
        _, failure = record.check(record.make, where)
        if failure:
            raise AssertionError(f"{name} is wrong on {where}: {failure}")
        return record.demo(where, quick)


def claims() -> list[Claim]:
    """The claims of all systems, and those that no system answers."""
    from kernels.claims_of_others import CLAIMS

    return [claim for name in systems() for claim in system(name).claims] + list(CLAIMS)
