"""kernels.worker: which processes there are, and that all of them end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import worker_functions as functions

from kernels import worker

HERE = Path(__file__).parent
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda is not available")


def is_running(pid):
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(condition):
    for _ in range(3000):  # a loaded machine takes its time
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_cpu_call_has_a_fresh_process_of_one_warm_parent():
    first, second = worker.run(functions.who), worker.run(functions.who)
    assert first[0] != second[0]
    assert first[1] == second[1]
    assert os.getpid() not in (*first, *second)


def test_what_the_parent_has_imported_no_call_has_to():
    assert not worker.run(functions.imported, "mailbox")
    parent = worker.run(os.getppid)
    worker.prepare("mailbox")
    worker.prepare("there_is.no_such_module")
    assert worker.run(functions.imported, "mailbox")
    assert worker.run(os.getppid) == parent


@CUDA
def test_a_gpu_worker_is_kept():
    assert worker.run(functions.who, device="cuda") == worker.run(functions.who, device="cuda")


def test_processes_that_the_function_started_end_with_it(capsys):
    worker.run(functions.start_a_sleeper, 0)
    with pytest.raises(worker.TimeLimit):
        worker.run(functions.start_a_sleeper, 60, seconds=0.5)
    sleepers = capsys.readouterr().out.split()
    assert len(sleepers) == 2
    assert eventually(lambda: not any(map(is_running, sleepers)))


def test_an_interrupt_ends_the_call(tmp_path):
    mark = tmp_path / "pid"

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    here = os.getpid()
    threading.Thread(target=lambda: (eventually(mark.exists), os.kill(here, signal.SIGUSR1)), daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            worker.run(functions.sign_and_run_forever, str(mark), seconds=60)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert eventually(lambda: not is_running(mark.read_text()))
    assert worker.run(functions.echo, 1) == (1,)


def test_threads_take_turns():
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(worker.run(functions.echo, n))) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(n,) for n in range(5)]


def test_a_forked_copy_of_the_caller_has_workers_of_its_own():
    parent = worker.run(functions.who)[1]
    servers = list(worker.client._started)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # Else a copy would keep the worker from seeing that the caller is gone.
            assert {server._socket.fileno() for server in servers} == {-1}
            os.write(write, str(worker.run(functions.who)[1]).encode())
            worker.client._close_all()
        finally:
            os._exit(0)
    os.close(write)
    assert int(os.read(read, 20)) != parent
    os.close(read)
    os.waitpid(child, 0)
    assert worker.run(functions.who)[1] == parent


SCRIPT = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import worker_functions as functions
from kernels import worker
print(*worker.run(functions.who), flush=True)
"""


def test_a_script_without_a_guard_leaves_no_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    pids = done.stdout.split()
    assert len(pids) == 2, "the script ran once"
    assert not any(map(is_running, pids))


def test_a_killed_caller_leaves_no_process(tmp_path):
    mark = tmp_path / "pid"
    script = SCRIPT + f"worker.run(functions.sign_and_run_forever, {str(mark)!r}, seconds=1000)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            _, parent = process.stdout.readline().split()
            assert eventually(mark.exists)
            child = mark.read_text()
            assert is_running(child)
        finally:
            process.kill()
    assert eventually(lambda: not is_running(child) and not is_running(parent))


@pytest.mark.slow
def test_in_a_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    calls = "import worker_functions as functions\nfrom kernels import worker\n"
    cells = [
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\n{calls}",
        "worker.run(functions.say, 1)",
        "try:\n    worker.run(functions.write_anywhere)\nexcept worker.WorkerDied as error:\n    print('caught', error)",
        "def mine(): pass\n\ntry:\n    worker.run(mine)\nexcept TypeError as error:\n    print(error)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=60).execute()
    said = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    assert "line 0\n" in said[1]
    assert "from a process of its own" in said[1]
    assert "caught its process died of SIGSEGV" in said[2]
    assert "expected a function at the top level of a module" in said[3]
