"""python -m cpu_speed: every contestant is right, and a wrong one gets no time."""

import dataclasses

import cpu_speed
import pytest
from rich.console import Console

from kernels import machine

pytestmark = [
    pytest.mark.skipif(not machine.interpreting(), reason="needs Triton's interpreter: TRITON_INTERPRET=1"),
    pytest.mark.skipif(machine.compiler() is None, reason="needs a C++ compiler"),
]


@pytest.fixture(scope="module")
def loops():
    return cpu_speed.Loops()


@pytest.mark.parametrize("row", cpu_speed.ROWS[4:], ids=lambda row: row.name)
def test_every_contestant_is_right(row, loops):
    measured = cpu_speed.measure(row, loops, rounds=2)
    assert set(measured.times) == set(cpu_speed.CONTESTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("row", cpu_speed.ROWS[:4], ids=lambda row: row.name)
def test_every_contestant_of_the_longer_rows_is_right_and_cuda_is_faster_than_the_interpreter(row, loops):
    assert cpu_speed.measure(row, loops, rounds=2).times_faster_than("interpreter") > 3


@pytest.mark.parametrize("contestant", ["cuda", "triton", "loops"])
def test_a_wrong_result_gets_no_time(contestant, loops):
    row = cpu_speed.ROWS[5]
    right = getattr(row, contestant)

    def wrong(data, *library):
        right(data, *library)
        data["out"][100, 100] += 1

    with pytest.raises(ArithmeticError, match="matmul, registers, 256³, .*the largest error is"):
        cpu_speed.measure(dataclasses.replace(row, **{contestant: wrong}), loops, rounds=2)


def test_an_element_that_is_not_written_gets_no_time(loops):
    row = dataclasses.replace(cpu_speed.ROWS[5], cuda=lambda data: None)
    with pytest.raises(ArithmeticError, match="CUDA C: the largest error is nan"):
        cpu_speed.measure(row, loops, rounds=2)


def test_the_table_has_the_ratios():
    times = {
        name: cpu_speed.Spread(ms, ms, ms) for name, ms in zip(cpu_speed.CONTESTANTS, (2.0, 1000.0, 0.5), strict=True)
    }
    console = Console(width=150)
    with console.capture() as captured:
        console.print(cpu_speed.table([cpu_speed.Measured("an operation", times)]))
    said = captured.get()
    for word in ("an operation", "1,000", "500", "0.25"):
        assert word in said


def test_the_interpreter_must_be_there(monkeypatch, loops):
    monkeypatch.setattr(cpu_speed, "interpreting", lambda: False)
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        cpu_speed.measure(cpu_speed.ROWS[0], loops)
