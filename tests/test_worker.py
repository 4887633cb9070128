"""kernels.worker: what goes in and comes out, and that nothing a function does harms its caller."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import worker_functions as functions

from kernels import worker

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda is not available")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=CUDA)])
def device(request):
    return request.param


def test_tensors_are_copies_and_come_back(device):
    x, y = torch.zeros(3, device=device), torch.arange(6.0, device=device)[3:]
    left = worker.run(functions.change, x, y)
    assert x.tolist() == [0, 0, 0]
    assert left["x"].tolist() == [1, 1, 1]
    assert left["sums"][0].tolist() == [4, 5, 6]
    assert left["sums"][1].item() == 12
    assert {left["x"].device.type, left["sums"][1].device.type} == {device}


def test_every_kind_of_tensor_survives(device):
    base = torch.randn(40, 30, device=device)
    sent = (
        base.t()[3:, 2:],
        base.bfloat16(),
        torch.tensor(7, device=device),
        torch.empty(0, 5, device=device),
        torch.ones(3, dtype=torch.bool, device=device),
        torch.randn(5, dtype=torch.complex64, device=device).conj(),
        torch.randn(4, device=device, requires_grad=True),
        torch.nn.Parameter(torch.ones(2, device=device)),
        base.expand(2, 40, 30),
    )
    returned = worker.run(functions.echo, *sent)
    for before, after in zip(sent, returned, strict=True):
        assert torch.equal(before, after)
        assert (before.dtype, before.device, before.requires_grad) == (after.dtype, after.device, after.requires_grad)
        assert type(before) is type(after)
    assert returned[0].stride() == sent[0].stride()
    assert returned[0].storage_offset() == sent[0].storage_offset()


def test_what_shares_memory_still_does(device):
    base = torch.zeros(10, device=device)
    whole, part = worker.run(functions.echo, base, base[4:6])
    part += 1
    assert whole.tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    assert base.sum() == 0


def test_a_tensor_keeps_its_offset_from_a_256_byte_boundary(device):
    tensors = [
        torch.zeros(size, dtype=torch.uint8, device=device)[offset:] for size, offset in ((999, 3), (70, 64), (5, 0))
    ]
    assert [address % 256 for address in worker.run(functions.addresses, *tensors)] == [3, 64, 0]


def test_other_objects_go_both_ways():
    sent = ({"a": [1, "ü"]}, np.arange(3), None, torch.float16)
    assert repr(worker.run(functions.echo, *sent)) == repr(sent)


DISASTERS = [
    (functions.run_forever, worker.TimeLimit, "stopped after 0.5 s"),
    (functions.print_and_sleep, worker.TimeLimit, "stopped after 0.5 s"),
    (functions.write_anywhere, worker.WorkerDied, "SIGSEGV"),
    (functions.abort, worker.WorkerDied, "SIGABRT"),
    (functions.leave, worker.WorkerDied, "exit code 3, before it returned"),
    (functions.leave_at_once, worker.WorkerDied, "exit code 0, before it returned"),
    (functions.leave_c, worker.WorkerDied, "exit code 5, before it returned"),
    (functions.allocate, worker.MemoryLimit, "taken 256 MiB"),
]


@pytest.mark.parametrize(("function", "error", "words"), DISASTERS, ids=lambda value: getattr(value, "__name__", None))
def test_a_disaster_is_a_clear_error_and_the_next_call_works(function, error, words, device):
    x = torch.arange(5, device=device)
    worker.run(functions.who, device=device)  # a worker is there, so that the limit is of the call alone
    with pytest.raises(error, match=words):
        worker.run(function, seconds=20 if error is worker.MemoryLimit else 0.5, memory_bytes=256 << 20, device=device)
    assert x.tolist() == [0, 1, 2, 3, 4]
    assert worker.run(functions.echo, x)[0].tolist() == [0, 1, 2, 3, 4]


@CUDA
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (functions.allocate_on_gpu, "CUDA out of memory"),
        (functions.ask_for_a_row_that_is_not_there, "device-side assert"),
    ],
)
def test_a_disaster_on_a_gpu(function, words):
    x = torch.arange(5, device="cuda")
    with pytest.raises(RuntimeError, match=words):
        worker.run(function, seconds=60, device="cuda")
    assert x.tolist() == [0, 1, 2, 3, 4]
    assert worker.run(functions.echo, x)[0].tolist() == [0, 1, 2, 3, 4]


def test_the_functions_own_exception(device):
    with pytest.raises(functions.Refused) as caught:
        worker.run(functions.refuse, device=device)
    assert caught.value.args == ("no such thing", 7)
    assert caught.value.line == 7
    assert "in refuse" in caught.value.__notes__[0]


def test_an_exception_that_cannot_travel():
    with pytest.raises(RuntimeError, match="^Unpicklable: five"):
        worker.run(functions.refuse_without_pickle)


def test_a_result_that_cannot_travel():
    with pytest.raises(TypeError, match="cannot pickle 'generator'"):
        worker.run(functions.return_a_generator)


def test_an_argument_that_cannot_travel_costs_no_worker():
    before = worker.run(functions.who)[1]
    with pytest.raises(TypeError, match="cannot pickle"):
        worker.run(functions.echo, threading.Lock())
    assert worker.run(functions.who)[1] == before


def test_a_function_that_no_worker_can_import():
    def local():
        pass

    for function in (local, lambda: None, type("f", (), {"__module__": "__main__", "__qualname__": "f"})):
        with pytest.raises(TypeError, match="expected a function at the top level of a module"):
            worker.run(function)


def test_a_device_that_is_none():
    with pytest.raises(ValueError, match="device: got 'gpu', expected 'cpu', 'cuda' or 'compiler'"):
        worker.run(functions.who, device="gpu")


def test_output_appears_here(capfd, device, monkeypatch):
    worker.run(functions.say, 2, device=device)
    out, err = capfd.readouterr()
    assert out == "line 0\nline 1\nfrom a process of its own\n"
    assert err == "ünd an error\n"


def test_what_was_printed_before_a_crash_is_not_lost(capsys):
    with pytest.raises(worker.WorkerDied):
        worker.run(functions.write_anywhere)
    with pytest.raises(worker.TimeLimit):
        worker.run(functions.print_and_sleep, seconds=0.3)
    assert capsys.readouterr().out == "before\nbefore\n"


def test_endless_output_is_cut(capsys):
    worker.run(functions.say, 200_000)
    out = capsys.readouterr().out
    assert 1 << 20 < len(out) < 1.1 * (1 << 20)
    assert out.endswith("output beyond 1,048,576 bytes is not shown\n")


def test_the_surroundings_are_the_callers(monkeypatch, tmp_path):
    worker.run(functions.who)
    monkeypatch.setenv("A_NAME", "a value")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    value, folder, path, sees_gpu = worker.run(functions.surroundings, "A_NAME")
    assert (value, folder, sees_gpu) == ("a value", str(tmp_path), False)
    assert path == sys.path
    (tmp_path / "just_written.py").write_text("def f(): return 5")
    assert worker.run(__import__("just_written").f) == 5


FORKED = """
import math, os, signal, sys, time
from kernels import worker

sys.setrecursionlimit(1234)
worker.fork()
server = worker.run(os.getppid)
print(os.getppid() != server, os.getsid(server) == server, worker.run(sys.getrecursionlimit))
try:
    worker.run(os.abort)
except worker.WorkerDied as error:
    print(error)
try:
    worker.run(time.sleep, 60, seconds=0.2)
except worker.TimeLimit as error:
    print(error)
os.kill(server, signal.SIGKILL)
time.sleep(0.5)
print(worker.run(math.sqrt, 9.0), worker.run(os.getppid) != server)
worker.fork()
print(worker.run(os.getppid))
"""


def test_a_copy_of_the_process_serves_as_a_new_one_would():
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    *lines, last = ran.stdout.splitlines()
    assert lines == [
        "True True 1234",
        "its process died of SIGABRT (aborted): perhaps it wrote to memory that is not its own, past what malloc gave",
        "stopped after 0.2 s: an endless loop, a wait for what never comes, or too much work",
        "3.0 True",
    ], ran.stderr
    assert not Path(f"/proc/{last}").exists()
