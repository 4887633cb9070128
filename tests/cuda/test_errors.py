"""Wrong kernels and wrong calls: each error names its cause, and the process lives."""

import re

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernels.cuda import CompileError, LaunchError, RawKernel, RawModule

ADD = """
__global__ void add(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + a;
}
"""


def launch(device, *args, grid=(1,), block=(32,), code=ADD, name="add", **options):
    x, y = torch.zeros(2, 32, device=device)
    RawKernel(code, name)(grid, block, (x, y, *args), **options)


def test_the_call_that_the_others_break(device):
    launch(device, np.float32(1), 32)


@pytest.mark.parametrize(
    "args, error, words",
    [
        ((1.0, 32), TypeError, r"argument 2 is a Python float, of 8 bytes .* takes 4 bytes: pass np.float32"),
        ((np.float64(1), 32), TypeError, r"argument 2 is a numpy.float64, of 8 bytes, .* takes 4 bytes"),
        ((np.float16(1), 32), TypeError, r"argument 2 is a numpy.float16, of 2 bytes"),
        ((np.float32(1),), TypeError, r"takes 4 arguments, got 3"),
        ((np.float32(1), 32, 5), TypeError, r"takes 4 arguments, got 5"),
        ((np.float32(1), 2**32), ValueError, r"argument 3 is 4294967296, which does not fit a parameter of 4 bytes"),
        ((np.float32(1), -(2**31) - 1), ValueError, r"argument 3 is -2147483649, which does not fit"),
        ((np.float32(1), True), TypeError, r"argument 3 is a bool, of 1 byte"),
        ((np.float32(1), "32"), TypeError, r"argument 3 is a builtins.str: pass a torch tensor, an int"),
        ((np.float32(1), np.zeros(3)), TypeError, r"argument 3 is a numpy.ndarray.*for an array, pass a torch tensor"),
        ((np.float32(1), None), TypeError, r"argument 3 is a builtins.NoneType"),
    ],
)
def test_arguments(device, args, error, words):
    with pytest.raises(error, match=words):
        launch(device, *args)


def test_a_call_like_one_that_was_right_is_checked_too(device):
    x, y = torch.arange(32.0, device=device), torch.zeros(32, device=device)
    kernel = RawKernel(ADD.replace("int n", "unsigned n"), "add")
    for a, n in ((1, 32), (2, 2**32 - 1), (0.5, 32)):
        kernel((1,), (32,), (x, y, np.float32(a), n))
        assert torch.equal(y, x + a)
    with pytest.raises(ValueError, match="argument 3 is 4294967296, which does not fit a parameter of 4 bytes"):
        kernel((1,), (32,), (x, y, np.float32(1), 2**32))
    with pytest.raises(TypeError, match="argument 2 is the Python int 1"):
        kernel((1,), (32,), (x, y, 1, 32))
    with pytest.raises(ValueError, match="grid is .* its x must be at least 1"):
        kernel((0,), (32,), (x, y, np.float32(1), 32))


def test_a_tensor_without_memory():
    with FakeTensorMode():
        x, y = torch.zeros(2, 32)
    with pytest.raises(TypeError, match="argument 0 is a FakeTensor, which has no memory: register the kernel"):
        RawKernel(ADD, "add")((1,), (32,), (x, y, np.float32(1), 32))


def test_a_tensor_for_a_number(device):
    with pytest.raises(TypeError, match="argument 3 is a tensor, but the parameter is no pointer: it takes 4 bytes"):
        launch(device, np.float32(1), torch.zeros(1, device=device))


def test_tensors_on_two_devices(device):
    other = torch.zeros(1, device="meta" if device == "cpu" else "cpu")
    with pytest.raises(ValueError, match=rf"argument 3 is a tensor on {other.device}, but argument 0 is on {device}"):
        launch(device, np.float32(1), other)
    with pytest.raises(ValueError, match="argument 0 is a tensor on meta: kernels run on cpu and cuda"):
        RawKernel(ADD, "add")((1,), (1,), (torch.zeros(1, device="meta"),))


@pytest.mark.parametrize(
    "sizes, words",
    [
        ({"block": (2048,)}, r"block is \(2048,\): its x is 2,048, more than CUDA's limit of 1,024"),
        ({"block": (64, 32)}, r"2,048 threads, more than the 1,024 that a block may have"),
        ({"block": (1, 1, 65)}, r"its z is 65, more than CUDA's limit of 64"),
        ({"grid": (1, 65536)}, r"its y is 65,536, more than CUDA's limit of 65,535"),
        ({"grid": (2**31,)}, r"its x is 2,147,483,648"),
        ({"grid": (0,)}, r"grid is \(0,\): its x must be at least 1; an empty grid cannot be launched"),
        ({"block": (32, 0)}, r"block is \(32, 0\): its y must be at least 1"),
        ({"shared_mem": 48 * 1024 + 1}, r"shared_mem is 49,153 bytes, more than the limit of 49,152"),
        ({"shared_mem": 1 << 20}, r"a block can have at most [\d,]+ bytes"),
        ({"shared_mem": -1}, r"must not be negative"),
    ],
)
def test_limits(device, sizes, words):
    with pytest.raises(ValueError, match=words):
        launch(device, np.float32(1), 32, **sizes)


@pytest.mark.parametrize("sizes", [{"grid": 1}, {"grid": (1.0,)}, {"block": (1, 1, 1, 1)}, {"shared_mem": "48"}])
def test_sizes_of_the_wrong_type(device, sizes):
    with pytest.raises(TypeError, match="must be"):
        launch(device, np.float32(1), 32, **sizes)


def test_static_shared_memory_counts(device):
    code = """
    __global__ void other(float* x) { __shared__ float big[12000]; big[threadIdx.x] = *x; __syncthreads(); *x = big[0]; }
    __global__ void add(const float* x, float* y) {
        __shared__ float kept[10240]; extern __shared__ float rest[];
        kept[threadIdx.x * 7] = rest[threadIdx.x] = x[threadIdx.x]; __syncthreads(); *y = kept[7] + rest[1];
    }"""
    add = RawModule(code=code, name_expressions=("other", "add")).get_function("add")
    x, y = torch.zeros(2, 32, device=device)
    add((1,), (32,), (x, y), shared_mem=8 * 1024)
    with pytest.raises(ValueError, match="shared_mem is 8,193 bytes beside 40,960 bytes of static shared memory"):
        add((1,), (32,), (x, y), shared_mem=8 * 1024 + 1)


def test_too_much_static_shared_memory(compiling_device):
    code = """__global__ void add(float* x, float* y) {
        __shared__ double t[6145]; t[threadIdx.x] = *x; __syncthreads(); *y = t[1];
    }"""
    with pytest.raises(CompileError, match="add"):
        launch(compiling_device, code=code)


def test_a_compile_error_shows_the_learners_line(compiling_device):
    code = "__global__ void add(float* x, float* y) {\n    int i = threadIdx.x;\n    y[i] = x[j] + 1;\n}\n"
    with pytest.raises(CompileError) as error:
        launch(compiling_device, code=code)
    message = str(error.value)
    assert "add.cu" in message
    assert "    3 |     y[i] = x[j] + 1;" in message
    assert "j" in message.split("add.cu", 2)[2]
    assert isinstance(error.value, ValueError)


def test_a_compile_error_after_dynamic_shared_memory_over_several_lines_names_the_line(compiling_device):
    code = "__global__ void add(float* x,\n float* y) {\n extern __shared__\n  float s[];\n *y = s[0] + oops;\n}"
    with pytest.raises(CompileError, match=r"(?s)    5 \|  \*y = s\[0\] \+ oops;"):
        launch(compiling_device, code=code)


def test_a_compile_error_names_the_file_it_is_in(compiling_device, tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text("__global__ void scale(float* x) {\n  *x = undefined_thing;\n}")
    with pytest.raises(CompileError, match="scale.cu"):
        RawModule(path=path).get_function("scale")((1,), (1,), (torch.zeros(1, device=compiling_device),))


@pytest.mark.parametrize("name", ["sub", "add<float>"])
def test_a_kernel_that_is_not_there(compiling_device, name):
    with pytest.raises(CompileError, match=re.escape(name)):
        launch(compiling_device, np.float32(1), 32, name=name)


def test_a_function_that_is_no_kernel():
    with pytest.raises(CompileError, match="helper is not a kernel: declare it __global__"):
        launch(
            "cpu",
            np.float32(1),
            32,
            code=ADD.replace("__global__", "__device__").replace("add", "helper"),
            name="helper",
        )


def test_a_missing_brace(device):
    with pytest.raises(CompileError):
        launch(device, np.float32(1), 32, code=ADD.rstrip().removesuffix("}"))


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompileError, match=r"no C\+\+ compiler was found.*apt install g\+\+"):
        launch("cpu", np.float32(1), 32)


def barrier_error(body, block=(64,), grid=(3,)):
    with pytest.raises(LaunchError) as error:
        RawKernel(f"__global__ void k(int* x) {{\n{body}\n}}", "k")(grid, block, (torch.zeros(64, dtype=torch.int32),))
    return str(error.value)


def test_a_barrier_in_a_condition():
    message = barrier_error("if (threadIdx.x < 24)\n  __syncthreads();")
    assert "k: a barrier that not every thread reaches, in block (0, 0, 0) of 64 threads" in message
    assert "24 threads wait in __syncthreads on line 3 of k.cu; 40 threads have finished." in message
    assert "Hardware from sm_70 on waits only for the threads that have not returned and lets this pass" in message
    assert "Guard the work, not the barrier" in message


def test_a_barrier_that_one_row_of_one_block_of_many_passes_by():
    message = barrier_error("if (blockIdx.x != 1 || threadIdx.y != 7)\n __syncthreads();", block=(8, 8), grid=(2,))
    assert "block (1, 0, 0)" in message
    assert "56 threads wait in __syncthreads on line 3 of k.cu; 8 threads have finished." in message


def test_different_barriers():
    message = barrier_error("if (threadIdx.x < 32)\n __syncthreads();\nelse\n __syncthreads();")
    assert "32 threads wait in __syncthreads on line 3 of k.cu; 32 threads wait in __syncthreads on line 5" in message
    assert "take it out of the condition" in message
    assert "sm_70" not in message  # there it hangs as well


def test_a_barrier_while_others_shuffle():
    message = barrier_error("if (threadIdx.x < 5) __syncwarp();\n__syncthreads();")
    assert "5 threads wait in __syncwarp on line 2" in message
    assert "59 threads wait in __syncthreads on line 3" in message
    assert "In warp 0, lanes 0-4 wait in __syncwarp on line 2 of k.cu, whose mask names them and lanes 5-31" in message
    assert "Which of the two is in a condition" in message
