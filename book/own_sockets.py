"""A plugin for nbval, which starts Jupyter's kernels side by side: each has sockets that no one else can take.

By default jupyter_client chooses free TCP ports, and the kernel takes them when it has started. If anything on the machine
takes one in between, the kernel dies as it starts, and every cell of its notebook fails."""

import itertools
import tempfile

import nbval.kernel
import pytest
from jupyter_client.manager import KernelManager


def pytest_configure(config: pytest.Config) -> None:
    # Short: a socket's path has room for 107 characters on Linux.
    folder = tempfile.TemporaryDirectory(prefix="nbval-")
    config.add_cleanup(folder.cleanup)
    numbers = itertools.count()

    def with_own_sockets(**arguments: object) -> KernelManager:
        file = f"{folder.name}/{next(numbers)}.json"
        return KernelManager(
            transport="ipc", connection_file=file, **arguments
        )

    nbval.kernel.KernelManager = with_own_sockets
