"""printf, assert, __trap and clocks."""

import pytest
import torch

from kernels.cuda import LaunchError, RawKernel

pytestmark = pytest.mark.usefixtures("nvrtc_too")


def run(code, device="cpu", grid=(1,), block=(1,), options=()):
    x = torch.zeros(64, device=device)
    RawKernel(code, "k", options)(grid, block, (x,))
    if device == "cuda":
        torch.cuda.synchronize()
    return x.cpu()


@pytest.fixture
def output(device, request):
    """Reads what was printed: Python's stdout on a CPU, the process's on a GPU."""
    captured = request.getfixturevalue("capsys" if device == "cpu" else "capfd")
    return lambda: captured.readouterr().out


def test_printf(device, output):
    code = r"""__global__ void k(float* x) {
        int n = printf("%s %d %5.2f %c %u %lld %x 100%%\n", "text", -3, 2.5f, 'z', 7u, 1ll << 40, 255);
        x[0] = n;
        x[1] = printf("plain\n");
        x[2] = printf("");
    }"""
    x = run(code, device)
    assert output() == "text -3  2.50 z 7 1099511627776 ff 100%\nplain\n"
    assert x[:3].tolist() == [7, 0, 0]


def test_a_call_is_one_piece(device, output):
    code = r"""__global__ void k(float* x) { printf("block %d thread %d\n", blockIdx.x, threadIdx.x); }"""
    run(code, device, grid=(40,), block=(40,))
    lines = sorted(output().splitlines())
    assert lines == sorted(f"block {b} thread {t}" for b in range(40) for t in range(40))


def test_long_text(output, device):
    code = r"""__global__ void k(float* x) { printf("%0900d|%0900d\n", 1, 2); }"""
    run(code, device)
    assert output() == f"{1:0900d}|{2:0900d}\n"


def test_printf_before_an_error_is_seen(capsys):
    with pytest.raises(LaunchError):
        run('__global__ void k(float* x) { printf("before\\n"); assert(*x == 1); }')
    assert capsys.readouterr().out == "before\n"


def test_the_newest_mebibyte_is_kept(capsys):
    run('__global__ void k(float* x) { for (int i = 0; i < 3000; ++i) printf("%01000d\\n", i); }')
    lines = capsys.readouterr().out.splitlines()
    assert 1000 < len(lines) < 1100
    assert int(lines[-1]) == 2999


def test_assert_that_holds(device):
    code = "__global__ void k(float* x) { assert(threadIdx.x < 64 && x); x[threadIdx.x] = 1; }"
    assert run(code, device, block=(64,)).sum() == 64


# On a GPU a failed assertion ends the process's use of it, so it is seen on a CPU alone.
def test_assert_that_fails():
    code = "#include <assert.h>\n__global__ void k(float* x) {\n  int i = threadIdx.x;\n  assert(i != 5 || blockIdx.x < 1);\n}"
    x = torch.zeros(1)
    with pytest.raises(LaunchError) as error:
        RawKernel(code.replace("#include <assert.h>", ""), "k")((3,), (8, 2), (x,))
    assert str(error.value) == (
        "k: assertion `i != 5 || blockIdx.x < 1` failed on line 4 of k.cu in block (1, 0, 0), thread (5, 0, 0)"
    )


def test_without_assertions(device):
    code = "__global__ void k(float* x) { assert(false); x[0] = 1; }"
    assert run(code, "cpu", options=("-DNDEBUG",))[0] == 1


def test_trap():
    with pytest.raises(LaunchError, match=r"__trap\(\) on line 2 of k.cu in block \(0, 0, 0\), thread \(3, 0, 0\)"):
        run("__global__ void k(float* x) {\n if (threadIdx.x == 3) __trap(); }", block=(8,))


def test_clocks_go_on(device):
    code = """__global__ void k(float* x) {
        long long start = clock64(); clock_t begin = clock();
        volatile float sum = 0;
        for (int i = 0; i < 10000; ++i) sum = sum + i;
        x[0] = clock64() > start; x[1] = clock() != begin; x[2] = sum > 0;
    }"""
    assert run(code, device)[:3].tolist() == [1, 1, 1]
