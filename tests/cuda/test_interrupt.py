"""The stop button of a notebook, which is an interrupt of its kernel: it ends an endless launch, and the session goes on."""

import queue
import subprocess
import sys

import pytest

ENDLESS = """
import torch
from kernels.cuda import RawKernel
body = "if (n == 0) return;\\n while (true)\\n x[0] += 1;"
kernel = RawKernel(f"__global__ void k(float* x, int n) {{\\n{body}\\n}}", "k")
kernel((1,), (32,), (torch.zeros(32), 0))
print("launched", flush=True)
kernel((1,), (32,), (torch.zeros(32), 1))
"""

# Of an empty kernel, whose launch is between two blocks most of its time.
BETWEEN_BLOCKS = """
import os, signal, threading
import torch
from kernels.cuda import RawKernel
signal.signal(signal.SIGINT, signal.default_int_handler)
kernel = RawKernel("__global__ void k(float* x) {}", "k")
kernel((1,), (1,), (torch.zeros(1),))
for _ in range(10):
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        kernel((2**31 - 1,), (1,), (torch.zeros(1),))
    except KeyboardInterrupt:
        continue
    raise SystemExit("not interrupted")
kernel((1,), (1,), (torch.zeros(1),))
"""


# In a cache of its own, where nothing has been compiled.
WHILE_NVRTC_COMPILES = """
import os, signal, threading, time
from pathlib import Path
from kernels.cuda import gpu_compiler
from kernels.cuda.source import Source
signal.signal(signal.SIGINT, signal.default_int_handler)
compile_it = gpu_compiler.compiled
def slowly(*args):
    threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT)).start()
    return compile_it(*args)
gpu_compiler.compiled = slowly
try:
    ask = gpu_compiler.verdict(Source("__global__ void k(float* x) {}", "k.cu", (), ("k",)))
    ask()
    time.sleep(1)
except KeyboardInterrupt:
    raise SystemExit(0)
raise SystemExit("not interrupted")
"""


def test_an_interrupt_while_nvrtc_compiles_ends_no_process(tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", WHILE_NVRTC_COMPILES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_between_two_blocks_ends_the_launch_alone():
    done = subprocess.run([sys.executable, "-c", BETWEEN_BLOCKS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def reply(client, asked, timeout):
    while (answer := client.get_shell_msg(timeout=timeout))["parent_header"]["msg_id"] != asked:
        pass
    return answer["content"]


@pytest.mark.slow
def test_an_interrupt_of_the_cell_ends_an_endless_launch():
    jupyter = pytest.importorskip("jupyter_client")
    manager = jupyter.KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(60)
        asked = client.execute(ENDLESS)
        while "launched" not in client.get_iopub_msg(timeout=60)["content"].get("text", ""):
            pass
        with pytest.raises(queue.Empty):  # it runs
            reply(client, asked, 0.5)
        manager.interrupt_kernel()
        assert reply(client, asked, 20)["ename"] == "KeyboardInterrupt"
        asked = client.execute("kernel((1,), (32,), (torch.zeros(32), 0))")
        assert reply(client, asked, 20)["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
