"""python -m cpu_speed.tracing: what is timed is what is said, and what a worker imports is little."""

import pytest
import worker_functions as functions
from cpu_speed import tracing
from cpu_speed.rows import ROWS, N

from kernels import machine, worker

pytestmark = pytest.mark.skipif(machine.compiler() is None, reason="needs a C++ compiler")


def test_every_way_of_a_launch_is_timed():
    measured = tracing.overheads(64, calls=2)
    assert [one.way for one in measured] == ["in this process", "isolated", "traced"]
    assert all(one.wall_ms > 0 for one in measured)


def test_accesses_are_counted():
    """Of the transpose: each element is read and written in global and in shared memory."""
    row = next(row for row in ROWS if row.name.startswith("transpose"))
    assert tracing.speed(row, rounds=1).accesses == 4 * N**2


def test_launches_together_take_the_sum_of_their_times():
    a, b = tracing.Speed("a", 10, 1, 2, 3), tracing.Speed("b", 20, 4, 5, 6)
    assert tracing.together([a, b]) == ("together", 30, 5, 7, 9)


def test_a_worker_has_not_imported_the_compiler(monkeypatch):
    """The pages that torch.compile brings would make every fork, and so every check, slower."""
    monkeypatch.setattr(worker, "_servers", {})  # a new one: a lab's check may have had it imported
    assert worker.run(functions.imported, "torch")
    assert not worker.run(functions.imported, "torch._dynamo")
    assert not worker.run(functions.imported_by_a_call_elsewhere, "torch._dynamo")
