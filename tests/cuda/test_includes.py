"""`#include` of our own files: found where it says, and every line reported by its own file and number."""

import pickle

import pytest
import torch

from kernels.cuda import CompileError, LaunchError, RawKernel, RawModule, includes, isolated
from kernels.cuda.cpu import compiler
from kernels.lens.cuda.resources import compiled

FIRST = "__device__ float first(const float* x)\n{\n    return x[0];\n}\n"
KERNEL = '{}\nextern "C" __global__ void k(const float* x, float* y)\n{{\n    y[threadIdx.x] = x[threadIdx.x] + first(x);\n}}\n'


@pytest.fixture
def module(tmp_path):
    """module({name: text, …}): of the first of some files, all in one folder."""

    def of(files, **options):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return RawModule(path=tmp_path / next(iter(files)), **options)

    return of


def run(kernel, device="cpu"):
    x, y = torch.arange(5.0, 37.0, device=device), torch.zeros(32, device=device)
    kernel((1,), (32,), (x, y))
    assert torch.equal(y, x + 5)


@pytest.fixture(params=["the file's folder", "the shared folder", "a text without a file"])
def including(request, module, tmp_path, monkeypatch):
    """A kernel whose header lies in one of the places where it is looked for."""
    code = KERNEL.format('#include "first.cuh"')
    if request.param == "the file's folder":
        return module({"k.cu": code, "first.cuh": FIRST}).get_function("k")
    monkeypatch.setattr(includes, "DEVICE", tmp_path)
    (tmp_path / "first.cuh").write_text(FIRST)
    elsewhere = tmp_path / "elsewhere" / "k.cu"
    return RawKernel(code, "k") if "text" in request.param else RawModule(code=code, path=elsewhere).get_function("k")


@pytest.mark.usefixtures("nvrtc_too")
def test_a_header_is_found(including, device):
    run(including, device)


def test_the_file_beside_comes_before_the_shared_one(module, tmp_path, monkeypatch):
    monkeypatch.setattr(includes, "DEVICE", tmp_path / "device")
    files = {"k.cu": KERNEL.format('#include "first.cuh"'), "first.cuh": FIRST, "device/first.cuh": "no text of C++"}
    run(module(files).get_function("k"))


def test_a_header_includes_from_its_own_folder(module):
    files = {"k.cu": KERNEL.format('#include "parts/both.cuh"'), "parts/both.cuh": '#include "first.cuh"\n'}
    run(module({**files, "parts/first.cuh": FIRST}).get_function("k"))


CONDITIONAL = """#if 1
#include "first.cuh"
#else
#include "first.cuh"
#endif
#ifdef NOBODY
#include "first.cuh"
#endif"""


@pytest.mark.parametrize(
    "code, line",
    [
        ("{include}", 2),
        ("// one\n/* #include\n*/\n{include}\n{include}", 6),
        (CONDITIONAL, 9),
        ("{include}\n#include <cuda/std/cstdint>", 3),
    ],
)
@pytest.mark.parametrize("where", ["the file", "the header"])
def test_errors_name_the_file_and_the_line(module, code, line, where):
    code = code.format(include='#include "first.cuh"')
    wrong = KERNEL.format(code) + ("k.oops" if where == "the file" else "")
    header = f"#pragma once\n{FIRST}{'first oops' if where == 'the header' else ''}"
    kernel = module({"k.cu": wrong, "first.cuh": header}).get_function("k")
    place, shown = (
        (f"k.cu:{line + 4}:", f"{line + 4} | k.oops") if where == "the file" else ("first.cuh:6:", "6 | first")
    )
    for compile, seen in ((run, place), (compiled, place[:-1].replace(":", "(") + ")")):
        with pytest.raises(CompileError) as error:
            compile(kernel)
        assert seen in str(error.value) and shown in str(error.value)


def test_the_runtime_names_the_file_of_a_line(module):
    header = "__device__ void meet()\n{\n    if (threadIdx.x < 5) __syncthreads();\n}\n"
    code = '#include "meet.cuh"\n\nextern "C" __global__ void k(float* x)\n{\n    meet();\n}\n'
    with pytest.raises(LaunchError, match="line 3 of meet.cuh"):
        module({"k.cu": code, "meet.cuh": header}).get_function("k")((1,), (32,), (torch.zeros(1),))


def test_a_changed_header_is_compiled(module):
    code = KERNEL.format('#include "first.cuh"')
    run(module({"k.cu": code, "first.cuh": FIRST}).get_function("k"))
    with pytest.raises(AssertionError):
        run(module({"k.cu": code, "first.cuh": FIRST.replace("x[0]", "x[1]")}).get_function("k"))


def test_a_header_is_rewritten_for_the_cpu_as_the_file_is(module):
    """Dynamic shared memory and __launch_bounds__ are no C++; the header is read by the translation, too."""
    header = """__device__ float turned(float value)
{
    extern __shared__ float kept[];
    kept[threadIdx.x] = value;
    __syncthreads();
    return kept[blockDim.x - 1 - threadIdx.x];
}
__global__ void __launch_bounds__(64) turn(float* x) { x[threadIdx.x] = turned(x[threadIdx.x]); }
"""
    module = module({"k.cu": '#include "turned.cuh"\n', "turned.cuh": header})
    x = torch.arange(64.0)
    module.get_function("turn")((1,), (64,), (x,), shared_mem=256)
    assert torch.equal(x, torch.arange(64.0).flip(0))
    with pytest.raises(LaunchError, match="64"):
        module.get_function("turn")((1,), (128,), (torch.zeros(128),), shared_mem=512)


def test_another_process_has_the_text_as_it_was(module, tmp_path):
    kernel = module({"k.cu": KERNEL.format('#include "first.cuh"'), "first.cuh": FIRST}).get_function("k")
    (tmp_path / "first.cuh").unlink()
    x, y = torch.arange(5.0, 37.0), torch.zeros(32)
    isolated(kernel, (1,), (32,), (x, y))
    assert torch.equal(y, x + 5)
    run(pickle.loads(pickle.dumps(kernel)))


def test_a_header_that_begins_once_may_be_included_twice_and_by_itself(module):
    header = f'#pragma once\n#include "first.cuh"\n{FIRST}'
    run(
        module({"k.cu": KERNEL.format('#include "first.cuh"\n#include "first.cuh"'), "first.cuh": header}).get_function(
            "k"
        )
    )


def test_two_files_of_one_name(module):
    with pytest.raises(ValueError, match="another file of the source is called first.cuh: rename one"):
        module({"k.cu": '#include "first.cuh"\n#include "a/first.cuh"', "first.cuh": FIRST, "a/first.cuh": FIRST})


@pytest.mark.parametrize("quoted", ['"nowhere.cuh"', "<first.cuh>"])
def test_what_is_not_found_is_an_error_of_its_line(module, quoted):
    with pytest.raises(CompileError, match=r"k.cu:1:.*No such file|k.cu:1:.*not found"):
        run(module({"k.cu": KERNEL.format(f"#include {quoted}"), "first.cuh": FIRST}).get_function("k"))


def test_the_header_compiled_beforehand_is_used(module, monkeypatch):
    """It comes before all that a source includes."""
    used = []
    monkeypatch.setattr(
        compiler, "run", lambda command, text, run=compiler.run: used.append(command) or run(command, text)
    )
    code = KERNEL.format('#include "first.cuh"\n// not compiled before')
    run(module({"k.cu": code, "first.cuh": FIRST}).get_function("k"))
    assert compiler.is_clang() or any("header-" in word for command in used for word in command)
