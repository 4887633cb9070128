"""Every kernel compiles for sm_80 and sm_90 with no GPU, and takes the registers and shared memory it took before."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.lens.cuda.resources import report

FOLDER = Path(__file__).parent
STORED = json.loads((FOLDER / "stored" / "resources.json").read_text())
HERE = {name: None for name in STORED["versions"]}
for _name in HERE:
    try:
        HERE[_name] = importlib.metadata.version(_name)
    except importlib.metadata.PackageNotFoundError:
        continue


@pytest.mark.skipif(STORED["versions"] != HERE, reason=f"stored for {STORED['versions']}, here are {HERE}")
@pytest.mark.parametrize(
    ("target", "most"),
    [
        pytest.param(90, 15, id="sm_90, some"),
        *(pytest.param(n, None, id=f"sm_{n}", marks=pytest.mark.slow) for n in (80, 90)),
    ],
)
def test_every_kernel_compiles_as_before(target, most):
    """most: how many kernels of each language, which is a tenth of them and compiles in seconds."""
    code = f"""import json
from itertools import islice
from stored.resources import cuda_kernels, triton_kernels
print(json.dumps(dict(found for kind in (triton_kernels, cuda_kernels) for found in islice(kind(({target},)), {most}))))"""
    path = os.pathsep.join([str(FOLDER.parent), str(FOLDER)])
    # A process of its own: Triton must be a compiler in it.
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert len(found) == 2 * most if most else found
    stored = STORED["kernels"]
    wanted = found if most else {kernel for kernel in stored if kernel.endswith(f" sm_{target}")}
    changed = [
        f"{kernel}\n  stored {stored.get(kernel)}\n  now    {found.get(kernel)}"
        for kernel in sorted({*found, *wanted})
        if found.get(kernel) != stored.get(kernel)
    ]
    assert not changed, "\n".join([*changed, "If this is meant: make resources, and read the difference."])


def test_no_kernel_spills():
    """On the reference target nothing; on an older GPU at most a few registers.

    But for wide rows of odd width in passes: their width is a constant, so the loop over single elements is unrolled, and 32
    warps leave a thread 64 registers.
    """
    for kernel, found in STORED["kernels"].items():
        odd_and_wide = "layer_norm_passes_kernel" in kernel and "aligned=0,1,2,3 " in kernel
        most = 256 if odd_and_wide else 0 if kernel.endswith("sm_90") else 32
        assert found["spilled_bytes"] <= most, kernel


def test_both_languages_and_targets_are_there():
    for word in (
        "triton_forward",
        "triton_backward.",
        "layer_norm.cu layer_norm_block<__nv_bfloat16>",
        "layer_norm_backward.cu",
    ):
        for target in ("sm_80", "sm_90"):
            assert any(word in kernel and kernel.endswith(target) for kernel in STORED["kernels"])


def test_the_report_of_ptxas_is_read():
    log = """ptxas info    : Function properties for f
    16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 2048 bytes smem"""
    assert report(log) == {"registers": 255, "spilled_bytes": 36, "shared_bytes": 2048}
