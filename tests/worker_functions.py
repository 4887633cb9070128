"""What the tests of kernels.worker run in a worker, which imports this module."""

import ctypes
import os
import subprocess
import sys
import time

import torch


class Refused(ValueError):
    """An exception with more in it than a message."""

    def __init__(self, message, line):
        super().__init__(message, line)
        self.line = line


class Unpicklable(ValueError):
    def __reduce__(self):
        raise TypeError("not this one")


def who():
    return os.getpid(), os.getppid()


def surroundings(name):
    return os.environ.get(name), os.getcwd(), sys.path, torch.cuda.is_available()


def imported(module):
    return module in sys.modules


def imported_by_a_call_elsewhere(module):
    from kernels.grading.python import devices

    devices.elsewhere(lambda x: x.new_empty(3), {"x": torch.ones(3)})
    return module in sys.modules


def echo(*args):
    return args


def change(x, y):
    x += 1
    return {"x": x, "sums": [x + y, y.sum()]}


def addresses(*tensors):
    return [tensor.data_ptr() for tensor in tensors]


def say(lines):
    for line in range(lines):
        print("line", line)
    print("ünd an error", file=sys.stderr)
    subprocess.run(["echo", "from a process of its own"], check=True)


def refuse():
    raise Refused("no such thing", line=7)


def refuse_without_pickle():
    raise Unpicklable("five")


def return_a_generator():
    return (each for each in range(3))


def run_forever():
    while True:
        pass


def print_and_sleep():
    print("before")
    time.sleep(1000)


def start_a_sleeper(seconds):
    process = subprocess.Popen(["sleep", "1000"])
    print(process.pid)
    time.sleep(seconds)


def write_anywhere():
    print("before")
    ctypes.memset(64, 1, 8)


def leave():
    sys.exit(3)


def leave_at_once():
    os._exit(0)


def leave_c():
    ctypes.CDLL(None).exit(5)


def abort():
    os.abort()


def allocate():
    kept = []
    while True:
        kept.append(torch.ones(1 << 20))


def allocate_on_gpu():
    kept = []
    while True:
        kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))


def ask_for_a_row_that_is_not_there():
    """Found out on the GPU, which then serves the process no longer."""
    return torch.zeros(3, 3, device="cuda")[torch.tensor([10], device="cuda")]


def sign_and_run_forever(name):
    """Write down this process's id, and never end."""
    with open(f"{name}-", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{name}-", name)  # whole when it is there
    run_forever()
