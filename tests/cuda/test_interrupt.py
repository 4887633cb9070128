"""The stop button of a notebook, which is an interrupt of its kernel: it ends an endless launch, and the session goes on."""

import queue

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
