"""What layer norm accepts and refuses: levels, and errors that name the argument."""

import os
import subprocess
import sys

import pytest
import torch

import kernels
from kernels.machine import compiler

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
REGISTERED = ("layer_norm_triton", "layer_norm_cuda")
needs_compiler = pytest.mark.skipif(DEVICE == "cpu" and compiler() is None, reason="no C++ compiler")


@pytest.fixture
def inputs():
    return kernels.operation("layer_norm").inputs(shape=(6, 40), device=DEVICE)


def tensor(*shape, dtype=torch.float32, device=DEVICE):
    return torch.ones(shape, dtype=dtype, device=device)


def test_importing_creates_no_cuda_context_and_imports_no_cupy():
    code = (
        "import sys, torch, kernels; kernels.operation('layer_norm'); "
        "assert not torch.cuda.is_initialized(); assert 'cupy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        (("x",), TypeError, "x: got str"),
        ((tensor(4, 8, dtype=torch.int32),), TypeError, "x: got dtype torch.int32"),
        ((tensor(),), ValueError, "x: got a tensor without dimensions"),
        ((tensor(4, 8), tensor(7)), ValueError, r"weight: got shape \(7,\), expected \(8,\)"),
        ((tensor(4, 8), tensor(8), tensor(1, 8)), ValueError, r"bias: got shape \(1, 8\)"),
        ((tensor(4, 8), tensor(8, dtype=torch.float16)), TypeError, "weight: got dtype torch.float16"),
        ((tensor(4, 8), tensor(8, device="meta")), ValueError, "weight: is on meta"),
        ((tensor(4, 8), None, None, -1.0), ValueError, "eps: got -1.0"),
        ((tensor(4, 8), None, None, "small"), ValueError, "eps: got 'small'"),
    ],
    ids=["type", "dtype", "dim", "weight-shape", "bias-shape", "weight-dtype", "device", "eps", "eps-type"],
)
def test_bad_arguments_are_named(level, args, error, words):
    with pytest.raises(error, match=words):
        kernels.layer_norm(*args, level=level)


@pytest.mark.skipif(DEVICE == "cuda", reason="on a GPU Triton is a compiler, in whatever order it is imported")
def test_triton_imported_too_early_is_named():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", "import triton, kernels"], capture_output=True, text=True, env=environment
    )
    assert "import kernels first" in run.stderr


@pytest.mark.parametrize("imported", ["kernels", "sys"])
def test_a_toolkit_without_a_gpu_is_no_news(imported):
    code = f"import {imported}\nfrom torch.utils import cpp_extension\ncpp_extension._find_cuda_home()"
    environment = os.environ | {"CUDA_HOME": "/usr", "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ("No CUDA runtime" in run.stderr) is (imported == "sys"), run.stderr
