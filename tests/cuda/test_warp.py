"""Shuffles, votes and __syncwarp."""

import pytest
import torch

from kernels.cuda import LaunchError, RawKernel, RawModule

FULL = 0xFFFFFFFF


def run(body, device, threads=32, dtype=torch.int32, c_type="int"):
    """What each of `threads` threads assigns to `out`, in a block of its own size."""
    code = f"""__global__ void lanes({c_type}* all) {{
        int lane = threadIdx.x % 32; {c_type} out; {body} all[threadIdx.x] = out;
    }}"""
    result = torch.full((threads,), -1, dtype=dtype, device=device)
    RawKernel(code, "lanes")((1,), (threads,), (result,))
    return result.tolist()


def test_shuffles(device):
    lanes = range(32)
    assert run("out = __shfl_sync(0xffffffff, lane * 10, 5);", device) == [50] * 32
    assert run("out = __shfl_sync(0xffffffff, lane, lane + 1);", device) == [(i + 1) % 32 for i in lanes]
    assert run("out = __shfl_up_sync(0xffffffff, lane, 3);", device) == [i - 3 if i >= 3 else i for i in lanes]
    assert run("out = __shfl_down_sync(0xffffffff, lane, 3);", device) == [i + 3 if i < 29 else i for i in lanes]
    assert run("out = __shfl_xor_sync(0xffffffff, lane, 5);", device) == [i ^ 5 for i in lanes]


def test_shuffles_with_a_width(device):
    lanes = range(32)
    assert run("out = __shfl_sync(0xffffffff, lane, 9, 8);", device) == [i // 8 * 8 + 1 for i in lanes]
    assert run("out = __shfl_up_sync(0xffffffff, lane, 2, 8);", device) == [i - 2 if i % 8 >= 2 else i for i in lanes]
    assert run("out = __shfl_down_sync(0xffffffff, lane, 2, 8);", device) == [i + 2 if i % 8 < 6 else i for i in lanes]
    # A lane of an earlier group may be read, one of a later group not.
    assert run("out = __shfl_xor_sync(0xffffffff, lane, 8, 8);", device) == [i ^ 8 if i & 8 else i for i in lanes]


@pytest.mark.parametrize(
    "c_type, value",
    [
        ("float", "lane + 0.5f"),
        ("double", "lane + 0.1"),
        ("long long", "(1ll << 40) + lane"),
        ("unsigned long long", "(1ull << 63) + lane"),
        ("unsigned", "0x80000000u + lane"),
        ("half", "__float2half(lane + 0.5f)"),
        ("half2", "__floats2half2_rn(lane, -lane)"),
        ("__nv_bfloat16", "__float2bfloat16(lane * 2.0f)"),
        ("__nv_bfloat162", "__floats2bfloat162_rn(lane, -lane)"),
    ],
)
def test_types_that_a_shuffle_moves(device, c_type, value):
    code = f"""
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __device__ {c_type} at(int lane) {{ return {value}; }}
    __global__ void move({c_type}* moved, {c_type}* expected) {{
        int lane = threadIdx.x;
        moved[lane] = __shfl_xor_sync(0xffffffff, at(lane), 17);
        expected[lane] = at(lane ^ 17);
    }}"""
    moved, expected = torch.full((2, 256), 255, dtype=torch.uint8, device=device)
    RawKernel(code, "move")((1,), (32,), (moved, expected))
    assert torch.equal(moved, expected)
    assert not (moved[:64] == 255).all()


def test_reduction_with_a_partial_warp(device):
    code = r"""__global__ void total(const int* x, int* out, int n) {
        __shared__ int part[32];
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
        int here = min(32, int(blockDim.x) - warp * 32);
        unsigned mask = here == 32 ? 0xffffffffu : (1u << here) - 1;
        int sum = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
        for (int delta = 16; delta; delta /= 2) {
            int other = __shfl_down_sync(mask, sum, delta);
            if (lane + delta < here) sum += other;
        }
        if (lane == 0) part[warp] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < warps; ++w) sum += part[w];
            *out = sum;
        }
    }"""
    x = torch.randint(-99, 99, (999,), dtype=torch.int32, device=device)
    for threads in (1, 5, 32, 33, 100, 256, 1000):
        out = torch.zeros(1, dtype=torch.int32, device=device)
        RawKernel(code, "total")((1,), (threads,), (x, out, 999))
        assert out.item() == x.sum().item(), threads


def test_even_and_odd_lanes_apart(device):
    body = r"""
        if (lane % 2 == 0) {
            out = lane;
            for (int d = 2; d < 32; d *= 2) out += __shfl_xor_sync(0x55555555, out, d);
        } else {
            out = __shfl_xor_sync(0xaaaaaaaa, lane * 100, 30);
            __syncwarp(0xaaaaaaaa);
        }
        __syncwarp();"""
    assert run(body, device) == [(lane ^ 30) * 100 if lane % 2 else 240 for lane in range(32)]


def test_votes(device):
    assert run("out = __ballot_sync(0xffffffff, lane % 3 == 0);", device) == [0x49249249] * 32
    assert run("out = __any_sync(0xffffffff, lane == 9) + 2 * __any_sync(0xffffffff, 0);", device) == [1] * 32
    assert run("out = __all_sync(0xffffffff, lane < 31) + 2 * __all_sync(0xffffffff, 4);", device) == [2] * 32


def test_votes_and_syncwarp_count_the_threads_there_are(device):
    body = "if (lane >= 20) { all[threadIdx.x] = 7; return; } __syncwarp(); out = __ballot_sync(0xffffffff, 1);"
    assert run(body, device) == [(1 << 20) - 1] * 20 + [7] * 12
    # A last warp of 8 threads.
    assert run("out = __all_sync(0xffffffff, 1) + __popc(__ballot_sync(0xffffffff, 1));", device, 40)[32:] == [9] * 8


def test_results_do_not_mix_when_lanes_run_ahead(device):
    body = "out = 0; for (int i = 0; i < 50; ++i) out += __shfl_sync(0xffffffff, lane * i, (lane + i) % 32);"
    expected = [sum((lane + i) % 32 * i for i in range(50)) for lane in range(32)]
    assert run(body, device) == expected


def shuffle_error(body, threads=32):
    code = f"__global__ void bad(int* out) {{\n  int lane = threadIdx.x % 32, v = lane;\n{body}\n  *out = v;\n}}"
    with pytest.raises(LaunchError) as error:
        RawKernel(code, "bad")((1,), (threads,), (torch.zeros(1, dtype=torch.int32),))
    return str(error.value)


def test_a_shuffle_that_reads_a_finished_lane_is_an_error():
    message = shuffle_error("  if (lane >= 20) return;\n  v += __shfl_down_sync(0xffffffff, v, 16);")
    assert "__shfl_down_sync on line 4 of bad.cu" in message
    assert "block (0, 0, 0), thread (4, 0, 0)" in message
    assert "lane 4 reads lane 20 of warp 0, whose thread has finished" in message


def test_a_shuffle_that_reads_a_lane_beyond_the_block_is_an_error():
    message = shuffle_error("  v += __shfl_xor_sync(0xffffffff, v, 8);", threads=40)
    assert "lane 0 reads lane 8 of warp 1, which the block does not have" in message


def test_a_lane_that_waits_elsewhere_is_an_error():
    message = shuffle_error("  if (lane < 4) __syncwarp();\n  else v = __shfl_sync(0xffffffff, v, 0);")
    assert "deadlock, in block (0, 0, 0) of 32 threads" in message
    assert "4 threads wait in __syncwarp on line 3 of bad.cu" in message
    assert "28 threads wait in __shfl_sync on line 4" in message
    assert "lanes 0-3" in message and "lanes 4-31" in message


def test_a_mask_without_the_caller_and_a_width_of_three_are_errors():
    assert "does not name the calling lane, 16" in shuffle_error("  v = __shfl_sync(0x0000ffff, v, 0);")
    assert "its width is 3" in shuffle_error("  v = __shfl_sync(0xffffffff, v, 0, 3);")


def test_after_an_error_the_next_launch_is_right():
    module = RawModule(
        code=r"""__global__ void k(int* out, int bad) {
            if (bad && threadIdx.x > 40) return;
            out[threadIdx.x] = __shfl_xor_sync(0xffffffff, int(threadIdx.x), 1);
            __syncthreads();
        }"""
    )
    k, out = module.get_function("k"), torch.zeros(64, dtype=torch.int32)
    for _ in range(50):
        with pytest.raises(LaunchError):
            k((8,), (64,), (out, 1))
        k((8,), (64,), (out.zero_(), 0))
        assert torch.equal(out, torch.arange(64, dtype=torch.int32) ^ 1)
