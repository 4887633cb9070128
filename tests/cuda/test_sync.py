"""Barriers with a result, matches, warp reductions, active masks and shuffles of every type."""

import numpy as np
import pytest
import torch

from kernels.cuda import LaunchError, RawKernel, RawModule

BARRIERS = r"""__global__ void barriers(int* out, int n) {
    int t = threadIdx.x + blockDim.x * threadIdx.y, threads = blockDim.x * blockDim.y;
    int count = __syncthreads_count(t < n ? 7 : 0);
    int all = __syncthreads_and(t < threads), not_all = __syncthreads_and(t != n);
    int any = __syncthreads_or(t == n ? -1 : 0), none = __syncthreads_or(t == threads);
    out[t] = count * 16 + (all != 0) * 8 + (not_all != 0) * 4 + (any != 0) * 2 + (none != 0);
}"""


@pytest.mark.parametrize("block", [(1,), (20,), (64,), (16, 31), (1024,)])
def test_barriers_that_count_and_ask(device, block):
    threads, n = int(np.prod(block)), int(np.prod(block)) // 2
    out = torch.full((threads,), -1, dtype=torch.int32, device=device)
    RawKernel(BARRIERS, "barriers")((3,), block, (out, n))
    assert out.tolist() == [n * 16 + 8 + 2] * threads


LANES = r"""
template <class T> __device__ unsigned matched(int lane) { return __match_any_sync(0xffffffffu, T(lane % 3)); }
__global__ void lanes(unsigned* out) {
    int lane = threadIdx.x, equal = -1, other = -1;
    unsigned* o = out + lane * 32;
    o[0] = matched<int>(lane); o[1] = matched<unsigned>(lane); o[2] = matched<long long>(lane);
    o[3] = matched<unsigned long long>(lane); o[4] = matched<float>(lane); o[5] = matched<double>(lane);
    o[6] = __match_any_sync(0xffffffffu, lane < 8 ? 1ull << 40 : 0ull);
    o[7] = __match_all_sync(0xffffffffu, 5.5f, &equal); o[8] = equal;
    o[9] = __match_all_sync(0xffffffffu, lane / 31, &other); o[10] = other;
    o[11] = __reduce_add_sync(0xffffffffu, lane - 20); o[12] = __reduce_add_sync(0xffffffffu, 0x90000000u + lane);
    o[13] = __reduce_min_sync(0xffffffffu, lane - 20); o[14] = __reduce_min_sync(0xffffffffu, unsigned(lane - 20));
    o[15] = __reduce_max_sync(0xffffffffu, lane - 20); o[16] = __reduce_max_sync(0xffffffffu, unsigned(lane - 20));
    o[17] = __reduce_and_sync(0xffffffffu, ~(1u << lane / 2)); o[18] = __reduce_or_sync(0xffffffffu, 1u << lane / 2);
    o[19] = __reduce_xor_sync(0xffffffffu, lane < 31 ? 1u << lane / 4 : 0u);
    if (lane % 2) {
        o[20] = __reduce_add_sync(0xaaaaaaaau, lane);
        o[21] = __activemask();
        __syncwarp(0xaaaaaaaau);
        o[22] = __match_any_sync(0xaaaaaaaau, lane / 16);
        o[23] = __ballot_sync(0xaaaaaaaau, lane > 10);
    } else {
        o[20] = __reduce_max_sync(0x55555555u, lane);
        o[21] = __activemask();
        o[22] = __any_sync(0x55555555u, lane == 7);
        o[23] = __all_sync(0x55555555u, lane != 7);
    }
    __syncwarp();
    o[24] = __activemask();
    o[25] = __popc(__match_any_sync(0xffffffffu, lane < 2 ? -0.0f : 0.0f));
}"""


def test_matches_reductions_and_active_masks(device):
    out = torch.full((32, 32), 0xABCDEF, dtype=torch.int32, device=device)
    RawKernel(LANES, "lanes")((1,), (32,), (out,))
    rows = out.cpu().numpy().view(np.uint32)
    lanes = np.arange(32)
    thirds = np.array([np.bitwise_or.reduce(1 << lanes[lanes % 3 == i % 3]) for i in lanes], dtype=np.uint32)
    for column in range(6):
        assert np.array_equal(rows[:, column], thirds), column
    full, signed = 0xFFFFFFFF, lambda x: x % 2**32
    assert np.array_equal(rows[:, 6], np.where(lanes < 8, 0xFF, 0xFFFFFF00).astype(np.uint32))
    for column, value in {
        7: full, 8: 1, 9: 0, 10: 0, 11: signed(sum(range(-20, 12))), 12: signed(32 * 0x90000000 + 496), 13: signed(-20),
        14: 0, 15: 11, 16: full, 17: 0xFFFF0000, 18: 0xFFFF, 19: 0x80, 24: full,
    }.items():  # fmt: skip
        assert set(rows[:, column]) == {value}, column
    odd, even = rows[1::2], rows[::2]
    assert set(odd[:, 20]) == {256} and set(even[:, 20]) == {30}
    assert set(odd[:, 21]) == {0xAAAAAAAA} and set(even[:, 21]) == {0x55555555}
    assert odd[:, 22].tolist() == [0xAAAA] * 8 + [0xAAAA0000] * 8 and set(even[:, 22]) == {0}
    assert set(odd[:, 23]) == {0xAAAAA800} and set(even[:, 23]) == {1}
    assert rows[:, 25].tolist() == [2, 2] + [30] * 30  # bits are compared: -0 is not 0


MOVES = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <class T> __device__ T at(int lane) { return T(lane * 3 + 1); }
template <> __device__ long long at(int lane) { return (5ll << 40) - lane; }
template <> __device__ unsigned long long at(int lane) { return ~0ull - lane; }
template <> __device__ long at(int lane) { return -(7l << 40) - lane; }
template <> __device__ unsigned long at(int lane) { return (9ul << 60) + lane; }
template <> __device__ double at(int lane) { return lane + 0.1; }
template <> __device__ half at(int lane) { return __float2half(lane + 0.5f); }
template <> __device__ half2 at(int lane) { return __floats2half2_rn(lane, -lane); }
template <> __device__ __nv_bfloat16 at(int lane) { return __float2bfloat16(lane * 2.0f); }
template <> __device__ __nv_bfloat162 at(int lane) { return __floats2bfloat162_rn(lane, -lane); }
template <class T> __global__ void moves(T* moved, T* expected) {
    int lane = threadIdx.x;
    T v = at<T>(lane);
    moved[lane] = __shfl_sync(0xffffffffu, v, lane + 5, 16);
    moved[lane + 32] = __shfl_up_sync(0xffffffffu, v, 3, 8);
    moved[lane + 64] = __shfl_down_sync(0xffffffffu, v, 7);
    moved[lane + 96] = __shfl_xor_sync(0xffffffffu, v, 9);
    expected[lane] = at<T>(lane / 16 * 16 + (lane + 5) % 16);
    expected[lane + 32] = at<T>(lane % 8 < 3 ? lane : lane - 3);
    expected[lane + 64] = at<T>(lane < 25 ? lane + 7 : lane);
    expected[lane + 96] = at<T>(lane ^ 9);
}"""
MOVED = [
    "int",
    "unsigned int",
    "long",
    "unsigned long",
    "long long",
    "unsigned long long",
    "float",
    "double",
    "half",
    "half2",
    "__nv_bfloat16",
    "__nv_bfloat162",
]
MOVERS = RawModule(code=MOVES, name_expressions=[f"moves<{t}>" for t in MOVED])


@pytest.mark.parametrize("c_type", MOVED)
def test_every_shuffle_moves_every_type(device, c_type):
    moved, expected = torch.full((2, 1024), 0x7B, dtype=torch.uint8, device=device)
    MOVERS.get_function(f"moves<{c_type}>")((1,), (32,), (moved, expected))
    assert torch.equal(moved, expected)
    assert len(moved[moved != 0x7B]) > 128


@pytest.mark.parametrize(
    "code, names",
    [
        (BARRIERS, ["barriers"]),
        (LANES, ["lanes"]),
        (MOVES, [f"moves<{t}>" for t in MOVED]),
    ],
    ids=["barriers", "lanes", "moves"],
)
def test_nvrtc(nvrtc, code, names):
    nvrtc(code, (), names)


def error_of(body, block=(64,), grid=(2,), before="", **options):
    kernel = RawKernel(f"__global__ void k(int* x) {{\n{body}\n}}\n{before}", "k", **options)
    with pytest.raises(LaunchError) as error:
        kernel(grid, block, (torch.zeros(4096, dtype=torch.int32),))
    return str(error.value)


def test_a_counting_barrier_that_some_do_not_reach():
    message = error_of("if (threadIdx.x != 9)\n x[0] = __syncthreads_count(1);")
    assert "63 threads wait in __syncthreads_count on line 3 of k.cu; 1 thread has finished" in message


def test_barriers_of_two_kinds_on_one_line_are_not_one():
    message = error_of("if (threadIdx.x < 32) __syncthreads(); else x[0] = __syncthreads_or(1);")
    assert "32 threads wait in __syncthreads on line 2" in message
    assert "32 threads wait in __syncthreads_or on line 2" in message


@pytest.mark.parametrize(
    "call",
    ["x[0] = __match_any_sync(FULL, 1)", "x[0] = __reduce_add_sync(FULL, 1)", "x[0] = __match_all_sync(FULL, 1, x)"],
)
def test_lanes_that_wait_elsewhere(call):
    name = call.split(" = ")[1].split("(")[0]
    message = error_of(f"if (threadIdx.x % 32 < 5)\n __syncwarp();\nelse\n {call};".replace("FULL", "0xffffffffu"))
    assert "deadlock, in block (0, 0, 0) of 64 threads" in message
    assert "10 threads wait in __syncwarp on line 3 of k.cu" in message
    assert f"54 threads wait in {name} on line 5" in message
