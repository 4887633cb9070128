"""Cooperative groups: coalesced threads, partitions, and the types of reductions and scans."""

import numpy as np
import torch
from cooperative import BEGIN, run

from kernels.cuda import RawKernel

LANES = (
    BEGIN
    + r"""
__global__ void lanes(int* out, const int* label) {
    int i = threadIdx.x, equal = -1;
    int* o = out + i * 20;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    if (i % 5 < 3) {
        cg::coalesced_group g = cg::coalesced_threads();
        o[0] = g.size(); o[1] = g.thread_rank(); o[2] = g.meta_group_rank() + 10 * g.meta_group_size();
        o[3] = g.shfl(i, 2); o[4] = g.shfl_up(i, 1); o[5] = g.shfl_down(i, 1);
        o[6] = g.ballot(i % 2); o[7] = g.any(i == 50) + 2 * g.all(i != 50);
        o[8] = g.match_any(i % 4); o[9] = g.match_all(7, equal) + equal;
        o[10] = cg::reduce(g, i, cg::plus<int>()); o[11] = cg::exclusive_scan(g, 1);
        g.sync();
        auto three = cg::tiled_partition(g, 4);
        o[12] = three.size() * 100 + three.thread_rank() * 10 + cg::reduce(three, 1, cg::plus<int>());
    }
    warp.sync();
    auto same = cg::labeled_partition(warp, label[i]);
    o[13] = same.size(); o[14] = same.thread_rank(); o[15] = same.meta_group_rank() + 100 * same.meta_group_size();
    o[16] = cg::reduce(same, i, cg::plus<int>());
    auto half = cg::binary_partition(warp, i % 32 < 11);
    o[17] = half.size() + 100 * half.thread_rank(); o[18] = half.meta_group_rank() + 10 * half.meta_group_size();
    o[19] = cg::inclusive_scan(half, i, cg::plus<int>());
}"""
)


def test_coalesced_threads_and_partitions(device):
    label = torch.randint(0, 6, (64,), generator=torch.Generator().manual_seed(3), dtype=torch.int32)
    got = run(RawKernel(LANES, "lanes"), device, (64,), 20, label.to(device))
    i, label = np.arange(64), label.numpy()
    for warp in (i[:32], i[32:]):
        members = warp[warp % 5 < 3]
        packed = lambda chosen: sum(int(c) << r for r, c in enumerate(chosen))  # noqa: E731
        for rank, lane in enumerate(members):
            row = got[lane].tolist()
            others = members[rank // 4 * 4 : rank // 4 * 4 + 4]
            assert row[:3] == [len(members), rank, 10]
            assert row[3:6] == [members[2], members[max(rank - 1, 0)], members[min(rank + 1, len(members) - 1)]]
            assert row[6] == packed(members % 2)
            assert row[7] == (50 in members) + 2 * (50 not in members)
            assert row[8] == packed(members % 4 == lane % 4)
            assert row[9] == 2 ** len(members)
            assert row[10:13] == [members.sum(), rank, len(others) * 100 + rank % 4 * 10 + len(others)]
        assert (got[warp[warp % 5 >= 3], :13] == -77).all()
        leaders = [warp[label[warp] == value][0] for value in dict.fromkeys(label[warp])]
        for lane in warp:
            same = warp[label[warp] == label[lane]]
            half = warp[(warp % 32 < 11) == (lane % 32 < 11)]
            assert got[lane, 13:].tolist() == [
                len(same), (same < lane).sum(), leaders.index(same[0]) + 100 * len(leaders), same.sum(),
                len(half) + 100 * (half < lane).sum(), (lane % 32 < 11) + 20, half[half <= lane].sum(),
            ]  # fmt: skip


def test_types_of_reductions_and_scans(device):
    code = (
        BEGIN
        + r"""
    #include <cuda_fp16.h>
    struct Best { float value; int index; };
    __global__ void types(const float* x, float* out, long long* wide) {
        auto tile = cg::tiled_partition<32>(cg::this_thread_block());
        int i = threadIdx.x;
        out[i] = cg::reduce(tile, x[i], cg::plus<float>());
        out[i + 64] = __half2float(cg::reduce(tile, __float2half(x[i]), cg::less<half>()));
        Best best = cg::reduce(tile, Best{x[i], i}, [](Best a, Best b) { return b.value > a.value ? b : a; });
        out[i + 128] = float(best.index);
        out[i + 192] = float(cg::reduce(tile, double(x[i]), cg::plus<double>()));
        wide[i] = cg::inclusive_scan(tile, (1ll << 40) + i);
        wide[i + 64] = cg::exclusive_scan(tile, (unsigned long long)i << 33);
    }"""
    )
    x = torch.randn(64, generator=torch.Generator().manual_seed(5)).half().float().to(device)
    out, wide = torch.empty(4, 64, device=device), torch.empty(2, 64, dtype=torch.int64, device=device)
    RawKernel(code, "types")((1,), (64,), (x, out, wide))
    rows = x.view(2, 32)
    torch.testing.assert_close(out[0], rows.sum(1).repeat_interleave(32), rtol=1e-5, atol=1e-5)
    assert torch.equal(out[1], rows.min(1).values.repeat_interleave(32))
    assert torch.equal(out[2], (rows.argmax(1) + torch.tensor([0, 32], device=device)).repeat_interleave(32).float())
    torch.testing.assert_close(out[3], rows.double().sum(1).repeat_interleave(32).float())
    i = torch.arange(64, device=device).view(2, 32)
    assert torch.equal(wide[0].view(2, 32), ((1 << 40) + i).cumsum(1))
    assert torch.equal(wide[1].view(2, 32), (i << 33).cumsum(1) - (i << 33))


def test_nvrtc(nvrtc):
    nvrtc(LANES, (), ["lanes"])
