"""Every kernel compiles for every target with no GPU, and takes the registers and shared memory it took before."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stored.resources import GPUS, unsupported

import kernels
from kernels.hardware import REFERENCE, TARGETS
from kernels.lens.cuda.resources import report

FOLDER = Path(__file__).parent
STORED = {path.stem: json.loads(path.read_text()) for path in (FOLDER / "stored" / "resources").glob("*.json")}
IF_MEANT = "If this is meant: make resources, and read the difference."
# Where a kernel may spill, and how many bytes on which targets: on the reference target nowhere else, on others a little.
ODD_ROWS = "wide rows of odd width: the loop over single elements is unrolled, 64 registers"
SPILLS = {
    "layer_norm_passes_kernel": ({"sm_86": 640, "sm_89": 640, "sm_120": 320, "": 240}, ODD_ROWS),
    "matmul_tiles_kernel": (
        {"sm_75": 66_000, "sm_90": 8},
        "before sm_80 Triton multiplies without tensor cores, and whole operands are in registers",
    ),
    "layer_norm_gelu_passes_kernel": ({"sm_120": 320, "": 230}, "as in layer_norm_passes_kernel, and GELU"),
    "rms_norm_passes_kernel": ({"sm_120": 120}, "the same"),
    "layer_norm_gelu_backward_rows_kernel": (
        {"sm_80": 72, "sm_86": 72, "sm_89": 72, "sm_90": 40, "sm_100": 184, "sm_120": 48},
        "two rows, their sums and GELU's slope; by vectors no point is slower for it"
        " (book/results/tried/even_widths.json)",
    ),
    "rms_norm_backward_columns_kernel": (
        {"sm_90": 36},
        "of a thread 32 float32 values of dy, x and the sum: nine are put aside, and rows of one column compared",
    ),
    "attention_dkdv_kernel": (
        {"sm_75": 7_300, "sm_90": 790, "sm_80": 1_700, "": 470},
        "two tiles of sums, and in one walk a third product; before sm_80 Triton multiplies without tensor cores, and whole"
        " operands are in registers",
    ),
    "attention_dq_kernel": ({"sm_75": 1_600, "sm_80": 180, "sm_90": 0, "": 160}, "the same, with one tile of sums"),
    "attention_forward_kernel BLOCK=128 OTHERS=64 BLOCK_D=128 STAGES=2 num_warps=4": (
        {"sm_90": 240},
        "a masked tile beside 128 queries of four warps: no other tile is as fast"
        " (book/results/tried/attention_descriptors.json)",
    ),
    "attention_forward_kernel": ({"sm_90": 0, "": 220}, "tiles chosen for sm_90: others have fewer registers to spare"),
    "attention_backward.cu attention_dq<__half, 64, 32>": ({"sm_80": 36, "sm_90": 36}, "64 registers"),
    "attention_backward.cu attention_dq<__nv_bfloat16, 16, 32>": ({"sm_90": 36}, "48 registers"),
    "attention_backward.cu attention_dkdv<__nv_bfloat16, 16, 32>": ({"sm_120": 36}, "48 registers"),
    "attention_wmma<__nv_bfloat16, 128, 64, 1>": (
        {"sm_90": 8},
        "168 registers, so that three blocks share a multiprocessor",
    ),
    "decode.cu": (
        {"sm_90": 24, "sm_86": 108, "sm_89": 108, "": 44},
        "around the call that a failed assertion makes: without assertions none spills",
    ),
    "decode_registers.cu": ({"sm_75": 480}, "four queries and their sums in at most 128 registers"),
    "segment_backward_kernel": (
        {"sm_80": 76, "sm_90": 0, "": 32},
        "32 rows of 128 columns, and of each row its segment and the place of its gradient",
    ),
    "decode_split_kernel": (
        {"sm_75": 1_100},
        "before sm_80 Triton multiplies without tensor cores, and whole operands are in registers",
    ),
}
FEW = 32  # bytes: what any kernel may spill on a target that is not the reference


def here(versions):
    found = dict.fromkeys(versions)
    for name in versions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def compiled(op, chosen):
    """What the compilers say now, as it is stored. chosen: by target every which case, from which one on."""
    versions = STORED[op]["versions"]
    if versions != here(versions):
        pytest.skip(f"stored for {versions}, here are {here(versions)}")
    code = f"""import json, kernels
from kernels.hardware import TARGETS
from stored.resources import cases, compile_all
op = kernels.operation({op!r})
chosen = {{TARGETS[name]: cases(op)[first::step] for name, (first, step) in {chosen!r}.items()}}
print(json.dumps(compile_all(op, chosen)))"""
    path = os.pathsep.join([str(FOLDER.parent), str(FOLDER)])
    # A process of its own: Triton must be a compiler in it.
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def differences(stored, found):
    changed = [kernel for kernel in {**stored, **found} if stored.get(kernel) != found.get(kernel)]
    return [f"{kernel}\n  stored {stored.get(kernel)}\n  now    {found.get(kernel)}" for kernel in changed]


@pytest.mark.parametrize("op", STORED)
def test_some_kernels_compile_as_before(op):
    """A tenth of the cases for the reference target, and others of them, a fiftieth each, for the other targets."""
    chosen = {str(gpu): (5 + number, 50) for number, gpu in enumerate(GPUS)} | {REFERENCE.name: (0, 10)}
    found = {kernel: said for kernel, said in compiled(op, chosen).items() if said}
    stored = {
        kernel: {target: STORED[op]["kernels"].get(kernel, {}).get(target) for target in said}
        for kernel, said in found.items()
    }
    assert len([said for said in found.values() if REFERENCE.name in said]) >= 2
    assert not (changed := differences(stored, found)), "\n".join([*changed, IF_MEANT])


@pytest.mark.slow
@pytest.mark.parametrize("gpu", GPUS, ids=str)
@pytest.mark.parametrize("op", STORED)
def test_every_kernel_compiles_as_before(op, gpu):
    found = {kernel: said for kernel, said in compiled(op, {gpu.name: (0, 1)}).items() if said}
    same_gpu = {target.name for target in TARGETS.values() if target.capability == gpu.capability}
    stored = {
        kernel: here
        for kernel, said in STORED[op]["kernels"].items()
        if (here := {target: said[target] for target in said.keys() & same_gpu})
    }
    assert not (changed := differences(stored, found)), "\n".join([*changed, IF_MEANT])


def test_every_operation_with_kernels_is_stored():
    with_kernels = {
        name for name in kernels.operations() if any(v.level >= 4 for v in kernels.operation(name).variants)
    }
    assert set(STORED) == with_kernels, IF_MEANT


def test_no_kernel_spills():
    too_many = []
    for stored in STORED.values():
        for kernel, said in stored["kernels"].items():
            allowed = next((most for words, (most, _) in SPILLS.items() if words in kernel), {})
            for target, found in said.items():
                most = allowed.get(target, allowed.get("", 0 if target == REFERENCE.name else FEW))
                if found["spilled_bytes"] > most:
                    too_many.append(f"{kernel} on {target}: {found['spilled_bytes']} bytes, {most} are allowed")
    assert not too_many, "\n".join(too_many)


@pytest.mark.parametrize("op", STORED)
def test_what_does_not_run_on_a_target_says_why(op):
    assert STORED[op]["unsupported"] == unsupported(kernels.operation(op)), IF_MEANT


def test_the_report_of_ptxas_is_read():
    log = """ptxas info    : Function properties for f
    16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 2048 bytes smem"""
    assert report(log) == {"registers": 255, "spilled_bytes": 36, "shared_bytes": 2048}
